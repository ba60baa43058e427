use std::path::{Path, PathBuf};

use super::*;
use crate::disk::Disk;
use crate::disk::{DiskFile, FakeDisk};
use crate::group::{GROUP_HEADER_BYTES, GroupHeader, RECORD_HEADER_BYTES, Seal, decode, seal};
use crate::reader::Reader;
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, offset_of, parse_segment_name, segment_name};
use crate::step::{Step, StepLogs};
use crate::{ChainHash, Family, JournalError, LogId, LogStore, Logs, Opened, Options, Position, Retention, Sequence};

const WHOLE: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };
const FORGETS: Family = Family { number: 2, name: "topics", retention: Retention::SinceSnapshot };
const SMALL: Options = Options::small(16 * 1024);
const HEADER: u64 = SEGMENT_HEADER_BYTES as u64;

fn data() -> &'static Path {
    Path::new("data")
}

fn logs(disk: &FakeDisk) -> StepLogs<FakeDisk> {
    StepLogs::new(disk.clone(), data(), &[WHOLE, FORGETS])
}

fn reader(disk: &FakeDisk, log: LogId) -> Reader<FakeDisk> {
    logs(disk).reader(log).unwrap()
}

/// A log of several sealed segments and some groups in the last one, closed; and how many groups it has.
fn long_log(log: LogId) -> (FakeDisk, u64) {
    let disk = FakeDisk::new(3);
    let Opened { log: mut store, .. } = logs(&disk).open(log, Cursor::START, SMALL).unwrap();
    let groups = 90;
    for number in 0..groups {
        while store.ready().is_err() {
            store.step().unwrap();
            store.poll_durable().unwrap();
        }
        let mut group = store.begin_group();
        for record in 0..1 + number % 9 {
            group.append(|buffer| buffer.extend_from_slice(&vec![number as u8; 40 + record as usize]));
        }
        store.submit(group).unwrap();
        while store.step().unwrap() != Step::Idle {}
        store.poll_durable().unwrap();
    }
    store.close().unwrap();
    assert!(segments(&disk).len() >= 3, "{:?}", segments(&disk));
    (disk, groups)
}

/// The segment files of the only log on the disk, each with its first position.
fn segments(disk: &FakeDisk) -> Vec<(Position, PathBuf)> {
    let name = |path: &PathBuf| parse_segment_name(&path.file_name().unwrap().to_string_lossy());
    disk.files().into_iter().filter_map(|(path, _)| name(&path).map(|first| (first, path))).collect()
}

/// Goes round once, in pieces of `bytes`; what was verified together.
fn round(reader: &impl LogReader, bytes: u64) -> Result<Scrubbed, JournalError> {
    let mut all = Scrubbed { reached: Cursor::START, groups: 0, records: 0, bytes: 0, at_end: false };
    while !all.at_end {
        let piece = reader.scrub(all.reached, bytes)?;
        assert!(piece.at_end || piece.reached.position > all.reached.position, "each piece gets on");
        let Scrubbed { groups, records, bytes, .. } = all;
        all = Scrubbed {
            groups: groups + piece.groups,
            records: records + piece.records,
            bytes: bytes + piece.bytes,
            ..piece
        };
    }
    Ok(all)
}

fn damage_of<T: std::fmt::Debug>(result: Result<T, JournalError>) -> (String, u64, String) {
    match result {
        Err(JournalError::Damaged { segment, offset, what, .. }) => (segment, offset, what),
        other => panic!("expected damage, got {other:?}"),
    }
}

