//! OpenRTB 2.6: auctions of exchanges, and their notices.
//!
//! ```text
//!   POST /openrtb/2.6/bids ─▶ request: JSON, in one pass ─▶ EdgeBidder::auction ─▶ response ─▶ 200, 204
//!   GET /openrtb/2.6/billing, /win, /loss ─▶ notice: token, price ─▶ the shard of its lease
//! ```
//!
//! Specification: <https://github.com/InteractiveAdvertisingBureau/openrtb2.x/blob/main/2.6.md>. What is read and what
//! is answered: docs/formats/openrtb.md.
//!
//! Invariant: an auction waits for no other thread, and nothing of a request is kept.

pub mod notice;
pub mod request;
pub mod response;
pub mod settings;
