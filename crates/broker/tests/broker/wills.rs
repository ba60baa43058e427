//! Wills: each is known by the record that brought it, and what is to be retained has its place paid for.

use tidegate_broker::{HoldingLimits, Principal, Thing};

use crate::support::{World, WorldOptions};

/// How often `who` heard of `topic`.
fn heard_of(heard: &str, who: &str, topic: &str) -> usize {
    heard.matches(&format!("{who} < PUBLISH {topic} ")).count()
}

/// What shards know publications, wills and delayed messages by.
fn origins(world: &World) -> u64 {
    let shards = world.brokers().iter().flat_map(|broker| broker.shards());
    shards.map(|shard| shard.state_ahead().facts().origins).sum()
}

/// The process ends at each turn on the way of a will, and of the next one of the same session.
#[test]
fn a_will_comes_once_whenever_the_process_ends_and_nobody_knows_it_then() {
    for (turns, end) in (0..9).zip(["kill", "crash"].into_iter().cycle()) {
        let mut world = World::new(WorldOptions::default());
        world.run(
            "s: CONNECT expiry=1000; s: SUBSCRIBE due/# qos=2; s: drop
             r@1: CONNECT expiry=1000; r: SUBSCRIBE due/# qos=2; r: drop
             w: CONNECT expiry=1000 will=due/one,gone,qos=2",
        );
        world.hand_over("w: drop");
        world.turns(turns);
        world.run(end);
        world.run("w: CONNECT keep expiry=1000 will=due/two,gone,qos=2");
        world.hand_over("w: drop");
        world.turns(turns);
        world.run(&format!("{end}; wait 200"));
        let heard = world.run(
            "t: open; t: auto; t: CONNECT keep id=s expiry=1000; u@1: open; u: auto; u: CONNECT keep id=r expiry=1000",
        );
        for (who, topic) in [("t", "due/one"), ("t", "due/two"), ("u", "due/one"), ("u", "due/two")] {
            assert_eq!(heard_of(&heard, who, topic), 1, "{end} after {turns} turns, {topic}: {heard}");
        }
        assert_eq!(origins(&world), 0, "{end} after {turns} turns");
    }
}

/// A client comes back while its will is under way, and the process ends at each turn after that: the will is on record
/// until all have it. `c` has no session, so that it is no matter what was lost with it.
#[test]
fn a_will_under_way_is_not_lost_when_its_client_comes_back_and_the_process_ends() {
    for back in ["keep expiry=1000 will=due/two,gone,qos=2", "keep expiry=1000", "expiry=1000", "keep expiry=0", ""] {
        for (delay, turns) in
            ["", ",delay=5"].into_iter().flat_map(|delay| (0..12).step_by(2).map(move |turns| (delay, turns)))
        {
            let mut world = World::new(WorldOptions::default());
            world.run(&format!(
                "s: CONNECT expiry=1000; s: SUBSCRIBE due/# qos=2; s: drop
                 r@1: CONNECT expiry=1000; r: SUBSCRIBE due/# qos=2; r: drop
                 w: CONNECT expiry=1000 will=due/one,gone,qos=2{delay}",
            ));
            world.run(if delay.is_empty() { "" } else { "w: drop" });
            world.pass(if delay.is_empty() { 0 } else { 6_000 });
            // Without a delay, this takes the session over.
            world.hand_over(&format!("w: CONNECT {back}"));
            world.turns(turns);
            world.run("kill; wait 6000");
            let heard = world.run(
                "t: open; t: auto; t: CONNECT keep id=s expiry=1000
                 u@1: open; u: auto; u: CONNECT keep id=r expiry=1000; wait 100",
            );
            for who in ["t", "u"] {
                assert_eq!(heard_of(&heard, who, "due/one"), 1, "{back}{delay}, {turns} turns: {who} {heard}");
            }
        }
    }
}

/// The logs of those who must keep a will do nothing.
#[test]
fn who_comes_back_while_a_will_is_under_way_waits_for_a_second_at_most() {
    let mut world = World::new(WorldOptions::default());
    world.run("s: open; s: auto; s: CONNECT expiry=1000; s: SUBSCRIBE due/# qos=1");
    world.run("w: CONNECT expiry=1000 will=due/one,gone,qos=1");
    let told = world.run("disk-slow; w: drop; w: CONNECT; wait 900");
    assert!(!told.contains("w < "), "{told}");
    let told = world.run("wait 200");
    assert!(told.contains("w < CONNACK success\n"), "{told}");
    let told = world.run("disk-fast; wait 100; kill; s: CONNECT keep expiry=1000; wait 100");
    assert_eq!(heard_of(&told, "s", "due/one"), 1, "{told}");
}

