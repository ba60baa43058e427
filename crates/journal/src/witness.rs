//! A witness: how far a log was durable, kept on another disk than the log.
//!
//! ```text
//!   log on disk A ── synced ──▶ once a second, and at the end ──▶ file on disk B: place, timeline
//!   next start:  the log ends before that place, in that timeline ─▶ it has lost records
//! ```
//!
//! Promise: nothing is written, and no start goes on, where the folder does not have the file [`FOLDER_MARK`] that an
//! operator put there once: the place of a disk that is not mounted looks like an empty folder.
//!
//! The data directory has an empty file for each log whose witness was written: a witness that is not there later was
//! lost, and is not begun anew by itself, because the log may have been put back from an older copy. That file is
//! copied with the directory, so it is no proof that nothing was lost; it only keeps a lost witness from being passed
//! over.
//!
//! Why: a log that loses its end together with all that was derived from it looks like one that a crash tore. Bytes:
//! `docs/formats/journal.md`.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile};
use crate::testimony::TestimonyFile;
use crate::{Family, JournalError, LogId};

pub use crate::testimony::{Reading, Testimony};

/// The file that a folder of witnesses has, made by whoever mounted the disk. Its content does not matter.
pub const FOLDER_MARK: &str = "tidegate-witnesses";
/// The folder of a data directory that has an empty file for each log whose witness was written.
pub const WITNESSED: &str = "witnessed";
/// That `folder` is the one that an operator meant, and not the place where its disk should be mounted.
pub fn check_folder<D: Disk>(disk: &D, folder: &Path) -> Result<(), JournalError> {
    let mark = folder.join(FOLDER_MARK);
    if disk.exists(&mark).map_err(|cause| JournalError::io("look for", &mark, cause))? {
        return Ok(());
    }
    let what = format!(
        "the file {FOLDER_MARK} is not in it: is its disk mounted? If this is the folder that witnesses are to be kept \
         in, say so once: touch {}",
        mark.display()
    );
    Err(JournalError::io("use as the folder of witnesses", folder, std::io::Error::other(what)))
}

/// That a new data directory, to be made at `data`, may have its witnesses in `folder`: no other has some there.
///
/// Why: where the disk of a data directory is not mounted, or its path is mistyped, there is none; the witnesses of the
/// one that was meant are the only sign of it.
pub fn check_folder_of_new<D: Disk>(disk: &D, folder: &Path, data: &Path) -> Result<(), JournalError> {
    check_folder(disk, folder)?;
    let names = disk.list(folder).map_err(|cause| JournalError::io("list", folder, cause))?;
    let others = names.iter().filter_map(|name| name.strip_suffix(".witness")?.split_once('-'));
    let mut others: Vec<&str> = others.map(|(directory, _)| directory).collect();
    others.dedup();
    let Some(first) = others.first() else { return Ok(()) };
    let (count, folder) = (others.len(), folder.display());
    let what = format!(
        "there is none, and {folder} has witnesses of other data directories: {count}, among them that with the id \
         {first}. So no new one is made. Is the disk of the data directory mounted, and is its path right? For a new, \
         empty ledger give another folder to its witnesses, with an empty file {FOLDER_MARK} in it, or start it once \
         without data.witness"
    );
    Err(JournalError::Directory { path: data.to_path_buf(), what })
}

/// Whether a log of this data directory had a witness, as the directory notes.
pub fn had_witnesses<D: Disk>(disk: &D, data: &Path) -> Result<bool, JournalError> {
    let marks = data.join(WITNESSED);
    let is_there = disk.exists(&marks).map_err(|cause| JournalError::io("look for", &marks, cause))?;
    let list = || disk.list(&marks).map_err(|cause| JournalError::io("list", &marks, cause));
    Ok(is_there && !list()?.is_empty())
}

/// The witness of one log.
#[derive(Clone, Debug)]
pub struct Witness<D: Disk> {
    file: TestimonyFile<D>,
    /// The log, in names of files.
    name: String,
}

