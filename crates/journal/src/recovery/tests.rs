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

#[test]
fn a_flipped_bit_anywhere_in_a_marked_log_is_damage_and_never_served() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    (0..3).for_each(|_| commit(&mut log, 2));
    let end = offset_of(Cursor::START.position, durable_position(&mut log));
    log.close().unwrap();
    for offset in (0..76).chain(4096..end + MARK_BYTES as u64) {
        let disk = copy(&disk);
        assert!(disk.flip_bit(&first_segment(), offset, (offset % 8) as u8));
        let before = disk.contents(&first_segment()).unwrap();
        let opened = reopen(&disk);
        if offset >= end {
            // Only the mark is bad: nothing of the log is.
            assert_eq!(read_all(opened.unwrap().0).unwrap(), 6);
        } else {
            let (segment, at, _, lost) = damage_of(opened);
            assert_eq!(segment, first_segment().display().to_string());
            assert!(at <= offset && offset < at + 200, "flipped {offset}, reported {at}");
            assert!(offset < 4096 || lost.starts_with("records "), "{lost}");
            assert_eq!(disk.contents(&first_segment()).unwrap(), before, "nothing is cut");
        }
    }
}

#[test]
fn damage_before_a_later_group_is_told_from_a_torn_tail_without_any_mark() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    commit(&mut log, 2);
    let second = durable_position(&mut log);
    commit(&mut log, 3);
    assert_eq!(log.proven_up_to(), second);
    let third = durable_position(&mut log);
    commit(&mut log, 4);
    assert_eq!(log.proven_up_to(), third);
    drop(log);
    let harmed = copy(&disk);
    harmed.flip_bit(&first_segment(), offset_of(Cursor::START.position, second) + 250, 0);
    let (_, offset, what, lost) = damage_of(reopen(&harmed));
    assert_eq!(offset, offset_of(Cursor::START.position, second) + 120 + 2 * 57, "{what}");
    assert_eq!(lost, format!("records 3 to 5 (positions {second} to {third})"));
    // What nothing later vouches for looks like a torn tail: the window that the format document admits.
    disk.flip_bit(&first_segment(), offset_of(Cursor::START.position, third) + 300, 0);
    assert_eq!(reopen(&disk).unwrap().1.end.sequence, Sequence(5));
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
fn a_flipped_bit_in_a_sealed_segment_is_named_with_segment_and_offset() {
    let (disk, segments) = long_log();
    let offset = SEGMENT_HEADER + GROUP_HEADER_BYTES as u64 + 8 + 3;
    disk.flip_bit(&segment(segments[1]), offset, 5);
    let (log, _) = reopen(&disk).unwrap();
    let reader = log.reader().unwrap();
    let (named, at, what, lost) = damage_of(read_all(log));
    assert!(named.ends_with(&segment_name(segments[1])), "{named}");
    assert_eq!(at, SEGMENT_HEADER + GROUP_HEADER_BYTES as u64);
    assert!(what.contains("does not match its checksum"), "{what}");
    assert!(lost.starts_with("records "), "{lost}");
    let mut into = Vec::new();
    let record = Position(segments[1].0 + GROUP_HEADER_BYTES as u64);
    let refused = reader.read(record, &mut into).unwrap_err();
    assert!(matches!(refused, JournalError::NoRecord { at, .. } if at == record), "{refused}");
}

const SEGMENT_HEADER: u64 = crate::segment::SEGMENT_HEADER_BYTES as u64;

