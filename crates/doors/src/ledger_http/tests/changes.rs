//! Streams of changes at the door: who gets which rows, what a quiet stream says, and what a reader may cost.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_ledger::message::Unavailable;

use super::history_lines::{Reading, begin, until};
use super::server::{SERVICE, SHOP, TestServer, request};
use crate::http::HttpLimits;

const PATH: &str = "/v1/changes";

/// The rows of the next chunk.
fn rows(reading: &mut Reading) -> Vec<Value> {
    let chunk = reading.chunk().expect("the stream goes on");
    let text = String::from_utf8(chunk).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect()
}

#[test]
fn a_page_has_the_rows_of_its_caller_and_where_to_go_on() {
    let server = TestServer::open();
    for (debit, credit) in
        [("source:shop", "wallet:dave"), ("wallet:carol", "candidate:1"), ("wallet:dave", "candidate:1")]
    {
        server.backend.change(debit, credit, 3);
    }
    let page = |token: &str, query: &str| server.ask(token, "GET", &format!("{PATH}?{query}"), "").json();
    let numbers = |page: &Value| -> Vec<u64> {
        page["changes"].as_array().unwrap().iter().map(|row| row["sequence"].as_u64().unwrap()).collect()
    };
    let whole = page(SERVICE, "");
    assert_eq!((numbers(&whole), &whole["next"], &whole["at_end"]), (vec![1, 2, 3], &json!("3"), &json!(true)));
    let row = json!({
        "cursor": "1", "shard": 0, "sequence": 1, "time_ms": 1, "kind": "transfer", "id": "t1", "id_space": "space",
        "asset": "credit", "debit": "source:shop", "debit_balance_after": 1, "credit": "wallet:dave",
        "credit_balance_after": 1, "amount": 3, "memo": "m".repeat(256),
    });
    assert_eq!(whole["changes"][0], row);
    let first = page(SERVICE, "limit=1");
    assert_eq!((numbers(&first), &first["next"], &first["at_end"]), (vec![1], &json!("1"), &json!(false)));
    assert_eq!(numbers(&page(SERVICE, "after=1")), [2, 3]);
    assert_eq!(numbers(&page(SERVICE, "accounts=wallet:c*")), [2]);
    assert_eq!(numbers(&page(SERVICE, "kinds=refused")), [] as [u64; 0]);

    let dave = server.log_in("dave");
    let his = page(&dave, "");
    assert_eq!(numbers(&his), [1, 3]);
    assert_eq!(his["changes"][0].get("debit_balance_after"), None, "the shop's is not for him");
    assert_eq!(his["changes"][0]["credit_balance_after"], 1);
    assert_eq!(numbers(&page(&dave, "accounts=wallet:carol")), [] as [u64; 0]);

    let summary = |token: &str, query: &str| server.ask(token, "GET", &format!("{PATH}?{query}"), "").summary();
    assert_eq!(summary(SHOP, ""), "403 forbidden", "it may read no account");
    assert_eq!(summary("", ""), "401 token_missing");
    assert_eq!(summary(SERVICE, "after=99"), "422 cursor_unknown");
    assert_eq!(summary(SERVICE, "limit=1001"), "422 query_invalid");
    server.backend.unavailable(Some(Unavailable::Recovering));
    assert_eq!(summary(SERVICE, ""), "503 recovering");
    server.backend.unavailable(Some(Unavailable::Busy));
    let busy = server.ask(SERVICE, "GET", PATH, "");
    assert_eq!(busy.summary(), "503 busy");
    let detail = "too much is under way; ask again, what has an id with the same id";
    assert_eq!(busy.json()["detail"], detail, "what is asked here has no id");
    until("pages leave nothing behind", || server.backend.streams() == 0);
}

#[test]
fn a_quiet_stream_says_that_it_is_there_and_where_it_is() {
    let limits = HttpLimits { request_timeout: Duration::from_millis(200), ..HttpLimits::default() };
    let server = TestServer::with(limits);
    server.backend.change("wallet:carol", "candidate:1", 1);
    let mut reading = begin(server.connect(), SERVICE, &format!("{PATH}?accounts=wallet:dave"));
    assert!(reading.head.contains("cache-control: no-store\r\n"), "{}", reading.head);
    for _ in 0..3 {
        assert_eq!(rows(&mut reading), [json!({"kind": "heartbeat", "cursor": "1"})], "what is passed over counts");
    }
    server.backend.change("wallet:dave", "candidate:1", 1);
    let row = loop {
        let row = rows(&mut reading).remove(0);
        if row["kind"] != "heartbeat" {
            break row;
        }
    };
    assert_eq!((&row["cursor"], &row["debit"]), (&json!("2"), &json!("wallet:dave")));
}

#[test]
fn a_reader_that_does_not_read_is_not_read_for_and_then_not_waited_for() {
    let limits = HttpLimits { reader_timeout: Duration::from_millis(300), ..HttpLimits::default() };
    let server = TestServer::with(limits);
    for _ in 0..100_000 {
        server.backend.change("wallet:dave", "candidate:1", 1);
    }
    let mut reading = begin(server.connect(), SERVICE, PATH);
    assert_eq!(rows(&mut reading).len(), 2);
    until("its stream ends", || server.backend.streams() == 0);
    assert!(server.backend.parts() < 50_000, "{} parts were read for nobody", server.backend.parts());
    while reading.chunk().is_some_and(|chunk| !chunk.is_empty()) {}
}

