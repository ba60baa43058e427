//! The log of one shard on local files, with a companion thread.

use std::path::Path;
use std::sync::Arc;

use crate::disk::Disk;
use crate::{
    BatchFacts, Cursor, GroupBuilder, GroupReader, JournalError, LogId, LogStore, NotReady, Options, Position,
    RecoveryReport, Sequence,
};

/// Called from the companion thread whenever there is something new to poll. Must be quick and must not block.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// One shard's journal on local files.
pub struct LocalLog<D: Disk> {
    disk: D,
}

impl<D: Disk> LocalLog<D> {
    /// Opens (or begins) the log in the data directory `data`, cuts a torn tail and starts the companion thread.
    pub fn open(
        disk: D,
        data: &Path,
        log: LogId,
        options: Options,
        wake: Wake,
    ) -> Result<(Self, RecoveryReport), JournalError> {
        let _ = (disk, data, log, options, wake);
        todo!()
    }

    /// Hands the facts of all batches since the last call to `each`.
    pub fn drain_facts(&mut self, each: impl FnMut(BatchFacts)) {
        let _ = (each, &self.disk);
        todo!()
    }

    /// Syncs what was submitted, marks the tail and ends the companion thread.
    pub fn close(self) -> Result<Sequence, JournalError> {
        todo!()
    }
}

impl<D: Disk> LogStore for LocalLog<D> {
    fn begin_group(&mut self) -> GroupBuilder {
        todo!()
    }
    fn ready(&self) -> Result<(), NotReady> {
        todo!()
    }
    fn submit(&mut self, _group: GroupBuilder) -> Result<(), JournalError> {
        todo!()
    }
    fn poll_durable(&mut self) -> Result<Sequence, JournalError> {
        todo!()
    }
    fn durable_position(&self) -> Position {
        todo!()
    }
    fn last_sequence(&self) -> Sequence {
        todo!()
    }
    fn read_record(&self, _at: Position, _into: &mut Vec<u8>) -> Result<(), JournalError> {
        todo!()
    }
    fn read_from(&self, _at: Cursor) -> Result<GroupReader, JournalError> {
        todo!()
    }
}
