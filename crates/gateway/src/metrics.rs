//! What workers and shards counted, brought to the registry now and then by the thread that counted it.

mod ledger;
mod shard;

use tidegate_broker::TopicShard;
use tidegate_journal::LocalLog;
use tidegate_journal::disk::Disk;
use tidegate_ledger::worker::Worker;
use tidegate_telemetry::{Registry, render_prometheus};

use crate::http::HttpMetrics;
use crate::worker_thread::LoopMetrics;

pub use ledger::{LedgerMetrics, LedgerShardMetrics};
pub use shard::ShardMetrics;

/// Everything that `/metrics` shows.
pub struct NodeMetrics {
    /// Workers and shards register here.
    pub registry: Registry,
    /// The HTTP door, which all edges share.
    pub http: HttpMetrics,
}

impl NodeMetrics {
    /// Over a registry that declares all sets of this crate.
    pub fn new(registry: Registry) -> NodeMetrics {
        NodeMetrics { http: HttpMetrics::register(&registry), registry }
    }

    /// All of it in the Prometheus text format.
    pub fn render(&self) -> String {
        render_prometheus(&self.registry.snapshot())
    }
}

/// The metrics of one worker and of its shards.
pub struct WorkerMetrics {
    /// The worker's loop.
    pub turns: LoopMetrics,
    ledger: Vec<LedgerShardMetrics>,
    topics: Vec<ShardMetrics>,
}

impl WorkerMetrics {
    /// Takes the metrics of the worker's shards, of the ledger and of topics, in the worker's order.
    pub fn new(turns: LoopMetrics, ledger: Vec<LedgerShardMetrics>, topics: Vec<ShardMetrics>) -> WorkerMetrics {
        WorkerMetrics { turns, ledger, topics }
    }

    /// Brings the registry up to date.
    pub fn observe<D: Disk>(&self, worker: &mut Worker<D, LocalLog<D>>) {
        let shards = worker.shards_mut();
        assert_eq!(self.ledger.len(), shards.len(), "each shard has its metrics");
        for (metrics, shard) in self.ledger.iter().zip(shards) {
            metrics.observe(shard);
        }
    }

    /// The same for shards of topics.
    pub fn observe_topics<D: Disk>(&self, shards: &mut [TopicShard<LocalLog<D>>]) {
        assert_eq!(self.topics.len(), shards.len(), "each shard has its metrics");
        for (metrics, shard) in self.topics.iter().zip(shards) {
            metrics.observe_topics(shard);
        }
    }
}
