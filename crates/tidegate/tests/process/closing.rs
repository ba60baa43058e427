//! Whoever is closed by the server reads why, also while it is sending: over TCP, TLS and WebSocket, at MQTT and at the
//! binary port. And who is closed and never goes away is gone in time.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tidegate_wire::mqtt::{
    AckKind, ConnectOut, Packet, PublishOut, QoS, ReasonCode, Split, Version, decode_server, encode_ack,
    encode_connect, encode_publish, split,
};
use tidegate_wire::proto::{self, reply_frame, request_frame};
use tidegate_wire::websocket::{Opcode, encode_client_frame};
use tidegate_wire::{ReplyBodyRef, decode_reply, encode_request};

use crate::http::Http;
use crate::{PATIENCE, SERVICE, Server, Settings, folder, wait_for};

const UPGRADE: &[u8] = b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";
/// Bytes that are written before answers are looked at, by who answers as it goes.
const STEP_BYTES: usize = 16 << 10;
/// What the clients have still to send when they are closed.
const BEHIND: [usize; 3] = [0, 256 << 10, 4 << 20];
const MASK: [u8; 4] = [7, 5, 3, 1];

trait Duplex: Read + Write {}
impl<S: Read + Write> Duplex for S {}

/// How a client's bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Tcp,
    Tls,
    WebSocket,
}

const WAYS: [By; 3] = [By::Tcp, By::Tls, By::WebSocket];

/// In which order a client sends and reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    SendsFirst,
    ReadsFirst,
    AsItGoes,
}

const ORDERS: [Order; 3] = [Order::SendsFirst, Order::ReadsFirst, Order::AsItGoes];

struct Peer {
    stream: Box<dyn Duplex>,
    /// The same socket, to say whether it waits.
    tcp: TcpStream,
    by: By,
    raw: Vec<u8>,
    /// What it heard, without frames of a WebSocket.
    heard: Vec<u8>,
    saw_close_frame: bool,
}

