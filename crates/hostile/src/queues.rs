//! A shard of queues: a record of its log, decoded and folded, and the body of its snapshots. Each has one encoding,
//! and a state that was decoded can be written, read again and used.

use std::sync::{Arc, LazyLock};

use tidegate_machines::queue::{
    Bounds, Command, DueStanding, Lease, Message, Outcome, Queues, Rejection, Settings, StandingSettings, When,
};
use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};

const BOUNDS: Bounds = Bounds::new(1_000_000, 1_000_000, 1_000_000);
const NOW: TimeMs = TimeMs(1_000_000);

/// A small shard and its log, as bytes of events.
pub struct Sample {
    /// The bytes of its state after all events.
    pub snapshot: Vec<u8>,
    /// In order.
    pub events: Vec<Vec<u8>>,
    next: u64,
}

/// A state under test.
struct Driven {
    queues: Queues,
    events: Vec<Vec<u8>>,
    next: u64,
    /// Bytes between two records.
    step: u64,
}

impl Driven {
    fn ask(&mut self, command: Command<'_>, now: TimeMs) -> Outcome {
        match self.queues.decide(&command, BOUNDS, now) {
            Decision::Answer(outcome) => outcome,
            Decision::Append { event, outcome } => {
                let mut record = Vec::new();
                Queues::encode(&event, &mut record);
                // Sequences of a snapshot may be of any size.
                let (sequence, position) = (RecordSequence(self.next), self.next.saturating_mul(self.step));
                self.queues.apply(&event, Place { position: RecordPosition(position), sequence });
                self.events.push(record);
                self.next += 1;
                outcome
            }
        }
    }

    fn receive(&mut self, queue: &str, max: usize) -> Vec<Lease> {
        let receive = Command::Receive { queue, max, bytes_max: 10_000, lease_ms: None, consumer: "me" };
        match self.ask(receive, NOW) {
            Outcome::Leased(deliveries) => deliveries.iter().map(|delivery| delivery.lease).collect(),
            other => panic!("{other:?}"),
        }
    }
}

fn message(body: &str) -> Message {
    Message { priority: 4, body: body.as_bytes().into(), ..Message::default() }
}

/// Each kind of record, and messages in each state that there is.
pub static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let queues = Queues::new(ShardIndex(0), 1);
    let mut driven = Driven { queues, events: Vec::new(), next: 1, step: 1_000 };
    let dying = Settings {
        attempts_max: Some(3),
        dead_letter: Some("dead".into()),
        owner: Some("ann".into()),
        ..Settings::default()
    };
    let other = Settings {
        delivery_window: Some("mon-fri 08:00-20:00 Europe/Berlin".into()),
        consumer_rate_per_s: Some(7),
        rate_per_s: Some(10),
        expiry_ms: Some(70_000),
        id_window_ms: None,
        ..Settings::default()
    };
    driven.ask(Command::Start { node: 7 }, NOW);
    for (name, settings) in [("dead", &Settings::default()), ("jobs", &dying), ("gone", &other), ("other", &other)] {
        driven.ask(Command::SetQueue { name, settings }, NOW);
    }
    driven.ask(Command::DeleteQueue { name: "gone" }, NOW);
    let keyed = |body: &str| Message { ordering_key: Some("k".into()), ..message(body) };
    let messages: Vec<Arc<Message>> = [
        Message { id: Some("1".into()), attributes: br#"{"to":"a"}"#[..].into(), ..message("first") },
        Message { priority: 9, ..message("high") },
        Message {
            visible_at: Some(When::At(TimeMs(NOW.0 + 50))),
            expires_at: Some(When::After(90)),
            ..message("later")
        },
        keyed("one"),
        keyed("two"),
        keyed("three"),
        message("acknowledged"),
        message("rejected"),
        message("dead"),
        message("cancelled"),
        message("extended"),
        message("purged"),
        Message { expires_at: Some(When::At(TimeMs(NOW.0 + 1))), priority: 0, ..message("expired") },
    ]
    .map(Arc::new)
    .into();
    let Outcome::Sent(receipts) = driven.ask(Command::Send { queue: "jobs", messages: &messages }, NOW) else {
        panic!("messages are taken")
    };
    let key = |nth: usize| receipts[nth].key;
    driven.ask(Command::Cancel { key: key(9), ids: &[] }, NOW);
    driven.ask(Command::Reschedule { key: key(11), visible_at: When::After(5_000), ids: &[] }, NOW);
    let leases = driven.receive("jobs", 8);
    let lease = |nth: usize| [*leases.iter().find(|lease| lease.key == key(nth)).expect("it was handed out")];
    let queue = "jobs";
    driven.ask(Command::Acknowledge { queue, leases: &lease(6) }, NOW);
    let then = Rejection::Retry(Some(40));
    driven.ask(Command::Reject { queue, leases: &lease(7), then, reason: "no route" }, NOW);
    driven.ask(Command::Reject { queue, leases: &lease(8), then: Rejection::Dead, reason: "" }, NOW);
    driven.ask(Command::Extend { queue, leases: &lease(10), lease_ms: 9_000 }, NOW);
    driven.ask(Command::Send { queue: "other", messages: &messages[..2] }, NOW);
    driven.ask(Command::Purge { queue: "other", up_to: 14 }, NOW);
    driven.ask(Command::Redrive { from: "dead", to: "other", max: 9 }, NOW);
    driven.receive("other", 1);
    let standing = |body: &str| StandingSettings {
        cron: "0 9 * * mon-fri".into(),
        zone: "Europe/Berlin".into(),
        expiry_ms: Some(9_000),
        message: Message { ordering_key: Some("k".into()), ..message(body) },
        owner: Some("bob".into()),
    };
    for (name, body) in [("morning", "a"), ("noon", "b"), ("night", "c")] {
        let (settings, next) = (standing(body), TimeMs(NOW.0 + 40));
        driven.ask(Command::SetStanding { queue: "other", name, settings: &settings, next }, NOW);
    }
    driven.ask(Command::RemoveStanding { queue: "other", name: "night" }, NOW);
    let due: Vec<_> = driven.queues.due_standing(TimeMs(NOW.0 + 45)).take(1).collect();
    driven.ask(Command::Fire { due: &due[0], next: Some(TimeMs(NOW.0 + 86_400_000)) }, TimeMs(NOW.0 + 45));
    driven.ask(Command::PassTime, TimeMs(NOW.0 + 45));
    let moved = [(1, messages[0].clone()), (5, messages[4].clone())];
    driven.ask(Command::Move { messages: &moved }, TimeMs(NOW.0 + 45));
    Sample { snapshot: snapshot_of(&driven.queues), events: driven.events, next: driven.next }
});

