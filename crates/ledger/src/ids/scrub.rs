//! Reads all runs again, a bounded piece at a time, so that damage is found before somebody needs the page.
//!
//! ```text
//!   builder ── publishes ─▶ │ runs │ ◀─ looks ── RunScrub::step(bytes), on a thread that may wait ─▶ its own files
//! ```
//!
//! Why files of its own: a file that is gone, or another one in its place, is damage for the next start, though the
//! index still has the old one open.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_disk::Disk;
use tidegate_journal::Position;
use tidegate_machines::DamagedPlace;

use super::condemn::condemn;
use super::manifest::Manifest;
use super::run::{PAGE_BYTES, Run, verify_header};
use super::run_reader::RunReader;
use super::run_tail::TailCheck;
use super::{IdDigest, IdSeed, IdsError};

/// The runs of an index, oldest first.
type Runs<D> = Arc<[Arc<Run<<D as Disk>::File>>]>;

/// The runs of an index as they are now.
pub(super) struct Published<D: Disk>(Mutex<Runs<D>>);

impl<D: Disk> Published<D> {
    pub(super) fn new(runs: Runs<D>) -> Published<D> {
        Published(Mutex::new(runs))
    }

    pub(super) fn put(&self, runs: Runs<D>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = runs;
    }

    fn get(&self) -> Runs<D> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The reading of one index's runs, pass after pass. Its owner says when, and how much.
pub struct RunScrub<D: Disk> {
    disk: D,
    dir: PathBuf,
    published: Arc<Published<D>>,
    /// Whether a pass is under way.
    has_begun: bool,
    /// Numbers of the runs that this pass has read, or tried to.
    done: Vec<(u64, Position)>,
    open: Option<OpenRun<D>>,
    entries: u64,
    seed: IdSeed,
    /// The sum over the entries of this pass, if one is wanted.
    digest: Option<IdDigest>,
}

/// A run that is being read.
struct OpenRun<D: Disk> {
    run: Arc<Run<D::File>>,
    file: D::File,
    pages: RunReader,
    /// How many of them are read.
    page: u64,
    /// Once they all are.
    tail: Option<TailCheck>,
}

/// What a step of a [`RunScrub`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunsRead {
    /// Bytes read.
    pub bytes: u64,
    /// What it found damaged.
    pub damage: Option<DamagedPlace>,
    /// Entries of all runs, when the pass has ended with this step.
    pub ended: Option<u64>,
    /// With that, the sum that was asked for, if the pass has read each run that has part of it, and no other.
    pub digest: Option<IdDigest>,
}

impl<D: Disk> RunScrub<D> {
    pub(super) fn new(disk: D, dir: PathBuf, seed: IdSeed, published: Arc<Published<D>>) -> RunScrub<D> {
        let (done, open, digest) = (Vec::new(), None, None);
        RunScrub { disk, dir, published, has_begun: false, done, open, entries: 0, seed, digest }
    }

    /// An empty sum up to where runs have every record by now, and what ids are hashed with; `None` without runs.
    pub fn begin_digest(&self) -> Option<(IdSeed, IdDigest)> {
        let runs = self.published.get();
        Some((self.seed, IdDigest::up_to(runs.last()?.last())))
    }

    /// Has the next pass sum up all entries up to `end`, where runs have every record.
    pub fn sum_up_to(&mut self, end: Position) {
        (self.has_begun, self.done, self.open, self.entries) = (false, Vec::new(), None, 0);
        self.digest = Some(IdDigest::up_to(end));
    }

    /// Has the next start build the index again, for this reason.
    pub fn condemn(&self, what: &str) {
        condemn(&self.disk, &self.dir, &IdsError::damaged(&self.dir, what));
    }

