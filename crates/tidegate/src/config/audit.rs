//! The auditor's keys.

use tidegate_config::{PerSecond, Seconds, config};

config! {
    /// `[data]`, as far as the auditor goes.
    pub struct AuditKeys in "data" {
        audit_interval_s: Seconds = 60, 0..=31_536_000, restart,
            "seconds between reconciliations of all balances with the journal; 0 for none";
        scrub_bytes_per_s: PerSecond = 4 << 20, 0..=(16 << 30), restart,
            "bytes of stored journals and indexes that are read again to find damage: so many of the ledger's, and so \
             many of all others; 0 for never. A pass over a log begins with the start of the server, so a restart is \
             how to ask for one, and again 600 s after the last one began, or when that has ended. Damaged \
             places, and a quarter as much of the segments that are still being written, are looked at again every 4 s";
    }
}
