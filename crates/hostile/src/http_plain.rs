//! Bytes as what a connection of the HTTP door begins with. What the door takes as a plain request must be one by the
//! letter of RFC 9112, read here a second time, line by line and without a library; and no cut of it may be taken. A
//! head that is known again is what it would be if it were read.

use tidegate_doors::http::plain::{
    BODY_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX, PlainBytes, PlainHead, PlainLimits, Seen, head,
};

const LINE: &str = "POST /v1/transfers HTTP/1.1\r\n";
const LIMITS: PlainLimits = PlainLimits { headers_max: 64, body_bytes_max: 2 << 20 };

/// Looks at the bytes as they are, and behind the first line of a hot request.
pub fn check(bytes: &[u8]) {
    check_whole(bytes);
    check_whole(&[LINE.as_bytes(), bytes].concat());
}

fn check_whole(bytes: &[u8]) {
    let Seen::Plain(plain) = head(LINE.as_bytes(), bytes, LIMITS) else { return };
    let PlainHead { head_bytes, body_bytes, length_at, headers } = &plain;
    let text = &bytes[..*head_bytes];
    assert!(*head_bytes <= HEAD_BYTES_MAX && *body_bytes <= BODY_BYTES_MAX, "{plain:?}");
    let end = text.windows(4).position(|end| end == b"\r\n\r\n").expect("an empty line ends a head") + 4;
    assert_eq!(end, *head_bytes, "the first empty line does");
    let fields = text[..end - 4].strip_prefix(LINE.trim_end().as_bytes()).expect("the first line is the hot one");
    let (mut hosts, mut lengths, mut seen) = (0, Vec::new(), Vec::new());
    for line in split_lines(fields) {
        assert!(!line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "{line:?}");
        let colon = line.iter().position(|byte| *byte == b':').expect("a field has a colon");
        let (name, value) = (line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii());
        assert!(!name.is_empty() && name.iter().all(|byte| is_token(*byte)), "{name:?}");
        match &*name {
            b"host" => hosts += 1,
            b"content-length" => lengths.push(std::str::from_utf8(value).expect("digits").to_owned()),
            b"connection" => assert!(value.eq_ignore_ascii_case(b"keep-alive"), "{value:?}"),
            b"transfer-encoding" | b"expect" | b"upgrade" | b"te" | b"trailer" => panic!("{name:?} is not plain"),
            _ => {}
        }
        seen.push((name, value.to_owned()));
    }
    assert!(hosts == 1 && lengths.len() == 1 && seen.len() <= HEADERS_MAX, "{plain:?}");
    assert!(lengths[0].bytes().all(|digit| digit.is_ascii_digit()), "{lengths:?}");
    assert_eq!(lengths[0].parse(), Ok(*body_bytes));
    assert_eq!(lengths[0].as_bytes(), &bytes[length_at.clone()]);
    seen.retain(|(name, _)| name != b"content-length");
    // The map keeps the values of one name together, in order.
    for name in headers.keys() {
        let kept: Vec<&[u8]> = headers.get_all(name).iter().map(|value| value.as_bytes()).collect();
        let sent = seen.iter().filter(|(other, _)| other == name.as_str().as_bytes());
        assert_eq!(kept, sent.map(|(_, value)| &**value).collect::<Vec<_>>(), "{name}");
    }
    assert_eq!(headers.len(), seen.len());
    let known = PlainBytes::of(&plain, bytes);
    for length in [&lengths[0], "0", "00000", "8192", "8193", "99999", "000000", "", "1a"] {
        let next = [&bytes[..length_at.start], length.as_bytes(), &bytes[length_at.end..]].concat();
        let read = match head(LINE.as_bytes(), &next, LIMITS) {
            Seen::Plain(PlainHead { head_bytes, body_bytes, .. }) => Some((head_bytes, body_bytes)),
            Seen::Part | Seen::Other => None,
        };
        assert_eq!(known.again(&next, LIMITS), read, "{length:?}");
    }
    for cut in 0..*head_bytes {
        assert_eq!(head(LINE.as_bytes(), &bytes[..cut], LIMITS), Seen::Part, "cut at {cut}");
    }
}

/// The lines behind the first one, each without its end.
fn split_lines(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(rest) = bytes.strip_prefix(b"\r\n") {
        let end = rest.windows(2).position(|end| end == b"\r\n").unwrap_or(rest.len());
        lines.push(&rest[..end]);
        bytes = &rest[end..];
    }
    assert!(bytes.is_empty(), "{bytes:?}");
    lines
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
