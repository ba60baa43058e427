//! `tidegate queue walk`: what waits in the directory of a node that is gone comes to another server, once.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::json;

use super::*;
use crate::SERVICE;
use crate::damage::groups_of;

/// The files below a folder, and what is in them.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let path = entry.path();
        match entry.file_type().expect("a type").is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.display().to_string(), std::fs::read(&path).expect("a file"))),
        }
    }
    found
}

/// Runs a walk of a directory to a server; what it says, as JSON, or why it is refused.
fn walk(data: &Path, to: &Server, arguments: &[&str]) -> Result<Value, String> {
    let token = data.parent().expect("a folder").join("token");
    std::fs::write(&token, SERVICE).expect("there is room");
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["queue", "walk", "--json", "--to", &format!("http://{}", to.http), "--token-file"])
        .arg(token)
        .arg("--data")
        .arg(data)
        .args(arguments)
        .output()
        .expect("the binary was built with the test");
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).expect("an object")),
        false => Err(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()),
    }
}

fn figures(said: &Value) -> [u64; 4] {
    ["messages", "sent", "duplicates", "expired"].map(|name| number(&said[name]))
}

/// A walk reads as a start does: also the last record, which was killed before a mark stood behind it.
#[test]
fn messages_whose_records_have_a_wrong_byte_each_come_all() {
    let (folder, other_folder) = (folder(), folder());
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "jobs", &json!({}));
    let all: Vec<String> = (0..12).map(|number| format!("the text of message {number}.")).collect();
    for body in &all {
        send_one(&mut http, "jobs", &json!({ "body": body }));
    }
    server.kill();
    let (segment, mut bytes) = files(&settings.data.join("journal/queues-0")).pop_first().expect("it has one");
    let (last, header) = groups_of(&bytes).pop().expect("it has groups");
    for body in &all[2..] {
        let at = bytes.windows(body.len()).position(|window| window == body.as_bytes()).expect("it was sent");
        bytes[at] ^= 4;
    }
    bytes.truncate(last + header.total_bytes());
    std::fs::write(&segment, &bytes).expect("there is room");
    let other_settings = super::settings(other_folder.path(), "");
    let other = Server::start(&other_settings);
    let mut there = connect(&other);
    put(&mut there, "jobs", &json!({}));
    let said = walk(&settings.data, &other, &[]).expect("all of it can be read");
    assert_eq!(figures(&said), [12, 12, 0, 0], "{said}");
    assert_eq!(received(&mut there, "jobs", 20), all);
    assert!(std::fs::read(&segment).expect("it is there") == bytes, "a walk writes nothing");
    end(other, &other_settings);
}

/// A sender that got no answer sends it again, to the server that has taken the place of the other one.
#[test]
fn what_its_sender_sends_again_to_the_other_server_is_taken_once() {
    let (folder, other_folder) = (folder(), folder());
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "texts", &json!({}));
    let text_of = |order: &str| json!({"body": order, "id": order});
    for order in ["order-1", "order-2"] {
        send_one(&mut http, "texts", &text_of(order));
    }
    // Where ids are not remembered, many messages may have one.
    put(&mut http, "loose", &json!({"id_window_ms": 0}));
    for body in ["one", "two"] {
        send_one(&mut http, "loose", &json!({"body": body, "id": "same"}));
    }
    server.kill();
    let other_settings = super::settings(other_folder.path(), "");
    let other = Server::start(&other_settings);
    let mut there = connect(&other);
    ["texts", "loose"].into_iter().for_each(|queue| drop(put(&mut there, queue, &json!({}))));
    let early = send_one(&mut there, "texts", &text_of("order-2"));
    let said = walk(&settings.data, &other, &["--with-ids"]).expect("it is sent");
    assert_eq!(figures(&said), [4, 3, 1, 0], "{said}");
    assert_eq!(counts(&mut there, "loose"), [2, 0, 0], "none of them is another one's duplicate");
    let again = send(&mut there, "texts", &json!([text_of("order-1"), text_of("order-2")]));
    assert!(again.iter().all(|receipt| receipt["duplicate"] == true) && again[1]["key"] == *early, "{again:?}");
    assert_eq!(figures(&walk(&settings.data, &other, &["--with-ids"]).expect("again")), [4, 0, 4, 0]);
    let found = ok(there.get("/v1/queues/texts/ids/order-1"));
    assert_eq!((&found["key"], &found["message"]["origin_id"]), (&again[0]["key"], &json!("order-1")));
    assert_ne!(found["message"]["id"], "order-1", "its own id is its key on the first server");
    let mut bodies = received(&mut there, "texts", 10);
    bodies.sort();
    assert_eq!(bodies, ["order-1", "order-2"]);
    end(other, &other_settings);
}

