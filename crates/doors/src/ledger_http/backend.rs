//! What the ledger's HTTP room needs from the server.

use tidegate_ledger::message::{Reply, Request, Unavailable};

/// The ledger as its room sees it. One clone per edge thread; `call` must not block.
pub trait Backend: Clone + Send + Sync + 'static {
    /// Asks the shards. The future resolves when the answer is durable; when no shard can take the request (full
    /// queues, recovering, failed, stopping) it resolves at once to `Reply::Unavailable`. Dropping it gives up the
    /// answer, not what was asked.
    fn call(&self, request: Request) -> impl Future<Output = Reply> + Send + 'static;

    /// The replies to a request that has several.
    type Replies: Replies;

    /// Asks for a stream of replies, of which at most `window` wait to be read.
    fn open(&self, request: Request, window: usize) -> Result<Self::Replies, Unavailable>;
}

/// The replies to one request, one after the other. Dropping them ends the request.
pub trait Replies: Send + 'static {
    /// The next reply; `None` after the last one, or when the process stops.
    fn next(&mut self) -> impl Future<Output = Option<Reply>> + Send;
}
