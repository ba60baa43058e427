//! Logs whose files are damaged, missing or no files: what the commands say is true of what is there, and each way out
//! that they name leads out.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidegate_broker::TopicsFamily;
use tidegate_journal::LocalLogs;
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_shard::loss::{examine, fold_to_end};
use tidegate_shard::{ShardFamily, Snapshots, Stand};

use crate::http::Http;
use crate::support::server::command;
use crate::votes::{CREDITS, connect, open_show};
use crate::{Ended, Server, Settings, audit, folder, tool};

/// A directory in which an account has credits and some topics have retained messages.
struct Kept {
    folder: tempfile::TempDir,
    settings: Settings,
}

impl Kept {
    /// Ended gracefully; each log has one segment.
    fn new() -> Kept {
        let folder = folder();
        let settings = Settings { mqtt: true, ..Settings::new(folder.path()) };
        let server = Server::start(&settings);
        open_show(&mut connect(&server));
        retain(&server, "kept/first");
        let ended = server.terminate();
        assert!(ended.status.success(), "{ended}");
        Kept { folder, settings }
    }

    fn log(&self, name: &str) -> PathBuf {
        self.settings.data.join("journal").join(name)
    }

    /// The only segment of a log.
    fn segment(&self, name: &str) -> PathBuf {
        self.log(name).join("segment-00000000000000000000.tgj")
    }

    /// What `accept-loss` says.
    fn accept(&self, more: &[&str]) -> Ended {
        tool(&self.settings.data, &[&["accept-loss", "--reason", "disk 2 was replaced"], more].concat())
    }
}

/// Keeps a message on a topic.
fn retain(server: &Server, topic: &str) {
    let message = json!({"topic": topic, "payload": "kept", "qos": 1, "retain": true});
    let published = Http::connect(server.http).and_then(|mut http| http.post("/v1/publish", &message));
    assert_eq!(published.expect("an answer").status, 200);
}

/// Topics that have a retained message.
fn retained(server: &Server) -> String {
    Http::connect(server.http).and_then(|mut http| http.get("/v1/retained")).expect("an answer").body.to_string()
}

/// All that is said of a process, with these words in it.
#[track_caller]
fn says(ended: &Ended, words: &[&str]) {
    for words in words {
        assert!(ended.log.contains(words), "{words:?} is not in: {ended}");
    }
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("it is there");
    bytes[at] ^= 0x10;
    fs::write(path, bytes).expect("it is written");
}

#[test]
fn an_audit_looks_at_all_logs_and_names_each_that_is_missing() {
    let kept = Kept::new();
    fs::remove_dir_all(kept.log("topics-0")).expect("it is there");
    fs::remove_file(kept.segment("roster-0")).expect("it is there");
    let audited = audit(&kept.settings.data);
    assert_eq!(audited.status.code(), Some(2), "{audited}");
    says(&audited, &["ledger shard 0: ", "records verified and refolded", "ledger shard 0: asset credit: balances 0"]);
    says(&audited, &["WRONG: topics shard 0, ", "the segment file is missing, and so is the folder of its log"]);
    says(&audited, &["WRONG: roster shard 0, ", "the segment file is missing, and its folder has no segment"]);
    says(&audited, &["2 problem(s) found", "--reason TEXT lists what can be done"]);
    let listed = kept.accept(&["--yes"]);
    assert_eq!(listed.status.code(), Some(1), "{listed}");
    says(&listed, &["topics shard 0: ", "roster shard 0: "]);

    let copies = kept.folder.path().join("copies");
    let refused = tool(&kept.settings.data, &["backup", "--to", copies.to_str().expect("a plain name")]);
    assert!(!refused.status.success() && !copies.exists(), "{refused}");
    says(&refused, &["the segment file is missing", "Earlier backups are as they were", "accept-loss --data "]);

    // All of them.
    fs::remove_dir_all(kept.settings.data.join("journal")).expect("it is there");
    says(
        &audit(&kept.settings.data),
        &["WRONG: ledger shard 0, ", "WRONG: topics shard 0, ", "WRONG: roster shard 0, "],
    );
}

