//! 4.12: enhanced authentication, which is refused.

use crate::holds;

/// `[MQTT-4.12.0-1]`: an unknown Authentication Method: the server may send CONNACK 0x8C or 0x87, then closes.
/// `[MQTT-4.12.0-4]`: the server may refuse authentication at any time.
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

/// `[MQTT-4.12.0-6]`: without an Authentication Method in CONNECT, the server sends no AUTH.
/// `[MQTT-4.12.0-7]`: without an Authentication Method in CONNECT, the client sends no AUTH.
/// `[MQTT-4.12.1-1]`: re-authentication uses the Authentication Method of CONNECT.
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

/// `[MQTT-3.15.1-1]`: the flags of AUTH are 0.
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
