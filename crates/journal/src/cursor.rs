//! A place between two groups from which the journal can be read on, and verified on.

use std::fmt;

use crate::{Position, Sequence};

/// What a group's chain hash proves: this group, and through it every group before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ChainHash(pub [u8; 32]);

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The end of one group and the beginning of the next. A snapshot stores the cursor up to which it has folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Where the next group stands.
    pub position: Position,
    /// Sequence of the last record before this place; zero at the start.
    pub sequence: Sequence,
    /// Chain hash of the group before this place; zeros at the start.
    pub chain: ChainHash,
}

impl Cursor {
    /// Before the first group of any log: position 0, which no record has, because a group begins with its header.
    pub const START: Cursor = Cursor { position: Position(0), sequence: Sequence(0), chain: ChainHash([0; 32]) };
}
