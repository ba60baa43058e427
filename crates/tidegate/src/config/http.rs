//! The keys of the HTTP door.

use std::time::Duration;

use tidegate_config::{Bytes, ConfigError, Count, Document, Milliseconds, Seconds, Texts, config};
use tidegate_doors::http::{Cors, CorsOrigins, HttpLimits};

use super::listeners::is_origin;

config! {
    /// `[limits]`, as far as HTTP goes.
    pub struct HttpKeys in "limits" {
        edge_threads: Count<u16> = 1, 1..=256, restart, "threads that serve HTTP, each with its own connections";
        http_connections_max: Count<usize> = 10_000, 1..=1_000_000, restart,
            "open connections per edge thread; for one more, one without a token gives way, or it is answered 503";
        http_connections_per_address_max: Count<usize> = 0, 0..=1_000_000, restart,
            "HTTP connections of one address (IPv6: of one /64), over all edge threads; 0 for three quarters of all. \
             Behind a load balancer they are those of its clients if [proxy] says so";
        http_body_bytes_max: Bytes<usize> = 2 << 20, 1024..=(64 << 20), restart,
            "bytes of a request's body; more is answered 413. A caller with bounds, such as a viewer, may send no \
             more than one request of it may carry: 8 KiB for each transfer or hold, and one more, and 64 KiB in any \
             case";
        http_bodies_bytes_max: Bytes<usize> = 64 << 20, 4096..=(64 << 30), restart,
            "bytes of bodies that came in part, per edge thread, or four times http_body_bytes_max if that is more; \
             viewers leave a quarter to services; more is answered 503";
        http_bodies_of_viewer_bytes_max: Bytes<usize> = 4 << 20, 1024..=(64 << 30), restart,
            "those of one viewer, or http_body_bytes_max if that is more; more is answered 429";
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
        http_change_streams_max: Count<usize> = 64, 2..=4_096, restart,
            "streams of changes open per edge thread; a caller without any gets the place of whoever has the most";
        http_history_streams_max: Count<usize> = 64, 2..=64, restart,
            "histories per edge thread that are read as lines; a caller without any gets the place of whoever has the \
             most";
        http_message_streams_max: Count<usize> = 16, 1..=1_024, restart,
            "streams of messages of queues, read as lines, per edge thread; a caller without any gets the place of \
             whoever has the most";
        http_streams_of_caller_max: Count<usize> = 8, 1..=4_096, restart,
            "streams of changes, histories read as lines, and messages read as lines, that one caller has open per \
             edge thread, of each; more is answered 503";
        http_streams_for_services: Count<usize> = 16, 0..=4_095, restart,
            "streams of changes, and histories read as lines, per edge thread that viewers leave to services; \
             fewer than http_change_streams_max and http_history_streams_max";
        http_change_pages_max: Count<usize> = 32, 1..=1_024, restart,
            "pages of changes read at once per edge thread, one of each caller; others wait their turn";
        http_change_pages_for_services: Count<usize> = 8, 0..=1_023, restart,
            "pages of changes per edge thread that viewers leave to services; fewer than http_change_pages_max";
        tls_handshake_timeout_ms: Milliseconds = 5_000, 10..=86_400_000, restart, "milliseconds for a TLS handshake";
        drain_timeout_ms: Milliseconds = 5_000, 10..=86_400_000, restart,
            "milliseconds that requests get to finish when the server stops";
        tokens_cached_max: Count<usize> = 65_536, 2..=100_000_000, restart,
            "tokens per edge thread whose signature need not be checked again";
        kinds_cached_max: Count<usize> = 65_536, 256..=100_000_000, restart,
            "accounts per edge thread whose kind need not be asked again";
    }
}

config! {
    /// `[listener.http]`
    pub struct CorsKeys in "listener.http" {
        cors_origins: Texts = &[], .., restart,
            "web pages of these other origins may use the API with a token that they show, such as \
             \"https://app.example.org\", as browsers write them; [\"*\"] for all";
        cors_max_age_s: Seconds = 600, 0..=86_400, restart,
            "seconds in which a browser need not ask again whether a page may";
    }
}

