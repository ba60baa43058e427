//! Which journal an index belongs to, and which timeline of it: one of another history knows ids that were never used,
//! and does not know those that were.
//!
//! ```text
//!   open ─▶ stands_on: has the journal a group that ends there with this chain? ─▶ no: give_up; all is replayed
//!       └─▶ replay inserts what is behind `covered` ─▶ belong_to ─┬▶ the timeline that the manifest has: go on
//!                                                                 ├▶ nothing was found at the start: take it over
//!                                                                 └▶ another: deleted; all is replayed again
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

    /// Hears the timeline of the journal, whose records it all has. False if what was found when it was opened is of
    /// another one: the index is empty now, and is to have all records inserted again.
    pub fn belong_to(&mut self, timeline: Timeline) -> Result<bool, IdsError> {
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
