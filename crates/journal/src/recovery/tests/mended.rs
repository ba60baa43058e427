//! A byte that is provably wrong is put right by whoever serves the log, and by nobody else.

use std::sync::{Arc, Mutex};

use super::*;
use crate::{MendedByte, Mending};

/// The logs of a directory that is served, and what was told.
fn served(disk: &FakeDisk) -> (StepLogs<FakeDisk>, Arc<Mutex<Vec<MendedByte>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hear = told.clone();
    (logs(disk).mending(Mending::new(move |byte| hear.lock().unwrap().push(byte))), told)
}

fn open(logs: &StepLogs<FakeDisk>) -> Result<StepLog<FakeDisk>, JournalError> {
    logs.open(LOG, Cursor::START, SMALL).map(|opened| opened.log)
}

#[test]
fn a_flipped_bit_anywhere_in_the_newest_segment_is_put_right_by_a_start() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    (0..3).for_each(|_| commit(&mut log, 2));
    let end = offset_of(Cursor::START.position, durable_position(&mut log));
    log.close().unwrap();
    let sound = disk.contents(&first_segment()).unwrap();
    for offset in 4096..end {
        let disk = copy(&disk);
        assert!(disk.flip_bit(&first_segment(), offset, (offset % 8) as u8));
        let harmed = disk.contents(&first_segment()).unwrap();
        let (logs, told) = served(&disk);
        assert_eq!(logs.inspect(LOG, Cursor::START).unwrap().end.sequence, Sequence(6), "a start would find all");
        assert_eq!(disk.contents(&first_segment()).unwrap(), harmed, "whoever only looks changes nothing");
        assert!(told.lock().unwrap().is_empty());
        assert_eq!(read_all(open(&logs).unwrap()).unwrap(), 6, "flipped {offset}");
        let [byte] = &told.lock().unwrap()[..] else { panic!("one byte was told") };
        let (found, written) = (harmed[offset as usize], sound[offset as usize]);
        let segment = first_segment().display().to_string();
        let expected = MendedByte { log: LOG, segment, offset, found, written, is_durable: true };
        assert_eq!(*byte, expected);
        disk.crash();
        assert_eq!(disk.contents(&first_segment()).unwrap(), sound, "it is right on disk, and no other byte changed");
    }
}

#[test]
fn several_groups_with_a_wrong_byte_each_are_put_right_and_one_with_two_is_refused() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    let mut ends = vec![offset_of(Cursor::START.position, Cursor::START.position)];
    for _ in 0..4 {
        commit(&mut log, 2);
        ends.push(offset_of(Cursor::START.position, durable_position(&mut log)));
    }
    log.close().unwrap();
    let harm =
        |disk: &FakeDisk, places: &[u64]| assert!(places.iter().all(|at| disk.flip_bit(&first_segment(), *at, 2)));
    let each: Vec<u64> = ends[..4].iter().enumerate().map(|(nth, begins)| begins + 60 * nth as u64).collect();
    let all = copy(&disk);
    harm(&all, &each);
    let (logs, told) = served(&all);
    assert_eq!(read_all(open(&logs).unwrap()).unwrap(), 8);
    assert_eq!(told.lock().unwrap().iter().map(|byte| byte.offset).collect::<Vec<_>>(), each);

    // Both in a record; in the header and a record; in two records.
    for (places, at) in [([130, 131], 120), ([50, 150], 0), ([140, 220], 120)] {
        let two = copy(&disk);
        harm(&two, &places.map(|at| ends[1] + at));
        let harmed = two.contents(&first_segment()).unwrap();
        let (logs, told) = served(&two);
        for _ in 0..2 {
            let (_, found, _, lost) = damage_of(open(&logs));
            assert_eq!((found, lost.starts_with("records 3 to 4 ")), (ends[1] + at, true), "{lost}");
        }
        assert_eq!(two.contents(&first_segment()).unwrap(), harmed, "nothing is changed");
        assert!(told.lock().unwrap().is_empty());
    }
}

