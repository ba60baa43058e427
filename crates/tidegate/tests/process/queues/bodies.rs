//! Bodies are in the log: more of them than memory holds come back whole, after a restart, and from a backup.

use std::collections::BTreeMap;
use std::fs;

use serde_json::json;

use super::*;
use crate::backup::{backup, restored, verified};
use crate::tool;

/// The least memory for bodies that may be configured.
const LITTLE_MEMORY: &str = "bodies_bytes_max = 1048576\n";

/// A text of this length that is like no other number's.
fn body(number: u64, bytes: usize) -> String {
    let mut word = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut text = format!("{number}:");
    while text.len() < bytes {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        text.push_str(&format!("{word:016x}"));
    }
    text.truncate(bytes);
    text
}

/// Lengths of bodies: most are long, some are short.
fn length(number: u64) -> usize {
    if number % 7 == 3 { 100 } else { 100_000 + (number as usize * 7_919) % 130_000 }
}

/// Sends messages of these numbers, as many at once as a request takes.
fn send_numbers(http: &mut Http<TcpStream>, queue: &str, numbers: std::ops::Range<u64>) {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for number in numbers {
        if bytes + length(number) > 900_000 {
            send(http, queue, &json!(std::mem::take(&mut batch)));
            bytes = 0;
        }
        bytes += length(number);
        batch.push(json!({"body": body(number, length(number)), "id": number.to_string()}));
    }
    send(http, queue, &json!(batch));
}

/// Receives and acknowledges all that there is; each must be one of these numbers, and whole.
fn receive_numbers(http: &mut Http<TcpStream>, queue: &str, numbers: std::ops::Range<u64>) {
    let mut seen = BTreeMap::new();
    while seen.len() < numbers.clone().count() {
        let got = receive(http, queue, 20, 20_000);
        assert!(!got.is_empty(), "{} came, and no more", seen.len());
        for message in &got {
            let number: u64 = text(&message["id"]).parse().expect("a number");
            assert!(numbers.contains(&number) && seen.insert(number, ()).is_none(), "{number} came twice");
            assert!(message["body"] == *body(number, length(number)), "the body of {number} is another one");
        }
        assert!(acknowledge(http, queue, &got).iter().all(|outcome| outcome == "done"));
    }
    assert_eq!(counts(http, queue), [0, 0, 0]);
}

#[test]
fn bodies_beyond_memory_come_back_whole_also_after_a_restart() {
    let folder = folder();
    let settings = settings(folder.path(), LITTLE_MEMORY);
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "jobs", &json!({"id_window_ms": null}));
    let (half, all) = (0..150, 150..300);
    send_numbers(&mut http, "jobs", 0..300);
    assert!(metric(&mut http, "tidegate_queue_body_bytes") <= 1 << 20);
    receive_numbers_in_part(&mut http, half);
    server.kill();

    let server = Server::start(&settings);
    let mut http = connect(&server);
    let page = list(&ok(http.get("/v1/queues/jobs/messages?limit=5"))["messages"]);
    for row in page {
        let number: u64 = text(&row["message"]["id"]).parse().expect("a number");
        assert!(row["message"]["body"] == *body(number, length(number)), "the body of {number} is another one");
    }
    receive_numbers(&mut http, "jobs", all);
    assert!(metric(&mut http, "tidegate_queue_bodies_read_total") > 0, "they were read from the log");
    wait_for("the gauge follows", || (metric(&mut http, "tidegate_queue_body_bytes") <= 1 << 20).then_some(()));
    assert_eq!(metric(&mut http, "tidegate_queue_bodies_unreadable_total"), 0);
    end(server, &settings);
}

/// Receives and acknowledges messages until all of these came, which are the first.
fn receive_numbers_in_part(http: &mut Http<TcpStream>, numbers: std::ops::Range<u64>) {
    let mut next = numbers.start;
    while next < numbers.end {
        let got = receive(http, "jobs", (numbers.end - next).min(20) as usize, 0);
        for message in &got {
            assert!(message["body"] == *body(next, length(next)), "the body of {next} is another one");
            next += 1;
        }
        acknowledge(http, "jobs", &got);
    }
}

/// Segments of the log that are there.
fn segments(data: &Path) -> Vec<String> {
    let listed = fs::read_dir(data.join("journal/queues-0")).expect("the log is there").flatten();
    let names = listed.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("segment-")).collect();
    names.sort();
    names
}

fn wait_for_snapshot(data: &Path) {
    let snapshots = data.join("snapshots/queues-0");
    wait_for("a snapshot", || fs::read_dir(&snapshots).ok()?.flatten().next());
}

