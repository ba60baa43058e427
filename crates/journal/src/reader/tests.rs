//! What a reader finds: records of any size, why there is none, and what has moved since it listed the folder.

use std::path::{Path, PathBuf};

use super::*;
use crate::disk::FakeDisk;
use crate::group::GROUP_HEADER_BYTES;
use crate::limits::RECORD_BYTES_MAX;
use crate::step::{Step, StepLogs};
use crate::{Family, LogId, LogStore, Logs, Opened, Options, Retention};

const FAMILY: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };
const LOG: LogId = FAMILY.log(7, 0);
const LARGE: Options = Options::small(64 << 20);
const SMALL: Options = Options { allocation_step_bytes: 8 * 1024, ..Options::small(16 * 1024) };

fn logs(disk: &FakeDisk) -> StepLogs<FakeDisk> {
    StepLogs::new(disk.clone(), Path::new("data"), &[FAMILY])
}

/// A log with a group for each of these records, and where they stand.
fn log_of(records: &[Vec<u8>], options: Options) -> (FakeDisk, Vec<Position>) {
    let disk = FakeDisk::new(1);
    let Opened { mut log, .. } = logs(&disk).open(LOG, Cursor::START, options).unwrap();
    let mut positions = Vec::new();
    for record in records {
        while log.ready().is_err() {
            log.step().unwrap();
        }
        let mut group = log.begin_group();
        positions.push(group.append(|buffer| buffer.extend_from_slice(record)));
        log.submit(group).unwrap();
        while log.step().unwrap() != Step::Idle {}
        log.poll_durable().unwrap();
    }
    log.close().unwrap();
    (disk, positions)
}

fn first_segment(disk: &FakeDisk) -> PathBuf {
    let files = disk.files().into_iter().map(|(path, _)| path);
    files.into_iter().find(|path| path.to_string_lossy().contains("/segment-")).unwrap()
}

