//! Backups and restores of logs that forget, of logs whose records rest on each other, and of logs whose time was
//! mended, with a machine that only lists numbers.

#![allow(missing_docs)]

mod chance;
mod interrupted;
mod mends;
mod notes;
mod unrestorable;

use std::fs;
use std::path::{Path, PathBuf};

use tidegate_backup::{At, Moment, Reread, Restored, Taken, restore, take, verify};
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, LocalLog, LogId, LogStore, Position};
use tidegate_shard::{ShardFamily, Snapshots, compact};

use notes::{Forgets, KNOWN, Note, Whole, logs, note, open, restored, served, taken, wanted, write, write_groups};

#[test]
fn a_log_that_forgot_is_restored_from_its_snapshot_and_goes_on_forgetting() {
    let root = tempfile::tempdir().expect("a folder");
    let (data, backups) = (root.path().join("data"), root.path().join("backups"));
    let directory = Directory::open_or_create(&data, &wanted(), 1).expect("it is made");
    let id = directory.logs(Forgets::FAMILY).next().expect("a log");
    let snapshots = Snapshots::<Forgets, _>::new(RealDisk, &data, id);
    let mut log = open(&data, id, Cursor::START);
    let mut number = 0;
    let mut write_some = |log: &mut LocalLog<RealDisk>| {
        let notes: Vec<Note> = (0..400).map(|nth| note(number + nth, 1_000 + u64::from(number + nth))).collect();
        number += 400;
        write_groups(log, &notes, 40);
        number
    };
    for _ in 0..4 {
        write_some(&mut log);
        let reader = log.reader().expect("it is there");
        compact(&snapshots, &reader, 1, Forgets::COMPACTION, || true).expect("it is compacted");
    }
    let written = write_some(&mut log);
    let begins = logs(&data).files(id).segments().expect("they are listed")[0];
    assert!(begins > Position(0), "it has forgotten its beginning");
    taken(&data, &backups, Reread::Open, 5_000_000);
    write_some(&mut log);
    log.close().expect("it ends in order");
    drop(directory);

    let copy = root.path().join("copy");
    let Restored { logs: told, .. } = restored(&backups, &copy, &At::End);
    assert_eq!(told.iter().find(|log| log.name == "notes-0").expect("it is told").end.0, u64::from(written));
    drop(Directory::open_or_create(&copy, &wanted(), 1).expect("it is a data directory"));
    assert_eq!(served::<Forgets>(&copy, id), (0..written).collect::<Vec<_>>());
    // It goes on: writes, forgets, and is backed up itself.
    let snapshots = Snapshots::<Forgets, _>::new(RealDisk, &copy, id);
    let since = snapshots.newest_first().expect("they are listed").next().expect("one").expect("good").0.cursor;
    let mut log = open(&copy, id, since);
    let more: Vec<Note> = (written..written + 700).map(|number| note(number, 9_100_000)).collect();
    for notes in more.chunks(350) {
        write_groups(&mut log, notes, 35);
        let reader = log.reader().expect("it is there");
        compact(&snapshots, &reader, 1, Forgets::COMPACTION, || true).expect("it is compacted");
    }
    log.close().expect("it ends in order");
    assert!(logs(&copy).files(id).segments().expect("they are listed")[0] > begins, "it forgot more");
    assert_eq!(served::<Forgets>(&copy, id), (0..written + 700).collect::<Vec<_>>());
    let others = root.path().join("others");
    taken(&copy, &others, Reread::Open, 9_500_000);
    let again = root.path().join("again");
    restored(&others, &again, &At::End);
    drop(Directory::open_or_create(&again, &wanted(), 1).expect("it is a data directory"));
    assert_eq!(served::<Forgets>(&again, id), (0..written + 700).collect::<Vec<_>>());

    // A time before its snapshot cannot be had: it ends at the snapshot, and no record behind it is there.
    let early = root.path().join("early");
    let told = restored(&backups, &early, &At::Time(Moment(1_010))).logs;
    let told = told.iter().find(|log| log.name == "notes-0").expect("it is told");
    assert!(told.ends_at_snapshot, "{told:?}");
    drop(Directory::open_or_create(&early, &wanted(), 1).expect("it is a data directory"));
    let of_snapshot = served::<Forgets>(&early, id);
    assert!(of_snapshot.len() > 11 && of_snapshot.len() < written as usize, "{}", of_snapshot.len());
}

