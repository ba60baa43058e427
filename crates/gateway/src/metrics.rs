//! What workers and shards counted, brought to the registry now and then by the thread that counted it.

use std::sync::Arc;

use tidegate_broker::TopicShard;
use tidegate_journal::disk::Disk;
use tidegate_journal::{LocalLog, LogStore};
use tidegate_ledger::LedgerShard;
use tidegate_ledger::worker::Worker;
use tidegate_telemetry::{CounterFamily, Registry, ShardMetrics, render_prometheus};

use crate::http::HttpCounters;
use crate::mqtt::TopicMetrics;

/// Everything that `/metrics` shows.
#[derive(Default)]
pub struct NodeMetrics {
    /// Workers and shards.
    pub registry: Registry,
    /// The HTTP door.
    pub http: Arc<HttpCounters>,
}

impl NodeMetrics {
    /// Workers and shards in the Prometheus text format; the HTTP door adds its own counters when it serves the page.
    pub fn render(&self) -> String {
        render_prometheus(&self.registry)
    }
}

/// The metrics of one worker's shards.
pub struct WorkerMetrics {
    shards: Vec<ObservedShard>,
    topics: Vec<TopicMetrics>,
}

struct ObservedShard {
    metrics: ShardMetrics,
    unavailable_seen: u64,
    refusals_seen: std::collections::BTreeMap<&'static str, u64>,
}

impl WorkerMetrics {
    /// Takes the metrics of the worker's shards, of the ledger and of topics, in the worker's order.
    pub fn new(shards: Vec<ShardMetrics>, topics: Vec<TopicMetrics>) -> WorkerMetrics {
        let observed = |metrics| ObservedShard { metrics, unavailable_seen: 0, refusals_seen: Default::default() };
        WorkerMetrics { shards: shards.into_iter().map(observed).collect(), topics }
    }

    /// Brings the registry up to date.
    pub fn observe<D: Disk>(&mut self, worker: &mut Worker<D, LocalLog<D>>) {
        for (observed, shard) in self.shards.iter_mut().zip(worker.shards_mut()) {
            observed.observe(shard);
        }
    }

    /// The same for shards of topics.
    pub fn observe_topics<D: Disk>(&mut self, shards: &mut [TopicShard<LocalLog<D>>]) {
        for (metrics, shard) in self.topics.iter().zip(shards) {
            metrics.observe(shard);
        }
    }
}

impl ObservedShard {
    fn observe<D: Disk>(&mut self, shard: &mut LedgerShard<D, LocalLog<D>>) {
        let metrics = &self.metrics;
        let (facts, counted) = (shard.facts(), shard.service().facts());
        metrics.applied.follow(counted.applied);
        metrics.duplicates.follow(counted.duplicates);
        metrics.refused.follow(counted.refused);
        metrics.inbox_depth.set(facts.inbox as i64);
        metrics.uncommitted_replies.set(facts.waiting as i64);
        metrics.accounts.set(i64::from(shard.state_ahead().slots()));
        metrics.holds_open.set(shard.state_ahead().open_holds() as i64);
        metrics.journal_groups.follow(facts.groups);
        metrics.journal_sequence.set(shard.appended().0 as i64);
        metrics
            .unavailable
            .add("any", facts.unavailable - std::mem::replace(&mut self.unavailable_seen, facts.unavailable));
        follow_all(&metrics.refusals, shard.service().refusals(), &mut self.refusals_seen);
        let ids = shard.service().ids().facts();
        metrics.ids_runs.set(ids.runs as i64);
        metrics.ids_entries.set(ids.entries as i64);
        metrics.ids_filter_bytes.set(ids.filter_bytes as i64);
        metrics.ids_memory_bytes.set(ids.memory_bytes as i64);
        metrics.ids_run_bytes.set(ids.run_bytes as i64);
        metrics.ids_disk_reads.follow(ids.pages_read);
        metrics.ids_false_positives.follow(ids.false_positives);
        metrics.ids_retries.follow(ids.retries);
        let audit = shard.service().last_audit();
        metrics.audit_sequence.set(audit.sequence as i64);
        metrics.audit_accounts_compared.set(audit.accounts_compared as i64);
        metrics.audit_differences.set(audit.differences.len() as i64 + i64::from(audit.damage.is_some()));
        shard.log_mut().take_facts(&mut |batch| {
            metrics.group_records.record(batch.records.into());
            metrics.group_bytes.record(batch.bytes.into());
            metrics.journal_bytes.add(batch.bytes.into());
            metrics.append_latency.record(batch.write_ns);
            metrics.sync_latency.record(batch.sync_ns);
            metrics.reply_latency.record(batch.durable_ns);
        });
    }
}

fn follow_all(
    family: &CounterFamily,
    totals: &std::collections::BTreeMap<&'static str, u64>,
    seen: &mut std::collections::BTreeMap<&'static str, u64>,
) {
    for (code, total) in totals {
        let before = seen.insert(code, *total).unwrap_or_default();
        family.add(code, total - before);
    }
}
