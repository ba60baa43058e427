//! A room added to Tidegate from outside: named counters that go up, and expire.
//!
//! ```text
//!   HTTP  POST /v1/counters/{name}/add ─┐
//!   binary port  RoomFrame 1,024 ───────┴▶ DirectClient ─▶ shard of the name ─▶ journal ─▶ answer, once durable
//! ```
//!
//! An answered `add` survives every crash. One whose answer was lost may have counted. See `docs/adding-a-room.md`.

mod family;
mod frames;
mod http;
mod limits;
mod machine;
mod room;

pub use family::{COUNTERS, CounterCommands, CounterFamily, CounterService, shard_of};
pub use limits::CounterKeys;
pub use machine::{Action, Command, Counter, Counters, Event, Mismatch, Refusal};
pub use room::CounterExtension;
