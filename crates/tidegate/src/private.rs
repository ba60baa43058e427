//! What the server writes is for the user that it runs as and for nobody else: directories get mode 0700, files 0600.
//!
//! Why: a data directory holds every balance, the key that signs tokens, and messages of all sessions.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// The bits of a mode that let others in.
const OTHERS: u32 = 0o077;

/// Lets nobody else read what this process creates from now on, whatever the mask was with which it was started.
pub fn keep_private() {
    // SAFETY: the call takes a number and cannot fail; no other thread of this process runs yet.
    unsafe {
        libc::umask(OTHERS as libc::mode_t);
    }
}

/// The mode of a directory that others may enter or read; `None` if they may not, or if there is none.
pub fn open_mode(directory: &Path) -> Option<u32> {
    let mode = fs::metadata(directory).ok()?.mode() & 0o777;
    (mode & OTHERS != 0).then_some(mode)
}

/// Closes a directory that an older program, or somebody, has left open. Returns the mode that it had.
pub fn close(directory: &Path) -> io::Result<Option<u32>> {
    let Some(mode) = open_mode(directory) else { return Ok(None) };
    fs::set_permissions(directory, Permissions::from_mode(mode & !OTHERS | 0o700))?;
    Ok(Some(mode))
}
