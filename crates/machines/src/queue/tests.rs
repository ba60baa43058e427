mod cases;
mod owners;
mod properties;
mod schedules;

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::*;
use crate::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};

/// Bounds that no test meets unless it wants to.
pub const BOUNDS: Bounds = Bounds::new(2_000, 2_000, 2_000);

/// The keys of all messages.
pub const ALL_KEYS: RangeInclusive<MessageKey> = MessageKey::from_bits(0)..=MessageKey::MAX;

/// Milliseconds between two firings of a schedule.
pub const PERIOD_MS: u64 = 700;

/// Queues that are driven by hand: every event is encoded, decoded, and kept.
pub struct Driven {
    pub queues: Queues,
    pub records: Vec<(Vec<u8>, Place)>,
    pub bounds: Bounds,
    pub now: TimeMs,
}

impl Driven {
    pub fn new() -> Driven {
        let queues = Queues::new(ShardIndex(0), 1);
        Driven { queues, records: Vec::new(), bounds: BOUNDS, now: TimeMs(1_000) }
    }

    pub fn ask(&mut self, command: Command<'_>) -> Outcome {
        match self.queues.decide(&command, self.bounds, self.now) {
            Decision::Answer(outcome) => outcome,
            Decision::Append { event, outcome } => {
                let mut bytes = Vec::new();
                Queues::encode(&event, &mut bytes);
                assert_eq!(Queues::decode(&bytes).as_ref(), Ok(&event), "what was decided is read as it was written");
                let sequence = self.records.len() as u64 + 1;
                let at = Place { position: RecordPosition(sequence * 100_000), sequence: RecordSequence(sequence) };
                self.queues.apply(&event, at);
                self.records.push((bytes, at));
                outcome
            }
        }
    }

    /// Lets time pass, and what is due happen.
    pub fn wait(&mut self, ms: u64) {
        self.now.0 += ms;
        while self.queues.next_due().is_some_and(|at| at <= self.now) {
            assert_eq!(self.ask(Command::PassTime), Outcome::Done);
        }
        self.fire();
    }

    /// Fires the schedules whose time has come: each again after [`PERIOD_MS`], and one that finds no room not at all.
    pub fn fire(&mut self) {
        let at = self.now.max(self.queues.time());
        let due: Vec<DueStanding> = self.queues.due_standing(at).collect();
        for due in due {
            let next = Some(TimeMs(at.0 + PERIOD_MS));
            let outcome = self.ask(Command::Fire { due: &due, next });
            assert!(matches!(outcome, Outcome::Done | Outcome::Refused(Refusal::Full(..))), "{outcome:?}");
        }
    }

    pub fn schedule(&mut self, queue: &str, name: &str, settings: &StandingSettings, in_ms: u64) -> Outcome {
        let next = TimeMs(self.now.0 + in_ms);
        self.ask(Command::SetStanding { queue, name, settings, next })
    }

    pub fn queue(&mut self, name: &str, settings: Settings) {
        assert_eq!(self.ask(Command::SetQueue { name, settings: &settings }), Outcome::Done);
    }

    pub fn send(&mut self, queue: &str, messages: &[Message]) -> Vec<Receipt> {
        let messages: Vec<Arc<Message>> = messages.iter().cloned().map(Arc::new).collect();
        match self.ask(Command::Send { queue, messages: &messages }) {
            Outcome::Sent(receipts) => receipts,
            other => panic!("{other:?}"),
        }
    }

    /// A message as it stands in the log.
    pub fn body(&self, number: u64) -> Message {
        let place = self.queues.body_place(number).expect("it is there");
        let record = self.records.iter().find(|(_, at)| at.position == place.record).expect("it was written");
        let event = Queues::decode(&record.0).expect("it was read before");
        event.part(place.part).expect("the record has it").to_message()
    }

    pub fn receive(&mut self, queue: &str, max: usize) -> Vec<Lease> {
        match self.ask(Command::Receive { queue, max, bytes_max: 1_000, lease_ms: None, consumer: "me" }) {
            Outcome::Leased(deliveries) => deliveries.iter().map(|delivery| delivery.lease).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Numbers and attempts of what is handed out.
    pub fn received(&mut self, queue: &str, max: usize) -> Vec<(u64, u32)> {
        self.receive(queue, max).iter().map(|lease| (lease.key.number(), lease.attempt)).collect()
    }

    pub fn acknowledge(&mut self, queue: &str, leases: &[Lease]) -> Vec<Result<(), LeaseRefusal>> {
        leases_of(self.ask(Command::Acknowledge { queue, leases }))
    }

    pub fn reject(&mut self, queue: &str, leases: &[Lease], then: Rejection) -> Vec<Result<(), LeaseRefusal>> {
        leases_of(self.ask(Command::Reject { queue, leases, then, reason: "no route" }))
    }

    pub fn counts(&self, queue: &str) -> (u64, u64, u64) {
        let Counts { waiting, scheduled, leased } = self.queues.view(queue).expect("the queue is there").counts;
        (waiting, scheduled, leased)
    }
}

pub fn leases_of(outcome: Outcome) -> Vec<Result<(), LeaseRefusal>> {
    match outcome {
        Outcome::Leases(outcomes) => outcomes,
        other => panic!("{other:?}"),
    }
}

pub fn message(body: &str) -> Message {
    Message { priority: 4, body: body.as_bytes().into(), ..Message::default() }
}

/// The bytes of a state.
pub fn snapshot(queues: &Queues) -> Vec<u8> {
    let mut bytes = Vec::new();
    queues.write_snapshot(&mut |part| bytes.extend_from_slice(part));
    bytes
}
