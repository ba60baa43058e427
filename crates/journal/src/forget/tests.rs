use super::*;
use std::path::Path;

use crate::disk::FakeDisk;
use crate::reader::Reader;
use crate::step::StepLogs;
use crate::{
    Cursor, Durability, Family, LogId, LogReader, LogStore, Logs, Opened, Options, RecoveryReport, Retention, Sequence,
    StepLog,
};

const FAMILY: Family = Family { number: 2, name: "topics", retention: Retention::SinceSnapshot };
const LOG: LogId = FAMILY.log(5, 1);
const SMALL: Options = Options { allocation_step_bytes: 8 * 1024, ..Options::small(16 * 1024) };

fn data() -> &'static Path {
    Path::new("data")
}

fn open(disk: &FakeDisk, since: Cursor) -> Result<(StepLog<FakeDisk>, RecoveryReport), JournalError> {
    let Opened { log, report } = logs(disk).open(LOG, since, SMALL)?;
    Ok((log, report))
}

fn logs(disk: &FakeDisk) -> StepLogs<FakeDisk> {
    StepLogs::new(disk.clone(), data(), &[FAMILY])
}

fn folder(disk: &FakeDisk) -> Folder<FakeDisk> {
    Folder::new(disk.clone(), data(), &FAMILY, LOG)
}

fn reader(disk: &FakeDisk) -> Reader<FakeDisk> {
    logs(disk).reader(LOG).unwrap()
}

fn forget(disk: &FakeDisk, before: Position) -> Result<Forgotten, JournalError> {
    reader(disk).forget_before(before)
}

fn end_of(disk: &FakeDisk, since: Cursor) -> Durability {
    logs(disk).inspect(LOG, since).unwrap().durability()
}

fn commit(log: &mut StepLog<FakeDisk>, groups: usize) {
    for _ in 0..groups {
        while log.ready().is_err() {
            log.step().unwrap();
            log.poll_durable().unwrap();
        }
        let mut group = log.begin_group();
        for _ in 0..20 {
            let sequence = group.last_sequence().0 + 1;
            group.append(|buffer| buffer.extend_from_slice(format!("{sequence} {}", "-".repeat(60)).as_bytes()));
        }
        log.submit(group).unwrap();
        while log.poll_durable().unwrap().sequence() < log.last_sequence() {
            log.step().unwrap();
        }
    }
}

fn segments(disk: &FakeDisk) -> Vec<Position> {
    folder(disk).list_segments().unwrap()
}

/// A log of several segments and the place behind each of its groups.
fn long_log(seed: u64) -> (FakeDisk, Vec<Cursor>) {
    let disk = FakeDisk::new(seed);
    let (mut log, _) = open(&disk, Cursor::START).unwrap();
    commit(&mut log, 45);
    log.close().unwrap();
    let mut groups = reader(&disk).groups(Cursor::START, &end_of(&disk, Cursor::START)).unwrap();
    let mut places = vec![Cursor::START];
    while groups.next_group().unwrap().is_some() {
        places.push(groups.cursor());
    }
    assert!(segments(&disk).len() >= 5, "{:?}", segments(&disk));
    (disk, places)
}

/// Sequences that can be read from `since` on.
fn read_since(log: &mut StepLog<FakeDisk>, since: Cursor) -> Result<std::ops::RangeInclusive<u64>, JournalError> {
    let mut groups = log.reader()?.groups(since, &log.poll_durable()?)?;
    let mut last = since.sequence.0;
    while let Some(group) = groups.next_group()? {
        for (sequence, _, payload) in group.records() {
            last += 1;
            assert_eq!(sequence, Sequence(last));
            assert!(payload.starts_with(format!("{last} ").as_bytes()));
        }
    }
    Ok(since.sequence.0 + 1..=last)
}

#[test]
fn whole_segments_before_a_place_go_and_the_log_goes_on() {
    let (_, places) = long_log(1);
    for since in places {
        let (disk, _) = long_log(1);
        let before = segments(&disk);
        let forgotten = forget(&disk, since.position).unwrap();
        let left = segments(&disk);
        assert_eq!(left, before[forgotten.segments..]);
        assert!(left[0] <= since.position && left.get(1).is_none_or(|next| *next > since.position));
        assert_eq!(forgotten.positions, left[0].0 - before[0].0);

        let (mut log, report) = open(&disk, since).unwrap();
        assert_eq!((report.begins, report.segments, report.bytes_cut), (left[0], left.len(), 0));
        assert_eq!(*read_since(&mut log, since).unwrap().end(), report.end.sequence.0);
        commit(&mut log, 3);
        assert_eq!(*read_since(&mut log, since).unwrap().end(), report.end.sequence.0 + 60);
        assert_eq!(forget(&disk, since.position).unwrap(), Forgotten::default());
    }
}

#[test]
fn whoever_has_no_snapshot_of_what_is_gone_is_refused() {
    let (disk, places) = long_log(1);
    let since = places[30];
    forget(&disk, since.position).unwrap();
    let begins = segments(&disk)[0];
    for place in places {
        let opened = open(&disk, place);
        match place.position >= begins {
            true => assert_eq!(opened.unwrap().1.begins, begins),
            false => match opened.err() {
                Some(JournalError::Damaged { what, lost, .. }) => {
                    assert_eq!(what, "the segment file is missing");
                    let from = place.sequence.0 + 1;
                    assert_eq!(lost, format!("records from {from} (position {}) to position {begins}", place.position));
                }
                other => panic!("{other:?}"),
            },
        }
    }
    let path = folder(&disk).segment_path(Cursor::START.position);
    let missing = format!("{}: damaged at offset 0: the segment file is missing", path.display());
    assert!(logs(&disk).inspect(LOG, Cursor::START).unwrap_err().to_string().starts_with(&missing));
}

