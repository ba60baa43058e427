//! Over logs of several segments of [`crate::notes`], with damage in one or two of them.

use std::path::{Path, PathBuf};

use tidegate_disk::FakeDisk;
use tidegate_journal::{ChainHash, Family, LogReader, Logs, Position, Retention, StepLogs};

use super::*;
use crate::compact::CompactionRule;
use crate::notes::{NOTES, Notes, NotesFamily, UNKNOWN_BEFORE, id, logs, notice, snapshots, write};

/// A log of several segments, with two snapshots and a notice.
fn log() -> (FakeDisk, Vec<u8>) {
    let (disk, mut numbers) = (FakeDisk::new(1), Vec::new());
    for number in 0..30 {
        write(&disk, &[number; 150]);
        numbers.extend([number; 150]);
        if number == 3 || number == 20 {
            snapshot(&disk, end(&disk), &numbers);
        }
    }
    notice(&disk, 7);
    assert!(segments(&disk).len() >= 4, "{:?}", segments(&disk));
    (disk, numbers)
}

fn end(disk: &FakeDisk) -> Cursor {
    logs(disk).inspect(id(), Cursor::START).expect("it is whole").end
}

fn snapshot(disk: &FakeDisk, cursor: Cursor, numbers: &[u8]) {
    let stand = Stand { cursor, ..Stand::default() };
    snapshots(disk).write(&stand, &Notes(numbers.to_vec()), |_| Ok(true)).expect("there is room");
}

fn segments(disk: &FakeDisk) -> Vec<PathBuf> {
    let files = disk.files().into_iter().map(|(path, _)| path);
    files.filter(|path| path.to_string_lossy().contains("/segment-")).collect()
}

/// Changes a record of this segment, in its middle.
fn harm(disk: &FakeDisk, segment: usize) -> PathBuf {
    let path = segments(disk)[segment].clone();
    assert!(disk.flip_bit(&path, 9_000, 1));
    path
}

fn audited(disk: &FakeDisk) -> Result<Findings<Notes>, OpenError> {
    audit::<NotesFamily, _, _>(&logs(disk), &snapshots(disk), 1, |_, _| {})
}

/// How many of the problems are of each of these files.
fn named(problems: &[String], files: &[PathBuf]) -> Vec<usize> {
    let of = |file: &PathBuf| problems.iter().filter(|problem| problem.contains(&*file.to_string_lossy())).count();
    files.iter().map(of).collect()
}

#[test]
fn a_whole_log_is_folded_and_all_its_snapshots_are_compared() {
    let (disk, numbers) = log();
    let mut told = Vec::new();
    let found = audit::<NotesFamily, _, _>(&logs(&disk), &snapshots(&disk), 1, |at, last| told.push((at.0, last.0)));
    let found = found.expect("the log can be opened");
    assert_eq!((&found.problems[..], found.snapshots_compared, found.records), (&[][..], 2, 4_500));
    assert_eq!((found.begins_after, found.notices.len()), (Sequence(0), 1));
    assert_eq!(found.state, Some(Notes(numbers)));
    assert!(told.is_sorted() && told.last() == Some(&(4_500, 4_500)), "{:?}", told.last());
}

#[test]
fn all_damage_is_named_at_once_and_each_only_once() {
    let (disk, _) = log();
    let harmed = [harm(&disk, 1), harm(&disk, 2)];
    let found = audited(&disk).expect("the log can be opened");
    assert_eq!(found.state, None);
    assert_eq!((named(&found.problems, &harmed), found.problems.len()), (vec![1, 1], 2), "{:?}", found.problems);
    assert_eq!(found.snapshots_compared, 1, "the other one stands behind the damage");
}

