//! 3.8 and 3.9: SUBSCRIBE and SUBACK.

use crate::{holds, holds_in_both};

/// `[MQTT-3.8.4-1]`: SUBSCRIBE is answered with SUBACK.
/// `[MQTT-3.8.4-2]`: SUBACK carries the packet id of its SUBSCRIBE.
/// `[MQTT-2.2.1-6]`: SUBACK and UNSUBACK carry the packet id of what they answer.
/// `[MQTT-3.8.4-5]`: several filters in one SUBSCRIBE act as if sent one by one, with one SUBACK.
/// `[MQTT-3.8.4-6]`: SUBACK has a reason code for each filter.
/// `[MQTT-3.9.3-1]`: the reason codes of SUBACK are in the order of the filters.
/// Three filters, each with a QoS of its own.
#[test]
fn subscribe_is_answered_filter_by_filter() {
    for (version, head) in [("", "82 0f 02 bc 00"), (" v3", "82 0e 02 bc")] {
        holds(&format!(
            "
            a: CONNECT{version}
                a < CONNACK success
            a: HEX {head} 00 01 78 01 00 01 79 00 00 01 7a 02
                a < SUBACK 700 1 0 2
            a: PUBLISH x one qos=2
                a < PUBLISH x one qos=1 id=1
                a < PUBREC 1
            a: PUBLISH y zero qos=2
                a < PUBLISH y zero
                a < PUBREC 2
            a: PUBLISH z two qos=2
                a < PUBLISH z two qos=2 id=2
                a < PUBREC 3
            "
        ));
    }
}

/// `[MQTT-3.8.4-7]`: that reason code is the granted QoS or a failure.
/// `[MQTT-3.9.3-1]`: the reason codes of SUBACK are in the order of the filters.
/// `[MQTT-3.9.3-2]`: the reason codes of SUBACK are of those listed.
/// `[MQTT-3.1.1 3.9.3-2]`: SUBACK's return codes are 0, 1, 2 and 0x80.
/// What may not be is refused by itself, the others are served.
#[test]
fn a_filter_may_be_refused_among_others() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: SUBSCRIBE t/1 secret/x t/2 qos=1
            a < SUBACK 1 1 0x87 not_authorized 1
        a: PUBLISH t/2 x
            a < PUBLISH t/2 x
        ",
    );
    holds(
        "
        a: CONNECT v3
            a < CONNACK success
        a: SUBSCRIBE t/1 secret/x t/2 qos=1
            a < SUBACK 1 1 0x80 unspecified_error 1
        ",
    );
}

/// `[MQTT-3.8.4-7]`: that reason code is the granted QoS or a failure.
/// Nor through a share group, nor by a wildcard above it. (`#` is allowed by the rights of this test; nothing that is
/// forbidden comes by it, because nobody may publish there.)
#[test]
fn a_share_group_gives_no_rights() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: SUBSCRIBE $share/g/secret/x
            a < SUBACK 1 0x87 not_authorized
        a: SUBSCRIBE $queue/secret/x
            a < SUBACK 2 0x87 not_authorized
        ",
    );
}

/// `[MQTT-3.8.3-3]`: No Local: a message is not sent to the client id that published it.
/// Not to the client that published, whatever its connection.
#[test]
fn no_local_keeps_ones_own_messages_away() {
    holds(
        "
        a: CONNECT keep expiry=100
            a < CONNACK success
        a: SUBSCRIBE t nl qos=1
            a < SUBACK 1 1
        b@1: CONNECT
            b < CONNACK success
        b: SUBSCRIBE t nl
            b < SUBACK 1 0
        a: PUBLISH t mine qos=1
            a < PUBACK 2
            b < PUBLISH t mine
        b: PUBLISH t yours
            a < PUBLISH t yours
        ",
    );
}

/// `[MQTT-3.8.3-4]`: No Local on a shared subscription is a protocol error.
#[test]
fn no_local_and_a_share_group_do_not_go_together() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: SUBSCRIBE $share/g/t nl
            a < DISCONNECT 0x82 protocol_error
            a < closed
        ",
    );
}

/// `[MQTT-3.8.3-2]`: SUBSCRIBE has at least one filter.
#[test]
fn a_subscribe_without_a_filter_is_a_protocol_error() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: HEX 82 03 00 01 00
            a < DISCONNECT 0x82 protocol_error
            a < closed
        b: CONNECT v3
            b < CONNACK success
        b: HEX 82 02 00 01
            b < closed
        ",
    );
}

