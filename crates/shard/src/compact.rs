//! Compaction: the records of old segments are replaced by a snapshot, so that the log stays about as small as the
//! state.
//!
//! ```text
//!   snapshot 1 ───────┐                    1. newest good snapshot, and the records behind it
//!   │ segment │ segment │ segment │ being written …
//!                       └─▶ snapshot 2     2. written, durable
//!   └ forgotten ┘                          3. what stands before snapshot 1 is forgotten
//! ```
//!
//! Why the records between the two snapshots stay: if the newer snapshot is damaged, the older one and the log still
//! give the state. Records are removed only if they are in a snapshot that was just read completely and verified, never
//! because of a file that was only written.
//!
//! On a disk that runs full, nothing waits for two more segments: [`Pressure`] says what is worth a snapshot then. When
//! no room is left, the snapshot is of the end of what is durable ([`compact_to`]): that messages were taken and
//! sessions have ended stands in the last segment, which nothing new would fill. A snapshot is written before anything
//! is forgotten, so logs leave some of the disk free for it ([`tidegate_journal::Options::reserve_bytes`]).
//!
//! Everything is read from the log's reader, nothing from the shard: a thread of low priority does this while the shard
//! serves. It holds one state and one snapshot's bytes while it runs.

use tidegate_disk::Disk;
use tidegate_journal::{Cursor, Durability, Forgotten, JournalError, LogReader, Position, Retention};
use tidegate_machines::{Machine, ShardIndex};
use tidegate_planted::{Bug, is_planted};

use crate::fold::{Fold, FoldError, stands_at};
use crate::service::ShardFamily;
use crate::snapshot::{SnapshotError, Snapshots, Stand, Written};

/// When another snapshot is worth its cost: when the log behind the newest one has grown to both of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionRule {
    /// Never for less than this, in bytes of log.
    pub floor_bytes: u64,
    /// Bytes of log for each byte of the newest snapshot: what a snapshot costs is written once for so much that was
    /// written.
    pub ratio: u64,
}

/// How much the disk lacks room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// There is enough.
    #[default]
    None,
    /// There is little: what can be forgotten is worth a snapshot of its size.
    Low,
    /// There is none: whatever can be forgotten is worth any snapshot.
    Full,
}

impl CompactionRule {
    /// The rule by which a log is compacted under this pressure.
    pub const fn under(self, pressure: Pressure) -> CompactionRule {
        match pressure {
            Pressure::None => self,
            Pressure::Low => CompactionRule { floor_bytes: self.floor_bytes / 4, ratio: 1 },
            Pressure::Full => CompactionRule { floor_bytes: 1, ratio: 0 },
        }
    }

    /// Whether `behind_bytes` of log behind a snapshot of `snapshot_bytes` make another one worth it.
    pub const fn is_due(&self, behind_bytes: u64, snapshot_bytes: u64) -> bool {
        behind_bytes >= self.floor_bytes && behind_bytes >= self.ratio.saturating_mul(snapshot_bytes)
    }
}

/// Why no snapshot was made. The log is as it was, and the next attempt begins anew.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// The log cannot be folded.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// The log cannot be looked at, or its old part not be forgotten.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The snapshot cannot be written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// What a compaction did.
#[derive(Clone, Debug)]
pub struct Compaction {
    /// Its place in the log.
    pub cursor: Cursor,
    /// Records folded.
    pub events: u64,
    /// What the log forgot.
    pub forgotten: Forgotten,
    /// Snapshots that it could not begin from, in words.
    pub passed_over: Vec<String>,
    /// What became of the other snapshots.
    pub written: Written,
}

/// Lets a log, durable up to `end`, of which nothing more can be folded forget all that stands before its newest
/// snapshot, and removes the older ones. That snapshot was just read completely and verified, and is the only one then:
/// for a disk that is full although [`compact`] did what it could.
pub fn forget_covered<F: ShardFamily, D: Disk, R: LogReader>(
    snapshots: &Snapshots<F, D>,
    reader: &R,
    end: &Durability,
) -> Result<Forgotten, CompactError> {
    if F::FAMILY.retention != Retention::SinceSnapshot {
        return Ok(Forgotten::default());
    }
    let Some((stand, state)) = snapshots.newest_standing(reader, end, &mut Vec::new())? else {
        return Ok(Forgotten::default());
    };
    let forgotten = reader.forget_before(needed_since(stand.cursor.position, &state))?;
    snapshots.remove_before(stand.cursor)?;
    Ok(forgotten)
}

