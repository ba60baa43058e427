//! Decodes a packet of any type, and checks that its sender may send it.

use crate::mqtt::fixed_header::{kind, open};
use crate::mqtt::reader::Reader;
use crate::mqtt::{
    Ack, AckKind, Auth, ConnAck, Disconnect, Malformed, Publish, SubAck, Subscribe, UnsubAck, Unsubscribe, Version,
    publish,
};

/// A packet, borrowed from its bytes. CONNECT is not among them: it is the first packet or wrong, and
/// [`crate::mqtt::decode_connect`] reads the first one.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the packets' names are MQTT's")]
pub enum Packet<'a> {
    ConnAck(ConnAck<'a>),
    Publish(Publish<'a>),
    PubAck(Ack<'a>),
    PubRec(Ack<'a>),
    PubRel(Ack<'a>),
    PubComp(Ack<'a>),
    Subscribe(Subscribe<'a>),
    SubAck(SubAck<'a>),
    Unsubscribe(Unsubscribe<'a>),
    UnsubAck(UnsubAck<'a>),
    PingReq,
    PingResp,
    Disconnect(Disconnect<'a>),
    Auth(Auth<'a>),
}

/// Decodes a packet that [`crate::mqtt::split`] found, as a client may send it after its CONNECT.
#[inline]
pub fn decode_client(packet: &[u8], version: Version) -> Result<Packet<'_>, Malformed> {
    // First what a broker reads most.
    if packet.first().is_some_and(|first| first >> 4 == kind::PUBLISH) {
        return publish::decode(packet, version, true).map(Packet::Publish);
    }
    let (first, body) = open(packet, Some(version))?;
    match first >> 4 {
        kind::SUBSCRIBE => Subscribe::decode(body, version).map(Packet::Subscribe),
        kind::UNSUBSCRIBE => Unsubscribe::decode(body, version).map(Packet::Unsubscribe),
        kind::PINGREQ => Reader::new(body).end().map(|()| Packet::PingReq),
        kind::CONNECT => Err(Malformed::protocol("MQTT-3.1.0-2", "a second CONNECT")),
        kind::CONNACK | kind::SUBACK | kind::UNSUBACK | kind::PINGRESP => {
            Err(Malformed::protocol("MQTT5 2.1.2", "a packet that only servers send"))
        }
        other => decode_either(other, body, version, true),
    }
}

/// The same of a SUBSCRIBE or UNSUBSCRIBE that was decoded before and is still in front: its filters, which are long to
/// check, are not checked again. Other packets are decoded as ever.
pub fn decode_client_again(packet: &[u8], version: Version) -> Result<Packet<'_>, Malformed> {
    let (first, body) = open(packet, Some(version))?;
    match first >> 4 {
        kind::SUBSCRIBE => Subscribe::decode_again(body, version).map(Packet::Subscribe),
        kind::UNSUBSCRIBE => Unsubscribe::decode_again(body, version).map(Packet::Unsubscribe),
        _ => decode_client(packet, version),
    }
}

/// Decodes a packet that [`crate::mqtt::split`] found, as a server may send it.
#[inline]
pub fn decode_server(packet: &[u8], version: Version) -> Result<Packet<'_>, Malformed> {
    if packet.first().is_some_and(|first| first >> 4 == kind::PUBLISH) {
        return publish::decode(packet, version, false).map(Packet::Publish);
    }
    let (first, body) = open(packet, Some(version))?;
    match first >> 4 {
        kind::CONNACK => ConnAck::decode(body, version).map(Packet::ConnAck),
        kind::SUBACK => SubAck::decode(body, version).map(Packet::SubAck),
        kind::UNSUBACK => UnsubAck::decode(body, version).map(Packet::UnsubAck),
        kind::PINGRESP => Reader::new(body).end().map(|()| Packet::PingResp),
        kind::CONNECT | kind::SUBSCRIBE | kind::UNSUBSCRIBE | kind::PINGREQ => {
            Err(Malformed::protocol("MQTT5 2.1.2", "a packet that only clients send"))
        }
        other => decode_either(other, body, version, false),
    }
}

/// The packets that both sides send.
fn decode_either(kind: u8, body: &[u8], version: Version, from_client: bool) -> Result<Packet<'_>, Malformed> {
    match kind {
        kind::PUBACK => Ack::decode(body, version, AckKind::PubAck).map(Packet::PubAck),
        kind::PUBREC => Ack::decode(body, version, AckKind::PubRec).map(Packet::PubRec),
        kind::PUBREL => Ack::decode(body, version, AckKind::PubRel).map(Packet::PubRel),
        kind::PUBCOMP => Ack::decode(body, version, AckKind::PubComp).map(Packet::PubComp),
        kind::DISCONNECT => Disconnect::decode(body, version, from_client).map(Packet::Disconnect),
        kind::AUTH => Auth::decode(body, version, from_client).map(Packet::Auth),
        _ => Err(Malformed::packet("MQTT5 2.1.2", "packet type 0 is reserved")),
    }
}
