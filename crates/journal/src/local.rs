//! The log of one shard on local files. Its shard's thread never waits: a companion thread seals, writes and syncs.
//!
//! ```text
//!   shard's thread                              companion thread "journal-<n>"
//!   begin_group ─▶ fill ─▶ submit ══channel══▶ seal, write ─▶ fdatasync ─┐
//!   poll_durable ◀────────── durable: AtomicU64 ◀────────────────────────┴─▶ wake()
//!                            room, failure        claim room ahead; mark the tail when idle
//! ```
//!
//! Why a thread and not io_uring: measured, see `docs/decisions/0002-journal-io.md`.

mod companion;

use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::disk::Disk;
use crate::folder::Folder;
use crate::groups::bad_cursor;
use crate::in_flight::{InFlight, Submitted};
use crate::limits::{FACTS_WAITING_MAX, GROUPS_IN_FLIGHT_MAX};
use crate::{
    BatchFacts, Cursor, GroupBuilder, GroupReader, JournalError, LogId, LogKind, LogStore, NotReady, Options, Position,
    Reader, RecoveryReport, Sequence, recovery,
};

use companion::Companion;

/// Called from the companion thread whenever there is something new to poll. Must be quick and must not block.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What the companion tells the shard's thread.
#[derive(Debug, Default)]
struct Progress {
    /// Sequence of the last durable record.
    durable: AtomicU64,
    /// Position up to which there is room for groups of any size.
    room_up_to: AtomicU64,
    /// Whether the last attempt to claim more room met a full disk.
    disk_full: AtomicBool,
    /// Set once, before `failed`.
    failure: OnceLock<JournalError>,
    /// Whether `failure` is set; looked at on every poll.
    failed: AtomicBool,
}

impl Progress {
    fn fail(&self, error: JournalError) {
        // The first failure is the one that ended the log.
        let _ = self.failure.set(error);
        self.failed.store(true, Ordering::Release);
    }

    fn check(&self) -> Result<(), JournalError> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(self.failure.get().cloned().unwrap_or(JournalError::Closed))
    }
}

/// One shard's journal on local files.
///
/// Dropping it ends the companion as [`LocalLog::close`] does, without saying how that went.
pub struct LocalLog<D: Disk> {
    in_flight: InFlight,
    progress: Arc<Progress>,
    groups: Option<SyncSender<Arc<Submitted>>>,
    facts: Receiver<BatchFacts>,
    reader: Reader<D>,
    recovered: Cursor,
    companion: Option<JoinHandle<()>>,
}

impl<D: Disk> LocalLog<D> {
    /// Opens (or begins) the log in the data directory `data`, cuts a torn tail and starts the companion thread.
    ///
    /// Refuses with [`JournalError::Damaged`] what a crash cannot explain. Reads the last segment whole.
    pub fn open(
        disk: D,
        data: &Path,
        log: LogId,
        options: Options,
        wake: Wake,
    ) -> Result<(Self, RecoveryReport), JournalError> {
        LocalLog::open_since(disk, data, log, options, Cursor::START, wake)
    }

