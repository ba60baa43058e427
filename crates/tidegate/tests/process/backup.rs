//! Backups of a server that serves, and what is restored from them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tidegate_client::{AccountKind, Transfer};

use crate::http::Http;
use crate::support::server::command;
use crate::votes::{CREDITS, connect, ids, open_show, votes};
use crate::{Ended, Server, Settings, audit, folder, wait_for};

pub fn backup(data: &Path, to: &Path) -> Ended {
    let ended = command(&["backup", "--data", text(data), "--to", text(to)]);
    assert!(ended.status.success(), "{ended}");
    ended
}

pub fn verified(backups: &Path) -> Ended {
    command(&["backup", "--verify", text(backups)])
}

pub fn restore(from: &Path, data: &Path, more: &[&str]) -> Ended {
    let mut arguments = vec!["restore", "--from", text(from), "--data", text(data)];
    arguments.extend(more);
    command(&arguments)
}

pub fn restored(from: &Path, data: &Path, more: &[&str]) -> Ended {
    let ended = restore(from, data, more);
    assert!(ended.status.success(), "{ended}");
    let audited = audit(data);
    assert!(audited.status.success(), "{audited}");
    ended
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("a test's folder has a plain name")
}

fn segments(root: &Path, log: &str) -> Vec<PathBuf> {
    let listed = fs::read_dir(root.join("journal").join(log)).expect("it has logs");
    let mut paths: Vec<_> = listed.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("segment-")));
    paths.sort();
    paths
}

fn names(backups: &Path) -> Vec<String> {
    let listed = fs::read_dir(backups.join("backups")).expect("it has backups").flatten();
    let mut names: Vec<_> = listed.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Transfers from several connections, each acknowledged before the next of its connection is sent.
struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    fn start(
        server: &Server,
        clients: usize,
        transfer: impl Fn(usize) -> (String, String) + Send + Sync + 'static,
    ) -> Load {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let transfer = Arc::new(transfer);
        let clients = (0..clients)
            .map(|client| {
                let mut connection = connect(server);
                let (stop, acknowledged, transfer) = (stop.clone(), acknowledged.clone(), transfer.clone());
                std::thread::spawn(move || {
                    let mut done = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let id = format!("load-{client}-{}", done.len());
                        let (debit, credit) = transfer(client * 7_919 + done.len());
                        let asked = Transfer {
                            id: &id,
                            debit: &debit,
                            credit: &credit,
                            amount: 1,
                            memo: "",
                            code: 0,
                            user_data: "",
                        };
                        // The server is killed while it is asked.
                        let Ok(outcome) = connection.transfer(&asked) else { break };
                        assert!(outcome.is_done(), "{outcome:?}");
                        acknowledged.fetch_add(1, Ordering::Relaxed);
                        done.push(id);
                    }
                    done
                })
            })
            .collect();
        Load { stop, acknowledged, clients }
    }

    fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits until so many more were acknowledged.
    fn goes_on(&self, more: usize) {
        let goal = self.acknowledged() + more;
        wait_for("the load goes on", || (self.acknowledged() >= goal).then_some(()));
    }

    fn end(self) -> Vec<Vec<String>> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().map(|client| client.join().expect("a client ends")).collect()
    }
}

fn balance(server: &Server, account: &str) -> i64 {
    connect(server).account(account).expect("it is there").balance
}

