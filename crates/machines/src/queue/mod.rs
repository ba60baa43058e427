//! The queues of one shard: messages that are handed out under leases until somebody acknowledges them.
//!
//! ```text
//!   send ─▶ scheduled ─▶ ready ─▶ leased ─▶ acknowledged       held: an earlier one of its ordering key is not done
//!             ▲           ▲│▲      │ │ │
//!             │           │└┼─ held│ │ └─▶ dead letter queue: delivered too often, or rejected as dead
//!             └───────────┴─┴──────┴─┘
//!               rejected: wait   the lease ended
//! ```
//!
//! Promise: a message that was taken is handed out until it is acknowledged, or until what its sender or an operator
//! has said ends it: its expiry, a cancellation, a purge. No two receivers have a lease of one message. Of the messages
//! of one ordering key, only the oldest is handed out. None is handed out before its time.
//!
//! Bodies are not in the state: an entry says which record of the log has the body. So a waiting message takes the same
//! memory whatever it carries, and the log is kept from the oldest body on ([`crate::Machine::keeps_since`]).
//!
//! A queue may have schedules (`standing.rs`): at each of their times, it sends itself a message.
//!
//! What ends by the clock does so by an event, too ([`Event::TimePassed`]), whose effect follows from the state: a
//! replay needs no clock.
//!
//! Invariant: nothing here knows who may do what, how a request came in, or what a body means.

mod apply;
mod browse;
mod codec;
mod command;
mod decide;
mod distinct;
mod event;
mod groups;
mod ids;
mod key;
mod key_ids;
pub mod limits;
mod machine;
mod message_table;
mod number_set;
mod owners;
mod packed;
mod places;
mod reads;
mod settings;
mod snapshot;
mod sound;
mod standing;
mod state;
mod via;

pub use apply::Mismatch;
pub use codec::EventError;
pub use command::{
    Bounds, Command, Delivery, Lease, LeaseRefusal, Limit, Message, Outcome, Receipt, Refusal, Rejection, When,
};
pub use event::{Event, Moved, QueueIndex, Sent, Touched, Verdict};
pub use ids::{id_in_space, key_elsewhere};
pub use key::{KEY_CHARS, MessageKey, NUMBER_END, NoKey};
pub use message_table::MessageState;
pub use reads::{BodyPlace, MessageView, Offer, QueueFigures, QueueView, Readiness};
pub use settings::{BadSetting, Settings, is_queue_name, shortened};
pub use snapshot::SnapshotError;
pub use standing::{DueStanding, Standing, StandingSettings};
pub use state::{Counts, Queues, Totals};
pub use via::Via;

#[cfg(test)]
mod tests;
