//! What was acknowledged and falls due while the disk is full stays due.

use tidegate_journal::Options;

use crate::support::{World, WorldOptions};

/// A world in which the inbox of `s` takes no more messages, because the disk is full; `s` is not connected. `before`
/// happens while there is room.
fn full(options: WorldOptions, before: &str) -> World {
    let mut world = World::new(WorldOptions { journal: Options::small(256 << 10), ..options });
    world.run("s: CONNECT expiry=1000; s: SUBSCRIBE fill due/# qos=1; s: drop; c: CONNECT; c: SUBSCRIBE due/# qos=1");
    world.run("c: auto");
    world.run(before);
    world.run("disk-full; f: CONNECT");
    let publish = format!("f: PUBLISH fill {} qos=1", "x".repeat(4_000));
    for _ in 0..200 {
        let heard = world.run(&publish);
        if !heard.contains("PUBACK") || heard.contains("0x") {
            return world;
        }
    }
    panic!("the disk does not fill up");
}

/// Runs a script. What was heard, without what fills the disk.
fn run(world: &mut World, script: &str) -> String {
    world.run(script).lines().filter(|line| !line.contains(" fill ")).map(|line| format!("{line}\n")).collect()
}

/// How often `who` heard of `topic`.
fn heard_of(heard: &str, who: &str, topic: &str) -> usize {
    heard.matches(&format!("{who} < PUBLISH {topic} ")).count()
}

fn check_delayed(options: WorldOptions) {
    let publish =
        "p: CONNECT; p: PUBLISH $delayed/3/due/one x qos=1; p: PUBLISH $delayed/4/due/two x qos=2; p: PUBREL 2";
    let mut world = full(options, publish);
    let meanwhile = run(&mut world, "wait 8000");
    assert_eq!(heard_of(&meanwhile, "c", "due/one"), 1, "it keeps nothing on the disk: {meanwhile}");
    assert_eq!(heard_of(&meanwhile, "c", "due/two"), 1, "{meanwhile}");
    let later = run(
        &mut world,
        "disk-room; wait 3000; t: open; t: auto; t: CONNECT keep id=s expiry=1000 recv=1000; wait 1000",
    );
    assert_eq!((heard_of(&later, "t", "due/one"), heard_of(&later, "t", "due/two")), (1, 1), "{later}");
    assert_eq!(heard_of(&later, "c", "due/one") + heard_of(&later, "c", "due/two"), 0, "it has them: {later}");
    let after = run(&mut world, "kill 5000; s: CONNECT keep expiry=1000; wait 2000");
    assert_eq!(heard_of(&after, "s", "due/one") + heard_of(&after, "s", "due/two"), 0, "once: {after}");
}

#[test]
fn delayed_messages_that_fall_due_on_a_full_disk_come_when_there_is_room() {
    check_delayed(WorldOptions { workers: 1, topic_shards: 1, ..WorldOptions::default() });
}

#[test]
fn so_they_do_where_other_workers_have_the_sessions() {
    check_delayed(WorldOptions::default());
}

#[test]
fn they_survive_a_kill_before_there_is_room() {
    let mut world = full(WorldOptions::default(), "p: CONNECT; p: PUBLISH $delayed/3/due/one x qos=1");
    world.run("wait 5000");
    let later = run(
        &mut world,
        "disk-room; kill; wait 2000; t: open; t: auto; t: CONNECT keep id=s expiry=1000 recv=1000; wait 1000",
    );
    assert_eq!(heard_of(&later, "t", "due/one"), 1, "{later}");
}

/// One will has a delay; the session of the other ends with its expiry.
#[test]
fn wills_that_fall_due_on_a_full_disk_come_when_there_is_room() {
    let before = "w: CONNECT expiry=1000 will=due/one,gone,qos=1,delay=3
                  v: CONNECT expiry=4 will=due/two,gone,qos=1,delay=1000; w: drop; v: drop";
    let mut world = full(WorldOptions::default(), before);
    let meanwhile = run(&mut world, "wait 8000");
    assert_eq!((heard_of(&meanwhile, "c", "due/one"), heard_of(&meanwhile, "c", "due/two")), (1, 1), "{meanwhile}");
    let later = run(
        &mut world,
        "disk-room; wait 3000; t: open; t: auto; t: CONNECT keep id=s expiry=1000 recv=1000; wait 1000",
    );
    assert_eq!((heard_of(&later, "t", "due/one"), heard_of(&later, "t", "due/two")), (1, 1), "{later}");
    assert_eq!(heard_of(&later, "c", "due/one") + heard_of(&later, "c", "due/two"), 0, "it has them: {later}");
    // The session of the second has ended, and that of the first may bring another will.
    let after = world
        .run("v: CONNECT keep expiry=4; w: CONNECT keep expiry=1000 will=due/three,gone,qos=1; w: drop; wait 1000");
    assert!(after.contains("v < CONNACK success\n"), "{after}");
    assert_eq!(heard_of(&after, "t", "due/three"), 1, "{after}");
}

/// The new will is not taken for the one that some have.
#[test]
fn a_client_that_comes_back_meanwhile_may_bring_another_will() {
    let before = "w: CONNECT expiry=1000 will=due/one,gone,qos=1,delay=3; w: drop";
    let mut world = full(WorldOptions::default(), before);
    world.run("wait 5000");
    let later = run(
        &mut world,
        "disk-room; w: CONNECT keep expiry=1000 will=due/two,gone,qos=1; w: drop; wait 3000
         t: open; t: auto; t: CONNECT keep id=s expiry=1000 recv=1000; wait 1000",
    );
    assert_eq!(heard_of(&later, "t", "due/two"), 1, "{later}");
}
