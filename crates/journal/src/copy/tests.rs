use std::path::{Path, PathBuf};

use super::*;
use crate::archive::Archive;
use crate::disk::{Disk, FakeDisk, RealDisk};
use crate::segment::{parse_segment_name, segment_name};
use crate::step::{Step, StepLog, StepLogs};
use crate::{Family, LogReader, LogStore, Logs, Opened, Options, Retention};

const WHOLE: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };
const SMALL: Options = Options::small(16 * 1024);
const LOG: LogId = WHOLE.log(7, 0);

fn data() -> &'static Path {
    Path::new("data")
}

fn logs(disk: &FakeDisk) -> StepLogs<FakeDisk> {
    StepLogs::new(disk.clone(), data(), &[WHOLE])
}

fn files(disk: &FakeDisk) -> LogFiles<FakeDisk> {
    LogFiles::of(Folder::new(disk.clone(), data(), &WHOLE, LOG))
}

fn open(disk: &FakeDisk) -> StepLog<FakeDisk> {
    let Opened { log, .. } = logs(disk).open(LOG, Cursor::START, SMALL).unwrap();
    log
}

/// Appends so many groups, each made durable before the next.
fn append(store: &mut StepLog<FakeDisk>, groups: usize) {
    for number in 0..groups {
        while store.ready().is_err() {
            store.step().unwrap();
        }
        let mut group = store.begin_group();
        group.append(|buffer| buffer.extend_from_slice(&[number as u8; 300]));
        store.submit(group).unwrap();
        while store.step().unwrap() != Step::Idle {}
        store.poll_durable().unwrap();
    }
}

fn last(disk: &FakeDisk) -> (Position, PathBuf) {
    let first = *files(disk).segments().unwrap().last().unwrap();
    assert_eq!(parse_segment_name(&segment_name(first)), Some(first));
    (first, files(disk).path(first))
}

#[test]
fn the_tail_of_a_closed_log_is_its_end_and_proven() {
    let disk = FakeDisk::new(1);
    let mut store = open(&disk);
    append(&mut store, 120);
    let durable = store.close().unwrap();
    let files = files(&disk);
    assert!(files.segments().unwrap().len() >= 3);
    let tail = files.tail(Cursor::START).unwrap();
    assert_eq!((tail.end.sequence, tail.proven), (durable, tail.end.position));
    let begins = files.begins(*files.segments().unwrap().last().unwrap()).unwrap();
    assert_eq!(files.tail(begins).unwrap(), tail);
    assert_eq!(files.tail_again(tail.end).unwrap(), tail);
}

#[test]
fn the_tail_of_a_log_in_use_has_all_that_is_durable_and_later_groups_prove_it() {
    let disk = FakeDisk::new(2);
    let mut store = open(&disk);
    append(&mut store, 10);
    let durable = store.poll_durable().unwrap();
    let tail = files(&disk).tail(Cursor::START).unwrap();
    assert!(tail.end.position >= durable.position());
    append(&mut store, 60);
    let later = files(&disk).tail_again(tail.end).unwrap();
    assert!(later.proven >= tail.end.position && later.end.sequence.0 == 70, "{later:?}");
}

#[test]
fn sealed_segments_say_where_they_end_and_the_last_one_does_not() {
    let disk = FakeDisk::new(3);
    let mut store = open(&disk);
    append(&mut store, 120);
    let files = files(&disk);
    let segments = files.segments().unwrap();
    for pair in segments.windows(2) {
        assert_eq!(files.sealed_end(pair[0]).unwrap(), Some(files.begins(pair[1]).unwrap()));
    }
    assert_eq!(files.sealed_end(*segments.last().unwrap()).unwrap(), None);
}

#[test]
fn a_bad_group_that_was_durable_is_damage_and_not_the_end() {
    let disk = FakeDisk::new(4);
    let mut store = open(&disk);
    append(&mut store, 120);
    store.close().unwrap();
    let (first, path) = last(&disk);
    let file = crate::disk::Disk::open(&disk, &path).unwrap();
    let at = SEGMENT_HEADER_BYTES as u64 + 200;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    let begins = files(&disk).begins(first).unwrap();
    match files(&disk).tail(begins) {
        Err(JournalError::Damaged { segment, .. }) => assert!(segment.ends_with(&segment_name(first)), "{segment}"),
        other => panic!("damage expected: {other:?}"),
    }
}

