//! SIGHUP, `tidegate drain` and SIGTERM, and what connected MQTT clients are told.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use tidegate_wire::mqtt::encode::{ConnectOut, SubscriptionOut, encode_connect, encode_pingreq, encode_subscribe};
use tidegate_wire::mqtt::{Packet, Split, Version, decode_server, split};

use crate::http::Http;
use crate::rights::DAVE;
use crate::{PATIENCE, SERVICE, Server, Settings, folder, wait_for};

/// Her password is `carol`.
const CAROL: &str = r#"
[[user]]
name = "carol"
password_hash = "$argon2id$v=19$m=19456,t=2,p=1$LmPIoPxr8kKCEA0z/leb+g$IbZeVsMB8m1xCc4cAMLtU6iaep7o7MAIludtIC7y1h8"
role = "viewer"
wallets = ["wallet:carol"]
"#;

/// An MQTT 5 client that says what the server answers in a word.
pub(crate) struct Client<S = TcpStream> {
    stream: S,
    input: Vec<u8>,
}

impl Client {
    /// Connects; the first word is the CONNACK's.
    pub(crate) fn connect(server: &Server, user: Option<&str>, password: Option<&str>) -> (Client, String) {
        let tcp = TcpStream::connect(server.mqtt()).expect("the door is open");
        tcp.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Client::over(tcp, user, password)
    }
}

impl<S: Read + Write> Client<S> {
    /// The same over a stream that is open.
    pub(crate) fn over(stream: S, user: Option<&str>, password: Option<&str>) -> (Client<S>, String) {
        let mut client = Client { stream, input: Vec::new() };
        let connect = ConnectOut {
            clean_start: true,
            user_name: user,
            password: password.map(str::as_bytes),
            ..ConnectOut::default()
        };
        let mut packet = Vec::new();
        encode_connect(&mut packet, Version::V5, &connect);
        client.stream.write_all(&packet).expect("the server reads");
        let answer = client.receive();
        (client, answer)
    }

    pub(crate) fn subscribe(&mut self, filter: &str) -> String {
        let mut packet = Vec::new();
        let filters = [SubscriptionOut { filter, ..SubscriptionOut::default() }];
        encode_subscribe(&mut packet, Version::V5, 1, None, &filters);
        self.stream.write_all(&packet).expect("the server reads");
        self.receive()
    }

    pub(crate) fn ping(&mut self) -> String {
        let mut packet = Vec::new();
        encode_pingreq(&mut packet);
        self.stream.write_all(&packet).expect("the server reads");
        self.receive()
    }

    /// The next packet in a word, or that the connection has ended.
    pub(crate) fn receive(&mut self) -> String {
        loop {
            if let Ok(Split::Packet(length)) = split(&self.input, u32::MAX) {
                let packet: Vec<u8> = self.input.drain(..length).collect();
                return match decode_server(&packet, Version::V5).expect("a packet of a server") {
                    Packet::ConnAck(ack) => format!("connack {:#x}", ack.reason.0),
                    Packet::SubAck(ack) => format!("suback {:#x}", ack.reasons().next().expect("one filter").0),
                    Packet::Disconnect(end) => format!("disconnect {:#x} {:?}", end.reason.0, end.server_reference),
                    Packet::PingResp => "pingresp".to_owned(),
                    other => format!("{other:?}"),
                };
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return "closed".to_owned(),
                Ok(count) => self.input.extend(&chunk[..count]),
            }
        }
    }
}

fn settings(folder: &std::path::Path, sections: String) -> Settings {
    Settings { mqtt: true, sections, ..Settings::new(folder) }
}

/// Sends SIGHUP and waits until the server says so many times what came of it.
pub(crate) fn reload(server: &Server, times: usize, outcome: &str) {
    // SAFETY: the process is our child, and the server has not been waited for.
    let sent = unsafe { libc::kill(server.pid() as i32, libc::SIGHUP) };
    assert_eq!(sent, 0);
    wait_for("the server says what the reload did", || (server.log().matches(outcome).count() >= times).then_some(()));
}

