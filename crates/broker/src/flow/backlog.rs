//! Messages that are kept in memory for one client: what a clean session could not be sent at once, retained messages
//! for a new subscription, and what came by share groups until it is acknowledged, so that others can get it.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_machines::topic::Message;

use crate::share::{GroupName, OfGroup};

/// One message that waits.
#[derive(Clone, Debug)]
pub(crate) struct QueuedMessage {
    pub message: Arc<Message>,
    pub qos: u8,
    pub retain: bool,
    pub subscription_ids: Box<[u32]>,
    pub of_group: Option<OfGroup>,
}

/// A message that came by a share group.
#[derive(Clone, Debug)]
pub(crate) struct GroupMessage {
    pub message: Arc<Message>,
    pub of_group: OfGroup,
}

impl GroupMessage {
    /// What it is counted for.
    pub fn bytes(&self) -> usize {
        QueuedMessage::bytes_of(&self.message)
    }
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

/// Three queues: `live` and `unacknowledged` are bounded by policy, each for itself; `retained` by the number of
/// retained messages, whose bodies are shared.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    live: VecDeque<QueuedMessage>,
    live_bytes: usize,
    /// Its client has no user.
    pub is_anonymous: bool,
    retained: VecDeque<QueuedMessage>,
    /// What was sent with QoS 1, by number. It does not wait.
    unacknowledged: VecDeque<(u64, GroupMessage)>,
    unacknowledged_bytes: usize,
}

impl Backlog {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.retained.is_empty()
    }

    /// How many wait, without those that are retained.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Their bytes, and those of what is not acknowledged.
    pub fn bytes(&self) -> usize {
        self.live_bytes + self.unacknowledged_bytes
    }

    /// Whether one more message of such a size may be kept until it is acknowledged.
    pub fn may_keep(&self, message: &Message, messages_max: u32, bytes_max: usize) -> bool {
        let bytes = QueuedMessage::bytes_of(message);
        self.unacknowledged.len() < messages_max as usize && self.unacknowledged_bytes + bytes <= bytes_max
    }

    /// Keeps what was sent under a number above all before.
    pub fn keep(&mut self, number: u64, sent: GroupMessage) {
        assert!(self.unacknowledged.back().is_none_or(|(last, _)| *last < number), "what is sent later comes behind");
        self.unacknowledged_bytes += sent.bytes();
        self.unacknowledged.push_back((number, sent));
    }

    /// The client has what was sent under this number. Whether it was kept.
    pub fn acknowledged(&mut self, number: u64) -> bool {
        let Ok(at) = self.unacknowledged.binary_search_by_key(&number, |(number, _)| *number) else { return false };
        let (_, sent) = self.unacknowledged.remove(at).expect("it was found there");
        self.unacknowledged_bytes -= sent.bytes();
        true
    }

    /// Whether something came by one of these share groups. And how many messages were looked at for that.
    pub fn has_of_groups(&self, mut is_of: impl FnMut(GroupName) -> bool) -> (bool, usize) {
        let sent = self.unacknowledged.iter().map(|(_, sent)| Some(sent.of_group));
        let mut all = sent.chain(self.live.iter().map(|queued| queued.of_group));
        let (mut looks, mut is_asked) = (0, |of: Option<OfGroup>| of.is_some_and(|of| is_of(of.group)));
        let has_one = all.any(|of| {
            looks += 1;
            is_asked(of)
        });
        (has_one, looks)
    }

    /// Takes out what came by some share groups and is not acknowledged, the oldest first: what was sent, and what
    /// waits.
    pub fn take_of_groups(&mut self, mut is_of: impl FnMut(GroupName) -> bool) -> Vec<GroupMessage> {
        let (taken, kept): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.unacknowledged).into_iter().partition(|(_, sent)| is_of(sent.of_group.group));
        self.unacknowledged = kept;
        let mut all: Vec<GroupMessage> = taken.into_iter().map(|(_, sent)| sent).collect();
        self.unacknowledged_bytes -= all.iter().map(GroupMessage::bytes).sum::<usize>();
        all.extend(self.take_waiting_of_groups(is_of));
        all
    }

    /// The same of what waits alone.
    pub fn take_waiting_of_groups(&mut self, mut is_of: impl FnMut(GroupName) -> bool) -> Vec<GroupMessage> {
        let is_asked = |queued: &QueuedMessage| queued.of_group.is_some_and(|of| is_of(of.group));
        let (taken, kept): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.live).into_iter().partition(is_asked);
        self.live = kept;
        self.live_bytes -= taken.iter().map(QueuedMessage::bytes).sum::<usize>();
        let of_group =
            |QueuedMessage { message, of_group, .. }| of_group.map(|of_group| GroupMessage { message, of_group });
        taken.into_iter().filter_map(of_group).collect()
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
        let bytes: usize = self.unacknowledged.iter().map(|(_, sent)| sent.bytes()).sum();
        assert_eq!(bytes, self.unacknowledged_bytes, "bytes of messages that are not acknowledged");
        assert!(self.unacknowledged.iter().is_sorted_by_key(|(number, _)| *number), "they stand in their order");
        assert!(self.live.iter().all(|queued| queued.qos > 0), "QoS 0 does not wait");
        assert!(self.retained.iter().all(|queued| queued.retain), "a retained message says that it is one");
    }
}