#[test]
fn bodies_that_are_older_than_the_newest_snapshot_are_kept_and_backed_up() {
    let folder = folder();
    let settings = settings(folder.path(), LITTLE_MEMORY);
    let (backups, data) = (folder.path().join("backups"), folder.path().join("restored"));
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "old", &json!({}));
    put(&mut http, "gone", &json!({}));
    send_numbers(&mut http, "old", 0..100);
    // Two segments and more of what is soon gone: then there is a snapshot.
    send_garbage(&mut http, 1..26);
    wait_for_snapshot(&settings.data);
    let first = segments(&settings.data).remove(0);
    backup(&settings.data, &backups);
    assert!(verified(&backups).status.success());
    server.kill();
    assert_eq!(segments(&settings.data)[0], first, "the segment with the old bodies is kept");
    assert!(segments(&settings.data).len() > 3, "{:?}", segments(&settings.data));

    restored(&backups, &data, &[]);
    let other = Settings { data, ..settings.clone() };
    for settings in [&other, &settings] {
        let server = Server::start(settings);
        let mut http = connect(&server);
        receive_numbers(&mut http, "old", 0..100);
        assert_eq!(metric(&mut http, "tidegate_queue_bodies_unreadable_total"), 0);
        end(server, settings);
    }
}

/// Sends about so many times 8 MiB that are gone at once.
fn send_garbage(http: &mut Http<TcpStream>, rounds: std::ops::Range<u64>) {
    for round in rounds {
        send_numbers(http, "gone", 1_000 * round..1_000 * round + 60);
        ok(http.post("/v1/queues/gone/purge", &json!({})));
    }
}

#[test]
fn old_bodies_are_written_again_so_that_the_log_can_be_short() {
    let folder = folder();
    let settings = settings(folder.path(), LITTLE_MEMORY);
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "old", &json!({"id_window_ms": null}));
    put(&mut http, "gone", &json!({"id_window_ms": 0}));
    send_numbers(&mut http, "old", 0..60);
    let first = segments(&settings.data).remove(0);
    send_garbage(&mut http, 1..40);
    wait_for("all are written again", || (metric(&mut http, "tidegate_queue_bodies_moved_total") >= 60).then_some(()));
    let moved = ok(http.get("/v1/queues/old/ids/0"));
    assert_eq!((steps(&moved), &moved["state"]), (["sent", "moved"].map(String::from).into(), &json!("ready")));
    // What was written again stands in a sealed segment then, and in two snapshots.
    send_garbage(&mut http, 40..60);
    wait_for_snapshot(&settings.data);
    send_garbage(&mut http, 60..80);
    wait_for("the first segment is forgotten", || (segments(&settings.data)[0] != first).then_some(()));
    server.kill();

    let server = Server::start(&settings);
    let mut http = connect(&server);
    let moved = ok(http.get("/v1/queues/old/ids/0"));
    let all_moved = steps(&moved).iter().all(|step| step == "moved");
    assert!(all_moved && moved["trail_is_cut"] == true, "where it was sent is forgotten: {:?}", steps(&moved));
    receive_numbers(&mut http, "old", 0..60);
    assert_eq!(metric(&mut http, "tidegate_queue_bodies_unreadable_total"), 0);
    end(server, &settings);
}

/// Changes so many bytes of `body` in the log.
fn damage_body(data: &Path, body: &str, count: usize) {
    let segment = segments(data).remove(0);
    let path = data.join("journal/queues-0").join(segment);
    let mut bytes = fs::read(&path).expect("the segment is there");
    let place = bytes.windows(body.len()).position(|window| window == body.as_bytes()).expect("it was sent");
    bytes[place..place + count].iter_mut().for_each(|byte| *byte ^= 1);
    // In place: the server has the file open.
    let mut file = fs::OpenOptions::new().write(true).open(&path).expect("the segment is there");
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(place as u64)).expect("a file");
    std::io::Write::write_all(&mut file, &bytes[place..place + count]).expect("a file");
}

/// One bit of a message that is done with kept a server from starting, and the way out dropped all that waited.
#[test]
fn a_bit_that_flips_in_the_newest_segment_costs_nothing() {
    let folder = folder();
    let settings = settings(folder.path(), LITTLE_MEMORY);
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "jobs", &json!({}));
    for number in 0..20 {
        send_one(&mut http, "jobs", &json!({"body": body(number, 1_000)}));
    }
    let done = leases(&receive(&mut http, "jobs", 10, 0));
    with_leases(&mut http, "jobs/acknowledge", &json!({ "leases": done }));
    assert!(server.terminate().status.success());
    for number in [3, 15] {
        damage_body(&settings.data, &body(number, 1_000), 1);
        let server = Server::start(&settings);
        server.says("a byte of a file was not what had been written, and is again");
        server.kill();
    }
    let server = Server::start(&settings);
    let mut http = connect(&server);
    let all: Vec<String> = (10..20).map(|number| body(number, 1_000)).collect();
    assert_eq!(received(&mut http, "jobs", 20), all);
    end(server, &settings);
}

