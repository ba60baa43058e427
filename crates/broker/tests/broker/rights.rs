//! Rights of what is left behind are those of when it leaves: of wills and delayed messages to be published, of waiting
//! and retained messages to be read. And a filter of which a part is denied.

use expect_test::expect;
use tidegate_broker::{Notice, Noticed, Reloaded, SubscriptionsDenied};

use crate::support::{World, WorldOptions, check};

/// What a subscriber to `t` hears while time passes, when the user who left something behind is gone.
fn heard_after_reload(leave: &str) -> String {
    let mut world = World::new(WorldOptions::default());
    world.run("s: CONNECT; s: SUBSCRIBE t qos=2");
    world.run(leave);
    let at_once = world.run("wait 100");
    assert!(!at_once.contains("PUBLISH"), "nothing is due yet: {at_once}");
    world.run("reload");
    world.run("wait 8000").lines().filter(|line| line.contains("PUBLISH")).collect()
}

#[test]
fn a_will_whose_user_has_lost_the_right_is_not_sent() {
    let will = |user: &str| format!("w: CONNECT expiry=100 user={user} will=t,bye,qos=1,delay=2; w: drop");
    assert_eq!(heard_after_reload(&will("gone")), "");
    assert_eq!(heard_after_reload(&will("here")).trim(), "s < PUBLISH t bye qos=1 id=1");
    // One that ends with its session, too.
    let will = |user: &str| format!("w: CONNECT expiry=3 user={user} will=t,bye,qos=1,delay=90; w: drop");
    assert_eq!(heard_after_reload(&will("gone")), "");
    assert_eq!(heard_after_reload(&will("here")).trim(), "s < PUBLISH t bye qos=1 id=1");
}

#[test]
fn the_will_of_a_user_who_is_gone_is_not_sent_when_it_is_disconnected() {
    let script = "s: CONNECT; s: SUBSCRIBE t; w: CONNECT user=gone will=t,bye; reload";
    let heard = World::new(WorldOptions::default()).run(script);
    assert!(heard.contains("w < DISCONNECT 0x87") && !heard.contains("s < PUBLISH"), "{heard}");
}

#[test]
fn a_delayed_message_whose_user_has_lost_the_right_is_not_sent() {
    for qos in 0..=2 {
        let leave = |user: &str| format!("p: CONNECT user={user}; p: PUBLISH $delayed/2/t late qos={qos}; p: drop");
        assert_eq!(heard_after_reload(&leave("gone")), "", "QoS {qos}");
        let heard = heard_after_reload(&leave("here"));
        assert!(heard.contains("s < PUBLISH t late"), "QoS {qos}: {heard}");
    }
}

#[test]
fn a_refused_will_and_a_refused_delayed_message_do_not_come_later() {
    let mut world = World::new(WorldOptions::default());
    world.run(
        "s: CONNECT expiry=100; s: SUBSCRIBE t qos=1; w: CONNECT expiry=100 user=gone will=t,bye,qos=1,delay=2
         w: PUBLISH $delayed/2/t late qos=1; w: drop; reload; wait 5000",
    );
    assert!(world.brokers().iter().all(|broker| broker.is_idle()));
    let dropped: u64 = world.brokers().iter().map(|broker| broker.facts().dropped_unauthorized).sum();
    assert_eq!(dropped, 2, "each is given up once");
    let heard = world.run("kill 1000; s: CONNECT keep expiry=100; wait 5000");
    assert!(!heard.contains("PUBLISH"), "{heard}");
}

