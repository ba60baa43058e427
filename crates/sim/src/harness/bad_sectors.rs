//! Sectors of the disk that cannot be read for a while: of segments, and of the index of ids.
//!
//! ```text
//!   spoil ─▶ reads of it fail (EIO) ─▶ whoever needs it is refused, or the start is, by the name of the file
//!        └─ mended after a while, or when it is written ─▶ the same questions are answered
//! ```
//!
//! What must never follow from it: a shard that stops, an id that is taken for new, a record that is lost. So nothing
//! here excuses a shard that stops itself.

use std::path::Path;

use super::Site;
use super::store::Store;
use crate::note;

/// What every error for such a sector says.
const CAUSE: &str = "input/output error";
/// Sectors that hold nothing are read by nobody; this often another one is drawn.
const DRAWS: usize = 6;

/// The sectors that were spoiled since the process started, or before and are still.
#[derive(Default)]
pub(super) struct BadSectors {
    /// The names of their files. Kept when they are mended: an answer or a report may still speak of it.
    names: Vec<String>,
    mended_from: u64,
    is_bad: bool,
}

impl<S: Store> Site<S> {
    /// Whether some sector may be bad now.
    pub(super) fn has_bad_sectors(&self) -> bool {
        self.damage.bad_sectors.is_bad
    }

    /// Whether `words` name the file of a sector that could not be read, and say so.
    pub fn names_bad_sector(&self, words: &str) -> bool {
        words.contains(CAUSE) && self.damage.bad_sectors.names.iter().any(|name| words.contains(name))
    }

    pub(super) fn spoil_a_sector(&mut self) {
        let folder = *self.chance.one_of(&["journal", "ids"]);
        let mut files = self.files_below(folder);
        if files.is_empty() {
            files = self.files_below("ids");
        }
        // These get other names, by which an error would call them.
        files.retain(|(path, _)| !is_temporary(path));
        if files.is_empty() {
            return;
        }
        for _ in 0..DRAWS {
            let (path, len) = self.chance.one_of(&files).clone();
            let at = self.chance.below(len);
            let bytes = self.disk.contents(&path).unwrap_or_default();
            let holds = |bytes: &[u8]| bytes.iter().take(512).any(|byte| *byte != 0);
            if !bytes.get(at as usize / 512 * 512..).is_some_and(holds) {
                continue;
            }
            if self.disk.spoil_sector(&path, at) {
                note!(self.trace, "{} cannot be read around {at}", path.display());
                self.tally.add("a bad sector", 1);
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
                self.damage.bad_sectors.names.extend(name);
                self.damage.bad_sectors.is_bad = true;
                self.damage.bad_sectors.mended_from = self.tick + self.chance.within(20..=800);
            }
            return;
        }
    }

    /// Mends all sectors once it is time.
    pub(super) fn sectors_pass(&mut self) {
        if self.damage.bad_sectors.mended_from <= self.tick {
            self.mend_sectors();
        }
    }

    pub(super) fn mend_sectors(&mut self) {
        if std::mem::take(&mut self.damage.bad_sectors.is_bad) {
            note!(self.trace, "all sectors can be read");
            self.damage.mended_at = Some(self.tick);
            self.disk.mend_sectors();
        }
    }

    /// A new process has nothing to say of what was mended before it.
    pub(super) fn forget_mended_sectors(&mut self) {
        if !self.damage.bad_sectors.is_bad {
            self.damage.bad_sectors.names.clear();
        }
    }

    /// How often the disk did what it was told to do wrong: a fault that is drawn may meet nothing.
    pub(crate) fn count_faults_of_the_disk(&mut self) {
        let counts = self.disk.counts();
        self.tally.add("a read that failed", counts.failed_reads);
        self.tally.add("a write that failed", counts.failed_writes);
        self.tally.add("a sync that failed", counts.failed_syncs);
        self.tally.add("a byte that was put right", self.store.mended().unwrap_or(0));
    }
}

fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.starts_with("spare") || name.ends_with(".next") || name == "condemned"
}
