//! The few packets of MQTT 3.1.1 that a load needs, encoded once and patched, and cut from a stream without a copy.
//!
//! Why not the codec that the server uses: a load that shares a bug with the server would not detect it, and a packet
//! that is known in advance is compared and patched at a tenth of the cost of decoding it.

use anyhow::{Result, bail, ensure};
use std::ops::Range;

/// Quality of service of a publish or a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QoS {
    /// At most once.
    Zero = 0,
    /// At least once.
    One = 1,
}

/// What a client asks for when it connects.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Its client id.
    pub client_id: String,
    /// No session before or after this connection.
    pub clean: bool,
    /// What it subscribes to.
    pub filters: Vec<String>,
    /// At which quality.
    pub qos: QoS,
    /// Seconds within which it will be heard.
    pub keep_alive_s: u16,
}

/// Seconds within which a client must be heard: longer than any case lasts, so that no ping is among what is measured.
const KEEP_ALIVE_S: u16 = 1200;

/// Filters in one SUBSCRIBE packet, at most: what every broker takes.
const FILTERS_PER_PACKET: usize = 100;

impl ConnectOptions {
    /// One with a clean session that subscribes at QoS 0, if at all.
    pub fn new(client_id: String, filters: Vec<String>) -> ConnectOptions {
        ConnectOptions { client_id, clean: true, filters, qos: QoS::Zero, keep_alive_s: KEEP_ALIVE_S }
    }

    /// The bytes of CONNECT.
    pub fn connect(&self) -> Vec<u8> {
        let mut body = b"\x00\x04MQTT\x04".to_vec();
        body.push(if self.clean { 0x02 } else { 0x00 });
        body.extend(self.keep_alive_s.to_be_bytes());
        text(&mut body, &self.client_id);
        packet(0x10, &body)
    }

    /// The SUBSCRIBE packets for all filters, numbered from 1; empty when there are none.
    pub fn subscribes(&self) -> Vec<Vec<u8>> {
        let packets = self.filters.chunks(FILTERS_PER_PACKET).zip(1u16..);
        let encoded = packets.map(|(filters, packet_id)| {
            let mut body = packet_id.to_be_bytes().to_vec();
            for filter in filters {
                text(&mut body, filter);
                body.push(self.qos as u8);
            }
            packet(0x82, &body)
        });
        encoded.collect()
    }
}

/// PINGREQ.
pub const PING_REQUEST: [u8; 2] = [0xC0, 0];

/// Appends PUBACK.
#[inline]
pub fn publish_ack(out: &mut Vec<u8>, packet_id: u16) {
    let [high, low] = packet_id.to_be_bytes();
    out.extend([0x40, 2, high, low]);
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first];
    let mut length = body.len();
    loop {
        let more = length > 0x7F;
        packet.push((length & 0x7F) as u8 | if more { 0x80 } else { 0 });
        length >>= 7;
        if !more {
            break;
        }
    }
    packet.extend(body);
    packet
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_be_bytes());
    out.extend(text.as_bytes());
}

/// A PUBLISH to one topic, to be repeated with other packet ids and payloads of one length.
pub struct Publish {
    bytes: Vec<u8>,
    topic_at: Range<usize>,
    packet_id_at: Option<usize>,
    payload_at: usize,
}

impl Publish {
    /// With a payload of so many bytes.
    pub fn new(topic: &str, qos: QoS, payload_bytes: usize) -> Publish {
        let mut body = Vec::new();
        text(&mut body, topic);
        if qos == QoS::One {
            body.extend([0, 0]);
        }
        body.resize(body.len() + payload_bytes, 0);
        let bytes = packet(0x30 | (qos as u8) << 1, &body);
        let payload_at = bytes.len() - payload_bytes;
        let topic_end = if qos == QoS::One { payload_at - 2 } else { payload_at };
        let packet_id_at = (qos == QoS::One).then_some(topic_end);
        Publish { bytes, topic_at: topic_end - topic.len()..topic_end, packet_id_at, payload_at }
    }

    /// Its topic, to be replaced by another one of the same length.
    #[inline]
    pub fn topic(&mut self) -> &mut [u8] {
        &mut self.bytes[self.topic_at.clone()]
    }

    /// Appends it; the payload is what `fill` makes of what is there.
    #[inline]
    pub fn append(&mut self, out: &mut Vec<u8>, packet_id: u16, fill: impl FnOnce(&mut [u8])) {
        if let Some(at) = self.packet_id_at {
            self.bytes[at..at + 2].copy_from_slice(&packet_id.to_be_bytes());
        }
        fill(&mut self.bytes[self.payload_at..]);
        out.extend_from_slice(&self.bytes);
    }
}

