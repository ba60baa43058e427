//! Malformed and hostile requests: each gets one clear answer, in bounded memory and time.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::history_lines::until;
use super::server::{SERVICE, TestServer, request};
use crate::http::HttpLimits;

const GOOD: &str = r#"{"id":"v","debit":"wallet:dave","credit":"candidate:3","amount":1}"#;

fn short() -> HttpLimits {
    HttpLimits {
        head_timeout: Duration::from_millis(200),
        body_timeout: Duration::from_millis(200),
        handshake_timeout: Duration::from_millis(200),
        ..HttpLimits::default()
    }
}

#[test]
fn bodies_that_are_not_what_they_must_be_are_explained() {
    let server = TestServer::open();
    let mut client = server.connect();
    for (body, summary, detail) in [
        ("", "400 json_invalid", "the body is empty"),
        ("{", "400 json_invalid", "line 1 column 1"),
        ("\u{feff}{}", "400 json_invalid", "not JSON"),
        ("{\"id\":\n  nope}", "400 json_invalid", "line 2 column"),
        ("[]", "422 field_invalid", "expected a JSON object"),
        ("null", "422 field_invalid", "expected a JSON object"),
        ("{}", "422 field_invalid", "missing field `id`"),
        (r#"{"id":"a","debit":"b","credit":"c"}"#, "422 field_invalid", "missing field `amount`"),
        (r#"{"id":"a","acount":1}"#, "422 field_invalid", "unknown field `acount`"),
        (r#"{"id":"a","id":"b"}"#, "422 field_invalid", "duplicate field `id`"),
        (r#"{"id":5}"#, "422 field_invalid", "id: invalid type: integer `5`, expected a string"),
        (r#"{"amount":1.5}"#, "422 field_invalid", "amount: 1.5 is no whole number"),
        (r#"{"amount":0.99999999999999999999}"#, "422 field_invalid", "amount: 0.99999999999999999999 is no whole"),
        (r#"{"amount":1e300}"#, "422 field_invalid", "amount: 1e300 is no whole number"),
        (r#"{"amount":-1.0}"#, "422 field_invalid", "amount: -1.0 is no whole number"),
        (r#"{"amount":"1"}"#, "422 field_invalid", "amount: \"1\" is no whole number"),
        (r#"{"amount":-1}"#, "422 field_invalid", "amount: -1 is no whole number"),
        (r#"{"amount":99999999999999999999}"#, "422 field_invalid", "amount: 99999999999999999999 is no whole number"),
        (r#"{"amount":null}"#, "422 field_invalid", "amount: null is no whole number"),
        (r#"{"memo":null}"#, "422 field_invalid", "memo: invalid type: null"),
        (r#"{"linked":true}"#, "422 field_invalid", "`linked` goes with `transfers`"),
        (r#"{"transfers":[["a","b","c",1]]}"#, "422 field_invalid", "transfers[0]: invalid type: sequence"),
        (
            r#"{"transfers":[{"id":"a","debit":"b","credit":"c","amount":0.5}]}"#,
            "422 field_invalid",
            "transfers[0].amount: 0.5 is no whole number",
        ),
        (r#"{"transfers":[{"id":"a"}]}"#, "422 field_invalid", "transfers[0].debit: missing field `debit`"),
    ] {
        let answer = client.ask(SERVICE, "POST", "/v1/transfers", body);
        assert_eq!(answer.summary(), summary, "{body}");
        let said = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(said.contains(detail), "{body}: {said}");
    }
    let deep = "[".repeat(100_000);
    let answer = client.ask(SERVICE, "POST", "/v1/transfers", &format!(r#"{{"transfers":{deep}"#));
    assert!([400, 422].contains(&answer.status), "{answer:?}");
    assert_eq!(client.ask(SERVICE, "POST", "/v1/transfers", GOOD).summary(), "201", "the connection serves on");
}

#[test]
fn a_word_that_is_none_is_named_with_what_is_allowed_in_its_place() {
    let server = TestServer::open();
    let mut client = server.connect();
    let statuses = r#"expected one of "open", "debits_frozen", "frozen", "closed""#;
    let kinds = r#"expected one of "wallet", "source", "collector""#;
    for value in ["null", "1", "true", "[]", "{}", r#""walet""#, r#""""#] {
        for (method, path, body, field, allowed) in [
            ("PATCH", "/v1/accounts/wallet:dave", format!(r#"{{"status":{value}}}"#), "status", statuses),
            ("POST", "/v1/accounts", format!(r#"{{"id":"a","asset":"x","kind":{value}}}"#), "kind", kinds),
            (
                "POST",
                "/v1/accounts",
                format!(r#"{{"accounts":[{{"id":"a","asset":"x","kind":{value}}}]}}"#),
                "accounts[0].kind",
                kinds,
            ),
        ] {
            let answer = client.ask(SERVICE, method, path, &body);
            assert_eq!(answer.summary(), "422 field_invalid", "{body}");
            let problem = answer.json();
            assert_eq!(problem["field"], field, "{body}: {problem}");
            assert!(problem["detail"].as_str().is_some_and(|said| said.contains(allowed)), "{body}: {problem}");
        }
    }
}

#[test]
fn a_missing_field_is_named_the_same_way_everywhere() {
    let server = TestServer::open();
    let mut client = server.connect();
    let all: &[(&str, &str, &[&str])] = &[
        ("/v1/login", "", &["user", "password"]),
        ("/v1/accounts", "", &["id", "asset", "kind"]),
        ("/v1/accounts", "accounts", &["id", "asset", "kind"]),
        ("/v1/transfers", "", &["id", "debit", "credit", "amount"]),
        ("/v1/transfers", "transfers", &["id", "debit", "credit", "amount"]),
        ("/v1/holds", "", &["id", "debit", "credit", "amount", "expires_in_ms"]),
        ("/v1/holds", "holds", &["id", "debit", "credit", "amount", "expires_in_ms"]),
        ("/v1/holds/post", "posts", &["id"]),
        ("/v1/assets", "", &["name", "decimals"]),
        ("/v1/drain", "", &["rate"]),
    ];
    for (path, list, fields) in all {
        for missing in *fields {
            let value = |field: &str| match field {
                "amount" | "expires_in_ms" | "decimals" | "rate" => "1".to_owned(),
                "kind" => "\"wallet\"".to_owned(),
                field => format!("\"{field}\""),
            };
            let there = fields.iter().filter(|field| field != &missing);
            let members: Vec<String> = there.map(|field| format!("\"{field}\":{}", value(field))).collect();
            let one = format!("{{{}}}", members.join(","));
            let (body, field) = match list.is_empty() {
                true => (one, (*missing).to_owned()),
                false => (format!("{{\"{list}\":[{one}]}}"), format!("{list}[0].{missing}")),
            };
            let answer = client.ask(SERVICE, "POST", path, &body);
            assert_eq!(answer.summary(), "422 field_invalid", "{path} {body}");
            let problem = answer.json();
            let prefix = if list.is_empty() { String::new() } else { format!("{field}: ") };
            let said = (problem["field"].as_str(), problem["detail"].as_str(), problem.get("line"));
            let detail = format!("{prefix}missing field `{missing}`");
            assert_eq!(said, (Some(&*field), Some(&*detail), None), "{path} {body}");
        }
    }
}

#[test]
fn a_wrong_parameter_is_named_in_the_same_way() {
    let server = TestServer::open();
    let mut client = server.connect();
    for (target, field, detail) in [
        ("/v1/accounts?limt=5", "limt", "unknown field `limt`"),
        ("/v1/accounts?limit=many", "limit", "limit: expected 1 to 1000"),
        ("/v1/accounts?limit=", "limit", "limit: expected 1 to 1000"),
        ("/v1/accounts?limit=-1", "limit", "limit: expected 1 to 1000"),
        ("/v1/accounts?limit=99999999999999999999999", "limit", "limit: expected 1 to 1000"),
        ("/v1/changes?limit=x", "limit", "limit: expected 1 to 1000"),
        ("/v1/accounts?limit=0", "limit", "limit = 0: expected 1 to 1000"),
        ("/v1/accounts/wallet:dave?at=yesterday", "at", "at = \"yesterday\": expected a time"),
        ("/v1/accounts/wallet:dave/transfers?from_time=x", "from_time", "from_time = \"x\": expected a time"),
        ("/v1/accounts/wallet:dave/holds?limit=1001", "limit", "limit = 1001: expected 1 to 1000"),
        ("/v1/transfers/t?id-space=dave", "id-space", "unknown field `id-space`"),
        ("/v1/holds/h?id_space=a%00b", "id_space", "id_space: expected the name of a user"),
        ("/v1/changes?follow=perhaps", "follow", "follow: "),
    ] {
        let answer = client.ask(SERVICE, "GET", target, "");
        assert_eq!(answer.summary(), "422 query_invalid", "{target}");
        let problem = answer.json();
        assert_eq!(problem["field"], field, "{target}: {problem}");
        assert!(problem["detail"].as_str().is_some_and(|said| said.contains(detail)), "{target}: {problem}");
    }
}

#[test]
fn escapes_and_other_scripts_are_texts_like_others() {
    let server = TestServer::open();
    let body = r#"{"id":"\u0076-\"1\" \ud83d\ude80","debit":"wallet:dave","credit":"candidate:3","amount":1}"#;
    let answer = server.ask(SERVICE, "POST", "/v1/transfers", body);
    assert_eq!((answer.status, answer.json()["id"].as_str().unwrap()), (201, "v-\"1\" 🚀"));
    let as_float = server.ask(SERVICE, "POST", "/v1/transfers", &body.replace(":1}", ":1.0}"));
    assert_eq!(as_float.summary(), "200", "the same content");
}

#[test]
fn a_request_names_its_host_once() {
    let server = TestServer::open();
    for (head, summary) in [
        ("GET /healthz HTTP/1.1\r\n\r\n", "400 host_invalid"),
        ("GET /healthz HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", "400 host_invalid"),
        ("GET /healthz HTTP/1.0\r\nhost: a\r\nhost: a\r\n\r\n", "400 host_invalid"),
        ("GET http://a/healthz HTTP/1.1\r\n\r\n", "400 host_invalid"),
        ("POST /v1/transfers HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}", "400 host_invalid"),
        ("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n", "200"),
        ("GET /healthz HTTP/1.1\r\nhost:\r\n\r\n", "200"),
        ("GET /healthz HTTP/1.0\r\n\r\n", "200"),
    ] {
        let mut client = server.connect();
        client.send(head);
        assert_eq!(client.read_answer().unwrap().summary(), summary, "{head:?}");
    }
}

#[test]
fn a_body_that_is_coded_is_refused_with_words() {
    let server = TestServer::open();
    let mut client = server.connect();
    for (coding, summary) in [
        ("gzip", "415 content_encoding_unsupported"),
        ("identity, br", "415 content_encoding_unsupported"),
        ("Identity", "201"),
        ("", "200"),
    ] {
        for path in ["/v1/login", "/v1/transfers"] {
            let body = if path == "/v1/login" { r#"{"user":"dave","password":"dave"}"# } else { GOOD };
            let summary = if path == "/v1/login" && !summary.starts_with("415") { "200" } else { summary };
            let length = body.len();
            client.send(&format!(
                "POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {SERVICE}\r\n\
                 content-encoding: {coding}\r\ncontent-length: {length}\r\n\r\n{body}"
            ));
            let answer = client.read_answer().unwrap();
            assert_eq!(answer.summary(), summary, "{path} {coding:?}");
            assert!(answer.status < 400 || answer.body.contains("without the header `Content-Encoding`"), "{answer:?}");
        }
    }
}

#[test]
fn a_log_in_is_small() {
    let server = TestServer::open();
    let most = HttpLimits::default().login_body_bytes_max;
    let body = |bytes: usize| format!(r#"{{"user":"dave","password":"{:0>1$}"}}"#, "", bytes - 29);
    assert_eq!(body(most).len(), most);
    assert_eq!(server.ask("", "POST", "/v1/login", &body(most)).summary(), "401 login_wrong");
    let answer = server.ask("", "POST", "/v1/login", &body(most + 1));
    assert_eq!(answer.summary(), "413 body_too_large");
    assert!(answer.json()["detail"].as_str().unwrap().contains(&format!("{most} bytes")), "{answer:?}");
    // What is announced is not waited for, nor kept.
    let mut client = server.connect();
    client.send(
        "POST /v1/login HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 2000000\r\n\r\n{",
    );
    client.send(&" ".repeat(8 * most));
    assert_eq!(client.read_answer().unwrap().summary(), "413 body_too_large");
}

#[test]
fn a_body_that_is_announced_too_large_is_refused_before_any_of_it_has_come() {
    let server = TestServer::open();
    for (path, token) in
        [("/v1/login", ""), ("/v1/transfers", SERVICE), ("/v1/accounts", SERVICE), ("/v1/drain", SERVICE)]
    {
        let mut client = server.connect();
        let authorization = if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\n{authorization}content-length: 1000000000000\r\n\r\n");
        let began = Instant::now();
        client.send(&head);
        let answer = client.read_answer().unwrap();
        assert_eq!(answer.summary(), "413 body_too_large", "{path}");
        assert!(answer.json()["detail"].as_str().unwrap().contains("1000000000000 bytes"), "{answer:?}");
        assert!(client.is_closed(), "{path}: what else would come is the body");
        assert!(began.elapsed() < Duration::from_secs(5), "not when the body is late");
    }
}

#[test]
fn content_types_and_sizes_are_held_to() {
    let server = TestServer::with(HttpLimits { body_bytes_max: 10_000, ..HttpLimits::default() });
    let form = request(SERVICE, "POST", "/v1/transfers", GOOD).replace("application/json", "text/plain");
    let mut client = server.connect();
    client.send(&form);
    assert_eq!(client.read_answer().unwrap().summary(), "415 content_type_unsupported");
    let with_charset = request(SERVICE, "POST", "/v1/transfers", GOOD).replace("/json", "/json; charset=utf-8");
    let mut client = server.connect();
    client.send(&with_charset);
    assert_eq!(client.read_answer().unwrap().summary(), "201");

    let large = format!("{GOOD}{}", " ".repeat(20_000));
    assert_eq!(server.ask(SERVICE, "POST", "/v1/transfers", &large).summary(), "413 body_too_large");
    let mut client = server.connect();
    client.send(&format!(
        "POST /v1/transfers HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {SERVICE}\r\n\
         transfer-encoding: chunked\r\n\r\n"
    ));
    for _ in 0..20 {
        client.send(&format!("400\r\n{}\r\n", " ".repeat(0x400)));
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.read_answer().unwrap().summary(), "413 body_too_large");
    assert!(client.is_closed());
    let mut client = server.connect();
    client.send(&format!(
        "POST /v1/transfers HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {SERVICE}\r\n\
         transfer-encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n"
    ));
    let answer = client.read_answer().unwrap();
    assert_eq!(answer.summary(), "400 body_broken");
    for accepted in ["its size in hexadecimal", "chunk of size 0", "`Content-Length`"] {
        assert!(answer.json()["detail"].as_str().unwrap().contains(accepted), "{accepted}: {answer:?}");
    }

    for codings in ["gzip, chunked", "chunked, chunked", "chunked\r\nTransfer-Encoding: chunked"] {
        for path in ["/v1/transfers", "/v1/holds"] {
            let mut client = server.connect();
            client.send(&format!(
                "POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {SERVICE}\r\n\
                 transfer-encoding: {codings}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
            ));
            let answer = client.read_answer().unwrap();
            assert_eq!(answer.summary(), "400 body_broken", "{codings}");
            assert!(client.is_closed(), "{codings}");
        }
    }

    let mut client = server.connect();
    client.send(&format!("GET /healthz HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "y".repeat(40_000)));
    // The rest of such a head is not read, so the system may reset the connection before the answer is through.
    assert!(client.read_answer().is_none_or(|answer| answer.status == 431));
    assert!(client.is_closed());
    let mut client = server.connect();
    let many: String = (0..100).map(|number| format!("x-{number}: y\r\n")).collect();
    client.send(&format!("GET /healthz HTTP/1.1\r\nhost: a\r\n{many}\r\n"));
    assert_eq!(client.read_answer().unwrap().status, 431);
}

#[test]
fn a_body_in_pieces_is_one_body() {
    let server = TestServer::open();
    let bytes = request(SERVICE, "POST", "/v1/transfers", GOOD);
    let mut client = server.connect();
    for piece in bytes.as_bytes().chunks(7) {
        client.stream.write_all(piece).unwrap();
        client.stream.flush().unwrap();
        std::thread::yield_now();
    }
    assert_eq!(client.read_answer().unwrap().summary(), "201");
    let mut client = server.connect();
    client.send(&request(SERVICE, "POST", "/v1/transfers", GOOD).repeat(10));
    for _ in 0..10 {
        assert_eq!(client.read_answer().unwrap().summary(), "200", "pipelined");
    }
}

#[test]
fn slow_heads_and_bodies_end_their_connection() {
    let server = TestServer::with(short());
    let mut idle = server.connect();
    let mut slow_head = server.connect();
    slow_head.send("GET /healthz HTTP/1.1\r\nhos");
    let mut kept_alive = server.connect();
    assert_eq!(kept_alive.ask("", "GET", "/healthz", "").status, 200);
    let mut slow_body = server.connect();
    let bytes = request(SERVICE, "POST", "/v1/transfers", GOOD);
    slow_body.send(&bytes[..bytes.len() - 5]);
    assert_eq!(slow_body.read_answer().unwrap().summary(), "408 body_timeout");
    assert!(slow_body.is_closed());
    assert!(idle.is_closed());
    assert!(slow_head.is_closed());
    assert!(kept_alive.is_closed());
}

#[test]
fn one_connection_too_many_is_told_so_and_the_others_go_on() {
    let server = TestServer::with(HttpLimits { connections_max: 3, ..HttpLimits::default() });
    let mut inside: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut inside {
        assert_eq!(client.ask(SERVICE, "GET", "/healthz", "").status, 200);
    }
    let mut outside = server.connect();
    assert_eq!(outside.read_answer().unwrap().summary(), "503 busy");
    assert!(outside.is_closed());
    assert_eq!(server.metrics.connections_refused.get(), 1);
    for client in &mut inside {
        assert_eq!(client.ask("", "GET", "/healthz", "").status, 200, "it has shown a token");
    }
}

#[test]
fn who_shows_no_token_gives_way_to_whoever_comes_and_is_told_so() {
    const PLACES: usize = 16;
    let server = TestServer::with(HttpLimits { connections_max: PLACES, ..HttpLimits::default() });
    let mut known = server.connect_from([127, 0, 0, 9]);
    assert_eq!(known.ask(SERVICE, "GET", "/healthz", "").status, 200);
    let mut silent: Vec<_> = (1..PLACES).map(|n| server.connect_from([127, 0, 0, 1 + (n % 2) as u8])).collect();
    silent.iter_mut().step_by(3).for_each(|client| client.send("GET / HT"));
    until("all are in", || server.metrics.connections_open.get() == PLACES as i64);
    let mut newcomers = Vec::new();
    for n in 0..40 {
        let mut newcomer = server.connect_from([127, 0, 1, n]);
        assert_eq!(newcomer.ask("", "GET", "/healthz", "").status, 200, "newcomer {n}");
        newcomers.push(newcomer);
    }
    for (n, client) in silent.iter_mut().enumerate() {
        let last = client.read_answer().unwrap_or_else(|| panic!("{n} is told why it ends"));
        assert_eq!(last.summary(), "503 busy");
        assert!(last.json()["detail"].as_str().unwrap().contains("shown no token"), "{last:?}");
        assert!(client.is_closed());
    }
    assert_eq!(known.ask("", "GET", "/healthz", "").status, 200, "it has shown a token");
    assert_eq!((server.metrics.connections_gave_way.get(), server.metrics.connections_refused.get()), (40, 0));
}

#[test]
fn a_connection_within_its_handshake_gives_way_as_well() {
    let limits = HttpLimits { connections_max: 4, ..HttpLimits::default() };
    let server = TestServer::build(limits, Some(self_signed().1));
    let mut silent: Vec<_> = (1..=4).map(|n| server.connect_from([127, 0, 0, n])).collect();
    until("all are in", || server.metrics.connections_open.get() == 4);
    let _next = server.connect_from([127, 0, 0, 5]);
    assert!(silent[0].is_closed(), "the first that came");
    assert_eq!(server.metrics.connections_gave_way.get(), 1);
}

#[test]
fn one_address_leaves_connections_to_others() {
    let server = TestServer::with(HttpLimits { connections_max: 4, ..HttpLimits::default() });
    let mut inside: Vec<_> = (0..3).map(|_| server.connect()).collect();
    inside.iter_mut().for_each(|client| assert_eq!(client.ask(SERVICE, "GET", "/healthz", "").status, 200));
    let mut fourth = server.connect();
    let answer = fourth.read_answer().unwrap();
    assert_eq!(answer.summary(), "503 busy");
    assert!(answer.body.contains("your address"), "{answer:?}");
    let mut other = server.connect_from([127, 0, 0, 2]);
    assert_eq!(other.ask("", "GET", "/healthz", "").status, 200);
}

#[test]
fn who_sends_requests_and_reads_no_answers_is_let_go() {
    let patience = Duration::from_millis(300);
    let server = TestServer::with(HttpLimits { reader_timeout: patience, ..HttpLimits::default() });
    let mut client = server.connect();
    client.stream.set_write_timeout(Some(patience)).unwrap();
    let requests = request(SERVICE, "GET", "/openapi.json", "").repeat(100);
    // Until the answers fill the sockets, and the server reads no more.
    while client.stream.write(requests.as_bytes()).is_ok() {}
    let began = Instant::now();
    while server.metrics.connections_open.get() > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "the connection is held for ever");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_is_wrong_is_said_in_short() {
    let server = TestServer::open();
    let field = "x".repeat(1 << 20);
    let answer = server.ask(SERVICE, "POST", "/v1/transfers", &format!(r#"{{"{field}":1}}"#));
    assert_eq!(answer.summary(), "422 field_invalid");
    assert!(answer.body.len() < 4_096, "{} bytes", answer.body.len());
}

#[test]
fn who_sends_no_more_is_answered_what_was_asked() {
    let server = TestServer::open();
    for n in 0..10 {
        let transfer = format!(r#"{{"id":"half-{n}","debit":"wallet:dave","credit":"candidate:1","amount":1}}"#);
        let mut client = server.connect();
        client.send(&request(SERVICE, "POST", "/v1/transfers", &transfer));
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.read_answer().expect("an answer").summary(), "201", "transfer {n}");
        assert!(client.is_closed());
    }
    // Also if the answer takes its time, as one to a wrong token does.
    let mut unknown = server.connect();
    unknown.send(&request("wrong", "GET", "/v1/accounts", ""));
    unknown.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(unknown.read_answer().expect("an answer").summary(), "401 token_invalid");
    let mut pipelined = server.connect();
    pipelined.send(&request("", "GET", "/healthz", "").repeat(3));
    pipelined.stream.shutdown(std::net::Shutdown::Write).unwrap();
    (0..3).for_each(|_| assert_eq!(pipelined.read_answer().expect("each has its answer").status, 200));
    assert!(pipelined.is_closed());
}

#[test]
fn bytes_that_are_not_http_end_the_connection() {
    let server = TestServer::open();
    for bytes in [
        "\0\0\0\0",
        "GET\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}hello over TLS\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
    ] {
        let mut client = server.connect();
        client.send(bytes);
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        if let Some(answer) = client.read_answer() {
            assert_eq!(answer.status, 400, "{answer:?}");
        }
        assert!(client.is_closed());
    }
    // hyper refuses a head with two lengths while it parses it, before it calls the service, and its answer has no
    // body: to say more, the bytes of each head would have to be read here before hyper reads them.
    let mut smuggler = server.connect();
    smuggler.send(&format!(
        "POST /v1/transfers HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {SERVICE}\r\ncontent-length: 5\r\n\
         content-length: 6\r\n\r\n{{}}   "
    ));
    assert_eq!(smuggler.read_answer().unwrap().status, 400);
    assert!(smuggler.is_closed());
    assert_eq!(server.backend.asked(), 0);
}

#[test]
fn stopping_answers_what_was_asked_and_closes() {
    let server = TestServer::open();
    let mut idle = server.connect();
    assert_eq!(idle.ask("", "GET", "/healthz", "").status, 200);
    let mut half = server.connect();
    let bytes = request(SERVICE, "POST", "/v1/transfers", GOOD);
    let (first, rest) = bytes.split_at(bytes.len() - 5);
    half.send(first);
    while server.metrics.connections_open.get() < 2 {
        std::thread::yield_now();
    }
    // The half request must have been read before the stop, or it would be a new one: ask on another connection behind
    // it.
    assert_eq!(server.ask("", "GET", "/healthz", "").status, 200);
    server.begin_stop();
    assert!(idle.is_closed(), "an idle connection is closed at once");
    half.send(rest);
    assert_eq!(half.read_answer().unwrap().summary(), "201", "one under way is finished");
    assert!(half.is_closed());
    server.stop();
}

/// A certificate for `localhost`, and a server's settings with it.
fn self_signed() -> (rustls::pki_types::CertificateDer<'static>, Arc<rustls::ServerConfig>) {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
    let certificate = signed.cert.der().clone();
    let server = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .unwrap();
    (certificate, Arc::new(server))
}

#[test]
fn tls_is_served_and_those_who_do_not_speak_it_are_let_go() {
    let (certificate, tls) = self_signed();
    let server = TestServer::build(short(), Some(tls));
    let mut plain = server.connect();
    plain.send("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(plain.is_closed());
    let mut silent = server.connect();
    assert!(silent.is_closed());
    while server.metrics.handshakes_failed.get() < 2 {
        std::thread::yield_now();
    }

    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let mut session = rustls::ClientConnection::new(Arc::new(client), "localhost".try_into().unwrap()).unwrap();
    let mut socket = server.connect();
    let mut stream = rustls::Stream::new(&mut session, &mut socket.stream);
    let vote = request(SERVICE, "POST", "/v1/transfers", GOOD);
    let last = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    stream.write_all(format!("{vote}{vote}{last}").as_bytes()).unwrap();
    let mut answers = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut answers);
    let answers = String::from_utf8(answers).unwrap();
    let all: Vec<&str> = answers.split_inclusive('}').collect();
    let [first, again, answer] = all[..] else { panic!("{answers}") };
    assert!(first.starts_with("HTTP/1.1 201") && again.starts_with("HTTP/1.1 200"), "{answers}");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#"{"status":"ok"}"#), "{answer}");
}
