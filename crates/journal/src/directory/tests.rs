use std::fs;

use super::*;
use crate::limits::{FAMILY_NAME_BYTES_MAX, SHARDS_MAX};
use crate::segment::segment_name;
use crate::{Cursor, LocalLogs, LogStore, Logs, Opened, Options};

pub(super) const LEDGER: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };
const TOPICS: Family = Family { number: 2, name: "topics", retention: Retention::SinceSnapshot };
/// A family of somebody else, with a number and a name that the others leave free.
const COUNTER: Family = Family { number: 200, name: "counter_2", retention: Retention::SinceSnapshot };

fn fixed(family: Family, shards: u16) -> Wanted {
    Wanted { family, shards, count: ShardCount::Fixed { setting: "data.shards" } }
}

fn kept(family: Family, shards: u16) -> Wanted {
    Wanted { family, shards, count: ShardCount::Kept }
}

/// What a server wants that has a ledger of `shards` shards, and topics.
pub(super) fn server(shards: u16, topics: u16) -> [Wanted; 2] {
    [fixed(LEDGER, shards), kept(TOPICS, topics)]
}

pub(super) fn open(path: &Path, wanted: &[Wanted]) -> Result<Directory, JournalError> {
    Directory::open_or_create(path, wanted, 7)
}

fn create_and_close(path: &Path, wanted: &[Wanted]) {
    drop(open(path, wanted).unwrap());
}

#[track_caller]
pub(super) fn refusal(result: Result<Directory, JournalError>) -> String {
    result.expect_err("must be refused").to_string()
}

fn text(data: &Path) -> String {
    fs::read_to_string(data.join(DIRECTORY)).unwrap()
}

fn first_segment(data: &Path, folder: &str) -> PathBuf {
    data.join("journal").join(folder).join(segment_name(Cursor::START.position))
}

#[test]
fn a_directory_is_created_once_and_found_again() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("a/b");
    let first = Directory::open_or_create(&path, &server(3, 2), 1_700_000_000_000).unwrap();
    let logs: Vec<LogId> = first.logs(LEDGER).collect();
    assert_eq!((logs.len(), first.logs(TOPICS).count(), first.logs(COUNTER).count()), (3, 2, 0));
    assert!(logs.iter().all(|log| log.directory == first.id() && log.family == 1));
    drop(first);
    let again = Directory::open_or_create(&path, &server(3, 2), 5).unwrap();
    assert_eq!(again.logs(LEDGER).collect::<Vec<_>>(), logs);
    assert_eq!(again.created_at_ms(), 1_700_000_000_000);
    drop(again);
    assert_eq!(Directory::open(&path, &[LEDGER]).unwrap().shards(LEDGER), 3);
    assert!(refusal(Directory::open(data.path(), &[LEDGER])).contains("no file DIRECTORY"));
    let nowhere = Directory::open(&data.path().join("nowhere"), &[LEDGER]);
    assert!(refusal(nowhere).contains("nowhere: there is no such directory"));
    let file = Directory::look_at(&path.join("DIRECTORY"), &[LEDGER]);
    assert!(refusal(file).contains("DIRECTORY: it is no directory"));
}

#[test]
fn the_description_is_that_of_the_format_document() {
    let data = tempfile::tempdir().unwrap();
    create_and_close(data.path(), &[kept(TOPICS, 2), fixed(LEDGER, 1)]);
    let text = text(data.path());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "tidegate data directory",
            "format_version = 3",
            "family 1 = ledger, whole, 1 shards",
            "family 2 = topics, since-snapshot, 2 shards",
            "created_at_ms = 7",
        ]
    );
    assert!(lines[5].starts_with("id = ") && lines[5].len() == 5 + 16, "{text}");
    assert!(lines[6].starts_with("checksum = ") && lines.len() == 7, "{text}");
}

