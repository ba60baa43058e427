//! What a member of a share group has whose session lives in memory alone goes to another when it is over.

use tidegate_broker::{BrokerLimits, InboxPolicy, SlowReader};
use tidegate_machines::ledger::shard_of;

use crate::support::{World, WorldOptions};

fn world() -> World {
    world_with(BrokerLimits::default())
}

fn world_with(limits: BrokerLimits) -> World {
    let limits = BrokerLimits { share_stalled_ms: 5_000, sys_interval_ms: 0, ..limits };
    World::new(WorldOptions { limits, ..WorldOptions::default() })
}

/// Which payloads a member was sent, in order.
fn payloads(heard: &str, member: &str) -> Vec<u32> {
    let lines = heard.lines().filter_map(|line| line.trim().strip_prefix(&format!("{member} < PUBLISH t ")));
    lines.map(|rest| rest.split(' ').next().unwrap_or_default().parse().expect("a number")).collect()
}

fn publish(payloads: std::ops::Range<u32>, qos: u8) -> String {
    payloads.map(|payload| format!("p: PUBLISH t {payload} qos={qos};")).collect()
}

fn facts(world: &World) -> (u64, u64) {
    let facts = world.brokers().iter().map(|broker| broker.facts());
    facts.fold((0, 0), |(passed, ended), facts| (passed + facts.shares_passed_on, ended + facts.dropped_ended))
}

#[test]
fn what_was_not_acknowledged_and_what_waits_goes_to_another() {
    for (home, end, other) in [
        ("", "x: drop", "CONNECT"),
        ("@1", "x: drop", "CONNECT"),
        ("@1", "x: DISCONNECT", "CONNECT"),
        ("@1", "x: drop", "CONNECT expiry=1000"),
        ("", "x: DISCONNECT", "CONNECT expiry=1000"),
    ] {
        let mut world = world();
        world.run("x: CONNECT recv=4; x: SUBSCRIBE $share/g/t qos=1; p: CONNECT");
        let heard = world.run(&format!("{}; x: PUBACK 2; x: PUBACK 3 0x80", publish(1..11, 1)));
        assert_eq!(payloads(&heard, "x"), [1, 2, 3, 4, 5, 6]);
        world.run(&format!("y{home}: {other}; y: auto; y: SUBSCRIBE $share/g/t qos=1"));
        let heard = world.run(end);
        assert_eq!(payloads(&heard, "y"), [1, 4, 5, 6, 7, 8, 9, 10], "2 was taken, and 3 refused: {heard}");
        assert!(!heard.contains("dup"), "for the other it is a message like others: {heard}");
        assert_eq!(facts(&world), (8, 0));
        let heard = world.run("y: drop");
        assert_eq!((payloads(&heard, "y"), facts(&world)), (vec![], (8, 0)), "all was acknowledged");
    }
}

#[test]
fn it_is_kept_for_who_is_away_if_nobody_is_there() {
    let mut world = world();
    world.run("x: CONNECT; x: SUBSCRIBE $share/g/t qos=1; p: CONNECT");
    world.run("y@1: CONNECT expiry=1000; y: SUBSCRIBE $share/g/t qos=1; y: drop");
    world.run(&format!("{}; x: drop", publish(1..4, 1)));
    let heard = world.run("y@1: CONNECT keep expiry=1000");
    assert_eq!((payloads(&heard, "y"), facts(&world)), (vec![1, 2, 3], (3, 0)), "{heard}");
}

#[test]
fn what_nobody_else_is_there_for_is_counted() {
    let mut world = world();
    world.run("x: CONNECT; x: SUBSCRIBE $share/g/t qos=1; p: CONNECT");
    world.run(
        "z: CONNECT; z: SUBSCRIBE $share/h/t qos=1; z: auto; o: CONNECT; o: SUBSCRIBE t; q: CONNECT; q: SUBSCRIBE t",
    );
    let heard = world.run(&format!("{}; x: drop", publish(1..4, 1)));
    assert_eq!((payloads(&heard, "z"), facts(&world)), (vec![1, 2, 3], (0, 3)), "another group has its own: {heard}");
}

