//! The id index: finds the record of any id ever used, exactly, in bounded memory.
//!
//! ```text
//!                    ┌─ filter: one cache line a generation ──▶ "never seen": done; nearly all new ids end here
//!   find_newest ─────┤
//!                    └─ "perhaps" ──▶ recent ─▶ frozen tables ─▶ runs on disk, newest first ──▶ candidate positions
//!
//!   insert ──▶ filter + recent ──full──▶ frozen ──durable──▶ builder: sort, write run, manifest ──▶ merge 8 runs
//! ```
//!
//! Promise: [`IdIndex::find_newest`] offers the positions of all records inserted under a hash, newest first, until the
//! caller accepts one, whatever was frozen, merged or rebuilt in between, also after crashes. Some may be of another id
//! with the same hash, so the caller compares the id in the record; that makes the answer exact.
//!
//! Why a hash and not the id: 16 bytes an id on disk whatever its length, and ids in memory only while they are recent.
//! Why it is derived: the runs follow from the journal. Anything damaged or missing is deleted and built again.
//!
//! Invariant: the manifest never covers a record that is not durable in the journal, because after a crash its position
//! may belong to another record. Invariant: nothing here knows what an id or a record is.

mod builder;
mod entry;
mod error;
mod filter;
mod hash;
mod invariants;
mod manifest;
mod memory;
mod merge;
mod open;
mod options;
mod run;
mod run_reader;
mod run_writer;
mod scrub;
mod table;
#[cfg(test)]
mod tests;
mod worker;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_disk::Disk;
use tidegate_journal::Position;

use builder::View;
use filter::Filter;
use table::Table;
use worker::Worker;

pub use error::IdsError;
pub use hash::{IdHash, IdSeed};
pub use open::{Opened, claim};
pub use options::{BuilderKind, IdsOptions};
pub use scrub::{RunScrub, RunsRead};

/// I/O errors that [`IdIndex::catch_up`] sits out, 100 ms each, before it gives up.
const RETRIES_MAX: u32 = 20;

/// The index of one shard. Owned by the shard's thread.
pub struct IdIndex<D: Disk> {
    options: IdsOptions,
    seed: IdSeed,
    filter: Filter,
    recent: Table,
    /// Full tables that no run holds yet, oldest first. The first `released` of them are with the builder.
    frozen: VecDeque<Arc<Table>>,
    released: usize,
    /// A table whose memory can be used again.
    spare: Option<Table>,
    view: View<D>,
    worker: Worker<D>,
    /// Position of the last record inserted.
    newest: Position,
    /// How far the journal is known to be durable.
    durable: Position,
    counted: Counted,
}

/// What lookups count; cells, because a lookup only reads.
#[derive(Default)]
struct Counted {
    false_positives: Cell<u64>,
    pages_read: Cell<u64>,
}

/// What the index holds and did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdsFacts {
    /// Records that it knows.
    pub entries: u64,
    /// Run files that lookups may read.
    pub runs: u64,
    /// Bytes of them.
    pub run_bytes: u64,
    /// Bytes of the filter.
    pub filter_bytes: u64,
    /// Bytes of memory in all: filter, tables, fences of the runs.
    pub memory_bytes: u64,
    /// Lookups that the filter did not settle and that found nothing.
    pub false_positives: u64,
    /// Pages of runs that lookups read.
    pub pages_read: u64,
    /// Times that the builder met an I/O error and tried again.
    pub retries: u64,
}

impl<D: Disk> IdIndex<D> {
    /// The hash under which this index knows `id`. Keyed with a seed of this index, so that no client can aim at one
    /// place.
    #[inline]
    pub fn hash(&self, id: &[u8]) -> IdHash {
        self.seed.hash(id)
    }

    /// Starts to load the cache lines that `find_newest` and `insert` of this hash will touch. Call it some ids ahead.
    #[inline]
    pub fn prefetch(&self, hash: IdHash) {
        self.filter.prefetch(hash);
        self.recent.prefetch(hash);
    }

    /// The newest record under `hash` that `is_it` accepts; it is asked about all of them in turn, newest first, and
    /// nearly always there is none or one. Asks about records in memory before it reads any page: a hold is mostly
    /// posted soon after it was placed, and then no run is looked at. Err when `is_it` fails, or when a page of a run
    /// that is needed for this hash cannot be read or is damaged: nobody can say then whether the id is new, so who
    /// asks is refused; other ids are found as before, and opening the index again repairs it.
    #[inline]
    pub fn find_newest<E: From<IdsError>>(
        &self,
        hash: IdHash,
        is_it: impl FnMut(Position) -> Result<bool, E>,
    ) -> Result<Option<Position>, E> {
        let hits = self.filter.hits(hash);
        if hits.is_none() {
            return Ok(None);
        }
        self.find_newest_beyond_the_filter(hash, hits, is_it)
    }