#[test]
fn a_receiver_goes_on_waiting_behind_a_body_that_cannot_be_read() {
    let folder = folder();
    let settings = settings(folder.path(), LITTLE_MEMORY);
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "jobs", &json!({}));
    let damaged = body(1, 1_000);
    let key = send_one(&mut http, "jobs", &json!({"body": damaged}));
    // The end of a log is in memory from its start on.
    let later = json!(vec![json!({"body": body(2, 1_000), "delay_ms": 100_000_000}); 200]);
    send(&mut http, "jobs", &later);
    assert!(server.terminate().status.success());

    let server = Server::start(&settings);
    let mut http = connect(&server);
    damage_body(&settings.data, &damaged, 2);
    std::thread::scope(|scope| {
        let mut receiver = connect(&server);
        let waits = scope.spawn(move || bodies(&receive(&mut receiver, "jobs", 1, 20_000)));
        let unreadable = "tidegate_queue_bodies_unreadable_total";
        wait_for("it is tried", || (metric(&mut http, unreadable) > 0).then_some(()));
        send_one(&mut http, "jobs", &json!({"body": "whole"}));
        assert_eq!(waits.join().expect("it is answered"), ["whole"]);
    });
    let put_aside = look(&mut http, &key);
    assert_eq!((&put_aside["state"], steps(&put_aside).pop().as_deref()), (&json!("scheduled"), Some("returned")));
    assert!(put_aside["trail"].to_string().contains("its body cannot be read"), "{put_aside}");
    server.says("bodies of messages cannot be read");
    server.kill();
}

/// A server whose first segment has so many messages of the queue `old`, and whose newest snapshot stands some segments
/// behind it.
fn with_old_messages(settings: &Settings, count: u64) -> (Server, Http<TcpStream>) {
    let server = Server::start(settings);
    let mut http = connect(&server);
    put(&mut http, "old", &json!({}));
    put(&mut http, "gone", &json!({}));
    send_numbers(&mut http, "old", 0..count);
    send_garbage(&mut http, 1..26);
    wait_for_snapshot(&settings.data);
    (server, http)
}

/// The log is to be kept from the oldest body on, and is not.
#[test]
fn bodies_whose_segment_is_gone_are_missed_at_the_start_and_by_an_audit() {
    let folder = folder();
    let settings = settings(folder.path(), LITTLE_MEMORY);
    let (server, _) = with_old_messages(&settings, 100);
    assert!(server.terminate().status.success());
    let first = settings.data.join("journal/queues-0").join(segments(&settings.data).remove(0));
    let away = folder.path().join("away");
    fs::rename(&first, &away).expect("the segment is there");
    let audited = audit(&settings.data);
    assert!(!audited.status.success() && audited.log.contains("are still needed"), "{audited}");

    let server = Server::start(&settings);
    server.says("bodies of messages that wait are missing");
    let mut http = connect(&server);
    let health = ok(http.get("/healthz"));
    assert!(health["damage"].as_u64() >= Some(1), "{health}");
    fs::rename(&away, &first).expect("it can be put back");
    wait_for("it is found", || (ok(http.get("/healthz"))["status"] == "ok").then_some(()));
    receive_numbers(&mut http, "old", 0..100);
    end(server, &settings);
}

/// In the middle, where no end can be made for the log: what stands behind the file is kept all the same.
#[test]
fn a_log_goes_on_behind_a_segment_that_is_gone_if_its_snapshot_does() {
    let folder = folder();
    let settings = settings(folder.path(), LITTLE_MEMORY);
    let (server, mut http) = with_old_messages(&settings, 20);
    put(&mut http, "new", &json!({}));
    send_numbers(&mut http, "new", 0..20);
    assert!(server.terminate().status.success());
    let log = settings.data.join("journal/queues-0");
    let [first, second] = [0, 1].map(|at| log.join(&segments(&settings.data)[at]));
    fs::remove_file(&second).expect("the segment is there");
    let advised = |more: &[&str]| {
        let asked = [&["accept-loss", "--reason", "a disk"], more].concat();
        let ended = tool(&settings.data, &asked);
        let way = format!("Move them to another folder, and keep them: {}. Then start", first.display());
        assert!(!ended.status.success() && ended.log.contains(&way), "{ended}");
    };
    advised(&[]);
    advised(&["--anew", "queues-0", "--yes"]);
    fs::rename(&first, folder.path().join("away")).expect("it is there");

    let server = Server::start(&settings);
    server.says("bodies of messages that wait are missing");
    let mut http = connect(&server);
    receive_numbers(&mut http, "new", 0..20);
    assert_eq!(ok(http.get("/v1/queues/old"))["waiting"], 20, "they are known, and wait for their file");
    assert!(server.terminate().status.success());
}
