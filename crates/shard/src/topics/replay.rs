//! Start-up: from files to the state that a shard of topics goes on with.
//!
//! ```text
//!   newest good snapshot ─▶ state ◀─ records behind it, which must all be there
//!          └ its cursor ─▶ the log is opened with it
//! ```
//!
//! Promise: every record that is replayed was verified (checksum, chain) and fits the state. A damaged snapshot is passed over for
//! an older one: the log reaches back as far as the oldest one kept, see [`super::compact`].

use std::path::Path;

use tidegate_journal::disk::Disk;
use tidegate_journal::{Cursor, Durability, LogReader, LogStore, Sequence};
use tidegate_machines::ShardIndex;
use tidegate_machines::topic::Topics;

use super::fold::{FoldError, fold_group};
use crate::snapshot;

/// Where a replay begins.
pub struct Start {
    /// Open the log with this: nothing before it need be there.
    pub cursor: Cursor,
    /// The state at that place.
    pub state: Topics,
    /// Snapshots that could not be used, in words.
    pub passed_over: Vec<String>,
}

/// What a replay did.
#[derive(Clone, Debug, Default)]
pub struct ReplayReport {
    /// Sequence of the snapshot it began from; zero for none.
    pub snapshot_sequence: u64,
    /// Snapshots that could not be used, in words.
    pub snapshots_passed_over: Vec<String>,
    /// Records applied.
    pub events: u64,
}

/// The newest good snapshot of `shard`, or the empty state at the beginning. Reads one after the other until one is good.
pub fn start<D: Disk>(disk: &D, data: &Path, shard: ShardIndex) -> Start {
    let mut passed_over = Vec::new();
    match snapshot::newest_first(disk, data, shard) {
        Err(error) => passed_over.push(error.to_string()),
        Ok(snapshots) => {
            for found in snapshots {
                match found {
                    Ok((cursor, state)) => return Start { cursor, state, passed_over },
                    Err(error) => passed_over.push(error.to_string()),
                }
            }
        }
    }
    Start { cursor: Cursor::START, state: Topics::new(shard), passed_over }
}

/// Folds `log`, which was opened with the cursor of `start`, up to `durable`, its end. `progress` hears the sequence reached, now and then.
pub fn replay<L: LogStore>(
    log: &L,
    durable: &Durability,
    shard: ShardIndex,
    start: Start,
    mut progress: impl FnMut(Sequence),
) -> Result<(Topics, ReplayReport), FoldError> {
    let Start { cursor, mut state, passed_over } = start;
    let snapshot_sequence = cursor.sequence.0;
    let mut report = ReplayReport { snapshot_sequence, snapshots_passed_over: passed_over, events: 0 };
    let mut groups = log.reader()?.groups(cursor, durable)?;
    while let Some(records) = fold_group(&mut state, shard, &mut groups)? {
        report.events += records;
        progress(groups.cursor().sequence);
    }
    Ok((state, report))
}
