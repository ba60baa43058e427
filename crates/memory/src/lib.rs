//! Memory that is read at random: hints to the processor and to the kernel, and large arrays.
//!
//! ```text
//!   prefetch          asks for a cache line some steps before it is read
//!   Zeroed            an array of zeros on huge pages
//!   Reserved          an array that grows and never moves, on huge pages if it is large
//!   Pages             memory of either, for another thread to touch before it is used
//! ```
//!
//! Promise: what is done here changes how long something takes, never what comes of it.
//!
//! Why a crate of its own: state machines and indexes on disk both need it, and unsafe code is best read in one place.

mod mapping;
mod prefetch;
mod reserved;
mod zeroed;

pub use mapping::Pages;
pub use prefetch::prefetch;
pub use reserved::Reserved;
pub use zeroed::{Word, Zeroed};

/// Bytes of a huge page.
const HUGE_PAGE: usize = 2 << 20;
