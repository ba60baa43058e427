//! The whole history as lines: as fast as the client reads, and never a piece that looks like the whole.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_ledger::message::Unavailable;
use tidegate_machines::DamagedPlace;

use super::server::{Client, READER, SERVICE, TestServer, settings};
use crate::auth::Rights;
use crate::http::HttpLimits;

const PATH: &str = "/v1/accounts/wallet:dave/transfers";
/// More than the buffers of a socket take: 100 parts of some 400,000 bytes.
const LONG: usize = 100_000;

/// An answer whose body is being read.
pub struct Reading {
    stream: BufReader<TcpStream>,
    /// In lower case.
    pub head: String,
}

/// Asks for lines.
pub fn begin(client: Client, token: &str, path: &str) -> Reading {
    let mut client = client;
    client.send(&format!(
        "GET {path} HTTP/1.1\r\nhost: tidegate\r\nauthorization: Bearer {token}\r\n\
         accept: application/x-ndjson\r\n\r\n"
    ));
    let mut reading = Reading { stream: BufReader::new(client.stream), head: String::new() };
    while !reading.head.ends_with("\r\n\r\n") {
        let line = reading.line().expect("a head");
        reading.head += &line.to_ascii_lowercase();
    }
    reading
}

impl Reading {
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        // A connection that breaks is reset, or ends.
        (self.stream.read_line(&mut line).ok()? > 0).then_some(line)
    }

    /// The next chunk, empty at the clean end; `None` if the connection broke.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(self.line()?.trim_end(), 16).expect("a length");
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).ok()?;
        assert!(chunk.ends_with(b"\r\n"));
        chunk.truncate(length);
        Some(chunk)
    }

    /// All rows to the end, and whether it was a clean one.
    pub fn rows(mut self) -> (Vec<Value>, bool) {
        assert!(self.head.starts_with("http/1.1 200"), "{}", self.head);
        assert!(self.head.contains("content-type: application/x-ndjson\r\n"), "{}", self.head);
        let mut text = Vec::new();
        let is_whole = loop {
            match self.chunk() {
                Some(chunk) if chunk.is_empty() => break true,
                Some(chunk) => text.extend(chunk),
                None => break false,
            }
        };
        let text = String::from_utf8(text).expect("text");
        assert!(text.is_empty() || text.ends_with('\n'), "rows are whole");
        (text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect(), is_whole)
    }
}

