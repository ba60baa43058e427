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

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tidegate_journal::archive::{Archive, Archived, CACHE_FOLDER};
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, Family, LocalLogs, LogFiles, Position, Retention};

use crate::Progress;
use crate::error::BackupError;
use crate::files::{copy_bytes, create_folder, open_target, sync_folder};
use crate::known::Known;
use crate::take::verify_groups;

/// Where segments are moved to.
pub trait ArchiveTarget {
    /// Stores a file under a name with slashes, durably; returns its absolute path or URL. `Err` in words.
    fn put(&self, file: &Path, name: &str) -> Result<String, String>;

    /// Writes what [`ArchiveTarget::put`] stored to a new file at `into`. `Err` in words.
    fn get(&self, at: &str, into: &Path) -> Result<(), String>;
}

/// A directory, perhaps on another disk.
pub struct DirectoryTarget(
    /// Its absolute path.
    pub PathBuf,
);

impl ArchiveTarget for DirectoryTarget {
    fn put(&self, file: &Path, name: &str) -> Result<String, String> {
        let path = self.0.join(name);
        let folder = path.parent().unwrap_or(&self.0);
        let copy = || -> Result<(), BackupError> {
            create_folder(folder)?;
            let mut source = File::open(file).map_err(BackupError::io("open", file))?;
            let bytes = source.metadata().map_err(BackupError::io("look at", file))?.len();
            let mut target = open_target(&path)?;
            target.set_len(0).map_err(BackupError::io("cut", &path))?;
            let mut hasher = blake3::Hasher::new();
            copy_bytes((&mut source, file), Some((&mut target, &path)), bytes, &mut hasher, &mut |_| {})?;
            target.sync_all().map_err(BackupError::io("sync", &path))?;
            sync_folder(folder)
        };
        copy().map_err(|error| error.to_string())?;
        path.to_str().map(str::to_owned).ok_or_else(|| format!("{}: its path is no text", path.display()))
    }

    fn get(&self, at: &str, into: &Path) -> Result<(), String> {
        fs::copy(at, into).map(|_| ()).map_err(|cause| format!("{at}: cannot read: {cause}"))
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
    progress: Progress<'_>,
) -> Result<Moved, BackupError> {
    let families: Vec<Family> = known.iter().map(|known| known.family).collect();
    let directory = Directory::look_at(data, &families)?;
    let _lock = lock(data)?;
    let logs = LocalLogs::new(RealDisk, data, &families);
    let mut due: Vec<(LogFiles<RealDisk>, Position)> = Vec::new();
    for family in families.iter().filter(|family| family.retention == Retention::Whole) {
        for id in directory.logs(*family) {
            let files = logs.files(id);
            let local = files.local_segments()?;
            let sealed = local.len().saturating_sub(1);
            let firsts = local.into_iter().take(sealed.saturating_sub(keep));
            due.extend(firsts.map(|first| (files.clone(), first)));
        }
    }
    let bytes_of =
        |path: PathBuf| fs::metadata(&path).map(|file| file.len()).map_err(BackupError::io("look at", &path));
    let total = due.iter().map(|(files, first)| bytes_of(files.path(*first))).sum::<Result<u64, _>>()?;
    let mut moved = Moved::default();
    for (files, first) in due {
        // A mark is written right behind the name of the next segment: one that is not there yet is there next time.
        let Some(end) = files.sealed_end(first)? else { break };
        moved.bytes += move_segment(data, directory.id(), &files, (first, end), target)?;
        moved.segments += 1;
        progress(moved.bytes, total);
    }
    Ok(moved)
}

fn move_segment(
    data: &Path,
    directory: u64,
    files: &LogFiles<RealDisk>,
    (first, end): (Position, Cursor),
    target: &dyn ArchiveTarget,
) -> Result<u64, BackupError> {
    let begins = files.begins(first)?;
    verify_groups(files, begins, end)?;
    let path = files.path(first);
    let (bytes, hash) = hash_of(&path)?;
    let log = files.folder().file_name().expect("a log has a folder").to_string_lossy().into_owned();
    // Segments of another timeline have the same name and another chain.
    let chain = &end.chain.to_string()[..16];
    let name = format!("{directory:016x}/{log}/segment-{:020}-{chain}.tgj", first.0);
    let failed = |what: String| BackupError::Refused(format!("{}: not archived: {what}", path.display()));
    let at = target.put(&path, &name).map_err(failed)?;

    let cache = data.join(CACHE_FOLDER);
    create_folder(&cache)?;
    let read_back = cache.join(format!("read-back-{}", std::process::id()));
    let got = target.get(&at, &read_back).map_err(failed);
    let compared = got.and_then(|()| hash_of(&read_back));
    // Whatever was read, it is not needed any more.
    let _ = fs::remove_file(&read_back);
    if compared? != (bytes, hash) {
        return Err(failed(format!("what is read back from {at} is not what was put there")));
    }
    let mut archive = Archive::read(&RealDisk, data)?;
    archive.segments.retain(|segment| segment.log != log || segment.first.position != first);
    archive.segments.push(Archived { log, first: begins, end, bytes, hash: *hash.as_bytes(), at });
    archive.segments.sort_by(|one, other| (&one.log, one.first.position).cmp(&(&other.log, other.first.position)));
    archive.write(data)?;
    fs::remove_file(&path).map_err(BackupError::io("remove", &path))?;
    sync_folder(files.folder())?;
    Ok(bytes)
}

fn hash_of(path: &Path) -> Result<(u64, blake3::Hash), BackupError> {
    let mut hasher = blake3::Hasher::new();
    let copied = File::open(path).and_then(|mut file| io::copy(&mut file, &mut hasher));
    Ok((copied.map_err(BackupError::io("read", path))?, hasher.finalize()))
}

/// One archive at a time.
fn lock(data: &Path) -> Result<File, BackupError> {
    let path = data.join("ARCHIVE.lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.map_err(BackupError::io("open", &path))?;
    // SAFETY: the descriptor is open; the call touches no memory of ours.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(file),
        _ => Err(BackupError::Refused(format!("{}: another process archives it", data.display()))),
    }
}
