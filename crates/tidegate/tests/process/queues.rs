//! Queues through the public door: the way of a message, and what a queue promises about it.

mod binary;
mod bodies;
mod bounds;
mod declared;
mod ids;
mod mqtt;
mod order;
mod ranges;
mod refusals;
mod scheduling;
mod shares;
mod waiting;
mod walk;

use std::net::TcpStream;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::http::Http;
use crate::services::{ok, over, said};
use crate::{Server, Settings, audit, folder, wait_for};

/// A lease that does not end while a test runs.
const LONG_MS: u64 = 43_200_000;

/// A server with these keys of `[queues]`.
fn settings(folder: &Path, keys: &str) -> Settings {
    Settings { sections: format!("[queues]\n{keys}"), ..Settings::new(folder) }
}

fn connect(server: &Server) -> Http<TcpStream> {
    Http::connect(server.http).expect("the door is open")
}

/// Makes a queue, or gives it these settings.
fn put(http: &mut Http<TcpStream>, queue: &str, settings: &Value) -> Value {
    ok(http.put(&format!("/v1/queues/{queue}"), settings))
}

/// Sends messages, and returns what is said of each.
fn send(http: &mut Http<TcpStream>, queue: &str, messages: &Value) -> Vec<Value> {
    let answer = ok(http.post(&format!("/v1/queues/{queue}/messages"), &json!({ "messages": messages })));
    list(&answer["messages"])
}

/// Sends one message, and returns its key.
fn send_one(http: &mut Http<TcpStream>, queue: &str, message: &Value) -> String {
    text(&send(http, queue, &json!([message]))[0]["key"])
}

/// Receives messages for a long time.
fn receive(http: &mut Http<TcpStream>, queue: &str, max: usize, wait_ms: u64) -> Vec<Value> {
    receive_for(http, queue, &json!({"max": max, "wait_ms": wait_ms, "lease_ms": LONG_MS}))
}

fn receive_for(http: &mut Http<TcpStream>, queue: &str, body: &Value) -> Vec<Value> {
    list(&ok(http.post(&format!("/v1/queues/{queue}/receive"), body))["messages"])
}

/// Receives messages that are there, and returns their bodies.
fn received(http: &mut Http<TcpStream>, queue: &str, max: usize) -> Vec<String> {
    bodies(&receive(http, queue, max, 0))
}

fn bodies(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| text(&message["body"])).collect()
}

fn leases(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| text(&message["lease"])).collect()
}

/// Does something with leases, and returns what became of each.
fn with_leases(http: &mut Http<TcpStream>, path: &str, body: &Value) -> Vec<String> {
    let answer = ok(http.post(&format!("/v1/queues/{path}"), body));
    list(&answer["leases"]).iter().map(|lease| text(&lease["outcome"])).collect()
}

fn acknowledge(http: &mut Http<TcpStream>, queue: &str, messages: &[Value]) -> Vec<String> {
    with_leases(http, &format!("{queue}/acknowledge"), &json!({"leases": leases(messages)}))
}

fn reject(http: &mut Http<TcpStream>, queue: &str, messages: &[Value]) -> Vec<String> {
    with_leases(http, &format!("{queue}/reject"), &json!({"leases": leases(messages)}))
}

/// Where a message is, and what happened to it.
fn look(http: &mut Http<TcpStream>, key: &str) -> Value {
    ok(http.get(&format!("/v1/messages/{key}")))
}

fn steps(message: &Value) -> Vec<String> {
    list(&message["trail"]).iter().map(|step| text(&step["step"])).collect()
}

/// Waits until a message is in this state.
fn until_it_is(http: &mut Http<TcpStream>, key: &str, state: &str) -> Value {
    wait_for(state, || Some(look(http, key)).filter(|message| message["state"] == state))
}

/// How many messages of a queue wait, wait for their time, and are handed out.
fn counts(http: &mut Http<TcpStream>, queue: &str) -> [u64; 3] {
    let view = ok(http.get(&format!("/v1/queues/{queue}")));
    ["waiting", "scheduled", "leased"].map(|name| number(&view[name]))
}

/// The sum of the rows of a metric.
fn metric(http: &mut Http<TcpStream>, name: &str) -> u64 {
    let page = text(&ok(http.get("/metrics")));
    let rows = page.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    rows.map(|line| line.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok()).expect("a number")).sum()
}