#[test]
fn a_segment_cut_to_any_length_is_damage_or_a_torn_tail_and_never_a_panic() {
    let lengths = [0, 1, 8, 75, 76, 77, 100, 4095, 4096, 4097, 5000, 8000];
    let segments = long_log().1;
    for (nth, first) in segments.iter().enumerate() {
        for length in lengths {
            let (disk, _) = long_log();
            let file = disk.open(&segment(*first)).unwrap();
            file.set_len(length).and_then(|()| file.sync_data()).unwrap();
            let inspected = logs(&disk).inspect(LOG, Cursor::START);
            let opened = reopen(&disk).and_then(|(log, _)| read_all(log));
            let is_last = nth + 1 == segments.len();
            assert!(is_last && length >= 4096 || opened.is_err(), "segment {nth} of {length} bytes");
            assert!(inspected.is_ok() || length < 4096 || !is_last, "segment {nth} of {length} bytes: {inspected:?}");
            if is_last && length < 4096 {
                let (named, _, _, lost) = damage_of(inspected);
                assert!(named.ends_with(&segment_name(*first)), "{named}");
                assert!(length == 0 || length < 76 || lost == "all records of this segment", "{length}: {lost}");
            }
        }
    }
}

#[test]
fn a_missing_segment_is_named_wherever_it_is() {
    let (disk, segments) = long_log();
    for missing in &segments {
        let disk = copy(&disk);
        disk.remove(&segment(*missing)).unwrap();
        let (named, _, what, lost) = damage_of(reopen(&disk));
        assert_eq!((named, &what[..]), (segment(*missing).display().to_string(), "the segment file is missing"));
        assert!(lost.starts_with("records from "), "{lost}");
    }
}

/// Rewrites the group at `base` without its last record, with every checksum and its own hash repaired.
fn remove_record(disk: &FakeDisk, first: Position, base: Position) {
    let path = segment(first);
    let offset = offset_of(first, base) as usize;
    let image = disk.contents(&path).unwrap();
    let group = group::decode(&image[offset..]).unwrap();
    let (_, last, _) = group.records().last().unwrap();
    let body = &group.body[..(last.0 - base.0) as usize - GROUP_HEADER_BYTES];
    let header = group.header;
    let seal = Seal {
        log: LOG,
        before: Cursor { position: base, sequence: Sequence(header.first_sequence.0 - 1), chain: header.previous },
        synced_up_to: header.synced_up_to,
        record_count: header.record_count - 1,
    };
    let mut forged = Vec::new();
    group::seal(seal, body, &mut forged);
    // What follows moves up, so that no gap shows.
    forged.extend_from_slice(&image[offset + header.total_bytes()..]);
    forged.resize(image.len() - offset, 0);
    disk.overwrite(&path, offset as u64, &forged).unwrap();
}

#[test]
fn a_record_removed_with_everything_repaired_is_caught_by_what_follows() {
    let (disk, segments) = long_log();
    remove_record(&disk, segments[1], segments[1]);
    let refused = reopen(&disk).and_then(|(log, _)| read_all(log).map(|_| ()));
    damage_of(refused);

    // The same in the last segment, in a group that others follow and in the very last one.
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    let mut bases = Vec::new();
    for _ in 0..3 {
        bases.push(durable_position(&mut log));
        commit(&mut log, 3);
    }
    log.close().unwrap();
    for base in &bases {
        let disk = copy(&disk);
        remove_record(&disk, Cursor::START.position, *base);
        damage_of(reopen(&disk));
    }

    // The last group exchanged for one of the same length: only the mark knows better.
    let offset = offset_of(Cursor::START.position, bases[2]);
    let image = disk.contents(&first_segment()).unwrap();
    let group = group::decode(&image[offset as usize..]).unwrap();
    let before = Cursor { position: bases[2], sequence: Sequence(6), chain: group.header.previous };
    let seal = Seal { log: LOG, before, synced_up_to: group.header.synced_up_to, record_count: 3 };
    let mut body = group.body.to_vec();
    body[30] ^= 1;
    let mut forged = Vec::new();
    group::seal(seal, &body, &mut forged);
    disk.overwrite(&first_segment(), offset, &forged).unwrap();
    let (_, _, what, _) = damage_of(reopen(&disk));
    assert!(what.contains("the mark behind the last group"), "{what}");
}

