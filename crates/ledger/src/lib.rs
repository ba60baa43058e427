//! What the ledger needs besides its machine: unique ids, credits between shards, histories, reconciliation.
//!
//! ```text
//!   Request ─▶ router ─▶ operation ─▶ Shard<LedgerService>: decide, append ─▶ Durable<answer> ─▶ router ─▶ Reply
//!                                         │ ids (has this id been used?)      │
//!                                         │ exchange (credits ⇄ shards)       ├─▶ ids, again (start-up)
//!                                         └ announcer (new figures)           └─▶ auditor: second fold, snapshots
//! ```
//!
//! Beside the shards, `changes` reads what is durable for those who follow the journal.
//!
//! Promise: a request is applied once, however often the client retries it and whatever crashes meanwhile.
//!
//! Invariant: the shard makes records durable, replays and compacts them; nothing here opens a log but for a command of
//! an operator (`mend`, `accepted_loss`).

pub mod accepted_loss;
pub mod announcer;
pub mod audit;
pub mod auditor;
pub mod changes;
pub mod claims;
pub mod family;
pub mod histories;
pub mod ids;
mod in_space;
pub mod limits;
pub mod mend;
pub mod message;
pub mod metrics;
pub mod operation;
pub mod protocol;
pub mod regain;
pub mod room;
pub mod router;
pub mod service;
mod weight;
pub mod worker;

pub use family::{LEDGER, LedgerFamily};
pub use metrics::LedgerMetrics;
pub use room::{
    Exchanges, LedgerOptions, LedgerRoom, claim_of_ids, claim_of_index, loss_in_words, strange_sums, verify_ids,
};
pub use service::LedgerService;
pub use worker::LedgerShard;