#[test]
fn a_restore_at_a_time_keeps_of_each_shard_what_was_told_by_then_and_what_that_rests_on() {
    let root = tempfile::tempdir().expect("a folder");
    let (data, backups) = (root.path().join("data"), root.path().join("backups"));
    let directory = Directory::open_or_create(&data, &wanted(), 1).expect("it is made");
    let ids: Vec<LogId> = directory.logs(Whole::FAMILY).collect();
    let (mut one, mut two) = (open(&data, ids[0], Cursor::START), open(&data, ids[1], Cursor::START));
    // The clock of the first shard is 15 ms ahead of that of the second one.
    let places = write(&mut one, &(0..10).map(|nth| note(nth, 1_015 + 10 * u64::from(nth))).collect::<Vec<_>>());
    let notes: Vec<Note> = (0..10).map(|nth| note(nth, 1_000 + 10 * u64::from(nth))).collect();
    write(&mut two, &notes[..5]);
    write(&mut two, &[Note { rests_on: Some((0, places[5].0)), ..notes[5] }]);
    write(&mut two, &notes[6..]);
    taken(&data, &backups, Reread::Open, 5_000);
    one.close().expect("it ends in order");
    two.close().expect("it ends in order");
    drop(directory);

    for (at, expected) in [
        (1_045, [(4, 0), (5, 0)]),
        // The sixth note of the second shard rests on one of the first that was told later, by its clock.
        (1_050, [(6, 2), (6, 0)]),
        (1_065, [(6, 0), (7, 0)]),
        // Nothing of the first shard by then, and one note of the second.
        (1_005, [(0, 0), (1, 0)]),
    ] {
        let copy = root.path().join(format!("at-{at}"));
        let told = restored(&backups, &copy, &At::Time(Moment(at))).logs;
        let told: Vec<_> = told[..2].iter().map(|log| (log.end.0, log.moved_forward)).collect();
        assert_eq!(told, expected, "at {at}");
        drop(Directory::open_or_create(&copy, &wanted(), 1).expect("it is a data directory"));
        for (id, (end, _)) in ids.iter().zip(expected) {
            assert_eq!(served::<Whole>(&copy, *id), (0..end as u32).collect::<Vec<_>>(), "at {at}");
        }
    } // Before all of them there is nothing to restore, and a directory that is empty would be taken for the ledger.
    for (at, words) in [
        ("1970-01-01T00:00:00.999Z", "1970-01-01T00:00:00.999Z is before the history begins"),
        (
            "0:0,1:0",
            "whole-0: sequence 1 (1970-01-01T00:00:01.015Z) to 10 (1970-01-01T00:00:01.105Z); whole-1: sequence",
        ),
    ] {
        let (copy, at) = (root.path().join("early"), at.parse::<At>().expect("it is a place"));
        let refused = restore(&backups, &copy, None, &at, &KNOWN, Moment(9_000_000), &mut |_, _| {});
        let refused = refused.expect_err("there is nothing").to_string();
        assert!(refused.contains(words) && !copy.exists(), "{refused}");
    }
}

