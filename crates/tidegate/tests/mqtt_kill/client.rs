//! A small MQTT 3.1.1 client. It does not use the server's codec, so an error of the codec is not hidden by the same
//! error here.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::PATIENCE;

/// What the server sends, as far as this test cares.
#[derive(Debug, PartialEq, Eq)]
pub enum Packet {
    ConnAck { session_present: bool, code: u8 },
    Publish { qos: u8, id: u16, topic: String, payload: Vec<u8> },
    PubAck(u16),
    PubRec(u16),
    PubRel(u16),
    PubComp(u16),
    SubAck(u16),
    PingResp,
}

/// A connection with a session that outlives it.
pub struct Connection {
    tcp: TcpStream,
    input: Vec<u8>,
}

impl Connection {
    /// Connects as `client_id`; returns whether there was a session.
    pub fn open(address: SocketAddr, client_id: &str) -> io::Result<(Connection, bool)> {
        Connection::open_with(address, client_id, None)
    }

    /// The same with a will of QoS 1: its topic and payload.
    pub fn open_with(
        address: SocketAddr,
        client_id: &str,
        will: Option<(&str, &[u8])>,
    ) -> io::Result<(Connection, bool)> {
        let tcp = TcpStream::connect(address)?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        let mut connection = Connection { tcp, input: Vec::new() };
        // Protocol level 4, no clean session, no keep-alive.
        let flags = if will.is_some() { 0x04 | 1 << 3 } else { 0 };
        let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 4, flags, 0, 0];
        text(&mut body, client_id);
        if let Some((topic, payload)) = will {
            text(&mut body, topic);
            body.extend((payload.len() as u16).to_be_bytes());
            body.extend(payload);
        }
        connection.send(0x10, &body)?;
        match connection.receive()? {
            Packet::ConnAck { session_present, code: 0 } => Ok((connection, session_present)),
            other => panic!("{client_id}: {other:?} instead of CONNACK"),
        }
    }

    pub fn publish(&mut self, topic: &str, payload: &[u8], qos: u8, id: u16, again: bool) -> io::Result<()> {
        let mut body = Vec::new();
        text(&mut body, topic);
        body.extend(id.to_be_bytes());
        body.extend(payload);
        self.send(0x30 | u8::from(again) << 3 | qos << 1, &body)
    }

    /// PUBACK, PUBREC, PUBREL or PUBCOMP.
    pub fn acknowledge(&mut self, first_byte: u8, id: u16) -> io::Result<()> {
        self.send(first_byte, &id.to_be_bytes())
    }

    pub fn subscribe(&mut self, filter: &str, qos: u8) -> io::Result<()> {
        let mut body = vec![0, 1];
        text(&mut body, filter);
        body.push(qos);
        self.send(0x82, &body)
    }

    pub fn ping(&mut self) -> io::Result<()> {
        self.send(0xc0, &[])
    }

    fn send(&mut self, first_byte: u8, body: &[u8]) -> io::Result<()> {
        let mut packet = vec![first_byte];
        let mut length = body.len();
        while length > 0x7f {
            packet.push(length as u8 | 0x80);
            length >>= 7;
        }
        packet.push(length as u8);
        packet.extend(body);
        self.tcp.write_all(&packet)
    }

    /// The next packet; an error when the connection has ended.
    pub fn receive(&mut self) -> io::Result<Packet> {
        loop {
            if let Some(packet) = self.take_packet() {
                return Ok(packet);
            }
            let mut chunk = [0; 16 << 10];
            match self.tcp.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.input.extend(&chunk[..count]),
            }
        }
    }

    fn take_packet(&mut self) -> Option<Packet> {
        let (mut length, mut at) = (0, 1);
        loop {
            let byte = *self.input.get(at)?;
            length |= usize::from(byte & 0x7f) << (7 * (at - 1));
            at += 1;
            if byte < 0x80 {
                break;
            }
        }
        if self.input.len() < at + length {
            return None;
        }
        let packet: Vec<u8> = self.input.drain(..at + length).collect();
        Some(read(packet[0], &packet[at..]))
    }
}

fn read(first_byte: u8, body: &[u8]) -> Packet {
    let id = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    match first_byte {
        0x20 => Packet::ConnAck { session_present: body[0] == 1, code: body[1] },
        0x40 => Packet::PubAck(id(0)),
        0x50 => Packet::PubRec(id(0)),
        0x62 => Packet::PubRel(id(0)),
        0x70 => Packet::PubComp(id(0)),
        0x90 => Packet::SubAck(id(0)),
        0xd0 => Packet::PingResp,
        publish if publish >> 4 == 3 => {
            let topic_end = 2 + usize::from(id(0));
            let qos = publish >> 1 & 3;
            let payload_at = topic_end + if qos > 0 { 2 } else { 0 };
            Packet::Publish {
                qos,
                id: if qos > 0 { id(topic_end) } else { 0 },
                topic: String::from_utf8(body[2..topic_end].to_vec()).expect("a topic is text"),
                payload: body[payload_at..].to_vec(),
            }
        }
        other => panic!("a server does not send a packet that begins with {other:#x}"),
    }
}

fn text(into: &mut Vec<u8>, text: &str) {
    into.extend((text.len() as u16).to_be_bytes());
    into.extend(text.as_bytes());
}

/// Packet ids of QoS 2 messages that were received and not yet released: what makes "exactly once" on the receiver's
/// side.
pub type Unreleased = HashSet<u16>;
