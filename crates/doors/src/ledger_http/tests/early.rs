//! Requests that are answered before their body has come: the answer says whether another one follows.

use super::server::{Client, SERVICE, TestServer, request};
use crate::http::HttpLimits;

/// Heads of requests whose answer needs no body, with the answer.
fn early(bytes: &str) -> Vec<(String, &'static str)> {
    let head = |method: &str, path: &str, token: &str| {
        format!("{method} {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n{bytes}\r\n")
    };
    vec![
        (head("POST", "/v1/nothing", SERVICE), "404 path_unknown"),
        (head("DELETE", "/v1/transfers", SERVICE), "405 method_not_allowed"),
        (head("POST", "/v1/transfers", "no-such-token"), "401 token_invalid"),
        (
            head("POST", "/v1/transfers", SERVICE).replace("\r\n\r\n", "\r\ncontent-encoding: gzip\r\n\r\n"),
            "415 content_encoding_unsupported",
        ),
    ]
}

fn next(client: &mut Client) -> Option<u16> {
    client.send(&request("", "GET", "/healthz", ""));
    client.read_answer().map(|answer| answer.status)
}

#[test]
fn an_answer_says_that_it_is_the_last_if_the_body_does_not_come() {
    let server = TestServer::open();
    let unsaid = ["content-length: 10\r\n", "content-length: 200000\r\n", "transfer-encoding: chunked\r\n"];
    for head in unsaid.into_iter().chain(["content-length: 10\r\nexpect: 100-continue\r\n"]) {
        for (bytes, expected) in early(head) {
            let mut client = server.connect();
            client.send(&bytes);
            let answer = client.read_answer().expect("an answer");
            assert_eq!(answer.summary(), expected, "{bytes}");
            assert!(answer.head.contains("\r\nconnection: close\r\n"), "{bytes}{answer:?}");
            assert!(client.is_closed());
        }
    }
}

#[test]
fn behind_a_short_body_that_comes_the_next_request_is_answered() {
    let server = TestServer::open();
    let bodies =
        [("content-length: 10\r\n", "0123456789"), ("transfer-encoding: chunked\r\n", "5\r\n01234\r\n0\r\n\r\n")];
    for (head, body) in bodies {
        for (bytes, expected) in early(head) {
            let mut client = server.connect();
            client.send(&format!("{bytes}{body}"));
            let answer = client.read_answer().expect("an answer");
            assert_eq!(
                (answer.summary().as_str(), answer.head.contains("connection: close")),
                (expected, false),
                "{bytes}"
            );
            assert_eq!(next(&mut client), Some(200), "{bytes}");
        }
    }
}

#[test]
fn a_body_in_parts_has_an_answer_behind_which_the_next_is_read_or_which_says_so() {
    let server = TestServer::open();
    for (bytes, expected) in early("content-length: 30000\r\n") {
        let mut client = server.connect();
        client.send(&bytes);
        (0..30).for_each(|_| client.send(&"x".repeat(1_000)));
        let answer = client.read_answer().expect("an answer");
        assert_eq!(answer.summary(), expected, "{bytes}");
        // Only a server that is very late does not have all of it.
        assert_eq!(next(&mut client).is_none(), answer.head.contains("connection: close"), "{bytes}");
    }
}

#[test]
fn who_sends_much_more_than_may_be_sees_why() {
    let server = TestServer::with(HttpLimits { body_bytes_max: 10_000, ..HttpLimits::default() });
    let mut client = server.connect();
    let length = 80_000;
    client.send(&format!(
        "POST /v1/transfers HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {SERVICE}\r\ncontent-length: {length}\r\n\r\n"
    ));
    (0..8).for_each(|_| client.send(&" ".repeat(length / 8)));
    assert_eq!(client.read_answer().expect("an answer").summary(), "413 body_too_large");
    assert!(client.is_closed());
}
