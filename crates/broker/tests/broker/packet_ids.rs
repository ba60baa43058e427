//! Packet ids: more messages than there are ids, and ids that nobody knows.

use crate::support::{World, WorldOptions, check_with};
use expect_test::expect;

#[test]
fn a_client_that_missed_more_messages_than_there_are_packet_ids_gets_the_newest() {
    let mut options = WorldOptions::default();
    options.inboxes.messages_max = 2;
    let mut world = World::new(options);
    world.run("s: CONNECT expiry=1000; s: SUBSCRIBE t qos=1; s: drop; p: CONNECT v3");
    // PUBLISH t x qos=1, a thousand at a time.
    let publications: String =
        (1..=1_000u16).map(|id| format!(" 32 6 0 1 74 {:x} {:x} 78", id >> 8, id & 0xff)).collect();
    for _ in 0..66 {
        let heard = world.run(&format!("p: HEX{publications}"));
        assert_eq!(heard.matches("p < PUBACK").count(), 1_000);
    }
    let heard = world.run("s: CONNECT keep expiry=1000");
    assert_eq!(heard.matches("s < PUBLISH t x qos=1").count(), 2, "{heard}");
}

/// Each such PUBREL is a command to all shards, so a client has a bounded number of them under way.
#[test]
fn a_flood_of_pubrel_after_a_restart_waits_in_its_connection() {
    let mut options = WorldOptions { workers: 1, work: isize::MAX, ..WorldOptions::default() };
    options.limits.receive_maximum = 2;
    let mut world = World::new(options);
    world.run("s: CONNECT expiry=1000; kill; s: CONNECT keep expiry=1000");
    let received = |world: &World| world.brokers()[0].facts().messages_received;
    let before = received(&world);
    world.hand_over("s: HEX 62 2 0 1 62 2 0 2 62 2 0 3 62 2 0 4 62 2 0 5");
    assert_eq!(received(&world) - before, 2);
    let heard = world.run("wait 100");
    assert_eq!(heard.matches("s < PUBCOMP").count(), 5, "{heard}");
}

/// The shard of `s` fails, that of `p` does not. Clean session `c` has the message from the first time.
#[test]
fn what_a_failed_shard_was_asked_is_not_delivered_again_by_the_same_process() {
    check_with(
        WorldOptions { workers: 1, topic_shards: 2, ..WorldOptions::default() },
        "s: CONNECT expiry=100; s: SUBSCRIBE t qos=2; c: CONNECT; c: SUBSCRIBE t qos=2; p: CONNECT expiry=100
         fail-sync; p: PUBLISH t x qos=2; p: CONNECT keep expiry=100; p: PUBLISH t x qos=2 id=1 dup
         p: CONNECT keep expiry=100",
        expect![[r#"
            s: CONNECT expiry=100
                s < CONNACK success
            s: SUBSCRIBE t qos=2
                s < SUBACK 1 2
            c: CONNECT
                c < CONNACK success
            c: SUBSCRIBE t qos=2
                c < SUBACK 1 2
            p: CONNECT expiry=100
                p < CONNACK success
            fail-sync
            p: PUBLISH t x qos=2
                c < PUBLISH t x qos=2 id=1
                p < DISCONNECT 0x8b server_shutting_down
                p < closed
            p: CONNECT keep expiry=100
                p < CONNACK success present
            p: PUBLISH t x qos=2 id=1 dup
                p < DISCONNECT 0x8b server_shutting_down
                p < closed
            p: CONNECT keep expiry=100
                p < CONNACK success present
        "#]],
    );
}
