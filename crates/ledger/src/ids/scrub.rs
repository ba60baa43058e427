//! Reads all runs again, so that a rotten page is found before somebody needs it.
//!
//! Why beside the index, with files of its own: it may wait for the disk, and a merge may replace a run at any moment.

use std::io;
use std::path::{Path, PathBuf};

use tidegate_disk::Disk;
use tidegate_machines::DamagedPlace;

use super::IdsError;
use super::manifest::Manifest;
use super::run::{PAGE_BYTES, PAGE_ENTRIES, RunHeader, verify_header};
use super::run_reader::RunReader;

/// The reading of one index's runs, pass after pass. Its owner says when, and how much.
pub struct RunScrub<D: Disk> {
    disk: D,
    dir: PathBuf,
    /// The runs of this pass that are still to be read; `None` between two passes.
    waiting: Option<Vec<RunHeader>>,
    open: Option<(D::File, PathBuf, RunReader)>,
    entries: u64,
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
}

impl<D: Disk> RunScrub<D> {
    /// A reading of the index in `dir`.
    pub fn new(disk: D, dir: &Path) -> RunScrub<D> {
        RunScrub { disk, dir: dir.to_owned(), waiting: None, open: None, entries: 0 }
    }

    /// Reads about `bytes` more.
    pub fn step(&mut self, bytes: u64) -> RunsRead {
        let mut done = RunsRead::default();
        match self.try_step(bytes, &mut done) {
            Ok(()) => {}
            Err(IdsError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => self.open = None,
            Err(error) => {
                self.open = None;
                done.damage = Some(error.place());
            }
        }
        done
    }

    fn try_step(&mut self, bytes: u64, done: &mut RunsRead) -> Result<(), IdsError> {
        if self.waiting.is_none() {
            // Without a manifest that can be read the pass has nothing to read.
            self.waiting = Some(Vec::new());
            self.entries = 0;
            let manifest = Manifest::load(&self.disk, &self.dir)?;
            self.waiting = Some(manifest.map_or_else(Vec::new, |manifest| manifest.runs));
        }
        while done.bytes < bytes {
            if self.open.is_none() && !self.open_next()? {
                self.waiting = None;
                done.ended = Some(self.entries);
                return Ok(());
            }
            let (file, path, reader) = self.open.as_mut().expect("it was opened");
            let entries = reader.next_page(file, path)?.count() as u64;
            done.bytes += PAGE_BYTES as u64;
            self.entries += entries;
            assert!(entries <= PAGE_ENTRIES as u64, "a page has no more entries than fit it");
            if entries == 0 {
                self.open = None;
            }
        }
        Ok(())
    }

    /// Opens the next run; false when all were read. One that was merged meanwhile is gone, and not missed.
    fn open_next(&mut self) -> Result<bool, IdsError> {
        let Some(header) = self.waiting.as_mut().and_then(Vec::pop) else { return Ok(false) };
        let path = self.dir.join(header.file_name());
        let file = match self.disk.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let named = Manifest::load(&self.disk, &self.dir)?.map_or_else(Vec::new, |manifest| manifest.runs);
                if named.contains(&header) {
                    return Err(IdsError::damaged(&path, "the file is missing"));
                }
                return self.open_next();
            }
            Err(error) => return Err(IdsError::io("open", &path)(error)),
        };
        verify_header(&file, &path, &header)?;
        self.open = Some((file, path, RunReader::new(header)));
        Ok(true)
    }
}
