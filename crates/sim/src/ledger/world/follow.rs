//! Somebody who follows the changes: reads some, keeps the cursor behind the last row that they have stored, dies, and
//! goes on from there, with this process or the next.
//!
//! ```text
//!   ChangeReader ─rows─▶ stored, up to some row ─▶ its cursor is kept ─▶ another reader, behind that row
//!                                 └─▶ the oracle: each record once, in order; at a census: none is missing
//! ```
//!
//! Names of accounts come from the shard's memory and not over the rings: they never change.

use tidegate_ledger::changes::{After, Change, ChangeFilter, ChangeKind, ChangeReader, ChangesError, Interest, Step};

use super::LedgerWorld;
use crate::chance::Chance;
use crate::harness::Store;
use crate::ledger::model::{Census, SeenChanges};
use crate::note;
use crate::violation::{Violation, must};

/// Steps within which all that is durable has been read once nothing goes wrong any more.
const STEPS_TO_END: u64 = 100_000;

/// The reader, and what it keeps over its own deaths and those of the process.
pub(super) struct Follower {
    chance: Chance,
    reader: Option<ChangeReader>,
    kept: Kept,
    /// The cursor of a timeline that was given up, until somebody was told so.
    abandoned: Option<Box<str>>,
}

/// What is on the follower's own disk.
#[derive(Clone, Default)]
pub(super) struct Kept {
    cursor: Option<Box<str>>,
    seen: SeenChanges,
}

impl Follower {
    pub fn new(chance: Chance) -> Follower {
        Follower { chance, reader: None, kept: Kept::default(), abandoned: None }
    }

    /// What it keeps.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// The process has ended.
    pub fn disconnect(&mut self) {
        self.reader = None;
    }

    /// Goes on from what it kept earlier, because the logs do: they ended at `ends` then.
    pub fn roll_back_to(&mut self, then: &Kept, ends: &[u64]) {
        self.reader = None;
        // Whoever has read nothing beyond has a cursor of both timelines.
        let has_read_on = |(shard, end): (usize, &u64)| self.kept.seen.last_of(shard as u16) > *end;
        if ends.iter().enumerate().any(has_read_on) {
            self.abandoned = self.kept.cursor.take();
        }
        self.kept = then.clone();
    }
}

/// All changes, for somebody who may see everything.
fn everything() -> ChangeFilter {
    let interest = |_: &str| Interest { visible: true, wanted: true };
    ChangeFilter { interest: Box::new(interest), without_account: true, kinds: ChangeKind::ALL.to_vec() }
}

impl<S: Store> LedgerWorld<S> {
    /// Reads on, now and then.
    pub(super) fn follow(&mut self) -> Result<(), Violation> {
        if self.node.is_none() || self.site.is_calm() || !self.load.follower.chance.happens(80) {
            return Ok(());
        }
        self.show_abandoned_cursor()?;
        self.read_changes().map(|_| ())
    }

    /// Reads to the end, while all is quiet, and compares everything with a census.
    pub(super) fn check_changes(&mut self, census: &Census) -> Result<(), Violation> {
        for _ in 0..STEPS_TO_END {
            if self.read_changes()? {
                self.load.model.compare_changes(&self.load.follower.kept.seen, census)?;
                self.site.tally.add("changes compared with all histories", 1);
                return Ok(());
            }
            if self.load.follower.reader.is_none() {
                self.tick()?;
            }
        }
        Err(Violation::of("a reader of changes comes to the end", "the end does not come nearer"))
    }

    /// One step. Whether all that is durable was read.
    fn read_changes(&mut self) -> Result<bool, Violation> {
        let Some(node) = &self.node else { return Ok(false) };
        let follower = &mut self.load.follower;
        let mut reader = match follower.reader.take() {
            Some(reader) => reader,
            None => {
                let after = follower.kept.cursor.clone().map_or(After::Start, After::Cursor);
                self.site.tally.add("a reader of changes that goes on at a cursor", u64::from(after != After::Start));
                match node.changes.read(after, everything()) {
                    Ok(reader) => reader.expect("the logs of a process that runs are open"),
                    Err(error) => return self.no_changes(&error),
                }
            }
        };
        match reader.step() {
            Ok(Step::AtEnd) => {
                follower.reader = Some(reader);
                Ok(true)
            }
            Ok(Step::Names(shard, slots)) => {
                let state = node.shard(shard.0).state_ahead();
                let name = |slot| state.account_at(slot).map(|account| (slot, account.id, account.asset));
                reader.name(shard, slots.into_iter().filter_map(name));
                follower.reader = Some(reader);
                Ok(false)
            }
            Ok(Step::Rows { rows, .. }) => self.store_changes(reader, rows).map(|()| false),
            Err(error) => self.no_changes(&error),
        }
    }

    /// Stores the rows, or the first of them and dies.
    fn store_changes(&mut self, reader: ChangeReader, mut rows: Vec<Change>) -> Result<(), Violation> {
        let follower = &mut self.load.follower;
        let dies = follower.chance.happens(350);
        if dies && !rows.is_empty() {
            rows.truncate(follower.chance.within(0..=rows.len() as u64) as usize);
        }
        self.site.tally.add("a change that was read", rows.len() as u64);
        for change in rows {
            note!(self.site.trace, "change {} of shard {}: {:?}", change.sequence, change.shard, change.id);
            self.load.model.change_seen(&change)?;
            self.load.follower.kept.cursor = Some(change.cursor.clone());
            self.load.follower.kept.seen.take(change)?;
        }
        let follower = &mut self.load.follower;
        if !dies {
            // Behind records that are no changes, too.
            if follower.chance.happens(500) {
                follower.kept.cursor = Some(reader.cursor());
            }
            follower.reader = Some(reader);
        }
        Ok(())
    }

    /// Changes cannot be read: because of damage, or the machine has stopped. Never because what was seen is gone.
    fn no_changes(&mut self, error: &ChangesError) -> Result<bool, Violation> {
        note!(self.site.trace, "no changes: {error}");
        match error {
            ChangesError::Unreadable { .. } => {
                let is_explained = self.site.was_damaged() || self.site.disk.has_stopped();
                must(is_explained, "changes can be read where nothing is damaged", || error.to_string())?;
                self.site.tally.add("changes that could not be read", 1);
                Ok(false)
            }
            error => Err(Violation::of("what a reader of changes has seen is never taken back", error.to_string())),
        }
    }

    /// Whoever comes with a cursor of a timeline that was given up is told so, and gets nothing.
    fn show_abandoned_cursor(&mut self) -> Result<(), Violation> {
        let Some(cursor) = self.load.follower.abandoned.clone() else { return Ok(()) };
        let Some(node) = &self.node else { return Ok(()) };
        let read = node.changes.read(After::Cursor(cursor), everything());
        let stepped = read.and_then(|reader| reader.expect("its logs are open").step());
        note!(self.site.trace, "with a cursor of another timeline: {stepped:?}");
        match stepped {
            Err(ChangesError::OtherHistory { .. }) => {
                self.site.tally.add("a cursor of another timeline that was refused", 1);
                self.load.follower.abandoned = None;
                Ok(())
            }
            // Of this shard nothing was read that is not here, and nothing follows; another one says it.
            Ok(Step::AtEnd) | Err(ChangesError::Unreadable { .. }) => Ok(()),
            other => Err(Violation::of("a cursor of another timeline is refused", format!("{other:?}"))),
        }
    }
}
