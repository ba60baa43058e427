//! The services and users that are managed while a server runs, beside those of its configuration: a pure state
//! machine, and the family of logs that keeps it.
//!
//! ```text
//!   Put, Rotate, Delete ─▶ decide ─▶ Event { name, before, after } ─▶ log ─▶ apply ─▶ Roster
//! ```
//!
//! Promise: a record holds the hash of a token or of a password, never one of these. Why a family of its own: who may
//! come in is small, is needed before anything else is served, and has nothing to do with what a client leaves behind.
//!
//! Invariant: nothing here knows what a grant means, or who may give it. The doors decide that, each time that a roster
//! comes into force.

mod family;
pub mod limits;
mod machine;
mod member;
mod table;

pub use family::{ROSTER, RosterCommands, RosterFamily, RosterService};
pub use machine::{
    Action, Allowed, Command, Event, Kept, KeptUser, Mismatch, Outcome, Refusal, Roster, ServiceChange, UserChange,
};
pub use member::{Service, TokenHash, User, UserRights};
