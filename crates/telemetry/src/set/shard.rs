//! What a shard counts: the ledger's answers, the journal's work, the auditor's findings.

use crate::counter::Counter;
use crate::family::CounterFamily;
use crate::gauge::Gauge;
use crate::histogram::Histogram;
use crate::metric::Metric;
use crate::registry::Registry;

const OUTCOMES: Metric = Metric::plain("tidegate_outcomes_total", "Transfers and holds decided, by outcome.");
const REFUSALS: Metric = Metric::plain("tidegate_refusals_total", "Transfers and holds refused, by code.");
const UNAVAILABLE: Metric =
    Metric::plain("tidegate_shard_unavailable_total", "Requests that the shard did not decide, by reason.");
const INBOX_DEPTH: Metric = Metric::plain("tidegate_inbox_depth", "Requests waiting to be decided.");
const UNCOMMITTED: Metric =
    Metric::plain("tidegate_uncommitted_replies", "Replies waiting for their record to be durable.");
const ACCOUNTS: Metric = Metric::plain("tidegate_accounts", "Accounts open.");
const HOLDS_OPEN: Metric = Metric::plain("tidegate_holds_open", "Holds neither posted, voided nor expired.");
const GROUPS: Metric = Metric::plain("tidegate_journal_groups_total", "Commit groups made durable.");
const GROUP_RECORDS: Metric = Metric::plain("tidegate_group_records", "Records in a commit group.");
const GROUP_BYTES: Metric = Metric::plain("tidegate_group_bytes", "Bytes in a commit group.");
const JOURNAL_BYTES: Metric = Metric::plain("tidegate_journal_bytes_total", "Bytes appended to the journal.");
const JOURNAL_SEQUENCE: Metric = Metric::plain("tidegate_journal_sequence", "Last durable group's sequence.");
const APPEND_SECONDS: Metric = Metric::nanoseconds("tidegate_append_seconds", "Writing a group to its segment.");
const SYNC_SECONDS: Metric = Metric::nanoseconds("tidegate_sync_seconds", "Waiting for the disk to have a group.");
const REPLY_SECONDS: Metric =
    Metric::nanoseconds("tidegate_reply_seconds", "From a request taken from the inbox to its reply released.");
const IDS_RUNS: Metric = Metric::plain("tidegate_ids_runs", "Sorted runs of the index of transfer ids.");
const IDS_ENTRIES: Metric = Metric::plain("tidegate_ids_entries", "Transfer ids known.");
const IDS_FILTER_BYTES: Metric = Metric::plain("tidegate_ids_filter_bytes", "Memory of the filters over those runs.");
const IDS_MEMORY_BYTES: Metric =
    Metric::plain("tidegate_ids_memory_bytes", "Memory of the index of transfer ids, filters included.");
const IDS_RUN_BYTES: Metric = Metric::plain("tidegate_ids_run_bytes", "Bytes on disk of those runs.");
const IDS_DISK_READS: Metric =
    Metric::plain("tidegate_ids_disk_reads_total", "Pages of runs that look-ups of ids read.");
const IDS_FALSE_POSITIVES: Metric = Metric::plain(
    "tidegate_ids_false_positives_total",
    "New ids that the filter took for known; when they grow, the filter is too small.",
);
const IDS_RETRIES: Metric =
    Metric::plain("tidegate_ids_retries_total", "Errors of the disk while runs were written; each is tried again.");
const SNAPSHOT_SEQUENCE: Metric = Metric::plain("tidegate_snapshot_sequence", "Sequence of the newest good snapshot.");
const AUDIT_SEQUENCE: Metric = Metric::plain("tidegate_audit_sequence", "Sequence of the last reconciliation.");
const AUDIT_ACCOUNTS: Metric =
    Metric::plain("tidegate_audit_accounts_compared", "Accounts compared by the last reconciliation.");
const AUDIT_DIFFERENCES: Metric =
    Metric::plain("tidegate_audit_differences", "Figures that the last reconciliation found to differ.");
const RECOVERY_SECONDS: Metric =
    Metric::nanoseconds("tidegate_recovery_seconds", "How long the last start took to replay the journal.");
const RECOVERY_RECORDS: Metric =
    Metric::plain("tidegate_recovery_records", "Records replayed by the last start, after the snapshot.");