#[test]
fn who_waits_for_a_will_loses_against_who_comes_later() {
    for (later, present) in [("keep expiry=1000", " present"), ("", "")] {
        let mut world = World::new(WorldOptions::default());
        world.run("s: CONNECT expiry=1000; s: SUBSCRIBE due/# qos=1; w: CONNECT expiry=1000 will=due/one,gone,qos=1");
        let told = world.run(&format!(
            "disk-slow; w: drop; w: CONNECT keep expiry=1000; v: CONNECT id=w keep expiry=1000; u: CONNECT id=w {later}"
        ));
        assert!(told.contains("w < closed") && told.contains("v < closed") && !told.contains("u < "), "{told}");
        let told = world.run("disk-fast; wait 100; u: PING");
        assert!(told.contains(&format!("u < CONNACK success{present}\n")) && told.contains("u < PINGRESP"), "{told}");
        assert_eq!(heard_of(&told, "s", "due/one"), 1, "{told}");
    }
}

/// Nobody waits for a session that is not there any more, and nobody is told who has gone.
#[test]
fn who_waits_for_a_will_goes_on_when_its_session_ends() {
    let mut world = World::new(WorldOptions { workers: 1, ..WorldOptions::default() });
    world.run("s: CONNECT expiry=1000; s: SUBSCRIBE due/# qos=1; w: CONNECT expiry=1000 will=due/one,gone,qos=1");
    let told = world.run("disk-slow; w: drop; w: CONNECT; operate end w; wait 100");
    assert!(told.contains("w < CONNACK success\n"), "{told}");
    world.run("disk-fast; wait 100; w: CONNECT expiry=1000 will=due/two,gone,qos=1");
    world.run("disk-slow; w: drop; w: CONNECT; w: drop; wait 2000; disk-fast; wait 100");
    let told = world.run("s: CONNECT keep expiry=1000; wait 100");
    assert_eq!((heard_of(&told, "s", "due/one"), heard_of(&told, "s", "due/two")), (1, 1), "{told}");
}

/// The same for a message that was delayed: its name was left behind for ever.
#[test]
fn nobody_knows_a_delayed_message_that_was_sent_whenever_the_process_ends() {
    for turns in 0..8 {
        let mut world = World::new(WorldOptions::default());
        world.run("s: CONNECT expiry=1000; s: SUBSCRIBE due/# qos=2; s: drop; p: CONNECT");
        world.run("p: PUBLISH $delayed/1/due/one x qos=1; wait 900");
        world.pass(100);
        world.turns(turns);
        world.run("kill; wait 200");
        let heard = world.run("t: open; t: auto; t: CONNECT keep id=s expiry=1000");
        assert_eq!((heard_of(&heard, "t", "due/one"), origins(&world)), (1, 0), "{turns} turns: {heard}");
    }
}

/// Two places among the retained messages for each user.
fn two_places() -> World {
    let mut holdings = HoldingLimits::NONE;
    holdings[Thing::Retained].principal.count = 2;
    World::new(WorldOptions { holdings, ..WorldOptions::default() })
}

fn retained(world: &World) -> u64 {
    world.holdings().held_by(&Principal::user("anna"), Thing::Retained).0
}

#[test]
fn a_delayed_message_that_is_accepted_has_its_place_among_the_retained_ones() {
    for end in ["wait 100", "kill"] {
        let mut world = two_places();
        let told = world.run(
            "a: CONNECT user=anna; a: PUBLISH r/1 x retain qos=1; a: PUBLISH $delayed/50/r/2 later retain qos=1
             a: PUBLISH $delayed/50/r/3 no retain qos=2; a: PUBLISH r/4 no retain qos=1
             a: PUBLISH $delayed/50/live x qos=1",
        );
        let refused = ["a < PUBREC 3 0x97", "a < PUBACK 4 0x97"];
        assert!(refused.iter().all(|line| told.contains(line)), "at the door: {told}");
        assert!(told.contains("a < PUBACK 2\n") && told.contains("a < PUBACK 5\n"), "{told}");
        assert_eq!(retained(&world), 2);
        let told = world.run(&format!("{end}; b: CONNECT user=anna; b: PUBLISH r/4 no retain qos=1"));
        assert!(told.contains("b < PUBACK 1 0x97"), "{end}: {told}");
        let told = world.run("wait 60000; s: CONNECT; s: SUBSCRIBE r/#");
        assert_eq!((heard_of(&told, "s", "r/1"), heard_of(&told, "s", "r/2")), (1, 1), "{end}: {told}");
        assert_eq!((retained(&world), world.holdings().held(Thing::Delayed).0), (2, 0), "{end}");
        world.run("b: PUBLISH r/1 retain qos=1; b: PUBLISH r/2 retain qos=1");
        assert_eq!(world.holdings().held(Thing::Retained), (0, 0), "{end}");
    }
}