#[test]
fn a_backup_under_load_has_every_transfer_that_was_acknowledged_before_it_began() {
    let folder = folder();
    let settings = Settings { mqtt: true, ..Settings::new(folder.path()) };
    let (backups, data) = (folder.path().join("backups"), folder.path().join("restored"));
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let load = Load::start(&server, 4, |_| ("wallet:dave".into(), "candidate:1".into()));
    load.goes_on(200);

    let before = load.acknowledged();
    backup(&settings.data, &backups);
    let after = load.acknowledged() + 4;
    load.goes_on(200);
    server.kill();
    load.end();

    assert!(verified(&backups).status.success());
    let ended = restored(&backups, &data, &[]);
    assert!(ended.log.contains("the end of the backup") && ended.log.contains("timeline of its own"), "{ended}");
    let settings = Settings { data, ..settings };
    let server = Server::start(&settings);
    let votes = balance(&server, "candidate:1") as usize;
    assert!((before..=after).contains(&votes), "{votes} votes restored, {before} to {after} were acknowledged then");
    assert_eq!(balance(&server, "wallet:dave"), CREDITS as i64 - votes as i64);
    // It goes on, also after a restart.
    let one = ids("behind", 1);
    assert!(connect(&server).transfers(&self::votes(&one)).expect("it serves").iter().all(|outcome| outcome.is_done()));
    let ended = server.terminate();
    assert!(ended.status.success(), "{ended}");
    let server = Server::start(&settings);
    assert_eq!(balance(&server, "candidate:1") as usize, votes + 1);
    server.kill();
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");
}

#[test]
fn a_second_backup_copies_only_what_is_new_and_the_first_stays_restorable() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let backups = folder.path().join("backups");
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let fill = |name: &str| {
        for number in 0..6 {
            connect(&server).transfers(&votes(&ids(&format!("{name}-{number}"), 8_000))).expect("the server serves");
        }
    };
    fill("first");
    backup(&settings.data, &backups);
    let sealed = segments(&backups, "ledger-0").remove(0);
    let size = |path: &Path| fs::metadata(path).expect("it is there").len();
    let (first, last) = (size(&sealed), segments(&backups, "ledger-0").len());
    // Nothing is read of what is held whole: a copy that cannot be opened does not matter.
    backup(&settings.data, &backups);
    let idle = backup(&settings.data, &backups);
    assert!(idle.log.contains("0 B copied"), "{idle}");
    fill("second");
    backup(&settings.data, &backups);
    assert!(segments(&backups, "ledger-0").len() > last && size(&sealed) >= first);
    server.kill();
    assert!(verified(&backups).status.success());

    let all = names(&backups);
    assert_eq!(all.len(), 4, "{all:?}");
    for (name, expected) in [(Some(&all[0]), 48_000), (None, 96_000)] {
        let data = folder.path().join(format!("restored-{expected}"));
        let more: Vec<&str> = name.map_or(Vec::new(), |name| vec!["--backup", name]);
        restored(&backups, &data, &more);
        let server = Server::start(&Settings { data, ..settings.clone() });
        assert_eq!(balance(&server, "candidate:1"), expected);
        server.kill();
    }
    // What is no directory of backups is called so.
    for other in [&*folder.path().join("nowhere"), &settings.data] {
        for refused in [verified(other), restore(other, &folder.path().join("none"), &[])] {
            assert!(refused.status.code() == Some(1), "{refused}");
            assert!(refused.log.contains(&format!("{}: it is no directory of backups", text(other))), "{refused}");
        }
    }
    let unknown = restore(&backups, &folder.path().join("none"), &["--backup", "yesterday"]);
    assert!(!unknown.status.success() && unknown.log.contains(&all[3]), "{unknown}");
}

#[test]
fn a_restore_ends_at_the_sequence_or_the_time_that_was_asked_for() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let backups = folder.path().join("backups");
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    // Six records so far; each vote alone is a group of its own.
    let vote = |name: &str| {
        for id in ids(name, 10) {
            let outcomes = connect(&server).transfers(&votes(&[id])).expect("the server serves");
            assert!(outcomes[0].is_done());
        }
    };
    vote("early");
    std::thread::sleep(std::time::Duration::from_millis(50));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later").as_millis();
    let moment = tidegate_backup::Moment(now as u64).to_string();
    std::thread::sleep(std::time::Duration::from_millis(50));
    vote("late");
    backup(&settings.data, &backups);
    server.kill();

    for (number, (at, expected)) in [("13", 7), (&*moment, 10), ("0:26", 20)].into_iter().enumerate() {
        let data = folder.path().join(format!("restored-{number}"));
        let ended = restored(&backups, &data, &["--at", at]);
        let left = format!("the {} records behind it are left out", 20 - expected);
        assert!(expected == 20 || ended.log.contains(&left), "{ended}");
        let server = Server::start(&Settings { data, ..settings.clone() });
        assert_eq!(balance(&server, "candidate:1"), expected, "{at}");
        server.kill();
    }
    let before = "is before the history begins that the backup has";
    for (at, words) in [
        ("27", "ends at sequence 26"),
        ("1:5", "give a sequence for each"),
        ("soon", "no place"),
        ("0", before),
        ("1970-01-01", before),
        ("2001-01-01T00:00:00Z", " to 26 (20"),
        ("2999-01-01", ", and its newest record is of 20"),
    ] {
        let refused = restore(&backups, &folder.path().join("none"), &["--at", at]);
        assert!(!refused.status.success() && refused.log.contains(words), "{refused}");
        assert!(!folder.path().join("none").exists(), "{at}");
    }
}

