//! Decodes and encodes the messages of the binary port, of [`mqtt`] and of [`websocket`], and what a load balancer says
//! before them ([`proxy`]). No I/O, no clock, and no use of Tidegate's other crates.
//!
//! ```text
//!  bytes ──▶ frame::split ──▶ decode_request ──▶ RequestRef ──▶ (gateway)     server's way in
//!  bytes ◀── OutcomesEncoder, encode_reply ◀───────────────────  (gateway)     server's way out
//!  bytes ◀── TransfersEncoder, encode_request ◀────────────────  (client)
//!  bytes ──▶ frame::split ──▶ decode_reply ──▶ ReplyRef ───────▶ (client)
//! ```
//!
//! The bodies of rooms with a hot path have codecs of their own: [`pacer`].
//!
//! `tidegate.proto` is the schema; [`proto`] holds its generated types. The codec beside them is written by hand
//! because a generated one allocates four strings for each transfer, and the time budget of a transfer is some hundred
//! nanoseconds. Property tests check that the two agree. `docs/formats/binary.md` describes the bytes for people who
//! write clients.
//!
//! Promises: no input makes a decoder panic; its time grows with the bytes given and its memory with
//! [`limits::TRANSFERS_MAX`].
//!
//! Invariant: nothing here knows which accounts exist or who may do what.

mod error;
mod field;
pub mod frame;
pub mod limits;
pub mod mqtt;
pub mod pacer;
pub mod proxy;
pub mod reply;
pub mod request;
pub mod room;
mod text;
mod varint;
pub mod websocket;

#[cfg(test)]
mod tests;

/// The types that prost generates from `tidegate.proto`. Their documentation is the schema's.
#[allow(missing_docs, clippy::all)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/tidegate.v1.rs"));
}

/// The types that prost generates from `queue.proto`. Their documentation is the schema's.
#[allow(missing_docs, clippy::all)]
pub mod queue {
    include!(concat!(env!("OUT_DIR"), "/tidegate.queue.v1.rs"));
}

pub use error::{BadFrame, DecodeError, FrameError};
pub use frame::{Split, split};
pub use reply::{OutcomeRef, OutcomesEncoder, OutcomesRef, ReplyBodyRef, ReplyRef, decode_reply, encode_reply};
pub use request::{
    AccountChangeRef, BodyRef, ChangeAccountRef, HoldRef, HoldsEncoder, HoldsRef, OpenAccountsEncoder, OpenAccountsRef,
    OpenSpans, PostHoldsEncoder, PostHoldsRef, RequestRef, TextSpan, TransferRef, TransferSpans, TransfersEncoder,
    TransfersRef, VoidHoldsRef, decode_request, encode_request,
};
pub use room::{RoomRef, encode_room};
