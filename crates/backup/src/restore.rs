//! Restoring: a backup, or a beginning of it, becomes a new data directory on a timeline of its own.
//!
//! ```text
//!   MANIFEST ─▶ places ─▶ segment files, hashed while they are copied ─▶ cut ─▶ read whole ─▶ notice ─▶ DIRECTORY
//! ```
//!
//! Promise: the new directory has exactly the records of the backup up to the places, and in each log a notice that
//! says so. It is a data directory only at the very end, when `DIRECTORY` gets its name: what an interrupted restore
//! leaves is refused by every start, which says what it is. The backup is only read.
//!
//! Why a notice: the records behind the places live on elsewhere. Snapshots, ids and copies of that history name its
//! timeline, and can never be taken for ones of the restored directory.

use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tidegate_journal::directory::UNFINISHED_RESTORE;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, Family, LocalLogs, LogId, Logs, Lost, Notice, NoticeKind, Options, Sequence};
use tidegate_planted::{Bug, is_planted};

use crate::Progress;
use crate::copying::verify_groups;
use crate::destination::target;
use crate::error::BackupError;
use crate::files::{DIRECTORY, Store, copy_bytes, create_folder, open_target, sync_folder, write_file};
use crate::known::Known;
use crate::manifest::{FileCopy, LogCopy, Manifest, SegmentCopy};
use crate::moment::Moment;
use crate::place::{At, Copied, places};
use crate::verify::log_of;

/// What was restored.
#[derive(Clone, Debug)]
pub struct Restored {
    /// Name of the backup.
    pub backup: String,
    /// When it was taken.
    pub taken_at: Moment,
    /// Each log.
    pub logs: Vec<RestoredLog>,
}

/// A log of the new directory.
#[derive(Clone, Debug)]
pub struct RestoredLog {
    /// `ledger-0`
    pub name: String,
    /// Its last record.
    pub end: Sequence,
    /// The last record that the backup has.
    pub backup_end: Sequence,
    /// So many of its last records are behind the place that was asked for: records of other shards before that place
    /// rest on them, or are of one group with one that does.
    pub moved_forward: u64,
    /// Whether it was cut at the snapshot that stands in for its beginning, perhaps behind the place that was asked
    /// for.
    pub ends_at_snapshot: bool,
    /// When its last record was decided, if that says so.
    pub time: Option<Moment>,
    /// So many of its last records say a later time than was asked for and are kept, because a clock was wrong, and
    /// they may have been written by then.
    pub later: u64,
}

/// Restores from the directory of backups `from` into `data`, which is empty or does not exist. Without a name, the
/// newest backup.
pub fn restore(
    from: &Path,
    data: &Path,
    backup: Option<&str>,
    at: &At,
    known: &[Known],
    now: Moment,
    progress: Progress<'_>,
) -> Result<Restored, BackupError> {
    let store = Store { root: from.to_path_buf() };
    let name = choose(&store, backup)?;
    let manifest = store.manifest(&name)?;
    store.check_key(&name, &manifest.files)?;
    target(data, from)?;
    check_target(data)?;
    let families: Vec<Family> = known.iter().map(|known| known.family).collect();
    let sources = LocalLogs::new(RealDisk, from, &families);
    let logs = by_family(&store, &name, &manifest, known, &sources)?;
    let cuts = places(&logs, at, Moment(manifest.created_at_ms))?;

    create_folder(data)?;
    // One that was there may be open to others.
    fs::set_permissions(data, Permissions::from_mode(0o700)).map_err(BackupError::io("close to others", data))?;
    let words = format!("tidegate restore began to fill this directory from backup {name} of {}\n", from.display());
    write_file(&data.join(UNFINISHED_RESTORE), words.as_bytes())?;
    sync_folder(data)?;
    let target = Target { store: &store, name: &name, data, now, logs: LocalLogs::new(RealDisk, data, &families) };
    let total = manifest.logs.iter().flat_map(|log| &log.segments).map(|segment| segment.bytes).sum();
    let mut done = 0;
    let mut restored = Restored { backup: name.clone(), taken_at: Moment(manifest.created_at_ms), logs: Vec::new() };
    for ((_, logs), cuts) in logs.iter().zip(&cuts) {
        for (log, cut) in logs.iter().zip(cuts) {
            let copy = manifest.logs.iter().find(|copy| copy.name == log.name).expect("it was made of the manifest");
            target.log(copy, log.files.log(), cut.end, &mut |piece| {
                done += piece;
                progress(done, total);
            })?;
            let (name, end, backup_end) = (log.name.clone(), cut.end.sequence, log.end.sequence);
            let (moved_forward, snapshot) = (end.0 - cut.asked.sequence.0, log.from.sequence);
            let ends_at_snapshot = snapshot > Sequence(0) && end == snapshot && end < backup_end;
            let (time, later) = (cut.time.map(|time| Moment(time.0)), cut.later);
            let log = RestoredLog { name, end, backup_end, moved_forward, ends_at_snapshot, time, later };
            restored.logs.push(log);
        }
    }
    target.identity(&manifest.files)?;
    Ok(restored)
}

