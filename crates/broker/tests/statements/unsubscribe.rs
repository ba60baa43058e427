//! 3.10 and 3.11: UNSUBSCRIBE and UNSUBACK.

use crate::{holds, holds_in_both};

/// `[MQTT-3.10.4-1]`: filters are compared character by character; the equal one is removed.
/// `[MQTT-3.10.4-2]`: no new messages are sent for a filter that was removed.
/// `[MQTT-3.10.4-4]`: UNSUBSCRIBE is answered with UNSUBACK.
/// `[MQTT-3.10.4-5]`: UNSUBACK carries the packet id of its UNSUBSCRIBE, also if no subscription was removed.
/// `[MQTT-2.2.1-6]`: SUBACK and UNSUBACK carry the packet id of what they answer.
#[test]
fn what_was_unsubscribed_is_not_sent() {
    holds_in_both(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t/1 t/+ T/1 qos=1
            s < SUBACK 1 1 1 1
        s: UNSUBSCRIBE t/+ id=77
            s < UNSUBACK 77 0
        a@1: CONNECT
            a < CONNACK success
        a: PUBLISH t/2 no
        a: PUBLISH t/1 yes
            s < PUBLISH t/1 yes
        a: PUBLISH T/1 yes
            s < PUBLISH T/1 yes
        ",
    );
}

/// `[MQTT-3.10.4-6]`: several filters in one UNSUBSCRIBE act as if sent one by one, with one UNSUBACK.
/// `[MQTT-3.11.3-1]`: the reason codes of UNSUBACK are in the order of the filters.
/// `[MQTT-3.11.3-2]`: the reason codes of UNSUBACK are of those listed.
/// `[MQTT-3.10.4-5]`: UNSUBACK carries the packet id of its UNSUBSCRIBE, also if no subscription was removed.
#[test]
fn each_filter_has_its_reason() {
    holds(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE a b qos=1
            s < SUBACK 1 1 1
        s: UNSUBSCRIBE a c b
            s < UNSUBACK 2 0 0x11 no_subscription_existed 0
        s: UNSUBSCRIBE a
            s < UNSUBACK 3 0x11 no_subscription_existed
        s: PUBLISH b x
        ",
    );
}

/// `[MQTT-3.10.4-3]`: deliveries of QoS 1 and 2 that were started are completed.
/// The second message has not been sent yet and may be; that it is, is ours.
#[test]
fn what_was_begun_is_finished() {
    holds_in_both(
        "
        s: CONNECT keep expiry=100
            s < CONNACK success
        s: SUBSCRIBE t qos=2
            s < SUBACK 1 2
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x qos=2
            a < PUBREC 1
            s < PUBLISH t x qos=2 id=1
        s: UNSUBSCRIBE t
            s < UNSUBACK 2 0
        a: PUBLISH t y qos=2
            a < PUBREC 2 0x10 no_matching_subscribers
        s: drop
        s: CONNECT keep expiry=100
            s < CONNACK success present
            s < PUBLISH t x qos=2 id=1 dup
        s: PUBREC 1
            s < PUBREL 1
        ",
    );
}

/// `[MQTT-3.10.3-2]`: UNSUBSCRIBE has at least one filter.
#[test]
fn an_unsubscribe_without_a_filter_is_a_protocol_error() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: HEX a2 03 00 01 00
            a < DISCONNECT 0x82 protocol_error
            a < closed
        b: CONNECT v3
            b < CONNACK success
        b: HEX a2 02 00 01
            b < closed
        ",
    );
}
