//! Frames that wait to be written. No I/O.

/// Collects frames, and remembers how far the socket has taken them.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// An empty outbox.
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// Where the encoders of [`tidegate_wire`] append whole frames; nothing else may be done to it.
    pub fn frames(&mut self) -> &mut Vec<u8> {
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        }
        &mut self.bytes
    }

    /// What is still to be written.
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// The socket took `count` bytes of [`Outbox::unsent`].
    ///
    /// # Panics
    /// When there were fewer.
    pub fn sent(&mut self, count: usize) {
        assert!(count <= self.unsent().len(), "{count} bytes were written of fewer");
        self.sent += count;
    }

    /// Whether all is written.
    pub fn is_empty(&self) -> bool {
        self.unsent().is_empty()
    }
}
