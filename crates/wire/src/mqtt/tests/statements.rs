//! Every statement that the codec checks, with packets that violate it. `cases_cover_what_the_code_refuses` fails if a
//! statement in the code has no case here, or a case has no statement in the code.

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
const NAME: ReasonCode = ReasonCode::TOPIC_NAME_INVALID;
const FILTER: ReasonCode = ReasonCode::TOPIC_FILTER_INVALID;

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

/// Chapters 1.5, 2 and 4.7: what all packets share.
fn data_types(add: Add<'_>) {
    let both = [V311, V5];
    for version in both {
        let none: &[u8] = if version == V5 { &[0] } else { &[] };
        let on = |topic: &[u8]| packet(0x30, &[&text(topic), none, b"x"]);
        // A field beyond the packet: a topic, a packet id, an option.
        add("MQTT5 1.5", Client(version), MALFORMED, packet(0x30, &[&[0, 5, b'a']]));
        add("MQTT5 1.5", Client(version), MALFORMED, packet(0x30, &[&[0]]));
        add("MQTT5 1.5", Client(version), MALFORMED, packet(0x40, &[&[1]]));
        add("MQTT5 1.5", Client(version), MALFORMED, packet(0x82, &[&[0, 1], none, &text("a")]));
        // UTF-8: surrogates, forms that are too long, beyond U+10FFFF, cut, a lone continuation.
        for bad in
            [&b"\xed\xa0\x80"[..], b"\xed\xbf\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\xaf", b"\xf4\x90\x80\x80"]
        {
            add("MQTT-1.5.4-1", Client(version), MALFORMED, on(bad));
        }
        for bad in [&b"\xf8\x88\x80\x80\x80"[..], b"\xe2\x82", b"\x80", b"\xff", b"eight by\x80tes long"] {
            add("MQTT-1.5.4-1", Client(version), MALFORMED, on(bad));
        }
        for bad in [&b"\0"[..], b"a\0b", b"eight by\0tes and more", b"\xc3\xbc\0"] {
            add("MQTT-1.5.4-2", Client(version), MALFORMED, on(bad));
        }
        // Topics.
        add("MQTT-3.3.2-2", Client(version), NAME, on(b"a/+/b"));
        add("MQTT-3.3.2-2", Client(version), NAME, on(b"#"));
        add("MQTT-3.3.2-2", Server(version), NAME, on(b"a+"));
        for filter in ["a/#/b", "a#", "#a", "#/", "a/b#", "$share/g/a#", "$queue/#/a"] {
            add("MQTT-4.7.1-1", Client(version), FILTER, subscribe(version, filter, 0));
            add("MQTT-4.7.1-1", Client(version), FILTER, packet(0xa2, &[&[0, 1], none, &text(filter)]));
        }
        for filter in ["a+", "+a", "a/b+/c", "++", "$share/g/a+"] {
            add("MQTT-4.7.1-2", Client(version), FILTER, subscribe(version, filter, 0));
        }
        for filter in ["", "$share/g/", "$queue/"] {
            add("MQTT-4.7.3-1", Client(version), FILTER, subscribe(version, filter, 0));
        }
        for filter in ["$share//a", "$share//"] {
            add("MQTT-4.8.2-1", Client(version), FILTER, subscribe(version, filter, 0));
        }
        for filter in ["$share/", "$share/g", "$share/+/a", "$share/a#/a"] {
            add("MQTT-4.8.2-2", Client(version), FILTER, subscribe(version, filter, 0));
        }
        // Packet types and who sends them.
        add("MQTT5 2.1.2", Client(version), MALFORMED, vec![0x00, 0]);
        for first in [0x20, 0x90, 0xb0, 0xd0] {
            add("MQTT5 2.1.2", Client(version), PROTOCOL, packet(first, &[&[0, 0]]));
        }
        for first in [0x10, 0x82, 0xa2, 0xc0] {
            add("MQTT5 2.1.2", Server(version), PROTOCOL, packet(first, &[&[0, 0]]));
        }
        // Flags.
        for first in [0x41, 0x42, 0x58, 0x74, 0xc1] {
            add("MQTT-2.1.3-1", Client(version), MALFORMED, packet(first, &[&[0, 1]]));
        }
        for first in [0x21, 0x98, 0xb2, 0xd1] {
            add("MQTT-2.1.3-1", Server(version), MALFORMED, packet(first, &[&[0, 1]]));
        }
        // Bytes behind the end; a length that is not the packet's.
        add("MQTT5 2.1.4", Client(version), MALFORMED, vec![0xc0, 1, 0]);
        add("MQTT5 2.1.4", Client(version), MALFORMED, vec![0xc0, 0, 0]);
        add("MQTT5 2.1.4", Client(version), MALFORMED, vec![0xc0, 1]);
        add("MQTT5 2.1.4", Client(version), MALFORMED, vec![0xc0]);
        add("MQTT5 2.1.4", Client(version), MALFORMED, vec![]);
        add("MQTT5 1.5.5", Client(version), MALFORMED, vec![0xc0, 0x80, 0x80, 0x80, 0x80, 0]);
        // Packet ids.
        add("MQTT-2.2.1-3", Client(version), PROTOCOL, packet(0x32, &[&text("a"), &[0, 0], none]));
        add("MQTT-2.2.1-3", Client(version), PROTOCOL, packet(0x82, &[&[0, 0], none, &text("a"), &[0]]));
        add("MQTT-2.2.1-3", Client(version), PROTOCOL, packet(0xa2, &[&[0, 0], none, &text("a")]));
        for first in [0x40, 0x50, 0x62, 0x70] {
            add("MQTT-2.2.1-3", Client(version), PROTOCOL, packet(first, &[&[0, 0]]));
        }
    }
    add("MQTT5 2.1.4", Client(V311), MALFORMED, packet(0x40, &[&[0, 1, 0]]));
    add("MQTT5 2.1.4", Client(V5), MALFORMED, packet(0x40, &[&[0, 1, 0, 0, 9]]));
    // Lengths in more bytes than they need: the packet's, the properties', a subscription identifier's.
    add("MQTT-1.5.5-1", Client(V5), MALFORMED, vec![0xc0, 0x80, 0x00]);
    add("MQTT-1.5.5-1", Client(V5), MALFORMED, packet(0x30, &[&text("a"), &[0x80, 0x00]]));
    add("MQTT-1.5.5-1", Client(V5), MALFORMED, packet(0x82, &[&[0, 1, 3, 0x0b, 0x81, 0x00], &text("a"), &[0]]));
    add("MQTT-1.5.5-1", First, MALFORMED, [&[0x10, 0x8e, 0x00][..], &connect_with(&[])[2..]].concat());
    // Properties that do not exist, or belong to others.
    for block in [&[0x00u8][..], &[0x04, 0], &[0x2b, 0], &[0x7f, 0], &[0x81, 0x01, 0]] {
        add("MQTT5 2.2.2.2", Client(V5), MALFORMED, publish_with(block));
    }
    add("MQTT5 2.2.2.2", Client(V5), MALFORMED, publish_with(&[0x21, 0, 1]));
    add("MQTT5 2.2.2.2", First, MALFORMED, connect_with(&[0x01, 0]));
    add("MQTT5 2.2.2.2", Client(V5), MALFORMED, packet(0x40, &[&[0, 1, 0], &properties(&[0x11, 0, 0, 0, 0])]));
    add("MQTT5 2.2.2.2", Client(V5), MALFORMED, packet(0xa2, &[&[0, 1], &properties(&[0x0b, 1]), &text("a")]));
    // Properties twice.
    add("MQTT5 2.2.2.2", Client(V5), PROTOCOL, publish_with(&[0x01, 0, 0x01, 0]));
    add("MQTT5 2.2.2.2", First, PROTOCOL, connect_with(&[0x11, 0, 0, 0, 0, 0x11, 0, 0, 0, 0]));
    let reasons = [&[0x1f][..], &text("x"), &[0x1f], &text("y")].concat();
    add("MQTT5 2.2.2.2", Client(V5), PROTOCOL, packet(0x40, &[&[0, 1, 0], &properties(&reasons)]));
    add(
        "MQTT5 2.2.2.2",
        Client(V5),
        PROTOCOL,
        packet(0x82, &[&[0, 1], &properties(&[0x0b, 1, 0x0b, 2]), &text("a"), &[0]]),
    );
    // A block that ends inside a property, or beyond the packet.
    add("MQTT5 1.5", Client(V5), MALFORMED, publish_with(&[0x02, 0, 0]));
    add("MQTT5 1.5", Client(V5), MALFORMED, packet(0x30, &[&text("a"), &[9, 0x01, 0]]));
    // [MQTT-2.2.2-1]: a packet without properties has a property length of 0.
    add("MQTT5 1.5", Client(V5), MALFORMED, packet(0x30, &[&text("a")]));
    // [MQTT-1.5.7-1]: both halves of a string pair are valid strings.
    add("MQTT-1.5.4-1", Client(V5), MALFORMED, publish_with(&[0x26, 0, 1, 0xff, 0, 1, b'v']));
    add("MQTT-1.5.4-2", Client(V5), MALFORMED, publish_with(&[0x26, 0, 1, b'n', 0, 1, 0]));
    // [MQTT-3.3.2-13]: the response topic is a UTF-8 string.
    // [MQTT-3.3.2-19]: the content type is a UTF-8 string.
    // [MQTT-3.8.3-1]: topic filters are UTF-8 strings.
    // [MQTT-3.10.3-1]: topic filters are UTF-8 strings.
    add("MQTT-1.5.4-1", Client(V5), MALFORMED, publish_with(&[0x08, 0, 1, 0xff]));
    add("MQTT-1.5.4-1", Client(V5), MALFORMED, publish_with(&[0x03, 0, 1, 0xff]));
    add("MQTT-1.5.4-1", Client(V311), MALFORMED, packet(0x82, &[&[0, 1], &text([0xff]), &[0]]));
    add("MQTT-1.5.4-1", Client(V311), MALFORMED, packet(0xa2, &[&[0, 1], &text([0xff])]));
}

