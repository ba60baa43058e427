//! From the files of a data directory to shards that go on where they were, all in parallel.
//!
//! ```text
//!   journal/shard-n ──▶ ledger shards (id index, replay)  ─┐
//!   journal/topics-n ─▶ topic shards (snapshot, replay)   ─┴─▶ workers: shard n to worker n modulo their number
//! ```

mod topics;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::Result;
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{LocalLog, LogId, Options, Sequence};
use tidegate_machines::ShardIndex;
use tidegate_shard::core::Shard;
use tidegate_shard::ids::{IdIndex, IdSeed, IdsOptions};
use tidegate_shard::replay::replay;

use crate::mesh::Bed;
use crate::metrics::{LedgerShardMetrics, NodeMetrics, ShardMetrics, TOPICS};
use crate::mqtt::{AnnounceRules, MqttSettings};
use crate::node::{NodeOptions, join, spawn};
use crate::status::Status;

use topics::TopicRecovery;
pub use topics::{LocalTopicShard, RecoveredTopics};

/// A shard of the ledger on this machine's files.
pub type LocalShard = Shard<RealDisk, LocalLog<RealDisk>>;

/// What a recovered shard's thread hands over.
pub struct RecoveredShard {
    /// The shard.
    pub shard: LocalShard,
    /// What it is counted with.
    pub metrics: LedgerShardMetrics,
}

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
    let mut threads = Vec::new();
    for log in directory.logs() {
        let recovery = Recovery {
            data: options.data.clone(),
            log,
            shards: options.shards,
            workers: options.workers,
            journal: Options { segment_bytes: options.segment_bytes, ..Options::default() },
            filter_bytes_max: options.ids_filter_bytes_max / options.shards as usize,
            bed: beds[(log.shard % options.workers) as usize].clone(),
            status: status.clone(),
            metrics: LedgerShardMetrics::register(&metrics.registry, log.shard),
            announce: options.mqtt.as_ref().map(|mqtt| mqtt.announce.clone()),
        };
        threads.push(spawn(format!("recover-{}", log.shard), move || recovery.run())?);
    }
    let topics = match &options.mqtt {
        Some(mqtt) => recover_topics(options, mqtt, directory, beds, status, metrics)?,
        None => Vec::new(),
    };
    while threads.iter().any(|thread| !thread.is_finished()) || topics.iter().any(|thread| !thread.is_finished()) {
        progress(status);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    progress(status);
    let ledger = threads.into_iter().map(join).collect::<Result<_>>()?;
    Ok(Recovered { ledger, topics: topics.into_iter().map(join).collect::<Result<_>>()? })
}

fn recover_topics(
    options: &NodeOptions,
    mqtt: &MqttSettings,
    directory: &Directory,
    beds: &[Arc<Bed>],
    status: &Arc<Status>,
    metrics: &NodeMetrics,
) -> Result<Vec<JoinHandle<Result<RecoveredTopics>>>> {
    let start = |log: LogId| {
        let recovery = TopicRecovery {
            data: options.data.clone(),
            log,
            journal: Options::topics(),
            limits: mqtt.inbox.clone(),
            bed: beds[(log.shard % options.workers) as usize].clone(),
            status: status.clone(),
            place: (options.shards + log.shard) as usize,
            metrics: ShardMetrics::register(&metrics.registry, TOPICS, log.shard),
        };
        spawn(format!("recover-t{}", log.shard), move || recovery.run())
    };
    directory.topic_logs().map(start).collect()
}

/// What one shard's recovery needs.
struct Recovery {
    data: PathBuf,
    log: LogId,
    shards: u16,
    workers: u16,
    journal: Options,
    filter_bytes_max: usize,
    bed: Arc<Bed>,
    status: Arc<Status>,
    metrics: LedgerShardMetrics,
    /// Which accounts are announced on topics, if there are topics.
    announce: Option<AnnounceRules>,
}

impl Recovery {
    fn run(self) -> Result<RecoveredShard> {
        let began = Instant::now();
        let index = ShardIndex(self.log.shard);
        let progress = &self.status.replay[self.log.shard as usize];
        let bed = self.bed.clone();
        let wake = Arc::new(move || bed.wake());
        let (log, found) = LocalLog::open(RealDisk, &self.data, self.log, self.journal, wake)?;
        if found.bytes_cut > 0 {
            tracing::warn!(
                shard = index.0,
                bytes = found.bytes_cut,
                "cut a torn tail: these bytes were never acknowledged"
            );
        }
        progress.total.store(found.end.sequence.0, Ordering::Relaxed);

        let ids_options =
            IdsOptions { filter_bytes_max: self.filter_bytes_max.max(1 << 16), ..IdsOptions::new(random_seed()?) };
        let folder = ids_folder(&self.data, index);
        let opened = IdIndex::open(RealDisk, &folder, ids_options, found.end.position, &mut |_, _| {})?;
        if let Some(reason) = &opened.discarded {
            tracing::warn!(shard = index.0, reason, "the id index is rebuilt from the journal");
        }
        let mut ids = opened.index;
        let (ledger, report) =
            replay(&log, &RealDisk, &self.data, index, self.shards, &mut ids, |Sequence(reached)| {
                progress.done.store(reached, Ordering::Relaxed);
            })?;
        for passed_over in &report.snapshots_passed_over {
            tracing::warn!(shard = index.0, snapshot = passed_over, "passed over a snapshot");
        }
        progress.done.store(found.end.sequence.0, Ordering::Relaxed);

        let took = began.elapsed();
        let events = report.events + report.ids_only;
        self.metrics.shard.recovered(took, events, report.snapshot_sequence);
        tracing::info!(
            shard = index.0,
            sequence = found.end.sequence.0,
            snapshot_sequence = report.snapshot_sequence,
            events = report.events,
            ids_only = report.ids_only,
            took_ms = took.as_millis() as u64,
            events_per_s = (events as f64 / took.as_secs_f64()) as u64,
            "recovered"
        );
        let mut shard = Shard::new(index, self.shards, self.workers, ledger, ids, log);
        if let Some(rules) = self.announce {
            shard.announce(rules);
        }
        Ok(RecoveredShard { shard, metrics: self.metrics })
    }
}

/// Where the id index of `shard` lives.
fn ids_folder(data: &Path, shard: ShardIndex) -> PathBuf {
    data.join("ids").join(format!("shard-{shard}"))
}

fn random_seed() -> Result<IdSeed> {
    Ok(IdSeed([getrandom::u64()?, getrandom::u64()?]))
}
