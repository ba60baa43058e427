//! Every bound of the binary port, in one place, with the relations between them checked by the compiler.

/// Longest frame after its length prefix, in bytes.
pub const FRAME_BYTES_MAX: usize = 4 << 20;

/// Longest frame before the connection has shown a token: a Hello with a JWT fits, a flood does not.
pub const FRAME_BYTES_MAX_UNAUTHENTICATED: usize = 8 << 10;

/// Most transfers, holds, posts or voids in one request.
pub const TRANSFERS_MAX: usize = 8_190;

/// Most bid requests, wins or losses in one request to the pacer.
pub const PACER_ITEMS_MAX: usize = 256;

/// Longest length prefix that is read: five bytes carry any 32-bit length, also when a writer padded it.
pub const LENGTH_PREFIX_BYTES_MAX: usize = 5;

/// Width of a padded length, see [`crate::frame`].
pub(crate) const PADDED_BYTES: usize = 4;

/// Bodies up to this length get their lengths in the fewest bytes; longer ones are not worth moving.
pub(crate) const COMPACT_BYTES_MAX: usize = 4 << 10;

/// Width of the lengths of a frame of the pacer, see [`crate::pacer`].
pub(crate) const PACER_LENGTH_BYTES: usize = 2;

/// Room for any item that is written to or from the pacer.
pub(crate) const PACER_ITEM_BYTES_MAX: usize = 48;

/// Room for any head of a frame to or from the pacer.
pub(crate) const PACER_HEAD_BYTES_MAX: usize = 32;

/// A transfer with the longest id and accounts the ledger takes (64, 128, 128 bytes), tags and lengths included, no
/// memo.
const TRANSFER_BYTES: usize = (1 + 3) + (2 + 64) + 2 * (3 + 128) + (1 + 10);

const _: () = assert!(TRANSFERS_MAX * TRANSFER_BYTES < FRAME_BYTES_MAX);
const _: () = assert!(FRAME_BYTES_MAX_UNAUTHENTICATED < FRAME_BYTES_MAX);
// A padded length carries 28 bits, a span 32.
const _: () = assert!(FRAME_BYTES_MAX < 1 << (7 * PADDED_BYTES));
const _: () = assert!(FRAME_BYTES_MAX < u32::MAX as usize);
// Every length in a frame of the pacer carries 14 bits.
const _: () = assert!(PACER_HEAD_BYTES_MAX + PACER_ITEMS_MAX * PACER_ITEM_BYTES_MAX < 1 << (7 * PACER_LENGTH_BYTES));
