//! 4.12: enhanced authentication, which is refused.

use crate::holds;

/// [MQTT-4.12.0-1] [MQTT-4.12.0-4]
#[test]
fn no_method_is_known() {
    holds(
        "
        a: CONNECT method=SCRAM-SHA-1
            a < CONNACK 0x8c bad_authentication_method
            a < closed
        ",
    );
}

/// [MQTT-4.12.0-6] [MQTT-4.12.0-7] [MQTT-4.12.1-1]
#[test]
fn who_began_without_does_not_go_on_with_auth() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: AUTH SCRAM-SHA-1
            a < DISCONNECT 0x82 protocol_error
            a < closed
        ",
    );
}

/// [MQTT-3.15.1-1]
#[test]
fn the_flags_of_auth_are_0() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: HEX f1 00
            a < DISCONNECT 0x81 malformed_packet
            a < closed
        ",
    );
}
