//! Compaction: the records of old segments become a snapshot, so that a log of topics stays as small as what it is about.
//!
//! ```text
//!   snapshot 1 ───────┐                    1. newest good snapshot, and the sealed segments behind it
//!   │ segment │ segment │ segment │ being written …
//!                       └─▶ snapshot 2     2. written, durable
//!   └ forgotten ┘                          3. what stands before snapshot 1 is removed
//! ```
//!
//! Why what lies between the two snapshots stays: should the newer one turn out damaged, the older one and the log still give
//! everything. And what is forgotten was, each time, in a snapshot that has just been read whole and found good: nothing goes on the
//! strength of a file that nobody has looked at since it was written.
//!
//! Everything is read from files, none of it from the shard: a thread of low priority does this beside a shard that serves, which
//! need not even know. It holds one state and one snapshot's bytes while it runs, and nothing before or after.

use std::path::{Path, PathBuf};

use tidegate_journal::disk::Disk;
use tidegate_journal::{Cursor, Forgotten, JournalError, LogId, LogReader};
use tidegate_machines::ShardIndex;
use tidegate_machines::topic::Topics;

use super::fold::{FoldError, fold_group};
use super::replay::start;
use crate::families;
use crate::snapshot::{self, SnapshotError};

/// Why no snapshot was made. The log is as it was, and the next attempt begins anew.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// The log cannot be folded.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// The log cannot be looked at, or its old segments not removed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The snapshot cannot be written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// What a compaction did.
#[derive(Clone, Debug)]
pub struct Compaction {
    /// The new snapshot.
    pub snapshot: PathBuf,
    /// Its place in the log.
    pub cursor: Cursor,
    /// Records folded.
    pub events: u64,
    /// What the log forgot.
    pub forgotten: Forgotten,
    /// Older snapshots that could not be used, in words.
    pub passed_over: Vec<String>,
}

/// Makes a snapshot of a shard of topics if at least `bytes_min` of sealed log lie behind its newest one, and lets
/// the log forget what stands before the one it began from. `None`: not worth it yet, or `go_on` said no, which it is asked after
/// each group.
pub fn compact<D: Disk>(
    disk: &D,
    data: &Path,
    log: LogId,
    bytes_min: u64,
    mut go_on: impl FnMut() -> bool,
) -> Result<Option<Compaction>, CompactError> {
    let shard = ShardIndex(log.shard);
    let reader = families::reader(disk, data, log)?;
    let end = reader.settled_end()?;
    let covered = snapshot::newest_cursor::<D, Topics>(disk, data, shard)?.unwrap_or(Cursor::START);
    if end.position().0.saturating_sub(covered.position.0) < bytes_min {
        return Ok(None);
    }
    let begin = start(disk, data, shard);
    let mut state = begin.state;
    let mut groups = reader.groups(begin.cursor, &end)?;
    let mut events = 0;
    while let Some(records) = fold_group(&mut state, shard, &mut groups)? {
        events += records;
        if !go_on() {
            return Ok(None);
        }
    }
    let cursor = groups.cursor();
    let snapshot = snapshot::write(disk, data, shard, cursor, &state)?;
    let forgotten = reader.forget_before(begin.cursor.position)?;
    Ok(Some(Compaction { snapshot, cursor, events, forgotten, passed_over: begin.passed_over }))
}