    #[cold]
    #[inline(never)]
    fn find_newest_beyond_the_filter<E: From<IdsError>>(
        &self,
        hash: IdHash,
        hits: filter::Hits,
        mut is_it: impl FnMut(Position) -> Result<bool, E>,
    ) -> Result<Option<Position>, E> {
        let mut candidates = Vec::new();
        self.find_in_memory(hash, hits, &mut candidates);
        let in_memory = candidates.len();
        for at in candidates.drain(..) {
            if is_it(at)? {
                return Ok(Some(at));
            }
        }
        self.find_in_runs(hash, hits, &mut candidates)?;
        let nowhere = in_memory == 0 && candidates.is_empty();
        self.counted.false_positives.set(self.counted.false_positives.get() + u64::from(nowhere));
        for at in candidates {
            if is_it(at)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Appends what the tables have, newest first. All of it is newer than what any run has.
    fn find_in_memory(&self, hash: IdHash, hits: filter::Hits, out: &mut Vec<Position>) {
        for table in self.frozen.iter().map(Arc::as_ref).chain([&self.recent]) {
            if table.range().is_some_and(|(first, last)| self.filter.may_hold(hits, first, last)) {
                table.find(hash, out);
            }
        }
        out.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = out.last();
        assert!(oldest.is_none_or(|at| *at > self.view.covered), "ids: memory holds {oldest:?}, which a run covers");
    }

    /// Appends what the runs have, newest first.
    fn find_in_runs(&self, hash: IdHash, hits: filter::Hits, out: &mut Vec<Position>) -> Result<(), IdsError> {
        let begin = out.len();
        let mut pages_read = 0;
        let concerned = |first: Position, last: Position| self.filter.may_hold(hits, first, last);
        for run in self.view.runs.iter().filter(|run| concerned(run.first(), run.last())) {
            pages_read += run.find(hash, out)?;
        }
        out[begin..].sort_unstable_by(|a, b| b.cmp(a));
        let newest = out.get(begin);
        assert!(
            newest.is_none_or(|at| *at <= self.view.covered),
            "ids: a run holds {newest:?}, which it does not cover"
        );
        self.counted.pages_read.set(self.counted.pages_read.get() + pages_read);
        Ok(())
    }

    /// Notes that the record at `position` is about an id with this hash. Panics when positions do not increase, or do
    /// not begin behind [`IdIndex::covered`]: that is a bug.
    #[inline]
    pub fn insert(&mut self, hash: IdHash, position: Position) {
        assert!(position > self.newest, "ids: positions increase: {position} after {}", self.newest);
        if self.recent.is_full() {
            self.freeze();
        }
        self.filter.insert(hash, position);
        self.recent.insert(hash, position);
        self.newest = position;
    }

    #[cold]
    fn freeze(&mut self) {
        let empty = self.spare.take().unwrap_or_else(|| Table::new(self.options.freeze_at));
        let full = std::mem::replace(&mut self.recent, empty);
        self.frozen.push_back(Arc::new(full));
        self.assert_consistent();
    }

    /// Hands full tables to the builder once `durable`, the position of the journal's last durable record, is beyond
    /// them, and takes over what the builder finished. Never waits (a [`BuilderKind::Stepped`] builder does one step
    /// here). Err, once, when a run that was to be merged turned out damaged: from then on nothing is merged, and all
    /// runs stay. I/O errors of the builder are no errors here: it tries again, see [`IdsFacts::retries`].
    pub fn maintain(&mut self, durable: Position) -> Result<(), IdsError> {
        self.durable = self.durable.max(durable);
        self.release();
        if let Some(pages) = self.filter.prepare() {
            self.worker.touch(pages);
        }
        if let Some(view) = self.worker.poll()? {
            self.take_over(view);
        }
        Ok(())
    }

    fn release(&mut self) {
        while let Some(table) = self.frozen.get(self.released) {
            if table.range().is_none_or(|(_, last)| last >= self.durable) {
                return;
            }
            self.worker.build(Arc::clone(table));
            self.released += 1;
        }
    }

    fn take_over(&mut self, view: View<D>) {
        assert!(
            view.covered >= self.view.covered,
            "ids: covered goes back: {} after {}",
            view.covered,
            self.view.covered
        );
        self.view = view;
        while let Some(table) = self.frozen.front() {
            if table.range().is_some_and(|(_, last)| last > self.view.covered) {
                break;
            }
            assert!(self.released > 0, "ids: a run covers a table that the builder never had");
            self.released -= 1;
            let table = self.frozen.pop_front().and_then(Arc::into_inner);
            self.spare = self.spare.take().or(table.map(Table::emptied));
        }
        self.assert_consistent();
    }

    /// Whether more tables wait for the builder than planned. The shard should refuse new work ("busy") until this
    /// ends: nothing breaks if it does not, but memory grows by a table per [`IdsOptions::freeze_at`] ids.
    pub fn is_behind(&self) -> bool {
        self.frozen.len() > self.options.frozen_max
    }

    /// Waits until the builder is no longer behind. For replay at start-up, when there is no one to keep waiting;
    /// `durable` as in [`IdIndex::maintain`].
    pub fn catch_up(&mut self, durable: Position) -> Result<(), IdsError> {
        self.maintain(durable)?;
        let mut errors = 0;
        while self.is_behind() && self.released > 0 {
            match self.worker.wait() {
                Ok(None) => {}
                Ok(Some(view)) => self.take_over(view),
                Err(IdsError::Io { .. }) if errors < RETRIES_MAX => errors += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Every id of the records up to and including this position is in a run. Zero: none. Replay inserts the records
    /// after it.
    pub fn covered(&self) -> Position {
        self.view.covered
    }

    /// What the index holds and did.
    pub fn facts(&self) -> IdsFacts {
        IdsFacts {
            entries: self.filter.ids(),
            runs: self.view.runs.len() as u64,
            run_bytes: self.view.runs.iter().map(|run| run.bytes()).sum(),
            filter_bytes: self.filter.bytes() as u64,
            memory_bytes: self.memory_bytes() as u64,
            false_positives: self.counted.false_positives.get(),
            pages_read: self.counted.pages_read.get(),
            retries: self.worker.retries(),
        }
    }

    fn memory_bytes(&self) -> usize {
        let tables = 1 + self.frozen.len() + usize::from(self.spare.is_some());
        let fences: usize = self.view.runs.iter().map(|run| run.fence_bytes()).sum();
        self.filter.bytes() + tables * self.recent.bytes() + fences
    }
}
