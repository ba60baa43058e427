//! Copying the segments of a log into a directory of backups that has some of them.
//!
//! ```text
//!   held, and as it was copied ─▶ kept, and continued      held with a flaw ─▶ written anew, beside it, then renamed
//! ```
//!
//! Promise: a backup that is taken stands on bytes that are what was copied: those of open segments were read, and
//! those of sealed ones have their length, or were read if that was asked for. What is wrong is said, also when it is
//! cured.
//!
//! Why sealed ones are not read each time: they are nearly all of a journal, and a backup each hour would read it all.

use std::fs::{self, File};
use std::io::Seek;
use std::path::{Path, PathBuf};

use tidegate_journal::archive::moved_to;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::segment::MARK_BYTES;
use tidegate_journal::{Cursor, JournalError, LogFiles, Position};

use crate::Progress;
use crate::error::BackupError;
use crate::files::{Held, copy_bytes, create_folder, end_at, open_target, sync_folder};
use crate::manifest::{FileCopy, LogCopy, SegmentCopy};

/// What of the bytes that backups have already is read before a new one builds on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reread {
    /// The segments that were still written, at most one of each log; of the sealed ones, how long they are.
    Open,
    /// All of them.
    All,
}

/// What is copied of one log.
pub(crate) struct Part {
    /// Name of its folder.
    pub name: String,
    pub files: LogFiles<RealDisk>,
    pub snapshot: Option<(Cursor, Vec<u8>)>,
    pub end: Cursor,
    /// Its segments: where each begins, where its last group ends, and whether it is sealed.
    pub segments: Vec<(Cursor, Cursor, bool)>,
}

/// Copying bytes, and counting them.
pub(crate) struct Copying<'a, 'b> {
    pub held: &'a Held,
    pub reread: Reread,
    /// What the person who asked should know.
    pub remarks: Vec<String>,
    /// Bytes.
    pub copied: u64,
    /// Bytes that are to be copied, as far as is known.
    pub total: u64,
    pub progress: Progress<'b>,
}

impl Copying<'_, '_> {
    /// Bytes of a log that are not held yet.
    pub fn missing(&self, part: &Part) -> u64 {
        let of = |(begins, end, sealed): &(Cursor, Cursor, bool)| {
            let held = self.held.segment(&part.name, begins.position).map_or(0, |held| held.bytes);
            bytes_of(&part.files, begins.position, *end, *sealed).saturating_sub(held)
        };
        part.segments.iter().map(of).sum()
    }

    /// Copies what is not held of one log, and verifies it.
    pub fn log(&mut self, part: &Part, copy: &LogFiles<RealDisk>) -> Result<LogCopy, BackupError> {
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
        segment: (Cursor, Cursor, bool),
    ) -> Result<SegmentCopy, BackupError> {
        let copied = self.copy_of(part, copy, segment);
        copied.map_err(|error| of_archive(error, &part.files, segment.0.position))
    }

