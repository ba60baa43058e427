//! `config/pacing.toml` alone: a made-up market paces seven campaigns, and the page and its API show them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::services::{ok, over, said};
use crate::{Process, Server, folder, wait_for};

const DOORS: [&str; 4] = ["--http", "127.0.0.1:0", "--binary", "127.0.0.1:0"];

/// The configuration as it is shipped, with days of so many seconds.
fn configuration(folder: &Path, day_s: u32) -> PathBuf {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/pacing.toml");
    let text = fs::read_to_string(shipped).expect("it is shipped");
    let days = format!("day_s = {day_s}");
    assert_eq!(text.matches("day_s = 300").count(), 1);
    let path = folder.join("pacing.toml");
    fs::write(&path, text.replace("day_s = 300", &days)).expect("there is room");
    path
}

fn start(folder: &Path, day_s: u32) -> Server {
    let data = folder.join("data");
    let arguments = [&DOORS[..], &["--data", data.to_str().expect("text")]].concat();
    Process::serve(&configuration(folder, day_s), &arguments).ready().unwrap_or_else(|ended| panic!("{ended}"))
}

fn page(server: &Server, path: &str) -> String {
    let mut stream = TcpStream::connect(server.http).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

fn numbers(curve: &Value, field: &str) -> Vec<u64> {
    let all = curve[field].as_array().expect("a list");
    assert_eq!(all.len(), 145, "{field}");
    all.iter().filter_map(Value::as_u64).collect()
}

#[test]
fn a_day_of_seven_campaigns_is_paced_without_an_exchange() {
    let folder = folder();
    let server = start(folder.path(), 20);
    server.says("SYNTHETIC");
    server.says("/pacing");
    let mut viewer = over(&server, "dev-viewer-token");
    let curve = wait_for("half of a day has been drawn", || {
        let campaign = ok(viewer.get("/v1/campaigns"));
        let all = campaign["campaigns"].as_array().expect("a list");
        if all.len() < 7 {
            return None;
        }
        let even = ok(viewer.get("/v1/campaigns/even?curve=true"));
        let curve = &even["curve"];
        (curve.is_object() && numbers(curve, "spent_micros").len() > 40).then(|| curve.clone())
    });
    let length = curve["ends_ms"].as_u64().expect("a time") - curve["begins_ms"].as_u64().expect("a time");
    assert_eq!(length, 20_000);
    let (spent, planned) = (numbers(&curve, "spent_micros"), numbers(&curve, "planned_micros"));
    assert!(spent.is_sorted() && spent.last() > Some(&0), "{spent:?}");
    // The whole day is planned, from nothing to the budget.
    assert!(planned.len() == 145 && planned.is_sorted(), "{planned:?}");
    assert_eq!(planned.last().copied(), curve["budget_micros"].as_u64());

    let ids = |page: &Value| -> Vec<String> {
        let all = page["campaigns"].as_array().expect("a list").iter();
        all.map(|campaign| campaign["id"].as_str().expect("a text").to_owned()).collect()
    };
    let first = ok(viewer.get("/v1/campaigns?limit=3&curve=true"));
    assert_eq!(ids(&first), ["adaptive_dual", "as_fast_as_possible", "even"]);
    assert!(first["campaigns"][2]["curve"].is_object());
    let second = ok(viewer.get(&format!("/v1/campaigns?limit=4&after={}", first["next"].as_str().expect("a text"))));
    assert_eq!(ids(&second), ["feedback", "pid", "slot_rate", "traffic_shaped"]);
    assert_eq!(second["next"], Value::Null);
    assert_eq!(second["campaigns"][0]["curve"], Value::Null, "nobody has asked for it");
    assert_eq!(ids(&ok(viewer.get("/v1/campaigns?prefix=even"))), ["even"]);
    assert_eq!(ids(&ok(viewer.get("/v1/campaigns?prefix=a&limit=1"))), ["adaptive_dual"]);
    let behind = "/v1/campaigns?prefix=a&after=adaptive_dual";
    assert_eq!(ids(&ok(viewer.get(behind))), ["as_fast_as_possible"]);
    assert_eq!(ids(&ok(viewer.get("/v1/campaigns?prefix=z"))), [""; 0]);
    assert_eq!(said(viewer.get("/v1/campaigns?curve=perhaps")), "422 query_invalid");
    assert_eq!(said(viewer.delete("/v1/campaigns/even")), "403 forbidden");
    assert!(server.terminate().status.success());
}

#[test]
fn the_page_is_served_where_it_is_opened_and_loads_nothing_from_elsewhere() {
    let folder = folder();
    let server = start(folder.path(), 0);
    let html = page(&server, "/pacing");
    assert!(html.starts_with("HTTP/1.1 200 ") && html.contains("default-src 'none'"), "{html}");
    for part in ["/pacing/pacing.css", "/pacing/pacing.js"] {
        assert!(html.contains(part), "the page loads {part}");
    }
    for part in ["pacing.css", "pacing.js", "chart.js", "session.js"] {
        let answer = page(&server, &format!("/pacing/{part}"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let elsewhere = answer.matches("://").count() - answer.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(elsewhere, 0, "{answer}");
    }
    assert!(page(&server, "/pacing/other.js").starts_with("HTTP/1.1 404 "));
    assert!(page(&server, "/pacing/").contains("location: /pacing\r\n"));
    assert!(page(&server, "/").contains("location: /pacing\r\n"));
    let listed = ok(over(&server, "dev-viewer-token").get("/v1/campaigns"));
    assert_eq!(listed["campaigns"].as_array().map(Vec::len), Some(0), "without a market nobody makes campaigns");
    assert!(server.terminate().status.success());
}

#[test]
fn a_made_up_market_is_refused_where_other_machines_can_connect() {
    let folder = folder();
    let config = configuration(folder.path(), 20);
    let data = folder.path().join("data");
    let arguments = ["--http", "0.0.0.0:0", "--binary", "127.0.0.1:0", "--data", data.to_str().expect("text")];
    let ended = Process::serve(&config, &arguments).ready().err().expect("it is refused");
    assert!(!ended.status.success() && ended.log.contains("pacing.demo.day_s = 20: a synthetic market"), "{ended}");
    assert!(ended.log.contains("bind all doors to 127.0.0.1") && !data.exists(), "{ended}");
}
