//! A publisher that keeps its state: what was not acknowledged before a crash is sent again after it, as the protocol
//! demands.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::client::{Connection, Packet};

/// Publications under way at once.
const WINDOW: usize = 20;
/// Packet ids of one publisher: few, so that they are soon used again.
const IDS: u16 = 50;

/// A publication that is not done.
struct Pending {
    id: u16,
    number: u64,
    /// PUBREC came; from then on PUBREL is what is sent again.
    received: bool,
}

/// One publisher through all lives of the server. Its n-th message has the payload `n`.
pub struct Publisher {
    pub name: String,
    pub qos: u8,
    pending: VecDeque<Pending>,
    next_number: u64,
    next_id: u16,
    /// Which messages were acknowledged: PUBACK, or PUBREC, which promises as much.
    pub acknowledged: Vec<u64>,
}

impl Publisher {
    pub fn new(name: &str, qos: u8) -> Publisher {
        let name = name.to_owned();
        Publisher { name, qos, pending: VecDeque::new(), next_number: 0, next_id: 1, acknowledged: Vec::new() }
    }

    /// Publishes until the server is gone. `told` counts acknowledgements of all publishers.
    pub fn publish(&mut self, server: SocketAddr, told: &AtomicU64) {
        let ended = self.talk(server, u64::MAX, told);
        assert!(ended.is_err(), "only the server's end ends an endless load");
    }

    /// Brings what is under way to its end.
    pub fn finish(&mut self, server: SocketAddr) {
        self.talk(server, self.next_number, &AtomicU64::new(0)).expect("the server serves");
        assert!(self.pending.is_empty());
    }

    fn talk(&mut self, server: SocketAddr, until: u64, told: &AtomicU64) -> io::Result<()> {
        let (mut connection, _) = Connection::open(server, &self.name)?;
        let topic = self.topic();
        for pending in &self.pending {
            match pending.received {
                true => connection.acknowledge(0x62, pending.id)?,
                false => connection.publish(&topic, &payload(pending.number), self.qos, pending.id, true)?,
            }
        }
        loop {
            while self.pending.len() < WINDOW && self.next_number < until {
                let (number, id) = (self.next_number, self.free_id());
                self.next_number += 1;
                self.pending.push_back(Pending { id, number, received: false });
                connection.publish(&topic, &payload(number), self.qos, id, false)?;
            }
            if self.pending.is_empty() {
                return Ok(());
            }
            match connection.receive()? {
                Packet::PubAck(id) | Packet::PubComp(id) => {
                    let at = self.position(id);
                    let done = self.pending.remove(at).expect("it was just found");
                    if !done.received {
                        self.acknowledged.push(done.number);
                        told.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Packet::PubRec(id) => {
                    let at = self.position(id);
                    let pending = &mut self.pending[at];
                    if !std::mem::replace(&mut pending.received, true) {
                        self.acknowledged.push(pending.number);
                        told.fetch_add(1, Ordering::Relaxed);
                    }
                    connection.acknowledge(0x62, id)?;
                }
                other => panic!("{}: a publisher does not expect {other:?}", self.name),
            }
        }
    }

    pub fn topic(&self) -> String {
        format!("kill/{}/{}", self.name, self.qos)
    }

    fn position(&self, id: u16) -> usize {
        let found = self.pending.iter().position(|pending| pending.id == id);
        found.unwrap_or_else(|| panic!("{}: packet id {id} is not under way", self.name))
    }

    fn free_id(&mut self) -> u16 {
        loop {
            let id = self.next_id;
            self.next_id = self.next_id % IDS + 1;
            if !self.pending.iter().any(|pending| pending.id == id) {
                return id;
            }
        }
    }
}

fn payload(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}
