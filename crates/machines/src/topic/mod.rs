//! One topic shard: durable sessions, their inboxes, retained and delayed messages.
//!
//! ```text
//!   Command ─▶ decide(&Topics, now) ─▶ Event ─▶ (journal) ─▶ apply(&mut Topics, sequence)
//!                                                              │
//!       sessions: client id, expiry, will, subscriptions ◀─────┼─▶ inboxes (`inboxes`):   7 8 9 …  ─▶ one body each
//!       places: how far a subscription was read ◀──────────────┤
//!       origins:  QoS 2 that was taken and not released ◀──────┼─▶ retained: topic ─▶ the last message
//!       timers:   what is due, by time ◀───────────────────────┘
//! ```
//!
//! Promise: a message in an inbox is removed only when its receiver has acknowledged it, or when a named bound or its
//! expiry drops it; every drop is counted. A message of one origin is taken once until that origin is forgotten. The
//! same events give the same state and the same bytes of a snapshot, in every version.
//!
//! Invariant: nothing here knows who is connected, what a principal may do, how a filter matches a topic, or what a
//! property means.

mod apply;
mod codec;
mod command;
mod decide;
mod due;
mod event;
mod machine;
mod message;
mod principal;
mod snapshot;
mod sound;
mod state;

pub use apply::Mismatch;
pub use codec::EventError;
pub use command::{
    Command, DropReason, InboxLimits, InboxPolicy, KeptPlace, Origin, PLACE_BYTES_MAX, Receiver, Refusal, Slot, Will,
};
pub use due::Due;
pub use event::Event;
pub use message::{Message, MessageMeta};
pub use principal::{PRINCIPAL_BYTES_MAX, Principal, PrincipalKind};
pub use snapshot::SnapshotError;
pub use state::{EntryView, InboxView, Kept, NEVER_S, Session, Subscription, TopicFacts, Topics, entry_bytes};

#[cfg(test)]
mod tests;
