//! Receivers that wait: they get what is sent meanwhile; who goes away gets nothing; and none keeps a server from
//! ending.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::binary::Binary;
use crate::broken_disk::compiled;
use crate::reload::reload;
use crate::support::within;
use crate::{PATIENCE, SERVICE};

/// As long as a receiver may wait.
pub(super) const WAIT_MS: u64 = 20_000;

/// Sends a request to receive over a connection of its own, and does not read its answer.
fn go_waiting(server: &Server, queue: &str, wait_ms: u64) -> TcpStream {
    go_waiting_as(SERVICE, server, queue, wait_ms)
}

fn go_waiting_as(token: &str, server: &Server, queue: &str, wait_ms: u64) -> TcpStream {
    let mut stream = TcpStream::connect(server.http).expect("the door is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
    let body = json!({"wait_ms": wait_ms, "lease_ms": LONG_MS, "consumer": "gone"}).to_string();
    let request = format!(
        "POST /v1/queues/{queue}/receive HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("the server reads");
    stream
}

/// Waits until so many receivers wait; not as long as one may wait, for then it would end by itself.
pub(super) fn until_they_wait(http: &mut Http<TcpStream>, count: u64) {
    let name = "tidegate_queue_receivers_waiting";
    let they_wait = within(Duration::from_millis(WAIT_MS / 2), || (metric(http, name) == count).then_some(()));
    assert!(they_wait.is_some(), "{} receivers wait, and not {count}", metric(http, name));
}

#[test]
fn who_waits_and_may_no_longer_gets_nothing_and_it_counts_for_nothing() {
    let folder = folder();
    let may = |grant: &str| {
        let service =
            format!("[[service]]\nname = \"worker\"\ntoken = \"a-token-of-worker\"\ngrants = [\"{grant}:orders\"]\n");
        Settings { sections: service, ..settings(folder.path(), "") }
    };
    let receives = may("receive");
    let server = Server::start(&receives);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    let mut waits = go_waiting_as("a-token-of-worker", &server, "orders", WAIT_MS);
    until_they_wait(&mut http, 1);
    let mut waits_too = Binary::with(&server, "a-token-of-worker");
    waits_too.go_waiting("orders", WAIT_MS);
    until_they_wait(&mut http, 2);
    may("send").write();
    reload(&server, 1, "reloaded users, services, rules and certificates");
    for body in ["a", "b"] {
        send_one(&mut http, "orders", &json!({"body": body}));
    }
    let mut answer = [0; 12];
    waits.read_exact(&mut answer).expect("it is answered");
    assert_eq!(&answer, b"HTTP/1.1 403");
    assert_eq!(waits_too.refused(), "forbidden");
    let got = [0, 1].map(|_| receive(&mut http, "orders", 1, WAIT_MS).remove(0));
    let mut all = bodies(&got);
    all.sort();
    assert_eq!(all, ["a", "b"]);
    let attempts: u64 = got.iter().filter_map(|message| message["attempts"].as_u64()).sum();
    assert_eq!(attempts, 4, "each of the two got one and gave it back");
    let trails = got.each_ref().map(|message| look(&mut http, &text(&message["key"])).to_string());
    assert!(trails.iter().any(|trail| trail.contains("the receiver went away")), "a trail says it: {trails:?}");
    end(server, &receives);
}

#[test]
fn who_waits_when_the_journal_fails_is_told_and_so_is_who_comes_later() {
    let folder = folder();
    let switch = folder.path().join("broken");
    let mut settings = settings(folder.path(), "");
    let library = compiled(folder.path(), "queues/unsynced.c");
    for (name, value) in [("LD_PRELOAD", &library), ("TIDEGATE_TEST_UNSYNCED", &switch)] {
        settings.environment.push((name.into(), value.to_str().expect("the folder is ASCII").into()));
    }
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    let mut waits = go_waiting(&server, "orders", WAIT_MS);
    until_they_wait(&mut http, 1);
    fs::write(&switch, "").expect("the folder takes a file");
    let lost = json!({"messages": [{"body": "a"}]});
    assert_eq!(said(http.post("/v1/queues/orders/messages", &lost)), "503 shard_failed");
    let mut answer = [0; 12];
    waits.read_exact(&mut answer).expect("it is answered");
    assert_eq!(&answer, b"HTTP/1.1 503");
    for wait_ms in [0, WAIT_MS] {
        let ask = json!({"wait_ms": wait_ms});
        assert_eq!(said(http.post("/v1/queues/orders/receive", &ask)), "503 shard_failed", "{wait_ms}");
    }
    wait_for("health says so", || (said(http.get("/healthz")) == "503 shard_failed").then_some(()));
    server.terminate();
}

#[test]
fn who_waits_gets_what_is_sent_meanwhile() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    put(&mut http, "others", &json!({}));
    std::thread::scope(|scope| {
        let receiver = |queue: &'static str, max: usize| {
            let mut http = connect(&server);
            scope.spawn(move || bodies(&receive(&mut http, queue, max, WAIT_MS)))
        };
        let first = receiver("orders", 1);
        until_they_wait(&mut http, 1);
        let second = receiver("orders", 10);
        until_they_wait(&mut http, 2);
        let other = receiver("others", 10);
        until_they_wait(&mut http, 3);
        send(&mut http, "orders", &json!([{"body": "a"}, {"body": "b"}, {"body": "c"}]));
        assert_eq!(first.join().expect("it receives"), ["a"], "who came first is served first");
        assert_eq!(second.join().expect("it receives"), ["b", "c"]);
        // A message that was rejected, and one whose time has come, reach who waits, too.
        send(&mut http, "others", &json!([{"body": "d", "delay_ms": 30}]));
        assert_eq!(other.join().expect("it receives"), ["d"]);
        send_one(&mut http, "others", &json!({"body": "e"}));
        let got = receive(&mut http, "others", 1, 0);
        let again = receiver("others", 10);
        until_they_wait(&mut http, 1);
        assert_eq!(reject(&mut http, "others", &got), ["done"]);
        assert_eq!(again.join().expect("it receives"), ["e"]);
        // A queue that is deleted, and one that goes on after a pause.
        let of_deleted = receiver_of(&server, scope, "gone");
        assert_eq!(of_deleted.join().expect("it is answered"), "404 queue_not_found", "there is none yet");
        put(&mut http, "gone", &json!({}));
        let of_deleted = receiver_of(&server, scope, "gone");
        until_they_wait(&mut http, 1);
        ok(http.delete("/v1/queues/gone"));
        assert_eq!(of_deleted.join().expect("it is answered"), "404 queue_not_found");
        put(&mut http, "orders", &json!({"paused": true}));
        send_one(&mut http, "orders", &json!({"body": "f"}));
        let paused = receiver("orders", 1);
        until_they_wait(&mut http, 1);
        put(&mut http, "orders", &json!({}));
        assert_eq!(paused.join().expect("it receives"), ["f"]);
    });
    let since = Instant::now();
    assert_eq!(receive(&mut http, "orders", 1, 100).len(), 0);
    assert!(since.elapsed() >= Duration::from_millis(100), "it waits as long as it was told to");
    end(server, &settings);
}

