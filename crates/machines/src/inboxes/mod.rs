//! Queues: inboxes that hold bodies, each body stored once however many inboxes it is in.
//!
//! ```text
//!   an inbox     41 received   42 ─ hole   43 queued ─┐      next 44
//!   another       2 queued ───────────────────────────┤      next  3
//!                                                     ▼
//!   bodies                                      body, 2 copies          freed with its last copy
//! ```
//!
//! Promises: entries are numbered without a gap, are in the order of their numbers and are never renumbered. An empty
//! inbox needs no memory but its next number. Removing an entry from the middle of a long inbox costs no more than
//! removing the first.
//!
//! Invariant: nothing here knows what a body is, who receives it, or when; bounds and deadlines belong to the owner.

mod bodies;
mod inbox;

pub use bodies::{Bodies, BodyIndex};
pub use inbox::{ENTRY_BYTES, Entry, EntryState, Inbox};

#[cfg(test)]
mod tests;
