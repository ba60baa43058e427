//! Subscriptions whose messages a source behind the broker keeps.

use crate::support::{World, WorldOptions, check};
use expect_test::expect;
use tidegate_broker::BrokerLimits;

#[test]
fn a_durable_session_goes_on_where_it_acknowledged_also_after_kills() {
    check(
        "log a1; a: CONNECT keep expiry=100; a: SUBSCRIBE feed/all qos=2 sid=7; log a2 b3; a: PUBACK 48103
         a: drop; log a4; a: CONNECT keep expiry=100; a: PUBACK 48102
         kill; log b5; a@1: CONNECT keep expiry=100; a: PUBACK 48101; a: PUBACK 48100
         crash; a: CONNECT keep expiry=100; log a6",
        expect![[r#"
            log a1
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE feed/all qos=2 sid=7
                a < SUBACK 1 1
            log a2 b3
                a < PUBLISH feed/all a2 qos=1 id=48103 sid=7
                a < PUBLISH feed/all b3 qos=1 id=48102 sid=7
            a: PUBACK 48103
            a: drop
            log a4
            a: CONNECT keep expiry=100
                a < CONNACK success present
                a < PUBLISH feed/all b3 qos=1 id=48102 dup sid=7
                a < PUBLISH feed/all a4 qos=1 id=48101 dup sid=7
            a: PUBACK 48102
            kill
            log b5
            a@1: CONNECT keep expiry=100
                a < CONNACK success present
                a < PUBLISH feed/all a4 qos=1 id=48101 dup sid=7
                a < PUBLISH feed/all b5 qos=1 id=48100 dup sid=7
            a: PUBACK 48101
            a: PUBACK 48100
            crash
            a: CONNECT keep expiry=100
                a < CONNACK success present
            log a6
                a < PUBLISH feed/all a6 qos=1 id=48099 dup sid=7
        "#]],
    );
}

#[test]
fn a_session_that_ends_with_its_connection_is_read_to_live() {
    check(
        "log a1; a: CONNECT; a: SUBSCRIBE feed/all qos=1; log a2; a: drop; log a3; a: CONNECT
         a: SUBSCRIBE feed/b qos=1; log a4 b5; b: CONNECT v3 keep; b: SUBSCRIBE feed/all; log a6; b: drop; log a7
         b: CONNECT v3 keep; log a8",
        expect![[r#"
            log a1
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE feed/all qos=1
                a < SUBACK 1 0
            log a2
                a < PUBLISH feed/all a2
            a: drop
            log a3
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE feed/b qos=1
                a < SUBACK 1 0
            log a4 b5
                a < PUBLISH feed/b b5
            b: CONNECT v3 keep
                b < CONNACK success
            b: SUBSCRIBE feed/all
                b < SUBACK 1 0
            log a6
                b < PUBLISH feed/all a6
            b: drop
            log a7
            b: CONNECT v3 keep
                b < CONNACK success present
            log a8
                b < PUBLISH feed/all a8
        "#]],
    );
}

#[test]
fn a_place_may_be_named_and_subscribing_again_keeps_the_one_there_is() {
    check(
        "log a1 a2 a3; a: CONNECT keep expiry=100; a: SUBSCRIBE feed/a qos=1 after=1; a: PUBACK 59180
         a: SUBSCRIBE feed/a qos=1; a: SUBSCRIBE feed/a qos=1 after=0
         a: SUBSCRIBE feed/b qos=1 after=what; a: SUBSCRIBE $share/g/feed/a qos=1; a: UNSUBSCRIBE feed/a; log a4
         a: SUBSCRIBE feed/a qos=1; log a5",
        expect![[r#"
            log a1 a2 a3
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE feed/a qos=1 after=1
                a < SUBACK 1 1
                a < PUBLISH feed/a a2 qos=1 id=59180
                a < PUBLISH feed/a a3 qos=1 id=59179
            a: PUBACK 59180
            a: SUBSCRIBE feed/a qos=1
                a < SUBACK 2 1
                a < PUBLISH feed/a a3 qos=1 id=59179 dup
            a: SUBSCRIBE feed/a qos=1 after=0
                a < SUBACK 3 1
                a < PUBLISH feed/a a1 qos=1 id=59178
                a < PUBLISH feed/a a2 qos=1 id=59177
                a < PUBLISH feed/a a3 qos=1 id=59176
            a: SUBSCRIBE feed/b qos=1 after=what
                a < SUBACK 4 0x80 unspecified_error
            a: SUBSCRIBE $share/g/feed/a qos=1
                a < SUBACK 5 0x9e shared_subscriptions_not_supported
            a: UNSUBSCRIBE feed/a
                a < UNSUBACK 6 0
            log a4
            a: SUBSCRIBE feed/a qos=1
                a < SUBACK 7 1
            log a5
                a < PUBLISH feed/a a5 qos=1 id=59180
        "#]],
    );
}

#[test]
fn what_is_of_no_interest_moves_the_place_too() {
    check(
        "a: CONNECT keep expiry=100; a: SUBSCRIBE feed/b qos=1; log a1 a2 a3 a4 b5; kill; a: CONNECT keep expiry=100",
        expect![[r#"
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE feed/b qos=1
                a < SUBACK 1 1
            log a1 a2 a3 a4 b5
                a < PUBLISH feed/b b5 qos=1 id=61253
            kill
            a: CONNECT keep expiry=100
                a < CONNACK success present
                a < PUBLISH feed/b b5 qos=1 id=61253 dup
        "#]],
    );
}

#[test]
fn an_inbox_and_a_feed_share_a_small_window_and_neither_waits_for_ever() {
    check(
        "a: CONNECT keep expiry=100 recv=1; a: SUBSCRIBE feed/all qos=1; a: SUBSCRIBE t qos=1; b: CONNECT
         log a1 a2 a3; b: PUBLISH t one qos=1; b: PUBLISH t two qos=1; b: PUBLISH t three qos=1
         a: PUBACK 48103; a: PUBACK 1; a: PUBACK 48102; a: PUBACK 2; a: PUBACK 48101; a: PUBACK 3",
        expect![[r#"
            a: CONNECT keep expiry=100 recv=1
                a < CONNACK success
            a: SUBSCRIBE feed/all qos=1
                a < SUBACK 1 1
            a: SUBSCRIBE t qos=1
                a < SUBACK 2 1
            b: CONNECT
                b < CONNACK success
            log a1 a2 a3
                a < PUBLISH feed/all a1 qos=1 id=48103
            b: PUBLISH t one qos=1
                b < PUBACK 1
            b: PUBLISH t two qos=1
                b < PUBACK 2
            b: PUBLISH t three qos=1
                b < PUBACK 3
            a: PUBACK 48103
                a < PUBLISH t one qos=1 id=1
            a: PUBACK 1
                a < PUBLISH feed/all a2 qos=1 id=48102
            a: PUBACK 48102
                a < PUBLISH t two qos=1 id=2
            a: PUBACK 2
                a < PUBLISH feed/all a3 qos=1 id=48101
            a: PUBACK 48101
                a < PUBLISH t three qos=1 id=3
            a: PUBACK 3
        "#]],
    );
}

/// The ids of an inbox go up from 1, and this filter's begin at 2.
#[test]
fn a_packet_id_names_one_message_where_an_inbox_and_a_feed_meet() {
    check(
        "a: CONNECT keep expiry=100; a: SUBSCRIBE feed/38101a t qos=1; b: CONNECT; log a1
         b: PUBLISH t one qos=1; b: PUBLISH t two qos=1; b: PUBLISH t three qos=1; a: PUBACK 1; a: PUBACK 2
         log a2 a3; a: PUBACK 2; a: PUBACK 3",
        expect![[""]],
    );
}

#[test]
fn a_source_that_is_away_is_asked_again_and_a_change_of_rights_begins_anew() {
    check(
        "a: CONNECT keep expiry=100; a: SUBSCRIBE feed/all qos=1; source away; a: drop; log a1
         a: CONNECT keep expiry=100; source there; wait 900; wait 200; reload",
        expect![[r#"
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE feed/all qos=1
                a < SUBACK 1 1
            source away
            a: drop
            log a1
            a: CONNECT keep expiry=100
                a < CONNACK success present
            source there
            wait 900
            wait 200
                a < PUBLISH feed/all a1 qos=1 id=48103 dup
            reload
                a < PUBLISH feed/all a1 qos=1 id=48103 dup
        "#]],
    );
}

#[test]
fn a_place_of_another_history_is_said_and_a_new_place_begins_again() {
    check(
        "a: CONNECT keep expiry=100; a: SUBSCRIBE feed/a qos=1; source over; a: drop; log a1
         a: CONNECT keep expiry=100; source there; log a2; a: SUBSCRIBE feed/a qos=1 after=1; a: SUBSCRIBE feed/b",
        expect![[r#"
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE feed/a qos=1
                a < SUBACK 1 1
            source over
            a: drop
            log a1
            a: CONNECT keep expiry=100
                a < CONNACK success present
                a < PUBLISH feed/a of another history
            source there
            log a2
            a: SUBSCRIBE feed/a qos=1 after=1
                a < SUBACK 1 1
                a < PUBLISH feed/a a2 qos=1 id=58924
            a: SUBSCRIBE feed/b
                a < SUBACK 2 0
        "#]],
    );
}

#[test]
fn rights_and_bounds_are_those_of_subscriptions() {
    check(
        "a: CONNECT keep expiry=100
         a: SUBSCRIBE feed/1 feed/2 feed/3 feed/4 feed/5 feed/6 feed/7 feed/8 feed/9 qos=1
         a: SUBSCRIBE feed/8 feed/9 qos=1; a: UNSUBSCRIBE feed/1; a: SUBSCRIBE feed/9 qos=1",
        expect![[r#"
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE feed/1 feed/2 feed/3 feed/4 feed/5 feed/6 feed/7 feed/8 feed/9 qos=1
                a < SUBACK 1 1 1 1 1 1 1 1 1 0x97 quota_exceeded
            a: SUBSCRIBE feed/8 feed/9 qos=1
                a < SUBACK 2 1 0x97 quota_exceeded
            a: UNSUBSCRIBE feed/1
                a < UNSUBACK 3 0
            a: SUBSCRIBE feed/9 qos=1
                a < SUBACK 4 1
        "#]],
    );
}

/// However many messages there are and however often the process is killed: all come, in their order, and what comes
/// again says so.
#[test]
fn nothing_is_lost_over_many_kills() {
    let limits = BrokerLimits { sys_interval_ms: 0, window_max: 5, ..BrokerLimits::default() };
    let mut world = World::new(WorldOptions { limits, ..WorldOptions::default() });
    world.run("a: CONNECT keep expiry=1000; a: SUBSCRIBE feed/all qos=1; a: drop");
    let (mut seen, mut logged) = (Vec::new(), 0);
    for round in 0..18 {
        let power = ["kill", "crash", "a: drop"][round % 3];
        let count = round % 7 * 3;
        let log: Vec<String> = (logged..logged + count).map(|number| format!("a{number}")).collect();
        logged += count;
        let mut told = world.run(&format!("log {}; a@{}: CONNECT keep expiry=1000", log.join(" "), round % 2));
        for _ in 0..round % 5 {
            let Some(line) = told.lines().find(|line| line.contains("PUBLISH")) else { break };
            let words: Vec<&str> = line.split_whitespace().collect();
            let number: usize = words[4][1..].parse().expect("a number");
            let id = words.iter().find_map(|word| word.strip_prefix("id=")).expect("an id");
            assert!(number <= seen.len(), "message {number} comes after {} in round {round}", seen.len());
            assert!(number == seen.len() || words.contains(&"dup"), "{line} comes again and does not say so");
            if number == seen.len() {
                seen.push(number);
            }
            let more = world.run(&format!("a: PUBACK {id}"));
            let rest: Vec<&str> = told.lines().filter(|line| line.contains("PUBLISH")).skip(1).collect();
            told = format!("{}\n{more}", rest.join("\n"));
        }
        world.run(power);
    }
    let mut told = world.run("a: CONNECT keep expiry=1000");
    while let Some(line) = told.lines().find(|line| line.contains("PUBLISH")).map(str::to_owned) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number: usize = words[4][1..].parse().expect("a number");
        let id = words.iter().find_map(|word| word.strip_prefix("id=")).expect("an id");
        assert!(number <= seen.len(), "message {number} comes after {}", seen.len());
        if number == seen.len() {
            seen.push(number);
        }
        let rest: Vec<String> =
            told.lines().filter(|line| line.contains("PUBLISH")).skip(1).map(str::to_owned).collect();
        told = format!("{}\n{}", rest.join("\n"), world.run(&format!("a: PUBACK {id}")));
    }
    assert_eq!(seen, (0..logged).collect::<Vec<_>>());
}