#[test]
fn an_audit_says_that_the_header_of_an_empty_log_is_damaged() {
    let kept = Kept::new();
    flip(&kept.segment("roster-0"), 9);
    let audited = audit(&kept.settings.data);
    assert_eq!(audited.status.code(), Some(2), "{audited}");
    says(&audited, &["WRONG: roster shard 0, ", "damaged at offset 0: ", "lost: nothing", "a start writes it again"]);
    assert_eq!(audited.log.matches("WRONG: ").count(), 1, "{audited}");
    let server = Server::start(&kept.settings);
    says(&server.terminate(), &["the header of the newest segment is damaged"]);
    assert!(audit(&kept.settings.data).status.success());
}

/// The only segment of a log with a beginning that is lost, and with all but 20 bytes of it.
#[test]
fn what_a_bad_header_says_is_lost_is_what_is_lost() {
    let kept = Kept::new();
    for log in ["ledger-0", "topics-0"] {
        let (segment, shard) = (kept.segment(log), log.replace('-', " shard "));
        let sound = fs::read(&segment).expect("it is there");
        let zeroed = [&vec![0; 12 << 10], &sound[12 << 10..]].concat();
        let cases = [(&zeroed[..], "no group begins behind it"), (&sound[..20], "the file ends after 20 bytes")];
        for (bytes, words) in cases {
            fs::write(&segment, bytes).expect("it is written");
            let accept = kept.accept(&[]);
            for ended in [audit(&kept.settings.data), Server::refused(&kept.settings), accept] {
                says(&ended, &[&shard, words, "lost: "]);
                for untrue in ["nothing, if its groups follow it", "a start writes it again", "start the server first"]
                {
                    assert!(!ended.log.contains(untrue), "{untrue:?} is in: {ended}");
                }
                assert!(!ended.status.success(), "{ended}");
            }
            assert!(fs::read(&segment).expect("it is there") == bytes, "nothing was changed");
        }
        fs::write(&segment, &sound).expect("it is written");
    }
    Server::start(&kept.settings).kill();
}

/// No backup has it, the ledger is whole: the way out that is named is gone to its end.
#[test]
fn a_lost_log_of_topics_begins_anew_when_an_operator_says_so() {
    type Harm = fn(&Kept);
    let cases: [(Harm, &str); 4] = [
        (|kept| fs::remove_file(kept.segment("topics-0")).unwrap(), "the segment file is missing"),
        (|kept| fs::remove_dir_all(kept.log("topics-0")).unwrap(), "so is the folder of its log"),
        (|kept| fs::write(kept.segment("topics-0"), "").unwrap(), "the file is empty"),
        (
            |kept| {
                let mut bytes = fs::read(kept.segment("topics-0")).unwrap();
                bytes[..12 << 10].fill(0);
                fs::write(kept.segment("topics-0"), bytes).unwrap();
            },
            "no group begins behind it",
        ),
    ];
    for (harm, words) in cases {
        let kept = Kept::new();
        harm(&kept);
        let refused = Server::refused(&kept.settings);
        let command = format!("`tidegate accept-loss --data {} --reason TEXT`", kept.settings.data.display());
        says(&refused, &[words, &command]);
        let advised = kept.accept(&["--yes"]);
        assert_eq!(advised.status.code(), Some(1), "{advised}");
        says(&advised, &[words, "tidegate restore --from BACKUPS --data ", "run this command with --anew topics-0"]);
        let listed = kept.accept(&["--anew", "topics-0"]);
        assert_eq!(listed.status.code(), Some(2), "{listed}");
        let lost = "LOST: topics shard 0: records from 1 on are lost (";
        says(&listed, &[lost, words, "it has no snapshot that can be used, so that all of it is lost"]);
        assert!(!kept.log("topics-0.set-aside").exists() && !kept.log("topics-0.anew").exists(), "nothing was changed");
        let accepted = kept.accept(&["--anew", "topics-0", "--yes"]);
        assert!(accepted.status.success(), "{accepted}");
        says(&accepted, &["begins anew", "loss accepted at ", "the server can be started"]);
        let again = kept.accept(&["--anew", "topics-0", "--yes"]);
        assert!(again.status.success(), "{again}");
        says(&again, &["topics-0 can be read, and does not begin anew", "nothing is proven lost"]);

        let server = Server::start(&kept.settings);
        says(
            &Ended { status: again.status, log: server.log() },
            &["an operator wrote into this log", "disk 2 was replaced"],
        );
        assert_eq!(connect(&server).account("wallet:dave").expect("it is there").balance, CREDITS as i64);
        assert!(!retained(&server).contains("kept/first"));
        retain(&server, "kept/second");
        assert!(server.terminate().status.success());
        let audited = audit(&kept.settings.data);
        assert!(audited.status.success(), "{audited}");
        says(&audited, &["topics shard 0: an operator wrote: loss accepted at 20", "without records 1 to "]);
        let server = Server::start(&kept.settings);
        assert!(retained(&server).contains("kept/second"));
        assert!(server.terminate().status.success());
    }
}

