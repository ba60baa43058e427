//! 4.3 to 4.6: QoS, what is sent again, order.

use crate::{holds, holds_in_both};

/// `[MQTT-2.2.1-4]`: a packet id chosen by the server is not 0 and not in use.
/// `[MQTT-4.3.2-1]`: QoS 1: a new message gets a packet id that is not in use.
/// `[MQTT-4.3.2-2]`: QoS 1: DUP is 0 when a message is sent for the first time.
/// `[MQTT-4.3.2-3]`: QoS 1: a message is unacknowledged until PUBACK arrives.
#[test]
fn qos_1_is_in_flight_until_its_puback() {
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
        a: PUBLISH t y qos=1
            a < PUBACK 2
            s < PUBLISH t y qos=1 id=2
        s: PUBACK 1
        s: drop
        s: CONNECT keep expiry=100
            s < CONNACK success present
            s < PUBLISH t y qos=1 id=2 dup
        s: PUBACK 2
        s: drop
        s: CONNECT keep expiry=100
            s < CONNACK success present
        ",
    );
}

/// `[MQTT-4.3.2-4]`: QoS 1: the receiver answers with PUBACK once it has taken over the message.
/// `[MQTT-4.5.0-1]`: a message is added to all sessions with a matching subscription.
/// What was acknowledged is there after a crash.
#[test]
fn puback_means_that_it_is_ours() {
    holds_in_both(
        "
        s: CONNECT keep expiry=100
            s < CONNACK success
        s: SUBSCRIBE t qos=2
            s < SUBACK 1 2
        r@1: CONNECT keep expiry=100
            r < CONNACK success
        r: SUBSCRIBE # qos=1
            r < SUBACK 1 1
        s: drop
        r: drop
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x qos=1
            a < PUBACK 1
        a: PUBLISH t y qos=2
            a < PUBREC 2
        crash
        s: CONNECT keep expiry=100
            s < CONNACK success present
            s < PUBLISH t x qos=1 id=1 dup
            s < PUBLISH t y qos=2 id=2 dup
        r: CONNECT keep expiry=100
            r < CONNACK success present
            r < PUBLISH t x qos=1 id=1 dup
            r < PUBLISH t y qos=1 id=2 dup
        ",
    );
}

/// `[MQTT-4.3.2-5]`: QoS 1: after PUBACK the same packet id is a new message.
/// DUP or not.
#[test]
fn after_puback_an_id_is_free() {
    holds_in_both(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t
            s < SUBACK 1 0
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x qos=1 id=1
            a < PUBACK 1
            s < PUBLISH t x
        a: PUBLISH t x qos=1 id=1 dup
            a < PUBACK 1
            s < PUBLISH t x
        ",
    );
}

/// `[MQTT-4.3.3-1]`: QoS 2: a new message gets a packet id that is not in use.
/// `[MQTT-4.3.3-2]`: QoS 2: DUP is 0 when a message is sent for the first time.
/// `[MQTT-4.3.3-3]`: QoS 2: a message is unacknowledged until PUBREC arrives.
/// `[MQTT-4.3.3-4]`: QoS 2: a PUBREC below 0x80 is answered with PUBREL.
/// `[MQTT-4.3.3-5]`: QoS 2: PUBREL is unacknowledged until PUBCOMP arrives.
/// `[MQTT-4.3.3-6]`: QoS 2: after PUBREL the PUBLISH is not sent again.
#[test]
fn qos_2_goes_to_a_subscriber_in_four_steps() {
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
        s: drop
        s: CONNECT keep expiry=100
            s < CONNACK success present
            s < PUBLISH t x qos=2 id=1 dup
        s: PUBREC 1
            s < PUBREL 1
        s: drop
        s: CONNECT keep expiry=100
            s < CONNACK success present
            s < PUBREL 1
        s: PUBCOMP 1
        s: drop
        s: CONNECT keep expiry=100
            s < CONNACK success present
        ",
    );
}

/// `[MQTT-4.3.3-6]`: QoS 2: after PUBREL the PUBLISH is not sent again.
/// Nor after a crash.
#[test]
fn the_server_remembers_that_qos_2_was_received() {
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
        s: PUBREC 1
            s < PUBREL 1
        crash
        s: CONNECT keep expiry=100
            s < CONNACK success present
            s < PUBREL 1
        s: PUBCOMP 1
        crash
        s: CONNECT keep expiry=100
            s < CONNACK success present
        ",
    );
}

