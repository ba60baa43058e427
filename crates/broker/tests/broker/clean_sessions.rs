//! What happens between clients whose sessions end with their connections.

use crate::support::{World, WorldOptions, check};
use expect_test::expect;

#[test]
fn qos_0_goes_from_one_client_to_another_on_any_worker() {
    check(
        "a: CONNECT
         a: SUBSCRIBE t/#
         b@1: CONNECT v3
         b: SUBSCRIBE t/1 qos=1
         c: CONNECT
         c: PUBLISH t/1 hello
         c: PUBLISH u/1 nobody",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE t/#
                a < SUBACK 1 0
            b@1: CONNECT v3
                b < CONNACK success
            b: SUBSCRIBE t/1 qos=1
                b < SUBACK 1 1
            c: CONNECT
                c < CONNACK success
            c: PUBLISH t/1 hello
                a < PUBLISH t/1 hello
                b < PUBLISH t/1 hello
            c: PUBLISH u/1 nobody
        "#]],
    );
}

#[test]
fn qos_1_is_acknowledged_both_ways() {
    check(
        "a: CONNECT; a: SUBSCRIBE t qos=1; b: CONNECT; b: PUBLISH t one qos=1; a: PUBACK 1; b: PUBLISH t two qos=1
         b: PUBLISH nobody x qos=1",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            b: CONNECT
                b < CONNACK success
            b: PUBLISH t one qos=1
                a < PUBLISH t one qos=1 id=1
                b < PUBACK 1
            a: PUBACK 1
            b: PUBLISH t two qos=1
                a < PUBLISH t two qos=1 id=2
                b < PUBACK 2
            b: PUBLISH nobody x qos=1
                b < PUBACK 3 0x10 no_matching_subscribers
        "#]],
    );
}

#[test]
fn qos_2_takes_four_packets_and_comes_once() {
    check(
        "a: CONNECT; a: SUBSCRIBE t qos=2; b: CONNECT v3
         b: PUBLISH t one qos=2 id=7; b: PUBLISH t one qos=2 id=7 dup; b: PUBREL 7; b: PUBREL 7
         a: PUBREC 1; a: PUBREC 1; a: PUBCOMP 1",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE t qos=2
                a < SUBACK 1 2
            b: CONNECT v3
                b < CONNACK success
            b: PUBLISH t one qos=2 id=7
                a < PUBLISH t one qos=2 id=1
                b < PUBREC 7
            b: PUBLISH t one qos=2 id=7 dup
                b < PUBREC 7
            b: PUBREL 7
                b < PUBCOMP 7
            b: PUBREL 7
                b < PUBCOMP 7
            a: PUBREC 1
                a < PUBREL 1
            a: PUBREC 1
                a < PUBREL 1
            a: PUBCOMP 1
        "#]],
    );
}

/// What is retained for a filter is looked for long after it was granted, if the client takes little.
#[test]
fn what_is_retained_after_a_subscription_is_not_sent_twice() {
    for connect in ["CONNECT", "CONNECT expiry=100"] {
        let mut world = World::new(WorldOptions::default());
        let many: String = (0..300).map(|nth| format!("p: PUBLISH many/{nth} x qos=1 retain;")).collect();
        world.run(&format!("p: CONNECT; {many} p: PUBLISH late old qos=1 retain"));
        world.run(&format!("a: {connect} recv=1; a: SUBSCRIBE many/+ late qos=1"));
        world.run("p: PUBLISH late new qos=1 retain");
        let heard = world.run("a: auto; a: PUBACK 1; wait 100");
        let count = |what: &str| heard.matches(&format!("a < PUBLISH {what}")).count();
        assert_eq!((count("many/"), count("late old"), count("late new")), (299, 0, 1), "{connect}: {heard}");
    }
}

#[test]
fn a_retained_message_greets_a_new_subscription() {
    check(
        "a: CONNECT; a: PUBLISH t/1 first retain; a: PUBLISH t/1 second qos=1 retain; b@1: CONNECT
         b: SUBSCRIBE t/+; b: SUBSCRIBE t/+ rh=1; b: SUBSCRIBE t/+ rh=2; b: SUBSCRIBE t/1 rap sid=5
         a: PUBLISH t/1 third retain; a: PUBLISH t/1 retain; c: CONNECT; c: SUBSCRIBE t/1",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: PUBLISH t/1 first retain
            a: PUBLISH t/1 second qos=1 retain
                a < PUBACK 1
            b@1: CONNECT
                b < CONNACK success
            b: SUBSCRIBE t/+
                b < SUBACK 1 0
                b < PUBLISH t/1 second retain
            b: SUBSCRIBE t/+ rh=1
                b < SUBACK 2 0
            b: SUBSCRIBE t/+ rh=2
                b < SUBACK 3 0
            b: SUBSCRIBE t/1 rap sid=5
                b < SUBACK 4 0
                b < PUBLISH t/1 second retain sid=5
            a: PUBLISH t/1 third retain
                b < PUBLISH t/1 third retain sid=5
            a: PUBLISH t/1 retain
                b < PUBLISH t/1 retain sid=5
            c: CONNECT
                c < CONNACK success
            c: SUBSCRIBE t/1
                c < SUBACK 1 0
        "#]],
    );
}

#[test]
fn a_will_is_sent_unless_its_client_says_goodbye() {
    check(
        "a: CONNECT; a: SUBSCRIBE w/#
         b: CONNECT will=w/b,gone; b: drop
         c: CONNECT v3 will=w/c,gone; c: DISCONNECT
         d: CONNECT will=w/d,gone,qos=1,delay=60; d: DISCONNECT 0x04",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE w/#
                a < SUBACK 1 0
            b: CONNECT will=w/b,gone
                b < CONNACK success
            b: drop
                a < PUBLISH w/b gone
            c: CONNECT v3 will=w/c,gone
                c < CONNACK success
            c: DISCONNECT
                c < closed
            d: CONNECT will=w/d,gone,qos=1,delay=60
                d < CONNACK success
            d: DISCONNECT 0x04
                a < PUBLISH w/d gone
                d < closed
        "#]],
    );
}