impl<D: Disk> Witness<D> {
    /// The file of `log`, which is of `family`, in a folder that may have the witnesses of many directories.
    pub fn new(disk: D, folder: &Path, family: &Family, log: LogId) -> Witness<D> {
        let name = format!("{}-{}", family.name, log.shard);
        let path = folder.join(format!("{:016x}-{name}.witness", log.directory));
        Witness { file: TestimonyFile { disk, log, path }, name }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// What it says. `Err` is only what may pass: a disk that does not answer, or a file that may not be read.
    pub fn read(&self) -> Result<Reading, JournalError> {
        self.file.read()
    }

    /// Notes in the data directory that it was written, durably.
    pub fn note_in(&self, data: &Path) -> Result<(), JournalError> {
        let (folder, mark) = (data.join(WITNESSED), self.mark_in(data));
        let failed = |cause| JournalError::io("create", &mark, cause);
        if self.file.disk.exists(&mark).map_err(failed)? {
            return Ok(());
        }
        self.file.disk.create_dir_all(&folder).map_err(failed)?;
        self.file.disk.create_new(&mark).and_then(|file| file.sync_data()).map_err(failed)?;
        self.file.disk.sync_dir(&folder).and_then(|()| self.file.disk.sync_dir(data)).map_err(failed)
    }

    /// Whether it was written once, as the data directory notes, and its file is not there.
    pub fn is_gone(&self, data: &Path) -> Result<bool, JournalError> {
        let mark = self.mark_in(data);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |cause| JournalError::io("look for", &path, cause)
        };
        Ok(self.file.disk.exists(&mark).map_err(failed(&mark))?
            && !self.file.disk.exists(&self.file.path).map_err(failed(&self.file.path))?)
    }

    /// Forgets that it was written, durably: the next start begins it anew.
    pub fn give_up_in(&self, data: &Path) -> Result<(), JournalError> {
        let mark = self.mark_in(data);
        let failed = |cause| JournalError::io("remove", &mark, cause);
        // One that cannot be used may have come from elsewhere.
        if !self.file.disk.exists(&mark).map_err(failed)? {
            return Ok(());
        }
        self.file.disk.remove(&mark).and_then(|()| self.file.disk.sync_dir(&data.join(WITNESSED))).map_err(failed)
    }

    fn mark_in(&self, data: &Path) -> PathBuf {
        data.join(WITNESSED).join(&self.name)
    }

    /// Whether its file is there, in a folder that is what an operator meant.
    pub fn is_kept(&self) -> Result<bool, JournalError> {
        check_folder(&self.file.disk, self.file.folder())?;
        self.file.disk.exists(&self.file.path).map_err(|cause| JournalError::io("look for", &self.file.path, cause))
    }

