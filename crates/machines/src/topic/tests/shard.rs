//! A shard without disk: a state, and its records in memory.

use std::sync::Arc;

use crate::topic::{Command, Event, InboxLimits, InboxPolicy, Message, MessageMeta, Refusal, Topics};
use crate::{ShardIndex, TimeMs};

pub struct Shard {
    pub topics: Topics,
    pub records: Vec<Vec<u8>>,
    pub limits: InboxLimits,
    pub now: TimeMs,
}

impl Shard {
    pub fn new() -> Shard {
        let limits =
            InboxLimits { messages_max: 100, bytes_max: 10_000, age_max_ms: 0, policy: InboxPolicy::DropOldest };
        Shard { topics: Topics::new(ShardIndex(3)), records: Vec::new(), limits, now: TimeMs(1_000_000) }
    }

    /// Decides, twice to see that it is the same, and appends.
    pub fn ask(&mut self, command: &Command) -> Result<Event, Refusal> {
        let decided = self.topics.decide(command, &self.limits, self.now);
        assert_eq!(decided, self.topics.decide(command, &self.limits, self.now), "decide is a function");
        let event = decided?;
        let mut record = Vec::new();
        event.encode(&mut record);
        assert_eq!(Event::decode(&record).as_ref(), Ok(&event));
        self.records.push(record);
        self.topics.apply(&event, self.records.len() as u64);
        Ok(event)
    }

    /// The fold of all records from the first, checked as records from outside are.
    pub fn replay(&self) -> Topics {
        let mut topics = Topics::new(ShardIndex(3));
        for (record, sequence) in self.records.iter().zip(1..) {
            let event = Event::decode(record).expect("was encoded");
            topics.apply_checked(&event, sequence).expect("was applied");
        }
        topics
    }
}

pub fn snapshot(topics: &Topics) -> Vec<u8> {
    let mut bytes = Vec::new();
    topics.write_snapshot(&mut |part| bytes.extend_from_slice(part));
    bytes
}

pub fn message(topic: &str, payload: &str, qos: u8, expires_at: Option<TimeMs>) -> Arc<Message> {
    let meta = MessageMeta { qos, retain: false, expires_at };
    Arc::new(Message::new(topic, &[0x26, 0, 1, b'k', 0, 1, b'v'], payload.as_bytes(), meta))
}
