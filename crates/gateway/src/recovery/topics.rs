//! One shard of topics: newest good snapshot, the log behind it, and what comes of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::Result;
use tidegate_broker::Waiting;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{LocalLog, LogId, Options, Sequence};
use tidegate_machines::ShardIndex;
use tidegate_machines::topic::InboxLimits;
use tidegate_shard::topics::{TopicShard, replay, start};

use crate::mesh::Bed;
use crate::metrics::ShardMetrics;
use crate::status::Status;

/// A shard of topics on this machine's files.
pub type LocalTopicShard = TopicShard<LocalLog<RealDisk>, Waiting>;

/// What a recovered shard's thread hands over.
pub struct RecoveredTopics {
    /// The shard.
    pub shard: LocalTopicShard,
    /// What it is counted with.
    pub metrics: ShardMetrics,
}

/// What one shard's recovery needs.
pub(super) struct TopicRecovery {
    pub data: PathBuf,
    pub log: LogId,
    pub journal: Options,
    pub limits: InboxLimits,
    pub bed: Arc<Bed>,
    pub status: Arc<Status>,
    /// Where its progress stands among that of all shards.
    pub place: usize,
    pub metrics: ShardMetrics,
}

impl TopicRecovery {
    pub fn run(self) -> Result<RecoveredTopics> {
        let began = Instant::now();
        let index = ShardIndex(self.log.shard);
        let progress = &self.status.replay[self.place];
        let bed = self.bed.clone();
        let wake = Arc::new(move || bed.wake());
        let begin = start(&RealDisk, &self.data, index);
        let (log, found) = LocalLog::open_since(RealDisk, &self.data, self.log, self.journal, begin.cursor, wake)?;
        if found.bytes_cut > 0 {
            tracing::warn!(
                topics = index.0,
                bytes = found.bytes_cut,
                "cut a torn tail: these bytes were never acknowledged"
            );
        }
        let end = found.end.sequence.0;
        progress.total.store(end, Ordering::Relaxed);
        let reached = |Sequence(reached)| progress.done.store(reached, Ordering::Relaxed);
        let (state, report) = replay(&log, index, begin, reached)?;
        for passed_over in &report.snapshots_passed_over {
            tracing::warn!(topics = index.0, snapshot = passed_over, "passed over a snapshot");
        }
        progress.done.store(end, Ordering::Relaxed);
        let took = began.elapsed();
        self.metrics.recovered(took, report.events, report.snapshot_sequence);
        let facts = state.facts();
        tracing::info!(
            topics = index.0,
            sequence = end,
            snapshot_sequence = report.snapshot_sequence,
            events = report.events,
            sessions = facts.sessions,
            took_ms = took.as_millis() as u64,
            "recovered"
        );
        Ok(RecoveredTopics { shard: TopicShard::new(index, state, log, self.limits), metrics: self.metrics })
    }
}
