//! Replies: each applied outcome of a batch costs four bytes and about two nanoseconds, in either direction.
//!
//! ```text
//!   0a 02 10 01   applied      ── the one that nearly all of a batch are
//!   0a 02 10 02   duplicate
//!   0a .. 10 03 1a .. code [20 available]   refused
//! ```

mod decode;
mod encode;

pub use decode::{OutcomesRef, ReplyBodyRef, ReplyRef, decode_reply};
pub use encode::{OutcomesEncoder, encode_reply};

use crate::proto::OutcomeKind;

/// One outcome, borrowed from the reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeRef<'a> {
    /// Applied, duplicate or refused; unspecified when the server knows an outcome that this version does not.
    pub outcome: OutcomeKind,
    /// Of a refusal: its stable name. Empty otherwise.
    pub code: &'a str,
    /// Of `insufficient_funds`: what was available when it was decided, in minor units.
    pub available: u64,
    /// Whether the id was refused before.
    pub remembered: bool,
    /// Of a remembered refusal: when it was decided, milliseconds since the epoch.
    pub decided_at_ms: u64,
}

/// The item of an outcome without code, but for its last byte, the kind.
const BARE: [u8; 3] = [0x0a, 0x02, 0x10];

/// Field numbers of the bodies of `ReplyFrame`.
mod number {
    pub(super) const WELCOME: u32 = 2;
    pub(super) const ACCOUNT_OPENED: u32 = 3;
    pub(super) const OUTCOMES: u32 = 4;
    pub(super) const ACCOUNT: u32 = 5;
    pub(super) const ACCOUNTS: u32 = 6;
    pub(super) const HISTORY: u32 = 7;
    pub(super) const AUDIT: u32 = 8;
    pub(super) const PONG: u32 = 9;
    pub(super) const ERROR: u32 = 10;
    pub(super) const TRANSFER_STATE: u32 = 200;
    pub(super) const HOLD_STATE: u32 = 201;
    pub(super) const OPEN_HOLDS: u32 = 202;
    pub(super) const ACCOUNT_CHANGED: u32 = 203;
    pub(super) const ASSET_DECLARED: u32 = 204;
    pub(super) const ASSETS: u32 = 205;
}
