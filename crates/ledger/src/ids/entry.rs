//! The entries of tables and runs.

use tidegate_journal::Position;

use super::IdHash;

/// A record's position under the hash of its id; ordered by hash, then position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) hash: IdHash,
    pub(super) position: Position,
}

impl Entry {
    /// Bytes of an entry on disk.
    pub(super) const BYTES: usize = 16;

    pub(super) fn encode(self, into: &mut [u8]) {
        into[..8].copy_from_slice(&self.hash.0.to_le_bytes());
        into[8..Entry::BYTES].copy_from_slice(&self.position.0.to_le_bytes());
    }

    pub(super) fn decode(from: &[u8]) -> Entry {
        let word = |at: usize| u64::from_le_bytes(from[at..at + 8].try_into().expect("eight bytes"));
        Entry { hash: IdHash(word(0)), position: Position(word(8)) }
    }
}