/// One packet from a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// A message; 0 is the packet id of QoS 0.
    Publish {
        /// Whether it may have come before.
        duplicate: bool,
        /// To be acknowledged, unless it is zero.
        packet_id: u16,
        /// Its topic.
        topic: &'a [u8],
        /// Its payload.
        payload: &'a [u8],
    },
    /// A publish was taken.
    PublishAck(u16),
    /// The broker took the client; whether it had a session for it.
    ConnectAck {
        /// Whether there was a session.
        session_present: bool,
    },
    /// All filters of one SUBSCRIBE were taken.
    SubscribeAck,
    /// The answer to a ping.
    Pong,
}

/// The length of the packet at the front of `bytes`; `None` until it is there whole.
#[inline]
pub fn split(bytes: &[u8]) -> Result<Option<usize>> {
    // Nearly all packets are shorter than 128 bytes.
    if let [_, length, ..] = bytes
        && *length < 0x80
    {
        let whole = 2 + usize::from(*length);
        return Ok((bytes.len() >= whole).then_some(whole));
    }
    let mut length = 0;
    for (index, byte) in bytes.iter().skip(1).take(4).enumerate() {
        length |= usize::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            let whole = 2 + index + length;
            return Ok((bytes.len() >= whole).then_some(whole));
        }
    }
    ensure!(bytes.len() < 5, "a packet without an end to its length");
    Ok(None)
}

/// Reads one whole packet; anything but success is an error, as no case of a bench is refused anything.
#[inline]
pub fn read(packet: &[u8]) -> Result<Arrival<'_>> {
    // The fixed header ends after the first length byte without a continuation.
    let body_at = 1 + packet[1..].iter().position(|byte| byte & 0x80 == 0).unwrap_or(0) + 1;
    let (first, body) = (packet[0], &packet[body_at..]);
    if first & 0xF0 == 0x30 {
        return publish(first, body);
    }
    match (first, body) {
        (0x40, [high, low]) => Ok(Arrival::PublishAck(u16::from_be_bytes([*high, *low]))),
        (0x20, [present, 0]) => Ok(Arrival::ConnectAck { session_present: *present == 1 }),
        (0x90, [_, _, codes @ ..]) if codes.iter().all(|code| *code <= 2) => Ok(Arrival::SubscribeAck),
        (0xD0, []) => Ok(Arrival::Pong),
        _ => bail!("the broker refused something, or sent what nobody asked for: {packet:02x?}"),
    }
}

#[inline]
fn publish(first: u8, body: &[u8]) -> Result<Arrival<'_>> {
    let malformed = || anyhow::anyhow!("a malformed PUBLISH: {first:02x} {body:02x?}");
    let (topic_length, rest) = body.split_first_chunk::<2>().ok_or_else(malformed)?;
    let topic_length = usize::from(u16::from_be_bytes(*topic_length));
    let (topic, rest) = rest.split_at_checked(topic_length).ok_or_else(malformed)?;
    let (packet_id, payload) = match first & 0x06 {
        0 => (0, rest),
        _ => {
            let (id, rest) = rest.split_first_chunk::<2>().ok_or_else(malformed)?;
            (u16::from_be_bytes(*id), rest)
        }
    };
    Ok(Arrival::Publish { duplicate: first & 0x08 != 0, packet_id, topic, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publish_comes_back_as_it_was_sent() {
        let mut bytes = Vec::new();
        let mut template = Publish::new("a/topic", QoS::One, 200);
        template.append(&mut bytes, 0x1234, |payload| payload.fill(7));
        assert_eq!(split(&bytes).unwrap(), Some(bytes.len()));
        assert!((0..bytes.len()).all(|cut| split(&bytes[..cut]).unwrap().is_none()));
        let expected = Arrival::Publish { duplicate: false, packet_id: 0x1234, topic: b"a/topic", payload: &[7; 200] };
        assert_eq!(read(&bytes).unwrap(), expected);
    }

    #[test]
    fn a_refusal_is_an_error() {
        assert!(read(&[0x20, 2, 0, 5]).is_err());
        assert!(read(&[0x90, 3, 0, 1, 0x80]).is_err());
        assert_eq!(read(&[0x90, 3, 0, 1, 1]).unwrap(), Arrival::SubscribeAck);
    }

    #[test]
    fn a_length_without_end_is_an_error() {
        assert!(split(&[0x30, 0x80, 0x80, 0x80, 0x80, 0]).is_err());
    }
}