/// The sum of the rows of a metric that have this value of a label.
fn labelled(http: &mut Http<TcpStream>, name: &str, label: &str) -> u64 {
    let page = text(&ok(http.get("/metrics")));
    let rows =
        page.lines().filter(|line| line.split('{').next() == Some(name) && line.contains(&format!("\"{label}\"")));
    rows.map(|line| line.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok()).expect("a number")).sum()
}

/// What `tidegate` says of this server, as JSON.
fn said_as_json(server: &Server, arguments: &[&str]) -> Value {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .env("TIDEGATE_SERVER", format!("http://{}", server.http))
        .env("TIDEGATE_TOKEN", crate::SERVICE)
        .output()
        .expect("the binary was built with the test");
    let wrong = || String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {}", wrong());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}")).clone()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// Ends a server, and audits its directory.
fn end(server: Server, settings: &Settings) {
    let ended = server.terminate();
    assert!(ended.status.success(), "{ended}");
    let audited = audit(&settings.data);
    assert!(audited.status.success() && audited.log.contains("all agree"), "{audited}");
}

#[test]
fn the_command_line_sends_all_that_a_message_may_have_and_rates_begin_with_their_queue() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    wait_for("rates were looked at before there was the queue", || {
        put(&mut http, "first", &json!({}));
        send_one(&mut http, "first", &json!({"body": "x"}));
        let queue = ok(http.get("/v1/queues/first"));
        (queue["rates"]["sent_per_s"][2].as_f64().expect("a rate") > 0.0).then_some(())
    });
    put(&mut http, "second", &json!({}));
    let many = vec![json!({"body": "x"}); 500];
    ok(http.post("/v1/queues/second/messages", &json!({ "messages": many })));
    wait_for("they count, although nothing follows", || {
        let queue = ok(http.get("/v1/queues/second"));
        (queue["rates"]["sent_per_s"][2].as_f64().expect("a rate") > 0.0).then_some(())
    });
    put(&mut http, "orders", &json!({}));
    let arguments = ["queue", "send", "orders", "hi", "--json", "--attribute", "to=+49170", "--attribute", "sum=a=b"];
    said_as_json(&server, &[&arguments[..], &["--priority", "9", "--ordering-key", "k"]].concat());
    let got = receive_for(&mut http, "orders", &json!({"max": 1}));
    assert_eq!(got[0]["attributes"], json!({"to": "+49170", "sum": "a=b"}));
    assert_eq!((&got[0]["priority"], &got[0]["ordering_key"]), (&json!(9), &json!("k")));
    end(server, &settings);
}

