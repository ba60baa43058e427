//! The ledger behind the HTTP door: accounts, transfers, holds and the audit, as its room.
//!
//! ```text
//!   POST /v1/transfers ─ hot path ─▶ transfers ─┐
//!                                               ├▶ gate (rights) ─▶ Backend::call ─▶ shards
//!   all its other paths ─ axum ────▶ handlers ──┘
//! ```
//!
//! Promise: a reply that moves money leaves only after its record is durable, because it leaves only after the ledger's
//! [`Reply`](tidegate_ledger::message::Reply). Why one hot path: nearly all requests are votes, and axum's routing
//! costs as much as handling one.
//!
//! Invariant: nothing here knows shards, journals or rings; the room speaks [`Backend`] only.

mod accounts;
mod address;
mod assets;
mod audit;
mod backend;
mod changes;
mod history_lines;
mod history_time;
mod holds;
pub(crate) mod limits;
mod metrics;
mod openapi;
mod page_turns;
mod room;
mod settings;
mod transfers;

#[cfg(test)]
mod tests;

pub use crate::turns::CallerName;
pub use backend::{Backend, ChangePart, Changes, ChangesEnded, Replies};
pub(crate) use changes::{change_json, changes_of};
pub use metrics::LedgerHttpMetrics;
pub use room::LedgerRoom;
