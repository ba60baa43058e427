use std::path::{Path, PathBuf};

use super::*;
use crate::disk::FakeDisk;
use crate::group::GROUP_HEADER_BYTES;
use crate::step::StepLogs;
use crate::{Family, LogId, LogReader, LogStore, Logs, Opened, Options, RecoveryReport, Retention};

const WHOLE: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };
const SMALL: Options = Options::small(16 * 1024);
const LOG: LogId = LogId { directory: 5, family: 1, shard: 0 };
/// Of a header and of a mark: what their checksums cover, and these.
const HEADER_BYTES: u64 = 76;

fn logs(disk: &FakeDisk) -> StepLogs<FakeDisk> {
    StepLogs::new(disk.clone(), Path::new("data"), &[WHOLE])
}

/// Some sealed segments and a last one; where they begin.
fn long_log() -> (FakeDisk, Vec<Position>) {
    let disk = FakeDisk::new(3);
    logs(&disk).write_one_by_one(LOG, SMALL, (0..90).map(|number| vec![number; 400])).unwrap();
    let segments = folder(&disk).list_segments().unwrap();
    assert!(segments.len() >= 4, "{segments:?}");
    (disk, segments)
}

fn folder(disk: &FakeDisk) -> Folder<FakeDisk> {
    Folder::new(disk.clone(), Path::new("data"), &WHOLE, LOG)
}

fn path(first: Position) -> PathBuf {
    Path::new("data/journal/ledger-0").join(segment_name(first))
}

/// Opens the log and reads all of it.
fn open(disk: &FakeDisk) -> (RecoveryReport, u64) {
    let Opened { log, report } = logs(disk).open(LOG, Cursor::START, SMALL).unwrap();
    let mut groups = log.reader().unwrap().groups(Cursor::START, &report.durability()).unwrap();
    let mut records = 0;
    while let Some(group) = groups.next_group().unwrap() {
        records += u64::from(group.record_count);
    }
    (report, records)
}

fn places(damaged: &[JournalError]) -> Vec<(String, u64)> {
    let place = |error: &JournalError| match error {
        JournalError::Damaged { segment, offset, .. } => (segment.clone(), *offset),
        other => panic!("expected damage, got {other}"),
    };
    damaged.iter().map(place).collect()
}

fn all_rotten(disk: &FakeDisk) -> Vec<(String, u64)> {
    places(&rotten_ends(&folder(disk), Position(0), Position(u64::MAX)).unwrap())
}

#[test]
fn a_bit_that_rots_in_the_header_of_a_sealed_segment_is_named_and_refuses_no_read() {
    let (disk, segments) = long_log();
    let record = |first: Position| Position(first.0 + GROUP_HEADER_BYTES as u64);
    for nth in [0, 1, segments.len() - 2] {
        for offset in 0..HEADER_BYTES {
            let rotten = segments[nth];
            disk.flip_bit(&path(rotten), offset, (offset % 8) as u8);
            let (report, records) = open(&disk);
            let named = vec![(path(rotten).display().to_string(), 0)];
            assert_eq!((places(&report.damaged), records), (named.clone(), 90), "byte {offset}");
            assert_eq!(all_rotten(&disk), named);
            let reader = logs(&disk).reader(LOG).unwrap();
            for first in &segments {
                let read = reader.read(record(*first), &mut Vec::new());
                assert!(read.is_ok(), "{first} with byte {offset} of {rotten} rotten: {read:?}");
            }
            disk.flip_bit(&path(rotten), offset, (offset % 8) as u8);
            assert_eq!((open(&disk).0.damaged, all_rotten(&disk)), (vec![], vec![]), "put right again");
        }
    }
}

#[test]
fn a_bit_that_rots_in_a_mark_is_named_once_and_all_is_served() {
    let (disk, segments) = long_log();
    for nth in [0, 1, segments.len() - 2] {
        let (first, next) = (segments[nth], segments[nth + 1]);
        let mark = offset_of(first, next);
        for byte in 0..MARK_BYTES as u64 {
            disk.flip_bit(&path(first), mark + byte, (byte % 8) as u8);
            let named = vec![(path(first).display().to_string(), mark)];
            assert_eq!(all_rotten(&disk), named, "byte {byte}");
            let (report, records) = open(&disk);
            assert_eq!((places(&report.damaged), records), (named, 90), "byte {byte}");
            assert_eq!(all_rotten(&disk), vec![], "it is written again by a start");
        }
    }
}

