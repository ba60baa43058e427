mod damage;
mod mended;
mod notices;
mod segments;

use std::path::{Path, PathBuf};

use super::*;
use crate::archive::Archive;
use crate::disk::{FakeDisk, RealDisk};
use crate::group::{self, GROUP_HEADER_BYTES, Seal};
use crate::segment::segment_name;
use crate::step::{Step, StepLogs};
use crate::{Family, LogReader, LogStore, Logs, Lost, NoticeKind, Opened, Retention, Sequence, StepLog};

const FAMILY: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };
const LOG: LogId = FAMILY.log(99, 1);
const SMALL: Options = Options { allocation_step_bytes: 8 * 1024, ..Options::small(16 * 1024) };

fn data() -> &'static Path {
    Path::new("data")
}

fn segment(first: Position) -> PathBuf {
    data().join("journal/ledger-1").join(segment_name(first))
}

fn first_segment() -> PathBuf {
    segment(Cursor::START.position)
}

fn reopen(disk: &FakeDisk) -> Result<(StepLog<FakeDisk>, RecoveryReport), JournalError> {
    let Opened { log, report } = logs(disk).open(LOG, Cursor::START, SMALL)?;
    Ok((log, report))
}

fn logs(disk: &FakeDisk) -> StepLogs<FakeDisk> {
    StepLogs::new(disk.clone(), data(), &[FAMILY])
}

fn folder(disk: &FakeDisk) -> Folder<FakeDisk> {
    Folder::new(disk.clone(), data(), &FAMILY, LOG)
}

/// Where the durable part of the log ends.
fn durable_position<D: Disk>(log: &mut StepLog<D>) -> Position {
    log.poll_durable().unwrap().position()
}

/// Submits one group of `records` records, each saying its number, and steps until it is written.
fn write<D: Disk>(log: &mut StepLog<D>, records: usize) {
    while log.ready().is_err() {
        log.step().unwrap();
        log.poll_durable().unwrap();
    }
    let mut group = log.begin_group();
    for _ in 0..records {
        let sequence = group.last_sequence().0 + 1;
        group.append(|buffer| buffer.extend_from_slice(format!("record {sequence} {}", "-".repeat(40)).as_bytes()));
    }
    log.submit(group).unwrap();
    while log.step().unwrap() != Step::Wrote {}
}

fn commit<D: Disk>(log: &mut StepLog<D>, records: usize) {
    write(log, records);
    assert_eq!(log.step().unwrap(), Step::Synced);
    assert_eq!(log.poll_durable().unwrap().sequence(), log.last_sequence());
}

/// Sequences of all records that can be read, after checking what each says.
fn read_all<D: Disk>(mut log: StepLog<D>) -> Result<u64, JournalError> {
    let reader = log.reader()?;
    let mut groups = reader.groups(Cursor::START, &log.poll_durable()?)?;
    let mut last = 0;
    while let Some(group) = groups.next_group()? {
        for (sequence, at, payload) in group.records() {
            last += 1;
            assert_eq!(sequence, Sequence(last));
            assert!(payload.starts_with(format!("record {last} ").as_bytes()));
            let mut single = Vec::new();
            reader.read(at, &mut single)?;
            assert_eq!(single, payload);
        }
    }
    Ok(last)
}

/// A copy of a disk's segments, so that one log can be harmed in many ways.
fn copy(disk: &FakeDisk) -> FakeDisk {
    let copy = FakeDisk::new(0);
    let folder = folder(disk).path;
    copy.create_dir_all(&folder).unwrap();
    for (path, _) in disk.files() {
        copy.create_new(&path).unwrap();
        copy.overwrite(&path, 0, &disk.contents(&path).unwrap()).unwrap();
    }
    copy.sync_dir(&folder).unwrap();
    copy
}

fn damage_of(result: Result<impl Sized, JournalError>) -> (String, u64, String, String) {
    match result.err() {
        Some(JournalError::Damaged { segment, offset, what, lost }) => (segment, offset, what, lost),
        other => panic!("expected damage, got {other:?}"),
    }
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_and_the_log_goes_on() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    (0..3).for_each(|_| commit(&mut log, 5));
    let durable = durable_position(&mut log);
    write(&mut log, 4);
    let (start, image) =
        (offset_of(Cursor::START.position, durable) as usize, disk.contents(&first_segment()).unwrap());
    let len = image[start..].iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for kept in 0..=len {
        let disk = copy(&disk);
        disk.overwrite(&first_segment(), (start + kept) as u64, &vec![0; len - kept]).unwrap();
        let (mut log, report) = reopen(&disk).unwrap();
        if kept == len {
            assert_eq!((report.end.sequence, report.bytes_cut), (Sequence(19), 0));
        } else {
            let nonzero = image[start..start + kept].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            assert_eq!((report.end.sequence, report.bytes_cut), (Sequence(15), nonzero as u64), "kept {kept}");
            assert_eq!(report.end.position, durable);
        }
        commit(&mut log, 1);
        drop(log);
        let (log, again) = reopen(&disk).unwrap();
        assert_eq!((again.end.sequence.0, again.bytes_cut), (report.end.sequence.0 + 1, 0));
        assert_eq!(read_all(log).unwrap(), again.end.sequence.0);
    }
}

