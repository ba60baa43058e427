//! A client of a script: turns commands into packets, and packets into lines.

use tidegate_broker::ConnectionKey;
use tidegate_wire::mqtt::{
    self, AckKind, ConnectOut, Packet, PublishOut, QoS, ReasonCode, Split, SubscriptionOut, Version, WillOut,
};

use super::script::Words;
use super::show::{show, why};

/// One connection, from the client's side.
pub struct Client {
    pub worker: usize,
    pub key: Option<ConnectionKey>,
    pub version: Version,
    pub stalled: bool,
    pub has_greeted: bool,
    auto: bool,
    asks_why: bool,
    packet_id: u16,
    received: Vec<u8>,
}

impl Client {
    pub fn new(worker: usize) -> Client {
        Client {
            worker,
            key: None,
            version: Version::V5,
            stalled: false,
            has_greeted: false,
            auto: false,
            asks_why: false,
            packet_id: 0,
            received: Vec::new(),
        }
    }

    /// The bytes of a command.
    pub fn packet(&mut self, name: &str, verb: &str, mut words: Words<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        match verb {
            "CONNECT" => self.connect(name, words, &mut out),
            "open" => {
                self.version = if words.has("v3") { Version::V311 } else { Version::V5 };
                words.end();
            }
            "SUBSCRIBE" => self.subscribe(words, &mut out),
            "UNSUBSCRIBE" => {
                let packet_id = self.packet_id(&mut words);
                mqtt::encode_unsubscribe(&mut out, self.version, packet_id, &words.rest());
            }
            "PUBLISH" => self.publish(words, &mut out),
            "PUBACK" => self.ack(AckKind::PubAck, words, &mut out),
            "PUBREC" => self.ack(AckKind::PubRec, words, &mut out),
            "PUBREL" => self.ack(AckKind::PubRel, words, &mut out),
            "PUBCOMP" => self.ack(AckKind::PubComp, words, &mut out),
            "PING" => mqtt::encode_pingreq(&mut out),
            "DISCONNECT" => {
                let expiry_s = words.number("expiry");
                let reason = ReasonCode(words.rest().first().map_or(0, |code| hex(code)));
                mqtt::encode_disconnect(&mut out, self.version, reason, expiry_s, None, None);
            }
            "AUTH" => mqtt::encode::encode_auth(&mut out, ReasonCode::REAUTHENTICATE, words.first(), None),
            "HEX" => out.extend(words.rest().into_iter().map(hex)),
            "auto" => {
                self.auto = true;
                words.end();
            }
            other => panic!("no client does {other}"),
        }
        out
    }

    fn packet_id(&mut self, words: &mut Words<'_>) -> u16 {
        if let Some(id) = words.number("id") {
            return id as u16;
        }
        self.packet_id += 1;
        self.packet_id
    }

    fn connect(&mut self, name: &str, mut words: Words<'_>, out: &mut Vec<u8>) {
        self.version = if words.has("v3") { Version::V311 } else { Version::V5 };
        self.asks_why = words.has("why");
        let will = words.value("will");
        let parts: Vec<&str> = will.map(|will| will.split(',').collect()).unwrap_or_default();
        let option =
            |name: &str| parts.iter().find_map(|part| part.strip_prefix(name)).map(|text| text.parse::<u32>().unwrap());
        let will = will.map(|_| WillOut {
            topic: parts[0],
            payload: parts.get(1).unwrap_or(&"").as_bytes(),
            qos: QoS::of(option("qos=").unwrap_or(0) as u8).unwrap(),
            retain: parts.contains(&"retain"),
            delay_s: option("delay="),
            message_expiry_s: option("expiry="),
            properties: &[],
        });
        let user_name = words.value("user");
        let connect = ConnectOut {
            clean_start: !words.has("keep"),
            keep_alive_s: words.number("keepalive").unwrap_or(0) as u16,
            client_id: words.value("id").unwrap_or(name),
            will,
            user_name,
            password: user_name.map(str::as_bytes),
            session_expiry_s: words.number("expiry"),
            receive_maximum: words.number("recv").map(|number| number as u16),
            packet_bytes_max: words.number("max"),
            topic_alias_maximum: words.number("alias").map(|number| number as u16),
            request_problem_information: words.has("noproblem").then_some(false),
            authentication_method: words.value("method"),
            ..ConnectOut::default()
        };
        mqtt::encode_connect(out, self.version, &connect);
        words.end();
    }

