//! Everything that is broken on purpose, so that tests can show that they would notice.
//!
//! ```text
//!   feature `bugs`       simulator ── plant(Bug) ──▶ is_planted(Bug) in the one line of code that the bug breaks
//!   feature `tampering`  test ── file ──▶ running binary: Tampering ── BalanceChange ──▶ Ledger
//! ```
//!
//! A [`Bug`] is wrong code, chosen from inside, on one thread; [`Tampering`] is harm done from outside to a process
//! whose code is right. They are two features, because the binary that tests kill and audit should run the code that is
//! released, without the switches of the first kind.
//!
//! Promise: a release has neither. Without `bugs`, [`is_planted`] is the constant `false`, and no code is left of it.
//! Without `tampering`, [`BalanceChange`] is a type without values: what takes one can be compiled, and never called.
//! No other crate has a feature for this, so one place decides: `scripts/released.sh` fails if a released binary would
//! have either.
//!
//! Invariant: nothing here depends on another crate, so that every crate can ask.

mod bug;
mod tampering;

#[cfg(feature = "bugs")]
pub use bug::plant;
pub use bug::{Bug, is_planted};
pub use tampering::{BalanceChange, Tampering, VARIABLE};