#[test]
fn a_whole_group_behind_a_torn_one_of_the_same_batch_is_cut_with_it_and_never_comes_back() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    commit(&mut log, 5);
    let durable = durable_position(&mut log);
    for records in [3, 4] {
        let mut group = log.begin_group();
        for _ in 0..records {
            group.append(|buffer| buffer.extend_from_slice(&[7; 60]));
        }
        log.submit(group).unwrap();
    }
    while log.step().unwrap() != Step::Wrote {}
    // The first of the two loses a sector's worth in its middle.
    let torn = offset_of(Cursor::START.position, durable) + 150;
    disk.overwrite(&first_segment(), torn, &[0; 30]).unwrap();
    let (mut log, report) = reopen(&disk).unwrap();
    assert_eq!(report.end.sequence, Sequence(5));
    assert_eq!(report.bytes_cut, 2 * 120 + 7 * 68);
    // A group of the same size as the lost one must not find the old second one behind it.
    commit(&mut log, 3);
    drop(log);
    assert_eq!(reopen(&disk).unwrap().1.end.sequence, Sequence(8));
}

/// Many segments, closed gracefully; the positions at which they begin.
fn long_log() -> (FakeDisk, Vec<Position>) {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    (0..40).for_each(|_| commit(&mut log, 20));
    log.close().unwrap();
    let segments = folder(&disk).list_segments().unwrap();
    assert!(segments.len() >= 4, "{segments:?}");
    (disk, segments)
}

#[test]
fn files_of_another_log_or_version_are_refused() {
    let (disk, segments) = long_log();
    let other = LogId { directory: 98, ..LOG };
    let refused = logs(&disk).open(other, Cursor::START, SMALL).err().unwrap().to_string();
    assert!(refused.contains("it belongs to log 1/1 of data directory 0000000000000063"), "{refused}");
    assert!(refused.contains("not to log 1/1 of data directory 0000000000000062"), "{refused}");
    // The folder is the same, the family's number is not.
    let renumbered = Family { number: 4, ..FAMILY };
    let logs_of_another = StepLogs::new(disk.clone(), data(), &[renumbered]);
    let refused = logs_of_another.open(renumbered.log(99, 1), Cursor::START, SMALL).err().unwrap().to_string();
    assert!(refused.contains("it belongs to log 1/1 of data directory 0000000000000063, not to log 4/1"), "{refused}");

    let mut page = disk.contents(&segment(segments[0])).unwrap()[..76].to_vec();
    page[8..10].copy_from_slice(&[1, 0]);
    let repaired = group::checksum(&page[..72]);
    page[72..].copy_from_slice(&repaired.to_le_bytes());
    disk.overwrite(&segment(segments[0]), 0, &page).unwrap();
    let refused = reopen(&disk).err().unwrap().to_string();
    assert!(refused.contains("format version 1 is unknown: this program knows version 2"), "{refused}");
    assert!(refused.ends_with("and begin a new one with this program"), "{refused}");
}

#[test]
fn inspecting_changes_nothing_and_foretells_what_opening_does() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    commit(&mut log, 3);
    write(&mut log, 2);
    let tail = offset_of(Cursor::START.position, durable_position(&mut log));
    disk.overwrite(&first_segment(), tail + 10, &[0; 20]).unwrap();
    drop(log);
    let before = disk.contents(&first_segment()).unwrap();
    let report = logs(&disk).inspect(LOG, Cursor::START).unwrap();
    assert_eq!((report.end.sequence, report.bytes_cut), (Sequence(3), 120 + 2 * 57));
    assert_eq!(disk.contents(&first_segment()).unwrap(), before);
    assert_eq!(reopen(&disk).unwrap().1, report);
}

