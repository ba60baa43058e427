//! What a shard asks of its journal, whatever it is made of: local files today, JetStream later.
//!
//! Completion-based: `submit` hands a group over and returns, `poll_durable` says how far the log is safe. Why: a local
//! sync and a remote acknowledgement then look alike, and the shard's thread never waits for either.

use crate::{Cursor, GroupBuilder, GroupReader, JournalError, NotReady, Position, Sequence};

/// One shard's journal. Used by one thread, which must never be blocked by it.
pub trait LogStore {
    /// An empty group that stands where the next submitted group will stand. One is filled at a time.
    fn begin_group(&mut self) -> GroupBuilder;

    /// Whether a group of the largest size may be submitted now.
    fn ready(&self) -> Result<(), NotReady>;

    /// Hands a group over to be made durable. Never blocks. An empty group is a no-op.
    ///
    /// The caller has asked [`LogStore::ready`] since the last submit; a group that was not begun at the end of the log is a
    /// bug and panics. `Err` is the failure of the whole log: nothing of this group will ever be acknowledged.
    fn submit(&mut self, group: GroupBuilder) -> Result<(), JournalError>;

    /// Sequence up to which everything is durable. `Err`: the log has failed for good in this process.
    fn poll_durable(&mut self) -> Result<Sequence, JournalError>;

    /// Whether [`LogStore::poll_durable`] would now say more than last time. A caller asks once more after it announced sleep:
    /// whoever reports completions wakes only those that have announced it.
    fn has_news(&self) -> bool;

    /// Where the durable part ends, as of the last [`LogStore::poll_durable`]; an auditor may read up to here.
    fn durable_position(&self) -> Position;

    /// Sequence of the last record submitted.
    fn last_sequence(&self) -> Sequence;

    /// Replaces `into` with the record at `at`, durable or in flight, after checking its checksum.
    fn read_record(&self, at: Position, into: &mut Vec<u8>) -> Result<(), JournalError>;

    /// Iterates over the groups from `at` to what is durable now, verifying checksums and the chain.
    fn read_from(&self, at: Cursor) -> Result<GroupReader, JournalError>;
}
