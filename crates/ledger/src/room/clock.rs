//! The clock of this host compared with the newest record of a shard, before anything is decided by it.
//!
//! ```text
//!                     newest record
//!   ── more than a minute ──┤ near ├── a week ──┤ quiet ├── a year, with open holds ──▶
//!      told: time goes on   │      │             │ told  │  the start is refused: they would expire at once
//!      from the record      │      │             │       │
//! ```

use std::path::Path;

use anyhow::{Result, bail};
use tidegate_machines::TimeMs;
use tidegate_machines::ledger::Ledger;

use crate::family::LEDGER;
use crate::limits::{DAY_MS, LEDGER_AHEAD_MS_MAX, LEDGER_BEHIND_MS_MAX, LEDGER_QUIET_MS_MAX};

/// How a clock stands to the newest record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// Near enough, or nothing was decided yet.
    Near,
    /// The record is ahead by so many milliseconds.
    Behind(u64),
    /// The clock is ahead by so many days, which may be true.
    Quiet(u64),
    /// The clock is ahead by so many days, and open holds would expire by that.
    EndsHolds(u64),
}

fn judge(newest: TimeMs, open_holds: usize, wall: TimeMs) -> Stands {
    let (ahead_ms, behind_ms) = (newest.0.saturating_sub(wall.0), wall.0.saturating_sub(newest.0));
    match behind_ms / DAY_MS {
        _ if ahead_ms > LEDGER_AHEAD_MS_MAX => Stands::Behind(ahead_ms),
        days if behind_ms > LEDGER_BEHIND_MS_MAX && open_holds > 0 => Stands::EndsHolds(days),
        days if behind_ms > LEDGER_QUIET_MS_MAX && newest > TimeMs(0) => Stands::Quiet(days),
        _ => Stands::Near,
    }
}

/// Compares the clock `wall` of this host with the newest record of a shard in the directory `data`. `Err` if holds
/// would expire by it.
pub(super) fn check(ledger: &Ledger, data: &Path, wall: TimeMs) -> Result<()> {
    let (family, shard) = (LEDGER.name, ledger.shard().0);
    let mend = format!("tidegate mend-time --data {} --to now --reason TEXT", data.display());
    match judge(ledger.time(), ledger.open_holds(), wall) {
        Stands::Near => {}
        Stands::Behind(ahead_ms) => tracing::error!(
            family,
            shard,
            ahead_ms,
            "the newest record is ahead of this host's clock: new records go on from its time. If the clock is wrong, \
             correct it; if it is right, stop the server and run: {mend}"
        ),
        Stands::EndsHolds(days) => bail!(
            "{family} shard {shard}: the clock of this host is {days} days ahead of the newest record, so {} open \
             holds would expire at once. If the clock is wrong, correct it. If it is right, let the holds keep the \
             time that was left to them: {mend}",
            ledger.open_holds()
        ),
        Stands::Quiet(days) => tracing::warn!(
            family,
            shard,
            days,
            "the clock of this host is ahead of the newest record by so many days. If nothing was decided for so long, \
             all is well; else correct the clock before something is: the time of records does not go back"
        ),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
