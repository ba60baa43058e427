//! Shards: the unit of ownership and of journaling. One mechanism for all machines.
//!
//! ```text
//!   call ─▶ Shard<S, L>: inbox ─▶ S: Service decides ─▶ Turn: append, apply ─▶ L: LogStore ─▶ Durable<answer>
//!                                      │                                          │
//!                                      └─ Jobs: reads on other threads            ├─▶ replay (start-up)
//!                                                                                 ├─▶ compact: snapshot, forget
//!                                                                                 └─▶ audit: refold, compare
//! ```
//!
//! The user brings a [`Machine`](tidegate_machines::Machine), a [`ShardFamily`] that names its files, and a [`Service`]
//! (or [`Commands`] for [`Single`], if a call is one command). The shard provides order, durability, backpressure,
//! replay, snapshots, compaction and audit.
//!
//! Promise: what leaves a shard is durable. Calls of one caller that write are decided in the order in which they came,
//! and callers take turns.
//!
//! Invariant: a shard knows machines and logs by their traits only, and knows no sockets, threads or clocks.

mod audit;
mod commit;
mod compact;
mod fold;
pub mod form;
mod inbox;
mod jobs;
pub mod limits;
pub mod loss;
#[cfg(test)]
mod notes;
mod owners;
mod replay;
pub mod service;
mod shard;
pub mod single;
pub mod snapshot;
mod state_clock;
mod turn;
mod unavailable;

pub use audit::{Findings, audit};
pub use commit::Durable;
pub use compact::{
    CompactError, Compaction, CompactionRule, Pressure, compact, compact_to, covers_all_sealed, forget_covered,
    needed_since,
};
pub use fold::{Fold, FoldError, check_place, stands_at};
pub use inbox::Caller;
pub use jobs::{JobId, Jobs};
pub use loss::{Claim, LossProven};
pub use owners::Owners;
pub use replay::{Derived, NothingDerived, OpenError, OpenShard, ReplayError, ReplayReport, Replayed};
pub use service::{Pause, Served, Service, ShardFamily, TurnOf, Unsolicited};
pub use shard::{Released, Shard, ShardFacts};
pub use single::{Commands, Decided, DecidedOf, Single};
pub use snapshot::{SnapshotError, Snapshots, Stand, Written};
pub use state_clock::StateClock;
pub use tidegate_journal::RecordClass;
pub use turn::{Room, Turn};
pub use unavailable::Unavailable;