/// Which web pages of others may use the API.
pub fn cors(document: &Document) -> Result<Cors, ConfigError> {
    let keys: CorsKeys = document.section()?;
    let max_age = Duration::from_secs(keys.cors_max_age_s);
    // Letter for letter what a browser sends: it writes a host in lower case, and no port that the scheme means.
    let is_sent = |origin: &str| {
        let usual = if origin.starts_with("https:") { ":443" } else { ":80" };
        is_origin(origin)
            && origin.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase())
            && !origin.ends_with(usual)
    };
    let origins = match &keys.cors_origins[..] {
        [] => CorsOrigins::None,
        [all] if &**all == "*" => CorsOrigins::Any,
        listed => match listed.iter().find(|origin| !is_sent(origin)) {
            Some(wrong) => {
                let path = "listener.http.cors_origins";
                let message = format!(
                    "{path}: {wrong:?}: expected origins as a browser sends them, such as \
                     \"https://app.example.org\" or \"http://localhost:3000\", in lower case and without a path, or \
                     \"*\" alone"
                );
                return Err(document.error_at(path, message));
            }
            None => CorsOrigins::Listed(listed.into()),
        },
    };
    Ok(Cors { origins, max_age })
}

/// The number of edge threads, and the bounds of each.
pub fn settle(document: &Document) -> Result<(u16, HttpLimits), ConfigError> {
    let keys: HttpKeys = document.section()?;
    let streams_max = keys.http_change_streams_max.min(keys.http_history_streams_max);
    if keys.http_streams_for_services >= streams_max {
        let message = format!(
            "{} streams for services: expected less than {streams_max}, which is the lower of \
             http_change_streams_max and http_history_streams_max",
            keys.http_streams_for_services
        );
        return Err(document.error_at("limits.http_streams_for_services", message));
    }
    if keys.http_change_pages_for_services >= keys.http_change_pages_max {
        let message = format!(
            "{} pages for services: expected less than {}, which is http_change_pages_max",
            keys.http_change_pages_for_services, keys.http_change_pages_max
        );
        return Err(document.error_at("limits.http_change_pages_for_services", message));
    }
    let limits = HttpLimits {
        connections_max: keys.http_connections_max,
        connections_per_address_max: keys.http_connections_per_address_max,
        body_bytes_max: keys.http_body_bytes_max,
        bodies_bytes_max: keys.http_bodies_bytes_max,
        bodies_of_viewer_bytes_max: keys.http_bodies_of_viewer_bytes_max,
        login_body_bytes_max: keys.http_login_body_bytes_max,
        head_bytes_max: keys.http_head_bytes_max,
        headers_max: keys.http_headers_max,
        head_timeout: Duration::from_millis(keys.http_head_timeout_ms),
        body_timeout: Duration::from_millis(keys.http_body_timeout_ms),
        request_timeout: Duration::from_millis(keys.http_request_timeout_ms),
        reader_timeout: Duration::from_millis(keys.http_reader_timeout_ms),
        change_streams_max: keys.http_change_streams_max,
        history_streams_max: keys.http_history_streams_max,
        message_streams_max: keys.http_message_streams_max,
        streams_of_caller_max: keys.http_streams_of_caller_max,
        streams_for_services: keys.http_streams_for_services,
        change_pages_max: keys.http_change_pages_max,
        change_pages_for_services: keys.http_change_pages_for_services,
        handshake_timeout: Duration::from_millis(keys.tls_handshake_timeout_ms),
        drain_timeout: Duration::from_millis(keys.drain_timeout_ms),
        tokens_cached_max: keys.tokens_cached_max,
        kinds_cached_max: keys.kinds_cached_max,
    };
    Ok((keys.edge_threads, limits))
}
