//! Links between queues of several servers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};

use crate::http::Http;
use crate::services::ok;
use crate::{SERVICE, Server, Settings, folder, wait_for};

const MESSAGES: usize = 600;
const KEYS: usize = 7;

/// A loopback address at which nobody listens.
fn free_address() -> SocketAddr {
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
    let c = Server::start(&settings(folder.path(), "c", third, "[[queue]]\nname = \"jobs\"\n".to_owned()));
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
    for (server, node) in [(b.as_ref().expect("it runs"), 2), (&c, 0)] {
        let found = ok(connect(server).get(&format!("/v1/queues/jobs/ids/{}", keys[0])));
        assert_eq!((&found["state"], &found["node"]), (&json!("acknowledged"), &json!(node)), "{found}");
    }
    let trail = ok(connect(&a).get(&format!("/v1/messages/{}", keys[0])));
    let consumers: Vec<_> = trail["trail"].as_array().expect("steps").iter().map(|step| &step["consumer"]).collect();
    assert!(consumers.contains(&&json!("link:next")), "{trail}");
    [Some(a), b, Some(c)].into_iter().flatten().for_each(|server| assert!(server.terminate().status.success()));
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
    // As long as may be: there it has an id, and is longer.
    let longest = "x".repeat(256 * 1024);
    let bodies = ["0", "1", &longest, "2", "3"];
    let messages: Vec<Value> = bodies.iter().map(|body| json!({ "body": body })).collect();
    let sent = ok(http.post("/v1/queues/jobs/messages", &json!({ "messages": messages })));
    let b = Server::start(&settings(folder.path(), "b", there, "[[queue]]\nname = \"jobs\"\n".to_owned()));
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
