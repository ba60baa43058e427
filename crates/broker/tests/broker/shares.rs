//! Share groups: how they divide their messages, and whom they prefer.

use tidegate_broker::{BrokerLimits, ShareStrategy};

use crate::support::{World, WorldOptions};

fn world(strategy: ShareStrategy) -> World {
    let limits = BrokerLimits {
        share_strategy: strategy,
        share_stalled_ms: 5_000,
        outbox_bytes_max: 2_000,
        sys_interval_ms: 0,
        ..BrokerLimits::default()
    };
    World::new(WorldOptions { limits, ..WorldOptions::default() })
}

/// How many publications each of these members was sent.
fn sent<const N: usize>(heard: &str, members: [&str; N]) -> [usize; N] {
    members.map(|member| heard.matches(&format!("    {member} < PUBLISH ")).count())
}

/// Publications of one client, one after the other.
fn publications(who: &str, qos: u8, count: usize) -> String {
    format!("{who}: PUBLISH t x qos={qos};").repeat(count)
}

#[test]
fn who_has_room_is_preferred_to_who_has_none() {
    for (expiry, home) in [("", ""), (" expiry=100", ""), ("", "@1"), (" expiry=100", "@1")] {
        let mut world = world(ShareStrategy::RoundRobin);
        world.run(&format!(
            "full{home}: CONNECT recv=1{expiry}; full: SUBSCRIBE $share/g/t qos=1
             free: CONNECT; free: auto; free: SUBSCRIBE $share/g/t qos=1; p: CONNECT"
        ));
        let heard = world.run(&publications("p", 1, 10));
        assert_eq!(sent(&heard, ["full", "free"]), [1, 9], "the window of one is full: {heard}");
        let heard = world.run(&format!("full: PUBACK 1; full: auto; {}", publications("p", 1, 10)));
        assert_eq!(sent(&heard, ["full", "free"]), [5, 5], "and open again: {heard}");
    }
}

#[test]
fn who_reads_nothing_is_not_preferred() {
    for home in ["", "@1"] {
        let mut world = world(ShareStrategy::RoundRobin);
        world.run(&format!(
            "stuck{home}: CONNECT; stuck: SUBSCRIBE $share/g/t; stuck: stall
             free: CONNECT; free: SUBSCRIBE $share/g/t; p: CONNECT"
        ));
        world.run(&publications("p", 0, 2));
        // What it has is little, but its socket takes nothing.
        world.run("wait 1000");
        let heard = world.run(&publications("p", 0, 10));
        assert_eq!(sent(&heard, ["free"]), [10], "{heard}");
        let heard = world.run(&format!("stuck: flow; {}", publications("p", 0, 10)));
        assert_eq!(sent(&heard, ["stuck", "free"]), [6, 5], "one waited: {heard}");
    }
}

#[test]
fn who_is_busy_still_gets_what_nobody_else_has_room_for() {
    let mut world = world(ShareStrategy::RoundRobin);
    world.run("a: CONNECT recv=1; a: SUBSCRIBE $share/g/t qos=1; b@1: CONNECT recv=1; b: SUBSCRIBE $share/g/t qos=1");
    let heard =
        world.run(&format!("p: CONNECT; {}; a: auto; b: auto; a: PUBACK 1; b: PUBACK 1", publications("p", 1, 6)));
    let [a, b] = sent(&heard, ["a", "b"]);
    assert_eq!(a + b, 6, "{heard}");
    assert!(a >= 2 && b >= 2, "in turn: {heard}");
}

#[test]
fn who_takes_nothing_for_long_counts_as_away() {
    for (strategy, home) in
        [(ShareStrategy::HashTopic, ""), (ShareStrategy::Sticky, "@1"), (ShareStrategy::HashClient, "@1")]
    {
        let mut world = world(strategy);
        world.run(&format!(
            "a{home}: CONNECT; a: SUBSCRIBE $share/g/t qos=1; b: CONNECT; b: SUBSCRIBE $share/g/t qos=1; p: CONNECT"
        ));
        let heard = world.run(&publications("p", 1, 3));
        let (chosen, other) = match sent(&heard, ["a", "b"]) {
            [3, 0] => ("a", "b"),
            [0, 3] => ("b", "a"),
            _ => panic!("one key, one member: {heard}"),
        };
        let heard = world.run(&format!("wait 3000; {}", publications("p", 1, 3)));
        assert_eq!(sent(&heard, [chosen, other]), [3, 0], "not yet: {heard}");
        let heard = world.run(&format!("wait 3000; {}", publications("p", 1, 3)));
        assert_eq!(sent(&heard, [chosen, other]), [0, 6 + 3], "with what it has not taken: {heard}");
        let stalled: u64 = world.brokers().iter().map(|broker| broker.facts().shares_stalled).sum();
        assert_eq!(stalled, 1);
        let heard = world.run(&format!("{chosen}: PUBACK 1; {}", publications("p", 1, 3)));
        assert_eq!(sent(&heard, [chosen, other]), [3, 0], "who takes again has its own again: {heard}");
    }
}

