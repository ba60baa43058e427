//! What the HTTP door counts, shared by all edge threads and shown at `/metrics`.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use axum::http::StatusCode;

/// Counters of the HTTP door. Relaxed atomics: each is a fact of its own, none orders another.
#[derive(Debug, Default)]
pub struct HttpCounters {
    /// Connections accepted.
    pub connections_accepted: AtomicU64,
    /// Connections refused because an edge thread had its most.
    pub connections_refused: AtomicU64,
    /// Connections open now.
    pub connections_open: AtomicU64,
    /// TLS handshakes that failed or took too long.
    pub handshakes_failed: AtomicU64,
    /// Transfers asked for, in single requests and batches.
    pub transfers: AtomicU64,
    /// Log-ins refused for a wrong user or password.
    pub logins_wrong: AtomicU64,
    /// Log-ins refused because too many were waiting.
    pub logins_busy: AtomicU64,
    /// Answers by hundreds of the status: `[2xx, 4xx, 5xx, other]`.
    answers: [AtomicU64; 4],
}

impl HttpCounters {
    /// Counts one answer.
    pub fn answered(&self, status: StatusCode) {
        let class = match status.as_u16() / 100 {
            2 => 0,
            4 => 1,
            5 => 2,
            _ => 3,
        };
        self.answers[class].fetch_add(1, Relaxed);
    }

    /// All of them in Prometheus' text format.
    pub fn render(&self) -> String {
        let mut text = String::new();
        text.push_str("# HELP tidegate_http_answers_total Answers by class of status.\n");
        text.push_str("# TYPE tidegate_http_answers_total counter\n");
        for (class, count) in ["2xx", "4xx", "5xx", "other"].iter().zip(&self.answers) {
            let _ = writeln!(text, "tidegate_http_answers_total{{status=\"{class}\"}} {}", count.load(Relaxed));
        }
        for (name, kind, help, value) in [
            ("connections_accepted_total", "counter", "Connections accepted.", &self.connections_accepted),
            ("connections_refused_total", "counter", "Connections beyond the bound.", &self.connections_refused),
            ("connections_open", "gauge", "Connections open now.", &self.connections_open),
            ("handshakes_failed_total", "counter", "TLS handshakes failed or too slow.", &self.handshakes_failed),
            ("transfers_total", "counter", "Transfers asked for.", &self.transfers),
            ("logins_wrong_total", "counter", "Log-ins with a wrong user or password.", &self.logins_wrong),
            ("logins_busy_total", "counter", "Log-ins refused as too many waited.", &self.logins_busy),
        ] {
            let value = value.load(Relaxed);
            let _ = write!(
                text,
                "# HELP tidegate_http_{name} {help}\n# TYPE tidegate_http_{name} {kind}\ntidegate_http_{name} {value}\n"
            );
        }
        text
    }
}