/// A group behind damage says by itself what is before it, and a sender may have written it so.
#[test]
fn behind_damage_nothing_is_put_right() {
    let (disk, segments) = long_log();
    let (path, begins) = (segment(segments[1]), offset_of(segments[1], segments[1]));
    let mut groups = reopen(&disk).unwrap().0;
    let (reader, end) = (groups.reader().unwrap(), groups.poll_durable().unwrap());
    let mut groups = reader.groups(reader.begins_at_or_before(segments[1]).unwrap(), &end).unwrap();
    groups.next_group().unwrap();
    let behind = groups.cursor().position;
    for at in [begins + 130, begins + 131, offset_of(segments[1], behind) + 130] {
        assert!(disk.flip_bit(&path, at, 2));
    }
    let harmed = disk.contents(&path).unwrap();
    let (logs, told) = served(&disk);
    let reader = open(&logs).unwrap().reader().unwrap();
    assert!(reader.examine(Position(behind.0 + GROUP_HEADER_BYTES as u64)).is_err());
    assert_eq!((disk.contents(&path).unwrap(), told.lock().unwrap().len()), (harmed, 0));
}

/// The mark of a sealed segment is gone, so that a start reads it, and a byte in it cannot be written.
#[test]
fn a_sealed_segment_that_cannot_be_put_right_keeps_no_log_from_being_opened() {
    let (disk, segments) = long_log();
    let path = segment(segments[1]);
    assert!(disk.flip_bit(&path, offset_of(segments[1], segments[1]) + 170, 5));
    disk.overwrite(&path, offset_of(segments[1], segments[2]), &[0; MARK_BYTES]).unwrap();
    let (logs, told) = served(&disk);
    disk.fail_next_sync();
    open(&logs).unwrap();
    assert_eq!(told.lock().unwrap().iter().map(|byte| byte.is_durable).collect::<Vec<_>>(), [false]);
}

#[test]
fn a_last_group_without_a_mark_is_put_right_and_not_cut() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    commit(&mut log, 3);
    let begins = offset_of(Cursor::START.position, durable_position(&mut log));
    commit(&mut log, 3);
    drop(log);
    let sound = disk.contents(&first_segment()).unwrap();
    assert!(disk.flip_bit(&first_segment(), begins + 150, 6));
    // Nothing shows that it was durable: without the proof that it was written, it looks torn.
    assert_eq!(logs(&disk).inspect(LOG, Cursor::START).unwrap().end.sequence, Sequence(3));
    let (logs, _) = served(&disk);
    assert_eq!(read_all(open(&logs).unwrap()).unwrap(), 6);
    let at = begins as usize..begins as usize + 200;
    assert_eq!(disk.contents(&first_segment()).unwrap()[at.clone()], sound[at]);
}

#[test]
fn a_sealed_segment_is_put_right_by_whoever_reads_it() {
    let (disk, segments) = long_log();
    let all = read_all(reopen(&copy(&disk)).unwrap().0).unwrap();
    let path = segment(segments[1]);
    let sound = disk.contents(&path).unwrap();
    let offset = offset_of(segments[1], segments[1]) + 170;
    // By the groups, and by looking around a record.
    for by_groups in [true, false] {
        let disk = copy(&disk);
        assert!(disk.flip_bit(&path, offset, 5));
        let (logs, told) = served(&disk);
        let log = open(&logs).unwrap();
        match by_groups {
            true => assert_eq!(read_all(log).unwrap(), all),
            false => {
                let at = Position(segments[1].0 + GROUP_HEADER_BYTES as u64);
                let reader = log.reader().unwrap();
                assert!(reader.read(at, &mut Vec::new()).is_err());
                reader.examine(at).unwrap();
                reader.read(at, &mut Vec::new()).unwrap();
            }
        }
        let told = told.lock().unwrap();
        let [byte] = &told[..] else { panic!("one byte was told: {told:?}") };
        assert_eq!((byte.offset, byte.is_durable), (offset, true));
        assert_eq!(disk.contents(&path).unwrap(), sound);
    }
}

