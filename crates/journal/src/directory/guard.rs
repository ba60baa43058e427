//! A look, now and then, at the files that make a data directory the one of the process that serves it.
//!
//! ```text
//!   data/             still this directory?       ─▶ Away: told, with where it is now
//!   data/DIRECTORY    still this file and text?   ─┐
//!   data/LOCK         still this file?            ─┼─▶ put back, and told; or a fault
//!   data/KEY          still this key?             ─┤
//!   data/ARCHIVE      lists still what it listed? ─┘
//! ```
//!
//! Promise: what was lost of these files under a running process is put back as it was, unless another process has the
//! directory; what cannot be put back is a fault that says what to do.
//!
//! Why: a process goes on with what it has open and in memory, and the next start refuses the directory. As long as the
//! process runs it knows what these files were; afterwards nobody does.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::archive_list::ArchiveList;
use super::description::Description;
use super::lock::{LockedFile, Locks, Unlocked, lock_description, lock_file};
use super::{DIRECTORY, LOCK};
use crate::disk::{Disk, DiskFile, Hold, RealDisk, is_at};
use crate::key::KEY_FILE;
use crate::{JournalError, Key};

pub(super) const DIRECTORY_BACK: &str = "DIRECTORY.back";

/// What is wrong with the directory, as long as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardFault {
    /// It is not where it was.
    Away,
    /// Another process has a lock of it.
    InUse,
    /// A file that belongs to it is lost and cannot be put back.
    Unwritten,
}

impl GuardFault {
    /// All of them.
    pub const ALL: [GuardFault; 3] = [GuardFault::Away, GuardFault::InUse, GuardFault::Unwritten];

    /// A word, what it means, and what to do.
    pub fn words(self) -> &'static str {
        match self {
            GuardFault::Away => {
                "away: the data directory was moved, removed or replaced while the server runs, which goes on in the \
                 one that it has opened; its log says where that is now. Stop the server, move away what is in the \
                 place of the directory (`mv` would put the one into the other), put the directory back to its place, \
                 and start again"
            }
            GuardFault::InUse => {
                "in_use: another process has a lock of the data directory, and perhaps writes to it; stop both, run \
                 `tidegate audit`, and start one"
            }
            GuardFault::Unwritten => {
                "unwritten: KEY, DIRECTORY, LOCK or ARCHIVE of the data directory is lost or damaged, and the server \
                 cannot put it back; its log says why. Without a good KEY and DIRECTORY the next start is refused; \
                 with a damaged ARCHIVE only if segments were moved out of the directory"
            }
        }
    }
}

/// What a look has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// What was lost and was put back, in words.
    pub mended: Vec<String>,
    /// What is wrong, and its particulars.
    pub fault: Option<(GuardFault, String)>,
}

/// Looks at a directory that this process serves.
#[derive(Debug)]
pub struct Guard {
    path: PathBuf,
    hold: Arc<Hold>,
    description: Description,
    key: Key,
    locks: Arc<Mutex<Locks>>,
    archive: Mutex<ArchiveList>,
}

impl Guard {
    pub(super) fn new(path: &Path, key: Key, locks: Arc<Mutex<Locks>>, hold: Arc<Hold>) -> Result<Guard, JournalError> {
        let description = Description::read(&RealDisk, &path.join(DIRECTORY))?;
        let archive = Mutex::new(ArchiveList::of(path));
        Ok(Guard { path: path.to_path_buf(), hold, description, key, locks, archive })
    }

    /// Looks at all of it, and puts back what is lost.
    pub fn look(&self) -> Look {
        let mut look = Look::default();
        if !self.hold.is_in_place().unwrap_or(false) {
            let place = self.path.display();
            let where_now = self.hold.now_at().map_or_else(
                || "was removed, it seems: what it stores is gone when it stops".into(),
                |now| format!("is {}", now.display()),
            );
            let why = format!("{place} is another directory, or none; the one of this server {where_now}");
            look.fault = Some((GuardFault::Away, why));
            return look;
        }
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        for part in [Guard::description, Guard::lock_file, Guard::key, Guard::archive] {
            match part(self, &mut locks) {
                Ok(mended) => look.mended.extend(mended),
                Err(fault) => {
                    look.fault = Some(fault);
                    return look;
                }
            }
        }
        look
    }

