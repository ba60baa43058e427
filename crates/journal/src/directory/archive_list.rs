//! What `ARCHIVE` said last, kept by the process that serves the directory.
//!
//! ```text
//!   data/ARCHIVE ─ good, and lists all that it listed ─▶ kept: segments were moved meanwhile
//!               ├─ good, or gone, and lists less      ─▶ what it lacks is added again, and told
//!               └─ damaged                            ─▶ put back as it was last, and told
//! ```
//!
//! Promise: a segment that was listed while the process runs is listed, or is in the directory again, within a look.
//! Without `ARCHIVE` nobody finds what was moved, and the next start is refused.
//!
//! Why what is kept can be older than the file was: `tidegate archive` may have moved a segment since the last look. It
//! is not lost then, but has to be copied back by hand, as the refusal of the next start says.

use std::path::Path;

use crate::JournalError;
use crate::archive::{ARCHIVE_FILE, Archive, Archived, Stored, lock_list};
use crate::disk::{Disk, RealDisk};
use crate::segment::segment_name;

/// The list, as it was when it was last good.
#[derive(Debug)]
pub(super) struct ArchiveList {
    known: Archive,
}

impl ArchiveList {
    /// That of the data directory `data`. One that is damaged is told by the first look.
    pub fn of(data: &Path) -> ArchiveList {
        ArchiveList { known: Archive::read(&RealDisk, data).unwrap_or_default() }
    }

    /// Looks at the file, and puts back what is lost of it: then says so in words. `Err` if it cannot be read, or is
    /// damaged and nobody knows what it said, or cannot be written.
    pub fn look(&mut self, data: &Path) -> Result<Option<String>, JournalError> {
        let path = data.join(ARCHIVE_FILE);
        let found = Stored::read(&RealDisk, data)?;
        if self.lost(data, &found)?.is_none() {
            return Ok(self.keep(found));
        }
        let locked = lock_list(data).map_err(|cause| JournalError::io("lock", &path, cause))?;
        let Some(_locked) = locked else {
            let cause = "somebody archives now; it is tried again".into();
            return Err(JournalError::Io { doing: "put back", path, cause });
        };
        // Whoever had the lock may have changed it.
        let found = Stored::read(&RealDisk, data)?;
        let Some(lost) = self.lost(data, &found)? else { return Ok(self.keep(found)) };
        let was = match &found {
            Stored::Missing => "missing",
            Stored::Damaged => "damaged",
            Stored::Good(_) => "without segments that it had listed",
        };
        let mut segments = lost;
        if let Stored::Good(found) = found {
            segments.extend(found.segments);
        }
        segments.sort_by(|one, other| (&one.log, one.first.position).cmp(&(&other.log, other.first.position)));
        let whole = Archive { segments };
        whole.write(data)?;
        self.known = whole;
        Ok(Some(format!("{}: it was {was} while the server runs; what it had listed is put back", path.display())))
    }

    fn keep(&mut self, found: Stored) -> Option<String> {
        match found {
            Stored::Missing => self.known = Archive::default(),
            Stored::Good(archive) => self.known = archive,
            Stored::Damaged => unreachable!("something is lost of a list that is damaged"),
        }
        None
    }

    /// The segments that were listed, are not any more, and are not in the directory either; `None` if there are none.
    fn lost(&self, data: &Path, found: &Stored) -> Result<Option<Vec<Archived>>, JournalError> {
        let is_listed = |segment: &Archived| match found {
            Stored::Good(archive) => archive.segment(&segment.log, segment.first.position).is_some(),
            Stored::Missing | Stored::Damaged => false,
        };
        // What cannot be looked for is listed: a list may be longer than it need be.
        let is_here = |segment: &Archived| {
            let path = data.join("journal").join(&segment.log).join(segment_name(segment.first.position));
            RealDisk.exists(&path).unwrap_or(false)
        };
        let is_lost = |segment: &&Archived| !is_listed(segment) && !is_here(segment);
        let lost: Vec<Archived> = self.known.segments.iter().filter(is_lost).cloned().collect();
        match found {
            // What it said can be told only by whoever has read it.
            Stored::Damaged if lost.is_empty() => Err(Archive::damaged(data)),
            _ => Ok(Some(lost).filter(|lost| !lost.is_empty())),
        }
    }
}

#[cfg(test)]
mod tests;