#[test]
fn a_damaged_key_is_not_taken_for_a_backup_of_it_and_not_restored() {
    let root = tempfile::tempdir().expect("a folder");
    let (data, backups, copy) = (root.path().join("data"), root.path().join("backups"), root.path().join("copy"));
    drop(Directory::open_or_create(&data, &wanted(), 1).expect("it is made"));
    let key = data.join("KEY");
    let good = fs::read(&key).expect("it is there");
    rot(&key);
    let take_at = |now| take(&data, &backups, Reread::Open, &KNOWN, Moment(now), &mut |_, _| {});
    let refused = take_at(5_000_000).expect_err("it would not start").to_string();
    assert!(refused.contains("KEY: cannot read: it is damaged: its checksum does not match"), "{refused}");
    assert!(!backups.exists(), "what is refused makes nothing");
    // Missing while there are snapshots: the same.
    fs::remove_file(&key).expect("it was there");
    let snapshot = data.join("snapshots/notes-0/snapshot-00000000000000000001.tgs");
    fs::create_dir_all(snapshot.parent().expect("it is in a folder")).expect("it is made");
    fs::write(&snapshot, "any").expect("it is written");
    let refused = take_at(5_000_000).expect_err("it would not start").to_string();
    assert!(refused.contains("no file KEY") && !backups.exists(), "{refused}");
    fs::write(&key, &good).expect("it is put back");
    fs::remove_file(&snapshot).expect("it was there");

    // A backup of an earlier build: a damaged key, with the hash of what was copied.
    let taken = take_at(5_000_000).expect("all is well");
    assert_eq!(problems(&backups), Vec::<String>::new());
    let (copied, manifest) = (taken.folder.join("KEY"), taken.folder.join("MANIFEST"));
    rot(&copied);
    let text = fs::read_to_string(&manifest).expect("it is text");
    let (was, is) = (blake3::hash(&good), blake3::hash(&fs::read(&copied).expect("it is there")));
    let (lines, _) = text.split_once("checksum = ").expect("its last line");
    let lines = lines.replace(&was.to_hex()[..], &is.to_hex());
    fs::write(&manifest, format!("{lines}checksum = {}\n", blake3::hash(lines.as_bytes()))).expect("it is written");
    let found = problems(&backups);
    assert!(found.len() == 1 && found[0].contains("KEY: its checksum does not match; a directory"), "{found:?}");
    let refused = restore(&backups, &copy, None, &At::End, &KNOWN, Moment(9_000_000), &mut |_, _| {});
    let refused = refused.expect_err("it would not start").to_string();
    assert!(refused.contains("would not start: use another backup") && !copy.exists(), "{refused}");
}

/// What is wrong with backups, in words.
fn problems(backups: &Path) -> Vec<String> {
    verify(backups, &KNOWN, &mut |_, _| {}).expect("it is a directory of backups").problems
}

fn rot(path: &Path) {
    let mut bytes = fs::read(path).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).expect("it can be written");
}

