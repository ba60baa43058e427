//! Where a log ended when its node was last stopped in order, recorded in the data directory itself.
//!
//! ```text
//!   stop:        all logs are closed ──▶ ends/<family>-<n>
//!   next start:  the log ends before that place, in that timeline ─▶ it has lost records
//! ```
//!
//! Promise: what is recorded was durable then. So it holds for ever, also when the node is killed later: a log that the
//! process has appended to only goes on from there.
//!
//! Why: a log whose end was cut, or whose folder was put back from an older copy, looks like one that a crash tore,
//! until something beside it says more. Snapshots and indexes of ids say it, too, but a quiet log has none for a long
//! time. Whoever puts back the whole data directory puts this back with it: only a [witness](crate::witness) tells
//! that.

use std::path::Path;

use crate::disk::Disk;
use crate::testimony::{Reading, Testimony, TestimonyFile};
use crate::{Family, JournalError, LogId};

/// The folder of a data directory that has a file for each of its logs.
pub const ENDS: &str = "ends";

/// The recorded end of one log.
#[derive(Clone, Debug)]
pub struct RecordedEnd<D: Disk>(TestimonyFile<D>);

impl<D: Disk> RecordedEnd<D> {
    /// That of `log`, which is of `family`, in the data directory at `data`.
    pub fn new(disk: D, data: &Path, family: &Family, log: LogId) -> RecordedEnd<D> {
        let path = data.join(ENDS).join(format!("{}-{}", family.name, log.shard));
        RecordedEnd(TestimonyFile { disk, log, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// What it says. `Err` is only what may pass: a disk that does not answer, or a file that may not be read.
    pub fn read(&self) -> Result<Reading, JournalError> {
        self.0.read()
    }

    /// Replaces what it says, durably.
    pub fn write(&self, end: &Testimony) -> Result<(), JournalError> {
        let failed = |cause| JournalError::io("create", self.0.folder(), cause);
        let (disk, folder) = (&self.0.disk, self.0.folder());
        if !disk.exists(folder).map_err(failed)? {
            let data = folder.parent().expect("it is in a data directory");
            disk.create_dir_all(folder).and_then(|()| disk.sync_dir(data)).map_err(failed)?;
        }
        self.0.write(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FakeDisk;
    use crate::{ChainHash, Cursor, Position, Retention, Sequence, Timeline};

    #[test]
    fn the_last_one_is_durable_and_is_of_its_log_alone() {
        let (disk, family) = (FakeDisk::new(1), Family { number: 1, name: "ledger", retention: Retention::Whole });
        let of = |directory| RecordedEnd::new(disk.clone(), Path::new("data"), &family, family.log(directory, 3));
        disk.create_dir_all(Path::new("data")).unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        assert_eq!(of(7).read().unwrap(), Reading::Nothing);
        for sequence in [4, 9] {
            let cursor = Cursor { position: Position(70), sequence: Sequence(sequence), chain: ChainHash([3; 32]) };
            let end = Testimony { cursor, timeline: Timeline(ChainHash([5; 32])) };
            of(7).write(&end).unwrap();
            disk.crash();
            assert_eq!(of(7).read().unwrap(), Reading::Testimony(end));
        }
        assert_eq!(of(7).path(), Path::new("data/ends/ledger-3"));
        assert!(matches!(of(8).read().unwrap(), Reading::Unusable(what) if what.starts_with("it is of another log, ")));
    }
}
