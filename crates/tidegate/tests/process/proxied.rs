//! Behind load balancers: whose connection it is, as limits, rights, lists and the security log see it, at each door.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use tidegate_client::Client;
use tidegate_wire::mqtt::{ConnectOut, Packet, Split, Version, decode_server, encode_connect, split};
use tidegate_wire::websocket::{Opcode, encode_client_frame};

use crate::http::Http;
use crate::support::server::command;
use crate::{PATIENCE, SERVICE, Server, Settings, folder, wait_for};

/// A load balancer on this machine speaks either version at each door.
const EITHER: &str = "[proxy]\ntrusted = [\"127.0.0.1\"]\nhttp = \"either\"\nmqtt = \"either\"\nbinary = \"either\"\n\n\
                      [listener.websocket]\nanonymous = true\n";
/// An HTTP proxy on this machine.
const FORWARDED: &str = "[proxy]\ntrusted = [\"127.0.0.1\"]\nforwarded = \"x-forwarded-for\"\n\n\
                         [listener.websocket]\nanonymous = true\n";

/// What a balancer sends first for a client at this address.
fn v1(client: &str) -> Vec<u8> {
    format!("PROXY TCP4 {client} 198.51.100.1 40000 1883\r\n").into_bytes()
}

fn v2(client: [u8; 4]) -> Vec<u8> {
    let addresses = [&client[..], &[198, 51, 100, 1, 0x9c, 0x40, 7, 0x5b]].concat();
    [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c"[..], &addresses].concat()
}

/// The header of the balancer's own connections.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";

pub fn open(door: SocketAddr, first: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(door).expect("the door is open");
    stream.set_nodelay(true).expect("a socket takes it");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
    stream.write_all(first).expect("the server reads");
    stream
}

pub fn hello(client_id: &str, user: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    let password = user.map(|user| user.as_bytes());
    let connect = ConnectOut { client_id, user_name: user, password, clean_start: true, ..ConnectOut::default() };
    encode_connect(&mut out, Version::V5, &connect);
    out
}

/// Reads the answer to a CONNECT: its reason, or `None` if the connection was ended without one.
pub fn connack(stream: &mut TcpStream) -> Option<u8> {
    let mut received = Vec::new();
    loop {
        if let Ok(Split::Packet(length)) = split(&received, u32::MAX) {
            match decode_server(&received[..length], Version::V5).expect("the server writes packets") {
                Packet::ConnAck(ack) => return Some(ack.reason.0),
                other => panic!("{other:?}"),
            }
        }
        let mut more = [0; 1 << 10];
        match stream.read(&mut more) {
            Ok(0) | Err(_) => return None,
            Ok(count) => received.extend_from_slice(&more[..count]),
        }
    }
}

/// Connects with a name that tests give as its own password; `None` if the connection was ended.
fn connect(door: SocketAddr, header: &[u8], client_id: &str, user: Option<&str>) -> (TcpStream, Option<u8>) {
    let mut stream = open(door, &[header, &hello(client_id, user)].concat());
    let reason = connack(&mut stream);
    (stream, reason)
}

const DAVE: &str = r#"
[[user]]
name = "dave"
password_hash = "$argon2id$v=19$m=19456,t=2,p=1$CJt3yfrPNZBo81/EHS8ETg$vjEVQU7YS/rhzs0z9ZJeOBpXyxPFPSw8HR0Zxp2pLt0"
role = "viewer"
"#;

fn start(folder: &std::path::Path, sections: &str, more: &str) -> Server {
    Server::start(&Settings { mqtt: true, sections: format!("{sections}{DAVE}{more}"), ..Settings::new(folder) })
}

/// The rows of connected clients, asked by a balancer's own connection.
fn clients(server: &Server, first: &[u8], query: &str) -> Vec<Value> {
    let mut http = Http::over(open(server.http, first), SERVICE);
    let answer = http.get(&format!("/v1/clients{query}")).expect("the door answers");
    answer.body["clients"].as_array().unwrap_or_else(|| panic!("{answer:?}")).clone()
}

#[test]
fn mqtt_sees_the_client_behind_the_balancer() {
    let folder = folder();
    let server = start(folder.path(), EITHER, "");
    let mqtt = server.mqtt();
    let (_one, reason) = connect(mqtt, &v1("203.0.113.9"), "one", Some("dave"));
    assert_eq!(reason, Some(0));
    // A byte at a time.
    let mut two = open(mqtt, &[]);
    for byte in [v2([203, 0, 113, 10]), hello("two", Some("dave"))].concat() {
        two.write_all(&[byte]).expect("the server reads");
    }
    assert_eq!(connack(&mut two), Some(0));
    let (_own, reason) = connect(mqtt, LOCAL, "own", None);
    assert_eq!(reason, Some(0), "the balancer's own connection is one of this machine");
    let rows = clients(&server, LOCAL, "");
    let seen: Vec<_> = rows.iter().map(|row| [&row["client_id"], &row["address"]]).collect();
    assert_eq!(seen, [["one", "203.0.113.9"], ["own", "127.0.0.1"], ["two", "203.0.113.10"]], "{rows:?}");
    assert_eq!((&rows[0]["port"], &rows[2]["port"]), (&json!(40_000), &json!(40_000)));
}

#[test]
fn a_client_behind_a_proxy_of_this_machine_is_not_of_this_machine() {
    let folder = folder();
    let server = start(folder.path(), EITHER, "");
    let (_, reason) = connect(server.mqtt(), &v1("203.0.113.9"), "x", None);
    assert_eq!(reason, Some(0x87), "without credentials only programs of this machine come in");
    let (_, reason) = connect(server.mqtt(), &v1("127.0.0.1"), "x", None);
    assert_eq!(reason, Some(0));
}

#[test]
fn a_balancer_must_say_whose_connection_it_is_and_others_cannot() {
    let folder = folder();
    let server = start(folder.path(), EITHER, "");
    for first in [&[][..], b"PROXY TCP4 nonsense\r\n", b"GET / HTTP/1.1\r\n\r\n"] {
        assert_eq!(connect(server.mqtt(), first, "x", Some("dave")).1, None, "{first:?}");
    }
    let mut http = Http::over(open(server.http, LOCAL), SERVICE);
    let metrics = http.get("/metrics").expect("the door answers").body.as_str().expect("a text").to_owned();
    assert!(metrics.contains("tidegate_mqtt_turned_away_total{worker=\"0\",reason=\"proxy\"} 3"), "{metrics}");
    // From an address that is not trusted, the header is the first packet of MQTT, and none.
    let other = folder.path().join("other");
    std::fs::create_dir(&other).expect("the folder takes a folder");
    let elsewhere = EITHER.replace("127.0.0.1", "10.0.0.0/8");
    let server = start(&other, &elsewhere, "");
    assert_eq!(connect(server.mqtt(), &v1("203.0.113.9"), "x", Some("dave")).1, None);
    assert_eq!(connect(server.mqtt(), &v2([203, 0, 113, 9]), "x", Some("dave")).1, None);
    assert_eq!(connect(server.binary, &v1("203.0.113.9"), "x", None).1, None);
    assert_eq!(connect(server.mqtt(), &[], "x", Some("dave")).1, Some(0));
    for door in ["mqtt", "binary"] {
        let line = format!("PROXY header not trusted address=127.0.0.1 door=\"{door}\"");
        wait_for("the security log says so", || server.log().contains(&line).then_some(()));
    }
    assert!(server.log().contains("list it in proxy.trusted and set proxy.mqtt"), "{}", server.log());
}

#[test]
fn the_bound_of_an_address_is_the_clients_and_not_the_balancers() {
    let folder = folder();
    let bounded = format!("{EITHER}\n[mqtt]\nconnections_per_address_max = 1\n");
    let server = start(folder.path(), &bounded, "");
    let enter = |address: &str, id: &str| connect(server.mqtt(), &v1(address), id, Some("dave"));
    let first = enter("203.0.113.1", "a");
    let others: Vec<_> = (2..6).map(|n| enter(&format!("203.0.113.{n}"), &format!("b{n}"))).collect();
    assert!(others.iter().chain([&first]).all(|(_, reason)| *reason == Some(0)), "each has its own");
    assert_eq!(enter("203.0.113.1", "c").1, Some(0x97));
    // Once the first has gone, there is room again.
    drop(first);
    wait_for("the place is free", || (enter("203.0.113.1", "c").1 == Some(0)).then_some(()));
}

#[test]
fn the_binary_port_sees_the_client_behind_the_balancer() {
    let folder = folder();
    let server = start(folder.path(), EITHER, "");
    let stream = open(server.binary, &v2([203, 0, 113, 9]));
    assert!(Client::over(stream, "no-such-token").is_err());
    let line = "token refused address=203.0.113.9 door=\"binary\"";
    wait_for("the security log has the client's address", || server.log().contains(line).then_some(()));
    Client::over(open(server.binary, &v1("203.0.113.9")), SERVICE).expect("the token is good");
    assert!(Client::over(open(server.binary, &[]), SERVICE).is_err(), "it says nothing first");
}

#[test]
fn http_and_websocket_see_the_client_behind_the_balancer() {
    let folder = folder();
    let server = start(folder.path(), EITHER, "");
    for (header, address) in [(v1("203.0.113.9"), "203.0.113.9"), (v2([203, 0, 113, 10]), "203.0.113.10")] {
        let mut http = Http::over(open(server.http, &header), "no-such-token");
        assert_eq!(http.get("/v1/clients").expect("the door answers").status, 401);
        let line = format!("token refused address={address} door=\"http\"");
        wait_for("the security log has the client's address", || server.log().contains(&line).then_some(()));
    }
    assert!(Http::over(open(server.http, &[]), SERVICE).get("/healthz").is_err(), "it says nothing first");
    let _web = websocket(&server, &v1("203.0.113.9"), "", "web", Some("dave"), Some(0));
    let rows = clients(&server, LOCAL, "");
    assert_eq!(rows[0]["address"], "203.0.113.9", "{rows:?}");
    websocket(&server, &v1("203.0.113.9"), "", "anonymous", None, Some(0x87));
}

#[test]
fn an_http_proxy_names_the_client_of_each_request() {
    let folder = folder();
    let server = start(folder.path(), FORWARDED, "");
    let ask = |headers: &str| {
        let mut stream = open(server.http, &[]);
        let bad = "authorization: Bearer no-such-token";
        write!(stream, "GET /v1/clients HTTP/1.1\r\nhost: x\r\n{bad}\r\n{headers}connection: close\r\n\r\n")
            .expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers");
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    };
    let told = |address: &str| {
        let line = format!("token refused address={address} door=\"http\"");
        wait_for(&line, || server.log().contains(&line).then_some(()));
    };
    ask("x-forwarded-for: 8.8.8.8\r\nx-forwarded-for: 127.0.0.1, 203.0.113.9\r\n");
    told("203.0.113.9");
    ask("x-forwarded-for: unknown\r\n");
    told("0.0.0.0");
    ask("forwarded: for=203.0.113.77\r\n");
    told("127.0.0.1");
    assert!(!server.log().contains("8.8.8.8") && !server.log().contains("203.0.113.77"));
    // Of two clients over one connection that stays open, in requests that hyper never sees.
    let mut stream = open(server.http, &[]);
    for address in ["203.0.113.21", "203.0.113.22"] {
        let head = "POST /v1/transfers HTTP/1.1\r\nhost: x\r\nauthorization: Bearer no-such-token\r\n";
        write!(stream, "{head}x-forwarded-for: {address}\r\ncontent-length: 2\r\n\r\n{{}}").expect("the server reads");
        told(address);
    }
    let mut http = Http::connect(server.http).expect("the door is open");
    let metrics = http.get("/metrics").expect("the door answers").body.as_str().expect("a text").to_owned();
    assert!(metrics.contains("tidegate_http_forwarded_unclear_total 1"), "{metrics}");
    let _web = websocket(&server, &[], "x-forwarded-for: 203.0.113.9\r\n", "web", Some("dave"), Some(0));
    assert_eq!(clients(&server, &[], "")[0]["address"], "203.0.113.9");
    for not_of_this_machine in ["203.0.113.9", "unknown"] {
        let header = format!("x-forwarded-for: {not_of_this_machine}\r\n");
        websocket(&server, &[], &header, "anonymous", None, Some(0x87));
    }
    let _own = websocket(&server, &[], "", "own", None, Some(0));
}

/// Connects by MQTT over WebSocket and looks at the reason that it is told.
fn websocket(
    server: &Server,
    first: &[u8],
    headers: &str,
    client_id: &str,
    user: Option<&str>,
    reason: Option<u8>,
) -> TcpStream {
    let mut stream = open(server.http, first);
    write!(
        stream,
        "GET /mqtt HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n{headers}\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         sec-websocket-protocol: mqtt\r\n\r\n"
    )
    .expect("the server reads");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the server answers");
        answer.push(byte[0]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    let mut frame = Vec::new();
    encode_client_frame(Opcode::Binary, [1, 2, 3, 4], &hello(client_id, user), &mut frame);
    stream.write_all(&frame).expect("the server reads");
    // The head of a short frame of the server.
    stream.read_exact(&mut [0; 2]).expect("the server answers");
    assert_eq!(connack(&mut stream), reason, "{client_id}");
    stream
}

#[test]
fn a_word_that_nobody_may_give_is_an_error_of_the_configuration() {
    let folder = folder();
    let check = |sections: &str| {
        let settings = Settings { sections: sections.into(), ..Settings::new(folder.path()) };
        let path = settings.write().display().to_string();
        let ended = command(&["serve", "--check", "--config", &path]);
        assert!(!ended.status.success(), "{sections}: {ended}");
        ended.log
    };
    assert!(check("[proxy]\nmqtt = \"v2\"\n").contains("proxy.mqtt: no address is trusted"));
    assert!(check("[proxy]\ntrusted = [\"10.0.0.0/8\"]\n").contains("no door takes the word"));
    assert!(
        check("[proxy]\ntrusted = [\"lb.example\"]\nmqtt = \"v1\"\n").contains("\"lb.example\": expected an address")
    );
    assert!(check("[proxy]\ntrusted = [\"::1\"]\nmqtt = \"v3\"\n").contains("proxy.mqtt"));
}
