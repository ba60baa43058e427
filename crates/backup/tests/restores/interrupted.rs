//! Restores that do not come to their end, and those that come after them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tidegate_backup::{At, Moment, Reread, restore};
use tidegate_journal::directory::{Directory, LockedFile, UNFINISHED_RESTORE};
use tidegate_journal::{Cursor, LogStore};
use tidegate_shard::ShardFamily;

use crate::notes::{KNOWN, Whole, note, open, restored, served, taken, wanted, write_groups};

/// A backup of two logs.
fn backups(root: &Path) -> PathBuf {
    let (data, backups) = (root.join("data"), root.join("backups"));
    let directory = Directory::open_or_create(&data, &wanted(), 1).expect("it is made");
    for id in directory.logs(Whole::FAMILY) {
        let mut log = open(&data, id, Cursor::START);
        write_groups(&mut log, &(0..100).map(|number| note(number, 1_000)).collect::<Vec<_>>(), 10);
        log.close().expect("it ends in order");
    }
    taken(&data, &backups, Reread::Open, 5_000);
    backups
}

fn refused(backups: &Path, copy: &Path) -> String {
    let restored = restore(backups, copy, None, &At::End, &KNOWN, Moment(9_000_000), &mut |_, _| {});
    restored.expect_err("it is refused").to_string()
}

fn is_served(copy: &Path) {
    let directory = Directory::open_or_create(copy, &wanted(), 1).expect("it is a data directory");
    let ids: Vec<_> = directory.logs(Whole::FAMILY).collect();
    drop(directory);
    for id in ids {
        assert_eq!(served::<Whole>(copy, id), (0..100).collect::<Vec<_>>());
    }
}

fn names(folder: &Path) -> Vec<String> {
    let listed = fs::read_dir(folder).expect("it is there").flatten();
    listed.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_restore_that_fails_leaves_what_was_there_before_it() {
    let root = tempfile::tempdir().expect("a folder");
    let (backups, copy) = (backups(root.path()), root.path().join("copy"));
    // Of the second log: the first one is copied before that is read. Only the hash shows a bit of a header.
    let segment = backups.join("journal/whole-1/segment-00000000000000000000.tgj");
    let good = fs::read(&segment).expect("it is there");
    let mut bad = good.clone();
    bad[9] ^= 1;
    fs::write(&segment, bad).expect("it is written");
    let said = refused(&backups, &copy);
    assert!(said.contains("are not what was copied") && !copy.exists(), "{said}");
    fs::create_dir(&copy).expect("it is made");
    let said = refused(&backups, &copy);
    assert!(said.contains("are not what was copied"), "{said}");
    assert_eq!(names(&copy), Vec::<String>::new());
    fs::write(&segment, good).expect("it is written");
    assert!(!restored(&backups, &copy, &At::End).has_replaced);
    is_served(&copy);
}

#[test]
fn a_restore_takes_the_place_of_one_that_was_killed_and_of_nothing_else() {
    let root = tempfile::tempdir().expect("a folder");
    let (backups, copy) = (backups(root.path()), root.path().join("copy"));
    let mark = copy.join(UNFINISHED_RESTORE);
    // What is there shortly before the end, with a log too many.
    restored(&backups, &copy, &At::End);
    fs::rename(copy.join("DIRECTORY"), copy.join("DIRECTORY.restored")).expect("it is there");
    fs::create_dir(copy.join("journal/whole-7")).expect("it is made");
    fs::write(&mark, "tidegate restore began").expect("it is written");
    let said = Directory::open_or_create(&copy, &wanted(), 1).expect_err("it is unfinished").to_string();
    assert!(said.contains("did not come to its end") && said.contains("takes the place of what is there"), "{said}");

    // One that runs has it locked.
    let lock = LockedFile::alone(File::options().write(true).open(&mark).expect("it is there"));
    let lock = lock.expect("it can be locked").expect("nobody has it");
    let said = refused(&backups, &copy);
    assert!(said.contains("another restore is filling it now") && copy.join("KEY").exists(), "{said}");
    drop(lock);

    // What no restore makes is not removed.
    let other = copy.join("notes.txt");
    fs::write(&other, "mine").expect("it is written");
    let said = refused(&backups, &copy);
    assert!(said.contains("notes.txt is not of a restore") && copy.join("KEY").exists() && other.exists(), "{said}");
    fs::remove_file(&other).expect("it is there");

    assert!(restored(&backups, &copy, &At::End).has_replaced);
    assert!(!copy.join("journal/whole-7").exists() && !mark.exists());
    is_served(&copy);
    // It is a data directory now, also with the mark of a restore that was killed behind its end.
    fs::write(&mark, "tidegate restore began").expect("it is written");
    let said = refused(&backups, &copy);
    assert!(said.contains("it is not empty. A restore writes over nothing"), "{said}");
    is_served(&copy);
}
