//! The outboxes of all clients that have something to be sent, and how many bytes wait in them.
//!
//! Promise: a reader that takes nothing counts as stuck after a while, not as pressure, so it slows no publisher.

use tidegate_machines::TimeMs;

use crate::index::OutboxIndex;
use crate::limits::{FLOWING_MS, POOLED_BUFFER_BYTES_MAX, POOLED_BUFFERS_MAX};
use crate::outbox::Outbox;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Outboxes {
    all: Vec<Outbox>,
    free: Vec<OutboxIndex>,
    /// Bytes in all outboxes.
    unsent_bytes: u64,
    /// Those of clients without a user.
    anonymous_bytes: u64,
    /// Bytes in outboxes that made no progress, at the last look.
    stuck_bytes: u64,
    looked_at: TimeMs,
}

impl Outboxes {
    /// An empty one.
    pub fn take(&mut self, now: TimeMs) -> OutboxIndex {
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push(Outbox::default());
            OutboxIndex::new((self.all.len() - 1) as u32)
        });
        let outbox = &mut self.all[index.number() as usize];
        assert!(outbox.len() == 0, "a free outbox is empty");
        outbox.progress_at = now;
        index
    }

    /// Gives one back, with what is in it.
    pub fn give(&mut self, index: OutboxIndex, is_anonymous: bool) {
        let outbox = &mut self.all[index.number() as usize];
        let bytes = outbox.len() as u64;
        outbox.reset(if self.free.len() < POOLED_BUFFERS_MAX { POOLED_BUFFER_BYTES_MAX } else { 0 });
        self.leave(bytes, is_anonymous);
        assert!(self.free.len() < self.all.len(), "an outbox is given back once");
        self.free.push(index);
    }

    /// Lets `write` append to one. Returns how many bytes that were.
    #[inline]
    pub fn append(&mut self, index: OutboxIndex, is_anonymous: bool, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let bytes = self.all[index.number() as usize].bytes();
        let before = bytes.len();
        write(bytes);
        assert!(bytes.len() >= before, "what is written comes behind what was");
        let added = bytes.len() - before;
        self.unsent_bytes += added as u64;
        self.anonymous_bytes += if is_anonymous { added as u64 } else { 0 };
        added
    }

    /// The socket took so many bytes. Whether that were all.
    pub fn sent(&mut self, index: OutboxIndex, count: usize, is_anonymous: bool, now: TimeMs) -> bool {
        let outbox = &mut self.all[index.number() as usize];
        outbox.sent(count, now);
        let is_empty = outbox.len() == 0;
        self.leave(count as u64, is_anonymous);
        is_empty
    }

    fn leave(&mut self, bytes: u64, is_anonymous: bool) {
        assert!(bytes <= self.unsent_bytes, "what leaves was counted when it was written");
        self.unsent_bytes -= bytes;
        self.anonymous_bytes -= if is_anonymous { bytes } else { 0 };
    }

    #[inline]
    pub fn get(&self, index: OutboxIndex) -> &Outbox {
        &self.all[index.number() as usize]
    }

    /// Whether its client takes nothing of what it is sent, by the last look.
    pub fn is_stuck(&self, index: OutboxIndex) -> bool {
        self.looked_at.0.saturating_sub(self.get(index).progress_at.0) > FLOWING_MS
    }

    /// Bytes that wait for all clients.
    #[inline]
    pub fn unsent_bytes(&self) -> u64 {
        self.unsent_bytes
    }

    /// Bytes that wait for clients without a user.
    pub fn anonymous_bytes(&self) -> u64 {
        self.anonymous_bytes
    }

    /// Bytes in outboxes that flow.
    pub fn pressure_bytes(&mut self, now: TimeMs) -> u64 {
        if now.0.saturating_sub(self.looked_at.0) >= FLOWING_MS / 4 {
            self.looked_at = now;
            let stuck = |outbox: &&Outbox| now.0.saturating_sub(outbox.progress_at.0) > FLOWING_MS;
            self.stuck_bytes = self.all.iter().filter(stuck).map(|outbox| outbox.len() as u64).sum();
        }
        self.flowing_bytes()
    }

    /// The same as of the last look, and what was written since.
    #[inline]
    pub fn flowing_bytes(&self) -> u64 {
        self.unsent_bytes.saturating_sub(self.stuck_bytes)
    }

    /// Panics if so many are not used, or so many bytes do not wait for clients without a user. Visits everything: for
    /// tests and simulation.
    pub fn assert_sound(&self, used: usize, anonymous_bytes: u64) {
        assert_eq!(used + self.free.len(), self.all.len(), "an outbox is used or free");
        let unsent: usize = self.all.iter().map(Outbox::len).sum();
        assert_eq!(unsent as u64, self.unsent_bytes, "bytes in all outboxes");
        assert_eq!(anonymous_bytes, self.anonymous_bytes, "bytes for clients without a user");
        assert!(self.free.iter().all(|free| self.get(*free).len() == 0), "a free outbox is empty");
    }
}
