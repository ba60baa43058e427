//! What was acknowledged and falls due while the disk is full stays due. Who can be refused is refused, and who needs
//! no disk goes on.

use tidegate_broker::{HoldingLimits, Thing};
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
    assert_eq!((heard_of(&later, "t", "due/one"), heard_of(&later, "t", "due/two")), (1, 1), "{later}");
}

/// The good-bye waits for the disk, and the client is back before it is on it.
#[test]
fn a_will_that_was_taken_back_is_not_sent_because_the_disk_does_not_know_it_yet() {
    let before = "w: CONNECT expiry=1000 will=due/one,gone,qos=1; v: CONNECT expiry=1000 will=due/two,gone,qos=1";
    let mut world = full(one_shard(), before);
    let heard = run(
        &mut world,
        "w: DISCONNECT; v: DISCONNECT; wait 1000; w: CONNECT keep expiry=1000; v: CONNECT expiry=1000; wait 1000
         disk-room; wait 3000; t: open; t: auto; t: CONNECT keep id=s expiry=1000 recv=1000; wait 1000",
    );
    assert!(heard.contains("w < CONNACK") && heard.contains("v < CONNACK"), "{heard}");
    for topic in ["due/one", "due/two"] {
        assert_eq!((heard_of(&heard, "c", topic), heard_of(&heard, "t", topic)), (0, 0), "{heard}");
    }
}

fn one_shard() -> WorldOptions {
    WorldOptions { workers: 1, topic_shards: 1, ..WorldOptions::default() }
}

/// An acknowledgement of a durable session waits for the disk, and is first in its shard.
#[test]
fn what_takes_note_keeps_nobody_else_waiting() {
    let before = "t: CONNECT expiry=1000; t: SUBSCRIBE note qos=1; p: CONNECT; p: PUBLISH note x qos=1; q: CONNECT v3
                  r: CONNECT v3 keep; r: SUBSCRIBE note";
    let mut world = full(one_shard(), before);
    world.run("t: PUBACK 1");
    let heard = run(
        &mut world,
        "p: PUBLISH due/here x qos=1; u: CONNECT why expiry=1000; v: CONNECT; c: SUBSCRIBE live qos=1
         p: PUBLISH live x qos=1; p: PUBLISH live y; p: PUBLISH $delayed/5/x y qos=1; p: PUBLISH kept z retain qos=2
         p: SUBSCRIBE clean/#; q: PUBLISH due/here x qos=1; t: UNSUBSCRIBE note; t: PING; r: UNSUBSCRIBE note",
    );
    let told = |line: &str| assert!(heard.contains(&format!("    {line}")), "{line:?} is not in: {heard}");
    told("p < PUBACK 2 0x97 quota_exceeded");
    told("u < CONNACK 0x97 quota_exceeded why=the disk of the server is full, nothing can be kept: try again later");
    told("v < CONNACK success");
    told("c < PUBLISH live x qos=1");
    told("p < PUBACK 3\n");
    told("c < PUBLISH live y");
    told("p < PUBACK 4 0x97");
    told("p < PUBREC 5 0x97");
    told("p < SUBACK 6 0");
    told("q < closed");
    told("t < UNSUBACK 2 0x83");
    told("t < PINGRESP");
    told("r < closed");
    let later = run(&mut world, "disk-room; wait 3000; p: PUBLISH due/here x qos=1; u: CONNECT expiry=1000");
    assert!(later.contains("p < PUBACK 7\n") && later.contains("u < CONNACK success"), "{later}");
    let after = run(&mut world, "kill; t: CONNECT keep expiry=1000 recv=1000; wait 1000");
    assert_eq!(heard_of(&after, "t", "note"), 0, "its acknowledgement was noted: {after}");
}

#[test]
fn what_is_due_for_those_who_are_there_goes_on_and_comes_once() {
    let before = "p: CONNECT; c: SUBSCRIBE live/# qos=1; p: PUBLISH $delayed/3/live/one x qos=1
                  p: PUBLISH $delayed/6/live/two x qos=1";
    let mut world = full(one_shard(), before);
    let meanwhile = run(&mut world, "wait 20000");
    assert_eq!((heard_of(&meanwhile, "c", "live/one"), heard_of(&meanwhile, "c", "live/two")), (1, 1), "{meanwhile}");
    let later = run(&mut world, "disk-room; wait 5000");
    assert_eq!(heard_of(&later, "c", "live/one") + heard_of(&later, "c", "live/two"), 0, "{later}");
}

