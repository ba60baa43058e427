//! The auditor's keys.

use tidegate_config::{PerSecond, Seconds, config};

config! {
    /// `[data]`, as far as the auditor goes.
    pub struct AuditKeys in "data" {
        audit_interval_s: Seconds = 60, 0..=31_536_000, restart,
            "seconds between reconciliations of all balances with the journal; 0 for none";
        scrub_bytes_per_s: PerSecond = 4 << 20, 0..=(16 << 30), restart,
            "bytes of stored journals and indexes that are read again to find damage: so many of the ledger's, and so \
             many of all others; 0 for never";
    }
}
