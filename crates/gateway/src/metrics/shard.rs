//! What every shard counts, whatever it is a shard of: one set of metrics, told apart by the label `family`.

use std::time::Duration;

use tidegate_broker::Waiting;
use tidegate_journal::disk::Disk;
use tidegate_journal::{LocalLog, Sequence};
use tidegate_shard::core::ShardFacts;
use tidegate_shard::topics::{TopicShard, TopicShardFacts};
use tidegate_telemetry::metrics;

/// Label `family` of shards of the ledger.
pub const LEDGER: &str = "ledger";
/// Label `family` of shards of topics.
pub const TOPICS: &str = "topics";

/// Where a shard has no codes or reasons to tell apart.
const ANY: &str = "any";

metrics! {
    /// One shard's metrics. For the thread that runs it.
    pub struct ShardMetrics(family, shard) {
        records: Counter "tidegate_shard_records_total" "Records appended.";
        refusals: CounterFamily(code) "tidegate_refusals_total" "Commands that the state refused, by code.";
        unavailable: CounterFamily(reason) "tidegate_shard_unavailable_total" "Calls that the shard did not decide, by reason.";
        inbox_depth: Gauge "tidegate_inbox_depth" "Calls waiting to be decided.";
        uncommitted_replies: Gauge "tidegate_uncommitted_replies" "Replies waiting for their record to be durable.";
        journal_groups: Counter "tidegate_journal_groups_total" "Commit groups submitted to the journal.";
        group_records: Histogram "tidegate_group_records" "Records in a commit group.";
        group_bytes: Histogram "tidegate_group_bytes" "Bytes in a commit group.";
        journal_bytes: Counter "tidegate_journal_bytes_total" "Bytes appended to the journal.";
        journal_sequence: Gauge "tidegate_journal_sequence" "Sequence of the last record appended.";
        append_latency: Histogram "tidegate_append_seconds" "Writing a group to its segment.";
        sync_latency: Histogram "tidegate_sync_seconds" "Waiting for the disk to have a group.";
        reply_latency: Histogram "tidegate_reply_seconds" "From a group submitted to all of it durable: how long its replies waited.";
        snapshot_sequence: Gauge "tidegate_snapshot_sequence" "Sequence of the snapshot that the last start began from.";
        recovery_nanoseconds: Gauge "tidegate_recovery_seconds" "How long the last start took to replay the journal.";
        recovery_records: Gauge "tidegate_recovery_records" "Records replayed by the last start, after the snapshot.";
    }
}

/// What shards of all families count since their start.
pub(super) struct ShardCounts {
    records: u64,
    groups: u64,
    unavailable: u64,
    inbox: u64,
    waiting: u64,
}

impl From<ShardFacts> for ShardCounts {
    fn from(facts: ShardFacts) -> ShardCounts {
        let ShardFacts { records, groups, unavailable, inbox, waiting, .. } = facts;
        ShardCounts { records, groups, unavailable, inbox, waiting }
    }
}

impl From<TopicShardFacts> for ShardCounts {
    fn from(facts: TopicShardFacts) -> ShardCounts {
        let TopicShardFacts { records, groups, unavailable, inbox, waiting, .. } = facts;
        ShardCounts { records, groups, unavailable, inbox, waiting }
    }
}

impl ShardMetrics {
    /// The shard goes on where it was: how long that took, how many records were replayed, from which snapshot on.
    pub fn recovered(&self, took: Duration, records: u64, snapshot_sequence: u64) {
        self.recovery_nanoseconds.set(took.as_nanos() as i64);
        self.recovery_records.set(records as i64);
        self.snapshot_sequence.set(snapshot_sequence as i64);
    }

    /// Brings the registry up to date with what any shard counts, and with what its log did since the last time.
    pub(super) fn follow<D: Disk>(&self, counts: ShardCounts, appended: Sequence, log: &mut LocalLog<D>) {
        self.records.follow(counts.records);
        self.unavailable.follow([(ANY, counts.unavailable)]);
        self.inbox_depth.set(counts.inbox as i64);
        self.uncommitted_replies.set(counts.waiting as i64);
        self.journal_groups.follow(counts.groups);
        self.journal_sequence.set(appended.0 as i64);
        log.drain_facts(|batch| {
            self.group_records.record(batch.records.into());
            self.group_bytes.record(batch.bytes.into());
            self.journal_bytes.add(batch.bytes.into());
            self.append_latency.record(batch.write_ns);
            self.sync_latency.record(batch.sync_ns);
            self.reply_latency.record(batch.durable_ns);
        });
    }

    /// Brings the registry up to date with a shard of topics.
    pub fn observe_topics<D: Disk>(&self, shard: &mut TopicShard<LocalLog<D>, Waiting>) {
        let facts = shard.facts();
        self.refusals.follow([(ANY, facts.refused)]);
        self.follow(facts.into(), shard.appended(), shard.log_mut());
    }
}
