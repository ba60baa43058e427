//! The metrics that all workers and all shards have. The labels `family` and `shard` tell shards apart.

use std::time::Duration;

use tidegate_journal::LogStore;
use tidegate_shard::{ReplayReport, Service, Shard};
use tidegate_telemetry::metrics;

use crate::scrub::ScrubFacts;
use crate::threads::now_ms;

metrics! {
    /// What one worker's loop counts. For its thread.
    pub struct LoopMetrics(worker) {
        ring_depth: Gauge "tidegate_ring_depth" "Messages waiting in all rings to a worker.";
        busy_nanoseconds: Counter
            "tidegate_worker_busy_seconds_total" "Time that a worker's loop did not wait for events.";
        longest_turn_nanoseconds: Gauge "tidegate_worker_longest_turn_seconds"
            "The longest turn of a worker's loop in the last seconds: everybody on it waited so long.";
        longest_turn_cpu_nanoseconds: Gauge "tidegate_worker_longest_turn_cpu_seconds"
            "The most processor time that one turn of a worker's loop took in the last seconds. What the longest turn \
             took beyond this, the worker had no core.";
    }
}

metrics! {
    /// The room of one log on its disk. For the thread that looks after it.
    pub struct RoomMetrics(family, shard) {
        disk_full: Gauge "tidegate_journal_disk_full"
            "1 while a log finds no more room on its disk, and writes are refused when what it has is used; else 0.";
        full_since_nanoseconds: Gauge "tidegate_journal_disk_full_since_seconds"
            "Since when a log finds no more room, in seconds since 1970; 0 while it does.";
    }
}

metrics! {
    /// The disk of the data directory. For the thread that looks after it.
    pub struct DiskMetrics() {
        free_bytes: Gauge "tidegate_disk_free_bytes" "Bytes of the disk of the data directory that are free.";
        size_bytes: Gauge "tidegate_disk_size_bytes" "Bytes of that disk.";
        full_in_nanoseconds: Gauge "tidegate_disk_full_in_seconds"
            "When journals will find no more room on that disk, data.disk_reserve_bytes left free, if it goes on \
             filling as in the last ten minutes; 0 while they find none, 3153600000 (a hundred years) if it does not \
             fill.";
    }
}

metrics! {
    /// The witness of one log. For the thread that writes it.
    pub struct WitnessMetrics(family, shard) {
        lost: Gauge "tidegate_witness_lost"
            "1 while the witness of a log cannot be written, so that nothing may prove it if the log loses its end; \
             else 0.";
    }
}

metrics! {
    /// The data directory. For the thread that looks after it.
    pub struct DirectoryMetrics() {
        fault: Gauge "tidegate_directory_fault"
            "1 while something is wrong with the data directory as a whole, as `directory` of `/healthz` says; else 0.";
    }
}

metrics! {
    /// The snapshots of one log. For the thread that writes them.
    pub struct SnapshotMetrics(family, shard) {
        failures: Counter "tidegate_snapshot_failures_total"
            "Times that a snapshot could not be written, or its log not be compacted.";
        failing: Gauge "tidegate_snapshot_failing" "1 if the last try failed; else 0.";
        misplaced: Counter "tidegate_snapshots_misplaced_total"
            "Snapshots of this directory that were found not to fit its journal: durable bytes are gone or exchanged.";
    }
}

metrics! {
    /// The reading again of one log. For the thread that reads it.
    pub struct ScrubMetrics(family, shard) {
        position: Gauge "tidegate_scrub_position" "Position in the journal that the pass under way has reached.";
        of: Gauge "tidegate_scrub_of" "Position in the journal at which a pass ends.";
        bytes: Counter "tidegate_scrub_bytes_total" "Bytes of the journal that were read again.";
        passes: Counter "tidegate_scrub_passes_total" "Times that the whole journal was read again.";
        damaged_places: Gauge "tidegate_damaged_places" "Places of the journal that cannot be read.";
        mended_bytes: Counter "tidegate_mended_bytes_total"
            "Bytes of the journal that were found wrong, each counted once, and are read as what had been written.";
    }
}

impl ScrubMetrics {
    /// Brings the registry up to date with how far the reading is, and the damage that is known.
    pub fn observe(&self, facts: &ScrubFacts, damaged_places: usize, mended_bytes: usize) {
        self.position.set(facts.position as i64);
        self.of.set(facts.of as i64);
        self.bytes.follow(facts.bytes);
        self.passes.follow(facts.passes);
        self.damaged_places.set(damaged_places as i64);
        self.mended_bytes.follow(mended_bytes as u64);
    }
}

