//! Taking a backup: cuts, then bytes, then the manifest that makes them one.
//!
//! ```text
//!   snapshots of logs that forget ─▶ cuts ─▶ segment files: what is not held yet ─▶ verify the chain ─▶ MANIFEST
//! ```
//!
//! Why in this order: a log that forgets keeps everything behind its newest snapshot, and a cut that is looked up after
//! the snapshot was read is not before it. If the server has written two more snapshots meanwhile, the segments behind
//! the first one may be gone, and that log is looked at once more.

use std::fs::{self, File};
use std::io::Seek;
use std::path::{Path, PathBuf};

use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::key::Key;
use tidegate_journal::segment::MARK_BYTES;
use tidegate_journal::{Cursor, Family, JournalError, LocalLogs, LogFiles, LogId, Position, Retention};
use tidegate_shard::snapshot::check;

use crate::Progress;
use crate::cut::{cut_family, settle};
use crate::error::BackupError;
use crate::files::{
    Held, IDENTITY, MANIFEST, Store, copy_bytes, create_folder, end_at, open_target, sync_folder, write_file,
};
use crate::known::Known;
use crate::manifest::{FileCopy, LogCopy, Manifest, SegmentCopy};
use crate::moment::Moment;

/// How often a log is looked at that forgets faster than it is copied.
const ATTEMPTS: usize = 3;

/// A backup that was taken.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Its name.
    pub name: String,
    /// The folder with its manifest.
    pub folder: PathBuf,
    /// Each log, and up to where the backup has it.
    pub logs: Vec<(String, Cursor)>,
    /// Bytes that were copied; the rest was held already.
    pub bytes_copied: u64,
    /// Bytes that it consists of.
    pub bytes: u64,
    /// What the person who asked should know.
    pub remarks: Vec<String>,
}

/// Takes a backup of the data directory `data` into the directory of backups `to`, which is created if it does not
/// exist. A server may go on using `data`. `known` are all families that the directory may have.
pub fn take(
    data: &Path,
    to: &Path,
    known: &[Known],
    now: Moment,
    progress: Progress<'_>,
) -> Result<Taken, BackupError> {
    let families: Vec<Family> = known.iter().map(|known| known.family).collect();
    let directory = Directory::look_at(data, &families)?;
    if let Some(other) = directory.others(&families).next() {
        return Err(BackupError::Refused(format!(
            "{}: it has logs of family \"{other}\", which this program does not know; use a program that serves it",
            data.display()
        )));
    }
    let store = begin(data, to)?;
    let _lock = store.lock()?;
    let held = Held::of(&store, directory.id())?;
    let source = Source { logs: LocalLogs::new(RealDisk, data, &families), data, directory: &directory };
    let copy = LocalLogs::new(RealDisk, to, &families);
    let mut remarks = Vec::new();
    let mut parts = Vec::new();
    for known in known {
        parts.extend(source.parts(known, &mut remarks)?);
    }
    let mut taking = Taking { held: &held, copied: 0, total: 0, progress };
    for part in &mut parts {
        taking.total += taking.missing(part)?;
    }
    let mut logs = Vec::new();
    for part in &parts {
        logs.push(taking.log(part, &copy.files(part.files.log()))?);
    }
    let bytes_copied = taking.copied;
    let manifest = Manifest { directory: directory.id(), created_at_ms: now.0, files: Vec::new(), logs };
    let name = finish(&store, data, now, manifest.clone(), &parts)?;
    Ok(Taken {
        folder: store.folder(&name),
        name,
        logs: manifest.logs.iter().map(|log| (log.name.clone(), log.end)).collect(),
        bytes_copied,
        bytes: manifest.logs.iter().flat_map(|log| &log.segments).map(|segment| segment.bytes).sum(),
        remarks,
    })
}