#[test]
fn a_group_of_another_history_is_damage_even_at_the_tail() {
    let (disk, other) = (FakeDisk::new(1), FakeDisk::new(2));
    for (disk, records) in [(&disk, 4), (&other, 5)] {
        let (mut log, _) = reopen(disk).unwrap();
        commit(&mut log, records);
        // Make both first groups equally long.
        commit(&mut log, 9 - records);
        commit(&mut log, 1);
    }
    let group_bytes = GROUP_HEADER_BYTES as u64 + 57;
    let start = SEGMENT_HEADER + 2 * GROUP_HEADER_BYTES as u64 + 9 * 57;
    let theirs = other.contents(&first_segment()).unwrap();
    disk.overwrite(&first_segment(), start, &theirs[start as usize..(start + group_bytes) as usize]).unwrap();
    let (_, offset, what, _) = damage_of(reopen(&disk));
    assert_eq!(offset, start);
    assert!(what.contains("does not continue the chain"), "{what}");
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

fn restored() -> Notice {
    let lost = Some(Lost { from: Sequence(16), to: None });
    Notice { kind: NoticeKind::Restored, time_ms: 7, lost, text: "from the copy of yesterday".into() }
}

/// The notices of a log, each with the place behind it.
fn notices(disk: &FakeDisk) -> Vec<(Cursor, Notice)> {
    let end = logs(disk).inspect(LOG, Cursor::START).unwrap().durability();
    let mut groups = logs(disk).reader(LOG).unwrap().groups(Cursor::START, &end).unwrap();
    let mut found = Vec::new();
    while let Some(group) = groups.next_group().unwrap() {
        let notice = group.notice.clone();
        assert_eq!(notice.is_some(), group.record_count == 0 && group.records().next().is_none());
        if let Some(notice) = notice {
            found.push((groups.cursor(), notice));
        }
    }
    found
}

#[test]
fn a_notice_stands_in_the_chain_and_takes_no_sequence() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    (0..3).for_each(|_| commit(&mut log, 5));
    log.close().unwrap();
    let before = logs(&disk).inspect(LOG, Cursor::START).unwrap().end;
    let behind = logs(&disk).append_notice(LOG, Cursor::START, SMALL, &restored()).unwrap();
    assert!(behind.position > before.position && behind.sequence == before.sequence && behind.chain != before.chain);

    let (mut log, report) = reopen(&disk).unwrap();
    assert_eq!((report.end, report.bytes_cut), (behind, 0), "it is durable, and marked as the end");
    // Over several segments, so that the notice stands in a sealed one.
    (0..200).for_each(|_| commit(&mut log, 5));
    assert!(folder(&disk).list_segments().unwrap().len() > 2);
    log.close().unwrap();
    let second = logs(&disk).append_notice(LOG, Cursor::START, SMALL, &restored()).unwrap();
    assert_eq!(notices(&disk), [(behind, restored()), (second, restored())]);
    assert_eq!(read_all(reopen(&disk).unwrap().0).unwrap(), 1_015, "folds see records only");

    // A cursor before it and one behind it are places of the log; the scrub passes it.
    let reader = logs(&disk).reader(LOG).unwrap();
    let end = logs(&disk).inspect(LOG, Cursor::START).unwrap().durability();
    for cursor in [before, behind, second] {
        reader.groups(cursor, &end).unwrap().next_group().unwrap();
    }
    let (scrubbed, settled) = (reader.scrub(Cursor::START, u64::MAX).unwrap(), reader.settled_end().unwrap());
    assert_eq!((scrubbed.reached.position, scrubbed.at_end), (settled.position(), true));
}

