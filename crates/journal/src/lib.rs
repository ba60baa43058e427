//! The journal: ordered opaque records per shard, group-committed, tamper-evident. It is the only truth.
//!
//! ```text
//!   records ─▶ GroupBuilder ─submit─▶ companion thread: checksum, chain hash, write, fdatasync ─▶ poll_durable
//!                                                                     │
//!   LogReader: read, groups ◀──────────── segment files ◀─────────────┘
//!                             or  ◀────── messages of a replicated stream
//! ```
//!
//! The layers, from the bytes up: [`group`] and [`segment`] (formats), `writer` and `recovery` (one log's tail),
//! `reader` (everything behind the tail), [`LocalLogs`] and [`StepLogs`] (the [`LogStore`]s: with a companion thread,
//! or stepped by a simulator), [`stream`] (a third one, in a replicated stream), [`directory`] (who may use which
//! files). Whoever uses logs knows [`Logs`], [`LogStore`] and [`LogReader`] only.
//!
//! Invariant: nothing here knows what a record means.

mod aftermath;
mod anew;
pub mod archive;
mod builder;
mod copy;
mod cursor;
mod damage;
pub mod directory;
mod durability;
mod durable_mark;
mod error;
mod facts;
mod family;
mod folder;
mod forget;
pub mod group;
mod groups;
mod image;
mod in_flight;
pub mod key;
pub mod limits;
mod local;
mod mend;
pub mod notice;
mod options;
mod prefetch;
mod reader;
pub mod recorded_end;
mod recovery;
mod scan;
mod scrub;
mod seal_check;
pub mod segment;
mod segment_groups;
pub mod step;
mod store;
pub mod stream;
mod testimony;
mod verify_ahead;
mod walk;
pub mod witness;
mod writer;

use std::fmt;

pub use builder::{GroupBuilder, NoRoom};
pub use copy::{LogFiles, Tail};
pub use cursor::{ChainHash, Cursor};
pub use durability::Durability;
pub use durable_mark::{DurableListeners, DurableMark};
pub use error::{JournalError, NotReady};
pub use facts::BatchFacts;
pub use family::{Family, LogId, Retention};
pub use forget::Forgotten;
pub use groups::{Group, GroupReader, Records};
pub use key::Key;
pub use local::{DiskRoom, DurableEnd, LocalLog, LocalLogs};
pub use mend::{MendedByte, Mending};
pub use notice::{Lost, Notice, NoticeKind, Timeline, Timelines};
pub use options::Options;
pub use recovery::RecoveryReport;
pub use scrub::Scrubbed;
pub use step::{Step, StepHandle, StepLog, StepLogs};
pub use store::{LogReader, LogStore, Logs, Opened, RecordClass, Wake};
pub use stream::{StreamLog, StreamLogs, StreamOptions, StreamReader};
pub use tidegate_disk as disk;

/// Where a record (or a group) stands in its shard's journal. Opaque to callers and strictly increasing; never zero for
/// a record.
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
