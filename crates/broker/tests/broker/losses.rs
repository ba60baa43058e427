//! Every message that is lost to somebody has a count, and a slow reader may be told.

use tidegate_broker::{BrokerFacts, BrokerLimits, InboxPolicy, SlowReader};
use tidegate_journal::Options;
use tidegate_machines::topic::{InboxLimits, InboxPolicy as DurablePolicy};

use crate::support::{World, WorldOptions};

/// Small inboxes, of both kinds, and small outboxes.
fn small(policy: DurablePolicy, slow_reader: SlowReader) -> WorldOptions {
    let limits = BrokerLimits {
        outbox_bytes_max: 2_000,
        clean_inbox_messages_max: 3,
        slow_reader,
        sys_interval_ms: 0,
        ..BrokerLimits::default()
    };
    let inboxes = InboxLimits { messages_max: 3, age_max_ms: 20_000, policy, ..InboxLimits::default() };
    WorldOptions { limits, inboxes, ..WorldOptions::default() }
}

/// What both brokers counted, by one of their counts.
fn count(world: &World, of: impl Fn(&BrokerFacts) -> u64) -> u64 {
    world.brokers().iter().map(|broker| of(&broker.facts())).sum()
}

/// Ten messages for somebody, then what was counted.
fn ten(world: &mut World, qos: u8) -> String {
    let publish = format!("p: PUBLISH t {} qos={qos};", "x".repeat(500));
    world.run(&format!("p: CONNECT; {}", publish.repeat(10)))
}

#[test]
fn what_a_full_inbox_in_the_journal_loses_is_counted() {
    let mut world = World::new(small(DurablePolicy::DropOldest, SlowReader::Drop));
    world.run("s: CONNECT expiry=1000; s: SUBSCRIBE t qos=1; s: drop");
    ten(&mut world, 1);
    assert_eq!(count(&world, |facts| facts.evicted_inbox), 7, "three are kept");
    // What was lost before a start is not counted again.
    world.run("kill; wait 1000");
    assert_eq!(count(&world, |facts| facts.evicted_inbox), 0);

    let mut world = World::new(small(DurablePolicy::DropNewest, SlowReader::Drop));
    world.run("s: CONNECT expiry=1000; s: SUBSCRIBE t qos=1; s: drop");
    ten(&mut world, 1);
    assert_eq!((count(&world, |facts| facts.dropped_inbox), count(&world, |facts| facts.evicted_inbox)), (7, 0));

    let mut world = World::new(small(DurablePolicy::Refuse, SlowReader::Drop));
    world.run("s: CONNECT expiry=1000; s: SUBSCRIBE t qos=1; s: drop");
    let told = ten(&mut world, 1);
    assert_eq!(told.matches("PUBACK").count() - told.matches("0x97").count(), 3, "{told}");
    assert_eq!((count(&world, |facts| facts.refused_inbox), count(&world, |facts| facts.dropped_inbox)), (7, 0));
}

#[test]
fn what_waits_too_long_is_counted_by_why() {
    let mut world = World::new(small(DurablePolicy::DropOldest, SlowReader::Drop));
    world.run("s: CONNECT expiry=1000; s: SUBSCRIBE t qos=1; s: drop; p: CONNECT");
    world.run("p: PUBLISH t one qos=1 expiry=5; p: PUBLISH t two qos=1; wait 8000");
    assert_eq!((count(&world, |facts| facts.dropped_expired), count(&world, |facts| facts.dropped_aged)), (1, 0));
    world.run("wait 15000");
    assert_eq!((count(&world, |facts| facts.dropped_expired), count(&world, |facts| facts.dropped_aged)), (1, 1));
}

#[test]
fn what_a_session_takes_with_it_is_counted() {
    let mut world = World::new(small(DurablePolicy::DropOldest, SlowReader::Drop));
    world.run("s: CONNECT expiry=5; s: SUBSCRIBE t qos=1; s: drop; p: CONNECT; p: PUBLISH t one qos=1");
    world.run("p: PUBLISH t two qos=0");
    assert_eq!(count(&world, |facts| facts.dropped_offline), 1, "QoS 0 does not wait for who is away");
    world.run("wait 8000");
    assert_eq!(count(&world, |facts| facts.dropped_ended), 1);
    // A session that ends with its connection: one is under way, and two wait for it.
    world.run("c: CONNECT recv=1; c: SUBSCRIBE t qos=1");
    world.run("p: PUBLISH t 1 qos=1; p: PUBLISH t 2 qos=1; p: PUBLISH t 3 qos=1; c: drop");
    assert_eq!(count(&world, |facts| facts.dropped_ended), 3);
}

