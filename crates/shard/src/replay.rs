//! Start-up: from files to the state that a shard goes on with.
//!
//! ```text
//!   newest good snapshot ──▶ ledger ◀── events behind it ──┐
//!                                                          ├── journal
//!   id runs on disk ───────▶ ids    ◀── ids behind them ───┘
//! ```
//!
//! Promise: every record that is replayed was verified (checksum, chain) and fits the state (slots, balances, back pointers). What
//! does not fit is reported with its place, and the shard is not served.

use std::path::Path;

use tidegate_journal::disk::Disk;
use tidegate_journal::{Cursor, Durability, JournalError, LogReader, LogStore, Position, Sequence};
use tidegate_machines::ledger::{Event, Ledger};
use tidegate_machines::{RecordPosition, ShardIndex};

use crate::ids::{IdIndex, IdsError};
use crate::planted::{Bug, is_planted};
use crate::snapshot;

/// Why a shard cannot be brought back.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The journal cannot be read, or is damaged.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The id index cannot be written.
    #[error(transparent)]
    Ids(#[from] IdsError),
    /// A verified record does not fit what came before it: it was written by a faulty program, or forged.
    #[error("shard {shard}: record {sequence} at position {position} does not fit the ledger: {what}")]
    Misfit {
        /// Shard.
        shard: ShardIndex,
        /// Its sequence.
        sequence: Sequence,
        /// Its position.
        position: Position,
        /// What is wrong.
        what: String,
    },
}

/// What a replay did.
#[derive(Clone, Debug, Default)]
pub struct ReplayReport {
    /// Sequence of the snapshot it began from; zero for none.
    pub snapshot_sequence: u64,
    /// Snapshots that could not be used, in words.
    pub snapshots_passed_over: Vec<String>,
    /// Records applied to the ledger.
    pub events: u64,
    /// Records read only for their ids.
    pub ids_only: u64,
}

/// Folds the journal, which is durable up to `durable`, behind the newest good snapshot, and the ids behind those that `ids` covers. `progress` hears the sequence
/// reached, now and then.
pub fn replay<D: Disk, L: LogStore>(
    log: &L,
    durable: &Durability,
    disk: &D,
    data: &Path,
    shard: ShardIndex,
    shard_count: u16,
    ids: &mut IdIndex<D>,
    mut progress: impl FnMut(Sequence),
) -> Result<(Ledger, ReplayReport), ReplayError> {
    let (end, covered) = (log.last_sequence(), ids.covered());
    let (state_at, mut ledger, read_from, mut report) = starting_point(disk, data, shard, shard_count, covered, end);
    let mut reader = log.reader()?.groups(read_from, durable)?;
    while let Some(group) = reader.next_group()? {
        let mut reached = group.base;
        for (sequence, position, bytes) in group.records() {
            let misfit = |what: String| ReplayError::Misfit { shard, sequence, position, what };
            let event = Event::decode(bytes).map_err(|error| misfit(error.to_string()))?;
            if sequence > state_at.sequence {
                ledger
                    .apply_checked(&event, RecordPosition(position.0))
                    .map_err(|mismatch| misfit(mismatch.to_string()))?;
                report.events += 1;
            } else {
                report.ids_only += 1;
            }
            if position > covered
                && !is_planted(Bug::IdsLostOverRestart)
                && let Some(id) = event.id()
            {
                ids.insert(ids.hash(id.as_bytes()), position);
            }
            reached = position;
        }
        // An error of the disk (no room for a run) ends the start with words, where trying again would end in silence.
        ids.catch_up(reached)?;
        progress(Sequence(group.first_sequence.0 + u64::from(group.record_count)));
    }
    Ok((ledger, report))
}

/// The newest snapshot for the ledger, and the place from which both the ledger and the ids miss nothing.
fn starting_point<D: Disk>(
    disk: &D,
    data: &Path,
    shard: ShardIndex,
    shard_count: u16,
    covered: Position,
    end: Sequence,
) -> (Cursor, Ledger, Cursor, ReplayReport) {
    let mut report = ReplayReport::default();
    let mut best: Option<(Cursor, Ledger)> = None;
    let mut read_from = Cursor::START;
    match snapshot::newest_first(disk, data, shard) {
        Err(error) => report.snapshots_passed_over.push(error.to_string()),
        Ok(snapshots) => {
            for found in snapshots {
                match found {
                    Ok((cursor, _)) if cursor.sequence > end => {
                        let passed =
                            format!("snapshot at sequence {} is ahead of the journal's end {end}", cursor.sequence);
                        report.snapshots_passed_over.push(passed);
                    }
                    Ok((cursor, ledger)) => {
                        best.get_or_insert((cursor, ledger));
                        if cursor.position <= covered {
                            read_from = cursor;
                            break;
                        }
                    }
                    Err(error) => report.snapshots_passed_over.push(error.to_string()),
                }
            }
        }
    }
    let (state_at, ledger) = best.unwrap_or_else(|| (Cursor::START, Ledger::new(shard, shard_count)));
    report.snapshot_sequence = state_at.sequence.0;
    (state_at, ledger, read_from, report)
}