#[test]
fn a_copy_that_is_cut_opens_at_its_end_and_goes_on() {
    let disk = FakeDisk::new(5);
    let mut store = open(&disk);
    append(&mut store, 30);
    store.close().unwrap();
    let files = files(&disk);
    let mut groups = files.groups(Cursor::START, files.tail(Cursor::START).unwrap().end).unwrap();
    for _ in 0..20 {
        groups.next_group().unwrap().unwrap();
    }
    let at = groups.cursor();
    assert_eq!(at.sequence.0, 20);
    let (first, _) = files.segment_of(at.position).unwrap();
    for behind in files.segments().unwrap().into_iter().filter(|behind| *behind > first) {
        crate::disk::Disk::remove(&disk, &files.path(behind)).unwrap();
    }
    files.cut(at).unwrap();
    assert_eq!(files.tail(Cursor::START).unwrap(), Tail { end: at, proven: at.position });
    let Opened { mut log, report } = logs(&disk).open(LOG, Cursor::START, SMALL).unwrap();
    assert_eq!((report.end, report.bytes_cut), (at, 0));
    append(&mut log, 3);
    assert_eq!(log.last_sequence().0, 23);
}

#[test]
fn a_segment_whose_header_has_rotted_begins_where_the_one_before_it_ends() {
    let disk = FakeDisk::new(3);
    let mut store = open(&disk);
    append(&mut store, 120);
    let files = files(&disk);
    let segments = files.segments().unwrap();
    let begins: Vec<Cursor> = segments.iter().map(|first| files.begins(*first).unwrap()).collect();
    for (first, begins) in segments.iter().zip(&begins) {
        disk.overwrite(&files.path(*first), 0, b"rotten").unwrap();
        assert_eq!(files.begins(*first).unwrap(), *begins);
    }
    // Without the seal of the one before, nobody knows.
    let mark_at = offset_of(segments[1], segments[2]);
    disk.overwrite(&files.path(segments[1]), mark_at, &[0; MARK_BYTES]).unwrap();
    let refused = files.begins(segments[2]).unwrap_err().to_string();
    assert!(refused.contains("it does not begin like a segment"), "{refused}");
}

#[test]
fn files_are_found_by_where_their_segments_begin() {
    let disk = FakeDisk::new(1);
    let mut store = open(&disk);
    append(&mut store, 120);
    store.close().unwrap();
    let files = files(&disk);
    let (end, segments) = (files.tail(Cursor::START).unwrap().end, files.segments().unwrap());
    assert_eq!(files.local_segments().unwrap(), segments);
    for first in &segments {
        assert_eq!(files.locate(*first).unwrap(), files.path(*first));
    }
    let last = *segments.last().unwrap();
    let size = disk.open(&files.path(last)).unwrap().len().unwrap();
    assert_eq!(files.bytes_up_to(last, end.position), offset_of(last, end.position));
    assert!((SEGMENT_HEADER_BYTES as u64..=size).contains(&files.bytes_up_to(last, end.position)));
}

#[test]
fn what_was_synced_outlives_a_crash() {
    let mut torn = 0;
    for seed in 0..40 {
        for is_synced in [false, true] {
            let disk = FakeDisk::new(seed);
            append(&mut open(&disk), 3);
            let files = files(&disk);
            let (first, path) = last(&disk);
            let at = SEGMENT_HEADER_BYTES as u64 + 4_000;
            disk.open(&path).unwrap().write_all_at(&[7; 600], at).unwrap();
            if is_synced {
                files.sync(first).unwrap();
            }
            disk.crash();
            let mut bytes = [0; 600];
            let is_there = disk.open(&path).unwrap().read_exact_at(&mut bytes, at).is_ok() && bytes == [7; 600];
            assert!(is_there || !is_synced, "seed {seed}");
            torn += u64::from(!is_there);
        }
    }
    assert!(torn > 0, "without a sync some of it is lost");
}