#[test]
fn a_reload_ends_who_is_gone_and_nobody_else() {
    let folder = folder();
    let (with_both, with_dave) =
        (settings(folder.path(), format!("{DAVE}{CAROL}")), settings(folder.path(), DAVE.into()));
    let server = Server::start(&with_both);
    let connect = |user, password| Client::connect(&server, user, password);
    let (mut dave, answer) = connect(Some("dave"), Some("dave"));
    assert_eq!(answer, "connack 0x0");
    let (mut carol, answer) = connect(Some("carol"), Some("carol"));
    assert_eq!(answer, "connack 0x0");
    let (mut service, answer) = connect(None, Some(SERVICE));
    assert_eq!(answer, "connack 0x0");
    let (mut nobody, answer) = connect(None, None);
    assert_eq!(answer, "connack 0x0");
    assert_eq!(connect(Some("dave"), Some("carol")).1, "connack 0x86");
    assert_eq!(nobody.subscribe("$SYS/#"), "suback 0x87", "no rule opens it");

    // A file that is wrong changes nothing.
    let path = with_both.write();
    std::fs::write(&path, std::fs::read_to_string(&path).expect("it was written") + "\n[[acl]]\neffect = 1\n")
        .expect("a file");
    reload(&server, 1, "nothing was reloaded: ");
    assert_eq!((dave.ping(), carol.ping()), ("pingresp".to_owned(), "pingresp".to_owned()));

    with_dave.write();
    reload(&server, 1, "reloaded users, services, rules and certificates");
    assert_eq!(carol.receive(), "disconnect 0x87 None");
    for client in [&mut dave, &mut service, &mut nobody] {
        assert_eq!(client.ping(), "pingresp");
    }
    assert_eq!(connect(Some("carol"), Some("carol")).1, "connack 0x86");

    // A new rule holds for who is connected.
    let opened = "\n[[acl]]\neffect = \"permit\"\nrole = \"anonymous\"\ntopics = [\"$SYS/#\"]\n";
    settings(folder.path(), format!("{DAVE}{opened}")).write();
    reload(&server, 2, "reloaded users, services, rules and certificates");
    wait_for("the rule reaches the worker", || (nobody.subscribe("$SYS/none/#") == "suback 0x0").then_some(()));
    assert!(server.terminate().status.success());
}

/// What is not live is named, once for each reload, and what is live takes effect all the same.
#[test]
fn a_reload_names_the_keys_that_wait_for_a_restart() {
    let folder = folder();
    let server = Server::start(&settings(folder.path(), DAVE.into()));
    let changed = "[mqtt]\nordinary_topics = \"nobody\"\nsys_interval_s = 3\n";
    let seed = "[[seed.account]]\nid = \"wallet:new\"\nasset = \"credit\"\nkind = \"wallet\"\n";
    let new = settings(folder.path(), format!("{changed}{DAVE}{CAROL}{seed}"));
    Settings { limits: "http_headers_max = 32".into(), ..new }.write();
    reload(&server, 1, "only a restart applies it: ");
    let log = server.log();
    let line = log.lines().find(|line| line.contains("only a restart applies it: ")).expect("it was said");
    assert!(line.contains("WARN"), "{line}");
    let (_, keys) = line.rsplit_once("applies it: ").expect("it was said");
    assert_eq!(keys.trim(), "limits.http_headers_max, mqtt.sys_interval_s, seed.account");
    let (mut carol, answer) = Client::connect(&server, Some("carol"), Some("carol"));
    assert_eq!(answer, "connack 0x0");
    assert_eq!(carol.subscribe("chat/1"), "suback 0x87", "ordinary topics are closed");

    settings(folder.path(), DAVE.into()).write();
    reload(&server, 2, "reloaded users, services, rules and certificates");
    assert_eq!(server.log().matches("only a restart").count(), 1, "nothing waits any more");
    assert!(server.terminate().status.success());
}

