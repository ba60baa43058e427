//! The timers of MQTT while the wall clock of the host is stepped, by a minute and a half and by ten years, both ways:
//! nobody who speaks is cut off, nothing comes or ends early, and nothing that is bounded by time stands still.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tidegate_wire::mqtt::{
    AckKind, ConnectOut, Packet, PublishOut, QoS, ReasonCode, Split, SubscriptionOut, Version, WillOut, decode_server,
    encode_ack, encode_connect, encode_pingreq, encode_publish, encode_subscribe, split,
};

use super::{WallClock, YEARS_10_S, jumps};
use crate::{Server, Settings, folder, wait_for};

/// How long the timers of each step have: keep-alive, handshake, a rate, figures on `$SYS`.
const STEP_PATIENCE: Duration = Duration::from_secs(20);

/// A client over a socket.
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    /// What came and was not asked for yet: publications by topic, and answers by their first word.
    heard: Vec<String>,
    is_closed: bool,
}

impl Client {
    pub fn connect(server: &Server, connect: &ConnectOut<'_>) -> Client {
        let mut client = Client::silent(server);
        client.say(|out| encode_connect(out, Version::V5, connect));
        client.must_hear("CONNACK");
        client
    }

    /// One that does not greet.
    fn silent(server: &Server) -> Client {
        let stream = TcpStream::connect(server.mqtt()).expect("the door is open");
        stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket option");
        Client { stream, received: Vec::new(), heard: Vec::new(), is_closed: false }
    }

    fn say(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        encode(&mut out);
        self.stream.write_all(&out).expect("the server reads");
    }

    pub fn subscribe(&mut self, filter: &str, qos: QoS) {
        let wanted = [SubscriptionOut { filter, qos, ..SubscriptionOut::default() }];
        self.say(|out| encode_subscribe(out, Version::V5, 9, None, &wanted));
        self.must_hear("SUBACK");
    }

    fn publish(&mut self, topic: &str, packet_id: u16, payload: &[u8], message_expiry_s: Option<u32>) {
        let qos = QoS::AtLeastOnce;
        let publish = PublishOut { topic, qos, packet_id, payload, message_expiry_s, ..PublishOut::default() };
        self.say(|out| {
            encode_publish(out, Version::V5, &publish);
        });
    }

