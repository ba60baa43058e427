//! What is stored must fit into records: messages for more sessions than one record can hold, and messages of the
//! largest size.

use crate::support::{World, WorldOptions};
use tidegate_broker::BrokerLimits;
use tidegate_broker::limits::{KEPT_PACKET_BYTES_MAX, PART_SLOTS};
use tidegate_machines::ledger::shard_of;

/// The first and the last of so many sessions: their copies are in different records. The publisher lives with another
/// worker, which waits for one word.
#[test]
fn a_message_for_sessions_of_several_records_comes_to_each_once() {
    let mut world = World::new(WorldOptions { topic_shards: 2, ..WorldOptions::default() });
    let mut ids = (0..).map(|number| format!("c{number}")).filter(|id| shard_of(id, 2).0 == 1);
    let first = ids.next().expect("there are ids enough");
    world.run(&format!("x@1: CONNECT id={first} keep expiry=1000; x: SUBSCRIBE t qos=2; x: drop"));
    for id in ids.by_ref().take(PART_SLOTS) {
        world.run(&format!("x@1: CONNECT id={id} keep expiry=1000; x: drop"));
    }
    let last = ids.next().expect("there are ids enough");
    world.run(&format!("x@1: CONNECT id={last} keep expiry=1000; x: SUBSCRIBE t qos=2; x: drop"));
    let publisher = (0..).map(|number| format!("p{number}")).find(|id| shard_of(id, 2).0 == 0).expect("there is one");

    let connect = format!("p: CONNECT id={publisher} keep expiry=1000");
    let heard = world.run(&format!("{connect}; p: PUBLISH t once qos=2 id=7"));
    assert!(heard.ends_with("p: PUBLISH t once qos=2 id=7\n    p < PUBREC 7\n"), "{heard}");
    // A process that ended before it acknowledged: the next process takes the message again, without receivers.
    let heard = world.run(&format!("kill; {connect}; p: PUBLISH t once qos=2 id=7 dup; p: PUBREL 7"));
    assert!(heard.ends_with("    p < PUBREC 7\np: PUBREL 7\n    p < PUBCOMP 7\n"), "{heard}");
    // And the packet id is free in all parts.
    world.run("p: PUBLISH t again qos=2 id=7; p: PUBREL 7");
    for id in [first, last] {
        let heard = world.run(&format!("x@1: CONNECT id={id} keep expiry=1000; x: drop"));
        assert_eq!(heard.matches("PUBLISH t once").count(), 1, "{heard}");
        assert_eq!(heard.matches("PUBLISH t again").count(), 1, "{heard}");
    }
}

#[test]
fn the_largest_packet_fits_a_record_and_what_fits_none_is_refused() {
    let publish = |bytes: usize, id: u16| format!("p: PUBLISH t {} qos=1 id={id}", "x".repeat(bytes));
    let script = "a: CONNECT keep expiry=100; a: SUBSCRIBE t qos=1; a: drop; p: CONNECT why";
    let mut world = World::new(WorldOptions::default());
    world.run(script);
    // Five bytes of the packet's head, five of the topic and its frame, two of the packet id.
    let heard = world.run(&publish(KEPT_PACKET_BYTES_MAX - 12, 1));
    assert!(heard.ends_with("\n    p < PUBACK 1\n"), "{}", &heard[heard.len() - 80..]);

    let limits = BrokerLimits { packet_bytes_max: 4 << 20, sys_interval_ms: 0, ..BrokerLimits::default() };
    let mut world = World::new(WorldOptions { limits, ..WorldOptions::default() });
    world.run(script);
    let heard = world.run(&publish(2 << 20, 1));
    let refusal =
        "p < PUBACK 1 0x97 quota_exceeded why=no room to keep it, or it is too large, or its topic too deep\n";
    assert!(heard.ends_with(refusal), "{}", &heard[heard.len() - 200..]);
}

/// The journal is well, and says so: only one that failed is called failed.
#[test]
fn what_a_full_disk_cannot_keep_is_refused_with_that_reason_until_there_is_room() {
    let mut world = World::new(WorldOptions::default());
    world.run("p: CONNECT why; disk-full");
    let full = "0x97 quota_exceeded why=the disk of the server is full, nothing can be kept: try again later\n";
    for (qos, ack) in [(1, "PUBACK"), (2, "PUBREC")] {
        let publish = format!("p: PUBLISH t {} qos={qos} id=7 retain", "x".repeat(100_000));
        // What the log has allocated already is used first.
        let refused = (0..400).map(|_| world.run(&publish)).find(|heard| heard.contains("0x"));
        let refused = refused.expect("it is full");
        assert!(refused.ends_with(&format!("p < {ack} 7 {full}")), "{}", &refused[refused.len() - 200..]);
    }
    let will = "x".repeat(60_000);
    let connect = |n: usize| format!("k{n}: CONNECT keep expiry=100 why will=t,{will}");
    let refused = (0..400).map(|n| world.run(&connect(n))).find(|heard| heard.contains(" 0x"));
    let refused = refused.expect("no session can be kept");
    assert!(refused.contains(&format!("CONNACK {full}")), "{}", &refused[refused.len() - 200..]);
    let heard = world.run("disk-room; wait 2000; p: PUBLISH t x qos=1 id=8 retain; p: PUBLISH t x qos=2 id=9 retain");
    assert!(heard.contains("p < PUBACK 8\n") && heard.contains("p < PUBREC 9\n"), "{heard}");
}

#[test]
fn what_is_too_deep_to_be_retained_is_not_acknowledged_as_if_it_were() {
    let deep = "t".to_owned() + &"/t".repeat(128);
    let mut world = World::new(WorldOptions::default());
    let heard = world.run(&format!(
        "a: CONNECT; a: SUBSCRIBE #; p: CONNECT; p: PUBLISH {deep} x qos=1 retain
         p: PUBLISH $delayed/1/{deep} x qos=2 retain
         p: PUBLISH {deep} live retain; p: PUBLISH {deep} plain qos=1; q: CONNECT v3; q: PUBLISH {deep} x qos=1 retain
         w: CONNECT will={deep},x,retain; b: CONNECT; b: SUBSCRIBE #"
    ));
    let heard: Vec<String> =
        heard.replace(&deep, "DEEP").lines().filter_map(|line| line.strip_prefix("    ").map(str::to_owned)).collect();
    assert_eq!(
        heard,
        [
            "a < CONNACK success",
            "a < SUBACK 1 0",
            "p < CONNACK success",
            "p < PUBACK 1 0x97 quota_exceeded",
            "p < PUBREC 2 0x97 quota_exceeded",
            "a < PUBLISH DEEP live",
            "a < PUBLISH DEEP plain",
            "p < PUBACK 3",
            "q < CONNACK success",
            "q < closed",
            "w < CONNACK 0x90 topic_name_invalid",
            "w < closed",
            "b < CONNACK success",
            "b < SUBACK 1 0",
        ]
    );
}
