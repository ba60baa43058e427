//! What operators ask of a broker: lists, disconnecting, ending sessions, publishing.

use tidegate_journal::Options;

use crate::support::{World, WorldOptions};

fn alone() -> World {
    World::new(WorldOptions { workers: 1, topic_shards: 1, ..WorldOptions::default() })
}

/// So many clients, all at once.
fn connect(world: &mut World, clients: usize) {
    for n in 0..clients {
        world.hand_over(&format!("c{n}: CONNECT id=s{n:04}"));
    }
    world.run("wait 1");
}

/// What came of each command that anything came of.
fn told(world: &mut World, script: &str) -> Vec<String> {
    let told = world.run(script);
    told.lines().filter(|line| line.contains(" < ")).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn a_list_is_made_in_slices_and_misses_nobody_who_stays() {
    let mut world = alone();
    connect(&mut world, 3_000);
    // Half of them go, and others come, while the walk is on its way.
    world.hand_over("operate list 1000");
    for n in (1..3_000).step_by(2) {
        world.hand_over(&format!("c{n}: DISCONNECT"));
    }
    world.hand_over("new: CONNECT id=s0000a");
    world.run("wait 1");
    let (mut after, mut all) = (String::new(), Vec::new());
    loop {
        let told = world.run(&format!("operate list 1000 {after}"));
        let line = told.lines().find_map(|line| line.trim().strip_prefix("operator < ")).expect("an answer").to_owned();
        let (names, next) = line.split_once(" > ").unwrap_or((&line, ""));
        all.extend(names.split_whitespace().map(str::to_owned));
        if next.is_empty() {
            break;
        }
        after = next.to_owned();
    }
    assert!(all.is_sorted() && all.contains(&"s0000a+0".to_owned()));
    let stayed = (0..3_000).step_by(2).map(|n| format!("s{n:04}+0"));
    assert!(stayed.clone().all(|id| all.contains(&id)), "who stays is listed");
    assert_eq!(all.len(), 1_501, "and nobody twice");
}

#[test]
fn one_step_of_a_list_looks_at_a_slice_only() {
    let mut world = alone();
    connect(&mut world, 2_500);
    world.hand_over("operate list 10");
    // Three slices of places, then the rows.
    assert_eq!(world.turns_until_heard(), 4);
}

#[test]
fn a_kicked_client_hears_why_and_its_will_is_sent() {
    let mut world = alone();
    let script = "w: CONNECT; w: SUBSCRIBE wills qos=1
                  a: CONNECT id=a keep expiry=100 will=wills,gone why; operate kick a; operate kick a; operate list 9";
    assert_eq!(
        told(&mut world, script),
        [
            "w < CONNACK success",
            "w < SUBACK 1 1",
            "a < CONNACK success",
            "a < DISCONNECT 0x98 administrative_action why=an operator has disconnected this client",
            "a < closed",
            "operator < Done",
            "w < PUBLISH wills gone",
            "operator < NotFound",
            "operator < a-0 w+0",
        ]
    );
}

#[test]
fn a_session_that_is_ended_is_gone_with_what_waits_for_it() {
    let mut world = alone();
    let script = "a: CONNECT id=a keep expiry=100; a: SUBSCRIBE t qos=1; a: DISCONNECT
                  p: CONNECT id=p; p: PUBLISH t one qos=1; operate list 9; operate end a; operate end a
                  kill; operate list 9; a: CONNECT id=a keep expiry=100";
    assert_eq!(
        told(&mut world, script),
        [
            "a < CONNACK success",
            "a < SUBACK 1 1",
            "a < closed",
            "p < CONNACK success",
            "p < PUBACK 1",
            "operator < a-1 p+0",
            "operator < Done",
            "operator < NotFound",
            "operator < ",
            "a < CONNACK success",
        ]
        .map(str::trim)
    );
}

#[test]
fn what_an_operator_publishes_is_answered_when_it_is_kept_on_all_workers() {
    let mut world = World::new(WorldOptions::default());
    let script = "a: CONNECT id=a keep expiry=100; a: SUBSCRIBE t qos=1
                  b@1: CONNECT id=b keep expiry=100; b: SUBSCRIBE t qos=1; a: DISCONNECT; b: DISCONNECT
                  operate publish t one qos=1; operate publish none x qos=1; operate publish t kept qos=1 retain
                  operate publish other live retain; operate retained #; operate publish other - qos=1 retain
                  operate retained #; operate publish $ledger/transfers x; operate publish feed/x y
                  kill; a: CONNECT id=a keep expiry=100; b@1: CONNECT id=b keep expiry=100";
    let told = told(&mut world, script);
    let of_operator: Vec<_> = told.iter().filter_map(|line| line.strip_prefix("operator <")).map(str::trim).collect();
    assert_eq!(
        of_operator,
        [
            "Published { matched: true }",
            "Published { matched: false }",
            "Published { matched: true }",
            "Published { matched: true }",
            "other t",
            "Published { matched: true }",
            "t",
            "Refused(0x90 topic_name_invalid)",
            "Refused(0x90 topic_name_invalid)",
        ]
    );
    for name in ["a", "b"] {
        let got: Vec<_> = told.iter().filter(|line| line.starts_with(&format!("{name} < PUBLISH"))).collect();
        assert_eq!(got.len(), 2, "{name}: {told:#?}");
    }
}

#[test]
fn on_a_full_disk_an_operator_is_told_so() {
    let options =
        WorldOptions { journal: Options::small(256 << 10), workers: 1, topic_shards: 1, ..Default::default() };
    let mut world = World::new(options);
    world.run("a: CONNECT id=a keep expiry=100; a: SUBSCRIBE t qos=1; a: drop; disk-full");
    let publish = format!("operate publish t {} qos=1", "x".repeat(4_000));
    let told_full = (0..200).find(|_| told(&mut world, &publish) == ["operator < DiskFull"]);
    assert!(told_full.is_some(), "the disk does not fill up");
    let retained = format!("operate publish u {} qos=1 retain", "x".repeat(4_000));
    assert_eq!(told(&mut world, &retained), ["operator < DiskFull"]);
    world.run("disk-room");
    assert_eq!(told(&mut world, &publish), ["operator < Published { matched: true }"]);
}
