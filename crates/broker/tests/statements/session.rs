//! 4.1: how long a session is kept.

use crate::{holds, holds_in_both};

/// `[MQTT-4.1.0-1]`: a session is not deleted while its connection is open.
/// However long the connection is open.
#[test]
fn a_session_stays_while_its_connection_is_open() {
    holds(
        "
        a: CONNECT expiry=1
            a < CONNACK success
        a: SUBSCRIBE t qos=1
            a < SUBACK 1 1
        wait 10000
        a: PUBLISH t x
            a < PUBLISH t x
        ",
    );
}

/// `[MQTT-4.1.0-2]`: a session is deleted when its expiry interval has passed.
/// `[MQTT-3.1.2-23]`: the session is stored as long as its expiry interval says.
#[test]
fn a_session_ends_when_its_expiry_has_passed() {
    holds(
        "
        a: CONNECT expiry=5
            a < CONNACK success
        b: CONNECT expiry=50
            b < CONNACK success
        a: drop
        b: drop
        wait 4000
        a: CONNECT keep expiry=5
            a < CONNACK success present
        a: drop
        wait 6000
        a: CONNECT keep expiry=5
            a < CONNACK success
        b: CONNECT keep expiry=5
            b < CONNACK success present
        ",
    );
}

/// `[MQTT-4.1.0-2]`: a session is deleted when its expiry interval has passed.
/// `[MQTT-3.1.2-23]`: the session is stored as long as its expiry interval says.
/// Also over the death of the server.
#[test]
fn an_expiry_survives_the_server() {
    holds(
        "
        a: CONNECT expiry=5
            a < CONNACK success
        b: CONNECT expiry=50
            b < CONNACK success
        a: drop
        b: drop
        crash
        wait 6000
        a: CONNECT keep
            a < CONNACK success
        b: CONNECT keep
            b < CONNACK success present
        ",
    );
}

/// `[MQTT-3.1.1 3.1.2-4]`: a session that is not clean is kept, with the QoS 1 and 2 messages that arrive while the
/// client is away.
/// `[MQTT-4.5.0-1]`: a message is added to all sessions with a matching subscription.
/// QoS 1 and 2 wait for a client of MQTT 3.1.1 that keeps its session; and for MQTT 5.
#[test]
fn messages_wait_for_a_session() {
    holds_in_both(
        "
        s: CONNECT keep expiry=100
            s < CONNACK success
        s: SUBSCRIBE t qos=2
            s < SUBACK 1 2
        s: DISCONNECT
            s < closed
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t one qos=1
            a < PUBACK 1
        a: PUBLISH t two qos=2
            a < PUBREC 2
        s@1: CONNECT keep expiry=100
            s < CONNACK success present
            s < PUBLISH t one qos=1 id=1
            s < PUBLISH t two qos=2 id=2
        ",
    );
}

/// `[MQTT-3.1.2-5]`: without Clean Start the existing session continues.
/// A session may change the version that it is spoken to in.
#[test]
fn a_session_is_of_no_version() {
    holds(
        "
        s: CONNECT v3 keep
            s < CONNACK success
        s: SUBSCRIBE t qos=1
            s < SUBACK 1 1
        s: drop
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x qos=1 expiry=60
            a < PUBACK 1
        s: CONNECT keep expiry=100
            s < CONNACK success present
            s < PUBLISH t x qos=1 id=1 expiry=60
        s: drop
        s: CONNECT v3 keep
            s < CONNACK success present
            s < PUBLISH t x qos=1 id=1 dup
        ",
    );
}
