//! Begins a log anew whose files are damaged or missing, behind a snapshot that holds what was before.
//!
//! ```text
//!   journal/topics-0.anew   header at the snapshot's cursor, notice, mark: all durable
//!   journal/topics-0        ─ renamed ─▶ journal/topics-0.set-aside
//!   journal/topics-0.anew   ─ renamed ─▶ journal/topics-0
//! ```
//!
//! Promise: nothing is removed, and no log of that name is ever there without the notice that says what is lost. A
//! crash leaves the log as it was, or missing: both refuse a start, and this is done again.
//!
//! Only for a log that may forget: one that is whole for ever is nothing without its beginning.

use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::folder::Folder;
use crate::{Cursor, JournalError, Notice, Options, recovery};

/// Begins the log at `since`, the cursor of a snapshot or [`Cursor::START`], with `notice`. Returns where its files
/// are now, if there were some.
pub(crate) fn begin_anew<D: Disk>(
    folder: &Folder<D>,
    since: Cursor,
    options: Options,
    notice: &Notice,
) -> Result<Option<PathBuf>, JournalError> {
    assert!(folder.may_forget(), "a log that is whole for ever begins with its first record");
    let disk = &folder.disk;
    let made = Folder { path: beside(&folder.path, ".anew"), ..folder.clone() };
    clear(disk, &made.path)?;
    recovery::create_at(&made, since)?;
    recovery::append_notice(made.clone(), options, since, notice)?;
    let journal = folder.path.parent().expect("a log is in a folder of the journal");
    let renamed = |from: &Path, to: &Path| {
        let renamed = disk.rename(from, to).and_then(|()| disk.sync_dir(journal));
        renamed.map_err(|cause| JournalError::io("rename", from, cause))
    };
    let aside = match exists(disk, &folder.path)? {
        true => Some(free_name(disk, &folder.path)?),
        false => None,
    };
    if let Some(aside) = &aside {
        renamed(&folder.path, aside)?;
    }
    renamed(&made.path, &folder.path)?;
    Ok(aside)
}

/// Removes what a run that was cut short left.
fn clear<D: Disk>(disk: &D, path: &Path) -> Result<(), JournalError> {
    if !exists(disk, path)? {
        return Ok(());
    }
    for name in disk.list(path).map_err(|cause| JournalError::io("list", path, cause))? {
        let file = path.join(name);
        disk.remove(&file).map_err(|cause| JournalError::io("remove", &file, cause))?;
    }
    Ok(())
}

/// A name for what is set aside that nothing has.
fn free_name<D: Disk>(disk: &D, path: &Path) -> Result<PathBuf, JournalError> {
    let mut aside = beside(path, ".set-aside");
    let mut number = 0;
    while exists(disk, &aside)? {
        number += 1;
        aside = beside(path, &format!(".set-aside-{number}"));
    }
    Ok(aside)
}

/// The path with `more` behind its name.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    name.into()
}

fn exists<D: Disk>(disk: &D, path: &Path) -> Result<bool, JournalError> {
    disk.exists(path).map_err(|cause| JournalError::io("look for", path, cause))
}

#[cfg(test)]
mod tests;
