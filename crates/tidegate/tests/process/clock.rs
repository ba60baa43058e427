//! The wall clock of the host jumps by ten years: holds live as long as was asked, and an operator learns of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_client::{Hold, Outcome, Transfer};

use crate::http::Http;
use crate::votes::{connect, open_show};
use crate::{Ended, Server, Settings, audit, folder, wait_for};

const YEARS_10_S: i64 = 10 * 365 * 86_400;
const HOUR_MS: u64 = 3_600_000;

/// The wall clock of the servers that are started with its environment.
struct WallClock(PathBuf);

impl WallClock {
    /// Compiles what is preloaded. Building the server needs a C compiler, too.
    fn of(settings: &mut Settings) -> WallClock {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/clock/wall_clock.c");
        let (library, offset) = (settings.root.join("wall_clock.so"), settings.root.join("clock"));
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
        assert!(compiler.status().expect("a C compiler").success(), "the clock is compiled");
        let clock = WallClock(offset);
        clock.set_ahead(0);
        for (name, value) in [("LD_PRELOAD", &library), ("TIDEGATE_TEST_CLOCK", &clock.0)] {
            settings.environment.push((name.into(), value.to_str().expect("the folder is ASCII").into()));
        }
        clock
    }

    /// Moves the clock to so many seconds ahead of the host's.
    fn set_ahead(&self, seconds: i64) {
        use std::os::unix::fs::FileExt;
        let file = fs::File::options().create(true).truncate(false).write(true).open(&self.0).expect("a file");
        file.write_all_at(&seconds.to_le_bytes(), 0).expect("the folder takes 8 bytes");
    }
}

fn hold<'a>(id: &'a str, expires_in_ms: u64) -> Hold<'a> {
    let transfer =
        Transfer { id, debit: "wallet:dave", credit: "candidate:1", amount: 1, memo: "", code: 0, user_data: "" };
    Hold { transfer, expires_in_ms }
}

fn jumps(server: &Server) -> usize {
    server.log().matches("the wall clock jumped").count()
}

fn held(server: &Server) -> u64 {
    connect(server).account("wallet:dave").expect("an answer").held
}

fn mend(data: &Path) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["mend-time", "--to", "now", "--reason", "the clock was ten years ahead", "--data"])
        .arg(data)
        .output()
        .expect("the binary was built with the test");
    let log = [output.stdout, output.stderr].concat();
    Ended { status: output.status, log: String::from_utf8_lossy(&log).into_owned() }
}

#[test]
fn a_jump_of_ten_years_and_back_ends_no_hold_and_keeps_none() {
    let folder = folder();
    let mut settings = Settings::new(folder.path());
    let clock = WallClock::of(&mut settings);
    let server = Server::start(&settings);
    let mut client = connect(&server);
    open_show(&mut client);
    assert_eq!(client.hold(&hold("before", HOUR_MS)).expect("an answer"), Outcome::Applied);

    clock.set_ahead(YEARS_10_S);
    wait_for("the jump is logged", || (jumps(&server) == 1).then_some(()));
    assert_eq!(client.hold(&hold("during", HOUR_MS)).expect("an answer"), Outcome::Applied);
    assert_eq!(client.post("before", None).expect("an answer"), Outcome::Applied);

    clock.set_ahead(0);
    wait_for("the jump back is logged", || (jumps(&server) == 2).then_some(()));
    assert_eq!(client.post("during", None).expect("an answer"), Outcome::Applied);
    assert_eq!(client.hold(&hold("after", 50)).expect("an answer"), Outcome::Applied);
    wait_for("a hold placed afterwards is over in its time", || (held(&server) == 0).then_some(()));
    let metrics = Http::connect(server.http).and_then(|mut http| http.get("/metrics")).expect("an answer");
    assert!(metrics.body.as_str().expect("a text").contains("tidegate_clock_jumps_total 2"), "{}", metrics.body);
    assert!(server.terminate().status.success());
}