/// `[MQTT-4.8.2-5]`: a QoS 2 delivery that was started with a member is sent to no other member.
#[test]
fn of_qos_2_only_what_waits_goes_to_another() {
    let mut world = world();
    world.run("x: CONNECT recv=2; x: SUBSCRIBE $share/g/t qos=2; p: CONNECT");
    world.run(&publish(1..6, 2));
    world.run("y: CONNECT; y: auto; y: SUBSCRIBE $share/g/t qos=2");
    let heard = world.run("x: drop");
    assert_eq!((payloads(&heard, "y"), facts(&world)), (vec![3, 4, 5], (3, 0)), "{heard}");
}

#[test]
fn what_was_not_sent_goes_to_another_when_its_client_unsubscribes() {
    let mut world = world();
    world.run("x: CONNECT recv=2; x: SUBSCRIBE $share/g/t qos=1; x: SUBSCRIBE t qos=1; p: CONNECT");
    world.run(&publish(1..4, 1));
    world.run("y@1: CONNECT; y: auto; y: SUBSCRIBE $share/g/t qos=1");
    let heard = world.run("x: UNSUBSCRIBE $share/g/t");
    assert_eq!(payloads(&heard, "y"), [2, 3], "the first one was sent: {heard}");
    let heard = world.run("x: PUBACK 1; x: PUBACK 2");
    assert_eq!(payloads(&heard, "x"), [2, 3], "its own: {heard}");
    let heard = world.run("x: drop");
    assert_eq!(payloads(&heard, "y"), [0; 0], "what it was sent by the group it has acknowledged: {heard}");
}

#[test]
fn what_was_sent_before_its_client_unsubscribed_goes_to_another_if_it_is_never_acknowledged() {
    let mut world = world();
    world.run("x: CONNECT; x: SUBSCRIBE $share/g/t qos=1; p: CONNECT");
    world.run(&publish(1..4, 1));
    world.run("y@1: CONNECT; y: auto; y: SUBSCRIBE $share/g/t qos=1");
    let heard = world.run("x: UNSUBSCRIBE $share/g/t; x: PUBACK 2");
    assert_eq!(payloads(&heard, "y"), [0; 0], "it may still acknowledge them: {heard}");
    let heard = world.run("x: drop");
    assert_eq!((payloads(&heard, "y"), facts(&world)), (vec![1, 3], (2, 0)), "{heard}");
}

#[test]
fn what_a_client_takes_nothing_of_goes_to_who_is_ready() {
    let mut world = world();
    world.run("x: CONNECT recv=2; x: SUBSCRIBE $share/g/t qos=1; p: CONNECT");
    world.run(&publish(1..5, 1));
    let heard = world.run("wait 10000");
    assert_eq!((payloads(&heard, "x"), facts(&world)), (vec![], (0, 0)), "nobody else is there: {heard}");
    let heard =
        world.run(&format!("{} y: CONNECT; y: auto; y: SUBSCRIBE $share/g/t qos=1; wait 200", publish(5..8, 1)));
    assert_eq!((payloads(&heard, "y"), facts(&world)), (vec![1, 2, 3, 4, 5, 6, 7], (7, 0)), "somebody comes: {heard}");
    let mut world = world_with(BrokerLimits::default());
    world.run("x: CONNECT recv=2; x: SUBSCRIBE $share/g/t qos=1; p: CONNECT");
    world.run(&publish(1..5, 1));
    world.run("y@1: CONNECT; y: auto; y: SUBSCRIBE $share/g/t qos=1");
    let heard = world.run("wait 10000");
    assert_eq!((payloads(&heard, "y"), facts(&world)), (vec![1, 2, 3, 4], (4, 0)), "{heard}");
    let heard = world.run("x: PUBACK 1; x: PUBACK 2; x: drop");
    assert_eq!(payloads(&heard, "y"), [0; 0], "it is given once: {heard}");
}

#[test]
fn what_is_kept_until_it_is_acknowledged_has_a_bound() {
    let mut world = world_with(BrokerLimits { clean_inbox_messages_max: 3, ..BrokerLimits::default() });
    world.run("x: CONNECT; x: SUBSCRIBE $share/g/t qos=1; p: CONNECT");
    let heard = world.run(&publish(1..6, 1));
    assert_eq!(payloads(&heard, "x").len(), 5);
    world.run("y: CONNECT; y: auto; y: SUBSCRIBE $share/g/t qos=1");
    let heard = world.run("x: drop");
    assert_eq!(payloads(&heard, "y"), [1, 2, 3], "{heard}");
}

