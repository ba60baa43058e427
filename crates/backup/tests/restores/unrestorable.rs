//! Backups whose bytes are what was copied, and which are no data directory all the same: an earlier build copied them
//! so, or somebody put them together. What `--verify` accepts is restored and served; the rest is named.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate_backup::{At, Moment, Reread, restore};
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, LocalLog, LogId, LogStore};
use tidegate_machines::Machine;
use tidegate_shard::{NothingDerived, OpenShard, ShardFamily, Snapshots, compact};

use crate::notes::{Forgets, KNOWN, Note, SMALL, Whole, logs, note, open, taken, wanted, write, write_groups};
use crate::{contents, copied_segments, problems};

/// A data directory with three logs, and two backups of it.
struct Two {
    root: tempfile::TempDir,
    ids: [LogId; 3],
}

impl Two {
    /// Of logs of several segments, whose records rest on each other.
    fn taken() -> Two {
        let root = tempfile::tempdir().expect("a folder");
        let (data, backups) = (root.path().join("data"), root.path().join("backups"));
        let directory = Directory::open_or_create(&data, &wanted(), 1).expect("it is made");
        let ids: Vec<LogId> = directory.logs(Whole::FAMILY).chain(directory.logs(Forgets::FAMILY)).collect();
        let mut logs: Vec<LocalLog<_>> = ids.iter().map(|id| open(&data, *id, Cursor::START)).collect();
        let snapshots = Snapshots::<Forgets, _>::new(RealDisk, &data, ids[2]);
        for round in 0..3u32 {
            let notes: Vec<Note> = (0..250).map(|nth| note(250 * round + nth, 1_000 + u64::from(nth))).collect();
            let places = write_groups(&mut logs[0], &notes, 25);
            let last = places.last().expect("some were written").0;
            write(&mut logs[1], &[Note { rests_on: Some((0, last)), ..note(round, 2_000) }]);
            write_groups(&mut logs[2], &notes, 25);
            let reader = logs[2].reader().expect("it is there");
            compact(&snapshots, &reader, 1, Forgets::COMPACTION, || true).expect("it is compacted");
            if round > 0 {
                taken(&data, &backups, Reread::Open, 5_000 + u64::from(round));
            }
        }
        for log in logs {
            log.close().expect("it ends in order");
        }
        drop(directory);
        Two { root, ids: ids.try_into().expect("three logs") }
    }

    fn backups(&self) -> PathBuf {
        self.root.path().join("backups")
    }

    /// What refuses to restore a backup of `backups`, or to start on what is restored; none if it is served.
    fn refusal(&self, backups: &Path, name: &str) -> Option<String> {
        let copy = backups.with_extension("copy");
        let restored = restore(backups, &copy, Some(name), &At::End, &KNOWN, Moment(9_000_000), &mut |_, _| {});
        if let Err(refused) = restored {
            assert!(!copy.exists(), "a restore that fails leaves nothing: {refused}");
            return Some(refused.to_string());
        }
        let started = Directory::open_or_create(&copy, &wanted(), 1).map(drop).map_err(|error| error.to_string());
        let served = started
            .and_then(|()| start::<Whole>(&copy, self.ids[0]))
            .and_then(|()| start::<Whole>(&copy, self.ids[1]))
            .and_then(|()| start::<Forgets>(&copy, self.ids[2]));
        fs::remove_dir_all(&copy).expect("it was made");
        served.err()
    }
}

fn start<F: ShardFamily>(data: &Path, id: LogId) -> Result<(), String> {
    let opened = OpenShard::<F, _, _>::open(&logs(data), Snapshots::new(RealDisk, data, id), SMALL);
    let replayed = opened.map_err(|error| error.to_string())?.replay(1, &mut NothingDerived, |_| {});
    let replayed = replayed.map_err(|error| error.to_string())?;
    replayed.state.assert_sound();
    replayed.log.close().map(drop).map_err(|error| error.to_string())
}

