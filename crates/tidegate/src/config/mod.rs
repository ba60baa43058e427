//! What an operator wrote becomes what the server uses, or a sentence that says which line to change.
//!
//! ```text
//!   file ─▶ Source (known keys, types, lines) ─▶ RawConfig (all optional) ─▶ Config (validated, no options left)
//!                                                flags of the command line ──┘
//! ```
//!
//! Why two steps: serde's own errors name neither the section nor the unit, and a missing value is a decision (its default)
//! that belongs in one place. An unknown key is an error, because a key that does nothing is a promise that is not kept.

mod access;
mod accounts;
mod error;
mod limits;
mod mqtt;
mod raw;
mod settled;
mod source;

#[cfg(test)]
mod tests;

pub use mqtt::Door;
pub use settled::{Config, Overrides, Seed};
