//! A subscriber whose session survives crashes, and a list of all messages that it has received.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;

use crate::client::{Connection, Packet, Unreleased};

/// One subscriber through all lives of the server.
pub struct Subscriber {
    name: String,
    filter: String,
    qos: u8,
    unreleased: Unreleased,
    /// Message numbers by topic, in the order in which they came.
    pub heard: HashMap<String, Vec<u64>>,
    /// The same, each once.
    distinct: HashMap<String, HashSet<u64>>,
}

impl Subscriber {
    pub fn new(name: &str, filter: &str, qos: u8) -> Subscriber {
        let (name, filter) = (name.to_owned(), filter.to_owned());
        Subscriber { name, filter, qos, unreleased: Unreleased::new(), heard: HashMap::new(), distinct: HashMap::new() }
    }

    /// Subscribes; from the acknowledgement on, the session must miss nothing.
    pub fn subscribe(&mut self, server: SocketAddr) {
        let (mut connection, present) = Connection::open(server, &self.name).expect("the server serves");
        assert!(!present, "{}: a new session", self.name);
        connection.subscribe(&self.filter, self.qos).expect("the server serves");
        assert_eq!(connection.receive().expect("the server serves"), Packet::SubAck(1));
    }

    /// Hears until the server is gone.
    pub fn listen(&mut self, server: SocketAddr) {
        let ended = self.receive(server, |_| false);
        assert!(ended.is_err(), "only the server's end ends an endless listener");
    }

    /// Receives until nothing is waiting. PINGRESP comes after everything sent before it, so the inbox is empty when
    /// nothing new came between two of them.
    pub fn drain(&mut self, server: SocketAddr, is_all: impl Fn(&Subscriber) -> bool) {
        self.receive(server, is_all).unwrap_or_else(|error| panic!("{}: {error} before all had come", self.name));
    }

    fn receive(&mut self, server: SocketAddr, is_all: impl Fn(&Subscriber) -> bool) -> io::Result<()> {
        let (mut connection, present) = Connection::open(server, &self.name)?;
        assert!(present, "{}: the session was lost", self.name);
        while !(is_all(self) && self.unreleased.is_empty()) {
            self.take(&mut connection)?;
        }
        // What comes too often comes now.
        for _ in 0..3 {
            connection.ping()?;
            while !self.take(&mut connection)? {}
        }
        Ok(())
    }

    /// Takes one packet; returns whether it was PINGRESP.
    fn take(&mut self, connection: &mut Connection) -> io::Result<bool> {
        match connection.receive()? {
            Packet::Publish { qos: 1, id, topic, payload } => {
                self.note(topic, &payload);
                connection.acknowledge(0x40, id)?;
            }
            Packet::Publish { qos: 2, id, topic, payload } => {
                if self.unreleased.insert(id) {
                    self.note(topic, &payload);
                }
                connection.acknowledge(0x50, id)?;
            }
            Packet::PubRel(id) => {
                self.unreleased.remove(&id);
                connection.acknowledge(0x70, id)?;
            }
            Packet::PingResp => return Ok(true),
            other => panic!("{}: a subscriber does not expect {other:?}", self.name),
        }
        Ok(false)
    }

    fn note(&mut self, topic: String, payload: &[u8]) {
        let number = std::str::from_utf8(payload).ok().and_then(|text| text.parse().ok());
        let number = number.unwrap_or_else(|| panic!("{}: {payload:?} was never published", self.name));
        self.distinct.entry(topic.clone()).or_default().insert(number);
        self.heard.entry(topic).or_default().push(number);
    }

    /// How many of these messages of a topic it has not received. Asked for each packet: while it has fewer than that,
    /// none is looked at.
    pub fn missing(&self, topic: &str, numbers: &[u64]) -> usize {
        let heard = self.distinct.get(topic);
        let count = heard.map_or(0, HashSet::len);
        match numbers.len().checked_sub(count) {
            Some(fewer) if fewer > 0 => fewer,
            _ => numbers.iter().filter(|number| heard.is_none_or(|heard| !heard.contains(number))).count(),
        }
    }

    /// Whether the filter names the messages of this QoS: it is `kill/#` or `kill/+/QOS`.
    pub fn wants(&self, qos: u8) -> bool {
        self.filter.ends_with('#') || self.filter.ends_with(&qos.to_string())
    }

    /// Whether every message of `topic` must come exactly once.
    pub fn exactly_once(&self, published_qos: u8) -> bool {
        self.qos.min(published_qos) == 2
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}
