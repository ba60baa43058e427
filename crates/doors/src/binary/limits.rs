//! The bounds of one binary connection. Those of a turn stand in `turns::limits`.

use tidegate_wire::limits::{FRAME_BYTES_MAX, FRAME_BYTES_MAX_UNAUTHENTICATED};

use crate::held_bytes::HeldBytesLimits;

/// Requests of one connection under way; beyond it the socket is not read. So many short replies fit its outbox, and a
/// disk that takes 10 ms for each sync leaves one connection 200,000 requests a second.
pub const IN_FLIGHT_MAX: usize = OUTBOX_BYTES_MAX / REPLY_BYTES;
/// Bytes of a reply of a few fields, about.
pub const REPLY_BYTES: usize = 512;
/// Those of them that may ask for a page of accounts or history: 24 bytes of request, up to half a megabyte of reply.
pub const PAGES_IN_FLIGHT_MAX: usize = 8;
/// Unsent replies of one connection, with those of requests under way, about; beyond it the socket is not read, so that
/// memory never grows with a slow reader.
pub const OUTBOX_BYTES_MAX: usize = 1 << 20;
/// What clients of a worker may have sent ahead that waits to be served, half frames too.
pub const AHEAD_BYTES: HeldBytesLimits = HeldBytesLimits { all_max: 256 << 20, of_viewer_max: 4 << 20 };
/// How long a client may take from connecting to its Hello.
pub const HELLO_TIMEOUT_MS: u64 = 5_000;
/// How long a frame may take from its first byte to its last.
pub const FRAME_TIMEOUT_MS: u64 = 30_000;
/// How long a client that is owed replies may take nothing of them.
pub const READER_TIMEOUT_MS: u64 = 30_000;
/// How long a connection is not read after a frame that was over a bound of its caller, or found no room; and how long
/// one without a good token waits to be told so.
pub const REFUSAL_PAUSE_MS: u64 = 50;
/// Bytes of one read from a socket.
pub const READ_BYTES: usize = 256 << 10;
/// Bytes read from one connection before the others get their turn.
pub const READ_BYTES_PER_TURN: usize = 1 << 20;
/// Bytes of a frame for each transfer or hold that a caller's bounds let one request carry: its longest texts, with
/// room to spare.
pub const BYTES_PER_ITEM_MAX: usize = 2 << 10;
/// Bytes of a frame that any caller may send.
pub const FRAME_BYTES_OF_ANYBODY: usize = 64 << 10;
/// Bytes of a refused frame that are one more request of its sender.
pub const REFUSED_BYTES_PER_REQUEST: usize = 16 << 10;
/// Rows of a page that are one more work.
pub const ROWS_PER_WORK: usize = 4;
/// Clients that are taken in one turn.
pub const ACCEPTS_IN_TURN_MAX: usize = 32;
/// Bytes that are thrown away in one turn of those that clients send behind the end of their sessions.
pub const PARTING_BYTES_IN_TURN_MAX: usize = 256 << 10;
/// Those of one session, before others get their turn.
pub const PARTING_BYTES_OF_VISIT_MAX: usize = 64 << 10;
/// Sessions that gave way to others and whose clients have not ended: so many descriptors more than connections.
pub const GAVE_WAY_MAX: usize = 2;
/// Requests of viewers parked until the kinds of their credit accounts are known, per worker.
pub const PARKED_MAX: usize = 8_192;
/// Accounts whose kind a worker remembers.
pub const KINDS_REMEMBERED: usize = 1 << 16;

const _: () = assert!(READ_BYTES <= READ_BYTES_PER_TURN);
// One connection leaves places for others.
const _: () = assert!(IN_FLIGHT_MAX * 4 <= PARKED_MAX);
// A connection that has not shown a token can hold only a small frame.
const _: () = assert!(FRAME_BYTES_MAX_UNAUTHENTICATED * 256 < FRAME_BYTES_MAX);
