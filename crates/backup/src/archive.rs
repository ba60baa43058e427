//! Moving sealed segments out of a data directory, also while a server uses it.
//!
//! ```text
//!   sealed segment ─verify the chain─▶ put ─▶ read back, compare hashes ─▶ ARCHIVE, durably ─▶ remove the local file
//! ```
//!
//! Promise: at every moment each segment is in the directory, or `ARCHIVE` says where it is and it was read back from
//! there. So a crash at any point, and a server that reads meanwhile, find every record.
//!
//! The oldest go first, so that what stays is the end of the log. Logs that forget are left alone.
//!
//! Why it is told of each piece that is read or moved: a server archives by itself, and the disk and the network are
//! its clients' before they are the archive's.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tidegate_journal::archive::{Archive, Archived, CACHE_FOLDER, LOCK_FILE, lock_list};
use tidegate_journal::directory::LockedFile;
use tidegate_journal::directory::{Directory, check_owner};
use tidegate_journal::disk::{Disk, RealDisk, check_in_place};
use tidegate_journal::{Cursor, Family, LocalLogs, LogFiles, Position, Retention};

use crate::Progress;
use crate::error::BackupError;
use crate::files::{create_folder, open_target, sync_folder};
use crate::known::Known;

/// How much is read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Told of the bytes of each piece that was read, sent or read back. May wait, to keep a rate; `Err`, in words, ends
/// the work before the next piece.
pub type Pace<'a> = &'a mut dyn FnMut(u64) -> Result<(), String>;

/// Where segments are moved to.
pub trait ArchiveTarget {
    /// Stores a file under a name with slashes, durably; returns its absolute path or URL. `Err` in words.
    fn put(&self, file: &Path, name: &str, pace: Pace<'_>) -> Result<String, String>;

    /// Writes what [`ArchiveTarget::put`] stored to a new file at `into`. `Err` in words.
    fn get(&self, at: &str, into: &Path, pace: Pace<'_>) -> Result<(), String>;

    /// Whether what was stored at `at`, a place of this target or of another one, is known to be gone.
    fn is_gone(&self, at: &str) -> bool;
}

/// A directory, perhaps on another disk.
pub struct DirectoryTarget(
    /// Its absolute path.
    pub PathBuf,
);

impl ArchiveTarget for DirectoryTarget {
    fn put(&self, file: &Path, name: &str, pace: Pace<'_>) -> Result<String, String> {
        let path = self.0.join(name);
        // A piece of a segment must not have the name of one. Of a try that was killed, the next one takes the place.
        let unfinished = path.with_extension("part");
        let named = copy_paced(file, &unfinished, pace).and_then(|()| {
            let failed = |cause: io::Error| format!("{}: cannot name: {cause}", path.display());
            fs::rename(&unfinished, &path).map_err(failed)?;
            sync_folder(path.parent().unwrap_or(Path::new("/"))).map_err(|error| error.to_string())
        });
        if named.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        named?;
        path.to_str().map(str::to_owned).ok_or_else(|| format!("{}: its path is no text", path.display()))
    }

    fn get(&self, at: &str, into: &Path, pace: Pace<'_>) -> Result<(), String> {
        copy_paced(Path::new(at), into, pace)
    }

    fn is_gone(&self, at: &str) -> bool {
        Path::new(at).starts_with(&self.0) && !Path::new(at).exists()
    }
}

/// Copies a file, durably, into a folder that is made if need be.
fn copy_paced(from: &Path, to: &Path, pace: Pace<'_>) -> Result<(), String> {
    let mut source = File::open(from).map_err(|cause| format!("{}: cannot open: {cause}", from.display()))?;
    let failed = |cause: io::Error| format!("{}: cannot write: {cause}", to.display());
    let folder = to.parent().unwrap_or(Path::new("/"));
    create_folder(folder).map_err(|error| error.to_string())?;
    let mut target = open_target(to).map_err(|error| error.to_string())?;
    target.set_len(0).map_err(failed)?;
    read_paced(&mut source, from, pace, &mut |piece| target.write_all(piece).map_err(failed))?;
    target.sync_all().map_err(failed)?;
    sync_folder(folder).map_err(|error| error.to_string())
}

/// Reads a file piece by piece to its end.
fn read_paced(
    source: &mut File,
    path: &Path,
    pace: Pace<'_>,
    each: &mut dyn FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let read = source.read(&mut buffer).map_err(|cause| format!("{}: cannot read: {cause}", path.display()))?;
        if read == 0 {
            return Ok(());
        }
        each(&buffer[..read])?;
        pace(read as u64)?;
    }
}

/// What was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Segments.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Moves all sealed segments of logs that are whole to `target`, but the newest `keep` of each log.
pub fn archive(
    data: &Path,
    known: &[Known],
    target: &dyn ArchiveTarget,
    keep: usize,
    pace: Pace<'_>,
    progress: Progress<'_>,
) -> Result<Moved, BackupError> {
    let families: Vec<Family> = known.iter().map(|known| known.family).collect();
    // The targets open segments by their paths, which may lead to somebody else's when a server's directory was moved.
    check_in_place(data).map_err(BackupError::io("archive", data))?;
    let pace: Pace<'_> = &mut |bytes| {
        check_in_place(data).map_err(|cause| cause.to_string())?;
        pace(bytes)
    };
    let directory = Directory::look_at(data, &families)?;
    check_owner(data)?;
    let _lock = lock(data)?;
    check_target(data, target)?;
    let due = due(data, &directory, &families, keep)?;
    let bytes_of =
        |path: PathBuf| fs::metadata(&path).map(|file| file.len()).map_err(BackupError::io("look at", &path));
    let total = due.iter().map(|(files, first)| bytes_of(files.path(*first))).sum::<Result<u64, _>>()?;
    let mut moved = Moved::default();
    for (files, first) in due {
        // A mark is written right behind the name of the next segment: one that is not there yet is there next time.
        let end = files.sealed_end(first).map_err(|error| after(moved.segments, error.into()))?;
        let Some(end) = end else { break };
        let segment = move_segment(data, directory.id(), &files, (first, end), target, pace);
        moved.bytes += segment.map_err(|error| after(moved.segments, error))?;
        moved.segments += 1;
        progress(moved.bytes, total);
    }
    Ok(moved)
}

