//! Opens an index, or deletes a damaged one.
//!
//! ```text
//!   manifest ─▶ each run: header, fences, filters  ─┬▶ index, covered
//!       │          young runs: every page ─▶ filter ─┘
//!       └─ anything wrong, or condemned ─▶ delete all ─▶ empty index, covered = 0: the journal's replay fills it again
//! ```
//!
//! Why pages of young runs are read: the filter of the younger ids is made of them (it is not stored). There are at
//! most some tens of millions of these ids, and hashes are read in the order of the filter's blocks.
//!
//! Why pages of large runs are not: a billion entries are 16 GB. They are verified when they are used, and by
//! [`super::RunScrub`]; whoever finds damage condemns the index, and the next start builds it again.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use tidegate_disk::{Disk, DiskFile};
use tidegate_journal::{Cursor, LogId, Position, Timeline};

use super::builder::Builder;
use super::condemn::{CONDEMNED, condemned};
use super::entry::Entry;
use super::filter::Filter;
use super::manifest::{MANIFEST, MANIFEST_NEXT, Manifest};
use super::run::{Run, RunHeader, verify_header};
use super::run_reader::RunReader;
use super::run_tail;
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

/// What an index says of the journal that it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimOfIndex {
    /// It has every record up to here.
    pub covered: Position,
    /// The timeline of the journal.
    pub timeline: Timeline,
    /// Up to where the journal was durable; `None` in an index of an earlier version, which only says what it covers.
    pub stands_on: Option<Cursor>,
    /// The log, and its data directory; `None` in an index of an earlier version, which does not say.
    pub log: Option<LogId>,
}

/// What the index in `dir` says of its journal; `None` if there is no index, or a damaged one, which says nothing.
pub fn claim<D: Disk>(disk: &D, dir: &Path) -> Option<ClaimOfIndex> {
    let Manifest { covered, timeline, stands_on, log, .. } = Manifest::load(disk, dir).ok().flatten()?;
    Some(ClaimOfIndex { covered, timeline, stands_on, log })
}

struct Loaded<D: Disk> {
    manifest: Manifest,
    stands_on: Cursor,
    runs: Vec<Arc<Run<D::File>>>,
    filter: Filter,
}

impl<D: Disk> IdIndex<D> {
    /// Opens the index in `dir`, or makes one. `journal_end` is the position of the last record of the recovered
    /// journal: an index that was made of more belongs to another journal. Whether one that was made of less is of this
    /// journal, who replays it finds out: see [`IdIndex::stands_on`]. `progress` is told entries read and entries in
    /// all. Err only for errors of the system; damage leads to an empty index, and so do files that the disk does not
    /// give, or in whose place something else stands: all of it is in the journal.
    pub fn open(
        disk: D,
        dir: &Path,
        options: IdsOptions,
        journal_end: Position,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Opened<D>, IdsError> {
        options.check();
        disk.create_dir_all(dir).map_err(IdsError::io("create", dir))?;
        let usable = match condemned(&disk, dir)? {
            Some(what) => Err(IdsError::Damaged { path: dir.join(CONDEMNED), what }),
            None => load(&disk, dir, &options, journal_end, progress),
        };
        let (loaded, discarded) = match usable {
            Ok(loaded) => (loaded, None),
            Err(error) if error.is_of_the_file() => {
                delete_manifests(&disk, dir)?;
                (Loaded::empty(&options), Some(error.to_string()))
            }
            Err(error) => return Err(error),
        };
        delete_unnamed(&disk, dir, &loaded.manifest)?;
        let (covered, timeline) = (loaded.manifest.covered, loaded.manifest.timeline);
        let entries = loaded.manifest.runs.iter().map(|run| run.entries).sum();
        let builder = Builder::new(disk.clone(), dir, &options, &loaded.manifest, loaded.stands_on, loaded.runs);
        let view = builder.view();
        let published = builder.published();
        let worker = Worker::start(builder, options.builder).map_err(IdsError::io("start the builder for", dir))?;
        let index = IdIndex {
            disk,
            dir: dir.to_owned(),
            options,
            seed: loaded.manifest.seed,
            filter: loaded.filter,
            recent: Table::new(options.freeze_at),
            kept: VecDeque::new(),
            frozen: VecDeque::new(),
            released: 0,
            to_cover: covered,
            told_to_cover: covered,
            spare: None,
            filtered: view.runs.iter().take_while(|run| run.header().is_filtered()).count(),
            filtered_up_to: view.filtered_up_to(),
            view,
            stamps: VecDeque::new(),
            timeline,
            has_inherited: covered > Position(0),
            to_rebuild: None,
            rebuilt_for: None,
            published,
            worker,
            entries,
            newest: covered,
            durable: loaded.stands_on,
            counted: Counted::default(),
        };
        index.assert_consistent();
        Ok(Opened { index, covered, discarded })
    }
}

impl<D: Disk> Loaded<D> {
    fn empty(options: &IdsOptions) -> Loaded<D> {
        let (seed, timeline, covered) = (options.seed, Timeline::FIRST, Position(0));
        let stands_on = Cursor::START;
        let (log, runs) = (Some(options.log), Vec::new());
        let manifest = Manifest { seed, timeline, next_number: 1, covered, stands_on: Some(stands_on), log, runs };
        let none = (Position(0), Position(0));
        let filter = Filter::new(0, none, options.filter_ids_first, options.young_filter_bytes_max());
        Loaded { manifest, stands_on, runs: Vec::new(), filter }
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
    let covered = manifest.covered;
    let Some(stands_on) = manifest.stands_on else {
        let what = "an earlier version wrote it, and it does not say of which journal it is";
        return Err(IdsError::damaged(&dir.join(MANIFEST), what));
    };
    if let Some(other) = manifest.log.filter(|log| *log != options.log) {
        let what = format!("it is of {other}, and not of {}", options.log);
        return Err(IdsError::damaged(&dir.join(MANIFEST), what));
    }
    if stands_on.position > journal_end {
        let place = stands_on.position;
        let what = format!("it was made of a journal up to {place}, but the journal ends at {journal_end}");
        return Err(IdsError::damaged(&dir.join(MANIFEST), what));
    }
    let young: Vec<_> = manifest.runs.iter().filter(|run| !run.is_filtered()).collect();
    let total: u64 = young.iter().map(|run| run.entries).sum();
    let first = young.first().map_or(Position(0), |run| run.first);
    let bytes_max = options.young_filter_bytes_max();
    let mut filter = Filter::new(total as usize, (first, covered), options.filter_ids_first, bytes_max);
    let mut runs = Vec::with_capacity(manifest.runs.len());
    let mut done_before = 0;
    for header in &manifest.runs {
        let run = load_run(disk, dir, header)?;
        if !header.is_filtered() {
            restore(&run, &mut filter, &mut |done| progress(done_before + done, total))?;
            done_before += header.entries;
        }
        runs.push(Arc::new(run));
    }
    Ok(Loaded { manifest, stands_on, runs, filter })
}

/// Opens a run as the manifest describes it, and verifies all of it but its pages.
pub(super) fn load_run<D: Disk>(disk: &D, dir: &Path, header: &RunHeader) -> Result<Run<D::File>, IdsError> {
    let path = dir.join(header.file_name());
    let file = disk.open(&path).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound => IdsError::damaged(&path, "the manifest names it, but it is not there"),
        _ => IdsError::Io { action: "open", path: path.clone(), cause },
    })?;
    verify_header(&file, &path, header)?;
    let index = run_tail::read(&file, &path, header)?;
    Ok(Run::new(file, path, *header, index))
}