#[test]
fn what_another_has_no_room_for_is_offered_again_and_nobody_is_disconnected_for_it() {
    for (policy, slow_reader) in [
        (InboxPolicy::Refuse, SlowReader::Drop),
        (InboxPolicy::DropOldest, SlowReader::Disconnect),
        (InboxPolicy::DropOldest, SlowReader::Drop),
    ] {
        for home in ["", "@1"] {
            let mut world = world_with(BrokerLimits {
                clean_inbox_messages_max: 3,
                clean_inbox_policy: policy,
                slow_reader,
                ..BrokerLimits::default()
            });
            world.run("x: CONNECT recv=3; x: SUBSCRIBE $share/g/t qos=1; p: CONNECT");
            world.run(&publish(1..7, 1));
            world.run(&format!("y{home}: CONNECT recv=1; y: SUBSCRIBE $share/g/t qos=1"));
            let heard = world.run("x: drop; wait 2000");
            assert_eq!(payloads(&heard, "y"), [1], "{heard}");
            let heard = world.run("y: PUBACK 1; y: PUBACK 2; y: auto; y: PUBACK 3; wait 500");
            assert_eq!(payloads(&heard, "y"), [2, 3, 4, 5, 6], "{policy:?}, {slow_reader:?}: {heard}");
        }
    }
}

#[test]
fn what_nobody_has_room_for_in_a_minute_is_counted() {
    let mut world = world_with(BrokerLimits { clean_inbox_messages_max: 1, ..BrokerLimits::default() });
    world.run("x: CONNECT recv=1; x: SUBSCRIBE $share/g/t qos=1; z: CONNECT recv=1; z: SUBSCRIBE $share/g/t qos=1");
    world.run(&format!("p: CONNECT; {}", publish(1..5, 1)));
    world.run("y: CONNECT recv=1; y: SUBSCRIBE $share/g/t qos=1; x: drop; z: drop; wait 70000");
    let lost: u64 = world.brokers().iter().map(|broker| broker.facts().dropped_inbox).sum();
    assert_eq!(lost, 2, "one was sent, and one waits");
}

/// Its publisher waits for the disk of who has it now.
#[test]
fn what_is_picked_for_again_is_acknowledged_when_the_other_has_it_on_its_disk() {
    let ids_on = |worker| (0..).map(|id| format!("c{id}")).filter(move |id| shard_of(id, 2).0 == worker);
    let mut on_0 = ids_on(0);
    let (p, y, x) = (on_0.next().expect("one"), on_0.next().expect("another"), ids_on(1).next().expect("one"));
    let ends = ["x: UNSUBSCRIBE $share/g/t", "x: DISCONNECT expiry=0"];
    for (end, qos) in ends.iter().flat_map(|end| [(end, 1), (end, 2)]) {
        let mut world = World::new(WorldOptions { topic_shards: 2, ..WorldOptions::default() });
        let subscribed = "expiry=1000; x: auto; x: SUBSCRIBE $share/g/t qos=2";
        world.run(&format!("p: CONNECT id={p}; y: CONNECT id={y} {}; y: drop", subscribed.replace("x:", "y:")));
        world.run(&format!("x@1: CONNECT id={x} {subscribed}"));
        // Worker 0 does not hear that who is there is no member any more.
        world.hand_over("mute 1");
        world.hand_over(end);
        world.turns(8);
        world.hand_over("disk-slow");
        world.hand_over(&format!("p: PUBLISH t 7 qos={qos}"));
        world.turns(4);
        world.hand_over("unmute");
        let heard = world.run("wait 10");
        assert!(!heard.contains("p < PUB"), "no disk has it: {heard}");
        let heard = world.run(&format!("disk-fast; wait 10; y: CONNECT id={y} keep expiry=1000"));
        assert!(heard.contains("p < PUB"), "{end}: {heard}");
        assert_eq!((payloads(&heard, "y"), facts(&world)), (vec![7], (1, 0)), "{end}: {heard}");
    }
}
