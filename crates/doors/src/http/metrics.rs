//! What the HTTP door counts. All edge threads share it, so there are many writers.

use axum::http::StatusCode;
use tidegate_telemetry::metrics;

metrics! {
    /// The HTTP door's metrics.
    #[derive(Clone)]
    pub struct HttpMetrics() {
        answers: SharedCounterFamily(status: "2xx" "4xx" "5xx")
            "tidegate_http_answers_total" "Answers by class of status.";
        connections_accepted: SharedCounter "tidegate_http_connections_accepted_total" "Connections accepted.";
        connections_refused: SharedCounter
            "tidegate_http_connections_refused_total"
            "Connections refused because the door, or their address, had as many as it may.";
        connections_gave_way: SharedCounter
            "tidegate_http_connections_gave_way_total"
            "Connections without a token that were ended for new ones because the door, or their address, was full.";
        connections_open: SharedGauge "tidegate_http_connections_open" "Connections open now.";
        unread_bytes: SharedGauge
            "tidegate_http_unread_bytes" "Bytes of answers in parts that wait for their connections to take them.";
        streams_cut: SharedCounter
            "tidegate_http_streams_cut_total" "Streams that ended because a caller with fewer needed the place.";
        streams_refused: SharedCounter
            "tidegate_http_streams_refused_total" "Streams that were refused because all places were taken.";
        handshakes_failed: SharedCounter
            "tidegate_http_handshakes_failed_total" "TLS handshakes that failed or took too long.";
        proxy_headers_refused: SharedCounter
            "tidegate_http_proxy_headers_refused_total"
            "Connections ended because a trusted load balancer sent no good header of the PROXY protocol in time.";
        forwarded_unclear: SharedCounter
            "tidegate_http_forwarded_unclear_total"
            "Requests of trusted proxies whose header of the client's address could not be read.";
        logins_wrong: SharedCounter
            "tidegate_http_logins_wrong_total" "Log-ins refused for a wrong user or password.";
        logins_delayed: SharedCounter
            "tidegate_http_logins_delayed_total"
            "Log-ins refused because too many wrong passwords came from their address.";
        logins_busy: SharedCounter
            "tidegate_http_logins_busy_total" "Log-ins refused because too many were waiting.";
    }
}

impl HttpMetrics {
    /// Counts one answer.
    pub fn answered(&self, status: StatusCode) {
        self.answers.increment(match status.as_u16() / 100 {
            2 => "2xx",
            4 => "4xx",
            5 => "5xx",
            _ => "other",
        });
    }
}