/// Chapter 3.1.
fn connects(add: Add<'_>) {
    add("MQTT-3.1.0-1", First, PROTOCOL, vec![0xc0, 0]);
    add("MQTT-3.1.0-1", First, PROTOCOL, packet(0x30, &[&text("a"), b"x"]));
    add("MQTT-3.1.0-2", Client(V5), PROTOCOL, connect_with(&[]));
    add("MQTT-3.1.0-2", Client(V311), PROTOCOL, connect(V311, 2, &[&text("c")]));
    for name in ["mqtt", "MQTt", "MQTTT", "", "HTTP"] {
        add("MQTT-3.1.2-1", First, MALFORMED, packet(0x10, &[&text(name), &[4, 2, 0, 60], &text("c")]));
    }
    for version in [V311, V5] {
        let none: &[u8] = if version == V5 { &[0] } else { &[] };
        let flagged = |flags: u8, rest: &[&[u8]]| connect(version, flags, &[none, &text("c"), &rest.concat()]);
        let will = [none, &text("w"), &text("gone")].concat();
        add("MQTT-3.1.2-3", First, MALFORMED, flagged(0x03, &[]));
        add("MQTT-3.1.2-11", First, MALFORMED, flagged(0x0a, &[]));
        add("MQTT-3.1.2-11", First, MALFORMED, flagged(0x12, &[]));
        add("MQTT-3.1.2-11", First, MALFORMED, flagged(0x1a, &[]));
        add("MQTT-3.1.2-12", First, MALFORMED, flagged(0x1e, &[&will]));
        add("MQTT-3.1.2-13", First, MALFORMED, flagged(0x22, &[]));
        // [MQTT-3.1.2-9]: with the will flag, the payload has will properties, will topic and will payload.
        // [MQTT-3.1.2-17]: with the user name flag there is a user name.
        // [MQTT-3.1.2-19]: with the password flag there is a password.
        // A flag without its field.
        add("MQTT5 1.5", First, MALFORMED, flagged(0x06, &[]));
        add("MQTT5 1.5", First, MALFORMED, flagged(0x06, &[none, &text("w")]));
        add("MQTT5 1.5", First, MALFORMED, flagged(0x82, &[]));
        add("MQTT5 1.5", First, MALFORMED, flagged(0xc2, &[&text("user")]));
        // [MQTT-3.1.2-16]: without the user name flag there is no user name.
        // [MQTT-3.1.2-18]: without the password flag there is no password.
        // A field without its flag.
        add("MQTT5 2.1.4", First, MALFORMED, flagged(0x02, &[&text("user")]));
        add("MQTT5 2.1.4", First, MALFORMED, flagged(0x82, &[&text("user"), &text("password")]));
        // [MQTT-3.1.3-4]: the client id is a UTF-8 string.
        // [MQTT-3.1.3-11]: the will topic is a UTF-8 string.
        // [MQTT-3.1.3-12]: the user name is a UTF-8 string.
        add("MQTT-1.5.4-1", First, MALFORMED, connect(version, 2, &[none, &text([0xff])]));
        add("MQTT-1.5.4-2", First, MALFORMED, connect(version, 2, &[none, &text("\0")]));
        add("MQTT-1.5.4-1", First, MALFORMED, flagged(0x06, &[none, &text([0xff]), &text("")]));
        add("MQTT-1.5.4-1", First, MALFORMED, flagged(0x82, &[&text([0xed, 0xa0, 0x80])]));
        // A will is a message on a topic.
        add("MQTT-3.3.2-2", First, NAME, flagged(0x06, &[none, &text("w/#"), &text("")]));
        add("MQTT-4.7.3-1", First, NAME, flagged(0x06, &[none, &text(""), &text("")]));
        // [MQTT-3.1.3-3]: the client id is present, as the first payload field.
        add("MQTT5 1.5", First, MALFORMED, connect(version, 2, &[none]));
    }
    add("MQTT-3.1.1 3.1.2-22", First, MALFORMED, connect(V311, 0x42, &[&text("c"), &text("password")]));
    add("MQTT-3.1.1 3.1.3-8", First, ReasonCode::CLIENT_IDENTIFIER_NOT_VALID, connect(V311, 0, &[&text("")]));
    add("MQTT5 3.1.2.11.3", First, PROTOCOL, connect_with(&[0x21, 0, 0]));
    add("MQTT5 3.1.2.11.4", First, PROTOCOL, connect_with(&[0x27, 0, 0, 0, 0]));
    add("MQTT5 3.1.2.11.6", First, PROTOCOL, connect_with(&[0x19, 2]));
    add("MQTT5 3.1.2.11.7", First, PROTOCOL, connect_with(&[0x17, 2]));
    add("MQTT5 3.1.2.11.10", First, PROTOCOL, connect_with(&[0x16, 0, 1, 9]));
    // Will properties: of a PUBLISH they cannot have the alias; CONNECT's own cannot stand there.
    let will = |block: &[u8]| connect(V5, 6, &[&[0], &text("c"), &properties(block), &text("w"), &text("")]);
    add("MQTT5 2.2.2.2", First, MALFORMED, will(&[0x23, 0, 1]));
    add("MQTT5 2.2.2.2", First, MALFORMED, will(&[0x11, 0, 0, 0, 0]));
    add("MQTT5 2.2.2.2", First, PROTOCOL, will(&[0x18, 0, 0, 0, 0, 0x18, 0, 0, 0, 0]));
    add("MQTT5 3.3.2.3.2", First, PROTOCOL, will(&[0x01, 2]));
    add("MQTT-3.3.2-14", First, NAME, will(&[&[0x08][..], &text("a/#")].concat()));
}