#[test]
fn a_round_verifies_every_group_before_the_last_segment_whatever_its_pieces_are() {
    let log = WHOLE.log(5, 0);
    let (disk, groups) = long_log(log);
    let (last, _) = segments(&disk).pop().unwrap();
    let whole = round(&reader(&disk, log), u64::MAX).unwrap();
    assert_eq!((whole.reached.position, whole.bytes), (last, last.0));
    assert_eq!(whole.records, whole.reached.sequence.0);
    assert!(whole.groups > groups / 2 && whole.groups < groups, "{whole:?}");
    assert_eq!(reader(&disk, log).settled_end().unwrap().sequence(), whole.reached.sequence);
    for bytes in [0, 1, 500, 5000] {
        assert_eq!(round(&reader(&disk, log), bytes).unwrap(), whole, "in pieces of {bytes}");
    }
    let piece = reader(&disk, log).scrub(Cursor::START, 5000).unwrap();
    assert!(!piece.at_end && (5000..5000 + 4096).contains(&piece.bytes), "{piece:?}");
}

#[test]
fn a_log_of_one_segment_has_nothing_to_verify_yet() {
    let (disk, log) = (FakeDisk::new(1), WHOLE.log(5, 0));
    logs(&disk).create(log).unwrap();
    let nothing = Scrubbed { reached: Cursor::START, groups: 0, records: 0, bytes: 0, at_end: true };
    assert_eq!(round(&reader(&disk, log), 1000).unwrap(), nothing);
    // A place in the last segment is at the end of what can be verified, too.
    let (disk, _) = long_log(log);
    let end = logs(&disk).inspect(log, Cursor::START).unwrap().end;
    let at_end = reader(&disk, log).scrub(end, 1000).unwrap();
    assert!(at_end.at_end && at_end.groups == 0 && at_end.reached == end, "{at_end:?}");
}

#[test]
fn a_flipped_bit_anywhere_before_the_last_segment_is_named_and_one_in_it_is_not_looked_for() {
    let log = WHOLE.log(5, 0);
    let (disk, _) = long_log(log);
    let segments = segments(&disk);
    let (last, last_path) = segments.last().unwrap();
    for (pair, at) in
        segments.windows(2).flat_map(|pair| (0..(pair[1].0.0 - pair[0].0.0)).step_by(97).map(move |at| (pair, at)))
    {
        let (first, path) = &pair[0];
        assert!(disk.flip_bit(path, HEADER + at, (at % 8) as u8));
        let (named, offset, what) = damage_of(round(&reader(&disk, log), 3000));
        assert!(named.ends_with(&segment_name(*first)), "{what}: {named}");
        assert!(offset <= HEADER + at && HEADER + at < offset + 4096, "flipped {at}, reported {offset}: {what}");
        assert!(disk.flip_bit(path, HEADER + at, (at % 8) as u8));
    }
    disk.flip_bit(last_path, HEADER + 200, 1);
    assert_eq!(round(&reader(&disk, log), 3000).unwrap().reached.position, *last);
}

#[test]
fn a_group_that_was_exchanged_at_the_end_of_a_segment_is_not_the_one_from_which_the_log_went_on() {
    let log = WHOLE.log(5, 0);
    let (disk, _) = long_log(log);
    let all = segments(&disk);
    let (first, path) = &all[all.len() - 2];
    let image = disk.contents(path).unwrap();
    let mut at = SEGMENT_HEADER_BYTES;
    let mut last = None;
    while let Ok(group) = decode(&image[at..]) {
        last = Some((at, group.header, group.body.to_vec()));
        at += group.header.total_bytes();
    }
    let (at, header, mut body) = last.unwrap();
    body[RECORD_HEADER_BYTES + 5] ^= 1;
    let before =
        Cursor { position: header.base, sequence: Sequence(header.first_sequence.0 - 1), chain: header.previous };
    let mut forged = Vec::new();
    seal(
        Seal { log, before, synced_up_to: header.synced_up_to, record_count: header.record_count },
        &body,
        &mut forged,
    );
    disk.overwrite(path, at as u64, &forged).unwrap();
    let (named, offset, what) = damage_of(round(&reader(&disk, log), 3000));
    assert!(named.ends_with(&segment_name(*first)), "{named}");
    assert_eq!(offset, at as u64);
    assert!(what.starts_with("the group there was exchanged"), "{what}");
}