/// The code of refusals where a shard counts what it answered without a record, and not why.
pub const UNRECORDED: &str = "unrecorded";

metrics! {
    /// One shard's metrics. For the thread that runs it.
    pub struct ShardMetrics(family, shard) {
        records: Counter "tidegate_shard_records_total" "Records appended.";
        refusals: CounterFamily(code) "tidegate_refusals_total"
            "Commands that the state refused, by code; \
             `unrecorded` are those of a shard that does not tell codes apart.";
        unavailable: Counter "tidegate_shard_unavailable_total" "Calls that the shard did not decide.";
        inbox_depth: Gauge "tidegate_inbox_depth" "Calls waiting to be decided.";
        calls_blocked: Gauge "tidegate_calls_blocked"
            "Calls that take note of what has happened and wait for room on a full disk.";
        uncommitted_replies: Gauge "tidegate_uncommitted_replies" "Replies waiting for their record to be durable.";
        reads_under_way: Gauge "tidegate_reads_under_way" "Reads of old records that other threads do for the shard.";
        journal_groups: Counter "tidegate_journal_groups_total" "Commit groups submitted to the journal.";
        group_records: Histogram "tidegate_group_records" "Records in a commit group.";
        group_bytes: Histogram "tidegate_group_bytes" "Bytes in a commit group.";
        journal_bytes: Counter "tidegate_journal_bytes_total" "Bytes appended to the journal.";
        time_ahead_nanoseconds: Gauge "tidegate_shard_time_ahead_seconds"
            "By how much the time of the newest record was ahead of the host's clock at the start, as far as that is \
             not made up for yet.";
        newest_ahead_nanoseconds: Gauge "tidegate_shard_newest_record_ahead_seconds"
            "How far the time of the newest record is ahead of the wall clock of the host now; 0 if it is not.";
        journal_sequence: Gauge "tidegate_journal_sequence" "Sequence of the last record appended.";
        append_latency: Histogram "tidegate_append_seconds" "Writing a group to its segment.";
        sync_latency: Histogram "tidegate_sync_seconds" "Waiting for the disk to have a group.";
        reply_latency: Histogram "tidegate_reply_seconds"
            "From a group submitted to all of it durable: how long its replies waited.";
        snapshot_sequence: Gauge "tidegate_recovery_snapshot_sequence"
            "Sequence of the snapshot that the last start began from; 0 if there was none.";
        recovery_nanoseconds: Gauge "tidegate_recovery_seconds" "How long the last start took to replay the journal.";
        recovery_over: Gauge "tidegate_recovery_over"
            "Things kept for a time that the last start found to be over by a clock more than an hour ahead of the \
             newest record.";
        recovery_records: Gauge "tidegate_recovery_records"
            "Records read by the last start, for the state or for an index beside it.";
    }
}

impl ShardMetrics {
    /// Records a shard's recovery: how long it took, and what was replayed.
    pub fn recovered(&self, took: Duration, report: &ReplayReport) {
        self.recovery_nanoseconds.set(took.as_nanos() as i64);
        self.recovery_records.set((report.events + report.derived_only) as i64);
        self.snapshot_sequence.set(report.snapshot_sequence as i64);
    }

    /// Brings the registry up to date with what any shard counts, and with what its log did since the last time.
    pub fn observe<S: Service, L: LogStore>(&self, shard: &mut Shard<S, L>) {
        let facts = shard.facts();
        self.records.follow(facts.records);
        self.unavailable.follow(facts.unavailable);
        self.inbox_depth.set(facts.inbox as i64);
        self.calls_blocked.set(facts.blocked as i64);
        self.uncommitted_replies.set(facts.waiting as i64);
        self.reads_under_way.set(facts.jobs as i64);
        self.journal_groups.follow(facts.groups);
        self.time_ahead_nanoseconds.set((facts.time_ahead_ms as i64).saturating_mul(1_000_000));
        let ahead_ms = facts.newest.0.saturating_sub(now_ms().0) as i64;
        self.newest_ahead_nanoseconds.set(ahead_ms.saturating_mul(1_000_000));
        self.journal_sequence.set(shard.appended().0 as i64);
        shard.log_mut().take_facts(&mut |batch| {
            self.group_records.record(batch.records.into());
            self.group_bytes.record(batch.bytes.into());
            self.journal_bytes.add(batch.bytes.into());
            self.append_latency.record(batch.write_ns);
            self.sync_latency.record(batch.sync_ns);
            self.reply_latency.record(batch.durable_ns);
        });
    }
}
