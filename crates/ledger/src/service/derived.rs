//! The id index is made from the ledger's records: a start replays into it what it does not cover.

use tidegate_disk::Disk;
use tidegate_journal::{Cursor, Position, Timeline};
use tidegate_machines::ledger::{Event, Ledger};
use tidegate_machines::{Place, TimeMs};
use tidegate_planted::{Bug, is_planted};
use tidegate_shard::Derived;

use crate::ids::{IdIndex, IdsError};

/// Whole seconds, as the id index takes them.
#[inline]
pub(super) fn seconds(time: TimeMs) -> u32 {
    u32::try_from(time.0 / 1000).unwrap_or(u32::MAX)
}

impl<D: Disk> Derived<Ledger> for IdIndex<D> {
    type Error = IdsError;

    fn covered(&self) -> Position {
        IdIndex::covered(self)
    }

    #[inline]
    fn note(&mut self, event: &Event<'_>, at: Place) {
        let position = Position(at.position.0);
        if position > IdIndex::covered(self)
            && !self.is_to_rebuild()
            && !is_planted(Bug::IdsLostOverRestart)
            && let Some(id) = event.id()
        {
            self.insert(self.hash(id.as_bytes()), position, seconds(event.time()));
        }
    }

    fn stands_on(&self) -> Cursor {
        IdIndex::stands_on(self)
    }

    fn give_up(&mut self) -> Result<(), IdsError> {
        IdIndex::give_up(self)
    }

    fn catch_up(&mut self, reached: Cursor) -> Result<(), IdsError> {
        IdIndex::catch_up(self, reached)
    }

    fn belong_to(&mut self, timeline: Timeline) -> Result<bool, IdsError> {
        IdIndex::belong_to(self, timeline)
    }
}
