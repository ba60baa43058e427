//! `[limits]`: every bound with its default and the range in which it makes sense.

use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate_gateway::auth::LoginLimits;
use tidegate_gateway::http::HttpLimits;

use super::error::ConfigError;
use super::raw::RawLimits;
use super::source::Source;

/// The bounds that can be set. All others stand in the `limits` modules of the crates, with the relations between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Worker threads wanted; the server starts at most one per shard of its data directory.
    pub workers: usize,
    /// Threads that serve HTTP.
    pub edge_threads: usize,
    /// Memory of the filters over ids, over all shards.
    pub ids_filter_bytes_max: usize,
    /// Open binary connections per worker.
    pub binary_connections_max: usize,
    /// Bounds of one edge thread.
    pub http: HttpLimits,
    /// How many log-ins are worked on.
    pub logins: LoginLimits,
}

impl Limits {
    /// Fills in defaults and checks ranges.
    pub fn settle(raw: &RawLimits, source: &Source, cores: usize) -> Result<Limits, ConfigError> {
        let reader = Reader { source };
        let http = HttpLimits::default();
        let number = |key, written: Option<u64>, default: usize, range| {
            reader.number(key, written, default as u64, range).map(|number| number as usize)
        };
        let time = |key, written: Option<u64>, default: Duration| {
            let range = 10..=24 * 3_600_000;
            reader.number(key, written, default.as_millis() as u64, range).map(Duration::from_millis)
        };
        let workers = number("workers", raw.workers, 0, 0..=1_024)?;
        let workers = if workers == 0 { cores } else { workers };
        Ok(Limits {
            workers,
            edge_threads: number("edge_threads", raw.edge_threads, 1, 1..=256)?,
            ids_filter_bytes_max: number(
                "ids_filter_bytes_max",
                raw.ids_filter_bytes_max,
                256 << 20,
                1 << 16..=1 << 40,
            )?,
            binary_connections_max: number(
                "binary_connections_max",
                raw.binary_connections_max,
                10_000,
                1..=10_000_000,
            )?,
            http: HttpLimits {
                connections_max: number(
                    "http_connections_max",
                    raw.http_connections_max,
                    http.connections_max,
                    1..=1_000_000,
                )?,
                body_bytes_max: number(
                    "http_body_bytes_max",
                    raw.http_body_bytes_max,
                    http.body_bytes_max,
                    1 << 10..=64 << 20,
                )?,
                head_bytes_max: number(
                    "http_head_bytes_max",
                    raw.http_head_bytes_max,
                    http.head_bytes_max,
                    8 << 10..=1 << 20,
                )?,
                headers_max: number("http_headers_max", raw.http_headers_max, http.headers_max, 16..=1_024)?,
                head_timeout: time("http_head_timeout_ms", raw.http_head_timeout_ms, http.head_timeout)?,
                body_timeout: time("http_body_timeout_ms", raw.http_body_timeout_ms, http.body_timeout)?,
                request_timeout: time("http_request_timeout_ms", raw.http_request_timeout_ms, http.request_timeout)?,
                handshake_timeout: time(
                    "tls_handshake_timeout_ms",
                    raw.tls_handshake_timeout_ms,
                    http.handshake_timeout,
                )?,
                drain_timeout: time("drain_timeout_ms", raw.drain_timeout_ms, http.drain_timeout)?,
                tokens_cached_max: number(
                    "tokens_cached_max",
                    raw.tokens_cached_max,
                    http.tokens_cached_max,
                    2..=100_000_000,
                )?,
                kinds_cached_max: number(
                    "kinds_cached_max",
                    raw.kinds_cached_max,
                    http.kinds_cached_max,
                    256..=100_000_000,
                )?,
            },
            logins: LoginLimits {
                concurrent_max: number("logins_concurrent_max", raw.logins_concurrent_max, 1, 1..=64)?,
                waiting_max: number("logins_waiting_max", raw.logins_waiting_max, 64, 1..=10_000)?,
            },
        })
    }
}

struct Reader<'a> {
    source: &'a Source,
}

impl Reader<'_> {
    fn number(
        &self,
        key: &str,
        written: Option<u64>,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, ConfigError> {
        in_range(self.source, &format!("limits.{key}"), written, default, range)
    }
}

/// The number written at `path`, or its default; an error when it is out of range.
pub fn in_range(
    source: &Source,
    path: &str,
    written: Option<u64>,
    default: u64,
    range: RangeInclusive<u64>,
) -> Result<u64, ConfigError> {
    let number = written.unwrap_or(default);
    if range.contains(&number) {
        return Ok(number);
    }
    let (least, most) = (range.start(), range.end());
    Err(source.error_at(path, format!("{path} = {number}: expected {least} to {most}")))
}