/// The body of its snapshot.
pub fn snapshot_of(queues: &Queues) -> Vec<u8> {
    let mut bytes = Vec::new();
    queues.write_snapshot(&mut |part| bytes.extend_from_slice(part));
    bytes
}

/// A record: refused, or in its only form, and then it follows from a state or leaves it as it was.
pub fn check_event(bytes: &[u8]) {
    let Ok(event) = Queues::decode(bytes) else { return };
    let mut again = Vec::new();
    Queues::encode(&event, &mut again);
    assert_eq!(again, bytes, "an event has one encoding");
    let empty = snapshot_of(&Queues::new(ShardIndex(0), 1));
    for (before, next) in [(&empty, 1), (&SAMPLE.snapshot, SAMPLE.next)] {
        let mut queues = Queues::read_snapshot(before).expect("our own snapshot");
        let place = Place { position: RecordPosition(next * 1_000), sequence: RecordSequence(next) };
        match queues.apply_checked(&event, place) {
            Ok(()) => work_with(queues, next + 1),
            Err(_) => assert_eq!(&snapshot_of(&queues), before, "what does not follow changes nothing"),
        }
    }
}

/// A snapshot: refused, or in its only form, and then it can be gone on with.
pub fn check_snapshot(bytes: &[u8]) {
    let Ok(queues) = Queues::read_snapshot(bytes) else { return };
    assert_eq!(snapshot_of(&queues), bytes, "a state has one encoding");
    // The sequence is the third number; those of a log end long before the largest one.
    let Some(next) = sequence_of(bytes).checked_add(1_000_000) else { return };
    work_with(queues, next);
}

/// The sequence in a snapshot: the third number of its head.
fn sequence_of(mut bytes: &[u8]) -> u64 {
    let mut number = || {
        let length = bytes.iter().position(|byte| byte & 0x80 == 0).expect("it was read as a number") + 1;
        let (head, rest) = bytes.split_at(length);
        bytes = rest;
        head.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f))
    };
    (number(), number(), number()).2
}

/// The first schedule of a queue.
fn schedule_of(queues: &Queues, queue: &str) -> Option<String> {
    queues.standing_after(queue, "").expect("the queue is there").next().map(|(name, _)| name.to_owned())
}

/// What is due ends, a message is sent and received, all is purged, and then nothing is left.
fn work_with(queues: Queues, next: u64) {
    queues.assert_sound();
    let bytes = snapshot_of(&queues);
    let queues = Queues::read_snapshot(&bytes).expect("what was written can be read");
    assert_eq!(snapshot_of(&queues), bytes);
    // Behind every position that a snapshot may have.
    let mut driven = Driven { queues, events: Vec::new(), next, step: u64::MAX };
    driven.queues.assert_sound();
    let now = driven.queues.time().max(NOW);
    let names: Vec<Box<str>> = driven.queues.views("").map(|view| view.name).collect();
    let plain = Settings { trail_ms: 0, ..Settings::default() };
    for name in &names {
        driven.ask(Command::SetQueue { name, settings: &plain }, now);
        driven.ask(Command::Send { queue: name, messages: &[Arc::new(message("new"))] }, now);
        let receive = Command::Receive { queue: name, max: 3, bytes_max: 100, lease_ms: None, consumer: "me" };
        if let Outcome::Leased(deliveries) = driven.ask(receive, now)
            && let Some(first) = deliveries.first()
        {
            driven.ask(Command::Acknowledge { queue: name, leases: &[first.lease] }, now);
        }
    }
    driven.queues.assert_sound();
    let due: Vec<DueStanding> = driven.queues.due_standing(TimeMs::MAX).collect();
    for due in &due {
        driven.ask(Command::Fire { due, next: None }, TimeMs::MAX);
    }
    driven.queues.assert_sound();
    while driven.queues.next_due().is_some() {
        driven.ask(Command::PassTime, TimeMs::MAX);
    }
    driven.queues.assert_sound();
    for name in &names {
        let up_to = driven.queues.newest_number();
        while let Outcome::Some { count: 1.., .. } = driven.ask(Command::Purge { queue: name, up_to }, TimeMs::MAX) {}
        // Those that fire no more are still there.
        while let Some(schedule) = schedule_of(&driven.queues, name) {
            driven.ask(Command::RemoveStanding { queue: name, name: &schedule }, TimeMs::MAX);
        }
        assert_eq!(driven.ask(Command::DeleteQueue { name }, TimeMs::MAX), Outcome::Done, "nothing holds it");
    }
    driven.queues.assert_sound();
    let left = (driven.queues.totals(), driven.queues.live_bytes(), driven.queues.next_due());
    assert_eq!(left, ((0, 0), 0, None), "all is gone");
    assert_eq!(driven.queues.keeps_since(), None, "and nothing of the log is needed");
}
