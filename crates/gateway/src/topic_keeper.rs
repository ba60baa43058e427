//! Keeps logs of topics short: on a thread of its own, at low priority, a shard after the other.
//!
//! Why apart from the auditor's thread: that one waits for answers of shards; this one reads files only, and a long compaction must
//! not put off an audit.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tidegate_journal::LogId;
use tidegate_journal::disk::RealDisk;
use tidegate_shard::limits::BYTES_PER_COMPACTION;
use tidegate_shard::topics::compact;

use crate::audit_loop::lower_priority;

/// How often the logs are looked at.
const LOOK: Duration = Duration::from_secs(10);
/// How often the thread looks whether it should stop.
const NAP: Duration = Duration::from_millis(100);

/// The logs of all shards of topics.
pub struct TopicKeeper {
    data: PathBuf,
    logs: Vec<LogId>,
}

impl TopicKeeper {
    /// For the logs of the data directory `data`.
    pub fn new(data: PathBuf, logs: Vec<LogId>) -> TopicKeeper {
        TopicKeeper { data, logs }
    }

    /// Compacts whatever is worth it until `stopped`.
    pub fn run(self, stopped: &dyn Fn() -> bool) {
        lower_priority();
        let mut looked: Option<Instant> = None;
        while !stopped() {
            if looked.is_some_and(|looked| looked.elapsed() < LOOK) {
                std::thread::sleep(NAP);
                continue;
            }
            looked = Some(Instant::now());
            for log in &self.logs {
                self.keep(*log, stopped);
            }
        }
    }

    fn keep(&self, log: LogId, stopped: &dyn Fn() -> bool) {
        let began = Instant::now();
        match compact(&RealDisk, &self.data, log, BYTES_PER_COMPACTION, || !stopped()) {
            Ok(None) => {}
            Ok(Some(done)) => tracing::info!(
                topics = log.shard,
                sequence = done.cursor.sequence.0,
                events = done.events,
                forgotten = ?done.forgotten,
                took_ms = began.elapsed().as_millis() as u64,
                "compacted"
            ),
            // The log is as it was; it is longer than it need be.
            Err(error) => tracing::error!(topics = log.shard, %error, "cannot compact a log of topics"),
        }
    }
}
