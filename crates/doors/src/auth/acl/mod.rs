//! Who may publish and subscribe to which topics. The configuration has ordered rules; the first that fits decides. If
//! none fits, the defaults decide.
//!
//! ```text
//!   topic or filter ─▶ rules, in order ─none fits─▶ grants, own wallets ─none─▶ $…: no; others: as the policy says
//! ```
//!
//! | | publish | subscribe |
//! |---|---|---|
//! | a permit fits | if its filter matches the topic | if its filter covers the whole filter asked for |
//! | a deny fits | if its filter matches the topic | if its filter covers the whole filter asked for |
//!
//! A deny whose filter overlaps the one asked for and does not cover it denies a part: the subscription is granted, if
//! what comes after allows it, and the broker asks about the topic of each message. `mqtt.partly_denied = "refuse"` has
//! it refused instead.
//!
//! Promise: no client receives a message that a rule denies it, whatever filter it asks for. A client cannot widen a
//! rule by its choice of client id, see [`TopicPattern`].
//!
//! Why the defaults differ by `$`: ordinary topics belong to the clients; `$ledger`, `$SYS` and their like belong to
//! the server.

mod client_id;
mod overlap;
mod pattern;
mod rights;
mod rule;

#[cfg(test)]
mod tests;

pub use client_id::{ClientIdPattern, ClientIdPatternError};
pub use overlap::filter_overlaps;
pub use pattern::{TopicPattern, TopicPatternError};
pub use rights::{ClientRights, Holder, Shown};
pub use rule::{Acl, AnonymousSessions, Effect, OrdinaryTopics, PartlyDenied, Role, Rule, Verbs, Who};
