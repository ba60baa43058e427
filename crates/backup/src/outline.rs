//! What shows of one backup without reading its logs: whether its manifest, and the files beside it, make a data
//! directory that a start opens.
//!
//! ```text
//!   MANIFEST ─▶ known logs ─▶ segments without a gap ─▶ snapshots that can be read ─▶ DIRECTORY lists the logs
//! ```
//!
//! Promise: a restore and `--verify` ask the same; what is refused here is refused before anything is made.

use std::fs;
use std::path::Path;

use tidegate_journal::directory::check_description;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::key::{KEY_FILE, Key};
use tidegate_journal::{Cursor, Family, LocalLogs, LogId, Retention};
use tidegate_shard::snapshot::check;

use crate::error::BackupError;
use crate::files::{DIRECTORY, Store};
use crate::known::Known;
use crate::manifest::{FileCopy, LogCopy, Manifest};
use crate::place::Copied;

/// What to do where a backup cannot become a directory that is served.
pub(crate) const USE_ANOTHER: &str = "no server would start on what is restored of this backup: use another one";

/// The logs of a backup, by family in the order of `known`, and by shard, read from `sources`, which are of the
/// directory of backups.
pub(crate) fn outline(
    store: &Store,
    name: &str,
    manifest: &Manifest,
    known: &[Known],
    sources: &LocalLogs<RealDisk>,
) -> Result<Vec<(Known, Vec<Copied>)>, BackupError> {
    let (folder, families) = (store.folder(name), families(known));
    manifest.files.iter().try_for_each(|file| beside(store, name, file).map(drop))?;
    store.check_key(name, &manifest.files)?;
    let mut by_family: Vec<(Known, Vec<Copied>)> = known.iter().map(|known| (*known, Vec::new())).collect();
    let mut ids = Vec::new();
    for log in &manifest.logs {
        let id = log_of(&log.name, &families, manifest.directory).ok_or_else(|| {
            let what = "which this program does not know; use a program that serves it";
            BackupError::Refused(format!("{}: it has a log {}, {what}", folder.display(), log.name))
        })?;
        ids.push(id);
        let of_family = by_family.iter_mut().find(|(known, _)| known.family.number == id.family);
        let (known, logs) = of_family.expect("its family is known");
        check_places(&folder, log, known.family)?;
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
        check_snapshot(store, name, log, id, known)?;
        logs.push(copied);
    }
    if !manifest.files.iter().any(|file| file.name == DIRECTORY) {
        return Err(BackupError::damaged(&folder, format!("the backup has no file {DIRECTORY}; {USE_ANOTHER}")));
    }
    check_description(&folder, &families, &ids).map_err(|error| {
        BackupError::Refused(format!("{error}. That is its copy in a backup, as it was taken: {USE_ANOTHER}"))
    })?;
    by_family.iter_mut().for_each(|(_, logs)| logs.sort_by_key(|log| log.files.log().shard));
    Ok(by_family)
}

/// All families of these.
pub(crate) fn families(known: &[Known]) -> Vec<Family> {
    known.iter().map(|known| known.family).collect()
}

/// The log of this folder name.
pub(crate) fn log_of(name: &str, families: &[Family], directory: u64) -> Option<LogId> {
    let (family, shard) = name.rsplit_once('-')?;
    let family = families.iter().find(|known| known.name == family)?;
    let shard: u16 = shard.parse().ok()?;
    (shard < tidegate_journal::limits::SHARDS_MAX).then(|| family.log(directory, shard))
}

/// That the segments of a log follow each other up to its end, from where the log must begin.
fn check_places(folder: &Path, log: &LogCopy, family: Family) -> Result<(), BackupError> {
    let gap = |what: String| Err(BackupError::damaged(folder, format!("{}: {what}; {USE_ANOTHER}", log.name)));
    let Some(first) = log.segments.first().map(|segment| segment.first) else {
        return gap("the backup has no segment of it".into());
    };
    let begins = match (&log.snapshot, family.retention) {
        (Some((cursor, _)), Retention::SinceSnapshot) => cursor.position,
        _ => Cursor::START.position,
    };
    if first > begins {
        return gap(format!("its first segment begins at position {first}, and it must reach back to {begins}"));
    }
    for pair in log.segments.windows(2) {
        let (ends, next) = (pair[0].end.position, pair[1].first);
        if ends != next {
            return gap(format!("a segment ends at position {ends}, and the next one begins at {next}"));
        }
    }
    match log.segments.last().map(|segment| segment.end) {
        Some(end) if end == log.end && begins <= end.position => Ok(()),
        _ => gap("its last segment does not end where the log does".into()),
    }
}

/// That a file of the backup is there, and long enough.
fn find(path: &Path, bytes: u64) -> Result<(), BackupError> {
    let there = fs::metadata(path).map_err(BackupError::io("look at", path))?.len();
    match there < bytes {
        true => Err(BackupError::damaged(path, format!("it has {there} bytes, and the backup needs {bytes}"))),
        false => Ok(()),
    }
}

/// That the snapshot of a log, if it has one, verifies with the key of the backup, stands where the manifest says, and
/// is a state.
fn check_snapshot(store: &Store, name: &str, log: &LogCopy, id: LogId, known: &Known) -> Result<(), BackupError> {
    let Some((cursor, file)) = &log.snapshot else { return Ok(()) };
    let folder = store.folder(name);
    let path = folder.join(&file.name);
    let wrong = |what: String| BackupError::damaged(&path, format!("{what}; {USE_ANOTHER}"));
    let key_path = folder.join(KEY_FILE);
    let key = fs::read(&key_path).map_err(BackupError::io("read", &key_path))?;
    let key = Key::parse(&key).map_err(|what| BackupError::damaged(&key_path, format!("{what}; {USE_ANOTHER}")))?;
    let bytes = beside(store, name, file)?;
    let (stand, body) = check(&bytes, id, key.bytes()).map_err(wrong)?;
    if stand.cursor != *cursor {
        let (of, at) = (stand.cursor.sequence, cursor.sequence);
        return Err(wrong(format!("it is the snapshot at sequence {of}, and the backup needs the one at {at}")));
    }
    let since = (known.snapshot)(body).map_err(wrong)?;
    let first = log.segments.first().map(|segment| segment.first);
    match since.zip(first).filter(|(since, first)| first.0 > since.0) {
        Some((since, first)) => Err(wrong(format!(
            "it rests on records from position {} on, and the first segment of the backup begins at {first}",
            since.0
        ))),
        None => Ok(()),
    }
}

/// A file beside the manifest, as it was copied.
pub(crate) fn beside(store: &Store, name: &str, file: &FileCopy) -> Result<Vec<u8>, BackupError> {
    let path = store.folder(name).join(&file.name);
    let bytes = fs::read(&path).map_err(BackupError::io("read", &path))?;
    if blake3::hash(&bytes) != file.hash {
        return Err(BackupError::damaged(&path, "it is not what was copied; use another backup"));
    }
    Ok(bytes)
}