#[test]
fn a_segment_whose_header_has_rotted_is_a_problem_of_its_own() {
    let newest = segments(&log().0).len() - 1;
    for segment in [1, newest] {
        let (disk, numbers) = log();
        let path = segments(&disk)[segment].clone();
        disk.overwrite(&path, 0, b"rotten").expect("it is there");
        let found = audited(&disk).expect("the log can be opened");
        assert_eq!((named(&found.problems, &[path]), found.problems.len()), (vec![1], 1), "{:?}", found.problems);
        assert_eq!(found.state, Some(Notes(numbers)), "its groups say all themselves");
    }
}

#[test]
fn where_the_end_cannot_be_judged_what_is_before_it_is_verified_all_the_same() {
    let (disk, _) = log();
    let last = segments(&disk).len() - 1;
    write(&disk, &[1; 150]);
    let harmed = [harm(&disk, 1), harm(&disk, 2), segments(&disk)[last].clone()];
    assert!(disk.flip_bit(&harmed[2], 4_096 + 200, 1));
    let refused = audited(&disk).err().expect("the log cannot be opened").to_string();
    for file in &harmed {
        assert!(refused.contains(&*file.to_string_lossy()), "{}: {refused}", file.display());
    }
}

#[test]
fn a_snapshot_that_is_wrong_or_at_no_place_of_the_log_is_a_problem() {
    let (disk, mut numbers) = log();
    let at = end(&disk);
    numbers[7] ^= 1;
    snapshot(&disk, at, &numbers);
    let found = audited(&disk).expect("the log can be opened");
    assert_eq!(found.problems, [format!("the snapshot at sequence {} is not what the log gives", at.sequence)]);
    assert_eq!(found.snapshots_compared, 2);

    let (disk, numbers) = log();
    snapshot(&disk, Cursor { chain: ChainHash([9; 32]), ..end(&disk) }, &numbers);
    let found = audited(&disk).expect("the log can be opened");
    assert_eq!(found.problems, [format!("the snapshot at sequence {} is at no place of this log", at.sequence)]);
}

#[test]
fn a_snapshot_of_an_earlier_program_is_what_that_program_kept() {
    let (disk, mut numbers) = log();
    write(&disk, &[UNKNOWN_BEFORE; 3]);
    snapshot(&disk, end(&disk), &numbers);
    let found = audited(&disk).expect("the log can be opened");
    assert_eq!((found.problems, found.snapshots_compared), (vec![], 2));
    // What it knew is not left out.
    write(&disk, &[7]);
    snapshot(&disk, end(&disk), &numbers);
    numbers.push(7);
    let found = audited(&disk).expect("the log can be opened");
    assert_eq!(found.problems.len(), 1, "{:?}", found.problems);
}

/// The same logs, which forget what a snapshot covers.
struct Forgetting;

impl ShardFamily for Forgetting {
    type Machine = Notes;
    const FAMILY: Family = Family { retention: Retention::SinceSnapshot, ..NOTES };
    const SNAPSHOTS_KEPT: usize = 2;
    const COMPACTION: CompactionRule = NotesFamily::COMPACTION;
}

#[test]
fn a_log_that_has_forgotten_is_folded_from_the_oldest_snapshot_that_it_still_reaches() {
    let (disk, numbers) = log();
    let logs = StepLogs::new(disk.clone(), Path::new("data"), &[Forgetting::FAMILY]);
    let snapshots: Snapshots<Forgetting, FakeDisk> = Snapshots::new(disk.clone(), Path::new("data"), id());
    let newest = snapshots.newest_header(Position(u64::MAX)).expect("it can be read").expect("there are two");
    let reader = logs.reader(id()).expect("it is there");
    assert!(reader.forget_before(newest.cursor.position).expect("the disk works").segments > 0);
    // A power failure brings back the snapshot from before what was forgotten: both are there.
    let found = audit::<Forgetting, _, _>(&logs, &snapshots, 1, |_, _| {}).expect("the log can be opened");
    assert_eq!((found.problems, found.snapshots_compared), (vec![], 1));
    assert_eq!((found.begins_after, found.state.map(|state| state.0)), (newest.cursor.sequence, Some(numbers)));
}
