//! Web pages of other origins, as browsers ask for them.

use std::time::Duration;

use super::server::{Answer, SERVICE, TestServer, request};
use crate::http::{Cors, CorsOrigins};

const APP: &str = "https://app.example";

fn listed() -> Cors {
    let origins = CorsOrigins::Listed(vec![APP.into(), "http://localhost:3000".into()]);
    Cors { origins, max_age: Duration::from_secs(77) }
}

/// Asks with more header lines.
fn ask(server: &TestServer, token: &str, method: &str, path: &str, body: &str, lines: &str) -> Answer {
    let mut client = server.connect();
    client.send(&request(token, method, path, body).replacen("\r\n", &format!("\r\n{lines}"), 1));
    client.read_answer().expect("an answer")
}

fn origin(origin: &str) -> String {
    format!("origin: {origin}\r\n")
}

fn preflight(server: &TestServer, from: &str) -> Answer {
    let lines = format!("{}access-control-request-method: POST\r\n", origin(from));
    ask(server, "", "OPTIONS", "/v1/transfers", "", &lines)
}

fn vote(id: &str) -> String {
    format!(r#"{{"id":"{id}","debit":"wallet:dave","credit":"candidate:3","amount":1}}"#)
}

#[test]
fn a_listed_page_may_ask_and_read_and_another_may_not() {
    let server = TestServer::start_shared(listed());
    let allowed = preflight(&server, APP);
    assert_eq!(allowed.status, 204);
    for line in [
        "access-control-allow-origin: https://app.example\r\n",
        "access-control-allow-methods: get, head, post, put, patch, delete\r\n",
        "access-control-allow-headers: authorization, content-type, accept, last-event-id\r\n",
        "access-control-max-age: 77\r\n",
        "vary: origin\r\n",
    ] {
        assert!(allowed.head.contains(line), "{line}: {allowed:?}");
    }
    for other in ["https://app.example.evil", "http://app.example", "null", "https://app.example:8443"] {
        let refused = preflight(&server, other);
        assert!(!refused.head.contains("access-control-") && refused.head.contains("vary: origin"), "{refused:?}");
    }
    // By the short way, by hyper, and of an error.
    for (method, path, body, status) in [
        ("POST", "/v1/transfers", &*vote("cors-1"), 201),
        ("GET", "/v1/accounts/wallet:dave", "", 200),
        ("GET", "/v1/nothing", "", 404),
    ] {
        let answer = ask(&server, SERVICE, method, path, body, &origin(APP));
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.head.contains("access-control-allow-origin: https://app.example\r\n"), "{answer:?}");
        assert!(answer.head.contains("access-control-expose-headers: location, retry-after"), "{answer:?}");
        for lines in [origin("https://other.example"), String::new(), [origin(APP), origin(APP)].concat()] {
            let other = ask(&server, SERVICE, method, path, body, &lines);
            assert!(!other.head.contains("access-control-"), "{lines}: {other:?}");
            assert!(other.head.contains("vary: origin\r\n"), "no cache may mix them up: {other:?}");
        }
    }
    let unknown = ask(&server, "wrong", "GET", "/v1/accounts/wallet:dave", "", &origin(APP));
    assert_eq!(unknown.status, 401);
    assert!(unknown.head.contains("access-control-allow-origin: https://app.example\r\n"), "{unknown:?}");
    assert!(!unknown.head.contains("allow-credentials"), "{unknown:?}");
}

#[test]
fn all_pages_may_if_that_is_said_and_none_if_nothing_is() {
    let server = TestServer::start_shared(Cors { origins: CorsOrigins::Any, ..listed() });
    assert!(preflight(&server, "null").head.contains("access-control-allow-origin: *\r\n"));
    let answer = ask(&server, SERVICE, "POST", "/v1/transfers", &vote("cors-2"), &origin(APP));
    assert!(answer.head.contains("access-control-allow-origin: *\r\n"), "{answer:?}");
    assert!(!answer.head.contains("vary") && !answer.head.contains("allow-credentials"), "{answer:?}");
    let closed = TestServer::start_shared(Cors::default());
    let answer = preflight(&closed, APP);
    assert!(answer.status == 405 && !answer.head.contains("access-control-"), "{answer:?}");
    let answer = ask(&closed, SERVICE, "POST", "/v1/transfers", &vote("cors-3"), &origin(APP));
    assert!(!answer.head.contains("access-control-") && !answer.head.contains("vary"), "{answer:?}");
}
