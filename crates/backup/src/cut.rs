//! Where the logs of a data directory are cut while a server writes them.
//!
//! ```text
//!   of all families:  ends of all logs ─▶ base   ends again ─▶ cut   ends again ─▶ bound    (looked up in this order)
//!   of each family:   close the cuts between base and bound ─▶ wait until the logs prove them durable
//! ```
//!
//! Why all families together: a base is found by reading the newest segment of a log, which may take a second, and the
//! other two in some microseconds. What one family tells another between their two cuts only one of them has.
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

/// A family, and its logs in the order of their shards.
pub(crate) type OfFamily<'a> = (&'a Known, &'a [LogFiles<RealDisk>]);

/// Cuts all logs of these families, one family after the other: what an earlier one says that it has told a later one
/// is before the cuts of the latter.
pub(crate) fn cut_all(families: &[OfFamily<'_>]) -> Result<Vec<Vec<Cursor>>, BackupError> {
    let again = |before: &[Vec<Cursor>]| -> Result<Vec<Vec<Cursor>>, JournalError> {
        let of = |((_, logs), before): (&OfFamily<'_>, &Vec<Cursor>)| {
            each(logs, |shard, files| Ok(files.tail_again(before[shard])?.end))
        };
        families.iter().zip(before).map(of).collect()
    };
    let base = families.iter().map(|(_, logs)| each(logs, |_, files| end_of(files))).collect::<Result<Vec<_>, _>>()?;
    let cut = again(&base)?;
    let bound = again(&cut)?;
    let of = |(family, (known, logs)): (usize, &OfFamily<'_>)| {
        let (base, cut, bound) = (&base[family], &cut[family], &bound[family]);
        let window = |shard: usize, files: &_| Window::read(files, known, (base[shard], cut[shard], bound[shard]));
        let mut windows = each(logs, window)?;
        close(&mut windows).map_err(|missing| inconsistent(known, missing))?;
        Ok(windows.iter().map(Window::cut).collect())
    };
    families.iter().enumerate().map(of).collect()
}

fn end_of(files: &LogFiles<RealDisk>) -> Result<Cursor, JournalError> {
    let last = files.segments()?.last().copied().unwrap_or_default();
    Ok(files.tail(files.begins(last)?)?.end)
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
