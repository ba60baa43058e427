//! Shards: the unit of ownership and of journaling.
//!
//! ```text
//!   Request ─▶ router ─▶ operation ─▶ core: decide, append ─▶ journal ─▶ commit: Durable<answer> ─▶ router ─▶ Reply
//!                                       │                      │
//!                                       └─ ids (dedup)         ├─▶ replay (start-up)
//!                                                              └─▶ auditor: second fold, snapshots
//! ```
//!
//! Promise: what leaves a shard is durable, and what a client asked once is done once.
//!
//! Invariant: a shard knows machines and journals, never sockets, threads or clocks; `ring` is the only place where threads meet.

pub mod announcer;
pub mod auditor;
pub mod commit;
pub mod core;
pub mod families;
pub mod ids;
pub mod limits;
mod log_writer;
pub mod message;
pub mod operation;
pub mod planted;
pub mod replay;
pub mod ring;
pub mod router;
pub mod snapshot;
pub mod topics;
pub mod worker;
