//! A backup of the journal is restored while newer snapshots exist, as an operator does who copies exactly what the
//! documentation names. The state is then that of the journal.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::http::Http;
use crate::votes::{CREDITS, connect, ids, open_show, votes};
use crate::{Server, Settings, audit, folder, wait_for};

/// Votes of each part of the story.
pub const VOTES: usize = 40;

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder takes folders");
    for entry in fs::read_dir(from).expect("it is there") {
        let path = entry.expect("it can be read").path();
        let target = to.join(path.file_name().expect("it has a name"));
        match path.is_dir() {
            true => copy(&path, &target),
            false => _ = fs::copy(&path, &target).expect("there is room"),
        }
    }
}

/// As in a data directory that was put back whole: nothing says where its logs ended later.
pub fn forget_ends(data: &Path) {
    fs::remove_dir_all(data.join("ends")).expect("a stop recorded them");
}

pub fn vote(server: &Server, name: &str) {
    let ids = ids(name, VOTES);
    let outcomes = connect(server).transfers(&votes(&ids)).expect("votes are decided");
    assert!(outcomes.iter().all(|outcome| outcome.is_done()), "{outcomes:?}");
}

pub fn snapshots(data: &Path) -> usize {
    let listed = fs::read_dir(data.join("snapshots/ledger-0"))
        .map(|entries| entries.flatten().filter(|entry| entry.file_name().to_string_lossy().ends_with(".tgs")).count());
    listed.unwrap_or(0)
}

#[test]
fn a_snapshot_of_another_timeline_is_named_and_never_served() {
    let folder = folder();
    let settings = Settings { snapshot_interval_s: 1, audit_interval_s: 1, ..Settings::new(folder.path()) };
    let quiet = Settings { snapshot_interval_s: 0, ..settings.clone() };
    let journal = settings.data.join("journal");
    let (parted, backup) = (folder.path().join("parted"), folder.path().join("backup"));

    let put = |from: &Path| {
        fs::remove_dir_all(&journal).expect("nobody uses it");
        copy(from, &journal);
        forget_ends(&settings.data);
    };
    let server = Server::start(&quiet);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    copy(&journal, &parted);

    // One timeline, of which the journal is kept.
    let server = Server::start(&quiet);
    vote(&server, "kept-1");
    vote(&server, "kept-2");
    assert!(server.terminate().status.success());
    copy(&journal, &backup);

    // Another, of as many records of the same lengths, of which a snapshot stays: only the chain tells them apart.
    put(&parted);
    let server = Server::start(&settings);
    vote(&server, "lost-1");
    wait_for("a snapshot is written", || (snapshots(&settings.data) > 0).then_some(()));
    assert!(server.terminate().status.success());
    put(&backup);

    let server = Server::start(&settings);
    let balance = connect(&server).account("wallet:dave").expect("it is there").balance;
    assert_eq!(balance, (CREDITS - 2 * VOTES as u64) as i64);
    let mut http = Http::connect(server.http).expect("the door is open");
    let report = wait_for("a reconciliation", || {
        let report: Value = http.get("/v1/audit").expect("the door answers").body;
        (report["shards"][0]["finished_at_ms"].as_u64() > Some(0)).then_some(report)
    });
    assert_eq!(report["agreed"], true, "{report}");
    let ended = server.terminate();
    assert!(ended.status.success());
    assert!(ended.log.contains("passed over a snapshot") && ended.log.contains("of another history"), "{}", ended.log);

    assert!(ended.log.contains("it is set aside as snapshot-"), "{}", ended.log);
    // It is out of the way, for the audit and for the snapshots to come.
    assert!(audit(&settings.data).status.success());
}

/// Votes again for what was voted for; all are done, and none counts again.
pub fn repeat(server: &Server, name: &str) {
    let before = candidate(server);
    vote(server, name);
    assert_eq!(candidate(server), before, "votes of {name} were counted twice");
}

fn candidate(server: &Server) -> i64 {
    connect(server).account("candidate:1").expect("it is there").balance
}

#[test]
fn ids_of_another_history_are_never_trusted() {
    let folder = folder();
    let settings = Settings { snapshot_interval_s: 1, audit_interval_s: 1, ..Settings::new(folder.path()) };
    let quiet = Settings { snapshot_interval_s: 0, ..settings.clone() };
    let server = Server::start(&quiet);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());
    let other = Settings { data: folder.path().join("other"), ..quiet.clone() };
    copy(&settings.data, &other.data);

    // One history, whose ids and snapshots stay.
    let server = Server::start(&settings);
    vote(&server, "only-first");
    let manifest = settings.data.join("ids/ledger-0/manifest");
    wait_for("a snapshot, and ids that cover it", || {
        (snapshots(&settings.data) > 0 && manifest.exists()).then_some(())
    });
    assert!(server.terminate().status.success());
    // Another one, which is longer, and whose journal is put there.
    let server = Server::start(&other);
    vote(&server, "only-second-1");
    vote(&server, "only-second-2");
    assert!(server.terminate().status.success());
    fs::remove_dir_all(settings.data.join("journal")).expect("nobody uses it");
    copy(&other.data.join("journal"), &settings.data.join("journal"));
    forget_ends(&settings.data);

    let server = Server::start(&settings);
    repeat(&server, "only-second-1");
    repeat(&server, "only-second-2");
    vote(&server, "only-first");
    assert_eq!(candidate(&server), 3 * VOTES as i64);
    let ended = server.terminate();
    assert!(ended.log.contains("the id index was of another history, and is rebuilt"), "{ended}");
    let server = Server::start(&settings);
    repeat(&server, "only-first");
    let ended = server.terminate();
    assert!(!ended.log.contains("is rebuilt"), "once: {ended}");
}
