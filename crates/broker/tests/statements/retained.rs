//! 3.3.1.3: messages that are retained.

use crate::{holds, holds_in_both};

/// `[MQTT-3.3.1-5]`: a retained message replaces the one before on its topic.
/// `[MQTT-3.3.1-8]`: a message without RETAIN does not store, delete or replace a retained message.
/// `[MQTT-3.3.1-9]`: Retain Handling 0: retained messages are sent on SUBSCRIBE.
/// On another worker too.
#[test]
fn a_topic_retains_the_last_message_that_asked_for_it() {
    holds_in_both(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t first retain
        a: PUBLISH t second qos=1 retain
            a < PUBACK 1
        a: PUBLISH t third qos=1
            a < PUBACK 2 0x10 no_matching_subscribers
        a: PUBLISH t
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t qos=2
            s < SUBACK 1 2
            s < PUBLISH t second qos=1 id=1 retain
        o@1: CONNECT
            o < CONNACK success
        o: SUBSCRIBE #
            o < SUBACK 1 0
            o < PUBLISH t second retain
        ",
    );
}

/// `[MQTT-3.3.1-6]`: a retained message without payload is delivered, and deletes the retained message of its topic.
/// `[MQTT-3.3.1-7]`: a message without payload is not stored as a retained message.
/// Existing subscribers receive it like any message.
#[test]
fn an_empty_message_clears() {
    holds_in_both(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t first retain
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t qos=1
            s < SUBACK 1 1
            s < PUBLISH t first retain
        a: PUBLISH t qos=1 retain
            a < PUBACK 1
            s < PUBLISH t qos=1 id=1
        n@1: CONNECT
            n < CONNACK success
        n: SUBSCRIBE t
            n < SUBACK 1 0
        crash
        n: CONNECT
            n < CONNACK success
        n: SUBSCRIBE t
            n < SUBACK 1 0
        ",
    );
}

/// `[MQTT-3.3.1-5]`: a retained message replaces the one before on its topic.
/// `[MQTT-4.3.2-4]`: QoS 1: the receiver answers with PUBACK once it has taken over the message.
/// What was acknowledged is there after a crash.
#[test]
fn what_is_retained_survives_the_server() {
    holds_in_both(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t first qos=1 retain
            a < PUBACK 1
        a: PUBLISH u second qos=2 retain
            a < PUBREC 2
        crash
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t u qos=2
            s < SUBACK 1 2 2
            s < PUBLISH t first qos=1 id=1 retain
            s < PUBLISH u second qos=2 id=2 retain
        ",
    );
}

/// `[MQTT-3.3.1-10]`: Retain Handling 1: retained messages are sent only for a new subscription.
#[test]
fn retain_handling_1_is_for_new_subscriptions() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x retain
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t rh=1
            s < SUBACK 1 0
            s < PUBLISH t x retain
        s: SUBSCRIBE t rh=1
            s < SUBACK 2 0
        s: UNSUBSCRIBE t
            s < UNSUBACK 3 0
        s: SUBSCRIBE t rh=1
            s < SUBACK 4 0
            s < PUBLISH t x retain
        ",
    );
}

/// `[MQTT-3.3.1-11]`: Retain Handling 2: no retained messages are sent.
#[test]
fn retain_handling_2_is_for_who_wants_none() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x retain
        a: SUBSCRIBE t rh=2
            a < SUBACK 1 0
        ",
    );
}

/// `[MQTT-3.3.1-9]`: Retain Handling 0: retained messages are sent on SUBSCRIBE.
/// `[MQTT-3.8.4-4]`: replacing a subscription sends retained messages again and loses no message.
/// `[MQTT-3.1.1 3.8.4-3]`: a SUBSCRIBE with the same filter sends retained messages again.
#[test]
fn retain_handling_0_sends_again() {
    holds_in_both(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x retain
        a: SUBSCRIBE t
            a < SUBACK 1 0
            a < PUBLISH t x retain
        a: SUBSCRIBE t qos=1
            a < SUBACK 2 1
            a < PUBLISH t x retain
        ",
    );
}

/// `[MQTT-3.3.1-12]`: without Retain As Published a message is forwarded with RETAIN 0.
#[test]
fn retain_does_not_go_on() {
    holds_in_both(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t qos=1
            s < SUBACK 1 1
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x retain
            s < PUBLISH t x
        a: PUBLISH t y qos=1 retain
            a < PUBACK 1
            s < PUBLISH t y qos=1 id=1
        ",
    );
}

/// `[MQTT-3.3.1-13]`: with Retain As Published a message is forwarded with the RETAIN flag of its publisher.
/// Also for a session that sleeps meanwhile.
#[test]
fn retain_goes_on_as_published() {
    holds(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t rap
            s < SUBACK 1 0
        d: CONNECT keep expiry=100
            d < CONNACK success
        d: SUBSCRIBE t qos=1 rap
            d < SUBACK 1 1
        d: drop
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x qos=1 retain
            a < PUBACK 1
            s < PUBLISH t x retain
        a: PUBLISH t y qos=1
            a < PUBACK 2
            s < PUBLISH t y
        d: CONNECT keep expiry=100
            d < CONNACK success present
            d < PUBLISH t x qos=1 id=1 retain
            d < PUBLISH t y qos=1 id=2
        ",
    );
}

/// `[MQTT-3.3.2-5]`: a message whose expiry interval has passed before delivery began is deleted.
/// `[MQTT-3.3.2-6]`: the forwarded expiry interval is the received one minus the time the message waited.
/// Retained ones grow old like others.
#[test]
fn what_is_retained_expires() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t/short x retain expiry=2
        a: PUBLISH t/long y retain expiry=10
        wait 3000
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t/+ sid=9
            s < SUBACK 1 0
            s < PUBLISH t/long y retain expiry=7 sid=9
        wait 8000
        n@1: CONNECT
            n < CONNACK success
        n: SUBSCRIBE t/+
            n < SUBACK 1 0
        ",
    );
}

/// `[MQTT-3.8.4-8]`: a message is forwarded with the lower of its QoS and the granted QoS.
/// What is retained goes out with the lower QoS too.
#[test]
fn what_is_retained_goes_out_with_the_lower_qos() {
    holds_in_both(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x qos=1 retain
            a < PUBACK 1
        a: SUBSCRIBE t
            a < SUBACK 2 0
            a < PUBLISH t x retain
        a: SUBSCRIBE t qos=2
            a < SUBACK 3 2
            a < PUBLISH t x qos=1 id=1 retain
        ",
    );
}
