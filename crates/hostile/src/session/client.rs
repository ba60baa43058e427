//! One connection from the client's side: checks that the broker keeps the protocol's rules.

use tidegate_broker::ConnectionKey;
use tidegate_wire::mqtt::*;

/// See the module's description.
pub struct Client {
    /// The worker that has its connection, and the connection there, if it is open.
    pub worker: usize,
    pub key: Option<ConnectionKey>,
    /// In which version the script encodes its packets.
    pub packets_version: Version,
    /// Reads nothing.
    pub is_stalled: bool,
    /// Bytes that it reads at a time.
    pub sip: usize,
    /// Bytes in which its packets arrive.
    pub piece: usize,
    /// Acknowledges what it gets, as it should.
    pub answers: bool,
    /// A place in the next packet, and what is XORed there.
    pub spoil: Option<(u8, u8)>,
    /// Sent, and still in the socket.
    pub waiting: Vec<u8>,
    /// Publications that it got, for the witnesses.
    pub payloads: Vec<Vec<u8>>,
    pub acknowledged: usize,
    said: Vec<u8>,
    heard: Vec<u8>,
    promised: Option<Promised>,
    greeted: bool,
}

/// What its CONNECT said.
#[derive(Clone, Copy)]
struct Promised {
    version: Version,
    packet_bytes_max: usize,
    aliases_max: u16,
}

impl Client {
    /// One without a connection.
    pub fn new() -> Client {
        Client {
            worker: 0,
            key: None,
            packets_version: Version::V5,
            is_stalled: false,
            sip: usize::MAX,
            piece: usize::MAX,
            answers: false,
            spoil: None,
            waiting: Vec::new(),
            payloads: Vec::new(),
            acknowledged: 0,
            said: Vec::new(),
            heard: Vec::new(),
            promised: None,
            greeted: false,
        }
    }

    /// A new connection of the same client, which keeps its settings.
    pub fn opened(&mut self, worker: usize, key: ConnectionKey) {
        (self.worker, self.key) = (worker, Some(key));
        self.closed_buffers();
    }

    /// The connection is over.
    pub fn closed(&mut self) {
        self.key = None;
        self.closed_buffers();
    }

    fn closed_buffers(&mut self) {
        (self.promised, self.greeted) = (None, false);
        [&mut self.waiting, &mut self.said, &mut self.heard].into_iter().for_each(Vec::clear);
    }

    /// What the broker has read. The first packet decides which rules hold for the rest.
    pub fn was_read(&mut self, bytes: &[u8]) {
        if self.promised.is_some() || self.greeted {
            return;
        }
        self.said.extend_from_slice(bytes);
        if let Ok(Split::Packet(length)) = split(&self.said, u32::MAX)
            && let Ok(connect) = decode_connect(&self.said[..length])
        {
            self.promised = Some(Promised {
                version: connect.version,
                packet_bytes_max: connect.packet_bytes_max.map_or(usize::MAX, |max| max as usize),
                aliases_max: connect.topic_alias_maximum,
            });
        }
    }

    /// Bytes from the broker: all must be what this client can read. What it says to them, if it does.
    pub fn hear(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
        let heard = std::mem::take(&mut self.heard);
        let mut taken = 0;
        while let Split::Packet(length) = split(&heard[taken..], u32::MAX).expect("a broker writes packets") {
            let packet = &heard[taken..taken + length];
            // Who never said a version is refused in any.
            match self.promised {
                Some(Promised { version, .. }) => {
                    let decoded = decode_server(packet, version);
                    self.take(&decoded.unwrap_or_else(|error| panic!("{packet:02x?}: {error}")), version, length);
                }
                None => {
                    let is_refusal = |version| match decode_server(packet, version) {
                        Ok(Packet::ConnAck(connack)) => connack.reason.is_error(),
                        _ => false,
                    };
                    assert!([Version::V311, Version::V5].into_iter().any(is_refusal), "{packet:02x?} to a stranger");
                    self.greeted = true;
                }
            }
            taken += length;
        }
        self.heard = heard[taken..].to_vec();
    }

    fn take(&mut self, packet: &Packet<'_>, version: Version, length: usize) {
        let promised = self.promised.expect("it has said CONNECT");
        // [MQTT-3.2.0-1]: CONNACK is the first packet. [MQTT-3.2.0-2]: The server sends it only once.
        assert_eq!(matches!(packet, Packet::ConnAck(_)), !self.greeted, "{packet:?}");
        self.greeted = true;
        match packet {
            Packet::Publish(publish) => {
                assert!(length <= promised.packet_bytes_max, "a PUBLISH of {length} bytes");
                assert!(publish.properties.topic_alias.is_none_or(|alias| (1..=promised.aliases_max).contains(&alias)));
                self.payloads.push(publish.payload.to_vec());
                match publish.qos {
                    QoS::AtMostOnce => {}
                    QoS::AtLeastOnce => self.answer(AckKind::PubAck, publish.packet_id, version),
                    QoS::ExactlyOnce => self.answer(AckKind::PubRec, publish.packet_id, version),
                }
            }
            Packet::PubRec(ack) if !ack.reason.is_error() => self.answer(AckKind::PubRel, ack.packet_id, version),
            Packet::PubRel(ack) => self.answer(AckKind::PubComp, ack.packet_id, version),
            Packet::PubAck(_) | Packet::PubComp(_) => self.acknowledged += 1,
            _ => {}
        }
    }

    fn answer(&mut self, kind: AckKind, packet_id: u16, version: Version) {
        if self.answers {
            encode_ack(&mut self.waiting, version, kind, packet_id, ReasonCode::SUCCESS, None);
        }
    }

    /// The next bytes that arrive.
    pub fn next_piece(&mut self) -> Vec<u8> {
        let count = self.piece.min(self.waiting.len());
        self.waiting.drain(..count).collect()
    }
}
