//! Every bound of the HTTP door, in one place.

use std::time::Duration;

use crate::admission::ConnectionLimits;

/// Bounds of one edge thread. `Default` is what the configuration gives when it says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Open connections. For one more, one without a token gives way; if there is none, it is answered 503 and closed.
    pub connections_max: usize,
    /// Open connections of one address (IPv6: of one /64), over all edge threads; 0 for three quarters of those of all.
    pub connections_per_address_max: usize,
    /// Bytes of a request body; more is answered 413.
    pub body_bytes_max: usize,
    /// Bytes of bodies that are read in part, of all callers; more is answered 503. At least four times as much as one
    /// body may have.
    pub bodies_bytes_max: usize,
    /// Those of one viewer; more is answered 429. At least as much as one body may have.
    pub bodies_of_viewer_bytes_max: usize,
    /// Bytes of the body of a log-in, which anybody may send; more is answered 413.
    pub login_body_bytes_max: usize,
    /// Bytes of a request's head; more is answered 431. At least 8,192.
    pub head_bytes_max: usize,
    /// Header fields of a request; more is answered 431.
    pub headers_max: usize,
    /// Time for a request's head to arrive, counted from the answer before it: also how long an idle connection is
    /// kept.
    pub head_timeout: Duration,
    /// Time for a request's body to arrive; later is answered 408.
    pub body_timeout: Duration,
    /// Time for the ledger to answer; later is answered 503 `timed_out`, and the outcome is unknown.
    pub request_timeout: Duration,
    /// Time for a client to take the next part of an answer; later the connection breaks.
    pub reader_timeout: Duration,
    /// Streams of changes open at once.
    pub change_streams_max: usize,
    /// Histories read as streams at once. At most half of
    /// [`ENDPOINT_STREAMS_MAX`](tidegate_ledger::limits::ENDPOINT_STREAMS_MAX): one that was cut ends a moment later.
    pub history_streams_max: usize,
    /// Messages of queues read as streams at once.
    pub message_streams_max: usize,
    /// Streams of each of these kinds that one caller may have open.
    pub streams_of_caller_max: usize,
    /// Streams of changes, and of histories, that viewers leave to services; fewer than there may be of either kind.
    pub streams_for_services: usize,
    /// Pages of changes that are read at once; others wait their turn.
    pub change_pages_max: usize,
    /// Pages of those that viewers leave to services; fewer than there may be.
    pub change_pages_for_services: usize,
    /// Time for a TLS handshake.
    pub handshake_timeout: Duration,
    /// Time that connections get to finish when the process stops.
    pub drain_timeout: Duration,
    /// Tokens whose signature need not be checked again.
    pub tokens_cached_max: usize,
    /// Accounts whose kind need not be asked again.
    pub kinds_cached_max: usize,
}

impl HttpLimits {
    /// How many connections `edges` threads may have together.
    pub fn of_connections(&self, edges: u16) -> ConnectionLimits {
        ConnectionLimits {
            connections_max: self.connections_max * usize::from(edges),
            connections_per_address_max: self.connections_per_address_max,
        }
    }
}

impl Default for HttpLimits {
    fn default() -> HttpLimits {
        HttpLimits {
            connections_max: 10_000,
            connections_per_address_max: 0,
            body_bytes_max: 2 << 20,
            bodies_bytes_max: 64 << 20,
            bodies_of_viewer_bytes_max: 4 << 20,
            login_body_bytes_max: 4 << 10,
            head_bytes_max: 16 << 10,
            headers_max: 64,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(10),
            reader_timeout: Duration::from_secs(30),
            change_streams_max: 64,
            history_streams_max: 64,
            message_streams_max: 16,
            streams_of_caller_max: 8,
            streams_for_services: 16,
            change_pages_max: 32,
            change_pages_for_services: 8,
            handshake_timeout: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(5),
            tokens_cached_max: 1 << 16,
            kinds_cached_max: 1 << 16,
        }
    }
}