/// Chapter 3.2.
fn connacks(add: Add<'_>) {
    for version in [V311, V5] {
        let none: &[u8] = if version == V5 { &[0] } else { &[] };
        add("MQTT-3.2.2-1", Server(version), MALFORMED, packet(0x20, &[&[2, 0], none]));
        add(
            "MQTT-3.2.2-6",
            Server(version),
            PROTOCOL,
            match version {
                V311 => packet(0x20, &[&[1, 5]]),
                V5 => packet(0x20, &[&[1, 0x87, 0]]),
            },
        );
    }
    add("MQTT-3.1.1 3.2.2-6", Server(V311), MALFORMED, packet(0x20, &[&[0, 6]]));
    for code in [0x01, 0x18, 0x8b, 0x8e, 0x92, 0xa0] {
        add("MQTT-3.2.2-8", Server(V5), PROTOCOL, packet(0x20, &[&[0, code, 0]]));
    }
    add("MQTT5 3.2.2.3.3", Server(V5), PROTOCOL, connack_with(&[0x21, 0, 0]));
    add("MQTT5 3.2.2.3.4", Server(V5), PROTOCOL, connack_with(&[0x24, 2]));
    add("MQTT5 3.2.2.3.5", Server(V5), PROTOCOL, connack_with(&[0x25, 2]));
    add("MQTT5 3.2.2.3.6", Server(V5), PROTOCOL, connack_with(&[0x27, 0, 0, 0, 0]));
    add("MQTT5 3.2.2.3.11", Server(V5), PROTOCOL, connack_with(&[0x28, 2]));
    add("MQTT5 3.2.2.3.12", Server(V5), PROTOCOL, connack_with(&[0x29, 2]));
    add("MQTT5 3.2.2.3.13", Server(V5), PROTOCOL, connack_with(&[0x2a, 2]));
}

