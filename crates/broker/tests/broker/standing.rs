//! What a subscription and a connection stand for, and until when: nothing after UNSUBACK, everything before it, a
//! Receive Maximum for each connection, a keep alive only for who can be heard.

use expect_test::expect;
use tidegate_broker::BrokerLimits;
use tidegate_machines::topic::{InboxLimits, InboxPolicy};

use crate::support::{World, WorldOptions, check, check_with};

fn limited(limits: BrokerLimits) -> WorldOptions {
    WorldOptions { limits: BrokerLimits { sys_interval_ms: 0, ..limits }, ..WorldOptions::default() }
}

/// What comes after UNSUBACK, when one message is under way and others wait.
fn after_unsuback(connect: &str, before: &str) -> String {
    let mut world = World::new(WorldOptions::default());
    world.run("p: CONNECT");
    world.run(before);
    world.run(&format!("a: {connect} recv=1; a: SUBSCRIBE t/# qos=1"));
    world.run("p: PUBLISH t/1 live qos=1; p: PUBLISH t/2 live qos=1; p: PUBLISH t/3 live qos=1");
    let unsuback = world.run("a: UNSUBSCRIBE t/#");
    assert!(unsuback.contains("a < UNSUBACK"), "{unsuback}");
    let heard = world.run("a: auto; a: PUBACK 1; wait 100");
    heard.lines().filter(|line| line.contains("PUBLISH")).collect()
}

#[test]
fn nothing_that_waited_comes_after_unsuback() {
    assert_eq!(after_unsuback("CONNECT", ""), "");
    assert_eq!(after_unsuback("CONNECT expiry=100", ""), "");
}

#[test]
fn no_retained_message_comes_after_unsuback() {
    let retained: String = (0..300).map(|nth| format!("p: PUBLISH t/{nth} kept qos=1 retain;")).collect();
    assert_eq!(after_unsuback("CONNECT", &retained), "");
    assert_eq!(after_unsuback("CONNECT expiry=100", &retained), "");
}

#[test]
fn nothing_that_another_worker_had_matched_comes_after_unsuback() {
    let mut world = World::new(WorldOptions::default());
    let worker =
        |world: &mut World, client: &str| world.run(&format!("{client}: CONNECT; {client}: SUBSCRIBE t qos=1"));
    // Of some clients the session lives on the other worker.
    let clients: Vec<String> = (0..8).map(|nth| format!("c{nth}")).collect();
    clients.iter().for_each(|client| drop(worker(&mut world, client)));
    world.run("p: CONNECT; q: CONNECT; r: CONNECT; u: CONNECT");
    ["p", "q", "r", "u"].iter().for_each(|name| world.hand_over(&format!("{name}: PUBLISH t late")));
    clients.iter().for_each(|client| world.hand_over(&format!("{client}: UNSUBSCRIBE t")));
    let heard = world.run("wait 100");
    for client in clients {
        let of_client = |line: &&str| line.trim().starts_with(&format!("{client} <"));
        let after = heard.lines().filter(of_client).skip_while(|line| !line.contains("UNSUBACK"));
        assert_eq!(after.filter(|line| line.contains("PUBLISH")).count(), 0, "{client}: {heard}");
    }
}

