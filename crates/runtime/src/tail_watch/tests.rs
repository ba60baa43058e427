use std::path::{Path, PathBuf};

use tidegate_journal::disk::{Disk, DiskFile, FakeDisk};
use tidegate_journal::step::StepLogs;
use tidegate_journal::{Family, Logs, Options, Position, Retention};

use super::*;
use crate::damage::Owner;

const WHOLE: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };
const LOG: LogId = LogId { directory: 5, family: 1, shard: 0 };

fn logs(disk: &FakeDisk) -> StepLogs<FakeDisk> {
    StepLogs::new(disk.clone(), Path::new("data"), &[WHOLE])
}

/// A log of several segments, how far it is durable, and the path of the last segment.
fn log() -> (FakeDisk, Durability, PathBuf) {
    let disk = FakeDisk::new(3);
    let records = (0..90).map(|number| vec![number; 400]);
    logs(&disk).write_one_by_one(LOG, Options::small(16 * 1024), records).unwrap();
    let end = logs(&disk).inspect(LOG, Cursor::START).unwrap().durability();
    let folder = Path::new("data/journal/ledger-0");
    let mut names = disk.list(folder).unwrap().into_iter().filter(|name| name.starts_with("segment-"));
    let last = folder.join(names.next_back().unwrap());
    (disk, end, last)
}

/// Offset in the last segment's file of its durable end.
fn end_in(disk: &FakeDisk, end: Durability) -> u64 {
    let begins = logs(disk).reader(LOG).unwrap().begins_at_or_before(end.position()).unwrap();
    tidegate_journal::segment::SEGMENT_HEADER_BYTES as u64 + end.position().0 - begins.position.0
}

/// Damaged places after so many looks of one byte, each of which reads a group.
fn looked(disk: &FakeDisk, end: Durability) -> (Damages, usize) {
    let damages = Damages::default();
    let mut tail = Tail::new("ledger", LOG, logs(disk).reader(LOG).unwrap());
    (0..60).for_each(|_| tail.look(1, end, &damages));
    let found = damages.of(Owner::Log(LOG)).len();
    (damages, found)
}

#[test]
fn durable_bytes_that_were_changed_in_the_last_segment_are_found_in_some_looks() {
    let (disk, end, last) = log();
    assert_eq!(looked(&disk, end).1, 0, "all is sound");
    let (from, to) = (4_096, end_in(&disk, end));
    assert!(to > from + 2_000, "the last segment has several groups");
    for offset in [from, from + 500, to - 1] {
        disk.flip_bit(&last, offset, 1);
        assert_eq!(looked(&disk, end).1, 1, "offset {offset}");
        disk.flip_bit(&last, offset, 1);
    }
    // As if an older copy was laid over it: what follows is written at its place, and zeros are between.
    let file = disk.open(&last).unwrap();
    let mut hole = vec![0; 900];
    file.read_exact_at(&mut hole, from).unwrap();
    file.write_all_at(&[0; 900], from).unwrap();
    let (damages, found) = looked(&disk, end);
    assert_eq!(found, 1);

    // A pass over what is settled does not read it, and says nothing of it.
    let pass = damages.begin_pass();
    damages.mend(Owner::Log(LOG), pass, Position(u64::MAX));
    assert_eq!((damages.of(Owner::Log(LOG)).len(), damages.count()), (1, 1));
    let reader = logs(&disk).reader(LOG).unwrap();
    assert_eq!(damages.look_again(Owner::Log(LOG), &reader), 0);
    file.write_all_at(&hole, from).unwrap();
    assert_eq!(damages.look_again(Owner::Log(LOG), &reader), 1, "it was put right");
    assert_eq!(looked(&disk, end).1, 0);
}

#[test]
fn a_last_segment_that_was_cut_or_removed_is_found() {
    let (disk, end, last) = log();
    disk.open(&last).unwrap().set_len(end_in(&disk, end) - 1).unwrap();
    assert_eq!(looked(&disk, end).1, 1);
    let (disk, end, last) = log();
    disk.remove(&last).unwrap();
    assert_eq!(looked(&disk, end).1, 1);
    // A log that has nothing yet has nothing to be read.
    let disk = FakeDisk::new(4);
    logs(&disk).create(LOG).unwrap();
    let end = logs(&disk).inspect(LOG, Cursor::START).unwrap().durability();
    assert_eq!((end.position(), looked(&disk, end).1), (Position(0), 0));
}
