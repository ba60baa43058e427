//! The families of logs that shards keep, and how such logs are read apart from their shards.

use std::path::Path;

use tidegate_journal::disk::Disk;
use tidegate_journal::{Family, JournalError, LocalLog, LocalLogs, LogId, LogStore, Logs, Retention};

/// Shards of the ledger: whole for ever, from the first record on.
pub const LEDGER: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };

/// Shards of topics: what a snapshot has folded in may be forgotten.
pub const TOPICS: Family = Family { number: 2, name: "topics", retention: Retention::SinceSnapshot };

/// All of them.
pub const FAMILIES: [Family; 2] = [LEDGER, TOPICS];

/// What reads a log of the data directory on a disk.
pub(crate) type Reader<D> = <LocalLog<D> as LogStore>::Reader;

/// A reader of `log` in the data directory `data`.
pub(crate) fn reader<D: Disk>(disk: &D, data: &Path, log: LogId) -> Result<Reader<D>, JournalError> {
    LocalLogs::new(disk.clone(), data, &FAMILIES).reader(log)
}
