//! What counts as how much work of a client's turn.

use crate::support::{World, WorldOptions};

/// Filters that one step of a reload looks at, as `limits` has it; the connection itself is one work.
const RELOAD_WORK_PER_STEP: usize = 256;

/// A short publication may match filters without end: 2^10 of one depth visit twice as many nodes.
#[test]
fn a_match_is_work_by_the_nodes_that_it_visits() {
    let mut world = World::new(WorldOptions { workers: 1, ..WorldOptions::default() });
    world.run("s: CONNECT; p: CONNECT; s: SUBSCRIBE plain/topic");
    assert_eq!(world.work_of("p: PUBLISH plain/topic x"), 1, "what everybody does costs what it did");
    let level = |filter: usize, nth: usize| if filter >> nth & 1 == 0 { "a" } else { "+" };
    let filter = |filter: usize| (0..10).map(|nth| level(filter, nth)).collect::<Vec<_>>().join("/");
    let filters: Vec<String> = (0..1 << 10).map(filter).collect();
    filters.chunks(64).for_each(|some| drop(world.run(&format!("s: SUBSCRIBE {}", some.join(" ")))));
    let work = world.work_of(&format!("p: PUBLISH {} x", ["a"; 10].join("/")));
    assert!(work >= 128, "2,047 nodes and one copy are {work}");
}

/// What is kept for sessions, or goes to another worker, is work as well as what is sent at once.
#[test]
fn copies_for_shards_and_other_workers_are_work() {
    let mut world = World::new(WorldOptions::default());
    world.run("p: CONNECT");
    for nth in 0..64 {
        world.run(&format!("s{nth}@{}: CONNECT expiry=100; s{nth}: SUBSCRIBE t qos=1", nth % 2));
    }
    let work = world.work_of("p: PUBLISH t x qos=1");
    assert!(work >= 4, "64 copies are {work}");
}

#[test]
fn each_filter_is_work_however_short_it_is() {
    let mut world = World::new(WorldOptions { workers: 1, ..WorldOptions::default() });
    let filters: Vec<String> = (0..100).map(|nth| format!("{nth}")).collect();
    for kind in ["expiry=0", "expiry=100"] {
        world.run(&format!("s: CONNECT {kind}"));
        for verb in ["SUBSCRIBE", "UNSUBSCRIBE", "UNSUBSCRIBE"] {
            let work = world.work_of(&format!("s: {verb} {}", filters.join(" ")));
            assert!(work >= 400, "{verb} of a hundred filters, {kind}, is {work}");
        }
    }
}

/// Many that go together end over several turns.
#[test]
fn who_goes_with_many_filters_is_work() {
    let mut world = World::new(WorldOptions { workers: 1, ..WorldOptions::default() });
    let filters = |group: &str| (0..100).map(|nth| format!("{group}{nth}")).collect::<Vec<_>>().join(" ");
    world.run(&format!("s: CONNECT; s: SUBSCRIBE {}; t: CONNECT", filters("")));
    assert_eq!(world.work_of("t: drop"), 0);
    let work = world.work_of("s: drop");
    assert!(work >= 400, "a hundred filters are {work}");
}

/// A reload looks at the filters of all clients, some in a turn, also of a client with very many.
#[test]
fn a_reload_holds_nobody_up() {
    let mut options = WorldOptions { workers: 1, topic_shards: 1, ..WorldOptions::default() };
    options.limits.subscriptions_max = 5_000;
    let mut world = World::new(options);
    let filters = |from: usize, count: usize| {
        let mut filters = (from..from + count).map(|nth| format!("{}/{nth}", ["open", "closed"][nth % 2]));
        filters.by_ref().collect::<Vec<_>>().join(" ")
    };
    for nth in 0..50 {
        world.run(&format!("c{nth}: CONNECT user=u{nth}; c{nth}: SUBSCRIBE {}", filters(nth, 20)));
    }
    world.run("many: CONNECT user=many expiry=1000; gone: CONNECT user=gone");
    (0..40).for_each(|nth| drop(world.run(&format!("many: SUBSCRIBE {}", filters(nth * 50, 50)))));
    let turns = world.filters_by_turn_of_reload();
    assert_eq!(turns.iter().sum::<usize>(), 50 * 20 + 40 * 50, "each filter once");
    let most = turns.iter().max().expect("there were turns");
    assert!(*most <= tidegate_broker::limits::RELOAD_WORK_PER_STEP && turns.len() > 10, "{turns:?}");
    let subscriptions: u64 = world.brokers().iter().map(|broker| broker.facts().subscriptions).sum();
    let denied: u64 = world.brokers().iter().map(|broker| broker.facts().subscriptions_denied).sum();
    assert_eq!((subscriptions, denied), (50 * 20 + 40 * 50, 25 * 20 + 20 * 50), "all stand, and half are closed now");
    let heard = world.run("c0: PUBLISH open/0 x; c0: PUBLISH open/18 x");
    assert!(heard.contains("many < PUBLISH open/18") && heard.contains("c0 < PUBLISH open/18"), "{heard}");
}

/// The walk reaches the last of many clients late; what it asks for is decided by its new rights at once.
#[test]
fn new_rights_hold_from_the_reload_on() {
    let mut world = World::new(WorldOptions { workers: 1, topic_shards: 1, ..WorldOptions::default() });
    for nth in 0..30 {
        let filters = (0..20).map(|of| format!("open/{nth}/{of}")).collect::<Vec<_>>().join(" ");
        world.run(&format!("c{nth}: CONNECT; c{nth}: SUBSCRIBE {filters}"));
    }
    world.run("last: CONNECT; last: PUBLISH closed/x 1 qos=1; gone: CONNECT user=gone; c0: SUBSCRIBE open/#");
    world.hand_over("reload");
    world.hand_over("last: PUBLISH closed/x 2 qos=1");
    world.hand_over("gone: PUBLISH open/x 3 qos=1");
    // Another one, before this one has ended.
    let heard = world.run("reload");
    assert!(heard.contains("last < PUBACK 2 0x87"), "{heard}");
    assert!(heard.contains("gone < DISCONNECT 0x87") && !heard.contains("PUBLISH open/x 3"), "{heard}");
    assert!(world.brokers().iter().all(|broker| !broker.is_reloading()));
    assert!(world.run("c0: PUBLISH open/y 4").contains("c0 < PUBLISH open/y 4"));
}

/// A walk over the filters of a session goes on with the one that it would have gone on with, whatever is removed.
#[test]
fn a_filter_that_is_removed_during_a_reload_hides_none_behind_it() {
    let mut world = World::new(WorldOptions { workers: 1, topic_shards: 1, ..WorldOptions::default() });
    let filters = (0..RELOAD_WORK_PER_STEP - 1).map(|nth| format!("open/{nth}")).collect::<Vec<_>>().join(" ");
    world.run(&format!("a: CONNECT; a: SUBSCRIBE {filters} closed/x open/last"));
    world.hand_over("reload");
    world.turns(1);
    world.hand_over("a: UNSUBSCRIBE open/0");
    world.run("wait 100");
    let told = world.brokers_mut()[0].take_reloaded().expect("it has ended");
    assert_eq!(told.denied, 1, "{told:?}");
    let heard = world.run("announce closed/x 1; a: PUBLISH open/last 2");
    assert!(!heard.contains("< PUBLISH closed/x") && heard.contains("a < PUBLISH open/last 2"), "{heard}");
}
