//! What an operator of a live show does over HTTP and on the command line: looks who is there, sends clients away, ends
//! sessions, publishes, clears retained messages, drains and undoes it, audits now. And who may not.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use tidegate_wire::mqtt::{
    ConnectOut, Packet, PublishOut, QoS, ReasonCode, Split, SubscriptionOut, Version, decode_server, encode_connect,
    encode_publish, encode_subscribe, split,
};

use crate::commands::Operator;
use crate::http::{Answer, Http};
use crate::rights::{DAVE, log_in};
use crate::votes::{connect, open_show};
use crate::{PATIENCE, SERVICE, Server, Settings, folder, wait_for};

/// A client of MQTT 5 over a plain socket.
struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    packet_id: u16,
}

/// What it heard.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// CONNACK or SUBACK or PUBACK.
    Answer(ReasonCode),
    /// Topic and payload.
    Message(String, Vec<u8>),
    Disconnect(ReasonCode),
    End,
}

impl Client {
    fn try_join(server: &Server, client_id: &str, expiry_s: u32) -> (Client, Heard) {
        let stream = TcpStream::connect(server.mqtt()).expect("the door is open");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
        let mut client = Client { stream, received: Vec::new(), packet_id: 0 };
        let connect = ConnectOut { client_id, session_expiry_s: Some(expiry_s), ..ConnectOut::default() };
        client.say(|out| {
            encode_connect(out, Version::V5, &connect);
        });
        let heard = client.next();
        (client, heard)
    }

    /// A client whose session ends with its connection, or so many seconds later.
    fn join(server: &Server, client_id: &str, expiry_s: u32) -> Client {
        let (client, heard) = Client::try_join(server, client_id, expiry_s);
        assert_eq!(heard, Heard::Answer(ReasonCode::SUCCESS), "{client_id}");
        client
    }

    fn say(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        encode(&mut out);
        self.stream.write_all(&out).expect("the server reads");
    }

    fn subscribe(&mut self, filter: &str, qos: QoS) {
        self.packet_id += 1;
        let (packet_id, wanted) = (self.packet_id, [SubscriptionOut { filter, qos, ..SubscriptionOut::default() }]);
        self.say(|out| encode_subscribe(out, Version::V5, packet_id, None, &wanted));
        assert!(matches!(self.next(), Heard::Answer(_)), "SUBACK");
    }

    fn publish(&mut self, topic: &str, payload: &[u8], retain: bool) {
        self.packet_id += 1;
        let packet_id = self.packet_id;
        self.say(|out| {
            let qos = QoS::AtLeastOnce;
            encode_publish(
                out,
                Version::V5,
                &PublishOut { topic, qos, retain, packet_id, payload, ..Default::default() },
            );
        });
        assert!(matches!(self.next(), Heard::Answer(reason) if !reason.is_error()), "PUBACK");
    }

    fn next(&mut self) -> Heard {
        loop {
            if let Split::Packet(length) = split(&self.received, u32::MAX).expect("the server writes packets") {
                let packet = decode_server(&self.received[..length], Version::V5).expect("the server writes packets");
                let heard = match packet {
                    Packet::ConnAck(connack) => Heard::Answer(connack.reason),
                    Packet::PubAck(ack) => Heard::Answer(ack.reason),
                    Packet::SubAck(_) => Heard::Answer(ReasonCode::SUCCESS),
                    Packet::Publish(publish) => Heard::Message(publish.topic.to_owned(), publish.payload.to_vec()),
                    Packet::Disconnect(disconnect) => Heard::Disconnect(disconnect.reason),
                    other => panic!("the server says {other:?}"),
                };
                self.received.drain(..length);
                return heard;
            }
            let mut more = [0; 16 << 10];
            match self.stream.read(&mut more).expect("the server says something, or ends it") {
                0 => return Heard::End,
                count => self.received.extend_from_slice(&more[..count]),
            }
        }
    }

    /// Goes without a word.
    fn vanish(self) {
        drop(self);
    }
}

/// A show with MQTT on two workers, a viewer, and services with little rights.
const LITTLE: &str = r#"
[[service]]
name = "looker"
token = "a-token-that-may-look"
grants = ["operate:read"]