#[test]
fn one_caller_follows_few_streams_and_a_failure_breaks_them() {
    let server = TestServer::open();
    server.backend.change("wallet:dave", "candidate:1", 1);
    let mut open: Vec<Reading> =
        (0..HttpLimits::default().streams_of_caller_max).map(|_| begin(server.connect(), SERVICE, PATH)).collect();
    assert!(begin(server.connect(), SERVICE, PATH).head.starts_with("http/1.1 503"), "it has as many as it may");
    let dave = server.log_in("dave");
    assert!(begin(server.connect(), &dave, PATH).head.starts_with("http/1.1 200"), "another caller has its own");
    open.truncate(1);
    server.backend.unavailable(Some(Unavailable::ShardFailed));
    let mut last = open.pop().unwrap();
    let mut said = Vec::new();
    while let Some(chunk) = last.chunk() {
        assert!(!chunk.is_empty(), "never a clean end");
        said = chunk;
    }
    let said: Value = serde_json::from_slice(&said).unwrap();
    assert_eq!((&said["kind"], &said["cursor"]), (&json!("heartbeat"), &json!("1")), "{said}");
    assert!(said["ended"].as_str().is_some_and(|why| why.contains("journal failed")), "why it ended: {said}");
    until("all streams end", || server.backend.streams() == 0);
}

#[test]
fn a_newcomer_takes_the_place_of_the_greediest_who_is_told_where_to_go_on() {
    let limits = HttpLimits {
        change_streams_max: 4,
        streams_of_caller_max: 3,
        streams_for_services: 1,
        ..HttpLimits::default()
    };
    let server = TestServer::with(limits);
    server.backend.change("wallet:dave", "candidate:1", 1);
    let (dave, carol) = (server.log_in("dave"), server.log_in("carol"));
    let follow = |token: &str| begin(server.connect(), token, PATH);
    let mut his: Vec<Reading> = (0..3).map(|_| follow(&dave)).collect();
    for reading in &mut his {
        assert_eq!(rows(reading)[0]["cursor"], "1");
    }
    let mut services = follow(SERVICE);
    assert!(services.head.starts_with("http/1.1 200"), "viewers leave it a place: {}", services.head);
    assert_eq!(server.ask(SERVICE, "GET", "/v1/changes?limit=1", "").status, 200, "pages take no place");
    assert_eq!(server.ask(&carol, "GET", "/v1/changes?limit=1", "").status, 200);

    let mut hers = follow(&carol);
    assert!(hers.head.starts_with("http/1.1 200"), "she has none: {}", hers.head);
    let mut last = his.pop().unwrap();
    let mut said = Vec::new();
    while let Some(chunk) = last.chunk() {
        assert!(!chunk.is_empty(), "never a clean end");
        said = chunk;
    }
    let said: Value = serde_json::from_slice(&said).unwrap();
    assert_eq!((&said["kind"], &said["cursor"]), (&json!("heartbeat"), &json!("1")), "{said}");
    assert_eq!(said["ended"], "another caller needed the place; connect again with the last cursor");

    server.backend.change("wallet:dave", "wallet:carol", 1);
    for reading in his.iter_mut().chain([&mut hers, &mut services]) {
        while rows(reading)[0]["cursor"] != "2" {}
    }
    // Two of his, one of hers: nobody has two more than she, and what he lost he does not take back.
    assert!(follow(&carol).head.starts_with("http/1.1 503"));
    assert!(follow(&dave).head.starts_with("http/1.1 503"));
    let metrics = server.ask(SERVICE, "GET", "/metrics", "").body;
    for line in ["tidegate_http_streams_cut_total 1", "tidegate_http_streams_refused_total 2"] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
}

#[test]
fn a_page_whose_asker_has_gone_is_not_read() {
    let limits = HttpLimits {
        change_pages_max: 2,
        change_pages_for_services: 1,
        request_timeout: Duration::from_secs(60),
        ..HttpLimits::default()
    };
    let server = TestServer::with(limits);
    server.backend.silent();
    let (dave, carol) = (server.log_in("dave"), server.log_in("carol"));
    let ask = |token: &str| {
        let mut client = server.connect();
        client.send(&request(token, "GET", PATH, ""));
        client
    };
    let reading = ask(&dave);
    until("a page is read", || server.backend.streams() == 1);
    let waiting: Vec<_> = [&dave, &dave, &carol].into_iter().map(|token| ask(token)).collect();
    let _services = ask(SERVICE);
    until("viewers leave a service its place", || server.backend.streams() == 2);
    // What is closed like this is not only sent to no more, as by a client that has asked all it wants.
    for client in waiting.into_iter().chain([reading]) {
        socket2::SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }
    until("the page that was read, and those that waited, are given up", || server.backend.streams() == 1);
    until("nothing is left of them", || server.metrics.connections_open.get() == 1);
}

#[test]
fn a_page_for_who_sends_nothing_more_is_read() {
    let server = TestServer::open();
    server.backend.change("wallet:dave", "candidate:1", 1);
    let mut client = server.connect();
    client.send(&request(SERVICE, "GET", PATH, ""));
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.read_answer().expect("an answer").status, 200);
}

#[test]
fn a_stream_that_is_not_read_gives_its_place_at_once() {
    let limits = HttpLimits { change_streams_max: 3, streams_for_services: 1, ..HttpLimits::default() };
    let server = TestServer::with(limits);
    for _ in 0..50_000 {
        server.backend.change("wallet:dave", "candidate:1", 1);
    }
    let (dave, carol) = (server.log_in("dave"), server.log_in("carol"));
    let _unread: Vec<Reading> = (0..2).map(|_| begin(server.connect(), &dave, PATH)).collect();
    until("the sockets are full", || {
        let before = server.backend.parts();
        std::thread::sleep(Duration::from_millis(100));
        server.backend.parts() == before
    });
    let hers = begin(server.connect(), &carol, PATH);
    assert!(hers.head.starts_with("http/1.1 200"), "{}", hers.head);
    until("the one that was cut reads no more", || server.backend.streams() == 2);
}