#[test]
fn a_member_that_answers_in_time_is_never_stalled() {
    let mut world = world(ShareStrategy::Sticky);
    world.run("a: CONNECT; a: auto; a: SUBSCRIBE $share/g/t qos=1; p: CONNECT");
    world.run(&format!("{}; wait 20000", publications("p", 1, 3)));
    let heard = world.run(&format!("{}; wait 20000", publications("p", 1, 3)));
    assert_eq!(sent(&heard, ["a"]), [3]);
    assert_eq!(world.brokers()[0].facts().shares_stalled, 0);
}

#[test]
fn publishers_on_all_workers_choose_the_same_member() {
    for strategy in [ShareStrategy::Sticky, ShareStrategy::HashTopic, ShareStrategy::HashClient] {
        let mut world = world(strategy);
        for nth in 0..6 {
            world.run(&format!("m{nth}@{}: CONNECT; m{nth}: SUBSCRIBE $share/g/#", nth % 2));
        }
        let members = ["m0", "m1", "m2", "m3", "m4", "m5"];
        let mut chosen = [0; 6];
        for nth in 0..24 {
            // With `hash_client` the same client from both workers, one after the other.
            let publish = |worker: usize| format!("p@{worker}: CONNECT id=p{nth}; p: PUBLISH topic/{nth}; p: drop;");
            let heard = [world.run(&publish(0)), world.run(&publish(1))].map(|heard| sent(&heard, members));
            assert_eq!(heard[0], heard[1], "{strategy:?}");
            assert_eq!(heard[0].iter().sum::<usize>(), 1);
            (0..6).for_each(|member| chosen[member] += heard[0][member]);
        }
        let count = chosen.iter().filter(|count| **count > 0).count();
        assert_eq!(count == 1, strategy == ShareStrategy::Sticky, "{strategy:?}: {chosen:?}");
    }
}

#[test]
fn a_retained_publication_and_a_will_go_by_their_client_as_well() {
    let mut world = world(ShareStrategy::HashClient);
    for nth in 0..4 {
        world.run(&format!("m{nth}@{}: CONNECT; m{nth}: SUBSCRIBE $share/g/#", nth % 2));
    }
    let members = ["m0", "m1", "m2", "m3"];
    for nth in 0..8 {
        let plain = world.run(&format!("p: CONNECT id=p{nth} will=gone,x; p: PUBLISH a"));
        let retained = world.run("p: PUBLISH b x retain");
        let will = world.run("p: drop");
        let chosen = sent(&plain, members);
        assert_eq!((sent(&retained, members), sent(&will, members)), (chosen, chosen), "{plain}{retained}{will}");
    }
}

/// A message of QoS 2 that is sent again after a crash may be given to another member than the first time, whose shard
/// knows it already by a receiver of its own: what a group takes once has a name of its own.
#[test]
fn a_shard_tells_what_its_sessions_have_from_what_it_took_for_a_group() {
    let limits = BrokerLimits { sys_interval_ms: 0, ..BrokerLimits::default() };
    let mut world = World::new(WorldOptions { limits, workers: 2, topic_shards: 2, ..WorldOptions::default() });
    for (name, filter) in [("a", "t"), ("b", "t"), ("c", "t"), ("d", "t"), ("m", "$share/g/t"), ("n", "$share/h/t")] {
        world.run(&format!("{name}: CONNECT keep expiry=100; {name}: SUBSCRIBE {filter} qos=2; {name}: drop"));
    }
    let mut known = Vec::new();
    for (client, expiry) in [("p", "keep expiry=100"), ("q", "keep expiry=100")] {
        for qos in [1, 2] {
            world.run(&format!("{client}: CONNECT {expiry}; {client}: PUBLISH t x qos={qos} id=9"));
            let shards = world.brokers().iter().flat_map(|broker| broker.shards());
            known.push(shards.map(|shard| shard.state_ahead().facts().origins).sum::<u64>());
        }
    }
    // Of each publication of QoS 2: the sessions of both shards, and both groups.
    assert_eq!(known, [0, 4, 4, 8]);
    let told = world.run("p: PUBREL 9; q: PUBREL 9");
    assert_eq!(told.matches("PUBCOMP 9").count(), 2, "{told}");
    let shards = world.brokers().iter().flat_map(|broker| broker.shards());
    assert_eq!(shards.map(|shard| shard.state_ahead().facts().origins).sum::<u64>(), 0, "nothing is left of them");
}