#[test]
fn a_notice_that_a_crash_tore_is_cut_and_one_that_was_changed_is_refused() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    commit(&mut log, 5);
    log.close().unwrap();
    let before = logs(&disk).inspect(LOG, Cursor::START).unwrap().end;
    let without = disk.contents(&first_segment()).unwrap();
    logs(&disk).append_notice(LOG, Cursor::START, SMALL, &restored()).unwrap();
    let with = disk.contents(&first_segment()).unwrap();
    let start = offset_of(Cursor::START.position, before.position) as usize;
    let length = GROUP_HEADER_BYTES + group::notice_body(&restored()).len();

    for written in (0..length).step_by(7) {
        let torn = copy(&disk);
        let mut image = without.clone();
        image[start..start + written].copy_from_slice(&with[start..start + written]);
        image[start + written..].fill(0);
        torn.overwrite(&first_segment(), 0, &image).unwrap();
        assert_eq!(reopen(&torn).unwrap().1.end, before, "the first {written} bytes of a notice are nothing");
    }
    for (at, byte) in with.iter().enumerate().skip(start).take(length) {
        let harmed = copy(&disk);
        harmed.overwrite(&first_segment(), at as u64, &[byte ^ 1]).unwrap();
        assert!(reopen(&harmed).is_err(), "byte {} of a durable notice", at - start);
    }
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
fn archived_segments_must_follow_each_other_and_reach_the_first_that_is_here() {
    let data = tempfile::tempdir().unwrap();
    let logs = StepLogs::new(RealDisk, data.path(), &[FAMILY]);
    let folder = Folder::new(RealDisk, data.path(), &FAMILY, LOG);
    let Opened { mut log, .. } = logs.open(LOG, Cursor::START, SMALL).unwrap();
    while folder.list_local().unwrap().len() < 5 {
        commit(&mut log, 20);
    }
    let last = log.last_sequence();
    log.close().unwrap();
    let begins: Vec<Cursor> =
        folder.list_local().unwrap().into_iter().map(|first| folder.open_segment(first).unwrap().1).collect();
    let moved: Vec<Archived> = begins[..4]
        .windows(2)
        .map(|pair| {
            let from = folder.segment_path(pair[0].position);
            let at = data.path().join(format!("moved-{}", pair[0].position));
            let (bytes, hash) = (std::fs::read(&from).unwrap().len() as u64, [0; 32]);
            std::fs::rename(&from, &at).unwrap();
            let at = at.display().to_string();
            Archived { log: "ledger-1".into(), first: pair[0], end: pair[1], bytes, hash, at }
        })
        .collect();
    let open_with = |segments: &[Archived]| {
        Archive { segments: segments.to_vec() }.write(data.path()).unwrap();
        logs.open(LOG, Cursor::START, SMALL)
    };
    assert_eq!(read_all(open_with(&moved).unwrap().log).unwrap(), last.0);
    let elsewhere = Cursor { chain: crate::ChainHash([9; 32]), ..moved[2].end };
    let [first, second, third] = &moved[..] else { panic!("three were moved") };
    for (what, segments, missing_from) in [
        ("the first", vec![second.clone(), third.clone()], Cursor::START),
        ("one in the middle", vec![first.clone(), third.clone()], first.end),
        ("the last", vec![first.clone(), second.clone()], second.end),
        ("one of another history", vec![first.clone(), Archived { end: elsewhere, ..third.clone() }], first.end),
        (
            "the end of one",
            vec![first.clone(), second.clone(), Archived { end: elsewhere, ..third.clone() }],
            elsewhere,
        ),
    ] {
        let (segment, _, words, lost) = damage_of(open_with(&segments).map(|_| ()));
        assert_eq!(words, "the segment file is missing", "{what}");
        assert!(segment.ends_with(&segment_name(missing_from.position)), "{what}: {segment}");
        assert!(lost.starts_with(&format!("records from {} ", missing_from.sequence.0 + 1)), "{what}: {lost}");
    }
}

/// A log of several segments, and where they begin.
fn several_segments() -> (FakeDisk, Vec<Cursor>) {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    while folder(&disk).list_segments().unwrap().len() < 4 {
        commit(&mut log, 20);
    }
    log.close().unwrap();
    let folder = folder(&disk);
    let begins = folder.list_segments().unwrap().into_iter().map(|first| folder.open_segment(first).unwrap().1);
    (disk.clone(), begins.collect())
}

