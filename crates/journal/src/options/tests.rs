use std::path::Path;

use super::*;
use crate::disk::FakeDisk;
use crate::step::{Step, StepLogs};
use crate::{Cursor, Family, LogReader, LogStore, Logs, NoRoom, NotReady, Opened, Position, Retention, StepLog};

const FAMILY: Family = Family { number: 3, name: "counter", retention: Retention::Whole };

fn open(disk: &FakeDisk, options: Options) -> StepLog<FakeDisk> {
    let logs = StepLogs::new(disk.clone(), Path::new("data"), &[FAMILY]);
    logs.open(FAMILY.log(1, 0), Cursor::START, options).unwrap().log
}

/// Commits one record by itself.
fn commit(log: &mut StepLog<FakeDisk>, bytes: usize) -> Position {
    let mut group = log.begin_group();
    let at = group.append(|buffer| buffer.resize(buffer.len() + bytes, 7));
    log.submit(group).unwrap();
    while log.step().unwrap() != Step::Idle {}
    log.poll_durable().unwrap();
    at
}

#[test]
fn a_small_log_is_as_large_as_fits_its_segments() {
    let small = Options::small(16 * 1024);
    assert_eq!((small.allocation_step_bytes, small.group_bytes_max), (4096, 4096));
    assert_eq!((small.record_bytes_max, small.recent_bytes_max), (4096 - 128, 0));
    let larger = Options::small(64 << 20);
    assert_eq!((larger.allocation_step_bytes, larger.group_bytes_max), (16 << 20, limits::GROUP_BYTES_MAX));
    assert_eq!(larger.record_bytes_max, limits::RECORD_BYTES_MAX);
    for options in [small, larger, Options::default()] {
        options.check();
    }
}

#[test]
#[should_panic(expected = "a group holds the largest record")]
fn records_that_no_group_could_hold_are_a_bug() {
    Options { record_bytes_max: 4096, ..Options::small(16 * 1024) }.check();
}

#[test]
#[should_panic(expected = "a group holds the largest record")]
fn a_record_that_is_a_byte_larger_than_its_group_is_a_bug() {
    let small = Options::small(16 * 1024);
    let largest = small.group_bytes_max - GROUP_HEADER_BYTES - RECORD_HEADER_BYTES;
    Options { record_bytes_max: largest, ..small }.check();
    Options { record_bytes_max: largest + 1, ..small }.check();
}

#[test]
#[should_panic(expected = "readers accept records up to RECORD_BYTES_MAX")]
fn records_that_no_reader_accepts_are_a_bug() {
    Options { record_bytes_max: limits::RECORD_BYTES_MAX + 1, ..Options::default() }.check();
}

#[test]
fn the_largest_record_is_that_of_the_log_and_what_an_earlier_start_wrote_is_read() {
    let disk = FakeDisk::new(1);
    let mut log = open(&disk, Options::small(16 * 1024));
    let large = commit(&mut log, 3000);
    log.close().unwrap();
    let mut log = open(&disk, Options { record_bytes_max: 100, ..Options::small(16 * 1024) });
    let mut group = log.begin_group();
    assert_eq!(group.try_append(|buffer| buffer.resize(buffer.len() + 101, 1)), Err(NoRoom::Ever));
    assert!(group.is_empty());
    group.try_append(|buffer| buffer.resize(buffer.len() + 100, 1)).unwrap();
    log.submit(group).unwrap();
    let mut into = Vec::new();
    log.reader().unwrap().read(large, &mut into).unwrap();
    assert_eq!(into, vec![7; 3000]);
    log.close().unwrap();
}

