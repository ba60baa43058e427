//! Where the logs of a data directory are cut while a server writes them.
//!
//! ```text
//!   of each family:  ends of all logs ─▶ base   ends again ─▶ cut   ends again ─▶ bound    (looked up in this order)
//!                    close the cuts between base and bound ─▶ wait until the logs prove them durable
//! ```
//!
//! Promise: what was durable when the looking began is before the cuts. A cut is believed when the log itself says that
//! everything before it is durable; see `docs/formats/journal.md`.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, JournalError, LogFiles};

use crate::closure::{Missing, Window, close};
use crate::error::BackupError;
use crate::known::Known;

/// An idle log is marked within 20 ms, and one that is written proves itself with each group.
const PROOF_WITHIN: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);

/// Cuts all logs of a family, given in the order of their shards.
pub(crate) fn cut_family(known: &Known, logs: &[LogFiles<RealDisk>]) -> Result<Vec<Cursor>, BackupError> {
    let base = each(logs, |_, files| {
        let last = files.segments()?.last().copied().unwrap_or_default();
        Ok(files.tail(files.begins(last)?)?.end)
    })?;
    if logs.len() == 1 {
        return Ok(base);
    }
    let cut = each(logs, |shard, files| Ok(files.tail_again(base[shard])?.end))?;
    let bound = each(logs, |shard, files| Ok(files.tail_again(cut[shard])?.end))?;
    let mut windows = each(logs, |shard, files| Window::read(files, known, (base[shard], cut[shard], bound[shard])))?;
    close(&mut windows).map_err(|missing| inconsistent(known, missing))?;
    Ok(windows.iter().map(Window::cut).collect())
}

fn each<T>(
    logs: &[LogFiles<RealDisk>],
    of: impl Fn(usize, &LogFiles<RealDisk>) -> Result<T, JournalError>,
) -> Result<Vec<T>, JournalError> {
    logs.iter().enumerate().map(|(shard, files)| of(shard, files)).collect()
}

/// Logs that were never of one history.
pub(crate) fn inconsistent(known: &Known, Missing { by, of, position }: Missing) -> BackupError {
    let name = known.family.name;
    BackupError::Refused(format!(
        "{name} shard {by} rests on a record of {name} shard {of} at position {position}, which that log does not \
         have: the logs are not of one history. tidegate audit says what else is wrong"
    ))
}

/// Waits until the log proves that all before `end` is durable. Where nobody writes it, or nobody proves it, makes it
/// durable; returns whether it had to although somebody writes the log.
pub(crate) fn settle(files: &LogFiles<RealDisk>, end: Cursor, in_use: bool) -> Result<bool, BackupError> {
    let since = Instant::now();
    let mut tail = files.tail_again(end)?;
    while in_use && tail.proven < end.position && since.elapsed() < PROOF_WITHIN {
        sleep(LOOK);
        tail = files.tail_again(tail.end)?;
    }
    if tail.proven >= end.position {
        return Ok(false);
    }
    files.sync(end.position)?;
    Ok(in_use)
}
