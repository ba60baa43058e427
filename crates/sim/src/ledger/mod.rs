//! The ledger in the harness: the real workers, routers, shards, id indexes, snapshots and auditors, and clients that
//! never believe silence.
//!
//! ```text
//!   Requests ─▶ clients ─▶ wire (late, lost, doubled) ─▶ Worker / Router ─▶ Shard ─▶ log of a Store
//!      ▲                                         └─ rings (late) ─┘   └▶ IdIndex ─▶ FakeDisk
//!   Model ◀── what was asked, what was answered ──▶ "breaks a promise", with the seed
//! ```
//!
//! Invariant: nothing here decides about money. The oracle knows promises only.

pub mod ask;
pub mod client;
pub mod model;
pub mod network;
pub mod node;
pub mod plan;
pub mod population;
pub mod requests;
pub mod worker;
mod world;

pub use world::Ledger;
