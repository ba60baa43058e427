//! How long MQTT clients wait for answers: measured from the read that brought the packet, to the write of the answer.
//!
//! Why maps beside the sockets: a millisecond of few connections should not cost a place in millions of sockets.

use hashbrown::HashMap;
use tidegate_broker::{Answered, ConnectionKey, RequestTicket};

use crate::admission::monotonic_ns;
use crate::request_metrics::RequestMetrics;

/// What one worker's clients wait for.
pub(super) struct Latency {
    metrics: RequestMetrics,
    /// Connections whose CONNECT is not answered yet, and when it was there.
    connects: HashMap<ConnectionKey, u64>,
    /// Requests that a service is asked.
    requests: HashMap<RequestTicket, u64>,
    /// Used again and again.
    answered: Vec<Answered>,
}

impl Latency {
    pub fn new(metrics: RequestMetrics) -> Latency {
        Latency { metrics, connects: HashMap::new(), requests: HashMap::new(), answered: Vec::new() }
    }

    /// A CONNECT is there.
    pub fn connect(&mut self, key: ConnectionKey) {
        self.connects.insert(key, monotonic_ns());
    }

    /// Bytes were written to a connection: if its CONNECT was not answered yet, this is the answer.
    pub fn wrote(&mut self, key: ConnectionKey) {
        // Nearly always there is none.
        if !self.connects.is_empty()
            && let Some(since_ns) = self.connects.remove(&key)
        {
            self.metrics.took.record("connect", monotonic_ns() - since_ns);
        }
    }

    /// A connection is gone.
    pub fn forget(&mut self, key: ConnectionKey) {
        self.connects.remove(&key);
    }

    /// A service is asked.
    pub fn request(&mut self, ticket: RequestTicket) {
        self.requests.insert(ticket, monotonic_ns());
    }

    /// It has answered.
    pub fn responded(&mut self, ticket: RequestTicket) {
        if let Some(since_ns) = self.requests.remove(&ticket) {
            self.metrics.took.record("request", monotonic_ns() - since_ns);
        }
    }

    /// The answers that `take` gives were written just now.
    pub fn published(&mut self, take: impl FnOnce(&mut Vec<Answered>)) {
        take(&mut self.answered);
        if self.answered.is_empty() {
            return;
        }
        let now_ns = monotonic_ns();
        for Answered { is_exactly_once, arrived_ns } in self.answered.drain(..) {
            let operation = if is_exactly_once { "publish_qos2" } else { "publish_qos1" };
            self.metrics.took.record(operation, now_ns - arrived_ns);
        }
    }
}