#[test]
fn a_second_user_is_told_who_has_it() {
    let data = tempfile::tempdir().unwrap();
    let _first = open(data.path(), &server(1, 2)).unwrap();
    let expected = format!(
        "data directory {}: it is in use by process {}; stop that first, or use another directory",
        data.path().display(),
        std::process::id()
    );
    assert_eq!(refusal(open(data.path(), &server(1, 2))), expected);
    assert_eq!(refusal(Directory::open(data.path(), &[LEDGER])), expected);
}

#[test]
fn another_count_is_refused_where_it_is_fixed_and_kept_where_it_follows_the_directory() {
    let data = tempfile::tempdir().unwrap();
    create_and_close(data.path(), &server(2, 3));
    let said = refusal(open(data.path(), &server(4, 3)));
    assert!(said.contains("created with 2 shards of family 1 \"ledger\" and cannot be used with 4"), "{said}");
    assert!(said.contains("Set data.shards = 2, or begin another directory"), "{said}");
    let before = text(data.path());
    assert_eq!(open(data.path(), &server(2, 5)).unwrap().shards(TOPICS), 3);
    assert_eq!(text(data.path()), before);
}

#[test]
fn an_unknown_version_is_named_even_when_the_rest_has_changed() {
    let data = tempfile::tempdir().unwrap();
    create_and_close(data.path(), &server(1, 2));
    let file = data.path().join(DIRECTORY);
    let older = "tidegate data directory\nformat_version = 2\nshards = 1\ntopic_shards = 2\n";
    for (version, text) in
        [(9, "tidegate data directory\nformat_version = 9\nshapes = many\n"), (2, older), (1, &older.replace('2', "1"))]
    {
        fs::write(&file, text).unwrap();
        let expected = format!(
            "{}: format version {version} is unknown: this program knows version 3 and converts nothing. Keep this \
             data \
             directory for the program that wrote it, and begin a new one with this program",
            file.display()
        );
        assert_eq!(refusal(Directory::open(data.path(), &[LEDGER])), expected);
        assert_eq!(refusal(open(data.path(), &server(1, 2))), expected);
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "nothing is converted");
    }
}

#[test]
fn a_changed_description_is_refused() {
    let data = tempfile::tempdir().unwrap();
    create_and_close(data.path(), &server(1, 2));
    let file = data.path().join(DIRECTORY);
    let text = text(data.path());
    for (from, to, reason) in [
        ("whole, 1 shards", "whole, 2 shards", "checksum does not match"),
        ("whole, 1 shards", "since-snapshot, 1 shards", "checksum does not match"),
        ("whole, 1 shards", "whole, 0 shards", "describes no family"),
        ("2 shards", "40000 shards", "describes no family"),
        ("2 shards", "many shards", "describes no family"),
        ("whole", "partly", "describes no family"),
        ("family 1 = ledger", "family 0 = ledger", "describes no family"),
        ("family 1 = ledger", "family 1 = led/ger", "describes no family"),
        ("family 1 = ledger", "family 3 = ledger", "checksum does not match"),
        ("family 2 = topics, since-snapshot, 2 shards\n", "", "checksum does not match"),
        ("family ", "f ", "lists no families"),
        ("id = ", "it = ", "id is missing"),
        ("tidegate", "seagate", "does not begin with"),
    ] {
        fs::write(&file, text.replace(from, to)).unwrap();
        let said = refusal(Directory::open(data.path(), &[LEDGER]));
        assert!(said.contains(reason), "{from} -> {to}: {said}");
        assert!(said.contains("put back a copy of the file. Each backup of this directory has one"), "{said}");
    }
}

