use super::*;

const LIMITS: PlainLimits = PlainLimits { headers_max: 20, body_bytes_max: 5_000 };

fn line() -> Box<[u8]> {
    request_line(&Method::POST, "/v1/hot")
}

fn seen(bytes: &str) -> Seen {
    head(&line(), bytes.as_bytes(), LIMITS)
}

/// With these header lines behind the first line, `host` and `content-length`.
fn with(lines: &str) -> Seen {
    seen(&format!("POST /v1/hot HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n{lines}\r\n{{}}"))
}

#[test]
fn a_plain_request_is_taken_with_all_its_fields() {
    let bytes = "POST /v1/hot HTTP/1.1\r\nHost: a\r\nX-Ray:\tb \r\nConnection: Keep-Alive\r\nx-ray: c\r\n\
                 Content-Length: 0012\r\nauthorization: Bearer \u{e4}\r\n\r\n{\"id\":1}POST";
    let Seen::Plain(head) = seen(bytes) else { panic!("{:?}", seen(bytes)) };
    let PlainHead { head_bytes, body_bytes, length_at, headers } = head;
    assert_eq!((&bytes[head_bytes..], body_bytes, &bytes[length_at]), ("{\"id\":1}POST", 12, "0012"));
    let fields: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let expected: [(&str, &[u8]); 5] = [
        ("host", b"a"),
        ("x-ray", b"b"),
        ("x-ray", b"c"),
        ("connection", b"Keep-Alive"),
        ("authorization", "Bearer \u{e4}".as_bytes()),
    ];
    assert_eq!(fields, expected);
    assert!(matches!(with(""), Seen::Plain(_)));
}

#[test]
fn a_head_that_is_cut_is_a_part_of_one() {
    let bytes = "POST /v1/hot HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\nconnection: keep-alive\r\n\r\n";
    for cut in 0..bytes.len() {
        assert_eq!(seen(&bytes[..cut]), Seen::Part, "{cut}");
    }
    assert!(matches!(seen(bytes), Seen::Plain(_)));
}

#[test]
fn what_is_not_plain_is_somebody_elses() {
    for bytes in [
        "GET /v1/hot HTTP/1.1\r\n",
        "POST /v1/hot HTTP/1.0\r\n",
        "POST /v1/hot HTTP/1.1\n",
        "POST /v1/hot?a=b HTTP/1.1\r\n",
        "POST  /v1/hot HTTP/1.1\r\n",
        "POST http://a/v1/hot HTTP/1.1\r\n",
        "post /v1/hot HTTP/1.1\r\n",
        "\r\nPOST /v1/hot HTTP/1.1\r\n",
        "\0",
        "POST /v1/hot HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST /v1/hot HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
        "POST /v1/hot HTTP/1.1\r\n host: a\r\ncontent-length: 2\r\n\r\n{}",
        "POST /v1/hot HTTP/1.1\r\n\nhost: a\r\ncontent-length: 2\r\n\r\n{}",
    ] {
        assert_eq!(seen(bytes), Seen::Other, "{bytes:?}");
    }
    for lines in [
        "host: b\r\n",
        "content-length: 2\r\n",
        "content-length: 3\r\n",
        "transfer-encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "transfer-encoding : chunked\r\n",
        "expect: 100-continue\r\n",
        "upgrade: websocket\r\n",
        "te: trailers\r\n",
        "trailer: x\r\n",
        "connection: close\r\n",
        "connection: keep-alive, te\r\n",
        "connection: keep-alive\r\nconnection: keep-alive\r\n",
        "x: a\r\n b\r\n",
        "x: a\n",
        "x: a\nTransfer-Encoding: chunked\r\n",
        "x: a\rb\r\n",
        "x: \0\r\n",
        "x\r\n",
        ": a\r\n",
        "x y: a\r\n",
        "x : a\r\n",
    ] {
        assert_eq!(with(lines), Seen::Other, "{lines:?}");
    }
    for length in ["", "+2", "-2", "2,2", "2 2", "0x2", "5001", "99999", "123456", "18446744073709551618", "2;"] {
        let bytes = format!("POST /v1/hot HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
        assert_eq!(seen(&bytes), Seen::Other, "{length:?}");
    }
}

#[test]
fn what_is_long_is_somebody_elses() {
    let many = |fields: usize| (0..fields).map(|n| format!("x-{n}: y\r\n")).collect::<String>();
    assert!(matches!(with(&many(18)), Seen::Plain(_)), "with `host` and `content-length` as many as there may be");
    assert_eq!(with(&many(19)), Seen::Other);
    assert_eq!(with(&many(HEADERS_MAX)), Seen::Other);
    let bytes = format!("POST /v1/hot HTTP/1.1\r\nhost: a\r\nx: {}", "y".repeat(HEAD_BYTES_MAX));
    assert_eq!(seen(&bytes[..HEAD_BYTES_MAX - 1]), Seen::Part);
    assert_eq!(seen(&bytes[..HEAD_BYTES_MAX]), Seen::Other);
    assert_eq!(with(&format!("x: {}\r\n", "y".repeat(HEAD_BYTES_MAX))), Seen::Other);
}

/// What is known again is what would be read: for each head, the same lengths as if it were the first one.
#[test]
fn a_head_is_known_again_whatever_the_length_of_its_body() {
    let head_with = |length: &str, end: &str| format!("POST /v1/hot HTTP/1.1\r\nContent-Length: {length}{end}");
    let end = "\r\nhost: a\r\n\r\n";
    let first = head_with("12", end);
    let Seen::Plain(head) = seen(&first) else { panic!("it is plain") };
    let known = PlainBytes::of(&head, first.as_bytes());
    for length in ["12", "0", "7", "0012", "4999", "5000"] {
        let next = head_with(length, end) + "{}POST";
        let Seen::Plain(read) = seen(&next) else { panic!("{next}") };
        assert_eq!(known.again(next.as_bytes(), LIMITS), Some((read.head_bytes, read.body_bytes)), "{length}");
    }
    for length in ["", "5001", "99999", "000012", "1 2", "-1", "+1", "1a", "12 "] {
        assert_eq!(known.again(head_with(length, end).as_bytes(), LIMITS), None, "{length:?}");
    }
    for other in ["\r\nhost: b\r\n\r\n", "\r\nhost: a\r\n", "\r\nhost: a\r\nte: a\r\n\r\n", "\nhost: a\r\n\r\n"] {
        assert_eq!(known.again(head_with("12", other).as_bytes(), LIMITS), None, "{other:?}");
    }
    assert_eq!(known.again(&first.as_bytes()[..first.len() - 1], LIMITS), None);
}
