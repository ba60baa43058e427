//! How often users were seen, counted by all workers in one table of bounded memory.
//!
//! ```text
//!   worker ─┐
//!   worker ─┴─▶ count(user, cap, now) ─▶ FrequencyTable ─▶ whether there may be one more
//! ```
//!
//! Promise: nobody is counted more often than their cap says, whatever the workers do at the same time, but for what
//! the head of `table.rs` says.
//!
//! Why a crate of its own: loom checks every interleaving of it, and most libraries do not compile under loom.
//!
//! Invariant: nothing here knows who a user is or what is counted.

mod table;

pub use table::{COUNT_MAX, Cap, FrequencyTable, User, WINDOW_S_MAX};
