//! 3.4 to 3.7: PUBACK, PUBREC, PUBREL, PUBCOMP.

use crate::{holds, holds_in_both};

/// `[MQTT-2.2.1-5]`: PUBACK, PUBREC, PUBREL and PUBCOMP carry the packet id of their PUBLISH.
/// `[MQTT-4.3.3-11]`: QoS 2: PUBREL is answered with PUBCOMP.
#[test]
fn answers_name_what_they_answer() {
    holds_in_both(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x qos=1 id=65535
            a < PUBACK 65535 0x10 no_matching_subscribers
        a: PUBLISH t x qos=2 id=300
            a < PUBREC 300 0x10 no_matching_subscribers
        a: PUBREL 300
            a < PUBCOMP 300
        ",
    );
}

/// `[MQTT-4.3.3-11]`: QoS 2: PUBREL is answered with PUBCOMP.
/// MQTT 5 has a reason for it.
#[test]
fn a_pubrel_of_nothing_is_answered() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBREL 7
            a < PUBCOMP 7 0x92 packet_identifier_not_found
        b: CONNECT v3
            b < CONNACK success
        b: PUBREL 7
            b < PUBCOMP 7
        ",
    );
}

/// `[MQTT-3.6.2-1]`: the reason code of PUBREL is one of those listed.
/// MQTT 5 has a reason for that too.
#[test]
fn a_pubrec_of_nothing_is_answered() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBREC 7
            a < PUBREL 7 0x92 packet_identifier_not_found
        a: PING
            a < PINGRESP
        ",
    );
}

/// What answers nothing that was sent changes nothing.
#[test]
fn an_answer_to_nothing_is_let_pass() {
    holds_in_both(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t qos=2
            s < SUBACK 1 2
        a: CONNECT
            a < CONNACK success
        s: PUBACK 1
        s: PUBCOMP 1
        a: PUBLISH t x qos=1
            a < PUBACK 1
            s < PUBLISH t x qos=1 id=1
        s: PUBACK 1
        s: PUBACK 1
        s: PING
            s < PINGRESP
        ",
    );
}

/// `[MQTT-4.3.2-3]`: QoS 1: a message is unacknowledged until PUBACK arrives.
/// `[MQTT-4.3.3-3]`: QoS 2: a message is unacknowledged until PUBREC arrives.
/// What answers a message of the other QoS, or a later step of it, is a protocol error.
#[test]
fn an_answer_of_the_wrong_kind_ends_the_connection() {
    for (qos, before, answer) in [
        (1, "", "PUBREC 1"),
        (1, "", "PUBCOMP 1"),
        (2, "", "PUBACK 1"),
        (2, "", "PUBCOMP 1"),
        (2, "s: PUBREC 1\n                s < PUBREL 1\n            ", "PUBACK 1"),
    ] {
        holds_in_both(&format!(
            "
            s: CONNECT
                s < CONNACK success
            s: SUBSCRIBE t qos=2
                s < SUBACK 1 2
            a: CONNECT
                a < CONNACK success
            a: PUBLISH t x qos={qos}
                a < {} 1
                s < PUBLISH t x qos={qos} id=1
            {before}s: {answer}
                s < DISCONNECT 0x82 protocol_error
                s < closed
            ",
            if qos == 1 { "PUBACK" } else { "PUBREC" }
        ));
    }
}

/// `[MQTT-3.6.1-1]`: the flags of PUBREL are 0010.
/// `[MQTT-3.8.1-1]`: the flags of SUBSCRIBE are 0010.
/// `[MQTT-3.10.1-1]`: the flags of UNSUBSCRIBE are 0010.
/// Flags 0000.
#[test]
fn flags_that_must_be_0010_are_that() {
    for packet in ["60 02 00 01", "80 07 00 01 00 00 01 74 00", "a0 06 00 01 00 00 01 74"] {
        holds_in_both(&format!(
            "
            a: CONNECT
                a < CONNACK success
            a: HEX {packet}
                a < DISCONNECT 0x81 malformed_packet
                a < closed
            "
        ));
    }
}
