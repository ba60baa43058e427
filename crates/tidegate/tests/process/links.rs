//! Links between queues of several servers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};

use crate::backup::{backup, restored};
use crate::clock::WallClock;
use crate::http::Http;
use crate::services::ok;
use crate::{SERVICE, Server, Settings, folder, wait_for};

const MESSAGES: usize = 600;
const KEYS: usize = 7;

/// A loopback address at which nobody listens.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port is free")
}

fn settings(folder: &Path, name: &str, binary: SocketAddr, sections: String) -> Settings {
    let root = folder.join(name);
    std::fs::create_dir_all(&root).expect("the folder is there");
    Settings { binary: binary.to_string(), sections, ..Settings::new(&root) }
}

/// A queue, and a link of it to the same queue of another server.
fn linked(node: u16, to: SocketAddr) -> String {
    format!(
        "[queues]\nnode = {node}\n\n[[queue]]\nname = \"jobs\"\n\n[[link]]\nname = \"next\"\nfrom = \"jobs\"\n\
         address = \"{to}\"\nto = \"jobs\"\ntoken = \"{SERVICE}\"\nbatch = 20\nlease_ms = 1000\npause_max_ms = 200\n"
    )
}

fn connect(server: &Server) -> Http<TcpStream> {
    Http::connect(server.http).expect("the door is open")
}

fn texts<'a>(rows: &'a Value, field: &str) -> Vec<&'a str> {
    rows["messages"].as_array().expect("rows").iter().filter_map(|row| row[field].as_str()).collect()
}

/// Receives and acknowledges what comes, until `all` are there. Each comes once, those of a key in their order.
fn receive_all(http: &mut Http<TcpStream>, all: usize, mut each: impl FnMut(usize)) {
    let (mut seen, mut last) = (BTreeSet::new(), BTreeMap::new());
    wait_for("all messages have come", || {
        let body = json!({ "max": 50, "wait_ms": 500 });
        let received = ok(http.post("/v1/queues/jobs/receive", &body));
        for body in texts(&received, "body") {
            let number: usize = body.parse().expect("a number");
            assert!(seen.insert(number), "{number} came twice");
            let before = last.insert(number % KEYS, number);
            assert!(before.is_none_or(|before| before < number), "{number} came behind {before:?}");
        }
        if !texts(&received, "lease").is_empty() {
            let leases = json!({ "leases": texts(&received, "lease") });
            ok(http.post("/v1/queues/jobs/acknowledge", &leases));
        }
        each(seen.len());
        (seen.len() == all).then_some(())
    });
}

fn send_all(http: &mut Http<TcpStream>) -> Vec<String> {
    let mut keys = Vec::new();
    for first in (0..MESSAGES).step_by(100) {
        let message =
            |number: usize| json!({ "body": number.to_string(), "ordering_key": (number % KEYS).to_string() });
        let messages: Vec<Value> = (first..first + 100).map(message).collect();
        let sent = ok(http.post("/v1/queues/jobs/messages", &json!({ "messages": messages })));
        keys.extend(texts(&sent, "key").into_iter().map(str::to_owned));
    }
    keys
}

/// Three servers in a row. The one in the middle is killed while messages pass it.
#[test]
fn messages_pass_three_servers_once_and_in_order() {
    let folder = folder();
    let (second, third) = (free_address(), free_address());
    let c = Server::start(&settings(
        folder.path(),
        "c",
        third,
        "[queues]\nnode = 3\n\n[[queue]]\nname = \"jobs\"\n".to_owned(),
    ));
    let of_b = settings(folder.path(), "b", second, linked(2, third));
    let mut b = Some(Server::start(&of_b));
    let a = Server::start(&settings(folder.path(), "a", free_address(), linked(1, second)));
    let keys = send_all(&mut connect(&a));
    let mut kills = 0;
    receive_all(&mut connect(&c), MESSAGES, |seen| {
        if seen >= (kills + 1) * MESSAGES / 4 && kills < 3 {
            kills += 1;
            b.take().expect("it runs").kill();
            b = Some(Server::start(&of_b));
        }
    });
    assert_eq!(kills, 3);
    // The key of the first server is the id on all others.
    for (server, node) in [(b.as_ref().expect("it runs"), 2), (&c, 3)] {
        let found = ok(connect(server).get(&format!("/v1/queues/jobs/ids/{}", keys[0])));
        assert_eq!((&found["state"], &found["node"]), (&json!("acknowledged"), &json!(node)), "{found}");
    }
    let trail = ok(connect(&a).get(&format!("/v1/messages/{}", keys[0])));
    let consumers: Vec<_> = trail["trail"].as_array().expect("steps").iter().map(|step| &step["consumer"]).collect();
    assert!(consumers.contains(&&json!("link:next")), "{trail}");
    [Some(a), b, Some(c)].into_iter().flatten().for_each(|server| assert!(server.terminate().status.success()));
}

