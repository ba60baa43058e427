//! The wall clock of the host jumps by ten years: holds live as long as was asked, and an operator learns of it.

pub mod timers;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_backup::Moment;
use tidegate_client::{Hold, Outcome, Transfer};
use tidegate_wire::mqtt::encode::{ConnectOut, SubscriptionOut, encode_connect, encode_subscribe};
use tidegate_wire::mqtt::{Packet, QoS, Split, Version, decode_server, split};

use crate::http::Http;
use crate::support::server::command;
use crate::votes::{connect, open_show};
use crate::{Ended, PATIENCE, Server, Settings, audit, folder, wait_for};

mod mended;
mod queues;

const YEARS_10_S: i64 = 10 * 365 * 86_400;
const DAYS_2_S: i64 = 2 * 86_400;
const HOUR_MS: u64 = 3_600_000;

/// The wall clock of the servers that are started with its environment.
pub struct WallClock(PathBuf);

impl WallClock {
    /// Compiles what is preloaded. Building the server needs a C compiler, too.
    pub fn of(settings: &mut Settings) -> WallClock {
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
    pub fn set_ahead(&self, seconds: i64) {
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
    mend_with(data, &[], &[])
}

fn mend_with(data: &Path, more: &[&str], environment: &[(String, String)]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["mend-time", "--to", "now", "--reason", "the clock was ten years ahead"])
        .args(more)
        .arg("--data")
        .arg(data)
        .envs(environment.iter().map(|(name, value)| (name, value)))
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
    let health = || Http::connect(server.http).and_then(|mut http| http.get("/healthz")).expect("an answer").body;
    assert_eq!(health(), serde_json::json!({"status": "degraded", "clock": "off"}));

    clock.set_ahead(0);
    wait_for("the jump back is logged", || (jumps(&server) == 2).then_some(()));
    assert_eq!(health(), serde_json::json!({"status": "ok"}));
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

/// Connects with MQTT 5 as a client whose subscriptions outlive the connection by an hour, and disconnects. Whether the
/// server still knew it.
fn durable_client(server: &Server) -> bool {
    durable_client_named(server, "durable")
}

fn durable_client_named(server: &Server, client_id: &str) -> bool {
    let mut tcp = TcpStream::connect(server.mqtt()).expect("the door is open");
    tcp.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut packet = Vec::new();
    let connect = ConnectOut { client_id, session_expiry_s: Some(3_600), ..ConnectOut::default() };
    encode_connect(&mut packet, Version::V5, &connect);
    tcp.write_all(&packet).expect("the server reads");
    let (mut input, mut known) = (Vec::new(), None);
    loop {
        if let Ok(Split::Packet(length)) = split(&input, u32::MAX) {
            let packet: Vec<u8> = input.drain(..length).collect();
            match decode_server(&packet, Version::V5).expect("a packet of a server") {
                Packet::ConnAck(ack) => {
                    known = Some(ack.session_present);
                    let filters =
                        [SubscriptionOut { filter: "news", qos: QoS::AtLeastOnce, ..SubscriptionOut::default() }];
                    packet_of(&mut tcp, |out| encode_subscribe(out, Version::V5, 1, None, &filters));
                }
                Packet::SubAck(_) => {
                    packet_of(&mut tcp, |out| out.extend_from_slice(&[0xe0, 0]));
                    // The server ends the connection when it has taken that.
                    let _ = tcp.read_to_end(&mut input);
                    return known.expect("a CONNACK comes first");
                }
                other => panic!("{other:?}"),
            }
        }
        let mut bytes = [0; 512];
        let got = tcp.read(&mut bytes).expect("the server answers");
        assert!(got > 0, "the server ended the connection");
        input.extend_from_slice(&bytes[..got]);
    }
}

fn packet_of(tcp: &mut TcpStream, encode: impl FnOnce(&mut Vec<u8>)) {
    let mut packet = Vec::new();
    encode(&mut packet);
    tcp.write_all(&packet).expect("the server reads");
}

#[test]
fn a_start_with_a_clock_of_the_future_ends_no_durable_mqtt_client() {
    let folder = folder();
    let mut settings = Settings { mqtt: true, ..Settings::new(folder.path()) };
    let clock = WallClock::of(&mut settings);
    let server = Server::start(&settings);
    assert!(!durable_client(&server));
    wait_for("it is remembered that it left", || durable_client(&server).then_some(()));
    assert!(server.terminate().status.success());

    // No hold is open, and what waits for the client would be gone for ever.
    clock.set_ahead(YEARS_10_S);
    let refused = Server::refused(&settings);
    for words in ["days ahead of the newest record", "1 of what it keeps for clients would expire", "mend-time"] {
        assert!(refused.log.contains(words), "{words:?} is not in: {refused}");
    }
    assert!(!refused.log.contains("ends now"), "nothing ends by a start that is refused: {refused}");
    clock.set_ahead(0);
    let server = Server::start(&settings);
    assert!(durable_client(&server), "nothing was lost");
    assert!(server.terminate().status.success());
}

/// A clock that is two days ahead ends what was to last for an hour, and so does who says that a clock is right: both
/// say what, and how much of it.
#[test]
fn what_a_clock_ends_at_a_start_is_named_by_the_start_and_by_mend_time() {
    let folder = folder();
    let mut settings = Settings { mqtt: true, ..Settings::new(folder.path()) };
    let clock = WallClock::of(&mut settings);
    let server = Server::start(&settings);
    let mut client = connect(&server);
    open_show(&mut client);
    assert_eq!(client.hold(&hold("open", HOUR_MS)).expect("an answer"), Outcome::Applied);
    assert!(!durable_client(&server));
    assert!(!server.log().contains("by that clock this is over"), "{}", server.log());
    assert!(server.terminate().status.success());

    clock.set_ahead(DAYS_2_S);
    let refused = mend_with(&settings.data, &[], &settings.environment);
    assert_eq!(refused.status.code(), Some(2), "{refused}");
    let named = "topics shard 0: over by the clock of this host: 1 sessions";
    assert!(refused.log.contains(named) && refused.log.contains("nothing was changed"), "{refused}");
    let server = Server::start(&settings);
    let log = server.log();
    for named in ["family=\"ledger\" shard=0", "over=1 open holds", "family=\"topics\" shard=0", "over=1 sessions"] {
        assert!(log.contains(named), "{named:?} is not in: {log}");
    }
    assert_eq!(log.matches("by that clock this is over").count(), 2, "{log}");
    assert!(!durable_client(&server), "it was over");
    assert!(server.terminate().status.success());

    // Meant, it is done, and says the same.
    clock.set_ahead(2 * DAYS_2_S);
    let meant = mend_with(&settings.data, &["--yes"], &settings.environment);
    assert!(meant.status.success() && meant.log.contains(named), "{meant}");
    assert!(meant.log.contains("0 open holds keep the time that was left to them"), "{meant}");
}

/// A start with a clock that is two days behind, which is more than the session lives: it goes on from its newest
/// record, so that nothing is over when the clock is set right, at the next start or while it runs.
#[test]
fn a_start_with_a_clock_that_is_behind_ends_no_durable_mqtt_client_when_it_is_set_right() {
    let folder = folder();
    let mut settings = Settings { mqtt: true, ..Settings::new(folder.path()) };
    let clock = WallClock::of(&mut settings);
    let server = Server::start(&settings);
    assert!(!durable_client(&server));
    assert!(server.terminate().status.success());

    clock.set_ahead(-DAYS_2_S);
    let server = Server::start(&settings);
    let said = "what lasts for a time goes on from there";
    server.says(said);
    server.says("family=\"topics\"");
    assert!(durable_client(&server), "it is known, and leaves by the time of its shard");
    let ahead = || {
        let metrics = Http::connect(server.http).and_then(|mut http| http.get("/metrics")).expect("an answer");
        let text = metrics.body.as_str().expect("a text");
        let name = "tidegate_port_time_ahead_seconds{family=\"topics\"} ";
        let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        value.parse::<f64>().expect("a number") as i64
    };
    // A worker counts as it goes.
    wait_for("the metric shows it", || ((ahead() - DAYS_2_S).abs() < 3_600).then_some(()));
    server.kill();
    clock.set_ahead(0);
    let server = Server::start(&settings);
    assert!(durable_client(&server), "set right at the next start");
    assert!(server.terminate().status.success());

    clock.set_ahead(-DAYS_2_S);
    let server = Server::start(&settings);
    assert!(durable_client(&server));
    clock.set_ahead(0);
    wait_for("the jump is logged", || (jumps(&server) == 1).then_some(()));
    assert!(durable_client(&server), "set right while it runs");
    assert!(server.terminate().status.success());
    let server = Server::start(&settings);
    assert!(durable_client(&server), "and at the next start");
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
    server.says("the newest record is ahead of this host's clock");
    let mut client = connect(&server);
    assert_eq!(client.hold(&hold("short", 50)).expect("an answer"), Outcome::Applied);
    wait_for("a hold is over in its time", || (held(&server) == 0).then_some(()));
    assert_eq!(client.hold(&hold("long", HOUR_MS)).expect("an answer"), Outcome::Applied);
    assert!(server.terminate().status.success());

    // As its own messages show times, too.
    for (to, words) in [
        ("2026-11-22 04:50", "expected now, a time in UTC such as 2026-11-22T04:50:12Z"),
        ("2001-09-09T01:46:40.000Z", "--to is 2001-09-09T01:46:40Z, and this host says "),
    ] {
        let refused = command(&["mend-time", "--data", settings.data.to_str().expect("ASCII"), "--to", to]);
        assert!(!refused.status.success() && refused.log.contains(words), "{refused}");
    }
    let mended = mend(&settings.data);
    assert!(mended.status.success() && mended.log.contains("1 open holds keep the time"), "{mended}");
    let server = Server::start(&settings);
    assert!(!server.log().contains("ahead of this host's clock"), "{}", server.log());
    assert_eq!(connect(&server).post("long", None).expect("an answer"), Outcome::Applied);
    assert!(server.terminate().status.success());
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");
}

/// The next start follows the clock of the host, so a time behind it would take from a hold what lies between the two.
#[test]
fn a_time_behind_the_clock_of_the_host_is_asked_about_and_called_no_keeping_of_holds() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    let mut client = connect(&server);
    open_show(&mut client);
    for (id, expires_in_ms) in [("short", 20 * 60_000), ("long", 2 * HOUR_MS)] {
        assert_eq!(client.hold(&hold(id, expires_in_ms)).expect("an answer"), Outcome::Applied);
    }
    assert!(server.terminate().status.success());

    let mend_to = |to: &str, more: &[&str]| {
        let data = settings.data.to_str().expect("ASCII");
        command(&[&["mend-time", "--data", data, "--to", to, "--reason", "behind"], more].concat())
    };
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_millis() as u64;
    let behind = (now_ms - HOUR_MS / 2).to_string();
    let refused = mend_to(&behind, &[]);
    for words in ["the next start follows the clock of this host", "Nothing was changed", "--yes if it is meant"] {
        assert!(!refused.status.success() && refused.log.contains(words), "{words:?} is not in: {refused}");
    }
    // A day alone would be its beginning.
    let refused = mend_to(&Moment(now_ms).to_string()[..10], &["--yes"]);
    assert!(!refused.status.success() && refused.log.contains("expected now, a time in UTC such as"), "{refused}");
    let server = Server::start(&settings);
    assert_eq!(held(&server), 2, "nothing was changed");
    assert!(server.terminate().status.success());

    let meant = mend_to(&behind, &["--yes"]);
    assert!(meant.status.success() && meant.log.contains("of 2 open holds, 1 end then"), "{meant}");
    assert!(!meant.log.contains("keep the time"), "{meant}");
    let server = Server::start(&settings);
    wait_for("what was said ends", || (held(&server) == 1).then_some(()));
    assert!(server.terminate().status.success());
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
    server.says(WORDS);
    server.says("days=36");
    connect(&server).open_account("wallet:late", "credit", tidegate_client::AccountKind::Wallet).expect("it opens");
    assert_eq!(seconds(&server, AHEAD), 0);
    // The clock is put right while it is served.
    clock.set_ahead(0);
    wait_for("it is counted", || ((seconds(&server, AHEAD) - YEARS_10_S).abs() < 3_600).then_some(()));
    assert!(server.terminate().status.success());
    let server = Server::start(&settings);
    server.says("the newest record is ahead of this host's clock");
    wait_for("it is counted", || ((seconds(&server, AHEAD) - YEARS_10_S).abs() < 3_600).then_some(()));
    assert!(server.terminate().status.success());
}
