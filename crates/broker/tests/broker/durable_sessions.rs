//! Sessions that outlive their connections, and the process.

use crate::support::{World, WorldOptions, check, check_with};
use expect_test::expect;

#[test]
fn what_was_published_while_a_client_slept_is_there_when_it_wakes() {
    check(
        "a: CONNECT keep expiry=100; a: SUBSCRIBE t/# qos=1 sid=3; a: DISCONNECT; b@1: CONNECT v3
         b: PUBLISH t/1 one qos=1; b: PUBLISH t/2 two qos=2; b: PUBLISH t/3 lost
         a: CONNECT keep expiry=100; a: PUBACK 1; a: drop; a: CONNECT keep expiry=100; a: PUBACK 2",
        expect![[r#"
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE t/# qos=1 sid=3
                a < SUBACK 1 1
            a: DISCONNECT
                a < closed
            b@1: CONNECT v3
                b < CONNACK success
            b: PUBLISH t/1 one qos=1
                b < PUBACK 1
            b: PUBLISH t/2 two qos=2
                b < PUBREC 2
            b: PUBLISH t/3 lost
            a: CONNECT keep expiry=100
                a < CONNACK success present
                a < PUBLISH t/1 one qos=1 id=1 sid=3
                a < PUBLISH t/2 two qos=1 id=2 sid=3
            a: PUBACK 1
            a: drop
            a: CONNECT keep expiry=100
                a < CONNACK success present
                a < PUBLISH t/2 two qos=1 id=2 dup sid=3
            a: PUBACK 2
        "#]],
    );
}

#[test]
fn a_session_survives_the_power() {
    check(
        "a: CONNECT v3 keep; a: SUBSCRIBE t qos=2 u; b: CONNECT; b: PUBLISH t one qos=1; b: PUBLISH t two qos=2
         b: PUBREL 2
         a: PUBREC 2; crash; b@1: CONNECT; b: PUBLISH t three qos=1; a@1: CONNECT v3 keep; a: PUBACK 1; a: PUBCOMP 2
         a: PUBACK 3
         kill; a: CONNECT v3 keep; a: UNSUBSCRIBE t; a: DISCONNECT; a: CONNECT v3; a: CONNECT v3 keep",
        expect![[r#"
            a: CONNECT v3 keep
                a < CONNACK success
            a: SUBSCRIBE t qos=2 u
                a < SUBACK 1 2 2
            b: CONNECT
                b < CONNACK success
            b: PUBLISH t one qos=1
                a < PUBLISH t one qos=1 id=1
                b < PUBACK 1
            b: PUBLISH t two qos=2
                a < PUBLISH t two qos=2 id=2
                b < PUBREC 2
            b: PUBREL 2
                b < PUBCOMP 2
            a: PUBREC 2
                a < PUBREL 2
            crash
            b@1: CONNECT
                b < CONNACK success
            b: PUBLISH t three qos=1
                b < PUBACK 1
            a@1: CONNECT v3 keep
                a < CONNACK success present
                a < PUBLISH t one qos=1 id=1 dup
                a < PUBREL 2
                a < PUBLISH t three qos=1 id=3
            a: PUBACK 1
            a: PUBCOMP 2
            a: PUBACK 3
            kill
            a: CONNECT v3 keep
                a < CONNACK success present
            a: UNSUBSCRIBE t
                a < UNSUBACK 1
            a: DISCONNECT
                a < closed
            a: CONNECT v3
                a < CONNACK success
            a: CONNECT v3 keep
                a < CONNACK success
                a' < closed
        "#]],
    );
}

#[test]
fn qos_2_comes_once_over_a_crash() {
    check(
        "a: CONNECT keep expiry=100; a: SUBSCRIBE t qos=2; b: CONNECT keep expiry=100; b: PUBLISH t once qos=2 id=9
         a: PUBREC 1; a: PUBCOMP 1
         crash; b: CONNECT keep expiry=100; b: PUBLISH t once qos=2 id=9 dup; b: PUBREL 9; b: PUBREL 9
         b: PUBLISH t again qos=2 id=9
         a: CONNECT keep expiry=100",
        expect![[r#"
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE t qos=2
                a < SUBACK 1 2
            b: CONNECT keep expiry=100
                b < CONNACK success
            b: PUBLISH t once qos=2 id=9
                a < PUBLISH t once qos=2 id=1
                b < PUBREC 9
            a: PUBREC 1
                a < PUBREL 1
            a: PUBCOMP 1
            crash
            b: CONNECT keep expiry=100
                b < CONNACK success present
            b: PUBLISH t once qos=2 id=9 dup
                b < PUBREC 9
            b: PUBREL 9
                b < PUBCOMP 9
            b: PUBREL 9
                b < PUBCOMP 9
            b: PUBLISH t again qos=2 id=9
                b < PUBREC 9
            a: CONNECT keep expiry=100
                a < CONNACK success present
                a < PUBLISH t again qos=2 id=2
        "#]],
    );
}

#[test]
fn retained_messages_survive_the_power() {
    check(
        "a: CONNECT; a: PUBLISH t/1 kept qos=1 retain; a: PUBLISH t/2 gone qos=1 retain; a: PUBLISH t/2 qos=1 retain
         crash
         b@1: CONNECT keep expiry=10; b: SUBSCRIBE t/# qos=1",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: PUBLISH t/1 kept qos=1 retain
                a < PUBACK 1
            a: PUBLISH t/2 gone qos=1 retain
                a < PUBACK 2
            a: PUBLISH t/2 qos=1 retain
                a < PUBACK 3
            crash
            b@1: CONNECT keep expiry=10
                b < CONNACK success
            b: SUBSCRIBE t/# qos=1
                b < SUBACK 1 1
                b < PUBLISH t/1 kept qos=1 id=1 retain
        "#]],
    );
}

#[test]
fn sessions_expire() {
    check(
        "a: CONNECT keep expiry=5; a: SUBSCRIBE t qos=1; a: DISCONNECT expiry=2; wait 1000; a: CONNECT keep expiry=2
         a: drop; wait 3000
         b: CONNECT; b: PUBLISH t x qos=1; a: CONNECT keep expiry=5; c: CONNECT; c: DISCONNECT expiry=5",
        expect![[r#"
            a: CONNECT keep expiry=5
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            a: DISCONNECT expiry=2
                a < closed
            wait 1000
            a: CONNECT keep expiry=2
                a < CONNACK success present
            a: drop
            wait 3000
            b: CONNECT
                b < CONNACK success
            b: PUBLISH t x qos=1
                b < PUBACK 1 0x10 no_matching_subscribers
            a: CONNECT keep expiry=5
                a < CONNACK success
            c: CONNECT
                c < CONNACK success
            c: DISCONNECT expiry=5
                c < DISCONNECT 0x82 protocol_error
                c < closed
        "#]],
    );
}

#[test]
fn a_will_waits_for_its_delay_or_the_end_of_the_session() {
    check(
        "w: CONNECT; w: SUBSCRIBE w/#; a: CONNECT keep expiry=100 will=w/a,gone,delay=5,qos=1; a: drop; wait 3000
         a: CONNECT keep expiry=100 will=w/a,again,delay=5; a: drop; wait 5000; wait 5000
         b: CONNECT keep expiry=2 will=w/b,gone,delay=50; b: drop; wait 3000
         c: CONNECT keep expiry=100 will=w/c,now; c: drop; d: CONNECT keep expiry=100 will=w/d,never; d: DISCONNECT
         wait 1000
         e: CONNECT keep expiry=100 will=w/e,gone,delay=50; e: drop; e: CONNECT",
        expect![[r#"
            w: CONNECT
                w < CONNACK success
            w: SUBSCRIBE w/#
                w < SUBACK 1 0
            a: CONNECT keep expiry=100 will=w/a,gone,delay=5,qos=1
                a < CONNACK success
            a: drop
            wait 3000
            a: CONNECT keep expiry=100 will=w/a,again,delay=5
                a < CONNACK success present
            a: drop
            wait 5000
                w < PUBLISH w/a again
            wait 5000
            b: CONNECT keep expiry=2 will=w/b,gone,delay=50
                b < CONNACK success
            b: drop
            wait 3000
                w < PUBLISH w/b gone
            c: CONNECT keep expiry=100 will=w/c,now
                c < CONNACK success
            c: drop
                w < PUBLISH w/c now
            d: CONNECT keep expiry=100 will=w/d,never
                d < CONNACK success
            d: DISCONNECT
                d < closed
            wait 1000
            e: CONNECT keep expiry=100 will=w/e,gone,delay=50
                e < CONNACK success
            e: drop
            e: CONNECT
                e < CONNACK success
                w < PUBLISH w/e gone
        "#]],
    );
}

#[test]
fn wills_are_sent_after_a_crash() {
    check(
        "w: CONNECT keep expiry=100; w: SUBSCRIBE w qos=2; a: CONNECT keep expiry=100 will=w,gone,qos=2,delay=3
         b: CONNECT keep expiry=0 will=w,never; crash
         wait 4000; w: CONNECT keep expiry=100; w: auto; crash; wait 4000; w: CONNECT keep expiry=100",
        expect![[r#"
            w: CONNECT keep expiry=100
                w < CONNACK success
            w: SUBSCRIBE w qos=2
                w < SUBACK 1 2
            a: CONNECT keep expiry=100 will=w,gone,qos=2,delay=3
                a < CONNACK success
            b: CONNECT keep expiry=0 will=w,never
                b < CONNACK success
            crash
            wait 4000
            w: CONNECT keep expiry=100
                w < CONNACK success present
                w < PUBLISH w gone qos=2 id=1
            w: auto
            crash
            wait 4000
            w: CONNECT keep expiry=100
                w < CONNACK success present
                w < PUBLISH w gone qos=2 id=1 dup
        "#]],
    );
}

#[test]
fn a_live_durable_session_is_sent_at_once_and_taken_over_with_what_is_in_flight() {
    check(
        "a: CONNECT keep expiry=100 recv=2; a: SUBSCRIBE t qos=2; b@1: CONNECT; b: PUBLISH t 1 qos=1
         b: PUBLISH t 2 qos=2; b: PUBLISH t 3 qos=1
         a: PUBREC 2; x: CONNECT id=a keep expiry=100; x: PUBACK 1; x: PUBCOMP 2; x: PUBACK 3
         y: CONNECT id=a expiry=100; y: PING",
        expect![[r#"
            a: CONNECT keep expiry=100 recv=2
                a < CONNACK success
            a: SUBSCRIBE t qos=2
                a < SUBACK 1 2
            b@1: CONNECT
                b < CONNACK success
            b: PUBLISH t 1 qos=1
                a < PUBLISH t 1 qos=1 id=1
                b < PUBACK 1
            b: PUBLISH t 2 qos=2
                a < PUBLISH t 2 qos=2 id=2
                b < PUBREC 2
            b: PUBLISH t 3 qos=1
                b < PUBACK 3
            a: PUBREC 2
                a < PUBREL 2
            x: CONNECT id=a keep expiry=100
                a < DISCONNECT 0x8e session_taken_over
                a < closed
                x < CONNACK success present
                x < PUBLISH t 1 qos=1 id=1 dup
                x < PUBREL 2
                x < PUBLISH t 3 qos=1 id=3
            x: PUBACK 1
            x: PUBCOMP 2
            x: PUBACK 3
            y: CONNECT id=a expiry=100
                x < DISCONNECT 0x8e session_taken_over
                x < closed
                y < CONNACK success
            y: PING
                y < PINGRESP
        "#]],
    );
}

#[test]
fn a_full_inbox_follows_its_policy() {
    let mut options = WorldOptions::default();
    options.inboxes.messages_max = 2;
    check_with(
        options,
        "a: CONNECT keep expiry=100; a: SUBSCRIBE t qos=1; a: drop; b: CONNECT; b: PUBLISH t 1 qos=1
         b: PUBLISH t 2 qos=1; b: PUBLISH t 3 qos=1
         a: CONNECT keep expiry=100",
        expect![[r#"
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            a: drop
            b: CONNECT
                b < CONNACK success
            b: PUBLISH t 1 qos=1
                b < PUBACK 1
            b: PUBLISH t 2 qos=1
                b < PUBACK 2
            b: PUBLISH t 3 qos=1
                b < PUBACK 3
            a: CONNECT keep expiry=100
                a < CONNACK success present
                a < PUBLISH t 2 qos=1 id=2
                a < PUBLISH t 3 qos=1 id=3
        "#]],
    );
}

#[test]
fn a_delayed_message_survives_the_power_and_comes_once() {
    check(
        "a: CONNECT keep expiry=100; a: SUBSCRIBE t qos=1; b: CONNECT; b: PUBLISH $delayed/3/t later qos=1; crash
         wait 2000
         a: CONNECT keep expiry=100; wait 2000; a: PUBACK 1; crash; wait 4000; a: CONNECT keep expiry=100",
        expect![[r#"
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            b: CONNECT
                b < CONNACK success
            b: PUBLISH $delayed/3/t later qos=1
                b < PUBACK 1
            crash
            wait 2000
            a: CONNECT keep expiry=100
                a < CONNACK success present
            wait 2000
                a < PUBLISH t later qos=1 id=1
            a: PUBACK 1
            crash
            wait 4000
            a: CONNECT keep expiry=100
                a < CONNACK success present
        "#]],
    );
}

/// Some of the sessions, of the topics and of the wills are each worker's.
#[test]
fn what_falls_due_while_the_server_is_down_reaches_the_sessions_of_all_workers() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let all = |words: &str| names.map(|name| format!("{name}: {words}")).join("; ");
    let mut world = World::new(WorldOptions::default());
    world.run(&all("CONNECT keep expiry=100"));
    world.run(&all("SUBSCRIBE t/# qos=1"));
    world.run(&all("drop"));
    world.run("p: CONNECT; p: PUBLISH $delayed/3/t/1 one qos=1; p: PUBLISH $delayed/3/t/2 two qos=1");
    for (name, n) in ["v", "w", "x", "y"].into_iter().zip(3..) {
        world.run(&format!("{name}: CONNECT keep expiry=100 will=t/{n},gone,qos=1,delay=3; {name}: drop"));
    }
    world.run("kill 4000");
    for name in names {
        let told = world.run(&format!("{name}: CONNECT keep expiry=100"));
        for topic in 1..=6 {
            assert!(told.contains(&format!("PUBLISH t/{topic} ")), "{name} has heard nothing of t/{topic}: {told}");
        }
    }
}

#[test]
fn connections_that_hurry_each_other_end_well() {
    check(
        "a: CONNECT keep expiry=100; a: SUBSCRIBE t; a: HURRY 3; a: PING",
        expect![[r#"
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE t
                a < SUBACK 1 0
            a: HURRY 3
                a < CONNACK success present
                a-1 < DISCONNECT 0x8e session_taken_over
                a-1 < closed
                a-2 < closed
                a-3 < closed
            a: PING
                a < PINGRESP
        "#]],
    );
}

#[test]
fn a_packet_id_that_a_crash_left_behind_is_free_after_its_release() {
    check(
        "a: CONNECT keep expiry=100; a: SUBSCRIBE t qos=1; b: CONNECT keep expiry=100; b: PUBLISH t old qos=2 id=9
         a: PUBACK 1; crash
         a: CONNECT keep expiry=100; a: UNSUBSCRIBE t; b: CONNECT keep expiry=100; b: PUBLISH t old qos=2 id=9 dup
         b: PUBREL 9
         a: SUBSCRIBE t qos=1; b: PUBLISH t new qos=2 id=9",
        expect![[r#"
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            b: CONNECT keep expiry=100
                b < CONNACK success
            b: PUBLISH t old qos=2 id=9
                a < PUBLISH t old qos=1 id=1
                b < PUBREC 9
            a: PUBACK 1
            crash
            a: CONNECT keep expiry=100
                a < CONNACK success present
            a: UNSUBSCRIBE t
                a < UNSUBACK 1 0
            b: CONNECT keep expiry=100
                b < CONNACK success present
            b: PUBLISH t old qos=2 id=9 dup
                b < PUBREC 9 0x10 no_matching_subscribers
            b: PUBREL 9
                b < PUBCOMP 9
            a: SUBSCRIBE t qos=1
                a < SUBACK 2 1
            b: PUBLISH t new qos=2 id=9
                a < PUBLISH t new qos=1 id=2
                b < PUBREC 9
        "#]],
    );
}

/// A process that ended between the record and PUBREC: what is delayed is delayed once, and comes once.
#[test]
fn a_delayed_message_of_qos_2_that_is_sent_again_comes_once() {
    check(
        "s: CONNECT keep expiry=100; s: SUBSCRIBE t qos=2; s: auto; p@1: CONNECT keep expiry=100
         p: PUBLISH $delayed/5/t later qos=2 id=7; kill; p@1: CONNECT keep expiry=100
         p: PUBLISH $delayed/5/t later qos=2 id=7 dup
         p: PUBREL 7; p: PUBLISH $delayed/5/t another qos=2 id=7; s: CONNECT keep expiry=100; s: auto; wait 6000",
        expect![[r#"
            s: CONNECT keep expiry=100
                s < CONNACK success
            s: SUBSCRIBE t qos=2
                s < SUBACK 1 2
            s: auto
            p@1: CONNECT keep expiry=100
                p < CONNACK success
            p: PUBLISH $delayed/5/t later qos=2 id=7
                p < PUBREC 7
            kill
            p@1: CONNECT keep expiry=100
                p < CONNACK success present
            p: PUBLISH $delayed/5/t later qos=2 id=7 dup
                p < PUBREC 7
            p: PUBREL 7
                p < PUBCOMP 7
            p: PUBLISH $delayed/5/t another qos=2 id=7
                p < PUBREC 7
            s: CONNECT keep expiry=100
                s < CONNACK success present
            s: auto
            wait 6000
                s < PUBLISH t later qos=2 id=1
                s < PUBLISH t another qos=2 id=2
                s < PUBREL 1
                s < PUBREL 2
        "#]],
    );
}
