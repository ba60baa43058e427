//! The journal: ordered opaque records per shard, group-committed, tamper-evident. It is the only truth.
//!
//! ```text
//!   records ─▶ GroupBuilder ─submit─▶ companion thread: checksum, chain hash, write, fdatasync ─▶ poll_durable
//!                                                                     │
//!   read_record / read_from ◀──────────── segment files ◀─────────────┘
//! ```
//!
//! Invariant: nothing here knows what a record means.

use std::fmt;

/// Where a record (or a group) stands in its shard's journal. Opaque to callers and strictly increasing; never zero for a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// Number of a record in its shard's journal: 1 for the first, without gaps. Zero is "before the first".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
