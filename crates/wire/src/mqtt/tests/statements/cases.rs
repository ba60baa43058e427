//! A packet for each statement that it violates.

use super::*;

/// Chapters 1.5, 2 and 4.7: what all packets share.
pub(super) fn data_types(add: Add<'_>) {
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
        add("MQTT-3.3.2-2", Client(version), MALFORMED, on(b"a/+/b"));
        add("MQTT-3.3.2-2", Client(version), MALFORMED, on(b"#"));
        add("MQTT-3.3.2-2", Server(version), MALFORMED, on(b"a+"));
        for filter in ["a/#/b", "a#", "#a", "#/", "a/b#", "$share/g/a#", "$queue/#/a"] {
            add("MQTT-4.7.1-1", Client(version), MALFORMED, subscribe(version, filter, 0));
            add("MQTT-4.7.1-1", Client(version), MALFORMED, packet(0xa2, &[&[0, 1], none, &text(filter)]));
        }
        for filter in ["a+", "+a", "a/b+/c", "++", "$share/g/a+"] {
            add("MQTT-4.7.1-2", Client(version), MALFORMED, subscribe(version, filter, 0));
        }
        for filter in ["", "$share/g/", "$queue/"] {
            add("MQTT-4.7.3-1", Client(version), PROTOCOL, subscribe(version, filter, 0));
        }
        for filter in ["$share//a", "$share//"] {
            add("MQTT-4.8.2-1", Client(version), MALFORMED, subscribe(version, filter, 0));
        }
        for filter in ["$share/", "$share/g", "$share/+/a", "$share/a#/a"] {
            add("MQTT-4.8.2-2", Client(version), MALFORMED, subscribe(version, filter, 0));
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
pub(super) fn connects(add: Add<'_>) {
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
        add("MQTT-3.3.2-2", First, MALFORMED, flagged(0x06, &[none, &text("w/#"), &text("")]));
        add("MQTT-4.7.3-1", First, PROTOCOL, flagged(0x06, &[none, &text(""), &text("")]));
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
    add("MQTT-3.3.2-14", First, MALFORMED, will(&[&[0x08][..], &text("a/#")].concat()));
}

/// Chapter 3.2.
pub(super) fn connacks(add: Add<'_>) {
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
pub(super) fn publishes(add: Add<'_>) {
    for version in [V311, V5] {
        let none: &[u8] = if version == V5 { &[0] } else { &[] };
        add("MQTT-3.3.1-4", Client(version), MALFORMED, packet(0x36, &[&text("a"), &[0, 1], none]));
        add("MQTT-3.3.1-2", Client(version), MALFORMED, packet(0x38, &[&text("a"), none]));
        add("MQTT-3.3.1-2", Server(version), MALFORMED, packet(0x39, &[&text("a"), none]));
    }
    add("MQTT-4.7.3-1", Client(V311), PROTOCOL, packet(0x30, &[&text(""), b"x"]));
    add("MQTT5 3.3.2.1", Client(V5), PROTOCOL, packet(0x30, &[&text(""), &[0], b"x"]));
    add("MQTT5 3.3.2.3.2", Client(V5), PROTOCOL, publish_with(&[0x01, 2]));
    add("MQTT-3.3.2-8", Client(V5), ReasonCode::TOPIC_ALIAS_INVALID, publish_with(&[0x23, 0, 0]));
    add("MQTT-3.3.2-14", Client(V5), MALFORMED, publish_with(&[&[0x08][..], &text("a/+")].concat()));
    add("MQTT-3.3.2-14", Client(V5), PROTOCOL, publish_with(&[&[0x08][..], &text("")].concat()));
    add("MQTT-3.3.4-6", Client(V5), PROTOCOL, publish_with(&[0x0b, 1]));
    add("MQTT5 3.3.2.3.8", Server(V5), PROTOCOL, publish_with(&[0x0b, 0]));
}

/// Chapters 3.4 to 3.7.
pub(super) fn acks(add: Add<'_>) {
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
pub(super) fn subscribes(add: Add<'_>) {
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
pub(super) fn ends(add: Add<'_>) {
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
