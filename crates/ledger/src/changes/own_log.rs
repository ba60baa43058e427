//! One shard's journal, as one reader has it: where it ends, and what a cursor meets that is not of it.

use std::sync::Arc;

use tidegate_journal::{DurableMark, JournalError, LogReader};

use super::ChangesError;
use super::cursor::ShardPlace;
use super::logs::SeenEnd;

/// One shard's journal, for one reader.
pub(super) struct OwnLog<R> {
    /// Reads it.
    pub log: R,
    /// How far it is durable.
    pub mark: Arc<DurableMark>,
    /// How far anybody has read it.
    pub seen: Arc<SeenEnd>,
}

impl<R: LogReader> OwnLog<R> {
    /// The durable end of the log: found from the furthest place that a reader has seen, or from the beginning of the
    /// last segment.
    pub fn end(&self) -> Result<ShardPlace, JournalError> {
        let settled = self.log.settled_end()?.cursor().expect("a reader has seen the group that it says ends there");
        let near = self.seen.get().filter(|seen| seen.position > settled.position).unwrap_or(settled);
        let end = self.mark.get();
        if near.position >= end.position() {
            return Ok(ShardPlace { group: near, passed: 0 });
        }
        let mut groups = self.log.groups(near, &end)?;
        while groups.next_group()?.is_some() {}
        self.seen.note(groups.cursor());
        Ok(ShardPlace { group: groups.cursor(), passed: 0 })
    }

    /// Behind a cursor at the end there is no group that could show that it is of another history. So the chain at the
    /// end is compared.
    pub fn check_end(&self, shard: usize, place: &ShardPlace) -> Result<(), ChangesError> {
        if place.group.position != self.mark.get().position() {
            return Ok(());
        }
        let end = self.end().map_err(|cause| unreadable(shard, cause))?.group;
        if end.position > place.group.position || end == place.group {
            return Ok(());
        }
        let what = format!("the journal ends there with sequence {}, chain {}", end.sequence, end.chain);
        Err(ChangesError::OtherHistory { shard: shard as u16, what })
    }
}

/// The journal of this shard cannot be read.
pub(super) fn unreadable(shard: usize, cause: JournalError) -> ChangesError {
    ChangesError::Unreadable { shard: shard as u16, cause }
}

/// What a cursor meets at whose place no group can be read. Where another history has the middle of a group, what
/// stands there looks like damage. So the log is read up to the place: if a group ends there that is the cursor's, the
/// cursor is right, and whoever asked is not told to begin again.
pub(super) fn of_cursor(
    shard: usize,
    cause: JournalError,
    has_place: &dyn Fn() -> Result<bool, JournalError>,
) -> ChangesError {
    let other = |what| ChangesError::OtherHistory { shard: shard as u16, what };
    match cause {
        JournalError::BadCursor { what, .. } => other(what),
        JournalError::Damaged { .. } => match has_place() {
            Ok(true) => unreadable(shard, cause),
            Ok(false) => other("no group of the journal ends at the cursor".into()),
            // What stands before the cursor is damaged, too: nobody can tell of which history the cursor is.
            Err(cause) => unreadable(shard, cause),
        },
        cause => unreadable(shard, cause),
    }
}
