//! A full disk: writes are refused, reads are served, and writes are accepted again when there is room. Nothing is
//! lost.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidegate_client::{ClientError, Outcome};
use tidegate_wire::mqtt::{
    ConnectOut, Packet, PublishOut, QoS, ReasonCode, Split, Version, decode_server, encode_connect, encode_publish,
    split,
};

use crate::clock::timers::Client;
use crate::proxied::{connack, hello, open};
use crate::rights::DAVE;
use crate::services::ok;
use crate::votes::{connect, ids, open_show, votes};
use crate::{Server, Settings, audit, folder, wait_for};

/// There is room for all that the logs claim ahead.
pub const DISK_BYTES: u64 = 192 << 20;
/// Votes of one request: some 3 MiB of journal.
const VOTES: usize = 8_000;

/// A small disk in memory, mounted while it lives.
pub struct SmallDisk(pub PathBuf);

impl SmallDisk {
    /// Mounts it at a folder, which is made.
    pub fn mount(at: PathBuf) -> io::Result<SmallDisk> {
        fs::create_dir_all(&at)?;
        let path = CString::new(at.as_os_str().as_bytes()).expect("paths have no zero byte");
        let options = CString::new(format!("size={DISK_BYTES}")).expect("no zero byte");
        // SAFETY: all pointers are to texts that end with a zero byte and outlive the call.
        let mounted =
            unsafe { libc::mount(c"tmpfs".as_ptr(), path.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) };
        if mounted == 0 { Ok(SmallDisk(at)) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let path = CString::new(self.0.as_os_str().as_bytes()).expect("paths have no zero byte");
        // SAFETY: the pointer is to a text that ends with a zero byte and outlives the call.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    }
}

#[test]
fn a_full_disk_refuses_writes_serves_reads_and_resumes() {
    let folder = folder();
    let disk = match SmallDisk::mount(folder.path().join("disk")) {
        Ok(disk) => disk,
        Err(error) => {
            eprintln!("SKIPPED: a small disk cannot be mounted here ({error}); run as root to test a full disk");
            return;
        }
    };
    let (data, sections) = (disk.0.join("data"), DAVE.to_owned());
    let settings = Settings { data, sections, mqtt: true, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let mut client = connect(&server);
    open_show(&mut client);

    let mut done = vec![ids("vote-first", VOTES)];
    assert!(client.transfers(&votes(&done[0])).expect("there is room").iter().all(Outcome::is_done));
    let ballast = disk.0.join("ballast");
    fill(&ballast);
    let refused = loop {
        let request = ids(&format!("vote-{}", done.len()), VOTES);
        match client.transfers(&votes(&request)) {
            Ok(outcomes) => {
                assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Applied), "{:?}", outcomes[0]);
                done.push(request);
                assert!(done.len() < 100, "the disk does not fill");
            }
            Err(ClientError::Server(error)) => {
                assert_eq!(error.code, "disk_full", "{error}");
                assert!(error.retry_after.is_some(), "{error}");
                break request;
            }
            Err(error) => panic!("{error}"),
        }
    };

    // Reads go on, by both doors, and show what was acknowledged.
    let (balance, least) = (client.account("candidate:1").expect("reads are served").balance, done.len() * VOTES);
    // The one that was refused may have been done in part.
    assert!((least..least + VOTES).contains(&(balance as usize)), "{balance}, not {least}");
    assert_eq!(client.history("candidate:1", "", 10).expect("reads are served").rows.len(), 10);
    let mut http = crate::http::Http::connect(server.http).expect("the door is open");
    const FULL: &str = "tidegate_journal_disk_full{family=\"ledger\",shard=\"0\"}";
    let full = || http_line(&mut crate::http::Http::connect(server.http).expect("the door is open"), FULL);
    wait_for("a metric says so", || (full() == format!("{FULL} 1")).then_some(()));
    wait_for("the health says so", || {
        let health = http.get("/healthz").expect("the door answers");
        assert_eq!(health.status, 200, "{health:?}");
        assert_eq!(health.body["disk_full"].is_u64(), health.body["disk_full_since"].is_string(), "{health:?}");
        // The log of topics, which nobody writes, wants room ahead as well: it has some if it asked first.
        (health.body["disk_full"].as_u64() >= Some(1)).then_some(())
    });
    let ready = http.get("/readyz").expect("the door answers");
    assert_eq!((ready.status, &ready.body["reasons"]), (503, &serde_json::json!(["disk_full"])), "{ready:?}");
    let told = || {
        let log = server.log();
        let is_told = |line: &&str| line.contains("the disk is full: ") && line.contains("family=\"ledger\"");
        log.lines().filter(is_told).count()
    };
    wait_for("the log says so", || (told() > 0).then_some(()));
    assert_eq!(told(), 1, "once: {}", server.log());
    let operator = crate::commands::Operator::of(&server);
    let (code, status, _) = operator.run(&["status", "--output", "json"]);
    assert!(
        code == 1 && !status.contains("\"disk_full\":0") && status.contains("\"health\":\"degraded\""),
        "{code}: {status}"
    );
    let vote = serde_json::json!({"id": "http-vote", "debit": "wallet:dave", "credit": "candidate:1", "amount": 1});
    let answer = http.post("/v1/transfers", &vote).expect("the door answers");
    assert_eq!((answer.status, answer.code()), (503, "disk_full"), "{answer:?}");
    let detail = answer.body["detail"].as_str().expect("a problem says what is wrong").to_owned();
    assert!(detail.contains("was not done before cannot be done now"), "{detail}");

    let mut mqtt = open(server.mqtt(), &hello("voter", Some("dave")));
    assert_eq!(connack(&mut mqtt), Some(0));
    let topic = "$ledger/transfers";
    let body = [&[0, topic.len() as u8], topic.as_bytes(), &[0, 7, 0], vote.to_string().as_bytes()].concat();
    mqtt.write_all(&[&[0x32, body.len() as u8], &body[..]].concat()).expect("the server reads");
    let mut puback = [0; 5];
    mqtt.read_exact(&mut puback).expect("it is acknowledged");
    assert_eq!((puback[0], &puback[2..]), (0x40, &[0, 7, 0x97][..]), "a vote that was not counted is no success");

    // What was done needs no room to be said again.
    let again = client.transfers(&votes(&done[0])).expect("a retry is answered");
    assert!(again.iter().all(|outcome| *outcome == Outcome::Duplicate), "{:?}", again[0]);

    fs::remove_file(&ballast).expect("the ballast is there");
    let outcomes = wait_for("service resumes by itself", || match client.transfers(&votes(&refused)) {
        Ok(outcomes) => Some(outcomes),
        Err(ClientError::Server(error)) if error.code == "disk_full" => None,
        Err(error) => panic!("{error}"),
    });
    // A request may have been done in part when the disk was full; its ids make it whole.
    assert!(outcomes.iter().all(Outcome::is_done), "{outcomes:?}");
    assert_eq!(http.post("/v1/transfers", &vote).expect("the door answers").status, 201);
    done.push(refused);
    wait_for("it is said that there is room", || (full() == format!("{FULL} 0")).then_some(()));
    server.says("the disk has room again");
    let health = |http: &mut crate::http::Http<_>| http.get("/healthz").expect("the door answers").body;
    assert_eq!(http.get("/readyz").expect("the door answers").status, 200);
    wait_for("all is well", || (health(&mut http) == serde_json::json!({"status": "ok"})).then_some(()));
    operator.done(&["status"]);

    let ended = server.terminate();
    assert!(ended.status.success(), "{ended}");
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");
    let server = Server::start(&settings);
    let mut client = connect(&server);
    for request in &done {
        let again = client.transfers(&votes(request)).expect("the server serves");
        assert!(again.iter().all(|outcome| *outcome == Outcome::Duplicate), "{:?}", again[0]);
    }
    assert_eq!(client.account("candidate:1").expect("it is there").balance, (done.len() * VOTES + 1) as i64);
    // Before the disk goes.
    drop(server);
}

/// One retained message, again and again: all but the last could be forgotten. Its log has one full segment when the
/// disk is full, which is no reason for a snapshot while there is room.
#[test]
fn a_disk_that_is_filled_by_what_could_be_forgotten_gets_free_by_itself() {
    let folder = folder();
    let Ok(disk) = SmallDisk::mount(folder.path().join("disk")) else {
        eprintln!("SKIPPED: a small disk cannot be mounted here; run as root to test a full disk");
        return;
    };
    let settings = Settings { data: disk.0.join("data"), mqtt: true, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let mut publisher = Publisher::connect(&server);
    let mut told_full = 0;
    for round in 0..3 {
        for number in 0..2_000 {
            if publisher.retains(&vec![b'0' + round; 400 << 10]) == ReasonCode::QUOTA_EXCEEDED {
                told_full += 1;
                break;
            }
            assert!(number < 1_500, "the disk does not fill");
        }
        let mut http = crate::http::Http::connect(server.http).expect("the door is open");
        wait_for("there is room again, and nobody has done anything", || {
            let health = http.get("/healthz").expect("the door answers").body;
            let is_full = health["disk_full"].is_u64();
            assert_eq!(health["disk_full_since"].is_string(), is_full, "{health}");
            (publisher.retains(b"small") == ReasonCode::SUCCESS).then_some(())
        });
    }
    assert_eq!(told_full, 3);
    server.says("compacted");
    server.says("pressure=Full");
    let ended = server.terminate();
    assert!(ended.status.success(), "{ended}");
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");
    let doctor = crate::tool(&settings.data, &["doctor"]);
    assert!(doctor.log.contains("for a snapshot of topics"), "{doctor}");
}

/// A backlog fills the disk, and its client takes all of it. What says so stands in the last segment, which nothing new
/// seals: a snapshot of the sealed ones would have the whole backlog, for which there is no room.
#[test]
fn a_disk_that_is_full_of_a_backlog_is_free_when_that_was_taken() {
    let folder = folder();
    let Ok(disk) = SmallDisk::mount(folder.path().join("disk")) else {
        eprintln!("SKIPPED: a small disk cannot be mounted here; run as root to test a full disk");
        return;
    };
    let no_bound = |of: &str| format!("[kept.{of}]\nqueued_max = 0\nqueued_bytes_max = 0\n");
    let sections = format!(
        "[mqtt]\ninbox_messages_max = 1000000\ninbox_bytes_max = 1000000000\n{}{}{}",
        no_bound("principal"),
        no_bound("address"),
        no_bound("all"),
    );
    let settings = Settings { data: disk.0.join("data"), mqtt: true, sections, ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let away = ConnectOut { client_id: "away", session_expiry_s: Some(3_600), ..ConnectOut::default() };
    Client::connect(&server, &away).subscribe("load", QoS::AtLeastOnce);
    let mut publisher = Publisher::connect(&server);
    let payload = vec![b'x'; 400 << 10];
    let mut acknowledged = 0;
    while publisher.publishes("load", &payload, false) == ReasonCode::SUCCESS {
        acknowledged += 1;
        assert!(acknowledged < 1_500, "the disk does not fill");
    }
    assert!(acknowledged > 100, "{acknowledged} messages fill no disk");

    let (mut client, mut taken) = (Client::connect(&server, &away), 0);
    wait_for("all is taken", || {
        taken += client.take("PUBLISH load");
        (taken == acknowledged).then_some(())
    });
    wait_for("there is room again, and nobody has made any", || {
        (publisher.publishes("load", &payload, false) == ReasonCode::SUCCESS).then_some(())
    });
    wait_for("what comes then is taken", || (client.take("PUBLISH load") > 0).then_some(()));
    let ended = server.terminate();
    assert!(ended.status.success(), "{ended}");
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");
    let server = Server::start(&settings);
    let mut client = Client::connect(&server, &away);
    assert_eq!(Publisher::connect(&server).publishes("load", b"again", false), ReasonCode::SUCCESS);
    wait_for("the session goes on", || (client.take("PUBLISH load") > 0).then_some(()));
}

/// One small message for tomorrow stands in the oldest segment, and is all that is left of what filled the disk. Nobody
/// has forgotten segments open either: the disk would not get their room.
#[test]
fn a_disk_that_is_full_of_messages_is_free_when_all_but_an_old_one_were_taken() {
    let folder = folder();
    let Ok(disk) = SmallDisk::mount(folder.path().join("disk")) else {
        eprintln!("SKIPPED: a small disk cannot be mounted here; run as root to test a full disk");
        return;
    };
    let settings = Settings { data: disk.0.join("data"), ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let mut http = crate::http::Http::connect(server.http).expect("the door is open");
    for queue in ["tomorrow", "load"] {
        ok(http.put(&format!("/v1/queues/{queue}"), &json!({})));
    }
    let later = json!({"messages": [{"body": "remind me", "delay_ms": 86_400_000}]});
    let later = ok(http.post("/v1/queues/tomorrow/messages", &later));
    let body = "x".repeat(200_000);
    let sends = |http: &mut crate::http::Http<TcpStream>| {
        http.post("/v1/queues/load/messages", &json!({"messages": [{"body": body}]})).expect("the door answers").status
    };
    let mut sent = 0;
    while sends(&mut http) == 200 {
        sent += 1;
        assert!(sent < 1_500, "the disk does not fill");
    }
    assert!(sent > 100, "{sent} messages fill no disk");
    wait_for("the metric says that it is full", || {
        let (full, seconds) = ("tidegate_journal_disk_full{family=\"queues\"", "tidegate_disk_full_in_seconds");
        let lines = [http_line(&mut http, full), http_line(&mut http, seconds)];
        (lines[0].ends_with(" 1") && lines[1] == format!("{seconds} 0")).then_some(())
    });
    let mut taken = 0;
    wait_for("all is taken", || {
        let got = http.post("/v1/queues/load/receive", &json!({"max": 50})).expect("the door answers");
        let leases: Vec<_> = got.body["messages"].as_array().into_iter().flatten().map(|row| &row["lease"]).collect();
        if !leases.is_empty() {
            ok(http.post("/v1/queues/load/acknowledge", &json!({ "leases": leases })));
            taken += leases.len();
        }
        (taken == sent).then_some(())
    });
    wait_for("there is room again, and nobody has made any", || (sends(&mut http) == 200).then_some(()));
    wait_for("nothing that was forgotten is open", || {
        let open = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs").flatten();
        let names = open.filter_map(|file| fs::read_link(file.path()).ok());
        (!names.into_iter().any(|name| name.to_string_lossy().ends_with("(deleted)"))).then_some(())
    });
    let forgot_nothing = |line: &str| line.contains("was forgotten") && line.contains("segments_forgotten=0");
    assert!(!server.log().lines().any(forgot_nothing), "{}", server.log());
    let key = later["messages"][0]["key"].as_str().expect("it was taken");
    let reminder = ok(http.get(&format!("/v1/messages/{key}")));
    assert_eq!((&reminder["state"], &reminder["message"]["body"]), (&json!("scheduled"), &json!("remind me")));
    let ended = server.terminate();
    assert!(ended.status.success(), "{ended}");
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");
}

/// A client that publishes with QoS 1.
struct Publisher {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Publisher {
    fn connect(server: &Server) -> Publisher {
        let stream = TcpStream::connect(server.mqtt()).expect("the door is open");
        stream.set_read_timeout(Some(crate::PATIENCE)).expect("a socket option");
        let mut publisher = Publisher { stream, received: Vec::new() };
        let mut out = Vec::new();
        encode_connect(&mut out, Version::V5, &ConnectOut { client_id: "p", ..ConnectOut::default() });
        assert_eq!(publisher.ask(&out), ReasonCode::SUCCESS);
        publisher
    }

    /// The reason of its PUBACK.
    fn retains(&mut self, payload: &[u8]) -> ReasonCode {
        self.publishes("kept", payload, true)
    }

    /// The same of any topic.
    fn publishes(&mut self, topic: &str, payload: &[u8], retain: bool) -> ReasonCode {
        let (qos, packet_id) = (QoS::AtLeastOnce, 1);
        let publish = PublishOut { topic, qos, packet_id, payload, retain, ..PublishOut::default() };
        let mut out = Vec::new();
        encode_publish(&mut out, Version::V5, &publish);
        match self.ask(&out) {
            ReasonCode::NO_MATCHING_SUBSCRIBERS => ReasonCode::SUCCESS,
            reason => reason,
        }
    }

    fn ask(&mut self, bytes: &[u8]) -> ReasonCode {
        self.stream.write_all(bytes).expect("the server reads");
        loop {
            if let Split::Packet(length) = split(&self.received, u32::MAX).expect("the server writes packets") {
                let packet: Vec<u8> = self.received.drain(..length).collect();
                return match decode_server(&packet, Version::V5).expect("the server writes packets") {
                    Packet::ConnAck(ack) => ack.reason,
                    Packet::PubAck(ack) => ack.reason,
                    other => panic!("{other:?}"),
                };
            }
            let mut chunk = [0; 4_096];
            let count = self.stream.read(&mut chunk).expect("the server answers in time");
            assert!(count > 0, "the server has closed the connection");
            self.received.extend_from_slice(&chunk[..count]);
        }
    }
}

/// Makes a file as long as this, or makes it longer.
pub fn allocate(path: &Path, bytes: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let file = File::options().write(true).create(true).truncate(false).open(path)?;
    // SAFETY: the descriptor is open; the call touches no memory of ours.
    match unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes as i64) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes a file of all that is free on its disk.
fn fill(path: &Path) {
    const STEP_BYTES: u64 = 1 << 20;
    let mut bytes = STEP_BYTES;
    loop {
        match allocate(path, bytes) {
            Ok(()) => bytes += STEP_BYTES,
            Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The line of `/metrics` that begins with `name`.
fn http_line<S: io::Read + io::Write>(http: &mut crate::http::Http<S>, name: &str) -> String {
    let metrics = http.get("/metrics").expect("the door answers");
    let text = metrics.body.as_str().expect("a text").to_owned();
    text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} is not in: {text}")).to_owned()
}
