//! One shard of the ledger: what all shards go through, and its id index.

use std::path::{Path, PathBuf};

use anyhow::Result;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Durability, LocalLog, LogStore};
use tidegate_ledger::ids::{IdIndex, IdSeed, IdsOptions};
use tidegate_ledger::{LedgerFamily, LedgerService, LedgerShard};
use tidegate_machines::ShardIndex;
use tidegate_runtime::fetch::{Fetchers, Runner};
use tidegate_shard::{JobId, Service, Shard};

use super::{LocalReader, Recovering, Recovery};
use crate::metrics::{LedgerShardMetrics, NodeMetrics};
use crate::mqtt::AnnounceRules;
use crate::node::{NodeOptions, spawn};

/// A shard of the ledger on this machine's files.
pub type LocalShard = LedgerShard<RealDisk, LocalLog<RealDisk>>;
/// How its calls are served.
type LocalService = LedgerService<RealDisk>;
/// The threads that read for it.
pub type LocalFetchers = Fetchers<(JobId, <LocalService as Service>::Job), (JobId, <LocalService as Service>::Fetched)>;

/// Threads that read for one shard: a cold read of one history does not keep the next one waiting.
const FETCH_THREADS: usize = 2;

/// What a recovered shard's thread hands over.
pub struct RecoveredShard {
    /// The shard.
    pub shard: LocalShard,
    /// The threads that read for it.
    pub fetchers: LocalFetchers,
    /// How much of its log was durable when it was opened.
    pub recovered: Durability,
    /// Another reader of its log, for the auditor.
    pub reader: LocalReader,
    /// What it is counted with.
    pub metrics: LedgerShardMetrics,
}

/// Starts the recovery of one shard.
pub(super) fn start(
    recovery: Recovery<LedgerFamily>,
    options: &NodeOptions,
    metrics: &NodeMetrics,
) -> Result<Recovering<RecoveredShard>> {
    let shards = options.shards;
    let filter_bytes_max = (options.ids_filter_bytes_max / shards as usize).max(1 << 16);
    let announce = options.mqtt.as_ref().map(|mqtt| mqtt.announce.clone());
    let metrics = LedgerShardMetrics::register(&metrics.registry, recovery.shard());
    let folder = ids_folder(&options.data, recovery.shard());
    spawn(format!("recover-{}", recovery.shard()), move || {
        let ids = IdsOptions { filter_bytes_max, ..IdsOptions::new(random_seed()?) };
        recover(recovery, shards, &folder, ids, announce, metrics)
    })
}

fn recover(
    recovery: Recovery<LedgerFamily>,
    shards: u16,
    folder: &Path,
    ids: IdsOptions,
    announce: Option<AnnounceRules>,
    metrics: LedgerShardMetrics,
) -> Result<RecoveredShard> {
    let open = recovery.open()?;
    let recovered = open.recovered().durability();
    let opened = IdIndex::open(RealDisk, folder, ids, recovered.position(), &mut |_, _| {})?;
    let shard = recovery.shard();
    if let Some(reason) = &opened.discarded {
        let family = recovery.family();
        tracing::warn!(family, shard, reason, "the id index is rebuilt from the journal");
    }
    let mut ids = opened.index;
    let back = recovery.replay(open, shards, &mut ids)?;
    metrics.shard.recovered(recovery.began.elapsed(), &back.report);

    let reader = back.log.reader()?;
    let fetchers = fetchers(&recovery, &reader)?;
    let mut service = LedgerService::new(&back.state, ids, back.log.last_sequence());
    if let Some(rules) = announce {
        service.announce(rules, &back.state);
    }
    let shard = Shard::new(ShardIndex(shard), back.state, service, back.log)?;
    Ok(RecoveredShard { shard, fetchers, recovered, reader, metrics })
}

fn fetchers(recovery: &Recovery<LedgerFamily>, reader: &LocalReader) -> Result<LocalFetchers> {
    use tidegate_journal::LogReader;
    let mut runners = Vec::new();
    for _ in 0..FETCH_THREADS {
        let reader = reader.another()?;
        let run = move |(id, job): (JobId, _)| (id, LocalService::run(job, &reader));
        runners.push(Box::new(run) as Runner<_, _>);
    }
    let bed = recovery.bed.clone();
    Ok(Fetchers::start(&format!("fetch-{}", recovery.shard()), runners, move || bed.wake())?)
}

/// Where the id index of a shard lives.
fn ids_folder(data: &Path, shard: u16) -> PathBuf {
    data.join("ids").join(format!("{}-{shard}", tidegate_ledger::LEDGER.name))
}

fn random_seed() -> Result<IdSeed> {
    Ok(IdSeed([getrandom::u64()?, getrandom::u64()?]))
}
