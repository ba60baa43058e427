//! Every statement that the codec checks, with packets that violate it. `cases_cover_what_the_code_refuses` fails if a
//! statement in the code has no case here, or a case has no statement in the code.

mod cases;

use crate::mqtt::Version::{V5, V311};
use crate::mqtt::*;
use std::collections::BTreeSet;

/// Whose packet it is.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The first packet of a client.
    Connect,
    /// A client's other packets.
    Client(Version),
    /// A server's packets.
    Server(Version),
}

use Way::{Client, Connect as First, Server};
use cases::{acks, connacks, connects, data_types, ends, publishes, subscribes};

struct Case {
    statement: &'static str,
    from: Way,
    bytes: Vec<u8>,
    reason: ReasonCode,
}

/// A packet of a first byte and a body in parts.
fn packet(first: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut out = vec![first];
    fixed_header::push_varint(&mut out, body.len());
    out.extend_from_slice(&body);
    out
}

/// A text or binary data.
fn text(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

/// Properties with their length.
fn properties(block: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    fixed_header::push_varint(&mut out, block.len());
    out.extend_from_slice(block);
    out
}

/// A CONNECT of MQTT 5 or 3.1.1 with these flags and this behind the keep-alive.
fn connect(version: Version, flags: u8, rest: &[&[u8]]) -> Vec<u8> {
    let level = if version == V5 { 5 } else { 4 };
    packet(0x10, &[&text("MQTT"), &[level, flags, 0, 60], &rest.concat()])
}

/// One of MQTT 5 with these properties.
fn connect_with(block: &[u8]) -> Vec<u8> {
    connect(V5, 2, &[&properties(block), &text("c")])
}

/// A PUBLISH of MQTT 5 at QoS 0 on topic `a` with these properties.
fn publish_with(block: &[u8]) -> Vec<u8> {
    packet(0x30, &[&text("a"), &properties(block), b"payload"])
}

/// A SUBSCRIBE with one filter.
fn subscribe(version: Version, filter: &str, options: u8) -> Vec<u8> {
    let none: &[u8] = if version == V5 { &[0] } else { &[] };
    packet(0x82, &[&[0, 1], none, &text(filter), &[options]])
}

/// A CONNACK of MQTT 5 with these properties.
fn connack_with(block: &[u8]) -> Vec<u8> {
    packet(0x20, &[&[0, 0], &properties(block)])
}

const MALFORMED: ReasonCode = ReasonCode::MALFORMED_PACKET;
const PROTOCOL: ReasonCode = ReasonCode::PROTOCOL_ERROR;

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |statement, from, reason, bytes| cases.push(Case { statement, from, bytes, reason });
    data_types(&mut add);
    connects(&mut add);
    connacks(&mut add);
    publishes(&mut add);
    acks(&mut add);
    subscribes(&mut add);
    ends(&mut add);
    cases
}

type Add<'a> = &'a mut dyn FnMut(&'static str, Way, ReasonCode, Vec<u8>);

fn refusal(from: Way, bytes: &[u8]) -> Result<(), Malformed> {
    match from {
        First => decode_connect(bytes).map(|_| ()).map_err(|error| match error {
            ConnectError::Malformed { malformed, .. } => malformed,
            ConnectError::UnsupportedVersion { level } => panic!("version {level}"),
        }),
        Client(version) => decode_client(bytes, version).map(|_| ()),
        Server(version) => decode_server(bytes, version).map(|_| ()),
    }
}

#[test]
fn what_breaks_a_statement_is_refused_with_it() {
    for Case { statement, from, bytes, reason } in cases() {
        let malformed = match refusal(from, &bytes) {
            Err(malformed) => malformed,
            Ok(()) => panic!("{statement}: {from:?} {bytes:02x?} is taken"),
        };
        assert_eq!((malformed.statement, malformed.reason), (statement, reason), "{from:?} {bytes:02x?}: {malformed}");
    }
}

/// The codec's own words: each text in it that looks like a statement.
fn statements_of_the_code() -> BTreeSet<&'static str> {
    const FILES: [&str; 12] = [
        include_str!("../ack.rs"),
        include_str!("../auth.rs"),
        include_str!("../connack.rs"),
        include_str!("../connect.rs"),
        include_str!("../disconnect.rs"),
        include_str!("../fixed_header.rs"),
        include_str!("../packet.rs"),
        include_str!("../property.rs"),
        include_str!("../publish.rs"),
        include_str!("../reader.rs"),
        include_str!("../subscribe.rs"),
        include_str!("../topic.rs"),
    ];
    let texts = FILES.iter().flat_map(|file| file.lines()).filter(|line| !line.trim_start().starts_with("//"));
    texts.flat_map(|line| line.split('"').skip(1).step_by(2)).filter(|text| text.starts_with("MQTT")).collect()
}

/// Decided by functions that take no packet: `split` with a bound, and topics that come from elsewhere. Tested beside
/// them.
const ELSEWHERE: [&str; 3] = ["MQTT-3.2.2-15", "MQTT-4.7.3-2", "MQTT-4.7.3-3"];

#[test]
fn cases_cover_what_the_code_refuses() {
    let code: BTreeSet<_> = statements_of_the_code().into_iter().filter(|&text| text != "MQTT").collect();
    let tested: BTreeSet<_> = cases().iter().map(|case| case.statement).chain(ELSEWHERE).collect();
    assert_eq!(code.difference(&tested).collect::<Vec<_>>(), Vec::<&&str>::new(), "in the code, without a case");
    assert_eq!(tested.difference(&code).collect::<Vec<_>>(), Vec::<&&str>::new(), "a case, but not in the code");
}

