//! What the ledger's HTTP room needs from the server.

use tidegate_ledger::message::{Reply, Request};

/// The ledger as its room sees it. One clone per edge thread; `call` must not block.
pub trait Backend: Clone + Send + Sync + 'static {
    /// Asks the shards. The future resolves when the answer is durable; when no shard can take the request (full
    /// queues, recovering, failed, stopping) it resolves at once to `Reply::Unavailable`. Dropping it gives up the
    /// answer, not what was asked.
    fn call(&self, request: Request) -> impl Future<Output = Reply> + Send + 'static;
}