#[test]
fn a_full_disk_loses_nothing_without_a_count() {
    let options = WorldOptions { journal: Options::small(256 << 10), ..small(DurablePolicy::Refuse, SlowReader::Drop) };
    let inboxes = InboxLimits::default();
    let mut world = World::new(WorldOptions { inboxes, workers: 1, topic_shards: 1, ..options });
    world.run("s: CONNECT expiry=1000; s: SUBSCRIBE # qos=1; s: drop; p: CONNECT; disk-full");
    let publish = format!("p: PUBLISH t {} qos=1", "x".repeat(4_000));
    let is_full = (0..200).any(|_| world.run(&publish).contains("0x97"));
    assert!(is_full, "the disk does not fill up");
    let refused = count(&world, |facts| facts.refused_disk_full);
    assert!(refused > 0);
    world.run("p: PUBLISH kept x retain; w: CONNECT will=gone,x,qos=1; w: drop");
    assert_eq!(count(&world, |facts| facts.dropped_disk_full), 1, "what is retained: nobody waits for an answer");
    assert_eq!(count(&world, |facts| facts.wills_waiting), 1);
    assert_eq!(count(&world, |facts| facts.refused_disk_full), refused + 1, "the will is sent again");
}

#[test]
fn a_slow_reader_is_told_if_the_configuration_says_so() {
    for (policy, qos, subscribe) in [
        (DurablePolicy::DropOldest, 0, "s: CONNECT; s: SUBSCRIBE t"),
        (DurablePolicy::DropOldest, 1, "s: CONNECT recv=1; s: SUBSCRIBE t qos=1"),
        (DurablePolicy::DropOldest, 1, "s: CONNECT expiry=1000 recv=1; s: SUBSCRIBE t qos=1"),
        (DurablePolicy::DropNewest, 1, "s: CONNECT expiry=1000 recv=1; s: SUBSCRIBE t qos=1"),
    ] {
        for (slow_reader, closed) in [(SlowReader::Drop, 0), (SlowReader::Disconnect, 1)] {
            let mut world = World::new(small(policy, slow_reader));
            world.run(subscribe);
            if qos == 0 {
                world.run("s: stall");
            }
            let mut told = ten(&mut world, qos);
            told += &world.run("s: flow; wait 100");
            let told: String =
                told.lines().filter(|line| !line.contains("xxx")).map(|line| format!("{line}\n")).collect();
            let case = format!("{policy:?}, QoS {qos}, {subscribe}: {told}");
            assert_eq!(told.matches("s < DISCONNECT 0x97").count(), closed, "{case}");
            assert_eq!(count(&world, |facts| facts.slow_closed), closed as u64, "{case}");
            let lost = |facts: &BrokerFacts| facts.losses().iter().map(|(_, count)| count).sum();
            assert!(count(&world, lost) > 0, "{case}");
        }
    }
}

#[test]
fn a_clean_inbox_counts_who_made_room_and_who_did_not_come_in() {
    for (policy, evicted, dropped) in [(InboxPolicy::DropOldest, 6, 0), (InboxPolicy::DropNewest, 0, 6)] {
        let mut options = small(DurablePolicy::DropOldest, SlowReader::Drop);
        options.limits.clean_inbox_policy = policy;
        let mut world = World::new(options);
        world.run("s: CONNECT recv=1; s: SUBSCRIBE t qos=1");
        ten(&mut world, 1);
        let counts = (count(&world, |facts| facts.evicted_inbox), count(&world, |facts| facts.dropped_inbox));
        assert_eq!(counts, (evicted, dropped), "one is under way, three wait");
    }
}

/// So many bytes in all for the clients of one worker.
fn waiting(waiting_bytes_max: u64) -> WorldOptions {
    let limits = BrokerLimits { waiting_bytes_max, sys_interval_ms: 0, ..BrokerLimits::default() };
    WorldOptions { workers: 1, limits, ..WorldOptions::default() }
}

