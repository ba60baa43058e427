//! The journal: ordered opaque records per shard, group-committed, tamper-evident. It is the only truth.
//!
//! ```text
//!   records ─▶ GroupBuilder ─submit─▶ companion thread: checksum, chain hash, write, fdatasync ─▶ poll_durable
//!                                                                     │
//!   read_record / read_from ◀──────────── segment files ◀─────────────┘
//! ```
//!
//! The layers, from the bytes up: [`disk`] (files, real or faked), [`group`] and [`segment`] (formats), `writer` and
//! [`recovery`] (one log's tail), [`reader`] (everything behind the tail), [`LocalLog`] and [`StepLog`] (the
//! [`LogStore`]s: with a companion thread, or stepped by a simulator), [`directory`] (who may use which files).
//!
//! Invariant: nothing here knows what a record means.

mod aftermath;
pub mod builder;
pub mod cursor;
pub mod directory;
pub mod disk;
pub mod error;
pub mod facts;
mod folder;
pub mod forget;
pub mod group;
mod groups;
mod in_flight;
pub mod limits;
pub mod local;
pub mod options;
pub mod reader;
pub mod recovery;
mod scan;
pub mod segment;
pub mod step;
pub mod store;
mod writer;

use std::fmt;

pub use builder::{GroupBuilder, NoRoom};
pub use cursor::{ChainHash, Cursor};
pub use error::{JournalError, NotReady};
pub use facts::BatchFacts;
pub use groups::{Group, GroupReader, Records};
pub use local::LocalLog;
pub use options::{LogId, LogKind, Options};
pub use reader::Reader;
pub use recovery::RecoveryReport;
pub use step::StepLog;
pub use store::LogStore;

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
