//! What one viewer may use up over HTTP.

use std::io::Read;
use std::time::{Duration, Instant};

use super::history_lines::begin;
use super::server::{Client, SERVICE, TestServer, request};
use crate::auth::StrangerLimits;
use crate::auth::quota::{QuotaLimits, Rate};
use crate::http::HttpLimits;

fn vote(id: usize, amount: u64) -> String {
    format!(r#"{{"id":"vote-{id}","debit":"wallet:dave","credit":"candidate:3","amount":{amount}}}"#)
}

fn rate(burst: u32) -> Rate {
    Rate { per_s: 1, burst }
}

/// Asks until the server has enough, and says what it answered then and how much the ledger was asked.
fn flood(quota: QuotaLimits, body: impl Fn(usize) -> String) -> (String, usize) {
    let server = TestServer::with_quota(quota);
    let dave = server.log_in("dave");
    let mut client = server.connect();
    let before = server.backend.asked();
    for number in 0..400 {
        let answer = client.ask(&dave, "POST", "/v1/transfers", &body(number));
        if answer.status == 429 {
            assert!(answer.head.contains("\r\nretry-after: "), "{answer:?}");
            let asked = server.backend.asked() - before;
            assert_eq!(client.ask(&dave, "GET", "/v1/accounts/wallet:dave", "").status, 429, "at all paths");
            assert_eq!(server.backend.asked() - before, asked, "what is over a bound asks the ledger nothing");
            let carol = server.log_in("carol");
            assert_eq!(server.ask(&carol, "GET", "/v1/accounts/wallet:carol", "").status, 200, "others are served");
            assert_eq!(server.ask(SERVICE, "GET", "/v1/accounts/wallet:dave", "").status, 200);
            return (answer.json()["detail"].as_str().unwrap().to_owned(), asked);
        }
    }
    panic!("four hundred requests in a moment were all served");
}

#[test]
fn requests_are_bounded() {
    let (detail, asked) = flood(QuotaLimits { requests: rate(20), ..QuotaLimits::NONE }, |_| vote(1, 1));
    assert!(detail.contains("too many requests") && asked <= 25, "{detail}: {asked}");
}

#[test]
fn refusals_are_bounded() {
    let quota = QuotaLimits { refusals: rate(10), ..QuotaLimits::NONE };
    let (detail, asked) = flood(quota, |number| vote(number, 1_000_000));
    assert!(detail.contains("too many refused requests") && asked <= 15, "{detail}: {asked}");
    let (_, asked) = flood(quota, |_| vote(0, 1).replace("candidate:3", "wallet:carol"));
    assert!(asked <= 15, "what rights refuse counts: {asked}");
}

#[test]
fn journal_bytes_are_bounded() {
    let quota = QuotaLimits { journal_bytes: rate(2_000), ..QuotaLimits::NONE };
    let server = TestServer::with_quota(quota);
    let dave = server.log_in("dave");
    let statuses: Vec<u16> =
        (0..100).map(|number| server.ask(&dave, "POST", "/v1/transfers", &vote(number, 1)).status).collect();
    let served = statuses.iter().filter(|status| **status != 429).count();
    assert!((5..=40).contains(&served), "{statuses:?}");
    assert_eq!(server.ask(&dave, "GET", "/v1/accounts/wallet:dave", "").status, 200, "reads journal nothing");
}

#[test]
fn a_stream_of_changes_slows_down_to_the_bound_of_requests() {
    let quota = QuotaLimits { requests: Rate { per_s: 100, burst: 20 }, ..QuotaLimits::NONE };
    let server = TestServer::with_quota(quota);
    for _ in 0..120 {
        server.backend.change("wallet:dave", "candidate:1", 1);
    }
    let dave = server.log_in("dave");
    let since = Instant::now();
    let (rows, is_whole) = begin(server.connect(), &dave, "/v1/changes?follow=false").rows();
    assert_eq!((rows.len(), is_whole), (121, true), "{:?}", rows.last());
    assert_eq!(rows[120]["kind"], "end");
    // Two rows in a part, and ten of the twenty that come at once are left for others of his requests.
    assert!(since.elapsed() >= Duration::from_millis(450), "60 parts in {:?}", since.elapsed());
    assert_eq!(server.ask(&dave, "GET", "/v1/accounts/wallet:dave", "").status, 200);
}

#[test]
fn a_request_with_more_than_a_caller_may_ever_ask_is_no_matter_of_time() {
    let server = TestServer::with_quota(QuotaLimits { requests: rate(3), ..QuotaLimits::NONE });
    let dave = server.log_in("dave");
    let four = format!(r#"{{"transfers":[{}]}}"#, (0..4).map(|number| vote(number, 1)).collect::<Vec<_>>().join(","));
    let answer = server.ask(&dave, "POST", "/v1/transfers", &four);
    assert_eq!(answer.summary(), "422 batch_size_invalid");
    assert!(answer.json()["detail"].as_str().unwrap().contains("at most 3"), "{answer:?}");
}

/// How many of these in a row an address without a token gets an answer to that is not 429.
fn answered(server: &TestServer, method: &str, path: &str, body: &str) -> usize {
    let mut client = server.connect();
    (0..40).take_while(|_| client.ask("", method, path, body).status != 429).count()
}

fn strangers(requests: Rate) -> TestServer {
    TestServer::with_strangers(StrangerLimits { requests, ..StrangerLimits::NONE })
}

#[test]
fn what_is_asked_or_refused_without_a_token_is_counted_by_address() {
    for (method, path, body) in [
        ("GET", "/v1/nothing", ""),
        ("PUT", "/v1/transfers", ""),
        ("DELETE", "/v1/login", ""),
        ("POST", "/v1/login", "{}"),
        ("POST", "/v1/login", "nonsense"),
        ("POST", "/v1/login", r#"{"user":"dave","pasword":"dave"}"#),
        ("GET", "/metrics", ""),
    ] {
        let server = strangers(rate(10));
        let count = answered(&server, method, path, body);
        assert!((10..=12).contains(&count), "{method} {path} {body}: {count}");
        let answer = server.ask("", method, path, body);
        assert_eq!(answer.summary(), "429 too_many_requests", "also on another connection");
        assert!(answer.head.contains("\r\nretry-after: "), "{answer:?}");
        // Who is known is not hurt by what strangers of the address do.
        assert_eq!(server.ask(SERVICE, "GET", "/metrics", "").status, 200);
        assert_eq!(server.ask(SERVICE, "GET", "/openapi.json", "").status, 200);
        assert_eq!(server.ask(SERVICE, "GET", "/v1/nothing", "").summary(), "404 path_unknown");
        assert_eq!(server.ask("", "GET", "/healthz", "").status, 200, "health is told to everybody");
    }
}

/// How many answers come to `connections` that send `request` without an end, within so long, and which.
fn answers_to_flood(server: &TestServer, connections: usize, request: &str, during: Duration) -> (usize, Vec<u16>) {
    let mut clients: Vec<_> = (0..connections).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send(&request.repeat(500)));
    std::thread::sleep(during);
    let came = |client: &mut Client| {
        client.stream.set_nonblocking(true).unwrap();
        let mut bytes = Vec::new();
        let _until_no_more = client.stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].parse().unwrap()).collect()
    };
    let answers: Vec<Vec<u16>> = clients.iter_mut().map(came).collect();
    let mut statuses = answers.concat();
    let count = statuses.len();
    statuses.sort_unstable();
    statuses.dedup();
    (count, statuses)
}