/// The segments that backups have of a log.
fn copied_segments(backups: &Path, log: &str) -> Vec<PathBuf> {
    let listed = fs::read_dir(backups.join("journal").join(log)).expect("it has the log").flatten();
    let mut paths: Vec<_> = listed.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[test]
fn a_backup_copies_anew_what_has_rotted_of_older_ones_and_says_so() {
    let root = tempfile::tempdir().expect("a folder");
    let (data, backups) = (root.path().join("data"), root.path().join("backups"));
    let directory = Directory::open_or_create(&data, &wanted(), 1).expect("it is made");
    let id = directory.logs(Whole::FAMILY).next().expect("a log");
    let mut log = open(&data, id, Cursor::START);
    let mut write_some = |first: u32| {
        let notes: Vec<Note> = (first..first + 400).map(|number| note(number, 1_000 + u64::from(number))).collect();
        write_groups(&mut log, &notes, 10);
    };
    (0..5).for_each(|nth| write_some(400 * nth));
    taken(&data, &backups, Reread::Open, 5_000);
    let paths = copied_segments(&backups, "whole-0");
    let (sealed, open) = (&paths[0], paths.last().expect("it has some"));
    assert!(paths.len() > 1, "{paths:?}");
    let is_said = |taken: &Taken, path: &Path, what: &str| {
        let path = path.display().to_string();
        assert!(taken.remarks.iter().any(|said| said.starts_with(&path) && said.contains(what)), "{:?}", taken.remarks);
        assert!(problems(&backups).is_empty(), "{:?}", problems(&backups));
    };

    // The one that was written: what a later backup stands on, and what it continues.
    rot(open);
    assert_eq!(problems(&backups).len(), 1);
    is_said(&taken(&data, &backups, Reread::Open, 6_000), open, "bytes were not what was copied; it was copied anew");
    rot(open);
    write_some(2_000);
    is_said(&taken(&data, &backups, Reread::Open, 7_000), open, "bytes were not what was copied; it was copied anew");
    // A sealed one is read only if that is asked for; that it is short or gone is seen by each.
    rot(sealed);
    assert_eq!(taken(&data, &backups, Reread::Open, 8_000).remarks, Vec::<String>::new());
    is_said(&taken(&data, &backups, Reread::All, 9_000), sealed, "bytes were not what was copied; it was copied anew");
    fs::File::options().write(true).open(sealed).and_then(|file| file.set_len(4_200)).expect("it can be cut");
    is_said(&taken(&data, &backups, Reread::Open, 10_000), sealed, "it has 4200 bytes, and backups need");
    fs::remove_file(sealed).expect("it can be removed");
    is_said(&taken(&data, &backups, Reread::Open, 11_000), sealed, "cannot open it: No such file");
    // Of a backup without its manifest nothing is left; the others are built on.
    let first = backups.join("backups/19700101T000005.000Z/MANIFEST");
    rot(&first);
    let remarks = taken(&data, &backups, Reread::Open, 12_000).remarks;
    assert!(
        remarks.len() == 1 && remarks[0].contains("That backup cannot be restored: remove its folder"),
        "{remarks:?}"
    );
    fs::remove_file(&first).expect("it can be removed");
    let missing = "MANIFEST: it is missing, so nobody can tell what this backup has; use another backup, or remove";
    let problems = problems(&backups);
    assert!(problems.iter().any(|problem| problem.contains(missing)), "{problems:?}");
    let remarks = taken(&data, &backups, Reread::Open, 13_000).remarks;
    assert!(remarks.len() == 1 && remarks[0].contains("it is missing"), "{remarks:?}");
    fs::remove_dir_all(first.parent().expect("its folder")).expect("it can be removed");
    log.close().expect("it ends in order");
    drop(directory);

    let copy = root.path().join("copy");
    restored(&backups, &copy, &At::End);
    drop(Directory::open_or_create(&copy, &wanted(), 1).expect("it is a data directory"));
    assert_eq!(served::<Whole>(&copy, id), (0..2_400).collect::<Vec<_>>());
}

/// All backups of a directory share the copy of a segment: where one byte of it has changed, they can be restored.
#[test]
fn a_wrong_byte_of_a_copy_is_right_in_what_is_restored_and_two_are_refused() {
    let root = tempfile::tempdir().expect("a folder");
    let (data, backups) = (root.path().join("data"), root.path().join("backups"));
    let directory = Directory::open_or_create(&data, &wanted(), 1).expect("it is made");
    let id = directory.logs(Whole::FAMILY).next().expect("a log");
    let mut log = open(&data, id, Cursor::START);
    let notes: Vec<Note> = (0..2_000).map(|number| note(number, 1_000 + u64::from(number))).collect();
    write_groups(&mut log, &notes, 10);
    taken(&data, &backups, Reread::Open, 5_000);
    log.close().expect("it ends in order");
    drop(directory);
    fs::remove_dir_all(&data).expect("it is lost");
    let paths = copied_segments(&backups, "whole-0");
    assert!(paths.len() > 1, "{paths:?}");
    // In a sealed segment, and in the one that was written.
    for (nth, path) in [&paths[0], paths.last().expect("it has some")].into_iter().enumerate() {
        let sound = fs::read(path).expect("it is there");
        rot(path);
        let copy = root.path().join(format!("copy-{nth}"));
        let at = At::Time(Moment(4_000));
        let restored = restore(&backups, &copy, None, &at, &KNOWN, Moment(9_000_000), &mut |_, _| {});
        assert_eq!(restored.expect("it can be restored").put_right, 1, "{}", path.display());
        drop(Directory::open_or_create(&copy, &wanted(), 1).expect("it is a data directory"));
        assert_eq!(served::<Whole>(&copy, id), (0..2_000).collect::<Vec<_>>());

        let mut bytes = fs::read(path).expect("it is there");
        let middle = bytes.len() / 2;
        bytes[middle + 1] ^= 1;
        fs::write(path, bytes).expect("it can be written");
        let copy = root.path().join(format!("two-{nth}"));
        let refused = restore(&backups, &copy, None, &At::End, &KNOWN, Moment(9_000_000), &mut |_, _| {});
        let refused = refused.expect_err("two bytes are not put right").to_string();
        assert!(refused.contains(&path.display().to_string()), "{refused}");
        fs::write(path, sound).expect("it can be written");
    }
}

#[test]
fn damage_of_the_data_is_not_called_another_timeline() {
    let root = tempfile::tempdir().expect("a folder");
    let (data, backups) = (root.path().join("data"), root.path().join("backups"));
    let directory = Directory::open_or_create(&data, &wanted(), 1).expect("it is made");
    let id = directory.logs(Whole::FAMILY).next().expect("a log");
    let mut log = open(&data, id, Cursor::START);
    write_groups(&mut log, &(0..100).map(|number| note(number, 1_000)).collect::<Vec<_>>(), 10);
    taken(&data, &backups, Reread::Open, 5_000);
    write_groups(&mut log, &(100..900).map(|number| note(number, 1_000)).collect::<Vec<_>>(), 10);
    log.close().expect("it ends in order");
    let segment = logs(&data).files(id).path(Position(0));
    let mut bytes = fs::read(&segment).expect("it is there");
    let of_first_backup = fs::metadata(&copied_segments(&backups, "whole-0")[0]).expect("it is there").len() as usize;
    bytes[of_first_backup - 300] ^= 1;
    fs::write(&segment, bytes).expect("it can be written");
    let refused = take(&data, &backups, Reread::Open, &KNOWN, Moment(6_000), &mut |_, _| {});
    let refused = refused.expect_err("it is damaged").to_string();
    assert!(refused.contains(&segment.display().to_string()) && refused.contains("damaged at offset"), "{refused}");
}

#[test]
fn what_was_restored_is_not_backed_up_among_the_backups_of_what_goes_on() {
    let root = tempfile::tempdir().expect("a folder");
    let [data, backups, copy, others] = ["data", "backups", "copy", "others"].map(|name| root.path().join(name));
    let directory = Directory::open_or_create(&data, &wanted(), 1).expect("it is made");
    let id = directory.logs(Whole::FAMILY).next().expect("a log");
    let mut log = open(&data, id, Cursor::START);
    let some = |from: u32| (from..from + 100).map(|number| note(number, 1_000)).collect::<Vec<_>>();
    write_groups(&mut log, &some(0), 10);
    taken(&data, &backups, Reread::Open, 5_000);
    restored(&backups, &copy, &At::End);
    let mut restored_log = open(&copy, id, Cursor::START);
    write_groups(&mut restored_log, &some(100), 10);
    restored_log.close().expect("it ends in order");
    let refused = take(&copy, &backups, Reread::Open, &KNOWN, Moment(6_000), &mut |_, _| {});
    let refused = refused.expect_err("two histories").to_string();
    assert!(refused.contains("this data directory was restored of a backup in "), "{refused}");
    // It has its own, and the other one goes on.
    taken(&copy, &others, Reread::Open, 6_000);
    taken(&copy, &others, Reread::Open, 7_000);
    write_groups(&mut log, &some(100), 10);
    assert_eq!(taken(&data, &backups, Reread::Open, 8_000).remarks, Vec::<String>::new());
    log.close().expect("it ends in order");
}

/// All files below a folder, with what is in them.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("it is there").flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(contents(&path)),
            path => found.push((path.clone(), fs::read(&path).expect("it can be read"))),
        }
    }
    found.sort();
    found
}

