//! The log of one shard on local files. Its shard's thread never waits: a companion thread seals, writes and syncs.
//!
//! ```text
//!   shard's thread                              companion thread "log-<family>-<n>"
//!   begin_group ─▶ fill ─▶ submit ══channel══▶ seal, write ─▶ fdatasync ─┐
//!   poll_durable ◀────────── durable: AtomicU64 ◀────────────────────────┴─▶ wake()
//!                            room, failure        claim room ahead; mark the tail when idle
//! ```
//!
//! Why a thread and not io_uring: measured, see `docs/decisions/0002-journal-io.md`.

mod companion;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::anew::begin_anew;
use crate::disk::Disk;
use crate::folder::Folders;
use crate::in_flight::{InFlight, Submitted};
use crate::limits::{FACTS_WAITING_MAX, GROUPS_IN_FLIGHT_MAX};
use crate::reader::Reader;
use crate::store::Wake;
use crate::{
    BatchFacts, Cursor, Durability, Family, GroupBuilder, JournalError, LogFiles, LogId, LogReader, LogStore, Logs,
    Mending, NotReady, Notice, Opened, Options, Position, RecordClass, RecoveryReport, Sequence, recovery,
};

use companion::Companion;

/// The logs of a data directory, each written by a thread of its own.
#[derive(Clone, Debug)]
pub struct LocalLogs<D: Disk> {
    folders: Folders<D>,
}

impl<D: Disk> LocalLogs<D> {
    /// The logs of these families in the data directory `data`.
    pub fn new(disk: D, data: &Path, families: &[Family]) -> LocalLogs<D> {
        LocalLogs { folders: Folders::new(disk, data, families) }
    }

    /// The same, of a directory that is served: a byte that is provably wrong is put right, and told to `mending`.
    pub fn mending(self, mending: Mending) -> LocalLogs<D> {
        LocalLogs { folders: self.folders.mending(mending) }
    }

    /// The files of one log, for a tool that copies them.
    pub fn files(&self, id: LogId) -> LogFiles<D> {
        LogFiles::of(self.folders.of(id))
    }

    /// Begins a log of a family that may forget anew, behind what a snapshot at `since` holds, with a notice; nobody
    /// has it open. Its files, damaged as they may be, are renamed: returns where they are, if there were some.
    pub fn begin_anew(
        &self,
        id: LogId,
        since: Cursor,
        options: Options,
        notice: &Notice,
    ) -> Result<Option<PathBuf>, JournalError> {
        begin_anew(&self.folders.of(id), since, options, notice)
    }
}

impl<D: Disk> Logs for LocalLogs<D> {
    type Log = LocalLog<D>;

    fn open(&self, id: LogId, since: Cursor, options: Options) -> Result<Opened<LocalLog<D>>, JournalError> {
        LocalLog::open(&self.folders, id, since, options)
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

/// What the companion tells the shard's thread.
#[derive(Default)]
struct Progress {
    /// Sequence of the last durable record.
    durable: AtomicU64,
    /// The place behind it. Locked once a batch, and by nobody for longer than it takes to copy it.
    synced: Mutex<Option<Cursor>>,
    /// Position up to which there is room for groups of any size.
    room_up_to: AtomicU64,
    /// Whether the last attempt to claim more room met a full disk.
    disk_full: AtomicBool,
    /// Why, if it was something else than a full disk. Locked by nobody for longer than it takes to copy it.
    claim_failed: Mutex<Option<JournalError>>,
    /// Set once, before `failed`.
    failure: OnceLock<JournalError>,
    /// Whether `failure` is set; looked at on every poll.
    failed: AtomicBool,
    /// Whom the companion wakes. Locked once a batch, and by nobody for longer than it takes to copy a pointer.
    wake: Mutex<Option<Wake>>,
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

    fn durable(&self) -> Sequence {
        Sequence(self.durable.load(Ordering::Acquire))
    }

    fn claim_failed(&self, why: Option<JournalError>) {
        *self.claim_failed.lock().expect("no holder of this lock panics") = why;
    }

    fn synced(&self, end: Cursor) {
        *self.synced.lock().expect("no holder of this lock panics") = Some(end);
    }

    fn wake(&self) {
        let wake = self.waker().clone();
        if let Some(wake) = wake {
            wake();
        }
    }

    fn waker(&self) -> MutexGuard<'_, Option<Wake>> {
        self.wake.lock().expect("no holder of this lock panics")
    }
}

/// How far a log is durable, as its companion thread knows it.
#[derive(Clone)]
pub struct DurableEnd {
    progress: Arc<Progress>,
}

impl DurableEnd {
    /// How far everything is durable, for whoever reads up to there.
    pub fn durability(&self) -> Durability {
        Durability::at(self.cursor())
    }

