//! The keys of the HTTP door.

use std::time::Duration;

use tidegate_config::{Bytes, ConfigError, Count, Document, Milliseconds, config};
use tidegate_doors::http::HttpLimits;

config! {
    /// `[limits]`, as far as HTTP goes.
    pub struct HttpKeys in "limits" {
        edge_threads: Count<u16> = 1, 1..=256, restart, "threads that serve HTTP, each with its own connections";
        http_connections_max: Count<usize> = 10_000, 1..=1_000_000, restart,
            "open connections per edge thread; one more is answered 503";
        http_connections_per_address_max: Count<usize> = 0, 0..=1_000_000, restart,
            "HTTP connections of one address (IPv6: of one /64), over all edge threads; 0 for three quarters of all. \
             Behind a proxy all clients have one address";
        http_body_bytes_max: Bytes<usize> = 2 << 20, 1024..=(64 << 20), restart,
            "bytes of a request's body; more is answered 413";
        http_login_body_bytes_max: Bytes<usize> = 4 << 10, 512..=(64 << 10), restart,
            "bytes of the body of a log-in, which anybody may send; more is answered 413";
        http_head_bytes_max: Bytes<usize> = 16 << 10, 8192..=(1 << 20), restart,
            "bytes of a request's head; more is answered 431";
        http_headers_max: Count<usize> = 64, 16..=1_024, restart,
            "header fields of a request; more is answered 431";
        http_head_timeout_ms: Milliseconds = 30_000, 10..=86_400_000, restart,
            "milliseconds for a request's head to arrive, and for a connection to be idle";
        http_body_timeout_ms: Milliseconds = 10_000, 10..=86_400_000, restart,
            "milliseconds for a request's body to arrive; later is answered 408";
        http_request_timeout_ms: Milliseconds = 10_000, 10..=86_400_000, restart,
            "milliseconds for the ledger to answer; later is answered 503, outcome unknown";
        http_reader_timeout_ms: Milliseconds = 30_000, 10..=86_400_000, restart,
            "milliseconds for a client to read the next part of an answer; then its connection breaks";
        tls_handshake_timeout_ms: Milliseconds = 5_000, 10..=86_400_000, restart, "milliseconds for a TLS handshake";
        drain_timeout_ms: Milliseconds = 5_000, 10..=86_400_000, restart,
            "milliseconds that requests get to finish when the server stops";
        tokens_cached_max: Count<usize> = 65_536, 2..=100_000_000, restart,
            "tokens per edge thread whose signature need not be checked again";
        kinds_cached_max: Count<usize> = 65_536, 256..=100_000_000, restart,
            "accounts per edge thread whose kind need not be asked again";
    }
}

/// The number of edge threads, and the bounds of each.
pub fn settle(document: &Document) -> Result<(u16, HttpLimits), ConfigError> {
    let keys: HttpKeys = document.section()?;
    let limits = HttpLimits {
        connections_max: keys.http_connections_max,
        connections_per_address_max: keys.http_connections_per_address_max,
        body_bytes_max: keys.http_body_bytes_max,
        login_body_bytes_max: keys.http_login_body_bytes_max,
        head_bytes_max: keys.http_head_bytes_max,
        headers_max: keys.http_headers_max,
        head_timeout: Duration::from_millis(keys.http_head_timeout_ms),
        body_timeout: Duration::from_millis(keys.http_body_timeout_ms),
        request_timeout: Duration::from_millis(keys.http_request_timeout_ms),
        reader_timeout: Duration::from_millis(keys.http_reader_timeout_ms),
        handshake_timeout: Duration::from_millis(keys.tls_handshake_timeout_ms),
        drain_timeout: Duration::from_millis(keys.drain_timeout_ms),
        tokens_cached_max: keys.tokens_cached_max,
        kinds_cached_max: keys.kinds_cached_max,
    };
    Ok((keys.edge_threads, limits))
}
