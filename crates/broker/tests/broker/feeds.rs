//! Subscriptions whose messages a source behind the broker keeps.

use std::collections::{BTreeMap, BTreeSet};

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

/// Most clients subscribe whenever they connect, and acknowledge what came before SUBACK.
#[test]
fn who_subscribes_again_at_each_connection_gets_on() {
    let mut world = World::new(WorldOptions::default());
    world.run("a: CONNECT keep expiry=100; a: SUBSCRIBE feed/a qos=1; a: drop; log a1 a2 a3");
    for nth in 1..=3 {
        let heard = world.run("a: CONNECT keep expiry=100");
        let first = heard.lines().find(|line| line.contains("PUBLISH")).expect("what is kept comes").to_owned();
        assert!(first.contains(&format!(" a{nth} ")), "{heard}");
        let id = first.split("id=").nth(1).and_then(|rest| rest.split(' ').next()).expect("QoS 1 has an id");
        let heard = world.run(&format!("a: SUBSCRIBE feed/a qos=1; a: PUBACK {id}; a: drop"));
        assert!(heard.contains("SUBACK") && !heard.contains("PUBLISH"), "nothing comes twice: {heard}");
    }
    let heard = world.run("a: CONNECT keep expiry=100; log a4");
    assert!(heard.contains(" a4 ") && !heard.contains(" a3 "), "{heard}");
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
         b: PUBLISH t one qos=1; b: PUBLISH t two qos=1; log a2 a3; a: PUBACK 2; a: PUBACK 1; a: PUBACK 1
         a: PUBACK 65535; a: PUBACK 2",
        expect![[r#"
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE feed/38101a t qos=1
                a < SUBACK 1 1 1
            b: CONNECT
                b < CONNACK success
            log a1
                a < PUBLISH feed/38101a a1 qos=1 id=2
            b: PUBLISH t one qos=1
                a < PUBLISH t one qos=1 id=1
                b < PUBACK 1
            b: PUBLISH t two qos=1
                b < PUBACK 2
            log a2 a3
            a: PUBACK 2
                a < PUBLISH t two qos=1 id=2
            a: PUBACK 1
                a < PUBLISH feed/38101a a2 qos=1 id=1
                a < PUBLISH feed/38101a a3 qos=1 id=65535
            a: PUBACK 1
            a: PUBACK 65535
            a: PUBACK 2
        "#]],
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

/// A message: its partition, and its number there.
type Number = (usize, usize);

/// One durable client that follows everything, whatever else happens to it: what it has been sent, and what it has not
/// acknowledged on this connection.
struct Follower {
    world: World,
    chance: u64,
    /// Messages that there are, and that were seen, of each partition.
    logged: Vec<usize>,
    seen: Vec<usize>,
    /// Packet ids of `feed/all`, and of everything else.
    open: Vec<(String, Option<Number>)>,
    /// What it works on, over all connections, by packet id.
    works_on: BTreeMap<String, Number>,
    acknowledged: BTreeSet<Number>,
    again: usize,
}

impl Follower {
    fn new(seed: u64, partitions: usize) -> Follower {
        let limits = BrokerLimits { sys_interval_ms: 0, window_max: 1 + seed as u16 % 7, ..BrokerLimits::default() };
        let (topic_shards, feed_partitions) = (1 + seed as u16 % 3, partitions as u16);
        let mut world = World::new(WorldOptions { limits, topic_shards, feed_partitions, ..WorldOptions::default() });
        world.run("a: CONNECT keep expiry=1000; a: SUBSCRIBE feed/all t qos=1; b: CONNECT");
        Follower {
            world,
            chance: seed + 1,
            logged: vec![0; partitions],
            seen: vec![0; partitions],
            open: Vec::new(),
            works_on: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            again: 0,
        }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) as usize % below
    }

    fn run(&mut self, script: &str) {
        let told = self.world.run(script);
        for line in told.lines().filter(|line| line.contains("a < PUBLISH")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(id) = words.iter().find_map(|word| word.strip_prefix("id=")) else { continue };
            if words[3] != "feed/all" {
                self.open.push((id.to_owned(), None));
                continue;
            }
            let partition = usize::from(words[4].as_bytes()[0] - b'a');
            let number: usize = words[4][1..].parse().expect("a number");
            self.hear(id, (partition, number), words.contains(&"dup"));
        }
    }

    fn hear(&mut self, id: &str, message: Number, is_dup: bool) {
        let (partition, number) = message;
        let seen = self.seen[partition];
        assert!(number <= seen, "message {message:?} comes after {seen}");
        assert!(number == seen || is_dup, "it comes again and does not say so: {message:?}");
        self.again += usize::from(number < seen);
        self.seen[partition] = seen.max(number + 1);
        assert!(self.open.iter().all(|(other, _)| other != id), "packet id {id} names two messages: {message:?}");
        self.open.push((id.to_owned(), Some(message)));
        let before = self.works_on.insert(id.to_owned(), message);
        assert!(before.is_none_or(|before| before == message), "id {id} of {before:?} is that of {message:?}");
        let ids = self.works_on.values().filter(|other| **other == message).count();
        assert!(ids == 1, "{message:?} comes again with another id");
    }

    fn acknowledge(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let nth = self.draw(self.open.len());
        let (id, message) = self.open.remove(nth);
        self.works_on.retain(|_, other| Some(*other) != message);
        self.acknowledged.extend(message);
        self.run(&format!("a: PUBACK {id}"));
    }

    fn log(&mut self) {
        let count = self.draw(9);
        let more: Vec<String> = (0..count).map(|_| self.next_message()).collect();
        self.run(&format!("log {}", more.join(" ")));
    }

    fn next_message(&mut self) -> String {
        let partition = self.draw(self.logged.len());
        self.logged[partition] += 1;
        format!("{}{}", char::from(b'a' + partition as u8), self.logged[partition] - 1)
    }

    fn come_back(&mut self) {
        self.open.clear();
        let worker = self.draw(2);
        let clients = format!("a@{worker}: CONNECT keep expiry=1000 recv={}; b: CONNECT", 1 + self.draw(9));
        self.run(&clients);
    }

    fn step(&mut self) {
        match self.draw(24) {
            0..10 => self.acknowledge(),
            10..14 => self.log(),
            14 => self.run("b: PUBLISH t x qos=1"),
            15 => self.run("a: SUBSCRIBE feed/a feed/b qos=1"),
            16 => self.run("a: UNSUBSCRIBE feed/a; a: SUBSCRIBE feed/b"),
            17 => {
                // What was sent on the feed that begins again is sent again, under the same ids.
                self.open.retain(|(_, number)| number.is_none());
                self.run("a: SUBSCRIBE feed/all qos=2");
            }
            18 => {
                self.open.clear();
                self.run("reload");
            }
            19 => {
                self.run("source away; a: drop; b: drop");
                self.come_back();
                self.run("source there; wait 1100");
            }
            20 | 21 => {
                self.run("a: drop; b: drop");
                self.log();
                self.come_back();
            }
            22 => {
                self.run("kill");
                self.come_back();
            }
            _ => {
                self.run("crash");
                self.come_back();
            }
        }
    }
}

/// Whatever a client does and however often it or the process is killed: all messages come, those of each partition in
/// their order, and what comes again says so and has the id that it had, which no other message has while the client
/// works on it. Between the steps the world checks all that the brokers know of their feeds.
#[test]
fn nothing_is_lost_whatever_happens() {
    let mut again = 0;
    for seed in 0..10 {
        let mut follower = Follower::new(seed, if seed < 5 { 1 } else { 3 });
        (0..60).for_each(|_| follower.step());
        follower.run("a: drop; b: drop");
        follower.come_back();
        while !follower.open.is_empty() {
            follower.acknowledge();
        }
        assert_eq!(follower.seen, follower.logged, "all of them, with seed {seed}");
        let logged: usize = follower.logged.iter().sum();
        assert_eq!(follower.acknowledged.len(), logged, "each was acknowledged, with seed {seed}");
        follower.run("a: drop; b: drop");
        follower.come_back();
        assert!(follower.open.iter().all(|(_, number)| number.is_none()), "nothing is left, with seed {seed}");
        again += follower.again;
    }
    assert!(again > 10, "{again} came again: too few for a test");
}

#[test]
fn a_session_that_comes_back_is_told_that_there_is_no_room_for_its_feed() {
    check(
        "log a1; a: CONNECT keep expiry=100 why; a: SUBSCRIBE feed/a qos=1 after=0; a: drop; log a2; source full
         a: CONNECT keep expiry=100 why; a: SUBSCRIBE feed/a qos=1; source there; a: SUBSCRIBE feed/a qos=1",
        expect![[r#"
            log a1
            a: CONNECT keep expiry=100 why
                a < CONNACK success
            a: SUBSCRIBE feed/a qos=1 after=0
                a < SUBACK 1 1
                a < PUBLISH feed/a a1 qos=1 id=59180
            a: drop
            log a2
            source full
            a: CONNECT keep expiry=100 why
                a < CONNACK success present
            a: SUBSCRIBE feed/a qos=1
                a < SUBACK 1 0x97 quota_exceeded why=too many subscriptions or streams, or a filter with too many levels
            source there
            a: SUBSCRIBE feed/a qos=1
                a < SUBACK 2 1
                a < PUBLISH feed/a a1 qos=1 id=59180 dup
                a < PUBLISH feed/a a2 qos=1 id=59179 dup
        "#]],
    );
}

#[test]
fn the_place_of_a_feed_is_no_other_users() {
    check(
        "log a1 a2; a: CONNECT id=s user=dave keep expiry=100; a: SUBSCRIBE feed/a qos=1 after=0; a: PUBACK 59180
         b: CONNECT id=s user=carol keep expiry=100 why; c: CONNECT id=s expiry=100; d: CONNECT v3 id=s user=carol
         a: PING; a: drop; e: CONNECT id=s user=carol keep expiry=100; f: CONNECT id=s keep; kill
         g: CONNECT id=s user=carol keep expiry=100; h: CONNECT id=s user=dave keep expiry=100",
        expect![[r#"
            log a1 a2
            a: CONNECT id=s user=dave keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE feed/a qos=1 after=0
                a < SUBACK 1 1
                a < PUBLISH feed/a a1 qos=1 id=59180
                a < PUBLISH feed/a a2 qos=1 id=59179
            a: PUBACK 59180
            b: CONNECT id=s user=carol keep expiry=100 why
                b < CONNACK 0x87 not_authorized why=the user may not connect, leave this will, or have another's session
                b < closed
            c: CONNECT id=s expiry=100
                c < CONNACK 0x87 not_authorized
                c < closed
            d: CONNECT v3 id=s user=carol
                d < CONNACK 0x87 not_authorized
                d < closed
            a: PING
                a < PINGRESP
            a: drop
            e: CONNECT id=s user=carol keep expiry=100
                e < CONNACK 0x87 not_authorized
                e < closed
            f: CONNECT id=s keep
                f < CONNACK 0x87 not_authorized
                f < closed
            kill
            g: CONNECT id=s user=carol keep expiry=100
                g < CONNACK 0x87 not_authorized
                g < closed
            h: CONNECT id=s user=dave keep expiry=100
                h < CONNACK success present
                h < PUBLISH feed/a a2 qos=1 id=59179 dup
        "#]],
    );
}

#[test]
fn a_session_without_a_place_may_be_anybodys() {
    check(
        "a: CONNECT id=s user=dave keep expiry=100; a: SUBSCRIBE feed/a qos=1; a: UNSUBSCRIBE feed/a; a: drop
         b: CONNECT id=s user=carol keep expiry=100",
        expect![[r#"
            a: CONNECT id=s user=dave keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE feed/a qos=1
                a < SUBACK 1 1
            a: UNSUBSCRIBE feed/a
                a < UNSUBACK 2 0
            a: drop
            b: CONNECT id=s user=carol keep expiry=100
                b < CONNACK 0x87 not_authorized
                b < closed
        "#]],
    );
}
