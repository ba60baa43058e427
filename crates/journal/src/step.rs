//! The same log without a thread: a simulator decides when each write and sync happens.

use std::path::Path;

use crate::disk::Disk;
use crate::{
    Cursor, GroupBuilder, GroupReader, JournalError, LogId, LogStore, NotReady, Options, Position, RecoveryReport,
    Sequence,
};

/// One shard's journal, stepped by its owner.
pub struct StepLog<D: Disk> {
    disk: D,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing to do.
    Idle,
    /// Wrote the groups that waited.
    Wrote,
    /// Made everything written durable.
    Synced,
    /// Claimed room on disk.
    Allocated,
}

impl<D: Disk> StepLog<D> {
    /// Opens (or begins) the log in the data directory `data` and cuts a torn tail.
    pub fn open(disk: D, data: &Path, log: LogId, options: Options) -> Result<(Self, RecoveryReport), JournalError> {
        let _ = (disk, data, log, options);
        todo!()
    }

    /// Performs one pending unit of work.
    pub fn step(&mut self) -> Result<Step, JournalError> {
        let _ = &self.disk;
        todo!()
    }
}

impl<D: Disk> LogStore for StepLog<D> {
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
