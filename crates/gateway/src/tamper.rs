//! The planted fault that the online auditor must find: a live balance changed in memory, as a flipped bit would.
//!
//! Only under the feature `fault-injection`, which the tests of the binary turn on and no build that serves has.

use std::path::PathBuf;

use tidegate_journal::LocalLog;
use tidegate_journal::disk::RealDisk;
use tidegate_shard::worker::Worker;

/// The environment variable with the path of the file that says what to change.
pub const VARIABLE: &str = "TIDEGATE_TAMPER";

/// Looks for a file `ACCOUNT CHANGE`, such as `wallet:dave +5`; does what it says, once, and removes it.
#[derive(Debug)]
pub struct Tamper {
    file: Option<PathBuf>,
}

impl Tamper {
    /// Looks where the environment says; nowhere without the variable.
    pub fn from_env() -> Tamper {
        Tamper { file: std::env::var_os(VARIABLE).map(PathBuf::from) }
    }

    /// Changes the account if a shard of this worker has it; otherwise leaves the file for another worker.
    pub fn look(&self, worker: &mut Worker<RealDisk, LocalLog<RealDisk>>) {
        let Some(file) = &self.file else { return };
        let Ok(text) = std::fs::read_to_string(file) else { return };
        let Some((account, change)) = text.trim().split_once(' ') else { return };
        let Ok(change) = change.parse::<i64>() else { return };
        if worker.shards_mut().iter_mut().any(|shard| shard.ledger_mut().tamper_for_test(account, change)) {
            tracing::warn!(account, change, "a test changed a live balance");
            std::fs::remove_file(file).expect("the file was just read");
        }
    }
}