#[test]
fn a_flood_of_looks_at_the_health_is_answered_late_and_never_refused() {
    let server = strangers(rate(10));
    let look = request("", "GET", "/healthz", "");
    let (count, statuses) = answers_to_flood(&server, 20, &look, Duration::from_millis(500));
    assert_eq!(statuses, [200], "who watches the server must not take it for dead");
    assert!((10..=10 + 20 * 11).contains(&count), "twenty connections, each at most every 50 ms: {count}");
    // They count: what else comes from there without a token is refused.
    assert_eq!(server.ask("", "GET", "/v1/nothing", "").status, 429);
    assert_eq!(server.ask("", "GET", "/healthz", "").status, 200);
    assert_eq!(server.ask(SERVICE, "GET", "/v1/accounts/wallet:dave", "").status, 200);
}

#[test]
fn pages_for_people_are_counted_too() {
    let server = strangers(rate(10));
    assert!((10..=12).contains(&answered(&server, "GET", "/demo/demo.css", "")));
}

#[test]
fn a_large_answer_is_worth_several_requests() {
    let server = strangers(rate(40));
    let worth = 1 + server.ask(SERVICE, "GET", "/openapi.json", "").body.len() / (16 << 10);
    assert!(worth >= 4, "{worth}");
    let count = answered(&server, "GET", "/openapi.json", "");
    assert!((40 / worth..=40 / worth + 2).contains(&count), "{count} of {worth}");
    // The same for who has shown a token.
    let server = TestServer::with_quota(QuotaLimits { requests: rate(40), ..QuotaLimits::NONE });
    let dave = server.log_in("dave");
    let mut client = server.connect();
    let count = (0..40).take_while(|_| client.ask(&dave, "GET", "/openapi.json", "").status != 429).count();
    assert!((40 / worth..=40 / worth + 2).contains(&count), "{count} of {worth}");
}