#[test]
fn a_mark_that_the_disk_does_not_give_is_not_called_damaged() {
    let (disk, segments) = long_log();
    let (first, next) = (segments[1], segments[2]);
    assert!(disk.spoil_sector(&path(first), offset_of(first, next) + MARK_BYTES as u64 - 1));
    let rotten = rotten_ends(&folder(&disk), Position(0), Position(u64::MAX)).unwrap();
    let [unread @ JournalError::Io { .. }] = &rotten[..] else { panic!("{rotten:?}") };
    let words = unread.to_string();
    assert!(words.contains("cannot read the mark that seals") && words.contains(&*path(first).to_string_lossy()));
    disk.mend_sectors();
    assert_eq!(all_rotten(&disk), vec![]);
}

#[test]
fn a_header_and_the_mark_before_it_that_rot_together_keep_no_log_from_being_opened() {
    let (disk, segments) = long_log();
    disk.flip_bit(&path(segments[1]), 30, 1);
    disk.flip_bit(&path(segments[0]), offset_of(segments[0], segments[1]) + 20, 1);
    disk.flip_bit(&path(segments[1]), offset_of(segments[1], segments[2]) + 20, 1);
    let (report, records) = open(&disk);
    assert_eq!((report.damaged.len(), records), (3, 90), "{:?}", report.damaged);
}

#[test]
fn a_mark_that_a_crash_kept_from_being_written_is_no_damage() {
    let (disk, segments) = long_log();
    let [.., sealed, last] = segments[..] else { panic!("several segments") };
    let offset = offset_of(sealed, last);
    let end = Mark::decode(&disk.contents(&path(sealed)).unwrap()[offset as usize..]).unwrap().end;
    for bytes in [[0; MARK_BYTES], Mark { log: LOG, kind: MarkKind::Tail, end }.encode()] {
        disk.overwrite(&path(sealed), offset, &bytes).unwrap();
        disk.overwrite(&path(sealed), offset + MARK_BYTES as u64, &[0; 500]).unwrap();
        assert_eq!(all_rotten(&disk), vec![], "it is not sealed yet");
        assert_eq!(open(&disk).0.damaged, vec![]);
    }
}

#[test]
fn a_header_of_another_log_is_no_rot() {
    let (disk, segments) = long_log();
    let other = crate::segment::SegmentHeader {
        log: LogId { shard: 1, ..LOG },
        first: folder(&disk).open_segment(segments[1]).unwrap().1,
    };
    disk.overwrite(&path(segments[1]), 0, &other.encode()).unwrap();
    let refused = logs(&disk).open(LOG, Cursor::START, SMALL).err().unwrap().to_string();
    assert!(refused.contains("it belongs to"), "{refused}");
}

#[test]
fn a_segment_whose_header_and_mark_rotted_is_read_if_the_place_where_it_begins_is_known() {
    for nth in [0, 1] {
        let (disk, segments) = long_log();
        let begins = folder(&disk).open_segment(segments[nth]).unwrap().1;
        disk.flip_bit(&path(segments[nth]), 30, 1);
        disk.flip_bit(&path(segments[nth]), offset_of(segments[nth], segments[nth + 1]) + 20, 1);
        let check = |begins| check_sealed(&folder(&disk), &segments[nth..], begins).unwrap();
        let known = check(Some(begins));
        assert_eq!(known.unsealed.iter().map(|(first, _)| *first).collect::<Vec<_>>(), [segments[nth]]);
        let words = |sealed: &Sealed| sealed.damaged.iter().map(|error| error.to_string()).collect::<String>();
        assert!(!words(&known).contains("nobody knows"), "{}", words(&known));
        // A position alone is no place to read on from, but for the very beginning.
        for unknown in [None, Some(Cursor { position: segments[nth], ..Cursor::START })] {
            let sealed = check(unknown);
            let is_start = unknown == Some(Cursor::START);
            assert_eq!(words(&sealed).contains("nobody knows"), !is_start, "{}", words(&sealed));
            assert_eq!(sealed.unsealed.is_empty(), !is_start);
        }
    }
}

#[test]
fn ends_are_looked_at_behind_one_place_and_up_to_another() {
    let (disk, segments) = long_log();
    disk.flip_bit(&path(segments[1]), 30, 1);
    let between = |from, to| places(&rotten_ends(&folder(&disk), from, to).unwrap()).len();
    let end = segments[2];
    let before = |place: Position| Position(place.0 - 1);
    assert_eq!((between(before(end), end), between(Position(0), end)), (1, 1));
    assert_eq!((between(end, Position(u64::MAX)), between(Position(0), before(end))), (0, 0));
}
