//! Whose a data directory is: only that user writes into it.
//!
//! Promise: whoever is refused has changed nothing. Why: what a program writes can be read by its own user and by
//! nobody else. A tool that was once run as root leaves files that the server, as its own user, cannot read: it then
//! refuses old ids, or does not start.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tidegate_disk::owner::{sudo_name, this_user, user};

use super::{DIRECTORY, refuse};
use crate::JournalError;
use crate::disk::{Disk, RealDisk};

/// Refuses a data directory of somebody else. One that is not made yet is nobody's.
pub fn check_owner(path: &Path) -> Result<(), JournalError> {
    let Some(owner) = owner_of(path) else { return Ok(()) };
    if is_ours(path, owner) {
        return Ok(());
    }
    let (of, me, sudo) = (user(owner), user(this_user()), sudo_name(owner));
    let what = format!(
        "it belongs to {of}, and this is run by {me}: what it writes there, {of} could not read. Nothing was changed. \
         Run it as that user: put `sudo -u {sudo}` before the command"
    );
    Err(refuse(path, what))
}

/// Whether what this process writes into the directory is its owner's; true for none.
pub(super) fn is_owner(path: &Path) -> bool {
    owner_of(path).is_none_or(|owner| is_ours(path, owner))
}

fn owner_of(path: &Path) -> Option<u32> {
    fs::metadata(path.join(DIRECTORY)).ok().map(|found| found.uid())
}

/// Some file systems (of a network, or of another system) give all files to one user, whoever writes: so it is tried.
fn is_ours(path: &Path, owner: u32) -> bool {
    if owner == this_user() {
        return true;
    }
    let probe = path.join(format!("OWNER.probe-{}", std::process::id()));
    let made = RealDisk.create_new(&probe).and_then(|file| {
        let found = file.metadata().map(|found| found.uid());
        RealDisk.remove(&probe)?;
        found
    });
    made.is_ok_and(|uid| uid == owner)
}
