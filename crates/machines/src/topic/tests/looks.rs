//! What a look at the state says, to whoever drives it: timers, sessions, inboxes, times of records.

use super::shard::{Shard, message};
use crate::topic::{Command, Event, MessageMeta, Receiver, Slot, Topics};
use crate::{Machine, ShardIndex, TimeMs};

fn delay(shard: &mut Shard, at: u64, payload: &str) {
    let command = Command::Delay { at: TimeMs(at), message: message("d", payload, 1, None), origin: None, owner: None };
    shard.ask(&command).expect("it can be delayed");
}

fn open(shard: &mut Shard, id: &str) -> Slot {
    let command = Command::OpenSession { client_id: id.into(), owner: None, expiry_s: 60, will: None };
    shard.ask(&command).expect("it is new");
    shard.topics.find(id).expect("it was opened")
}

#[test]
fn what_is_due_next_is_the_earliest_and_what_is_delayed_can_be_read() {
    let mut shard = Shard::new();
    assert_eq!(shard.topics.next_due(), None);
    delay(&mut shard, 2_000_000, "later");
    delay(&mut shard, 1_500_000, "sooner");
    let next_due = |shard: &Shard| (Machine::next_due(&shard.topics), shard.topics.next_due());
    assert_eq!(next_due(&shard), (Some(TimeMs(1_500_000)), Some(TimeMs(1_500_000))));
    let payload = |id| shard.topics.delayed(id).map(|message| message.payload().to_vec());
    assert_eq!((payload(1), payload(2), payload(3)), (Some(b"later".to_vec()), Some(b"sooner".to_vec()), None));
    shard.ask(&Command::DelayedSent { id: 2 }).expect("it is there");
    assert_eq!(next_due(&shard), (Some(TimeMs(2_000_000)), Some(TimeMs(2_000_000))));
}

#[test]
fn a_session_says_how_long_it_is_kept_and_when_that_ends() {
    let mut shard = Shard::new();
    let slot = open(&mut shard, "anna");
    open(&mut shard, "bert");
    let expiry_s = |shard: &Shard| shard.topics.session(slot).map(|session| session.expiry_s());
    let ends = |shard: &Shard| {
        let mut ends = Vec::new();
        shard.topics.ends(&mut |at| ends.push(at));
        ends
    };
    assert_eq!((expiry_s(&shard), ends(&shard)), (Some(60), Vec::new()));
    shard.ask(&Command::DetachSession { slot, expiry_s: 5, keep_will: true }).expect("it is there");
    assert_eq!((expiry_s(&shard), ends(&shard)), (Some(5), vec![TimeMs(1_005_000)]));
    assert_eq!(shard.topics.shard(), ShardIndex(3));
}

#[test]
fn an_inbox_says_whether_anything_waits_and_what_is_shown_as_retained() {
    let mut shard = Shard::new();
    let slot = open(&mut shard, "anna");
    assert!(shard.topics.inbox(slot).is_empty() && shard.topics.inbox(Slot(99)).is_empty());
    for retain in [true, false] {
        let receiver = Receiver { slot, qos: 1, retain, subscription_ids: [7].into() };
        let message = message("t", "hi", 1, None);
        shard
            .ask(&Command::Publish { message, receivers: [receiver].into(), origin: None, unheeded: [].into() })
            .expect("there is room");
    }
    let inbox = shard.topics.inbox(slot);
    assert!(!inbox.is_empty());
    assert_eq!(inbox.entries_from(0).map(|entry| entry.retain()).collect::<Vec<_>>(), [true, false]);
    for number in [0, 1] {
        shard.ask(&Command::Acknowledge { slot, number }).expect("it waits");
    }
    assert!(shard.topics.inbox(slot).is_empty());
}

#[test]
fn a_message_keeps_what_its_publisher_said_of_it() {
    let message = message("t", "hi", 2, Some(TimeMs(7)));
    assert_eq!(message.meta(), MessageMeta { qos: 2, retain: false, expires_at: Some(TimeMs(7)) });
}

#[test]
fn a_record_says_when_it_was_decided_and_one_of_an_older_program_does_not() {
    let slot = Slot(0);
    let opened =
        |at| Event::SessionOpened { at: TimeMs(at), slot, client_id: "a".into(), owner: None, expiry_s: 1, will: None };
    let attached =
        |at| Event::SessionAttached { at: TimeMs(at), slot, owner: None, expiry_s: 1, will: None, names_will: false };
    let detached = Event::SessionDetached { slot, at: TimeMs(9), expiry_s: 1, keep_will: true };
    for (event, at) in [(opened(7), Some(7)), (opened(0), None), (attached(1), Some(1)), (attached(0), None)] {
        assert_eq!(Topics::decided_at(&event), at.map(TimeMs), "{event:?}");
    }
    assert_eq!(Topics::decided_at(&detached), Some(TimeMs(9)));
    // When it is to be sent is in the future, and no time of a decision.
    let mut shard = Shard::new();
    let delay =
        Command::Delay { at: TimeMs(2_000_000), message: message("d", "later", 1, None), origin: None, owner: None };
    let delayed = shard.ask(&delay).expect("it can be delayed");
    assert_eq!(Topics::decided_at(&delayed), None);
    let slot = open(&mut shard, "anna");
    let receivers = [Receiver { slot, qos: 1, retain: false, subscription_ids: [7].into() }].into();
    let publish =
        Command::Publish { message: message("t", "hi", 1, None), receivers, origin: None, unheeded: [].into() };
    let published = shard.ask(&publish).expect("it can be published");
    assert_eq!(Topics::decided_at(&published), Some(shard.now));
}
