//! Links: each forwards a queue to a queue of another Tidegate.
//!
//! ```text
//!   here: receive, under a lease ─▶ send over the binary port ─▶ there: durable ─▶ here: acknowledge
//!                    ▲                     └─ refused, or no answer: given back, and a pause that grows
//!                    └──────────────────────────────────────────┘
//! ```
//!
//! Promise: a message is in the queue there before it leaves the queue here, so no crash of either loses it. It is sent
//! under the key that its first node gave it as its id, so what is sent again is taken once, for as long as the queue
//! there remembers ids. Messages of one ordering key arrive in their order, because the queue here hands out the next
//! one when the one before is acknowledged.
//!
//! A receiver that is not there costs nothing but the backlog: nothing is received here while it cannot be reached.
//!
//! Invariant: a link has no state that must survive.

mod forward;
mod keys;
mod pause;
mod remote;
mod room;

pub use keys::{LinkKeys, LinkSettings, links};
pub use room::{LinkMetrics, LinkRoom};