/// Only a restart applies them, and it would fail.
#[test]
fn a_reload_names_what_is_wrong_with_queues_links_and_routes() {
    let folder = folder();
    let queues = "[[queue]]\nname = \"a\"\n\n[[queue]]\nname = \"b\"\n\n";
    let server = Server::start(&settings(folder.path(), queues.to_owned()));
    let route = "[[route]]\nname = \"r\"\nfrom = \"a\"\n\n[[route_rule]]\nroute = \"r\"\nto = [\"c\"]\n";
    settings(folder.path(), format!("{queues}{route}")).write();
    reload(&server, 1, "nothing was reloaded");
    server.says("route_rule.to: there is no [[queue]] \"c\"");
    let link = "[[link]]\nname = \"l\"\nfrom = \"aa\"\naddress = \"127.0.0.1:1\"\nto = \"x\"\ntoken = \"t\"\n";
    settings(folder.path(), format!("{queues}{link}")).write();
    reload(&server, 1, "only a restart applies it: link");
    server.says("link.from: there is no [[queue]] \"aa\"");
    assert!(server.terminate().status.success());
}

#[test]
fn drained_clients_hear_where_to_go_and_nobody_new_comes_in() {
    let folder = folder();
    let elsewhere = "[mqtt]\nserver_reference = \"other.example:1883\"\n";
    let server = Server::start(&settings(folder.path(), elsewhere.into()));
    let mut clients: Vec<Client> = (0..5).map(|_| Client::connect(&server, None, None).0).collect();
    let url = format!("http://{}", server.http);
    let drain = |token: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let command = command.args(["drain", "--rate", "100", "--token", token]).env("TIDEGATE_SERVER", &url);
        command.output().expect("it runs")
    };
    let refused = drain("not-the-right-token");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("refuses with 401"), "{refused:?}");
    assert!(clients.iter_mut().all(|client| client.ping() == "pingresp"));

    let done = drain(SERVICE);
    assert!(done.status.success(), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stdout).ends_with("nobody is left\n"), "{done:?}");
    for client in &mut clients {
        assert_eq!(client.receive(), "disconnect 0x9c Some(\"other.example:1883\")");
        assert_eq!(client.receive(), "closed");
    }
    let (_, answer) = Client::connect(&server, None, None);
    assert!(["connack 0x9c", "closed"].contains(&answer.as_str()), "{answer}");
    // The other doors serve on.
    let mut http = Http::connect(server.http).expect("the door is open");
    assert_eq!(http.get("/healthz").expect("it answers").status, 200);
    assert!(server.terminate().status.success());
}

#[test]
fn sigterm_sends_clients_away_before_the_end() {
    let folder = folder();
    let server = Server::start(&settings(folder.path(), String::new()));
    let mut clients: Vec<Client> = (0..5).map(|_| Client::connect(&server, None, None).0).collect();
    server.send_sigterm();
    for client in &mut clients {
        assert_eq!(client.receive(), "disconnect 0x9c None");
    }
    assert!(server.ended().status.success());
}

/// A connection of the binary port outlives its rights no more than an MQTT connection does.
#[test]
fn a_reload_takes_rights_away_from_open_binary_connections() {
    const TILL: &str = "till-service-token";
    let service = |grants: &str| format!("[[service]]\nname = \"till\"\ntoken = \"{TILL}\"\ngrants = [{grants}]\n");
    let folder = folder();
    let server = Server::start(&settings(folder.path(), service("\"accounts:open\"")));
    let mut till = tidegate_client::Client::connect(server.binary, TILL).expect("the token is good");
    let mut other = tidegate_client::Client::connect(server.binary, SERVICE).expect("the token is good");
    let mut open = |id: &str| till.open_account(id, "credit", tidegate_client::AccountKind::Wallet).map(|_| ());
    open("wallet:1").expect("it may");

    settings(folder.path(), service("\"read:*\"")).write();
    reload(&server, 1, "reloaded users, services, rules and certificates");
    let refused = wait_for("the new grants reach the worker", || open("wallet:1").err());
    assert!(refused.to_string().contains("forbidden"), "{refused}");

    settings(folder.path(), String::new()).write();
    reload(&server, 2, "reloaded users, services, rules and certificates");
    wait_for("the connection ends", || open("wallet:1").err().filter(|error| !error.to_string().contains("forbidden")));
    other.open_account("wallet:2", "credit", tidegate_client::AccountKind::Wallet).expect("nothing has changed for it");
    assert!(server.terminate().status.success());
}
