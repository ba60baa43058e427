//! Makes a data directory, and gives it the families that it lacks.
//!
//! ```text
//!   DIRECTORY.new ─▶ journal/…: an empty log for each shard ─▶ rename to DIRECTORY ─▶ (KEY, by whoever opens it)
//! ```
//!
//! Promise: each step is durable before the next. What was cut short between any two goes on with the identity, and the
//! numbers of shards, that it had begun with; and until `DIRECTORY` has its name nobody has stored anything.

use std::path::Path;

use super::description::Description;
use super::{DIRECTORY, DIRECTORY_NEW, JOURNAL, ShardCount, Wanted, exists, refuse};
use crate::disk::Disk;
use crate::folder::Folder;
use crate::{Family, JournalError, recovery};

/// Creates the logs and then the description. A creation that was cut short goes on with the identity it had begun
/// with.
pub(super) fn create<D: Disk>(
    disk: &D,
    path: &Path,
    wanted: &[Wanted],
    created_at_ms: u64,
) -> Result<(), JournalError> {
    let none = |created_at_ms, id| Description { families: Vec::new(), created_at_ms, id };
    let begun = match Description::read(disk, &path.join(DIRECTORY_NEW)) {
        Ok(begun) => goes_on(&begun, &none(begun.created_at_ms, begun.id), wanted),
        Err(_) => None,
    };
    let description = match begun {
        Some(begun) => begun,
        None if exists(disk, &path.join(JOURNAL))? => {
            let what = "it was being made when that was cut short, with other families or numbers of shards than are \
                        wanted now. Nothing was stored in it yet: remove DIRECTORY.new and journal in it, and start \
                        again";
            return Err(refuse(path, what.into()));
        }
        None => {
            let description = none(created_at_ms, random_id(disk, path)?).with(wanted);
            description.write(disk, &path.join(DIRECTORY_NEW))?;
            description
        }
    };
    finish(disk, path, &none(description.created_at_ms, description.id), &description, wanted)
}

/// Gives a directory the families that it lacks. What was cut short goes on with the numbers that it had begun with.
pub(super) fn extend<D: Disk>(
    disk: &D,
    path: &Path,
    found: Description,
    wanted: &[Wanted],
) -> Result<Description, JournalError> {
    let begun = Description::read(disk, &path.join(DIRECTORY_NEW)).ok();
    let begun = begun.and_then(|begun| goes_on(&begun, &found, wanted));
    let description = match begun {
        Some(begun) => begun,
        None => {
            let description = found.clone().with(wanted);
            description.write(disk, &path.join(DIRECTORY_NEW))?;
            description
        }
    };
    finish(disk, path, &found, &description, wanted)?;
    Ok(description)
}

/// The description that was `begun`, if it is what `found` becomes with what is wanted now.
fn goes_on(begun: &Description, found: &Description, wanted: &[Wanted]) -> Option<Description> {
    let as_begun: Vec<Wanted> = wanted
        .iter()
        .map(|wanted| match (wanted.count, begun.shards(wanted.family.number)) {
            (ShardCount::Kept, shards @ 1..) => Wanted { shards, ..*wanted },
            _ => *wanted,
        })
        .collect();
    let expected = found.clone().with(&as_begun);
    (*begun == expected).then_some(expected)
}

/// Creates the logs that `found` lacks, and then gives the description its name.
fn finish<D: Disk>(
    disk: &D,
    path: &Path,
    found: &Description,
    description: &Description,
    wanted: &[Wanted],
) -> Result<(), JournalError> {
    for Wanted { family, .. } in wanted.iter().filter(|wanted| found.family(wanted.family.number).is_none()) {
        for shard in 0..description.shards(family.number) {
            let folder = Folder::new(disk.clone(), path, family, family.log(description.id, shard));
            recovery::create(&folder)?;
            if !recovery::is_untouched(&folder)? {
                return Err(refuse(path, unlisted(&folder, family)));
            }
        }
    }
    assert!(description.id == found.id && description.created_at_ms == found.created_at_ms, "a directory stays itself");
    assert!(found.families.iter().all(|family| description.families.contains(family)), "no family is lost or changed");
    let failed = |cause| JournalError::io("create", &path.join(DIRECTORY), cause);
    disk.rename(&path.join(DIRECTORY_NEW), &path.join(DIRECTORY)).map_err(failed)?;
    disk.sync_dir(path).map_err(failed)
}

/// Why a log that `DIRECTORY` does not list is not passed over.
pub(super) fn unlisted<D: Disk>(folder: &Folder<D>, family: &Family) -> String {
    format!(
        "there are records in {}, and DIRECTORY does not list that log of family {} \"{}\": it is older than these \
         records. Restore DIRECTORY from a newer copy",
        folder.path.display(),
        family.number,
        family.name
    )
}

fn random_id<D: Disk>(disk: &D, path: &Path) -> Result<u64, JournalError> {
    let bytes = disk.random_bytes().map_err(|cause| JournalError::io("draw a random id for", path, cause))?;
    Ok(u64::from_le_bytes(*bytes.first_chunk().expect("there are more")))
}

#[cfg(test)]
mod tests;