#[test]
fn a_will_makes_no_request() {
    check(
        "a: CONNECT will=$ledger/transfers,x; b: CONNECT v3 will=other/service,x",
        expect![[r#"
            a: CONNECT will=$ledger/transfers,x
                a < CONNACK 0x90 topic_name_invalid
                a < closed
            b: CONNECT v3 will=other/service,x
                b < CONNACK 0x87 not_authorized
                b < closed
        "#]],
    );
}

#[test]
fn a_filter_of_which_a_part_is_denied_is_granted_and_the_part_kept_back() {
    check(
        "p@1: CONNECT; p: PUBLISH part/hidden kept retain qos=1; p: PUBLISH part/open kept retain qos=1
         a: CONNECT user=part; a: SUBSCRIBE part/# qos=1; a: SUBSCRIBE $share/g/part/#
         p: PUBLISH part/hidden zero; p: PUBLISH part/open zero; p: PUBLISH part/hidden one qos=1
         p: PUBLISH part/open one qos=1",
        expect![[r#"
            p@1: CONNECT
                p < CONNACK success
            p: PUBLISH part/hidden kept retain qos=1
                p < PUBACK 1
            p: PUBLISH part/open kept retain qos=1
                p < PUBACK 2
            a: CONNECT user=part
                a < CONNACK success
            a: SUBSCRIBE part/# qos=1
                a < SUBACK 1 1
                a < PUBLISH part/open kept qos=1 id=1 retain
            a: SUBSCRIBE $share/g/part/#
                a < SUBACK 2 0x87 not_authorized
            p: PUBLISH part/hidden zero
            p: PUBLISH part/open zero
                a < PUBLISH part/open zero
            p: PUBLISH part/hidden one qos=1
                p < PUBACK 3
            p: PUBLISH part/open one qos=1
                a < PUBLISH part/open one qos=1 id=2
                p < PUBACK 4
        "#]],
    );
}

#[test]
fn so_it_is_for_what_waited_while_its_client_was_away() {
    let mut world = World::new(WorldOptions::default());
    world.run(
        "a: CONNECT user=part expiry=100; a: SUBSCRIBE part/# qos=1; p: CONNECT; p: PUBLISH part/hidden here qos=1
         a: drop; p: PUBLISH part/hidden away qos=1; p: PUBLISH part/open away qos=1",
    );
    let back = world.run("a: CONNECT user=part keep expiry=100; a: PUBACK 1; a: PUBACK 2");
    assert!(back.contains("PUBLISH part/open away") && !back.contains("part/hidden"), "{back}");
    // What was kept back is not there any more.
    let again = world.run("kill; a: CONNECT user=part keep expiry=100");
    assert!(!again.contains("PUBLISH"), "{again}");
}

/// One message is under way when the right goes; those behind it wait.
fn check_reload_among_waiting(connect: &str) {
    let mut world = World::new(WorldOptions::default());
    world.run(&format!(
        "a: {connect} user=part recv=1; a: SUBSCRIBE part/# closed/# qos=1; p: CONNECT
         p: PUBLISH part/one 1 qos=1; p: PUBLISH part/late 2 qos=1; p: PUBLISH closed/x 3 qos=1
         p: PUBLISH part/hidden 4 qos=1; p: PUBLISH part/five 5 qos=1; reload"
    ));
    let heard = world.run("a: auto; a: PUBACK 1; wait 100");
    let topics: Vec<&str> = heard.lines().filter_map(|line| line.trim().strip_prefix("a < PUBLISH ")).collect();
    assert!(topics.len() == 1 && topics[0].starts_with("part/five"), "{heard}");
}

#[test]
fn what_waits_when_a_right_is_taken_away_is_kept_back() {
    check_reload_among_waiting("CONNECT");
    check_reload_among_waiting("CONNECT expiry=100");
}

#[test]
fn retained_messages_on_their_way_are_kept_back_when_a_right_is_taken_away() {
    for connect in ["CONNECT", "CONNECT expiry=100"] {
        let mut world = World::new(WorldOptions::default());
        let others: String = (0..20).map(|nth| format!("p: PUBLISH part/{nth} x qos=1 retain;")).collect();
        world.run(&format!("p: CONNECT; {others} p: PUBLISH part/late x qos=1 retain"));
        // One is under way, and all that comes after it waits.
        let first = world.run(&format!("a: {connect} user=part recv=1; a: SUBSCRIBE part/0 qos=1"));
        assert!(first.contains("a < PUBLISH part/0 x qos=1 id=1"), "{first}");
        let waits = world.run("a: SUBSCRIBE part/# qos=1; reload");
        assert!(!waits.contains("PUBLISH"), "{waits}");
        let heard = world.run("a: auto; a: PUBACK 1; wait 100");
        assert!(!heard.contains("part/late"), "{heard}");
        assert_eq!(heard.matches("a < PUBLISH part/").count(), 20, "all others come: {heard}");
    }
}

/// A slip in a rule takes a right away, and the next reload gives it back.
#[test]
fn a_subscription_that_is_denied_by_one_reload_is_given_back_by_the_next() {
    for connect in ["CONNECT", "CONNECT expiry=100"] {
        let mut world = World::new(WorldOptions::default());
        world.run(&format!(
            "a: {connect}; a: auto; a: SUBSCRIBE closed/# open qos=1; b@1: {connect}; b: SUBSCRIBE closed/x; p: CONNECT"
        ));
        let denied = world.run("reload; announce closed/x 1; a: PUBLISH open 2 qos=1");
        assert!(!denied.contains("< PUBLISH closed/x 1") && denied.contains("a < PUBLISH open 2"), "{denied}");
        let told = |world: &mut World| -> Vec<Reloaded> {
            world.brokers_mut().iter_mut().filter_map(|broker| broker.take_reloaded()).collect()
        };
        let sum = |told: Vec<Reloaded>, count: fn(&Reloaded) -> usize| told.iter().map(count).sum::<usize>();
        let first = told(&mut world);
        assert_eq!((sum(first.clone(), |of| of.denied), sum(first.clone(), |of| of.clients)), (2, 2), "{first:?}");
        let back = world.run("reload-back; p: PUBLISH closed/x 3 qos=1");
        assert!(back.contains("a < PUBLISH closed/x 3") && back.contains("b < PUBLISH closed/x 3"), "{back}");
        let second = told(&mut world);
        assert_eq!(
            (sum(second.clone(), |of| of.given_back), sum(second.clone(), |of| of.denied)),
            (2, 0),
            "{second:?}"
        );
    }
}

/// Also where the client was away while the right was taken, and where it came back meanwhile, and after a kill.
#[test]
fn a_durable_session_keeps_what_is_denied() {
    for meanwhile in ["", "a: CONNECT keep expiry=100; a: drop;", "kill;"] {
        let mut world = World::new(WorldOptions::default());
        world.run("a: CONNECT keep expiry=100; a: SUBSCRIBE closed/# qos=1; a: drop; p: CONNECT keep");
        world.run(&format!("reload; {meanwhile} reload-back"));
        let heard = world.run("a: CONNECT keep expiry=100; p: CONNECT; p: PUBLISH closed/x 1 qos=1");
        assert!(heard.contains("a < PUBLISH closed/x 1"), "{meanwhile}: {heard}");
    }
}

/// What a share group picks for a member that may not have it would be lost to all.
#[test]
fn a_member_of_a_share_group_that_loses_its_right_is_told() {
    let mut world = World::new(WorldOptions::default());
    world.run("a: CONNECT; a: SUBSCRIBE $share/g/closed/# qos=1; b: CONNECT; b: SUBSCRIBE open");
    let heard = world.run("reload; b: PUBLISH open 1");
    assert!(heard.contains("a < DISCONNECT 0x87") && heard.contains("b < PUBLISH open 1"), "{heard}");
}

/// And so is one that comes back after its right was taken. Who only may not read for now, stays.
#[test]
fn who_comes_back_denied_is_noticed_and_who_lost_a_subscription_is_told() {
    let mut world = World::new(WorldOptions::default());
    world.run(
        "a: CONNECT keep expiry=100; a: SUBSCRIBE closed/# $share/g/closed/# qos=1; a: drop
         b: CONNECT keep expiry=100; b: SUBSCRIBE closed/# open qos=1; b: drop; reload",
    );
    let heard = world.run("a: CONNECT keep expiry=100; b: CONNECT keep expiry=100");
    assert!(heard.contains("a < DISCONNECT 0x87") && !heard.contains("b < DISCONNECT"), "{heard}");
    let notices: Vec<Notice> = world.brokers_mut().iter_mut().flat_map(|broker| broker.take_notices().0).collect();
    let noticed: Vec<(&str, Noticed)> = notices.iter().map(|notice| (&*notice.about, notice.what)).collect();
    let back = |denied, removed| Noticed::CameBackDenied(SubscriptionsDenied { denied, removed });
    assert_eq!(noticed, [("a", back(1, 1)), ("b", back(1, 0))]);
    // It is told once: what it lost is not in its session any more.
    let again = world.run("a: CONNECT keep expiry=100");
    assert!(!again.contains("DISCONNECT"), "{again}");
}