#[test]
fn a_description_of_another_directory_is_told_from_damaged_logs() {
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    create_and_close(data.path(), &server(2, 2));
    let ours = text(data.path());
    // Also where it lists other numbers of shards.
    for shards in [2, 3] {
        let other = other.path().join(shards.to_string());
        create_and_close(&other, &server(shards, 2));
        fs::copy(other.join(DIRECTORY), data.path().join(DIRECTORY)).unwrap();
        for refused in [
            open(data.path(), &server(2, 2)),
            Directory::open(data.path(), &[LEDGER]),
            Directory::look_at(data.path(), &[LEDGER, TOPICS]),
        ] {
            let said = refusal(refused);
            let names =
                format!("{}: its file DIRECTORY is another data directory's: it says id", data.path().display());
            assert!(said.contains(&names) && said.contains("Put back the file DIRECTORY of this one"), "{said}");
        }
    }
    fs::write(data.path().join(DIRECTORY), ours).unwrap();
    // One file of another directory is that file's fault.
    fs::copy(first_segment(&other.path().join("2"), "ledger-0"), first_segment(data.path(), "ledger-0")).unwrap();
    drop(open(data.path(), &server(2, 2)).unwrap());
}

#[test]
fn a_creation_cut_short_is_finished_with_the_same_identity() {
    let data = tempfile::tempdir().unwrap();
    let first = open(data.path(), &server(2, 2)).unwrap();
    let id = first.id();
    drop(first);
    fs::rename(data.path().join(DIRECTORY), data.path().join(DIRECTORY_NEW)).unwrap();
    fs::remove_file(data.path().join("KEY")).unwrap();
    fs::remove_dir_all(data.path().join("journal/ledger-1")).unwrap();
    let again = Directory::open_or_create(data.path(), &server(2, 5), 99).unwrap();
    assert_eq!((again.id(), again.created_at_ms(), again.shards(TOPICS)), (id, 7, 2));
    assert!(first_segment(data.path(), "ledger-1").exists());
}

#[test]
fn a_journal_that_lost_its_description_or_its_segments_is_not_begun_anew() {
    let data = tempfile::tempdir().unwrap();
    create_and_close(data.path(), &server(1, 2));
    for folder in ["ledger-0", "topics-1"] {
        let segment = first_segment(data.path(), folder);
        fs::rename(&segment, data.path().join("kept")).unwrap();
        let said = refusal(open(data.path(), &server(1, 2)));
        let name = segment_name(Cursor::START.position);
        assert!(said.contains(&format!("{name}: damaged")) && said.contains("missing"), "{said}");
        fs::rename(data.path().join("kept"), &segment).unwrap();
    }
    fs::remove_file(data.path().join(DIRECTORY)).unwrap();
    let said = refusal(open(data.path(), &server(1, 2)));
    assert!(said.contains("there is journal, KEY: this remains of a data directory"), "{said}");
}

#[test]
fn a_family_that_is_added_gets_its_logs_and_the_others_keep_theirs() {
    let data = tempfile::tempdir().unwrap();
    let first = open(data.path(), &server(2, 3)).unwrap();
    let id = first.id();
    drop(first);
    let ledger = fs::read(first_segment(data.path(), "ledger-1")).unwrap();

    let wanted = [fixed(LEDGER, 2), kept(TOPICS, 9), fixed(COUNTER, 2)];
    let added = Directory::open_or_create(data.path(), &wanted, 8).unwrap();
    assert_eq!((added.id(), added.created_at_ms()), (id, 7));
    assert_eq!((added.shards(LEDGER), added.shards(TOPICS), added.shards(COUNTER)), (2, 3, 2));
    assert_eq!(fs::read(first_segment(data.path(), "ledger-1")).unwrap(), ledger);
    assert!(text(data.path()).contains("\nfamily 200 = counter_2, since-snapshot, 2 shards\n"));

    // It is served like the others, by whoever knows it.
    let logs = LocalLogs::new(RealDisk, data.path(), &[LEDGER, TOPICS, COUNTER]);
    for log in added.logs(COUNTER) {
        let Opened { log: mut store, report } = logs.open(log, Cursor::START, Options::small(1 << 20)).unwrap();
        assert_eq!(report.end, Cursor::START);
        let mut group = store.begin_group();
        group.append(|buffer| buffer.push(1));
        store.submit(group).unwrap();
        store.close().unwrap();
    }
    drop(added);
    assert_eq!(open(data.path(), &wanted).unwrap().shards(COUNTER), 2);
    assert!(refusal(open(data.path(), &[wanted[0], wanted[1], fixed(COUNTER, 3)])).contains("cannot be used with 3"));
    assert!(first_segment(data.path(), "counter_2-1").exists());
}

