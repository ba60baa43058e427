//! Damage in memory is found by the full check, or by the next event about it.

use super::shard::message;
use super::snapshots::shard;
use crate::inboxes::Inbox;
use crate::machine::tests::{place, words_of_panic};
use crate::topic::state::{Kept, Session, Timer};
use crate::topic::{Slot, Topics};
use crate::{Machine, TimeMs};

fn found(damage: impl FnOnce(&mut Topics), words: &str) {
    let mut topics = shard().topics;
    topics.assert_sound();
    damage(&mut topics);
    let said = words_of_panic(|| topics.assert_sound());
    assert!(said.contains(words), "{said:?} instead of {words:?}");
}

fn kept(topic: &str) -> Kept {
    Kept { message: message(topic, "x", 0, None), owner: None }
}

/// The session in slot 0, which has subscriptions and an inbox.
fn anna(topics: &mut Topics) -> &mut Session {
    topics.sessions[0].as_mut().expect("anna is there")
}

#[test]
fn the_walk_finds_sessions_that_disagree_with_their_indices() {
    found(|topics| topics.free.push_back(Slot(0)), "no session and is not free");
    found(|topics| topics.free.iter_mut().for_each(|slot| slot.0 = 0), "free, each once");
    found(|topics| topics.by_client_id.clear(), "found by its client id");
    // Of two with one name, one is not found: another name might by chance be found by its old hash.
    let takes_a_name = |topics: &mut Topics| {
        let other = topics.sessions().map(|(_, session)| session.client_id.clone()).last().expect("there are two");
        anna(topics).client_id = other;
    };
    found(takes_a_name, "is not found where it is");
    found(|topics| anna(topics).incarnation = 99, "by a record that is to come");
    found(|topics| anna(topics).incarnation = 11, "record");
    found(|topics| anna(topics).subscriptions.reverse(), "are not in order");
    found(|topics| drop(anna(topics).subscriptions.pop()), "subscriptions");
    found(|topics| topics.sequence = 3, "record");
    found(|topics| topics.counts.sessions += 1, "no session and is not free");
    found(|topics| topics.counts.inbox_messages += 1, "entries that wait");
}

#[test]
fn the_walk_finds_timers_and_messages_that_disagree() {
    found(|topics| assert!(topics.timers.pop_first().is_some()), "timers that are missing");
    found(|topics| assert!(topics.timers.insert((TimeMs(1), Timer::Will(Slot(9))))), "belong to nothing");
    found(|topics| anna(topics).detached_at = Some(TimeMs(1)), "timers that are missing");
    found(|topics| topics.retained_bytes += 1, "bytes of retained messages");
    found(|topics| drop(topics.retained.insert("r/9".into(), kept("r/1"))), "under another topic");
    found(|topics| drop(topics.delayed.insert(99, (TimeMs(1), kept("d")))), "timers that are missing");
    found(|topics| anna(topics).inbox = Inbox::starting_at(9), "entries that wait");
    let waits_for_nobody = |topics: &mut Topics| {
        let body = topics.bodies.iter().next().expect("something waits").1.clone();
        topics.bodies.put(body, 3, 1);
    };
    found(waits_for_nobody, "entries that wait for body");
}

#[test]
fn a_live_event_where_another_stands_is_a_bug() {
    let mut shard = shard();
    let event = Topics::decode(shard.records.last().expect("records")).expect("was encoded");
    let newest = shard.records.len() - 1;
    let said = words_of_panic(|| Machine::apply(&mut shard.topics, &event, place(newest)));
    assert!(said.contains("comes after record"), "{said}");
}
