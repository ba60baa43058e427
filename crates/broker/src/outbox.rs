//! Bytes that are to be sent to one client.
//!
//! ```text
//!   packets ─append─▶ │ sent ░░░░░│ unsent █████ │ ─one write─▶ socket
//! ```
//!
//! Why one buffer: many packets are sent with one system call, and a template is copied behind the last packet without
//! an allocation. An outbox exists only while something is unsent: an idle client has none.

use tidegate_machines::TimeMs;

/// One connection's unsent bytes.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    /// When the socket last took something, or the outbox came to be.
    pub progress_at: TimeMs,
}

impl Outbox {
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    pub fn len(&self) -> usize {
        assert!(self.sent <= self.bytes.len(), "what was sent stands before what was not");
        self.bytes.len() - self.sent
    }

    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The socket took `count` bytes. What was sent is cut off when it is the greater half, so each byte moves at most
    /// once more.
    pub fn sent(&mut self, count: usize, now: TimeMs) {
        assert!(count <= self.len(), "more was sent than there was");
        self.sent += count;
        assert!(self.sent <= self.bytes.len(), "what was sent stands before what was not");
        if count > 0 {
            self.progress_at = now;
        }
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Forgets everything; keeps memory for the next one up to `bytes_max`.
    pub fn reset(&mut self, bytes_max: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(bytes_max);
        self.sent = 0;
    }
}