/// Nobody has given them numbers, and their messages come at the same times.
#[test]
fn messages_of_two_servers_without_numbers_are_not_taken_for_each_other() {
    let folder = folder();
    let last = free_address();
    let c = Server::start(&settings(folder.path(), "c", last, "[[queue]]\nname = \"jobs\"\n".to_owned()));
    let first = ["a", "b"].map(|name| {
        let sections = linked(0, last).replace("node = 0\n", "");
        Server::start(&settings(folder.path(), name, free_address(), sections))
    });
    let mut keys = BTreeSet::new();
    std::thread::scope(|scope| {
        let sending = first.each_ref().map(|server| scope.spawn(|| send_all(&mut connect(server))));
        sending.into_iter().for_each(|sent| keys.extend(sent.join().expect("it sends")));
    });
    assert_eq!(keys.len(), 2 * MESSAGES, "the two give no key twice");
    let mut http = connect(&c);
    wait_for("all have come", || {
        let queue = ok(http.get("/v1/queues/jobs"));
        (queue["waiting"] == 2 * MESSAGES).then_some(())
    });
    first.into_iter().chain([c]).for_each(|server| assert!(server.terminate().status.success()));
}

/// Two servers that send each other what comes from the other one, with dead letter queues. What was not taken once
/// more by the `last` of them, because it had it, is a dead letter of the one before.
fn in_a_circle(trail_ms: u64, id: impl Fn(usize) -> Option<String>, last: usize) {
    let folder = folder();
    let addresses = [free_address(), free_address()];
    let servers = [0, 1].map(|at| {
        let dead = format!(
            "name = \"jobs\"\ntrail_ms = {trail_ms}\nattempts_max = 5\ndead_letter = \"dead\"\n\n\
             [[queue]]\nname = \"dead\"\n"
        );
        let sections = linked(at as u16 + 1, addresses[1 - at]).replacen("name = \"jobs\"\n", &dead, 1);
        Server::start(&settings(folder.path(), ["a", "b"][at], addresses[at], sections))
    });
    let mut https = servers.each_ref().map(connect);
    let message = |number: usize| match id(number) {
        Some(id) => json!({ "body": number.to_string(), "id": id }),
        None => json!({ "body": number.to_string() }),
    };
    let messages: Vec<Value> = (0..20).map(message).collect();
    ok(https[0].post("/v1/queues/jobs/messages", &json!({ "messages": messages })));
    let before = 1 - last;
    wait_for("the server before gives up on them", || {
        (ok(https[before].get("/v1/queues/dead"))["waiting"] == messages.len()).then_some(())
    });
    wait_for("they are nowhere else", || {
        let others = [(0, "jobs"), (1, "jobs"), (last, "dead")];
        let is_empty = |figures: Value| figures["waiting"] == 0 && figures["leased"] == 0;
        others.into_iter().all(|(at, queue)| is_empty(ok(https[at].get(&format!("/v1/queues/{queue}"))))).then_some(())
    });
    let received = ok(https[before].post("/v1/queues/dead/receive", &json!({ "max": 20 })));
    let bodies: BTreeSet<&str> = texts(&received, "body").into_iter().collect();
    assert_eq!(bodies.len(), messages.len(), "{received}");
    let trail = ok(https[before].get(&format!("/v1/messages/{}", texts(&received, "key")[0])));
    assert!(trail.to_string().contains("it has come back to here"), "{trail}");
    servers.into_iter().for_each(|server| assert!(server.terminate().status.success()));
}