#[test]
fn a_checksum_that_never_matched_its_record_is_found_although_the_chain_covers_it() {
    let (disk, log) = (FakeDisk::new(1), WHOLE.log(5, 0));
    let folder = data().join("journal/ledger-0");
    let mut image = Vec::new();
    let mut body = vec![0; RECORD_HEADER_BYTES + 30];
    body[0] = 30;
    seal(Seal { log, before: Cursor::START, synced_up_to: Position(0), record_count: 1 }, &body, &mut image);
    image[GROUP_HEADER_BYTES + 4] ^= 1;
    let mut header = GroupHeader::decode(&image).unwrap();
    let hashed = blake3::Hasher::new().update(&image[..80]).update(&image[GROUP_HEADER_BYTES..]).finalize();
    header.chain = ChainHash(*hashed.as_bytes());
    image[..GROUP_HEADER_BYTES].copy_from_slice(&header.encode());
    assert!(decode(&image).is_ok(), "the chain hash is that of these bytes");

    disk.create_dir_all(&folder).unwrap();
    for (place, groups) in [(Cursor::START, &image[..]), (header.end(), &[][..])] {
        let file = disk_file(&disk, &folder.join(segment_name(place.position)));
        file.write_all_at(&SegmentHeader { log, first: place }.encode(), 0).unwrap();
        file.write_all_at(groups, HEADER).unwrap();
    }
    let reader = reader(&disk, log);
    let mut groups = reader.groups(Cursor::START, &reader.settled_end().unwrap()).unwrap();
    assert!(groups.next_group().unwrap().is_some());
    let (_, offset, what) = damage_of(reader.scrub(Cursor::START, 1));
    assert_eq!(offset, offset_of(Position(0), Position(GROUP_HEADER_BYTES as u64)));
    assert_eq!(what, "record 1 at position 120 does not match its checksum");
}

fn disk_file(disk: &FakeDisk, path: &Path) -> impl DiskFile {
    disk.create_new(path).unwrap()
}

#[test]
fn what_was_forgotten_is_passed_over_and_what_is_missing_is_damage() {
    let log = FORGETS.log(5, 0);
    let (disk, _) = long_log(log);
    let whole = round(&reader(&disk, log), 3000).unwrap();
    let all = segments(&disk);
    let halfway = reader(&disk, log).scrub(Cursor::START, 2000).unwrap().reached;
    reader(&disk, log).forget_before(all[1].0).unwrap();
    for from in [Cursor::START, halfway] {
        let rest = reader(&disk, log).scrub(from, u64::MAX).unwrap();
        assert_eq!(rest.reached, whole.reached);
        assert_eq!(rest.bytes, whole.bytes - all[1].0.0);
        assert!(rest.at_end && rest.groups < whole.groups);
    }
    disk.remove(&all[1].1).unwrap();
    // What is left looks as if more had been forgotten; for a log that is whole for ever, it does not.
    assert!(reader(&disk, log).scrub(Cursor::START, u64::MAX).unwrap().at_end);
    let log = WHOLE.log(5, 0);
    let (disk, _) = long_log(log);
    disk.remove(&segments(&disk)[0].1).unwrap();
    let (named, _, what) = damage_of(reader(&disk, log).scrub(Cursor::START, u64::MAX));
    assert!(named.ends_with(&format!("/{}", segment_name(Position(0)))), "its path is named: {named}");
    assert!(what.starts_with("the segment file is missing"), "{what}");
}

#[test]
fn a_place_of_another_history_is_refused() {
    let log = WHOLE.log(5, 0);
    let (disk, _) = long_log(log);
    let reader = reader(&disk, log);
    let place = reader.scrub(Cursor::START, 2000).unwrap().reached;
    let other = Cursor { chain: ChainHash([1; 32]), ..place };
    assert!(matches!(reader.scrub(other, 2000), Err(JournalError::BadCursor { .. })));
    assert!(reader.scrub(place, 2000).is_ok());
}
