//! All bounds of the ledger in one place; the relations between them are checked at compile time.

use crate::encoding::VARINT_BYTES_MAX;
use crate::{ID_SPACE_BYTES_MAX, TimeMs};

/// Longest account id, in bytes of UTF-8.
pub const ACCOUNT_ID_BYTES_MAX: usize = 128;
/// Longest transfer or hold id that a client chooses, in bytes of UTF-8.
pub const TRANSFER_ID_BYTES_MAX: usize = 64;
/// Longest transfer or hold id with its space, in bytes: as it stands in records.
pub const WHOLE_ID_BYTES_MAX: usize = ID_SPACE_BYTES_MAX + 1 + TRANSFER_ID_BYTES_MAX;
/// Longest asset name, in bytes of UTF-8.
pub const ASSET_BYTES_MAX: usize = 32;
/// Longest memo, in bytes of UTF-8.
pub const MEMO_BYTES_MAX: usize = 256;
/// Longest `user_data`, in bytes of UTF-8: a UUID with its hyphens and a prefix.
pub const USER_DATA_BYTES_MAX: usize = 64;
/// Most keys of metadata on one account, and most that one request changes.
pub const METADATA_KEYS_MAX: usize = 16;
/// Longest key of metadata, in bytes of UTF-8.
pub const METADATA_KEY_BYTES_MAX: usize = 64;
/// Longest value of metadata, in bytes of UTF-8.
pub const METADATA_VALUE_BYTES_MAX: usize = 256;
/// Most bytes of all keys and values on one account together, and most that one request changes.
pub const METADATA_BYTES_MAX: usize = 1024;
/// Most decimals of an asset: an amount of 64 bits has no more digits behind the point.
pub const ASSET_DECIMALS_MAX: u8 = 18;
/// Most transfers in one request, and most in one linked group.
pub const TRANSFERS_PER_REQUEST_MAX: usize = 8_190;
/// Longest life of a hold: one hundred years of 365.25 days, in milliseconds.
pub const HOLD_EXPIRES_IN_MS_MAX: u64 = 3_155_760_000_000;
/// Latest time an event can carry: 48 bits of milliseconds, the year 10889. A clock beyond it is taken as this.
pub const TIME_MS_MAX: u64 = TimeMs::MAX.0;
/// Most accounts a shard can know, its own and adopted ones.
pub const ACCOUNTS_MAX: u32 = u32::MAX;
/// Credits on their way to one other shard at which [`Ledger::is_outbound_full`](super::Ledger::is_outbound_full) says
/// so: the shard then takes no more requests, so that a receiver that stands still costs bounded memory (24 bytes
/// each).
pub const OUTBOUND_PENDING_MAX: usize = 1 << 20;
/// Mends of the time that a shard keeps: 32 bytes each. Of more, the oldest are forgotten, and the balances of before
/// them with them. Each one means that a clock was found wrong.
pub const MENDS_MAX: usize = 256;
/// Longest encoded event, in bytes.
pub const EVENT_BYTES_MAX: usize = 1280;

/// The longest head of an event besides its texts: tag, two times, a digest and the most integers any event has.
pub(super) const EVENT_HEAD_BYTES_MAX: usize = 1 + 6 + 6 + 16 + 12 * VARINT_BYTES_MAX;

const _: () = assert!(
    EVENT_HEAD_BYTES_MAX
        + (2 + WHOLE_ID_BYTES_MAX)
        + (2 + ACCOUNT_ID_BYTES_MAX)
        + (2 + MEMO_BYTES_MAX)
        + (2 + USER_DATA_BYTES_MAX)
        <= EVENT_BYTES_MAX
);
// Each changed key of metadata has two lengths and a byte that says whether it was removed.
const _: () = assert!(EVENT_HEAD_BYTES_MAX + METADATA_BYTES_MAX + 5 * METADATA_KEYS_MAX <= EVENT_BYTES_MAX);
const _: () = assert!(EVENT_HEAD_BYTES_MAX + (2 + ACCOUNT_ID_BYTES_MAX) + (2 + ASSET_BYTES_MAX) <= EVENT_BYTES_MAX);
// A hold's end is a time that fits 64 bits, whenever it was placed.
const _: () = assert!(TIME_MS_MAX.checked_add(HOLD_EXPIRES_IN_MS_MAX).is_some());
// A linked group is decided as one, and each of its credits may wait for the same shard.
const _: () = assert!(TRANSFERS_PER_REQUEST_MAX <= OUTBOUND_PENDING_MAX);
// An id is kept in place with its length in one byte.
const _: () = assert!(WHOLE_ID_BYTES_MAX <= u8::MAX as usize);
// The length of an id and of an asset fits one byte of a varint or two.
const _: () = assert!(ACCOUNT_ID_BYTES_MAX < 1 << 14 && MEMO_BYTES_MAX < 1 << 14);
