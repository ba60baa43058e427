use tidegate_disk::FakeDisk;
use tidegate_journal::ChainHash;

use super::format::WRITE_BYTES;
use super::*;
use crate::notes::{NOTES, Notes, NotesFamily, snapshots};

fn stand(number: u64) -> Stand {
    let (position, sequence) = (Position(number * 100), Sequence(number));
    Stand { cursor: Cursor { position, sequence, chain: ChainHash([number as u8; 32]) }, ..Stand::default() }
}

fn write(disk: &FakeDisk, number: u64, stands: impl Fn(Cursor) -> Result<bool, JournalError>) -> Written {
    snapshots(disk).write(&stand(number), &Notes(vec![number as u8]), stands).unwrap()
}

fn sequences(places: &[Cursor]) -> Vec<u64> {
    places.iter().map(|place| place.sequence.0).collect()
}

#[test]
fn a_state_larger_than_one_write_is_read_as_it_was_written() {
    let disk = FakeDisk::new(1);
    for bytes in [0, 1, WRITE_BYTES - 1, WRITE_BYTES, 2 * WRITE_BYTES + 5] {
        let state = Notes((0..bytes).map(|at| at as u8).collect());
        snapshots(&disk).write(&stand(1), &state, |_| Ok(true)).unwrap();
        let (at, read) = snapshots(&disk).newest_first().unwrap().next().unwrap().unwrap();
        assert!(at == stand(1) && read == state, "{bytes} bytes");
    }
}

#[test]
fn one_that_finds_no_room_says_how_much_it_takes_and_leaves_nothing() {
    let disk = FakeDisk::new(1);
    write(&disk, 1, |_| Ok(true));
    let before = disk.files();
    disk.set_capacity(1 << 20);
    let state = Notes(vec![7; (3 << 20) + 1]);
    let failed = snapshots(&disk).write(&stand(2), &state, |_| Ok(true)).unwrap_err().to_string();
    assert!(failed.ends_with(": it takes 4 MiB"), "{failed}");
    assert_eq!(disk.files().len(), before.len());
}

#[test]
fn only_good_ones_that_stand_on_the_log_count_as_kept() {
    let disk = FakeDisk::new(1);
    for number in 1..=3 {
        write(&disk, number, |_| Ok(true));
    }
    assert_eq!(sequences(&write(&disk, 4, |_| Ok(true)).kept), [4, 3]);
    // The third is of another history, so that the second would be wanted; it is gone.
    let written = write(&disk, 5, |place| Ok(place.sequence.0 != 4));
    assert_eq!((sequences(&written.kept), written.misplaced.len()), (vec![5, 3], 1));
    // One with a higher number than the new one is out of place, wherever it stands.
    let written = write(&disk, 2, |_| Ok(true));
    assert_eq!((sequences(&written.kept), written.misplaced.len()), (vec![2], 2));
    assert!(written.misplaced.iter().all(|why| why.contains("set aside")), "{written:?}");
}

#[test]
fn one_whose_place_cannot_be_read_is_neither_counted_nor_touched() {
    let disk = FakeDisk::new(1);
    (1..=3).for_each(|number| _ = write(&disk, number, |_| Ok(true)));
    let unread = |place: Cursor| match place.sequence.0 {
        3 => Err(JournalError::Io { doing: "open", path: "segment".into(), cause: "too many open files".into() }),
        _ => Ok(true),
    };
    let written = write(&disk, 4, unread);
    assert_eq!((sequences(&written.kept), written.unread.len()), (vec![4, 2], 1), "{written:?}");
    assert!(written.unread[0].contains("snapshot at sequence 3 is left as it is"), "{written:?}");
    assert_eq!((written.set_aside, written.misplaced), (vec![], vec![]));
    // It can be read again, and is as good as it was.
    assert_eq!(sequences(&write(&disk, 5, |_| Ok(true)).kept), [5, 4]);
    assert_eq!(snapshots(&disk).newest_first().unwrap().filter(Result::is_ok).count(), 2);
}

#[test]
fn one_of_a_timeline_that_the_log_has_left_is_no_alarm() {
    let disk = FakeDisk::new(1);
    write(&disk, 3, |_| Ok(true));
    let mut now = stand(2);
    now.timelines.begin(&now.cursor);
    let written = snapshots(&disk).write(&now, &Notes(vec![2]), |_| Ok(false)).unwrap();
    assert_eq!((written.set_aside.len(), written.misplaced.len()), (1, 0), "{written:?}");
}