#[test]
fn another_connection_of_the_same_client_takes_over() {
    check(
        "a: CONNECT will=w,gone; b: CONNECT; b: SUBSCRIBE w; c: CONNECT id=a; c: PING",
        expect![[r#"
        a: CONNECT will=w,gone
            a < CONNACK success
        b: CONNECT
            b < CONNACK success
        b: SUBSCRIBE w
            b < SUBACK 1 0
        c: CONNECT id=a
            a < DISCONNECT 0x8e session_taken_over
            a < closed
            b < PUBLISH w gone
            c < CONNACK success
        c: PING
            c < PINGRESP
    "#]],
    );
}

#[test]
fn share_groups_take_turns() {
    check(
        "a: CONNECT; a: SUBSCRIBE $share/g/t; b@1: CONNECT; b: SUBSCRIBE $share/g/t $queue/t; c: CONNECT
         c: PUBLISH t 1; c: PUBLISH t 2; c: PUBLISH t 3; b: drop; c: PUBLISH t 4",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE $share/g/t
                a < SUBACK 1 0
            b@1: CONNECT
                b < CONNACK success
            b: SUBSCRIBE $share/g/t $queue/t
                b < SUBACK 1 0 0
            c: CONNECT
                c < CONNACK success
            c: PUBLISH t 1
                a < PUBLISH t 1
                b < PUBLISH t 1
            c: PUBLISH t 2
                b < PUBLISH t 2
                b < PUBLISH t 2
            c: PUBLISH t 3
                a < PUBLISH t 3
                b < PUBLISH t 3
            b: drop
            c: PUBLISH t 4
                a < PUBLISH t 4
        "#]],
    );
}

#[test]
fn overlapping_filters_give_one_copy_with_the_highest_qos() {
    check(
        "a: CONNECT; a: SUBSCRIBE t/# qos=1 sid=1; a: SUBSCRIBE t/1 qos=2 sid=2; a: SUBSCRIBE +/1 nl sid=3
         b@1: CONNECT; b: PUBLISH t/1 x qos=2; a: PUBLISH t/1 own",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE t/# qos=1 sid=1
                a < SUBACK 1 1
            a: SUBSCRIBE t/1 qos=2 sid=2
                a < SUBACK 2 2
            a: SUBSCRIBE +/1 nl sid=3
                a < SUBACK 3 0
            b@1: CONNECT
                b < CONNACK success
            b: PUBLISH t/1 x qos=2
                a < PUBLISH t/1 x qos=2 id=1 sid=1,2,3
                b < PUBREC 1
            a: PUBLISH t/1 own
                a < PUBLISH t/1 own sid=1,2
        "#]],
    );
}

#[test]
fn topic_aliases_both_ways() {
    check(
        "a: CONNECT alias=1; a: SUBSCRIBE #; b: CONNECT
         b: PUBLISH t/1 x alias=3; b: PUBLISH - y alias=3; b: PUBLISH u z; b: PUBLISH - z alias=4
         c: CONNECT; c: PUBLISH t q alias=1000",
        expect![[r#"
            a: CONNECT alias=1
                a < CONNACK success
            a: SUBSCRIBE #
                a < SUBACK 1 0
            b: CONNECT
                b < CONNACK success
            b: PUBLISH t/1 x alias=3
                a < PUBLISH t/1 x alias=1
            b: PUBLISH - y alias=3
                a < PUBLISH - y alias=1
            b: PUBLISH u z
                a < PUBLISH u z
            b: PUBLISH - z alias=4
                b < DISCONNECT 0x82 protocol_error
                b < closed
            c: CONNECT
                c < CONNACK success
            c: PUBLISH t q alias=1000
                c < DISCONNECT 0x94 topic_alias_invalid
                c < closed
        "#]],
    );
}

#[test]
fn who_may_not_is_told() {
    check(
        "a: CONNECT user=nobody; b: CONNECT v3 user=nobody; c: CONNECT method=X; d: CONNECT will=secret/x,y
         e: CONNECT; e: SUBSCRIBE secret/x t; e: PUBLISH secret/x y qos=1; e: PUBLISH secret/x y qos=2
         f: CONNECT v3; f: SUBSCRIBE secret/x t; f: PUBLISH secret/x y qos=1; f: PUBLISH secret/x y qos=2",
        expect![[r#"
            a: CONNECT user=nobody
                a < CONNACK 0x86 bad_user_name_or_password
                a < closed
            b: CONNECT v3 user=nobody
                b < CONNACK 0x86 bad_user_name_or_password
                b < closed
            c: CONNECT method=X
                c < CONNACK 0x8c bad_authentication_method
                c < closed
            d: CONNECT will=secret/x,y
                d < CONNACK 0x87 not_authorized
                d < closed
            e: CONNECT
                e < CONNACK success
            e: SUBSCRIBE secret/x t
                e < SUBACK 1 0x87 not_authorized 0
            e: PUBLISH secret/x y qos=1
                e < PUBACK 2 0x87 not_authorized
            e: PUBLISH secret/x y qos=2
                e < PUBREC 3 0x87 not_authorized
            f: CONNECT v3
                f < CONNACK success
            f: SUBSCRIBE secret/x t
                f < SUBACK 1 0x80 unspecified_error 0
            f: PUBLISH secret/x y qos=1
                f < PUBACK 2
            f: PUBLISH secret/x y qos=2
                f < PUBREC 3
        "#]],
    );
}
