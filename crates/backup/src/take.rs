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
use std::path::{Path, PathBuf};

use tidegate_journal::directory::{Directory, check_key};
use tidegate_journal::disk::RealDisk;
use tidegate_journal::key::{KEY_FILE, Key};
use tidegate_journal::{Cursor, Family, JournalError, LocalLogs, LogFiles, LogId, NoticeKind, Position, Retention};
use tidegate_shard::snapshot::check;

use crate::Progress;
use crate::copying::{Copying, Part, Reread};
use crate::cut::{OfFamily, cut_all, settle};
use crate::destination::destination;
use crate::error::BackupError;
use crate::files::{Held, IDENTITY, MANIFEST, Store, create_folder, sync_folder, write_file};
use crate::known::Known;
use crate::manifest::{FileCopy, LogCopy, Manifest};
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

/// Takes a backup of the data directory `data` into the directory of backups `to`, which is created if that is what
/// [`destination`] says. A server may go on using `data`. `known` are all families that the directory may have.
///
/// What `to` has of a segment and is not what was copied is copied anew, and [`Taken::remarks`] says so. A backup that
/// is refused creates nothing; one of a directory whose `KEY` is missing or damaged is refused.
pub fn take(
    data: &Path,
    to: &Path,
    reread: Reread,
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
    // Without the right key, what is restored would not start.
    check_key(data)?;
    destination(to, data)?;
    let store = Store { root: to.to_path_buf() };
    store.check_free()?;
    let source = Source { logs: LocalLogs::new(RealDisk, data, &families), data, directory: &directory };
    let copy = LocalLogs::new(RealDisk, to, &families);
    let mut remarks = Vec::new();
    let parts = source.parts(known, &mut remarks)?;
    let _lock = begin(&store)?;
    let held = Held::of(&store, directory.id(), &mut remarks)?;
    parts.iter().try_for_each(|part| check_not_restored(&held, part, data, to))?;
    let mut copying = Copying { held: &held, reread, remarks, copied: 0, total: 0, progress };
    copying.total = parts.iter().map(|part| copying.missing(part)).sum();
    let mut logs = Vec::new();
    for part in &parts {
        logs.push(copying.log(part, &copy.files(part.files.log()))?);
    }
    let (bytes_copied, remarks) = (copying.copied, copying.remarks);
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

/// Refuses a log that was restored of these backups up to their end: the directory that they are of may go on, and has
/// another history from there on. One that was restored up to an earlier place is told by its bytes.
fn check_not_restored(held: &Held, part: &Part, data: &Path, to: &Path) -> Result<(), BackupError> {
    let Some(end) = held.end(&part.name).filter(|end| end.position < part.end.position) else { return Ok(()) };
    // A log that does not have that place is told by its bytes, too.
    let Ok(mut groups) = part.files.groups(end, part.end) else { return Ok(()) };
    match groups.next_group() {
        Ok(Some(group)) if group.notice.as_ref().is_some_and(|notice| notice.kind == NoticeKind::Restored) => {
            Err(BackupError::Refused(format!(
                "{}: this data directory was restored of a backup in {}, and the directory that was backed up there \
                 may go on: one of the two would keep the other from being backed up. Take the backups of this one to \
                 another directory",
                data.display(),
                to.display()
            )))
        }
        _ => Ok(()),
    }
}

/// Makes the directory of backups if it is not there, and keeps other backups out for as long as the file is open.
fn begin(store: &Store) -> Result<File, BackupError> {
    let backups = store.folder("");
    create_folder(&backups)?;
    let lock = store.lock()?;
    // What an interrupted backup left is nobody's.
    for entry in fs::read_dir(&backups).map_err(BackupError::io("list", &backups))? {
        let path = entry.map_err(BackupError::io("list", &backups))?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            fs::remove_dir_all(&path).map_err(BackupError::io("remove", &path))?;
        }
    }
    Ok(lock)
}

/// A snapshot that stands in for what a log may have forgotten.
struct FoundSnapshot {
    /// Where it stands.
    cursor: Cursor,
    /// What of the log is needed beside it.
    needs: Position,
    /// The file.
    bytes: Vec<u8>,
}

/// The logs of a family, and of each the snapshot that was found before it is cut.
struct OfDirectory<'a> {
    known: &'a Known,
    logs: Vec<LogFiles<RealDisk>>,
    snapshots: Vec<Option<FoundSnapshot>>,
}

/// The data directory.
struct Source<'a> {
    data: &'a Path,
    directory: &'a Directory,
    logs: LocalLogs<RealDisk>,
}

