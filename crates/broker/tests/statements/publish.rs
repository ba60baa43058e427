//! 3.3: PUBLISH, but for what is retained.

use crate::support::WorldOptions;
use crate::{holds, holds_in_both, holds_with};
use tidegate_broker::BrokerLimits;

/// `[MQTT-3.3.4-1]`: QoS 1 is answered with PUBACK, QoS 2 with PUBREC, QoS 0 not at all.
/// `[MQTT-4.3.1-1]`: QoS 0 is sent with QoS 0 and without DUP.
#[test]
fn each_qos_has_its_answer() {
    holds_in_both(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t qos=2
            s < SUBACK 1 2
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t zero
            s < PUBLISH t zero
        a: PUBLISH t one qos=1 id=5
            a < PUBACK 5
            s < PUBLISH t one qos=1 id=1
        a: PUBLISH t two qos=2 id=6
            a < PUBREC 6
            s < PUBLISH t two qos=2 id=2
        ",
    );
}

/// `[MQTT-2.2.1-2]`: QoS 0 has no packet id.
/// `[MQTT-3.3.2-1]`: the topic is the first field and a UTF-8 string.
/// The payload comes right after the topic, and after the properties where there are some.
#[test]
fn qos_0_has_no_packet_id() {
    for (version, packet) in [("", "30 06 00 01 74 00 31 32"), (" v3", "30 05 00 01 74 31 32")] {
        holds(&format!(
            "
            a: CONNECT{version}
                a < CONNACK success
            a: SUBSCRIBE t qos=2
                a < SUBACK 1 2
            a: HEX {packet}
                a < PUBLISH t 12
            "
        ));
    }
}

/// `[MQTT-3.3.1-1]`: a PUBLISH that is sent again has DUP set.
/// `[MQTT-4.4.0-1]`: on reconnecting, and only then, unacknowledged PUBLISH and PUBREL are sent again with their packet
/// ids.
/// With the id of the first time.
#[test]
fn what_is_sent_again_says_so() {
    holds_in_both(
        "
        s: CONNECT keep expiry=100
            s < CONNACK success
        s: SUBSCRIBE t qos=2
            s < SUBACK 1 2
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t one qos=1
            a < PUBACK 1
            s < PUBLISH t one qos=1 id=1
        a: PUBLISH t two qos=2
            a < PUBREC 2
            s < PUBLISH t two qos=2 id=2
        s: drop
        a: PUBLISH t new qos=1
            a < PUBACK 3
        s: CONNECT keep expiry=100
            s < CONNACK success present
            s < PUBLISH t one qos=1 id=1 dup
            s < PUBLISH t two qos=2 id=2 dup
            s < PUBLISH t new qos=1 id=3
        ",
    );
}

/// `[MQTT-3.3.1-3]`: DUP of an outgoing PUBLISH does not depend on DUP of the incoming one.
#[test]
fn dup_does_not_go_on() {
    holds_in_both(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t qos=2
            s < SUBACK 1 2
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t one qos=1 dup
            a < PUBACK 1
            s < PUBLISH t one qos=1 id=1
        a: PUBLISH t two qos=2 dup
            a < PUBREC 2
            s < PUBLISH t two qos=2 id=2
        ",
    );
}

/// `[MQTT-3.3.2-3]`: the topic of a message that is sent to a client matches its subscription.
#[test]
fn who_did_not_ask_hears_nothing() {
    holds_in_both(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE a/+ b/# c qos=1
            s < SUBACK 1 1 1 1
        a: CONNECT
            a < CONNACK success
        a: PUBLISH a/b/c no
        a: PUBLISH a no
        a: PUBLISH c/d no
        a: PUBLISH a/ yes
            s < PUBLISH a/ yes
        a: PUBLISH b yes
            s < PUBLISH b yes
        a: PUBLISH c yes
            s < PUBLISH c yes
        ",
    );
}