#[test]
fn what_waits_in_a_directory_comes_to_another_server_once() {
    let (folder, other_folder) = (folder(), folder());
    let settings = settings(folder.path(), "shards = 2\n");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    for queue in ["jobs", "mail", "rest"] {
        put(&mut http, queue, &json!({}));
    }
    let soon_ms = 1_000 * SystemTime::now().duration_since(UNIX_EPOCH).expect("behind 1970").as_secs() + 86_400_000;
    let plain = send_one(&mut http, "jobs", &json!({"body": "plain", "id": "own", "attributes": {"lang": "en"}}));
    let late = send_one(&mut http, "jobs", &json!({"body": "late", "deliver_at_ms": soon_ms, "priority": 9}));
    let gone = send_one(&mut http, "mail", &json!({"body": "gone"}));
    let got = receive(&mut http, "mail", 1, 0);
    assert_eq!(acknowledge(&mut http, "mail", &got), ["done"]);
    let bytes = send_one(&mut http, "mail", &json!({"body_base64": "AP8=", "expires_at_ms": soon_ms}));
    let keyed = json!([{"body": "1", "ordering_key": "k"}, {"body": "2", "ordering_key": "k"}]);
    send(&mut http, "mail", &keyed);
    let held = receive(&mut http, "mail", 1, 0);
    assert_eq!(held[0]["key"], bytes, "somebody has it");
    let many: Vec<Value> = (0..1_000).map(|number| json!({ "body": number.to_string() })).collect();
    let keys: Vec<String> = send(&mut http, "rest", &json!(many)).iter().map(|receipt| text(&receipt["key"])).collect();

    let other_settings = super::settings(other_folder.path(), "");
    let other = Server::start(&other_settings);
    let mut there = connect(&other);
    let busy = walk(&settings.data, &other, &["--dry-run"]).expect_err("the directory is in use");
    assert!(busy.contains("in use") || busy.contains("another process"), "{busy}");
    server.kill();

    let before = files(&settings.data.join("journal"));
    let dry = walk(&settings.data, &other, &["--dry-run"]).expect("it is read");
    assert_eq!(figures(&dry), [1_005, 0, 0, 0]);
    assert_eq!(dry["queues"]["rest"]["messages"], 1_000);
    let refused = walk(&settings.data, &other, &[]).expect_err("there are no queues there");
    assert!(refused.contains("3 queues there did not take all"), "{refused}");
    assert!(refused.contains("rest (1000 not sent): there is no queue"), "{refused}");
    for queue in ["jobs", "mail", "rest"] {
        put(&mut there, queue, &json!({ "id_window_ms": null }));
    }
    let refused = walk(&settings.data, &other, &["--queue", "rset"]).expect_err("there is no such queue");
    assert!(refused.contains("there is no queue") && refused.contains("rset"), "{refused}");
    // The other server serves meanwhile.
    send_one(&mut there, "jobs", &json!({"body": "its own"}));
    let part = walk(&settings.data, &other, &["--queue", "rest", "--until", &keys[499]]).expect("it is sent");
    assert_eq!(figures(&part), [500, 500, 0, 0]);
    let rest = walk(&settings.data, &other, &["--queue", "rest", "--after", &keys[399]]).expect("it is sent");
    assert_eq!(figures(&rest), [600, 500, 100, 0], "those in between were there");
    let all = walk(&settings.data, &other, &[]).expect("it is sent");
    assert_eq!(figures(&all), [1_005, 5, 1_000, 0]);
    assert_eq!(figures(&walk(&settings.data, &other, &[]).expect("again")), [1_005, 0, 1_005, 0]);
    assert!(files(&settings.data.join("journal")) == before, "a walk writes nothing");

    assert_eq!(counts(&mut there, "rest"), [1_000, 0, 0]);
    assert_eq!(counts(&mut there, "jobs"), [2, 1, 0]);
    let found =
        |there: &mut Http<TcpStream>, queue: &str, key: &str| ok(there.get(&format!("/v1/queues/{queue}/ids/{key}")));
    let message = found(&mut there, "jobs", &plain);
    assert_eq!(
        (&message["message"]["body"], &message["message"]["attributes"]["lang"]),
        (&json!("plain"), &json!("en"))
    );
    let message = found(&mut there, "jobs", &late);
    assert_eq!((&message["until_ms"], &message["message"]["priority"]), (&json!(soon_ms), &json!(9)));
    let message = found(&mut there, "mail", &bytes);
    assert_eq!((&message["message"]["body_base64"], &message["expires_at_ms"]), (&json!("AP8="), &json!(soon_ms)));
    assert_eq!(said(there.get(&format!("/v1/queues/mail/ids/{gone}"))), "404 message_not_found");
    let first = receive(&mut there, "mail", 10, 0);
    assert_eq!(first.len(), 2, "of one ordering key, one is handed out");
    assert_eq!(first[1]["body"], "1");

    // The node comes back with all that it had.
    let server = Server::start(&settings);
    let mut http = connect(&server);
    assert_eq!(counts(&mut http, "rest"), [1_000, 0, 0]);
    end(server, &settings);
    end(other, &other_settings);
}

