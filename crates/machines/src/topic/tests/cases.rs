//! The rules, case by case. One step a `;`:
//!
//! `open a 60 [will 5]`, `attach a`, `detach a 60 [quietly]`, `end a`, `clear a`, `sub a f/+ 7`, `unsub a f/+`, `pub hi
//! a:1 b:2 [from 9] [until 5000]`, `ack a 0`, `rec a 0`, `forget 9`, `forget all`, `retain t hi`, `delay t hi 5000`,
//! `sent 3`, `limit 2 messages drop_oldest`, `limit 5000 ms`, `clock 5000`, `over 5000`, `obey`, `due`, `show a`,
//! `facts`.
//! Times are from the start.

use std::sync::Arc;

use expect_test::{Expect, expect};

use super::shard::{Shard, message};
use crate::TimeMs;
use crate::machine::tests::{restore, snapshot};
use crate::topic::{Command, Due, Event, InboxLimits, InboxPolicy, Origin, Receiver, Refusal, Slot, Topics, Will};

const START: u64 = 1_000_000;

fn check(script: &str, expected: Expect) {
    let mut shard = Shard::new();
    let mut out = String::new();
    for step in script.split(';').map(str::trim).filter(|step| !step.is_empty()) {
        let said = run(&mut shard, step);
        if !said.is_empty() {
            out += &format!("{step} -> {said}\n");
        }
    }
    shard.check();
    let restored: Topics = restore(&snapshot(&shard.topics));
    assert!(restored.due(TimeMs::MAX).eq(shard.topics.due(TimeMs::MAX)), "with all its timers");
    assert_eq!(restored.facts(), shard.topics.facts(), "and all its figures");
    expected.assert_eq(&out);
}

fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}

fn at(word: &str) -> TimeMs {
    TimeMs(START + number(word))
}

fn origin(word: &str) -> Origin {
    Origin::new(1, 77, number(word) as u16)
}

fn run(shard: &mut Shard, step: &str) -> String {
    let words: Vec<&str> = step.split_whitespace().collect();
    let slot = |id: &str| shard.topics.find(id).unwrap_or(Slot(99));
    let will = |delay: &str| Will {
        message: message("will", "gone", 1, None),
        delay_s: number(delay) as u32,
        expiry_s: Some(30),
    };
    let expiry = |word: &str| if word == "never" { u32::MAX } else { number(word) as u32 };
    let command = match words[..] {
        ["open", id, expiry_s] => {
            Command::OpenSession { client_id: id.into(), owner: None, expiry_s: expiry(expiry_s), will: None }
        }
        ["open", id, expiry_s, "will", delay] => Command::OpenSession {
            client_id: id.into(),
            owner: None,
            expiry_s: expiry(expiry_s),
            will: Some(will(delay)),
        },
        ["attach", id] => Command::AttachSession { slot: slot(id), owner: None, expiry_s: 60, will: None },
        ["detach", id, expiry_s, ref rest @ ..] => {
            Command::DetachSession { slot: slot(id), expiry_s: expiry(expiry_s), keep_will: rest.is_empty() }
        }
        ["end", id] => Command::EndSession { slot: slot(id) },
        ["clear", id] => {
            let record = shard.topics.session(slot(id)).and_then(|session| session.will_record()).unwrap_or(0);
            Command::ClearWill { slot: slot(id), record }
        }
        ["sub", id, filter, n] => {
            let subscription_id = number(n) as u32;
            Command::Subscribe { slot: slot(id), filter: filter.into(), options: 2, subscription_id }
        }
        ["unsub", id, filter] => Command::Unsubscribe { slot: slot(id), filter: filter.into() },
        ["pub", payload, ref rest @ ..] => publish(shard, payload, rest),
        ["ack", id, n] => Command::Acknowledge { slot: slot(id), number: number(n) },
        ["rec", id, n] => Command::MarkReceived { slot: slot(id), number: number(n) },
        ["forget", "all"] => Command::ForgetOrigins { shard: 1, incarnation: 77 },
        ["forget", n] => Command::ForgetOrigin(origin(n)),
        ["retain", topic, ref payload @ ..] => {
            Command::Retain { message: message(topic, &payload.concat(), 1, None), owner: None }
        }
        ["delay", topic, payload, ms] => {
            Command::Delay { at: at(ms), message: message(topic, payload, 1, None), origin: None, owner: None }
        }
        ["sent", id] => Command::DelayedSent { id: number(id) },
        ["limit", n, "messages", policy] => {
            shard.limits.messages_max = number(n) as u32;
            shard.limits.policy = policy_of(policy);
            return String::new();
        }
        ["limit", n, "bytes", policy] => {
            shard.limits.bytes_max = number(n);
            shard.limits.policy = policy_of(policy);
            return String::new();
        }
        ["limit", ms, "ms"] => {
            shard.limits.age_max_ms = number(ms);
            return String::new();
        }
        ["clock", ms] => {
            shard.now = at(ms);
            return String::new();
        }
        ["due"] => return shard.topics.due(shard.now).map(due).collect::<Vec<_>>().join(", "),
        ["obey"] => return obey(shard),
        ["over", ms] => {
            let mut over = Vec::new();
            crate::Machine::over_at(&shard.topics, at(ms), &mut |kind, count| over.push(format!("{count} {kind}")));
            return over.join(", ");
        }
        ["show", id] => return show(&shard.topics, id),
        ["facts"] => return facts(&shard.topics),
        _ => panic!("no step {step}"),
    };
    match shard.ask(&command) {
        Ok(event) => said(&event),
        Err(refusal) => format!("refused: {refusal}"),
    }
}

