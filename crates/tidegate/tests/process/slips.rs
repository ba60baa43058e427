//! What an operator did not mean to write: it is refused with what to write, and creates nothing.

mod queues;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::commands::Operator;
use crate::support::server::command;
use crate::votes::{connect, open_show};
use crate::{Server, Settings, folder};

fn text(path: &Path) -> &str {
    path.to_str().expect("a test's folder has a plain name")
}

/// Paths of all files and folders below a folder.
fn all_below(folder: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).expect("it is there").flatten() {
        paths.push(text(&entry.path()).to_owned());
        if entry.path().is_dir() {
            paths.extend(all_below(&entry.path()));
        }
    }
    paths.sort();
    paths
}

#[test]
fn a_place_for_copies_that_may_be_a_slip_is_refused_and_not_made() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    let data = text(&settings.data);
    let (inside, far) = (settings.data.join("bk"), folder.path().join("not/mounted"));
    let before = all_below(folder.path());
    let refused = |arguments: &[&str], words: &str| {
        let ended = command(arguments);
        assert!(ended.status.code() == Some(1) && ended.log.contains(words), "{arguments:?}: {ended}");
        let after: Vec<_> =
            all_below(folder.path()).into_iter().filter(|path| !path.ends_with("ARCHIVE.lock")).collect();
        assert_eq!(after, before, "{arguments:?}");
    };
    for command in ["backup", "archive"] {
        for (to, words) in [
            ("a-slip", "Write ./a-slip to have it made here"),
            ("s3:/bucket", "A directory of this name is ./s3:/bucket"),
            ("s4://bucket", "s4://bucket: "),
            ("s3://", "s3://: "),
            (text(&inside), "never inside of it"),
            (text(&far), "not first, or mount its disk"),
        ] {
            refused(&[command, "--data", data, "--to", to], words);
        }
        for slip in ["a-slip", "s3:"] {
            assert!(!Path::new(slip).exists(), "it is refused where it was typed, too");
        }
        // The other directory has a slip.
        let (nowhere, to) = (folder.path().join("dta"), folder.path().join("copies"));
        refused(&[command, "--data", text(&nowhere), "--to", text(&to)], text(&nowhere));
    }
    refused(&["backup", "--data", data, "--to", "s3://bucket/prefix"], "expected a path");
    // A server does not start with a URL that is none.
    let sections = "[archive]\nto = \"s3:/bucket\"\n".to_owned();
    let ended = Server::refused(&Settings { sections, ..settings.clone() });
    assert!(ended.log.contains("archive.to: s3:/bucket: segments are archived in a directory"), "{ended}");
}

#[test]
fn a_place_for_a_restored_directory_that_may_be_a_slip_is_refused_and_not_made() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    let backups = folder.path().join("bk");
    let taken = command(&["backup", "--data", text(&settings.data), "--to", text(&backups)]);
    assert!(taken.status.success(), "{taken}");
    let before = all_below(folder.path());
    for (data, words) in [
        ("bk/backups/copy", "it is inside of the directory of backups"),
        ("bk/r", "give a directory elsewhere"),
        ("not/mounted", "not first, or mount its disk"),
    ] {
        let data = folder.path().join(data);
        let ended = command(&["restore", "--from", text(&backups), "--data", text(&data)]);
        assert!(ended.status.code() == Some(1) && ended.log.contains(words), "{}: {ended}", data.display());
        assert_eq!(all_below(folder.path()), before, "{}", data.display());
    }
    // One that was made for it is closed to others, as one that the command makes.
    let data = folder.path().join("ready");
    fs::create_dir(&data).expect("it is made");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let ended = command(&["restore", "--from", text(&backups), "--data", text(&data)]);
    assert!(ended.status.success(), "{ended}");
    assert_eq!(fs::metadata(&data).expect("it is there").mode() & 0o777, 0o700);

    // What is not there is not called closed.
    let looked = |data: &Path| command(&["doctor", "--data", text(data)]).log;
    let nowhere = looked(&folder.path().join("nowhere"));
    assert!(nowhere.contains("nowhere yet: a start makes one") && !nowhere.contains("closed to others"), "{nowhere}");
    assert!(looked(&data).contains("closed to others"));
}

#[test]
fn changes_of_an_account_that_is_not_there_are_not_just_none() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    open_show(&mut connect(&server));
    let operator = Operator::of(&server);
    let (code, out, error) = operator.run(&["changes", "--accounts", "wallet"]);
    let words = "--accounts wallet: there is no such account; those whose ids begin so are --accounts 'wallet*'";
    assert!(code == 2 && out.is_empty() && error.contains(words), "{code}: {out}{error}");
    assert!(operator.done(&["changes", "--accounts", "wallet:dave"]).contains("wallet:dave"));
    assert!(operator.done(&["changes", "--accounts", "wallet*"]).contains("wallet:dave"));
    assert!(server.terminate().status.success());
}

#[test]
fn a_slip_on_the_command_line_is_answered_with_what_was_expected() {
    let folder = folder();
    let (nowhere, file) = (folder.path().join("nowhere"), folder.path().join("file"));
    fs::write(&file, "text").expect("it can be written");
    let (nowhere, file) = (text(&nowhere), text(&file));
    for (arguments, code, words) in [
        (vec!["audit", "--data", nowhere], 1, "nowhere: there is no such directory"),
        (vec!["backup", "--data", file, "--to", "./x"], 1, "file: it is no directory"),
        (vec!["mend-time", "--to", "now", "--data", file], 1, "file: it is no directory"),
        (vec!["restore", "--from", nowhere, "--data", "./x"], 1, "it is no directory of backups"),
        (vec!["archive", "--data", nowhere, "--to", "./x", "--keep-segments", "x"], 2, "expected segments"),
        (vec!["drain", "--rate", "0"], 2, "expected clients per second, a whole number from 1 to 4294967295"),
        (vec!["import", file, "--batch", "9000"], 2, "expected rows, a whole number from 1 to 8190"),
        (vec!["asset", "declare", "eur", "--decimals", "two"], 2, "expected digits, a whole number from 0 to 18"),
        (vec!["account", "list", "--limit", "0"], 2, "expected rows, a whole number, 1 or more"),
        (
            vec!["hold", "place", "h", "--debit", "a", "--credit", "b", "--amount", "1", "--expires-in-ms", "1h"],
            2,
            "expected milliseconds, a whole number, 1 or more",
        ),
        (
            vec!["status", "--server", "http://no-host.invalid:1", "--token", "t"],
            1,
            "there is no host of the name in http://no-host.invalid:1",
        ),
    ] {
        let ended = command(&arguments);
        assert!(ended.status.code() == Some(code) && ended.log.contains(words), "{arguments:?}: {ended}");
    }
}
