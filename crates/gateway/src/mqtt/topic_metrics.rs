//! What one shard of topics counts.

use tidegate_broker::TopicShard;
use tidegate_journal::disk::Disk;
use tidegate_journal::{LocalLog, LogStore};
use tidegate_telemetry::{Counter, Gauge, Histogram, Metric, Registry};

const RECORDS: Metric = Metric::plain("tidegate_topics_records_total", "Records appended by shards of topics.");
const GROUPS: Metric = Metric::plain("tidegate_topics_groups_total", "Commit groups of shards of topics.");
const REFUSED: Metric = Metric::plain("tidegate_topics_refused_total", "Commands that the state forbade.");
const UNAVAILABLE: Metric =
    Metric::plain("tidegate_topics_unavailable_total", "Commands turned away because of the disk.");
const INBOX_DEPTH: Metric = Metric::plain("tidegate_topics_inbox_depth", "Commands waiting to be decided.");
const UNCOMMITTED: Metric = Metric::plain("tidegate_topics_uncommitted", "Decisions waiting to be durable.");
const SEQUENCE: Metric = Metric::plain("tidegate_topics_sequence", "Last record appended.");
const JOURNAL_BYTES: Metric = Metric::plain("tidegate_topics_journal_bytes_total", "Bytes appended to logs of topics.");
const SYNC_SECONDS: Metric =
    Metric::nanoseconds("tidegate_topics_sync_seconds", "Waiting for the disk to have a group of topics.");

/// One shard's metrics, label `shard`. For the thread that runs it.
pub struct TopicMetrics {
    records: Counter,
    groups: Counter,
    refused: Counter,
    unavailable: Counter,
    inbox_depth: Gauge,
    uncommitted: Gauge,
    sequence: Gauge,
    journal_bytes: Counter,
    sync_latency: Histogram,
}

impl TopicMetrics {
    /// Registers the metrics of shard number `shard`.
    pub fn register(registry: &Registry, shard: u16) -> TopicMetrics {
        let recorder = registry.recorder(&[("shard", &shard.to_string())]);
        TopicMetrics {
            records: recorder.counter(RECORDS),
            groups: recorder.counter(GROUPS),
            refused: recorder.counter(REFUSED),
            unavailable: recorder.counter(UNAVAILABLE),
            inbox_depth: recorder.gauge(INBOX_DEPTH),
            uncommitted: recorder.gauge(UNCOMMITTED),
            sequence: recorder.gauge(SEQUENCE),
            journal_bytes: recorder.counter(JOURNAL_BYTES),
            sync_latency: recorder.histogram(SYNC_SECONDS),
        }
    }

    /// Brings the registry up to date.
    pub fn observe<D: Disk>(&self, shard: &mut TopicShard<LocalLog<D>>) {
        let facts = shard.facts();
        self.records.follow(facts.records);
        self.groups.follow(facts.groups);
        self.refused.follow(shard.service().unrecorded());
        self.unavailable.follow(facts.unavailable);
        self.inbox_depth.set(facts.inbox as i64);
        self.uncommitted.set(facts.waiting as i64);
        self.sequence.set(shard.appended().0 as i64);
        shard.log_mut().take_facts(&mut |batch| {
            self.journal_bytes.add(batch.bytes.into());
            self.sync_latency.record(batch.sync_ns);
        });
    }
}