#[test]
fn only_a_mark_of_this_log_that_seals_its_last_place_says_that_a_segment_is_sealed() {
    let disk = FakeDisk::new(5);
    let mut store = open(&disk);
    append(&mut store, 12);
    store.close().unwrap();
    let (files, (first, path)) = (files(&disk), last(&disk));
    let end = files.tail(Cursor::START).unwrap().end;
    // The file ends with a mark of its tail.
    files.cut(end).unwrap();
    assert_eq!(files.sealed_end(first).unwrap(), None, "it may go on");
    let (sealed, offset) = (Mark { log: LOG, kind: MarkKind::Sealed, end }, offset_of(first, end.position));
    let elsewhere = Cursor { position: Position(end.position.0 + 8), ..end };
    for (mark, says) in [
        (Mark { log: LogId { shard: 9, ..LOG }, ..sealed }, None),
        (Mark { end: elsewhere, ..sealed }, None),
        (sealed, Some(end)),
    ] {
        disk.overwrite(&path, offset, &mark.encode()).unwrap();
        assert_eq!(files.sealed_end(first).unwrap(), says, "{mark:?}");
    }
    // Sealed, and the next one is not there.
    assert!(matches!(files.tail(Cursor::START), Err(JournalError::Damaged { .. })));
    // A mark that tells of another place than that where the groups end says nothing.
    for mark in [Mark { log: LogId { shard: 9, ..LOG }, ..sealed }, Mark { end: Cursor::START, ..sealed }] {
        disk.overwrite(&path, offset, &mark.encode()).unwrap();
        let tail = files.tail(Cursor::START).unwrap();
        assert!(tail.end == end && tail.proven < end.position, "{tail:?}");
    }
}

#[test]
fn a_segment_that_was_the_last_one_when_its_groups_were_read_may_be_sealed_since() {
    let disk = FakeDisk::new(3);
    let mut store = open(&disk);
    append(&mut store, 120);
    let files = files(&disk);
    let (first, next) = (files.segments().unwrap()[0], files.segments().unwrap()[1]);
    let (file, _) = files.folder.open_rotten(first).unwrap();
    let mut tail = Tail { end: files.begins(next).unwrap(), proven: Position(0) };
    let file: Arc<dyn DiskFile> = Arc::new(file);
    for judging in [false, true] {
        assert!(matches!(files.behind(&file, first, &mut tail, judging), Ok(Behind::Segment)));
    }
}

#[test]
fn a_segment_whose_groups_end_before_the_next_one_begins_is_damage() {
    let disk = FakeDisk::new(3);
    let mut store = open(&disk);
    append(&mut store, 120);
    store.close().unwrap();
    let files = files(&disk);
    let segments = files.segments().unwrap();
    assert!(disk.flip_bit(&files.path(segments[1]), SEGMENT_HEADER_BYTES as u64 + 200, 3));
    match files.tail(Cursor::START) {
        Err(JournalError::Damaged { segment, .. }) => {
            assert!(segment.ends_with(&segment_name(segments[1])), "{segment}")
        }
        other => panic!("damage expected: {other:?}"),
    }
}

#[test]
fn of_a_segment_that_was_moved_away_all_is_known_that_was_written_down() {
    let data = tempfile::tempdir().unwrap();
    let logs = StepLogs::new(RealDisk, data.path(), &[WHOLE]);
    let Opened { mut log, .. } = logs.open(LOG, Cursor::START, SMALL).unwrap();
    let files = LogFiles::of(Folder::new(RealDisk, data.path(), &WHOLE, LOG));
    while files.segments().unwrap().len() < 3 {
        let mut group = log.begin_group();
        group.append(|buffer| buffer.extend_from_slice(&[7; 3_000]));
        log.submit(group).unwrap();
        while log.step().unwrap() != Step::Idle {}
        log.poll_durable().unwrap();
    }
    log.close().unwrap();
    let segments = files.segments().unwrap();
    let (first, end) = (files.begins(segments[0]).unwrap(), files.begins(segments[1]).unwrap());
    // Nobody can reach it there.
    let at = data.path().join("away").display().to_string();
    std::fs::remove_file(files.path(segments[0])).unwrap();
    let moved = Archived { log: "ledger-0".into(), first, end, bytes: 1, hash: [0; 32], at };
    Archive { segments: vec![moved] }.write(data.path()).unwrap();
    assert_eq!(files.begins(segments[0]).unwrap(), first);
    assert_eq!(files.sealed_end(segments[0]).unwrap(), Some(end));
    assert_eq!(
        (files.segments().unwrap(), files.local_segments().unwrap()),
        (segments.clone(), segments[1..].to_vec())
    );
    let reader = logs.reader(LOG).unwrap();
    let (away, here) = (Position(segments[1].0 - 1), segments[1]);
    assert_eq!((reader.is_here(away).unwrap(), reader.is_here(here).unwrap()), (false, true));
}

