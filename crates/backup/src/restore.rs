//! Restoring: a backup, or a beginning of it, becomes a new data directory on a timeline of its own.
//!
//! ```text
//!   MANIFEST ─▶ places ─▶ segment files, hashed while they are copied ─▶ cut ─▶ read whole ─▶ notice ─▶ DIRECTORY
//! ```
//!
//! Promise: the new directory has exactly the records of the backup up to the places, and in each log a notice that
//! says so. It is a data directory only at the very end, when `DIRECTORY` gets its name. What fails leaves nothing;
//! what is killed leaves what every start refuses, and another restore takes the place of ([`Filling`]). The backup is
//! only read.
//!
//! Why a notice: the records behind the places live on elsewhere. Snapshots, ids and copies of that history name its
//! timeline, and can never be taken for ones of the restored directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_journal::disk::RealDisk;
use tidegate_journal::{
    Cursor, LocalLogs, LogFiles, LogId, Logs, Lost, Mending, Notice, NoticeKind, Options, Sequence,
};
use tidegate_planted::{Bug, is_planted};

use crate::Progress;
use crate::destination::target;
use crate::error::BackupError;
use crate::files::{DIRECTORY, Store, copy_bytes, create_folder, open_target, sync_folder, write_file};
use crate::filling::{DIRECTORY_UNNAMED, FOLDERS, Filling, check_place};
use crate::known::Known;
use crate::manifest::{FileCopy, LogCopy, Manifest, SegmentCopy};
use crate::moment::Moment;
use crate::outline::{USE_ANOTHER, beside, families, outline};
use crate::place::{At, Copied, Cut, places};
use crate::reading::{Reading, Rested, check_ties};

/// What was restored.
#[derive(Clone, Debug)]
pub struct Restored {
    /// Name of the backup.
    pub backup: String,
    /// When it was taken.
    pub taken_at: Moment,
    /// Each log.
    pub logs: Vec<RestoredLog>,
    /// Whether it took the place of what a restore had left that did not come to its end.
    pub has_replaced: bool,
    /// Bytes of the backup that had changed, and are what was copied in what was restored.
    pub put_right: u64,
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

/// Restores from the directory of backups `from` into `data`, which is empty, does not exist, or is what an interrupted
/// restore left. Without a name, the newest backup. What fails leaves `data` as it was, or, if that cannot be, says so.
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
    target(data, from)?;
    check_place(data)?;
    let sources = LocalLogs::new(RealDisk, from, &families(known)).mending(Mending::of_reader(|_| {}));
    let logs = outline(&store, &name, &manifest, known, &sources)?;
    let cuts = places(&logs, at, Moment(manifest.created_at_ms))?;

    let words = format!("tidegate restore began to fill this directory from backup {name} of {}\n", from.display());
    let filling = Filling::begin(data, &words)?;
    let put_right = Arc::new(AtomicU64::new(0));
    let count = put_right.clone();
    let mending = Mending::new(move |byte| {
        count.fetch_add(u64::from(byte.is_durable), Ordering::Relaxed);
    });
    let logs_here = LocalLogs::new(RealDisk, data, &families(known)).mending(mending);
    let target = Target { store: &store, name: &name, data, now, logs: logs_here };
    match target.fill(&manifest, &logs, &cuts, progress) {
        Ok(logs) => {
            let (taken_at, has_replaced) = (Moment(manifest.created_at_ms), filling.has_replaced());
            filling.finish();
            let put_right = put_right.load(Ordering::Relaxed);
            Ok(Restored { backup: name, taken_at, logs, has_replaced, put_right })
        }
        Err(error) => Err(filling.give_up(error)),
    }
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

/// The directory that is made.
struct Target<'a> {
    store: &'a Store,
    name: &'a str,
    data: &'a Path,
    now: Moment,
    logs: LocalLogs<RealDisk>,
}

