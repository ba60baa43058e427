//! What an operator sees: the log and its forms, the security log, readiness, how long requests take, what is held.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tidegate_client::Client;
use tidegate_wire::mqtt::{
    ConnectOut, Packet, PublishOut, QoS, Split, SubscriptionOut, Version, decode_server, encode_connect,
    encode_publish, encode_subscribe, split,
};

use crate::http::Http;
use crate::support::server::command;
use crate::votes::{connect, open_show};
use crate::{PATIENCE, Server, Settings, folder, wait_for};

/// A viewer `dave`, whose password is his name, and topics that are not for him.
const DAVE: &str = r#"
[[user]]
name = "dave"
password_hash = "$argon2id$v=19$m=19456,t=2,p=1$CJt3yfrPNZBo81/EHS8ETg$vjEVQU7YS/rhzs0z9ZJeOBpXyxPFPSw8HR0Zxp2pLt0"
role = "viewer"

[[acl]]
effect = "deny"
topics = ["secret/#"]
"#;

/// An MQTT client over a socket.
struct MqttClient {
    stream: TcpStream,
    received: Vec<u8>,
}

impl MqttClient {
    fn connect(server: &Server, client_id: &str, login: Option<(&str, &str)>) -> MqttClient {
        let stream = TcpStream::connect(server.mqtt()).expect("the door is open");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
        let mut client = MqttClient { stream, received: Vec::new() };
        let (user_name, password) = login.map(|(user, password)| (user, password.as_bytes())).unzip();
        let connect = ConnectOut { client_id, user_name, password, clean_start: true, ..ConnectOut::default() };
        client.ask(|out| encode_connect(out, Version::V5, &connect));
        client
    }

    fn publish(&mut self, topic: &str, qos: QoS, retain: bool) {
        let publish = PublishOut { topic, qos, retain, packet_id: 1, payload: b"x", ..PublishOut::default() };
        self.ask(|out| _ = encode_publish(out, Version::V5, &publish));
    }

    fn subscribe(&mut self, filter: &str) {
        let wanted = [SubscriptionOut { filter, ..SubscriptionOut::default() }];
        self.ask(|out| encode_subscribe(out, Version::V5, 1, None, &wanted));
    }

    /// Sends a packet and waits for the answer to it.
    fn ask(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        encode(&mut out);
        self.stream.write_all(&out).expect("the server reads");
        loop {
            if let Ok(Split::Packet(length)) = split(&self.received, u32::MAX) {
                let packet = decode_server(&self.received[..length], Version::V5).expect("the server writes packets");
                let is_answer = !matches!(packet, Packet::Publish(_));
                self.received.drain(..length);
                if is_answer {
                    return;
                }
            }
            let mut more = [0; 4 << 10];
            let count = self.stream.read(&mut more).expect("the server says something");
            assert!(count > 0, "the server answers before it ends a connection");
            self.received.extend_from_slice(&more[..count]);
        }
    }
}

pub(crate) fn metrics(server: &Server) -> String {
    let mut http = Http::connect(server.http).expect("the door is open");
    http.get("/metrics").expect("the door answers").body.as_str().expect("a text").to_owned()
}

/// The value of the series that begins so.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn the_log_is_plain_lines_that_begin_with_version_configuration_and_limits() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    let log = server.log();
    assert!(!log.contains('\u{1b}'), "no colours where nobody looks: {log}");
    let mut lines = log.lines();
    let (first, second) = (lines.next().expect("a line"), lines.next().expect("a line"));
    let config = settings.root.join("config.toml");
    for part in [env!("CARGO_PKG_VERSION"), &config.display().to_string(), "log=info", "starting"] {
        assert!(first.contains(part), "{part:?} is not in {first:?}");
    }
    assert!(second.contains("limits workers=1") && second.contains("sessions_max="), "{second:?}");
}

#[test]
fn a_filter_that_is_none_is_an_error_that_says_what_is_expected() {
    let folder = folder();
    let expected = "expected a level (off, error, warn, info, debug or trace)";
    let refused = command(&["serve", "--log", "inof"]);
    assert!(refused.status.code() == Some(2) && refused.log.contains(expected), "{refused}");
    let written = Settings { sections: "[log]\nfilter = \"tidegate=\"".into(), ..Settings::new(folder.path()) };
    // The variable goes before the file, and what stands there is checked all the same.
    let refused = Server::refused(&written);
    assert!(refused.log.contains("log.filter = \"tidegate=\": expected a level"), "{refused}");
    let mut variable = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let ended = variable.arg("serve").env("TIDEGATE_LOG", "verbose").output().expect("the binary is there");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(2) && said.contains(expected), "{said}");
}