/// Writes a snapshot of the topics, as a server does when there is much to forget.
fn snapshot_topics(data: &Path) {
    let directory = Directory::open(data, &[TopicsFamily::FAMILY]).expect("nobody serves it");
    let log = directory.logs(TopicsFamily::FAMILY).next().expect("one shard");
    let logs = LocalLogs::new(RealDisk, data, &[TopicsFamily::FAMILY]);
    let snapshots = Snapshots::<TopicsFamily, _>::new(RealDisk, data, log);
    let examined = examine(&logs, &snapshots, &[]).expect("it is sound");
    let state = fold_to_end(&logs, &snapshots, 1, &examined).expect("it is sound");
    let stand = Stand { cursor: examined.report.end, timelines: examined.timelines };
    snapshots.write(&stand, &state, |_| Ok(true)).expect("the disk has room");
}

#[test]
fn a_log_that_begins_anew_keeps_what_its_snapshot_has() {
    let kept = Kept::new();
    let settings = kept.settings.clone();
    let server = Server::start(&settings);
    retain(&server, "kept/second");
    assert!(server.terminate().status.success());
    snapshot_topics(&settings.data);
    let server = Server::start(&settings);
    retain(&server, "kept/third");
    assert!(server.terminate().status.success());
    fs::remove_dir_all(kept.log("topics-0")).expect("it is there");

    let accepted = kept.accept(&["--anew", "topics-0", "--yes"]);
    assert!(accepted.status.success(), "{accepted}");
    says(&accepted, &["what its snapshot at sequence 2 has is kept", "without records 3 to 3"]);
    let server = Server::start(&settings);
    let topics = retained(&server);
    assert!(topics.contains("kept/first") && topics.contains("kept/second"), "{topics}");
    assert!(!topics.contains("kept/third"), "{topics}");
    retain(&server, "kept/fourth");
    server.kill();
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");

    // Of this directory, backups can be taken and restored.
    let (backups, data) = (kept.folder.path().join("backups"), kept.folder.path().join("new"));
    let taken = tool(&settings.data, &["backup", "--to", backups.to_str().expect("a plain name")]);
    assert!(taken.status.success(), "{taken}");
    let made = tool(&data, &["restore", "--from", backups.to_str().expect("a plain name")]);
    assert!(made.status.success(), "{made}");
    let server = Server::start(&Settings { data, ..settings });
    let topics = retained(&server);
    assert!(topics.contains("kept/second") && topics.contains("kept/fourth"), "{topics}");
    assert!(server.terminate().status.success());
}

/// A copy that somebody has left there, and a file that was renamed by mistake.
#[test]
fn a_segment_under_a_wrong_name_is_told_by_its_header_and_costs_nothing() {
    let kept = Kept::new();
    let balance = || {
        let server = Server::start(&kept.settings);
        let balance = connect(&server).account("wallet:dave").expect("it is there").balance;
        assert!(server.terminate().status.success());
        balance
    };
    let before = balance();
    for log in ["ledger-0", "topics-0"] {
        let (right, wrong) = (kept.segment(log), kept.log(log).join("segment-00000000000000000500.tgj"));
        fs::copy(&right, &wrong).expect("there is room");
        let advised = kept.accept(&["--yes"]);
        says(&advised, &["is a copy of", "Move it to another folder", "nothing is lost by that"]);
        assert!(!advised.log.contains("truncate"), "{advised}");
        fs::rename(&wrong, kept.folder.path().join(log)).expect("it is there");
        assert_eq!(balance(), before);

        fs::rename(&right, &wrong).expect("it is there");
        let advised = kept.accept(&["--yes"]);
        let rename = format!("mv {} {}", wrong.display(), right.display());
        says(&advised, &["has a wrong name", &rename]);
        fs::rename(&wrong, &right).expect("it is there");
        assert_eq!(balance(), before);
    }
}