/// The others come, and a walk behind it brings what had no room.
#[test]
fn a_queue_that_is_full_there_keeps_no_other_one_back() {
    let (folder, other_folder) = (folder(), folder());
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    let queues = ["a-small", "jobs", "z-small"];
    queues.iter().for_each(|queue| drop(put(&mut http, queue, &json!({}))));
    // More than a walk reads at once.
    for _ in 0..3 {
        for queue in queues {
            let messages: Vec<Value> = (0..200).map(|number| json!({ "body": number.to_string() })).collect();
            send(&mut http, queue, &json!(messages));
        }
    }
    assert!(server.terminate().status.success());
    let other_settings = super::settings(other_folder.path(), "");
    let other = Server::start(&other_settings);
    let mut there = connect(&other);
    for (queue, messages_max) in [("a-small", json!(7)), ("jobs", Value::Null), ("z-small", json!(250))] {
        put(&mut there, queue, &json!({ "messages_max": messages_max, "id_window_ms": null }));
    }
    let said = walk(&settings.data, &other, &[]).expect_err("two of them are full");
    assert!(said.contains("\"is_whole\":false") && said.contains("\"done_up_to\":null"), "{said}");
    assert!(said.contains("2 queues there did not take all"), "{said}");
    assert!(said.contains("a-small (593 not sent): ") && said.contains("z-small (350 not sent): "), "{said}");
    let waiting = |there: &mut Http<TcpStream>| queues.map(|queue| counts(there, queue)[0]);
    assert_eq!(waiting(&mut there), [7, 600, 250]);
    for queue in ["a-small", "z-small"] {
        ok(there.patch(&format!("/v1/queues/{queue}"), &json!({"messages_max": null})));
    }
    assert_eq!(figures(&walk(&settings.data, &other, &[]).expect("there is room")), [1_800, 943, 857, 0]);
    assert_eq!(waiting(&mut there), [600; 3]);
    end(other, &other_settings);
}

#[test]
fn a_walk_of_a_directory_that_has_lost_its_newest_records_says_so() {
    let (folder, other_folder) = (folder(), folder());
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "jobs", &json!({}));
    for batch in 0..12 {
        let messages: Vec<Value> = (0..10).map(|number| json!({"body": format!("{batch} {number}")})).collect();
        send(&mut http, "jobs", &json!(messages));
    }
    assert!(server.terminate().status.success());
    let log = settings.data.join("journal/queues-0");
    let entries = std::fs::read_dir(&log).expect("a folder").map(|entry| entry.expect("an entry").path());
    let newest = entries.filter(|path| path.display().to_string().contains("/segment-")).max().expect("a segment");
    let file = std::fs::OpenOptions::new().write(true).open(&newest).expect("it is there");
    // Behind what is written there is room for more.
    let written = std::fs::read(&newest).expect("a file").iter().rposition(|byte| *byte != 0).expect("it has records");
    file.set_len(written as u64 - 400).expect("a file can be cut");

    let other_settings = super::settings(other_folder.path(), "");
    let other = Server::start(&other_settings);
    let mut there = connect(&other);
    put(&mut there, "jobs", &json!({"messages_max": 30}));
    let full = walk(&settings.data, &other, &[]).expect_err("the queue there is small");
    assert!(full.contains("as many messages as") || full.contains("full"), "{full}");
    assert_eq!(ok(there.get("/v1/queues/jobs"))["waiting"], 30, "it takes what it may");
    ok(there.patch("/v1/queues/jobs", &json!({"messages_max": null})));
    let said = walk(&settings.data, &other, &[]).expect_err("something is lost");
    assert!(said.contains("LOST: ") && said.contains("has lost its newest records"), "{said}");
    let came = received(&mut there, "jobs", 1_000).len();
    assert!((1..120).contains(&came), "{came} of 120");
    end(other, &other_settings);
}