impl Target<'_> {
    /// Copies all logs up to their cuts, and makes a data directory of them.
    fn fill(
        &self,
        manifest: &Manifest,
        logs: &[(Known, Vec<Copied>)],
        cuts: &[Vec<Cut>],
        progress: Progress<'_>,
    ) -> Result<Vec<RestoredLog>, BackupError> {
        let total = manifest.logs.iter().flat_map(|log| &log.segments).map(|segment| segment.bytes).sum();
        let (mut done, mut restored) = (0, Vec::new());
        for ((known, logs), cuts) in logs.iter().zip(cuts) {
            let mut ties = Vec::new();
            for (log, cut) in logs.iter().zip(cuts) {
                let copy =
                    manifest.logs.iter().find(|copy| copy.name == log.name).expect("it was made of the manifest");
                let rested = self.log(copy, known, log.files.log(), cut.end, &mut |piece| {
                    done += piece;
                    progress(done, total);
                })?;
                ties.push((rested, cut.end));
                restored.push(told(log, cut));
            }
            check_ties(known, &ties)?;
        }
        self.identity(&manifest.files)?;
        Ok(restored)
    }

    /// Copies one log up to `cut`, reads it whole, and ends its timeline.
    fn log(
        &self,
        copy: &LogCopy,
        known: &Known,
        id: LogId,
        cut: Cursor,
        copied: &mut dyn FnMut(u64),
    ) -> Result<Rested, BackupError> {
        let files = self.logs.files(id);
        create_folder(files.folder())?;
        let source = self.store.root.join("journal").join(&copy.name);
        for (index, segment) in copy.segments.iter().enumerate() {
            if segment.first >= cut.position && index > 0 {
                break;
            }
            let path = files.path(segment.first);
            let file_name = path.file_name().expect("a segment has a name");
            let from = source.join(file_name);
            if !copy_segment(&from, &path, segment, copied)? {
                self.put_right(&files, segment, (&from, &path))?;
            }
        }
        files.cut(cut)?;
        let begins = files.begins(copy.segments[0].first)?;
        let mut reading = Reading::new(*known, id);
        let since = copy.snapshot.as_ref().map_or(Cursor::START, |(cursor, _)| *cursor);
        let mut has_snapshots_place = begins == since;
        reading.groups(&files, (begins, cut), |place, _| has_snapshots_place |= place == since)?;
        if let Some((_, file)) = &copy.snapshot {
            if !has_snapshots_place {
                let what =
                    format!("no group ends at sequence {}, where its snapshot stands; {USE_ANOTHER}", since.sequence);
                return Err(BackupError::damaged(&source, what));
            }
            self.snapshot(&copy.name, file, since)?;
        }
        let words = format!("from backup {} of {}", self.name, Moment(self.taken_at()?));
        let lost = (cut.sequence < copy.end.sequence)
            .then(|| Lost { from: Sequence(cut.sequence.0 + 1), to: Some(copy.end.sequence) });
        let notice = Notice { kind: NoticeKind::Restored, time_ms: self.now.0, lost, text: words };
        if !is_planted(Bug::RestoreNotMarked) {
            self.logs.append_notice(id, since, Options::default(), &notice)?;
        }
        Ok(reading.rested().clone())
    }

    /// The copy of a segment is not what was copied into the backup. It is, if one byte of a group has changed there.
    fn put_right(
        &self,
        files: &LogFiles<RealDisk>,
        segment: &SegmentCopy,
        (from, to): (&Path, &Path),
    ) -> Result<(), BackupError> {
        let (put_right, failed) = match files.put_right(segment.first) {
            Ok(put_right) => (put_right, String::new()),
            Err(error) => (0, format!(" ({error})")),
        };
        let mut hasher = blake3::Hasher::new();
        let mut file = File::open(to).map_err(BackupError::io("open", to))?;
        copy_bytes((&mut file, to), None, segment.bytes, &mut hasher, &mut |_| {})?;
        if put_right > 0 && hasher.finalize() == segment.hash {
            return Ok(());
        }
        let what = format!("its first {} bytes are not what was copied{failed}", segment.bytes);
        Err(BackupError::damaged(from, format!("{what}; use another copy of this file, or another backup")))
    }

    fn taken_at(&self) -> Result<u64, BackupError> {
        Ok(self.store.manifest(self.name)?.created_at_ms)
    }

    /// The snapshot that stands in for what the log forgot, where the server looks for it.
    fn snapshot(&self, log: &str, file: &FileCopy, cursor: Cursor) -> Result<(), BackupError> {
        let bytes = beside(self.store, self.name, file)?;
        let folder = self.data.join("snapshots").join(log);
        create_folder(&folder)?;
        write_file(&folder.join(format!("snapshot-{:020}.tgs", cursor.sequence.0)), &bytes)?;
        sync_folder(&folder)
    }

    /// Makes it a data directory: `DIRECTORY` comes last.
    fn identity(&self, files: &[FileCopy]) -> Result<(), BackupError> {
        for file in files.iter().filter(|file| file.name != DIRECTORY) {
            write_file(&self.data.join(&file.name), &beside(self.store, self.name, file)?)?;
        }
        for folder in FOLDERS {
            let folder: PathBuf = self.data.join(folder);
            if folder.is_dir() {
                sync_folder(&folder)?;
            }
        }
        sync_folder(self.data)?;
        let directory = files.iter().find(|file| file.name == DIRECTORY).expect("its outline was looked at");
        let unfinished = self.data.join(DIRECTORY_UNNAMED);
        write_file(&unfinished, &beside(self.store, self.name, directory)?)?;
        let path = self.data.join(DIRECTORY);
        fs::rename(&unfinished, &path).map_err(BackupError::io("name", &path))?;
        sync_folder(self.data)
    }
}

/// What is said of a log that was restored.
fn told(log: &Copied, cut: &Cut) -> RestoredLog {
    let (name, end, backup_end) = (log.name.clone(), cut.end.sequence, log.end.sequence);
    let (moved_forward, snapshot) = (end.0 - cut.asked.sequence.0, log.from.sequence);
    let ends_at_snapshot = snapshot > Sequence(0) && end == snapshot && end < backup_end;
    let (time, later) = (cut.time.map(|time| Moment(time.0)), cut.later);
    RestoredLog { name, end, backup_end, moved_forward, ends_at_snapshot, time, later }
}

/// Copies the bytes of a segment that the backup consists of. Whether they are what was copied into it.
fn copy_segment(
    from: &Path,
    to: &Path,
    segment: &SegmentCopy,
    copied: &mut dyn FnMut(u64),
) -> Result<bool, BackupError> {
    let mut source = File::open(from).map_err(BackupError::io("open", from))?;
    let mut target = open_target(to)?;
    let mut hasher = blake3::Hasher::new();
    copy_bytes((&mut source, from), Some((&mut target, to)), segment.bytes, &mut hasher, copied)?;
    target.sync_all().map_err(BackupError::io("sync", to))?;
    Ok(hasher.finalize() == segment.hash)
}