/// `[MQTT-3.8.3-5]`: the reserved bits of subscription options are 0.
/// MQTT 3.1.1 reserves six bits of eight.
#[test]
fn reserved_options_are_malformed() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: HEX 82 07 00 01 00 00 01 74 40
            a < DISCONNECT 0x81 malformed_packet
            a < closed
        b: CONNECT v3
            b < CONNACK success
        b: HEX 82 06 00 01 00 01 74 04
            b < closed
        ",
    );
}

/// `[MQTT-3.8.4-3]`: a SUBSCRIBE with the same filter replaces the subscription.
/// One copy, by the new rules.
#[test]
fn the_same_filter_again_replaces_the_subscription() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: SUBSCRIBE t qos=2 sid=1
            a < SUBACK 1 2
        a: SUBSCRIBE t qos=1 sid=2
            a < SUBACK 2 1
        a: PUBLISH t x qos=2
            a < PUBLISH t x qos=1 id=1 sid=2
            a < PUBREC 3
        a: SUBSCRIBE t
            a < SUBACK 4 0
        a: PUBLISH t y
            a < PUBLISH t y
        ",
    );
}

/// `[MQTT-3.8.4-3]`: a SUBSCRIBE with the same filter replaces the subscription.
/// `[MQTT-3.8.4-4]`: replacing a subscription sends retained messages again and loses no message.
/// Deliveries that were started with the old options are completed.
#[test]
fn replacing_loses_nothing() {
    holds_in_both(
        "
        s: CONNECT keep expiry=100
            s < CONNACK success
        s: SUBSCRIBE t qos=1
            s < SUBACK 1 1
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x qos=1
            a < PUBACK 1
            s < PUBLISH t x qos=1 id=1
        s: SUBSCRIBE t qos=0
            s < SUBACK 2 0
        s: drop
        a: PUBLISH t y qos=1
            a < PUBACK 2
        s: CONNECT keep expiry=100
            s < CONNACK success present
            s < PUBLISH t x qos=1 id=1 dup
        ",
    );
}

/// `[MQTT-3.8.4-8]`: a message is forwarded with the lower of its QoS and the granted QoS.
#[test]
fn the_lower_qos_counts() {
    holds_in_both(
        "
        zero: CONNECT
            zero < CONNACK success
        one: CONNECT
            one < CONNACK success
        two@1: CONNECT
            two < CONNACK success
        zero: SUBSCRIBE t
            zero < SUBACK 1 0
        one: SUBSCRIBE t qos=1
            one < SUBACK 1 1
        two: SUBSCRIBE t qos=2
            two < SUBACK 1 2
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t 0
            one < PUBLISH t 0
            two < PUBLISH t 0
            zero < PUBLISH t 0
        a: PUBLISH t 1 qos=1
            a < PUBACK 1
            one < PUBLISH t 1 qos=1 id=1
            two < PUBLISH t 1 qos=1 id=1
            zero < PUBLISH t 1
        a: PUBLISH t 2 qos=2
            a < PUBREC 2
            one < PUBLISH t 2 qos=1 id=2
            two < PUBLISH t 2 qos=2 id=2
            zero < PUBLISH t 2
        ",
    );
}

/// `[MQTT-3.1.2-23]`: the session is stored as long as its expiry interval says.
/// A session's subscriptions, with their options, are there after a crash.
#[test]
fn subscriptions_of_a_session_survive_the_server() {
    holds(
        "
        s: CONNECT keep expiry=100
            s < CONNACK success
        s: SUBSCRIBE t qos=1 sid=7 nl rap
            s < SUBACK 1 1
        s: SUBSCRIBE gone qos=1
            s < SUBACK 2 1
        s: UNSUBSCRIBE gone
            s < UNSUBACK 3 0
        crash
        s: CONNECT keep expiry=100
            s < CONNACK success present
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x qos=1 retain
            a < PUBACK 1
            s < PUBLISH t x qos=1 id=1 retain sid=7
        a: PUBLISH gone y qos=1
            a < PUBACK 2 0x10 no_matching_subscribers
        s: PUBLISH t mine
        ",
    );
}