#[test]
fn a_message_goes_its_way_and_its_trail_says_so() {
    let folder = folder();
    let settings = settings(folder.path(), "node = 7\n");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    let made = put(&mut http, "orders", &json!({"lease_ms": 5_000, "delay_ms": null}));
    assert_eq!((&made["name"], &made["settings"]["lease_ms"]), (&json!("orders"), &json!(5_000)));
    let message = json!({"body": "Your code is 4711", "id": "order-17", "attributes": {"to": "+49170", "über": "ä"}});
    let key = send_one(&mut http, "orders", &message);
    let sent = look(&mut http, &key);
    assert_eq!((&sent["state"], &sent["node"], steps(&sent)), (&json!("ready"), &json!(7), vec!["sent".to_owned()]));

    let body = json!({"max": 10, "lease_ms": LONG_MS, "consumer": "smpp-2"});
    let got = receive_for(&mut http, "orders", &body);
    let [message] = &got[..] else { panic!("{got:?}") };
    assert_eq!((&message["key"], &message["attempts"], &message["priority"]), (&json!(key), &json!(1), &json!(4)));
    assert_eq!((&message["body"], &message["id"]), (&json!("Your code is 4711"), &json!("order-17")));
    assert_eq!(message["attributes"], json!({"to": "+49170", "über": "ä"}));
    assert!(number(&message["lease_until_ms"]) > now_ms() + LONG_MS / 2, "{message}");
    assert_eq!(received(&mut http, "orders", 10), [""; 0], "somebody has it");
    assert_eq!(counts(&mut http, "orders"), [0, 0, 1]);

    let longer = json!({"leases": leases(&got), "lease_ms": 60_000});
    assert_eq!(with_leases(&mut http, "orders/extend", &longer), ["done"]);
    assert!(number(&look(&mut http, &key)["until_ms"]) < now_ms() + LONG_MS / 2, "a lease may be made shorter");
    assert_eq!(acknowledge(&mut http, "orders", &got), ["done"]);
    assert_eq!(acknowledge(&mut http, "orders", &got), ["done"], "the same again is the same");
    assert_eq!(with_leases(&mut http, "orders/extend", &longer), ["lost"]);
    let done = look(&mut http, &key);
    assert_eq!((&done["state"], done.get("message")), (&json!("acknowledged"), None));
    assert_eq!(steps(&done), ["sent", "leased", "extended", "acknowledged"]);
    assert_eq!(done["trail"][1]["consumer"], "smpp-2");
    assert_eq!(ok(http.get("/v1/queues/orders/ids/order-17")), done, "by its id it is the same");
    let totals = ok(http.get("/v1/queues/orders"))["totals"].clone();
    assert_eq!((&totals["sent"], &totals["delivered"], &totals["acknowledged"]), (&json!(1), &json!(1), &json!(1)));

    // Bytes that are no text, and none at all.
    for base64 in ["/wD+", ""] {
        send_one(&mut http, "orders", &json!({"body_base64": base64}));
    }
    let got = receive(&mut http, "orders", 2, 0);
    assert_eq!((&got[0]["body_base64"], got[0].get("body")), (&json!("/wD+"), None));
    assert_eq!((&got[1]["body"], got[1].get("body_base64")), (&json!(""), None));
    server.kill();

    let server = Server::start(&settings);
    let mut http = connect(&server);
    assert_eq!(look(&mut http, &key), done);
    assert_eq!(acknowledge(&mut http, "orders", &got), ["done", "done"], "leases survive a restart");
    let later = send_one(&mut http, "orders", &json!({"body": ""}));
    assert!(later > key, "keys grow");
    assert!(number(&look(&mut http, &later)["restart"]) > number(&done["restart"]));
    end(server, &settings);
}

#[test]
fn an_id_is_taken_once_also_after_a_restart() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({"id_window_ms": null}));
    put(&mut http, "other", &json!({}));
    put(&mut http, "free", &json!({"id_window_ms": 0}));
    let batch = json!([{"body": "a", "id": "1"}, {"body": "b"}, {"body": "c", "id": "1"}, {"body": "d", "id": "2"}]);
    let sent = send(&mut http, "orders", &batch);
    assert_eq!(sent[2], json!({"key": sent[0]["key"], "duplicate": true}), "within a batch");
    assert_eq!((sent[0].get("duplicate"), sent[3].get("duplicate")), (None, None));
    let again = send(&mut http, "orders", &json!([{"body": "e", "id": "2"}]));
    assert_eq!(again, [json!({"key": sent[3]["key"], "duplicate": true})]);
    assert!(send(&mut http, "other", &json!([{"body": "f", "id": "2"}]))[0].get("duplicate").is_none());
    for _ in 0..2 {
        assert!(send(&mut http, "free", &json!([{"body": "g", "id": "2"}]))[0].get("duplicate").is_none());
    }
    let got = receive(&mut http, "orders", 10, 0);
    assert_eq!(bodies(&got), ["a", "b", "d"]);
    assert_eq!(acknowledge(&mut http, "orders", &got), ["done"; 3]);
    server.kill();

    let server = Server::start(&settings);
    let mut http = connect(&server);
    let again = send(&mut http, "orders", &batch);
    assert_eq!(again[0], json!({"key": sent[0]["key"], "duplicate": true}), "it is acknowledged, and still known");
    assert_eq!(again[3], json!({"key": sent[3]["key"], "duplicate": true}));
    assert_eq!(received(&mut http, "orders", 10), ["b"], "only the one without an id is another");
    end(server, &settings);
}

