//! Opens an index, or deletes a damaged one.
//!
//! ```text
//!   manifest ─▶ each run: header, then every page ─▶ fences + filter ─▶ index, covered
//!       └─ anything wrong ─▶ delete all ─▶ empty index, covered = 0: the journal's replay fills it again
//! ```
//!
//! Why every page is read: the filter is made of them (it is not stored), and damage is then found here, where it can
//! be repaired, and not by a lookup, which could only stop the shard. Hashes are read in order and the filter's blocks
//! are in the order of the hashes, so memory is accessed sequentially.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use tidegate_disk::Disk;
use tidegate_journal::{Position, Timeline};

use super::builder::Builder;
use super::filter::Filter;
use super::manifest::{MANIFEST, MANIFEST_NEXT, Manifest};
use super::run::{Fences, Run, RunHeader, verify_header};
use super::run_reader::RunReader;
use super::table::Table;
use super::worker::Worker;
use super::{Counted, IdIndex, IdsError, IdsOptions};

/// Entries between two calls of the progress callback, about.
const PROGRESS_ENTRIES: u64 = 1 << 18;

/// An open index and what was found.
pub struct Opened<D: Disk> {
    /// Ready for inserts and lookups.
    pub index: IdIndex<D>,
    /// Records after this position are to be inserted by the journal's replay; zero: all of them.
    pub covered: Position,
    /// Why an existing index was thrown away, in words for the operator's log; `None` when all was well or new.
    pub discarded: Option<String>,
}

/// Up to which record of the journal the index in `dir` says that it covers all, and in which timeline; `None` if there
/// is no index, or a damaged one, which says nothing.
pub fn claim<D: Disk>(disk: &D, dir: &Path) -> Option<(Position, Timeline)> {
    let manifest = Manifest::load(disk, dir).ok().flatten()?;
    Some((manifest.covered(), Timeline::FIRST))
}

struct Loaded<D: Disk> {
    manifest: Manifest,
    runs: Vec<Arc<Run<D::File>>>,
    filter: Filter,
}

impl<D: Disk> IdIndex<D> {
    /// Opens the index in `dir`, or makes one. `journal_end` is the position of the last record of the recovered
    /// journal: an index that covers more belongs to another journal. `progress` is told entries read and entries in
    /// all. Err only for errors of the system; damage leads to an empty index.
    pub fn open(
        disk: D,
        dir: &Path,
        options: IdsOptions,
        journal_end: Position,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Opened<D>, IdsError> {
        options.check();
        disk.create_dir_all(dir).map_err(IdsError::io("create", dir))?;
        let (loaded, discarded) = match load(&disk, dir, &options, journal_end, progress) {
            Ok(loaded) => (loaded, None),
            Err(error @ IdsError::Damaged { .. }) => {
                delete_manifests(&disk, dir)?;
                (Loaded::empty(&options), Some(error.to_string()))
            }
            Err(error) => return Err(error),
        };
        delete_unnamed(&disk, dir, &loaded.manifest)?;
        let covered = loaded.manifest.covered();
        let builder = Builder::new(disk, dir, &options, &loaded.manifest, loaded.runs);
        let view = builder.view();
        let worker = Worker::start(builder, options.builder).map_err(IdsError::io("start the builder for", dir))?;
        let index = IdIndex {
            options,
            seed: loaded.manifest.seed,
            filter: loaded.filter,
            recent: Table::new(options.freeze_at),
            frozen: VecDeque::new(),
            released: 0,
            spare: None,
            view,
            worker,
            newest: covered,
            durable: covered,
            counted: Counted::default(),
        };
        index.assert_consistent();
        Ok(Opened { index, covered, discarded })
    }
}

impl<D: Disk> Loaded<D> {
    fn empty(options: &IdsOptions) -> Loaded<D> {
        let manifest = Manifest { seed: options.seed, next_number: 1, runs: Vec::new() };
        let filter = Filter::new(0, Position(0), options.filter_ids_first, options.filter_bytes_max);
        Loaded { manifest, runs: Vec::new(), filter }
    }
}

fn load<D: Disk>(
    disk: &D,
    dir: &Path,
    options: &IdsOptions,
    journal_end: Position,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Loaded<D>, IdsError> {
    let Some(manifest) = Manifest::load(disk, dir)? else { return Ok(Loaded::empty(options)) };
    let covered = manifest.covered();
    if covered > journal_end {
        let what = format!("it covers records up to {covered}, but the journal ends at {journal_end}");
        return Err(IdsError::damaged(&dir.join(MANIFEST), what));
    }
    let total: u64 = manifest.runs.iter().map(|run| run.entries).sum();
    let mut filter = Filter::new(total as usize, covered, options.filter_ids_first, options.filter_bytes_max);
    let mut runs = Vec::with_capacity(manifest.runs.len());
    let mut done_before = 0;
    for header in &manifest.runs {
        let run = load_run(disk, dir, header, &mut filter, &mut |done| progress(done_before + done, total))?;
        runs.push(Arc::new(run));
        done_before += header.entries;
    }
    Ok(Loaded { manifest, runs, filter })
}

fn load_run<D: Disk>(
    disk: &D,
    dir: &Path,
    header: &RunHeader,
    filter: &mut Filter,
    progress: &mut dyn FnMut(u64),
) -> Result<Run<D::File>, IdsError> {
    let path = dir.join(header.file_name());
    let file = disk.open(&path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => IdsError::damaged(&path, "the manifest names it, but it is not there"),
        _ => IdsError::Io { action: "open", path: path.clone(), source },
    })?;
    verify_header(&file, &path, header)?;
    let mut fences = Fences::for_pages(header.pages());
    let mut reader = RunReader::new(*header);
    let mut reported = 0;
    let mut done = 0;
    for page in 0..header.pages() {
        for (index, entry) in reader.next_page(&file, &path)?.enumerate() {
            if index == 0 {
                fences.note(page, entry.hash);
            }
            filter.restore(entry.hash);
            done += 1;
        }
        if done - reported >= PROGRESS_ENTRIES || done == header.entries {
            progress(done);
            reported = done;
        }
    }
    Ok(Run::new(file, path, *header, fences))
}

/// First and durably: a manifest that outlived its runs would be called damaged again.
fn delete_manifests<D: Disk>(disk: &D, dir: &Path) -> Result<(), IdsError> {
    for name in [MANIFEST, MANIFEST_NEXT] {
        let path = dir.join(name);
        if disk.exists(&path).map_err(IdsError::io("look for", &path))? {
            disk.remove(&path).map_err(IdsError::io("remove", &path))?;
        }
    }
    disk.sync_dir(dir).map_err(IdsError::io("sync", dir))
}

/// Deletes runs that were being written or already replaced when the process ended.
fn delete_unnamed<D: Disk>(disk: &D, dir: &Path, manifest: &Manifest) -> Result<(), IdsError> {
    let named: Vec<String> = manifest.runs.iter().map(RunHeader::file_name).collect();
    for name in disk.list(dir).map_err(IdsError::io("list", dir))? {
        if name.ends_with(".run") && !named.contains(&name) {
            let path = dir.join(&name);
            disk.remove(&path).map_err(IdsError::io("remove", &path))?;
        }
    }
    Ok(())
}
