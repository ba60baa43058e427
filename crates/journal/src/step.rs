//! The same log without a thread: a simulator decides when each write and sync happens, and can crash between any two.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use crate::disk::Disk;
use crate::folder::Folder;
use crate::in_flight::{InFlight, Submitted};
use crate::local::check_against;
use crate::writer::{Claim, Writer};
use crate::{
    Cursor, GroupBuilder, GroupReader, JournalError, LogId, LogStore, NotReady, Options, Position, Reader,
    RecoveryReport, Sequence, recovery,
};

/// One shard's journal, stepped by its owner. Dropping it does nothing to the disk, as a crash does nothing.
pub struct StepLog<D: Disk> {
    writer: Writer<D>,
    in_flight: InFlight,
    /// Submitted and not yet written.
    waiting: VecDeque<Arc<Submitted>>,
    reader: Reader<D>,
    recovered: Cursor,
    disk_full: bool,
    failure: Option<JournalError>,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing was to do, or the disk is full.
    Idle,
    /// Wrote the groups that waited; they are not durable yet.
    Wrote,
    /// Made everything written durable.
    Synced,
    /// Claimed room on disk, or wrote zeros into it.
    Claimed,
    /// Marked the end of the log, as the companion thread does when it is idle. From now on a flipped bit in the last group
    /// is seen as damage; before, it looks like a torn tail.
    Marked,
}

impl<D: Disk> StepLog<D> {
    /// Opens (or begins) the log in the data directory `data` and cuts a torn tail.
    pub fn open(disk: D, data: &Path, log: LogId, options: Options) -> Result<(Self, RecoveryReport), JournalError> {
        StepLog::open_since(disk, data, log, options, Cursor::START)
    }

    /// The same for a log of which nothing before `since`, the cursor of a snapshot, need be there.
    pub fn open_since(
        disk: D,
        data: &Path,
        log: LogId,
        options: Options,
        since: Cursor,
    ) -> Result<(Self, RecoveryReport), JournalError> {
        let (writer, report) = recovery::open(disk.clone(), data, log, options, since)?;
        let reader = Reader::of(Folder::new(disk, data, log))?;
        let in_flight = InFlight::new(report.end, options.group_bytes_max, log.kind.recent_bytes_max());
        let (waiting, recovered) = (VecDeque::new(), report.end);
        let mut log = StepLog { writer, in_flight, waiting, reader, recovered, disk_full: false, failure: None };
        while log.claim_room()? == Claim::Claimed {}
        Ok((log, report))
    }

    /// Performs one pending unit of work: first a sync, then a write, then room, then the mark of the tail.
    pub fn step(&mut self) -> Result<Step, JournalError> {
        self.check()?;
        let done = self.next_step();
        if let Err(error) = &done {
            self.failure = Some(error.clone());
        }
        done
    }

    /// Position up to which the disk can prove what was durable: damage before it is always told from a torn tail.
    pub fn proven_up_to(&self) -> Position {
        self.writer.proven_up_to()
    }

    /// Another reader of this log.
    pub fn reader(&self) -> Result<Reader<D>, JournalError> {
        self.reader.another()
    }

    /// Finishes everything and marks the tail, as a graceful stop does.
    pub fn close(mut self) -> Result<Sequence, JournalError> {
        while self.writer.has_unsynced() || !self.waiting.is_empty() || !self.writer.is_marked() {
            self.step()?;
        }
        self.poll_durable()
    }

    fn next_step(&mut self) -> Result<Step, JournalError> {
        if self.writer.has_unsynced() {
            self.writer.sync()?;
            return Ok(Step::Synced);
        }
        if !self.waiting.is_empty() {
            for group in self.waiting.drain(..) {
                self.writer.write(&group)?;
            }
            self.writer.flush()?;
            return Ok(Step::Wrote);
        }
        if self.claim_room()? == Claim::Claimed {
            return Ok(Step::Claimed);
        }
        if self.writer.zero_ahead()? {
            return Ok(Step::Claimed);
        }
        if !self.writer.is_marked() {
            self.writer.mark_tail()?;
            return Ok(Step::Marked);
        }
        Ok(Step::Idle)
    }

    fn claim_room(&mut self) -> Result<Claim, JournalError> {
        let claim = self.writer.claim_room()?;
        self.disk_full = claim == Claim::DiskFull;
        Ok(claim)
    }

    fn check(&self) -> Result<(), JournalError> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

impl<D: Disk> LogStore for StepLog<D> {
    fn begin_group(&mut self) -> GroupBuilder {
        self.in_flight.begin()
    }

    fn ready(&self) -> Result<(), NotReady> {
        self.check()?;
        self.in_flight.ready(self.writer.room_up_to(), self.disk_full)
    }

    fn submit(&mut self, group: GroupBuilder) -> Result<(), JournalError> {
        self.check()?;
        self.waiting.extend(self.in_flight.submit(group, None));
        Ok(())
    }

    fn poll_durable(&mut self) -> Result<Sequence, JournalError> {
        self.check()?;
        let durable = self.writer.synced().sequence;
        self.in_flight.settle(durable);
        Ok(durable)
    }

    fn has_news(&self) -> bool {
        self.check().is_err() || self.in_flight.would_settle(self.writer.synced().sequence)
    }

    fn durable_position(&self) -> Position {
        self.in_flight.durable()
    }

    fn last_sequence(&self) -> Sequence {
        self.in_flight.last_sequence()
    }

    fn read_record(&self, at: Position, into: &mut Vec<u8>) -> Result<(), JournalError> {
        if self.in_flight.read_record(at, into) { Ok(()) } else { self.reader.read_record(at, into) }
    }

    fn read_from(&self, at: Cursor) -> Result<GroupReader, JournalError> {
        check_against(&at, &self.recovered)?;
        self.reader.read_from(at, self.in_flight.durable())
    }
}

#[cfg(test)]
mod tests;