#[test]
fn ids_whose_window_is_over_make_room_for_others() {
    let folder = folder();
    let settings = settings(folder.path(), "ids_max = 6\n");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "short", &json!({"id_window_ms": 1}));
    put(&mut http, "other", &json!({"id_window_ms": null}));
    let three = |round: usize| json!([0, 1, 2].map(|id| json!({"body": "", "id": format!("{round}-{id}")})));
    for round in 0..3 {
        let path = "/v1/queues/short/messages";
        let messages = json!({"messages": three(round)});
        wait_for("ids are forgotten", || http.post(path, &messages).ok().filter(|answer| answer.status == 200));
    }
    let (path, messages) = ("/v1/queues/other/messages", json!({"messages": three(0)}));
    wait_for("ids of another queue are forgotten", || http.post(path, &messages).ok().filter(|it| it.status == 200));
    let refused = http.post(path, &json!({"messages": three(1)}));
    assert_eq!(said(refused), "409 queue_full", "these are remembered for ever");
    end(server, &settings);
}

#[test]
fn a_rejected_message_waits_longer_each_time_and_goes_to_the_dead_letters_at_last() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "dead", &json!({}));
    let backoff = json!({"attempts_max": 4, "dead_letter": "dead", "retry_ms": 20, "retry_max_ms": 50});
    put(&mut http, "orders", &backoff);
    let key = send_one(&mut http, "orders", &json!({"body": "a", "ordering_key": "k"}));
    for attempt in 1..=4 {
        let got = receive(&mut http, "orders", 1, 20_000);
        assert_eq!((got.len(), &got[0]["attempts"]), (1, &json!(attempt)));
        let body = json!({"leases": leases(&got), "reason": format!("no route {attempt}")});
        assert_eq!(with_leases(&mut http, "orders/reject", &body), ["done"]);
        assert_eq!(with_leases(&mut http, "orders/reject", &body), ["lost"], "it was given back");
    }
    let message = look(&mut http, &key);
    assert_eq!((&message["queue"], &message["state"]), (&json!("dead"), &json!("ready")));
    let expected = ["sent", "leased", "rejected", "leased", "rejected", "leased", "rejected", "leased", "dead"];
    assert_eq!(steps(&message), expected);
    let waits =
        [2, 4, 6].map(|step| number(&message["trail"][step]["until_ms"]) - number(&message["trail"][step]["time_ms"]));
    assert_eq!(waits, [20, 40, 50]);
    assert_eq!(message["trail"][8]["reason"], "no route 4");
    let view = ok(http.get("/v1/queues/orders"));
    let figures = (&view["dead"], &view["totals"]["dead"], &view["totals"]["rejected"]);
    assert_eq!(figures, (&json!(1), &json!(1), &json!(4)));

    // Two more go there at once, one of them by a lease that ends.
    put(&mut http, "orders", &json!({"attempts_max": 1, "dead_letter": "dead"}));
    let others = json!([{"body": "b"}, {"body": "c"}]);
    let keys: Vec<String> = send(&mut http, "orders", &others).iter().map(|sent| text(&sent["key"])).collect();
    let got = receive(&mut http, "orders", 1, 0);
    let body = json!({"leases": leases(&got), "dead": true});
    assert_eq!(with_leases(&mut http, "orders/reject", &body), ["done"]);
    let got = receive_for(&mut http, "orders", &json!({"lease_ms": 1}));
    wait_for("the lease ends", || (look(&mut http, &keys[1])["queue"] == "dead").then_some(()));
    assert_eq!(acknowledge(&mut http, "orders", &got), ["lost"]);
    server.kill();

    let server = Server::start(&settings);
    let mut http = connect(&server);
    let redriven = |http: &mut Http<TcpStream>, body: Value| ok(http.post("/v1/queues/dead/redrive", &body));
    assert_eq!(redriven(&mut http, json!({"to": "orders", "max": 2})), json!({"messages": 2}));
    assert_eq!(redriven(&mut http, json!({"to": "orders"})), json!({"messages": 1}));
    assert_eq!(redriven(&mut http, json!({"to": "orders"})), json!({"messages": 0}));
    let got = receive(&mut http, "orders", 10, 0);
    assert_eq!(bodies(&got), ["a", "b", "c"]);
    assert_eq!((got[0].get("ordering_key"), look(&mut http, &key)["message"].get("ordering_key")), (None, None));
    assert_eq!(got[0]["attempts"], 5, "deliveries are counted on, and it has another chance");
    assert_eq!(acknowledge(&mut http, "orders", &got), ["done"; 3]);
    let message = look(&mut http, &key);
    assert_eq!(steps(&message)[8..], ["dead", "redriven", "leased", "acknowledged"]);
    assert_eq!(message["trail"][9]["to"], "orders");
    end(server, &settings);
}