/// The backup that was asked for, or the newest.
fn choose(store: &Store, backup: Option<&str>) -> Result<String, BackupError> {
    let names = store.names()?;
    let root = store.root.display();
    match backup {
        Some(name) if names.iter().any(|known| known == name) => Ok(name.to_owned()),
        Some(name) => {
            let known = if names.is_empty() { "none".into() } else { names.join(", ") };
            Err(BackupError::Refused(format!("{root}: there is no backup {name:?}; there are: {known}")))
        }
        None => names.last().cloned().ok_or_else(|| BackupError::Refused(format!("{root}: there is no backup in it"))),
    }
}

/// A restore never writes over anything.
fn check_target(data: &Path) -> Result<(), BackupError> {
    let entries = match fs::read_dir(data) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        Err(cause) if cause.kind() == ErrorKind::NotADirectory => {
            return Err(BackupError::Refused(format!("{}: it is no directory", data.display())));
        }
        entries => entries.map_err(BackupError::io("list", data))?,
    };
    if data.join(UNFINISHED_RESTORE).exists() && !data.join(DIRECTORY).exists() {
        return Err(BackupError::Refused(format!(
            "{}: another restore was writing it and did not come to its end. Unless that one still runs, remove this \
             directory, and restore again",
            data.display()
        )));
    }
    match entries.into_iter().next() {
        None => Ok(()),
        Some(_) => Err(BackupError::Refused(format!(
            "{}: it is not empty. A restore writes over nothing: give an empty directory, or one that does not exist",
            data.display()
        ))),
    }
}

/// The logs of the manifest, by family in the order of `known`, and by shard.
fn by_family(
    store: &Store,
    name: &str,
    manifest: &Manifest,
    known: &[Known],
    sources: &LocalLogs<RealDisk>,
) -> Result<Vec<(Known, Vec<Copied>)>, BackupError> {
    let families: Vec<Family> = known.iter().map(|known| known.family).collect();
    let mut by_family: Vec<(Known, Vec<Copied>)> = known.iter().map(|known| (*known, Vec::new())).collect();
    for log in &manifest.logs {
        let id = log_of(&log.name, &families, manifest.directory).ok_or_else(|| {
            let what = "which this program does not know; use a program that serves it";
            BackupError::Refused(format!("{}: it has a log {}, {what}", store.folder(name).display(), log.name))
        })?;
        let copied = Copied {
            name: log.name.clone(),
            files: sources.files(id),
            from: log.snapshot.as_ref().map_or(Cursor::START, |(cursor, _)| *cursor),
            firsts: log.segments.iter().map(|segment| segment.first).collect(),
            end: log.end,
        };
        for segment in &log.segments {
            find(&copied.files.path(segment.first), segment.bytes)?;
        }
        let logs = by_family.iter_mut().find(|(known, _)| known.family.number == id.family);
        logs.expect("its family is known").1.push(copied);
    }
    by_family.iter_mut().for_each(|(_, logs)| logs.sort_by_key(|log| log.files.log().shard));
    Ok(by_family)
}

/// That a file of the backup is there, and long enough.
fn find(path: &Path, bytes: u64) -> Result<(), BackupError> {
    let there = fs::metadata(path).map_err(BackupError::io("look at", path))?.len();
    match there < bytes {
        true => Err(BackupError::damaged(path, format!("it has {there} bytes, and the backup needs {bytes}"))),
        false => Ok(()),
    }
}

/// The directory that is made.
struct Target<'a> {
    store: &'a Store,
    name: &'a str,
    data: &'a Path,
    now: Moment,
    logs: LocalLogs<RealDisk>,
}