    /// That `DIRECTORY` is the file that is locked, and says what it said. In words, if it was put back.
    fn description(&self, locks: &mut Locks) -> Result<Option<String>, (GuardFault, String)> {
        let path = self.path.join(DIRECTORY);
        let is_same_file = locks.description.as_ref().is_some_and(|file| is_at(file, &path).unwrap_or(false));
        let is_same_text = Description::read(&RealDisk, &path).is_ok_and(|there| there == self.description);
        if is_same_file && is_same_text {
            return Ok(None);
        }
        if !is_same_file {
            // Whoever has locked the other file writes here, too.
            lock_description(&self.path, libc::LOCK_EX).map_err(fault_of)?;
        }
        let put_back =
            self.write_description(&path).map_err(|cause| fault_of(JournalError::io("put back", &path, cause)));
        locks.description = Some(put_back?);
        Ok(Some(format!("{}: it was removed or changed while the server runs, and is put back", path.display())))
    }

    /// Locked before it has its name: nobody comes between.
    fn write_description(&self, path: &Path) -> std::io::Result<LockedFile> {
        let back = self.path.join(DIRECTORY_BACK);
        if RealDisk.exists(&back)? {
            RealDisk.remove(&back)?;
        }
        let file = RealDisk.create_new(&back)?;
        file.write_all_at(self.description.text().as_bytes(), 0)?;
        file.sync_all()?;
        let locked = LockedFile::take(file, libc::LOCK_EX)?.ok_or(std::io::ErrorKind::WouldBlock)?;
        RealDisk.rename(&back, path)?;
        RealDisk.sync_dir(&self.path)?;
        Ok(locked)
    }

    /// The same for `LOCK`, which may say anything.
    fn lock_file(&self, locks: &mut Locks) -> Result<Option<String>, (GuardFault, String)> {
        let path = self.path.join(LOCK);
        if locks.lock.as_ref().is_some_and(|file| is_at(file, &path).unwrap_or(false)) {
            return Ok(None);
        }
        let locked = lock_file(&self.path).map_err(|unlocked: Unlocked| fault_of(unlocked.into_error(&self.path)))?;
        locks.lock = Some(locked);
        Ok(Some(format!("{}: it was removed or replaced while the server runs, and is made anew", path.display())))
    }

    /// The same for `KEY`.
    fn key(&self, _: &mut Locks) -> Result<Option<String>, (GuardFault, String)> {
        let was = match Key::read(&RealDisk, &self.path) {
            Ok(Some(key)) if key == self.key => return Ok(None),
            Ok(Some(_)) => "another key",
            Ok(None) => "missing",
            Err(_) => "damaged",
        };
        self.key.write(&RealDisk, &self.path).map_err(fault_of)?;
        let path = self.path.join(KEY_FILE);
        Ok(Some(format!("{}: it was {was} while the server runs; the server's own is put back", path.display())))
    }

    /// The same for `ARCHIVE`, which changes while it is served.
    fn archive(&self, _: &mut Locks) -> Result<Option<String>, (GuardFault, String)> {
        let mut list = self.archive.lock().unwrap_or_else(PoisonError::into_inner);
        list.look(&self.path).map_err(|error| (GuardFault::Unwritten, error.to_string()))
    }
}

fn fault_of(error: JournalError) -> (GuardFault, String) {
    let fault = if matches!(error, JournalError::Directory { .. }) { GuardFault::InUse } else { GuardFault::Unwritten };
    (fault, error.to_string())
}

#[cfg(test)]
mod tests;
