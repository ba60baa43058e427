//! The state of the process, as health checks, doors and the progress display read it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tidegate_journal::LogId;
use tidegate_journal::directory::GuardFault;
use tidegate_machines::TimeMs;

use crate::damage::Damages;
use crate::limits::LEAD_SHOWN_MS_MIN;
use crate::room_faults::RoomFaults;

/// The life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading the journal.
    Recovering,
    /// Serving.
    Serving,
    /// Finishing what was accepted.
    Stopping,
    /// A journal failed; the shards decide nothing any more.
    Failed,
}

const RECOVERING: u8 = 0;
const SERVING: u8 = 1;
const FAILED: u8 = 2;

/// How far the replay of one log is.
#[derive(Debug, Default)]
pub struct ReplayProgress {
    /// Sequence reached.
    pub done: AtomicU64,
    /// Sequence to reach; zero until it is known.
    pub total: AtomicU64,
}

/// Counts the clients that are connected.
type CountClients = Box<dyn Fn() -> u64 + Send + Sync>;

/// Says whether a worker has no time for new clients.
type IsOverloaded = Box<dyn Fn() -> bool + Send + Sync>;

/// Shared by all threads; written rarely.
pub struct Status {
    phase: AtomicU8,
    failure: OnceLock<String>,
    stopping: AtomicBool,
    workers_may_end: AtomicBool,
    /// Clients to send away per second; zero as long as they may stay.
    drain_per_second: AtomicU32,
    /// Whether somebody wants an audit that has not begun.
    audit_asked: AtomicBool,
    clients: OnceLock<CountClients>,
    overloaded: OnceLock<IsOverloaded>,
    /// Per log that is recovered.
    replay: Vec<(LogId, ReplayProgress)>,
    damages: Arc<Damages>,
    /// Logs that find no room on their disk now.
    full_logs: AtomicU32,
    /// Since when some do, in milliseconds since 1970; zero while none does.
    full_since_ms: AtomicU64,
    /// Logs whose witness cannot be written now.
    lost_witnesses: AtomicU32,
    /// Shards of which an audit last found that something differs.
    differing_shards: AtomicU32,
    /// Shards whose state is not what their log says.
    wrong_shards: AtomicU32,
    /// Shards whose last audit met something that cannot be read.
    unread_shards: AtomicU32,
    /// Whether what should be in the archive cannot be moved there now.
    archive_fails: AtomicBool,
    /// Whether the wall clock is so far from the time that records get that it is not followed.
    clock_is_off: AtomicBool,
    /// Shards whose time is far ahead of the host's clock.
    shards_ahead: AtomicU32,
    /// Logs whose last snapshot could not be written, or that could not be compacted.
    failing_snapshots: AtomicU32,
    /// Shards whose index of ids cannot be written.
    failing_ids: AtomicU32,
    /// Snapshots of this directory that were found not to fit its logs.
    misplaced_snapshots: AtomicU32,
    /// One more than the place in [`GuardFault::ALL`] of what is wrong with the data directory now; zero for nothing.
    directory_fault: AtomicU8,
    room_faults: RoomFaults,
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Status")
            .field("phase", &self.phase())
            .field("replayed", &self.replayed())
            .finish_non_exhaustive()
    }
}

impl Status {
    /// A process that has `logs` to recover.
    pub fn new(logs: impl IntoIterator<Item = LogId>) -> Status {
        let replay = logs.into_iter().map(|log| (log, ReplayProgress::default())).collect();
        Status {
            phase: AtomicU8::new(RECOVERING),
            failure: OnceLock::new(),
            stopping: AtomicBool::new(false),
            workers_may_end: AtomicBool::new(false),
            drain_per_second: AtomicU32::new(0),
            audit_asked: AtomicBool::new(false),
            clients: OnceLock::new(),
            overloaded: OnceLock::new(),
            replay,
            damages: Arc::default(),
            full_logs: AtomicU32::new(0),
            full_since_ms: AtomicU64::new(0),
            lost_witnesses: AtomicU32::new(0),
            differing_shards: AtomicU32::new(0),
            wrong_shards: AtomicU32::new(0),
            unread_shards: AtomicU32::new(0),
            archive_fails: AtomicBool::new(false),
            clock_is_off: AtomicBool::new(false),
            shards_ahead: AtomicU32::new(0),
            failing_snapshots: AtomicU32::new(0),
            failing_ids: AtomicU32::new(0),
            misplaced_snapshots: AtomicU32::new(0),
            directory_fault: AtomicU8::new(0),
            room_faults: RoomFaults::default(),
        }
    }

    /// Logs that find no room on their disk now: what needs to write to them is refused.
    pub fn full_logs(&self) -> u32 {
        self.full_logs.load(Ordering::Acquire)
    }

    /// Since when a log finds no room on its disk, by the clock of the host.
    pub fn full_since(&self) -> Option<TimeMs> {
        Some(TimeMs(self.full_since_ms.load(Ordering::Acquire))).filter(|since| since.0 > 0)
    }