/// Chapter 3.3.
fn publishes(add: Add<'_>) {
    for version in [V311, V5] {
        let none: &[u8] = if version == V5 { &[0] } else { &[] };
        add("MQTT-3.3.1-4", Client(version), MALFORMED, packet(0x36, &[&text("a"), &[0, 1], none]));
        add("MQTT-3.3.1-2", Client(version), MALFORMED, packet(0x38, &[&text("a"), none]));
        add("MQTT-3.3.1-2", Server(version), MALFORMED, packet(0x39, &[&text("a"), none]));
    }
    add("MQTT-4.7.3-1", Client(V311), NAME, packet(0x30, &[&text(""), b"x"]));
    add("MQTT5 3.3.2.1", Client(V5), PROTOCOL, packet(0x30, &[&text(""), &[0], b"x"]));
    add("MQTT5 3.3.2.3.2", Client(V5), PROTOCOL, publish_with(&[0x01, 2]));
    add("MQTT-3.3.2-8", Client(V5), ReasonCode::TOPIC_ALIAS_INVALID, publish_with(&[0x23, 0, 0]));
    add("MQTT-3.3.2-14", Client(V5), NAME, publish_with(&[&[0x08][..], &text("a/+")].concat()));
    add("MQTT-3.3.4-6", Client(V5), PROTOCOL, publish_with(&[0x0b, 1]));
    add("MQTT5 3.3.2.3.8", Server(V5), PROTOCOL, publish_with(&[0x0b, 0]));
}