fn policy_of(word: &str) -> InboxPolicy {
    match word {
        "drop_oldest" => InboxPolicy::DropOldest,
        "drop_newest" => InboxPolicy::DropNewest,
        "refuse" => InboxPolicy::Refuse,
        other => panic!("no policy {other}"),
    }
}

fn publish(shard: &Shard, payload: &str, words: &[&str]) -> Command {
    let (mut receivers, mut from, mut expires_at) = (Vec::new(), None, None);
    for pair in words.iter().enumerate() {
        match pair {
            (_, &"from" | &"until") => {}
            (nth, n) if nth > 0 && words[nth - 1] == "from" => from = Some(origin(n)),
            (nth, n) if nth > 0 && words[nth - 1] == "until" => expires_at = Some(at(n)),
            (_, receiver) => {
                let (id, qos) = receiver.split_once(':').expect("id:qos");
                let slot = shard.topics.find(id).unwrap_or(Slot(99));
                receivers.push(Receiver { slot, qos: number(qos) as u8, retain: false, subscription_ids: [7].into() });
            }
        }
    }
    Command::Publish {
        message: message("t", payload, 2, expires_at),
        receivers: receivers.into(),
        origin: from,
        unheeded: [].into(),
    }
}

/// What is worth saying of an event: nothing of most, since what follows shows it.
fn said(event: &Event) -> String {
    match event {
        Event::SessionOpened { slot, .. } => format!("slot {}", slot.0),
        Event::Published { receivers, evicted, dropped, .. } => {
            format!("{} got it, {} made room, {dropped} did not", receivers.len(), evicted.iter().sum::<u32>())
        }
        _ => String::new(),
    }
}

fn due(due: Due) -> String {
    match due {
        Due::Will { slot, .. } => format!("will of {}", slot.0),
        Due::SessionExpiry { slot } => format!("end of {}", slot.0),
        Due::Delayed { id } => format!("delayed {id}"),
        Due::Drop { slot, number, reason } => format!("drop {} {number} {reason:?}", slot.0),
    }
}

/// Does what is due until nothing is.
fn obey(shard: &mut Shard) -> String {
    let mut done = Vec::new();
    while let Some(what) = { shard.topics.due(shard.now).next() } {
        let command = match what {
            Due::Will { slot, record } => Command::ClearWill { slot, record },
            Due::SessionExpiry { slot } => Command::EndSession { slot },
            Due::Delayed { id } => Command::DelayedSent { id },
            Due::Drop { slot, number, reason } => Command::Drop { slot, number, reason },
        };
        shard.ask(&command).expect("what is due can be done");
        done.push(due(what));
    }
    done.join(", ")
}

fn show(topics: &Topics, id: &str) -> String {
    let slot = topics.find(id).expect("a session");
    let session = topics.session(slot).expect("it was found");
    let inbox = topics.inbox(slot);
    let mut out = format!("slot {} of {}", slot.0, session.incarnation());
    for subscription in session.subscriptions() {
        out += &format!(", {}#{}", subscription.filter, subscription.subscription_id);
    }
    if session.will().is_some() {
        out += ", will";
    }
    for entry in inbox.entries_from(0) {
        let payload = String::from_utf8_lossy(entry.message().payload()).into_owned();
        let (number, qos, sequence) = (entry.number(), entry.qos(), entry.sequence());
        assert_eq!(entry.subscription_ids(), [7]);
        out += &format!(", {number}:{payload}/{qos}@{sequence}{}", if entry.is_received() { "!" } else { "" });
    }
    out + &format!(", next {}", inbox.next_number())
}