#[test]
fn a_cursor_from_elsewhere_is_refused() {
    let (disk, _) = long_log();
    let reader = logs(&disk).reader(LOG).unwrap();
    let found = logs(&disk).inspect(LOG, Cursor::START).unwrap();
    let (end, durable) = (found.end, found.durability());
    let mut groups = reader.groups(Cursor::START, &durable).unwrap();
    groups.next_group().unwrap().unwrap();
    let middle = groups.cursor();
    let refused = |cursor: Cursor| {
        let result = reader.groups(cursor, &durable).and_then(|mut groups| groups.next_group().map(|_| ()));
        matches!(result, Err(JournalError::BadCursor { .. }))
    };
    assert!(!refused(middle) && !refused(end));
    assert!(refused(Cursor { sequence: Sequence(7), ..middle }));
    assert!(refused(Cursor { chain: Cursor::START.chain, ..middle }));
    assert!(refused(Cursor { position: Position(end.position.0 + 1), ..end }));
    let (mut log, _) = reopen(&disk).unwrap();
    let durable = log.poll_durable().unwrap();
    let reader = log.reader().unwrap();
    let at_end = |cursor| matches!(reader.groups(cursor, &durable), Err(JournalError::BadCursor { .. }));
    assert!(!at_end(end));
    assert!(at_end(Cursor { sequence: Sequence(1), ..end }));
    assert!(at_end(Cursor { chain: Cursor::START.chain, ..end }), "an opened log knows its own chain");
}

/// What is taken for marked is never marked again: damage behind it would pass for a torn write for ever.
#[test]
fn a_log_is_marked_when_it_is_opened_unless_the_disk_has_no_room_for_the_mark() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    commit(&mut log, 5);
    let end = durable_position(&mut log);
    drop(log);
    let (writer, _) = open(folder(&disk), SMALL, Cursor::START).unwrap();
    assert!(writer.is_marked());
    assert_eq!(writer.proven_up_to(), end);
    drop(writer);

    let end_offset = offset_of(Cursor::START.position, end);
    disk.open(&first_segment()).unwrap().set_len(end_offset).unwrap();
    disk.set_capacity(end_offset / 2);
    let (writer, report) = open(folder(&disk), SMALL, Cursor::START).unwrap();
    assert_eq!(report.end.position, end);
    assert!(!writer.is_marked() && writer.proven_up_to() < end);
    assert!(disk.contents(&first_segment()).unwrap()[end_offset as usize..].iter().all(|byte| *byte == 0));
}

/// A block of the first group of a batch was not written, those of the second were: the mark is still there.
#[test]
fn what_a_torn_write_left_behind_a_mark_is_cut_and_the_file_keeps_its_size() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    commit(&mut log, 5);
    let end = offset_of(Cursor::START.position, durable_position(&mut log)) as usize;
    log.close().unwrap();
    let marked = disk.contents(&first_segment()).unwrap();
    let (mut log, report) = reopen(&disk).unwrap();
    assert_eq!((report.groups_verified, report.bytes_cut), (1, 0));
    for records in [3, 4] {
        let mut group = log.begin_group();
        (0..records).for_each(|_| _ = group.append(|buffer| buffer.extend_from_slice(&[7; 60])));
        log.submit(group).unwrap();
    }
    while log.step().unwrap() != Step::Wrote {}
    drop(log);
    disk.overwrite(&first_segment(), end as u64, &marked[end..end + GROUP_HEADER_BYTES + 40]).unwrap();
    let torn = disk.contents(&first_segment()).unwrap();
    assert!(torn[end + MARK_BYTES..].iter().any(|byte| *byte != 0));

    let (mut log, report) = reopen(&disk).unwrap();
    assert_eq!((report.end.sequence, report.groups_verified), (Sequence(5), 1));
    assert_eq!(report.bytes_cut, (2 * 120 + 7 * 68 - MARK_BYTES) as u64);
    let repaired = disk.contents(&first_segment()).unwrap();
    assert_eq!((repaired.len(), &repaired[..end + MARK_BYTES]), (torn.len(), &marked[..end + MARK_BYTES]));
    assert!(repaired[end + MARK_BYTES..].iter().all(|byte| *byte == 0), "nothing is left that a group could meet");
    commit(&mut log, 3);
    drop(log);
    let (log, report) = reopen(&disk).unwrap();
    assert_eq!((report.end.sequence, report.groups_verified, report.bytes_cut), (Sequence(8), 2, 0));
    drop(log);
}

#[test]
fn a_disk_that_claims_no_room_for_another_reason_than_a_full_one_is_told() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    commit(&mut log, 5);
    log.close().unwrap();
    let found = Inspection::of(&folder(&disk), Cursor::START).unwrap();
    assert!(found.marked, "there is nothing to write but to claim room");
    let wanted = disk.used_bytes();
    disk.set_capacity(wanted);
    assert!(repair(&folder(&disk), &found).is_ok(), "on a full disk the log goes on with the room that it has");
    disk.crash_after_ops(0);
    let refused = repair(&folder(&disk), &found).map(|active| active.allocated);
    assert!(matches!(refused, Err(JournalError::Io { .. })), "{refused:?}");
}
