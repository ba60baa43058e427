//! What the ledger's HTTP room needs from the server.

use tidegate_ledger::changes::{After, Change, ChangeFilter, ChangesError};
use tidegate_ledger::message::{CallerRequest, Reply, Unavailable};

use crate::turns::CallerName;

/// The ledger as its room sees it. One clone per edge thread; `call` must not block.
pub trait Backend: Clone + Send + Sync + 'static {
    /// Asks the shards. The future resolves when the answer is durable; when no shard can take the request (full
    /// queues, recovering, failed, stopping) it resolves at once to `Reply::Unavailable`. Dropping it gives up the
    /// answer, not what was asked.
    fn call(&self, request: CallerRequest) -> impl Future<Output = Reply> + Send + 'static;

    /// The replies to a request that has several.
    type Replies: Replies;

    /// Asks for a stream of replies, of which at most `window` wait to be read.
    fn open(&self, request: CallerRequest, window: usize) -> Result<Self::Replies, Unavailable>;

    /// Changes in the order of the journal.
    type Changes: Changes;

    /// Reads the durable changes behind `after` that `filter` lets through, those to come included, in turn with other
    /// callers. Costs the shards nothing but names of accounts.
    fn changes(&self, caller: CallerName, after: After, filter: ChangeFilter) -> Result<Self::Changes, Unavailable>;
}

/// Some changes, or the news that there are none.
#[derive(Clone, Debug)]
pub struct ChangePart {
    /// In order.
    pub rows: Vec<Change>,
    /// Where to read on behind this part, further than the last row if others followed it that are not wanted.
    pub cursor: Box<str>,
    /// Whether all that is durable was read.
    pub is_at_end: bool,
}

/// Why there are no further changes.
#[derive(Clone, Debug)]
pub enum ChangesEnded {
    /// They cannot be read.
    Unreadable(ChangesError),
    /// Not now.
    Unavailable(Unavailable),
}

/// Changes, part by part. Dropping them ends the reading.
pub trait Changes: Send + 'static {
    /// The next part; at the end it waits for news. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Result<ChangePart, ChangesEnded>> + Send;
}

/// The replies to one request, one after the other. Dropping them ends the request.
pub trait Replies: Send + 'static {
    /// The next reply; `None` after the last one, or when the process stops.
    fn next(&mut self) -> impl Future<Output = Option<Reply>> + Send;
}
