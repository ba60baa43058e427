//! A receiver that acknowledges most messages, rejects some, and lets the leases of some end; and that tries after a
//! crash to acknowledge what it got before.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::PATIENCE;
use crate::chance::Chance;
use crate::history::History;
use crate::http::Http;

/// Short, so that what is left lying comes again while the test runs.
const LEASE_MS: u64 = 1_000;

/// One receiver through all lives of the server.
pub struct Receiver {
    consumer: String,
    queue: &'static str,
    chance: Chance,
    /// Leases that were to be acknowledged when the server was killed.
    pending: Vec<String>,
}

/// The key of a lease's message, and which delivery it is.
fn parts(lease: &str) -> (&str, u64) {
    let (key, attempt) = lease.split_once('.').expect("a lease is a key and a number");
    (key, attempt.parse().expect("a number"))
}

impl Receiver {
    pub fn new(name: usize, queue: &'static str, chance: Chance) -> Receiver {
        Receiver { consumer: format!("receiver-{name}"), queue, chance, pending: Vec::new() }
    }

    /// Receives until the server is gone. `told` counts what was acknowledged.
    pub fn receive(&mut self, server: SocketAddr, history: &History, told: &AtomicU64) {
        let Ok(mut http) = Http::connect(server) else { return };
        let old = std::mem::take(&mut self.pending);
        if self.chance.percent(50) && self.acknowledge(&mut http, history, old).is_err() {
            return;
        }
        loop {
            match self.receive_some(&mut http, history) {
                Ok(acknowledged) => drop(told.fetch_add(acknowledged, Ordering::Relaxed)),
                Err(_) => return,
            }
        }
    }

    fn receive_some(&mut self, http: &mut Http<TcpStream>, history: &History) -> io::Result<u64> {
        let max = 1 + self.chance.below(30);
        let leases = self.get(http, history, max, 500)?;
        let (mut done, mut back) = (Vec::new(), Vec::new());
        for lease in leases {
            match self.chance.below(100) {
                0..80 => done.push(lease),
                80..92 => back.push(lease),
                _ => {}
            }
        }
        if !back.is_empty() {
            let body = json!({"leases": back, "delay_ms": self.chance.below(50), "reason": "not now"});
            let answer = http.post(&format!("/v1/queues/{}/reject", self.queue), &body)?;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        self.acknowledge(http, history, done)
    }

    /// Receives messages and notes them; returns their leases.
    fn get(
        &mut self,
        http: &mut Http<TcpStream>,
        history: &History,
        max: u64,
        wait_ms: u64,
    ) -> io::Result<Vec<String>> {
        let body = json!({"max": max, "lease_ms": LEASE_MS, "wait_ms": wait_ms, "consumer": self.consumer});
        let answer = http.post(&format!("/v1/queues/{}/receive", self.queue), &body)?;
        assert_eq!(answer.status, 200, "{answer:?}");
        let messages = answer.body["messages"].as_array().expect("a list of messages");
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut leases = Vec::with_capacity(messages.len());
        for message in messages {
            let lease = text(&message["lease"]).expect("a message has a lease");
            let (key, attempt) = parts(&lease);
            assert_eq!((text(&message["key"]).as_deref(), message["attempts"].as_u64()), (Some(key), Some(attempt)));
            let body = text(&message["body"]).expect("bodies are texts");
            history.delivered(key, attempt, &body, message["ordering_key"].as_str());
            leases.push(lease);
        }
        Ok(leases)
    }

    fn acknowledge(&mut self, http: &mut Http<TcpStream>, history: &History, leases: Vec<String>) -> io::Result<u64> {
        if leases.is_empty() {
            return Ok(0);
        }
        leases.iter().for_each(|lease| history.acknowledging(parts(lease).0));
        self.pending = leases;
        let body = json!({"leases": self.pending});
        let answer = http.post(&format!("/v1/queues/{}/acknowledge", self.queue), &body)?;
        assert_eq!(answer.status, 200, "{answer:?}");
        let outcomes = answer.body["leases"].as_array().expect("each lease is answered");
        let mut done = 0;
        for (lease, outcome) in self.pending.drain(..).zip(outcomes) {
            assert_eq!(outcome["lease"], json!(lease));
            if outcome["outcome"] == "done" {
                let (key, attempt) = parts(&lease);
                history.acknowledged(key, attempt);
                done += 1;
            }
        }
        Ok(done)
    }

    /// Receives and acknowledges until the queue is empty.
    pub fn empty(&mut self, server: SocketAddr, history: &History) {
        let mut http = Http::connect(server).expect("the server serves");
        let since = std::time::Instant::now();
        let path = format!("/v1/queues/{}", self.queue);
        loop {
            let leases = self.get(&mut http, history, 100, 2 * LEASE_MS).expect("the server serves");
            let is_empty = leases.is_empty();
            self.acknowledge(&mut http, history, leases).expect("the server serves");
            if is_empty {
                let view = http.get(&path).expect("the server serves").body;
                let is_left = ["waiting", "scheduled", "leased"].iter().any(|name| view[name] != 0);
                if !is_left {
                    return;
                }
                assert!(since.elapsed() < 5 * PATIENCE, "{path} does not become empty: {view}");
            }
        }
    }
}