#[test]
fn recent_groups_are_found_in_memory_as_far_as_it_goes() {
    for (recent_bytes_max, found) in [(0, 0..0), (10_000, 1..30), (1 << 20, 30..31)] {
        let mut log = open(&FakeDisk::new(1), Options { recent_bytes_max, ..Options::small(16 * 1024) });
        let positions: Vec<Position> = (0..30).map(|_| commit(&mut log, 1000)).collect();
        let held: Vec<bool> = positions.iter().map(|at| log.peek(*at).is_some()).collect();
        let count = held.iter().filter(|held| **held).count();
        assert!(found.contains(&count) || (found.is_empty() && count == 0), "{recent_bytes_max}: {count}");
        assert!(held.is_sorted(), "the youngest are held: {held:?}");
        for at in positions.iter().filter(|at| log.peek(**at).is_some()) {
            assert_eq!(log.peek(*at), Some(&[7; 1000][..]));
        }
        // Neither the group's header nor what is behind the end is a record's place.
        assert_eq!(log.peek(Position(0)), None);
        let end = log.poll_durable().unwrap().position();
        assert_eq!(log.peek(end), None);
    }
}

#[test]
fn records_in_flight_are_found_in_memory_whichever_group_they_are_in() {
    let mut log = open(&FakeDisk::new(1), Options::small(16 * 1024));
    let mut submit = |payload: u8| {
        let mut group = log.begin_group();
        let at = group.append(|buffer| buffer.extend_from_slice(&[payload; 100]));
        log.submit(group).unwrap();
        at
    };
    let (first, second) = (submit(1), submit(2));
    assert_eq!((log.peek(first), log.peek(second)), (Some(&[1; 100][..]), Some(&[2; 100][..])));
}

#[test]
fn a_disk_that_has_room_is_never_called_full() {
    let mut log = open(&FakeDisk::new(1), Options::small(16 * 1024));
    let mut waited = 0;
    for _ in 0..100 {
        while let Err(not_ready) = log.ready() {
            assert!(matches!(not_ready, NotReady::Busy), "{not_ready:?}");
            waited += 1;
            log.step().unwrap();
            log.poll_durable().unwrap();
        }
        let mut group = log.begin_group();
        group.append(|buffer| buffer.extend_from_slice(&[7; 2000]));
        log.submit(group).unwrap();
    }
    assert!(waited > 0, "room is claimed step by step");
}

#[test]
fn zeros_are_written_ahead_only_where_they_are_wanted() {
    let written = |zero_ahead| {
        let disk = FakeDisk::new(1);
        let mut log = open(&disk, Options { zero_ahead, ..Options::small(1 << 20) });
        for _ in 0..20 {
            commit(&mut log, 100);
        }
        log.close().unwrap();
        let Opened { report, .. } = StepLogs::new(disk.clone(), Path::new("data"), &[FAMILY])
            .open(FAMILY.log(1, 0), Cursor::START, Options::small(1 << 20))
            .unwrap();
        assert_eq!(report.end.sequence.0, 20);
        disk.counts().bytes_written
    };
    let (with, without) = (written(true), written(false));
    assert!(with > without + (60 << 10), "{with} and {without}");
}

#[test]
fn a_log_leaves_the_reserve_of_its_disk_free() {
    const BYTES: u64 = 1 << 20;
    let left = |reserve_bytes| {
        let disk = FakeDisk::new(1);
        disk.set_capacity(BYTES);
        let mut log = open(&disk, Options { reserve_bytes, ..Options::small(16 * 1024) });
        let mut records = 0;
        while log.ready().is_ok() {
            commit(&mut log, 3000);
            records += 1;
        }
        assert!(records > 100 && matches!(log.ready(), Err(NotReady::DiskFull)), "{records} records");
        BYTES - disk.used_bytes()
    };
    let step = 4096;
    assert!(left(0) < step, "all of it is used");
    let (reserve, most) = (20_000, BYTES / limits::RESERVE_PART);
    assert!((reserve..reserve + step).contains(&left(reserve)), "{}", left(reserve));
    assert!((most..most + step).contains(&left(BYTES)), "no more than a part of the disk: {}", left(BYTES));
}
