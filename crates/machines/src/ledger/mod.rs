//! The ledger: accounts whose balances can never be overdrawn, and a history from which each can be rebuilt.
//! (interface sketch: the signatures below are what the shard, the wire and the doors build on)

/// Longest account id, in bytes of UTF-8.
pub const ACCOUNT_ID_BYTES_MAX: usize = 128;
/// Longest transfer or hold id, in bytes of UTF-8.
pub const TRANSFER_ID_BYTES_MAX: usize = 64;
/// Longest asset name, in bytes of UTF-8.
pub const ASSET_BYTES_MAX: usize = 32;
/// Longest memo, in bytes of UTF-8.
pub const MEMO_BYTES_MAX: usize = 256;
/// Most transfers in one request, and most in one linked group.
pub const TRANSFERS_PER_REQUEST_MAX: usize = 8_190;

mod outcome;
mod request;

pub use outcome::{Outcome, Refusal};
pub use request::{AccountKind, AccountView, HistoryRow, Hold, RowKind, Transfer};