/// The directory of backups: a new one, or one that has backups.
fn begin(data: &Path, to: &Path) -> Result<Store, BackupError> {
    let store = Store { root: to.to_path_buf() };
    let is_inside = |inner: &Path, outer: &Path| match (fs::canonicalize(inner), fs::canonicalize(outer)) {
        (Ok(inner), Ok(outer)) => inner.starts_with(outer),
        _ => false,
    };
    let backups = store.folder("");
    if !backups.is_dir() {
        let is_empty = fs::read_dir(to).map_or(true, |mut entries| entries.next().is_none());
        if !is_empty {
            let what = "it is not empty and has no backups: give another directory, or an empty one";
            return Err(BackupError::Refused(format!("{}: {what}", to.display())));
        }
        create_folder(to)?;
        if is_inside(to, data) {
            let what = "backups belong on another disk than the data, and never inside of it";
            return Err(BackupError::Refused(format!("{}: {what}", to.display())));
        }
        create_folder(&backups)?;
        sync_folder(to)?;
    }
    // What an interrupted backup left is nobody's.
    for entry in fs::read_dir(&backups).map_err(BackupError::io("list", &backups))? {
        let path = entry.map_err(BackupError::io("list", &backups))?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            fs::remove_dir_all(&path).map_err(BackupError::io("remove", &path))?;
        }
    }
    Ok(store)
}

/// The data directory.
struct Source<'a> {
    data: &'a Path,
    directory: &'a Directory,
    logs: LocalLogs<RealDisk>,
}

/// What is copied of one log.
struct Part {
    /// Name of its folder.
    name: String,
    files: LogFiles<RealDisk>,
    snapshot: Option<(Cursor, Vec<u8>)>,
    end: Cursor,
    /// Its segments: where each begins, where its last group ends, and whether it is sealed.
    segments: Vec<(Cursor, Cursor, bool)>,
}

impl Source<'_> {
    /// All logs of a family, cut consistently.
    fn parts(&self, known: &Known, remarks: &mut Vec<String>) -> Result<Vec<Part>, BackupError> {
        let mut attempt = 1;
        loop {
            match self.try_parts(known, remarks) {
                Err(error) if attempt < ATTEMPTS && is_forgotten(known.family, &error) => attempt += 1,
                done => return done,
            }
        }
    }

    fn try_parts(&self, known: &Known, remarks: &mut Vec<String>) -> Result<Vec<Part>, BackupError> {
        let ids: Vec<LogId> = self.directory.logs(known.family).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let snapshots = ids.iter().map(|id| self.snapshot(known.family, *id)).collect::<Result<Vec<_>, _>>()?;
        let logs: Vec<LogFiles<RealDisk>> = ids.iter().map(|id| self.logs.files(*id)).collect();
        let cuts = cut_family(known, &logs)?;
        let in_use = self.directory.is_in_use()?;
        let mut parts = Vec::new();
        for ((files, snapshot), end) in logs.into_iter().zip(snapshots).zip(cuts) {
            let name = folder_name(&files);
            if settle(&files, end, in_use)? {
                remarks
                    .push(format!("{name}: its log stands still without a mark; its bytes were synced for the backup"));
            }
            let from = snapshot.as_ref().map_or(Cursor::START.position, |(cursor, _)| cursor.position);
            let segments = segments(&files, from, end)?;
            parts.push(Part { name, files, snapshot, end, segments });
        }
        Ok(parts)
    }

    /// The newest snapshot that stands in for what the log may have forgotten.
    fn snapshot(&self, family: Family, id: LogId) -> Result<Option<(Cursor, Vec<u8>)>, BackupError> {
        if family.retention == Retention::Whole {
            return Ok(None);
        }
        let folder = self.data.join("snapshots").join(format!("{}-{}", family.name, id.shard));
        if !folder.is_dir() {
            return Ok(None);
        }
        let mut paths = Vec::new();
        for entry in fs::read_dir(&folder).map_err(BackupError::io("list", &folder))? {
            let path = entry.map_err(BackupError::io("list", &folder))?.path();
            paths.extend(path.extension().is_some_and(|extension| extension == "tgs").then_some(path));
        }
        paths.sort();
        for path in paths.iter().rev() {
            // The server may have removed it since; then there is a newer one, or the log is whole.
            let Ok(bytes) = fs::read(path) else { continue };
            if let Some(key) = Key::read(&RealDisk, self.data)?
                && let Ok((stand, _)) = check(&bytes, id, key.bytes())
            {
                return Ok(Some((stand.cursor, bytes)));
            }
        }
        Ok(None)
    }
}

