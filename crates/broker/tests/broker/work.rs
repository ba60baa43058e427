//! What counts as how much work of a client's turn.

use crate::support::{World, WorldOptions};

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