/// What a receiver that waits is told.
fn receiver_of<'scope>(
    server: &Server,
    scope: &'scope std::thread::Scope<'scope, '_>,
    queue: &'static str,
) -> std::thread::ScopedJoinHandle<'scope, String> {
    let mut http = connect(server);
    let body = json!({"wait_ms": WAIT_MS});
    scope.spawn(move || said(http.post(&format!("/v1/queues/{queue}/receive"), &body)))
}

#[test]
fn who_goes_away_while_waiting_gets_nothing_and_the_next_one_gets_it_at_once() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    let gone = go_waiting(&server, "orders", WAIT_MS);
    until_they_wait(&mut http, 1);
    drop(gone);
    until_they_wait(&mut http, 0);
    send_one(&mut http, "orders", &json!({"body": "a"}));
    let got = receive(&mut http, "orders", 1, 0);
    assert_eq!((bodies(&got), &got[0]["attempts"]), (vec!["a".to_owned()], &json!(1)), "nobody else had it");
    acknowledge(&mut http, "orders", &got);

    // The server need not have noticed when the message is sent: a lease lasts for hours, and the next one gets it.
    for round in 0..50 {
        let gone = go_waiting(&server, "orders", WAIT_MS);
        until_they_wait(&mut http, 1);
        drop(gone);
        let body = round.to_string();
        let key = send_one(&mut http, "orders", &json!({"body": body}));
        let got = receive(&mut http, "orders", 1, WAIT_MS);
        assert_eq!(bodies(&got), [body], "a receiver that is not there has it: {}", look(&mut http, &key));
        assert_eq!(acknowledge(&mut http, "orders", &got), ["done"]);
        until_they_wait(&mut http, 0);
    }
    end(server, &settings);
}

