//! Topics that lead to queues behind the broker.

use crate::support::{World, WorldOptions, check};
use expect_test::expect;

#[test]
fn a_send_is_acknowledged_when_the_queue_has_it() {
    check(
        "queues slow; a: CONNECT; a: PUBLISH $to/jobs qos=1 up=lang=en one; a: PUBLISH $to/jobs qos=2 id=9 two
         a: PUBLISH $to/jobs qos=2 id=9 dup two; queues fast; a: PUBLISH $to/jobs qos=2 id=9 dup two; a: PUBREL 9
         a: PUBLISH $to/jobs qos=2 id=9 three",
        expect![[r#"
            queues slow
            a: CONNECT
                a < CONNACK success
            a: PUBLISH $to/jobs qos=1 up=lang=en one
            a: PUBLISH $to/jobs qos=2 id=9 two
            a: PUBLISH $to/jobs qos=2 id=9 dup two
            queues fast
                a < PUBACK 1
                a < PUBREC 9
                queues < jobs takes one, 11 bytes of properties
                queues < jobs takes two, 0 bytes of properties
            a: PUBLISH $to/jobs qos=2 id=9 dup two
                a < PUBREC 9
            a: PUBREL 9
                a < PUBCOMP 9
            a: PUBLISH $to/jobs qos=2 id=9 three
                a < PUBREC 9
                queues < jobs takes three, 0 bytes of properties
        "#]],
    );
}

#[test]
fn what_no_queue_takes_is_refused() {
    check(
        "a: CONNECT why; a: PUBLISH $to/jobs zero; a: PUBLISH $to/jobs qos=1 toomuch
         a: PUBLISH $to/jobs qos=2 id=7 toomuch; a: PUBLISH $to/jobs qos=2 id=7 little
         a: PUBLISH $to/other qos=1 x; a: PUBLISH $to/secret qos=1 x; a: PUBLISH $from/jobs qos=1 x
         a: PUBLISH $delayed/1/$to/jobs qos=1 x; b: CONNECT v3; b: PUBLISH $to/secret qos=1 x
         c: CONNECT v3; c: PUBLISH $to/jobs qos=1 toomuch; d: CONNECT v3; d: PUBLISH $to/jobs qos=1 retain x
         e: CONNECT will=$to/jobs,gone; f: CONNECT will=$from/jobs,gone; g: CONNECT; g: PUBLISH $to/jobs qos=1 retain x
         operate publish $to/jobs x; operate publish $from/jobs x",
        expect![[r#"
            a: CONNECT why
                a < CONNACK success
            a: PUBLISH $to/jobs zero
            a: PUBLISH $to/jobs qos=1 toomuch
                a < PUBACK 1 0x97 quota_exceeded why=the queue is full
            a: PUBLISH $to/jobs qos=2 id=7 toomuch
                a < PUBREC 7 0x97 quota_exceeded why=the queue is full
            a: PUBLISH $to/jobs qos=2 id=7 little
                a < PUBREC 7
                queues < jobs takes little, 0 bytes of properties
            a: PUBLISH $to/other qos=1 x
                a < PUBACK 2 0x90 topic_name_invalid why=there is no such queue to send to
            a: PUBLISH $to/secret qos=1 x
                a < PUBACK 3 0x87 not_authorized why=no right to publish on this topic
            a: PUBLISH $from/jobs qos=1 x
                a < PUBACK 4 0x87 not_authorized why=no right to publish on this topic
            a: PUBLISH $delayed/1/$to/jobs qos=1 x
                a < PUBACK 5 0x90 topic_name_invalid why=after $delayed/ come seconds, a slash and a topic
            b: CONNECT v3
                b < CONNACK success
            b: PUBLISH $to/secret qos=1 x
                b < closed
            c: CONNECT v3
                c < CONNACK success
            c: PUBLISH $to/jobs qos=1 toomuch
                c < closed
            d: CONNECT v3
                d < CONNACK success
            d: PUBLISH $to/jobs qos=1 retain x
                d < closed
            e: CONNECT will=$to/jobs,gone
                e < CONNACK 0x90 topic_name_invalid
                e < closed
            f: CONNECT will=$from/jobs,gone
                f < CONNACK 0x90 topic_name_invalid
                f < closed
            g: CONNECT
                g < CONNACK success
            g: PUBLISH $to/jobs qos=1 retain x
                g < PUBACK 1 0x83 implementation_specific_error
            operate publish $to/jobs x
                operator < Refused(0x90 topic_name_invalid)
            operate publish $from/jobs x
                operator < Refused(0x90 topic_name_invalid)
        "#]],
    );
}

#[test]
fn receivers_share_a_queue_and_no_wildcard_reaches_it() {
    check(
        "a: CONNECT recv=2; a: SUBSCRIBE $from/jobs qos=2 sid=5; d: CONNECT id=a4 v3; d: SUBSCRIBE $from/jobs qos=1
         c: CONNECT; c: SUBSCRIBE # qos=1; s: CONNECT; s: PUBLISH $to/jobs qos=1 one; s: PUBLISH $to/jobs qos=1 two
         s: PUBLISH $to/jobs qos=1 three; s: PUBLISH $to/jobs qos=1 four; s: PUBLISH $to/jobs qos=1 five
         a: PUBACK 2 0x83; a: PUBACK 1; a: PUBACK 1; d: PUBACK 1; s: PUBLISH x qos=1 ordinary; c: PUBACK 1",
        expect![[r#"
            a: CONNECT recv=2
                a < CONNACK success
            a: SUBSCRIBE $from/jobs qos=2 sid=5
                a < SUBACK 1 1
            d: CONNECT id=a4 v3
                d < CONNACK success
            d: SUBSCRIBE $from/jobs qos=1
                d < SUBACK 1 1
            c: CONNECT
                c < CONNACK success
            c: SUBSCRIBE # qos=1
                c < SUBACK 1 1
            s: CONNECT
                s < CONNACK success
            s: PUBLISH $to/jobs qos=1 one
                a < PUBLISH $from/jobs one qos=1 id=1 sid=5
                queues < jobs takes one, 0 bytes of properties
                s < PUBACK 1
            s: PUBLISH $to/jobs qos=1 two
                d < PUBLISH $from/jobs two qos=1 id=1
                queues < jobs takes two, 0 bytes of properties
                s < PUBACK 2
            s: PUBLISH $to/jobs qos=1 three
                a < PUBLISH $from/jobs three qos=1 id=2 sid=5
                queues < jobs takes three, 0 bytes of properties
                s < PUBACK 3
            s: PUBLISH $to/jobs qos=1 four
                d < PUBLISH $from/jobs four qos=1 id=2
                queues < jobs takes four, 0 bytes of properties
                s < PUBACK 4
            s: PUBLISH $to/jobs qos=1 five
                d < PUBLISH $from/jobs five qos=1 id=3
                queues < jobs takes five, 0 bytes of properties
                s < PUBACK 5
            a: PUBACK 2 0x83
                a < PUBLISH $from/jobs three qos=1 id=3 sid=5
                queues < jobs has three rejected by a with 0x83
            a: PUBACK 1
                queues < jobs has one acknowledged by a
            a: PUBACK 1
            d: PUBACK 1
                queues < jobs has two acknowledged by a4
            s: PUBLISH x qos=1 ordinary
                c < PUBLISH x ordinary qos=1 id=1
                s < PUBACK 6
            c: PUBACK 1
        "#]],
    );
}

#[test]
fn filters_that_name_no_queue_are_refused() {
    check(
        "a: CONNECT; a: SUBSCRIBE $from/jobs; a: SUBSCRIBE $from/# qos=1; a: SUBSCRIBE $from/+ qos=1
         a: SUBSCRIBE $share/g/$from/jobs qos=1; b: CONNECT v3; b: SUBSCRIBE $from/jobs
         c: CONNECT why; c: SUBSCRIBE $from/other qos=1; c: SUBSCRIBE qos=1 $from/jobs x $from/other $from/more",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE $from/jobs
                a < SUBACK 1 0x83 implementation_specific_error
            a: SUBSCRIBE $from/# qos=1
                a < SUBACK 2 0x8f topic_filter_invalid
            a: SUBSCRIBE $from/+ qos=1
                a < SUBACK 3 0x8f topic_filter_invalid
            a: SUBSCRIBE $share/g/$from/jobs qos=1
                a < SUBACK 4 0x9e shared_subscriptions_not_supported
            b: CONNECT v3
                b < CONNACK success
            b: SUBSCRIBE $from/jobs
                b < SUBACK 1 0x80 unspecified_error
            c: CONNECT why
                c < CONNACK success
            c: SUBSCRIBE $from/other qos=1
                c < SUBACK 1 0x8f topic_filter_invalid why=there is no such queue
            c: SUBSCRIBE qos=1 $from/jobs x $from/other $from/more
                c < SUBACK 2 1 1 0x8f topic_filter_invalid 1 why=there is no such queue
        "#]],
    );
}

/// The longer texts of the refusals above.
#[test]
fn a_refusal_says_what_is_wrong() {
    let connect =
        "topic_name_invalid why=the topic of the will is none, too deep to be retained, or for requests or queues";
    let retained = "implementation_specific_error why=what is sent to a queue is kept there until it is acknowledged: \
                    publish it without RETAIN";
    let qos_0 = "implementation_specific_error why=what is received from a queue is to be acknowledged: \
                 subscribe with QoS 1";
    let wildcard = "topic_filter_invalid why=a filter that is none, or one with wildcards that may have none";
    let shared = "shared_subscriptions_not_supported why=what is read from a place of one's own, or from a queue, \
                  has no share groups";
    let mut world = World::new(WorldOptions::default());
    world.run("a: CONNECT why");
    for (command, refusal) in [
        ("a: PUBLISH $to/jobs qos=1 retain x", format!("a < PUBACK 1 0x83 {retained}\n")),
        ("a: SUBSCRIBE $from/jobs", format!("a < SUBACK 2 0x83 {qos_0}\n")),
        ("a: SUBSCRIBE $from/# qos=1", format!("a < SUBACK 3 0x8f {wildcard}\n")),
        ("a: SUBSCRIBE $from/+ qos=1", format!("a < SUBACK 4 0x8f {wildcard}\n")),
        ("a: SUBSCRIBE $share/g/$from/jobs qos=1", format!("a < SUBACK 5 0x9e {shared}\n")),
        ("b: CONNECT why will=$to/jobs,gone", format!("b < CONNACK 0x90 {connect}\n")),
        ("c: CONNECT why will=$from/jobs,gone", format!("c < CONNACK 0x90 {connect}\n")),
    ] {
        let heard = world.run(command);
        assert!(heard.contains(&refusal), "{heard}");
    }
}

#[test]
fn who_goes_away_gives_back_what_was_not_acknowledged() {
    check(
        "a: CONNECT keep expiry=100; a: SUBSCRIBE $from/jobs qos=1; s: CONNECT; s: PUBLISH $to/jobs qos=1 one
         s: PUBLISH $to/jobs qos=1 two; s: PUBLISH $to/jobs qos=1 three; a: PUBACK 2; a: drop; b: CONNECT recv=1
         b: SUBSCRIBE $from/jobs qos=1; a: CONNECT keep expiry=100; a: PUBACK 1; b: drop
         kill; a: CONNECT keep expiry=100; a: DISCONNECT",
        expect![[r#"
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE $from/jobs qos=1
                a < SUBACK 1 1
            s: CONNECT
                s < CONNACK success
            s: PUBLISH $to/jobs qos=1 one
                a < PUBLISH $from/jobs one qos=1 id=10499
                queues < jobs takes one, 0 bytes of properties
                s < PUBACK 1
            s: PUBLISH $to/jobs qos=1 two
                a < PUBLISH $from/jobs two qos=1 id=10500
                queues < jobs takes two, 0 bytes of properties
                s < PUBACK 2
            s: PUBLISH $to/jobs qos=1 three
                a < PUBLISH $from/jobs three qos=1 id=10501
                queues < jobs takes three, 0 bytes of properties
                s < PUBACK 3
            a: PUBACK 2
            a: drop
                queues < jobs has back three
                queues < jobs has back two
                queues < jobs has back one
            b: CONNECT recv=1
                b < CONNACK success
            b: SUBSCRIBE $from/jobs qos=1
                b < SUBACK 1 1
                b < PUBLISH $from/jobs one qos=1 id=1
            a: CONNECT keep expiry=100
                a < CONNACK success present
                a < PUBLISH $from/jobs two qos=1 id=10502
                a < PUBLISH $from/jobs three qos=1 id=10503
            a: PUBACK 1
            b: drop
                a < PUBLISH $from/jobs one qos=1 id=10504
                queues < jobs has back one
            kill
            a: CONNECT keep expiry=100
                a < CONNACK success present
                a < PUBLISH $from/jobs two qos=1 id=52719
                a < PUBLISH $from/jobs three qos=1 id=52720
                a < PUBLISH $from/jobs one qos=1 id=52721
            a: DISCONNECT
                a < closed
                queues < jobs has back one
                queues < jobs has back three
                queues < jobs has back two
        "#]],
    );
}

#[test]
fn who_unsubscribes_may_still_acknowledge() {
    check(
        "s: CONNECT; s: PUBLISH $to/jobs qos=1 one; s: PUBLISH $to/jobs qos=1 two; a: CONNECT recv=1
         a: SUBSCRIBE $from/jobs qos=1; a: UNSUBSCRIBE $from/jobs; b: CONNECT; b: SUBSCRIBE $from/jobs qos=1
         a: PUBACK 1; a: SUBSCRIBE $from/jobs qos=1; b: drop; a: PUBACK 2",
        expect![[r#"
            s: CONNECT
                s < CONNACK success
            s: PUBLISH $to/jobs qos=1 one
                queues < jobs takes one, 0 bytes of properties
                s < PUBACK 1
            s: PUBLISH $to/jobs qos=1 two
                queues < jobs takes two, 0 bytes of properties
                s < PUBACK 2
            a: CONNECT recv=1
                a < CONNACK success
            a: SUBSCRIBE $from/jobs qos=1
                a < SUBACK 1 1
                a < PUBLISH $from/jobs one qos=1 id=1
            a: UNSUBSCRIBE $from/jobs
                a < UNSUBACK 2 0
            b: CONNECT
                b < CONNACK success
            b: SUBSCRIBE $from/jobs qos=1
                b < SUBACK 1 1
                b < PUBLISH $from/jobs two qos=1 id=1
            a: PUBACK 1
                queues < jobs has one acknowledged by a
            a: SUBSCRIBE $from/jobs qos=1
                a < SUBACK 3 1
            b: drop
                a < PUBLISH $from/jobs two qos=1 id=2
                queues < jobs has back two
            a: PUBACK 2
                queues < jobs has two acknowledged by a
        "#]],
    );
}

#[test]
fn a_message_that_a_client_does_not_take_stays_with_the_queue() {
    check(
        "s: CONNECT; s: PUBLISH $to/jobs qos=1 0123456789012345678901234567890123456789; a: CONNECT max=50
         b: CONNECT; a: SUBSCRIBE qos=1 $from/more; s: PUBLISH $to/more qos=1 short; a: PUBACK 1
         s: PUBLISH $to/more qos=1 0123456789012345678901234567890123456789; b: SUBSCRIBE qos=1 $from/more",
        expect![[r#"
            s: CONNECT
                s < CONNACK success
            s: PUBLISH $to/jobs qos=1 0123456789012345678901234567890123456789
                queues < jobs takes 0123456789012345678901234567890123456789, 0 bytes of properties
                s < PUBACK 1
            a: CONNECT max=50
                a < CONNACK success
            b: CONNECT
                b < CONNACK success
            a: SUBSCRIBE qos=1 $from/more
                a < SUBACK 1 1
            s: PUBLISH $to/more qos=1 short
                a < PUBLISH $from/more short qos=1 id=1
                queues < more takes short, 0 bytes of properties
                s < PUBACK 2
            a: PUBACK 1
                queues < more has short acknowledged by a
            s: PUBLISH $to/more qos=1 0123456789012345678901234567890123456789
                queues < more takes 0123456789012345678901234567890123456789, 0 bytes of properties
                queues < more has 0123456789012345678901234567890123456789 rejected by a with 0x95
                s < PUBACK 3
            b: SUBSCRIBE qos=1 $from/more
                b < SUBACK 1 1
        "#]],
    );
}

#[test]
fn who_has_no_right_any_more_receives_no_more() {
    check(
        "a: CONNECT keep expiry=100; a: SUBSCRIBE qos=1 $from/jobs $from/more; s: CONNECT; s: PUBLISH $to/more qos=1 one
         reload; s: PUBLISH $to/more qos=1 two; a: CONNECT keep expiry=100; s: PUBLISH $to/jobs qos=1 three",
        expect![[r#"
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE qos=1 $from/jobs $from/more
                a < SUBACK 1 1 1
            s: CONNECT
                s < CONNACK success
            s: PUBLISH $to/more qos=1 one
                a < PUBLISH $from/more one qos=1 id=10499
                queues < more takes one, 0 bytes of properties
                s < PUBACK 1
            reload
                a < DISCONNECT 0x87 not_authorized
                a < closed
                queues < more has back one
            s: PUBLISH $to/more qos=1 two
                queues < more takes two, 0 bytes of properties
                s < PUBACK 2
            a: CONNECT keep expiry=100
                a < CONNACK success present
            s: PUBLISH $to/jobs qos=1 three
                a < PUBLISH $from/jobs three qos=1 id=10500
                queues < jobs takes three, 0 bytes of properties
                s < PUBACK 3
        "#]],
    );
}

/// The ids of the inbox and those of queues do not meet, and the client's Receive Maximum is that of both.
#[test]
fn a_durable_session_has_an_inbox_and_queues() {
    check(
        "a: CONNECT keep expiry=100 recv=2; a: SUBSCRIBE qos=1 x $from/jobs; s: CONNECT; s: PUBLISH $to/jobs qos=1 one
         s: PUBLISH $to/jobs qos=1 two; s: PUBLISH x qos=1 ordinary; a: PUBACK 1; a: PUBACK 8194; a: PUBACK 2",
        expect![[r#"
            a: CONNECT keep expiry=100 recv=2
                a < CONNACK success
            a: SUBSCRIBE qos=1 x $from/jobs
                a < SUBACK 1 1 1
            s: CONNECT
                s < CONNACK success
            s: PUBLISH $to/jobs qos=1 one
                a < PUBLISH $from/jobs one qos=1 id=10499
                queues < jobs takes one, 0 bytes of properties
                s < PUBACK 1
            s: PUBLISH $to/jobs qos=1 two
                a < PUBLISH $from/jobs two qos=1 id=10500
                queues < jobs takes two, 0 bytes of properties
                s < PUBACK 2
            s: PUBLISH x qos=1 ordinary
                s < PUBACK 3
            a: PUBACK 1
            a: PUBACK 8194
            a: PUBACK 2
        "#]],
    );
}

/// Packet ids of queues go around, over all sessions, and meet none that is in use.
#[test]
fn packet_ids_of_queues_go_around() {
    let mut world = World::new(WorldOptions::default());
    world.run("a: CONNECT keep expiry=100; a: SUBSCRIBE qos=1 $from/more; s: CONNECT");
    let heard = world.run("s: PUBLISH $to/more qos=1 held");
    let held: u16 = heard.split("id=").nth(1).and_then(|rest| rest.lines().next()).unwrap().parse().unwrap();
    world.run("a: SUBSCRIBE qos=1 $from/jobs");
    let mut last = held;
    for nth in 0..60_000 {
        let heard = world.run(&format!("s: PUBLISH $to/jobs qos=1 id=1 m{nth}"));
        let id: u16 = heard.split("id=").nth(2).and_then(|rest| rest.lines().next()).unwrap().parse().unwrap();
        assert!(id != held && id != last, "{heard}");
        last = id;
        let heard = world.run(&format!("a: PUBACK {id}"));
        assert!(heard.contains(&format!("m{nth} acknowledged by a")), "{heard}");
    }
    assert!(world.run(&format!("a: PUBACK {held}")).contains("held acknowledged by a"));
}