    /// Takes what has come.
    fn listen(&mut self) {
        let mut chunk = vec![0; 256 << 10];
        match self.stream.read(&mut chunk) {
            Ok(0) => self.is_closed = true,
            Ok(count) => self.received.extend_from_slice(&chunk[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => self.is_closed = true,
        }
        while let Split::Packet(length) = split(&self.received, u32::MAX).expect("the server writes packets") {
            let packet: Vec<u8> = self.received.drain(..length).collect();
            let (mut heard, mut taken) = (String::new(), None);
            match decode_server(&packet, Version::V5).expect("the server writes packets") {
                Packet::ConnAck(ack) => heard = format!("CONNACK {} {:?}", ack.session_present, ack.reason),
                Packet::SubAck(ack) => {
                    assert!(ack.reasons().all(|reason| !reason.is_error()), "what is subscribed to is allowed");
                    "SUBACK".clone_into(&mut heard);
                }
                Packet::PubAck(ack) => heard = format!("PUBACK {:?}", ack.reason),
                Packet::PingResp => "PINGRESP".clone_into(&mut heard),
                Packet::Disconnect(goodbye) => heard = format!("DISCONNECT {:?}", goodbye.reason),
                Packet::Publish(publish) => {
                    heard = format!("PUBLISH {}", publish.topic);
                    taken = Some(publish.packet_id).filter(|id| *id > 0);
                }
                other => panic!("{other:?}"),
            }
            self.heard.push(heard);
            if let Some(id) = taken {
                self.say(|out| encode_ack(out, Version::V5, AckKind::PubAck, id, ReasonCode::SUCCESS, None));
            }
        }
    }

    /// How much was heard that begins with these words; it is forgotten.
    pub fn take(&mut self, words: &str) -> usize {
        self.listen();
        let before = self.heard.len();
        self.heard.retain(|heard| !heard.starts_with(words));
        before - self.heard.len()
    }

    fn must_hear(&mut self, words: &str) {
        wait_for(words, || (self.take(words) > 0).then_some(()));
    }
}

fn named(client_id: &str) -> ConnectOut<'_> {
    ConnectOut { client_id, clean_start: true, ..ConnectOut::default() }
}

#[test]
fn steps_of_the_wall_clock_move_no_timer_of_mqtt() {
    let folder = folder();
    let sections = "[mqtt]\nhandshake_timeout_ms = 700\npublishes_per_s = 20\nsys_interval_s = 1\n\
                    pressure_bytes_max = 1048576\noutbox_bytes_max = 2097152\n\n\
                    [[acl]]\neffect = \"permit\"\nrole = \"anonymous\"\ntopics = [\"$SYS/#\"]\n";
    let mut settings = Settings { mqtt: true, sections: sections.into(), ..Settings::new(folder.path()) };
    let clock = WallClock::of(&mut settings);
    let server = Server::start(&settings);

    // What lasts or waits for five minutes.
    let durable = |client_id| ConnectOut { session_expiry_s: Some(300), ..named(client_id) };
    let mut away = Client::connect(&server, &durable("away"));
    away.subscribe("waits", QoS::AtLeastOnce);
    drop(away);
    let will = WillOut { topic: "later/will", delay_s: Some(300), ..WillOut::default() };
    drop(Client::connect(&server, &ConnectOut { will: Some(will), ..durable("gone") }));
    let mut publisher = Client::connect(&server, &named("publisher"));
    publisher.publish("waits", 1, b"x", Some(300));
    publisher.publish("$delayed/300/later/delayed", 2, b"x", None);
    wait_for("both are taken", || (publisher.take("PUBACK") > 0 && publisher.heard.is_empty()).then_some(()));

    let mut listener = Client::connect(&server, &named("listener"));
    listener.subscribe("later/#", QoS::AtMostOnce);
    listener.subscribe("$SYS/broker/uptime", QoS::AtMostOnce);
    let mut speaker = Client::connect(&server, &ConnectOut { keep_alive_s: 10, ..named("speaker") });
    let mut stuck = Client::connect(&server, &named("stuck"));
    stuck.subscribe("load", QoS::AtMostOnce);

    for (nth, ahead_s) in [90, YEARS_10_S, 0, -90, -YEARS_10_S, 0].into_iter().enumerate() {
        clock.set_ahead(ahead_s);
        wait_for("the step is logged", || (jumps(&server) == nth + 1).then_some(()));
        let mut stranger = Client::silent(&server);
        let mut sleeper = Client::connect(&server, &ConnectOut { keep_alive_s: 1, ..named("sleeper") });
        // More than the rate allows at once, and more for the one that is stuck than the bound of pressure.
        (1..=25).for_each(|id| publisher.publish("load", id, &vec![b'x'; 60 << 10], None));
        listener.take("PUBLISH $SYS");
        let (began, mut acknowledged, mut told, mut was_cut) = (Instant::now(), 0, 0, 0);
        while acknowledged < 25 || told < 2 || !stranger.is_closed || !sleeper.is_closed {
            let state = (acknowledged, told, stranger.is_closed, sleeper.is_closed);
            assert!(began.elapsed() < STEP_PATIENCE, "a timer stands still {ahead_s} s ahead: {state:?}");
            speaker.say(|out| {
                encode_pingreq(out);
            });
            acknowledged += publisher.take("PUBACK");
            told += listener.take("PUBLISH $SYS");
            stranger.listen();
            was_cut += sleeper.take("DISCONNECT 0x8d");
            speaker.take("PINGRESP");
        }
        assert_eq!(was_cut, 1, "whoever is silent is told why: {:?}", sleeper.heard);
        assert!(began.elapsed() > Duration::from_secs(1), "a keep alive is not over at once");
        for client in [&mut speaker, &mut publisher, &mut listener] {
            client.listen();
            assert!(!client.is_closed, "who speaks is cut off {ahead_s} s ahead: {:?}", client.heard);
        }
        assert_eq!(listener.take("PUBLISH later"), 0, "what is due in five minutes came {ahead_s} s ahead");
    }

    let mut away = Client::connect(&server, &ConnectOut { clean_start: false, ..durable("away") });
    wait_for("its session and its message are there", || (away.take("PUBLISH waits") == 1).then_some(()));
    assert!(server.terminate().status.success());
}
