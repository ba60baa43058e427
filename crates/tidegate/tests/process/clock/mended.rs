//! A clock was wrong and the time was mended: a restore at a place of that history is what was served then.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use tidegate_backup::Moment;
use tidegate_client::{AccountKind, Outcome, Transfer};

use super::{DAYS_2_S, HOUR_MS, WallClock, YEARS_10_S, durable_client_named, mend_with};
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

/// One credit for a candidate that the show does not have.
fn give(server: &Server, id: &str, credit: &str) -> u64 {
    let gift = Transfer { id, debit: "wallet:carol", credit, amount: 1, memo: "", code: 0, user_data: "" };
    assert!(connect(server).transfer(&gift).expect("the server serves").is_done());
    let newest = get(server, &format!("/v1/accounts/{credit}/transfers?limit=1"));
    newest["transfers"][0]["time_ms"].as_u64().expect("there is one")
}

/// A candidate who was given something last while the clock was ahead, another who was given something since.
#[test]
fn a_balance_of_a_time_is_that_of_a_restore_at_that_time_or_is_not_given() {
    const BOTH: [&str; 2] = ["candidate:1", "candidate:2"];
    let folder = folder();
    let mut settings = Settings::new(folder.path());
    let clock = WallClock::of(&mut settings);
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    connect(&server).open_account("candidate:2", "credit", AccountKind::Collector).expect("it opens");
    let first = give(&server, "first", "candidate:2");
    sleep(Duration::from_millis(20));
    let right = give(&server, "right", "candidate:1");
    assert!(server.terminate().status.success());
    clock.set_ahead(YEARS_10_S);
    let server = Server::start(&settings);
    assert!(give(&server, "ahead", "candidate:2") > right + HOUR_MS);
    give(&server, "ahead-again", "candidate:2");
    assert!(server.terminate().status.success());
    clock.set_ahead(0);
    let mended = mend_with(&settings.data, &[], &[]);
    assert!(mended.status.success(), "{mended}");
    let server = Server::start(&settings);
    sleep(Duration::from_millis(20));
    let then = give(&server, "then", "candidate:1");
    sleep(Duration::from_millis(20));
    let last = give(&server, "last", "candidate:1");
    let refused = get(&server, &format!("/v1/accounts/candidate:2?at={}", right + 1));
    let known_from = refused["detail"].as_str().and_then(|detail| detail.split_once("or from ")?.1.split_once(" on"));
    let known_from = known_from.unwrap_or_else(|| panic!("{refused}")).0;
    assert_eq!(refused["code"], "time_uncertain");
    backed_up(&settings);

    let moment = |ms: u64| Moment(ms).to_string();
    // Of the second candidate alone nobody can tell behind its first gift. A restore sees the record of another account
    // that was written later by a clock that was still right.
    let known = [
        (moment(first), Some([0, 1]), [Some(0), Some(1)]),
        (moment(right - 1), Some([0, 1]), [Some(0), None]),
        (moment(right), Some([1, 1]), [Some(1), None]),
        (moment(right + 1), None, [Some(1), None]),
        (known_from.to_owned(), Some([1, 3]), [Some(1), Some(3)]),
        (moment(then - 1), Some([1, 3]), [Some(1), Some(3)]),
        (moment(then), Some([2, 3]), [Some(2), Some(3)]),
        (moment(last), Some([3, 3]), [Some(3), Some(3)]),
    ];
    for (number, (at, restored, said)) in known.iter().enumerate() {
        let of_then = BOTH.map(|id| get(&server, &format!("/v1/accounts/{id}?at={at}")));
        for (body, said) in of_then.iter().zip(said) {
            let is_told = said.map_or(body["code"] == "time_uncertain", |said| body["balance"] == said);
            assert!(is_told, "{at}: {said:?}, {body}");
        }
        let copy = Settings { data: folder.path().join(format!("copy-{number}")), ..settings.clone() };
        let ended = restore(&settings, &copy, at);
        assert_eq!(ended.status.success(), restored.is_some(), "{at}: {ended}");
        let Some(balances) = restored else {
            assert!(ended.log.contains("nobody can tell"), "{at}: {ended}");
            continue;
        };
        let server = Server::start(&copy);
        let now = BOTH.map(|id| get(&server, &format!("/v1/accounts/{id}"))["balance"].clone());
        assert_eq!(now, *balances, "restored at {at}");
        assert!(server.terminate().status.success());
    }
    let now = get(&server, "/v1/accounts/candidate:2?at=1");
    assert_eq!((&now["balance"], &now["before_first_row"]), (&0.into(), &true.into()));
    assert!(server.terminate().status.success());
}

/// Between the clock's step back and the mend, rows are of a time to come, and nobody has said so.
#[test]
fn a_balance_of_a_time_is_not_given_while_rows_behind_it_are_of_a_time_to_come() {
    let folder = folder();
    let mut settings = Settings::new(folder.path());
    let clock = WallClock::of(&mut settings);
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    connect(&server).open_account("candidate:2", "credit", AccountKind::Collector).expect("it opens");
    let first = give(&server, "first", "candidate:2");
    sleep(Duration::from_millis(20));
    let right = give(&server, "right", "candidate:1");
    assert!(server.terminate().status.success());
    clock.set_ahead(YEARS_10_S);
    let server = Server::start(&settings);
    assert!(give(&server, "ahead", "candidate:2") > right + HOUR_MS);
    assert!(server.terminate().status.success());
    clock.set_ahead(0);
    let server = Server::start(&settings);
    let at = |id: &str, at: u64| get(&server, &format!("/v1/accounts/{id}?at={at}"));
    assert_eq!(get(&server, "/v1/accounts/candidate:2")["balance"], 2);
    for time in [right, right + 1] {
        let refused = at("candidate:2", time);
        assert_eq!(refused["code"], "time_uncertain", "{refused}");
        assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("mend-time")), "{refused}");
    }
    assert_eq!(
        (&at("candidate:2", first)["balance"], &at("candidate:1", right + 1)["balance"]),
        (&1.into(), &1.into())
    );
    assert!(server.terminate().status.success());
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
