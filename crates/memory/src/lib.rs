//! Memory that is read at random: hints to the processor and to the kernel, and large arrays.
//!
//! ```text
//!   prefetch          asks for a cache line some steps before it is read
//!   ask_huge_pages    asks for pages of 2 MiB for memory that somebody else has allocated
//!   Zeroed            an array of zeros on huge pages, and a way to have them touched by another thread
//! ```
//!
//! Promise: what is done here changes how long something takes, never what comes of it.
//!
//! Why a crate of its own: state machines and indexes on disk both need it, and unsafe code is best read in one place.

mod huge_pages;
mod prefetch;
mod zeroed;

pub use huge_pages::ask_huge_pages;
pub use prefetch::prefetch;
pub use zeroed::{Pages, Word, Zeroed};

/// Bytes of a huge page.
const HUGE_PAGE: usize = 2 << 20;
