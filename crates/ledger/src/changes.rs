//! The ledger's changes in the order of its journals, for readers that keep a cursor: nothing is lost, nothing doubled.
//!
//! ```text
//!   worker ─advance─▶ DurableMark ─┐ wake
//!   segments ─▶ LogReader::groups ─┴▶ ChangeReader ─▶ Step ─▶ rows, each with the cursor behind it
//!                                       ▲     └─▶ Step::Names ─▶ the shard is asked what slots are called
//!                                       └──────────────┘
//! ```
//!
//! Promise: only durable records are read, so no crash takes back what a reader has seen. A cursor names, for each
//! shard, the end of a record and the chain hash before it; a journal that was restored and went on differently has
//! another chain there, and says so instead of giving other rows.
//!
//! Why not from the shards: durable groups never change, so whoever knows where they end needs no worker. A worker only
//! names accounts whose opening the reader has not seen.
//!
//! Invariant: no thread and no clock here. [`ChangeReader::step`] may wait for the disk; its caller has a thread for
//! that.

mod at_hand;
mod change;
mod cursor;
mod logs;
mod names;
mod own_log;
mod reader;
mod row;
mod shard_reader;

pub use change::{Change, ChangeKind, ChangedAccount, ChangedSettings};
pub use cursor::ChangeCursor;
pub use logs::{ChangeLog, ChangeLogs, SeenEnd};
pub use reader::{After, ChangeFilter, ChangeReader, Interest, Step};

use tidegate_journal::JournalError;

/// Why changes cannot be read on.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ChangesError {
    /// Not a cursor that this server's directory gave.
    #[error("the cursor is not one that this server gave; begin without one, or with the last one that was received")]
    CursorInvalid,
    /// A cursor of a history that this journal does not have: beyond its end, or of another timeline.
    #[error(
        "shard {shard}: the cursor is of another history: {what}. The server was restored from an older copy, or the \
         cursor is another server's; what was read behind the copy may not have happened here. Begin again without a \
         cursor"
    )]
    OtherHistory {
        /// Which shard.
        shard: u16,
        /// What differs, in the journal's words.
        what: String,
    },
    /// The journal cannot be read there.
    #[error("shard {shard}: {cause}")]
    Unreadable {
        /// Which shard.
        shard: u16,
        /// What the journal says.
        cause: JournalError,
    },
    /// The shard said nothing about the account of a record: a bug of ours.
    #[error("shard {shard}: record {sequence} names an account that the shard does not know")]
    Nameless {
        /// Which shard.
        shard: u16,
        /// Which record.
        sequence: u64,
    },
}

#[cfg(test)]
mod tests;
