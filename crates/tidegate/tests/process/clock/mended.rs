//! A clock was wrong and the time was mended: a restore at a place of that history is what was served then.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use tidegate_backup::Moment;
use tidegate_client::Outcome;

use super::{DAYS_2_S, WallClock, YEARS_10_S, durable_client_named, mend_with};
use crate::http::Http;
use crate::support::server::command;
use crate::votes::{connect, ids, open_show, votes};
use crate::{Ended, Server, Settings, audit, folder, wait_for};

/// Records of `open_show`: four accounts, two sales.
const OPENED: usize = 6;

/// Votes for `candidate:1`, one after the other.
fn vote(server: &Server, name: &str, count: usize) {
    let ids = ids(name, count);
    let outcomes = connect(server).transfers(&votes(&ids)).expect("the server serves");
    assert!(outcomes.iter().all(Outcome::is_done), "{outcomes:?}");
}

fn get(server: &Server, path: &str) -> serde_json::Value {
    Http::connect(server.http).and_then(|mut http| http.get(path)).expect("the door answers").body
}

/// A moment behind all that was voted, and before all that will be.
fn moment_behind(server: &Server) -> String {
    let newest = get(server, "/v1/accounts/candidate:1/transfers?limit=1")["transfers"][0]["time_ms"].as_u64();
    sleep(Duration::from_millis(20));
    Moment(newest.expect("there is one") + 5).to_string()
}

fn backed_up(settings: &Settings) {
    let to = settings.root.join("backups");
    let ended = command(&["backup", "--data", text(&settings.data), "--to", text(&to)]);
    assert!(ended.status.success(), "{ended}");
}

fn restore(settings: &Settings, to: &Settings, at: &str) -> Ended {
    let from = settings.root.join("backups");
    command(&["restore", "--from", text(&from), "--data", text(&to.data), "--at", at])
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a test's folder has a plain name")
}

#[test]
fn a_restore_at_a_time_behind_a_mend_is_what_the_server_says_of_then() {
    let folder = folder();
    let mut settings = Settings::new(folder.path());
    let clock = WallClock::of(&mut settings);
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    vote(&server, "right", 5);
    let wrong_from = moment_behind(&server);
    assert!(server.terminate().status.success());
    clock.set_ahead(YEARS_10_S);
    let server = Server::start(&settings);
    vote(&server, "ahead", 5);
    assert!(server.terminate().status.success());
    clock.set_ahead(0);
    let mended = mend_with(&settings.data, &[], &[]);
    assert!(mended.status.success(), "{mended}");
    let server = Server::start(&settings);
    vote(&server, "then", 20);
    let then = moment_behind(&server);
    vote(&server, "later", 5);
    let balance = get(&server, &format!("/v1/accounts/candidate:1?at={then}"))["balance"].clone();
    assert_eq!(balance, 30);
    backed_up(&settings);
    assert!(server.terminate().status.success());

    let copy = Settings { data: folder.path().join("copy"), ..settings.clone() };
    let ended = restore(&settings, &copy, &then);
    assert!(ended.status.success() && ended.log.contains("; the 5 records behind it are left out"), "{ended}");
    let audited = audit(&copy.data);
    assert!(audited.status.success(), "{audited}");
    let server = Server::start(&copy);
    assert_eq!(get(&server, "/v1/accounts/candidate:1")["balance"], balance);
    let again = connect(&server).transfers(&votes(&ids("then", 20))).expect("the server serves");
    assert!(again.iter().all(|outcome| *outcome == Outcome::Duplicate), "{again:?}");
    assert!(server.terminate().status.success());

    // Of a time while the clock was wrong nobody can tell what had been decided by then.
    let nowhere = Settings { data: folder.path().join("nowhere"), ..settings.clone() };
    let refused = restore(&settings, &nowhere, &wrong_from);
    let words = format!("--at {} is before them, --at {} is behind them", OPENED + 5, OPENED + 10);
    assert!(!refused.status.success() && refused.log.contains(&words) && !nowhere.data.exists(), "{refused}");
}

/// The times of topics stay ahead when those of the ledger were mended.
#[test]
fn a_restore_at_a_place_behind_a_mend_keeps_the_sessions_of_then() {
    let folder = folder();
    let mut settings = Settings { mqtt: true, ..Settings::new(folder.path()) };
    let clock = WallClock::of(&mut settings);
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    vote(&server, "right", 5);
    assert!(server.terminate().status.success());
    clock.set_ahead(DAYS_2_S);
    let server = Server::start(&settings);
    vote(&server, "ahead", 5);
    assert!(!durable_client_named(&server, "ahead"));
    assert!(server.terminate().status.success());
    clock.set_ahead(0);
    let mended = mend_with(&settings.data, &[], &[]);
    assert!(mended.status.success(), "{mended}");
    let server = Server::start(&settings);
    assert!(!durable_client_named(&server, "behind"));
    wait_for("it is remembered that it left", || durable_client_named(&server, "behind").then_some(()));
    vote(&server, "then", 5);
    // And the record of the mend.
    let (sequence, then) = (OPENED + 16, moment_behind(&server));
    vote(&server, "later", 5);
    backed_up(&settings);
    assert!(server.terminate().status.success());

    for (name, at) in [("by-sequence", &sequence.to_string()), ("by-time", &then)] {
        let copy = Settings { data: folder.path().join(name), ..settings.clone() };
        let ended = restore(&settings, &copy, at);
        assert!(ended.status.success(), "{ended}");
        let said = format!("ledger-0: up to sequence {sequence} (");
        for words in [&*said, "records say a later time than the place: a clock was wrong before"] {
            assert!(ended.log.contains(words), "{words:?} is not in: {ended}");
        }
        let server = Server::start(&copy);
        for client in ["behind", "ahead"] {
            assert!(durable_client_named(&server, client), "{client}, {name}");
        }
        assert!(server.terminate().status.success());
    }
}
