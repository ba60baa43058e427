//! Folders that this process holds: a path below one leads to that folder, wherever it is by now.
//!
//! ```text
//!   Hold::take("data") ─▶ the open folder ◀── journal/ledger-0/spare.tgj ◀── RealDisk, path data/journal/…
//!   mv data data.old; another folder gets the name data ─▶ the open folder is data.old; the other is not touched
//!   rm -r data                                          ─▶ nothing can be made in it any more: ENOENT
//! ```
//!
//! Promise: as long as a folder is held, no call of [`crate::RealDisk`] with a path below it touches a file of another
//! folder that has got its name.
//!
//! Why: a path is looked up anew by each call. A server whose directory was moved away would write into whatever
//! somebody puts in its place, and rename files of that as if they were its own.
//!
//! Why for the whole process, and not as a part of each disk that is handed on: one caller with the plain path would be
//! enough to ruin another directory.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::fs::{AtFlags, CWD, statat};

/// All that is held. Locked for as long as it takes to compare a few paths.
static HELD: RwLock<Vec<Arc<Folder>>> = RwLock::new(Vec::new());

#[derive(Debug)]
struct Folder {
    /// As those who use it spell it.
    path: PathBuf,
    open: File,
}

/// Holds a folder until it is dropped.
#[derive(Debug)]
pub struct Hold {
    folder: Arc<Folder>,
}

impl Hold {
    /// Holds the folder that is at `path` now. Only paths that begin with the same words lead to it. `AlreadyExists` if
    /// this process holds one by this path.
    pub fn take(path: &Path) -> io::Result<Hold> {
        let folder = Arc::new(Folder { path: path.to_path_buf(), open: File::open(path)? });
        let mut held = HELD.write().unwrap_or_else(PoisonError::into_inner);
        if held.iter().any(|other| other.path == path) {
            let what = "this process holds the folder that had this name before";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
        held.push(folder.clone());
        Ok(Hold { folder })
    }

    /// Whether its path still leads to it.
    pub fn is_in_place(&self) -> io::Result<bool> {
        self.folder.is_in_place()
    }

    /// Where it is now, if the system says so and it was not removed.
    pub fn now_at(&self) -> Option<PathBuf> {
        let open = self.folder.open.metadata().ok()?;
        let now = fs::read_link(format!("/proc/self/fd/{}", self.folder.open.as_raw_fd())).ok()?;
        let there = fs::metadata(&now).ok()?;
        ((there.dev(), there.ino()) == (open.dev(), open.ino())).then_some(now)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = HELD.write().unwrap_or_else(PoisonError::into_inner);
        held.retain(|folder| !Arc::ptr_eq(folder, &self.folder));
    }
}

impl Folder {
    fn is_in_place(&self) -> io::Result<bool> {
        let there = match fs::metadata(&self.path) {
            Err(cause) if is_nowhere(&cause) => return Ok(false),
            there => there?,
        };
        let open = self.open.metadata()?;
        Ok((there.dev(), there.ino()) == (open.dev(), open.ino()))
    }
}

/// Refuses `path` if it leads below a folder that is held and not in its place any more. For whoever must use a plain
/// path, because somebody else opens it.
pub fn check_in_place(path: &Path) -> io::Result<()> {
    match folder_of(path) {
        Some(folder) if !folder.is_in_place()? => {
            let what = format!("the folder {} was moved, removed or replaced", folder.path.display());
            Err(io::Error::new(io::ErrorKind::NotFound, what))
        }
        _ => Ok(()),
    }
}

/// Whether what is at `path` is the file that is open; below a folder that is held, what is there in it.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let place = Place::of(path);
    let there = match statat(place.folder(), place.name(), AtFlags::empty()).map_err(io::Error::from) {
        Err(cause) if is_nowhere(&cause) => return Ok(false),
        there => there?,
    };
    let open = rustix::fs::fstat(file)?;
    Ok((there.st_dev, there.st_ino) == (open.st_dev, open.st_ino))
}

/// Whether nothing has the name that was looked up.
fn is_nowhere(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// What a path leads to: a name in a folder that is held, or in the one that this process works in.
pub(crate) struct Place<'a> {
    held: Option<Arc<Folder>>,
    name: &'a Path,
}

impl Place<'_> {
    pub fn of(path: &Path) -> Place<'_> {
        let held = folder_of(path);
        let name = match &held {
            None => path,
            Some(folder) => match path.strip_prefix(&folder.path).expect("it begins so") {
                itself if itself.as_os_str().is_empty() => Path::new("."),
                below => below,
            },
        };
        Place { held, name }
    }

    /// The folder that [`Place::name`] is to be looked up in.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.held.as_ref().map_or(CWD, |folder| folder.open.as_fd())
    }

    /// A path, from there.
    pub fn name(&self) -> &Path {
        self.name
    }
}

/// The innermost folder that is held and that `path` leads below of.
fn folder_of(path: &Path) -> Option<Arc<Folder>> {
    let held = HELD.read().unwrap_or_else(PoisonError::into_inner);
    // A path that goes up again may lead out of the folder.
    let is_below = |folder: &&Arc<Folder>| {
        path.strip_prefix(&folder.path).is_ok_and(|below| !below.components().any(|part| part == Component::ParentDir))
    };
    held.iter().filter(is_below).max_by_key(|folder| folder.path.as_os_str().len()).cloned()
}

#[cfg(test)]
mod tests;