#[test]
fn messages_that_go_round_in_a_circle_become_dead_letters() {
    in_a_circle(3_600_000, |_| None, 0);
}

/// The first server has forgotten them when they come back, so they go to the second one twice.
#[test]
fn messages_that_were_forgotten_go_round_in_no_circle() {
    in_a_circle(0, |_| None, 1);
}

/// Another server has sent them there: the first one gave them no key by which it could know them.
#[test]
fn messages_that_come_from_elsewhere_go_round_in_no_circle() {
    let of_another_node = |number: usize| Some(format!("01KB3V5X2M00G00000000000{number:02}"));
    in_a_circle(3_600_000, of_another_node, 0);
}

/// A server that was restored beside the one that was backed up gives no key that the other one gives.
#[test]
fn a_restored_server_is_another_node_than_the_one_that_goes_on() {
    let folder = folder();
    let of_first = settings(folder.path(), "a", free_address(), "[[queue]]\nname = \"jobs\"\n".to_owned());
    let first = Server::start(&of_first);
    send_all(&mut connect(&first));
    let backups = folder.path().join("backups");
    backup(&of_first.data, &backups);
    let copies = ["b", "c"].map(|name| {
        let of_copy = settings(folder.path(), name, free_address(), "[[queue]]\nname = \"jobs\"\n".to_owned());
        restored(&backups, &of_copy.data, &[]);
        Server::start(&of_copy)
    });
    let nodes: BTreeSet<u64> = [&first, &copies[0], &copies[1]]
        .into_iter()
        .map(|server| {
            let mut http = connect(server);
            let sent = ok(http.post("/v1/queues/jobs/messages", &json!({ "messages": [{ "body": "one more" }] })));
            let found = ok(http.get(&format!("/v1/messages/{}", texts(&sent, "key")[0])));
            found["node"].as_u64().expect("a number")
        })
        .collect();
    assert_eq!(nodes.len(), 3, "each has a number of its own: {nodes:?}");
    [first].into_iter().chain(copies).for_each(|server| assert!(server.terminate().status.success()));
}

/// A server that is not there costs a backlog, and no attempts of its messages.
#[test]
fn what_cannot_be_forwarded_waits() {
    let folder = folder();
    let there = free_address();
    // One attempt would be all, if attempts counted.
    let queues = "name = \"jobs\"\nattempts_max = 1\ndead_letter = \"dead\"\n\n[[queue]]\nname = \"dead\"\n\n";
    let sections = linked(1, there).replace("name = \"jobs\"\n\n", queues);
    let a = Server::start(&settings(folder.path(), "a", free_address(), sections));
    let mut http = connect(&a);
    let keys = send_all(&mut http);
    a.says("the link does not work");
    let queue = ok(http.get("/v1/queues/jobs"));
    assert_eq!((&queue["waiting"], &queue["totals"]["delivered"]), (&json!(MESSAGES), &json!(0)), "{queue}");
    // A queue that is not there refuses them: they are given back, and their trails say why.
    let b = Server::start(&settings(folder.path(), "b", there, String::new()));
    wait_for("the refusal is in a trail", || {
        let found = ok(http.get(&format!("/v1/messages/{}", keys[0])));
        let steps = found["trail"].as_array().expect("steps").clone();
        steps
            .iter()
            .any(|step| step["reason"].as_str().is_some_and(|why| why.contains("queue_not_found")))
            .then_some(())
    });
    ok(connect(&b).put("/v1/queues/jobs", &json!({})));
    receive_all(&mut connect(&b), MESSAGES, |_| {});
    a.says("the link works again");
    let dead = ok(http.get("/v1/queues/dead"));
    assert_eq!(dead["waiting"], json!(0), "no attempt counts: {dead}");
    assert!(a.terminate().status.success() && b.terminate().status.success());
}