/// Whether a snapshot stands behind all sealed segments, though not behind `end`, which is durable: it was made when
/// the disk was full ([`compact_to`]). Until more is sealed, [`compact`] has nothing to do, and may have nothing to
/// begin from.
pub fn covers_all_sealed<F: ShardFamily, D: Disk, R: LogReader>(
    snapshots: &Snapshots<F, D>,
    reader: &R,
    end: &Durability,
) -> Result<bool, CompactError> {
    let (sealed, newest) = (reader.settled_end()?, snapshots.newest_header(end.position())?);
    Ok(newest.is_some_and(|newest| newest.cursor.position > sealed.position()))
}

/// Makes a snapshot of the sealed segments of a shard, one of `shards`, if `rule` says that it is time, and lets the
/// log forget, if it may, what stands before the one it began from. `None`: not worth it yet, or `go_on` said no, which
/// it is asked after each group.
pub fn compact<F: ShardFamily, D: Disk, R: LogReader>(
    snapshots: &Snapshots<F, D>,
    reader: &R,
    shards: u16,
    rule: CompactionRule,
    go_on: impl FnMut() -> bool,
) -> Result<Option<Compaction>, CompactError> {
    compact_to(snapshots, reader, shards, &reader.settled_end()?, rule, go_on)
}

/// The same of all up to `end`, which is durable.
pub fn compact_to<F: ShardFamily, D: Disk, R: LogReader>(
    snapshots: &Snapshots<F, D>,
    reader: &R,
    shards: u16,
    end: &Durability,
    rule: CompactionRule,
    mut go_on: impl FnMut() -> bool,
) -> Result<Option<Compaction>, CompactError> {
    let newest = snapshots.newest_header(end.position())?;
    let (covered, snapshot_bytes) = newest.map_or((Cursor::START, 0), |newest| (newest.cursor, newest.bytes));
    if !rule.is_due(reader.bytes_between(covered.position, end.position()), snapshot_bytes) {
        return Ok(None);
    }
    let mut passed_over = Vec::new();
    let good = snapshots.newest_standing(reader, end, &mut passed_over)?;
    let log = snapshots.log();
    let (stand, state) = good.unwrap_or_else(|| (Stand::default(), F::Machine::new(ShardIndex(log.shard), shards)));
    let begin = stand.cursor;
    if begin.position >= end.position() {
        return Ok(None);
    }
    let mut fold = Fold::new(log, begin, stand, state);
    let mut groups = reader.groups(begin, end)?;
    while fold.next_group(&mut groups, |_, _| {})?.is_some() {
        if !go_on() {
            return Ok(None);
        }
    }
    let (cursor, events) = (groups.cursor(), fold.records());
    assert_eq!(cursor.position, end.position(), "all up to the end was folded");
    let stand = fold.stand().clone();
    assert_eq!(stand.cursor, cursor, "the state stands where the reading ended");
    let stands = |place| stands_at(reader, place, end);
    let state = fold.into_state()?;
    let written = snapshots.write(&stand, &state, stands)?;
    // What is forgotten is in as many snapshots as are kept, each of which was found there and good just now. What is
    // still read later needs no more than the newest state says: a record that it has let go of is not read again.
    let forgotten = match (F::FAMILY.retention, written.kept.get(F::SNAPSHOTS_KEPT - 1)) {
        (Retention::SinceSnapshot, Some(oldest)) => reader.forget_before(needed_since(oldest.position, &state))?,
        _ => Forgotten::default(),
    };
    Ok(Some(Compaction { written, cursor, events, forgotten, passed_over }))
}

/// What of a log is read again: from the snapshot at `covered` on, and what `state` keeps since.
pub fn needed_since<M: Machine>(covered: Position, state: &M) -> Position {
    state
        .keeps_since()
        .filter(|_| !is_planted(Bug::OldBodyForgotten))
        .map_or(covered, |since| covered.min(Position(since.0)))
}
