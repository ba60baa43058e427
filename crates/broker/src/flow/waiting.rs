//! Messages that wait in memory for one client: what a clean session could not be sent at once, and retained messages for a new
//! subscription.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_machines::topic::Message;

/// One message that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub message: Arc<Message>,
    pub qos: u8,
    pub retain: bool,
    pub subscription_ids: Box<[u32]>,
}

impl Waiter {
    fn bytes(&self) -> usize {
        self.message.topic().len() + self.message.payload().len() + size_of::<Waiter>()
    }
}

/// Two queues: `live` is bounded by policy; `retained` by the number of retained messages, whose bodies are shared.
#[derive(Debug, Default)]
pub(crate) struct WaitingRoom {
    live: VecDeque<Waiter>,
    live_bytes: usize,
    retained: VecDeque<Waiter>,
}

impl WaitingRoom {
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.retained.is_empty()
    }

    /// Whether it has room for one more of such a size.
    pub fn has_room(&self, message: &Message, messages_max: u32, bytes_max: usize) -> bool {
        let bytes = message.topic().len() + message.payload().len() + size_of::<Waiter>();
        self.live.len() < messages_max as usize && self.live_bytes + bytes <= bytes_max
    }

    pub fn push(&mut self, waiter: Waiter) {
        self.live_bytes += waiter.bytes();
        self.live.push_back(waiter);
    }

    pub fn push_retained(&mut self, waiter: Waiter) {
        self.retained.push_back(waiter);
    }

    pub fn retained_len(&self) -> usize {
        self.retained.len()
    }

    /// The message that is to be sent next: retained ones first, because they are older.
    pub fn front(&self) -> Option<&Waiter> {
        self.retained.front().or_else(|| self.live.front())
    }

    pub fn pop(&mut self) -> Option<Waiter> {
        if let Some(waiter) = self.retained.pop_front() {
            return Some(waiter);
        }
        self.drop_oldest()
    }

    /// Gives up the oldest live message.
    pub fn drop_oldest(&mut self) -> Option<Waiter> {
        let waiter = self.live.pop_front()?;
        self.live_bytes -= waiter.bytes();
        Some(waiter)
    }
}