#[test]
fn a_log_whose_newest_segment_has_lost_all_its_groups_is_not_taken_for_a_shorter_one() {
    let damages: [fn(&mut Vec<u8>); 4] =
        [Vec::clear, |bytes| bytes.truncate(20), |bytes| bytes.truncate(4_000), |bytes| bytes.fill(0)];
    // One segment, and several; and a log that may forget.
    for (family, count) in [(Whole::FAMILY, 100), (Whole::FAMILY, 2_000), (Forgets::FAMILY, 100)] {
        let root = tempfile::tempdir().expect("a folder");
        let (data, backups) = (root.path().join("data"), root.path().join("backups"));
        let directory = Directory::open_or_create(&data, &wanted(), 1).expect("it is made");
        let id = directory.logs(family).next().expect("a log");
        let mut log = open(&data, id, Cursor::START);
        write_groups(&mut log, &(0..count).map(|number| note(number, 1_000)).collect::<Vec<_>>(), 10);
        log.close().expect("it ends in order");
        drop(directory);
        taken(&data, &backups, Reread::Open, 5_000);
        let files = logs(&data).files(id);
        let segments = files.segments().expect("they are listed");
        assert_eq!(segments.len() > 1, count > 1_000);
        let newest = files.path(*segments.last().expect("it has one"));
        let (whole, before) = (fs::read(&newest).expect("it is there"), contents(&backups));
        for damage in damages {
            let mut bytes = whole.clone();
            damage(&mut bytes);
            fs::write(&newest, bytes).expect("it can be written");
            let none = root.path().join("none");
            for to in [&backups, &none] {
                let refused = take(&data, to, Reread::Open, &KNOWN, Moment(6_000), &mut |_, _| {});
                let refused = refused.expect_err("records are lost").to_string();
                assert!(refused.contains(&newest.display().to_string()), "{refused}");
            }
            assert!(contents(&backups) == before, "the older backup is as it was");
            assert!(!none.exists(), "nothing is made");
        }
        let copy = root.path().join("copy");
        restored(&backups, &copy, &At::End);
        assert!(logs(&copy).files(id).tail(Cursor::START).is_ok_and(|tail| tail.end.sequence.0 == u64::from(count)));
    }
}

