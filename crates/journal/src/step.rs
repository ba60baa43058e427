//! The same log without a thread: a simulator decides when each write and sync happens, and can crash between any two.
//!
//! ```text
//!   StepLog, owned by the shard: begin_group, submit, poll_durable, peek ─┐
//!                                                                         ├─ Bench: the writer, what waits for it
//!   StepHandle, held by whoever steps: step, proven_up_to ────────────────┘
//! ```
//!
//! Why two halves: a shard owns its log and need not hand it out for somebody to play the disk.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::Disk;
use crate::folder::{Folder, Folders};
use crate::in_flight::{InFlight, Submitted};
use crate::reader::Reader;
use crate::store::Wake;
use crate::writer::{Claim, Writer};
use crate::{
    BatchFacts, Cursor, Durability, Family, GroupBuilder, JournalError, LogId, LogReader, LogStore, Logs, Mending,
    NotReady, Notice, Opened, Options, Position, RecordClass, RecoveryReport, Sequence, recovery,
};

/// The logs of a data directory, each stepped by a [`StepHandle`].
#[derive(Clone, Debug)]
pub struct StepLogs<D: Disk> {
    folders: Folders<D>,
}

impl<D: Disk> StepLogs<D> {
    /// The logs of these families in the data directory `data`.
    pub fn new(disk: D, data: &Path, families: &[Family]) -> StepLogs<D> {
        StepLogs { folders: Folders::new(disk, data, families) }
    }

    /// [`crate::LocalLogs::mending`].
    pub fn mending(self, mending: Mending) -> StepLogs<D> {
        StepLogs { folders: self.folders.mending(mending) }
    }
}

impl<D: Disk> StepLogs<D> {
    /// Writes these records behind the end of a log, each in a group of its own that is durable before the next one
    /// begins, and closes the log.
    pub fn write_one_by_one(
        &self,
        id: LogId,
        options: Options,
        records: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<(), JournalError> {
        let mut log = self.open(id, Cursor::START, options)?.log;
        for record in records {
            while log.ready().is_err() {
                log.step()?;
                log.poll_durable()?;
            }
            let mut group = log.begin_group();
            group.append(|buffer| buffer.extend_from_slice(&record));
            log.submit(group)?;
            while log.step()? != Step::Idle {}
            log.poll_durable()?;
        }
        log.close().map(|_| ())
    }
}

impl<D: Disk> Logs for StepLogs<D> {
    type Log = StepLog<D>;

    fn open(&self, id: LogId, since: Cursor, options: Options) -> Result<Opened<StepLog<D>>, JournalError> {
        StepLog::open(self.folders.of(id), since, options)
    }

    fn reader(&self, id: LogId) -> Result<Reader<D>, JournalError> {
        Reader::of(self.folders.of(id))
    }

    fn inspect(&self, id: LogId, since: Cursor) -> Result<RecoveryReport, JournalError> {
        recovery::inspect(&self.folders.of(id), since)
    }

    fn create(&self, id: LogId) -> Result<(), JournalError> {
        recovery::create(&self.folders.of(id))
    }

    fn append_notice(
        &self,
        id: LogId,
        since: Cursor,
        options: Options,
        notice: &Notice,
    ) -> Result<Cursor, JournalError> {
        recovery::append_notice(self.folders.of(id), options, since, notice)
    }
}

/// One shard's log, stepped from outside. Dropping it does nothing to the disk, as a crash does nothing.
pub struct StepLog<D: Disk> {
    in_flight: InFlight,
    handle: StepHandle<D>,
    reader: Reader<D>,
}

/// Steps a [`StepLog`]. Clones step the same one; one that outlives its log still writes what was submitted.
pub struct StepHandle<D: Disk> {
    bench: Arc<Mutex<Bench<D>>>,
}

impl<D: Disk> Clone for StepHandle<D> {
    fn clone(&self) -> StepHandle<D> {
        StepHandle { bench: self.bench.clone() }
    }
}

/// What the log and whoever steps it share: the part that a companion thread has in a [`crate::LocalLog`].
struct Bench<D: Disk> {
    writer: Writer<D>,
    /// Submitted and not yet written.
    waiting: VecDeque<Arc<Submitted>>,
    disk_full: bool,
    failure: Option<JournalError>,
    wake: Option<Wake>,
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
    /// Marked the end of the log, as the companion thread does when it is idle. From now on a flipped bit in the last
    /// group is seen as damage; before, it looks like a torn tail.
    Marked,
}

impl<D: Disk> StepLog<D> {
    fn open(folder: Folder<D>, since: Cursor, options: Options) -> Result<Opened<StepLog<D>>, JournalError> {
        let (writer, report) = recovery::open(folder.clone(), options, since)?;
        let reader = Reader::of(folder)?;
        let in_flight = InFlight::new(report.end, &options);
        let mut bench = Bench { writer, waiting: VecDeque::new(), disk_full: false, failure: None, wake: None };
        while bench.claim_room()? == Claim::Claimed {}
        let handle = StepHandle { bench: Arc::new(Mutex::new(bench)) };
        Ok(Opened { log: StepLog { in_flight, handle, reader }, report })
    }

