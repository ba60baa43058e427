//! Messages that wait in memory for one client: what a clean session could not be sent at once, and retained messages
//! for a new subscription.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_machines::topic::Message;

/// One message that waits.
#[derive(Clone, Debug)]
pub(crate) struct QueuedMessage {
    pub message: Arc<Message>,
    pub qos: u8,
    pub retain: bool,
    pub subscription_ids: Box<[u32]>,
}

impl QueuedMessage {
    fn bytes(&self) -> usize {
        QueuedMessage::bytes_of(&self.message)
    }

    /// What a message is counted for while it waits.
    pub fn bytes_of(message: &Message) -> usize {
        message.topic().len() + message.payload().len() + size_of::<QueuedMessage>()
    }
}

/// Two queues: `live` is bounded by policy; `retained` by the number of retained messages, whose bodies are shared.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    live: VecDeque<QueuedMessage>,
    live_bytes: usize,
    /// Its client has no user.
    pub is_anonymous: bool,
    retained: VecDeque<QueuedMessage>,
}

impl Backlog {
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.retained.is_empty()
    }

    /// How many wait, without those that are retained.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Their bytes.
    pub fn bytes(&self) -> usize {
        self.live_bytes
    }

    /// Whether it has room for one more of such a size.
    pub fn has_room(&self, message: &Message, messages_max: u32, bytes_max: usize) -> bool {
        let bytes = QueuedMessage::bytes_of(message);
        self.live.len() < messages_max as usize && self.live_bytes + bytes <= bytes_max
    }

    pub fn push(&mut self, queued: QueuedMessage) {
        assert!(queued.qos > 0 && queued.qos <= 2, "what is sent at once or dropped does not wait");
        self.live_bytes += queued.bytes();
        self.live.push_back(queued);
    }

    pub fn push_retained(&mut self, queued: QueuedMessage) {
        assert!(queued.retain && queued.qos <= 2, "a retained message says that it is one");
        self.retained.push_back(queued);
    }

    pub fn retained_len(&self) -> usize {
        self.retained.len()
    }

    /// The message that is to be sent next: retained ones first, because they are older.
    pub fn front(&self) -> Option<&QueuedMessage> {
        self.retained.front().or_else(|| self.live.front())
    }

    pub fn pop(&mut self) -> Option<QueuedMessage> {
        if let Some(queued) = self.retained.pop_front() {
            return Some(queued);
        }
        self.drop_oldest()
    }

    /// Gives up the oldest live message.
    pub fn drop_oldest(&mut self) -> Option<QueuedMessage> {
        let queued = self.live.pop_front()?;
        assert!(queued.bytes() <= self.live_bytes, "what leaves was counted when it came");
        self.live_bytes -= queued.bytes();
        assert!(!self.live.is_empty() || self.live_bytes == 0, "nothing has no bytes");
        Some(queued)
    }

    /// Panics if the bytes are not those of the messages. Visits everything: for tests and simulation.
    pub fn assert_sound(&self) {
        let bytes: usize = self.live.iter().map(QueuedMessage::bytes).sum();
        assert_eq!(bytes, self.live_bytes, "bytes of messages that wait");
        assert!(self.live.iter().all(|queued| queued.qos > 0), "QoS 0 does not wait");
        assert!(self.retained.iter().all(|queued| queued.retain), "a retained message says that it is one");
    }
}