    /// Replaces what it says, durably.
    pub fn write(&self, testimony: &Testimony) -> Result<(), JournalError> {
        // The disk may have been unmounted since the start.
        check_folder(&self.file.disk, self.file.folder())?;
        self.file.write(testimony)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FakeDisk;
    use crate::testimony::TESTIMONY_BYTES;
    use crate::{ChainHash, Cursor, Position, Retention, Sequence, Timeline};

    #[test]
    fn it_says_what_was_written_last_and_nothing_that_is_damaged() {
        let (disk, family) = (FakeDisk::new(1), Family { number: 1, name: "ledger", retention: Retention::Whole });
        let witness = Witness::new(disk.clone(), Path::new("far"), &family, family.log(7, 3));
        assert_eq!(witness.read().unwrap(), Reading::Nothing);
        let cursor = Cursor { position: Position(70), sequence: Sequence(4), chain: ChainHash([3; 32]) };
        let unmounted = witness.write(&Testimony { cursor, timeline: Timeline(ChainHash([5; 32])) }).unwrap_err();
        assert!(unmounted.to_string().contains("is its disk mounted?"), "{unmounted}");
        assert!(!disk.exists(Path::new("far")).unwrap(), "nothing is made there");
        disk.create_dir_all(Path::new("far")).unwrap();
        disk.create_new(&Path::new("far").join(FOLDER_MARK)).unwrap();
        disk.sync_dir(Path::new("far")).unwrap();
        for sequence in [4, 9] {
            let cursor = Cursor { position: Position(70), sequence: Sequence(sequence), chain: ChainHash([3; 32]) };
            let testimony = Testimony { cursor, timeline: Timeline(ChainHash([5; 32])) };
            witness.write(&testimony).unwrap();
            assert_eq!(witness.read().unwrap(), Reading::Testimony(testimony));
        }
        disk.crash();
        let written = witness.read().unwrap();
        assert!(matches!(written, Reading::Testimony(_)), "it is durable");
        for at in 0..TESTIMONY_BYTES as u64 {
            disk.flip_bit(witness.path(), at, 1);
            assert!(matches!(witness.read().unwrap(), Reading::Unusable(_)), "byte {at}");
            disk.flip_bit(witness.path(), at, 1);
        }
        let said = |witness: &Witness<FakeDisk>| match witness.read().unwrap() {
            Reading::Unusable(what) => what,
            usable => panic!("{usable:?}"),
        };
        let mut other = witness.clone();
        other.file.log = family.log(8, 3);
        assert!(said(&other).contains("it is of another log, "), "{}", said(&other));
        for len in [0, TESTIMONY_BYTES as u64 - 1, TESTIMONY_BYTES as u64 + 1] {
            disk.open(witness.path()).unwrap().set_len(len).unwrap();
            assert_eq!(said(&witness), format!("it has {len} bytes, expected 108"));
        }
    }

    #[test]
    fn a_new_directory_has_no_witnesses_beside_those_of_others() {
        let (disk, family) = (FakeDisk::new(1), Family { number: 1, name: "ledger", retention: Retention::Whole });
        let far = Path::new("far");
        let check = || check_folder_of_new(&disk, far, Path::new("data")).map_err(|refused| refused.to_string());
        assert!(check().unwrap_err().contains("is its disk mounted?"));
        disk.create_dir_all(far).unwrap();
        for other in [FOLDER_MARK, "notes", "ledger.witness.set-aside"] {
            disk.create_new(&far.join(other)).unwrap();
        }
        assert_eq!(check(), Ok(()));
        for (directory, shard) in [(7, 0), (7, 1), (9, 0)] {
            let witness = Witness::new(disk.clone(), far, &family, family.log(directory, shard));
            witness.write(&Testimony { cursor: Cursor::START, timeline: Timeline(ChainHash([5; 32])) }).unwrap();
        }
        let said = check().unwrap_err();
        let words = "data directory data: there is none, and far has witnesses of other data directories: 2, among \
                     them that with the id 0000000000000007. So no new one is made.";
        assert!(said.starts_with(words), "{said}");
    }

    #[test]
    fn one_that_was_written_once_and_is_not_there_is_gone_until_it_is_given_up() {
        let (disk, family) = (FakeDisk::new(1), Family { number: 1, name: "ledger", retention: Retention::Whole });
        let (data, far) = (Path::new("data"), Path::new("far"));
        let witness = |shard| Witness::new(disk.clone(), far, &family, family.log(7, shard));
        for folder in [data, far] {
            disk.create_dir_all(folder).unwrap();
        }
        disk.create_new(&far.join(FOLDER_MARK)).unwrap();
        disk.sync_dir(far).unwrap();
        assert!(!witness(0).is_gone(data).unwrap(), "it never was");
        let cursor = Cursor { position: Position(70), sequence: Sequence(4), chain: ChainHash([3; 32]) };
        witness(0).write(&Testimony { cursor, timeline: Timeline(ChainHash([5; 32])) }).unwrap();
        (0..2).for_each(|_| witness(0).note_in(data).unwrap());
        disk.crash();
        assert!(!witness(0).is_gone(data).unwrap(), "it is there");
        assert!(witness(0).is_kept().unwrap() && !witness(1).is_kept().unwrap());
        disk.remove(witness(0).path()).unwrap();
        assert!(witness(0).is_gone(data).unwrap() && !witness(1).is_gone(data).unwrap());
        witness(0).give_up_in(data).unwrap();
        disk.crash();
        assert!(!witness(0).is_gone(data).unwrap(), "it begins anew");
    }
}
