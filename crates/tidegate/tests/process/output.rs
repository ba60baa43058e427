//! What commands do when nobody takes their output: a full disk is a failure, a reader that has gone is none.

use std::fs::File;
use std::process::Stdio;

use crate::commands::{Operator, command};
use crate::votes::{connect, open_show};
use crate::{Server, Settings, folder};

/// The exit code, and what is said, when every write fails as on a full disk.
fn on_a_full_disk(server: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut child = command(server, arguments);
    let child = child.stdout(full).stderr(Stdio::piped()).spawn().expect("it runs");
    let ended = child.wait_with_output().expect("it ends");
    (ended.status.code(), String::from_utf8(ended.stderr).expect("text"))
}

#[test]
fn output_that_a_full_disk_does_not_take_is_a_failure_of_every_command() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let file = folder.path().join("accounts.csv");
    std::fs::write(&file, "id,asset,kind\nwallet:new,credit,wallet\n").expect("there is room");
    let (data, file) = (settings.data.display().to_string(), file.display().to_string());
    let (operator, backups) = (Operator::of(&server), folder.path().join("backups").display().to_string());
    let hold = ["--debit", "wallet:dave", "--credit", "candidate:1", "--amount", "1", "--expires-in-ms", "3600000"];
    operator.done(&[&["hold", "place", "h"], &hold[..]].concat());
    let make = ["transfer", "make", "t", "--debit", "source:shop", "--credit", "wallet:dave", "--amount", "1"];
    let lost = |arguments: &[&str]| {
        let (code, said) = on_a_full_disk(&operator.server, arguments);
        assert!(code == Some(1) && said.contains("No space left on device"), "{arguments:?}: {code:?} {said}");
    };
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["help", "import"],
        &["completions", "zsh"],
        &["status"],
        &["account", "list"],
        &["account", "get", "wallet:dave"],
        &["account", "history", "wallet:dave"],
        &["account", "holds", "wallet:dave"],
        &["asset", "list"],
        &make,
        &["transfer", "get", "t"],
        &["transfer", "list", "--account", "wallet:dave"],
        &["changes"],
        // It would go on for ever if it took a lost row for a server that is away for a while.
        &["changes", "--follow"],
        &["import", &file],
        &["drain", "--rate", "1000"],
        &["backup", "--data", &data, "--to", &backups],
        &["backup", "--verify", &backups],
        &["doctor", "--data", &data],
    ] {
        lost(arguments);
        if !["--help", "--version", "help", "completions", "backup", "doctor"].contains(&arguments[0]) {
            lost(&[arguments, &["--json"]].concat());
        }
    }
    server.kill();
    lost(&["audit", "--data", &data]);
    lost(&["mend-time", "--data", &data, "--to", "now"]);
    lost(&["accept-loss", "--data", &data, "--reason", "none"]);
    let restored = folder.path().join("restored").display().to_string();
    lost(&["restore", "--from", &backups, "--data", &restored]);
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    open_show(&mut connect(&server));
    let operator = Operator::of(&server);
    for arguments in
        [&["--help"][..], &["completions", "zsh"], &["account", "list"], &["changes"], &["status", "--json"]]
    {
        let (reader, writer) = std::io::pipe().expect("the system has pipes");
        drop(reader);
        let mut child = command(&operator.server, arguments);
        let child = child.stdout(writer).stderr(Stdio::piped()).spawn().expect("it runs");
        let ended = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && said.is_empty(), "{arguments:?}: {} {said}", ended.status);
    }
}
