//! Looks into pages of runs: begun by the shard's thread, done by another one that may wait.
//!
//! ```text
//!   shard     find_newest ─▶ PagesUnread ─▶ look_for, all ids of a batch ─┐            ┌─▶ find_newest(.., looked)
//!   elsewhere                                          PageLookup::run ──┴─▶ Looked ──┘
//! ```
//!
//! Promise: what is found with a [`Looked`] is as if the pages had been read then: ids inserted meanwhile are in
//! tables, and no table leaves memory while somebody holds a lookup, or its findings, that began before its run was
//! published. A [`Stamp`] in both is how the index knows.
//!
//! Why pages are asked for first and read then: those that are in the page cache are answered at once, and the disk has
//! all others to read at the same time.

use std::path::PathBuf;
use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_disk::{Disk, DiskFile};
use tidegate_journal::Position;
use tidegate_planted::{Bug, is_planted};

use super::builder::View;
use super::condemn::condemn;
use super::hash::RunKey;
use super::run::{PAGE_BYTES, Page, Run, RunHeader};
use super::{IdHash, IdsError};

/// An id cannot be told to be new, or found, with what is in memory.
#[derive(Clone, Debug)]
pub enum Unsettled {
    /// Pages of runs must be read first: [`super::IdIndex::lookup`].
    PagesUnread,
    /// A page that the id may be on was damaged, or could not be read.
    PagesDamaged(Arc<IdsError>),
}

/// What the pages have under a hash: positions, newest first; or why one of them does not tell.
type Found = Result<Box<[Position]>, Arc<IdsError>>;

/// The moment at which a lookup began: what runs held up to here.
pub(super) type Stamp = Arc<Position>;

/// Hashes to look for in the runs of one moment.
pub struct PageLookup<D: Disk> {
    disk: D,
    dir: PathBuf,
    view: View<D>,
    wanted: Vec<(IdHash, RunMask)>,
}

/// Which runs of a view: a bit for each; the last one is for all others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunMask(u64);

impl RunMask {
    pub(super) fn add(&mut self, run: usize) {
        self.0 |= 1 << run.min(63);
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn has(self, run: usize) -> bool {
        self.0 >> run.min(63) & 1 == 1
    }
}

/// What lookups found, by hash.
#[derive(Debug, Default)]
pub struct Looked {
    found: HashMap<IdHash, Found>,
    stamps: Vec<Stamp>,
}

impl Looked {
    /// What was found under `hash`; `None` if nobody has looked.
    pub(super) fn get(&self, hash: IdHash) -> Option<&Found> {
        self.found.get(&hash)
    }

    /// Adds what another lookup found. Of the same hash, either is good.
    pub fn merge(&mut self, other: Looked) {
        self.found.extend(other.found);
        self.stamps.extend(other.stamps);
    }

    /// Whether nothing was looked for.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All positions found, for whoever reads their records.
    pub fn positions(&self) -> Vec<Position> {
        let mut positions: Vec<_> =
            self.found.values().flatten().flat_map(|positions| positions.iter().copied()).collect();
        positions.sort_unstable();
        positions.dedup();
        positions
    }
}

/// A page to be searched for the key of a wanted hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Probe {
    run: usize,
    page: u64,
    wanted: usize,
    key: RunKey,
}

impl<D: Disk> PageLookup<D> {
    pub(super) fn new(disk: D, dir: PathBuf, view: View<D>) -> PageLookup<D> {
        PageLookup { disk, dir, view, wanted: Vec::new() }
    }

    pub(super) fn add(&mut self, hash: IdHash, runs: RunMask) {
        self.wanted.push((hash, runs));
    }

