use super::*;
use crate::segment::segment_name;

fn refusal(result: Result<Directory, JournalError>) -> String {
    result.expect_err("must be refused").to_string()
}

#[test]
fn a_directory_is_created_once_and_found_again() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("a/b");
    let first = Directory::open_or_create(&path, 3, 2, 1_700_000_000_000).unwrap();
    let logs: Vec<LogId> = first.logs().collect();
    assert_eq!(logs.len(), 3);
    drop(first);
    let again = Directory::open_or_create(&path, 3, 2, 5).unwrap();
    assert_eq!(again.logs().collect::<Vec<_>>(), logs);
    assert_eq!(again.created_at_ms(), 1_700_000_000_000);
    drop(again);
    assert_eq!(Directory::open(&path).unwrap().shards(), 3);
    assert!(refusal(Directory::open(data.path())).contains("no file DIRECTORY"));
}

#[test]
fn a_second_user_is_told_who_has_it() {
    let data = tempfile::tempdir().unwrap();
    let _first = Directory::open_or_create(data.path(), 1, 2, 0).unwrap();
    let expected = format!(
        "data directory {}: it is in use by process {}; stop that first, or use another directory",
        data.path().display(),
        std::process::id()
    );
    assert_eq!(refusal(Directory::open_or_create(data.path(), 1, 2, 0)), expected);
    assert_eq!(refusal(Directory::open(data.path())), expected);
}

#[test]
fn another_shard_count_is_refused() {
    let data = tempfile::tempdir().unwrap();
    drop(Directory::open_or_create(data.path(), 2, 2, 0).unwrap());
    let said = refusal(Directory::open_or_create(data.path(), 4, 2, 0));
    assert!(said.contains("created with 2 shards and cannot be used with 4"), "{said}");
    assert!(said.contains("data.shards = 2"), "{said}");
}

#[test]
fn an_unknown_version_is_named_even_when_the_rest_has_changed() {
    let data = tempfile::tempdir().unwrap();
    drop(Directory::open_or_create(data.path(), 1, 2, 0).unwrap());
    let file = data.path().join(DIRECTORY);
    fs::write(&file, format!("{TITLE}\nformat_version = 9\nshapes = many\n")).unwrap();
    let said = refusal(Directory::open(data.path()));
    assert_eq!(said, format!("{}: format version 9 is unknown: this program knows version 2", file.display()));
}

#[test]
fn a_changed_description_is_refused() {
    let data = tempfile::tempdir().unwrap();
    drop(Directory::open_or_create(data.path(), 1, 2, 0).unwrap());
    let file = data.path().join(DIRECTORY);
    let text = fs::read_to_string(&file).unwrap();
    for (from, to, reason) in [
        ("shards = 1", "shards = 2", "checksum does not match"),
        ("shards = 1", "shards = 0", "shards: out of range"),
        ("topic_shards = 2", "topic_shards = 0", "topic_shards: out of range"),
        ("topic_shards = 2", "topic_shards = 40000", "topic_shards: out of range"),
        ("topic_shards = 2\n", "", "topic_shards is missing"),
        ("shards = 1", "shards = one", "not a number"),
        ("id = ", "it = ", "id is missing"),
        ("tidegate", "seagate", "does not begin with"),
    ] {
        fs::write(&file, text.replace(from, to)).unwrap();
        let said = refusal(Directory::open(data.path()));
        assert!(said.contains(reason), "{from} -> {to}: {said}");
    }
}

#[test]
fn a_creation_cut_short_is_finished_with_the_same_identity() {
    let data = tempfile::tempdir().unwrap();
    let first = Directory::open_or_create(data.path(), 2, 2, 0).unwrap();
    let log = first.log(0);
    drop(first);
    fs::rename(data.path().join(DIRECTORY), data.path().join(DIRECTORY_NEW)).unwrap();
    fs::remove_dir_all(Folder::new(RealDisk, data.path(), LogId { shard: 1, ..log }).path).unwrap();
    assert_eq!(Directory::open_or_create(data.path(), 2, 2, 0).unwrap().log(0), log);
}