impl Peer {
    fn connect(address: SocketAddr, by: By, trusted: &CertificateDer<'static>) -> Peer {
        let tcp = TcpStream::connect(address).expect("the door is open");
        tcp.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
        tcp.set_write_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
        tcp.set_nodelay(true).expect("a socket option");
        let mut same = tcp.try_clone().expect("a descriptor");
        let stream: Box<dyn Duplex> = match by {
            By::Tls => {
                let name = ServerName::try_from("localhost").expect("a name");
                let session = ClientConnection::new(client_config(trusted), name).expect("the configuration is right");
                Box::new(StreamOwned::new(session, tcp))
            }
            By::Tcp => Box::new(tcp),
            By::WebSocket => {
                same.write_all(UPGRADE).expect("the server reads");
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    same.read_exact(&mut byte).expect("the server answers");
                    head.push(byte[0]);
                }
                assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
                Box::new(tcp)
            }
        };
        Peer { stream, tcp: same, by, raw: Vec::new(), heard: Vec::new(), saw_close_frame: false }
    }

    fn say(&mut self, bytes: &[u8]) {
        self.try_say(bytes).expect("the server reads, or throws away");
    }

    fn try_say(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.by != By::WebSocket {
            return self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        }
        let mut frame = Vec::new();
        encode_client_frame(Opcode::Binary, MASK, bytes, &mut frame);
        self.stream.write_all(&frame)
    }

    /// Reads once. `false` at the end; a reset is none.
    fn hear(&mut self) -> std::io::Result<bool> {
        let mut more = [0; 16 << 10];
        let count = loop {
            match self.stream.read(&mut more) {
                // A signal to the process of the tests, such as of a child that has ended.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if self.by == By::WebSocket {
            self.raw.extend_from_slice(&more[..count]);
            self.take_frames();
        } else {
            self.heard.extend_from_slice(&more[..count]);
        }
        Ok(count > 0)
    }

    /// Frames of the server are short and have no mask.
    fn take_frames(&mut self) {
        while let [first, length, ..] = self.raw[..] {
            let (begin, length) = match length {
                126 if self.raw.len() >= 4 => (4, usize::from(u16::from_be_bytes([self.raw[2], self.raw[3]]))),
                126 => return,
                length => (2, usize::from(length)),
            };
            if self.raw.len() < begin + length {
                return;
            }
            let payload: Vec<u8> = self.raw.drain(..begin + length).skip(begin).collect();
            match first & 0xf {
                8 => self.saw_close_frame = true,
                _ => self.heard.extend(payload),
            }
        }
    }

    /// Reads what is there, without waiting.
    fn look(&mut self) {
        self.tcp.set_nonblocking(true).expect("a socket option");
        loop {
            match self.hear() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("the end is a {error}"),
            }
        }
        self.tcp.set_nonblocking(false).expect("a socket option");
    }

    /// Reads to the end, which is an end and no reset.
    fn read_to_end(&mut self) {
        while self.hear().unwrap_or_else(|error| panic!("the end is a {error}")) {}
        assert_eq!(self.saw_close_frame, self.by == By::WebSocket);
    }

    /// Says `first`, and so much of `filler` behind it, in this order.
    fn say_and_hear(&mut self, first: &[u8], behind: usize, filler: &[u8], order: Order) {
        let rest = filler.repeat(behind / filler.len());
        match order {
            Order::SendsFirst => {
                self.say(first);
                rest.chunks(STEP_BYTES).for_each(|chunk| self.say(chunk));
                self.read_to_end();
            }
            Order::ReadsFirst => {
                let mut all = rest.chunks(STEP_BYTES);
                self.say(&[first, all.next().unwrap_or_default()].concat());
                self.read_to_end();
                all.for_each(|chunk| _ = self.try_say(chunk));
            }
            Order::AsItGoes => {
                self.say(first);
                for chunk in rest.chunks(STEP_BYTES) {
                    self.say(chunk);
                    self.look();
                }
                self.read_to_end();
            }
        }
    }

    /// The reason of the last packet, which is CONNACK or DISCONNECT.
    fn reason(&self) -> u8 {
        let (mut rest, mut last) = (&self.heard[..], None);
        while let Split::Packet(length) = split(rest, u32::MAX).expect("the server writes packets") {
            last = match decode_server(&rest[..length], Version::V5).expect("the server writes packets") {
                Packet::Disconnect(goodbye) => Some(goodbye.reason),
                Packet::ConnAck(connack) => Some(connack.reason),
                _ => None,
            };
            rest = &rest[length..];
        }
        assert!(rest.is_empty(), "whole packets");
        last.unwrap_or_else(|| panic!("no reason came: {:02x?}", self.heard)).0
    }
}

fn client_config(trusted: &CertificateDer<'static>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(builder.expect("the provider has them").with_root_certificates(roots).with_no_client_auth())
}

fn connect(client_id: &str, password: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    let user_name = password.map(|_| "nobody");
    let connect = ConnectOut { client_id, clean_start: true, user_name, password, ..ConnectOut::default() };
    encode_connect(&mut out, Version::V5, &connect);
    out
}

fn publish(packet_id: u16) -> Vec<u8> {
    let mut out = Vec::new();
    let publish = PublishOut { topic: "t", qos: QoS::ExactlyOnce, packet_id, payload: b"x", ..PublishOut::default() };
    encode_publish(&mut out, Version::V5, &publish);
    out
}

/// What ends a connection, and with which reason.
fn errors() -> Vec<(&'static str, Vec<u8>, u8)> {
    let behind_connect = |bytes: &[u8]| [&connect("closed", None), bytes].concat();
    let flood: Vec<u8> = (1..=1_025).flat_map(publish).collect();
    vec![
        ("a malformed packet", behind_connect(&[0x36, 2, 0, 0]), 0x81),
        ("a packet that is too large", behind_connect(&[0x30, 0xff, 0xff, 0xff, 0x7f]), 0x95),
        ("a second CONNECT", behind_connect(&connect("closed", None)), 0x82),
        ("more than the receive maximum", behind_connect(&flood), 0x93),
        ("topic alias 0", behind_connect(&[0x30, 7, 0, 1, b't', 3, 0x23, 0, 0]), 0x94),
        ("a password that is none", connect("closed", Some(&[0xff])), 0x86),
    ]
}