[[service]]
name = "stage"
token = "a-token-of-the-stage"
grants = ["publish:show/#"]

[[service]]
name = "till"
token = "a-token-of-the-till"
grants = ["transfers:*", "audit"]
"#;

fn show(folder: &std::path::Path) -> (Settings, Server, Http<TcpStream>) {
    let settings = Settings { mqtt: true, workers: 2, sections: format!("{DAVE}{LITTLE}"), ..Settings::new(folder) };
    let server = Server::start(&settings);
    let http = Http::connect(server.http).expect("the door is open");
    (settings, server, http)
}

fn over(server: &Server, token: &str) -> Http<TcpStream> {
    let stream = TcpStream::connect(server.http).expect("the door is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
    Http::over(stream, token)
}

fn ok(answer: std::io::Result<Answer>) -> Value {
    let answer = answer.expect("the door answers");
    assert!((200..300).contains(&answer.status), "{answer:?}");
    answer.body
}

fn said(answer: std::io::Result<Answer>) -> String {
    let answer = answer.expect("the door answers");
    format!("{} {}", answer.status, answer.code())
}

fn ids(page: &Value, rows: &str) -> Vec<String> {
    let rows = page[rows].as_array().unwrap_or_else(|| panic!("no rows: {page}"));
    rows.iter().map(|row| row["client_id"].as_str().expect("an id").to_owned()).collect()
}

/// The client ids on all pages of so many rows.
fn all_ids(http: &mut Http<TcpStream>, path: &str, rows: &str, limit: usize) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let separator = if path.contains('?') { '&' } else { '?' };
        let page = ok(http.get(&format!("{path}{separator}limit={limit}&after={after}")));
        let found = ids(&page, rows);
        assert!(found.len() <= limit, "{page}");
        all.extend(found);
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return all,
        }
    }
}