#[test]
fn the_segment_that_is_written_is_read_right_and_left_to_the_next_start() {
    let (disk, segments) = long_log();
    let (logs, told) = served(&disk);
    let mut log = open(&logs).unwrap();
    commit(&mut log, 2);
    let newest = *segments.last().unwrap();
    let (path, offset) = (segment(newest), offset_of(newest, newest) + 170);
    let reader = log.reader().unwrap();
    let at = Position(newest.0 + GROUP_HEADER_BYTES as u64);
    let (mut written, mut record) = (Vec::new(), Vec::new());
    reader.read(at, &mut written).unwrap();
    assert!(disk.flip_bit(&path, offset, 5));
    let harmed = disk.contents(&path).unwrap();
    assert!(reader.read(at, &mut Vec::new()).is_err());
    for _ in 0..2 {
        reader.read_right(at, &mut record).expect("what it was is proven");
        assert_eq!(std::mem::take(&mut record), written);
    }
    assert!(matches!(reader.read_right(Position(at.0 + 1), &mut record), Err(JournalError::NoRecord { .. })));
    told.lock().unwrap().clear();
    let Err(JournalError::Damaged { lost, .. }) = reader.examine(at) else { panic!("its file is not right") };
    assert!(lost.contains("nothing: one byte is wrong") && lost.contains("the next start"), "{lost}");
    let mut groups = reader.groups(Cursor::START, &log.poll_durable().unwrap()).unwrap();
    while groups.next_group().unwrap().is_some() {}
    assert_eq!(told.lock().unwrap().iter().map(|byte| byte.is_durable).collect::<Vec<_>>(), [false; 2]);
    assert_eq!(disk.contents(&path).unwrap(), harmed);
    drop(log);
    open(&logs).unwrap();
    assert_eq!(told.lock().unwrap().iter().map(|byte| byte.is_durable).collect::<Vec<_>>(), [false, false, true]);
    assert_ne!(disk.contents(&path).unwrap(), harmed);
}

#[test]
fn a_byte_that_cannot_be_written_back_ends_a_start_with_words_and_no_reading() {
    let (disk, segments) = long_log();
    let path = segment(segments[1]);
    assert!(disk.flip_bit(&path, offset_of(segments[1], segments[1]) + 170, 5));
    let (logs, told) = served(&disk);
    let log = open(&logs).unwrap();
    disk.fail_next_sync();
    read_all(log).unwrap();
    assert!(!told.lock().unwrap()[0].is_durable);

    let newest = *segments.last().unwrap();
    assert!(disk.flip_bit(&segment(newest), offset_of(newest, newest) + 170, 5));
    disk.fail_next_sync();
    let refused = open(&logs).err().expect("it cannot be opened").to_string();
    let byte = told.lock().unwrap().last().cloned().expect("it is told that the byte is wrong");
    let words =
        format!("the byte at offset {} is {:#04x} and was written as {:#04x}", byte.offset, byte.found, byte.written);
    assert!(!byte.is_durable && refused.contains(&words) && refused.contains("Nothing is lost"), "{refused}");
    drop(open(&logs).unwrap());

    // Whoever needs a record of a sealed segment that cannot be written is told what is lost of it: nothing.
    assert!(disk.flip_bit(&path, offset_of(segments[1], segments[1]) + 170, 5));
    disk.fail_next_sync();
    let at = Position(segments[1].0 + GROUP_HEADER_BYTES as u64);
    let Err(JournalError::Damaged { lost, .. }) = logs.reader(LOG).unwrap().examine(at) else { panic!("not durable") };
    assert!(lost.starts_with("nothing: ") && lost.contains("It cannot be put right there"), "{lost}");
}