#[test]
fn a_family_that_the_program_does_not_serve_is_refused_and_left_alone_by_tools() {
    let data = tempfile::tempdir().unwrap();
    create_and_close(data.path(), &[fixed(LEDGER, 1), kept(TOPICS, 2), kept(COUNTER, 4)]);
    let before = text(data.path());
    let said = refusal(open(data.path(), &server(1, 2)));
    let expected = "it has a family 200 \"counter_2\" (4 shards) that this program does not serve: use a program \
        that does, or \
                    begin another directory";
    assert!(said.ends_with(expected), "{said}");
    let tool = Directory::open(data.path(), &[LEDGER, TOPICS]).unwrap();
    assert_eq!(tool.others(&[LEDGER, TOPICS]).collect::<Vec<_>>(), ["counter_2"]);
    assert_eq!((tool.shards(LEDGER), tool.shards(TOPICS)), (1, 2));
    drop(tool);
    // A tool of that family needs to know no other, and may know one that the directory does not have.
    let never = Family { number: 7, name: "never", ..COUNTER };
    let tool = Directory::open(data.path(), &[COUNTER, never]).unwrap();
    assert_eq!((tool.shards(COUNTER), tool.shards(never), tool.logs(never).count()), (4, 0, 0));
    assert_eq!(tool.others(&[COUNTER]).collect::<Vec<_>>(), ["ledger", "topics"]);
    assert_eq!(text(data.path()), before);
}

#[test]
fn a_known_number_with_another_name_or_another_promise_is_refused() {
    let data = tempfile::tempdir().unwrap();
    create_and_close(data.path(), &server(1, 2));
    for (family, reason) in [
        (Family { name: "books", ..LEDGER }, "its family 1 is \"ledger\", and this program calls it \"books\""),
        (
            Family { retention: Retention::SinceSnapshot, ..LEDGER },
            "its family 1 \"ledger\" keeps its logs whole for ever, and this program's forgets what snapshots hold",
        ),
    ] {
        for said in [
            refusal(open(data.path(), &[fixed(family, 1), kept(TOPICS, 2)])),
            refusal(Directory::open(data.path(), &[family])),
        ] {
            assert!(said.contains(reason) && said.contains("use the program that wrote it"), "{said}");
        }
    }
    // A name that is taken cannot be added under another number: both would have the same folders.
    let renumbered = Family { number: 9, ..LEDGER };
    let said = refusal(open(data.path(), &[fixed(renumbered, 1), kept(TOPICS, 2)]));
    assert!(said.contains("it has a family 1 \"ledger\""), "{said}");
}

#[test]
fn an_addition_cut_short_at_any_step_is_finished_with_the_number_it_began_with() {
    for logs_created in 0..=3 {
        for described in [false, true] {
            let data = tempfile::tempdir().unwrap();
            let before = open(data.path(), &[fixed(LEDGER, 1)]).unwrap();
            let (id, found) = (before.id(), before.description.clone());
            drop(before);
            let begun = found.with(&[kept(TOPICS, 3)]);
            begun.write(&RealDisk, &data.path().join(DIRECTORY_NEW)).unwrap();
            let logs = LocalLogs::new(RealDisk, data.path(), &[TOPICS]);
            (0..logs_created).for_each(|shard| logs.create(TOPICS.log(id, shard)).unwrap());
            if !described {
                // The crash came while the new description was written.
                fs::write(data.path().join(DIRECTORY_NEW), "tidegate data").unwrap();
            }
            let added = open(data.path(), &server(1, 4)).unwrap();
            assert_eq!(added.shards(TOPICS), if described { 3 } else { 4 });
            assert_eq!(added.id(), id);
            assert!(!data.path().join(DIRECTORY_NEW).exists());
        }
    }
}

