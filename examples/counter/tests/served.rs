//! Counters through the public doors of the built server.

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{FAMILY, PAGE, SERVICE, Server, audit};
use tidegate_client::Client;

type Page = Client<std::net::TcpStream>;

#[test]
fn counters_are_added_to_read_and_kept_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data, "shards = 3");
    assert_eq!(server.read("visits"), None);
    for n in 1..=20 {
        assert_eq!(server.add("visits", 2), 2 * n);
        server.add(&format!("other-{n}"), n);
    }
    assert!(server.stop());
    // The directory keeps its three shards.
    let server = Server::start(&data, "shards = 1");
    assert_eq!(server.read("visits"), Some(40));
    assert!((1..=20).all(|n| server.read(&format!("other-{n}")) == Some(n)));
    assert!(server.stop());
    let (agrees, said) = audit(&data);
    assert!(agrees && said.contains("counters shard 2: "), "{said}");
}

#[test]
fn a_counter_expires_and_its_place_is_free_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), "counters_max = 1");
    let add = |name: &str, body: &str| server.ask(SERVICE, "POST", &format!("/v1/counters/{name}/add"), body);
    assert_eq!(add("short", r#"{"amount":1,"expires_in_ms":200}"#).0, 200);
    let (status, body) = add("other", r#"{"amount":1}"#);
    assert!(status == 409 && body.contains("counters_too_many"), "{status} {body}");
    let began = Instant::now();
    while add("other", r#"{"amount":1}"#).0 != 200 {
        assert!(began.elapsed() < Duration::from_secs(60), "it never expires");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(server.read("short"), None);
}

#[test]
fn bad_requests_are_answered_with_a_code() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), "name_bytes_max = 8");
    for (method, path, body, status, code) in [
        ("POST", "/v1/counters/a/add", "{", 400, "json_invalid"),
        ("POST", "/v1/counters/a/add", "{}", 422, "field_invalid"),
        ("POST", "/v1/counters/a/add", r#"{"amount":0}"#, 409, "counter_amount_invalid"),
        ("POST", "/v1/counters/a/add", r#"{"amount":-1}"#, 422, "field_invalid"),
        ("POST", "/v1/counters/a/add", r#"{"amount":1,"expires_in_ms":0}"#, 422, "counter_expiry_invalid"),
        ("POST", "/v1/counters/ninebytes/add", r#"{"amount":1}"#, 422, "counter_name_invalid"),
        ("GET", "/v1/counters/%ff", "", 400, "path_invalid"),
        ("GET", "/v1/counters/a", "", 404, "counter_not_found"),
        ("DELETE", "/v1/counters/a", "", 405, "method_not_allowed"),
    ] {
        let (answered, text) = server.ask(SERVICE, method, path, body);
        let problem: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((answered, &problem["code"]), (status, &json!(code)), "{method} {path} {body}: {text}");
    }
}

#[test]
fn a_token_may_do_what_its_grants_say_at_both_doors() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), "");
    let add = |token, name: &str| server.ask(token, "POST", &format!("/v1/counters/{name}/add"), r#"{"amount":1}"#).0;
    assert_eq!((add(PAGE, "visits-home"), add(PAGE, "sales"), add("nobody", "visits-home")), (200, 403, 401));
    assert_eq!(server.ask(PAGE, "GET", "/v1/counters/visits-home", "").0, 200);

    let mut page = Client::connect(server.binary, PAGE).unwrap();
    let answer = page.room(FAMILY, br#"{"add":{"name":"visits-home","amount":4}}"#).unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), r#"{"value":5}"#);
    let refused = |page: &mut Page, body: &str| page.room(FAMILY, body.as_bytes()).unwrap_err().to_string();
    assert!(refused(&mut page, r#"{"add":{"name":"sales","amount":1}}"#).contains("forbidden"));
    assert!(refused(&mut page, r#"{"read":{"name":"none"}}"#).contains("counter_not_found"));
    assert!(refused(&mut page, "rubbish").contains("json_invalid"));
    assert!(page.room(FAMILY + 1, b"").unwrap_err().to_string().contains("room_unknown"));
}

#[test]
fn the_room_is_documented_counted_and_configured_like_all_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), "shards = 2");
    server.add("visits", 1);
    let document: Value = serde_json::from_str(&server.ask(SERVICE, "GET", "/openapi.json", "").1).unwrap();
    assert!(document["paths"]["/v1/counters/{name}/add"]["post"]["responses"]["409"].is_object(), "{document}");
    assert!(document["paths"]["/v1/transfers"].is_object(), "the ledger is there as well");
    let began = Instant::now();
    loop {
        let metrics = server.ask(SERVICE, "GET", "/metrics", "").1;
        let records =
            metrics.lines().filter(|line| line.starts_with("tidegate_shard_records_total{family=\"counters\""));
        let counted: u64 = records.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
        if counted == 1 && metrics.contains("tidegate_counters{shard=\"0\"}") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{metrics}");
    }
    let wrong = folder.path().join("wrong.toml");
    std::fs::write(&wrong, "[counters]\nshard = 1\n").unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_counter"));
    let output = command.args(["serve", "--config"]).arg(&wrong).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("wrong.toml:2") && said.contains("shards"), "{said}");
}