/// Also one of QoS 0, which waits in memory.
#[test]
fn so_it_has_if_it_waits_in_memory() {
    let mut world = two_places();
    world.run("a: CONNECT user=anna; a: PUBLISH $delayed/5/r/1 x retain; a: PUBLISH $delayed/5/r/2 x retain");
    assert_eq!(retained(&world), 2);
    let told = world.run("a: PUBLISH $delayed/5/r/3 x retain; a: PUBLISH r/4 no retain qos=1");
    assert!(told.contains("a < PUBACK 1 0x97"), "{told}");
    let told = world.run("wait 6000; s: CONNECT; s: SUBSCRIBE r/#");
    assert_eq!(["r/1", "r/2", "r/3", "r/4"].map(|topic| heard_of(&told, "s", topic)), [1, 1, 0, 0], "{told}");
    assert_eq!(retained(&world), 2);
}

#[test]
fn a_will_that_is_accepted_has_its_place_among_the_retained_ones() {
    for session in ["", "expiry=100"] {
        let mut world = two_places();
        let told = world.run(&format!(
            "a: CONNECT user=anna; a: PUBLISH r/1 x retain qos=1
             v: CONNECT user=anna {session} will=r/2,gone,retain,qos=1
             w: CONNECT user=anna {session} will=r/3,gone,retain,qos=1 why; a: PUBLISH r/4 no retain qos=1",
        ));
        assert!(told.contains("v < CONNACK success") && told.contains("a < PUBACK 2 0x97"), "{told}");
        assert!(told.contains("w < CONNACK 0x97"), "{told}");
        let told = world.run("v: drop; s: CONNECT; s: SUBSCRIBE r/#");
        assert_eq!((heard_of(&told, "s", "r/1"), heard_of(&told, "s", "r/2")), (1, 1), "{told}");
        assert_eq!(retained(&world), 2);
        let ended = world.run(&format!(
            "a: PUBLISH r/1 retain qos=1; v: CONNECT user=anna {session} will=r/5,gone,retain,qos=1; v: DISCONNECT"
        ));
        assert!(ended.contains("v < CONNACK success"), "{ended}");
        assert_eq!(retained(&world), 1, "who says goodbye leaves no will: {ended}");
    }
}

#[test]
fn the_place_of_a_will_stays_with_the_session_that_keeps_it() {
    let mut world = two_places();
    let connect = "v: CONNECT keep user=anna expiry=100 will=r/2,gone,retain,qos=1,delay=50";
    world.run(&format!("a: CONNECT user=anna; a: PUBLISH r/1 x retain qos=1; {connect}; v: drop"));
    assert_eq!(retained(&world), 2);
    let told = world.run(&format!("{connect}; v: drop; kill; {connect}"));
    assert!(!told.contains("0x97"), "it is its own place: {told}");
    assert_eq!(retained(&world), 2, "after a restart as well");
    world.run("v: CONNECT keep user=anna expiry=100");
    assert_eq!(retained(&world), 1, "who comes back without one leaves it");
    world.run(&format!("{connect}; v: drop; w: CONNECT user=anna; w: PUBLISH r/3 x retain qos=1; kill; wait 60000"));
    let told = world.run("s: CONNECT; s: SUBSCRIBE r/#");
    assert_eq!(["r/1", "r/2", "r/3"].map(|topic| heard_of(&told, "s", topic)), [1, 1, 0], "{told}");
    assert_eq!(retained(&world), 2);
    world.run("b: CONNECT user=anna; b: PUBLISH r/1 retain qos=1; b: PUBLISH r/2 retain qos=1; v: CONNECT user=anna");
    assert_eq!(world.holdings().held(Thing::Retained), (0, 0));
}