#[test]
fn a_restore_writes_over_nothing_and_a_damaged_backup_is_refused_with_the_file() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let backups = folder.path().join("backups");
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    backup(&settings.data, &backups);
    server.kill();
    let before = fs::read(settings.data.join("DIRECTORY")).expect("it is there");
    let refused = restore(&backups, &settings.data, &[]);
    assert!(!refused.status.success() && refused.log.contains("it is not empty"), "{refused}");
    assert_eq!(fs::read(settings.data.join("DIRECTORY")).expect("it is there"), before);

    let name = names(&backups).remove(0);
    let victims = [
        segments(&backups, "ledger-0").remove(0),
        backups.join("backups").join(&name).join("MANIFEST"),
        backups.join("backups").join(&name).join("DIRECTORY"),
    ];
    for (number, path) in victims.into_iter().enumerate() {
        let good = fs::read(&path).expect("it is there");
        let mut bad = good.clone();
        let at = if bad.len() > 4_300 { 4_300 } else { bad.len() / 2 };
        // Of one byte it would follow what it was.
        bad[at] ^= 1;
        bad[at + 1] ^= 1;
        fs::write(&path, &bad).expect("it can be written");
        let data = folder.path().join(format!("restored-{number}"));
        for ended in [verified(&backups), restore(&backups, &data, &[])] {
            assert!(!ended.status.success() && ended.log.contains(text(&path)), "{ended}");
        }
        assert!(!data.exists(), "a restore that fails leaves nothing");
        fs::write(&path, &good).expect("it can be written");
    }
    assert!(verified(&backups).status.success());
    let cut = segments(&backups, "ledger-0").remove(0);
    fs::File::options().write(true).open(&cut).and_then(|file| file.set_len(4_096)).expect("it can be cut");
    let refused = restore(&backups, &folder.path().join("cut"), &[]);
    assert!(!refused.status.success() && refused.log.contains(text(&cut)), "{refused}");
}

