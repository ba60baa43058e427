//! The way of a shard's records into its log: appended to the group that fills, which goes to the log as soon as that is ready.
//!
//! ```text
//!   append ─▶ │ filling group │ ─submit, when the log is ready─▶ syncing … ─▶ durable up to n
//!             └ the next one is begun at once
//! ```
//!
//! Why both kinds of shard use this and nothing else: when a group is submitted, and what a full disk means, is decided once.

use std::cell::OnceCell;

use tidegate_journal::{
    Durability, GroupBuilder, JournalError, LogReader, LogStore, NoRoom, NotReady, Position, Sequence,
};

use crate::planted::{Bug, is_planted};

/// A log and the group that is being filled for it.
pub(crate) struct LogWriter<L: LogStore> {
    log: L,
    group: GroupBuilder,
    appended: Sequence,
    groups: u64,
    /// As of the last poll.
    durable: Durability,
    /// For what is not in memory any more; opened when first needed.
    reader: OnceCell<L::Reader>,
}

impl<L: LogStore> LogWriter<L> {
    /// A writer that goes on at the end of `log`.
    pub fn new(mut log: L) -> LogWriter<L> {
        let appended = log.last_sequence();
        let group = log.begin_group();
        let durable = log.poll_durable().expect("a log that was just opened has not failed");
        LogWriter { log, group, appended, groups: 0, durable, reader: OnceCell::new() }
    }

    /// Whether a record of up to `bytes` may be appended now. An empty group may start only with room on the disk for all of it.
    pub fn may_append(&self, bytes: usize) -> bool {
        if self.group.is_empty() {
            return !matches!(self.log.ready(), Err(NotReady::DiskFull | NotReady::Failed(_)));
        }
        self.group.has_room(bytes)
    }

    /// Appends a record; the caller has asked [`LogWriter::may_append`].
    #[inline]
    pub fn append(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Position {
        let position = self.group.append(encode);
        self.appended = Sequence(self.appended.0 + 1);
        position
    }

    /// Appends a record whose size only `encode` knows, if it fits; returns its sequence. The caller has asked
    /// [`LogWriter::may_append`] for at least a byte.
    #[inline]
    pub fn try_append(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<Sequence, NoRoom> {
        self.group.try_append(encode)?;
        self.appended = Sequence(self.appended.0 + 1);
        Ok(self.appended)
    }

    /// Submits the filling group when the log takes one; the next one starts to fill. Returns whether it did.
    pub fn submit(&mut self) -> Result<bool, JournalError> {
        if self.group.is_empty() {
            return Ok(false);
        }
        match self.log.ready() {
            Ok(()) => {}
            Err(NotReady::Failed(error)) => return Err(error),
            Err(NotReady::Busy | NotReady::DiskFull) => return Ok(false),
        }
        let full = std::mem::take(&mut self.group);
        self.log.submit(full)?;
        self.group = self.log.begin_group();
        self.groups += 1;
        Ok(true)
    }

    /// Sequence up to which everything is durable: what a [`crate::commit::CommitQueue`] may advance to.
    pub fn poll_durable(&mut self) -> Result<Sequence, JournalError> {
        self.durable = self.log.poll_durable()?;
        Ok(if is_planted(Bug::ReplyBeforeSync) { self.log.last_sequence() } else { self.durable.sequence() })
    }

    /// Up to where the log was durable when it was last polled.
    pub fn durable(&self) -> Durability {
        self.durable
    }

    /// Replaces `into` with a record that was submitted: from memory, or else from the disk.
    pub fn read_record(&self, at: Position, into: &mut Vec<u8>) -> Result<(), JournalError> {
        if let Some(record) = self.group.record_at(at).or_else(|| self.log.peek(at)) {
            into.clear();
            into.extend_from_slice(record);
            return Ok(());
        }
        if self.reader.get().is_none() {
            let _ = self.reader.set(self.log.reader()?);
        }
        self.reader.get().expect("set above").read(at, into)
    }

    /// Sequence of the last record appended.
    #[inline]
    pub fn appended(&self) -> Sequence {
        self.appended
    }

    /// The group that fills.
    #[inline]
    pub fn group(&self) -> &GroupBuilder {
        &self.group
    }

    /// The log.
    #[inline]
    pub fn log(&self) -> &L {
        &self.log
    }

    /// The log, to poll it; a simulator steps it.
    pub fn log_mut(&mut self) -> &mut L {
        &mut self.log
    }

    /// Groups submitted.
    pub fn groups(&self) -> u64 {
        self.groups
    }

    /// Gives the log back, to close it.
    pub fn into_log(self) -> L {
        self.log
    }
}
