//! The wall clock of the host was ahead, and is set right: nothing of a queue comes early by it, and what a wrong clock
//! would hand out is named before.

use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};

use super::{WallClock, YEARS_10_S, jumps, mend_with};
use crate::http::Http;
use crate::services::ok;
use crate::{Server, Settings, folder, wait_for};

const YEAR_MS: u64 = 365 * 86_400_000;

fn http_of(server: &Server) -> Http<TcpStream> {
    Http::connect(server.http).expect("the door is open")
}

fn send(http: &mut Http<TcpStream>, messages: &Value) -> Vec<Value> {
    let answer = ok(http.post("/v1/queues/jobs/messages", &json!({ "messages": messages })));
    answer["messages"].as_array().expect("a list").clone()
}

fn bodies(http: &mut Http<TcpStream>, wait_ms: u64) -> Vec<String> {
    let body = json!({"max": 10, "wait_ms": wait_ms, "lease_ms": 600_000});
    let got = ok(http.post("/v1/queues/jobs/receive", &body));
    let messages = got["messages"].as_array().expect("a list");
    messages.iter().map(|message| message["body"].as_str().expect("a text").to_owned()).collect()
}

fn now_ms() -> u64 {
    super::SystemTime::now().duration_since(super::UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// Sends what has a time, and sees that it comes then by the clock of the host, which is right again.
fn check_times(http: &mut Http<TcpStream>, schedule: &str) {
    const IN_MS: u64 = 2_000;
    let (sent, at) = (Instant::now(), now_ms() + IN_MS);
    let messages = json!([
        {"body": "after", "delay_ms": IN_MS, "id": format!("{schedule}-after")},
        {"body": "at", "deliver_at_ms": at},
        {"body": "short", "expires_in_ms": 60_000, "delay_ms": IN_MS},
        {"body": "short", "expires_at_ms": at + 60_000, "delay_ms": IN_MS},
    ]);
    let keys = send(http, &messages);
    let again = send(http, &json!([{"body": "after", "delay_ms": IN_MS, "id": format!("{schedule}-after")}]));
    assert_eq!((&again[0]["duplicate"], &again[0]["key"]), (&json!(true), &keys[0]["key"]));
    let shown = ok(http.get(&format!("/v1/messages/{}", keys[1]["key"].as_str().expect("a key"))));
    let until = shown["until_ms"].as_u64().unwrap_or_else(|| panic!("it is scheduled: {shown}"));
    assert!(until.abs_diff(at) < 1_000, "its time is shown by the clock by which it was named: {shown}, {at}");

    let cron = json!({"cron": "* * * * *", "zone": "UTC", "message": {"body": "each minute"}});
    let set = ok(http.put(&format!("/v1/queues/timed/schedules/{schedule}"), &cron));
    let next = set["next_at_ms"].as_u64().unwrap_or_else(|| panic!("it fires: {set}"));
    assert!(next > at - IN_MS && next <= now_ms() + 60_000 && next.is_multiple_of(60_000), "{set}, {at}");

    let mut got = Vec::new();
    while got.len() < 4 {
        got.extend(bodies(http, 20_000));
        assert!(sent.elapsed().as_millis() >= u128::from(IN_MS) && now_ms() >= at, "{got:?} came early");
    }
    got.sort();
    assert_eq!(got, ["after", "at", "short", "short"]);
}

/// Of the first message, records have the time of the clock that was ahead.
fn is_right_again(ahead_s: i64) {
    let folder = folder();
    let mut settings = Settings::new(folder.path());
    let clock = WallClock::of(&mut settings);
    clock.set_ahead(ahead_s);
    let server = Server::start(&settings);
    let mut http = http_of(&server);
    ["jobs", "timed"].iter().for_each(|queue| drop(ok(http.put(&format!("/v1/queues/{queue}"), &json!({})))));
    send(&mut http, &json!([{"body": "first"}]));
    assert_eq!(bodies(&mut http, 0), ["first"]);

    clock.set_ahead(0);
    wait_for("the jump is logged", || (jumps(&server) == 1).then_some(()));
    check_times(&mut http, "running");
    assert!(server.terminate().status.success());

    let server = Server::start(&settings);
    let health = match ahead_s > 3_600 {
        true => json!({"status": "degraded", "clock": "behind"}),
        false => json!({"status": "ok"}),
    };
    wait_for("the clock is judged", || (http_of(&server).get("/healthz").ok()?.body == health).then_some(()));
    check_times(&mut http_of(&server), "restarted");
    let is_said = server.log().contains("family=\"queues\"") && server.log().contains("times that senders name");
    assert_eq!(is_said, ahead_s > 60, "{}", server.log());
    assert!(server.terminate().status.success());
    let mended = mend_with(&settings.data, &[], &settings.environment);
    let is_said = mended.log.contains("queues shard 0: its newest record is ");
    assert!(mended.status.success() && is_said == (ahead_s > 60), "{mended}");
}

#[test]
fn nothing_comes_early_when_a_clock_that_was_forty_seconds_ahead_is_set_right() {
    is_right_again(40);
}

#[test]
fn nothing_comes_early_when_a_clock_that_was_ten_years_ahead_is_set_right() {
    is_right_again(YEARS_10_S);
}

#[test]
fn what_a_clock_of_the_future_hands_out_is_refused_by_the_start_and_asked_about_by_mend_time() {
    let folder = folder();
    let mut settings = Settings::new(folder.path());
    let clock = WallClock::of(&mut settings);
    let server = Server::start(&settings);
    let mut http = http_of(&server);
    ok(http.put("/v1/queues/jobs", &json!({})));
    let messages = json!([
        {"body": "now"},
        {"body": "in a year", "delay_ms": YEAR_MS},
        {"body": "in five", "delay_ms": 5 * YEAR_MS},
        {"body": "in twenty", "delay_ms": 20 * YEAR_MS},
        {"body": "for a year", "expires_in_ms": YEAR_MS},
    ]);
    send(&mut http, &messages);
    let yearly = json!({"cron": "0 0 1 1 *", "zone": "UTC", "message": {"body": "each year"}});
    ok(http.put("/v1/queues/jobs/schedules/yearly", &yearly));
    assert!(server.terminate().status.success());

    clock.set_ahead(YEARS_10_S);
    let refused = Server::refused(&settings);
    let words = "so that 4 of what it keeps for clients would expire or fall due at once";
    assert!(refused.log.contains(words), "{refused}");
    let asked = mend_with(&settings.data, &[], &settings.environment);
    let named = "queues shard 0: over by the clock of this host: 1 messages of queues that expire, 2 delayed messages \
                 of queues that fall due, 1 schedules of queues that fire";
    assert!(asked.status.code() == Some(2) && asked.log.contains(named), "{asked}");
    assert!(asked.log.contains("nothing was changed"), "{asked}");
    let refused = Server::refused(&settings);
    assert!(refused.log.contains(words), "{refused}");

    let meant = mend_with(&settings.data, &["--yes"], &settings.environment);
    assert!(meant.status.success() && meant.log.contains(named), "{meant}");
    let server = Server::start(&settings);
    let mut http = http_of(&server);
    let mut got = bodies(&mut http, 0);
    while got.len() < 4 {
        got.extend(bodies(&mut http, 20_000));
    }
    got.sort();
    assert_eq!(got, ["each year", "in a year", "in five", "now"]);
    assert!(server.terminate().status.success());

    // What the wrong clock set to its own next year is set again by the right one.
    clock.set_ahead(0);
    let server = Server::start(&settings);
    let mut http = http_of(&server);
    let next = |shown: &Value| shown["next_at_ms"].as_u64().unwrap_or_else(|| panic!("it fires: {shown}"));
    let shown = ok(http.get("/v1/queues/jobs/schedules/yearly"));
    assert!(next(&shown) > now_ms() + 9 * YEAR_MS, "{shown}");
    let shown = ok(http.put("/v1/queues/jobs/schedules/yearly", &yearly));
    assert!(next(&shown) <= now_ms() + 366 * 86_400_000, "{shown}");
    assert!(server.terminate().status.success());
}
