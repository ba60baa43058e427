//! What the HTTP edge counts. Its tasks wander between threads, so these metrics have many writers.

use super::door;
use crate::counter::SharedCounter;
use crate::family::SharedCounterFamily;
use crate::histogram::SharedHistogram;
use crate::metric::Metric;
use crate::registry::Registry;

const RESPONSES: Metric = Metric::plain("tidegate_http_responses_total", "HTTP responses, by status.");
const CONNECTIONS_CLOSED: Metric = Metric::plain("tidegate_connections_closed_total", "Connections that ended.");

/// Statuses that are counted on their own.
const STATUSES: [&str; 16] =
    ["200", "201", "204", "304", "400", "401", "403", "404", "405", "408", "409", "413", "415", "422", "500", "503"];

/// The HTTP door's metrics, label `door="http"`. May be cloned and shared.
#[derive(Clone, Debug)]
pub struct HttpMetrics {
    /// Requests, by kind, as [`crate::GatewayMetrics::requests`].
    pub requests: SharedCounterFamily,
    /// Requests that the door refused itself, by code.
    pub refusals: SharedCounterFamily,
    /// Requests that could not be served, by reason.
    pub unavailable: SharedCounterFamily,
    /// Responses by status, such as `"200"`.
    pub responses: SharedCounterFamily,
    /// From a request read to its response, nanoseconds.
    pub request_latency: SharedHistogram,
    /// Connections accepted.
    pub connections_accepted: SharedCounter,
    /// Connections that ended; those open now are the difference.
    pub connections_closed: SharedCounter,
    /// Connections turned away or ended by us, by reason.
    pub connections_refused: SharedCounterFamily,
}

impl HttpMetrics {
    /// Registers the metrics with the label values that the door will use; any other counts as `other`.
    pub fn register(
        registry: &Registry,
        kinds: &[&'static str],
        refusal_codes: &[&'static str],
        unavailable_reasons: &[&'static str],
    ) -> HttpMetrics {
        let http = registry.recorder(&[("door", "http")]);
        HttpMetrics {
            requests: http.shared_counter_family(door::REQUESTS, "kind", kinds),
            refusals: http.shared_counter_family(door::REFUSALS, "code", refusal_codes),
            unavailable: http.shared_counter_family(door::UNAVAILABLE, "reason", unavailable_reasons),
            responses: http.shared_counter_family(RESPONSES, "status", &STATUSES),
            request_latency: http.shared_histogram(door::REQUEST_SECONDS),
            connections_accepted: http.shared_counter_with(door::CONNECTIONS_ACCEPTED, &[]),
            connections_closed: http.shared_counter_with(CONNECTIONS_CLOSED, &[]),
            connections_refused: http.shared_counter_family(door::CONNECTIONS_REFUSED, "reason", &["limit", "timeout"]),
        }
    }
}