struct Doors {
    server: Server,
    certificate: CertificateDer<'static>,
    _folder: tempfile::TempDir,
}

impl Doors {
    fn open(more: &str) -> Doors {
        let folder = folder();
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        fs::write(&cert, signed.cert.pem()).expect("the folder takes a file");
        fs::write(&key, signed.signing_key.serialize_pem()).expect("the folder takes a file");
        let sections = format!(
            "[tls]\ncert_file = \"{}\"\nkey_file = \"{}\"\n[listener.mqtts]\nanonymous = true\n\
             [listener.websocket]\nanonymous = true\n{more}\n",
            cert.display(),
            key.display()
        );
        let mqtts = "127.0.0.1:0".to_owned();
        let settings = Settings { mqtt: true, mqtts, workers: 2, sections, ..Settings::new(folder.path()) };
        let certificate = signed.cert.der().clone();
        Doors { server: Server::start(&settings), certificate, _folder: folder }
    }

    fn peer(&self, by: By) -> Peer {
        let address = match by {
            By::Tcp => self.server.mqtt(),
            By::Tls => self.server.mqtts(),
            By::WebSocket => self.server.http,
        };
        Peer::connect(address, by, &self.certificate)
    }
}

fn each_reason_arrives(by: By, behind: &[usize]) {
    let doors = Doors::open("");
    for (what, bytes, reason) in errors() {
        for (behind, order) in behind.iter().flat_map(|behind| ORDERS.map(|order| (*behind, order))) {
            let mut peer = doors.peer(by);
            // PINGREQ, again and again.
            peer.say_and_hear(&bytes, behind, &[0xc0, 0], order);
            assert_eq!(peer.reason(), reason, "{what}, {behind} bytes behind it, {order:?}");
        }
    }
}

#[test]
fn each_reason_arrives_over_tcp() {
    each_reason_arrives(By::Tcp, &BEHIND);
}

#[test]
fn each_reason_arrives_over_tls() {
    each_reason_arrives(By::Tls, &BEHIND);
}

#[test]
fn each_reason_arrives_over_websocket() {
    each_reason_arrives(By::WebSocket, &BEHIND);
}

/// A client that floods and answers each PUBREC as it comes reads why it is closed, each time.
#[test]
fn who_answers_as_it_goes_reads_why_it_is_closed() {
    let doors = Doors::open("");
    let flood: Vec<u8> = (1..=1_025).flat_map(publish).collect();
    for round in 0..50 {
        let mut peer = doors.peer(By::Tcp);
        peer.say(&connect("flood", None));
        peer.say(&flood);
        let (mut answered, mut reason) = (0, None);
        while reason.is_none() {
            assert!(peer.hear().expect("no reset"), "round {round}: it ends without a reason");
            while let Ok(Split::Packet(length)) = split(&peer.heard[answered..], u32::MAX) {
                let packet = &peer.heard[answered..answered + length];
                answered += length;
                match decode_server(packet, Version::V5).expect("the server writes packets") {
                    Packet::PubRec(ack) => {
                        let mut answer = Vec::new();
                        encode_ack(&mut answer, Version::V5, AckKind::PubRel, ack.packet_id, ReasonCode::SUCCESS, None);
                        // Who cannot be written to any more gives up.
                        peer.stream.write_all(&answer).unwrap_or_else(|error| panic!("round {round}: {error}"));
                    }
                    Packet::Disconnect(goodbye) => reason = Some(goodbye.reason.0),
                    _ => {}
                }
            }
        }
        assert_eq!(reason, Some(0x93));
    }
}

