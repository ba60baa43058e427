//! The auditor's key.

use tidegate_config::{Seconds, config};

config! {
    /// `[data]`, as far as the auditor goes.
    pub struct AuditKeys in "data" {
        audit_interval_s: Seconds = 60, 0..=31_536_000, restart,
            "seconds between reconciliations of all balances with the journal; 0 for none";
    }
}