#[test]
fn a_sealed_segment_without_its_mark_is_read_whole_and_marked_again() {
    let (disk, begins) = several_segments();
    let (path, mark_at) = (segment(begins[2].position), offset_of(begins[2].position, begins[3].position));
    let whole = disk.contents(&path).unwrap();
    let mark = Mark { log: LOG, kind: MarkKind::Sealed, end: begins[3] };
    assert_eq!(Mark::decode(&whole[mark_at as usize..]), Ok(mark));
    // Neither none nor one of another place, kind or log is taken for it.
    let others = [
        [0; MARK_BYTES],
        Mark { kind: MarkKind::Tail, ..mark }.encode(),
        Mark { log: FAMILY.log(98, 1), ..mark }.encode(),
        Mark { end: begins[2], ..mark }.encode(),
    ];
    for other in others {
        disk.overwrite(&path, mark_at, &other).unwrap();
        let rotten = copy(&disk);
        rotten.flip_bit(&path, mark_at - 10, 3);
        let mut damaged = reopen(&rotten).unwrap().1.damaged;
        assert_eq!(damaged.len(), 1, "the log goes on behind it: {damaged:?}");
        let (at, offset, what, lost) = damage_of(Err::<(), _>(damaged.remove(0)));
        assert_eq!(at, path.display().to_string());
        assert!(offset > SEGMENT_HEADER_BYTES as u64 && offset < mark_at, "{offset}");
        assert!(what.contains("does not match its checksum") && lost.ends_with(&format!("{})", begins[3].position)));
        // All that it said is known, so it is marked again.
        let (log, _) = reopen(&disk).unwrap();
        drop(log);
        assert_eq!(disk.contents(&path).unwrap(), whole);
    }
}

#[test]
fn a_segment_that_is_missing_is_told_from_one_of_another_history() {
    let (disk, begins) = several_segments();
    let missing = copy(&disk);
    missing.remove(&segment(begins[2].position)).unwrap();
    let (at, _, what, lost) = damage_of(reopen(&missing));
    assert_eq!((&at[..], &what[..]), (&*segment(begins[2].position).to_string_lossy(), "the segment file is missing"));
    let (from, until) = (begins[2].sequence.0 + 1, begins[3].position);
    assert_eq!(lost, format!("records from {from} (position {}) to position {until}", begins[2].position));

    let other = Cursor { chain: crate::ChainHash([9; 32]), ..begins[2] };
    let header = SegmentHeader { log: LOG, first: other }.encode();
    disk.overwrite(&segment(begins[2].position), 0, &header).unwrap();
    let (at, offset, what, _) = damage_of(reopen(&disk));
    assert_eq!((at, offset), (segment(begins[2].position).display().to_string(), 0));
    assert_eq!(what, format!("it does not continue the chain of {}", segment_name(begins[1].position)));
}

#[test]
fn a_segment_of_several_windows_is_read_whole_and_damage_in_a_later_one_is_found() {
    const LARGE: Options = Options::small(8 << 20);
    let disk = FakeDisk::new(1);
    let Opened { mut log, .. } = logs(&disk).open(LOG, Cursor::START, LARGE).unwrap();
    while durable_position(&mut log).0 < 2_500_000 {
        commit(&mut log, 150);
    }
    let last = log.last_sequence();
    log.close().unwrap();
    let Opened { log, report } = logs(&disk).open(LOG, Cursor::START, LARGE).unwrap();
    assert_eq!((report.end.sequence, report.segments, report.bytes_cut), (last, 1, 0));
    assert_eq!(read_all(log).unwrap(), last.0);
    assert!(disk.flip_bit(&first_segment(), 2_000_000, 1));
    let (_, offset, _, _) = damage_of(logs(&disk).open(LOG, Cursor::START, LARGE).map(|_| ()));
    assert!(offset <= 2_000_000 && offset > 1_980_000, "{offset}");
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
