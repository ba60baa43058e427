//! What the door asks of the house behind it.

use std::future::Future;

use tidegate_ledger::message::{Reply, Request};

use crate::mqtt::Arrival;

/// The ledger as the door sees it. One clone per edge thread; `call` must not block.
pub trait Backend: Clone + Send + Sync + 'static {
    /// Asks the shards. The future resolves when the answer is durable; when no shard can take the request (full queues,
    /// recovering, failed, stopping) it resolves at once to `Reply::Unavailable`. Dropping it gives up the answer, not what was asked.
    fn call(&self, request: Request) -> impl Future<Output = Reply> + Send + 'static;

    /// Whether the house serves.
    fn health(&self) -> Health;

    /// Everything the house counts, in Prometheus' text format.
    fn metrics(&self) -> String;

    /// Begins to send MQTT clients away, so many per second over all workers, and takes no new ones. Asked again, the new rate holds.
    fn drain(&self, per_second: u32);

    /// How far that is.
    fn drain_status(&self) -> DrainStatus;

    /// Gives a connection that has become a WebSocket to who serves MQTT. `false`: nobody takes it.
    fn adopt(&self, arrival: Box<Arrival>) -> bool;
}

/// How far the clients are sent away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainStatus {
    /// Clients sent away per second; `None` as long as they may stay.
    pub per_second: Option<u32>,
    /// Clients that are connected.
    pub clients: u64,
}

/// Whether the house serves, and if not, why.
#[derive(Clone, Debug, PartialEq)]
pub enum Health {
    /// Replaying its journals.
    Recovering {
        /// How far, from 0 to 1.
        progress: f64,
    },
    /// Recovered and serving.
    Serving,
    /// A journal failed; the process must be restarted.
    Failed {
        /// What happened, for the operator.
        reason: String,
    },
    /// Finishing what is under way.
    Stopping,
}