/// `[MQTT-3.3.2-4]`: Payload Format Indicator is forwarded unchanged.
/// `[MQTT-3.3.2-15]`: the response topic is forwarded unchanged.
/// `[MQTT-3.3.2-16]`: correlation data is forwarded unchanged.
/// `[MQTT-3.3.2-17]`: user properties are forwarded unchanged.
/// `[MQTT-3.3.2-18]`: user properties are forwarded in their order.
/// `[MQTT-3.3.2-20]`: the content type is forwarded unchanged.
/// Format, expiry, content type, response topic, correlation data and three user properties, two of one name, in the
/// client's order; live, kept for later, retained and across workers.
#[test]
fn properties_go_on_as_they_came() {
    let publish = |flags: u8, packet_id: &str| {
        let properties = "01 01 03 00 01 63 08 00 01 72 09 00 02 68 69 \
                          26 00 01 7a 00 01 31 26 00 01 61 00 01 32 26 00 01 7a 00 01 33";
        let count = properties.split(' ').count();
        let id_bytes = packet_id.split_whitespace().count();
        format!(
            "{:02x} {:02x} 00 01 74 {packet_id} {count:02x} {properties} 78",
            0x30 | flags,
            3 + id_bytes + 1 + count + 1
        )
    };
    let forwarded = "format=1 type=c response=r correlation=hi up=z=1 up=a=2 up=z=3";
    holds(&format!(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t qos=1
            s < SUBACK 1 1
        o@1: CONNECT
            o < CONNACK success
        o: SUBSCRIBE t
            o < SUBACK 1 0
        d: CONNECT keep expiry=100
            d < CONNACK success
        d: SUBSCRIBE t qos=1
            d < SUBACK 1 1
        d: drop
        a: CONNECT
            a < CONNACK success
        a: HEX {}
            o < PUBLISH t x {forwarded}
            s < PUBLISH t x {forwarded}
        a: HEX {}
            a < PUBACK 7
            o < PUBLISH t x {forwarded}
            s < PUBLISH t x qos=1 id=1 {forwarded}
        d: CONNECT keep expiry=100
            d < CONNACK success present
            d < PUBLISH t x qos=1 id=1 {forwarded}
        n: CONNECT
            n < CONNACK success
        n: SUBSCRIBE t
            n < SUBACK 1 0
            n < PUBLISH t x retain {forwarded}
        ",
        publish(1, ""),
        publish(2, "00 07"),
    ));
}

/// `[MQTT-3.3.2-5]`: a message whose expiry interval has passed before delivery began is deleted.
/// `[MQTT-3.3.2-6]`: the forwarded expiry interval is the received one minus the time the message waited.
#[test]
fn a_message_grows_old_and_dies_while_it_waits() {
    holds(
        "
        s: CONNECT keep expiry=100
            s < CONNACK success
        s: SUBSCRIBE t qos=1
            s < SUBACK 1 1
        s: drop
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t short qos=1 expiry=2
            a < PUBACK 1
        a: PUBLISH t long qos=1 expiry=10
            a < PUBACK 2
        a: PUBLISH t for-ever qos=1
            a < PUBACK 3
        wait 3000
        s: CONNECT keep expiry=100
            s < CONNACK success present
            s < PUBLISH t long qos=1 id=2 expiry=7
            s < PUBLISH t for-ever qos=1 id=3
        ",
    );
}

/// `[MQTT-3.3.2-7]`: topic aliases are valid for their connection only.
#[test]
fn an_alias_ends_with_its_connection() {
    holds(
        "
        a: CONNECT keep expiry=100
            a < CONNACK success
        a: PUBLISH t x alias=1
        a: PUBLISH - y alias=1
        a: drop
        a: CONNECT keep expiry=100
            a < CONNACK success present
        a: PUBLISH - z alias=1
            a < DISCONNECT 0x82 protocol_error
            a < closed
        ",
    );
}

/// `[MQTT-3.3.2-8]`: a topic alias is not 0.
#[test]
fn no_alias_is_0() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x alias=0
            a < DISCONNECT 0x94 topic_alias_invalid
            a < closed
        ",
    );
}

/// `[MQTT-3.3.2-2]`: a topic contains no wildcards.
/// `[MQTT-4.7.0-1]`: wildcards are allowed in filters, not in topics.
#[test]
fn nobody_publishes_to_a_wildcard() {
    holds_in_both(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBLISH a/+ x
            a < DISCONNECT 0x81 malformed_packet
            a < closed
        ",
    );
}

/// `[MQTT-3.3.4-2]`: if several subscriptions match, the highest of their QoS applies.
/// `[MQTT-3.3.4-3]`: a message carries the identifiers of the subscriptions that it matched.
/// `[MQTT-3.3.4-4]`: a single copy carries the identifiers of all matching subscriptions.
/// `[MQTT-3.3.1-13]`: with Retain As Published a message is forwarded with the RETAIN flag of its publisher.
/// One copy, with the highest QoS and all ids, in any order.
#[test]
fn subscriptions_that_overlap_give_one_copy() {
    holds(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t/+ qos=0 sid=1
            s < SUBACK 1 0
        s: SUBSCRIBE t/# qos=2 sid=268435455
            s < SUBACK 2 2
        s: SUBSCRIBE t/1 qos=1
            s < SUBACK 3 1
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t/1 x qos=2
            a < PUBREC 1
            s < PUBLISH t/1 x qos=2 id=1 sid=1,268435455
        a: PUBLISH t/2 y
            s < PUBLISH t/2 y sid=1,268435455
        ",
    );
}