/// Chapters 3.4 to 3.7.
fn acks(add: Add<'_>) {
    for (statement, first, codes) in [
        ("MQTT-3.4.2-1", 0x40, &[0x01, 0x92, 0x9b][..]),
        ("MQTT-3.5.2-1", 0x50, &[0x11, 0x81, 0xff]),
        ("MQTT-3.6.2-1", 0x62, &[0x10, 0x80]),
        ("MQTT-3.7.2-1", 0x70, &[0x01, 0x91]),
    ] {
        for &code in codes {
            add(statement, Client(V5), PROTOCOL, packet(first, &[&[0, 1, code]]));
            add(statement, Server(V5), PROTOCOL, packet(first, &[&[0, 1, code, 0]]));
        }
    }
    for first in [0x60, 0x61, 0x63, 0x6a] {
        add("MQTT-3.6.1-1", Client(V5), MALFORMED, packet(first, &[&[0, 1]]));
        add("MQTT-3.6.1-1", Client(V311), MALFORMED, packet(first, &[&[0, 1]]));
    }
}

/// Chapters 3.8 to 3.11.
fn subscribes(add: Add<'_>) {
    for version in [V311, V5] {
        let none: &[u8] = if version == V5 { &[0] } else { &[] };
        for first in [0x80, 0x81, 0x8a] {
            add("MQTT-3.8.1-1", Client(version), MALFORMED, packet(first, &[&[0, 1], none, &text("a"), &[0]]));
        }
        for first in [0xa0, 0xa3] {
            add("MQTT-3.10.1-1", Client(version), MALFORMED, packet(first, &[&[0, 1], none, &text("a")]));
        }
        add("MQTT-3.8.3-2", Client(version), PROTOCOL, packet(0x82, &[&[0, 1], none]));
        add("MQTT-3.10.3-2", Client(version), PROTOCOL, packet(0xa2, &[&[0, 1], none]));
        add("MQTT-3.8.4-6", Server(version), PROTOCOL, packet(0x90, &[&[0, 1], none]));
        add("MQTT-3.9.3-2", Server(version), PROTOCOL, packet(0x90, &[&[0, 1], none, &[0, 3]]));
    }
    for options in [3, 4, 8, 0x10, 0x40, 0x80] {
        add("MQTT-3.1.1 3.8.3-4", Client(V311), MALFORMED, subscribe(V311, "a", options));
    }
    add("MQTT-3.8.3-4", Client(V5), PROTOCOL, subscribe(V5, "$share/g/a", 4));
    add("MQTT-3.8.3-4", Client(V5), PROTOCOL, subscribe(V5, "$queue/a", 5));
    add("MQTT-3.8.3-5", Client(V5), MALFORMED, subscribe(V5, "a", 0x40));
    add("MQTT-3.8.3-5", Client(V5), MALFORMED, subscribe(V5, "a", 0x81));
    add("MQTT5 3.8.3.1", Client(V5), PROTOCOL, subscribe(V5, "a", 3));
    add("MQTT5 3.8.3.1", Client(V5), PROTOCOL, subscribe(V5, "a", 0x30));
    add("MQTT5 3.8.2.1.2", Client(V5), PROTOCOL, packet(0x82, &[&[0, 1, 2, 0x0b, 0], &text("a"), &[0]]));
    // The second filter is looked at too.
    let second = packet(0x82, &[&[0, 1, 0], &text("a"), &[0], &text("b"), &[3]]);
    add("MQTT5 3.8.3.1", Client(V5), PROTOCOL, second);
    add("MQTT-3.9.3-2", Server(V5), PROTOCOL, packet(0x90, &[&[0, 1, 0, 0x11]]));
    add("MQTT-3.11.3-1", Server(V5), PROTOCOL, packet(0xb0, &[&[0, 1, 0]]));
    add("MQTT-3.11.3-2", Server(V5), PROTOCOL, packet(0xb0, &[&[0, 1, 0, 0x01]]));
}