    /// The same for a log of which nothing before `since`, the cursor of a snapshot, need be there. What is behind it must be,
    /// and is refused as [`JournalError::BadCursor`] when it ends before it; that the chain goes on from it shows in the first
    /// group that is read from there.
    pub fn open_since(
        disk: D,
        data: &Path,
        log: LogId,
        options: Options,
        since: Cursor,
        wake: Wake,
    ) -> Result<(Self, RecoveryReport), JournalError> {
        let (writer, report) = recovery::open(disk.clone(), data, log, options, since)?;
        let reader = Reader::of(Folder::new(disk, data, log))?;
        let progress = Arc::new(Progress::default());
        progress.durable.store(report.end.sequence.0, Ordering::Relaxed);
        let (groups, inbox) = sync_channel(GROUPS_IN_FLIGHT_MAX);
        let (fact_sender, facts) = sync_channel(FACTS_WAITING_MAX);
        let mut companion = Companion::new(writer, inbox, progress.clone(), fact_sender, wake);
        // The first group finds room already claimed.
        companion.claim_room();
        // The kernel keeps fifteen bytes of a thread's name.
        let kind = if log.kind == LogKind::Topics { "topics-" } else { "" };
        let name = format!("journal-{kind}{}", log.shard);
        let companion = thread::Builder::new()
            .name(name)
            .spawn(move || companion.run())
            .map_err(|cause| JournalError::io("start the companion thread of", &log.folder(data), cause))?;
        let opened = LocalLog {
            in_flight: InFlight::new(report.end, options.group_bytes_max, log.kind.recent_bytes_max()),
            progress,
            groups: Some(groups),
            facts,
            reader,
            recovered: report.end,
            companion: Some(companion),
        };
        Ok((opened, report))
    }

    /// Hands the facts of all batches since the last call to `each`. What nobody drains is dropped beyond
    /// [`crate::limits::FACTS_WAITING_MAX`] batches.
    pub fn drain_facts(&mut self, each: impl FnMut(BatchFacts)) {
        self.facts.try_iter().for_each(each);
    }

    /// Another reader of this log, for the auditor's thread.
    pub fn reader(&self) -> Result<Reader<D>, JournalError> {
        self.reader.another()
    }

    /// Syncs what was submitted, marks the tail and ends the companion thread. Waits for the disk.
    pub fn close(mut self) -> Result<Sequence, JournalError> {
        self.end_companion();
        self.poll_durable()
    }

    fn end_companion(&mut self) {
        drop(self.groups.take());
        if let Some(Err(_)) = self.companion.take().map(JoinHandle::join) {
            self.progress.fail(JournalError::Closed);
        }
    }
}

impl<D: Disk> Drop for LocalLog<D> {
    fn drop(&mut self) {
        self.end_companion();
    }
}

impl<D: Disk> LogStore for LocalLog<D> {
    fn begin_group(&mut self) -> GroupBuilder {
        self.in_flight.begin()
    }

    fn ready(&self) -> Result<(), NotReady> {
        self.progress.check()?;
        let room_up_to = Position(self.progress.room_up_to.load(Ordering::Acquire));
        self.in_flight.ready(room_up_to, self.progress.disk_full.load(Ordering::Acquire))
    }

    fn submit(&mut self, group: GroupBuilder) -> Result<(), JournalError> {
        self.progress.check()?;
        let Some(submitted) = self.in_flight.submit(group, Some(Instant::now())) else { return Ok(()) };
        match self.groups.as_ref().map(|groups| groups.try_send(submitted)) {
            Some(Ok(())) => Ok(()),
            Some(Err(TrySendError::Full(_))) => unreachable!("the channel holds as many groups as may be in flight"),
            // The companion ends only by failing or by a panic.
            Some(Err(TrySendError::Disconnected(_))) | None => {
                self.progress.fail(JournalError::Closed);
                self.progress.check()
            }
        }
    }

    fn poll_durable(&mut self) -> Result<Sequence, JournalError> {
        self.progress.check()?;
        let durable = Sequence(self.progress.durable.load(Ordering::Acquire));
        self.in_flight.settle(durable);
        Ok(durable)
    }

    fn has_news(&self) -> bool {
        let durable = Sequence(self.progress.durable.load(Ordering::Acquire));
        self.progress.check().is_err() || self.in_flight.would_settle(durable)
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

/// A cursor at the recovered end has no group behind it that could show that it is from another history.
pub(crate) fn check_against(at: &Cursor, recovered: &Cursor) -> Result<(), JournalError> {
    if at.position == recovered.position && at != recovered {
        return Err(bad_cursor(
            at,
            format!("the log ends there with sequence {}, chain {}", recovered.sequence, recovered.chain),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