    /// The place behind the last durable group.
    pub fn cursor(&self) -> Cursor {
        let synced = *self.progress.synced.lock().expect("no holder of this lock panics");
        synced.expect("said when the log was opened")
    }
}

/// Whether a log finds room on its disk, as its companion thread knows it.
#[derive(Clone)]
pub struct DiskRoom {
    progress: Arc<Progress>,
}

impl DiskRoom {
    /// Whether the last attempt to claim room ahead found none. Groups are refused as soon as what was claimed is used.
    pub fn is_full(&self) -> bool {
        self.progress.disk_full.load(Ordering::Acquire)
    }

    /// What claiming met, while [`DiskRoom::is_full`], if that was something else than a full disk.
    pub fn failure(&self) -> Option<JournalError> {
        self.progress.claim_failed.lock().expect("no holder of this lock panics").clone()
    }
}

/// One shard's log on local files.
///
/// Dropping it ends the companion as [`LogStore::close`] does, without saying how that went.
pub struct LocalLog<D: Disk> {
    in_flight: InFlight,
    progress: Arc<Progress>,
    groups: Option<SyncSender<Arc<Submitted>>>,
    facts: Receiver<BatchFacts>,
    reader: Reader<D>,
    companion: Option<JoinHandle<()>>,
}

impl<D: Disk> LocalLog<D> {
    /// Opens the log and starts its companion thread. Reads the last segment whole.
    fn open(
        folders: &Folders<D>,
        id: LogId,
        since: Cursor,
        options: Options,
    ) -> Result<Opened<LocalLog<D>>, JournalError> {
        let folder = folders.of(id);
        let path = folder.path.clone();
        let (writer, report) = recovery::open(folder.clone(), options, since)?;
        let reader = Reader::of(folder)?;
        let progress = Arc::new(Progress::default());
        progress.durable.store(report.end.sequence.0, Ordering::Relaxed);
        progress.synced(report.end);
        let (groups, inbox) = sync_channel(GROUPS_IN_FLIGHT_MAX);
        let (fact_sender, facts) = sync_channel(FACTS_WAITING_MAX);
        let mut companion = Companion::new(writer, inbox, progress.clone(), fact_sender);
        // The first group finds room already claimed.
        companion.claim_room();
        // The kernel keeps fifteen bytes of a thread's name.
        let companion = thread::Builder::new()
            .name(format!("log-{}-{}", folders.family_of(id).name, id.shard))
            .spawn(move || companion.run())
            .map_err(|cause| JournalError::io("start the companion thread of", &path, cause))?;
        let log = LocalLog {
            in_flight: InFlight::new(report.end, &options),
            progress,
            groups: Some(groups),
            facts,
            reader,
            companion: Some(companion),
        };
        Ok(Opened { log, report })
    }

    /// How far it is durable, for another thread; goes on to say so when the log is closed.
    pub fn durable_end(&self) -> DurableEnd {
        DurableEnd { progress: self.progress.clone() }
    }

    /// Whether it finds room on its disk, for another thread.
    pub fn disk_room(&self) -> DiskRoom {
        DiskRoom { progress: self.progress.clone() }
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
    type Reader = Reader<D>;

    fn begin_group(&mut self) -> GroupBuilder {
        self.in_flight.begin()
    }

    fn ready_for(&self, class: RecordClass) -> Result<(), NotReady> {
        self.progress.check()?;
        let room_up_to = Position(self.progress.room_up_to.load(Ordering::Acquire));
        self.in_flight.ready_for(class, room_up_to, self.progress.disk_full.load(Ordering::Acquire))
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

    fn poll_durable(&mut self) -> Result<Durability, JournalError> {
        self.progress.check()?;
        Ok(self.in_flight.settle(self.progress.durable()))
    }

    fn has_news(&self) -> bool {
        self.progress.check().is_err() || self.in_flight.would_settle(self.progress.durable())
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
        *self.progress.waker() = Some(wake);
    }

    fn take_facts(&mut self, each: &mut dyn FnMut(BatchFacts)) {
        self.facts.try_iter().for_each(each);
    }

    fn close(mut self) -> Result<Sequence, JournalError> {
        self.end_companion();
        let durable = self.poll_durable()?.sequence();
        assert_eq!(durable, self.last_sequence(), "a log that did not fail has made all of it durable");
        Ok(durable)
    }
}

#[cfg(test)]
mod tests;
