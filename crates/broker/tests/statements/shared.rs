//! 4.8: shared subscriptions.

use crate::{holds, holds_in_both};

/// 4.8.2: one member gets each message, and a session with its own subscription gets it too; also with MQTT 3.1.1.
#[test]
fn a_group_gets_each_message_once() {
    holds_in_both(
        "
        x: CONNECT
            x < CONNACK success
        y@1: CONNECT
            y < CONNACK success
        z: CONNECT
            z < CONNACK success
        x: SUBSCRIBE $share/g/t
            x < SUBACK 1 0
        y: SUBSCRIBE $share/g/t
            y < SUBACK 1 0
        z: SUBSCRIBE t
            z < SUBACK 1 0
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t 1
            x < PUBLISH t 1
            z < PUBLISH t 1
        a: PUBLISH t 2
            y < PUBLISH t 2
            z < PUBLISH t 2
        a: PUBLISH t 3
            x < PUBLISH t 3
            z < PUBLISH t 3
        y: UNSUBSCRIBE $share/g/t
            y < UNSUBACK 2 0
        a: PUBLISH t 4
            x < PUBLISH t 4
            z < PUBLISH t 4
        ",
    );
}

/// `[MQTT-4.8.2-3]`: a member of a shared subscription gets the QoS granted to it.
#[test]
fn each_member_has_its_own_qos() {
    holds_in_both(
        "
        x: CONNECT
            x < CONNACK success
        y@1: CONNECT
            y < CONNACK success
        x: SUBSCRIBE $share/g/t qos=2
            x < SUBACK 1 2
        y: SUBSCRIBE $share/g/t qos=1
            y < SUBACK 1 1
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t 1 qos=2
            a < PUBREC 1
            x < PUBLISH t 1 qos=2 id=1
        a: PUBLISH t 2 qos=2
            a < PUBREC 2
            y < PUBLISH t 2 qos=1 id=1
        a: PUBLISH t 3 qos=1
            a < PUBACK 3
            x < PUBLISH t 3 qos=1 id=2
        ",
    );
}

/// 3.8.3.1: a shared subscription gets no retained messages, also when it is repeated.
#[test]
fn who_shares_gets_nothing_that_is_retained() {
    holds_in_both(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x retain
        a: SUBSCRIBE $share/g/t
            a < SUBACK 1 0
        a: SUBSCRIBE $share/g/t qos=1
            a < SUBACK 2 1
        ",
    );
}

/// `[MQTT-4.8.2-4]`: a QoS 2 delivery to a member is completed when that member reconnects.
/// `[MQTT-4.8.2-5]`: a QoS 2 delivery that was started with a member is sent to no other member.
/// Another member is there, but the message was begun with this one.
#[test]
fn what_was_begun_with_a_member_is_finished_with_it() {
    holds_in_both(
        "
        x: CONNECT keep expiry=100
            x < CONNACK success
        y: CONNECT
            y < CONNACK success
        x: SUBSCRIBE $share/g/t qos=2
            x < SUBACK 1 2
        y: SUBSCRIBE $share/g/t qos=2
            y < SUBACK 1 2
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t 1 qos=2
            a < PUBREC 1
            x < PUBLISH t 1 qos=2 id=1
        x: drop
        a: PUBLISH t 2 qos=2
            a < PUBREC 2
            y < PUBLISH t 2 qos=2 id=1
        a: PUBLISH t 3 qos=2
            a < PUBREC 3
            y < PUBLISH t 3 qos=2 id=2
        x: CONNECT keep expiry=100
            x < CONNACK success present
            x < PUBLISH t 1 qos=2 id=1 dup
        x: drop
        x: CONNECT
            x < CONNACK success
        ",
    );
}

/// 4.8.2: while no member is there, messages wait with those whose sessions stay, in turn; once one is there, it gets
/// them.
#[test]
fn a_group_without_anybody_there_keeps_its_messages() {
    holds_in_both(
        "
        x: CONNECT keep expiry=100
            x < CONNACK success
        x: SUBSCRIBE $share/g/t qos=1
            x < SUBACK 1 1
        y@1: CONNECT keep expiry=100
            y < CONNACK success
        y: SUBSCRIBE $share/g/t qos=1
            y < SUBACK 1 1
        x: drop
        y: drop
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t 1 qos=1
            a < PUBACK 1
        a: PUBLISH t 2 qos=1
            a < PUBACK 2
        y: CONNECT keep expiry=100
            y < CONNACK success present
            y < PUBLISH t 2 qos=1 id=1
        a: PUBLISH t 3 qos=1
            a < PUBACK 3
            y < PUBLISH t 3 qos=1 id=2
        a: PUBLISH t 4 qos=1
            a < PUBACK 4
            y < PUBLISH t 4 qos=1 id=3
        x: CONNECT keep expiry=100
            x < CONNACK success present
            x < PUBLISH t 1 qos=1 id=1
        ",
    );
}

/// `[MQTT-4.8.2-6]`: a message that a member refuses is sent to no other member.
#[test]
fn what_a_member_refuses_is_nobody_elses() {
    holds(
        "
        x: CONNECT
            x < CONNACK success
        y: CONNECT
            y < CONNACK success
        x: SUBSCRIBE $share/g/t qos=2
            x < SUBACK 1 2
        y: SUBSCRIBE $share/g/t qos=2
            y < SUBACK 1 2
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t 1 qos=1
            a < PUBACK 1
            x < PUBLISH t 1 qos=1 id=1
        x: PUBACK 1 0x83
        a: PUBLISH t 2 qos=2
            a < PUBREC 2
            y < PUBLISH t 2 qos=2 id=1
        y: PUBREC 1 0x83
        ",
    );
}

/// `[MQTT-4.8.2-1]`: a share name has at least one character.
/// `[MQTT-4.8.2-2]`: a share name contains no wildcard and is followed by a filter.
#[test]
fn a_share_name_is_a_name() {
    for filter in ["$share//t", "$share/g", "$share/g+/t", "$share/#/t"] {
        holds_in_both(&format!(
            "
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE {filter}
                a < DISCONNECT 0x81 malformed_packet
                a < closed
            "
        ));
    }
}

/// As EMQX has it: `$queue/` is a share group of its own.
#[test]
fn a_queue_is_a_group() {
    holds_in_both(
        "
        x: CONNECT
            x < CONNACK success
        y: CONNECT
            y < CONNACK success
        x: SUBSCRIBE $queue/t
            x < SUBACK 1 0
        y: SUBSCRIBE $queue/t
            y < SUBACK 1 0
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t 1
            x < PUBLISH t 1
        a: PUBLISH t 2
            y < PUBLISH t 2
        ",
    );
}