    /// The sum of the pass that ends, unless runs were merged meanwhile: then some were read twice, or not at all.
    fn take_digest(&mut self) -> Option<IdDigest> {
        let digest = self.digest.take()?;
        let has_part = |run: &&Arc<Run<D::File>>| run.first() <= digest.end();
        let mut now: Vec<u64> = self.published.get().iter().filter(has_part).map(|run| run.header().number).collect();
        let mut read: Vec<u64> =
            self.done.iter().filter(|(_, first)| *first <= digest.end()).map(|(n, _)| *n).collect();
        now.sort_unstable();
        read.sort_unstable();
        (now == read).then_some(digest)
    }

    /// Reads about `bytes` more. Damage ends the step and the reading of that run, and condemns the index: the next
    /// start builds it again. The next step goes on behind that run.
    pub fn step(&mut self, bytes: u64) -> RunsRead {
        let mut done = RunsRead::default();
        if let Err(error) = self.try_step(bytes, &mut done) {
            (self.open, self.digest) = (None, None);
            condemn(&self.disk, &self.dir, &error);
            done.damage = Some(error.place());
        }
        done
    }

    fn try_step(&mut self, bytes: u64, done: &mut RunsRead) -> Result<(), IdsError> {
        if !self.has_begun {
            self.has_begun = true;
            // What it names is compared with the headers of the runs; this is about the next start.
            Manifest::load(&self.disk, &self.dir)?;
        }
        while done.bytes < bytes {
            if self.open.is_none() && !self.open_next()? {
                done.ended = Some(self.entries);
                done.digest = self.take_digest();
                (self.has_begun, self.done, self.entries) = (false, Vec::new(), 0);
                return Ok(());
            }
            let Some(open) = &mut self.open else { continue };
            if open.read_on(bytes, done, &mut self.entries, &mut self.digest)? {
                self.open = None;
            }
        }
        Ok(())
    }

    /// Opens the next run; false when all were read. One that was merged meanwhile is gone, and not missed.
    fn open_next(&mut self) -> Result<bool, IdsError> {
        let runs = self.published.get();
        let Some(run) = runs.iter().find(|run| self.done.iter().all(|(done, _)| *done != run.header().number)) else {
            return Ok(false);
        };
        let (number, path) = (run.header().number, run.path());
        self.done.push((number, run.first()));
        let file = match self.disk.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let is_missed = self.published.get().iter().any(|run| run.header().number == number);
                return if is_missed { Err(IdsError::damaged(path, "the file is missing")) } else { Ok(true) };
            }
            Err(error) => return Err(IdsError::io("open", path)(error)),
        };
        verify_header(&file, path, run.header())?;
        let pages = RunReader::new(*run.header());
        self.open = Some(OpenRun { run: Arc::clone(run), file, pages, page: 0, tail: None });
        Ok(true)
    }
}

impl<D: Disk> OpenRun<D> {
    /// Reads a page, or a piece of what is behind the pages, which is no longer than the step is to be. Whether that
    /// was the end.
    fn read_on(
        &mut self,
        step_bytes: u64,
        done: &mut RunsRead,
        entries: &mut u64,
        digest: &mut Option<IdDigest>,
    ) -> Result<bool, IdsError> {
        let (path, header) = (self.run.path(), self.run.header());
        if self.page == header.pages() {
            let tail = self.tail.get_or_insert_with(|| TailCheck::new(header));
            let read = tail.read_on(&self.file, path, step_bytes)?;
            done.bytes += read;
            return Ok(read == 0);
        }
        // What is in memory was made when the run was written, or read by the start: both are checked against pages.
        for entry in self.pages.next_page(&self.file, path)? {
            if !self.run.index().has(self.page, entry.key()) {
                let what = format!("page {} has an entry that its fences or filters do not have", self.page);
                return Err(IdsError::damaged(path, what));
            }
            *entries += 1;
            if let Some(digest) = digest {
                digest.add(entry.key().hash(), entry.position());
            }
        }
        self.page += 1;
        done.bytes += PAGE_BYTES as u64;
        Ok(false)
    }
}
