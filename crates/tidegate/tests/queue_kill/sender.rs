//! A sender that keeps its state: what was not answered before a crash is sent again after it, if it has ids.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::history::{History, Name};
use crate::http::Http;

/// Messages of one request, at most.
const BATCH: u64 = 12;
/// Ordering keys of a sender.
const KEYS: u64 = 24;
/// Bytes of a body, at most.
const BODY_BYTES: u64 = 48_000;

/// What its messages have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ids, so that they are sent again until that is answered.
    WithIds,
    /// Ids and ordering keys.
    WithKeys,
    /// Nothing: what was not answered is given up.
    WithoutIds,
}

/// One sender through all lives of the server.
pub struct Sender {
    name: usize,
    queue: &'static str,
    kind: Kind,
    chance: Chance,
    next: u64,
    /// What was sent and not answered.
    pending: Vec<u64>,
}

/// The body of a message, which says which one it is.
pub fn body(sender: usize, number: u64) -> String {
    let length = (number.wrapping_mul(7_919) + sender as u64 * 101) % BODY_BYTES;
    let mut text = format!("{sender}:{number}:");
    while (text.len() as u64) < length {
        text.push_str(&format!("{:x}.", (text.len() as u64 + number).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    }
    text
}

/// Which message a body says that it is.
pub fn message_of(body: &str) -> Option<Name> {
    let (sender, rest) = body.split_once(':')?;
    Some((sender.parse().ok()?, rest.split_once(':')?.0.parse().ok()?))
}

impl Sender {
    pub fn new(name: usize, queue: &'static str, kind: Kind, chance: Chance) -> Sender {
        Sender { name, queue, kind, chance, next: 0, pending: Vec::new() }
    }

    /// Sends until the server is gone. `told` counts the messages whose sending was answered.
    pub fn send(&mut self, server: SocketAddr, history: &History, told: &AtomicU64) {
        // The server may be gone before this one has begun.
        let Ok(mut http) = Http::connect(server) else { return };
        if self.kind == Kind::WithoutIds {
            self.pending.clear();
        }
        loop {
            if self.pending.is_empty() {
                let count = 1 + self.chance.below(BATCH);
                self.pending = (self.next..self.next + count).collect();
                self.next += count;
            }
            let count = self.pending.len() as u64;
            if self.send_pending(&mut http, history).is_err() {
                return;
            }
            told.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Sends again what was not answered.
    pub fn finish(&mut self, http: &mut Http<TcpStream>, history: &History) {
        if self.kind != Kind::WithoutIds && !self.pending.is_empty() {
            self.send_pending(http, history).expect("the server serves");
        }
    }

    fn send_pending(&mut self, http: &mut Http<TcpStream>, history: &History) -> io::Result<()> {
        let messages: Vec<Value> = self.pending.iter().map(|number| self.message(*number)).collect();
        for (number, message) in self.pending.iter().zip(&messages) {
            history.attempted(self.name, *number, message["ordering_key"].as_str());
        }
        let answer = http.post(&format!("/v1/queues/{}/messages", self.queue), &json!({ "messages": messages }))?;
        assert_eq!(answer.status, 200, "{answer:?}");
        let receipts = answer.body["messages"].as_array().expect("each message is answered");
        assert_eq!(receipts.len(), self.pending.len(), "each message is answered");
        for (number, receipt) in self.pending.drain(..).zip(receipts) {
            history.answered(self.name, number, receipt["key"].as_str().expect("a message has a key"));
        }
        Ok(())
    }

    fn message(&self, number: u64) -> Value {
        let mut message = json!({"body": body(self.name, number)});
        if self.kind != Kind::WithoutIds {
            message["id"] = json!(format!("{}-{number}", self.name));
        }
        if self.kind == Kind::WithKeys {
            message["ordering_key"] = json!(format!("{}-{}", self.name, number % KEYS));
        }
        message
    }
}