/// A server where viewers have so many requests, and a collector so many rows, a thousand seconds apart; and a viewer.
fn with_rows(requests: Rate, rows: usize) -> (TestServer, String) {
    let server = TestServer::with_quota(QuotaLimits { requests, ..QuotaLimits::NONE });
    server.backend.lengthen("candidate:3", rows);
    server.backend.date("candidate:3");
    let dave = server.log_in("dave");
    (server, dave)
}

#[test]
fn a_page_is_worth_as_many_requests_as_its_rows_cost() {
    let (server, dave) = with_rows(rate(200), 1_000);
    for (limit, most) in [(1_000, 3), (100, 30)] {
        let path = format!("/v1/accounts/candidate:3/transfers?limit={limit}");
        let carol = server.log_in("carol");
        let token = if limit == 100 { &carol } else { &dave };
        let served = (0..200).take_while(|_| server.ask(token, "GET", &path, "").status == 200).count();
        assert!((2..=most).contains(&served), "pages of {limit}: {served}");
    }
    // Other viewers, and who has no bound, are not hurt.
    let page = "/v1/accounts/candidate:3/transfers?limit=1000";
    assert!((0..20).all(|_| server.ask(SERVICE, "GET", page, "").status == 200));
}

#[test]
fn a_walk_ends_where_the_requests_of_its_caller_do_and_says_where_to_go_on() {
    for path in ["/v1/accounts/candidate:3?at=1000000", "/v1/accounts/candidate:3/transfers?to_time=1000000"] {
        let (server, dave) = with_rows(rate(100), 20_000);
        let before = server.backend.asked();
        let answer = server.ask(&dave, "GET", path, "");
        assert!(answer.json()["next"].is_string(), "{path}: {answer:?}");
        assert!(server.backend.asked() - before <= 5, "two pages are worth more than it has");
        assert_eq!(server.ask(&dave, "GET", path, "").status, 429, "{path}: it owes them");
        assert_eq!(server.ask(SERVICE, "GET", path, "").status, 200, "{path}: who has no bound goes the whole way");
    }
}

#[test]
fn a_history_as_lines_goes_as_fast_as_the_requests_of_its_caller_and_leaves_it_some() {
    let (server, dave) = with_rows(Rate { per_s: 100, burst: 200 }, 100_000);
    let mut stream = server.connect();
    let asked = request(&dave, "GET", "/v1/accounts/candidate:3/transfers", "");
    stream.send(&asked.replacen("\r\n", "\r\naccept: application/x-ndjson\r\n", 1));
    std::thread::spawn(move || std::io::copy(&mut stream.stream, &mut std::io::sink()));
    let of_collector = "/v1/accounts/candidate:3";
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_millis(1_500) {
        assert_eq!(server.ask(&dave, "GET", of_collector, "").status, 200, "other requests find room");
        std::thread::sleep(Duration::from_millis(50));
    }
    let parts = server.backend.parts();
    assert!((2..=8).contains(&parts), "62 requests each, of 100 in a second and 100 at once: {parts}");
}

