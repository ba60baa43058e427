//! A shard without disk: a state, and its records in memory.

use std::sync::Arc;

use crate::machine::tests as machine;
use crate::topic::{Command, Event, InboxLimits, Message, MessageMeta, Refusal, Topics};
use crate::{Decision, Machine, ShardIndex, TimeMs};

pub struct Shard {
    pub topics: Topics,
    pub records: Vec<Vec<u8>>,
    pub limits: InboxLimits,
    pub now: TimeMs,
}

impl Shard {
    pub fn new() -> Shard {
        let limits = InboxLimits { messages_max: 100, bytes_max: 10_000, age_max_ms: 0, ..InboxLimits::default() };
        Shard { topics: new_topics(), records: Vec::new(), limits, now: TimeMs(1_000_000) }
    }

    /// Decides and appends.
    pub fn ask(&mut self, command: &Command) -> Result<Event, Refusal> {
        match machine::ask(&mut self.topics, &mut self.records, command, &self.limits, self.now) {
            Decision::Append { event, outcome } => outcome.map(|()| event),
            Decision::Answer(outcome) => Err(outcome.expect_err("only an event makes it so")),
        }
    }

    /// The fold of all records from the first, checked as records from outside are.
    pub fn replay(&self) -> Topics {
        machine::fold(new_topics(), 0, &self.records)
    }

    /// What every machine promises.
    pub fn check(&self) {
        machine::check(&self.topics, new_topics, &self.records);
    }
}

fn new_topics() -> Topics {
    Machine::new(ShardIndex(3), 4)
}

pub fn message(topic: &str, payload: &str, qos: u8, expires_at: Option<TimeMs>) -> Arc<Message> {
    let meta = MessageMeta { qos, retain: false, expires_at };
    Arc::new(Message::new(topic, &[0x26, 0, 1, b'k', 0, 1, b'v'], payload.as_bytes(), meta))
}
