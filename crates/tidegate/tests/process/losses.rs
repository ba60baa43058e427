//! Logs that were put back from an older copy, or have lost their end: the start is refused with what is lost, until an
//! operator accepts it; then all sums hold, and the loss has a name.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use tidegate_client::{AccountKind, Transfer};
use tidegate_journal::segment::SEGMENT_HEADER_BYTES;
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::shard_of;

use crate::http::Http;
use crate::timeline::{VOTES, copy, forget_ends, repeat, snapshots, vote};
use crate::votes::{CREDITS, connect, open_show};
use crate::{Ended, Server, Settings, audit, folder, tool, wait_for};

const WHY: &str = "disk 2 was replaced";

/// All files of a directory with their bytes, but for the lock, which says who looked.
fn files(data: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(data).expect("it is there").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false if entry.file_name() == "LOCK" => {}
            false => found.push((path.clone(), fs::read(&path).expect("it can be read"))),
        }
    }
    found.sort();
    found
}

/// No backup is taken, with these words, and nothing is made for it.
pub fn no_backup(settings: &Settings, words: &str) {
    let copies = settings.data.with_extension("copies");
    let refused = tool(&settings.data, &["backup", "--to", &copies.display().to_string()]);
    assert!(!refused.status.success() && refused.log.contains("no backup was taken"), "{refused}");
    assert!(refused.log.contains(words), "{words}: {refused}");
    assert!(!copies.exists(), "{refused}");
}

fn put(from: &Path, to: &Path) {
    fs::remove_dir_all(to).expect("nobody uses it");
    copy(from, to);
}

/// The start and an acceptance without "yes" are refused with these words, and change nothing. Then it is accepted.
pub fn refused_until_accepted(settings: &Settings, words: &[&str]) -> Ended {
    let before = files(&settings.data);
    let refused = Server::refused(settings);
    assert!(!refused.status.success(), "{refused}");
    let listed = tool(&settings.data, &["accept-loss", "--reason", WHY]);
    assert_eq!(listed.status.code(), Some(2), "{listed}");
    for words in words {
        assert!(refused.log.contains(words), "{words}: {refused}");
        assert!(listed.log.contains(words), "{words}: {listed}");
    }
    let command = format!("run `tidegate accept-loss --data {} --reason TEXT`", settings.data.display());
    assert!(refused.log.contains(&command), "{refused}");
    assert!(files(&settings.data) == before, "nothing was changed");
    let accepted = tool(&settings.data, &["accept-loss", "--yes", "--reason", WHY]);
    assert!(accepted.status.success(), "{accepted}");
    let again = tool(&settings.data, &["accept-loss", "--yes", "--reason", WHY]);
    assert!(again.status.success() && again.log.contains("nothing is proven lost"), "{again}");
    accepted
}

/// The audit agrees, and names what was accepted.
fn audited(settings: &Settings) -> Ended {
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");
    assert!(audited.log.contains("an operator wrote: loss accepted at 20") && audited.log.contains(WHY), "{audited}");
    audited
}

/// The same with witnesses in `folder`, which is made and marked as theirs.
fn witnessed(settings: Settings, folder: &Path) -> Settings {
    fs::create_dir_all(folder).and_then(|()| fs::write(folder.join("tidegate-witnesses"), "")).unwrap();
    Settings { data_keys: format!("witness = {:?}\n", folder.display().to_string()), ..settings }
}

#[test]
fn a_log_that_ends_before_its_snapshot_is_refused_until_the_loss_is_accepted() {
    let folder = folder();
    let quiet = Settings { snapshot_interval_s: 0, ..Settings::new(folder.path()) };
    let settings = Settings { snapshot_interval_s: 1, audit_interval_s: 1, ..quiet.clone() };
    let (journal, backup) = (settings.data.join("journal"), folder.path().join("backup"));
    let server = Server::start(&quiet);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    copy(&journal, &backup);
    let server = Server::start(&settings);
    vote(&server, "spent");
    wait_for("a snapshot is written", || (snapshots(&settings.data) > 0).then_some(()));
    assert!(server.terminate().status.success());

    put(&backup, &journal);
    let wrong = audit(&settings.data);
    assert_eq!(wrong.status.code(), Some(2), "{wrong}");
    assert!(wrong.log.contains("WRONG: LOST: ledger shard 0: "), "{wrong}");
    let copies = folder.path().join("copies");
    let refused = tool(&settings.data, &["backup", "--to", &copies.display().to_string()]);
    assert!(!refused.status.success() && refused.log.contains("no backup was taken"), "{refused}");
    assert!(!copies.exists(), "{refused}");
    let accepted = refused_until_accepted(&settings, &["are lost: journal/ledger-0 ends at sequence", ".tgs was made"]);
    assert!(accepted.log.contains(".tgs is set aside as "), "{accepted}");
    let server = Server::start(&quiet);
    server.says("an operator wrote into this log");
    assert_eq!(connect(&server).account("wallet:dave").expect("it is there").balance, CREDITS as i64);
    vote(&server, "spent");
    assert!(server.terminate().status.success());
    audited(&settings);
    let server = Server::start(&quiet);
    assert_eq!(connect(&server).account("wallet:dave").expect("it is there").balance, CREDITS as i64 - VOTES as i64);
    repeat(&server, "spent");
    server.kill();
}

