//! Votes by the short way, which no client can tell from hyper's.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use axum::http::Method;
use tidegate_ledger::message::Unavailable;

use super::history_lines::until;
use super::server::{Client, SERVICE, TestServer, request};
use crate::auth::quota::{QuotaLimits, Rate};
use crate::http::HttpLimits;
use crate::http::plain::{self, PlainLimits, Seen};

/// A header line that no plain request has, and that changes no answer.
const HYPERS: &str = "te: trailers\r\n";

fn vote(id: &str, amount: u64) -> String {
    format!(r#"{{"id":"{id}","debit":"wallet:dave","credit":"candidate:3","amount":{amount}}}"#)
}

fn post(token: &str, body: &str) -> String {
    request(token, "POST", "/v1/transfers", body)
}

/// The same request with more header lines.
fn with(request: &str, lines: &str) -> String {
    request.replacen("\r\n", &format!("\r\n{lines}"), 1)
}

fn is_plain(request: &str) -> bool {
    let line = plain::request_line(&Method::POST, "/v1/transfers");
    let limits = PlainLimits { headers_max: 64, body_bytes_max: 2 << 20 };
    matches!(plain::head(&line, request.as_bytes(), limits), Seen::Plain(_))
}

/// The answer as it came, without its date.
fn raw_answer(server: &TestServer, request: &str) -> String {
    let mut stream = server.connect().stream;
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (before, date) = answer.split_once("date: ").unwrap_or_else(|| panic!("{request}: {answer:?}"));
    format!("{before}date: {}", &date["Sat, 21 Nov 2026 09:14:49 GMT".len()..])
}

#[test]
fn an_answer_is_the_same_byte_for_byte() {
    let server = TestServer::open();
    let dave = server.log_in("dave");
    server.ask(SERVICE, "POST", "/v1/transfers", &vote("dupl-0", 1));
    for (token, body, status) in [
        (SERVICE, vote("lane-1", 1), "201 Created"),
        (SERVICE, vote("dupl-0", 1), "200 OK"),
        (SERVICE, vote("lane-2", 1_000), "409 Conflict"),
        (SERVICE, r#"{"transfers":[]}"#.to_owned(), "422 Unprocessable Entity"),
        (SERVICE, vote("lane-3", 1).replace("dave", "nobody"), "404 Not Found"),
        (SERVICE, String::new(), "400 Bad Request"),
        (SERVICE, "{".to_owned(), "400 Bad Request"),
        (SERVICE, format!("{{{}", " ".repeat(6_000)), "400 Bad Request"),
        (&dave, vote("lane-4", 1).replace("wallet:dave", "wallet:carol"), "403 Forbidden"),
        ("", vote("lane-5", 1), "401 Unauthorized"),
        ("wrong", vote("lane-6", 1), "401 Unauthorized"),
    ] {
        let short = post(token, &body);
        let long = with(&post(token, &body.replace("lane", "hype")), HYPERS);
        assert!(is_plain(&short) && !is_plain(&long), "{short}");
        let answer = raw_answer(&server, &short);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
        assert_eq!(answer, raw_answer(&server, &long).replace("hype", "lane"));
    }
    server.backend.unavailable(Some(Unavailable::Busy));
    let request = post(SERVICE, &vote("late-1", 1));
    let answer = raw_answer(&server, &request);
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
    assert_eq!(answer, raw_answer(&server, &with(&request, HYPERS)));
}

#[test]
fn who_asks_too_much_is_told_so_byte_for_byte() {
    let quota = QuotaLimits { requests: Rate { per_s: 1, burst: 1 }, ..QuotaLimits::NONE };
    let server = TestServer::with_quota(quota);
    let dave = server.log_in("dave");
    let short = post(&dave, "{");
    let refused = |request: &str| {
        let mut tries = (0..1_000).map(|_| raw_answer(&server, request));
        let answer = tries.find(|answer| answer.starts_with("HTTP/1.1 429 ")).expect("too many in a second");
        // It says in how many milliseconds there is room again, with two digits or three.
        let (before, rest) = answer.split_once("ask again in ").expect("when to ask again");
        let (_, after) = rest.split_once(" ms").expect("a unit");
        let length = before.find("content-length: ").expect("a length") + "content-length: ".len();
        format!("{}{}{after}", &before[..length], &before[length + 3..])
    };
    let answer = refused(&short);
    assert!(answer.contains("retry-after: "), "{answer}");
    assert_eq!(answer, refused(&with(&short, HYPERS)));
}

#[test]
fn what_is_not_plain_is_answered_behind_it() {
    let server = TestServer::open();
    let good = |n: usize| post(SERVICE, &vote(&format!("vote-{n}"), 1));
    let large = |n: usize| post(SERVICE, &format!("{}{}", vote(&format!("vote-{n}"), 1), " ".repeat(9_000)));
    let chunked = |n: usize| {
        let body = vote(&format!("vote-{n}"), 1);
        format!(
            "POST /v1/transfers HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {SERVICE}\r\n\
             transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        )
    };
    let smuggled = "POST /v1/transfers HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{} ";
    let fields: String = (0..100).map(|number| format!("x-{number}: y\r\n")).collect();
    let cases: [(String, u16, bool); 16] = [
        (request("", "GET", "/healthz", ""), 200, true),
        (request(SERVICE, "GET", "/v1/transfers/none", ""), 404, true),
        (request(SERVICE, "PUT", "/v1/transfers", "{}"), 405, true),
        (good(1).replacen("/v1/transfers", "/v1/transfers?a=b", 1), 201, true),
        (large(2), 201, true),
        (chunked(3), 201, true),
        (with(&good(4), "expect: 100-continue\r\n"), 201, true),
        (with(&good(5), "connection: keep-alive, x\r\n"), 201, true),
        (with(&good(6), "upgrade: h2c\r\nconnection: upgrade\r\n"), 201, true),
        (good(7).replacen("\r\n", "\n", 1), 201, true),
        (with(&good(8), "connection: close\r\n"), 201, false),
        (good(9).replacen("host: tidegate\r\n", "", 1), 400, true),
        (with(&good(9), "host: b\r\n"), 400, true),
        (smuggled.to_owned(), 400, false),
        (with(&good(9), "x: a\r\n b\r\n"), 400, false),
        (with(&good(9), &fields), 431, false),
    ];
    for (n, (odd, status, goes_on)) in cases.into_iter().enumerate() {
        assert!(!is_plain(&odd), "{odd}");
        let mut client = server.connect();
        let before = client.ask(SERVICE, "POST", "/v1/transfers", &vote(&format!("prior-{n}"), 0));
        assert_eq!(before.status, 422, "{before:?}");
        client.send(&odd);
        let mut answer = client.read_answer().unwrap_or_else(|| panic!("{odd} has an answer"));
        if odd.contains("100-continue") && answer.status == 100 {
            answer = client.read_answer().unwrap();
        }
        assert_eq!(answer.status, status, "{odd}: {answer:?}");
        if goes_on {
            let after = client.ask(SERVICE, "POST", "/v1/transfers", &vote("prior", 0));
            assert_eq!(after.status, 422, "{odd}: {after:?}");
        } else {
            assert!(client.is_closed(), "{odd}");
        }
    }
}

#[test]
fn a_vote_is_one_wherever_it_is_cut() {
    let server = TestServer::open();
    let whole = post(SERVICE, &vote("cut", 1));
    for cut in 1..whole.len() {
        let mut client = server.connect();
        client.stream.set_nodelay(true).unwrap();
        client.send(&whole[..cut]);
        // An answer on another connection: the first piece has come by then.
        if cut % 8 == 0 {
            server.ask("", "GET", "/healthz", "");
        }
        client.send(&whole[cut..]);
        let status = client.read_answer().unwrap().status;
        assert_eq!(status, if cut == 1 { 201 } else { 200 }, "{cut}");
        let next = client.ask(SERVICE, "POST", "/v1/transfers", &vote("cut", 1));
        assert_eq!(next.status, 200, "{cut}");
    }
}

#[test]
fn votes_that_come_together_are_answered_one_after_the_other() {
    let server = TestServer::open();
    let ids = |client: &mut Client, count: usize| -> Vec<String> {
        let answers = (0..count).map(|_| client.read_answer().expect("each has its answer"));
        answers.map(|answer| answer.json()["id"].as_str().unwrap_or("none").to_owned()).collect()
    };
    let votes = |count: usize| (0..count).map(|n| post(SERVICE, &vote(&format!("v-{n}"), 1))).collect::<String>();
    let mut client = server.connect();
    client.send(&votes(3));
    assert_eq!(ids(&mut client, 3), ["v-0", "v-1", "v-2"]);
    // More than is read at once, with another request among them, and nothing behind them.
    client.send(&votes(200));
    client.send(&request("", "GET", "/healthz", ""));
    client.send(&votes(3));
    client.stream.shutdown(Shutdown::Write).unwrap();
    let all = ids(&mut client, 204);
    let expected: Vec<_> = (0..200).map(|n| format!("v-{n}")).collect();
    assert_eq!((&all[..200], &all[200..]), (&expected[..], &["none", "v-0", "v-1", "v-2"].map(str::to_owned)[..]));
    assert!(client.is_closed());
}

#[test]
fn a_client_that_sends_no_more_has_its_answers() {
    let server = TestServer::open();
    let mut client = server.connect();
    client.send(&post(SERVICE, &vote("half", 1)).repeat(3));
    client.stream.shutdown(Shutdown::Write).unwrap();
    let statuses = [(); 3].map(|()| client.read_answer().expect("an answer").status);
    assert_eq!(statuses, [201, 200, 200]);
    assert!(client.is_closed());
    let mut broken = server.connect();
    let whole = post(SERVICE, &vote("broken", 1));
    broken.send(&whole[..whole.len() - 3]);
    broken.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(broken.read_answer().expect("an answer").summary(), "400 body_broken");
}

#[test]
fn a_stop_ends_who_is_idle_and_answers_who_has_asked() {
    let limits = HttpLimits { request_timeout: Duration::from_millis(500), ..HttpLimits::default() };
    let server = TestServer::with(limits);
    let (mut idle, mut asking) = (server.connect(), server.connect());
    assert_eq!(idle.ask(SERVICE, "POST", "/v1/transfers", &vote("idle", 1)).status, 201);
    server.backend.silent();
    asking.send(&post(SERVICE, &vote("asking", 1)).repeat(2));
    until("it is asked", || server.backend.asked() == 2);
    server.begin_stop();
    assert!(idle.is_closed());
    let answer = asking.read_answer().expect("an answer");
    assert_eq!(answer.summary(), "503 timed_out");
    assert!(answer.head.contains("\r\nconnection: close\r\n"), "{answer:?}");
    assert!(asking.read_answer().is_none(), "it was the last");
    server.stop();
}

#[test]
fn nobody_waits_for_the_answer_of_a_client_that_has_gone() {
    let limits = HttpLimits { request_timeout: Duration::from_secs(3_600), ..HttpLimits::default() };
    let server = TestServer::with(limits);
    server.backend.silent();
    let client = server.connect();
    let mut stream = &client.stream;
    stream.write_all(post(SERVICE, &vote("gone", 1)).as_bytes()).unwrap();
    until("it is asked", || server.backend.asked() == 1);
    assert_eq!(server.metrics.connections_open.get(), 1);
    // What is unread, and a close without lingering, make the system reset the connection.
    socket2::SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    until("it is let go", || server.metrics.connections_open.get() == 0);
}

#[test]
fn a_head_that_does_not_come_ends_its_connection_without_a_word() {
    let limits = HttpLimits { head_timeout: Duration::from_millis(200), ..HttpLimits::default() };
    let server = TestServer::with(limits);
    for part in ["", "POST /v1/transf", "POST /v1/transfers HTTP/1.1\r\nhost: a\r\n"] {
        let mut client = server.connect();
        assert_eq!(client.ask(SERVICE, "POST", "/v1/transfers", &vote("late", 1)).status / 100, 2);
        client.send(part);
        assert!(client.read_answer().is_none(), "{part}");
    }
}