/// Whether the failure may be that the server removed a segment since.
fn is_forgotten(family: Family, error: &BackupError) -> bool {
    family.retention == Retention::SinceSnapshot
        && matches!(error, BackupError::Journal(JournalError::Forgotten { .. } | JournalError::Io { .. }))
}

/// `ledger-0`
fn folder_name(files: &LogFiles<RealDisk>) -> String {
    files.folder().file_name().expect("a log has a folder").to_string_lossy().into_owned()
}

/// The segments from the one that holds `from` to the one that holds `end`.
fn segments(
    files: &LogFiles<RealDisk>,
    from: Position,
    end: Cursor,
) -> Result<Vec<(Cursor, Cursor, bool)>, BackupError> {
    let firsts = files.segments()?;
    let begin = firsts.partition_point(|first| *first <= from).checked_sub(1);
    let Some(begin) = begin else {
        let begins = firsts.first().copied().unwrap_or_default();
        return Err(JournalError::Forgotten { at: from, begins }.into());
    };
    let mut segments: Vec<(Cursor, Cursor, bool)> = Vec::new();
    for (index, first) in firsts.iter().enumerate().skip(begin) {
        // An empty last segment is copied only where there is no other.
        if *first >= end.position && !segments.is_empty() {
            break;
        }
        let begins = files.begins(*first)?;
        let sealed = match firsts.get(index + 1) {
            Some(next) if *next <= end.position => Some((files.begins(*next)?, files.sealed_end(*first)?.is_some())),
            _ => None,
        };
        let (ends, sealed) = sealed.unwrap_or((end, false));
        segments.push((begins, ends, sealed));
    }
    Ok(segments)
}

/// Copying bytes, and counting them.
struct Taking<'a, 'b> {
    held: &'a Held,
    copied: u64,
    total: u64,
    progress: Progress<'b>,
}

impl Taking<'_, '_> {
    /// Bytes of a log that are not held yet.
    fn missing(&self, part: &Part) -> Result<u64, BackupError> {
        let of = |(begins, end, sealed): &(Cursor, Cursor, bool)| {
            let held = self.held.segment(&part.name, begins.position).map_or(0, |held| held.bytes);
            bytes_of(&part.files, begins.position, *end, *sealed).saturating_sub(held)
        };
        Ok(part.segments.iter().map(of).sum())
    }

    /// Copies what is not held of one log, and verifies it.
    fn log(&mut self, part: &Part, copy: &LogFiles<RealDisk>) -> Result<LogCopy, BackupError> {
        create_folder(copy.folder())?;
        let mut segments = Vec::new();
        for segment in &part.segments {
            segments.push(self.segment(part, copy, *segment)?);
        }
        sync_folder(copy.folder())?;
        let snapshot = part.snapshot.as_ref().map(|(cursor, bytes)| {
            let name = LogCopy::snapshot_name(&part.name);
            (*cursor, FileCopy { name, bytes: bytes.len() as u64, hash: blake3::hash(bytes) })
        });
        Ok(LogCopy { name: part.name.clone(), end: part.end, snapshot, segments })
    }