#[test]
fn a_file_that_ends_inside_a_group_is_no_torn_tail_if_a_snapshot_has_more() {
    let folder = folder();
    let settings = Settings { snapshot_interval_s: 1, audit_interval_s: 1, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    vote(&server, "spent");
    wait_for("a snapshot is written", || (snapshots(&settings.data) > 0).then_some(()));
    server.kill();
    let segment = settings.data.join("journal/ledger-0/segment-00000000000000000000.tgj");
    let bytes = fs::read(&segment).expect("it is there");
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("it has groups");
    fs::OpenOptions::new().write(true).open(&segment).and_then(|file| file.set_len(used as u64 - 5_000)).unwrap();
    assert!(used > SEGMENT_HEADER_BYTES + 5_000);
    refused_until_accepted(&settings, &["are lost: journal/ledger-0 ends at sequence"]);
    Server::start(&settings).kill();
}

#[test]
fn a_witness_on_another_disk_proves_what_nothing_on_this_one_can() {
    let folder = folder();
    let (backup, witness) = (folder.path().join("backup"), folder.path().join("far"));
    let unseen = Settings { snapshot_interval_s: 0, ..Settings::new(folder.path()) };
    let data_keys = format!("witness = {:?}\n", witness.display().to_string());
    let settings = Settings { data_keys, ..unseen };
    let journal = settings.data.join("journal");
    // The place of a disk that is not mounted: missing, or an empty folder.
    for _ in 0..2 {
        let refused = Server::refused(&settings);
        assert!(refused.log.contains("data.witness: ") && refused.log.contains("is its disk mounted?"), "{refused}");
        fs::create_dir_all(&witness).expect("it can be made");
    }
    assert_eq!(fs::read_dir(&witness).expect("it is there").count(), 0, "nothing was made there");
    fs::write(witness.join("tidegate-witnesses"), "").expect("it can be made");
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    copy(&journal, &backup);
    // Also after a kill it is at most a second behind.
    let server = Server::start(&settings);
    vote(&server, "spent");
    sleep(Duration::from_millis(2_500));
    server.kill();

    put(&backup, &journal);
    let refused = Server::refused(&settings);
    assert!(refused.log.contains(" are lost: journal/ledger-0 ends at sequence"), "{refused}");
    assert!(refused.log.contains("-ledger-0.witness was made when the log reached sequence"), "{refused}");
    let witness = witness.display().to_string();
    let data = settings.data.display();
    let command = format!("run `tidegate accept-loss --data {data} --witness {witness} --reason TEXT`");
    assert!(refused.log.contains(&command), "{refused}");
    let wrong = tool(&settings.data, &["audit", "--witness", &witness]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong}");
    assert!(wrong.log.contains("WRONG: LOST: ledger shard 0: "), "{wrong}");
    let unasked = tool(&settings.data, &["accept-loss", "--yes", "--reason", WHY]);
    assert_eq!(unasked.status.code(), Some(2), "{unasked}");
    assert!(!unasked.log.contains("accepted: "), "{unasked}");
    assert!(unasked.log.contains("Say --witness FOLDER, the folder that data.witness names"), "{unasked}");
    for command in [&["accept-loss", "--witness", &witness][..], &["mend-time", "--to", "now"]] {
        let forged = tool(&settings.data, &[command, &["--yes", "--reason", "a\nLOST: nothing"]].concat());
        let words = "--reason \"a\\nLOST: nothing\": expected one line";
        assert!(!forged.status.success() && forged.log.contains(words), "{forged}");
    }
    let accepted = tool(&settings.data, &["accept-loss", "--yes", "--witness", &witness, "--reason", WHY]);
    assert!(accepted.status.success() && accepted.log.contains(".witness is set aside as"), "{accepted}");
    let server = Server::start(&settings);
    vote(&server, "spent");
    assert!(server.terminate().status.success());
    Server::start(&settings).kill();
}

#[test]
fn what_a_stop_recorded_of_the_ends_of_logs_proves_what_a_quiet_log_has_lost() {
    let folder = folder();
    let settings = Settings { snapshot_interval_s: 0, ..Settings::new(folder.path()) };
    let (journal, backup) = (settings.data.join("journal/ledger-0"), folder.path().join("backup"));
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    copy(&journal, &backup);
    let server = Server::start(&settings);
    vote(&server, "spent");
    assert!(server.terminate().status.success());
    let recorded = settings.data.join("ends").join("ledger-0");
    let testimony = fs::read(&recorded).expect("the stop wrote it");

    // A kill later takes nothing of it away.
    Server::start(&settings).kill();
    put(&backup, &journal);
    let words =
        ["are lost: journal/ledger-0 ends at sequence", "/ends/ledger-0 was made when the log reached sequence"];
    // One that cannot be used keeps nobody from starting: no record is lost with it.
    fs::write(&recorded, "rotten").expect("it can be written");
    let listed = tool(&settings.data, &["accept-loss", "--reason", WHY]);
    assert!(listed.status.success() && listed.log.contains("nothing is proven lost"), "{listed}");
    let agreed = audit(&settings.data);
    assert!(
        agreed.status.success() && agreed.log.contains("/ends/ledger-0 cannot be used: it has 6 bytes"),
        "{agreed}"
    );
    let server = Server::start(&settings);
    server.says("passed over what the last stop recorded of the end of a log");
    server.kill();
    // One that cannot be read now may say something: nobody goes on without being told how.
    let (ends, away) = (settings.data.join("ends"), folder.path().join("ends"));
    fs::rename(&ends, &away).and_then(|()| fs::write(&ends, "")).expect("it can be replaced");
    let way_out = "where a log ended at the last stop in order. Make it readable; or, if that cannot be done, move it";
    for unread in [Server::refused(&settings), tool(&settings.data, &["accept-loss", "--reason", WHY])] {
        assert!(!unread.status.success() && unread.log.contains(way_out), "{unread}");
    }
    fs::remove_file(&ends).and_then(|()| fs::rename(&away, &ends)).expect("it can be put back");
    fs::write(&recorded, testimony).expect("it can be written");
    refused_until_accepted(&settings, &words);
    let server = Server::start(&settings);
    vote(&server, "spent");
    assert!(server.terminate().status.success());
    audited(&settings);
    Server::start(&settings).kill();
}

/// Who puts a file right takes it from a copy: that of a restored backup is no copy of what was written here.
#[test]
fn a_log_out_of_a_restored_directory_is_not_taken_for_the_one_that_it_replaces() {
    let folder = folder();
    let settings = Settings { snapshot_interval_s: 0, ..Settings::new(folder.path()) };
    let (backups, restored) = (folder.path().join("backups"), folder.path().join("restored"));
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    let backups = backups.display().to_string();
    let taken = tool(&settings.data, &["backup", "--to", &backups]);
    assert!(taken.status.success(), "{taken}");
    let server = Server::start(&settings);
    vote(&server, "spent");
    assert!(server.terminate().status.success());
    let ended = tool(&restored, &["restore", "--from", &backups]);
    assert!(ended.status.success(), "{ended}");

    put(&restored.join("journal/ledger-0"), &settings.data.join("journal/ledger-0"));
    let audited = audit(&settings.data);
    assert!(!audited.status.success() && audited.log.contains("WRONG: LOST: ledger shard 0: "), "{audited}");
    refused_until_accepted(&settings, &["/ends/ledger-0 was made"]);
    // The restored directory itself is served.
    Server::start(&Settings { data: restored, ..settings }).kill();
}

#[test]
fn a_witness_that_is_gone_while_serving_is_said_everywhere() {
    let folder = folder();
    let (witness, away) = (folder.path().join("far"), folder.path().join("away"));
    let settings = witnessed(Settings::new(folder.path()), &witness);
    let server = Server::start(&settings);
    let ask = |path: &str| Http::connect(server.http).and_then(|mut http| http.get(path)).expect("an answer").body;
    let lost = |value: u8| {
        let metrics = ask("/metrics");
        let line = format!("tidegate_witness_lost{{family=\"ledger\",shard=\"0\"}} {value}\n");
        metrics.as_str().expect("a text").contains(&line).then_some(())
    };
    let file = || {
        fs::read_dir(&witness)
            .into_iter()
            .flatten()
            .flatten()
            .find(|entry| entry.file_name().to_string_lossy().ends_with("-ledger-0.witness"))
    };
    wait_for("it is written", || file().map(drop));
    wait_for("all is well", || lost(0));
    assert_eq!(ask("/healthz"), serde_json::json!({"status": "ok"}));

    // Nothing is written meanwhile.
    fs::rename(&witness, &away).expect("nobody has it open");
    wait_for("metrics say so", || lost(1));
    let lost_logs = wait_for("health says so", || ask("/healthz")["witness_lost"].as_u64().filter(|lost| *lost >= 1));
    assert_eq!(ask("/healthz")["status"], "degraded");
    let said = "the witness of a log cannot be written";
    // What it says comes through a pipe, later than what it answers.
    let told = || Some(server.log().matches(said).count()).filter(|told| *told as u64 >= lost_logs);
    let logs = wait_for("the log says so", told);
    fs::rename(&away, &witness).expect("nobody has it open");
    wait_for("it is written again", || lost(0));
    wait_for("health is well", || (ask("/healthz") == serde_json::json!({"status": "ok"})).then_some(()));
    assert_eq!(server.log().matches(said).count(), logs, "once for each log");

    fs::remove_file(file().expect("it is there").path()).expect("nobody has it open");
    wait_for("a file that is gone is written again", || file().map(drop));
    assert!(server.terminate().status.success());
}

#[test]
fn a_witness_that_is_gone_at_a_start_is_begun_anew_only_by_an_operator() {
    let folder = folder();
    let (backup, witness) = (folder.path().join("backup"), folder.path().join("far"));
    let settings = witnessed(Settings::new(folder.path()), &witness);
    // A directory that had none begins one.
    let alone = Settings { data_keys: String::new(), ..settings.clone() };
    let server = Server::start(&alone);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    assert!(Server::start(&settings).terminate().status.success());
    copy(&settings.data, &backup);
    let server = Server::start(&settings);
    vote(&server, "spent");
    assert!(server.terminate().status.success());

    // All of yesterday is put back, and what could tell is gone.
    put(&backup, &settings.data);
    let entries = || fs::read_dir(&witness).expect("it is there").flatten().map(|entry| entry.path());
    let file = || entries().find(|path| path.display().to_string().ends_with("-ledger-0.witness"));
    fs::remove_file(file().expect("it was written")).expect("nobody has it open");
    let before = files(&settings.data);
    let refused = Server::refused(&settings);
    let far = witness.display().to_string();
    let command =
        format!("run `tidegate accept-loss --data {} --witness {far} --reason TEXT`", settings.data.display());
    for words in ["ledger shard 0: its witness ", " is gone, and this data directory had one", &command] {
        assert!(refused.log.contains(words), "{words:?} is not in: {refused}");
    }
    assert!(files(&settings.data) == before && file().is_none(), "nothing was changed");
    let listed = tool(&settings.data, &["accept-loss", "--witness", &far, "--reason", WHY]);
    assert!(listed.status.code() == Some(2) && listed.log.contains("LOST: the witness "), "{listed}");
    let accepted = tool(&settings.data, &["accept-loss", "--yes", "--witness", &far, "--reason", WHY]);
    assert!(accepted.status.success() && accepted.log.contains("is begun anew by the next start"), "{accepted}");
    let server = Server::start(&settings);
    wait_for("it is written", || file().map(drop));
    assert!(server.terminate().status.success());
    assert!(Server::start(&settings).terminate().status.success());
}

#[test]
fn a_witness_that_is_no_witness_is_set_aside_only_by_an_operator() {
    let folder = folder();
    let witness = folder.path().join("far");
    let settings = witnessed(Settings::new(folder.path()), &witness);
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    let entries = || fs::read_dir(&witness).expect("it is there").flatten().map(|entry| entry.path());
    let of = |log: &str| entries().find(|path| path.display().to_string().ends_with(&format!("-{log}.witness")));
    let (file, other) = (of("ledger-0").expect("it was written"), of("topics-0").expect("it was written"));
    let directory = || fs::remove_file(&file).and_then(|()| fs::create_dir(&file));
    let mut flipped = fs::read(&file).expect("it is there");
    flipped[30] ^= 1;
    let cases: [(&dyn Fn() -> std::io::Result<()>, &str); 4] = [
        (&|| fs::write(&file, ""), "it has 0 bytes, expected 108"),
        (&|| fs::write(&file, &flipped), "it is damaged: its checksum does not match"),
        (&|| fs::copy(&other, &file).map(drop), "it is of another log, "),
        (&directory, "it is no file"),
    ];
    let far = witness.display().to_string();
    for (number, (harm, wrong)) in cases.into_iter().enumerate() {
        harm().expect("it can be done");
        let refused = Server::refused(&settings);
        let command = format!(" --witness {far} --reason TEXT`");
        for words in [&format!("its witness {} cannot be used: {wrong}", file.display()), &command] {
            assert!(refused.log.contains(words), "{words:?} is not in: {refused}");
        }
        let listed = tool(&settings.data, &["accept-loss", "--witness", &far, "--reason", WHY]);
        assert!(listed.status.code() == Some(2) && listed.log.contains(wrong), "{listed}");
        assert!(file.exists(), "nothing was changed");
        let audited = tool(&settings.data, &["audit", "--witness", &far]);
        assert!(audited.status.code() == Some(2) && audited.log.contains(wrong), "{audited}");
        let accepted = tool(&settings.data, &["accept-loss", "--yes", "--witness", &far, "--reason", WHY]);
        assert!(accepted.status.success() && accepted.log.contains(" is set aside as "), "{accepted}");
        assert_eq!(entries().filter(|path| path.display().to_string().contains(".set-aside")).count(), number + 1);
        let again = tool(&settings.data, &["accept-loss", "--yes", "--witness", &far, "--reason", WHY]);
        assert!(again.status.success() && again.log.contains("nothing is proven lost"), "{again}");
        let server = Server::start(&settings);
        wait_for("it is written", || file.is_file().then_some(()));
        assert!(server.terminate().status.success());
    }
    assert!(audit(&settings.data).status.success(), "no log has a notice");
}

#[test]
fn accept_loss_says_first_that_no_server_starts_without_the_key() {
    let folder = folder();
    let backup = folder.path().join("backup");
    let settings = Settings { snapshot_interval_s: 1, ..Settings::new(folder.path()) };
    let (journal, key) = (settings.data.join("journal"), settings.data.join("KEY"));
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    copy(&journal, &backup);
    let server = Server::start(&settings);
    vote(&server, "spent");
    let before = snapshots(&settings.data);
    wait_for("a snapshot", || (snapshots(&settings.data) > before).then_some(()));
    assert!(server.terminate().status.success());
    put(&backup, &journal);
    let whole = fs::read(&key).expect("it is there");
    let damaged = || fs::write(&key, &whole[..7]).expect("it can be written");
    let gone = || fs::remove_file(&key).expect("it is there");
    let cases: [(&dyn Fn(), &str); 2] = [(&damaged, "it is damaged"), (&gone, "no file KEY to verify them with")];
    for (harm, words) in cases {
        harm();
        let before = files(&settings.data);
        let listed = tool(&settings.data, &["accept-loss", "--reason", WHY]);
        assert_eq!(listed.status.code(), Some(2), "{listed}");
        assert!(listed.log.contains("no server starts on this directory") && listed.log.contains(words), "{listed}");
        let refused = tool(&settings.data, &["accept-loss", "--yes", "--reason", WHY]);
        assert!(!refused.status.success() && refused.log.contains(words), "{refused}");
        assert!(!refused.log.contains("the server can be started"), "{refused}");
        assert!(files(&settings.data) == before, "nothing was changed");
    }
    fs::write(&key, &whole).expect("it can be written");
    let accepted = tool(&settings.data, &["accept-loss", "--yes", "--reason", WHY]);
    assert!(accepted.status.success(), "{accepted}");
    assert!(Server::start(&settings).terminate().status.success());
}

/// One shard was put back from an older copy; the other one was killed, so that its log would be repaired if it were
/// opened.
#[test]
fn a_refused_start_changes_nothing_of_the_shards_that_are_sound() {
    let folder = folder();
    let two = Two::new(folder.path());
    let settings = Settings { snapshot_interval_s: 1, ..two.settings.clone() };
    let old = folder.path().join("old");
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    connect(&server).open_account(&two.receiver, "credit", AccountKind::Wallet).expect("accounts open");
    two.send(&server, "before", 3, 3);
    assert!(server.terminate().status.success());
    let journal = settings.data.join(format!("journal/ledger-{}", two.from));
    copy(&journal, &old);
    let server = Server::start(&settings);
    let snapshots = settings.data.join(format!("snapshots/ledger-{}", two.from));
    let newest = || fs::read_dir(&snapshots).into_iter().flatten().flatten().map(|entry| entry.file_name()).max();
    // The second of two has what was sent before the first.
    for (name, then) in [("after", 8), ("later", 13)] {
        two.send(&server, name, 5, then);
        let known = newest();
        wait_for("a snapshot", || (newest() != known).then_some(()));
    }
    server.kill();
    put(&old, &journal);
    refused_until_accepted(&settings, &["are lost", &format!("journal/ledger-{}", two.from)]);
}

#[test]
fn a_witness_tells_a_log_that_was_exchanged_although_it_is_longer() {
    let folder = folder();
    let (backup, witness) = (folder.path().join("backup"), folder.path().join("far"));
    let alone = Settings { snapshot_interval_s: 0, ..Settings::new(folder.path()) };
    let settings = witnessed(alone.clone(), &witness);
    let journal = settings.data.join("journal");
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    copy(&journal, &backup);
    let server = Server::start(&settings);
    vote(&server, "spent");
    assert!(server.terminate().status.success());

    // The old copy goes on elsewhere, without the witness, and further.
    put(&backup, &journal);
    fs::remove_dir_all(settings.data.join("ids")).expect("nobody uses it");
    forget_ends(&settings.data);
    let server = Server::start(&alone);
    for name in ["other", "words", "of", "it"] {
        vote(&server, name);
    }
    let ended = server.terminate();
    assert!(ended.status.success());
    assert!(ended.log.contains("had witnesses, and data.witness is not configured"), "{ended}");
    let words = ["the log is not the one that was written here", ".witness was made at sequence"];
    let refused = Server::refused(&settings);
    assert!(words.iter().all(|words| refused.log.contains(words)), "{refused}");
    let witness = witness.display().to_string();
    let accepted = tool(&settings.data, &["accept-loss", "--yes", "--witness", &witness, "--reason", WHY]);
    assert!(accepted.status.success() && accepted.log.contains(".witness is set aside as"), "{accepted}");
    Server::start(&settings).kill();
}

fn pay(server: &Server, id: &str, debit: &str, credit: &str, amount: u64) {
    let transfer = Transfer { id, debit, credit, amount, memo: "", code: 0, user_data: "" };
    assert!(connect(server).transfer(&transfer).expect("it is decided").is_done());
}

/// Two shards with a wallet on each; the first sends to the second.
struct Two {
    settings: Settings,
    payer: &'static str,
    receiver: String,
    /// Their shards.
    from: u16,
    to: u16,
}

impl Two {
    fn new(root: &Path) -> Two {
        let settings = Settings { shards: 2, workers: 2, snapshot_interval_s: 0, ..Settings::new(root) };
        let payer = "wallet:dave";
        let ShardIndex(from) = shard_of(payer, 2);
        let elsewhere = |id: &String| shard_of(id, 2) != ShardIndex(from);
        let receiver = (0..).map(|number| format!("wallet:far{number}")).find(elsewhere).expect("half of them");
        Two { settings, payer, receiver, from, to: 1 - from }
    }

    /// Sends so many credits, one by one, and waits until they are received and confirmed.
    fn send(&self, server: &Server, name: &str, count: usize, then: i64) {
        self.send_each(server, name, (count, 1), then);
    }

    fn send_each(&self, server: &Server, name: &str, (count, amount): (usize, u64), then: i64) {
        let mut client = connect(server);
        for number in 0..count {
            let id = format!("{name}-{number}");
            let transfer = Transfer {
                id: &id,
                debit: self.payer,
                credit: &self.receiver,
                amount,
                memo: "",
                code: 0,
                user_data: "",
            };
            assert!(client.transfer(&transfer).expect("it is decided").is_done());
        }
        wait_for("the credits are there", || (self.balance(server, &self.receiver) == then).then_some(()));
        // The receiver's next question is its confirmation.
        sleep(Duration::from_millis(300));
    }

    /// Two credits, and a copy. Then so many more of one each; in the copy, so many of so much each; and the sender's
    /// shard of the copy.
    fn of_two_histories(root: &Path, here: usize, (there, amount): (usize, u64)) -> Two {
        let two = Two::new(root);
        let server = Server::start(&two.settings);
        open_show(&mut connect(&server));
        connect(&server).open_account(&two.receiver, "credit", AccountKind::Wallet).expect("accounts open");
        two.send(&server, "both", 2, 2);
        assert!(server.terminate().status.success());
        let other = two.forked(&root.join("other"));
        let server = Server::start(&two.settings);
        two.send(&server, "one", here, 2 + here as i64);
        assert!(server.terminate().status.success());
        let server = Server::start(&other.settings);
        other.send_each(&server, "two", (there, amount), 2 + (there as u64 * amount) as i64);
        assert!(server.terminate().status.success());
        two.takes_sender_of(&other);
        two
    }

    /// A copy of its directory, to go on elsewhere.
    fn forked(&self, data: &Path) -> Two {
        copy(&self.settings.data, data);
        let settings = Settings { data: data.to_path_buf(), ..self.settings.clone() };
        Two { settings, receiver: self.receiver.clone(), ..*self }
    }

    /// The sender's shard is put there from the other directory, and what is beside its log.
    fn takes_sender_of(&self, other: &Two) {
        put(&other.log(self.from), &self.log(self.from));
        let ids = |of: &Two| of.settings.data.join(format!("ids/ledger-{}", self.from));
        put(&ids(other), &ids(self));
        forget_ends(&self.settings.data);
    }

    fn balance(&self, server: &Server, account: &str) -> i64 {
        connect(server).account(account).expect("it is there").balance
    }

    fn log(&self, shard: u16) -> PathBuf {
        self.settings.data.join(format!("journal/ledger-{shard}"))
    }

    /// Five credits, a copy, and seven more.
    fn story(&self, backup: &Path) {
        let server = Server::start(&self.settings);
        open_show(&mut connect(&server));
        connect(&server).open_account(&self.receiver, "credit", AccountKind::Wallet).expect("accounts open");
        self.send(&server, "kept", 5, 5);
        assert!(server.terminate().status.success());
        copy(&self.settings.data.join("journal"), backup);
        let server = Server::start(&self.settings);
        self.send(&server, "later", 7, 12);
        assert!(server.terminate().status.success());
        let audited = audit(&self.settings.data);
        assert!(audited.status.success() && audited.log.contains(" credits between shards compared"), "{audited}");
        // What follows is to be told by the other shard alone.
        forget_ends(&self.settings.data);
    }

    /// Serves, asks again what was lost, sends more, and audits: figures before that, of payer, receiver and loss.
    fn goes_on(&self, more: usize) -> (i64, i64, i64) {
        let server = Server::start(&self.settings);
        let loss = connect(&server).accounts("source:accepted-loss:credit:", "", 9).expect("it is listed");
        let loss: Vec<i64> = loss.iter().map(|account| account.balance).collect();
        let figures = || (self.balance(&server, self.payer), self.balance(&server, &self.receiver), loss.iter().sum());
        let before = figures();
        // Clients who never heard of the loss ask again with the same ids.
        if loss.is_empty() {
            self.send(&server, "later", 7, before.1);
            assert_eq!(figures(), before, "nobody pays twice");
        }
        self.send(&server, "new", more, before.1 + more as i64);
        assert!(server.terminate().status.success());
        let audited = audited(&self.settings);
        let named = audited.log.contains("accepted loss: source:accepted-loss:credit:");
        assert_eq!(named, !loss.is_empty(), "{audited}");
        Server::start(&self.settings).kill();
        before
    }
}

#[test]
fn shards_of_two_histories_are_not_served_together_also_if_their_numbers_fit() {
    let folder = folder();
    let two = Two::of_two_histories(folder.path(), 3, (3, 2));
    let words = format!("ledger shards {} and {} are of two histories: up to credit 5, shard", two.from, two.to);
    let refused = Server::refused(&two.settings);
    assert!(refused.log.contains(&words) && refused.log.contains("from one backup"), "{refused}");
    let audited = audit(&two.settings.data);
    assert!(!audited.status.success() && audited.log.contains(&words), "{audited}");
    no_backup(&two.settings, &words);
}

/// What a start compares fits. An audit reads each credit.
#[test]
fn an_audit_tells_two_histories_whose_numbers_and_sums_fit() {
    let folder = folder();
    let two = Two::of_two_histories(folder.path(), 3, (3, 1));
    let audited = audit(&two.settings.data);
    let Two { from, to, .. } = two;
    let words = format!("ledger shards {from} and {to} are of two histories: credit 3 from shard {from} to shard {to}");
    assert!(!audited.status.success() && audited.log.contains(&words), "{audited}");
}

/// Numbers and sums say that one has lost records. Each credit says that they are of two histories.
#[test]
fn a_loss_between_shards_of_two_histories_is_not_accepted() {
    let folder = folder();
    let two = Two::of_two_histories(folder.path(), 5, (3, 1));
    let refused = Server::refused(&two.settings);
    let lost = format!("shard {} has taken in its credits up to 7", two.to);
    assert!(refused.log.contains(&lost), "{refused}");
    let (before, Two { from, to, .. }) = (files(&two.settings.data), &two);
    let words = format!("ledger shards {from} and {to} are of two histories: credit 3 from shard {from} to shard {to}");
    for arguments in [&["accept-loss", "--reason", WHY][..], &["accept-loss", "--yes", "--reason", WHY]] {
        let ended = tool(&two.settings.data, arguments);
        assert!(!ended.status.success() && ended.log.contains(&words), "{ended}");
        assert!(ended.log.contains("nothing was changed"), "{ended}");
    }
    assert!(files(&two.settings.data) == before, "nothing was changed");
}

#[test]
fn debits_that_one_of_two_shards_has_lost_stop_the_start_and_are_booked_when_accepted() {
    let folder = folder();
    let (two, backup) = (Two::new(folder.path()), folder.path().join("backup"));
    two.story(&backup);
    put(&backup.join(format!("ledger-{}", two.from)), &two.log(two.from));
    let words =
        format!("records of ledger shard {} are lost: shard {} has taken in its credits up to ", two.from, two.to);
    no_backup(&two.settings, &words);
    let accepted = refused_until_accepted(&two.settings, &[&words]);
    let listed = format!("transfer later-6: 1 credit from {} to {}", two.payer, two.receiver);
    assert!(accepted.log.contains(&listed), "{accepted}");
    let again = format!("7 credits between it and shard {} are written again", two.to);
    assert!(accepted.log.contains(&again), "{accepted}");
    assert_eq!(two.goes_on(3), (CREDITS as i64 - 12, 12, 0), "who has paid has paid, and his ids are known");
}

#[test]
fn a_lost_debit_that_cannot_be_written_again_is_listed_and_booked_as_a_loss() {
    let folder = folder();
    let (two, backup) = (Two::new(folder.path()), folder.path().join("backup"));
    let near = |id: &String| shard_of(id, 2) == ShardIndex(two.from);
    let source = (0..).map(|number| format!("source:near{number}")).find(near).expect("half of them");
    let server = Server::start(&two.settings);
    open_show(&mut connect(&server));
    connect(&server).open_account(&two.receiver, "credit", AccountKind::Wallet).expect("accounts open");
    connect(&server).open_account(&source, "credit", AccountKind::Source).expect("accounts open");
    pay(&server, "most", two.payer, &two.receiver, CREDITS - 3);
    two.send(&server, "kept", 0, CREDITS as i64 - 3);
    assert!(server.terminate().status.success());
    copy(&two.settings.data.join("journal"), &backup);
    let server = Server::start(&two.settings);
    // Of this, the other shard knows nothing.
    pay(&server, "top-up", &source, two.payer, 10);
    two.send(&server, "later", 7, CREDITS as i64 + 4);
    assert!(server.terminate().status.success());

    put(&backup.join(format!("ledger-{}", two.from)), &two.log(two.from));
    let listed = format!("transfer later-6: 1 credit from {} to {}", two.payer, two.receiver);
    let accepted = refused_until_accepted(&two.settings, &[]);
    assert_eq!(accepted.log.matches("it cannot be written again (insufficient_funds)").count(), 4, "{accepted}");
    assert!(accepted.log.contains(&listed), "{accepted}");
    assert!(accepted.log.contains("3 credits between it and shard"), "{accepted}");
    assert_eq!(two.goes_on(0), (0, CREDITS as i64 + 4, -4), "what is at the receiver's was paid by nobody");
}

/// What the account had got of the other shard is written again first, so that nothing need be booked.
#[test]
fn lost_debits_of_what_had_just_come_from_another_shard_are_written_again() {
    let folder = folder();
    let (two, backup) = (Two::new(folder.path()), folder.path().join("backup"));
    let server = Server::start(&two.settings);
    open_show(&mut connect(&server));
    connect(&server).open_account(&two.receiver, "credit", AccountKind::Wallet).expect("accounts open");
    pay(&server, "most", two.payer, &two.receiver, CREDITS - 3);
    two.send(&server, "kept", 0, CREDITS as i64 - 3);
    assert!(server.terminate().status.success());
    copy(&two.settings.data.join("journal"), &backup);
    let server = Server::start(&two.settings);
    pay(&server, "top-up", &two.receiver, two.payer, 10);
    wait_for("the credit has come back", || (two.balance(&server, two.payer) == 13).then_some(()));
    two.send(&server, "later", 7, CREDITS as i64 - 6);
    assert!(server.terminate().status.success());

    put(&backup.join(format!("ledger-{}", two.from)), &two.log(two.from));
    let accepted = refused_until_accepted(&two.settings, &[]);
    assert!(!accepted.log.contains("cannot be written again"), "{accepted}");
    let again = format!("7 credits between it and shard {} are written again", two.to);
    assert!(accepted.log.contains(&again), "{accepted}");
    assert_eq!(two.goes_on(0), (6, CREDITS as i64 - 6, 0), "nobody pays twice");
}

#[test]
fn credits_that_one_of_two_shards_has_lost_stop_the_start_and_are_booked_when_accepted() {
    let folder = folder();
    let (two, backup) = (Two::new(folder.path()), folder.path().join("backup"));
    two.story(&backup);
    put(&backup.join(format!("ledger-{}", two.to)), &two.log(two.to));
    let words =
        format!("records of ledger shard {} are lost: it has confirmed the credits of shard {}", two.to, two.from);
    no_backup(&two.settings, &words);
    let accepted = refused_until_accepted(&two.settings, &[&words]);
    let again = format!("7 credits between it and shard {} are written again", two.from);
    assert!(accepted.log.contains(&again), "{accepted}");
    assert_eq!(two.goes_on(3), (CREDITS as i64 - 12, 12, 0), "what was paid arrives");
}