#[test]
fn the_table_of_the_documentation_names_each_statement() {
    let page = include_str!("../../../../../docs/formats/mqtt.md");
    let missing: Vec<_> = statements_of_the_code()
        .into_iter()
        .filter(|&statement| statement != "MQTT" && !page.contains(&format!("`{statement}`")))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// `[MQTT-3.1.2-2]`: another protocol version: the server may send CONNACK 0x84, then closes.
/// A client of another version is told so, in a CONNACK that it can read.
#[test]
fn other_versions_are_told_apart() {
    for (name, level, answer) in
        [("MQIsdp", 3, V311), ("MQTT", 3, V311), ("MQTT", 0, V311), ("MQTT", 6, V5), ("MQTT", 0x84, V5)]
    {
        let bytes = packet(0x10, &[&text(name), &[level, 2, 0, 60], &text("c")]);
        let error = decode_connect(&bytes).unwrap_err();
        assert_eq!(error, ConnectError::UnsupportedVersion { level });
        assert_eq!(error.answer(), Some((answer, ReasonCode::UNSUPPORTED_PROTOCOL_VERSION)));
    }
}

#[test]
fn a_refused_connect_is_answered_where_its_version_has_a_word() {
    let answer = |bytes: &[u8]| decode_connect(bytes).unwrap_err().answer();
    assert_eq!(answer(&connect_with(&[0x21, 0, 0])), Some((V5, PROTOCOL)));
    let empty = connect(V311, 0, &[&text("")]);
    assert_eq!(answer(&empty), Some((V311, ReasonCode::CLIENT_IDENTIFIER_NOT_VALID)));
    assert_eq!(ReasonCode::CLIENT_IDENTIFIER_NOT_VALID.connect_return_code(), 2);
    assert_eq!(answer(&connect(V311, 3, &[&text("c")])), None, "MQTT 3.1.1 just closes");
    assert_eq!(answer(b"\x10\x00"), None);
    assert_eq!(answer(b"GET / HTTP/1.1"), None);
}

/// What looks like a breach and is none.
#[test]
fn what_may_be_is_taken() {
    let lengthened = [&[0xc0, 0x80, 0x00][..]].concat();
    let taken: &[(Way, Vec<u8>)] = &[
        // MQTT 3.1.1 says nothing against padding.
        (Client(V311), lengthened),
        // [MQTT-1.5.4-3]: the bytes EF BB BF are the character U+FEFF and are not stripped.
        // A byte order mark is a character; control characters and noncharacters may be refused, but are not.
        (Client(V5), packet(0x30, &[&text("\u{feff}\u{1}\u{ffff}"), &[0]])),
        // Empty levels, spaces, $.
        (Client(V5), packet(0x30, &[&text("/ // "), &[0]])),
        (Client(V311), packet(0x30, &[&text("$SYS/x")])),
        // An alias alone.
        (Client(V5), packet(0x30, &[&text(""), &properties(&[0x23, 0, 1])])),
        // MQTT 5: a password without a user name; an empty client id that keeps its session.
        (First, connect(V5, 0x42, &[&[0], &text("c"), &text("password")])),
        (First, connect(V5, 0, &[&[0], &text("")])),
        (First, connect(V311, 2, &[&text("")])),
        // User properties as often as one likes.
        (Client(V5), publish_with(&[0x26, 0, 0, 0, 0, 0x26, 0, 0, 0, 0])),
        (Server(V5), publish_with(&[0x0b, 1, 0x0b, 2])),
        // Short forms.
        (Client(V5), packet(0x40, &[&[0, 1]])),
        (Client(V5), packet(0x40, &[&[0, 1, 0x10]])),
        (Client(V5), vec![0xe0, 0]),
        (Client(V5), vec![0xe0, 1, 4]),
        (Server(V5), vec![0xf0, 0]),
        (Client(V5), subscribe(V5, "$share/g/a/#", 0x2a)),
        (Client(V311), subscribe(V311, "$SYS/+/+/#", 2)),
        // Not a shared subscription.
        (Client(V5), subscribe(V5, "$share", 4)),
        (Client(V5), subscribe(V5, "$shared/g/a", 4)),
    ];
    for (from, bytes) in taken {
        assert_eq!(refusal(*from, bytes), Ok(()), "{from:?} {bytes:02x?}");
    }
}

#[test]
fn split_decides_on_the_fixed_header_alone() {
    let check = |bytes: &[u8], expected| assert_eq!(split(bytes, 300), expected, "{bytes:02x?}");
    check(&[], Ok(Split::NeedMore));
    check(&[0x30], Ok(Split::NeedMore));
    check(&[0xc0, 0], Ok(Split::Packet(2)));
    check(&[0x30, 2, 0], Ok(Split::NeedMore));
    check(&[0x30, 2, 0, 0, 9], Ok(Split::Packet(4)));
    check(&[0x30, 0x80], Ok(Split::NeedMore));
    check(&[0x30, 0xa9, 0x02], Ok(Split::NeedMore));
    let refused = |bytes: &[u8]| split(bytes, 300).expect_err("refused").statement;
    assert_eq!(refused(&[0x30, 0xaa, 0x02]), "MQTT-3.2.2-15", "301 bytes, of which three are here");
    assert_eq!(refused(&[0x36]), "MQTT-3.3.1-4", "the first byte suffices");
    assert_eq!(refused(&[0x30, 0xff, 0xff, 0xff, 0xff]), "MQTT5 1.5.5", "the fifth is not waited for");
    assert_eq!(split(&[0x30, 0xff, 0xff, 0xff, 0x7f], u32::MAX), Ok(Split::NeedMore));
}
