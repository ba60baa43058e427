//! The sets of metrics that the server records. Names stand here and nowhere else.

mod gateway;
mod http;
mod shard;

pub use gateway::GatewayMetrics;
pub use http::HttpMetrics;
pub use shard::ShardMetrics;

use crate::metric::Metric;

/// Metrics that more than one door records, told apart by the label `door`.
mod door {
    use super::Metric;

    pub(super) const REQUESTS: Metric = Metric::plain("tidegate_requests_total", "Requests that were read, by kind.");
    pub(super) const REFUSALS: Metric =
        Metric::plain("tidegate_door_refusals_total", "Requests that the door itself refused, by code.");
    pub(super) const UNAVAILABLE: Metric =
        Metric::plain("tidegate_unavailable_total", "Requests that could not be served, by reason.");
    pub(super) const REQUEST_SECONDS: Metric =
        Metric::nanoseconds("tidegate_request_seconds", "From a request read to its reply handed to the socket.");
    pub(super) const CONNECTIONS_OPEN: Metric = Metric::plain("tidegate_connections_open", "Connections open now.");
    pub(super) const CONNECTIONS_ACCEPTED: Metric =
        Metric::plain("tidegate_connections_accepted_total", "Connections accepted.");
    pub(super) const CONNECTIONS_REFUSED: Metric =
        Metric::plain("tidegate_connections_refused_total", "Connections turned away or ended by us, by reason.");
}