#[test]
fn records_of_a_family_that_the_description_lacks_are_never_adopted() {
    let data = tempfile::tempdir().unwrap();
    create_and_close(data.path(), &[fixed(LEDGER, 1)]);
    let older = text(data.path());
    let directory = open(data.path(), &server(1, 1)).unwrap();
    let logs = LocalLogs::new(RealDisk, data.path(), &[LEDGER, TOPICS]);
    let Opened { log, .. } = logs.open(TOPICS.log(directory.id(), 0), Cursor::START, Options::small(1 << 20)).unwrap();
    log.close().unwrap();
    drop(directory);
    // Somebody put back an old copy of DIRECTORY.
    fs::write(data.path().join(DIRECTORY), older).unwrap();
    let said = refusal(open(data.path(), &server(1, 1)));
    assert!(said.contains("DIRECTORY does not list that log of family 2 \"topics\""), "{said}");
    // Nor are they passed over by tools, which would call the rest the whole.
    for refused in [Directory::open(data.path(), &[LEDGER, TOPICS]), Directory::look_at(data.path(), &[TOPICS])] {
        assert_eq!(refusal(refused), said);
    }
    drop(Directory::open(data.path(), &[LEDGER]).expect("of a family that the tool does not know it says nothing"));
}

#[test]
fn a_tool_reads_a_directory_that_an_older_program_made_and_one_that_an_addition_was_cut_short_in() {
    let data = tempfile::tempdir().unwrap();
    create_and_close(data.path(), &[fixed(LEDGER, 1)]);
    let older = text(data.path());
    let found = Directory::open(data.path(), &[LEDGER, TOPICS]).unwrap();
    assert_eq!((found.shards(LEDGER), found.shards(TOPICS)), (1, 0));
    drop(found);
    create_and_close(data.path(), &server(1, 2));
    fs::write(data.path().join(DIRECTORY), older).unwrap();
    assert_eq!(Directory::open(data.path(), &[LEDGER, TOPICS]).unwrap().shards(TOPICS), 0, "its logs are empty");
}

#[test]
#[should_panic(expected = "family 1 is wanted twice")]
fn a_number_that_is_wanted_twice_is_a_bug() {
    let data = tempfile::tempdir().unwrap();
    let _ = open(data.path(), &[fixed(LEDGER, 1), fixed(Family { name: "other", ..LEDGER }, 1)]);
}

#[test]
fn a_description_with_as_much_as_there_may_be_is_read_whole() {
    let name =
        |number: usize| -> &'static str { format!("{}{number:02}", "f".repeat(FAMILY_NAME_BYTES_MAX - 2)).leak() };
    let family = |number: usize| Family { number: 223 + number as u8, name: name(number), ..TOPICS };
    let wanted: Vec<Wanted> = (1..=FAMILIES_MAX).map(|number| kept(family(number), SHARDS_MAX)).collect();
    let full = Description { families: Vec::new(), created_at_ms: u64::MAX, id: u64::MAX }.with(&wanted);
    let data = tempfile::tempdir().unwrap();
    full.write(&RealDisk, &data.path().join(DIRECTORY)).unwrap();
    assert_eq!(Description::read(&RealDisk, &data.path().join(DIRECTORY)).unwrap(), full);
}

#[test]
fn each_directory_has_an_id_of_its_own() {
    let ids: Vec<u64> = (0..3)
        .map(|_| {
            let data = tempfile::tempdir().unwrap();
            open(data.path(), &server(1, 1)).unwrap().id()
        })
        .collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
}