    /// Says how many logs find no room, and since when some do.
    pub(crate) fn set_full_logs(&self, logs: u32, since: Option<TimeMs>) {
        self.full_since_ms.store(since.map_or(0, |since| since.0), Ordering::Release);
        self.full_logs.store(logs, Ordering::Release);
    }

    /// Logs whose witness cannot be written now: if one loses its end, nothing may prove it.
    pub fn lost_witnesses(&self) -> u32 {
        self.lost_witnesses.load(Ordering::Acquire)
    }

    /// Says how many witnesses cannot be written.
    pub(crate) fn set_lost_witnesses(&self, logs: u32) {
        self.lost_witnesses.store(logs, Ordering::Release);
    }

    /// Shards of which an audit last found that something differs.
    pub fn differing_shards(&self) -> u32 {
        self.differing_shards.load(Ordering::Acquire)
    }

    /// Says of how many shards an audit last found that something differs.
    pub fn set_differing_shards(&self, shards: u32) {
        self.differing_shards.store(shards, Ordering::Release);
    }

    /// Shards whose state is not what their log says, as an audit last found: they decide nothing new.
    pub fn wrong_shards(&self) -> u32 {
        self.wrong_shards.load(Ordering::Acquire)
    }

    /// Says of how many shards an audit last found that the state is wrong.
    pub fn set_wrong_shards(&self, shards: u32) {
        self.wrong_shards.store(shards, Ordering::Release);
    }

    /// Shards whose last audit met something that cannot be read: it says nothing of what stands there.
    pub fn unread_shards(&self) -> u32 {
        self.unread_shards.load(Ordering::Acquire)
    }

    /// Says of how many shards the last audit met something that cannot be read.
    pub fn set_unread_shards(&self, shards: u32) {
        self.unread_shards.store(shards, Ordering::Release);
    }

    /// What is wrong with rooms now, in a word each, by their names.
    pub fn room_faults(&self) -> BTreeMap<&'static str, &'static str> {
        self.room_faults.get()
    }

    /// Says what is wrong with a room now, if anything is.
    pub fn set_room_fault(&self, room: &'static str, fault: Option<&'static str>) {
        self.room_faults.set(room, fault);
    }

    /// Asks for an audit at once; those who ask before it begins get the same one.
    pub fn ask_audit(&self) {
        self.audit_asked.store(true, Ordering::Release);
    }

    /// Whether somebody has asked for an audit since this was last called. Whoever calls this makes it.
    pub fn take_asked_audit(&self) -> bool {
        self.audit_asked.swap(false, Ordering::AcqRel)
    }

    /// Whether what should be in the archive cannot be moved there now.
    pub fn archive_fails(&self) -> bool {
        self.archive_fails.load(Ordering::Acquire)
    }

    /// Says whether what should be in the archive can be moved there.
    pub fn set_archive_fails(&self, fails: bool) {
        self.archive_fails.store(fails, Ordering::Release);
    }

    /// Whether the wall clock of the host is more than an hour from the time that records get: it is not followed.
    pub fn clock_is_off(&self) -> bool {
        self.clock_is_off.load(Ordering::Acquire)
    }

    /// Says whether the wall clock is too far away to be followed.
    pub(crate) fn set_clock_is_off(&self, is_off: bool) {
        self.clock_is_off.store(is_off, Ordering::Release);
    }

    /// Shards whose newest record was more than an hour ahead of the host's clock at the start, as far as that is not
    /// made up for yet.
    pub fn shards_ahead(&self) -> u32 {
        self.shards_ahead.load(Ordering::Acquire)
    }

    /// Logs whose last snapshot could not be written, or that could not be compacted: a restart takes longer.
    pub fn failing_snapshots(&self) -> u32 {
        self.failing_snapshots.load(Ordering::Acquire)
    }

    /// Says that the snapshots of a log begin to fail, or, if not, that they do so no more.
    pub(crate) fn count_failing_snapshots(&self, fails: bool) {
        let before = match fails {
            true => self.failing_snapshots.fetch_add(1, Ordering::AcqRel),
            false => self.failing_snapshots.fetch_sub(1, Ordering::AcqRel),
        };
        assert!(fails || before > 0, "who fails no more has failed");
    }

    /// Shards whose index of ids cannot be written now: memory grows, and a restart takes longer.
    pub fn failing_ids(&self) -> u32 {
        self.failing_ids.load(Ordering::Acquire)
    }

    /// Says that the index of ids of a shard begins to fail, or, if not, that it does so no more.
    pub fn count_failing_ids(&self, fails: bool) {
        let before = match fails {
            true => self.failing_ids.fetch_add(1, Ordering::AcqRel),
            false => self.failing_ids.fetch_sub(1, Ordering::AcqRel),
        };
        assert!(fails || before > 0, "who fails no more has failed");
    }

    /// Snapshots of this directory that were found, since the start, not to fit its logs.
    pub fn misplaced_snapshots(&self) -> u32 {
        self.misplaced_snapshots.load(Ordering::Acquire)
    }

    /// Counts snapshots that do not fit.
    pub(crate) fn add_misplaced_snapshots(&self, snapshots: u32) {
        self.misplaced_snapshots.fetch_add(snapshots, Ordering::AcqRel);
    }