#[test]
fn what_is_under_way_is_completed_after_unsuback() {
    check(
        "a: CONNECT expiry=100; a: SUBSCRIBE t qos=2; p: CONNECT; p: PUBLISH t x qos=2; a: UNSUBSCRIBE t; a: drop
         a: CONNECT keep expiry=100; a: PUBREC 1; a: PUBCOMP 1",
        expect![[r#"
            a: CONNECT expiry=100
                a < CONNACK success
            a: SUBSCRIBE t qos=2
                a < SUBACK 1 2
            p: CONNECT
                p < CONNACK success
            p: PUBLISH t x qos=2
                a < PUBLISH t x qos=2 id=1
                p < PUBREC 1
            a: UNSUBSCRIBE t
                a < UNSUBACK 2 0
            a: drop
            a: CONNECT keep expiry=100
                a < CONNACK success present
                a < PUBLISH t x qos=2 id=1 dup
            a: PUBREC 1
                a < PUBREL 1
            a: PUBCOMP 1
        "#]],
    );
}

#[test]
fn each_connection_has_its_own_receive_maximum() {
    let options = limited(BrokerLimits { receive_maximum: 2, ..BrokerLimits::default() });
    check_with(
        options,
        "a: CONNECT expiry=100; a: PUBLISH t 1 qos=2 id=1; a: PUBLISH t 2 qos=2 id=2; a: drop
         a: CONNECT keep expiry=100; a: PUBLISH t 3 qos=2 id=3; a: PUBLISH t 4 qos=2 id=4; a: PUBREL 3
         a: PUBLISH t 1 qos=2 id=1 dup; a: PUBLISH t 5 qos=2 id=5",
        expect![[r#"
            a: CONNECT expiry=100
                a < CONNACK success
            a: PUBLISH t 1 qos=2 id=1
                a < PUBREC 1 0x10 no_matching_subscribers
            a: PUBLISH t 2 qos=2 id=2
                a < PUBREC 2 0x10 no_matching_subscribers
            a: drop
            a: CONNECT keep expiry=100
                a < CONNACK success present
            a: PUBLISH t 3 qos=2 id=3
                a < PUBREC 3 0x10 no_matching_subscribers
            a: PUBLISH t 4 qos=2 id=4
                a < PUBREC 4 0x10 no_matching_subscribers
            a: PUBREL 3
                a < PUBCOMP 3
            a: PUBLISH t 1 qos=2 id=1 dup
                a < PUBREC 1
            a: PUBLISH t 5 qos=2 id=5
                a < DISCONNECT 0x93 receive_maximum_exceeded
                a < closed
        "#]],
    );
}

/// What a client releases after it came back was sent over the connection before.
#[test]
fn what_is_released_over_another_connection_does_not_count() {
    let options = limited(BrokerLimits { receive_maximum: 2, ..BrokerLimits::default() });
    let mut world = World::new(options);
    world.run("s: CONNECT expiry=100; s: SUBSCRIBE t qos=2; s: drop; a: CONNECT expiry=100");
    world.run("a: PUBLISH t 1 qos=2 id=1; a: PUBLISH t 2 qos=2 id=2; a: drop; a: CONNECT keep expiry=100");
    let heard = world.run("disk-slow; a: PUBREL 1; a: PUBREL 2; a: PUBLISH t 3 qos=1 id=3; a: PUBLISH t 4 qos=1 id=4");
    assert!(!heard.contains("0x93") && !heard.contains("PUBCOMP"), "the disk is slow: {heard}");
    let heard = world.run("disk-fast; wait 100");
    assert!(heard.contains("a < PUBCOMP 2") && heard.contains("a < PUBACK 4"), "{heard}");
}

#[test]
fn who_is_not_read_is_not_silent() {
    let options = limited(BrokerLimits { receive_maximum: 2, ..BrokerLimits::default() });
    let mut world = World::new(options);
    world.run("s: CONNECT expiry=100; s: SUBSCRIBE t qos=1; s: drop; a: CONNECT v3 keepalive=4");
    // The third waits for the disk, and what comes behind it is not read.
    world.run("disk-slow; a: PUBLISH t 1 qos=1; a: PUBLISH t 2 qos=1; a: PUBLISH t 3 qos=1");
    let mut heard = String::new();
    for _ in 0..10 {
        heard += &world.run("wait 2000; a: PING");
    }
    assert!(!heard.contains("closed"), "{heard}");
    let after = world.run("disk-fast; wait 1000");
    assert!(after.contains("a < PUBACK 3") && after.contains("a < PINGRESP"), "{after}");
    let silent = world.run("wait 20000");
    assert!(silent.contains("a < closed"), "now it is read, and silent: {silent}");
}

#[test]
fn the_longest_keep_alive_holds_for_3_1_1_too() {
    let options = limited(BrokerLimits { keep_alive_max_s: 10, ..BrokerLimits::default() });
    let mut world = World::new(options);
    let heard = world.run("a: CONNECT v3; b: CONNECT v3 keepalive=60; c: CONNECT v3 keepalive=4; wait 14000");
    assert!(heard.contains("c < closed") && !heard.contains("a < closed") && !heard.contains("b < closed"), "{heard}");
    let heard = world.run("a: PING; wait 7000");
    assert!(heard.contains("b < closed") && !heard.contains("a < closed"), "{heard}");
    let heard = world.run("wait 14000");
    assert!(heard.contains("a < closed"), "{heard}");
}

#[test]
fn a_session_that_nobody_comes_back_to_refuses_nobody() {
    let inboxes =
        InboxLimits { messages_max: 1, policy: InboxPolicy::Refuse, refuse_away_ms: 5_000, ..InboxLimits::default() };
    check_with(
        WorldOptions { inboxes, ..WorldOptions::default() },
        "s: CONNECT expiry=1000; s: SUBSCRIBE t qos=1; s: drop; p: CONNECT; o: CONNECT; o: SUBSCRIBE t
         p: PUBLISH t 1 qos=1; p: PUBLISH t 2 qos=1; wait 6000; p: PUBLISH t 3 qos=1; kill
         p: CONNECT; p: PUBLISH t 4 qos=1; wait 6000; p: PUBLISH t 5 qos=1
         s: CONNECT keep expiry=1000; p: PUBLISH t 6 qos=1",
        expect![[r#"
            s: CONNECT expiry=1000
                s < CONNACK success
            s: SUBSCRIBE t qos=1
                s < SUBACK 1 1
            s: drop
            p: CONNECT
                p < CONNACK success
            o: CONNECT
                o < CONNACK success
            o: SUBSCRIBE t
                o < SUBACK 1 0
            p: PUBLISH t 1 qos=1
                o < PUBLISH t 1
                p < PUBACK 1
            p: PUBLISH t 2 qos=1
                o < PUBLISH t 2
                p < PUBACK 2 0x97 quota_exceeded
            wait 6000
            p: PUBLISH t 3 qos=1
                o < PUBLISH t 3
                p < PUBACK 3
            kill
            p: CONNECT
                p < CONNACK success
            p: PUBLISH t 4 qos=1
                p < PUBACK 1
            wait 6000
            p: PUBLISH t 5 qos=1
                p < PUBACK 2
            s: CONNECT keep expiry=1000
                s < CONNACK success present
                s < PUBLISH t 1 qos=1 id=1 dup
            p: PUBLISH t 6 qos=1
                p < PUBACK 3 0x97 quota_exceeded
        "#]],
    );
}

#[test]
fn retained_messages_that_were_owed_at_a_kill_come_after_it() {
    let mut world = World::new(WorldOptions::default());
    let retained: String = (0..500).map(|nth| format!("p: PUBLISH r/{nth} kept qos=1 retain;")).collect();
    world.run(&format!("p: CONNECT; {retained}"));
    let suback = world.run("a: CONNECT expiry=1000 recv=1; a: SUBSCRIBE r/# qos=1 sid=7");
    assert!(suback.contains("a < SUBACK"), "{suback}");
    let back = world.run("kill; a: open; a: auto; a: CONNECT keep id=a expiry=1000 recv=1000; wait 1000");
    for nth in 0..500 {
        assert!(back.contains(&format!("a < PUBLISH r/{nth} kept qos=1 ")), "r/{nth} of {}", back.len());
    }
    // All of it was brought: no more is owed, after another kill either.
    let again = world.run("kill; a: open; a: auto; a: CONNECT keep id=a expiry=1000 recv=1000; wait 1000");
    assert!(!again.contains("PUBLISH"), "{again}");
}

#[test]
fn a_message_that_expires_at_once_is_delivered_at_once_or_not_at_all() {
    check(
        "a: CONNECT; a: SUBSCRIBE t qos=1; b: CONNECT recv=1; b: SUBSCRIBE t qos=1; d: CONNECT expiry=100
         d: SUBSCRIBE t qos=1; d: drop; p@1: CONNECT; p: PUBLISH t 1 qos=1; p: PUBLISH t 2 qos=1 expiry=0
         p: PUBLISH t 3 expiry=0; p: PUBLISH t 4 expiry=0 retain; wait 200; b: PUBACK 1; d: CONNECT keep expiry=100
         e: CONNECT; e: SUBSCRIBE t",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            b: CONNECT recv=1
                b < CONNACK success
            b: SUBSCRIBE t qos=1
                b < SUBACK 1 1
            d: CONNECT expiry=100
                d < CONNACK success
            d: SUBSCRIBE t qos=1
                d < SUBACK 1 1
            d: drop
            p@1: CONNECT
                p < CONNACK success
            p: PUBLISH t 1 qos=1
                a < PUBLISH t 1 qos=1 id=1
                b < PUBLISH t 1 qos=1 id=1
                p < PUBACK 1
            p: PUBLISH t 2 qos=1 expiry=0
                a < PUBLISH t 2 qos=1 id=2 expiry=0
                p < PUBACK 2
            p: PUBLISH t 3 expiry=0
                a < PUBLISH t 3 expiry=0
                b < PUBLISH t 3 expiry=0
            p: PUBLISH t 4 expiry=0 retain
                a < PUBLISH t 4 expiry=0
                b < PUBLISH t 4 expiry=0
            wait 200
            b: PUBACK 1
            d: CONNECT keep expiry=100
                d < CONNACK success present
                d < PUBLISH t 1 qos=1 id=1
            e: CONNECT
                e < CONNACK success
            e: SUBSCRIBE t
                e < SUBACK 1 0
        "#]],
    );
}

#[test]
fn a_queue_is_not_the_share_group_of_that_name() {
    check(
        "x: CONNECT; x: SUBSCRIBE $queue/t; x: SUBSCRIBE $share/$queue/t; p: CONNECT; p: PUBLISH t two
         x: UNSUBSCRIBE $queue/t; p: PUBLISH t one; x: UNSUBSCRIBE $share/$queue/t; x: UNSUBSCRIBE $queue/t",
        expect![[r#"
            x: CONNECT
                x < CONNACK success
            x: SUBSCRIBE $queue/t
                x < SUBACK 1 0
            x: SUBSCRIBE $share/$queue/t
                x < SUBACK 2 0
            p: CONNECT
                p < CONNACK success
            p: PUBLISH t two
                x < PUBLISH t two
                x < PUBLISH t two
            x: UNSUBSCRIBE $queue/t
                x < UNSUBACK 3 0
            p: PUBLISH t one
                x < PUBLISH t one
            x: UNSUBSCRIBE $share/$queue/t
                x < UNSUBACK 4 0
            x: UNSUBSCRIBE $queue/t
                x < UNSUBACK 5 0x11 no_subscription_existed
        "#]],
    );
}

/// A world whose inboxes hold one message and refuse, but not for clients that take nothing for five seconds.
fn refusing() -> World {
    let inboxes = InboxLimits { messages_max: 1, policy: InboxPolicy::Refuse, ..InboxLimits::default() };
    let limits = BrokerLimits { refuse_stalled_ms: Some(5_000), sys_interval_ms: 0, ..BrokerLimits::default() };
    World::new(WorldOptions { inboxes, limits, ..WorldOptions::default() })
}

/// What the publisher was told of one more publication.
fn told(world: &mut World, before: &str) -> &'static str {
    let heard = world.run(&format!("{before}; p: PUBLISH t x qos=1"));
    match heard.contains("0x97") {
        true => "refused",
        false => "taken",
    }
}

#[test]
fn a_client_that_takes_nothing_refuses_nobody_for_long() {
    for stuck in ["s: PING", "s: stall"] {
        let mut world = refusing();
        world.run(&format!(
            "s@1: CONNECT expiry=1000; s: SUBSCRIBE t qos=1; {stuck}; p: CONNECT; o: CONNECT; o: SUBSCRIBE t"
        ));
        let count = |world: &World| world.brokers().iter().map(|broker| broker.facts().dropped_stalled).sum::<u64>();
        assert_eq!(told(&mut world, "p: PING"), "taken");
        assert_eq!(told(&mut world, "wait 3000"), "refused", "it may still take what it has");
        assert_eq!(count(&world), 0);
        assert_eq!(told(&mut world, "wait 3000"), "taken", "{stuck}: it takes nothing");
        assert_eq!(count(&world), 1);
        // It takes: its inbox refuses again.
        assert_eq!(told(&mut world, "s: flow; s: PUBACK 1"), "taken", "there is room");
        assert_eq!(told(&mut world, "wait 3000"), "refused");
        assert_eq!(count(&world), 1);
    }
}

#[test]
fn who_comes_and_goes_and_takes_nothing_refuses_no_longer_than_who_stays() {
    let mut world = refusing();
    world.run("s: CONNECT expiry=1000; s: SUBSCRIBE t qos=1; p: CONNECT");
    assert_eq!(told(&mut world, "p: PING"), "taken");
    for _ in 0..2 {
        assert_eq!(told(&mut world, "s: drop; s: CONNECT keep expiry=1000; wait 2000"), "refused");
    }
    assert_eq!(told(&mut world, "s: drop; s: CONNECT keep expiry=1000; wait 2000"), "taken");
    // Time away is no time in which it could have taken anything; it is bounded by `refuse_away_ms`.
    world.run("s: PUBACK 1; p: PUBLISH t x qos=1; wait 2000");
    assert_eq!(told(&mut world, "s: drop; wait 20000; s: CONNECT keep expiry=1000"), "refused");
}