/// Of a batch that is refused as a whole, only the message that is the reason is put aside, and its trail says why.
#[test]
fn a_message_that_is_refused_keeps_no_other_back() {
    let folder = folder();
    let there = free_address();
    let dead = "name = \"jobs\"\ndead_letter = \"dead\"\n\n[[queue]]\nname = \"dead\"\n\n";
    let sections = linked(1, there).replace("name = \"jobs\"\n\n", dead);
    let a = Server::start(&settings(folder.path(), "a", free_address(), sections));
    let mut http = connect(&a);
    // As long as may be: there it has an id, which is not counted.
    let longest = "0".repeat(256 * 1024 - 1) + "2";
    let mut messages: Vec<Value> = ["0", "1", &longest, "3"].iter().map(|body| json!({ "body": body })).collect();
    // By the clock of the other server it is over.
    messages.insert(2, json!({ "body": "9", "expires_in_ms": 3_600_000 }));
    let sent = ok(http.post("/v1/queues/jobs/messages", &json!({ "messages": messages })));
    let mut of_b = settings(folder.path(), "b", there, "[[queue]]\nname = \"jobs\"\n".to_owned());
    WallClock::of(&mut of_b).set_ahead(7_200);
    let b = Server::start(&of_b);
    receive_all(&mut connect(&b), 4, |_| {});
    let key = texts(&sent, "key")[2].to_owned();
    wait_for("the dead letter", || {
        let found = ok(http.get(&format!("/v1/messages/{key}")));
        let steps = found["trail"].as_array().expect("steps").clone();
        let is_why = |step: &Value| step["reason"].as_str().is_some_and(|why| why.contains("message_invalid"));
        steps.iter().any(|step| step["step"] == "dead" && is_why(step)).then_some(())
    });
    assert_eq!(ok(http.get("/v1/queues/dead"))["waiting"], json!(1));
    assert!(a.terminate().status.success() && b.terminate().status.success());
}

#[test]
fn a_link_that_cannot_be_is_refused_with_its_line() {
    let folder = folder();
    let link = |keys: &str| {
        let sections = format!("[[link]]\nname = \"next\"\n{keys}");
        Server::refused(&settings(folder.path(), "a", free_address(), sections)).log
    };
    let log = link("from = \"jobs\"\naddress = \"nowhere\"\nto = \"jobs\"\ntoken = \"x\"\n");
    assert!(log.contains("link.address: expected HOST:PORT"), "{log}");
    let log = link("from = \"jobs jobs\"\naddress = \"localhost:1\"\nto = \"jobs\"\ntoken = \"x\"\n");
    assert!(log.contains("link.from: expected the name of a queue"), "{log}");
    let log = link("from = \"jobs\"\naddress = \"localhost:1\"\nto = \"jobs\"\ntoken_file = \"/nowhere\"\n");
    assert!(log.contains("link.token_file: cannot read /nowhere"), "{log}");
}

/// A queue, a route of it to others by rules, and those others.
fn routed(queues: &[&str], rules: &str) -> String {
    let queue = |name: &&str| format!("[[queue]]\nname = \"{name}\"\n\n");
    let queues: String = queues.iter().map(queue).collect();
    format!(
        "[[queue]]\nname = \"jobs\"\ndead_letter = \"dead\"\n\n{queues}\
         [[route]]\nname = \"x\"\nfrom = \"jobs\"\nlease_ms = 1000\n\n{rules}"
    )
}

fn rule(keys: &str) -> String {
    format!("[[route_rule]]\nroute = \"x\"\n{keys}\n\n")
}

/// Waits until queues have so many messages.
fn until_waiting(http: &mut Http<TcpStream>, wanted: &[(&str, usize)]) {
    for (queue, count) in wanted {
        wait_for(&format!("{count} messages in {queue}"), || {
            (ok(http.get(&format!("/v1/queues/{queue}")))["waiting"] == json!(count)).then_some(())
        });
    }
}