#[test]
fn a_lease_that_ends_lets_another_one_have_the_message() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({}));
    send_one(&mut http, "orders", &json!({"body": "a"}));
    let first = receive_for(&mut http, "orders", &json!({"lease_ms": 1}));
    let second = receive(&mut http, "orders", 1, 20_000);
    assert_eq!((&second[0]["attempts"], &second[0]["key"]), (&json!(2), &first[0]["key"]));
    assert_eq!(acknowledge(&mut http, "orders", &first), ["lost"]);
    assert_eq!(reject(&mut http, "orders", &first), ["lost"]);
    assert_eq!(acknowledge(&mut http, "orders", &second), ["done"]);
    assert_eq!(ok(http.get("/v1/queues/orders"))["totals"]["lapsed"], 1);
    // One that ended counts while nobody else has the message.
    let key = send_one(&mut http, "orders", &json!({"body": "b"}));
    let got = receive_for(&mut http, "orders", &json!({"lease_ms": 1}));
    until_it_is(&mut http, &key, "ready");
    assert_eq!(acknowledge(&mut http, "orders", &got), ["done"]);
    assert_eq!(counts(&mut http, "orders"), [0, 0, 0]);
    end(server, &settings);
}

#[test]
fn messages_expire_and_are_purged_and_then_the_queue_can_go() {
    let folder = folder();
    let settings = settings(folder.path(), "");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    put(&mut http, "orders", &json!({"expiry_ms": 1}));
    let of_queue = send_one(&mut http, "orders", &json!({"body": "a"}));
    put(&mut http, "orders", &json!({}));
    let own = send_one(&mut http, "orders", &json!({"body": "b", "expires_in_ms": 2_000}));
    let expires_at = now_ms() + 1_500;
    let leased = send_one(&mut http, "orders", &json!({"body": "c", "expires_at_ms": expires_at, "priority": 9}));
    let got = receive(&mut http, "orders", 1, 0);
    for key in [&of_queue, &own] {
        let expired = until_it_is(&mut http, key, "expired");
        assert_eq!((expired.get("message"), steps(&expired)), (None, vec!["sent".into(), "expired".into()]));
        assert_eq!(expired["trail"][1]["time_ms"], expired["expires_at_ms"]);
    }
    assert_eq!(received(&mut http, "orders", 10), [""; 0]);
    // Who has a message when it expires may finish with it.
    wait_for("the clock", || (now_ms() > expires_at).then_some(()));
    assert_eq!((&got[0]["key"], acknowledge(&mut http, "orders", &got)), (&json!(leased), vec!["done".to_owned()]));
    let totals = ok(http.get("/v1/queues/orders"))["totals"].clone();
    assert_eq!(totals["expired"], 2);

    let many = json!(vec![json!({"body": "x", "delay_ms": 1_000_000}); 700]);
    (0..13).for_each(|_| drop(send(&mut http, "orders", &many)));
    send(&mut http, "orders", &json!([{"body": "y"}, {"body": "z"}]));
    let got = receive(&mut http, "orders", 1, 0);
    assert_eq!(counts(&mut http, "orders"), [1, 9_100, 1]);
    assert_eq!(said(http.delete("/v1/queues/orders")), "409 queue_not_empty");
    // More than one record takes, and what is handed out goes too.
    assert_eq!(ok(http.post("/v1/queues/orders/purge", &json!({}))), json!({"messages": 9_102}));
    assert_eq!(acknowledge(&mut http, "orders", &got), ["unknown"]);
    assert_eq!(counts(&mut http, "orders"), [0, 0, 0]);
    assert_eq!(ok(http.delete("/v1/queues/orders")), json!({"name": "orders", "outcome": "deleted"}));
    assert_eq!(said(http.get("/v1/queues/orders")), "404 queue_not_found");
    let gone = http.get(&format!("/v1/messages/{own}")).expect("an answer").body;
    assert_eq!(gone["code"], "message_not_found", "its trail went with it");
    assert!(text(&gone["detail"]).contains("not if it was purged or its queue was deleted"), "{gone}");
    put(&mut http, "orders", &json!({}));
    assert_eq!(ok(http.get("/v1/queues/orders"))["totals"]["sent"], 0, "another one of its name");
    end(server, &settings);
}