#[test]
fn an_operator_sees_who_is_there_and_a_kicked_client_hears_0x98() {
    let folder = folder();
    let (_settings, server, mut http) = show(folder.path());
    let mut clients: Vec<Client> = (0..40).map(|n| Client::join(&server, &format!("tv-{n:02}"), 0)).collect();
    let mut durable = Client::join(&server, "radio", 3_600);
    durable.subscribe("news/#", QoS::AtLeastOnce);
    durable.subscribe("weather", QoS::AtMostOnce);

    let tvs: Vec<String> = (0..40).map(|n| format!("tv-{n:02}")).collect();
    let everybody: Vec<String> = [vec!["radio".to_owned()], tvs.clone()].concat();
    for limit in [1, 7, 1_000] {
        assert_eq!(all_ids(&mut http, "/v1/clients", "clients", limit), everybody, "in pages of {limit}");
        assert_eq!(all_ids(&mut http, "/v1/sessions?prefix=tv-", "sessions", limit), tvs, "in pages of {limit}");
    }
    let row = ok(http.get("/v1/clients/radio"));
    assert_eq!(
        (&row["address"], &row["listener"], &row["protocol"], &row["durable"], &row["expiry_s"], &row["subscriptions"]),
        (&json!("127.0.0.1"), &json!("mqtt"), &json!("5"), &json!(true), &json!(3_600), &json!(2)),
        "{row}"
    );
    assert_eq!(row["port"], durable.stream.local_addr().expect("it is connected").port());
    let filters = json!([{"filter": "news/#", "qos": 1}, {"filter": "weather", "qos": 0}]);
    assert_eq!((&row["filters"], &row["owner"]), (&filters, &json!("address:127.0.0.1")), "{row}");
    assert!(row["connected_at_ms"].as_u64().is_some_and(|at| at > 1_700_000_000_000), "{row}");
    let of_address = all_ids(&mut http, "/v1/clients?owner=address:127.0.0.1", "clients", 100);
    assert_eq!((of_address, all_ids(&mut http, "/v1/clients?owner=user:dave", "clients", 100)), (everybody, vec![]));

    let kicked = ok(http.delete("/v1/clients/tv-07"));
    assert_eq!(kicked, json!({"client_id": "tv-07", "outcome": "disconnected"}));
    assert_eq!(clients[7].next(), Heard::Disconnect(ReasonCode::ADMINISTRATIVE_ACTION));
    assert_eq!(clients[7].next(), Heard::End);
    assert_eq!(said(http.delete("/v1/clients/tv-07")), "404 client_not_found");
    assert_eq!(said(http.get("/v1/clients/tv-07")), "404 client_not_found");
    assert_eq!(said(http.get("/v1/sessions/tv-07")), "404 session_not_found");
    // Nobody else heard of it.
    clients[8].publish("any", b"", false);

    // One whose session stays.
    ok(http.delete("/v1/clients/radio"));
    assert_eq!(durable.next(), Heard::Disconnect(ReasonCode::ADMINISTRATIVE_ACTION));
    assert_eq!(said(http.get("/v1/clients/radio")), "404 client_not_found");
    clients[8].publish("news/1", b"twelve bytes", false);
    let kept = ok(http.get("/v1/sessions/radio"));
    assert_eq!((&kept["connected"], &kept["inbox_messages"]), (&json!(false), &json!(1)), "{kept}");
    let gone_at = kept["disconnected_at_ms"].as_u64().expect("since when");
    assert_eq!(kept["expires_at_ms"], gone_at + 3_600_000, "{kept}");
    assert!(kept["inbox_bytes"].as_u64().is_some_and(|bytes| bytes >= 12) && kept.get("address").is_none(), "{kept}");
    assert_eq!(ids(&ok(http.get("/v1/sessions?connected=false")), "sessions"), ["radio"]);

    // The second attempt, which found nobody, is logged too, behind the first.
    server.says("outcome=\"client_not_found\"");
    let log = server.log();
    let told = log.lines().find(|line| line.contains("disconnect client") && line.contains("\"tv-07\""));
    let told = told.unwrap_or_else(|| panic!("no line of the act: {log}"));
    for part in ["tidegate::operator", "who=\"test\"", "address=127.0.0.1", "outcome=\"done\""] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn a_session_that_is_ended_is_gone_also_after_a_crash() {
    let folder = folder();
    let (settings, server, mut http) = show(folder.path());
    let mut away = Client::join(&server, "away", 3_600);
    away.subscribe("news", QoS::AtLeastOnce);
    away.vanish();
    let mut here = Client::join(&server, "here", 3_600);
    here.subscribe("news", QoS::AtLeastOnce);
    wait_for("away is away", || (ok(http.get("/v1/sessions/away"))["connected"] == false).then_some(()));
    assert_eq!(ok(http.delete("/v1/sessions/away")), json!({"client_id": "away", "outcome": "ended"}));
    ok(http.delete("/v1/sessions/here"));
    assert_eq!(here.next(), Heard::Disconnect(ReasonCode::ADMINISTRATIVE_ACTION));
    assert_eq!(said(http.delete("/v1/sessions/away")), "404 session_not_found");
    assert_eq!(ids(&ok(http.get("/v1/sessions")), "sessions"), Vec::<String>::new());

    server.kill();
    let server = Server::start(&settings);
    let mut http = Http::connect(server.http).expect("the door is open");
    assert_eq!(ids(&ok(http.get("/v1/sessions")), "sessions"), Vec::<String>::new());
}

#[test]
fn an_operator_publishes_and_clears() {
    let folder = folder();
    let (settings, server, mut http) = show(folder.path());
    let mut listener = Client::join(&server, "listener", 3_600);
    listener.subscribe("show/#", QoS::AtLeastOnce);
    let one = json!({"topic": "show/stage", "payload": "doors open", "retain": true, "content_type": "text/plain",
                     "user_properties": [{"name": "by", "value": "dave"}]});
    assert_eq!(ok(http.post("/v1/publish", &one)), json!({"outcome": "published"}));
    assert_eq!(listener.next(), Heard::Message("show/stage".into(), b"doors open".to_vec()));
    let nobody = json!({"topic": "nobody/listens", "payload_base64": "AAEC", "qos": 0});
    assert_eq!(ok(http.post("/v1/publish", &nobody)), json!({"outcome": "no_subscribers"}));
    let many: Vec<Value> = (0..50).map(|n| json!({"topic": "show/count", "payload": n.to_string()})).collect();
    let outcomes = ok(http.post("/v1/publish", &json!({"messages": many})))["outcomes"].clone();
    assert_eq!(outcomes, json!(vec![json!({"outcome": "published"}); 50]));
    for n in 0..50 {
        assert_eq!(listener.next(), Heard::Message("show/count".into(), n.to_string().into_bytes()), "in order");
    }
    Client::join(&server, "stage", 0).publish("show/other", b"x", true);
    assert_eq!(listener.next(), Heard::Message("show/other".into(), b"x".to_vec()));

    let topics = |page: &Value| -> Vec<String> {
        page["retained"].as_array().unwrap().iter().map(|row| row["topic"].as_str().unwrap().to_owned()).collect()
    };
    let page = ok(http.get("/v1/retained?filter=show/%23"));
    assert_eq!(topics(&page), ["show/other", "show/stage"]);
    assert_eq!((&page["retained"][1]["payload_bytes"], &page["retained"][1]["qos"]), (&json!(10), &json!(1)));
    let page = ok(http.get("/v1/retained?limit=1"));
    assert_eq!((topics(&page), &page["next"]), (vec!["show/other".to_owned()], &json!("show/other")));
    assert_eq!(topics(&ok(http.get("/v1/retained?limit=1&after=show/other"))), ["show/stage"]);

    // What is published is there for who comes later, and after a crash.
    server.kill();
    let server = Server::start(&settings);
    let mut http = Http::connect(server.http).expect("the door is open");
    let mut late = Client::join(&server, "late", 0);
    late.subscribe("show/stage", QoS::AtLeastOnce);
    assert_eq!(late.next(), Heard::Message("show/stage".into(), b"doors open".to_vec()));
    let cleared = ok(http.delete("/v1/retained?filter=show/%23&limit=1"));
    assert_eq!(cleared, json!({"cleared": 1, "more": true}));
    assert_eq!(ok(http.delete("/v1/retained?filter=show/%23")), json!({"cleared": 1, "more": false}));
    assert_eq!(late.next(), Heard::Message("show/stage".into(), Vec::new()), "as when a client clears it");
    assert_eq!(topics(&ok(http.get("/v1/retained"))), Vec::<String>::new());
}

#[test]
fn a_drain_is_undone_and_may_be_of_one_address() {
    let folder = folder();
    let (_settings, server, mut http) = show(folder.path());
    let mut clients: Vec<Client> = (0..10).map(|n| Client::join(&server, &format!("tv-{n}"), 0)).collect();
    assert_eq!(ok(http.delete("/v1/drain"))["draining"], false, "there was none");
    let begun = ok(http.post("/v1/drain", &json!({"rate": 1})));
    assert_eq!((&begun["draining"], &begun["rate"]), (&json!(true), &json!(1)));
    // The figure of the drain is that of a moment ago: all may not have been counted yet.
    wait_for("somebody is sent away", || {
        (ids(&ok(http.get("/v1/clients?prefix=tv-")), "clients").len() < 10).then_some(())
    });
    assert_eq!(said(http.get("/v1/drain")), "200 ");
    let ended = ok(http.delete("/v1/drain"));
    assert_eq!((&ended["draining"], ended.get("rate")), (&json!(false), None));
    // The workers follow within a tick; from then on, clients are let in.
    wait_for("a new client is let in", || {
        (Client::try_join(&server, "new", 0).1 == Heard::Answer(ReasonCode::SUCCESS)).then_some(())
    });
    let left = ids(&ok(http.get("/v1/clients?prefix=tv-")), "clients");
    assert!(!left.is_empty() && left.len() < 10, "{left:?}");

    // An address from which nobody comes, and the one of all.
    let other = ok(http.post("/v1/drain/addresses/192.0.2.1", &json!({"rate": 5})));
    assert_eq!((&other["draining"], &other["connections"]), (&json!(true), &json!(0)));
    assert_eq!(ids(&ok(http.get("/v1/clients?prefix=tv-")), "clients"), left);
    let begun = ok(http.post("/v1/drain/addresses/127.0.0.1", &json!({"rate": 1_000})));
    assert_eq!(begun["address"], "127.0.0.1");
    let drains = ok(http.get("/v1/drain/addresses"));
    assert_eq!(drains["drains"][1], json!({"address": "127.0.0.1", "rate": 1_000}), "{drains}");
    let network = ok(http.post("/v1/drain/addresses/2001:db8::5", &json!({"rate": 5})));
    assert_eq!(network["address"], "2001:db8::/64");
    assert_eq!(ok(http.delete("/v1/drain/addresses/2001:db8::%2F64"))["draining"], false);
    let stayed = |client: &mut Client| match client.next() {
        Heard::Disconnect(ReasonCode::USE_ANOTHER_SERVER) => true,
        Heard::End => false,
        other => panic!("{other:?}"),
    };
    let told = clients.iter_mut().filter_map(|client| stayed(client).then_some(())).count();
    assert_eq!(told, 10, "all are told where to go, by this drain or the one before");
    wait_for("nobody is left", || (ok(http.get("/v1/drain/addresses/127.0.0.1"))["connections"] == 0).then_some(()));
    let refused = Client::try_join(&server, "new", 0).1;
    assert_eq!(refused, Heard::Answer(ReasonCode::USE_ANOTHER_SERVER));
    assert_eq!(ok(http.delete("/v1/drain/addresses/127.0.0.1"))["draining"], false);
    Client::join(&server, "new", 0);
    assert_eq!(said(http.delete("/v1/drain/addresses/127.0.0.1")), "404 drain_not_found");
}

#[test]
fn an_audit_comes_when_it_is_asked_for() {
    let folder = folder();
    let (_settings, server, mut http) = show(folder.path());
    open_show(&mut connect(&server));
    assert_eq!(ok(http.get("/v1/audit"))["state"], "never_run", "the settings have no audits by time");
    let asked_at = ok(http.post("/v1/audit", &json!({})))["asked_at_ms"].as_u64().expect("a time");
    wait_for("the audit has run", || {
        let audit = ok(http.get("/v1/audit"));
        let finished_at = audit["shards"][0]["finished_at_ms"].as_u64().expect("a time");
        (audit["state"] == "agreed" && finished_at >= asked_at).then_some(())
    });
}

#[test]
fn who_has_no_right_sees_and_does_nothing() {
    let folder = folder();
    let (_settings, server, mut http) = show(folder.path());
    let mut client = Client::join(&server, "tv", 0);
    client.publish("show/kept", b"x", true);
    let dave = log_in(&server, "dave", "dave");
    let reads = [
        "/v1/clients",
        "/v1/clients/tv",
        "/v1/sessions",
        "/v1/sessions/tv",
        "/v1/retained",
        "/v1/drain/addresses",
        "/v1/drain/addresses/127.0.0.1",
        "/v1/drain",
    ];
    let deletes =
        ["/v1/clients/tv", "/v1/sessions/tv", "/v1/retained?filter=%23", "/v1/drain", "/v1/drain/addresses/127.0.0.1"];
    let message = json!({"topic": "show/kept", "payload": "y"});
    let posts = [
        ("/v1/publish", message.clone()),
        ("/v1/drain", json!({"rate": 1})),
        ("/v1/drain/addresses/127.0.0.1", json!({"rate": 1})),
        ("/v1/audit", json!({})),
    ];
    let refused = |token: &str, expected: &str, reads: &[&str]| {
        let mut http = over(&server, token);
        for path in reads {
            assert_eq!(said(http.get(path)), expected, "GET {path}");
        }
        for path in deletes {
            assert_eq!(said(http.delete(path)), expected, "DELETE {path}");
        }
        for (path, body) in &posts {
            assert_eq!(said(http.post(path, body)), expected, "POST {path}");
        }
    };
    refused("no-such-token", "401 token_invalid", &reads);
    refused(&dave, "403 forbidden", &reads);
    refused("a-token-of-the-till", "403 forbidden", &reads);
    refused("a-token-that-may-look", "403 forbidden", &reads[5..]);
    let mut looker = over(&server, "a-token-that-may-look");
    reads[..5].iter().for_each(|path| drop(ok(looker.get(path))));

    // Who may publish somewhere may there, and nothing of a batch with one topic elsewhere.
    let mut stage = over(&server, "a-token-of-the-stage");
    ok(stage.post("/v1/publish", &message));
    let mixed = json!({"messages": [{"topic": "show/kept", "payload": "", "retain": true}, {"topic": "other"}]});
    assert_eq!(said(stage.post("/v1/publish", &mixed)), "403 forbidden");
    assert_eq!(said(stage.post("/v1/publish", &json!({"topic": "$SYS/x"}))), "403 forbidden");
    let kept = ok(http.get("/v1/retained"));
    assert_eq!(kept["retained"].as_array().map(Vec::len), Some(1), "nothing was cleared: {kept}");
    client.publish("any", b"", false);
    server.says("outcome=\"forbidden\"");
}

#[test]
fn hostile_parameters_are_answered_and_cost_nothing() {
    let folder = folder();
    let (_settings, server, mut http) = show(folder.path());
    let odd = Client::join(&server, "a/b \u{e4}?#%", 0);
    let path = "/v1/clients/a%2Fb%20%C3%A4%3F%23%25";
    assert_eq!(ok(http.get(path))["client_id"], "a/b \u{e4}?#%");
    ok(http.delete(path));
    odd.vanish();
    for (path, expected) in [
        ("/v1/clients?limit=0", "422 query_invalid"),
        ("/v1/clients?limit=1001", "422 query_invalid"),
        ("/v1/clients?limit=-1", "422 query_invalid"),
        ("/v1/clients?limit=99999999999", "422 query_invalid"),
        ("/v1/clients?colour=red", "422 query_invalid"),
        ("/v1/clients?owner=dave", "422 query_invalid"),
        ("/v1/clients?connected=true", "422 query_invalid"),
        ("/v1/sessions?connected=perhaps", "422 query_invalid"),
        ("/v1/clients/%FF", "400 path_invalid"),
        ("/v1/clients/nobody", "404 client_not_found"),
        ("/v1/clients/%0Aline", "404 client_not_found"),
        ("/v1/retained?filter=a%23", "422 query_invalid"),
        ("/v1/retained?filter=", "422 query_invalid"),
        ("/v1/retained?filter=$share/g/a", "422 query_invalid"),
        ("/v1/drain/addresses/here", "422 address_invalid"),
        ("/v1/drain/addresses/127.0.0.1:1", "422 address_invalid"),
    ] {
        assert_eq!(said(http.get(path)), expected, "GET {path}");
    }
    for (path, expected) in [
        ("/v1/retained", "422 query_invalid"),
        ("/v1/retained?filter=$ledger/%23", "422 query_invalid"),
        ("/v1/retained?filter=%23&limit=0", "422 query_invalid"),
        ("/v1/clients", "405 method_not_allowed"),
        ("/v1/clients/a%0Ab", "404 client_not_found"),
        ("/v1/drain/addresses/x", "422 address_invalid"),
    ] {
        assert_eq!(said(http.delete(path)), expected, "DELETE {path}");
    }
    let large = "x".repeat(1_200_000);
    for (body, expected) in [
        (json!({"topic": ""}), "422 topic_invalid"),
        (json!({"topic": "a/#"}), "422 topic_invalid"),
        (json!({"topic": "a\u{0}b"}), "422 topic_invalid"),
        (json!({"topic": "x".repeat(70_000)}), "422 topic_invalid"),
        (json!({"topic": "$ledger/transfers", "payload": "{}"}), "422 topic_invalid"),
        (json!({"topic": "$delayed/1/a"}), "422 topic_invalid"),
        (json!({"topic": "a", "qos": 3}), "422 field_invalid"),
        (json!({"topic": "a", "payload": "x", "payload_base64": "eA=="}), "422 field_invalid"),
        (json!({"topic": "a", "payload_base64": "?"}), "422 field_invalid"),
        (json!({"topic": "a", "expires_in_s": 0}), "422 field_invalid"),
        (json!({"topic": "a", "content_type": "a\u{0}b"}), "422 field_invalid"),
        (json!({"topic": "a", "response_topic": "a/+"}), "422 field_invalid"),
        (json!({"topic": "a", "colour": 1}), "422 field_invalid"),
        (json!({"topic": "a", "payload": large}), "422 message_too_large"),
        (json!({"topic": "a/".repeat(200), "retain": true}), "409 message_refused"),
        (json!({"messages": []}), "422 field_invalid"),
        (json!({"messages": vec![json!({"topic": "a"}); 1_001]}), "422 field_invalid"),
        (json!({"messages": 1}), "422 field_invalid"),
        (json!([]), "400 json_invalid"),
    ] {
        let answer = http.post("/v1/publish", &body).expect("the door answers");
        let shown = body.to_string().chars().take(80).collect::<String>();
        let said = format!("{} {}", answer.status, answer.code());
        assert!(said == expected || body.is_array() && answer.status / 100 == 4, "{shown}: {answer:?}");
    }
    for rate in [json!(0), json!(-1), json!("1"), json!(4_294_967_296u64)] {
        let answer = http.post("/v1/drain/addresses/192.0.2.1", &json!({"rate": rate})).expect("the door answers");
        assert_eq!(answer.status, 422, "{rate}: {answer:?}");
    }
    for n in 0..64 {
        ok(http.post(&format!("/v1/drain/addresses/2001:db8:{n}::1"), &json!({"rate": 1})));
    }
    let one_more = http.post("/v1/drain/addresses/192.0.2.2", &json!({"rate": 1}));
    assert_eq!(said(one_more), "409 drains_too_many");
    // No name of a client makes a line of the log of its own.
    assert!(!server.log().lines().any(|line| line.starts_with('b')), "{}", server.log());
    Client::join(&server, "still-served", 0);
}

#[test]
fn the_command_line_does_the_same() {
    let folder = folder();
    let (_settings, server, mut http) = show(folder.path());
    let operator = Operator::of(&server);
    let mut tv = Client::join(&server, "tv 1", 3_600);
    tv.subscribe("show/#", QoS::AtLeastOnce);
    let listed = operator.json(&["clients", "list"]);
    assert_eq!((listed.len(), &listed[0]["client_id"]), (1, &json!("tv 1")));
    let table = operator.done(&["clients", "list", "--prefix", "tv"]);
    assert!(table.starts_with("client_id ") && table.contains("tv 1  ") && table.contains("127.0.0.1"), "{table}");
    let detail = operator.done(&["sessions", "get", "tv 1"]);
    assert!(detail.contains("client_id       tv 1\n") && detail.contains("show/#"), "{detail}");
    assert_eq!(operator.done(&["publish", "show/a", "hello", "--retain"]), "topic   outcome\nshow/a  published\n");
    assert_eq!(tv.next(), Heard::Message("show/a".into(), b"hello".to_vec()));
    assert_eq!(operator.json(&["retained", "list"])[0]["topic"], "show/a");
    assert_eq!(operator.done(&["retained", "clear", "show/#"]), "filter  cleared\nshow/#        1\n");
    assert_eq!(tv.next(), Heard::Message("show/a".into(), Vec::new()));
    assert_eq!(operator.done(&["clients", "kick", "tv 1"]), "client_id  outcome\ntv 1       disconnected\n");
    assert_eq!(tv.next(), Heard::Disconnect(ReasonCode::ADMINISTRATIVE_ACTION));
    assert_eq!(operator.json(&["sessions", "list", "--connected", "false"])[0]["client_id"], "tv 1");
    assert_eq!(operator.json(&["sessions", "delete", "tv 1"])[0]["outcome"], "ended");
    let (exit, out, error) = operator.run(&["sessions", "get", "tv 1"]);
    assert_eq!((exit, &*out), (3, ""), "{error}");
    assert!(error.contains("404 session_not_found") && error.contains("tidegate sessions list"), "{error}");

    assert!(operator.done(&["drain", "--rate", "1000"]).ends_with("nobody is left\n"));
    assert_eq!(operator.json(&["drain", "status"])[0]["draining"], true);
    assert_eq!(operator.json(&["drain", "undo"])[0]["draining"], false);
    assert!(operator.done(&["drain", "--rate", "5", "--address", "192.0.2.1"]).contains("nobody is left"));
    assert!(operator.done(&["drain", "status"]).contains("192.0.2.1"), "the address is listed");
    assert_eq!(operator.json(&["drain", "undo", "--address", "192.0.2.1"])[0]["draining"], false);
    assert_eq!(operator.run(&["drain"]).0, 2, "neither a rate nor a word");
    assert_eq!(ok(http.get("/v1/drain"))["draining"], false);
    let token = ["--token", "a-token-of-the-till"];
    assert_eq!(operator.run(&[&["clients", "list"], &token[..]].concat()).0, 3);
    let _ = SERVICE;
}