fn send_one(http: &mut Http<TcpStream>, message: Value) -> String {
    let sent = ok(http.post("/v1/queues/jobs/messages", &json!({ "messages": [message] })));
    texts(&sent, "key")[0].to_owned()
}

#[test]
fn rules_choose_by_prefix_and_content_and_what_none_fits_is_a_dead_letter() {
    let folder = folder();
    let rules =
        rule("contains = [\"pin\"]\nto = [\"pins\"]") + &rule("prefix = [\"+4917\", \"+4915\"]\nto = [\"a 3\", \"b\"]");
    let sections = routed(&["dead", "pins", "a", "b"], &rules);
    let server = Server::start(&settings(folder.path(), "a", free_address(), sections));
    let mut http = connect(&server);
    let pin = send_one(&mut http, json!({ "body": "your PIN", "attributes": { "to": "+4917" } }));
    let stray = send_one(&mut http, json!({ "body": "hi", "attributes": { "to": "+1" } }));
    let trail = |http: &mut Http<TcpStream>, key: &str| ok(http.get(&format!("/v1/messages/{key}")))["trail"].clone();
    until_waiting(&mut http, &[("pins", 1), ("dead", 1)]);
    let steps = trail(&mut http, &pin);
    let last = steps.as_array().expect("steps").last().expect("one").clone();
    assert_eq!((&last["step"], &last["consumer"], &last["to"]), (&json!("routed"), &json!("route:x"), &json!("pins")));
    assert!(trail(&mut http, &stray).to_string().contains("no rule of route:x fits"));
    // By the hash of the ordering key: always the same.
    let message = |key: usize| json!({ "body": "x", "ordering_key": key.to_string(), "attributes": { "to": "+4915" } });
    let messages: Vec<Value> = (0..1_000).map(message).collect();
    ok(http.post("/v1/queues/jobs/messages", &json!({ "messages": messages })));
    until_waiting(&mut http, &[("a", 744), ("b", 256), ("jobs", 0)]);
    assert!(server.terminate().status.success());
}

#[test]
fn failover_goes_by_room_and_by_who_receives_and_comes_back() {
    let folder = folder();
    let rules = rule("to = [\"a\", \"b\"]\nchoose = \"failover\"");
    let sections = routed(&["dead", "a", "b"], &rules).replace("name = \"a\"\n", "name = \"a\"\nmessages_max = 2\n");
    let server = Server::start(&settings(folder.path(), "a", free_address(), sections));
    let mut http = connect(&server);
    (0..5).for_each(|number| drop(send_one(&mut http, json!({ "body": number.to_string() }))));
    until_waiting(&mut http, &[("a", 2), ("b", 3), ("jobs", 0)]);
    ok(http.post("/v1/queues/a/purge", &json!({})));
    // The route looks at its queues again before it chooses.
    wait_for("a message goes to the first again", || {
        send_one(&mut http, json!({ "body": "again" }));
        until_waiting(&mut http, &[("jobs", 0)]);
        (ok(http.get("/v1/queues/a"))["waiting"] != json!(0)).then_some(())
    });
    assert!(server.terminate().status.success());
}

/// What waits for a queue that is full stands before what another queue takes.
#[test]
fn a_queue_that_takes_nothing_keeps_nothing_from_others_of_its_route() {
    let folder = folder();
    let rules = rule("prefix = [\"a\"]\nto = [\"a\"]") + &rule("prefix = [\"b\"]\nto = [\"b\"]");
    let sections = routed(&["dead", "a", "b"], &rules).replace("name = \"a\"\n", "name = \"a\"\nmessages_max = 10\n");
    let server = Server::start(&settings(folder.path(), "a", free_address(), sections));
    let mut http = connect(&server);
    let send = |http: &mut Http<TcpStream>, to: &str, count: usize| {
        let messages = vec![json!({ "body": "x", "attributes": { "to": to } }); count];
        ok(http.post("/v1/queues/jobs/messages", &json!({ "messages": messages })));
    };
    (0..10).for_each(|_| send(&mut http, "a", 1_000));
    send(&mut http, "b", 20);
    until_waiting(&mut http, &[("a", 10), ("b", 20)]);
    server.says("messages cannot be moved there");
    server.says("takes no more; see to it that they are received, or give it a larger one queue=\"a\"");
    ok(http.patch("/v1/queues/a", &json!({ "messages_max": null })));
    until_waiting(&mut http, &[("jobs", 0), ("a", 10_000)]);
    assert!(server.terminate().status.success());
}