#[test]
fn a_segment_that_is_missing_behind_the_place_is_damage() {
    let (_, places) = long_log(1);
    let since = places[20];
    let (disk, _) = long_log(1);
    forget(&disk, since.position).unwrap();
    let left = segments(&disk);
    assert!(left.len() >= 3);
    for missing in left {
        let (disk, _) = long_log(1);
        forget(&disk, since.position).unwrap();
        disk.remove(&folder(&disk).segment_path(missing)).unwrap();
        match open(&disk, since).err() {
            Some(JournalError::Damaged { what, .. }) => assert_eq!(what, "the segment file is missing"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_place_that_the_log_does_not_have_is_refused() {
    let (disk, places) = long_log(1);
    let end = *places.last().unwrap();
    let refused = |since| matches!(open(&disk, since), Err(JournalError::BadCursor { .. }));
    assert!(!refused(end));
    assert!(refused(Cursor { sequence: Sequence(end.sequence.0 + 1), ..end }));
    assert!(refused(Cursor { chain: places[1].chain, ..end }));
    assert!(refused(Cursor { position: Position(end.position.0 + 1), ..end }));
    // Elsewhere the chain shows it, in the first group that is read.
    let (mut log, _) = open(&disk, Cursor { chain: places[1].chain, ..places[5] }).unwrap();
    let read = read_since(&mut log, Cursor { chain: places[1].chain, ..places[5] });
    assert!(matches!(read, Err(JournalError::BadCursor { .. })), "{read:?}");
    // A log that is gone altogether is not begun anew.
    let empty = FakeDisk::new(1);
    empty.create_dir_all(&folder(&empty).path).unwrap();
    assert!(open(&empty, places[5]).is_err());
    assert!(segments(&empty).is_empty());
}

#[test]
fn a_crash_at_any_operation_leaves_a_log_that_opens() {
    let mut cut_short = 0;
    for operations in 0..40 {
        let (disk, places) = long_log(operations);
        let (since, end) = (places[38], places.last().unwrap().sequence.0);
        disk.crash_after_ops(operations);
        cut_short += u32::from(forget(&disk, since.position).is_err());
        disk.crash();
        let (mut log, report) = open(&disk, since).unwrap();
        assert_eq!(report.end.sequence.0, end, "after {operations} operations");
        assert_eq!(*read_since(&mut log, since).unwrap().end(), end);
        // The next one finishes it.
        drop(log);
        forget(&disk, since.position).unwrap();
        assert!(segments(&disk)[0] <= since.position && segments(&disk)[1] > since.position);
    }
    assert!(cut_short >= 4, "the crash must hit the removals: {cut_short}");
}

#[test]
fn a_forgotten_record_is_called_so_also_by_a_reader_that_still_knew_its_segment() {
    let (disk, places) = long_log(1);
    let (earlier, end) = (reader(&disk), end_of(&disk, Cursor::START));
    let mut groups = earlier.groups(Cursor::START, &end).unwrap();
    groups.next_group().unwrap().unwrap();
    forget(&disk, places[38].position).unwrap();
    let begins = segments(&disk)[0];
    let at = Position(places[20].position.0 + crate::group::GROUP_HEADER_BYTES as u64);
    let mut into = Vec::new();
    for reader in [&earlier, &reader(&disk)] {
        let refused = reader.read(at, &mut into).unwrap_err();
        assert!(matches!(refused, JournalError::Forgotten { at: of, begins: now } if (of, now) == (at, begins)));
        let refused = reader.groups(Cursor::START, &end).and_then(|mut groups| groups.next_group().map(|_| ()));
        assert!(matches!(refused, Err(JournalError::Forgotten { .. })), "{refused:?}");
    }
    let refused = loop {
        match groups.next_group() {
            Ok(group) => assert!(group.is_some(), "the end is beyond what was forgotten"),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, JournalError::Forgotten { .. }), "{refused}");
    let kept = Position(places[38].position.0 + crate::group::GROUP_HEADER_BYTES as u64);
    earlier.read(kept, &mut into).unwrap();
}

#[test]
#[should_panic(expected = "log 3/1 of data directory 0000000000000005: it is whole for ever and forgets nothing")]
fn a_log_that_is_whole_for_ever_forgets_nothing() {
    let family = Family { number: 3, name: "ledger", retention: Retention::Whole };
    let logs = StepLogs::new(FakeDisk::new(1), data(), &[family]);
    logs.create(family.log(5, 1)).unwrap();
    let _ = logs.reader(family.log(5, 1)).unwrap().forget_before(Position(1 << 30));
}

#[test]
fn whoever_believes_that_the_log_is_whole_is_refused_once_it_has_forgotten() {
    let (disk, places) = long_log(1);
    forget(&disk, places[30].position).unwrap();
    let whole = Family { retention: Retention::Whole, ..FAMILY };
    for since in [Cursor::START, places[30], *places.last().unwrap()] {
        let opened = StepLogs::new(disk.clone(), data(), &[whole]).open(LOG, since, SMALL);
        let refused = opened.err().unwrap().to_string();
        assert!(refused.contains("the segment file is missing"), "{refused}");
        assert!(refused.contains("lost: records from 1 (position 0)"), "{refused}");
    }
}
