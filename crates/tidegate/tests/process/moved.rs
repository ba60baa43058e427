//! Data directories that are moved, replaced, half removed, or not there: the server writes into its own and no other,
//! and begins no empty one where something shows that there was a full one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use tidegate_broker::TOPICS;
use tidegate_journal::directory::{Directory, ShardCount, Wanted};
use tidegate_ledger::LEDGER;
use tidegate_pacer::family::CAMPAIGNS;
use tidegate_queue::QUEUES;
use tidegate_roster::ROSTER;

use crate::http::Http;
use crate::support::server::command;
use crate::timeline::copy;
use crate::votes::{CREDITS, connect, ids, open_show, votes};
use crate::{Process, Server, Settings, audit, folder, wait_for};

/// What `/healthz` says of the data directory as a whole; empty for nothing.
pub fn directory_fault(server: &Server) -> String {
    let answer = Http::connect(server.http).and_then(|mut http| http.get("/healthz")).expect("an answer");
    answer.body["directory"].as_str().unwrap_or_default().to_owned()
}

/// All files and folders of a directory, with a checksum of what is in the files.
fn tree(data: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(data).expect("it is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(tree(&path));
        }
        let bytes = fs::read(&path).unwrap_or_default();
        found.insert(path, crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes));
    }
    found
}

fn segments(data: &Path) -> usize {
    let entries = fs::read_dir(data.join("journal/ledger-0")).expect("it is there").flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("segment-")).count()
}

/// Has `count` votes decided, in batches, and says whether all of them were done, or known already.
fn vote(server: &Server, name: &str, count: usize) {
    let mut client = connect(server);
    for batch in ids(name, count).chunks(5_000) {
        let outcomes = client.transfers(&votes(batch)).expect("the server serves");
        assert!(outcomes.iter().all(|outcome| outcome.is_done()), "{outcomes:?}");
    }
}

/// Dave's balance.
fn balance(server: &Server) -> i64 {
    connect(server).account("wallet:dave").expect("it is there").balance
}

/// Starts a server, which has these votes and no others, and stops it. A vote that is repeated is not decided again.
#[track_caller]
fn has(settings: &Settings, expected: &[(&str, usize)]) {
    let server = Server::start(settings);
    let spent: usize = expected.iter().map(|(_, count)| count).sum();
    assert_eq!(balance(&server), CREDITS as i64 - spent as i64);
    for (name, count) in expected {
        vote(&server, name, *count);
    }
    assert_eq!(balance(&server), CREDITS as i64 - spent as i64, "all of them were known");
    assert_eq!(directory_fault(&server), "");
    assert!(server.terminate().status.success());
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");
}

/// More than a segment.
const MANY: usize = 60_000;
const FEW: usize = 300;

#[test]
fn a_server_whose_directory_was_replaced_writes_into_its_own_and_not_into_the_other() {
    for is_served in [true, false] {
        let folder = folder();
        let (backup, moved) = (folder.path().join("backup"), folder.path().join("data.old"));
        let quiet = Settings::new(folder.path());
        let old = Server::start(&Settings { snapshot_interval_s: 1, ..quiet.clone() });
        open_show(&mut connect(&old));
        vote(&old, "both", FEW);
        let [data, to] = [&quiet.data, &backup].map(|path| path.to_str().expect("a plain name"));
        let backed_up = command(&["backup", "--data", data, "--to", to]);
        assert!(backed_up.status.success(), "{backed_up}");
        fs::rename(&quiet.data, &moved).expect("it can be moved");
        let restored = command(&["restore", "--from", to, "--data", data]);
        assert!(restored.status.success(), "{restored}");
        let new = is_served.then(|| Server::start(&quiet));
        if let Some(new) = &new {
            vote(new, "new", FEW);
            // Its tail is marked, its index of ids written.
            sleep(Duration::from_millis(1_500));
        }
        let before = tree(&quiet.data);
        vote(&old, "old", MANY);
        wait_for("health says so", || directory_fault(&old).starts_with("away: ").then_some(()));
        let now = format!("the one of this server is {}", moved.display());
        wait_for("the log says where it is", || old.log().contains(&now).then_some(()));
        wait_for("it goes on in the next segment", || (segments(&moved) > 1).then_some(()));
        wait_for("its snapshots are written", || moved.join("snapshots/ledger-0").exists().then_some(()));
        assert_eq!(tree(&quiet.data), before, "nothing is written where it was");
        assert_eq!(balance(&old), CREDITS as i64 - (FEW + MANY) as i64);

        assert!(old.terminate().status.success());
        assert_eq!(tree(&quiet.data), before, "nor at its end");
        let mut of_new = vec![("both", FEW)];
        if let Some(new) = new {
            assert_eq!(directory_fault(&new), "");
            assert!(new.terminate().status.success());
            of_new.push(("new", FEW));
        }
        has(&quiet, &of_new);
        has(&Settings { data: moved, ..quiet }, &[("both", FEW), ("old", MANY)]);
    }
}

