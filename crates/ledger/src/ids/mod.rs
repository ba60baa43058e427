//! The id index: finds the record of any id ever used, exactly, in bounded memory.
//!
//! ```text
//!                    ┌─ filters: young ids, one line a generation; large runs, one line each that can have the id
//!   find_newest ─────┤       ──▶ "never seen": done; nearly all new ids end here
//!                    └─ "perhaps" ──▶ recent ─▶ frozen tables ─▶ Unsettled ─▶ PageLookup, on another thread
//!
//!   insert ──▶ filter + recent ──full──▶ frozen ──durable──▶ builder: sort, write run, manifest ──▶ merge 8 runs
//! ```
//!
//! Promise: [`IdIndex::find_newest`] offers the positions of all records inserted under a hash, newest first, until the
//! caller accepts one, whatever was frozen, merged or rebuilt in between, also after crashes. Some may be of another id
//! with the same hash, so the caller compares the id in the record; that makes the answer exact. It never reads a file.
//!
//! Why a hash and not the id: 16 bytes an id on disk whatever its length, and ids in memory only while they are recent.
//! Why it is derived: the runs follow from the journal. Anything damaged or missing is deleted and built again.
//!
//! Invariant: the manifest never covers a record that is not durable in the journal, because after a crash its position
//! may belong to another record. Invariant: nothing here knows what a record is, and of an id only whether it carries a
//! time.

mod belonging;
mod builder;
mod condemn;
mod digest;
mod entry;
mod error;
mod filter;
mod hash;
pub mod hostile;
mod invariants;
mod lookup;
pub mod make;
mod manifest;
mod merge;
mod open;
mod options;
mod run;
mod run_filter;
mod run_reader;
mod run_tail;
mod run_writer;
mod scrub;
mod table;
#[cfg(test)]
mod tests;
mod time;
mod verify;
mod worker;
mod writing;

use std::cell::Cell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_disk::Disk;
use tidegate_journal::{Cursor, Position, Timeline};
use tidegate_memory::Pages;
use tidegate_planted::{Bug, is_planted};

use builder::View;
use filter::Filter;
use lookup::{RunMask, Stamp};
use scrub::Published;
use table::Table;
use worker::Worker;

pub use digest::IdDigest;
pub use error::IdsError;
pub use hash::{IdHash, IdSeed};
pub use lookup::{Looked, PageLookup, Unsettled};
pub use open::{ClaimOfIndex, Opened, claim};
pub use options::{BuilderKind, IdsOptions};
pub use scrub::{RunScrub, RunsRead};
pub use verify::{VerifiedIndex, verify};

/// I/O errors that [`IdIndex::catch_up`] sits out, 100 ms each, before it gives up.
const RETRIES_MAX: u32 = 20;

