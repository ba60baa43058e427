//! Bytes that a client sends as its socket takes them.

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};

/// What is to be sent, and how much of it the socket has taken.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// Where bytes go that the next flush sends.
    #[inline]
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Bytes that the socket has not taken.
    #[inline]
    pub fn unsent_bytes(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Writes what the socket takes; the rest goes when it says that it is writable again.
    pub fn flush(&mut self, socket: &mut impl Write) -> Result<()> {
        while self.unsent_bytes() > 0 {
            match socket.write(&self.bytes[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("could not send"),
            }
        }
        self.bytes.clear();
        self.sent = 0;
        Ok(())
    }
}