#[test]
fn shards_under_load_across_each_other_are_cut_so_that_they_agree() {
    let folder = folder();
    let settings = Settings { shards: 2, workers: 2, ..Settings::new(folder.path()) };
    let backups = folder.path().join("backups");
    let server = Server::start(&settings);
    let mut client = connect(&server);
    client.open_account("source:shop", "credit", AccountKind::Source).expect("it opens");
    let wallet = |number: usize| format!("wallet:{}", number % 8);
    for number in 0..8 {
        let id = wallet(number);
        client.open_account(&id, "credit", AccountKind::Wallet).expect("it opens");
        let sale = Transfer {
            id: &format!("sale-{number}"),
            debit: "source:shop",
            credit: &id,
            amount: CREDITS,
            memo: "",
            code: 0,
            user_data: "",
        };
        assert!(client.transfer(&sale).expect("it is decided").is_done());
    }
    let load = Load::start(&server, 4, move |number| (wallet(number), wallet(number + 1 + number % 7)));
    load.goes_on(300);
    for _ in 0..5 {
        backup(&settings.data, &backups);
        load.goes_on(50);
    }
    server.kill();
    load.end();
    let all = names(&backups);
    assert_eq!(all.len(), 5);
    for name in &all {
        let data = folder.path().join(format!("restored-{name}"));
        restored(&backups, &data, &["--backup", name]);
        // Credits on their way arrive after the start; nothing is lost and nothing is made.
        let server = Server::start(&Settings { data: data.clone(), ..settings.clone() });
        let mut client = connect(&server);
        wait_for("all credits arrived", || {
            let of =
                |client: &mut tidegate_client::Client<_>, id: &str| client.account(id).expect("it is there").balance;
            let sum: i64 = (0..8).map(|number| of(&mut client, &format!("wallet:{number}"))).sum();
            (sum == 8 * CREDITS as i64).then_some(())
        });
        server.kill();
        fs::remove_dir_all(&data).expect("nobody uses it");
    }
    let refused = restore(&backups, &folder.path().join("none"), &["--at", "5"]);
    assert!(!refused.status.success() && refused.log.contains("has 2 shards"), "{refused}");
    // Any time gives a state in which the shards agree.
    let text = fs::read_to_string(backups.join("backups").join(&all[2]).join("MANIFEST")).expect("it is text");
    let taken = text.lines().find_map(|line| line.strip_prefix("created_at_ms = ")).expect("it says when");
    let taken: u64 = taken.parse().expect("a number");
    for earlier in [0, 3, 40, 150] {
        let moment = tidegate_backup::Moment(taken - earlier).to_string();
        let data = folder.path().join(format!("earlier-{earlier}"));
        restored(&backups, &data, &["--at", &moment]);
    }
}

#[test]
fn a_restored_directory_has_backups_of_its_own() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let (backups, data) = (folder.path().join("backups"), folder.path().join("restored"));
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    backup(&settings.data, &backups);
    connect(&server).transfers(&votes(&ids("kept", 3))).expect("the server serves");
    backup(&settings.data, &backups);
    server.kill();
    let first = names(&backups).remove(0);
    restored(&backups, &data, &["--backup", &first]);
    let refused = command(&["backup", "--data", text(&data), "--to", text(&backups)]);
    assert!(!refused.status.success() && refused.log.contains("this data directory was restored"), "{refused}");
    assert!(verified(&backups).status.success());
    backup(&data, &folder.path().join("others"));
    let inside = command(&["backup", "--data", text(&data), "--to", text(&data.join("backups"))]);
    assert!(!inside.status.success() && inside.log.contains("never inside"), "{inside}");
}

#[test]
fn changes_are_read_over_the_notice_of_a_restore() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let backups = folder.path().join("backups");
    backup(&settings.data, &backups);
    assert!(server.terminate().status.success());
    let settings = Settings { data: folder.path().join("restored"), ..settings };
    restored(&backups, &settings.data, &[]);

    let server = Server::start(&settings);
    let mut client = connect(&server);
    let request = ids("after the restore", 3);
    assert_eq!(client.transfers(&votes(&request)).expect("the server serves").len(), 3);
    let page = Http::connect(server.http).and_then(|mut http| http.get("/v1/changes?limit=1000"));
    let page = page.expect("the door answers");
    // Four accounts and two sales before the notice, three votes behind it.
    assert_eq!(page.body["changes"].as_array().map(Vec::len), Some(9), "{page:?}");
    assert!(server.terminate().status.success());
}

#[test]
fn a_directory_whose_key_is_lost_is_not_served_with_its_snapshots() {
    let folder = folder();
    let settings = Settings { snapshot_interval_s: 1, audit_interval_s: 1, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    wait_for("a snapshot", || server.log().contains("wrote a snapshot").then_some(()));
    assert!(server.terminate().status.success());
    fs::remove_file(settings.data.join("KEY")).expect("it has one");

    let refused = Server::refused(&settings);
    assert!(refused.log.contains("no file KEY") && refused.log.contains("Put KEY back"), "{refused}");
    fs::rename(settings.data.join("snapshots"), folder.path().join("moved away")).expect("it has some");
    let server = Server::start(&settings);
    server.says("there was no file KEY in");
    assert_eq!(connect(&server).account("wallet:dave").expect("it is there").balance, CREDITS as i64);
    assert!(server.terminate().status.success());
}