/// A session that ends with its connection keeps its will until all who must have it do.
#[test]
fn the_will_of_a_durable_session_that_ends_at_once_is_not_lost() {
    for goodbye in ["w: DISCONNECT expiry=0 04", "w: drop"] {
        let before = "w: CONNECT expiry=1000; w: CONNECT keep expiry=0 will=due/one,gone,qos=1,delay=100";
        let mut world = full(WorldOptions::default(), before);
        let meanwhile = run(&mut world, &format!("{goodbye}; wait 3000"));
        assert_eq!(heard_of(&meanwhile, "c", "due/one"), 1, "{goodbye}: {meanwhile}");
        let later = run(
            &mut world,
            "disk-room; wait 4000; t: open; t: auto; t: CONNECT keep id=s expiry=1000 recv=1000; wait 1000",
        );
        assert_eq!(heard_of(&later, "t", "due/one"), 1, "{goodbye}: {later}");
        assert_eq!(heard_of(&later, "c", "due/one"), 0, "it has it: {later}");
        let again = run(&mut world, "w: CONNECT keep expiry=10; kill; wait 1000; c: CONNECT; c: SUBSCRIBE due/#");
        assert!(again.contains("w < CONNACK success\n"), "its session has ended: {again}");
        assert_eq!(heard_of(&run(&mut world, "wait 20000"), "c", "due/one"), 0, "{again}");
    }
}

/// Who comes back before the will is kept finds no session, and the will is not lost either.
#[test]
fn a_session_that_waits_for_its_will_is_over() {
    let mut world = World::new(one_shard());
    world.run("c: CONNECT; c: SUBSCRIBE due/#; w: CONNECT expiry=1000; w: SUBSCRIBE x");
    world.run("w: CONNECT keep expiry=0 will=due/one,gone,qos=1");
    let heard = world.run("w: CONNECT keep expiry=1000");
    assert!(heard.contains("w < CONNACK success\n"), "{heard}");
    assert_eq!(heard_of(&heard, "c", "due/one"), 1, "{heard}");
}

/// How many wills wait for room.
fn wills_waiting(world: &World) -> u64 {
    world.brokers().iter().map(|broker| broker.facts().wills_waiting).sum()
}

/// Nothing of such a will is on the disk: it waits in memory, and its owner pays for that.
#[test]
fn the_will_of_a_session_that_ends_with_its_connection_waits_for_room() {
    for (options, qos) in [(WorldOptions::default(), 1), (WorldOptions::default(), 2), (one_shard(), 2)] {
        let mut world = full(options, &format!("w: CONNECT will=due/one,gone,qos={qos}"));
        let meanwhile = run(&mut world, "w: drop; wait 5000");
        assert_eq!(heard_of(&meanwhile, "c", "due/one"), 1, "{meanwhile}");
        assert_eq!((wills_waiting(&world), world.holdings().held(Thing::Delayed).0), (1, 1));
        let later = run(
            &mut world,
            "disk-room; wait 3000; t: open; t: auto; t: CONNECT keep id=s expiry=1000 recv=1000; wait 1000",
        );
        assert_eq!((heard_of(&later, "t", "due/one"), heard_of(&later, "c", "due/one")), (1, 0), "{later}");
        assert_eq!((wills_waiting(&world), world.holdings().held(Thing::Delayed).0), (0, 0));
        let shards = world.brokers().iter().flat_map(|broker| broker.shards());
        assert_eq!(shards.map(|shard| shard.state_ahead().facts().origins).sum::<u64>(), 0, "nobody knows it any more");
    }
}

#[test]
fn so_it_does_if_it_is_to_be_retained() {
    let mut world = full(one_shard(), "c: SUBSCRIBE kept; w: CONNECT will=kept,gone,qos=1,retain");
    let meanwhile = run(&mut world, "w: drop; wait 5000");
    assert_eq!((heard_of(&meanwhile, "c", "kept"), wills_waiting(&world)), (0, 1), "{meanwhile}");
    assert_eq!(world.holdings().held(Thing::Retained).0, 1, "its place is kept for it");
    let later = run(&mut world, "disk-room; wait 3000");
    assert_eq!((heard_of(&later, "c", "kept"), wills_waiting(&world)), (1, 0), "{later}");
    let after = run(&mut world, "kill; c: CONNECT; c: SUBSCRIBE kept");
    assert_eq!((heard_of(&after, "c", "kept"), world.holdings().held(Thing::Retained).0), (1, 1), "{after}");
}

#[test]
fn wills_that_wait_in_memory_are_bounded_by_what_their_owner_may_delay() {
    let mut holdings = HoldingLimits::NONE;
    holdings[Thing::Delayed].principal.count = 1;
    let before = "v: CONNECT user=anna will=due/one,gone,qos=1; w: CONNECT user=anna will=due/two,gone,qos=1
                  u: CONNECT user=bert will=due/three,gone,qos=1";
    let mut world = full(WorldOptions { holdings, ..WorldOptions::default() }, before);
    world.run("v: drop; w: drop; u: drop; wait 3000");
    let given_up: u64 = world.brokers().iter().map(|broker| broker.facts().dropped_disk_full).sum();
    assert_eq!((wills_waiting(&world), given_up), (2, 1), "anna's second one");
    let later = run(&mut world, "disk-room; wait 3000; t: open; t: auto; t: CONNECT keep id=s expiry=1000; wait 1000");
    let heard = ["due/one", "due/two", "due/three"].map(|topic| heard_of(&later, "t", topic));
    assert_eq!(heard, [1, 0, 1], "{later}");
}