#[test]
fn receivers_that_take_all_places_keep_no_route_out() {
    let folder = folder();
    let sections = format!("[queues]\nreceivers_max = 2\n\n{}", routed(&["dead", "a"], &rule("to = [\"a\"]")));
    let server = Server::start(&settings(folder.path(), "a", free_address(), sections));
    let mut http = connect(&server);
    let waits = json!({ "wait_ms": 20_000 });
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut http = connect(&server);
                // One that is refused asks again, as receivers do. The last message is for it.
                wait_for("it gets a message", || {
                    let got = http.post("/v1/queues/dead/receive", &waits).expect("the door answers");
                    (got.body["messages"].as_array().is_some_and(|rows| !rows.is_empty())).then_some(())
                });
            });
        }
        let full = "tidegate_queue_receivers_waiting";
        wait_for("both wait, and the route", || {
            let metrics = ok(http.get("/metrics"));
            let mut lines = metrics.as_str().expect("a page").lines();
            lines.any(|line| line.starts_with(full) && line.ends_with(" 3")).then_some(())
        });
        for number in 1..=3 {
            send_one(&mut http, json!({ "body": "x" }));
            until_waiting(&mut http, &[("a", number)]);
        }
        let two = json!({ "messages": [{ "body": "y" }, { "body": "z" }] });
        (0..2).for_each(|_| drop(ok(http.post("/v1/queues/dead/messages", &two))));
    });
    assert!(server.terminate().status.success());
}

/// Kills in between: each message is in one queue, once, and those of a key are in order.
#[test]
fn a_kill_neither_loses_nor_doubles_what_is_routed() {
    let folder = folder();
    let rules = rule("to = [\"a\", \"b\"]\nchoose = \"failover\"");
    let sections = routed(&["dead", "a", "b"], &rules).replace("name = \"a\"\n", "name = \"a\"\nmessages_max = 250\n");
    let settings = settings(folder.path(), "a", free_address(), sections.replace("lease_ms", "batch = 10\nlease_ms"));
    let mut server = Server::start(&settings);
    send_all(&mut connect(&server));
    for least in [50, 200, 400] {
        wait_for("some are routed", || {
            (ok(connect(&server).get("/v1/queues/jobs"))["waiting"].as_u64()? + least <= MESSAGES as u64).then_some(())
        });
        server.kill();
        server = Server::start(&settings);
    }
    let mut http = connect(&server);
    until_waiting(&mut http, &[("jobs", 0), ("a", 250), ("b", MESSAGES - 250)]);
    let mut seen = BTreeSet::new();
    for queue in ["a", "b"] {
        let mut last = BTreeMap::new();
        loop {
            let received = ok(http.post(&format!("/v1/queues/{queue}/receive"), &json!({ "max": 50 })));
            let leases = json!({ "leases": texts(&received, "lease") });
            if texts(&received, "lease").is_empty() {
                break;
            }
            for body in texts(&received, "body") {
                let number: usize = body.parse().expect("a number");
                assert!(seen.insert(number), "{number} is there twice");
                let before = last.insert(number % KEYS, number);
                assert!(before.is_none_or(|before| before < number), "{number} came behind {before:?}");
            }
            ok(http.post(&format!("/v1/queues/{queue}/acknowledge"), &leases));
        }
    }
    assert_eq!(seen.len(), MESSAGES);
    assert!(server.terminate().status.success());
}