/// An error that came after some segments were moved, which are where they are to be.
fn after(moved: u64, error: BackupError) -> BackupError {
    match moved {
        0 => error,
        _ => BackupError::Refused(format!("{error}. Segments that were moved before, and are listed: {moved}")),
    }
}

/// How many segments [`archive`] would move now.
pub fn waiting(data: &Path, known: &[Known], keep: usize) -> Result<u64, BackupError> {
    let families: Vec<Family> = known.iter().map(|known| known.family).collect();
    let directory = Directory::look_at(data, &families)?;
    Ok(due(data, &directory, &families, keep)?.len() as u64)
}

/// The segments that are to be moved, the oldest of each log first.
fn due(
    data: &Path,
    directory: &Directory,
    families: &[Family],
    keep: usize,
) -> Result<Vec<(LogFiles<RealDisk>, Position)>, BackupError> {
    let logs = LocalLogs::new(RealDisk, data, families);
    let mut due = Vec::new();
    for family in families.iter().filter(|family| family.retention == Retention::Whole) {
        for id in directory.logs(*family) {
            let files = logs.files(id);
            let local = files.local_segments()?;
            let sealed = local.len().saturating_sub(1);
            let firsts = local.into_iter().take(sealed.saturating_sub(keep));
            due.extend(firsts.map(|first| (files.clone(), first)));
        }
    }
    Ok(due)
}

/// That what was moved to the target last is still there. Why: the place of a disk that is not mounted is an empty
/// folder, and what is moved into it is missing as soon as the disk is there again.
fn check_target(data: &Path, target: &dyn ArchiveTarget) -> Result<(), BackupError> {
    let moved = Archive::read(&RealDisk, data)?.segments;
    let gone = moved.iter().rev().find(|segment| target.is_gone(&segment.at));
    gone.map_or(Ok(()), |segment| {
        let what =
            "it was archived and is not there any more: is its disk mounted? Nothing is moved there before it is";
        Err(BackupError::Refused(format!("{}: {what}", segment.at)))
    })
}