#[test]
fn the_log_is_an_object_on_each_line_if_the_configuration_says_so() {
    let folder = folder();
    let settings = Settings { sections: "[log]\nformat = \"json\"".into(), ..Settings::new(folder.path()) };
    let said = run_until(&settings, "\"message\":\"serving\"");
    let lines: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"))).collect();
    assert!(lines.iter().all(|line| line["timestamp"].is_string() && line["level"].is_string()), "{lines:?}");
    assert_eq!((&lines[0]["message"], &lines[0]["version"]), (&json!("starting"), &json!(env!("CARGO_PKG_VERSION"))));
}

/// What a server says until it says `last`; it is ended then.
fn run_until(settings: &Settings, last: &str) -> String {
    let log = settings.root.join("log");
    let file = fs::File::create(&log).expect("the test's folder takes a file");
    let mut serve = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    serve.arg("serve").arg("--config").arg(settings.write()).arg("--data").arg(&settings.data);
    let mut child = serve.stdout(Stdio::null()).stderr(file).spawn().expect("the binary is there");
    let read = |log: &Path| fs::read_to_string(log).expect("the log is a text");
    let said = wait_for("the server serves, or ends", || {
        let is_over = child.try_wait().expect("it is our child").is_some();
        let said = read(&log);
        (is_over || said.contains(last)).then_some(said)
    });
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
    // The last line may be half of one.
    said[..said.rfind('\n').map_or(0, |end| end + 1)].to_owned()
}

#[test]
fn the_security_log_has_who_came_and_who_was_refused() {
    let folder = folder();
    let settings = Settings { mqtt: true, sections: DAVE.into(), ..Settings::new(folder.path()) };
    let server = Server::start(&settings);
    let mut http = Http::connect(server.http).expect("the door is open");
    let log_in = |http: &mut Http<_>, password: &str| {
        let answer = http.post("/v1/login", &json!({"user": "dave", "password": password})).expect("an answer");
        answer.body["token"].as_str().map(str::to_owned)
    };
    assert_eq!(log_in(&mut http, "wrong"), None);
    let token = log_in(&mut http, "dave").expect("the password is right");
    let stranger = TcpStream::connect(server.http).expect("the door is open");
    assert_eq!(Http::over(stranger, "no-such-token").get("/v1/audit").expect("an answer").status, 401);
    let as_dave = TcpStream::connect(server.http).expect("the door is open");
    assert_eq!(Http::over(as_dave, &token).get("/v1/drain").expect("an answer").status, 403);
    Client::connect(server.binary, "no-such-token").expect_err("the door refuses a bad token");
    MqttClient::connect(&server, "phone", Some(("dave", "wrong")));
    let mut first = MqttClient::connect(&server, "phone", Some(("dave", "dave")));
    first.publish("secret/a", QoS::AtLeastOnce, false);
    first.subscribe("secret/#");
    let _second = MqttClient::connect(&server, "phone", Some(("dave", "dave")));
    let wanted = [
        r#"log-in refused address=127.0.0.1 door="http" detail="wrong user or password" principal="dave""#,
        r#"logged in address=127.0.0.1 door="http" detail="" principal="dave""#,
        r#"token refused address=127.0.0.1 door="http" detail="token_invalid: the token is not valid; POST /v1/login"#,
        r#"denied address=127.0.0.1 door="http" detail="GET /v1/drain" principal="dave""#,
        r#"token refused address=127.0.0.1 door="binary" detail="token_invalid: the token is not valid; POST"#,
        r#"log-in refused address=127.0.0.1 door="mqtt" detail="wrong user or password" principal="dave""#,
        r#"logged in address=127.0.0.1 door="mqtt" detail="" principal="dave""#,
        r#"denied address=127.0.0.1 door="mqtt" detail="publish to secret/a" principal="dave""#,
        r#"denied address=127.0.0.1 door="mqtt" detail="subscribe to secret/#" principal="dave""#,
        r#"session taken over address=127.0.0.1 door="mqtt" detail="client id phone" principal="dave""#,
    ];
    for line in wanted {
        wait_for(line, || server.log().contains(&format!("tidegate::security: {line}")).then_some(()));
    }
    let text = metrics(&server);
    assert_eq!(value(&text, "tidegate_security_events_total{event=\"login_refused\"}"), Some(2.0), "{text}");
    assert_eq!(value(&text, "tidegate_security_events_total{event=\"took_over\"}"), Some(1.0), "{text}");
}