#[test]
fn a_route_that_cannot_be_is_refused_with_its_line() {
    let folder = folder();
    let refused = |rules: String| {
        let sections = routed(&["dead", "a", "b"], &rules);
        Server::refused(&settings(folder.path(), "a", free_address(), sections)).log
    };
    let back = "[[route]]\nname = \"y\"\nfrom = \"a\"\n\n[[route_rule]]\nroute = \"y\"\nto = [\"jobs\"]\n";
    for (rules, words) in [
        (String::new(), "expected a [[route_rule]] with route = \"x\""),
        (rule("to = [\"nowhere\"]"), "there is no [[queue]] \"nowhere\""),
        (rule("to = [\"jobs\"]"), "is the queue that the messages come from"),
        (rule("to = [\"a 0\"]"), "expected a weight of 1 to 1000"),
        (rule("to = [\"a\"]") + &rule("to = [\"b\"]"), "no message comes to this rule"),
        (rule("to = [\"a\"]") + back, "go round for ever"),
        (rule("prefix = [\"+1\"]\nto = [\"a\"]") + &back.replace("\"a\"", "\"dead\""), "go round for ever"),
        (rule("to = [\"a\"]").replace("\"x\"", "\"z\""), "there is no [[route]] named \"z\""),
        (rule("to = [\"a\"]\nprefx = [\"+1\"]"), "did you mean \"prefix\"?"),
    ] {
        let log = refused(rules);
        assert!(log.contains(words), "{words}: {log}");
    }
}

/// An authority, and files of a certificate that it signed for a name, good until a year.
fn certificate(folder: &Path, name: &str, until: i32) -> (std::path::PathBuf, String) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
    let root = folder.join(format!("tls-{name}-{until}"));
    std::fs::create_dir_all(&root).expect("the folder takes another");
    let (ca_key, key) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
    let mut ca = CertificateParams::new(Vec::new()).expect("parameters");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = ca.self_signed(&ca_key).expect("an authority");
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    let signed = params.signed_by(&key, &Issuer::from_params(&ca, &ca_key)).expect("a certificate");
    let files = [("ca.pem", authority.pem()), ("cert.pem", signed.pem()), ("key.pem", key.serialize_pem())];
    files.iter().for_each(|(file, text)| std::fs::write(root.join(file), text).expect("it is written"));
    let section =
        format!("[tls]\ncert_file = \"{0}/cert.pem\"\nkey_file = \"{0}/key.pem\"\nbinary = true\n", root.display());
    (root.join("ca.pem"), section)
}

fn over_tls(to: SocketAddr, ca: &Path) -> String {
    linked(1, to) + &format!("tls = true\nca_file = \"{}\"\n", ca.display())
}

#[test]
fn a_link_speaks_tls_to_whom_it_trusts() {
    let folder = folder();
    let (ca, tls) = certificate(folder.path(), "127.0.0.1", 2200);
    let there = free_address();
    let sections = format!("{tls}\n[[queue]]\nname = \"jobs\"\n");
    let b = Server::start(&settings(folder.path(), "b", there, sections));
    let a = Server::start(&settings(folder.path(), "a", free_address(), over_tls(there, &ca)));
    send_all(&mut connect(&a));
    receive_all(&mut connect(&b), MESSAGES, |_| {});
    assert!(a.terminate().status.success() && b.terminate().status.success());
}

#[test]
fn a_link_says_why_it_does_not_trust_and_gives_nothing() {
    let folder = folder();
    let (stranger, _) = certificate(folder.path(), "stranger", 2200);
    for (name, until, trusted, why) in [
        ("127.0.0.1", 2200, false, "who signed it is not known"),
        ("other.example", 2200, true, "it is not for 127.0.0.1, but for"),
        ("127.0.0.1", 2021, true, "it has expired"),
    ] {
        let (ca, tls) = certificate(folder.path(), name, until);
        let there = free_address();
        let sections = format!("{tls}\n[[queue]]\nname = \"jobs\"\n");
        let b = Server::start(&settings(folder.path(), "b", there, sections));
        let ca = if trusted { &ca } else { &stranger };
        let root = format!("a-{until}-{name}-{trusted}");
        let a = Server::start(&settings(folder.path(), &root, free_address(), over_tls(there, ca)));
        let mut http = connect(&a);
        send_one(&mut http, json!({ "body": "secret" }));
        a.says(why);
        assert_eq!(ok(http.get("/v1/queues/jobs"))["waiting"], json!(1));
        let metrics = ok(http.get("/metrics"));
        let metrics = metrics.as_str().expect("a page");
        assert!(metrics.contains("tidegate_link_up{link=\"next\"} 0"), "{metrics}");
        assert!(a.terminate().status.success() && b.terminate().status.success());
    }
}