    fn segment(
        &mut self,
        part: &Part,
        copy: &LogFiles<RealDisk>,
        (begins, end, sealed): (Cursor, Cursor, bool),
    ) -> Result<SegmentCopy, BackupError> {
        let first = begins.position;
        let bytes = bytes_of(&part.files, first, end, sealed);
        let target_path = copy.path(first);
        let held = self.held.segment(&part.name, first);
        if let Some(held) = held {
            let there = fs::metadata(&target_path).map_err(BackupError::io("look at", &target_path))?.len();
            if there < held.bytes {
                let what = format!("it has {there} bytes, and a backup needs {} of it", held.bytes);
                return Err(BackupError::damaged(&target_path, format!("{what}; take backups to another directory")));
            }
            if held.bytes > bytes || held.sealed && held.end != end {
                return Err(another_timeline(&part.files.path(first), &target_path));
            }
            // The chain hash at the end stands for all bytes before it.
            if held.bytes == bytes && held.end == end {
                return Ok(held.clone());
            }
        }
        let path = part.files.locate(first)?;
        let mut source = File::open(&path).map_err(BackupError::io("open", &path))?;
        let mut target = open_target(&target_path)?;
        let mut hasher = blake3::Hasher::new();
        let have = held.map_or(0, |held| held.bytes);
        copy_bytes((&mut source, &path), None, have, &mut hasher, &mut |_| {})?;
        if held.is_some_and(|held| held.hash != hasher.finalize()) {
            return Err(another_timeline(&path, &target_path));
        }
        end_at(&mut target, &target_path, have)?;
        assert_eq!(source.stream_position().ok(), Some(have), "what is held was read, and nothing else");
        let (copied, total, progress) = (&mut self.copied, self.total, &mut self.progress);
        copy_bytes((&mut source, &path), Some((&mut target, &target_path)), bytes - have, &mut hasher, &mut |piece| {
            *copied += piece;
            progress(*copied, total.max(*copied));
        })?;
        target.sync_all().map_err(BackupError::io("sync", &target_path))?;
        verify_groups(copy, held.map_or(begins, |held| held.end), end)?;
        if sealed && copy.sealed_end(first)? != Some(end) {
            return Err(BackupError::damaged(&target_path, "it does not end with the mark of a sealed segment"));
        }
        Ok(SegmentCopy { first, end, bytes, hash: hasher.finalize(), sealed })
    }
}

/// Reads the copied groups, and checks that they end where the log did.
pub(crate) fn verify_groups(copy: &LogFiles<RealDisk>, from: Cursor, end: Cursor) -> Result<(), BackupError> {
    let mut groups = copy.groups(from, end)?;
    while groups.next_group()?.is_some() {}
    assert_eq!(groups.cursor().position, end.position, "groups are read up to the end");
    Ok(())
}

fn bytes_of(files: &LogFiles<RealDisk>, first: Position, end: Cursor, sealed: bool) -> u64 {
    files.bytes_up_to(first, end.position) + if sealed { MARK_BYTES as u64 } else { 0 }
}

fn another_timeline(path: &Path, held: &Path) -> BackupError {
    BackupError::Refused(format!(
        "{}: it is of another timeline than {}: this data directory was restored, or lost records, since that backup. \
         Take its backups to another directory",
        path.display(),
        held.display()
    ))
}

/// Writes what makes the copied bytes a backup; it gets its name when everything is durable.
fn finish(
    store: &Store,
    data: &Path,
    now: Moment,
    mut manifest: Manifest,
    parts: &[Part],
) -> Result<String, BackupError> {
    let mut moment = now;
    while store.folder(&moment.name()).exists() {
        moment.0 += 1;
    }
    manifest.created_at_ms = moment.0;
    let name = moment.name();
    let unfinished = store.folder(&format!(".{name}"));
    create_folder(&unfinished)?;
    for file in IDENTITY {
        let path = data.join(file);
        if path.exists() {
            let bytes = fs::read(&path).map_err(BackupError::io("read", &path))?;
            write_file(&unfinished.join(file), &bytes)?;
            let hash = blake3::hash(&bytes);
            manifest.files.push(FileCopy { name: file.into(), bytes: bytes.len() as u64, hash });
        }
    }
    for part in parts {
        if let Some((_, bytes)) = &part.snapshot {
            write_file(&unfinished.join(LogCopy::snapshot_name(&part.name)), bytes)?;
        }
    }
    write_file(&unfinished.join(MANIFEST), manifest.text().as_bytes())?;
    sync_folder(&unfinished)?;
    let folder = store.folder(&name);
    fs::rename(&unfinished, &folder).map_err(BackupError::io("name", &folder))?;
    sync_folder(&store.folder(""))?;
    Ok(name)
}