/// The figures that are not zero.
fn facts(topics: &Topics) -> String {
    let all = format!("{:?}", topics.facts());
    let fields = all.trim_start_matches("TopicFacts { ").trim_end_matches(" }").split(", ");
    fields.filter(|field| !field.ends_with(": 0")).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_session_keeps_what_came_while_it_was_away() {
    check(
        "open a 60; sub a f/+ 7; sub a b 3; sub a f/+ 9; detach a 60; pub one a:1; pub two a:2; attach a; show a;
         ack a 0; show a; ack a 0; ack a 5; unsub a b; unsub a b; ack a 1; show a",
        expect![[r#"
            open a 60 -> slot 0
            pub one a:1 -> 1 got it, 0 made room, 0 did not
            pub two a:2 -> 1 got it, 0 made room, 0 did not
            show a -> slot 0 of 1, b#3, f/+#9, 0:one/1@6, 1:two/2@7, next 2
            show a -> slot 0 of 1, b#3, f/+#9, 1:two/2@7, next 2
            ack a 0 -> refused: entry 0 does not wait
            ack a 5 -> refused: entry 5 does not wait
            unsub a b -> refused: no such subscription
            show a -> slot 0 of 1, f/+#9, next 2
        "#]],
    );
}

#[test]
fn a_body_is_stored_once_and_goes_with_its_last_copy() {
    check(
        "open a 60; open b 60; open c 60; pub hello a:1 b:1 c:2; facts; ack a 0; end b; facts; ack c 0; facts",
        expect![[r#"
            open a 60 -> slot 0
            open b 60 -> slot 1
            open c 60 -> slot 2
            pub hello a:1 b:1 c:2 -> 3 got it, 0 made room, 0 did not
            facts -> sessions: 3, inbox_messages: 3, bodies: 1, bodies_bytes: 13
            facts -> sessions: 2, inbox_messages: 1, bodies: 1, bodies_bytes: 13
            facts -> sessions: 2
        "#]],
    );
}

#[test]
fn a_slot_is_used_again_by_a_new_session_with_nothing_of_the_old_one() {
    check(
        "open a 60; open b 60; sub a f 1; pub x a:1; end a; open c 60; show c; open d 60; open a 60; show a; open a 60;
         end nobody; pub x nobody:1; pub x nobody:1 d:1; show d",
        expect![[r#"
            open a 60 -> slot 0
            open b 60 -> slot 1
            pub x a:1 -> 1 got it, 0 made room, 0 did not
            open c 60 -> slot 0
            show c -> slot 0 of 6, next 0
            open d 60 -> slot 2
            open a 60 -> slot 3
            show a -> slot 3 of 8, next 0
            open a 60 -> refused: client id has a session already
            end nobody -> refused: no session in slot 99
            pub x nobody:1 -> refused: nothing to do
            pub x nobody:1 d:1 -> 1 got it, 0 made room, 0 did not
            show d -> slot 2 of 7, 0:x/1@9, next 1
        "#]],
    );
}

#[test]
fn acknowledged_out_of_order() {
    check(
        "open a 60; pub p0 a:1; pub p1 a:1; pub p2 a:1; pub p3 a:1; ack a 1; ack a 2; show a; ack a 0; show a;
         ack a 3; show a",
        expect![[r#"
            open a 60 -> slot 0
            pub p0 a:1 -> 1 got it, 0 made room, 0 did not
            pub p1 a:1 -> 1 got it, 0 made room, 0 did not
            pub p2 a:1 -> 1 got it, 0 made room, 0 did not
            pub p3 a:1 -> 1 got it, 0 made room, 0 did not
            show a -> slot 0 of 1, 0:p0/1@2, 3:p3/1@5, next 4
            show a -> slot 0 of 1, 3:p3/1@5, next 4
            show a -> slot 0 of 1, next 4
        "#]],
    );
}

#[test]
fn what_its_receiver_has_is_never_dropped_for_others() {
    check(
        "open a 60; limit 2 messages drop_oldest; pub p0 a:2; rec a 0; rec a 0; show a; pub p1 a:2; pub p2 a:2;
         pub p3 a:2; show a;
         rec a 3; pub p4 a:1; show a; ack a 0; pub p4 a:1; show a; facts",
        expect![[r#"
            open a 60 -> slot 0
            pub p0 a:2 -> 1 got it, 0 made room, 0 did not
            rec a 0 -> refused: nothing to do
            show a -> slot 0 of 1, 0:p0/2@3!, next 1
            pub p1 a:2 -> 1 got it, 0 made room, 0 did not
            pub p2 a:2 -> 1 got it, 1 made room, 0 did not
            pub p3 a:2 -> 1 got it, 1 made room, 0 did not
            show a -> slot 0 of 1, 0:p0/2@3!, 3:p3/2@6, next 4
            pub p4 a:1 -> 0 got it, 0 made room, 1 did not
            show a -> slot 0 of 1, 0:p0/2@3!, 3:p3/2@7!, next 4
            pub p4 a:1 -> 1 got it, 0 made room, 0 did not
            show a -> slot 0 of 1, 3:p3/2@7!, 4:p4/1@10, next 5
            facts -> sessions: 1, inbox_messages: 2, bodies: 2, bodies_bytes: 20, evicted: 2, dropped_full: 1
        "#]],
    );
}

#[test]
fn a_full_inbox_does_what_its_policy_says() {
    check(
        "open a 60; open b 60; limit 2 messages drop_oldest; pub p0 a:1; pub p1 a:1; pub p2 a:1 b:1; show a;
         limit 2 messages drop_newest; pub p3 a:1 b:1; pub p4 a:1; show a; show b;
         limit 2 messages refuse; pub p5 a:1; pub p5 b:1 a:1; show b; facts",
        expect![[r#"
            open a 60 -> slot 0
            open b 60 -> slot 1
            pub p0 a:1 -> 1 got it, 0 made room, 0 did not
            pub p1 a:1 -> 1 got it, 0 made room, 0 did not
            pub p2 a:1 b:1 -> 2 got it, 1 made room, 0 did not
            show a -> slot 0 of 1, 1:p1/1@4, 2:p2/1@5, next 3
            pub p3 a:1 b:1 -> 1 got it, 0 made room, 1 did not
            pub p4 a:1 -> 0 got it, 0 made room, 1 did not
            show a -> slot 0 of 1, 1:p1/1@4, 2:p2/1@5, next 3
            show b -> slot 1 of 2, 0:p2/1@5, 1:p3/1@6, next 2
            pub p5 a:1 -> refused: inbox of a receiver is full
            pub p5 b:1 a:1 -> refused: inbox of a receiver is full
            show b -> slot 1 of 2, 0:p2/1@5, 1:p3/1@6, next 2
            facts -> sessions: 2, inbox_messages: 4, bodies: 3, bodies_bytes: 30, evicted: 1, dropped_full: 2
        "#]],
    );
}

#[test]
fn bytes_are_bounded_too() {
    // A message here takes 8 bytes besides its payload.
    check(
        "open a 60; limit 40 bytes drop_oldest; pub 01234567 a:1; pub 01 a:1; pub 0123456789abcdef a:1; show a;
         pub 0123456789012345678901234567890123456789 a:1; show a; facts",
        expect![[r#"
            open a 60 -> slot 0
            pub 01234567 a:1 -> 1 got it, 0 made room, 0 did not
            pub 01 a:1 -> 1 got it, 0 made room, 0 did not
            pub 0123456789abcdef a:1 -> 1 got it, 1 made room, 0 did not
            show a -> slot 0 of 1, 1:01/1@3, 2:0123456789abcdef/1@4, next 3
            pub 0123456789012345678901234567890123456789 a:1 -> 0 got it, 0 made room, 1 did not
            show a -> slot 0 of 1, 1:01/1@3, 2:0123456789abcdef/1@4, next 3
            facts -> sessions: 1, inbox_messages: 2, bodies: 2, bodies_bytes: 34, evicted: 1, dropped_full: 1
        "#]],
    );
}

#[test]
fn an_origin_is_taken_once_until_it_is_forgotten() {
    check(
        "open a 60; pub x a:2 from 9; pub x a:2 from 9; ack a 0; pub x a:2 from 9; forget 9; forget 9;
         pub x a:2 from 9; pub y a:2 from 8;
         pub z nobody:2 from 7; forget all; forget all; pub y a:2 from 8; show a",
        expect![[r#"
            open a 60 -> slot 0
            pub x a:2 from 9 -> 1 got it, 0 made room, 0 did not
            pub x a:2 from 9 -> refused: message was taken before
            pub x a:2 from 9 -> refused: message was taken before
            forget 9 -> refused: nothing to do
            pub x a:2 from 9 -> 1 got it, 0 made room, 0 did not
            pub y a:2 from 8 -> 1 got it, 0 made room, 0 did not
            pub z nobody:2 from 7 -> refused: nothing to do
            forget all -> refused: nothing to do
            pub y a:2 from 8 -> 1 got it, 0 made room, 0 did not
            show a -> slot 0 of 1, 1:x/2@5, 2:y/2@6, 3:y/2@8, next 4
        "#]],
    );
}

#[test]
fn sessions_end_and_wills_are_sent_in_time() {
    check(
        "open a 60 will 5; open b 3 will 5; open c never will 0; open d 60 will 5; due; detach a 60; detach b 3;
         detach c never;
         detach d 60 quietly; due; clear c; clear c; clear d; clock 2999; due; clock 3000; due; clock 5000; due;
         attach a; due;
         detach a 10; clock 15000; due; obey; clock 99999999; due; obey; show c",
        expect![[r#"
            open a 60 will 5 -> slot 0
            open b 3 will 5 -> slot 1
            open c never will 0 -> slot 2
            open d 60 will 5 -> slot 3
            due -> will of 2
            clear c -> refused: nothing to do
            clear d -> refused: nothing to do
            due -> will of 1, end of 1
            due -> will of 1, end of 1, will of 0
            due -> will of 1, end of 1
            due -> will of 1, end of 1, end of 0
            obey -> will of 1, end of 1, end of 0
            due -> end of 3
            obey -> end of 3
            show c -> slot 2 of 3, next 0
        "#]],
    );
}

#[test]
fn entries_age_and_messages_expire() {
    check(
        "open a 60; limit 5000 ms; pub p0 a:1; pub p1 a:1 until 3000; pub p2 a:2; pub p3 a:1 until 9000; rec a 2;
         ack a 0; clock 3000; due;
         obey; clock 5000; due; obey; limit 0 ms; pub p4 a:1; clock 99999; obey; show a; facts",
        expect![[r#"
            open a 60 -> slot 0
            pub p0 a:1 -> 1 got it, 0 made room, 0 did not
            pub p1 a:1 until 3000 -> 1 got it, 0 made room, 0 did not
            pub p2 a:2 -> 1 got it, 0 made room, 0 did not
            pub p3 a:1 until 9000 -> 1 got it, 0 made room, 0 did not
            due -> drop 0 1 Expired
            obey -> drop 0 1 Expired
            due -> drop 0 3 Aged
            obey -> drop 0 3 Aged
            pub p4 a:1 -> 1 got it, 0 made room, 0 did not
            show a -> slot 0 of 1, 2:p2/2@6!, 4:p4/1@10, next 5
            facts -> sessions: 1, inbox_messages: 2, bodies: 2, bodies_bytes: 20, dropped_expired: 1, dropped_aged: 1
        "#]],
    );
}

#[test]
fn retained_messages_are_replaced_and_cleared() {
    check(
        "retain t one; retain u two; retain t three; facts; retain t; retain t; facts",
        expect![[r#"
            facts -> retained: 2, retained_bytes: 24
            retain t -> refused: nothing to do
            facts -> retained: 1, retained_bytes: 11
        "#]],
    );
}

#[test]
fn delayed_messages_come_in_the_order_of_their_times() {
    check(
        "delay t late 5000; delay t soon 1000; due; clock 1000; due; clock 5000; due; sent 2; sent 2; due; sent 1;
         facts",
        expect![[r#"
            due -> delayed 2
            due -> delayed 2, delayed 1
            sent 2 -> refused: no delayed message 2
            due -> delayed 1
        "#]],
    );
}

/// A shared subscription beside another one of the same session: two copies of one message.
#[test]
fn a_session_may_get_two_copies() {
    check(
        "open a 60; pub x a:1 a:2; show a; facts; ack a 0; facts; limit 1 messages drop_oldest; pub y a:1 a:1;
         show a; ack a 4; facts",
        expect![[r#"
            open a 60 -> slot 0
            pub x a:1 a:2 -> 2 got it, 0 made room, 0 did not
            show a -> slot 0 of 1, 0:x/1@2, 1:x/2@2, next 2
            facts -> sessions: 1, inbox_messages: 2, bodies: 1, bodies_bytes: 9
            facts -> sessions: 1, inbox_messages: 1, bodies: 1, bodies_bytes: 9
            pub y a:1 a:1 -> 2 got it, 2 made room, 0 did not
            show a -> slot 0 of 1, 3:y/1@4, next 4
            ack a 4 -> refused: entry 4 does not wait
            facts -> sessions: 1, inbox_messages: 1, bodies: 1, bodies_bytes: 9, evicted: 2
        "#]],
    );
}

/// Many come and go behind one that stays: it costs neither memory nor time.
#[test]
fn one_that_stays_does_not_make_an_inbox_slow() {
    let mut shard = Shard::new();
    run(&mut shard, "open a 60");
    run(&mut shard, "pub first a:1");
    let slot = Slot(0);
    for number in 1..50_000 {
        run(&mut shard, "pub next a:1");
        shard.ask(&Command::Acknowledge { slot, number }).expect("it waits");
        assert_eq!(shard.topics.inbox(slot).front_number(), 0);
    }
    assert_eq!(show(&shard.topics, "a"), "slot 0 of 1, 0:first/1@2, next 50000");
    assert_eq!(shard.ask(&Command::Acknowledge { slot, number: 49_999 }), Err(Refusal::NoEntry(49_999)));
}

#[test]
fn a_message_is_shared_not_copied() {
    let mut shard = Shard::new();
    run(&mut shard, "open a 60");
    let message = message("t", "x", 1, None);
    let receivers = [Receiver { slot: Slot(0), qos: 1, retain: true, subscription_ids: [].into() }];
    let command = Command::Publish {
        message: Arc::clone(&message),
        receivers: receivers.into(),
        origin: None,
        unheeded: [].into(),
    };
    shard.ask(&command).expect("it fits");
    let inbox = shard.topics.inbox(Slot(0));
    let entry = inbox.entry_from(0).expect("it waits");
    assert!(Arc::ptr_eq(entry.message(), &message) && entry.retain() && entry.subscription_ids().is_empty());
}

#[test]
fn what_another_session_has_comes_where_there_is_room_and_nothing_makes_any() {
    for policy in [InboxPolicy::DropOldest, InboxPolicy::DropNewest, InboxPolicy::Refuse] {
        let mut shard = Shard::new();
        shard.limits = InboxLimits { messages_max: 2, policy, ..InboxLimits::default() };
        ["open a 60", "pub first a:1"].iter().for_each(|step| drop(run(&mut shard, step)));
        let pass = |shard: &mut Shard, slot| {
            let receiver = Receiver { slot, qos: 1, retain: false, subscription_ids: [7].into() };
            shard.ask(&Command::PassOn { message: message("t", "passed", 1, None), receiver }).map(|event| said(&event))
        };
        assert_eq!(pass(&mut shard, Slot(0)), Ok("1 got it, 0 made room, 0 did not".into()));
        assert_eq!(pass(&mut shard, Slot(0)), Err(Refusal::InboxFull));
        assert_eq!(pass(&mut shard, Slot(9)), Err(Refusal::NoSession(Slot(9))));
        assert_eq!(show(&shard.topics, "a"), "slot 0 of 1, 0:first/1@2, 1:passed/1@3, next 2", "{policy:?}");
    }
}

#[test]
fn what_is_over_at_a_time_is_counted_by_kind() {
    check(
        "open a 60 will 5; open b never; open c 60; over 100000000; detach a 60; detach b never; \
         pub hi a:1 b:1 c:1 until 5000; pub later a:1 b:1; delay t hi 7000; over 4999; \
         over 5000; over 7000; over 60000",
        expect![[r#"
            open a 60 will 5 -> slot 0
            open b never -> slot 1
            open c 60 -> slot 2
            pub hi a:1 b:1 c:1 until 5000 -> 3 got it, 0 made room, 0 did not
            pub later a:1 b:1 -> 2 got it, 0 made room, 0 did not
            over 5000 -> 3 waiting messages, 1 wills that are due
            over 7000 -> 3 waiting messages, 1 delayed messages that are due, 1 wills that are due
            over 60000 -> 1 sessions, 4 waiting messages, 1 delayed messages that are due, 1 wills that are due
        "#]],
    );
}