/// What is wrong is said if only one of two sides speaks TLS, whichever it is.
#[test]
fn a_link_that_only_one_side_encrypts_says_so() {
    let folder = folder();
    let (ca, tls) = certificate(folder.path(), "127.0.0.1", 2200);
    let jobs = "[[queue]]\nname = \"jobs\"\n".to_owned();
    for (name, there_has_tls, why) in [("a", true, "set tls = true"), ("b", false, "leave tls = true out")] {
        let there = free_address();
        let sections = if there_has_tls { format!("{tls}\n{jobs}") } else { jobs.clone() };
        let other = Server::start(&settings(folder.path(), &format!("{name}-there"), there, sections));
        let sections = if there_has_tls { linked(1, there) } else { over_tls(there, &ca) };
        let server = Server::start(&settings(folder.path(), name, free_address(), sections));
        server.says(why);
        assert!(server.terminate().status.success() && other.terminate().status.success());
    }
}

/// An SMSC with TLS answers the first bytes with an alert.
#[test]
fn a_link_to_an_smsc_that_speaks_tls_says_so() {
    let folder = folder();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has one");
    let smsc = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the link connects");
        let _bind = stream.read(&mut [0; 64]).expect("it binds");
        // protocol_version, fatal.
        stream.write_all(&[21, 3, 3, 0, 2, 2, 70]).expect("it reads");
    });
    let sections = format!(
        "[[queue]]\nname = \"jobs\"\n\n[[smpp]]\nname = \"s\"\nfrom = \"jobs\"\naddress = \"{address}\"\n\
         system_id = \"tide\"\npassword = \"x\"\n"
    );
    let server = Server::start(&settings(folder.path(), "a", free_address(), sections));
    server.says("the SMSC speaks TLS on that port: set tls = true");
    smsc.join().expect("it was served");
    assert!(server.terminate().status.success());
}

/// One without TLS waits for the rest of what it takes for a long PDU.
#[test]
fn a_link_over_tls_to_an_smsc_that_is_silent_says_what_may_be_wrong() {
    let folder = folder();
    let (ca, _) = certificate(folder.path(), "127.0.0.1", 2200);
    // The system accepts connections for it.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has one");
    let sections = format!(
        "[[queue]]\nname = \"jobs\"\n\n[[smpp]]\nname = \"s\"\nfrom = \"jobs\"\naddress = \"{address}\"\n\
         system_id = \"tide\"\npassword = \"x\"\nresponse_ms = 100\ntls = true\nca_file = \"{}\"\n",
        ca.display()
    );
    let server = Server::start(&settings(folder.path(), "a", free_address(), sections));
    server.says("no connection within 100 ms; if the other side does not speak TLS on that port, leave tls = true out");
    assert!(server.terminate().status.success());
}

/// A batch that is more than the other queue has room for fills that room. Why the link fails is told soon, although it
/// failed for another reason just before.
#[test]
fn the_room_that_there_is_is_used() {
    let folder = folder();
    let there = free_address();
    let a = Server::start(&settings(folder.path(), "a", free_address(), linked(1, there)));
    send_all(&mut connect(&a));
    a.says("the link does not work");
    let queue = "[[queue]]\nname = \"jobs\"\nmessages_max = 7\n";
    let b = Server::start(&settings(folder.path(), "b", there, queue.to_owned()));
    until_waiting(&mut connect(&b), &[("jobs", 7)]);
    a.says("queue_full");
    assert!(a.terminate().status.success() && b.terminate().status.success());
}
