//! 4.13: malformed packets and protocol errors.

use crate::{holds, holds_in_both};

/// `[MQTT-4.13.1-1]`: a malformed packet or protocol error closes the connection.
/// `[MQTT-4.13.2-1]`: a CONNACK or DISCONNECT of 0x80 or more closes the connection.
/// `[MQTT-2.2.1-3]`: a packet id chosen by the client is not 0 and not in use.
/// A packet id of 0, a packet that only servers send, a reserved type, a length that does not end.
#[test]
fn what_is_not_mqtt_ends_the_connection() {
    for (bytes, reason) in [
        ("a2 06 00 00 00 00 01 74", "0x82 protocol_error"),
        ("20 03 00 00 00", "0x82 protocol_error"),
        ("d0 00", "0x82 protocol_error"),
        ("00 00", "0x81 malformed_packet"),
        ("30 ff ff ff ff", "0x81 malformed_packet"),
    ] {
        holds(&format!(
            "
            a: CONNECT
                a < CONNACK success
            a: HEX {bytes}
                a < DISCONNECT {reason}
                a < closed
            "
        ));
        holds(&format!(
            "
            a: CONNECT v3
                a < CONNACK success
            a: HEX {bytes}
                a < closed
            "
        ));
    }
}

/// `[MQTT-1.5.4-1]`: strings are well-formed UTF-8, without surrogates.
/// `[MQTT-1.5.4-2]`: strings contain no U+0000.
/// `[MQTT-1.5.4-3]`: the bytes EF BB BF are the character U+FEFF and are not stripped.
/// A surrogate, a zero, and a byte order mark, which is a character.
#[test]
fn texts_are_utf_8() {
    for topic in ["ed a0 80", "61 00 62"] {
        let (v5, v3) = (format!("30 06 00 03 {topic} 00"), format!("30 05 00 03 {topic}"));
        holds(&format!(
            "
            a: CONNECT
                a < CONNACK success
            a: HEX {v5}
                a < DISCONNECT 0x81 malformed_packet
                a < closed
            b: CONNECT v3
                b < CONNACK success
            b: HEX {v3}
                b < closed
            "
        ));
    }
    holds_in_both(
        "
        a: CONNECT
            a < CONNACK success
        a: SUBSCRIBE \u{feff}t t
            a < SUBACK 1 0 0
        a: PUBLISH \u{feff}t x
            a < PUBLISH \u{feff}t x
        ",
    );
}
