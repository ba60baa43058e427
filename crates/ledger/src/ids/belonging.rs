//! Which journal an index belongs to, and which timeline of it: one of another history knows ids that were never used,
//! and does not know those that were.
//!
//! ```text
//!   open ─▶ stands_on: has the journal a group that ends there with this chain? ─▶ no: give_up; all is replayed
//!       └─▶ replay inserts what is behind `covered` ─▶ belong_to ─┬▶ the timeline that the manifest has: go on
//!                                                                 ├▶ nothing was found at the start: take it over
//!                                                                 └▶ another, or a merge met damage: deleted; all is
//!                                                                    replayed again
//! ```
//!
//! Why only behind the replay: notices stand in the journal, and a start that looked for them before would read it
//! twice each time. A new timeline begins when an operator accepts a loss, or restores a backup: hardly ever.

use tidegate_disk::Disk;
use tidegate_journal::{Cursor, Position, Timeline};

use super::open::delete_manifests;
use super::{IdIndex, IdsError};

impl<D: Disk> IdIndex<D> {
    /// Whether it goes on with what was found when it was opened.
    pub fn has_inherited(&self) -> bool {
        self.has_inherited
    }

    /// A place of the journal behind all that is covered: the journal was durable up to there. What is covered is of
    /// this journal if a group of it ends there, with this chain hash.
    pub fn stands_on(&self) -> Cursor {
        self.durable
    }

    /// Gives up what was found when it was opened, because it is of another history: the index is empty now, and is to
    /// have all records inserted.
    pub fn give_up(&mut self) -> Result<(), IdsError> {
        self.worker.stop();
        delete_manifests(&self.disk, &self.dir)?;
        *self = IdIndex::open(self.disk.clone(), &self.dir, self.options, Position(0), &mut |_, _| {})?.index;
        Ok(())
    }

    /// Whether it takes no more records, because it is to be made anew.
    pub fn is_to_rebuild(&self) -> bool {
        self.to_rebuild.is_some()
    }

    /// The damage for which it was made anew while the journal was replayed.
    pub fn rebuilt_for(&self) -> Option<&str> {
        self.rebuilt_for.as_deref()
    }

    /// Hears the timeline of the journal, whose records it all has. False if what was found when it was opened is of
    /// another one, or damaged: the index is empty now, and is to have all records inserted again.
    pub fn belong_to(&mut self, timeline: Timeline) -> Result<bool, IdsError> {
        if let Some(damage) = self.to_rebuild.take() {
            self.give_up()?;
            self.rebuilt_for = Some(damage);
            return Ok(false);
        }
        if timeline == self.timeline {
            return Ok(true);
        }
        if !self.has_inherited {
            self.timeline = timeline;
            self.worker.belong_to(timeline);
            return Ok(true);
        }
        self.give_up()?;
        Ok(false)
    }
}