fn move_segment(
    data: &Path,
    directory: u64,
    files: &LogFiles<RealDisk>,
    (first, end): (Position, Cursor),
    target: &dyn ArchiveTarget,
    pace: Pace<'_>,
) -> Result<u64, BackupError> {
    let begins = files.begins(first)?;
    let path = files.path(first);
    let failed = |what: String| BackupError::Refused(format!("{}: not archived: {what}", path.display()));
    let mut groups = files.groups(begins, end)?;
    while let Some(group) = groups.next_group()? {
        pace(group.bytes as u64).map_err(failed)?;
    }
    let (bytes, hash) = hash_of(&path, pace).map_err(failed)?;
    let log = files.folder().file_name().expect("a log has a folder").to_string_lossy().into_owned();
    // Segments of another timeline have the same name and another chain.
    let chain = &end.chain.to_string()[..16];
    let name = format!("{directory:016x}/{log}/segment-{:020}-{chain}.tgj", first.0);
    let at = target.put(&path, &name, pace).map_err(failed)?;

    let cache = data.join(CACHE_FOLDER);
    create_folder(&cache)?;
    let read_back = cache.join(format!("read-back-{}", std::process::id()));
    // Of a try that was cut short.
    let _ = fs::remove_file(&read_back);
    let compared = target.get(&at, &read_back, pace).and_then(|()| hash_of(&read_back, pace));
    // Whatever was read, it is not needed any more.
    let _ = fs::remove_file(&read_back);
    if compared.map_err(failed)? != (bytes, hash) {
        return Err(failed(format!("what is read back from {at} is not what was put there")));
    }
    let mut archive = Archive::read(&RealDisk, data)?;
    archive.segments.retain(|segment| segment.log != log || segment.first.position != first);
    archive.segments.push(Archived { log, first: begins, end, bytes, hash: *hash.as_bytes(), at });
    archive.segments.sort_by(|one, other| (&one.log, one.first.position).cmp(&(&other.log, other.first.position)));
    archive.write(data)?;
    RealDisk.remove(&path).map_err(BackupError::io("remove", &path))?;
    RealDisk.sync_dir(files.folder()).map_err(BackupError::io("sync", files.folder()))?;
    Ok(bytes)
}

fn hash_of(path: &Path, pace: Pace<'_>) -> Result<(u64, blake3::Hash), String> {
    let mut hasher = blake3::Hasher::new();
    let mut bytes = 0;
    let mut source = File::open(path).map_err(|cause| format!("{}: cannot open: {cause}", path.display()))?;
    read_paced(&mut source, path, pace, &mut |piece| {
        hasher.update(piece);
        bytes += piece.len() as u64;
        Ok(())
    })?;
    Ok((bytes, hasher.finalize()))
}

/// One archive at a time.
fn lock(data: &Path) -> Result<LockedFile, BackupError> {
    let locked = lock_list(data).map_err(BackupError::io("open", &data.join(LOCK_FILE)))?;
    locked.ok_or_else(|| BackupError::Refused(format!("{}: another process archives it", data.display())))
}

#[cfg(test)]
mod tests {
    use tidegate_journal::disk::Hold;

    use super::*;

    #[test]
    fn a_segment_that_is_not_whole_has_no_name_in_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let (segment, store) = (folder.path().join("segment"), DirectoryTarget(folder.path().join("store")));
        fs::write(&segment, vec![7; 3 * PIECE_BYTES]).unwrap();
        let name = "00/ledger-0/segment-0-c.tgj";
        let stored = || fs::read_dir(store.0.join("00/ledger-0")).unwrap().count();
        let mut pieces = 0;
        let full = store.put(&segment, name, &mut |_| {
            pieces += 1;
            assert!(!store.0.join(name).exists(), "it is not whole");
            if pieces == 2 { Err("no space".into()) } else { Ok(()) }
        });
        assert_eq!((full, stored()), (Err("no space".into()), 0));
        let at = store.put(&segment, name, &mut |_| Ok(())).unwrap();
        assert_eq!((fs::metadata(at).unwrap().len(), stored()), (3 * PIECE_BYTES as u64, 1));
    }

    #[test]
    fn nothing_is_archived_by_the_path_of_a_directory_that_was_moved_away() {
        let folder = tempfile::tempdir().unwrap();
        let (data, store) = (folder.path().join("data"), DirectoryTarget(folder.path().join("store")));
        fs::create_dir(&data).unwrap();
        let hold = Hold::take(&data).unwrap();
        fs::rename(&data, folder.path().join("moved")).unwrap();
        fs::create_dir(&data).unwrap();
        let refused = archive(&data, &[], &store, 0, &mut |_| Ok(()), &mut |_, _| {}).unwrap_err().to_string();
        assert!(refused.contains("data was moved, removed or replaced"), "{refused}");
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
        drop(hold);
    }
}
