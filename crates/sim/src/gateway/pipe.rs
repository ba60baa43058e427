//! A simulated socket: bytes in both directions, in pieces, late, or cut off.

use std::collections::VecDeque;

/// One direction.
#[derive(Debug, Default)]
pub struct Pipe {
    bytes: VecDeque<u8>,
}

impl Pipe {
    /// Puts in as much of `bytes` as fits below `room`; returns how many bytes that were.
    pub fn write(&mut self, bytes: &[u8], room: usize) -> usize {
        let count = bytes.len().min(room.saturating_sub(self.bytes.len()));
        self.bytes.extend(&bytes[..count]);
        count
    }

    /// Takes out at most `count` bytes.
    pub fn read(&mut self, count: usize) -> Vec<u8> {
        let count = count.min(self.bytes.len());
        self.bytes.drain(..count).collect()
    }

    /// Whether nothing is on the way.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Both directions of a connection between a client and a worker.
#[derive(Debug, Default)]
pub struct Socket {
    /// From the client.
    pub up: Pipe,
    /// To the client.
    pub down: Pipe,
    /// The client reads nothing until this tick.
    pub stalled_until: u64,
    /// The server has closed its side: what is in `down` can still be read.
    pub closed_by_server: bool,
}