#[test]
fn who_has_closed_its_side_is_answered_and_waits_no_longer() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    let answer = |mut stream: TcpStream| {
        stream.shutdown(Shutdown::Write).expect("the connection is open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it is answered");
        answer
    };
    let waiting = go_waiting(&server, "orders", WAIT_MS);
    until_they_wait(&mut http, 1);
    let since = Instant::now();
    let told = answer(waiting);
    assert!(told.starts_with("HTTP/1.1 200 ") && told.ends_with(r#"{"messages":[]}"#), "{told}");
    assert!(since.elapsed() < Duration::from_millis(WAIT_MS / 2), "{:?}", since.elapsed());
    // Who does not wait gets what there is: it has only sent all its requests.
    send_one(&mut http, "orders", &json!({"body": "a"}));
    let told = answer(go_waiting(&server, "orders", 0));
    assert!(told.starts_with("HTTP/1.1 200 ") && told.contains(r#""body":"a""#), "{told}");
    end(server, &settings);
}

#[test]
fn sigterm_does_not_wait_for_receivers() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..10)
            .map(|_| {
                let mut http = connect(&server);
                scope.spawn(move || http.post("/v1/queues/orders/receive", &json!({"wait_ms": WAIT_MS})))
            })
            .collect();
        until_they_wait(&mut http, 10);
        let since = Instant::now();
        end(server, &settings);
        assert!(since.elapsed() < Duration::from_millis(WAIT_MS / 2), "{:?}", since.elapsed());
        for receiver in waiting {
            let answer = receiver.join().expect("it ends").expect("it is answered before the end");
            assert_eq!((answer.status, &answer.body), (200, &json!({"messages": []})));
        }
    });
}

#[test]
fn no_more_receivers_wait_than_may_and_one_caller_leaves_places_for_others() {
    let folder = folder();
    let other = "\n[[service]]\nname = \"other\"\ntoken = \"a-token-of-another-service\"\ngrants = [\"*\"]\n";
    let settings = settings(folder.path(), &format!("receivers_max = 4\n{other}"));
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    let ask = |http: &mut Http<TcpStream>, wait_ms: u64| {
        http.post("/v1/queues/orders/receive", &json!({"wait_ms": wait_ms})).expect("it is answered")
    };
    let is_told = |answer: &crate::http::Answer, status: u16, code: &str| {
        let told = (answer.status, &answer.body["code"], answer.retry_after.as_deref());
        assert_eq!(told, (status, &json!(code), Some("1")), "{answer:?}");
        assert!(answer.body.to_string().contains("queues.receivers_max"), "{answer:?}");
    };
    let mut waiting: Vec<TcpStream> = (0..3).map(|_| go_waiting(&server, "orders", WAIT_MS)).collect();
    until_they_wait(&mut http, 3);
    is_told(&ask(&mut http, WAIT_MS), 429, "receivers_too_many");
    assert_eq!(ask(&mut http, 0).status, 200, "who does not wait needs no place");
    waiting.push(go_waiting_as("a-token-of-another-service", &server, "orders", WAIT_MS));
    until_they_wait(&mut http, 4);
    is_told(&ask(&mut http, WAIT_MS), 503, "receivers_full");
    let refused = |bound: &str| labelled(&mut connect(&server), "tidegate_queue_refused_total", bound);
    wait_for("both are counted", || (refused("receivers") == 1 && refused("receivers_of_caller") == 1).then_some(()));
    server.says("one caller has as many requests that wait for messages");
    server.says("as many requests wait for messages of a shard as may");
    drop(waiting);
    until_they_wait(&mut http, 0);
    assert_eq!(receive(&mut http, "orders", 1, 0).len(), 0);
    end(server, &settings);
}