    fn subscribe(&mut self, mut words: Words<'_>, out: &mut Vec<u8>) {
        let packet_id = self.packet_id(&mut words);
        let qos = QoS::of(words.number("qos").unwrap_or(0) as u8).unwrap();
        let (no_local, retain_as_published) = (words.has("nl"), words.has("rap"));
        let retain_handling = words.number("rh").unwrap_or(0) as u8;
        let subscription_id = words.number("sid");
        if let Some(after) = words.value("after") {
            let mut block = Vec::new();
            mqtt::encode::push_user_property(&mut block, "after", after);
            let mut rest = vec![(packet_id >> 8) as u8, packet_id as u8, block.len() as u8];
            rest.extend(block);
            for filter in words.rest() {
                rest.extend((filter.len() as u16).to_be_bytes());
                rest.extend(filter.as_bytes());
                rest.push(qos as u8);
            }
            out.extend([0x82, rest.len() as u8]);
            return out.extend(rest);
        }
        let subscriptions: Vec<SubscriptionOut<'_>> = words
            .rest()
            .into_iter()
            .map(|filter| SubscriptionOut { filter, qos, no_local, retain_as_published, retain_handling })
            .collect();
        mqtt::encode_subscribe(out, self.version, packet_id, subscription_id, &subscriptions);
    }

    fn publish(&mut self, mut words: Words<'_>, out: &mut Vec<u8>) {
        let qos = QoS::of(words.number("qos").unwrap_or(0) as u8).unwrap();
        let packet_id = if qos == QoS::AtMostOnce { 0 } else { self.packet_id(&mut words) };
        let mut properties = Vec::new();
        let text = |properties: &mut Vec<u8>, id: u8, text: &str| {
            properties.push(id);
            properties.extend((text.len() as u16).to_be_bytes());
            properties.extend(text.as_bytes());
        };
        if let Some(topic) = words.value("response") {
            text(&mut properties, 0x08, topic);
        }
        if let Some(data) = words.value("correlation") {
            text(&mut properties, 0x09, data);
        }
        if let Some((name, value)) = words.value("up").and_then(|pair| pair.split_once('=')) {
            mqtt::encode::push_user_property(&mut properties, name, value);
        }
        let (retain, dup) = (words.has("retain"), words.has("dup"));
        let (topic_alias, message_expiry_s) = (words.number("alias").map(|alias| alias as u16), words.number("expiry"));
        let rest = words.rest();
        let topic = if rest[0] == "-" { "" } else { rest[0] };
        let payload = rest[1..].join(" ");
        let publish = PublishOut {
            dup,
            qos,
            retain,
            topic,
            packet_id,
            topic_alias,
            message_expiry_s,
            subscription_ids: &[],
            properties: &properties,
            payload: payload.as_bytes(),
        };
        mqtt::encode_publish(out, self.version, &publish);
    }

    fn ack(&mut self, kind: AckKind, mut words: Words<'_>, out: &mut Vec<u8>) {
        let packet_id = words.first().parse().expect("a packet id");
        let reason = ReasonCode(words.rest().first().map_or(0, |code| hex(code)));
        mqtt::encode_ack(out, self.version, kind, packet_id, reason, None);
    }

    /// Bytes from the server: a line for each packet, and what the client answers of itself.
    pub fn hear(&mut self, bytes: &[u8]) -> (Vec<String>, Vec<u8>) {
        self.received.extend_from_slice(bytes);
        let (mut lines, mut answers, mut taken) = (Vec::new(), Vec::new(), 0);
        while let Split::Packet(length) = mqtt::split(&self.received[taken..], u32::MAX).expect("servers write packets")
        {
            let packet = mqtt::decode_server(&self.received[taken..taken + length], self.version)
                .unwrap_or_else(|error| panic!("the server wrote {:02x?}: {error}", &self.received[taken..]));
            let why = why(&packet).filter(|_| self.asks_why).map_or(String::new(), |words| format!(" why={words}"));
            lines.push(show(&packet) + &why);
            if self.auto {
                self.acknowledge(&packet, &mut answers);
            }
            taken += length;
        }
        self.received.drain(..taken);
        (lines, answers)
    }

    fn acknowledge(&self, packet: &Packet<'_>, out: &mut Vec<u8>) {
        let (kind, packet_id) = match packet {
            Packet::Publish(publish) => match publish.qos {
                QoS::AtMostOnce => return,
                QoS::AtLeastOnce => (AckKind::PubAck, publish.packet_id),
                QoS::ExactlyOnce => (AckKind::PubRec, publish.packet_id),
            },
            Packet::PubRec(ack) => (AckKind::PubRel, ack.packet_id),
            Packet::PubRel(ack) => (AckKind::PubComp, ack.packet_id),
            _ => return,
        };
        mqtt::encode_ack(out, self.version, kind, packet_id, ReasonCode::SUCCESS, None);
    }
}

fn hex(text: &str) -> u8 {
    u8::from_str_radix(text.trim_start_matches("0x"), 16).expect("a byte in hex")
}
