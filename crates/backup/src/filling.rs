//! A directory while a restore fills it.
//!
//! ```text
//!   nothing, or empty ─▶ the mark, locked ─▶ logs, snapshots, KEY … ─▶ DIRECTORY gets its name ─▶ mark removed
//!                          ▲        │ failed: all of it is removed, the mark last
//!                          │        ▼ killed: the mark is there, and nobody has its lock
//!                          └── another restore removes what is there, and takes its place
//! ```
//!
//! Promise: a restore that fails leaves what was there before it; one that is killed leaves a directory that no server
//! starts on, and that another restore fills from the beginning. Nothing is removed but what restores make.
//!
//! Why it is not made beside its place and renamed: the place may be a mounted disk, which nothing can be renamed to,
//! and beside it is another disk.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tidegate_journal::directory::{LockedFile, UNFINISHED_RESTORE};
use tidegate_journal::disk::is_at;

use crate::destination::around;
use crate::error::BackupError;
use crate::files::{DIRECTORY, IDENTITY, create_folder, sync_folder};

/// The description until it gets its name.
pub(crate) const DIRECTORY_UNNAMED: &str = "DIRECTORY.restored";
/// The folders that a restore makes.
pub(crate) const FOLDERS: [&str; 2] = ["journal", "snapshots"];

/// A directory that this process fills.
pub(crate) struct Filling {
    data: PathBuf,
    /// Keeps other restores out.
    mark: LockedFile,
    /// Whether the directory was not there before.
    is_made: bool,
    /// Whether what an interrupted restore had left was removed.
    has_replaced: bool,
}

/// What is at the place.
enum Place {
    Nothing,
    Empty,
    /// What a restore left that did not come to its end, or what one fills now.
    Unfinished,
}

/// Whether a restore may fill `data`: it is not there, empty, or what an interrupted restore left. Changes nothing.
pub(crate) fn check_place(data: &Path) -> Result<(), BackupError> {
    look(data).map(drop)
}

fn look(data: &Path) -> Result<Place, BackupError> {
    let entries = match fs::read_dir(data) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Place::Nothing),
        Err(cause) if cause.kind() == ErrorKind::NotADirectory => {
            return Err(BackupError::Refused(format!("{}: it is no directory", data.display())));
        }
        entries => entries.map_err(BackupError::io("list", data))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(BackupError::io("list", data))?.file_name().to_string_lossy().into_owned());
    }
    if names.is_empty() {
        return Ok(Place::Empty);
    }
    let has = |name: &str| names.iter().any(|other| other == name);
    if !has(UNFINISHED_RESTORE) || has(DIRECTORY) {
        return Err(BackupError::Refused(format!(
            "{}: it is not empty. A restore writes over nothing: give an empty directory, or one that does not exist",
            data.display()
        )));
    }
    let made = [UNFINISHED_RESTORE, DIRECTORY_UNNAMED].into_iter().chain(FOLDERS).chain(IDENTITY);
    let made: Vec<&str> = made.collect();
    match names.iter().find(|name| !made.contains(&name.as_str())) {
        Some(other) => Err(BackupError::Refused(format!(
            "{}: another restore did not come to its end there, and {other} is not of a restore: move it away, and \
             restore again",
            data.display()
        ))),
        None => Ok(Place::Unfinished),
    }
}

impl Filling {
    /// Marks `data` as a directory that is filled, and keeps other restores out. What an interrupted one left is
    /// removed. `words` are for people who find the mark.
    pub fn begin(data: &Path, words: &str) -> Result<Filling, BackupError> {
        let is_made = matches!(look(data)?, Place::Nothing);
        create_folder(data)?;
        let marked = Filling::mark(data, is_made);
        if is_made && marked.is_err() {
            // Only if it is empty: it may be another's by now.
            let _ = fs::remove_dir(data);
        }
        let mut filling = marked?;
        match filling.clear().and_then(|()| filling.write_words(words)) {
            Ok(()) => Ok(filling),
            Err(error) => Err(filling.give_up(error)),
        }
    }

    /// Makes the mark, or takes the one that was left, and its lock.
    fn mark(data: &Path, is_made: bool) -> Result<Filling, BackupError> {
        // One that was there may be open to others.
        fs::set_permissions(data, Permissions::from_mode(0o700)).map_err(BackupError::io("close to others", data))?;
        let path = data.join(UNFINISHED_RESTORE);
        let failed = |doing: &'static str| BackupError::io(doing, &path);
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let Some(mark) = LockedFile::alone(file.map_err(failed("open"))?).map_err(failed("lock"))? else {
            let what = "another restore is filling it now: wait for its end, or give another directory";
            return Err(BackupError::Refused(format!("{}: {what}", data.display())));
        };
        // The one that had the lock may have come to its end, or have given up.
        if !is_at(&mark, &path).map_err(failed("look at"))? {
            let what = "another restore has just ended there: look at it, and try again";
            return Err(BackupError::Refused(format!("{}: {what}", data.display())));
        }
        look(data)?;
        Ok(Filling { data: data.to_path_buf(), mark, is_made, has_replaced: false })
    }

    /// Whether what an interrupted restore had left was removed.
    pub fn has_replaced(&self) -> bool {
        self.has_replaced
    }

    /// Removes what another restore left, but for the mark.
    fn clear(&mut self) -> Result<(), BackupError> {
        self.has_replaced = self.remove_content().map_err(BackupError::io("clear", &self.data))?;
        sync_folder(&self.data)
    }

    fn write_words(&self, words: &str) -> Result<(), BackupError> {
        let path = self.data.join(UNFINISHED_RESTORE);
        let mut mark: &fs::File = &self.mark;
        let written = mark.set_len(0).and_then(|()| mark.write_all(words.as_bytes())).and_then(|()| mark.sync_all());
        written.map_err(BackupError::io("write", &path))?;
        sync_folder(&self.data)
    }

    /// It is a data directory: `DIRECTORY` has its name, durably. The mark means nothing beside that, so it is as well
    /// if it cannot be removed.
    pub fn finish(self) {
        let _ = fs::remove_file(self.data.join(UNFINISHED_RESTORE)).and_then(|()| sync(&self.data));
    }

    /// Removes all that was made, because of `error`, which is returned; also if something is left.
    pub fn give_up(self, error: BackupError) -> BackupError {
        match self.remove() {
            Ok(()) => error,
            Err(cause) => BackupError::Left { error: Box::new(error), data: self.data, cause },
        }
    }

    fn remove(&self) -> io::Result<()> {
        self.remove_content()?;
        // Durably, so that the mark never goes before what it marks.
        sync(&self.data)?;
        fs::remove_file(self.data.join(UNFINISHED_RESTORE))?;
        if self.is_made {
            fs::remove_dir(&self.data)?;
            return sync(around(&self.data));
        }
        sync(&self.data)
    }

    /// Removes what restores make, `DIRECTORY` first; whether there was something.
    fn remove_content(&self) -> io::Result<bool> {
        let mut found = false;
        for name in IDENTITY.into_iter().chain([DIRECTORY_UNNAMED]) {
            found |= is_removed(fs::remove_file(self.data.join(name)))?;
        }
        for name in FOLDERS {
            found |= is_removed(fs::remove_dir_all(self.data.join(name)))?;
        }
        Ok(found)
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    fs::File::open(folder).and_then(|folder| folder.sync_all())
}

/// Whether it was there.
fn is_removed(removed: io::Result<()>) -> io::Result<bool> {
    match removed {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(cause),
    }
}