/// `[MQTT-4.3.3-8]`: QoS 2: the receiver answers with PUBREC once it has taken over the message.
/// `[MQTT-4.3.3-10]`: QoS 2: the same packet id again is answered with PUBREC and not delivered twice.
/// `[MQTT-4.3.3-12]`: QoS 2: after PUBCOMP the same packet id is a new message.
/// And 11, the answer.
#[test]
fn qos_2_comes_from_a_publisher_once() {
    holds_in_both(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE t
            s < SUBACK 1 0
        a: CONNECT keep expiry=100
            a < CONNACK success
        a: PUBLISH t x qos=2 id=9
            a < PUBREC 9
            s < PUBLISH t x
        a: PUBLISH t x qos=2 id=9 dup
            a < PUBREC 9
        a: drop
        a: CONNECT keep expiry=100
            a < CONNACK success present
        a: PUBLISH t x qos=2 id=9 dup
            a < PUBREC 9
        a: PUBREL 9
            a < PUBCOMP 9
        a: PUBLISH t y qos=2 id=9
            a < PUBREC 9
            s < PUBLISH t y
        ",
    );
}

/// `[MQTT-4.3.3-10]`: QoS 2: the same packet id again is answered with PUBREC and not delivered twice.
/// For those who get it later, also when the server has died in between.
#[test]
fn qos_2_is_not_doubled_by_a_crash() {
    holds_in_both(
        "
        s: CONNECT keep expiry=100
            s < CONNACK success
        s: SUBSCRIBE t qos=2
            s < SUBACK 1 2
        s: drop
        a: CONNECT keep expiry=100
            a < CONNACK success
        a: PUBLISH t x qos=2 id=9
            a < PUBREC 9
        crash
        a: CONNECT keep expiry=100
            a < CONNACK success present
        a: PUBLISH t x qos=2 id=9 dup
            a < PUBREC 9
        a: PUBREL 9
            a < PUBCOMP 9
        s: CONNECT keep expiry=100
            s < CONNACK success present
            s < PUBLISH t x qos=2 id=1 dup
        ",
    );
}

/// `[MQTT-4.3.3-7]`: QoS 2: a message that was sent does not expire.
/// `[MQTT-4.3.3-13]`: QoS 2: acknowledgements continue although the message has expired.
#[test]
fn what_was_sent_does_not_expire() {
    holds(
        "
        s: CONNECT keep expiry=100
            s < CONNACK success
        s: SUBSCRIBE t qos=2
            s < SUBACK 1 2
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x qos=2 expiry=1
            a < PUBREC 1
            s < PUBLISH t x qos=2 id=1 expiry=1
        wait 5000
        a: PUBREL 1
            a < PUBCOMP 1
        s: PUBREC 1
            s < PUBREL 1
        s: PUBCOMP 1
        ",
    );
}

/// `[MQTT-4.3.3-9]`: QoS 2: after a PUBREC of 0x80 or more the same packet id is a new message.
/// `[MQTT-4.4.0-2]`: a PUBACK or PUBREC of 0x80 or more ends the delivery.
/// What a subscriber refuses is over.
#[test]
fn a_refusal_ends_the_message() {
    holds(
        "
        s: CONNECT keep expiry=100 recv=1
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
        a: PUBLISH t three qos=2
            a < PUBREC 3
        s: PUBACK 1 0x99
            s < PUBLISH t two qos=2 id=2
        s: PUBREC 2 0x83
            s < PUBLISH t three qos=2 id=3
        s: drop
        s: CONNECT keep expiry=100
            s < CONNACK success present
            s < PUBLISH t three qos=2 id=3 dup
        ",
    );
}

/// `[MQTT-4.4.0-1]`: on reconnecting, and only then, unacknowledged PUBLISH and PUBREL are sent again with their packet
/// ids.
/// Time alone sends nothing again.
#[test]
fn nothing_is_sent_again_on_the_same_connection() {
    holds_in_both(
        "
        s: CONNECT keep expiry=100
            s < CONNACK success
        s: SUBSCRIBE t qos=2
            s < SUBACK 1 2
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t x qos=1
            a < PUBACK 1
            s < PUBLISH t x qos=1 id=1
        a: PUBLISH t y qos=2
            a < PUBREC 2
            s < PUBLISH t y qos=2 id=2
        wait 90000
        ",
    );
}

/// `[MQTT-4.5.0-1]`: a message is added to all sessions with a matching subscription.
/// `[MQTT-4.1.0-1]`: a session is not deleted while its connection is open.
/// Connected or not, on any worker, from any publisher.
#[test]
fn a_message_comes_to_all_who_match() {
    holds_in_both(
        "
        a: CONNECT keep expiry=100
            a < CONNACK success
        a: SUBSCRIBE t qos=1
            a < SUBACK 1 1
        b@1: CONNECT
            b < CONNACK success
        b: SUBSCRIBE + qos=1
            b < SUBACK 1 1
        c@1: CONNECT keep expiry=100
            c < CONNACK success
        c: SUBSCRIBE # qos=1
            c < SUBACK 1 1
        d: CONNECT
            d < CONNACK success
        d: SUBSCRIBE u qos=1
            d < SUBACK 1 1
        c: drop
        a: PUBLISH t x qos=1
            a < PUBLISH t x qos=1 id=1
            a < PUBACK 2
            b < PUBLISH t x qos=1 id=1
        c: CONNECT keep expiry=100
            c < CONNACK success present
            c < PUBLISH t x qos=1 id=1
        ",
    );
}