impl Source<'_> {
    /// All logs of all families, cut consistently.
    fn parts(&self, known: &[Known], remarks: &mut Vec<String>) -> Result<Vec<Part>, BackupError> {
        let mut attempt = 1;
        loop {
            let mut of_attempt = Vec::new();
            match self.try_parts(known, &mut of_attempt) {
                Err(error) if attempt < ATTEMPTS && is_forgotten(&error) => attempt += 1,
                done => {
                    remarks.append(&mut of_attempt);
                    return done;
                }
            }
        }
    }

    fn try_parts(&self, known: &[Known], remarks: &mut Vec<String>) -> Result<Vec<Part>, BackupError> {
        // The first family, the ledger, is cut last: other logs say what they have told it, and not the other way
        // round. So it has all that they say of it.
        let families: Vec<OfDirectory<'_>> =
            known.iter().rev().map(|known| self.family(known)).collect::<Result<_, BackupError>>()?;
        let logs: Vec<OfFamily<'_>> = families.iter().map(|family| (family.known, &*family.logs)).collect();
        let cuts = cut_all(&logs)?;
        let in_use = self.directory.is_in_use()?;
        let mut by_family = Vec::new();
        for (family, cuts) in families.into_iter().zip(cuts) {
            let mut parts = Vec::new();
            for ((files, snapshot), end) in family.logs.into_iter().zip(family.snapshots).zip(cuts) {
                let name = folder_name(&files);
                if settle(&files, end, in_use)? {
                    remarks.push(format!(
                        "{name}: its log stands still without a mark; its bytes were synced for the backup"
                    ));
                }
                let from = snapshot.as_ref().map_or(Cursor::START.position, |found| found.needs);
                let segments = segments(&files, from, end)?;
                let snapshot = snapshot.map(|found| (found.cursor, found.bytes));
                parts.push(Part { name, files, snapshot, end, segments });
            }
            by_family.push(parts);
        }
        Ok(by_family.into_iter().rev().flatten().collect())
    }

    fn family<'k>(&self, known: &'k Known) -> Result<OfDirectory<'k>, BackupError> {
        let ids: Vec<LogId> = self.directory.logs(known.family).collect();
        let snapshots = ids.iter().map(|id| self.snapshot(known, *id)).collect::<Result<_, _>>()?;
        Ok(OfDirectory { known, logs: ids.iter().map(|id| self.logs.files(*id)).collect(), snapshots })
    }

    /// The newest snapshot that stands in for what the log may have forgotten.
    fn snapshot(&self, known: &Known, id: LogId) -> Result<Option<FoundSnapshot>, BackupError> {
        let family = known.family;
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
                && let Ok((stand, body)) = check(&bytes, id, key.bytes())
                && let Ok(since) = (known.snapshot)(body)
            {
                let cursor = stand.cursor;
                let needs = since.map_or(cursor.position, |since| cursor.position.min(Position(since.0)));
                return Ok(Some(FoundSnapshot { cursor, needs, bytes }));
            }
        }
        Ok(None)
    }
}

/// Whether the failure may be that the server removed a segment since.
fn is_forgotten(error: &BackupError) -> bool {
    matches!(error, BackupError::Journal(JournalError::Forgotten { .. } | JournalError::Io { .. }))
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
    let Some(begin) = begin else { return Err(files.before_the_first(from)?.into()) };
    let mut segments: Vec<(Cursor, Cursor, bool)> = Vec::new();
    for (index, first) in firsts.iter().enumerate().skip(begin) {
        // An empty last segment is copied only where there is no other.
        if *first >= end.position && !segments.is_empty() {
            break;
        }
        let begins = files.begins(*first)?;
        let sealed = match firsts.get(index + 1) {
            Some(next) if *next <= end.position => {
                let sealed_end = files.sealed_end(*first)?;
                if let Some(ends) = sealed_end.filter(|ends| ends.position < *next) {
                    return Err(files.missing(&ends, *next).into());
                }
                Some((files.begins(*next)?, sealed_end.is_some()))
            }
            _ => None,
        };
        let (ends, sealed) = sealed.unwrap_or((end, false));
        segments.push((begins, ends, sealed));
    }
    Ok(segments)
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
            if file == KEY_FILE {
                // It was right when the backup began.
                let of_now =
                    |what| BackupError::damaged(&path, format!("it is damaged: {what}; put the right one back"));
                Key::parse(&bytes).map_err(of_now)?;
            }
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