/// One shard's metrics, label `shard`. For one thread, the one that runs the shard.
#[derive(Debug)]
pub struct ShardMetrics {
    /// Outcome `applied`.
    pub applied: Counter,
    /// Outcome `duplicate`.
    pub duplicates: Counter,
    /// Outcome `refused`; by code in `refusals`.
    pub refused: Counter,
    /// Refusals by code: `insufficient_funds` ...
    pub refusals: CounterFamily,
    /// Requests not decided, by reason: `busy`, `disk_full` ...
    pub unavailable: CounterFamily,
    /// Requests waiting to be decided.
    pub inbox_depth: Gauge,
    /// Replies waiting for their record to be durable.
    pub uncommitted_replies: Gauge,
    /// Accounts open.
    pub accounts: Gauge,
    /// Holds neither posted, voided nor expired.
    pub holds_open: Gauge,
    /// Commit groups made durable.
    pub journal_groups: Counter,
    /// Records in a commit group.
    pub group_records: Histogram,
    /// Bytes in a commit group.
    pub group_bytes: Histogram,
    /// Bytes appended to the journal.
    pub journal_bytes: Counter,
    /// Last durable group's sequence.
    pub journal_sequence: Gauge,
    /// Writing a group to its segment, nanoseconds.
    pub append_latency: Histogram,
    /// Waiting for the disk to have a group, nanoseconds.
    pub sync_latency: Histogram,
    /// From a request taken from the inbox to its reply released, nanoseconds.
    pub reply_latency: Histogram,
    /// Sorted runs of the index of transfer ids.
    pub ids_runs: Gauge,
    /// Transfer ids known.
    pub ids_entries: Gauge,
    /// Memory of the filters over those runs, bytes.
    pub ids_filter_bytes: Gauge,
    /// Memory of the whole index, bytes.
    pub ids_memory_bytes: Gauge,
    /// Bytes of the runs.
    pub ids_run_bytes: Gauge,
    /// Pages of runs that look-ups read.
    pub ids_disk_reads: Counter,
    /// New ids that the filter took for known.
    pub ids_false_positives: Counter,
    /// Errors of the disk while runs were written.
    pub ids_retries: Counter,
    /// Sequence of the newest good snapshot.
    pub snapshot_sequence: Gauge,
    /// Sequence of the last reconciliation.
    pub audit_sequence: Gauge,
    /// Accounts compared by the last reconciliation.
    pub audit_accounts_compared: Gauge,
    /// Figures that the last reconciliation found to differ.
    pub audit_differences: Gauge,
    /// How long the last start took to replay, nanoseconds.
    pub recovery_nanoseconds: Gauge,
    /// Records replayed by the last start, after the snapshot.
    pub recovery_records: Gauge,
}

impl ShardMetrics {
    /// Registers the metrics of shard number `shard`.
    pub fn register(registry: &Registry, shard: u16) -> ShardMetrics {
        let recorder = registry.recorder(&[("shard", &shard.to_string())]);
        let outcome = |outcome: &str| recorder.counter_with(OUTCOMES, &[("outcome", outcome)]);
        ShardMetrics {
            applied: outcome("applied"),
            duplicates: outcome("duplicate"),
            refused: outcome("refused"),
            refusals: recorder.counter_family(REFUSALS, "code"),
            unavailable: recorder.counter_family(UNAVAILABLE, "reason"),
            inbox_depth: recorder.gauge(INBOX_DEPTH),
            uncommitted_replies: recorder.gauge(UNCOMMITTED),
            accounts: recorder.gauge(ACCOUNTS),
            holds_open: recorder.gauge(HOLDS_OPEN),
            journal_groups: recorder.counter(GROUPS),
            group_records: recorder.histogram(GROUP_RECORDS),
            group_bytes: recorder.histogram(GROUP_BYTES),
            journal_bytes: recorder.counter(JOURNAL_BYTES),
            journal_sequence: recorder.gauge(JOURNAL_SEQUENCE),
            append_latency: recorder.histogram(APPEND_SECONDS),
            sync_latency: recorder.histogram(SYNC_SECONDS),
            reply_latency: recorder.histogram(REPLY_SECONDS),
            ids_runs: recorder.gauge(IDS_RUNS),
            ids_entries: recorder.gauge(IDS_ENTRIES),
            ids_filter_bytes: recorder.gauge(IDS_FILTER_BYTES),
            ids_memory_bytes: recorder.gauge(IDS_MEMORY_BYTES),
            ids_run_bytes: recorder.gauge(IDS_RUN_BYTES),
            ids_disk_reads: recorder.counter(IDS_DISK_READS),
            ids_false_positives: recorder.counter(IDS_FALSE_POSITIVES),
            ids_retries: recorder.counter(IDS_RETRIES),
            snapshot_sequence: recorder.gauge(SNAPSHOT_SEQUENCE),
            audit_sequence: recorder.gauge(AUDIT_SEQUENCE),
            audit_accounts_compared: recorder.gauge(AUDIT_ACCOUNTS),
            audit_differences: recorder.gauge(AUDIT_DIFFERENCES),
            recovery_nanoseconds: recorder.gauge(RECOVERY_SECONDS),
            recovery_records: recorder.gauge(RECOVERY_RECORDS),
        }
    }
}