/// The disk of a server that was replaced by a restored one: what both have comes once, and keeps nothing back.
#[test]
fn a_walk_to_a_restored_server_passes_over_what_it_has_already() {
    let folder = folder();
    let of_old = settings(&folder.path().join("old"), "");
    std::fs::create_dir_all(folder.path().join("old")).expect("there is room");
    let old = Server::start(&of_old);
    let mut http = connect(&old);
    put(&mut http, "jobs", &json!({}));
    let send_some = |http: &mut Http<TcpStream>, numbers: std::ops::Range<u32>| {
        let messages: Vec<Value> = numbers.map(|number| json!({"body": number.to_string()})).collect();
        send(http, "jobs", &json!(messages));
    };
    send_some(&mut http, 0..10);
    let backups = folder.path().join("backups");
    crate::backup::backup(&of_old.data, &backups);
    send_some(&mut http, 10..30);
    old.kill();
    let new_folder = folder.path().join("new");
    std::fs::create_dir_all(&new_folder).expect("there is room");
    let of_new = settings(&new_folder, "");
    crate::backup::restored(&backups, &of_new.data, &[]);
    let new = Server::start(&of_new);

    let said = walk(&of_old.data, &new, &[]).expect_err("some are not taken");
    assert!(said.contains("10 messages are not taken there") && said.contains("nothing is to be done"), "{said}");
    let mut there = connect(&new);
    let mut bodies: Vec<u32> =
        received(&mut there, "jobs", 100).iter().map(|body| body.parse().expect("a number")).collect();
    bodies.sort_unstable();
    assert!(bodies.iter().copied().eq(0..30), "each once: {bodies:?}");
    end(new, &of_new);
}

/// What came over links says through which queues. The queue that gets it takes the place of the one that is walked,
/// also with its name and number; one that has had it and given it on does not take it, and another one does.
#[test]
fn a_walk_brings_what_links_had_brought() {
    let folders = [folder(), folder(), folder()];
    let [settings, next_settings, other_settings] = [7, 9, 7]
        .map(|node| format!("node = {node}\n"))
        .iter()
        .zip(&folders)
        .map(|(keys, folder)| super::settings(folder.path(), keys))
        .collect::<Vec<_>>()
        .try_into()
        .unwrap_or_else(|_| unreachable!("three of them"));
    let relayed = |way: &str, first: usize| {
        let id = |number: usize| format!("01KB3V5X2M00G00000000000{number:02}");
        let message = |number: usize| json!({ "body": number.to_string(), "id": id(number), "via": way });
        json!((first..first + 10).map(message).collect::<Vec<_>>())
    };
    for (settings, messages) in [(&settings, relayed("3/out", 10)), (&next_settings, relayed("3/out 7/jobs", 20))] {
        let server = Server::start(settings);
        let mut http = connect(&server);
        put(&mut http, "jobs", &json!({}));
        send(&mut http, "jobs", &messages);
        server.kill();
    }
    let other = Server::start(&other_settings);
    let mut there = connect(&other);
    ["jobs", "rescue"].iter().for_each(|queue| drop(put(&mut there, queue, &json!({ "id_window_ms": null }))));
    assert_eq!(figures(&walk(&settings.data, &other, &[]).expect("it is sent")), [10, 10, 0, 0]);
    let refused = walk(&next_settings.data, &other, &[]).expect_err("it came through that queue");
    assert!(refused.contains("10 messages are not taken") && refused.contains("--into OTHER"), "{refused}");
    let unnamed = walk(&next_settings.data, &other, &["--into", "rescue"]).expect_err("of which queue?");
    assert!(unnamed.contains("--queue"), "{unnamed}");
    let into = ["--queue", "jobs", "--into", "rescue"];
    assert_eq!(figures(&walk(&next_settings.data, &other, &into).expect("it is sent")), [10, 10, 0, 0]);
    assert_eq!(counts(&mut there, "rescue"), [10, 0, 0]);
    end(other, &other_settings);
}
