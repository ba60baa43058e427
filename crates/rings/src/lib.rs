//! How two threads exchange messages: a ring, and a way to sleep without missing a message.
//!
//! ```text
//!   thread A ──push──▶ [ring] ──pop──▶ thread B
//!   thread A ◀──pop── [ring] ◀──push── thread B        SleepFlag: A wakes B only if B has announced sleep
//! ```
//!
//! Promise: what is sent arrives once and in order, neither thread waits for the other, and no wake-up is lost.
//!
//! Why a crate of its own: loom checks every interleaving of it, and most libraries do not compile under loom.
//!
//! Invariant: nothing here knows what a message means.

pub mod limits;
pub mod ring;
