//! What a folder without `DIRECTORY` has of a data directory, and whether a new one may be made in it.
//!
//! ```text
//!   nothing of it                                  ─▶ yes
//!   DIRECTORY.new, logs that nobody has used yet   ─▶ yes: a creation that was cut short goes on
//!   a folder that is a data directory itself       ─▶ no: it was moved into this one
//!   KEY, journal, ids, snapshots, …                ─▶ no: most of a ledger is elsewhere, or was removed
//! ```
//!
//! Promise: it is asked before anything is made, and changes nothing.
//!
//! Why: an empty ledger that is served where there was a full one looks well to all who watch it. It takes what is left
//! of the old one for foreign files, and sets aside or removes what would have shown how far that had come.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::description::Description;
use super::guard::DIRECTORY_BACK;
use super::{DIRECTORY, DIRECTORY_NEW, JOURNAL, refuse};
use crate::archive::{ARCHIVE_FILE, CACHE_FOLDER};
use crate::disk::Disk;
use crate::folder::Folder;
use crate::key::KEY_FILE;
use crate::recorded_end::ENDS;
use crate::witness::WITNESSED;
use crate::{JournalError, LogId, recovery};

/// What only a data directory has that was made, besides `DIRECTORY`. Not `LOCK`, which stays of a creation that was
/// cut short, and no files that an operator may have put there before.
pub(super) const REMAINS: [&str; 9] =
    [JOURNAL, "ids", "snapshots", KEY_FILE, ARCHIVE_FILE, CACHE_FOLDER, WITNESSED, ENDS, DIRECTORY_BACK];

/// Refuses to make a data directory at `path`, which has no `DIRECTORY`, if something there is one or was part of one.
pub(super) fn refuse_remains<D: Disk>(disk: &D, path: &Path) -> Result<(), JournalError> {
    let names = match disk.list(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        listed => listed.map_err(|cause| JournalError::io("list", path, cause))?,
    };
    // What cannot be looked into is no data directory of this user's.
    let is_one = |name: &&String| disk.exists(&path.join(name).join(DIRECTORY)).unwrap_or(false);
    if let Some(inside) = names.iter().find(is_one) {
        return Err(refuse(path, moved_into_itself(path, inside)));
    }
    refuse_left_over(disk, path, &names)
}

/// Refuses a folder without `DIRECTORY` that has files, of these names, of a data directory.
pub(super) fn refuse_left_over<D: Disk>(disk: &D, path: &Path, names: &[String]) -> Result<(), JournalError> {
    let remains: Vec<&str> = REMAINS.into_iter().filter(|remains| names.iter().any(|name| name == remains)).collect();
    if remains.is_empty() || (remains == [JOURNAL] && is_begun(disk, path)?) {
        return Ok(());
    }
    let is_copy = Description::read(disk, &path.join(DIRECTORY_BACK)).is_ok();
    Err(refuse(path, left_over(path, &remains, is_copy)))
}

/// Whether there is only what a creation leaves that was cut short: its description, and logs that nobody has used.
fn is_begun<D: Disk>(disk: &D, path: &Path) -> Result<bool, JournalError> {
    let Ok(begun) = Description::read(disk, &path.join(DIRECTORY_NEW)) else { return Ok(false) };
    let journal = path.join(JOURNAL);
    let names = disk.list(&journal).map_err(|cause| JournalError::io("list", &journal, cause))?;
    Ok(names.iter().all(|name| {
        let listed = begun.families.iter().find_map(|listed| {
            let shard = name.strip_prefix(&*listed.name)?.strip_prefix('-')?.parse::<u16>().ok()?;
            (shard < listed.shards).then_some((listed, shard))
        });
        listed.is_some_and(|(listed, shard)| {
            let log = LogId { directory: begun.id, family: listed.number, shard };
            let folder = Folder {
                disk: disk.clone(),
                path: journal.join(name),
                log,
                retention: listed.retention,
                mending: None,
            };
            let has_none = folder.list_local().is_ok_and(|segments| segments.is_empty());
            has_none || recovery::is_untouched(&folder).unwrap_or(false)
        })
    }))
}

/// What to do about a data directory that is in the folder where it should be.
fn moved_into_itself(path: &Path, inside: &str) -> String {
    let [place, found, aside] = ["", ".found", ".remains"].map(|more| beside(path, more));
    let inside_path = beside(&path.join(inside), "");
    format!(
        "there is no file {DIRECTORY} in it, but its folder {inside} has one: it seems that the data directory was \
         moved into this folder instead of to its place, as `mv` does where a folder is there. No new one is made \
         here, and nothing was changed. Put it in its place: mv -T {inside_path} {found} && mv -T {place} {aside} && \
         mv -T {found} {place}. If it is another one, give this server a folder without one in it"
    )
}

/// What to do about what remains of a data directory.
fn left_over(path: &Path, remains: &[&str], is_copy: bool) -> String {
    let [place, aside, file, copy] = ["", ".remains", "/DIRECTORY", "/DIRECTORY.back"].map(|more| beside(path, more));
    let alone = match (is_copy, remains.contains(&JOURNAL)) {
        (true, _) => format!("{DIRECTORY_BACK} is a copy of {DIRECTORY}: if all else is there, mv {copy} {file}. "),
        (false, true) => format!(
            "If only {DIRECTORY} is lost: every backup has it, as backups/NAME/{DIRECTORY}; copy it to {file}. "
        ),
        (false, false) => String::new(),
    };
    let has = remains.join(", ");
    format!(
        "there is no file {DIRECTORY} in it, but there is {has}: this remains of a data directory. No new one is made \
         here, and nothing was changed. If the rest of it is elsewhere, or its disk is not mounted, put it back. \
         {alone}Else move the remains away (mv -T {place} {aside}), and restore a backup (tidegate restore --from \
         BACKUP --data {place}), or start again for a new, empty ledger"
    )
}

/// The absolute path with `more` at its end, for a shell.
fn beside(path: &Path, more: &str) -> String {
    // Without a slash at the end.
    let path: PathBuf = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).components().collect();
    let mut path = path.into_os_string();
    path.push(more);
    quoted(Path::new(&path))
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:,@%=".contains(&byte) || !byte.is_ascii();
    if text.bytes().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests;