#[test]
fn a_directory_that_is_moved_away_under_a_server_is_told_and_can_be_put_back_with_mv() {
    let folder = folder();
    let settings = Settings { snapshot_interval_s: 1, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let moved = folder.path().join("moved");
    assert_eq!(directory_fault(&server), "");
    open_show(&mut connect(&server));
    vote(&server, "before", FEW);
    fs::rename(&settings.data, &moved).expect("it can be moved");
    vote(&server, "behind", FEW);
    wait_for("health says so", || directory_fault(&server).starts_with("away: ").then_some(()));
    let asked = command(&["status", "--server", &format!("http://{}", server.http)]);
    assert!(!asked.status.success() && asked.log.contains("put the directory back to its place"), "{asked}");
    wait_for("the log says so", || server.log().contains("away: the data directory was moved").then_some(()));
    let kept = moved.join("snapshots/ledger-0");
    wait_for("there is a snapshot", || kept.exists().then_some(()));
    let snapshots = || tree(&kept).into_keys().rfind(|path| path.extension().is_some_and(|end| end == "tgs"));
    let newest = snapshots();
    vote(&server, "later", FEW);
    wait_for("there is another snapshot", || (snapshots() > newest).then_some(()));
    assert!(!settings.data.exists(), "nothing is made where it was");
    // In its place again while it is served, and once more when it is not.
    fs::rename(&moved, &settings.data).expect("it can be moved");
    wait_for("all is well", || directory_fault(&server).is_empty().then_some(()));
    fs::rename(&settings.data, &moved).expect("it can be moved");
    assert!(server.terminate().status.success());
    assert!(!settings.data.exists(), "nothing is made where it was");
    fs::rename(&moved, &settings.data).expect("it can be moved");
    has(&settings, &[("before", FEW), ("behind", FEW), ("later", FEW)]);
}

#[test]
fn no_empty_ledger_is_begun_where_something_remains_of_one() {
    let folder = folder();
    let settings = Settings { snapshot_interval_s: 1, ..Settings::new(folder.path()) };
    let whole = folder.path().join("whole");
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    vote(&server, "all", FEW);
    wait_for("there is a snapshot", || settings.data.join("snapshots/ledger-0").exists().then_some(()));
    assert!(server.terminate().status.success());
    copy(&settings.data, &whole);
    // As `rm -r` leaves it that was interrupted, and with less and less.
    for gone in [&["journal", "DIRECTORY"][..], &["LOCK"], &["snapshots"], &["KEY"]] {
        for name in gone {
            let path = settings.data.join(name);
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("it was there");
        }
        let before = tree(&settings.data);
        let refused = Server::refused(&settings);
        assert!(refused.log.contains("this remains of a data directory. No new one is made here"), "{refused}");
        assert_eq!(tree(&settings.data), before, "nothing was made or changed");
    }
    fs::remove_dir_all(&settings.data).expect("nobody uses it");

    // The whole in its place again: a folder below is told, too.
    let inside = settings.data.join("whole");
    fs::create_dir(&settings.data).and_then(|()| fs::rename(&whole, &inside)).expect("it can be moved");
    let refused = Server::refused(&settings);
    assert!(refused.log.contains("but its folder whole has one"), "{refused}");
    assert_eq!(fs::read_dir(&settings.data).expect("it is there").count(), 1, "nothing was made");
    fs::rename(&inside, &whole).and_then(|()| fs::remove_dir(&settings.data)).expect("nothing else is there");
    fs::rename(&whole, &settings.data).expect("it can be moved");
    has(&settings, &[("all", FEW)]);
}

#[test]
fn a_new_directory_is_told_and_none_is_made_beside_the_witnesses_of_another() {
    let folder = folder();
    let (far, own) = (folder.path().join("far"), folder.path().join("own"));
    for witnesses in [&far, &own] {
        fs::create_dir(witnesses).and_then(|()| fs::write(witnesses.join("tidegate-witnesses"), "")).unwrap();
    }
    let keys = |witnesses: &Path| format!("witness = {:?}\n", witnesses.display().to_string());
    let settings = Settings { data_keys: keys(&far), ..Settings::new(folder.path()) };
    let told = format!("a NEW, empty data directory was made: {}", settings.data.display());
    let server = Server::start(&settings);
    server.says(&told);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    let server = Server::start(&settings);
    assert!(!server.log().contains("a NEW, empty data directory"), "{}", server.log());
    assert!(server.terminate().status.success());

    // Its disk is not mounted: there is nothing, or the empty folder that it is mounted at.
    let unmounted = folder.path().join("unmounted");
    fs::rename(&settings.data, &unmounted).expect("nobody uses it");
    for is_folder in [false, true] {
        if is_folder {
            fs::create_dir(&settings.data).unwrap();
        }
        let refused = Server::refused(&settings);
        assert!(refused.log.contains("has witnesses of other data directories: 1, among them"), "{refused}");
        assert_eq!(settings.data.exists(), is_folder);
    }
    assert_eq!(fs::read_dir(&settings.data).unwrap().count(), 0);
    fs::remove_dir(&settings.data).unwrap();
    fs::rename(&unmounted, &settings.data).expect("it can be moved");
    Server::start(&settings).kill();

    // Both ways to a new one.
    let other = Settings { data: folder.path().join("other"), data_keys: keys(&own), ..settings.clone() };
    Server::start(&other).kill();
    let third = Settings { data: folder.path().join("third"), data_keys: String::new(), ..settings.clone() };
    Server::start(&third).kill();
    Server::start(&Settings { data_keys: keys(&far), ..third }).kill();
}

#[test]
fn a_first_start_that_is_killed_before_any_of_its_calls_is_finished_by_the_next() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/moved/killed.c");
    let library = folder.path().join("killed.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
    assert!(compiler.status().expect("a C compiler").success());
    let library = library.to_str().expect("the folder is ASCII").to_owned();
    let count = ShardCount::Kept;
    let wanted = [LEDGER, TOPICS, ROSTER, QUEUES, CAMPAIGNS].map(|family| Wanted { family, shards: 1, count });
    let (mut killed, mut went_on) = (0, 0);
    loop {
        killed += 1;
        let environment = [("LD_PRELOAD", library.clone()), ("TIDEGATE_TEST_KILLED_AT", killed.to_string())];
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let ended = Process::spawn(&Settings { environment, ..settings.clone() }).ready().err().expect("it is killed");
        assert_eq!(ended.status.signal(), Some(libc::SIGKILL), "{ended}");
        // The same that the next start does first.
        let has_begun = settings.data.join("journal").exists();
        let found = Directory::open_or_create(&settings.data, &wanted, 7)
            .unwrap_or_else(|refused| panic!("killed before call {killed}: {refused}"));
        went_on += u32::from(has_begun && found.created_at_ms() != 7);
        drop(found);
        if killed % 8 == 0 {
            Server::start(&settings).kill();
        }
        fs::remove_dir_all(&settings.data).expect("nobody uses it");
        if ended.log.contains("a NEW, empty data directory was made") {
            break;
        }
    }
    assert!(killed > 20 && went_on > 10, "killed {killed} times, {went_on} of them when it had begun");
}
