//! 3.1.2.5 and 3.1.3: what is published when a client is gone.

use crate::{holds, holds_in_both};

/// `[MQTT-3.1.2-7]`: a will is stored with the session.
/// `[MQTT-3.1.2-8]`: the will is published once the connection is closed and the will delay has passed, unless the will
/// was deleted.
/// `[MQTT-3.1.2-14]`: Will Retain 0: the will is not retained.
/// The new subscriber finds nothing.
#[test]
fn a_will_is_published_when_the_connection_breaks() {
    holds_in_both(
        "
        w: CONNECT
            w < CONNACK success
        w: SUBSCRIBE gone/+ qos=2
            w < SUBACK 1 2
        a: CONNECT will=gone/a,client_disconnect,qos=1
            a < CONNACK success
        a: drop
            w < PUBLISH gone/a client_disconnect qos=1 id=1
        v: CONNECT
            v < CONNACK success
        v: SUBSCRIBE gone/+
            v < SUBACK 1 0
        ",
    );
}

/// `[MQTT-3.1.2-15]`: Will Retain 1: the will is retained.
#[test]
fn a_will_may_be_retained() {
    holds_in_both(
        "
        a: CONNECT will=gone/a,client_disconnect,retain
            a < CONNACK success
        a: drop
        v: CONNECT
            v < CONNACK success
        v: SUBSCRIBE gone/+
            v < SUBACK 1 0
            v < PUBLISH gone/a client_disconnect retain
        ",
    );
}

/// `[MQTT-3.14.4-3]`: DISCONNECT 0x00 deletes the will.
/// `[MQTT-3.1.1 3.14.4-3]`: DISCONNECT deletes the will.
/// `[MQTT-3.1.2-10]`: a will is deleted once it is published, or by DISCONNECT 0x00.
/// The second connection has none to take back or to leave.
#[test]
fn a_goodbye_takes_the_will_back() {
    holds_in_both(
        "
        w: CONNECT
            w < CONNACK success
        w: SUBSCRIBE gone
            w < SUBACK 1 0
        a: CONNECT keep expiry=100 will=gone,a
            a < CONNACK success
        a: DISCONNECT
            a < closed
        wait 1000
        a: CONNECT keep expiry=100
            a < CONNACK success present
        a: drop
        ",
    );
}

/// `[MQTT-3.1.2-8]`: the will is published once the connection is closed and the will delay has passed, unless the will
/// was deleted.
/// 0x04.
#[test]
fn a_goodbye_may_leave_the_will() {
    holds(
        "
        w: CONNECT
            w < CONNACK success
        w: SUBSCRIBE gone
            w < SUBACK 1 0
        a: CONNECT will=gone,a
            a < CONNACK success
        a: DISCONNECT 0x04
            a < closed
            w < PUBLISH gone a
        ",
    );
}

/// `[MQTT-3.1.2-8]`: the will is published once the connection is closed and the will delay has passed, unless the will
/// was deleted.
/// `[MQTT-4.13.1-1]`: a malformed packet or protocol error closes the connection.
#[test]
fn who_breaks_the_protocol_leaves_the_will() {
    holds_in_both(
        "
        w: CONNECT
            w < CONNACK success
        w: SUBSCRIBE gone
            w < SUBACK 1 0
        a: CONNECT will=gone,a
            a < CONNACK success
        a: HEX 36
            a < DISCONNECT 0x81 malformed_packet
            a < closed
            w < PUBLISH gone a
        ",
    );
}

/// `[MQTT-3.1.2-8]`: the will is published once the connection is closed and the will delay has passed, unless the will
/// was deleted.
/// `[MQTT-3.1.2-10]`: a will is deleted once it is published, or by DISCONNECT 0x00.
/// It comes once, after its delay.
#[test]
fn a_will_waits_for_its_delay() {
    holds(
        "
        w: CONNECT
            w < CONNACK success
        w: SUBSCRIBE gone
            w < SUBACK 1 0
        a: CONNECT expiry=100 will=gone,a,delay=5
            a < CONNACK success
        a: drop
        wait 4800
        wait 400
            w < PUBLISH gone a
        a: CONNECT keep expiry=100
            a < CONNACK success present
        a: drop
        wait 10000
        ",
    );
}

