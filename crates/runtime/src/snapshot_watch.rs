//! Tells how the writing of a log's snapshots goes: to the log, the metrics and `/healthz`.
//!
//! ```text
//!   compaction, auditor ─ fails(error)   ─▶ an error in the log, once    ─▶ snapshots: failing, until one is written
//!                      └─ wrote(written) ─▶ others do not fit the log?   ─▶ snapshots: misplaced, until a restart
//! ```
//!
//! Why a snapshot that does not fit is an alarm: this directory's own key is in its hash, and it says that the log had
//! a place in its timeline of now. If the log does not have it, bytes that were durable are gone or were exchanged.

use std::sync::Arc;

use tidegate_journal::LogId;
use tidegate_shard::Written;
use tidegate_telemetry::Registry;

use crate::metrics::SnapshotMetrics;
use crate::status::Status;

/// The snapshots of one log. For the thread that writes them.
pub struct SnapshotWatch {
    family: &'static str,
    log: LogId,
    metrics: SnapshotMetrics,
    status: Arc<Status>,
    /// The failure that was told last: the same one is told once.
    failure: Option<String>,
}

impl SnapshotWatch {
    /// Tells `status` and `registry` of the snapshots of a log of `family`.
    pub fn new(family: &'static str, log: LogId, status: Arc<Status>, registry: &Registry) -> SnapshotWatch {
        let metrics = SnapshotMetrics::register(registry, family, log.shard);
        SnapshotWatch { family, log, metrics, status, failure: None }
    }

    /// One could not be written, for this reason; it is tried again.
    pub fn fails(&mut self, why: String) {
        self.metrics.failures.add(1);
        self.metrics.failing.set(1);
        if self.failure.is_none() {
            self.status.count_failing_snapshots(true);
        }
        if self.failure.as_ref() != Some(&why) {
            let (family, shard) = (self.family, self.log.shard);
            tracing::error!(family, shard, why, "cannot write a snapshot, or compact the log; it is tried again");
        }
        self.failure = Some(why);
    }

    /// None is due, or one was written.
    pub fn works(&mut self) {
        if self.failure.take().is_some() {
            let (family, shard) = (self.family, self.log.shard);
            tracing::info!(family, shard, "snapshots can be written again");
            self.status.count_failing_snapshots(false);
        }
        self.metrics.failing.set(0);
    }

    /// One was written. Says what became of the others.
    pub fn wrote(&mut self, written: &Written) {
        self.works();
        let (family, shard) = (self.family, self.log.shard);
        for snapshot in written.set_aside.iter().chain(&written.unread) {
            tracing::warn!(family, shard, snapshot, "passed over a snapshot");
        }
        for snapshot in &written.misplaced {
            let what = "a snapshot of this directory does not fit its journal: what was durable when it was written is \
                        not there any more, or the snapshot is of a copy. See who changed the files, stop, and run \
                        `tidegate audit`";
            tracing::error!(family, shard, snapshot, "{what}");
        }
        self.metrics.misplaced.add(written.misplaced.len() as u64);
        self.status.add_misplaced_snapshots(written.misplaced.len() as u32);
    }
}

#[cfg(test)]
mod tests;
