//! The lock of a data directory: one process uses it, and whoever else wants to is told which.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use super::{LOCK, refuse};
use crate::JournalError;

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

/// Takes the lock, or says who has it. The kernel releases it when the process ends, however it ends.
pub(super) fn lock(path: &Path) -> Result<File, Unlocked> {
    let lock_path = path.join(LOCK);
    let failed = |cause| Unlocked::Failed(JournalError::io("lock", &lock_path, cause));
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&lock_path);
    let mut file = opened.map_err(|cause| match cause.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Unlocked::ReadOnly(cause),
        _ => failed(cause),
    })?;
    if !flock(&file, libc::LOCK_EX).map_err(failed)? {
        return Err(Unlocked::Failed(refuse(path, in_use(&file))));
    }
    file.set_len(0).map_err(failed)?;
    file.rewind().map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

/// Keeps servers out for as long as the file is open, and writes nothing; without a lock file nobody is there.
pub(super) fn lock_shared(path: &Path) -> Result<Option<File>, JournalError> {
    let lock_path = path.join(LOCK);
    let failed = |cause| JournalError::io("lock", &lock_path, cause);
    let file = match File::open(&lock_path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed(cause)),
    };
    if flock(&file, libc::LOCK_SH).map_err(failed)? { Ok(Some(file)) } else { Err(refuse(path, in_use(&file))) }
}

/// Whether the lock was taken; `false` if another process has it.
fn flock(file: &File, kind: libc::c_int) -> io::Result<bool> {
    // SAFETY: the descriptor is open; the call touches no memory of ours.
    if unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let cause = io::Error::last_os_error();
    if cause.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(cause) }
}

/// Who holds the lock, in words.
fn in_use(file: &File) -> String {
    let mut holder = String::new();
    let read = file.take(32).read_to_string(&mut holder);
    let holder = read.ok().and_then(|_| holder.trim().parse::<u32>().ok());
    let holder = holder.map_or("another process".into(), |holder| format!("process {holder}"));
    format!("it is in use by {holder}; stop that first, or use another directory")
}

#[cfg(test)]
mod tests;