/// `[MQTT-4.6.0-5]`: messages of one client on an ordered topic are delivered in order.
/// `[MQTT-4.6.0-6]`: every topic is ordered for subscriptions that are not shared.
/// While they are live, three at a time; while they wait; and when they are sent again.
#[test]
fn messages_keep_their_order() {
    for (version, no_properties, length) in [("", " 00", "07"), (" v3", "", "06")] {
        let publish = |number: u8| format!("32 {length} 00 01 74 00 0{number}{no_properties} 3{number}");
        holds(&format!(
            "
            s: CONNECT{version} keep expiry=100
                s < CONNACK success
            s: SUBSCRIBE t qos=2
                s < SUBACK 1 2
            l@1: CONNECT{version}
                l < CONNACK success
            l: SUBSCRIBE t qos=2
                l < SUBACK 1 2
            a: CONNECT{version}
                a < CONNACK success
            a: HEX {} {} {}
                a < PUBACK 1
                a < PUBACK 2
                a < PUBACK 3
                l < PUBLISH t 1 qos=1 id=1
                l < PUBLISH t 2 qos=1 id=2
                l < PUBLISH t 3 qos=1 id=3
                s < PUBLISH t 1 qos=1 id=1
                s < PUBLISH t 2 qos=1 id=2
                s < PUBLISH t 3 qos=1 id=3
            s: PUBACK 2
            s: drop
            a: PUBLISH t 4 qos=1 id=4
                a < PUBACK 4
                l < PUBLISH t 4 qos=1 id=4
            a: PUBLISH t 5 qos=2 id=5
                a < PUBREC 5
                l < PUBLISH t 5 qos=2 id=5
            s: CONNECT{version} keep expiry=100
                s < CONNACK success present
                s < PUBLISH t 1 qos=1 id=1 dup
                s < PUBLISH t 3 qos=1 id=3 dup
                s < PUBLISH t 4 qos=1 id=4
                s < PUBLISH t 5 qos=2 id=5
            ",
            publish(1),
            publish(2),
            publish(3)
        ));
    }
}

/// `[MQTT-4.6.0-5]`: messages of one client on an ordered topic are delivered in order.
/// A retained message goes another way than the next one, which must not overtake it; nor by an alias. Topics of all
/// shards, so of both workers.
#[test]
fn retained_messages_keep_their_order_with_others() {
    for topic in ["74", "75", "76", "77"] {
        let name = char::from(u8::from_str_radix(topic, 16).expect("a letter"));
        let publish = |first: &str, number: u8| format!("{first} 07 00 01 {topic} 00 0{number} 00 3{number}");
        holds(&format!(
            "
            s: CONNECT
                s < CONNACK success
            s: SUBSCRIBE + qos=1
                s < SUBACK 1 1
            o@1: CONNECT
                o < CONNACK success
            o: SUBSCRIBE + qos=1
                o < SUBACK 1 1
            a: CONNECT
                a < CONNACK success
            a: HEX {} {} {} {}
                a < PUBACK 1
                a < PUBACK 2
                a < PUBACK 3
                a < PUBACK 4
                o < PUBLISH {name} 1 qos=1 id=1
                o < PUBLISH {name} 2 qos=1 id=2
                o < PUBLISH {name} 3 qos=1 id=3
                o < PUBLISH {name} 4 qos=1 id=4
                s < PUBLISH {name} 1 qos=1 id=1
                s < PUBLISH {name} 2 qos=1 id=2
                s < PUBLISH {name} 3 qos=1 id=3
                s < PUBLISH {name} 4 qos=1 id=4
            a: HEX 31 08 00 01 {topic} 03 23 00 01 35 30 07 00 00 03 23 00 01 36
                o < PUBLISH {name} 5
                o < PUBLISH {name} 6
                s < PUBLISH {name} 5
                s < PUBLISH {name} 6
            ",
            publish("33", 1),
            publish("32", 2),
            publish("33", 3),
            publish("32", 4)
        ));
    }
}

/// `[MQTT-4.6.0-2]`: the client sends PUBACKs in the order of the messages.
/// `[MQTT-4.6.0-3]`: the client sends PUBRECs in the order of the messages.
/// The server keeps to the order of its answers as well, though one message waits for a disk and the next for none.
#[test]
fn answers_keep_their_order() {
    holds(
        "
        s@1: CONNECT keep expiry=100
            s < CONNACK success
        s: SUBSCRIBE t qos=1
            s < SUBACK 1 1
        s: drop
        a: CONNECT
            a < CONNACK success
        a: HEX 32 07 00 01 74 00 01 00 31 32 07 00 01 75 00 02 00 32 \
               34 07 00 01 75 00 03 00 33 32 07 00 01 74 00 04 00 34
            a < PUBACK 1
            a < PUBACK 2 0x10 no_matching_subscribers
            a < PUBREC 3 0x10 no_matching_subscribers
            a < PUBACK 4
        ",
    );
}
