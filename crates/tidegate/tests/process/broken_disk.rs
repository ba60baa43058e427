//! A disk that returns other bytes than were written. A call that reads them is refused as damaged, they are used in no
//! answer, and everybody else is served. `damage.rs` has the details.

use std::fs::{self, OpenOptions};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_client::{Client, ClientError, Outcome, Transfer};

use crate::commands::Operator;
use crate::http::Http;
use crate::votes::{connect, open_show};
use crate::{Server, Settings, folder, wait_for};

const MEMO: &str = "the memo that rots";
const VOTE: Transfer<'_> =
    Transfer { id: "vote", debit: "wallet:dave", credit: "candidate:1", amount: 1, memo: MEMO, code: 0, user_data: "" };

#[test]
fn a_repeated_vote_whose_record_has_rotted_is_refused_and_nobody_else_is() {
    is_refused(|client| match client.transfer(&VOTE) {
        Ok(Outcome::Refused { code, .. }) => code,
        other => panic!("a refusal expected, {other:?}"),
    });
}

#[test]
fn a_history_with_a_rotted_record_is_refused_and_nobody_else_is() {
    is_refused(|client| match client.history("wallet:dave", "", 10) {
        Err(ClientError::Server(error)) => error.code,
        other => panic!("a refusal expected, {other:?}"),
    });
}

/// Lets the record of a durable vote rot under the running server; then `ask` must meet it.
fn is_refused(ask: impl Fn(&mut Client<TcpStream>) -> String) {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    let mut client = connect(&server);
    open_show(&mut client);
    assert!(client.transfer(&VOTE).expect("the server serves").is_done());
    let ended = server.terminate();
    assert!(ended.status.success(), "{ended}");
    // After a start no memory knows the record: it is read from the disk.
    let server = Server::start(&settings);
    let mut client = connect(&server);
    let segment = first_segment(&settings);
    let bytes = fs::read(&segment).expect("it is read");
    let at = bytes.windows(MEMO.len()).position(|window| window == MEMO.as_bytes()).expect("the vote is durable");
    let file = OpenOptions::new().write(true).open(&segment).expect("it is there");
    // Of one byte it would follow what it was.
    file.write_all_at(b"TH", at as u64).expect("it takes two bytes");

    for _ in 0..2 {
        assert_eq!(ask(&mut client), "damaged");
    }
    let other = Transfer { id: "another vote", ..VOTE };
    assert!(client.transfer(&other).expect("the server serves").is_done());
    let mut http = Http::connect(server.http).expect("the door is open");
    let answer = http.get("/v1/accounts/wallet:dave").expect("the door answers");
    assert_eq!(answer.status, 200, "{answer:?}");
    let health = http.get("/healthz").expect("the door answers");
    assert_eq!((health.status, &health.body["damage"]), (200, &1.into()), "{health:?}");
    let ended = server.terminate();
    assert!(ended.status.success() && ended.log.contains("a file is damaged"), "{ended}");
}

/// A disk that gives nothing for a while: `/healthz`, `/v1/audit` and `tidegate status` agree on what that is, and that
/// it is over.
#[test]
fn a_disk_that_cannot_be_read_for_a_while_is_judged_the_same_everywhere() {
    let folder = folder();
    let switch = folder.path().join("broken");
    let mut settings = Settings { audit_interval_s: 1, snapshot_interval_s: 2, ..Settings::new(folder.path()) };
    let library = compiled(folder.path(), "broken_disk/unreadable.c");
    for (name, value) in [("LD_PRELOAD", &library), ("TIDEGATE_TEST_UNREADABLE", &switch)] {
        settings.environment.push((name.into(), value.to_str().expect("the folder is ASCII").into()));
    }
    let server = Server::start(&settings);
    let mut client = connect(&server);
    open_show(&mut client);
    let operator = Operator::of(&server);
    let health = || {
        let body = Http::connect(server.http).and_then(|mut http| http.get("/healthz")).expect("the door answers").body;
        (body["status"] == "ok", body)
    };
    // Both are asked while nothing changes.
    let agree = |is_ok: bool| {
        wait_for("all agree", || {
            let (before, body) = health();
            let (exit, shown, _) = operator.run(&["status"]);
            let is_settled = before == is_ok && before == health().0;
            assert!(!is_settled || (exit == 0) == is_ok || health().0 != is_ok, "{body}: exit {exit}: {shown}");
            (is_settled && (exit == 0) == is_ok).then_some(())
        });
    };
    agree(true);
    fs::write(&switch, "").expect("the folder takes a file");
    assert!(client.transfer(&VOTE).expect("the server serves").is_done(), "the auditor reads it");
    agree(false);
    fs::remove_file(&switch).expect("it is there");
    agree(true);
    assert!(server.terminate().status.success());
}

/// A library to preload, made of `source` beside these tests.
pub(crate) fn compiled(folder: &Path, source: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process").join(source);
    let library = folder.join("preloaded.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
    assert!(compiler.status().expect("a C compiler").success());
    library
}

fn first_segment(settings: &Settings) -> PathBuf {
    let entries = fs::read_dir(settings.data.join("journal/ledger-0")).expect("the journal is there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("it is read").path()).collect();
    paths.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("segment-")));
    paths.sort();
    paths.remove(0)
}
