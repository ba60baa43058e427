//! The locks of a data directory: one process uses it, and whoever else wants to is told which.
//!
//! ```text
//!   LOCK        flock; says which process
//!   DIRECTORY   flock: a directory without this file is opened by nobody
//! ```
//!
//! Why two: whoever removes `LOCK`, perhaps because it looks like what a crash has left, would let a second server in,
//! and both would write into the same segments.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{DIRECTORY, LOCK, refuse};
use crate::JournalError;
use crate::disk::{Disk, RealDisk};

/// Why the lock was not taken.
pub(super) enum Unlocked {
    /// Nothing may be written there, in the system's words.
    ReadOnly(io::Error),
    /// Anything else.
    Failed(JournalError),
}

impl Unlocked {
    /// The same as an error of the directory at `path`.
    pub fn into_error(self, path: &Path) -> JournalError {
        match self {
            Unlocked::Failed(error) => error,
            Unlocked::ReadOnly(cause) => {
                let what = "is this the user whose directory it is, on a file system that may be written?";
                refuse(path, format!("its file {LOCK}, which keeps others out, cannot be written: {cause}; {what}"))
            }
        }
    }
}

/// A file that this process has locked, until it is dropped.
///
/// Why the lock is given back by a call of its own: a lock of `flock` lasts until its last descriptor is closed.
/// Another thread may just be starting a program, and that child has all descriptors until it runs the program.
#[derive(Debug)]
pub struct LockedFile(File);

impl LockedFile {
    /// Locks `file`; `None` if another process has it.
    pub(crate) fn take(file: File, kind: libc::c_int) -> io::Result<Option<LockedFile>> {
        Ok(flock(&file, kind)?.then_some(LockedFile(file)))
    }

    /// Locks `file` for this process alone; `None` if another one has it.
    pub fn alone(file: File) -> io::Result<Option<LockedFile>> {
        LockedFile::take(file, libc::LOCK_EX)
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // If it fails: the descriptor is closed next.
        let _ = flock(&self.0, libc::LOCK_UN);
    }
}

/// Files whose locks keep others out. The kernel releases them when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Locks {
    /// `LOCK`; none if it is not there and nothing may be written.
    pub lock: Option<LockedFile>,
    /// `DIRECTORY`; none as long as the directory is being made.
    pub description: Option<LockedFile>,
}

/// Takes the locks, or says who has them.
pub(super) fn lock(path: &Path) -> Result<Locks, Unlocked> {
    let description = lock_description(path, libc::LOCK_EX).map_err(Unlocked::Failed)?;
    Ok(Locks { lock: Some(lock_file(path)?), description })
}

/// Keeps servers out for as long as the files are open, and writes nothing.
pub(super) fn lock_shared(path: &Path) -> Result<Locks, JournalError> {
    let description = lock_description(path, libc::LOCK_SH)?;
    let lock_path = path.join(LOCK);
    let failed = |cause| JournalError::io("lock", &lock_path, cause);
    let file = match RealDisk.open(&lock_path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Locks { lock: None, description }),
        Err(cause) => return Err(failed(cause)),
    };
    match LockedFile::take(file, libc::LOCK_SH).map_err(failed)? {
        Some(file) => Ok(Locks { lock: Some(file), description }),
        None => Err(refuse(path, in_use(path))),
    }
}

/// Takes `LOCK`, made if it is not there, and writes into it which process this is.
pub(super) fn lock_file(path: &Path) -> Result<LockedFile, Unlocked> {
    let lock_path = path.join(LOCK);
    let failed = |cause| Unlocked::Failed(JournalError::io("lock", &lock_path, cause));
    let file = RealDisk.open_or_create(&lock_path).map_err(|cause| match cause.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Unlocked::ReadOnly(cause),
        _ => failed(cause),
    })?;
    let Some(locked) = LockedFile::take(file, libc::LOCK_EX).map_err(failed)? else {
        return Err(Unlocked::Failed(refuse(path, in_use(path))));
    };
    // Over what an earlier process wrote: on a full disk a file that was cut gets its block back only later.
    let process = format!("{}\n", std::process::id());
    let written = locked.write_all_at(process.as_bytes(), 0).and_then(|()| locked.set_len(process.len() as u64));
    match written {
        // Which process it is, is for people. The lock is what keeps others out.
        Err(cause) if cause.kind() != io::ErrorKind::StorageFull => Err(failed(cause)),
        _ => Ok(locked),
    }
}

/// Takes the lock of this kind on `DIRECTORY`, if it is there.
pub(super) fn lock_description(path: &Path, kind: libc::c_int) -> Result<Option<LockedFile>, JournalError> {
    let description = path.join(DIRECTORY);
    let failed = |cause| JournalError::io("lock", &description, cause);
    // To write, if that may be: some network file systems lock only what may be written.
    let file = match RealDisk.open(&description) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed(cause)),
    };
    match LockedFile::take(file, kind).map_err(failed)? {
        Some(file) => Ok(Some(file)),
        None => Err(refuse(path, in_use(path))),
    }
}

/// Whether it was done; `false` if another process has the lock.
fn flock(file: &File, kind: libc::c_int) -> io::Result<bool> {
    // SAFETY: the descriptor is open; the call touches no memory of ours.
    if unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let cause = io::Error::last_os_error();
    if cause.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(cause) }
}

/// Who holds the locks of the directory at `path`, in words.
fn in_use(path: &Path) -> String {
    let mut holder = String::new();
    let read = RealDisk.open(&path.join(LOCK)).and_then(|file| file.take(32).read_to_string(&mut holder));
    let holder = read.ok().and_then(|_| holder.trim().parse::<u32>().ok());
    let holder = holder.map_or("another process".into(), |holder| format!("process {holder}"));
    format!("it is in use by {holder}; stop that first, or use another directory")
}

#[cfg(test)]
mod tests;
