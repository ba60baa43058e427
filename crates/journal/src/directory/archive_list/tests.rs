use std::fs;

use super::*;
use crate::Position;
use crate::archive::tests::segment;

fn list(numbers: impl IntoIterator<Item = u64>) -> Archive {
    Archive { segments: numbers.into_iter().map(segment).collect() }
}

fn read(data: &Path) -> Archive {
    Archive::read(&RealDisk, data).unwrap()
}

#[test]
fn a_list_that_is_damaged_removed_or_emptied_is_put_back() {
    let data = tempfile::tempdir().unwrap();
    let (data, path) = (data.path(), data.path().join(ARCHIVE_FILE));
    list(0..2).write(data).unwrap();
    let mut kept = ArchiveList::of(data);
    assert_eq!(kept.look(data).unwrap(), None);
    // What is moved meanwhile is kept as well.
    list(0..3).write(data).unwrap();
    assert_eq!(kept.look(data).unwrap(), None);
    let mut flipped = fs::read(&path).unwrap();
    flipped[60] ^= 1;
    let cases = [(Some(&flipped[..]), "damaged"), (Some(&[][..]), "damaged"), (None, "missing")];
    for (bytes, word) in cases {
        match bytes {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let mended = kept.look(data).unwrap().expect("it says so");
        assert!(mended.contains(&format!("it was {word}")), "{mended}");
        assert_eq!((read(data), kept.look(data).unwrap()), (list(0..3), None));
    }
    // An older one lacks what was moved since; what it lists otherwise stays.
    list([0, 1, 7]).write(data).unwrap();
    let mended = kept.look(data).unwrap().expect("it says so");
    assert!(mended.contains("without segments that it had listed"), "{mended}");
    assert_eq!(read(data), list([0, 1, 2, 7]));
}

#[test]
fn a_segment_that_is_in_the_directory_again_need_not_be_listed() {
    let data = tempfile::tempdir().unwrap();
    let (data, folder) = (data.path(), data.path().join("journal/ledger-0"));
    list(0..2).write(data).unwrap();
    let mut kept = ArchiveList::of(data);
    fs::create_dir_all(&folder).unwrap();
    (0..2).for_each(|number| fs::write(folder.join(segment_name(Position(number * 100))), "").unwrap());
    fs::remove_file(data.join(ARCHIVE_FILE)).unwrap();
    assert_eq!(kept.look(data).unwrap(), None);
    assert!(!data.join(ARCHIVE_FILE).exists());
}

#[test]
fn what_nobody_knows_is_a_fault_and_nobody_is_disturbed_who_changes_the_list() {
    let data = tempfile::tempdir().unwrap();
    let (data, path) = (data.path(), data.path().join(ARCHIVE_FILE));
    fs::write(&path, "no list").unwrap();
    let mut kept = ArchiveList::of(data);
    let fault = kept.look(data).unwrap_err().to_string();
    assert!(fault.contains("ARCHIVE") && fault.contains("remove it, and copy each"), "{fault}");
    assert_eq!(fs::read(&path).unwrap(), b"no list", "it may be of use to somebody");

    list(0..2).write(data).unwrap();
    assert_eq!(kept.look(data).unwrap(), None);
    fs::remove_file(&path).unwrap();
    let locked = lock_list(data).unwrap().expect("nobody has it");
    assert!(kept.look(data).unwrap_err().to_string().contains("somebody archives now"));
    assert!(!path.exists());
    drop(locked);
    assert!(kept.look(data).unwrap().is_some() && read(data) == list(0..2));
}
