//! Makes the index of a history without the requests that would have made it: for measurements with a billion ids.
//!
//! Promise: its files are those that a shard makes which is asked for the same ids and whose builder keeps up: the same
//! inserts go the same way, and each step of the builder is done when it is due.

use std::path::Path;

use tidegate_disk::Disk;
use tidegate_journal::{Cursor, Position};

use super::{BuilderKind, IdIndex, IdsError, IdsFacts, IdsOptions, Opened};

/// A record of the history.
#[derive(Clone, Copy, Debug)]
pub struct MadeId<'a> {
    /// What it is about.
    pub id: &'a [u8],
    /// Where it stands in the journal.
    pub position: Position,
    /// When it was decided, in seconds since 1970.
    pub now: u32,
}

/// An index in the making.
pub struct Maker<D: Disk> {
    index: IdIndex<D>,
    freeze_at: u64,
    inserted: u64,
    end: Cursor,
}

impl<D: Disk> Maker<D> {
    /// Begins an index in `dir`, which must have none, over a journal that ends at `end`.
    pub fn begin(disk: D, dir: &Path, options: IdsOptions, end: Cursor) -> Result<Maker<D>, IdsError> {
        let options = IdsOptions { builder: BuilderKind::Stepped, ..options };
        let Opened { index, covered, .. } = IdIndex::open(disk, dir, options, end.position, &mut |_, _| {})?;
        assert!(covered == Position(0), "ids: there is an index in {} already", dir.display());
        Ok(Maker { index, freeze_at: options.freeze_at as u64, inserted: 0, end })
    }

    /// Adds a record; they come in the order of their positions, all of which are before the end of the journal.
    pub fn add(&mut self, made: MadeId<'_>) -> Result<(), IdsError> {
        let end = self.end.position;
        assert!(made.position < end, "ids: {} is not in a journal that ends at {end}", made.position);
        let hash = self.index.hash(made.id);
        self.index.insert(hash, made.position, made.now);
        self.inserted += 1;
        // The table before is full when the first id of the next one comes.
        match self.inserted % self.freeze_at == 1 || self.freeze_at == 1 {
            true => self.index.build_all(self.end),
            false => Ok(()),
        }
    }

    /// Writes the rest as a run, as it is done after a snapshot.
    pub fn finish(mut self) -> Result<IdsFacts, IdsError> {
        self.index.cover(self.end.position);
        self.index.build_all(self.end)?;
        Ok(self.index.facts())
    }
}

impl<D: Disk> IdIndex<D> {
    /// Does all that is to be done, and waits for it.
    pub fn build_all(&mut self, durable: Cursor) -> Result<(), IdsError> {
        self.catch_up(durable)?;
        while !self.frozen.is_empty() || !self.worker.is_idle() {
            self.catch_up_once(durable)?;
        }
        Ok(())
    }
}
