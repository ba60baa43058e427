//! The auditor's keys.

use tidegate_config::{Bytes, Seconds, config};

config! {
    /// `[data]`, as far as the auditor goes.
    pub struct AuditKeys in "data" {
        audit_interval_s: Seconds = 60, 0..=31_536_000, restart,
            "seconds between reconciliations of all balances with the journal; 0 for none";
        scrub_bytes_per_s: Bytes = 4 << 20, 0..=(16 << 30), restart,
            "how fast stored journals and indexes are read again to find damage, each second: the ledger's so much, and all others together so much; 0 for never";
    }
}
