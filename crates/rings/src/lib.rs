//! How two threads meet: a ring of messages, and a way to sleep without missing what the other one sent.
//!
//! ```text
//!   thread A ──push──▶ [ring] ──pop──▶ thread B
//!   thread A ◀──pop── [ring] ◀──push── thread B        SleepFlag: A wakes B only if B has announced sleep
//! ```
//!
//! Promise: what is sent arrives once and in order, nobody waits for anybody, and no wake-up is lost.
//!
//! Why a crate of its own: every interleaving of it is checked by loom, under which most libraries do not compile.
//!
//! Invariant: nothing here knows what a message means.

pub mod limits;
pub mod ring;