    /// The other half of this log, for whoever steps it.
    pub fn handle(&self) -> StepHandle<D> {
        self.handle.clone()
    }

    /// [`StepHandle::step`], for an owner that steps it itself.
    pub fn step(&mut self) -> Result<Step, JournalError> {
        self.handle.step()
    }

    /// [`StepHandle::proven_up_to`].
    pub fn proven_up_to(&self) -> Position {
        self.handle.proven_up_to()
    }
}

impl<D: Disk> StepHandle<D> {
    /// Performs one pending unit of work: first a sync, then a write, then room, then the mark of the tail.
    pub fn step(&self) -> Result<Step, JournalError> {
        let mut bench = self.bench();
        bench.check()?;
        let done = bench.next_step();
        if let Err(error) = &done {
            bench.failure = Some(error.clone());
        }
        let wake = bench.wake.clone().filter(|_| matches!(done, Ok(Step::Synced | Step::Claimed) | Err(_)));
        drop(bench);
        if let Some(wake) = wake {
            wake();
        }
        done
    }

    /// Position up to which the disk can prove what was durable: damage before it is always told from a torn tail.
    pub fn proven_up_to(&self) -> Position {
        self.bench().writer.proven_up_to()
    }

    fn bench(&self) -> MutexGuard<'_, Bench<D>> {
        self.bench.lock().expect("no holder of this lock panics")
    }
}

impl<D: Disk> Bench<D> {
    fn next_step(&mut self) -> Result<Step, JournalError> {
        if self.writer.has_unsynced() {
            self.writer.sync()?;
            assert!(!self.writer.has_unsynced(), "one sync is enough for all that was written");
            return Ok(Step::Synced);
        }
        if !self.waiting.is_empty() {
            for group in self.waiting.drain(..) {
                self.writer.write(&group)?;
            }
            self.writer.flush()?;
            assert!(self.waiting.is_empty() && self.writer.has_unsynced(), "groups have records, and all were written");
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
            assert_eq!(self.writer.proven_up_to(), self.writer.synced().position, "a mark proves all before it");
            return Ok(Step::Marked);
        }
        Ok(Step::Idle)
    }

    fn claim_room(&mut self) -> Result<Claim, JournalError> {
        let claim = self.writer.claim_room()?;
        self.disk_full = claim == Claim::DiskFull;
        Ok(claim)
    }

    /// Whether nothing is left to write, sync or mark.
    fn is_at_rest(&self) -> bool {
        !self.writer.has_unsynced() && self.waiting.is_empty() && self.writer.is_marked()
    }

    fn check(&self) -> Result<(), JournalError> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

impl<D: Disk> LogStore for StepLog<D> {
    type Reader = Reader<D>;

    fn begin_group(&mut self) -> GroupBuilder {
        self.in_flight.begin()
    }

    fn ready_for(&self, class: RecordClass) -> Result<(), NotReady> {
        let bench = self.handle.bench();
        bench.check()?;
        self.in_flight.ready_for(class, bench.writer.room_up_to(), bench.disk_full)
    }

    fn submit(&mut self, group: GroupBuilder) -> Result<(), JournalError> {
        let mut bench = self.handle.bench();
        bench.check()?;
        bench.waiting.extend(self.in_flight.submit(group, None));
        Ok(())
    }

    fn poll_durable(&mut self) -> Result<Durability, JournalError> {
        let bench = self.handle.bench();
        bench.check()?;
        let durable = bench.writer.synced();
        let settled = self.in_flight.settle(durable.sequence);
        assert_eq!(settled.position(), durable.position, "the writer and the shard count alike");
        Ok(settled)
    }

    fn has_news(&self) -> bool {
        let bench = self.handle.bench();
        bench.check().is_err() || self.in_flight.would_settle(bench.writer.synced().sequence)
    }

    fn last_sequence(&self) -> Sequence {
        self.in_flight.last_sequence()
    }

    #[inline]
    fn peek(&self, at: Position) -> Option<&[u8]> {
        self.in_flight.peek(at)
    }

    fn reader(&self) -> Result<Reader<D>, JournalError> {
        self.reader.another()
    }

    fn set_wake(&mut self, wake: Wake) {
        self.handle.bench().wake = Some(wake);
    }

    /// There are none: no clock, no batches.
    fn take_facts(&mut self, _: &mut dyn FnMut(BatchFacts)) {}

    fn close(mut self) -> Result<Sequence, JournalError> {
        while !self.handle.bench().is_at_rest() {
            self.handle.step()?;
        }
        let durable = self.poll_durable()?.sequence();
        assert_eq!(durable, self.last_sequence(), "a log that did not fail has made all of it durable");
        Ok(durable)
    }
}

#[cfg(test)]
mod tests;
