//! Tells the witnesses how far the logs are durable: once a second, and a last time when all logs are closed.
//!
//! ```text
//!   log ── DurableEnd ──▶ thread "witness" ──▶ <folder>/<directory>-<family>-<n>.witness
//! ```
//!
//! Why a thread of its own: the witness is on another disk, and no log may wait for that.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tidegate_journal::disk::RealDisk;
use tidegate_journal::witness::{Testimony, Witness};
use tidegate_journal::{DurableEnd, Timeline};

/// Between two rounds.
const EVERY: Duration = Duration::from_secs(1);

/// A log with a witness.
pub struct Witnessed {
    /// Its file.
    pub witness: Witness<RealDisk>,
    /// How far it is durable.
    pub end: DurableEnd,
    /// In which timeline; none begins while a log is served.
    pub timeline: Timeline,
}

/// Writes what changed, until whoever has the other end of `stopped` lets go of it. A witness that cannot be written is
/// said once, until it can be again.
pub fn run(logs: &[Witnessed], stopped: &Receiver<()>) {
    let mut said = vec![None; logs.len()];
    let mut failed = vec![false; logs.len()];
    loop {
        let is_over = matches!(stopped.recv_timeout(EVERY), Err(RecvTimeoutError::Disconnected));
        for (index, log) in logs.iter().enumerate() {
            let cursor = log.end.cursor();
            if said[index] == Some(cursor) {
                continue;
            }
            match log.witness.write(&Testimony { cursor, timeline: log.timeline }) {
                Ok(()) => (said[index], failed[index]) = (Some(cursor), false),
                Err(error) if !failed[index] => {
                    failed[index] = true;
                    tracing::warn!(%error, "a witness cannot be told how far its log is durable; the log goes on");
                }
                Err(_) => {}
            }
        }
        if is_over {
            return;
        }
    }
}