#[test]
fn however_many_take_nothing_what_waits_for_them_has_a_bound_and_who_takes_gets_everything() {
    let (bound, payload) = (1 << 20, "x".repeat(2_000));
    let mut world = World::new(waiting(bound));
    world.run("p: CONNECT user=p; f: CONNECT user=f; f: SUBSCRIBE t qos=1; g: CONNECT; g: SUBSCRIBE t");
    for n in 0..60 {
        let user = if n % 2 == 0 { format!("user=u{n}") } else { String::new() };
        world.run(&format!("c{n}: CONNECT {user} recv=10; c{n}: SUBSCRIBE t qos=1; c{n}: stall"));
    }
    for nth in 0..100 {
        let heard = world.run(&format!("p: PUBLISH t {payload} qos=1; p: PUBLISH t {payload}; wait 100"));
        assert_eq!(heard.matches("f < PUBLISH").count(), 2, "publication {nth} for who takes it");
        assert_eq!(heard.matches("g < PUBLISH").count(), 2, "publication {nth} for who takes it, without a user");
        let held = count(&world, |facts| facts.waiting_bytes);
        assert!(held <= bound, "{held} bytes wait");
    }
    let held = count(&world, |facts| facts.waiting_bytes);
    assert!(held > bound / 2, "most of it is used: {held}");
    let of = |users: usize| (0..60).filter(|n| n % 2 == users).map(|n| world.unsent(&format!("c{n}"))).sum::<usize>();
    assert!(of(0) > 0 && of(1) as u64 <= bound / 2, "{} for users, {} for others", of(0), of(1));
    assert!(count(&world, |facts| facts.dropped_outbox) > 0 && count(&world, |facts| facts.dropped_inbox) > 0);
}

#[test]
fn what_is_durable_and_found_no_room_because_of_others_is_sent_when_they_leave_some() {
    let mut world = World::new(waiting(200_000));
    world.run("p: CONNECT user=p; d: CONNECT user=d expiry=1000; d: SUBSCRIBE d qos=1");
    world.run("s: CONNECT user=s; s: SUBSCRIBE t; s: stall");
    for _ in 0..100 {
        world.run(&format!("p: PUBLISH t {}", "x".repeat(2_000)));
    }
    let large = "x".repeat(80_000);
    let heard = world.run(&format!("p: PUBLISH d {large} qos=1; wait 1000"));
    assert!(heard.contains("p < PUBACK"), "it is taken: {heard}");
    assert!(!heard.contains("d < PUBLISH"), "there is no room for it");
    // Nothing comes from who waits: room is enough.
    let heard = world.run("s: drop; wait 1000");
    assert!(heard.contains("d < PUBLISH"), "{heard}");
}

/// One client that takes nothing holds what all may, but for little.
fn crowded() -> World {
    let mut world = World::new(waiting(200_000));
    world.run("p: CONNECT user=p; d: CONNECT user=d expiry=1000; d: SUBSCRIBE d qos=1");
    world.run("s: CONNECT user=s; s: SUBSCRIBE t; s: stall");
    for _ in 0..100 {
        world.run(&format!("p: PUBLISH t {}", "x".repeat(2_000)));
    }
    world
}

#[test]
fn what_is_small_and_of_qos_0_does_not_overtake_what_found_no_room() {
    let mut world = crowded();
    world.run(&format!("p: PUBLISH d {} qos=1; wait 100", "x".repeat(80_000)));
    let heard = world.run("p: PUBLISH d small; wait 100");
    assert!(!heard.contains("d < PUBLISH"), "{heard}");
    let heard = world.run("s: drop; wait 1000; p: PUBLISH d small");
    assert_eq!(heard.matches("d < PUBLISH").count(), 2, "the large one, and what came behind it: {heard}");
}

#[test]
fn what_is_sent_again_and_finds_no_room_is_not_forgotten_while_it_waits() {
    let mut world = World::new(waiting(200_000));
    world.run("d: CONNECT user=d expiry=1000; d: SUBSCRIBE d qos=1; d: drop; p: CONNECT user=p");
    world.run(&format!("p: PUBLISH d {} qos=1", "x".repeat(80_000)));
    // What was sent before a start is not known: all of it is sent again.
    world.run("kill; wait 1000; p: CONNECT user=p; s: CONNECT user=s; s: SUBSCRIBE t; s: stall");
    for _ in 0..100 {
        world.run(&format!("p: PUBLISH t {}", "x".repeat(2_000)));
    }
    let heard = world.run("d: CONNECT user=d expiry=1000 keep; wait 60000");
    assert!(!heard.contains("d < PUBLISH"), "there is no room for it");
    let heard = world.run("s: drop; wait 1000");
    assert!(heard.contains("d < PUBLISH"), "{heard}");
}
