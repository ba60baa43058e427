//! 3.14: DISCONNECT.

use crate::{holds, holds_in_both};

/// `[MQTT-3.14.4-1]`: nothing is sent after DISCONNECT.
/// `[MQTT-3.14.4-2]`: the sender of DISCONNECT closes the connection.
/// `[MQTT-4.13.2-1]`: a CONNACK or DISCONNECT of 0x80 or more closes the connection.
/// What is sent to a client that broke the protocol ends with DISCONNECT; what it sent behind is not looked at.
#[test]
fn nothing_comes_after_disconnect() {
    holds_in_both(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE #
            s < SUBACK 1 0
        s: HEX c0 00 36 c0 00
            s < PINGRESP
            s < DISCONNECT 0x81 malformed_packet
            s < closed
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x
        ",
    );
}

/// `[MQTT-3.14.1-1]`: the flags of DISCONNECT are 0.
#[test]
fn the_flags_of_disconnect_are_0() {
    holds_in_both(
        "
        a: CONNECT
            a < CONNACK success
        a: HEX e1 00
            a < DISCONNECT 0x81 malformed_packet
            a < closed
        ",
    );
}

/// `[MQTT-3.14.2-1]`: the reason code of DISCONNECT is one of those listed.
#[test]
fn a_reason_that_is_no_reason_is_not_taken() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: HEX e0 01 7f
            a < DISCONNECT 0x82 protocol_error
            a < closed
        ",
    );
}

/// `[MQTT-4.1.0-2]`: a session is deleted when its expiry interval has passed.
/// MQTT 5, 3.14.2.2.2: DISCONNECT may change the expiry interval, but not from 0 to another value.
#[test]
fn a_goodbye_may_change_the_expiry() {
    holds(
        "
        a: CONNECT keep expiry=100
            a < CONNACK success
        a: DISCONNECT expiry=0
            a < closed
        a: CONNECT keep expiry=100
            a < CONNACK success
        a: DISCONNECT expiry=3
            a < closed
        wait 4000
        a: CONNECT keep
            a < CONNACK success
        a: DISCONNECT expiry=5
            a < DISCONNECT 0x82 protocol_error
            a < closed
        ",
    );
}

/// 4.11: clients are sent elsewhere, and new ones at once.
#[test]
fn a_server_that_goes_says_where_to() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        drain 100 other.example
        wait 1000
            a < DISCONNECT 0x9c use_another_server reference=other.example
            a < closed
        b: CONNECT
            b < CONNACK 0x9c use_another_server reference=other.example
            b < closed
        ",
    );
}