    fn copy_of(
        &mut self,
        part: &Part,
        copy: &LogFiles<RealDisk>,
        (begins, end, sealed): (Cursor, Cursor, bool),
    ) -> Result<SegmentCopy, BackupError> {
        let first = begins.position;
        let bytes = bytes_of(&part.files, first, end, sealed);
        let target_path = copy.path(first);
        let held = self.held.segment(&part.name, first);
        if held.is_some_and(|held| held.bytes > bytes || held.sealed && held.end != end) {
            return Err(another_timeline(&part.files.path(first), &target_path));
        }
        let flaw = held.and_then(|held| self.flaw(held, &target_path));
        // The chain hash at the end stands for all bytes before it.
        if let Some(held) = held.filter(|held| flaw.is_none() && held.bytes == bytes && held.end == end) {
            return Ok(held.clone());
        }
        let path = part.files.locate(first)?;
        let mut source = File::open(&path).map_err(BackupError::io("open", &path))?;
        let mut hasher = blake3::Hasher::new();
        let have = held.map_or(0, |held| held.bytes);
        copy_bytes((&mut source, &path), None, have, &mut hasher, &mut |_| {})?;
        if held.is_some_and(|held| held.hash != hasher.finalize()) {
            // Damage of the data directory has words of its own.
            verify_groups(&part.files, begins, end)?;
            return Err(another_timeline(&path, &target_path));
        }
        let from = match flaw {
            None => {
                self.append((&mut source, &path), (&target_path, have), bytes, &mut hasher)?;
                held.map_or(begins, |held| held.end)
            }
            // Older backups need its bytes: it is written beside the old one until it is whole.
            Some(flaw) => {
                source.rewind().map_err(BackupError::io("seek in", &path))?;
                hasher.reset();
                let into = unfinished(&target_path);
                self.append((&mut source, &path), (&into, 0), bytes, &mut hasher)?;
                fs::rename(&into, &target_path).map_err(BackupError::io("replace", &target_path))?;
                let path = target_path.display();
                self.remarks.push(format!("{path}: {flaw}; it was copied anew. Is its disk sound?"));
                begins
            }
        };
        if let Err(flaw) = verify_groups(copy, from, end) {
            // A copy of damaged bytes: the damage is that of the data directory.
            verify_groups(&part.files, from, end)?;
            return Err(flaw);
        }
        if sealed && copy.sealed_end(first)? != Some(end) {
            return Err(BackupError::damaged(&target_path, "it does not end with the mark of a sealed segment"));
        }
        Ok(SegmentCopy { first, end, bytes, hash: hasher.finalize(), sealed })
    }

    /// Writes the bytes of `source` behind the first `kept` of a file, durably, until it has so many.
    fn append(
        &mut self,
        (source, path): (&mut File, &Path),
        (into, kept): (&Path, u64),
        bytes: u64,
        hasher: &mut blake3::Hasher,
    ) -> Result<(), BackupError> {
        assert_eq!(source.stream_position().ok(), Some(kept), "what is kept was read, and nothing else");
        let mut target = open_target(into)?;
        end_at(&mut target, into, kept)?;
        let (copied, total, progress) = (&mut self.copied, self.total, &mut self.progress);
        copy_bytes((source, path), Some((&mut target, into)), bytes - kept, hasher, &mut |piece| {
            *copied += piece;
            progress(*copied, total.max(*copied));
        })?;
        target.sync_all().map_err(BackupError::io("sync", into))
    }

    /// What is wrong with the bytes that backups have of a segment, as far as they are to be read.
    fn flaw(&self, held: &SegmentCopy, path: &Path) -> Option<String> {
        let read = || {
            let mut file = File::open(path).map_err(BackupError::io("open", path))?;
            let there = file.metadata().map_err(BackupError::io("look at", path))?.len();
            if there < held.bytes {
                return Ok(Some(format!("it has {there} bytes, and backups need {} of it", held.bytes)));
            }
            if held.sealed && self.reread == Reread::Open {
                return Ok(None);
            }
            let mut hasher = blake3::Hasher::new();
            copy_bytes((&mut file, path), None, held.bytes, &mut hasher, &mut |_| {})?;
            let is_sound = hasher.finalize() == held.hash;
            Ok((!is_sound).then(|| format!("its first {} bytes were not what was copied", held.bytes)))
        };
        // What cannot be read cannot be restored either.
        read().unwrap_or_else(|error: BackupError| {
            Some(match error {
                BackupError::Io { doing, cause, .. } => format!("cannot {doing} it: {cause}"),
                other => other.to_string(),
            })
        })
    }
}

/// Damage of a segment that was moved out of the data directory: that it was, and what to do.
fn of_archive(error: BackupError, files: &LogFiles<RealDisk>, first: Position) -> BackupError {
    let is_damage = matches!(error, BackupError::Journal(JournalError::Damaged { .. }) | BackupError::Damaged { .. });
    match files.locate(first) {
        Ok(path)
            if is_damage && path != files.path(first) && error.to_string().starts_with(&*path.to_string_lossy()) =>
        {
            let moved = moved_to(&path);
            BackupError::Refused(format!("{error}. {moved}: put it back there from a copy of the archive"))
        }
        _ => error,
    }
}

/// The name of a segment while it is copied anew.
fn unfinished(path: &Path) -> PathBuf {
    let name = path.file_name().expect("a segment has a name").to_string_lossy();
    path.with_file_name(format!(".{name}"))
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