#[test]
fn ready_is_who_takes_writes_and_new_clients() {
    let folder = folder();
    let server = Server::start(&Settings { mqtt: true, ..Settings::new(folder.path()) });
    let mut http = Http::connect(server.http).expect("the door is open");
    let ready = http.get("/readyz").expect("an answer");
    assert_eq!((ready.status, &ready.body), (200, &json!({"status": "ready"})));
    assert_eq!(http.post("/v1/drain", &json!({"rate": 1_000})).expect("an answer").status, 202);
    let ready = http.get("/readyz").expect("an answer");
    assert_eq!((ready.status, ready.code(), &ready.body["reasons"]), (503, "not_ready", &json!(["draining"])));
    assert_eq!(http.get("/healthz").expect("an answer").status, 200, "it lives");
    wait_for("the metrics say so", || {
        let text = metrics(&server);
        let states = ["tidegate_ready", "tidegate_draining"].map(|name| value(&text, name));
        (states == [Some(0.0), Some(1.0)]).then_some(())
    });
}

#[test]
fn requests_are_timed_by_door_and_operation() {
    let folder = folder();
    let server = Server::start(&Settings { mqtt: true, ..Settings::new(folder.path()) });
    let mut client = connect(&server);
    open_show(&mut client);
    let mut http = Http::connect(server.http).expect("the door is open");
    let vote = json!({"id": "vote", "debit": "wallet:dave", "credit": "candidate:1", "amount": 1});
    assert_eq!(http.post("/v1/transfers", &vote).expect("an answer").status, 201);
    assert_eq!(http.get("/v1/accounts/wallet:dave").expect("an answer").status, 200);
    assert_eq!(http.get("/nothing").expect("an answer").status, 404);
    let mut publisher = MqttClient::connect(&server, "publisher", None);
    publisher.publish("chat/a", QoS::AtLeastOnce, false);
    publisher.publish("chat/a", QoS::AtLeastOnce, false);
    let wanted = [
        ("http", "POST /v1/transfers", 1.0),
        ("http", "GET /v1/accounts/{id}", 1.0),
        ("http", "none", 1.0),
        ("binary", "transfers", 2.0),
        ("mqtt", "connect", 1.0),
        ("mqtt", "publish_qos1", 2.0),
    ];
    for (door, operation, least) in wanted {
        let labels = format!("{{door=\"{door}\",operation=\"{operation}\"}}");
        let (count, sum) =
            (format!("tidegate_request_seconds_count{labels}"), format!("tidegate_request_seconds_sum{labels}"));
        wait_for(&count, || {
            let text = metrics(&server);
            // Some time, and less than the test.
            let is_timed = value(&text, &sum).is_some_and(|sum| sum > 0.0 && sum < PATIENCE.as_secs_f64());
            (is_timed && value(&text, &count) >= Some(least)).then_some(())
        });
    }
}

#[test]
fn what_is_held_is_shown_once_and_beside_its_bound() {
    let folder = folder();
    let sections = "[kept.all]\nretained_max = 77\n".to_owned();
    let server = Server::start(&Settings { mqtt: true, workers: 2, sections, ..Settings::new(folder.path()) });
    let mut client = MqttClient::connect(&server, "somebody", None);
    for topic in ["a", "b", "c"] {
        client.publish(topic, QoS::AtLeastOnce, true);
    }
    wait_for("both workers have them, and they are shown once", || {
        let text = metrics(&server);
        let held = value(&text, "tidegate_mqtt_held{thing=\"retained\"}");
        // Without a worker: a sum over workers would count each as often as there are workers.
        let retained = value(&text, "tidegate_mqtt_retained");
        (held == Some(3.0) && retained >= Some(3.0)).then_some(())
    });
    let text = metrics(&server);
    assert_eq!(value(&text, "tidegate_mqtt_held_max{thing=\"retained\"}"), Some(77.0), "{text}");
    assert!(value(&text, "tidegate_mqtt_held_bytes{thing=\"retained\"}") > Some(0.0), "{text}");
    assert!(value(&text, "tidegate_disk_free_bytes") > Some(0.0), "{text}");
}
