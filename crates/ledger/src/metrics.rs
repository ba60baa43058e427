//! What a shard of the ledger counts beside what every shard counts.

use tidegate_disk::Disk;
use tidegate_journal::LogStore;
use tidegate_telemetry::{CounterFamily, metrics};

use crate::worker::LedgerShard;

metrics! {
    /// One ledger shard's own metrics. For the thread that runs it.
    pub struct LedgerMetrics(shard) {
        outcomes: CounterFamily(outcome: "applied" "duplicate" "refused")
            "tidegate_outcomes_total" "Transfers and holds decided, by outcome.";
        accounts: Gauge "tidegate_accounts" "Accounts open.";
        holds_open: Gauge "tidegate_holds_open" "Holds neither posted, voided nor expired.";
        ids_runs: Gauge "tidegate_ids_runs" "Sorted runs of the index of transfer ids.";
        ids_entries: Gauge "tidegate_ids_entries" "Transfer ids known.";
        ids_filter_bytes: Gauge "tidegate_ids_filter_bytes" "Memory of the filters over those runs.";
        ids_memory_bytes: Gauge "tidegate_ids_memory_bytes"
            "Memory of the index of transfer ids: filters, tables, fences.";
        ids_run_bytes: Gauge "tidegate_ids_run_bytes" "Bytes of the runs on the disk.";
        ids_false_positives: Counter
            "tidegate_ids_false_positives_total" "Look-ups that no filter settled and that found nothing.";
        ids_retries: Counter "tidegate_ids_retries_total" "I/O errors after which the builder of runs tried again.";
        ids_failing: Gauge
            "tidegate_ids_failing" "1 while runs of ids cannot be written: memory grows, and a restart takes longer.";
        ids_disk_reads: Counter "tidegate_ids_disk_reads_total" "Look-ups of ids that had to read the disk.";
        audit_sequence: Gauge "tidegate_audit_sequence" "Sequence of the last reconciliation.";
        audit_accounts_compared: Gauge
            "tidegate_audit_accounts_compared" "Accounts compared by the last reconciliation.";
        audit_differences: Gauge
            "tidegate_audit_differences" "Figures that the last reconciliation found to differ.";
        audit_holds_compared: Gauge
            "tidegate_audit_holds_compared" "Open holds compared by the last reconciliation.";
        audit_first_sequence: Gauge
            "tidegate_audit_first_sequence"
            "Sequence up to which the live state was shown to follow from the first record; 0 if it was not yet.";
        audit_not_conserved: Gauge
            "tidegate_audit_not_conserved" "Assets of which money was created or lost over all shards.";
        ids_damaged_places: Gauge
            "tidegate_ids_damaged_places" "Places of the index of transfer ids that cannot be read.";
        holds_stuck: Gauge
            "tidegate_holds_stuck" "Holds whose time is over and that stay, because their records are damaged.";
        credits_stuck: Gauge
            "tidegate_credits_stuck" "Other shards that wait for a credit whose debit is damaged.";
    }
}

impl LedgerMetrics {
    /// Brings the registry up to date with a shard of the ledger. `refusals` counts those of its state, by code.
    pub fn observe<D: Disk, L: LogStore>(&self, shard: &LedgerShard<D, L>, refusals: &CounterFamily) {
        let (ledger, service) = (shard.state_ahead(), shard.service());
        refusals.follow(service.refusals().iter().map(|(code, total)| (*code, *total)));
        let facts = service.facts();
        self.outcomes.follow([("applied", facts.applied), ("duplicate", facts.duplicates), ("refused", facts.refused)]);
        self.accounts.set(i64::from(ledger.slots()));
        self.holds_open.set(ledger.open_holds() as i64);
        let ids = service.ids().facts();
        self.ids_runs.set(ids.runs as i64);
        self.ids_entries.set(ids.entries as i64);
        self.ids_filter_bytes.set(ids.filter_bytes as i64);
        self.ids_memory_bytes.set(ids.memory_bytes as i64);
        self.ids_run_bytes.set(ids.run_bytes as i64);
        self.ids_disk_reads.follow(ids.pages_read);
        self.ids_false_positives.follow(ids.false_positives);
        self.ids_retries.follow(ids.retries);
        self.ids_failing.set(i64::from(ids.is_failing));
        let audit = service.last_audit();
        self.audit_sequence.set(audit.sequence as i64);
        self.audit_accounts_compared.set(audit.accounts_compared as i64);
        // Damage is no difference: nobody knows by it that a balance is wrong, and it has metrics of its own.
        self.audit_differences.set(audit.differences.len() as i64);
        self.audit_holds_compared.set(audit.holds_compared as i64);
        self.audit_first_sequence.set(audit.first_fold.agreed_at_sequence as i64);
        let not_conserved = audit.conservation.iter().filter(|of| of.sum != 0 || of.in_transit < 0).count();
        self.audit_not_conserved.set(not_conserved as i64);
        self.ids_damaged_places.set(service.ids_damage().len() as i64);
        self.holds_stuck.set(service.holds_stuck() as i64);
        self.credits_stuck.set(service.credits_stuck() as i64);
    }
}