/// Who ends its own session while its will waits does not take the will away.
#[test]
fn the_will_of_a_session_that_ends_meanwhile_comes_when_there_is_room() {
    let before =
        "w: CONNECT expiry=1000 will=due/one,gone,qos=2; v: CONNECT expiry=1000 will=due/two,gone,qos=2,delay=99";
    let mut world = full(WorldOptions::default(), &format!("{before}; v: drop"));
    let meanwhile = run(&mut world, "w: drop; wait 2000; w: CONNECT; v: CONNECT; wait 2000");
    assert!(meanwhile.contains("w < CONNACK success\n") && meanwhile.contains("v < CONNACK success\n"), "{meanwhile}");
    let later = run(
        &mut world,
        "disk-room; wait 3000; t: open; t: auto; t: CONNECT keep id=s expiry=1000 recv=1000; wait 1000",
    );
    assert_eq!((heard_of(&later, "t", "due/one"), heard_of(&later, "t", "due/two")), (1, 1), "{later}");
    let after = run(&mut world, "kill; t: open; t: auto; t: CONNECT keep id=s expiry=1000 recv=1000; wait 200000");
    assert_eq!(heard_of(&after, "t", "due/one") + heard_of(&after, "t", "due/two"), 0, "once: {after}");
}

/// Who cannot come back for want of room changes nothing of the session by having tried.
#[test]
fn a_session_whose_client_was_refused_is_as_it_was_before() {
    for gone in ["", "; w: drop"] {
        let before = "x: CONNECT expiry=1000; x: drop
             w: CONNECT expiry=1000 will=due/one,gone,qos=1,delay=8; w: SUBSCRIBE mine qos=1; w: drop";
        let mut world = full(one_shard(), before);
        // Those who come back have some of the room that is kept for notes.
        let is_full = (0..5_000).any(|_| world.run("x: CONNECT keep expiry=1000; x: drop").contains("0x97"));
        assert!(is_full, "they do not have all of it");
        world.hand_over("w: CONNECT keep expiry=0");
        if !gone.is_empty() {
            world.hand_over("w: drop");
        }
        let told = run(&mut world, "wait 2000");
        assert_eq!(told.contains("w < CONNACK 0x97"), gone.is_empty(), "{told}");
        let later = run(&mut world, "disk-room; wait 8000; v: CONNECT id=w keep expiry=1000");
        assert_eq!(heard_of(&later, "c", "due/one"), 1, "its will comes: {later}");
        assert!(later.contains("v < CONNACK success present"), "{later}");
    }
}

/// What fills the disk goes when its client takes it: whoever comes back is let in, and what is acknowledged is noted.
#[test]
fn a_client_that_comes_back_to_a_full_disk_takes_what_is_kept_for_it() {
    let mut world = full(one_shard(), "");
    let took = world.run("t: open; t: auto; t: CONNECT keep id=s expiry=1000 recv=1000; wait 2000");
    assert!(took.contains("t < CONNACK success present") && heard_of(&took, "t", "fill") > 10, "{took}");
    let refused = world.run("f: PUBLISH fill x qos=1");
    assert!(refused.contains("f < PUBACK") && refused.contains("0x97"), "the disk is still full: {refused}");
    let again = world.run("kill; t: open; t: auto; t: CONNECT keep id=s expiry=1000 recv=1000; wait 2000");
    assert!(again.contains("t < CONNACK success present"), "{again}");
    assert_eq!(heard_of(&again, "t", "fill"), 0, "it was noted that it has them");
}

/// Its publishers have their acknowledgements: of the member that is gone no disk was asked.
#[test]
fn what_a_member_of_a_share_group_leaves_to_one_on_a_full_disk_is_offered_again() {
    let left = "x: CONNECT; x: SUBSCRIBE $share/g/t qos=1; p: CONNECT; p: PUBLISH t 1 qos=1; p: PUBLISH t 2 qos=1";
    let member = "s: CONNECT keep expiry=1000; s: SUBSCRIBE $share/g/t qos=1; s: drop";
    let mut world = full(WorldOptions::default(), &format!("{member}; {left}"));
    let passed = |world: &World| world.brokers().iter().map(|broker| broker.facts().shares_passed_on).sum::<u64>();
    run(&mut world, "x: drop; wait 5000");
    assert_eq!(passed(&world), 0, "the disk is full");
    let later = run(&mut world, "disk-room; wait 1000; t: CONNECT keep id=s expiry=1000 recv=1000; t: auto; wait 1000");
    assert_eq!((heard_of(&later, "t", "t"), passed(&world)), (2, 2), "{later}");
}