    /// What is wrong with the data directory as a whole now.
    pub fn directory_fault(&self) -> Option<GuardFault> {
        let place = usize::from(self.directory_fault.load(Ordering::Acquire)).checked_sub(1)?;
        Some(GuardFault::ALL[place])
    }

    /// Says what is wrong with the data directory.
    pub(crate) fn set_directory_fault(&self, fault: Option<GuardFault>) {
        let place = fault.and_then(|fault| GuardFault::ALL.iter().position(|known| *known == fault));
        self.directory_fault.store(place.map_or(0, |place| place as u8 + 1), Ordering::Release);
    }

    /// What of this process's files was found damaged.
    pub fn damages(&self) -> &Arc<Damages> {
        &self.damages
    }

    /// Asks the workers to send clients away, so many per second over all of them. Asked again, the new rate holds.
    pub fn drain(&self, per_second: u32) {
        self.drain_per_second.store(per_second.max(1), Ordering::Release);
    }

    /// Asks the workers to send nobody away any more, unless the process stops.
    pub fn end_drain(&self) {
        self.drain_per_second.store(0, Ordering::Release);
    }

    /// Clients to send away per second; `None` as long as they may stay.
    pub fn drain_per_second(&self) -> Option<u32> {
        Some(self.drain_per_second.load(Ordering::Acquire)).filter(|rate| *rate > 0)
    }

    /// Sets how connected clients are counted. To be called once, by the room whose clients stay connected.
    pub fn count_clients_by(&self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        assert!(self.clients.set(Box::new(count)).is_ok(), "one room has clients who stay");
    }

    /// Clients that are connected and can be sent away.
    pub fn clients(&self) -> u64 {
        self.clients.get().map_or(0, |count| count())
    }

    /// Sets how it is found out whether a worker is overloaded. To be called once, by the room that measures it.
    pub fn overloaded_by(&self, is_overloaded: impl Fn() -> bool + Send + Sync + 'static) {
        assert!(self.overloaded.set(Box::new(is_overloaded)).is_ok(), "one room measures the load of workers");
    }

    /// Whether a worker has no time for new clients.
    pub fn is_overloaded(&self) -> bool {
        self.overloaded.get().is_some_and(|is_overloaded| is_overloaded())
    }

    /// How far the replay of a log is. Panics for a log that is not recovered.
    pub fn replay(&self, log: LogId) -> &ReplayProgress {
        let of_log = self.replay.iter().find(|(of, _)| *of == log);
        &of_log.expect("a log that is recovered").1
    }

    /// The phase now. "Failed" takes precedence over "stopping": clients must know about it.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            FAILED => Phase::Failed,
            _ if self.is_stopping() => Phase::Stopping,
            SERVING => Phase::Serving,
            _ => Phase::Recovering,
        }
    }

    /// Recovery is over. A process that failed meanwhile stays failed.
    pub fn serve(&self) {
        self.phase.fetch_max(SERVING, Ordering::AcqRel);
    }

    /// The process is to stop. It is kept apart from the phase, because a process whose journal failed stops in the
    /// same way.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether the process is to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// A journal failed, for this reason; the first one is kept.
    pub fn fail(&self, reason: String) {
        let _ = self.failure.set(reason);
        self.phase.fetch_max(FAILED, Ordering::AcqRel);
    }

    /// Why it failed; empty if it did not.
    pub fn failure(&self) -> String {
        self.failure.get().cloned().unwrap_or_default()
    }

    /// Nobody asks the workers anything any more.
    pub fn let_workers_end(&self) {
        self.workers_may_end.store(true, Ordering::Release);
    }

    /// Whether workers that have nothing under way may end.
    pub fn may_end(&self) -> bool {
        self.workers_may_end.load(Ordering::Acquire)
    }

    /// Records replayed and records to replay, over all logs.
    pub fn replayed(&self) -> (u64, u64) {
        let sum = |of: fn(&ReplayProgress) -> &AtomicU64| {
            self.replay.iter().map(|(_, log)| of(log).load(Ordering::Relaxed)).sum()
        };
        (sum(|log| &log.done), sum(|log| &log.total))
    }
}

/// Tells a [`Status`] whether one shard is far ahead of the host's clock.
pub struct LeadWatch {
    status: Arc<Status>,
    is_ahead: bool,
}

impl LeadWatch {
    /// Of a shard of which nothing is known yet.
    pub fn new(status: Arc<Status>) -> LeadWatch {
        LeadWatch { status, is_ahead: false }
    }

    /// The time of the shard is so far ahead now.
    pub fn look(&mut self, ahead_ms: u64) {
        let is_ahead = ahead_ms > LEAD_SHOWN_MS_MIN;
        match (std::mem::replace(&mut self.is_ahead, is_ahead), is_ahead) {
            (false, true) => _ = self.status.shards_ahead.fetch_add(1, Ordering::AcqRel),
            (true, false) => _ = self.status.shards_ahead.fetch_sub(1, Ordering::AcqRel),
            _ => {}
        }
    }
}
