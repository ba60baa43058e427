//! 3.3.1.3: messages that are retained.

use crate::{holds, holds_in_both};

/// [MQTT-3.3.1-5] [MQTT-3.3.1-8] [MQTT-3.3.1-9]: on another worker too.
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

/// [MQTT-3.3.1-6] [MQTT-3.3.1-7]: those who subscribe already hear it like any message.
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

/// [MQTT-3.3.1-5]: what was acknowledged is there after a crash. `[MQTT-4.3.2-4]`
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

/// [MQTT-3.3.1-10]
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

/// [MQTT-3.3.1-11]
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

/// [MQTT-3.3.1-9] [MQTT-3.8.4-4] [MQTT-3.1.1 3.8.4-3]
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

/// [MQTT-3.3.1-12]
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

/// [MQTT-3.3.1-13]: also for a session that sleeps meanwhile.
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

/// [MQTT-3.3.2-5] [MQTT-3.3.2-6]: retained ones grow old like others.
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

/// [MQTT-3.8.4-8]: what is retained goes out with the lower QoS too.
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
