//! What a worker counts at its doors.

use super::door;
use crate::counter::Counter;
use crate::family::CounterFamily;
use crate::gauge::Gauge;
use crate::histogram::Histogram;
use crate::metric::Metric;
use crate::registry::Registry;

const RING_DEPTH: Metric = Metric::plain("tidegate_ring_depth", "Messages waiting in a ring between threads.");
const RECEIVED_BYTES: Metric = Metric::plain("tidegate_received_bytes_total", "Bytes read from sockets.");
const SENT_BYTES: Metric = Metric::plain("tidegate_sent_bytes_total", "Bytes written to sockets.");
const READS_PAUSED: Metric =
    Metric::plain("tidegate_reads_paused_total", "Times a socket was not read because a bounded queue was full.");
const BUSY_SECONDS: Metric =
    Metric::nanoseconds("tidegate_worker_busy_seconds_total", "Time that a worker's loop did not wait for events.");

/// One worker's metrics, labels `worker` and `door="binary"`. For one thread.
#[derive(Debug)]
pub struct GatewayMetrics {
    /// Requests read, by kind: `transfers`, `read_account` ...
    pub requests: CounterFamily,
    /// Requests that the door refused itself, by code: `unauthenticated`, `forbidden`, `frame_malformed` ... What the ledger
    /// refuses is counted by [`crate::ShardMetrics`].
    pub refusals: CounterFamily,
    /// Requests that could not be served, by reason: `busy`, `disk_full` ...
    pub unavailable: CounterFamily,
    /// From a request read to its reply handed to the socket, nanoseconds.
    pub request_latency: Histogram,
    /// Connections open now.
    pub connections_open: Gauge,
    /// Connections accepted.
    pub connections_accepted: Counter,
    /// Connections turned away or ended by us, by reason: `limit`, `timeout`, `frame_too_large` ...
    pub connections_refused: CounterFamily,
    /// Bytes read from sockets.
    pub received_bytes: Counter,
    /// Bytes written to sockets.
    pub sent_bytes: Counter,
    /// Times a socket was not read because a bounded queue was full.
    pub reads_paused: Counter,
    /// Nanoseconds that the loop did not wait for events.
    pub busy_nanoseconds: Counter,
    /// Messages waiting in each ring, in the order of the names given to [`GatewayMetrics::register`].
    pub ring_depths: Vec<Gauge>,
}

impl GatewayMetrics {
    /// Registers the metrics of worker number `worker`, with a depth gauge for each ring in `rings` (label `ring`).
    pub fn register(registry: &Registry, worker: usize, rings: &[&str]) -> GatewayMetrics {
        let worker = worker.to_string();
        let all = registry.recorder(&[("worker", &worker)]);
        let binary = registry.recorder(&[("door", "binary"), ("worker", &worker)]);
        GatewayMetrics {
            requests: binary.counter_family(door::REQUESTS, "kind"),
            refusals: binary.counter_family(door::REFUSALS, "code"),
            unavailable: binary.counter_family(door::UNAVAILABLE, "reason"),
            request_latency: binary.histogram(door::REQUEST_SECONDS),
            connections_open: binary.gauge(door::CONNECTIONS_OPEN),
            connections_accepted: binary.counter(door::CONNECTIONS_ACCEPTED),
            connections_refused: binary.counter_family(door::CONNECTIONS_REFUSED, "reason"),
            received_bytes: binary.counter(RECEIVED_BYTES),
            sent_bytes: binary.counter(SENT_BYTES),
            reads_paused: binary.counter(READS_PAUSED),
            busy_nanoseconds: all.counter(BUSY_SECONDS),
            ring_depths: rings.iter().map(|ring| all.gauge_with(RING_DEPTH, &[("ring", ring)])).collect(),
        }
    }
}