#[test]
fn who_has_the_key_goes_on_with_it_and_nobody_makes_another_one() {
    let disk = FakeDisk::new(1);
    write(&disk, 1, |_| Ok(true));
    let (data, file) = (Path::new("data"), Path::new("data").join(KEY_FILE));
    let key = Key::read(&disk, data).unwrap().expect("it was made");
    let with_key = snapshots(&disk).with_key(Some(&key));
    disk.rename(&file, Path::new("elsewhere")).unwrap();
    let written = with_key.write(&stand(2), &Notes(vec![2]), |_| Ok(true)).unwrap();
    assert_eq!((sequences(&written.kept), written.set_aside), (vec![2, 1], vec![]));
    assert!(!disk.exists(&file).unwrap(), "no other one is made");
    let refused = snapshots(&disk).write(&stand(3), &Notes(vec![3]), |_| Ok(true)).unwrap_err().to_string();
    assert!(refused.contains("no file KEY") && !disk.exists(&file).unwrap(), "{refused}");
    disk.rename(Path::new("elsewhere"), &file).unwrap();
    let read: Vec<_> = snapshots(&disk).newest_first().unwrap().map(|read| read.unwrap().0).collect();
    assert_eq!(read, [stand(2), stand(1)], "they are of the directory's key");
}

#[test]
fn the_newest_header_is_of_the_newest_that_is_not_ahead() {
    let disk = FakeDisk::new(1);
    assert_eq!(snapshots(&disk).newest_header(Position(1_000)).unwrap(), None);
    write(&disk, 3, |_| Ok(true));
    write(&disk, 5, |_| Ok(true));
    for (end, newest) in [(299, None), (300, Some(3)), (499, Some(3)), (500, Some(5)), (501, Some(5))] {
        let header = snapshots(&disk).newest_header(Position(end)).unwrap();
        assert_eq!(header.map(|header| header.cursor.sequence.0), newest, "{end}");
        assert!(header.is_none_or(|header| header.timeline == Timeline::FIRST && header.bytes > 100));
    }
    assert_eq!(snapshots(&disk).newest_place(), Some(Position(500)));
}

/// All logs of a data directory have one key, so that the hash alone does not tell them apart.
#[test]
fn a_snapshot_of_another_log_is_none_of_this_one() {
    let disk = FakeDisk::new(1);
    let other = Snapshots::<NotesFamily, _>::new(disk.clone(), Path::new("data"), NOTES.log(7, 1));
    let path = other.write(&stand(9), &Notes(vec![9]), |_| Ok(true)).unwrap().path;
    write(&disk, 1, |_| Ok(true));
    let copy = disk.create_new(&snapshots(&disk).folder().join(path.file_name().unwrap())).unwrap();
    copy.write_all_at(&disk.contents(&path).unwrap(), 0).unwrap();
    let of_this_log = snapshots(&disk);
    let mut found = of_this_log.newest_first().unwrap();
    assert!(matches!(found.next(), Some(Err(SnapshotError::Damaged { .. }))));
    assert_eq!(found.next().unwrap().unwrap(), (stand(1), Notes(vec![1])));
    assert_eq!(snapshots(&disk).newest_place(), Some(Position(100)));
    assert!(snapshots(&disk).claims_behind(Position(1)).iter().all(|claim| claim.sequence == Some(Sequence(1))));
}

#[test]
fn a_snapshot_under_the_name_of_another_is_none() {
    let disk = FakeDisk::new(1);
    for number in 1..=3 {
        write(&disk, number, |_| Ok(true));
    }
    let folder = snapshots(&disk).folder().to_path_buf();
    disk.remove(&folder.join(file_name(Sequence(3)))).unwrap();
    disk.rename(&folder.join(file_name(Sequence(2))), &folder.join(file_name(Sequence(3)))).unwrap();
    let Some(Err(why)) = snapshots(&disk).newest_first().unwrap().next() else { panic!("its name says another place") };
    assert!(why.to_string().contains(&file_name(Sequence(2))), "{why}");
    // It is set aside when the next one is written.
    let written = write(&disk, 4, |_| Ok(true));
    assert_eq!((sequences(&written.kept), written.set_aside.len()), (vec![4], 1), "{written:?}");
}
