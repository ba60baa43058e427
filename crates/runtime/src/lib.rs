//! How threads meet: rings between two of them, a way to sleep without missing what the other sent, and threads that wait for disks.
//!
//! ```text
//!   thread A ──push──▶ [ring] ──pop──▶ thread B
//!   thread A ◀──pop── [ring] ◀──push── thread B        SleepFlag: A wakes B only if B has announced sleep
//! ```
//!
//! Promise: what is sent arrives once and in order, nobody waits for anybody, and no wake-up is lost.
//!
//! Invariant: nothing here knows what a message means.

pub mod fetch;
pub mod limits;
pub mod ring;
