//! Auctions as OpenRTB 2.6 describes them: which campaigns take part for an impression, and with which creative.
//!
//! ```text
//!   plan ─▶ Offering ─▶ Index: what is bought ─▶ campaigns, by price ─┐
//!   Request: hashes of what a request says ───────────────────────────┴─▶ Offering::fits ─▶ creative, floor
//! ```
//!
//! Everything that is compared is a hash of 64 bits, made once: texts of a plan when it is put, texts of a request when
//! it is decoded. Two texts with one hash are taken for the same; a buyer who is told another site than the one that
//! there is learns that from the exchange in no other way either.
//!
//! Invariant: nothing here knows JSON, or how much money there is.

mod index;
mod name;
mod offering;
mod request;

pub use index::{Buyer, Candidates, Index, OwnerHash};
pub use name::{CurrencyCode, domains, exact, folded, site};
pub use offering::{CreativeSet, Fit, Offering};

pub use request::{Banner, Blocked, Deal, Floor, Impression, Request, Seats, Stream, sorted};

#[cfg(test)]
pub(crate) mod tests;
