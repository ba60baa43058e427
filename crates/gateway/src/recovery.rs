//! From the files of a data directory to shards that go on where they were, all in parallel.
//!
//! ```text
//!   journal/ledger-n ─▶ shards of the ledger (snapshot, replay, id index) ─┐
//!   journal/topics-n ─▶ shards of topics (snapshot, replay)               ─┴─▶ workers: shard n to worker n modulo their number
//! ```
//!
//! What all families have in common is done once, by `Recovery`; what a family keeps beside its machine, in a file of its own.

mod ledger;
mod topics;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use tidegate_broker::{TOPICS, TopicsFamily};
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Family, LocalLog, LocalLogs, LogId, LogStore, Options};
use tidegate_ledger::{LEDGER, LedgerFamily};
use tidegate_shard::{Derived, OpenShard, Replayed, ShardFamily, Snapshots};

use crate::mesh::Bed;
use crate::metrics::NodeMetrics;
use crate::node::{NodeOptions, join};
use crate::status::Status;

pub use ledger::{LocalFetchers, LocalShard, RecoveredShard};
pub use topics::{LocalTopicShard, RecoveredTopics};

/// The logs of this machine.
pub type LocalLogsHere = LocalLogs<RealDisk>;
/// What reads one of them.
pub type LocalReader = <LocalLog<RealDisk> as LogStore>::Reader;

/// The families that this program serves.
pub const FAMILIES: [Family; 2] = [LEDGER, TOPICS];

/// How often those who wait hear how far the recovery is.
const PROGRESS_EVERY: Duration = Duration::from_millis(20);

/// All shards of a directory.
pub struct Recovered {
    /// Of the ledger, ascending.
    pub ledger: Vec<RecoveredShard>,
    /// Of topics, ascending; none without MQTT.
    pub topics: Vec<RecoveredTopics>,
}

/// Recovers all shards in parallel, each on a thread of its own. `progress` is called now and then.
pub fn recover_all(
    options: &NodeOptions,
    directory: &Directory,
    beds: &[Arc<Bed>],
    status: &Arc<Status>,
    metrics: &NodeMetrics,
    progress: &mut dyn FnMut(&Status),
) -> Result<Recovered> {
    let ledger = directory.logs(LEDGER).map(|log| {
        let journal = Options { segment_bytes: options.segment_bytes, ..Options::default() };
        let recovery = Recovery::<LedgerFamily>::new(options, log, log.shard, journal, beds, status);
        ledger::start(recovery, options, metrics)
    });
    let ledger: Vec<_> = ledger.collect::<Result<_>>()?;
    let mut topics = Vec::new();
    if let Some(mqtt) = &options.mqtt {
        for log in directory.logs(TOPICS) {
            let (place, journal) = (options.shards + log.shard, tidegate_broker::topics::log_options());
            let recovery = Recovery::<TopicsFamily>::new(options, log, place, journal, beds, status);
            topics.push(topics::start(recovery, directory.shards(TOPICS), mqtt, metrics)?);
        }
    }
    while ledger.iter().any(|thread| !thread.is_finished()) || topics.iter().any(|thread| !thread.is_finished()) {
        progress(status);
        std::thread::sleep(PROGRESS_EVERY);
    }
    progress(status);
    let ledger = ledger.into_iter().map(join).collect::<Result<_>>()?;
    Ok(Recovered { ledger, topics: topics.into_iter().map(join).collect::<Result<_>>()? })
}

/// A thread that recovers a shard.
type Recovering<T> = JoinHandle<Result<T>>;

/// One shard of any family, on its way back.
struct Recovery<F: ShardFamily> {
    logs: LocalLogsHere,
    snapshots: Snapshots<F, RealDisk>,
    journal: Options,
    bed: Arc<Bed>,
    status: Arc<Status>,
    /// Where its progress stands among that of all shards.
    place: usize,
    began: Instant,
}

/// Its log, open.
type Open<F> = OpenShard<F, RealDisk, LocalLog<RealDisk>>;
/// Its state, and its log.
type Back<F> = Replayed<<F as ShardFamily>::Machine, LocalLog<RealDisk>>;

/// As messages name a shard.
impl<F: ShardFamily> fmt::Display for Recovery<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} shard {}", self.family(), self.shard())
    }
}

impl<F: ShardFamily> Recovery<F> {
    fn new(
        options: &NodeOptions,
        log: LogId,
        place: u16,
        journal: Options,
        beds: &[Arc<Bed>],
        status: &Arc<Status>,
    ) -> Recovery<F> {
        Recovery {
            logs: LocalLogs::new(RealDisk, &options.data, &FAMILIES),
            snapshots: Snapshots::new(RealDisk, &options.data, log),
            journal,
            bed: beds[(log.shard % options.workers) as usize].clone(),
            status: status.clone(),
            place: place.into(),
            began: Instant::now(),
        }
    }

    fn family(&self) -> &'static str {
        F::FAMILY.name
    }

    fn shard(&self) -> u16 {
        self.snapshots.log().shard
    }

    /// Opens the log, cuts a torn tail, and says so.
    fn open(&self) -> Result<Open<F>> {
        let opened = OpenShard::open(&self.logs, self.snapshots.clone(), self.journal);
        let mut open: Open<F> = opened.map_err(|error| anyhow!("{self}: {error}"))?;
        let bed = self.bed.clone();
        open.log_mut().set_wake(Arc::new(move || bed.wake()));
        let found = open.recovered();
        if found.bytes_cut > 0 {
            let (family, shard, bytes) = (self.family(), self.shard(), found.bytes_cut);
            tracing::warn!(family, shard, bytes, "cut a torn tail: these bytes were never acknowledged");
        }
        self.status.replay[self.place].total.store(found.end.sequence.0, Ordering::Relaxed);
        Ok(open)
    }

    /// Replays what is behind the newest snapshot that can be used, and says what was done.
    fn replay<X: Derived<F::Machine, Error: Send + Sync + 'static>>(
        &self,
        open: Open<F>,
        shards: u16,
        derived: &mut X,
    ) -> Result<Back<F>> {
        let progress = &self.status.replay[self.place];
        let sequence = open.recovered().end.sequence.0;
        let back = open.replay(shards, derived, |reached| progress.done.store(reached.0, Ordering::Relaxed));
        let back = back.map_err(|error| anyhow!("{self}: {error}"))?;
        progress.done.store(sequence, Ordering::Relaxed);
        let (family, shard, report) = (self.family(), self.shard(), &back.report);
        for snapshot in &report.snapshots_passed_over {
            tracing::warn!(family, shard, snapshot, "passed over a snapshot");
        }
        let took = self.began.elapsed();
        let records = report.events + report.derived_only;
        tracing::info!(
            family,
            shard,
            sequence,
            snapshot_sequence = report.snapshot_sequence,
            records = report.events,
            records_for_index_only = report.derived_only,
            took_ms = took.as_millis() as u64,
            records_per_s = (records as f64 / took.as_secs_f64()) as u64,
            "recovered"
        );
        Ok(back)
    }
}