/// Reads one record; what is wrong, in words, if it is none.
fn read(disk: &FakeDisk, at: Position) -> Result<Vec<u8>, String> {
    let mut into = Vec::new();
    match logs(disk).reader(LOG).unwrap().read(at, &mut into) {
        Ok(()) => Ok(into),
        Err(JournalError::NoRecord { what, .. }) => Err(what),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn records_of_any_size_are_read_to_their_last_byte() {
    let sizes = [1, FIRST_READ_BYTES - 8, FIRST_READ_BYTES - 7, FIRST_READ_BYTES, RECORD_BYTES_MAX];
    let records: Vec<Vec<u8>> = sizes.iter().map(|bytes| (0..*bytes).map(|at| at as u8).collect()).collect();
    let (disk, positions) = log_of(&records, LARGE);
    for (at, record) in positions.iter().zip(&records) {
        assert!(read(&disk, *at).as_ref() == Ok(record), "{} bytes", record.len());
    }
}

#[test]
fn where_no_record_stands_is_said_why() {
    let (disk, positions) = log_of(&[vec![0xff; 100], vec![7; 5_000], vec![9; 10]], LARGE);
    let end = Position(positions[2].0 + 8 + 10);
    assert_eq!(read(&disk, Position(u64::MAX)).unwrap_err(), "no log is that long");
    // Zeros, and bytes that would be a length beyond all bounds.
    assert_eq!(read(&disk, Position(end.0 + 1_000)).unwrap_err(), "no record begins there");
    assert_eq!(read(&disk, Position(positions[0].0 + 20)).unwrap_err(), "no record begins there");
    let path = first_segment(&disk);
    assert!(disk.flip_bit(&path, offset_of(Cursor::START.position, positions[2]) + 9, 1));
    assert_eq!(read(&disk, positions[2]).unwrap_err(), "its checksum does not match");

    // A file that was cut, at each place of the second record.
    let begins = offset_of(Cursor::START.position, positions[1]);
    let file = crate::disk::Disk::open(&disk, &path).unwrap();
    for (bytes, what) in [
        (5_007, "the file ends within the record"),
        (600, "the file ends within the record"),
        (8, "the file ends within the record"),
        (7, "the file ends there, before that position"),
        (0, "the file ends there, before that position"),
    ] {
        file.set_len(begins + bytes).unwrap();
        assert_eq!(read(&disk, positions[1]).unwrap_err(), what, "{bytes} bytes are left");
    }
    assert_eq!(read(&disk, positions[0]), Ok(vec![0xff; 100]), "what is before that is read");
}

#[test]
fn a_rotten_header_makes_no_record_unreadable_whose_first_group_says_whose_it_is() {
    let (disk, positions) = log_of(&[vec![1; 100], vec![2; 200]], LARGE);
    let path = first_segment(&disk);
    for offset in 0..crate::segment::SEGMENT_HEADER_BYTES as u64 {
        assert!(disk.flip_bit(&path, offset, 3));
        assert_eq!(read(&disk, positions[1]), Ok(vec![2; 200]), "a bit at {offset}");
        assert!(disk.flip_bit(&path, offset, 3));
    }
    let first_group = offset_of(Cursor::START.position, Cursor::START.position);
    assert!(disk.flip_bit(&path, 0, 3) && disk.flip_bit(&path, first_group + 9, 3));
    let read = logs(&disk).reader(LOG).unwrap().read(positions[1], &mut Vec::new());
    assert!(matches!(read, Err(JournalError::Damaged { .. })), "nothing says whose record it is: {read:?}");
}

#[test]
fn one_reader_reads_from_any_number_of_segments() {
    let records: Vec<Vec<u8>> = (0..400).map(|number| vec![number as u8; 3_000]).collect();
    let (disk, positions) = log_of(&records, Options::small(16 * 1024));
    let segments = disk.files().iter().filter(|(path, _)| path.to_string_lossy().contains("/segment-")).count();
    assert!(segments > OPEN_SEGMENTS_MAX, "{segments} segments");
    let (reader, mut into) = (logs(&disk).reader(LOG).unwrap(), Vec::new());
    for (at, record) in positions.iter().zip(&records).chain(positions.iter().zip(&records).rev()) {
        reader.read(*at, &mut into).unwrap();
        assert_eq!(into, *record);
    }
}

#[test]
fn what_is_here_is_read_although_the_segment_before_it_was_moved_out_of_reach() {
    let (disk, data) = (FakeDisk::new(1), Path::new("data"));
    let logs = logs(&disk);
    let folder = Folder::new(disk.clone(), data, &FAMILY, LOG);
    let Opened { mut log, .. } = logs.open(LOG, Cursor::START, SMALL).unwrap();
    let mut commit = || {
        let mut group = log.begin_group();
        for _ in 0..20 {
            group.append(|buffer| buffer.extend_from_slice(&[7; 50]));
        }
        log.submit(group).unwrap();
        while log.step().unwrap() != Step::Idle {}
        log.poll_durable().unwrap();
    };
    commit();
    let reader = logs.reader(LOG).unwrap();
    while folder.list_local().unwrap().len() < 3 {
        commit();
    }
    // The reader has seen one segment, and has not opened it. It is archived, and the archive is away.
    let segments = folder.list_local().unwrap();
    disk.rename(&folder.segment_path(segments[0]), Path::new("data/away")).unwrap();
    let record_of = |first: Position| Position(first.0 + GROUP_HEADER_BYTES as u64);
    let mut record = Vec::new();
    reader.read(record_of(segments[1]), &mut record).unwrap();
    assert_eq!(record, [7; 50]);
    assert!(matches!(reader.read(record_of(segments[0]), &mut record), Err(JournalError::Io { doing: "open", .. })));
}

#[test]
fn a_segment_that_was_away_is_read_by_everybody_when_it_is_back() {
    let away = Path::new("data/away");
    // The first segment, one in the middle, and the last one that is sealed.
    for moved in [0, 2, 6] {
        let records: Vec<Vec<u8>> = (0..40).map(|number| vec![number; 3_000]).collect();
        let (disk, positions) = log_of(&records, Options::small(16 * 1024));
        let folder = Folder::new(disk.clone(), Path::new("data"), &FAMILY, LOG);
        let segments = folder.list_local().unwrap();
        assert!(segments.len() > 7, "{segments:?}");
        let (path, next) = (folder.segment_path(segments[moved]), segments[moved + 1]);
        let is_moved = |at: &&Position| (segments[moved]..next).contains(*at);
        let in_it: Vec<Position> = positions.iter().filter(is_moved).copied().collect();
        let mut into = Vec::new();

        let whole = logs(&disk).reader(LOG).unwrap();
        disk.rename(&path, away).unwrap();
        // One has listed the folder before, one lists it now; one knows nothing of it and lists it again meanwhile.
        let late = logs(&disk).reader(LOG).unwrap();
        let behind = logs(&disk).reader(LOG).unwrap();
        behind.open.borrow_mut().firsts.truncate(1);
        behind.read(*positions.last().unwrap(), &mut into).unwrap();
        let up_to = Durability::at(whole.begins(segments.last()).unwrap());
        let begins = if moved == 0 { Cursor::START } else { whole.begins(segments.get(moved - 1)).unwrap() };
        let mut groups = late.groups(begins, &up_to).unwrap();
        for reader in [&whole, &late, &behind] {
            assert!(reader.read(in_it[0], &mut into).is_err(), "{path:?} is away");
            reader.read(*positions.last().unwrap(), &mut into).unwrap();
        }
        let refused = whole.read(in_it[0], &mut into).unwrap_err().to_string();
        let is_told = |reader: &Reader<FakeDisk>| reader.away().into_iter().map(|(first, _)| first).collect::<Vec<_>>();
        assert_eq!((is_told(&whole), is_told(&late)), (vec![segments[moved]], vec![]), "whoever knew it says so");
        assert!(refused.starts_with(&format!("{}: cannot open", path.display())), "what is away is named: {refused}");

        disk.rename(away, &path).unwrap();
        for reader in [&whole, &late, &behind] {
            for at in &in_it {
                reader.read(*at, &mut into).unwrap();
            }
        }
        assert!(is_told(&whole).is_empty());
        while groups.next_group().unwrap().is_some() {}
        assert_eq!(groups.cursor().position, up_to.position());
    }
}

/// As long as it has the file open, the disk keeps the bytes.
#[test]
fn what_was_forgotten_is_closed_and_what_is_there_stays_open() {
    const FORGETS: Family = Family { retention: Retention::SinceSnapshot, ..FAMILY };
    let disk = FakeDisk::new(1);
    let logs = StepLogs::new(disk.clone(), Path::new("data"), &[FORGETS]);
    let Opened { mut log, .. } = logs.open(LOG, Cursor::START, SMALL).unwrap();
    let mut positions = Vec::new();
    for number in 0..40 {
        while log.ready().is_err() {
            log.step().unwrap();
        }
        let mut group = log.begin_group();
        positions.push(group.append(|buffer| buffer.extend_from_slice(&[number; 2_000])));
        log.submit(group).unwrap();
        while log.step().unwrap() != Step::Idle {}
        log.poll_durable().unwrap();
    }
    let (reader, mut into) = (logs.reader(LOG).unwrap(), Vec::new());
    positions.iter().for_each(|at| reader.read(*at, &mut into).unwrap());
    let open = || reader.open.borrow().files.len();
    let before = open();
    reader.let_go();
    assert!(before > 3 && open() == before, "{before} are there");
    let forgotten = logs.reader(LOG).unwrap().forget_before(positions[20]).unwrap().segments;
    reader.let_go();
    assert!(forgotten > 1 && open() == before - forgotten, "{} of {before} without {forgotten}", open());
    positions[20..].iter().for_each(|at| reader.read(*at, &mut into).unwrap());
    assert_eq!(open(), before - forgotten, "and is not opened again");
}

/// Of a log that forgets, too: what is there again was not forgotten.
#[test]
fn a_segment_of_a_log_that_forgets_is_read_again_when_it_is_back() {
    let family = Family { retention: Retention::SinceSnapshot, ..FAMILY };
    let records: Vec<Vec<u8>> = (0..40).map(|number| vec![number; 3_000]).collect();
    let (disk, positions) = log_of(&records, Options::small(16 * 1024));
    let (folder, away) = (Folder::new(disk.clone(), Path::new("data"), &family, LOG), Path::new("data/away"));
    let segments = folder.list_local().unwrap();
    for moved in [0, 2] {
        let at = *positions.iter().find(|at| **at >= segments[moved]).unwrap();
        let (path, mut into) = (folder.segment_path(segments[moved]), Vec::new());
        let whole = Reader::of(folder.clone()).unwrap();
        disk.rename(&path, away).unwrap();
        let late = Reader::of(folder.clone()).unwrap();
        for reader in [&whole, &late] {
            assert!(reader.read(at, &mut into).is_err());
        }
        disk.rename(away, &path).unwrap();
        for reader in [&whole, &late] {
            reader.read(at, &mut into).unwrap();
        }
    }
}

#[test]
fn a_record_has_a_place_in_a_file_and_so_many_bytes_lie_between_two() {
    let records: Vec<Vec<u8>> = (0..30).map(|number| vec![number; 3_000]).collect();
    let (disk, positions) = log_of(&records, Options::small(16 * 1024));
    let (reader, folder) =
        (logs(&disk).reader(LOG).unwrap(), Folder::new(disk.clone(), Path::new("data"), &FAMILY, LOG));
    let segments = folder.list_local().unwrap();
    for at in &positions {
        let first = *segments.iter().rfind(|first| *first <= at).unwrap();
        assert_eq!(reader.place_of(*at), (folder.segment_text(first), offset_of(first, *at)));
        assert!(reader.is_here(*at).unwrap());
    }
    let (from, to) = (positions[3], positions[20]);
    assert_eq!((reader.bytes_between(from, to), reader.bytes_between(to, from)), (to.0 - from.0, 0));
}

#[test]
fn a_log_has_the_places_behind_its_groups_of_its_own_history_and_no_others() {
    let records: Vec<Vec<u8>> = (0..12).map(|number| vec![number; 3_000]).collect();
    let (disk, _) = log_of(&records, Options::small(16 * 1024));
    let Opened { log, report } = logs(&disk).open(LOG, Cursor::START, Options::small(16 * 1024)).unwrap();
    let (reader, whole) = (log.reader().unwrap(), report.durability());
    let mut groups = reader.groups(Cursor::START, &whole).unwrap();
    let mut places = vec![Cursor::START];
    while groups.next_group().unwrap().is_some() {
        places.push(groups.cursor());
    }
    for place in &places {
        assert!(reader.has_place(*place, &whole).unwrap(), "{place:?}");
        assert!(reader.has_place(*place, &Durability::at(*place)).unwrap(), "all before it is durable: {place:?}");
        let elsewhere = Cursor { sequence: crate::Sequence(place.sequence.0 + 1), ..*place };
        assert!(!reader.has_place(elsewhere, &whole).unwrap());
    }
    for pair in places.windows(2) {
        assert!(!reader.has_place(pair[1], &Durability::at(pair[0])).unwrap(), "it is not durable yet");
    }
}

/// A record's position is no segment's: whoever is told of a file looks for it.
#[test]
fn what_is_missing_is_told_at_a_file_that_was_there() {
    let records: Vec<Vec<u8>> = (0..60).map(|number| vec![number; 700]).collect();
    let (disk, positions) = log_of(&records, SMALL);
    let first = first_segment(&disk);
    disk.remove(&first).unwrap();
    let reader = logs(&disk).reader(LOG).unwrap();
    let Err(JournalError::Damaged { segment, what, .. }) = reader.read(positions[3], &mut Vec::new()) else { panic!() };
    assert_eq!(Path::new(&segment), first);
    assert!(what.starts_with("the segment file is missing"), "{what}");
    let Err(JournalError::Damaged { segment, .. }) = reader.examine(positions[3]) else { panic!() };
    assert_eq!(Path::new(&segment), first);
    assert_eq!(
        reader.place_of(positions[3]),
        ("data/journal/ledger-0".to_owned(), positions[3].0),
        "no name is made up"
    );
}

/// What was found of the damage before is no word about the file as it is now.
#[test]
fn damage_that_was_seen_is_looked_at_again() {
    let records: Vec<Vec<u8>> = (0..9).map(|number| vec![number; 700]).collect();
    let (disk, positions) = log_of(&records, LARGE);
    let segment = first_segment(&disk);
    let whole = disk.contents(&segment).unwrap();
    let (from, to) = (offset_of(Position(0), positions[3]), offset_of(Position(0), positions[5]));
    disk.overwrite(&segment, from, &vec![0; (to - from) as usize]).unwrap();
    let reader = logs(&disk).reader(LOG).unwrap();
    let said = |at: usize| reader.examine(positions[at]).map_err(|error| error.to_string());
    let lost = said(4).unwrap_err();
    assert_eq!((said(4), said(3)), (Err(lost.clone()), Err(lost)), "however often it is asked");
    for sound in [0, 2, 7, 8, 1] {
        assert_eq!(said(sound), Ok(()), "{sound} is before it, or behind");
    }
    assert!(reader.read_right(positions[4], &mut Vec::new()).is_err());
    disk.overwrite(&segment, 0, &whole).unwrap();
    let mut record = Vec::new();
    for at in [4, 3, 7] {
        assert_eq!(said(at), Ok(()));
        reader.read_right(positions[at], &mut record).unwrap();
        assert_eq!(record, records[at]);
    }
}
