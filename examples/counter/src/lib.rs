//! A room added to Tidegate from outside: named counters that go up, and expire.
//!
//! ```text
//!   HTTP  POST /v1/counters/{name}/add ─┐
//!   binary port  RoomFrame 1,024 ───────┴▶ DirectClient ─▶ shard of the name ─▶ journal ─▶ answer, once durable
//! ```
//!
//! `docs/adding-a-room.md` walks through these files. Promise: an answered `add` survives every crash. An `add` has no id, so one whose
//! answer was lost may have counted; who must know uses the ledger.

mod family;
mod frames;
mod http;
mod limits;
mod machine;
mod room;

pub use family::{COUNTERS, CounterCommands, CounterFamily, CounterService, name_of, shard_of};
pub use limits::{CounterKeys, Limits};
pub use machine::{Command, Counters, Event, Malformed, Mismatch, Outcome, Refusal};
pub use room::CounterExtension;