/// A client that still sends reads that another has its session.
#[test]
fn who_is_taken_over_reads_so_while_it_sends() {
    let doors = Doors::open("");
    for (by, behind) in WAYS.into_iter().flat_map(|by| BEHIND.map(|behind| (by, behind))) {
        let mut old = doors.peer(by);
        old.say(&connect("one", None));
        assert!(old.hear().expect("it is let in"));
        let mut new = doors.peer(By::Tcp);
        new.say(&connect("one", None));
        assert!(new.hear().expect("it is let in"));
        old.say_and_hear(&[], behind, &[0xc0, 0], Order::SendsFirst);
        assert_eq!(old.reason(), 0x8e, "{by:?}, {behind} bytes");
    }
}

/// A client that is one too many reads so, also when it has sent more than its CONNECT.
#[test]
fn who_is_one_too_many_reads_so_while_it_sends() {
    let tries: Vec<(By, usize)> =
        [By::Tcp, By::Tls].into_iter().flat_map(|by| BEHIND.map(|behind| (by, behind))).collect();
    // As many are told as there may be: also those whose end the server has not seen yet.
    let places = tries.len();
    let doors = Doors::open(&format!("[mqtt]\nconnections_per_address_max = {places}\n"));
    // Each has heard that it is in: sockets are not accepted in the order in which they are connected.
    let connected = |place: usize| {
        let mut peer = doors.peer(By::Tcp);
        peer.say(&connect(&format!("client {place}"), None));
        assert!(peer.hear().expect("it is let in"));
        peer
    };
    let _all: Vec<Peer> = (0..places).map(connected).collect();
    for (by, behind) in tries {
        let mut other = doors.peer(by);
        other.say_and_hear(&connect("one too many", None), behind, &[0xc0, 0], Order::SendsFirst);
        assert_eq!(other.reason(), 0x97, "{by:?}, {behind} bytes");
    }
}

fn hello(token: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_request(&mut frame, 1, request_frame::Body::Hello(proto::Hello { token: token.into() }));
    frame
}

/// The same at the binary port: the last reply is the error.
#[test]
fn whoever_the_binary_port_closes_reads_why() {
    let doors = Doors::open("");
    let too_large = [&hello(SERVICE)[..], &[0xff, 0xff, 0xff, 0x7f]].concat();
    for (what, bytes, code) in
        [("a wrong token", hello("guess"), "unauthenticated"), ("a frame too large", too_large, "frame_too_large")]
    {
        for (behind, order) in BEHIND.into_iter().flat_map(|behind| ORDERS.map(|order| (behind, order))) {
            let mut peer = Peer::connect(doors.server.binary, By::Tcp, &doors.certificate);
            peer.say_and_hear(&bytes, behind, &[2, 0x08, 7], order);
            let (mut rest, mut last) = (&peer.heard[..], String::new());
            while let Ok(tidegate_wire::Split::Frame(range)) = tidegate_wire::split(rest, usize::MAX) {
                let reply = decode_reply(&rest[range.clone()]).expect("the server writes frames");
                if let ReplyBodyRef::Other(reply_frame::Body::Error(error)) = reply.body {
                    last = error.code;
                }
                rest = &rest[range.end..];
            }
            assert_eq!(last, code, "{what}, {behind} bytes behind it, {order:?}");
        }
    }
}

/// Who is closed and stays holds its place for some seconds, and is gone then.
#[test]
fn who_is_closed_and_never_goes_away_is_gone_in_time() {
    let doors = Doors::open("");
    let lingering = || {
        let text = Http::connect(doors.server.http).and_then(|mut http| http.get("/metrics")).expect("it answers").body;
        let text = text.as_str().expect("a text").to_owned();
        let of = text.lines().filter(|line| line.starts_with("tidegate_mqtt_sockets_lingering{"));
        of.map(|line| line.rsplit_once(' ').expect("a value").1.parse::<f64>().expect("a number")).sum::<f64>()
    };
    let peers: Vec<Peer> = (0..20)
        .map(|_| {
            let mut peer = doors.peer(By::Tcp);
            peer.say(&[0x36, 2, 0, 0]);
            peer
        })
        .collect();
    wait_for("all are closed and stay", || (lingering() == 20.0).then_some(()));
    wait_for("they are gone", || (lingering() == 0.0).then_some(()));
    drop(peers);
}