/// `[MQTT-3.3.4-2]`: if several subscriptions match, the highest of their QoS applies.
#[test]
fn overlapping_subscriptions_of_a_session_that_sleeps() {
    holds(
        "
        s: CONNECT keep expiry=100
            s < CONNACK success
        s: SUBSCRIBE t/+ qos=1 sid=1
            s < SUBACK 1 1
        s: SUBSCRIBE t/# qos=2 sid=2
            s < SUBACK 2 2
        s: drop
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t/1 x qos=2
            a < PUBREC 1
        a: PUBREL 1
            a < PUBCOMP 1
        s: CONNECT keep expiry=100
            s < CONNACK success present
            s < PUBLISH t/1 x qos=2 id=1 sid=1,2
        ",
    );
}

/// `[MQTT-3.3.4-6]`: a client sends no subscription identifiers in PUBLISH.
#[test]
fn a_client_publishes_no_subscription_id() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: HEX 30 07 00 01 74 02 0b 01 78
            a < DISCONNECT 0x82 protocol_error
            a < closed
        ",
    );
}

/// `[MQTT-3.3.4-7]`: the client has at most the server's Receive Maximum of QoS 1 and 2 publications in flight.
/// Two are offered.
#[test]
fn a_client_keeps_to_the_servers_receive_maximum() {
    let limits = BrokerLimits { receive_maximum: 2, sys_interval_ms: 0, ..BrokerLimits::default() };
    holds_with(
        WorldOptions { limits, ..WorldOptions::default() },
        "
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x qos=2
            a < PUBREC 1 0x10 no_matching_subscribers
        a: PUBLISH t y qos=2
            a < PUBREC 2 0x10 no_matching_subscribers
        a: PUBREL 1
            a < PUBCOMP 1
        a: PUBLISH t z qos=2
            a < PUBREC 3 0x10 no_matching_subscribers
        a: PUBLISH t too-much qos=2
            a < DISCONNECT 0x93 receive_maximum_exceeded
            a < closed
        ",
    );
}

/// `[MQTT-3.3.4-7]`: the client has at most the server's Receive Maximum of QoS 1 and 2 publications in flight.
/// `[MQTT-4.3.3-10]`: QoS 2: the same packet id again is answered with PUBREC and not delivered twice.
/// What is sent again on a new connection is not one more, and its alias is set.
#[test]
fn a_repetition_is_not_one_more() {
    let limits = BrokerLimits { receive_maximum: 2, sys_interval_ms: 0, ..BrokerLimits::default() };
    holds_with(
        WorldOptions { limits, ..WorldOptions::default() },
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t
            s < SUBACK 1 0
        a: CONNECT keep expiry=100
            a < CONNACK success
        a: PUBLISH t x qos=2 id=1
            a < PUBREC 1
            s < PUBLISH t x
        a: PUBLISH t y qos=2 id=2
            a < PUBREC 2
            s < PUBLISH t y
        a: drop
        a: CONNECT keep expiry=100
            a < CONNACK success present
        a: PUBLISH t x qos=2 id=1 dup alias=1
            a < PUBREC 1
        a: PUBLISH t y qos=2 id=2 dup
            a < PUBREC 2
        a: PUBREL 1
            a < PUBCOMP 1
        a: PUBLISH - z qos=2 id=3 alias=1
            a < PUBREC 3
            s < PUBLISH t z
        ",
    );
}

/// `[MQTT-3.3.1-2]`: QoS 0 never has DUP set.
#[test]
fn dup_without_qos_is_malformed() {
    holds_in_both(
        "
        a: CONNECT
            a < CONNACK success
        a: HEX 38 04 00 01 74 00
            a < DISCONNECT 0x81 malformed_packet
            a < closed
        ",
    );
}

/// `[MQTT-3.3.1-4]`: QoS is not 3.
#[test]
fn qos_3_is_malformed() {
    holds_in_both(
        "
        a: CONNECT
            a < CONNACK success
        a: HEX 36
            a < DISCONNECT 0x81 malformed_packet
            a < closed
        ",
    );
}

/// `[MQTT-3.1.1 3.3.5-2]`: a PUBLISH without permission is acknowledged, or the connection is closed.
/// A client without permission gets a reason code if its version has one, and stays connected.
#[test]
fn what_nobody_may_publish_goes_nowhere() {
    holds(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE #
            s < SUBACK 1 0
        a: CONNECT
            a < CONNACK success
        a: PUBLISH secret/x zero
        a: PUBLISH secret/x one qos=1
            a < PUBACK 1 0x87 not_authorized
        a: PUBLISH secret/x two qos=2
            a < PUBREC 2 0x87 not_authorized
        a: PUBLISH open two qos=2 id=2
            a < PUBREC 2
            s < PUBLISH open two
        b: CONNECT v3
            b < CONNACK success
        b: PUBLISH secret/x zero
        b: PUBLISH secret/x one qos=1
            b < PUBACK 1
        b: PUBLISH secret/x two qos=2
            b < PUBREC 2
        ",
    );
}