/// `[MQTT-3.1.3-9]`: a client that reconnects before the will delay has passed: the will is not sent.
#[test]
fn who_is_back_before_the_delay_has_passed_leaves_no_will() {
    holds(
        "
        w: CONNECT
            w < CONNACK success
        w: SUBSCRIBE gone
            w < SUBACK 1 0
        a: CONNECT expiry=100 will=gone,a,delay=5
            a < CONNACK success
        a: drop
        wait 4000
        a: CONNECT keep expiry=100
            a < CONNACK success present
        wait 20000
        ",
    );
}

/// `[MQTT-3.1.2-8]`: the will is published once the connection is closed and the will delay has passed, unless the will
/// was deleted.
/// The session ends first, by its expiry or by a clean start.
#[test]
fn a_will_does_not_outlive_its_session() {
    holds(
        "
        w: CONNECT
            w < CONNACK success
        w: SUBSCRIBE gone
            w < SUBACK 1 0
        a: CONNECT expiry=2 will=gone,a,delay=50
            a < CONNACK success
        b: CONNECT expiry=100 will=gone,b,delay=50
            b < CONNACK success
        a: drop
        b: drop
        wait 1000
        b: CONNECT
            b < CONNACK success
            w < PUBLISH gone b
        wait 1500
            w < PUBLISH gone a
        wait 60000
        ",
    );
}

/// `[MQTT-3.1.2-8]`: the will is published once the connection is closed and the will delay has passed, unless the will
/// was deleted.
/// `[MQTT-3.1.4-3]`: a second connection with a client id disconnects the first one with 0x8E.
/// The server closed the old connection, and without a delay its will is due.
#[test]
fn who_is_taken_over_leaves_the_will() {
    holds_in_both(
        "
        w: CONNECT
            w < CONNACK success
        w: SUBSCRIBE gone
            w < SUBACK 1 0
        a: CONNECT keep expiry=100 will=gone,a
            a < CONNACK success
        b: CONNECT keep id=a expiry=100
            a < DISCONNECT 0x8e session_taken_over
            a < closed
            b < CONNACK success present
            w < PUBLISH gone a
        ",
    );
}

/// `[MQTT-3.1.2-7]`: a will is stored with the session.
/// `[MQTT-3.1.2-8]`: the will is published once the connection is closed and the will delay has passed, unless the will
/// was deleted.
/// Clients that were connected when the server ended count as disconnected.
#[test]
fn a_will_survives_the_server() {
    holds(
        "
        w: CONNECT expiry=1000
            w < CONNACK success
        w: SUBSCRIBE gone qos=1
            w < SUBACK 1 1
        a: CONNECT expiry=1000 will=gone,a,qos=1,delay=3
            a < CONNACK success
        crash
        w: CONNECT keep expiry=1000
            w < CONNACK success present
        wait 3500
            w < PUBLISH gone a qos=1 id=1
        ",
    );
}

/// `[MQTT-3.1.3-1]`: the payload fields of CONNECT are in the order of the standard.
/// `[MQTT-3.1.3-10]`: the user properties of a will keep their order.
/// A CONNECT with all there is, in its order: will properties (three user properties, two of one name), topic, payload,
/// user name, password.
#[test]
fn a_will_keeps_the_order_of_its_properties() {
    holds(
        "
        w: CONNECT
            w < CONNACK success
        w: SUBSCRIBE gone
            w < SUBACK 1 0
        a: open
        a: HEX 10 35 00 04 4d 51 54 54 05 c6 00 00 00 00 01 61 \
               15 26 00 01 7a 00 01 31 26 00 01 61 00 01 32 26 00 01 7a 00 01 33 \
               00 04 67 6f 6e 65 00 03 62 79 65 00 01 75 00 01 70
            a < CONNACK success
        a: drop
            w < PUBLISH gone bye up=z=1 up=a=2 up=z=3
        ",
    );
}

/// `[MQTT-3.3.2-6]`: the forwarded expiry interval is the received one minus the time the message waited.
/// A will's expiry counts from when it is published.
#[test]
fn a_will_may_expire() {
    holds(
        "
        w: CONNECT expiry=1000
            w < CONNACK success
        w: SUBSCRIBE gone qos=1
            w < SUBACK 1 1
        w: drop
        a: CONNECT will=gone,a,qos=1,expiry=10
            a < CONNACK success
        b: CONNECT will=gone,b,qos=1,expiry=2
            b < CONNACK success
        wait 5000
        a: drop
        b: drop
        wait 4000
        w: CONNECT keep expiry=1000
            w < CONNACK success present
            w < PUBLISH gone a qos=1 id=1 expiry=6
        ",
    );
}