    /// How many hashes it looks for.
    pub fn len(&self) -> usize {
        self.wanted.len()
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Reads the pages, and waits for them. The second value is how many there were. A page that cannot be read or is
    /// damaged keeps only the hashes that may be on it from being found; damage also condemns the index, so that the
    /// next start builds it again.
    pub fn run(self) -> (Looked, u64) {
        let (found, pages) = self.read();
        if let Some(error) = found.iter().find_map(|found| found.as_ref().err()) {
            condemn(&self.disk, &self.dir, error);
        }
        let newest_first = |mut positions: Vec<Position>| {
            positions.sort_unstable_by(|a, b| b.cmp(a));
            positions.dedup();
            positions.into_boxed_slice()
        };
        let hashes = self.wanted.iter().map(|(hash, _)| *hash);
        let found = hashes.zip(found.into_iter().map(|found| found.map(newest_first))).collect();
        (Looked { found, stamps: vec![self.view.stamp] }, pages)
    }

    fn read(&self) -> (Vec<FoundOnPages>, u64) {
        let mut found: Vec<FoundOnPages> = self.wanted.iter().map(|_| Ok(Vec::new())).collect();
        let (mut bytes, mut pages) = ([0; PAGE_BYTES], 0);
        let probes = self.probes();
        let mut absent = Vec::new();
        for probes in probes.chunk_by(|one, next| (one.run, one.page) == (next.run, next.page)) {
            let (run, offset) = (&self.view.runs[probes[0].run], RunHeader::page_offset(probes[0].page));
            pages += 1;
            // What fails here fails again below, where it is said.
            if matches!(run.file().read_cached(&mut bytes, offset), Ok(true)) {
                pages += search(run, probes, Ok(&bytes), &mut found);
            } else {
                let _ = run.file().will_need(offset, PAGE_BYTES as u64);
                absent.push(probes);
            }
        }
        for probes in absent {
            let run = &self.view.runs[probes[0].run];
            let read = run.read_page(probes[0].page, &mut bytes);
            pages += search(run, probes, read.map(|()| &bytes), &mut found);
        }
        (found, pages)
    }

    /// In the order of the files.
    fn probes(&self) -> Vec<Probe> {
        let mut probes = Vec::with_capacity(self.wanted.len());
        for (wanted, (hash, mask)) in self.wanted.iter().enumerate() {
            for (at, run) in self.view.runs.iter().enumerate().filter(|(at, _)| mask.has(*at)) {
                probes.extend(run.keys(*hash).map(|key| Probe { run: at, page: run.first_page(key), wanted, key }));
            }
        }
        probes.sort_unstable();
        probes
    }
}

/// What was found under a wanted hash until now.
type FoundOnPages = Result<Vec<Position>, Arc<IdsError>>;

/// Searches one page, as it was read, for several keys. Where a key may go on in the next pages they are read, too; how
/// many.
fn search<F: DiskFile>(
    run: &Run<F>,
    probes: &[Probe],
    bytes: Result<&[u8; PAGE_BYTES], IdsError>,
    found: &mut [FoundOnPages],
) -> u64 {
    let mut pages = 0;
    let page = bytes.and_then(|bytes| run.verify(bytes, probes[0].page));
    let page = page.map_err(Arc::new);
    for Probe { wanted, key, page: number, .. } in probes {
        let outcome = &mut found[*wanted];
        let Ok(out) = outcome else { continue };
        let searched = match &page {
            Ok(page) => search_on(run, *page, *number, *key, out, &mut pages).map_err(Arc::new),
            Err(error) => Err(Arc::clone(error)),
        };
        if let Err(error) = searched
            && !(is_planted(Bug::UnreadableTakenForAbsent) && matches!(*error, IdsError::Io { .. }))
        {
            *outcome = Err(error);
        }
    }
    pages
}

/// Searches `page`, and those behind it as long as the key may go on.
fn search_on<F: DiskFile>(
    run: &Run<F>,
    page: Page<'_>,
    mut number: u64,
    key: RunKey,
    out: &mut Vec<Position>,
    pages: &mut u64,
) -> Result<(), IdsError> {
    let mut goes_on = run.search(page, number, key, out);
    let mut next = [0; PAGE_BYTES];
    while goes_on {
        number += 1;
        *pages += 1;
        run.read_page(number, &mut next)?;
        goes_on = run.search(run.verify(&next, number)?, number, key, out);
    }
    Ok(())
}