#[test]
fn an_empty_log_whose_header_has_rotted_is_copied_when_a_start_has_written_it_again() {
    let root = tempfile::tempdir().expect("a folder");
    let (data, backups) = (root.path().join("data"), root.path().join("backups"));
    let directory = Directory::open_or_create(&data, &wanted(), 1).expect("it is made");
    let ids: Vec<LogId> = directory.logs(Whole::FAMILY).chain(directory.logs(Forgets::FAMILY)).collect();
    for id in &ids {
        open(&data, *id, Cursor::START).close().expect("it ends in order");
        let path = logs(&data).files(*id).path(Position(0));
        let mut bytes = fs::read(&path).expect("it is there");
        bytes[9] ^= 16;
        fs::write(&path, bytes).expect("it can be written");
    }
    drop(directory);
    let refused = take(&data, &backups, Reread::Open, &KNOWN, Moment(5_000), &mut |_, _| {});
    let refused = refused.expect_err("it could not be restored").to_string();
    assert!(refused.contains("a start writes it again") && !backups.exists(), "{refused}");
    for id in &ids {
        open(&data, *id, Cursor::START).close().expect("it ends in order");
    }
    taken(&data, &backups, Reread::Open, 6_000);
    assert!(problems(&backups).is_empty(), "{:?}", problems(&backups));
    let copy = root.path().join("copy");
    restored(&backups, &copy, &At::End);
    drop(Directory::open_or_create(&copy, &wanted(), 1).expect("it is a data directory"));
    for id in &ids {
        assert_eq!(open(&copy, *id, Cursor::START).close().expect("it ends in order").0, 0);
    }
}
