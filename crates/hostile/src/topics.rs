//! A shard of topics: a record of its log, decoded as an event and folded, and the body of its snapshots. Each has one
//! encoding, and a state that was decoded can be written, read again and used.

use std::sync::{Arc, LazyLock};
use tidegate_machines::topic::{
    Command, Due, Event, InboxLimits, Message, MessageMeta, Origin, Principal, Receiver, Slot, Topics, Will,
};
use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};

const NOW: TimeMs = TimeMs(1_000_000);

/// A small shard and its log, as bytes of events.
pub struct Sample {
    /// After all events.
    pub topics: Topics,
    /// In order.
    pub events: Vec<Vec<u8>>,
}

fn message(topic: &str, payload: &str) -> Arc<Message> {
    let meta = MessageMeta { qos: 1, retain: false, expires_at: Some(TimeMs(NOW.0 + 5_000)) };
    Arc::new(Message::new(topic, &[1, 1], payload.as_bytes(), meta))
}

/// Two sessions, one away and with a will; messages for both, one received and one delivered; one retained, one for
/// later.
pub static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let open = |client_id: &str, will| Command::OpenSession {
        client_id: client_id.into(),
        owner: Some(Principal::user(client_id)),
        expiry_s: 60,
        will,
    };
    let receiver = |slot| Receiver { slot: Slot(slot), qos: 2, retain: false, subscription_ids: [5].into() };
    let publish = |packet_id| Command::Publish {
        message: message("news", "hello"),
        receivers: [receiver(0), receiver(1)].into(),
        origin: Some(Origin::new(0, 1, packet_id)),
        unheeded: [].into(),
    };
    let will = Will { message: message("news", "gone"), delay_s: 5, expiry_s: Some(9) };
    let subscribe = Command::Subscribe { slot: Slot(0), filter: "news".into(), options: 2, subscription_id: 5 };
    let mut sample = Sample { topics: Topics::new(ShardIndex(0)), events: Vec::new() };
    for command in [
        open("anna", Some(will)),
        open("bert", None),
        open("carl", None),
        subscribe,
        publish(1),
        publish(2),
        publish(3),
        Command::Acknowledge { slot: Slot(1), number: 1 },
        Command::MarkReceived { slot: Slot(0), number: 0 },
        Command::ForgetOrigin(Origin::new(0, 1, 1)),
        Command::DetachSession { slot: Slot(0), expiry_s: 60, keep_will: true },
        Command::EndSession { slot: Slot(2) },
        Command::Retain { message: message("news", "last"), owner: Some(Principal::user("anna")) },
        Command::Delay {
            at: TimeMs(NOW.0 + 1_000),
            message: message("news", "later"),
            origin: Some(Origin::new(0, 1, 9)),
            owner: None,
        },
    ] {
        let Decision::Append { event, .. } = sample.topics.decide(&command, &InboxLimits::default(), NOW) else {
            panic!("{command:?} is refused");
        };
        sample.topics.apply(&event, place(sample.topics.sequence() + 1));
        sample.events.push(bytes_of(&event));
    }
    sample
});

/// Topics compare sequences only.
fn place(sequence: u64) -> Place {
    Place { position: RecordPosition(sequence), sequence: RecordSequence(sequence) }
}

fn bytes_of(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    event.encode(&mut bytes);
    bytes
}

/// Bytes of a snapshot.
pub fn snapshot_of(topics: &Topics) -> Vec<u8> {
    let mut bytes = Vec::new();
    topics.write_snapshot(&mut |part| bytes.extend_from_slice(part));
    bytes
}

/// Decodes, encodes again, and folds into the shard of [`SAMPLE`].
pub fn check_event(bytes: &[u8]) {
    let Ok(event) = Event::decode(bytes) else { return };
    assert_eq!(bytes_of(&event), bytes, "{event:?} has two forms");
    let before = snapshot_of(&SAMPLE.topics);
    let mut topics = Topics::decode_snapshot(&before).expect("our own snapshot");
    let sequence = topics.sequence() + 1;
    match topics.apply_checked(&event, place(sequence)) {
        Ok(()) => {
            topics.assert_sound();
            work_with(topics);
        }
        Err(_) => assert_eq!(snapshot_of(&topics), before, "{event:?} was refused and left something"),
    }
}

/// Decodes, writes again, and works with what comes out.
pub fn check_snapshot(bytes: &[u8]) {
    let Ok(topics) = Topics::decode_snapshot(bytes) else { return };
    assert_eq!(snapshot_of(&topics), bytes, "two forms of one state");
    work_with(topics);
}

/// What is due is done, all sessions end, and then nothing of them is left.
fn work_with(topics: Topics) {
    let bytes = snapshot_of(&topics);
    let mut topics = Topics::decode_snapshot(&bytes).expect("what was written can be read");
    assert_eq!(snapshot_of(&topics), bytes);
    let all_due: Vec<Due> = topics.due(TimeMs::MAX).collect();
    let slots: Vec<Slot> = topics.sessions().map(|(slot, _)| slot).collect();
    let done = all_due.into_iter().map(|due| match due {
        Due::Will { slot, record } => Command::ClearWill { slot, record },
        Due::SessionExpiry { slot } => Command::DetachSession { slot, expiry_s: u32::MAX, keep_will: false },
        Due::Delayed { id } => Command::DelayedSent { id },
        Due::Drop { slot, number, reason } => Command::Drop { slot, number, reason },
    });
    for command in done.chain(slots.into_iter().map(|slot| Command::EndSession { slot })) {
        let Decision::Append { event, .. } = topics.decide(&command, &InboxLimits::default(), NOW) else {
            panic!("what is due can be done: {command:?}");
        };
        let sequence = topics.sequence().saturating_add(1);
        topics.apply(&event, place(sequence));
    }
    let facts = topics.facts();
    assert_eq!((facts.sessions, facts.subscriptions, facts.inbox_messages, facts.bodies), (0, 0, 0, 0));
    assert_eq!((facts.bodies_bytes, facts.delayed, topics.next_due()), (0, 0, None));
}