fn names(backups: &Path) -> Vec<String> {
    let listed = fs::read_dir(backups.join("backups")).expect("it has backups").flatten();
    let mut names: Vec<String> = listed.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Writes into all manifests what their files are now: as if that had been copied.
fn retell(backups: &Path) {
    for name in names(backups) {
        let folder = backups.join("backups").join(name);
        let text = fs::read_to_string(folder.join("MANIFEST")).expect("it is text");
        retell_as(&folder, &text);
    }
}

fn retell_as(folder: &Path, text: &str) {
    let root = folder.ancestors().nth(2).expect("it is in a directory of backups");
    let (mut told, mut log) = (String::new(), String::new());
    for line in text.lines().filter(|line| !line.starts_with("checksum")) {
        let (key, value) = line.split_once(" = ").unwrap_or((line, ""));
        let mut words: Vec<String> = value.split(' ').map(str::to_owned).collect();
        let mut hash = |path: &Path, at: usize| {
            let Ok(bytes) = fs::read(path) else { return };
            let length = bytes.len().min(words[at].parse().expect("a length"));
            words[at] = length.to_string();
            words[at + 1] = blake3::hash(&bytes[..length]).to_string();
        };
        match key.split_once(' ').unwrap_or((key, "")) {
            ("file", name) => hash(&folder.join(name), 0),
            ("log", name) => log = name.to_owned(),
            ("snapshot", _) => hash(&folder.join(format!("{log}.tgs")), 0),
            ("segment", first) => {
                let first: u64 = first.parse().expect("a position");
                hash(&root.join("journal").join(&log).join(format!("segment-{first:020}.tgj")), 1);
            }
            _ => {}
        }
        told += &if value.is_empty() { format!("{line}\n") } else { format!("{key} = {}\n", words.join(" ")) };
    }
    let told = format!("{told}checksum = {}\n", blake3::hash(told.as_bytes()));
    fs::write(folder.join("MANIFEST"), told).expect("it is written");
}

fn copy_of(from: &Path, to: &Path) {
    for (path, bytes) in contents(from) {
        let path = to.join(path.strip_prefix(from).expect("it is in there"));
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("it is made");
        fs::write(path, bytes).expect("it is written");
    }
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("it is there");
    bytes[at] ^= 0x10;
    fs::write(path, bytes).expect("it is written");
}

#[test]
fn what_cannot_be_restored_although_it_is_what_was_copied_is_named_by_verify_with_what_to_do() {
    let two = Two::taken();
    assert_eq!(problems(&two.backups()), Vec::<String>::new());
    let (newest, whole) = ("backups/19700101T000005.002Z", "journal/whole-0/segment-00000000000000000000.tgj");
    let notes = copied_segments(&two.backups(), "notes-0").pop().expect("it has one");
    let notes = notes.strip_prefix(two.backups()).expect("it is in there").display().to_string();
    let zero = |path: &Path| {
        let mut bytes = fs::read(path).expect("it is there");
        bytes[..12_288].fill(0);
        fs::write(path, bytes).expect("it is written");
    };
    // Without the lines that a filter refuses.
    let filter = |root: &Path, keeps: &mut dyn FnMut(&str) -> bool| {
        let folder = root.join(newest);
        let text = fs::read_to_string(folder.join("MANIFEST")).expect("it is text");
        let kept: Vec<&str> = text.lines().filter(|line| keeps(line)).collect();
        retell_as(&folder, &(kept.join("\n") + "\n"));
    };
    type Tamper<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, Tamper<'_>); 7] = [
        // Its header and its first groups are gone.
        (whole, &|root| zero(&root.join(whole))),
        // Of one byte it would follow what it was.
        (&notes, &|root| {
            flip(&root.join(&notes), 5_000);
            flip(&root.join(&notes), 5_001);
        }),
        ("its file DIRECTORY is damaged", &|root| flip(&root.join(newest).join("DIRECTORY"), 60)),
        ("notes-0.tgs: its hash does not verify with the KEY", &|root| {
            flip(&root.join(newest).join("notes-0.tgs"), 200);
        }),
        ("its file DIRECTORY lists whole-1", &|root| {
            let mut is_of_it = false;
            filter(root, &mut |line| {
                is_of_it = if line.starts_with("log ") { line.starts_with("log whole-1") } else { is_of_it };
                !is_of_it
            });
        }),
        ("the backup has no file DIRECTORY", &|root| filter(root, &mut |line| !line.starts_with("file DIRECTORY"))),
        ("notes-0: its first segment begins at position", &|root| {
            filter(root, &mut |line| !line.starts_with("snapshot"));
        }),
    ];
    for (number, (words, tamper)) in cases.into_iter().enumerate() {
        let backups = two.root.path().join(format!("case-{number}"));
        copy_of(&two.backups(), &backups);
        tamper(&backups);
        retell(&backups);
        let found = problems(&backups);
        assert!(found.iter().any(|found| found.contains(words)), "{words}: {found:?}");
        assert!(found.iter().all(|found| found.contains("use another one")), "{words}: {found:?}");
        assert!(found.iter().all(|found| found.contains("19700101T000005.002Z")), "{words}: {found:?}");
        two.refusal(&backups, "19700101T000005.002Z").expect("it cannot be restored");
    }
}

