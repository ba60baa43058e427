use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::super::tests::{LEDGER, open, refusal, server};
use super::super::{Directory, Wanted};
use super::*;

fn wanted() -> Vec<Wanted> {
    server(1, 1).to_vec()
}

#[test]
fn a_directory_that_is_as_it_was_is_left_alone() {
    let data = tempfile::tempdir().unwrap();
    let directory = open(data.path(), &wanted()).unwrap();
    let guard = directory.guard().unwrap().expect("it is locked");
    let written = || fs::metadata(data.path()).unwrap().modified().unwrap();
    let before = written();
    assert_eq!(guard.look(), Look::default());
    assert_eq!(written(), before);
    drop((guard, directory));
    let looked_at = Directory::look_at(data.path(), &[LEDGER]).unwrap();
    assert!(looked_at.guard().unwrap().is_none(), "who only looks puts nothing back");
}

#[test]
fn a_key_that_is_lost_or_changed_is_put_back_as_it_was() {
    let data = tempfile::tempdir().unwrap();
    let directory = open(data.path(), &wanted()).unwrap();
    let guard = directory.guard().unwrap().unwrap();
    let key = data.path().join(KEY_FILE);
    let good = fs::read(&key).unwrap();
    let mut flipped = good.clone();
    flipped[7] ^= 1;
    for (bytes, word) in [(None, "missing"), (Some(&flipped[..]), "damaged"), (Some(&[7; 32]), "another key")] {
        match bytes {
            None => fs::remove_file(&key).unwrap(),
            Some(bytes) => fs::write(&key, bytes).unwrap(),
        }
        let Look { mended, fault } = guard.look();
        assert!(fault.is_none() && mended.len() == 1 && mended[0].contains(&format!("it was {word}")), "{mended:?}");
        assert_eq!(fs::read(&key).unwrap(), good);
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(guard.look(), Look::default());
    }
    // It cannot be put back over a folder.
    fs::remove_file(&key).unwrap();
    fs::create_dir(&key).unwrap();
    let fault = guard.look().fault.expect("it is lost");
    assert!(fault.0 == GuardFault::Unwritten && fault.1.contains("KEY"), "{fault:?}");
    fs::remove_dir(&key).unwrap();
    assert_eq!(guard.look().mended.len(), 1);
}

#[test]
fn without_its_files_a_directory_in_use_is_still_in_use() {
    let data = tempfile::tempdir().unwrap();
    let directory = open(data.path(), &wanted()).unwrap();
    let guard = directory.guard().unwrap().unwrap();
    let (lock, description) = (data.path().join(LOCK), data.path().join(DIRECTORY));
    let text = fs::read(&description).unwrap();
    let others_are_refused = || {
        let said = refusal(open(data.path(), &wanted()));
        assert!(said.contains("it is in use by"), "{said}");
        let said = refusal(Directory::open(data.path(), &[LEDGER]));
        assert!(said.contains("it is in use by"), "{said}");
        assert!(Directory::look_at(data.path(), &[LEDGER]).unwrap().is_in_use().unwrap());
    };
    others_are_refused();
    fs::remove_file(&lock).unwrap();
    others_are_refused();
    assert!(!lock.exists(), "who is refused makes nothing");
    assert_eq!(guard.look().mended.len(), 1);
    assert_eq!(fs::read_to_string(&lock).unwrap(), format!("{}\n", std::process::id()));
    // Replaced by a copy, changed in its place, and removed.
    fs::write(data.path().join("copy"), &text).unwrap();
    fs::rename(data.path().join("copy"), &description).unwrap();
    others_are_refused();
    assert_eq!(guard.look().mended.len(), 1);
    fs::write(&description, "something").unwrap();
    assert_eq!(guard.look().mended.len(), 1);
    assert_eq!(fs::read(&description).unwrap(), text);
    fs::remove_file(&description).unwrap();
    assert_eq!(guard.look().mended.len(), 1);
    // And with both gone in turn, the one that is there keeps others out.
    fs::remove_file(&lock).unwrap();
    others_are_refused();
    assert_eq!(guard.look().mended.len(), 1);
    assert_eq!(guard.look(), Look::default());
    drop((guard, directory));
    drop(open(data.path(), &wanted()).expect("nobody uses it"));
}

#[test]
fn a_lock_that_another_process_has_is_a_fault_until_it_ends() {
    let data = tempfile::tempdir().unwrap();
    let directory = open(data.path(), &wanted()).unwrap();
    let guard = directory.guard().unwrap().unwrap();
    fs::remove_file(data.path().join(LOCK)).unwrap();
    // What a server of a build does that knows LOCK only.
    let Ok(other) = lock_file(data.path()) else { panic!("it is a new file") };
    assert_eq!(guard.look().fault.expect("two have it").0, GuardFault::InUse);
    drop(other);
    let look = guard.look();
    assert!(look.fault.is_none() && look.mended.len() == 1, "{look:?}");
}

#[test]
fn a_directory_that_is_moved_away_is_told_and_what_stands_in_its_place_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let (data, moved) = (root.path().join("data"), root.path().join("moved"));
    let directory = open(&data, &wanted()).unwrap();
    let guard = directory.guard().unwrap().unwrap();
    fs::rename(&data, &moved).unwrap();
    assert_eq!(guard.look().fault.expect("it is gone").0, GuardFault::Away);
    fs::create_dir(&data).unwrap();
    assert_eq!(guard.look().fault.expect("it is another").0, GuardFault::Away);
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    fs::remove_dir(&data).unwrap();
    fs::rename(&moved, &data).unwrap();
    assert_eq!(guard.look(), Look::default());
}

#[test]
fn each_fault_begins_with_its_word() {
    for fault in GuardFault::ALL {
        let (word, rest) = fault.words().split_once(": ").expect("a word first");
        assert!(!word.contains(' ') && rest.len() > 40, "{fault:?}");
    }
}
