use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::tests::{open, refusal, server};
use super::super::{Directory, LOCK};
use super::{REMAINS, quoted};

/// All files and folders below `path`, with what is in the files.
fn tree(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
        }
        found.insert(path.clone(), fs::read(&path).unwrap_or_default());
    }
    found
}

/// Runs a command as a shell does.
#[track_caller]
fn shell(command: &str) {
    let done = std::process::Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
}

/// What stands between the two, in `text`.
#[track_caller]
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("{from} in {text}"));
    rest.split_once(to).unwrap_or_else(|| panic!("{to} in {text}")).0
}

#[test]
fn nothing_is_made_where_anything_remains_of_a_data_directory() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let parts = REMAINS.map(|name| (name, name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')));
    for subset in 1..1_u32 << parts.len() {
        fs::create_dir(&data).unwrap();
        let there: Vec<_> = (0..parts.len()).filter(|part| subset >> part & 1 == 1).map(|part| parts[part]).collect();
        for (name, is_folder) in &there {
            match is_folder {
                true => fs::create_dir_all(data.join(name).join("ledger-0")).unwrap(),
                false => fs::write(data.join(name), "what it was").unwrap(),
            }
        }
        let before = tree(&data);
        let said = refusal(open(&data, &server(1, 2)));
        assert_eq!(tree(&data), before, "{said}");
        let names: Vec<_> = there.iter().map(|(name, _)| *name).collect();
        let expected = format!("there is no file DIRECTORY in it, but there is {}: this remains", names.join(", "));
        assert!(said.contains(&expected), "{said}");
        fs::remove_dir_all(&data).unwrap();
    }
    // What an operator may have put there, and what a creation leaves that did not come far, is no reason.
    fs::create_dir(&data).unwrap();
    for name in [LOCK, "jwt.key", "users.toml", "DIRECTORY.new"] {
        fs::write(data.join(name), "something").unwrap();
    }
    fs::create_dir(data.join("lost+found")).unwrap();
    assert!(Directory::would_be_new(&data).unwrap());
    assert!(open(&data, &server(1, 2)).unwrap().is_new());
    assert!(!open(&data, &server(1, 2)).unwrap().is_new());
}

#[test]
fn a_lost_description_is_put_back_and_remains_are_moved_away_as_the_words_say() {
    let root = tempfile::tempdir().unwrap();
    // A shell must be given the path in quotes, and a slash at its end is not part of it.
    let data = root.path().join("my data/");
    drop(open(&data, &server(1, 2)).unwrap());
    let copy = fs::read(data.join("DIRECTORY")).unwrap();
    fs::remove_file(data.join("DIRECTORY")).unwrap();
    let said = refusal(open(&data, &server(1, 2)));
    fs::write(between(&said, "copy it to '", "'."), &copy).unwrap();
    let id = open(&data, &server(1, 2)).unwrap().id();

    // A server was putting it back when it was killed.
    fs::rename(data.join("DIRECTORY"), data.join("DIRECTORY.back")).unwrap();
    let said = refusal(open(&data, &server(1, 2)));
    shell(&format!("mv {}", between(&said, "if all else is there, mv ", ". Else")));
    assert_eq!(open(&data, &server(1, 2)).unwrap().id(), id);

    fs::remove_file(data.join("DIRECTORY")).unwrap();
    fs::remove_dir_all(data.join("journal")).unwrap();
    let said = refusal(open(&data, &server(1, 2)));
    assert!(said.contains("there is KEY: this remains") && !said.contains("If only DIRECTORY is lost"), "{said}");
    assert!(said.contains(&format!("--data '{}'", root.path().join("my data").display())), "{said}");
    shell(between(&said, "move the remains away (", "), and restore"));
    assert!(root.path().join("my data.remains/KEY").exists());
    let made = open(&data, &server(1, 2)).unwrap();
    assert!(made.is_new() && made.id() != id);
}

#[test]
fn a_directory_that_was_moved_into_itself_is_put_back_as_the_words_say() {
    let root = tempfile::tempdir().unwrap();
    let (data, moved) = (root.path().join("data"), root.path().join("data.moved"));
    let id = open(&data, &server(1, 2)).unwrap().id();
    for ghost in [None, Some("snapshots/ledger-0")] {
        fs::rename(&data, &moved).unwrap();
        fs::create_dir_all(data.join(ghost.unwrap_or_default())).unwrap();
        shell(&format!("mv {} {}", moved.display(), data.display()));
        let before = tree(&data);
        let said = refusal(open(&data, &server(1, 2)));
        assert!(said.contains("but its folder data.moved has one"), "{said}");
        assert_eq!(tree(&data), before);
        let command = between(&said, "Put it in its place: ", ". If it is another one");
        shell(command);
        let found = open(&data, &server(1, 2)).unwrap();
        assert!(found.id() == id && !found.is_new());
        drop(found);
        fs::remove_dir_all(root.path().join("data.remains")).unwrap();
    }
}

#[test]
fn a_creation_that_others_settings_began_is_named() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let id = open(&data, &server(2, 2)).unwrap().id();
    fs::remove_file(data.join("KEY")).unwrap();
    fs::rename(data.join("DIRECTORY"), data.join("DIRECTORY.new")).unwrap();
    let said = refusal(open(&data, &server(1, 2)));
    assert!(said.contains("remove DIRECTORY.new and journal in it, and start again"), "{said}");
    // One that was used is not finished, whatever lies beside it.
    let log = data.join("journal/ledger-0").join(crate::segment::segment_name(crate::Position(0)));
    let empty = fs::read(&log).unwrap();
    fs::write(&log, [&*empty, b"records"].concat()).unwrap();
    let said = refusal(open(&data, &server(2, 2)));
    assert!(said.contains("there is journal: this remains"), "{said}");
    fs::write(&log, empty).unwrap();
    fs::create_dir(data.join("journal/ledger-7")).unwrap();
    let said = refusal(open(&data, &server(2, 2)));
    assert!(said.contains("there is journal: this remains"), "{said}");
    fs::remove_dir(data.join("journal/ledger-7")).unwrap();
    assert_eq!(open(&data, &server(2, 2)).unwrap().id(), id);
}

#[test]
fn one_that_is_just_being_made_is_in_use_and_not_left_over() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let made = open(&data, &server(1, 2)).unwrap();
    fs::rename(data.join("DIRECTORY"), data.join("DIRECTORY.new")).unwrap();
    let said = refusal(open(&data, &server(1, 2)));
    assert!(said.contains("it is in use by process"), "{said}");
    drop(made);
}

#[test]
fn a_shell_reads_the_path_that_is_meant() {
    for (path, text) in [("/data/a-1.b", "/data/a-1.b"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'"), ("/ä", "/ä")] {
        assert_eq!(quoted(Path::new(path)), text);
    }
}
