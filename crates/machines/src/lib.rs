//! The state machines of Tidegate: pure, deterministic folds of the journal.
//!
//! ```text
//!   command ──▶ decide(&state, command, with, now) ──▶ event ──▶ (journal) ──▶ apply(&mut state, event, at)
//! ```
//!
//! [`Machine`] is what all of them have in common.
//!
//! Promise: `decide` only reads and may refuse; `apply` only writes and cannot fail. The same events in the same order
//! give the same state on every machine and in every version.
//!
//! Invariant: no I/O, no clock, no randomness, no threads here. Time, earlier outcomes and positions come in as
//! arguments. Invariant: nothing here knows how a record is stored, framed, replicated or sent.

mod chunks;
mod damaged_place;
mod encoding;
mod id_space;
pub mod inboxes;
pub mod ledger;
mod machine;
mod number;
mod pieces;
pub mod queue;
pub mod text_words;
mod tie;
pub mod topic;
pub mod weight;

pub use damaged_place::DamagedPlace;
pub use id_space::{ID_SPACE_BYTES_MAX, IdSpace};
pub use ledger::shard_of;
pub use machine::{Decision, Machine, Place};
pub use number::{Amount, OutboundNumber, RecordPosition, RecordSequence, ShardIndex, TimeMs};
pub use tie::{Fact, Tie};