/// Chapters 3.14 and 3.15.
fn ends(add: Add<'_>) {
    for version in [V311, V5] {
        add("MQTT-3.14.1-1", Client(version), MALFORMED, vec![0xe1, 0]);
        add("MQTT-3.15.1-1", Client(version), MALFORMED, vec![0xf2, 0]);
    }
    add("MQTT5 2.1.4", Client(V311), MALFORMED, vec![0xe0, 1, 0]);
    add("MQTT-3.1.1 3.14", Server(V311), PROTOCOL, vec![0xe0, 0]);
    for code in [0x01, 0x18, 0x84, 0x87, 0x8d, 0x8e, 0x9c, 0xa1] {
        add("MQTT-3.14.2-1", Client(V5), PROTOCOL, vec![0xe0, 1, code]);
    }
    for code in [0x04, 0x84, 0x86, 0x91, 0xa3] {
        add("MQTT-3.14.2-1", Server(V5), PROTOCOL, vec![0xe0, 1, code]);
    }
    // [MQTT-3.14.2-2]: a DISCONNECT of the server has no session expiry interval.
    // A server sends no session expiry; a client no server reference.
    add("MQTT5 2.2.2.2", Server(V5), MALFORMED, packet(0xe0, &[&[0], &properties(&[0x11, 0, 0, 0, 0])]));
    add("MQTT5 2.2.2.2", Client(V5), MALFORMED, packet(0xe0, &[&[0], &properties(&[0x1c, 0, 1, b'x'])]));
    add("MQTT-3.1.1 2.2.1", Client(V311), MALFORMED, vec![0xf0, 0]);
    add("MQTT-3.1.1 2.2.1", Server(V311), MALFORMED, vec![0xf0, 0]);
    add("MQTT-3.15.2-1", Client(V5), PROTOCOL, vec![0xf0, 0]);
    let method = properties(&[0x15, 0, 1, b'm']);
    add("MQTT-3.15.2-1", Client(V5), PROTOCOL, packet(0xf0, &[&[0], &method]));
    add("MQTT-3.15.2-1", Server(V5), PROTOCOL, packet(0xf0, &[&[0x19], &method]));
    add("MQTT-3.15.2-1", Server(V5), PROTOCOL, packet(0xf0, &[&[0x80], &method]));
    add("MQTT5 3.15.2.2.2", Client(V5), PROTOCOL, packet(0xf0, &[&[0x18, 0]]));
}

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