#[test]
fn a_ledger_without_its_beginning_is_not_begun_anew() {
    let kept = Kept::new();
    fs::remove_file(kept.segment("ledger-0")).expect("it is there");
    let told = "no command goes on with ledger-0: each balance follows from all of its records";
    let advised = kept.accept(&["--yes"]);
    assert_eq!(advised.status.code(), Some(1), "{advised}");
    says(&advised, &["the segment file is missing", "tidegate restore --from BACKUPS --data ", told]);
    assert!(!advised.log.contains("--anew"), "{advised}");
    let refused = kept.accept(&["--anew", "ledger-0", "--yes"]);
    assert_eq!(refused.status.code(), Some(1), "{refused}");
    says(&refused, &["--anew ledger-0: a log of this family is whole for ever"]);
    assert!(!kept.segment("ledger-0").exists());
}

/// The newest backup need not be the one that reaches furthest, and nobody is told to take it unseen.
#[test]
fn advice_names_the_backup_that_reaches_furthest_and_what_to_compare() {
    let kept = Kept::new();
    let backups = kept.folder.path().join("backups");
    let taken = tool(&kept.settings.data, &["backup", "--to", backups.to_str().expect("a plain name")]);
    assert!(taken.status.success(), "{taken}");
    fs::write(kept.segment("ledger-0"), "").expect("it is written");
    let advised = kept.accept(&[]);
    assert_eq!(advised.status.code(), Some(1), "{advised}");
    says(
        &advised,
        &["--backup NAME", "reaches furthest: it need not be the newest", "up to which sequence of ledger-0"],
    );
    assert!(!advised.log.contains("restore the newest backup"), "{advised}");
    let verified = command(&["backup", "--verify", backups.to_str().expect("a plain name")]);
    assert!(verified.status.success(), "{verified}");
    let ends = |words: &str| {
        let rest = taken.log.split_once(&format!("{words}: up to sequence ")).unwrap_or_else(|| panic!("{taken}")).1;
        rest.lines().next().expect("a line").to_owned()
    };
    says(&verified, &[&format!("ledger-0 up to sequence {}", ends("ledger-0"))]);
    says(&verified, &[&format!("topics-0 up to sequence {}", ends("topics-0"))]);
}

#[test]
fn a_folder_in_the_place_of_the_key_of_tokens_is_named_once_with_what_to_do() {
    let kept = Kept::new();
    let key = kept.settings.data.join("jwt.key");
    fs::remove_file(&key).expect("it is there");
    fs::create_dir(&key).expect("it can be made");
    let ended = Server::refused(&kept.settings);
    let path = key.display().to_string();
    says(&ended, &[&path, "a folder stands where a file should be: move it away, and put the file itself here"]);
    assert_eq!(ended.log.matches("Is a directory").count(), 1, "{ended}");
}

/// Neither a number of the system's nor a file that only the program knows.
#[test]
fn what_stands_instead_of_a_segment_is_said_in_plain_words() {
    let kept = Kept::new();
    let (segment, aside) = (kept.segment("topics-0"), kept.folder.path().join("aside"));
    fs::rename(&segment, &aside).expect("it is there");
    fs::create_dir(&segment).expect("it can be made");
    let path = segment.display().to_string();
    let folder = "a folder stands where a file should be: move it away, and put the file itself here";
    for ended in [audit(&kept.settings.data), Server::refused(&kept.settings), kept.accept(&[])] {
        assert!(!ended.status.success(), "{ended}");
        says(&ended, &[&path, folder]);
    }
    fs::remove_dir(&segment).expect("it is there");
    let nowhere = kept.folder.path().join("nowhere");
    std::os::unix::fs::symlink(&nowhere, &segment).expect("it can be made");
    let link = format!("it is a link to {}, which is not there: mount its disk", nowhere.display());
    for ended in [audit(&kept.settings.data), Server::refused(&kept.settings), kept.accept(&[])] {
        assert!(!ended.status.success(), "{ended}");
        says(&ended, &[&path, &link]);
    }
    fs::remove_file(&segment).expect("it is there");
    fs::remove_dir(kept.log("topics-0")).expect("it is empty");
    fs::write(kept.log("topics-0"), "").expect("it is written");
    for ended in [audit(&kept.settings.data), Server::refused(&kept.settings), kept.accept(&[])] {
        assert!(!ended.status.success(), "{ended}");
        says(&ended, &["a file stands where a folder should be"]);
    }
    fs::remove_file(kept.log("topics-0")).expect("it is there");
    fs::create_dir(kept.log("topics-0")).expect("it can be made");
    fs::rename(&aside, &segment).expect("it is there");
    Server::start(&kept.settings).kill();
}