/// Puts the entries of a young run into the filter, and verifies its pages on the way.
fn restore<F: DiskFile>(run: &Run<F>, filter: &mut Filter, progress: &mut dyn FnMut(u64)) -> Result<(), IdsError> {
    let (mut reported, mut done) = (0, 0);
    verify_pages(run, &mut |entry| {
        filter.restore(entry.key().hash());
        done += 1;
        if done - reported >= PROGRESS_ENTRIES || done == run.entries() {
            progress(done);
            reported = done;
        }
    })
}

/// Reads all pages of a run, and shows each entry to `see`.
pub(super) fn verify_pages<F: DiskFile>(run: &Run<F>, see: &mut dyn FnMut(Entry)) -> Result<(), IdsError> {
    let mut reader = RunReader::new(*run.header());
    for page in 0..run.header().pages() {
        for entry in reader.next_page(run.file(), run.path())? {
            if !run.index().has(page, entry.key()) {
                return Err(IdsError::damaged(run.path(), format!("its fences do not lead to page {page}")));
            }
            see(entry);
        }
    }
    Ok(())
}

/// First and durably: a manifest that outlived its runs would be called damaged again.
pub(super) fn delete_manifests<D: Disk>(disk: &D, dir: &Path) -> Result<(), IdsError> {
    for name in [MANIFEST, MANIFEST_NEXT, CONDEMNED] {
        let path = dir.join(name);
        if disk.exists(&path).map_err(IdsError::io("look for", &path))? {
            remove(disk, &path)?;
        }
    }
    disk.sync_dir(dir).map_err(IdsError::io("sync", dir))
}

/// Removes a file. Something else in its place is nobody's of here, and is renamed.
fn remove<D: Disk>(disk: &D, path: &Path) -> Result<(), IdsError> {
    match disk.remove(path) {
        Err(cause) if cause.raw_os_error() == Some(libc::EISDIR) => {
            let mut aside = path.as_os_str().to_owned();
            aside.push(".set-aside");
            disk.rename(path, Path::new(&aside)).map_err(IdsError::io("rename", path))
        }
        removed => removed.map_err(IdsError::io("remove", path)),
    }
}

/// Deletes runs that were being written or already replaced when the process ended.
fn delete_unnamed<D: Disk>(disk: &D, dir: &Path, manifest: &Manifest) -> Result<(), IdsError> {
    let named: Vec<String> = manifest.runs.iter().map(RunHeader::file_name).collect();
    for name in disk.list(dir).map_err(IdsError::io("list", dir))? {
        if name.ends_with(".run") && !named.contains(&name) {
            remove(disk, &dir.join(&name))?;
        }
    }
    Ok(())
}
