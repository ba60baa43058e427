//! What the process is doing, for everyone who asks: health checks, doors, the progress bar.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// The life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Reading the journal.
    Recovering = 0,
    /// Serving.
    Serving = 1,
    /// Finishing what was accepted.
    Stopping = 2,
    /// A journal failed; nothing is decided any more.
    Failed = 3,
}

/// How far one shard's replay is.
#[derive(Debug, Default)]
pub struct ReplayProgress {
    /// Sequence reached.
    pub done: AtomicU64,
    /// Sequence to reach; zero until it is known.
    pub total: AtomicU64,
}

/// Shared by all threads; written rarely.
#[derive(Debug)]
pub struct Status {
    phase: AtomicU8,
    failure: OnceLock<String>,
    workers_may_end: AtomicBool,
    /// Per shard.
    pub replay: Vec<ReplayProgress>,
}

impl Status {
    /// A process that has `shards` to recover.
    pub fn new(shards: u16) -> Status {
        let replay = (0..shards).map(|_| ReplayProgress::default()).collect();
        Status {
            phase: AtomicU8::new(Phase::Recovering as u8),
            failure: OnceLock::new(),
            workers_may_end: AtomicBool::new(false),
            replay,
        }
    }

    /// The phase now.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Recovering,
            1 => Phase::Serving,
            2 => Phase::Stopping,
            _ => Phase::Failed,
        }
    }

    /// Goes on to `next`. A failed process stays failed, a stopping one never serves again.
    pub fn advance(&self, next: Phase) {
        self.phase.fetch_max(next as u8, Ordering::AcqRel);
    }

    /// A journal failed, for this reason; the first one is kept.
    pub fn fail(&self, reason: String) {
        let _ = self.failure.set(reason);
        self.advance(Phase::Failed);
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

    /// Records replayed and records to replay, over all shards.
    pub fn replayed(&self) -> (u64, u64) {
        let sum = |of: fn(&ReplayProgress) -> &AtomicU64| {
            self.replay.iter().map(|shard| of(shard).load(Ordering::Relaxed)).sum()
        };
        (sum(|shard| &shard.done), sum(|shard| &shard.total))
    }
}