#[test]
fn a_journal_that_lost_its_description_or_its_segments_is_not_begun_anew() {
    let data = tempfile::tempdir().unwrap();
    drop(Directory::open_or_create(data.path(), 1, 2, 0).unwrap());
    let segment = data.path().join("journal/shard-0").join(segment_name(Cursor::START.position));
    fs::rename(&segment, data.path().join("kept")).unwrap();
    let said = refusal(Directory::open_or_create(data.path(), 1, 2, 0));
    assert!(said.contains("segment-00000000000000004096.tgj: damaged") && said.contains("missing"), "{said}");
    fs::remove_file(data.path().join(DIRECTORY)).unwrap();
    let said = refusal(Directory::open_or_create(data.path(), 1, 2, 0));
    assert!(said.contains("there is a journal in it but no file DIRECTORY"), "{said}");
}

/// Makes of a directory what the program before this one left.
fn downgrade(data: &Path) -> Description {
    let directory = Directory::open(data).unwrap();
    let older = Description { topic_shards: 0, ..directory.description };
    for log in directory.topic_logs() {
        fs::remove_dir_all(log.folder(data)).unwrap();
    }
    drop(directory);
    older.write(&data.join(DIRECTORY)).unwrap();
    older
}

#[test]
fn a_directory_without_topics_gets_them_and_keeps_its_ledger() {
    let data = tempfile::tempdir().unwrap();
    drop(Directory::open_or_create(data.path(), 2, 2, 7).unwrap());
    let older = downgrade(data.path());
    let text = fs::read_to_string(data.path().join(DIRECTORY)).unwrap();
    assert!(text.contains("format_version = 1\nshards = 2\ncreated_at_ms = 7\n"), "{text}");
    let segment = |log: LogId| log.folder(data.path()).join(segment_name(Cursor::START.position));
    let ledger = fs::read(segment(LogId::ledger(older.id, 1))).unwrap();

    let as_it_is = Directory::open(data.path()).unwrap();
    assert_eq!((as_it_is.shards(), as_it_is.topic_shards(), as_it_is.topic_logs().count()), (2, 0, 0));
    drop(as_it_is);
    assert_eq!(fs::read_to_string(data.path().join(DIRECTORY)).unwrap(), text, "an audit changes nothing");

    let upgraded = Directory::open_or_create(data.path(), 2, 3, 8).unwrap();
    assert_eq!((upgraded.topic_shards(), upgraded.created_at_ms(), upgraded.log(0).directory), (3, 7, older.id));
    assert!(upgraded.topic_logs().all(|log| segment(log).exists()));
    drop(upgraded);
    assert_eq!(fs::read(segment(LogId::ledger(older.id, 1))).unwrap(), ledger);
    // From now on it keeps its number, whatever is configured.
    assert_eq!(Directory::open_or_create(data.path(), 2, 5, 9).unwrap().topic_shards(), 3);
    assert_eq!(Directory::open(data.path()).unwrap().topic_shards(), 3);
    fs::remove_file(segment(LogId::topics(older.id, 1))).unwrap();
    assert!(refusal(Directory::open_or_create(data.path(), 2, 3, 9)).contains("missing"));
}

#[test]
fn an_upgrade_cut_short_at_any_step_is_finished_with_the_number_it_began_with() {
    for logs_created in 0..=3 {
        for described in [false, true] {
            let data = tempfile::tempdir().unwrap();
            drop(Directory::open_or_create(data.path(), 1, 2, 7).unwrap());
            let older = downgrade(data.path());
            let begun = Description { topic_shards: 3, ..older };
            begun.write(&data.path().join(DIRECTORY_NEW)).unwrap();
            begun.topic_logs().take(logs_created).for_each(|log| recovery::create(RealDisk, data.path(), log).unwrap());
            if !described {
                // The crash came while the new description was written.
                fs::write(data.path().join(DIRECTORY_NEW), "tidegate data").unwrap();
            }
            let upgraded = Directory::open_or_create(data.path(), 1, 4, 9).unwrap();
            assert_eq!(upgraded.topic_shards(), if described { 3 } else { 4 });
            assert_eq!(upgraded.description.id, older.id);
            assert!(!data.path().join(DIRECTORY_NEW).exists());
        }
    }
}