/// Waits until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn lines_are_the_rows_of_the_pages() {
    let server = TestServer::open();
    server.backend.lengthen("wallet:dave", 2_345);
    let mut expected: Vec<Value> = Vec::new();
    let mut query = "limit=1000".to_owned();
    loop {
        let page = server.ask(SERVICE, "GET", &format!("{PATH}?{query}"), "").json();
        expected.extend(page["transfers"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next"].as_str() else { break };
        query = format!("limit=1000&before={next}");
    }
    assert_eq!(expected.len(), 2_346, "with the first sale");
    assert_eq!(begin(server.connect(), SERVICE, PATH).rows(), (expected.clone(), true));
    let some = begin(server.connect(), SERVICE, &format!("{PATH}?before=2300&limit=1234")).rows();
    assert_eq!(some, (expected[46..46 + 1_234].to_vec(), true));
    assert_eq!(server.backend.streams(), 0);
}

#[test]
fn a_history_ends_with_the_rights_of_its_reader() {
    let server = TestServer::open();
    server.backend.lengthen("wallet:dave", LONG);
    let (gone, poorer) = (begin(server.connect(), SERVICE, PATH), begin(server.connect(), READER, PATH));
    let mut changed = settings();
    changed.services.retain(|service| *service.name != *"dev");
    let reader = changed.services.iter_mut().find(|service| *service.name == *"reader").unwrap();
    reader.rights = Rights::Service { grants: vec!["read:wallet:carol".parse().unwrap()] };
    server.authenticator.reload(changed);
    for (reading, code) in [(gone, "token_invalid"), (poorer, "forbidden")] {
        let (rows, is_whole) = reading.rows();
        assert_eq!((&rows.last().unwrap()["problem"]["code"], is_whole), (&json!(code), false));
        assert!(rows.len() < LONG, "{} rows", rows.len());
    }
    until("the shards are told", || server.backend.streams() == 0);
}

#[test]
fn a_short_history_is_one_part_and_an_empty_one_is_empty() {
    let server = TestServer::open();
    let mut client = server.connect();
    let mut ask = |account: &str| {
        client.send(&format!(
            "GET /v1/accounts/{account}/transfers HTTP/1.1\r\nhost: tidegate\r\n\
             authorization: Bearer {SERVICE}\r\naccept: application/x-ndjson\r\n\r\n"
        ));
        client.read_answer().expect("an answer")
    };
    let first = ask("wallet:dave");
    assert_eq!((first.status, first.body.lines().count()), (200, 1));
    let row = json!({
        "id": "seed:dave", "kind": "transfer", "debit": "source:shop", "credit": "wallet:dave",
        "amount": 10, "time_ms": 1, "balance_after": 10,
    });
    assert_eq!(first.json(), row);
    let empty = ask("candidate:1");
    assert_eq!((empty.status, empty.body.as_str()), (200, ""));
}

#[test]
fn what_goes_wrong_before_the_first_row_is_a_problem() {
    let server = TestServer::open();
    let status_and_code = |token: &str, path: &str| {
        let mut reading = begin(server.connect(), token, path);
        assert!(reading.head.contains("content-type: application/problem+json\r\n"), "{}", reading.head);
        let length = reading.head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reading.stream.read_exact(&mut body).unwrap();
        let problem: Value = serde_json::from_slice(&body).unwrap();
        format!("{} {}", problem["status"], problem["code"].as_str().unwrap())
    };
    let dave = server.log_in("dave");
    assert_eq!(status_and_code("", PATH), "401 token_missing");
    assert_eq!(status_and_code(&dave, "/v1/accounts/wallet:carol/transfers"), "404 account_not_found");
    assert_eq!(status_and_code(&dave, "/v1/accounts/candidate:9/transfers"), "404 account_not_found");
    assert_eq!(status_and_code(SERVICE, "/v1/accounts/wallet:none/transfers"), "404 account_not_found");
    assert_eq!(status_and_code(SERVICE, &format!("{PATH}?limit=0")), "422 query_invalid");
    server.backend.unavailable(Some(Unavailable::ShardFailed));
    assert_eq!(status_and_code(SERVICE, PATH), "503 shard_failed");
    assert_eq!(server.backend.streams(), 0);
    server.backend.unavailable(None);
    assert!(begin(server.connect(), &dave, PATH).head.starts_with("http/1.1 200"), "his own");
    assert!(begin(server.connect(), &dave, "/v1/accounts/candidate:1/transfers").head.starts_with("http/1.1 200"));
}

#[test]
fn a_client_that_does_not_read_is_not_read_for_and_one_that_goes_ends_its_stream() {
    let server = TestServer::open();
    server.backend.lengthen("wallet:dave", LONG);
    let mut reading = begin(server.connect(), SERVICE, PATH);
    assert!(reading.chunk().is_some_and(|chunk| !chunk.is_empty()));
    // The socket's buffers take some of it.
    let mut before = 0;
    until("nothing is read for a client that does not read", || {
        std::thread::sleep(Duration::from_millis(200));
        std::mem::replace(&mut before, server.backend.parts()) == server.backend.parts()
    });
    assert!(server.backend.parts() < LONG / 1_000, "{} parts", server.backend.parts());
    assert_eq!(server.backend.streams(), 1);
    drop(reading);
    until("the stream of a client that is gone ends", || server.backend.streams() == 0);
}

#[test]
fn a_client_that_reads_no_more_is_not_waited_for() {
    let limits = HttpLimits { reader_timeout: Duration::from_millis(100), ..HttpLimits::default() };
    let server = TestServer::with(limits);
    server.backend.lengthen("wallet:dave", LONG);
    let mut reading = begin(server.connect(), SERVICE, PATH);
    assert!(reading.chunk().is_some());
    until("the stream ends", || server.backend.streams() == 0);
    let (rows, is_whole) = reading.rows();
    assert!(!is_whole && rows.len() < LONG, "it came too late for the rest");
}

#[test]
fn a_failure_in_the_middle_is_the_last_line_and_breaks_the_connection() {
    let limits = HttpLimits { request_timeout: Duration::from_millis(300), ..HttpLimits::default() };
    let damage = || DamagedPlace {
        file: "ledger-0/segment-0.tgj".into(),
        offset: 77,
        what: "record 3 does not match its checksum".into(),
        lost: "records 3 to 5".into(),
        is_away: false,
    };
    type Fail<'a> = &'a dyn Fn(&TestServer);
    let fails: [(Fail<'_>, &str, &str); 3] = [
        (&|server| server.backend.unavailable(Some(Unavailable::ShardFailed)), "shard_failed", ""),
        (&|server| server.backend.silent(), "timed_out", ""),
        (&|server| server.backend.set_damaged(damage()), "damaged", "segment-0.tgj is damaged at offset 77: record 3"),
    ];
    for (fail, code, detail) in fails {
        let server = TestServer::with(limits);
        server.backend.lengthen("wallet:dave", LONG);
        let mut reading = begin(server.connect(), SERVICE, PATH);
        assert!(reading.chunk().is_some());
        fail(&server);
        let (rows, is_whole) = reading.rows();
        assert!(!is_whole, "never a clean end");
        assert!(rows.len() < LONG, "{} rows", rows.len());
        let problem = &rows.last().expect("a last line")["problem"];
        assert_eq!(problem["code"], code, "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|said| said.contains(detail)), "{problem}");
        until("the stream ends", || server.backend.streams() == 0);
    }
}

#[test]
fn a_stop_breaks_off_what_is_not_read_in_time() {
    let limits = HttpLimits { drain_timeout: Duration::from_millis(200), ..HttpLimits::default() };
    let server = TestServer::with(limits);
    server.backend.lengthen("wallet:dave", LONG);
    let backend = server.backend.clone();
    let mut reading = begin(server.connect(), SERVICE, PATH);
    assert!(reading.chunk().is_some());
    server.stop();
    assert_eq!(backend.streams(), 0);
    assert!(!reading.rows().1, "never a clean end");
}

#[test]
fn one_caller_has_few_streams_and_leaves_room_for_others() {
    let server = TestServer::open();
    server.backend.lengthen("wallet:dave", LONG);
    let mut open: Vec<Reading> =
        (0..HttpLimits::default().streams_of_caller_max).map(|_| begin(server.connect(), SERVICE, PATH)).collect();
    assert!(open.iter().all(|reading| reading.head.starts_with("http/1.1 200")));
    assert!(begin(server.connect(), SERVICE, PATH).head.starts_with("http/1.1 503"), "it has as many as it may");
    let dave = server.log_in("dave");
    assert!(begin(server.connect(), &dave, PATH).head.starts_with("http/1.1 200"), "another caller has its own");
    drop(open.pop());
    until("the place of a stream that has ended is free", || {
        begin(server.connect(), SERVICE, PATH).head.starts_with("http/1.1 200")
    });
}

#[test]
fn a_newcomer_takes_the_place_of_the_greediest_also_when_that_one_does_not_read() {
    let limits = HttpLimits { history_streams_max: 3, streams_for_services: 1, ..HttpLimits::default() };
    let server = TestServer::with(limits);
    for wallet in ["wallet:dave", "wallet:carol"] {
        server.backend.lengthen(wallet, LONG);
    }
    let (dave, carol) = (server.log_in("dave"), server.log_in("carol"));
    let mut his: Vec<Reading> = (0..2).map(|_| begin(server.connect(), &dave, PATH)).collect();
    let hers = begin(server.connect(), &carol, "/v1/accounts/wallet:carol/transfers");
    assert!(hers.head.starts_with("http/1.1 200"), "{}", hers.head);
    assert!(begin(server.connect(), SERVICE, PATH).head.starts_with("http/1.1 200"), "viewers leave it a place");
    let (rows, is_whole) = his.pop().unwrap().rows();
    assert!(!is_whole, "never a clean end");
    assert_eq!(rows.last().expect("a last line")["problem"]["code"], "busy");
    drop(hers);
    assert!(his.pop().unwrap().rows().1, "the older one goes on");
}