impl Target<'_> {
    /// Copies one log up to `cut`, reads it whole, and ends its timeline.
    fn log(&self, copy: &LogCopy, id: LogId, cut: Cursor, copied: &mut dyn FnMut(u64)) -> Result<(), BackupError> {
        let files = self.logs.files(id);
        create_folder(files.folder())?;
        let source = self.store.root.join("journal").join(&copy.name);
        for (index, segment) in copy.segments.iter().enumerate() {
            if segment.first >= cut.position && index > 0 {
                break;
            }
            let path = files.path(segment.first);
            let file_name = path.file_name().expect("a segment has a name");
            copy_segment(&source.join(file_name), &path, segment, copied)?;
        }
        files.cut(cut)?;
        let begins = files.begins(copy.segments[0].first)?;
        verify_groups(&files, begins, cut)?;
        let mut since = Cursor::START;
        if let Some((cursor, file)) = &copy.snapshot {
            self.snapshot(&copy.name, file, *cursor)?;
            since = *cursor;
        }
        let words = format!("from backup {} of {}", self.name, Moment(self.taken_at()?));
        let lost = (cut.sequence < copy.end.sequence)
            .then(|| Lost { from: Sequence(cut.sequence.0 + 1), to: Some(copy.end.sequence) });
        let notice = Notice { kind: NoticeKind::Restored, time_ms: self.now.0, lost, text: words };
        if !is_planted(Bug::RestoreNotMarked) {
            self.logs.append_notice(id, since, Options::default(), &notice)?;
        }
        Ok(())
    }

    fn taken_at(&self) -> Result<u64, BackupError> {
        Ok(self.store.manifest(self.name)?.created_at_ms)
    }

    /// The snapshot that stands in for what the log forgot, where the server looks for it.
    fn snapshot(&self, log: &str, file: &FileCopy, cursor: Cursor) -> Result<(), BackupError> {
        let bytes = self.beside(file)?;
        let folder = self.data.join("snapshots").join(log);
        create_folder(&folder)?;
        write_file(&folder.join(format!("snapshot-{:020}.tgs", cursor.sequence.0)), &bytes)?;
        sync_folder(&folder)
    }

    /// A file beside the manifest, as it was written.
    fn beside(&self, file: &FileCopy) -> Result<Vec<u8>, BackupError> {
        let path = self.store.folder(self.name).join(&file.name);
        let bytes = fs::read(&path).map_err(BackupError::io("read", &path))?;
        if blake3::hash(&bytes) != file.hash {
            return Err(BackupError::damaged(&path, "it is not what was copied; use another backup"));
        }
        Ok(bytes)
    }

    /// Makes it a data directory: `DIRECTORY` comes last.
    fn identity(&self, files: &[FileCopy]) -> Result<(), BackupError> {
        for file in files.iter().filter(|file| file.name != DIRECTORY) {
            write_file(&self.data.join(&file.name), &self.beside(file)?)?;
        }
        for folder in ["journal", "snapshots"] {
            let folder: PathBuf = self.data.join(folder);
            if folder.is_dir() {
                sync_folder(&folder)?;
            }
        }
        sync_folder(self.data)?;
        let Some(directory) = files.iter().find(|file| file.name == DIRECTORY) else {
            let path = self.store.folder(self.name);
            return Err(BackupError::damaged(&path, "the backup has no file DIRECTORY"));
        };
        let unfinished = self.data.join("DIRECTORY.restored");
        write_file(&unfinished, &self.beside(directory)?)?;
        let path = self.data.join(DIRECTORY);
        fs::rename(&unfinished, &path).map_err(BackupError::io("name", &path))?;
        sync_folder(self.data)?;
        // Behind the name of DIRECTORY it means nothing any more.
        let mark = self.data.join(UNFINISHED_RESTORE);
        fs::remove_file(&mark).map_err(BackupError::io("remove", &mark))?;
        sync_folder(self.data)
    }
}

/// Copies the bytes of a segment that the backup consists of; refuses others.
fn copy_segment(from: &Path, to: &Path, segment: &SegmentCopy, copied: &mut dyn FnMut(u64)) -> Result<(), BackupError> {
    let mut source = File::open(from).map_err(BackupError::io("open", from))?;
    let mut target = open_target(to)?;
    let mut hasher = blake3::Hasher::new();
    copy_bytes((&mut source, from), Some((&mut target, to)), segment.bytes, &mut hasher, copied)?;
    if hasher.finalize() != segment.hash {
        let what = format!("its first {} bytes are not what was copied", segment.bytes);
        return Err(BackupError::damaged(from, format!("{what}; use another copy of this file, or another backup")));
    }
    target.sync_all().map_err(BackupError::io("sync", to))
}