#[test]
fn a_record_of_nobody_and_one_that_rests_on_what_is_missing_are_named() {
    for is_of_nobody in [true, false] {
        let root = tempfile::tempdir().expect("a folder");
        let (data, backups) = (root.path().join("data"), root.path().join("backups"));
        let directory = Directory::open_or_create(&data, &wanted(), 1).expect("it is made");
        let ids: Vec<LogId> = directory.logs(Whole::FAMILY).collect();
        let (mut one, mut two) = (open(&data, ids[0], Cursor::START), open(&data, ids[1], Cursor::START));
        let notes: Vec<Note> = (0..50).map(|nth| note(nth, 1_000)).collect();
        let last = *write_groups(&mut one, &notes, 5).last().expect("some were written");
        if is_of_nobody {
            let mut group = one.begin_group();
            group.append(|into| into.extend_from_slice(b"short"));
            one.submit(group).expect("the disk works");
            while one.poll_durable().expect("the disk works").sequence() < one.last_sequence() {}
        } else {
            // Longer ago than is looked for around a cut.
            write(&mut two, &[Note { rests_on: Some((0, last.0 + 100_000)), ..note(0, 1_000) }]);
            write(&mut two, &(1..200).map(|nth| note(nth, 1_000_000 * u64::from(nth))).collect::<Vec<_>>());
        }
        one.close().expect("it ends in order");
        two.close().expect("it ends in order");
        drop(directory);
        taken(&data, &backups, Reread::Open, 5_000);
        let found = problems(&backups);
        let words = match is_of_nobody {
            true => "its record 51 at position",
            false => "whole shard 1 rests on a record of whole shard 0 at position",
        };
        assert!(found.len() == 1 && found[0].contains(words), "{found:?}");
        let copy = root.path().join("copy");
        let refused = restore(&backups, &copy, None, &At::End, &KNOWN, Moment(9_000_000), &mut |_, _| {});
        let refused = refused.expect_err("it cannot be served").to_string();
        assert!(refused.contains(words) && !copy.exists(), "{refused}");
        assert!(found[0].contains("19700101T000005.000Z"), "it names the backup: {found:?}");
    }
}

#[test]
fn an_older_backup_that_cannot_be_restored_is_named_beside_a_newer_one_that_has_rotted() {
    let root = tempfile::tempdir().expect("a folder");
    let (data, backups) = (root.path().join("data"), root.path().join("backups"));
    let directory = Directory::open_or_create(&data, &wanted(), 1).expect("it is made");
    let id = directory.logs(Whole::FAMILY).next().expect("a log");
    let mut log = open(&data, id, Cursor::START);
    for now in [5_000, 6_000] {
        write_groups(&mut log, &(0..50).map(|nth| note(nth, 1_000)).collect::<Vec<_>>(), 10);
        taken(&data, &backups, Reread::Open, now);
    }
    log.close().expect("it ends in order");
    drop(directory);
    let segment = copied_segments(&backups, "whole-0").remove(0);
    flip(&segment, 5_000);
    flip(&segment, 5_001);
    retell(&backups);
    let end = fs::metadata(&segment).expect("it is there").len() as usize - 1;
    flip(&segment, end);
    let found = problems(&backups);
    let named = |words: &str| found.iter().any(|found| found.contains(words) && found.contains("19700101T000005.000Z"));
    assert!(named("it is what was copied, but cannot be restored"), "{found:?}");
    assert!(found.iter().any(|found| found.ends_with("backups that need them: 19700101T000006.000Z")), "{found:?}");
}

/// Any bit of any file of a backup, as if it had been copied so.
#[test]
fn what_verify_accepts_is_restored_and_served_and_nothing_else() {
    let two = Two::taken();
    let files = contents(&two.backups());
    let mut chance = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |bound: usize| {
        chance ^= chance >> 12;
        chance ^= chance << 25;
        chance ^= chance >> 27;
        (chance.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    };
    let (mut good, mut bad) = (0, 0);
    for number in 0..40 {
        let backups = two.root.path().join(format!("chance-{number}"));
        copy_of(&two.backups(), &backups);
        let (path, bytes) = &files[below(files.len())];
        if bytes.is_empty() || path.ends_with("MANIFEST") {
            continue;
        }
        let tampered = backups.join(path.strip_prefix(two.backups()).expect("it is in there"));
        // The beginning and the end of a file are what is looked at in other ways than its middle.
        let at = match below(3) {
            0 => below(bytes.len().min(4_200)),
            1 => bytes.len() - 1 - below(bytes.len().min(300)),
            _ => below(bytes.len()),
        };
        flip(&tampered, at);
        retell(&backups);
        let found = problems(&backups);
        let refused: Vec<String> = names(&backups).iter().filter_map(|name| two.refusal(&backups, name)).collect();
        assert_eq!(found.is_empty(), refused.is_empty(), "{path:?} at {at}: {found:?}, {refused:?}");
        if found.is_empty() {
            good += 1
        } else {
            bad += 1
        }
        fs::remove_dir_all(&backups).expect("it was made");
    }
    assert!(good > 5 && bad > 10, "{good} can be restored, {bad} cannot");
}