#[test]
fn a_directory_with_snapshots_that_lost_its_key_is_refused_until_it_is_back() {
    let data = tempfile::tempdir().unwrap();
    create_and_close(data.path(), &server(1, 1));
    let key = data.path().join("KEY");
    let bytes = fs::read(&key).unwrap();
    fs::remove_file(&key).unwrap();
    // Without snapshots there is nothing that it verifies: another one is made.
    fs::create_dir_all(data.path().join("snapshots/ledger-0")).unwrap();
    create_and_close(data.path(), &server(1, 1));
    fs::write(data.path().join("snapshots/ledger-0/snapshot-00000000000000000001"), b"any").unwrap();
    create_and_close(data.path(), &server(1, 1));
    fs::remove_file(&key).unwrap();
    let said = refusal(open(data.path(), &server(1, 1)));
    assert!(said.contains("no file KEY") && said.contains("Put KEY back"), "{said}");
    assert!(!key.exists(), "none is made");
    fs::write(&key, bytes).unwrap();
    create_and_close(data.path(), &server(1, 1));
}

#[test]
fn who_only_looks_is_told_whether_somebody_uses_it() {
    let data = tempfile::tempdir().unwrap();
    create_and_close(data.path(), &server(1, 1));
    let looking = Directory::look_at(data.path(), &[LEDGER]).unwrap();
    assert!(!looking.is_in_use().unwrap());
    let server = open(data.path(), &server(1, 1)).unwrap();
    assert!(looking.is_in_use().unwrap() && server.is_in_use().unwrap());
    drop(server);
    assert!(!looking.is_in_use().unwrap());
    fs::remove_file(data.path().join(LOCK)).unwrap();
    assert!(!looking.is_in_use().unwrap(), "without a lock nobody is there");
}

#[test]
fn a_description_that_lists_a_family_twice_is_refused_although_its_checksum_is_right() {
    let data = tempfile::tempdir().unwrap();
    create_and_close(data.path(), &server(1, 2));
    let file = data.path().join(DIRECTORY);
    let mut description = Description::read(&RealDisk, &file).unwrap();
    let twice = description.families[0].clone();
    description.families.insert(0, twice);
    fs::write(&file, description.text()).unwrap();
    let said = refusal(Directory::open(data.path(), &[LEDGER]));
    assert!(said.contains("its file DIRECTORY is damaged"), "{said}");
}

#[test]
fn a_lock_that_cannot_be_opened_does_not_say_that_nobody_is_there() {
    let data = tempfile::tempdir().unwrap();
    create_and_close(data.path(), &server(1, 1));
    let looking = Directory::look_at(data.path(), &[LEDGER]).unwrap();
    fs::remove_file(data.path().join(LOCK)).unwrap();
    std::os::unix::fs::symlink(LOCK, data.path().join(LOCK)).unwrap();
    assert!(matches!(looking.is_in_use(), Err(JournalError::Io { .. })), "a link to itself");
}

#[test]
fn a_directory_that_a_restore_left_unfinished_is_said_to_be_one() {
    let data = tempfile::tempdir().unwrap();
    fs::write(data.path().join(UNFINISHED_RESTORE), "").unwrap();
    let said = refusal(Directory::open(data.path(), &[LEDGER]));
    assert!(said.contains("a restore was writing it and did not come to its end"), "{said}");
    let again = format!("restore into it again (tidegate restore --from BACKUP --data {})", data.path().display());
    assert!(said.contains(&again), "{said}");
}

#[test]
fn folders_that_are_no_logs_are_left_alone() {
    let data = tempfile::tempdir().unwrap();
    create_and_close(data.path(), &server(1, 1));
    let directory = open(data.path(), &server(1, 1)).unwrap();
    let logs = LocalLogs::new(RealDisk, data.path(), &[LEDGER]);
    let Opened { log, .. } = logs.open(LEDGER.log(directory.id(), 0), Cursor::START, Options::small(1 << 20)).unwrap();
    log.close().unwrap();
    drop(directory);
    for name in ["ledger-x".into(), format!("ledger-{SHARDS_MAX}"), "ledger".into(), "notes-7".into()] {
        let folder = data.path().join("journal").join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(segment_name(Cursor::START.position)), "something").unwrap();
    }
    drop(open(data.path(), &server(1, 1)).expect("they are of no log of this directory"));
    drop(Directory::open(data.path(), &[LEDGER]).expect("nor for a tool"));
}
