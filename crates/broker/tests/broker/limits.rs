//! Bounds, and what a client gets beyond them.

use crate::support::{World, WorldOptions, check, check_with};
use expect_test::expect;
use tidegate_broker::{BrokerLimits, InboxPolicy};

fn limited(change: impl FnOnce(&mut BrokerLimits)) -> WorldOptions {
    let mut options = WorldOptions::default();
    change(&mut options.limits);
    options
}

#[test]
fn silence_ends_a_connection_after_one_and_a_half_keep_alives() {
    check(
        "a: CONNECT keepalive=10 will=w,gone; b: CONNECT v3 keepalive=10; c: CONNECT; c: SUBSCRIBE w
         wait 9000; b: PING; wait 9000; wait 9000",
        expect![[r#"
            a: CONNECT keepalive=10 will=w,gone
                a < CONNACK success
            b: CONNECT v3 keepalive=10
                b < CONNACK success
            c: CONNECT
                c < CONNACK success
            c: SUBSCRIBE w
                c < SUBACK 1 0
            wait 9000
            b: PING
                b < PINGRESP
            wait 9000
                a < DISCONNECT 0x8d keep_alive_timeout
                a < closed
                c < PUBLISH w gone
            wait 9000
                b < closed
        "#]],
    );
}

#[test]
fn whoever_does_not_greet_is_closed() {
    check(
        "a: CONNECT; x: HEX 10; wait 9000; wait 9000",
        expect![[r#"
        a: CONNECT
            a < CONNACK success
        x: HEX 10
        wait 9000
        wait 9000
            x < closed
    "#]],
    );
}

#[test]
fn the_server_keep_alive_replaces_a_longer_one() {
    check_with(
        limited(|limits| limits.keep_alive_max_s = 60),
        "a: CONNECT; b: CONNECT keepalive=30",
        expect![[r#"
        a: CONNECT
            a < CONNACK success keepalive=60
        b: CONNECT keepalive=30
            b < CONNACK success
    "#]],
    );
}

#[test]
fn a_client_gets_no_more_at_a_time_than_it_takes() {
    check(
        "a: CONNECT recv=2; a: SUBSCRIBE t qos=2; b: CONNECT; b: PUBLISH t 1 qos=1; b: PUBLISH t 2 qos=2
         b: PUBLISH t 3 qos=1
         b: PUBLISH t 4; a: PUBREC 2; a: PUBCOMP 2; a: PUBACK 1",
        expect![[r#"
            a: CONNECT recv=2
                a < CONNACK success
            a: SUBSCRIBE t qos=2
                a < SUBACK 1 2
            b: CONNECT
                b < CONNACK success
            b: PUBLISH t 1 qos=1
                a < PUBLISH t 1 qos=1 id=1
                b < PUBACK 1
            b: PUBLISH t 2 qos=2
                a < PUBLISH t 2 qos=2 id=2
                b < PUBREC 2
            b: PUBLISH t 3 qos=1
                b < PUBACK 3
            b: PUBLISH t 4
                a < PUBLISH t 4
            a: PUBREC 2
                a < PUBREL 2
            a: PUBCOMP 2
                a < PUBLISH t 3 qos=1 id=3
            a: PUBACK 1
        "#]],
    );
}

#[test]
fn a_client_may_not_have_more_in_flight_than_it_was_told() {
    check_with(
        limited(|limits| limits.receive_maximum = 2),
        "a: CONNECT; a: PUBLISH t 1 qos=2; a: PUBLISH t 2 qos=2; a: PUBREL 1; a: PUBLISH t 3 qos=2
         a: PUBLISH t 4 qos=2",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: PUBLISH t 1 qos=2
                a < PUBREC 1 0x10 no_matching_subscribers
            a: PUBLISH t 2 qos=2
                a < PUBREC 2 0x10 no_matching_subscribers
            a: PUBREL 1
                a < PUBCOMP 1
            a: PUBLISH t 3 qos=2
                a < PUBREC 3 0x10 no_matching_subscribers
            a: PUBLISH t 4 qos=2
                a < DISCONNECT 0x93 receive_maximum_exceeded
                a < closed
        "#]],
    );
}

#[test]
fn packets_larger_than_a_client_takes_are_not_sent_and_larger_than_the_server_takes_end_it() {
    check_with(
        limited(|limits| limits.packet_bytes_max = 64),
        "a: CONNECT max=20; a: SUBSCRIBE t qos=1; b: CONNECT
         b: PUBLISH t 12345678901234567890 qos=1; b: PUBLISH t short qos=1
         b: PUBLISH t 1234567890123456789012345678901234567890123456789012345678901234567890",
        expect![[r#"
            a: CONNECT max=20
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            b: CONNECT
                b < CONNACK success
            b: PUBLISH t 12345678901234567890 qos=1
                b < PUBACK 1
            b: PUBLISH t short qos=1
                a < PUBLISH t short qos=1 id=2
                b < PUBACK 2
            b: PUBLISH t 1234567890123456789012345678901234567890123456789012345678901234567890
                b < DISCONNECT 0x95 packet_too_large
                b < closed
        "#]],
    );
}

/// The rest of a packet may arrive after its connection may no longer be read: a worker takes the messages of its peers
/// between reading from a socket and handing over what it read.
#[test]
fn a_packet_whose_end_comes_while_the_outbox_is_full_is_answered_when_it_is_not() {
    check_with(
        limited(|limits| limits.outbox_bytes_max = 20),
        "a: CONNECT; a: SUBSCRIBE t; b: CONNECT; a: HEX c0; a: stall
         b: PUBLISH t more-than-twenty-bytes; a: HEX 00; a: flow",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE t
                a < SUBACK 1 0
            b: CONNECT
                b < CONNACK success
            a: HEX c0
            a: stall
            b: PUBLISH t more-than-twenty-bytes
            a: HEX 00
            a: flow
                a < PUBLISH t more-than-twenty-bytes
                a < PINGRESP
        "#]],
    );
}

#[test]
fn a_slow_reader_loses_qos_0_and_keeps_qos_1_and_slows_nobody() {
    check_with(
        limited(|limits| limits.outbox_bytes_max = 20),
        "a: CONNECT; a: SUBSCRIBE t qos=1; b: CONNECT; b: SUBSCRIBE t; a: stall; c: CONNECT
         c: PUBLISH t first-of-twenty-bytes; c: PUBLISH t second; c: PUBLISH t third qos=1; a: flow",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            b: CONNECT
                b < CONNACK success
            b: SUBSCRIBE t
                b < SUBACK 1 0
            a: stall
            c: CONNECT
                c < CONNACK success
            c: PUBLISH t first-of-twenty-bytes
                b < PUBLISH t first-of-twenty-bytes
            c: PUBLISH t second
                b < PUBLISH t second
            c: PUBLISH t third qos=1
                b < PUBLISH t third
                c < PUBACK 1
            a: flow
                a < PUBLISH t first-of-twenty-bytes
                a < PUBLISH t third qos=1 id=1
        "#]],
    );
}

#[test]
fn an_inbox_over_its_bound_follows_its_policy() {
    for (policy, heard) in [
        (
            InboxPolicy::DropNewest,
            expect![[r#"
            a: CONNECT recv=1
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            b: CONNECT
                b < CONNACK success
            b: PUBLISH t 1 qos=1
                a < PUBLISH t 1 qos=1 id=1
                b < PUBACK 1
            b: PUBLISH t 2 qos=1
                b < PUBACK 2
            b: PUBLISH t 3 qos=1
                b < PUBACK 3
            b: PUBLISH t 4 qos=1
                b < PUBACK 4
            a: PUBACK 1
                a < PUBLISH t 2 qos=1 id=2
            a: PUBACK 2
                a < PUBLISH t 3 qos=1 id=3
        "#]],
        ),
        (
            InboxPolicy::DropOldest,
            expect![[r#"
            a: CONNECT recv=1
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            b: CONNECT
                b < CONNACK success
            b: PUBLISH t 1 qos=1
                a < PUBLISH t 1 qos=1 id=1
                b < PUBACK 1
            b: PUBLISH t 2 qos=1
                b < PUBACK 2
            b: PUBLISH t 3 qos=1
                b < PUBACK 3
            b: PUBLISH t 4 qos=1
                b < PUBACK 4
            a: PUBACK 1
                a < PUBLISH t 3 qos=1 id=2
            a: PUBACK 2
                a < PUBLISH t 4 qos=1 id=3
        "#]],
        ),
        (
            InboxPolicy::Refuse,
            expect![[r#"
            a: CONNECT recv=1
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            b: CONNECT
                b < CONNACK success
            b: PUBLISH t 1 qos=1
                a < PUBLISH t 1 qos=1 id=1
                b < PUBACK 1
            b: PUBLISH t 2 qos=1
                b < PUBACK 2
            b: PUBLISH t 3 qos=1
                b < PUBACK 3
            b: PUBLISH t 4 qos=1
                a < DISCONNECT 0x97 quota_exceeded
                a < closed
                b < PUBACK 4
            a: PUBACK 1
            a: PUBACK 2
        "#]],
        ),
    ] {
        check_with(
            limited(|limits| {
                limits.clean_inbox_messages_max = 2;
                limits.clean_inbox_policy = policy;
            }),
            "a: CONNECT recv=1; a: SUBSCRIBE t qos=1; b: CONNECT; b: PUBLISH t 1 qos=1; b: PUBLISH t 2 qos=1
             b: PUBLISH t 3 qos=1
             b: PUBLISH t 4 qos=1; a: PUBACK 1; a: PUBACK 2",
            heard,
        );
    }
}

#[test]
fn a_rate_makes_a_publisher_wait() {
    check_with(
        limited(|limits| limits.publishes_per_s = 2),
        "a: CONNECT; a: SUBSCRIBE t; b: CONNECT; b: PUBLISH t 1; b: PUBLISH t 2; b: PUBLISH t 3; b: PING; wait 400
         wait 200",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE t
                a < SUBACK 1 0
            b: CONNECT
                b < CONNACK success
            b: PUBLISH t 1
                a < PUBLISH t 1
            b: PUBLISH t 2
                a < PUBLISH t 2
            b: PUBLISH t 3
            b: PING
            wait 400
            wait 200
                a < PUBLISH t 3
                b < PINGRESP
        "#]],
    );
}

#[test]
fn messages_expire_and_count_down() {
    check(
        "a: CONNECT recv=1; a: SUBSCRIBE t qos=1; b: CONNECT; b: PUBLISH t 1 qos=1 expiry=10
         b: PUBLISH t 2 qos=1 expiry=10
         b: PUBLISH t 3 qos=1 expiry=2; wait 3000; a: PUBACK 1; a: PUBACK 2; b: PUBLISH r x retain expiry=5; wait 2000
         c: CONNECT; c: SUBSCRIBE r; wait 4000; c: SUBSCRIBE r",
        expect![[r#"
            a: CONNECT recv=1
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            b: CONNECT
                b < CONNACK success
            b: PUBLISH t 1 qos=1 expiry=10
                a < PUBLISH t 1 qos=1 id=1 expiry=10
                b < PUBACK 1
            b: PUBLISH t 2 qos=1 expiry=10
                b < PUBACK 2
            b: PUBLISH t 3 qos=1 expiry=2
                b < PUBACK 3
            wait 3000
            a: PUBACK 1
                a < PUBLISH t 2 qos=1 id=2 expiry=7
            a: PUBACK 2
            b: PUBLISH r x retain expiry=5
            wait 2000
            c: CONNECT
                c < CONNACK success
            c: SUBSCRIBE r
                c < SUBACK 1 0
                c < PUBLISH r x retain expiry=3
            wait 4000
            c: SUBSCRIBE r
                c < SUBACK 2 0
        "#]],
    );
}

#[test]
fn a_drain_sends_clients_away_at_its_rate_and_refuses_new_ones() {
    check(
        "a: CONNECT; b: CONNECT v3; c: CONNECT will=w,x; d@1: CONNECT; drain 1 other:1883; wait 1000; wait 1000
         e: CONNECT; wait 1000",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            b: CONNECT v3
                b < CONNACK success
            c: CONNECT will=w,x
                c < CONNACK success
            d@1: CONNECT
                d < CONNACK success
            drain 1 other:1883
            wait 1000
                a < DISCONNECT 0x9c use_another_server reference=other:1883
                a < closed
                b < closed
            wait 1000
                c < DISCONNECT 0x9c use_another_server reference=other:1883
                c < closed
            e: CONNECT
                e < CONNACK 0x9c use_another_server reference=other:1883
                e < closed
            wait 1000
                d < DISCONNECT 0x9c use_another_server reference=other:1883
                d < closed
        "#]],
    );
}

#[test]
fn bytes_may_come_one_by_one() {
    let mut world = World::new(WorldOptions::default());
    let heard =
        world.run_by_bytes("a: CONNECT will=w,x user=me; a: SUBSCRIBE t qos=1; a: PUBLISH t hello qos=1; a: PING");
    expect![[r#"
        a: CONNECT will=w,x user=me
            a < CONNACK success
        a: SUBSCRIBE t qos=1
            a < SUBACK 1 1
        a: PUBLISH t hello qos=1
            a < PUBLISH t hello qos=1 id=1
            a < PUBACK 2
        a: PING
            a < PINGRESP
    "#]]
    .assert_eq(&heard);
}

#[test]
fn garbage_ends_a_connection() {
    check(
        "a: HEX 00 00
         b: CONNECT; b: HEX f0 00; c: CONNECT; c: HEX 10 0d 00 04 4d 51 54 54 05 02 00 00 00 00 00; d: CONNECT
         d: HEX 30 ff ff ff ff 01
         e: CONNECT; e: AUTH x; f: HEX 10 0c 00 04 4d 51 54 54 09 02 00 00 00 00; g: CONNECT v3 keep id=; h: CONNECT id=
         i: CONNECT; i: HEX 82 02 00 00; j: CONNECT; j: HEX 36 05 00 01 74 00 01",
        expect![[r#"
            a: HEX 00 00
                a < closed
            b: CONNECT
                b < CONNACK success
            b: HEX f0 00
                b < DISCONNECT 0x82 protocol_error
                b < closed
            c: CONNECT
                c < CONNACK success
            c: HEX 10 0d 00 04 4d 51 54 54 05 02 00 00 00 00 00
                c < DISCONNECT 0x82 protocol_error
                c < closed
            d: CONNECT
                d < CONNACK success
            d: HEX 30 ff ff ff ff 01
                d < DISCONNECT 0x81 malformed_packet
                d < closed
            e: CONNECT
                e < CONNACK success
            e: AUTH x
                e < DISCONNECT 0x82 protocol_error
                e < closed
            f: HEX 10 0c 00 04 4d 51 54 54 09 02 00 00 00 00
                f < CONNACK 0x84 unsupported_protocol_version
                f < closed
            g: CONNECT v3 keep id=
                g < CONNACK 0x85 client_identifier_not_valid
                g < closed
            h: CONNECT id=
                h < CONNACK success assigned=xxxxxxxxxxxxxxxxxxxxxx
            i: CONNECT
                i < CONNACK success
            i: HEX 82 02 00 00
                i < DISCONNECT 0x82 protocol_error
                i < closed
            j: CONNECT
                j < CONNACK success
            j: HEX 36 05 00 01 74 00 01
                j < DISCONNECT 0x81 malformed_packet
                j < closed
        "#]],
    );
}

#[test]
fn who_takes_no_retained_messages_keeps_nobody_waiting_for_theirs() {
    let mut world = World::new(limited(|limits| limits.outbox_bytes_max = 1_000));
    let mut script = String::from("p: CONNECT; t: CONNECT; u: CONNECT; v: CONNECT; w: CONNECT\n");
    for number in 0..600 {
        script += &format!("p: PUBLISH kept/{number} {} retain\n", "x".repeat(40));
    }
    // Some of them live with each worker.
    for greedy in ["g", "h", "i", "j"] {
        let filters = "kept/# ".repeat(200);
        script += &format!("{greedy}: CONNECT; {greedy}: stall; {greedy}: SUBSCRIBE {filters}\n");
    }
    world.run(&script);
    for client in ["t", "u", "v", "w"] {
        let heard = world.run(&format!("{client}: SUBSCRIBE kept/#"));
        assert_eq!(heard.matches(&format!("{client} < PUBLISH kept/")).count(), 600, "{heard}");
    }
}

#[test]
fn one_filter_again_and_again_has_a_bound() {
    check_with(
        limited(|limits| limits.subscriptions_max = 3),
        "a: CONNECT; a: SUBSCRIBE f f f f f",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE f f f f f
                a < SUBACK 1 0 0 0 0x97 quota_exceeded 0x97 quota_exceeded
        "#]],
    );
}

#[test]
fn many_who_have_no_user_and_read_nothing_have_little_waiting_for_each() {
    let mut options = WorldOptions { workers: 1, ..WorldOptions::default() };
    options.limits.pressure_bytes_max = 4 << 20;
    let payload = "x".repeat(50_000);
    let waiting = |count: usize| {
        let mut world = World::new(options.clone());
        let names: Vec<String> = (0..count).map(|n| format!("c{n}")).collect();
        world.run("u: CONNECT user=me; u: SUBSCRIBE t; u: stall; p: CONNECT");
        for name in &names {
            world.run(&format!("{name}: CONNECT; {name}: SUBSCRIBE t; {name}: stall"));
        }
        for nth in 0..30 {
            world.run(&format!("p: PUBLISH t {payload}"));
            if nth == 1 {
                let flowing = world.unsent(&names[0]);
                assert!(flowing >= 2 * payload.len(), "as long as it may only be slow: {flowing}");
                world.run("wait 300");
            }
        }
        let most = names.iter().map(|name| world.unsent(name)).max().unwrap();
        let all: usize = names.iter().map(|name| world.unsent(name)).sum();
        assert!(world.unsent("u") > 1 << 20, "whoever has a user has all that the configuration allows");
        // What they read makes room for more.
        world.run(&format!("{0}: flow; {0}: stall; p: PUBLISH t {payload}", names[0]));
        assert!(world.unsent(&names[0]) >= payload.len(), "{}", world.unsent(&names[0]));
        (most, all)
    };
    let (most, _) = waiting(1);
    assert!(most > 400_000, "one alone: {most}");
    let (most, all) = waiting(60);
    assert!(most < 160_000 && all <= 60 * 160_000, "sixty: {most} each, {all} in all");
}

#[test]
fn one_subscribe_may_have_few_conditions_asked_about() {
    let mut world = World::new(WorldOptions { workers: 1, ..WorldOptions::default() });
    let filters: Vec<String> = (0..70).map(|n| format!("$ledger/accounts/candidate:{n}")).collect();
    world.run("a: CONNECT");
    let bytes: Vec<u8> =
        filters.iter().flat_map(|filter| [&[0, filter.len() as u8], filter.as_bytes(), &[0]].concat()).collect();
    let body = [&[0, 1, 0][..], &bytes].concat();
    let head = [0x82, body.len() as u8 & 0x7f | 0x80, (body.len() >> 7) as u8];
    let hex: String = head.iter().chain(&body).map(|byte| format!(" {byte:x}")).collect();
    let heard = world.run(&format!("a: HEX{hex}"));
    let refused = heard.matches("0x97").count();
    assert!(heard.contains("SUBACK 1") && refused == 6, "{refused} of 70 are refused: {heard}");
}

/// What aliases stand for stays as long as the connection, and nobody pays for it.
#[test]
fn topics_behind_aliases_have_a_bound_in_bytes() {
    let mut world = World::new(WorldOptions::default());
    let topic = |letter: &str| letter.repeat(30_000);
    world.run("a: CONNECT; b: CONNECT");
    for (alias, letter) in [(1, "r"), (2, "s"), (1, "t")] {
        let heard = world.run(&format!("a: PUBLISH {} x alias={alias}", topic(letter)));
        assert!(!heard.contains("DISCONNECT"), "{}", &heard[30_000..]);
    }
    let heard = world.run(&format!("a: PUBLISH {} x alias=3", topic("u")));
    assert!(heard.contains("a < DISCONNECT 0x97 quota_exceeded"), "{}", &heard[30_000..]);
    // One of any length always has room.
    let heard = world.run(&format!("b: PUBLISH {} x alias=1; b: PUBLISH - x alias=1", "v".repeat(65_000)));
    assert!(!heard.contains("DISCONNECT"), "{}", &heard[65_000..]);
    // Those that the broker would set for a client are written out instead.
    world.run("c: CONNECT alias=9; c: SUBSCRIBE #; d: CONNECT");
    for letter in ["x", "y"] {
        let long = letter.repeat(10_000);
        let heard = world.run(&format!("d: PUBLISH {long} 1; d: PUBLISH {long} 2"));
        assert_eq!(heard.contains("c < PUBLISH - 2 alias=1"), letter == "x", "{}", &heard[10_000..]);
    }
}
