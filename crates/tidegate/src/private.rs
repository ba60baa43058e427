//! What the server writes is for the user that it runs as and for nobody else: directories get mode 0700, files 0600.
//!
//! Why: a data directory holds every balance, the key that signs tokens, and messages of all sessions.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

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

/// What [`close`] did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// The mode that the directory had, if others could enter or read it.
    pub mode: Option<u32>,
    /// Files and folders inside it that others could use, and cannot any more.
    pub inside: u64,
    /// Those that stay open: which, and why.
    pub open: Vec<(PathBuf, String)>,
}

/// Closes a directory that an older program, or somebody, has left open, and all that is in it. Links are not followed:
/// what they lead to may be somebody else's.
pub fn close(directory: &Path) -> io::Result<Closed> {
    let mut closed = Closed { mode: open_mode(directory), ..Closed::default() };
    if let Some(mode) = closed.mode {
        fs::set_permissions(directory, Permissions::from_mode(mode & !OTHERS | 0o700))?;
    }
    close_inside(directory, &mut closed);
    Ok(closed)
}

fn close_inside(folder: &Path, closed: &mut Closed) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(cause) => return closed.open.push((folder.to_path_buf(), cause.to_string())),
    };
    for entry in entries.flatten() {
        let path = entry.path();
        // It may be gone by now.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        let (is_folder, mode) = (found.is_dir(), found.mode() & 0o777);
        if (is_folder || found.is_file()) && mode & OTHERS != 0 {
            match fs::set_permissions(&path, Permissions::from_mode(mode & !OTHERS)) {
                Ok(()) => closed.inside += 1,
                Err(cause) => closed.open.push((path.clone(), cause.to_string())),
            }
        }
        if is_folder {
            close_inside(&path, closed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_directory_is_closed_with_all_that_is_in_it() {
        let root = tempfile::tempdir().unwrap();
        let (data, other) = (root.path().join("data"), root.path().join("other"));
        let (folder, key, log) = (data.join("journal"), data.join("jwt.key"), data.join("journal/segment"));
        fs::create_dir_all(&folder).unwrap();
        [&key, &log, &other].iter().for_each(|path| fs::write(path, "secret").unwrap());
        symlink(&other, data.join("link")).unwrap();
        for (path, mode) in [(&data, 0o755), (&folder, 0o775), (&key, 0o644), (&log, 0o440), (&other, 0o644)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(close(&data).unwrap(), Closed { mode: Some(0o755), inside: 3, open: Vec::new() });
        assert_eq!([&data, &folder, &key, &log].map(|path| mode(path)), [0o700, 0o700, 0o600, 0o400]);
        assert_eq!(mode(&other), 0o644, "a link is not followed");
        assert_eq!(close(&data).unwrap(), Closed::default(), "once is enough");
    }
}