#[test]
fn a_start_with_a_clock_of_the_future_ends_no_hold() {
    let folder = folder();
    let mut settings = Settings::new(folder.path());
    let clock = WallClock::of(&mut settings);
    let server = Server::start(&settings);
    let mut client = connect(&server);
    open_show(&mut client);
    assert_eq!(client.hold(&hold("open", HOUR_MS)).expect("an answer"), Outcome::Applied);
    server.kill();

    clock.set_ahead(YEARS_10_S);
    let refused = Server::refused(&settings);
    assert!(
        refused.log.contains("1 open holds would expire at once") && refused.log.contains("mend-time"),
        "{refused}"
    );

    clock.set_ahead(0);
    let server = Server::start(&settings);
    assert_eq!(connect(&server).post("open", None).expect("an answer"), Outcome::Applied);
    assert!(server.terminate().status.success());
}

#[test]
fn a_ledger_of_the_future_is_named_goes_on_and_is_mended() {
    let folder = folder();
    let mut settings = Settings::new(folder.path());
    let clock = WallClock::of(&mut settings);
    clock.set_ahead(YEARS_10_S);
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert!(server.terminate().status.success());

    clock.set_ahead(0);
    let server = Server::start(&settings);
    assert!(server.log().contains("the newest record is ahead of this host's clock"), "{}", server.log());
    let mut client = connect(&server);
    assert_eq!(client.hold(&hold("short", 50)).expect("an answer"), Outcome::Applied);
    wait_for("a hold is over in its time", || (held(&server) == 0).then_some(()));
    assert_eq!(client.hold(&hold("long", HOUR_MS)).expect("an answer"), Outcome::Applied);
    assert!(server.terminate().status.success());

    let mended = mend(&settings.data);
    assert!(mended.status.success() && mended.log.contains("1 open holds keep the time"), "{mended}");
    let server = Server::start(&settings);
    assert!(!server.log().contains("ahead of this host's clock"), "{}", server.log());
    assert_eq!(connect(&server).post("long", None).expect("an answer"), Outcome::Applied);
    assert!(server.terminate().status.success());
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");
}

/// A metric of the first shard of the ledger, in whole seconds.
fn seconds(server: &Server, name: &str) -> i64 {
    let metrics = Http::connect(server.http).and_then(|mut http| http.get("/metrics")).expect("an answer");
    let text = metrics.body.as_str().expect("a text").to_owned();
    let start = format!("{name}{{family=\"ledger\",shard=\"0\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_else(|| panic!("{start}: {text}"));
    line.parse::<f64>().expect("a number") as i64
}

#[test]
fn a_clock_ahead_at_the_start_is_said_without_holds_and_records_ahead_of_it_are_counted() {
    const WORDS: &str = "the clock of this host is ahead of the newest record by so many days";
    const AHEAD: &str = "tidegate_shard_newest_record_ahead_seconds";
    let folder = folder();
    let mut settings = Settings::new(folder.path());
    let clock = WallClock::of(&mut settings);
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    assert_eq!(seconds(&server, AHEAD), 0);
    assert!(!server.log().contains(WORDS), "a new ledger has no time: {}", server.log());
    assert!(server.terminate().status.success());

    clock.set_ahead(YEARS_10_S);
    let server = Server::start(&settings);
    assert!(server.log().contains(WORDS) && server.log().contains("days=36"), "{}", server.log());
    connect(&server).open_account("wallet:late", "credit", tidegate_client::AccountKind::Wallet).expect("it opens");
    assert_eq!(seconds(&server, AHEAD), 0);
    // The clock is put right while it is served.
    clock.set_ahead(0);
    wait_for("it is counted", || ((seconds(&server, AHEAD) - YEARS_10_S).abs() < 3_600).then_some(()));
    assert!(server.terminate().status.success());
    let server = Server::start(&settings);
    assert!(server.log().contains("the newest record is ahead of this host's clock"), "{}", server.log());
    wait_for("it is counted", || ((seconds(&server, AHEAD) - YEARS_10_S).abs() < 3_600).then_some(()));
    assert!(server.terminate().status.success());
}
