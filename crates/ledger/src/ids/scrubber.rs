//! Reads all pages of all runs again, a bounded piece at a time, so that damage is found before somebody needs the page.
//!
//! ```text
//!   shard ── publishes ─▶ │ runs │ ◀─ takes them ── Scrubber::step(bytes), on a thread that may wait
//! ```

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_disk::{Disk, DiskFile};

use super::IdsError;
use super::condemn::condemn;
use super::run::{PAGE_BYTES, Run};
use super::run_reader::RunReader;
use super::run_tail;

/// The runs of an index as they are now.
pub(super) struct Published<D: Disk>(Mutex<Arc<[Arc<Run<D::File>>]>>);

impl<D: Disk> Published<D> {
    pub(super) fn new(runs: Arc<[Arc<Run<D::File>>]>) -> Published<D> {
        Published(Mutex::new(runs))
    }

    pub(super) fn put(&self, runs: Arc<[Arc<Run<D::File>>]>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = runs;
    }

    fn get(&self) -> Arc<[Arc<Run<D::File>>]> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How far a scrub of the id index has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdsScrubbed {
    /// Bytes read by this step.
    pub bytes: u64,
    /// Bytes that this pass has read and verified.
    pub bytes_done: u64,
    /// Bytes of the runs that are there now.
    pub bytes_in_all: u64,
    /// Whether this step ended a pass over all runs.
    pub is_pass_done: bool,
}

/// Verifies the runs of one index, pass after pass. Lives on any thread; runs that are merged meanwhile are left out.
pub struct IdScrubber<D: Disk> {
    disk: D,
    dir: PathBuf,
    published: Arc<Published<D>>,
    /// Runs with numbers up to this one are done in this pass; the oldest ones come first.
    reading: Option<(Arc<Run<D::File>>, RunReader, u64)>,
    done: Vec<u64>,
    bytes_done: u64,
}

impl<D: Disk> IdScrubber<D> {
    pub(super) fn new(disk: D, dir: PathBuf, published: Arc<Published<D>>) -> IdScrubber<D> {
        IdScrubber { disk, dir, published, reading: None, done: Vec::new(), bytes_done: 0 }
    }

    /// Reads about `bytes` bytes more, at least a page. Err names the damaged file and page; the index is condemned
    /// then, and the next start builds it again. A later step goes on behind that run.
    pub fn step(&mut self, bytes: u64) -> Result<IdsScrubbed, IdsError> {
        let runs = self.published.get();
        let mut step = IdsScrubbed { bytes_in_all: runs.iter().map(|run| run.bytes()).sum(), ..IdsScrubbed::default() };
        while step.bytes < bytes.max(1) && !step.is_pass_done {
            let (run, mut reader, mut pages) = match self.reading.take() {
                Some(reading) => reading,
                None => match runs.iter().find(|run| !self.done.contains(&run.header().number)) {
                    Some(run) => (Arc::clone(run), RunReader::new(*run.header()), 0),
                    None => {
                        step.is_pass_done = true;
                        break;
                    }
                },
            };
            // Damage ends the reading of this run, so that the next step does not meet it for ever.
            let number = run.header().number;
            match verify_some(&run, &mut reader, &mut pages, bytes.saturating_sub(step.bytes)) {
                Ok((read, false)) => {
                    step.bytes += read;
                    self.reading = Some((run, reader, pages));
                }
                Ok((read, true)) => {
                    step.bytes += read;
                    self.done.push(number);
                }
                Err(error) => {
                    self.done.push(number);
                    condemn(&self.disk, &self.dir, &error);
                    return Err(error);
                }
            }
        }
        self.bytes_done += step.bytes;
        step.bytes_done = self.bytes_done;
        if step.is_pass_done {
            (self.done, self.bytes_done) = (Vec::new(), 0);
        }
        Ok(step)
    }
}

/// Reads pages until there were about `bytes`. How many bytes there were, and whether that was the whole run.
fn verify_some<F: DiskFile>(
    run: &Run<F>,
    reader: &mut RunReader,
    pages: &mut u64,
    bytes: u64,
) -> Result<(u64, bool), IdsError> {
    let mut read = 0;
    while *pages < run.header().pages() {
        let mut entries = reader.next_page(run.file(), run.path())?;
        if let Some(missed) = entries.find(|entry| !run.index().has(*pages, entry.key())) {
            let what = format!("its fences or filters do not have the entry {missed:?} of page {pages}");
            return Err(IdsError::damaged(run.path(), what));
        }
        *pages += 1;
        read += PAGE_BYTES as u64;
        if read >= bytes {
            return Ok((read, false));
        }
    }
    // The fences and filters in memory were compared with the pages; this is about the next start.
    run_tail::read(run.file(), run.path(), run.header())?;
    super::run::verify_header(run.file(), run.path(), run.header())?;
    Ok((read + run.header().file_bytes() - run.header().tail_offset(), true))
}