#[test]
fn what_no_room_has_seen_is_counted_for_its_sender() {
    let server = TestServer::with_quota(QuotaLimits { requests: rate(10), ..QuotaLimits::NONE });
    let dave = server.log_in("dave");
    let mut client = server.connect();
    for (method, path) in [("GET", "/v1/nothing"), ("PUT", "/v1/transfers")] {
        let served = (0..40).take_while(|_| client.ask(&dave, method, path, "").status != 429).count();
        assert!(served <= 12, "{method} {path}: {served}");
    }
    assert_eq!(server.ask("", "GET", "/v1/nothing", "").status, 404);
}

#[test]
fn few_bytes_of_log_ins_are_read_at_once_of_one_address() {
    let body_bytes_max = 5 * HttpLimits::default().login_body_bytes_max as u32;
    let server = TestServer::with_strangers(StrangerLimits { body_bytes_max, ..StrangerLimits::NONE });
    let whole = request("", "POST", "/v1/login", r#"{"user":"dave","password":"dave"}"#);
    let half = &whole[..whole.len() - 5];
    let mut slow: Vec<_> = (0..5).map(|_| server.connect()).collect();
    slow.iter_mut().for_each(|client| client.send(half));
    // The five may take a moment to be seen.
    let refused = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        let mut client = server.connect();
        client.send(half);
        client.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let is_told = client.stream.peek(&mut [0]).is_ok();
        is_told.then(|| client.read_answer().expect("it was there"))
    });
    let refused = refused.expect("one is too many");
    assert_eq!(refused.summary(), "503 busy");
    assert!(refused.json()["detail"].as_str().unwrap().contains("log-ins of this address"), "{refused:?}");
    slow.iter_mut().for_each(|client| client.send(&whole[whole.len() - 5..]));
    assert!(slow.iter_mut().all(|client| client.read_answer().unwrap().status == 200), "the others are served");
    server.log_in("dave");
}

#[test]
fn half_sent_bodies_of_one_viewer_take_few_bytes_and_others_are_served() {
    let limits = HttpLimits {
        body_bytes_max: 100_000,
        bodies_of_viewer_bytes_max: 100_000,
        bodies_bytes_max: 400_000,
        ..HttpLimits::default()
    };
    let server = TestServer::with(limits);
    let (dave, carol) = (server.log_in("dave"), server.log_in("carol"));
    let whole =
        format!(r#"{{"id":"a","debit":"wallet:dave","credit":"candidate:1","amount":1}}{}"#, " ".repeat(80_000));
    let half = |token: &str| {
        let mut client = server.connect();
        client.send(&request(token, "POST", "/v1/transfers", &whole)[..60_000]);
        client
    };
    let mut first = half(&dave);
    let mut second = half(&dave);
    let refused = second.read_answer().expect("it is told at once, not when the body is late");
    assert_eq!(refused.summary(), "429 too_many_requests");
    assert!(refused.json()["detail"].as_str().unwrap().contains("bytes of bodies"), "{refused:?}");
    // The whole of another viewer's body, and of a service's, is read meanwhile.
    assert_eq!(server.ask(&carol, "POST", "/v1/transfers", &whole).summary(), "403 forbidden");
    assert_eq!(server.ask(SERVICE, "POST", "/v1/transfers", &whole).summary(), "201");
    first.send(&request(&dave, "POST", "/v1/transfers", &whole)[60_000..]);
    assert_eq!(first.read_answer().unwrap().summary(), "201", "the first one is read on");
    assert_eq!(server.ask(&dave, "POST", "/v1/transfers", &whole).summary(), "200", "and its bytes are given back");
}

#[test]
fn a_viewers_body_is_no_larger_than_what_it_may_ask_at_once() {
    let quota = QuotaLimits { requests: Rate { per_s: 100, burst: 20 }, ..QuotaLimits::NONE };
    let server = TestServer::with_quota(quota);
    let dave = server.log_in("dave");
    let large = format!(r#"{{"id":"a"}}{}"#, " ".repeat(200_000));
    assert_eq!(server.ask(&dave, "POST", "/v1/transfers", &large).summary(), "413 body_too_large");
    assert_eq!(server.ask(SERVICE, "POST", "/v1/transfers", &large).summary(), "422 field_invalid", "it has no bound");
}