/// A segment gets its name when its header is durable, so no crash leaves a bad one without groups.
#[test]
fn a_last_segment_without_a_header_and_without_groups_is_damage_and_not_the_end() {
    type Damage = fn(&FakeDisk, &Path);
    let damages: [(&str, Damage); 4] = [
        ("the file is empty", |disk, path| disk.open(path).unwrap().set_len(0).unwrap()),
        ("within its header", |disk, path| disk.open(path).unwrap().set_len(20).unwrap()),
        ("within its header", |disk, path| disk.open(path).unwrap().set_len(200).unwrap()),
        ("does not begin like a segment", |disk, path| {
            let bytes = disk.open(path).unwrap().len().unwrap();
            disk.overwrite(path, 0, &vec![0; bytes as usize]).unwrap();
        }),
    ];
    // Of one segment, and of several.
    for groups in [5, 120] {
        for (words, damage) in damages {
            let disk = FakeDisk::new(3);
            let mut store = open(&disk);
            append(&mut store, groups);
            store.close().unwrap();
            let (first, path) = last(&disk);
            damage(&disk, &path);
            let files = files(&disk);
            let refused = files.tail(files.begins(first).unwrap()).unwrap_err();
            let JournalError::Damaged { segment, .. } = &refused else { panic!("{refused}") };
            assert!(segment.ends_with(&segment_name(first)) && refused.to_string().contains(words), "{refused}");
            // A start says the same.
            let start = logs(&disk).open(LOG, Cursor::START, SMALL).map(|opened| opened.report.end).unwrap_err();
            assert_eq!(start.to_string(), refused.to_string());
        }
    }
}

#[test]
fn a_last_segment_whose_header_has_rotted_ends_behind_its_groups() {
    let disk = FakeDisk::new(3);
    let mut store = open(&disk);
    append(&mut store, 120);
    store.close().unwrap();
    let (files, (first, path)) = (files(&disk), last(&disk));
    let (begins, tail) = (files.begins(first).unwrap(), files.tail(Cursor::START).unwrap());
    assert!(disk.flip_bit(&path, 9, 1));
    assert_eq!(files.tail(begins).unwrap(), tail);
}

#[test]
fn an_empty_log_whose_header_has_rotted_is_opened_if_its_mark_says_that_it_is_empty() {
    for at in [0, 9, 40] {
        let disk = FakeDisk::new(3);
        open(&disk).close().unwrap();
        let (first, path) = last(&disk);
        assert!(disk.flip_bit(&path, at, 1));
        // A copy would not have the mark, and must not be given one.
        let refused = files(&disk).tail(files(&disk).begins(first).unwrap()).unwrap_err().to_string();
        assert!(refused.contains("nothing: what it said is known") && refused.contains("a start writes it again"));
        assert!(files(&disk).cut(Cursor::START).is_err());
        let Opened { mut log, report } = logs(&disk).open(LOG, Cursor::START, SMALL).unwrap();
        assert_eq!((report.end, report.damaged.len()), (Cursor::START, 1));
        append(&mut log, 3);
        log.close().unwrap();
        let again = logs(&disk).open(LOG, Cursor::START, SMALL).unwrap().report;
        assert!(again.damaged.is_empty() && again.end.sequence.0 == 3, "the header was written again");
        // The mark of another log says nothing of this one.
        let disk = FakeDisk::new(3);
        open(&disk).close().unwrap();
        assert!(disk.flip_bit(&path, at, 1));
        let other = Mark { log: LogId { shard: 9, ..LOG }, kind: MarkKind::Tail, end: Cursor::START };
        disk.overwrite(&path, SEGMENT_HEADER_BYTES as u64, &other.encode()).unwrap();
        assert!(files(&disk).tail(Cursor::START).is_err());
        assert!(logs(&disk).open(LOG, Cursor::START, SMALL).is_err());
    }
}
