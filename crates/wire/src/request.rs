//! Requests: decoded without copying strings, encoded without building a message first.

mod decode;
mod encode;

pub use decode::{
    AccountChangeRef, BodyRef, ChangeAccountRef, HoldRef, HoldsRef, OpenAccountsRef, OpenSpans, PostHoldsRef,
    RequestRef, TextSpan, TransferSpans, TransfersRef, VoidHoldsRef, decode_request,
};
pub use encode::{HoldsEncoder, OpenAccountsEncoder, PostHoldsEncoder, TransferRef, TransfersEncoder, encode_request};

/// Field numbers of the bodies of `RequestFrame`.
mod number {
    pub(super) const HELLO: u32 = 2;
    pub(super) const OPEN_ACCOUNT: u32 = 3;
    pub(super) const TRANSFERS: u32 = 4;
    pub(super) const HOLDS: u32 = 5;
    pub(super) const POST_HOLDS: u32 = 6;
    pub(super) const VOID_HOLDS: u32 = 7;
    pub(super) const READ_ACCOUNT: u32 = 8;
    pub(super) const LIST_ACCOUNTS: u32 = 9;
    pub(super) const READ_HISTORY: u32 = 10;
    pub(super) const READ_AUDIT: u32 = 11;
    pub(super) const PING: u32 = 12;
    pub(super) const OPEN_ACCOUNTS: u32 = 13;
    pub(super) const READ_TRANSFER: u32 = 200;
    pub(super) const READ_HOLD: u32 = 201;
    pub(super) const LIST_HOLDS: u32 = 202;
    pub(super) const CHANGE_ACCOUNT: u32 = 203;
    pub(super) const DECLARE_ASSET: u32 = 204;
    pub(super) const LIST_ASSETS: u32 = 205;
}
