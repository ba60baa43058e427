//! 4.9: flow control.

use crate::{holds, holds_in_both};

/// `[MQTT-3.3.4-9]`: the server has at most the client's Receive Maximum of QoS 1 and 2 publications in flight.
/// `[MQTT-3.3.4-10]`: a server that has reached Receive Maximum delays nothing but PUBLISH.
/// `[MQTT-4.9.0-1]`: the initial send quota is not above Receive Maximum.
/// `[MQTT-4.9.0-2]`: with a send quota of 0, no PUBLISH of QoS 1 or 2 is sent.
/// `[MQTT-4.9.0-3]`: with a send quota of 0, all other packets are still processed.
/// QoS 0 and all other packets go on.
#[test]
fn a_client_gets_no_more_than_it_takes() {
    for session in ["", " expiry=100"] {
        holds(&format!(
            "
            s: CONNECT recv=2{session}
                s < CONNACK success
            s: SUBSCRIBE t qos=2
                s < SUBACK 1 2
            a: CONNECT
                a < CONNACK success
            a: PUBLISH t 1 qos=1
                a < PUBACK 1
                s < PUBLISH t 1 qos=1 id=1
            a: PUBLISH t 2 qos=2
                a < PUBREC 2
                s < PUBLISH t 2 qos=2 id=2
            a: PUBLISH t 3 qos=1
                a < PUBACK 3
            a: PUBLISH t 4 qos=1
                a < PUBACK 4
            a: PUBLISH t 0
                s < PUBLISH t 0
            s: PING
                s < PINGRESP
            s: SUBSCRIBE u
                s < SUBACK 2 0
            s: PUBREC 2
                s < PUBREL 2
            s: PUBACK 1
                s < PUBLISH t 3 qos=1 id=3
            s: PUBCOMP 2
                s < PUBLISH t 4 qos=1 id=4
            "
        ));
    }
}

/// `[MQTT-4.9.0-2]`: with a send quota of 0, no PUBLISH of QoS 1 or 2 is sent.
/// A refusing PUBREC gives its place back.
#[test]
fn a_refusal_gives_its_place_back() {
    holds(
        "
        s: CONNECT recv=1
            s < CONNACK success
        s: SUBSCRIBE t qos=2
            s < SUBACK 1 2
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t 1 qos=2
            a < PUBREC 1
            s < PUBLISH t 1 qos=2 id=1
        a: PUBLISH t 2 qos=2
            a < PUBREC 2
        s: PUBREC 1 0x80
            s < PUBLISH t 2 qos=2 id=2
        ",
    );
}

/// `[MQTT-4.9.0-1]`: the initial send quota is not above Receive Maximum.
/// Whatever was taken before, each connection begins anew; what is sent again counts.
#[test]
fn each_connection_says_what_it_takes() {
    holds(
        "
        s: CONNECT keep expiry=100 recv=3
            s < CONNACK success
        s: SUBSCRIBE t qos=1
            s < SUBACK 1 1
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t 1 qos=1
            a < PUBACK 1
            s < PUBLISH t 1 qos=1 id=1
        a: PUBLISH t 2 qos=1
            a < PUBACK 2
            s < PUBLISH t 2 qos=1 id=2
        s: drop
        s: CONNECT keep expiry=100 recv=1
            s < CONNACK success present
            s < PUBLISH t 1 qos=1 id=1 dup
        s: PUBACK 1
            s < PUBLISH t 2 qos=1 id=2 dup
        ",
    );
}

/// A client that does not read for a while loses QoS 0 messages at most, and no other client is delayed.
#[test]
fn who_does_not_read_keeps_nobody_waiting() {
    holds_in_both(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t qos=1
            s < SUBACK 1 1
        o: CONNECT
            o < CONNACK success
        o: SUBSCRIBE t qos=1
            o < SUBACK 1 1
        a: CONNECT
            a < CONNACK success
        s: stall
        a: PUBLISH t 1 qos=1
            a < PUBACK 1
            o < PUBLISH t 1 qos=1 id=1
        a: PUBLISH t 2
            o < PUBLISH t 2
        s: flow
            s < PUBLISH t 1 qos=1 id=1
            s < PUBLISH t 2
        ",
    );
}