/// The index of one shard. Owned by the shard's thread.
pub struct IdIndex<D: Disk> {
    disk: D,
    dir: PathBuf,
    options: IdsOptions,
    seed: IdSeed,
    filter: Filter,
    recent: Table,
    /// Tables that a run holds by now, for lookups that began before it did. Oldest first.
    kept: VecDeque<Arc<Table>>,
    /// Full tables that no run holds yet, oldest first. The first `released` of them are with the builder.
    frozen: VecDeque<Arc<Table>>,
    released: usize,
    /// Records up to here are to be in runs, even if that makes a small one.
    to_cover: Position,
    /// What of it the builder knows.
    told_to_cover: Position,
    /// A table whose memory can be used again.
    spare: Option<Table>,
    view: View<D>,
    /// How many of its runs have filters of their own, and up to where they reach.
    filtered: usize,
    filtered_up_to: Position,
    /// Of earlier views that lookups still hold, oldest first.
    stamps: VecDeque<Stamp>,
    /// Of the journal, as the manifest found had it.
    timeline: Timeline,
    /// Whether something was found when it was opened.
    has_inherited: bool,
    /// Damage that was met while the journal was replayed into it: all of it is to be made anew.
    to_rebuild: Option<String>,
    /// The damage for which that was done.
    rebuilt_for: Option<String>,
    published: Arc<Published<D>>,
    worker: Worker<D>,
    /// Records that it knows.
    entries: u64,
    /// Position of the last record inserted.
    newest: Position,
    /// How far the journal is known to be durable, with the chain hash there.
    durable: Cursor,
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
    /// Bytes of the filters.
    pub filter_bytes: u64,
    /// Bytes of memory in all: filters, tables, fences of the runs.
    pub memory_bytes: u64,
    /// Lookups that the filters did not settle and that found nothing.
    pub false_positives: u64,
    /// Pages of runs that lookups read.
    pub pages_read: u64,
    /// Times that the builder met an I/O error and tried again.
    pub retries: u64,
    /// Whether it cannot write now.
    pub is_failing: bool,
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
        for run in self.filtered() {
            run.prefetch(hash);
        }
    }

    /// The runs with filters of their own.
    #[inline]
    fn filtered(&self) -> impl Iterator<Item = &Arc<run::Run<D::File>>> {
        self.view.runs[..self.filtered].iter()
    }

    /// Whether the filters know that there is no record under `hash`: of nearly all ids that are new.
    #[inline]
    pub fn is_new(&self, hash: IdHash) -> bool {
        self.filter.hits(hash).is_none() && !self.filtered().any(|run| run.may_hold(hash))
    }

    /// The position of the newest record that was inserted.
    pub fn newest(&self) -> Position {
        self.newest
    }

    /// Whether a `hash` that was new when `since` was [`IdIndex::newest`] still is so. Looks at what came since alone.
    #[inline]
    pub fn is_new_still(&self, hash: IdHash, since: Position) -> bool {
        is_planted(Bug::NewIdTrusted) || !self.filter.may_have_since(hash, since)
    }

    /// As [`IdIndex::prefetch`], for [`IdIndex::is_new_still`] and `insert`.
    #[inline]
    pub fn prefetch_since(&self, hash: IdHash, since: Position) {
        self.filter.prefetch_since(hash, since);
        self.recent.prefetch(hash);
    }

    /// The newest record under `hash` that `is_it` accepts; it is asked about all of them in turn, newest first, and
    /// nearly always there is none or one. Asks about records in memory before it needs any page: a hold is mostly
    /// posted soon after it was placed, and then no run is looked at. Never waits.
    ///
    /// Err when `is_it` fails; with [`Unsettled::PagesUnread`] when `looked` does not have the hash and only pages can
    /// tell: [`IdIndex::lookup`] reads them; with [`Unsettled::PagesDamaged`] when a page that is needed for this hash
    /// could not be read or is damaged: nobody can say then whether the id is new, so who asks is refused. Other ids
    /// are found as before, and opening the index again repairs it.
    pub fn find_newest<E: From<Unsettled>>(
        &self,
        hash: IdHash,
        looked: &Looked,
        mut is_it: impl FnMut(Position) -> Result<bool, E>,
    ) -> Result<Option<Position>, E> {
        if self.is_new(hash) {
            return Ok(None);
        }
        let hits = self.filter.hits(hash);
        let in_memory = self.find_in_memory(hash, hits);
        for at in &in_memory {
            if is_it(*at)? {
                return Ok(Some(*at));
            }
        }
        let in_runs = match looked.get(hash) {
            Some(Ok(found)) => &**found,
            Some(Err(error)) => return Err(Unsettled::PagesDamaged(Arc::clone(error)).into()),
            None if self.runs_concerned(hash, hits).is_empty() => &[],
            None => return Err(Unsettled::PagesUnread.into()),
        };
        let nowhere = in_memory.is_empty() && in_runs.is_empty();
        self.counted.false_positives.set(self.counted.false_positives.get() + u64::from(nowhere));
        // What is kept for earlier lookups is found by later ones in both places.
        for at in in_runs.iter().filter(|at| !in_memory.contains(at)) {
            if is_it(*at)? {
                return Ok(Some(*at));
            }
        }
        Ok(None)
    }

    /// What the tables have, newest first.
    fn find_in_memory(&self, hash: IdHash, hits: filter::Hits) -> Vec<Position> {
        let mut found = Vec::new();
        for table in self.kept.iter().chain(&self.frozen).map(Arc::as_ref).chain([&self.recent]) {
            let concerned = table.range().is_some_and(|(first, last)| {
                // What large runs cover has left the filter.
                last <= self.filtered_up_to || self.filter.may_hold(hits, first, last)
            });
            if concerned {
                table.find(hash, &mut found);
            }
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        found
    }

    /// The runs that may have a hash, as far as filters say.
    fn runs_concerned(&self, hash: IdHash, hits: filter::Hits) -> RunMask {
        let mut concerned = RunMask::default();
        for (at, run) in self.view.runs.iter().enumerate() {
            let may_hold = match at < self.filtered {
                true => run.may_hold(hash),
                false => self.filter.may_hold(hits, run.first(), run.last()),
            };
            if may_hold {
                concerned.add(at);
            }
        }
        concerned
    }

    /// A lookup in the pages of runs, to be filled by [`IdIndex::look_for`] and run on a thread that may wait.
    pub fn lookup(&self) -> PageLookup<D> {
        PageLookup::new(self.disk.clone(), self.dir.clone(), self.view.clone())
    }

    /// Adds a hash that [`IdIndex::find_newest`] could not settle.
    pub fn look_for(&self, hash: IdHash, lookup: &mut PageLookup<D>) {
        lookup.add(hash, self.runs_concerned(hash, self.filter.hits(hash)));
    }

    /// Counts what lookups read.
    pub fn note_pages_read(&self, pages: u64) {
        self.counted.pages_read.set(self.counted.pages_read.get() + pages);
    }

    /// Reads all runs again, on any thread.
    pub fn scrub(&self) -> RunScrub<D> {
        RunScrub::new(self.disk.clone(), self.dir.clone(), self.seed, Arc::clone(&self.published))
    }

    /// Notes that the record at `position`, decided at `now`, in seconds since 1970, is about an id with this hash.
    /// Panics when positions do not increase, or do not begin behind [`IdIndex::covered`]: that is a bug.
    #[inline]
    pub fn insert(&mut self, hash: IdHash, position: Position, now: u32) {
        assert!(position > self.newest, "ids: positions increase: {position} after {}", self.newest);
        if self.recent.is_full() {
            self.freeze();
        }
        self.filter.insert(hash, position);
        let is_misfiled = is_planted(Bug::IdMisfiled) && position.0.is_multiple_of(41);
        let hash = if is_misfiled { IdHash::of(!hash.hash) } else { hash };
        self.recent.insert(hash, position, hash.kept_by(now));
        self.newest = position;
        self.entries += 1;
    }

    #[cold]
    fn freeze(&mut self) {
        let empty = self.spare.take().unwrap_or_else(|| Table::new(self.options.freeze_at));
        let full = std::mem::replace(&mut self.recent, empty);
        self.frozen.push_back(Arc::new(full));
        self.assert_consistent();
    }

    /// Has all records before `end`, where the journal is durable up to, written to runs soon, even if that makes a
    /// small run; [`IdIndex::covered`] is the byte before it then, because the next record may stand at `end`. Whoever
    /// has written a snapshot asks this, so that a restart need not read what is before it.
    pub fn cover(&mut self, end: Position) {
        self.to_cover = self.to_cover.max(Position(end.0.saturating_sub(1)));
        self.freeze_to_cover();
    }

    /// Freezes a table that is not full for what is to be covered. One after the other: if runs cannot be written, the
    /// tables that may wait are those of new ids, however often somebody asks for what is there to be covered.
    fn freeze_to_cover(&mut self) {
        let begins_before = self.recent.range().is_some_and(|(first, _)| first <= self.to_cover);
        if begins_before && self.frozen.is_empty() {
            self.freeze();
        }
    }

    /// Hands full tables to the builder once `durable`, a place up to which the journal is durable, is beyond
    /// them, and takes over what the builder finished. Never waits (a [`BuilderKind::Stepped`] builder does one step
    /// here). Err, once, when a run that was to be merged turned out damaged: from then on nothing is merged, and all
    /// runs stay. I/O errors of the builder are no errors here: it tries again, see [`IdsFacts::retries`].
    pub fn maintain(&mut self, durable: Cursor) -> Result<(), IdsError> {
        if durable.position > self.durable.position {
            self.durable = durable;
        }
        if self.to_cover > self.told_to_cover {
            self.freeze_to_cover();
        }
        self.release();
        self.let_go();
        if let Some(pages) = self.filter.prepare() {
            self.worker.touch(pages);
        }
        if let Some(view) = self.worker.poll()? {
            self.take_over(view);
        }
        Ok(())
    }

    /// Has the builder's thread touch memory that the shard will write to soon.
    pub fn touch(&mut self, pages: Pages) {
        self.worker.touch(pages);
    }

    fn release(&mut self) {
        while let Some(table) = self.frozen.get(self.released) {
            if table.range().is_none_or(|(_, last)| last >= self.durable.position) {
                return;
            }
            self.worker.build(Arc::clone(table), self.durable);
            self.released += 1;
        }
        let waits = self.recent.range().is_some_and(|(first, _)| first <= self.to_cover);
        if self.to_cover > self.told_to_cover && self.to_cover < self.durable.position && !waits {
            self.worker.cover(self.to_cover, self.durable);
            self.told_to_cover = self.to_cover;
        }
    }

    fn take_over(&mut self, view: View<D>) {
        assert!(
            view.covered >= self.view.covered,
            "ids: covered goes back: {} after {}",
            view.covered,
            self.view.covered
        );
        let before = std::mem::replace(&mut self.view, view);
        self.stamps.push_back(before.stamp);
        self.note_filtered();
        while let Some(table) = self.frozen.front() {
            if table.range().is_some_and(|(_, last)| last > self.view.covered) {
                break;
            }
            assert!(self.released > 0, "ids: a run covers a table that the builder never had");
            self.released -= 1;
            self.kept.extend(self.frozen.pop_front());
        }
        self.let_go();
        self.assert_consistent();
    }

    /// Gives up what the filter has of runs that have filters of their own.
    fn note_filtered(&mut self) {
        self.filtered = self.view.runs.iter().take_while(|run| run.header().is_filtered()).count();
        self.filtered_up_to = self.view.filtered_up_to();
        let forgotten = self.filter.forget(self.filtered_up_to);
        if !forgotten.is_empty() {
            self.worker.give_back(forgotten);
        }
    }

    /// Lets tables go that no lookup needs any more: those that runs held when the oldest open one began.
    fn let_go(&mut self) {
        while self.stamps.front().is_some_and(|stamp| Arc::strong_count(stamp) == 1) {
            self.stamps.pop_front();
        }
        let needed = self.stamps.front().filter(|_| !is_planted(Bug::LookupNotWaitedFor));
        let oldest = needed.map_or(self.view.covered, |stamp| **stamp);
        while self.kept.front().and_then(|table| table.range()).is_some_and(|(_, last)| last <= oldest) {
            let table = self.kept.pop_front().and_then(Arc::into_inner);
            self.spare = self.spare.take().or(table.map(Table::emptied));
        }
    }

    /// Whether more tables wait for the builder than planned. The shard should refuse new work ("busy") until this
    /// ends: nothing breaks if it does not, but memory grows by a table per [`IdsOptions::freeze_at`] ids.
    pub fn is_behind(&self) -> bool {
        self.frozen.len() > self.options.frozen_max
    }

    /// Waits until the builder is no longer behind. For replay at start-up, when there is no one to keep waiting;
    /// `durable` as in [`IdIndex::maintain`].
    ///
    /// Files that are damaged, or that the disk does not give, are met here by a merge: the index is made anew when all
    /// records have been seen ([`IdIndex::belong_to`]).
    pub fn catch_up(&mut self, durable: Cursor) -> Result<(), IdsError> {
        if self.to_rebuild.is_some() {
            return Ok(());
        }
        match self.catch_up_merging(durable) {
            Err(error) if error.is_of_the_file() => {
                self.to_rebuild = Some(error.to_string());
                Ok(())
            }
            caught_up => caught_up,
        }
    }

    fn catch_up_merging(&mut self, durable: Cursor) -> Result<(), IdsError> {
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
            entries: self.entries,
            runs: self.view.runs.len() as u64,
            run_bytes: self.view.runs.iter().map(|run| run.bytes()).sum(),
            filter_bytes: (self.filter.bytes() + self.run_memory_bytes().1) as u64,
            memory_bytes: self.memory_bytes() as u64,
            false_positives: self.counted.false_positives.get(),
            pages_read: self.counted.pages_read.get(),
            retries: self.worker.retries(),
            is_failing: self.worker.is_failing(),
        }
    }

    /// Bytes of fences, and of filters.
    fn run_memory_bytes(&self) -> (usize, usize) {
        let each = self.view.runs.iter().map(|run| run.memory_bytes());
        each.fold((0, 0), |(fences, filters), (of_fences, of_filters)| (fences + of_fences, filters + of_filters))
    }

    fn memory_bytes(&self) -> usize {
        let tables = 1 + self.kept.len() + self.frozen.len() + usize::from(self.spare.is_some());
        let (fences, filters) = self.run_memory_bytes();
        self.filter.bytes() + tables * self.recent.bytes() + fences + filters
    }
}
