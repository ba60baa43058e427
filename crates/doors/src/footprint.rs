//! What one client can make a door keep in memory, at worst, and what a thread of a door keeps for all of its clients.
//!
//! ```text
//!   bounds of each door ─▶ bytes at worst of one thing ─ times how many there may be ─▶ what an operator is told
//! ```
//!
//! Why here: the sizes are those of the bounds and of the types, so what is told changes with them. What is under way
//! between threads for a turn is not counted: nobody can make it stay.

use std::mem::size_of;

use tidegate_ledger::limits::{CHANGE_ROW_BYTES_PER_STEP, ENDPOINT_REQUEST_BYTES_MAX, HISTORY_PART_ROWS_MAX};
use tidegate_machines::ledger::AccountKind;
use tidegate_queue::limits::ANSWER_BYTES_MAX;
use tidegate_roster::limits::{GRANTS_BYTES_MAX, GRANTS_MAX, NAME_BYTES_MAX, PASSWORD_HASH_BYTES_MAX};
use tidegate_wire::limits::FRAME_BYTES_MAX_UNAUTHENTICATED;

use crate::auth::CACHED_TOKEN_BYTES;
use crate::binary::limits::{AHEAD_BYTES, KINDS_REMEMBERED, OUTBOX_BYTES_MAX};
use crate::binary::session::Session;
use crate::http::HttpLimits;
use crate::ledger_http::limits::{CHANGE_READ_BYTES, CHANGE_STREAMS_MAX, HISTORY_PARTS_UNREAD_MAX, PAGE_ROWS_MAX};
use crate::stream::{LAYER_BYTES_MAX, TLS_BYTES};

/// A row of a page with its ids and memo, about.
const ROW_BYTES: usize = 512;
/// An account's id, its kind, and their place in a table that has grown.
const KIND_ENTRY_BYTES: usize = 2 * (128 + size_of::<(Box<str>, AccountKind)>());
/// A task of an edge thread with its sockets, timers and buffers, without what is read and written.
const HTTP_TASK_BYTES: usize = 8 << 10;
/// Steps of a stream of changes that wait for its client: one being read, one made, one before hyper, one in it.
const CHANGE_STEPS_UNREAD: usize = 4;
/// A grant of a service beside its text, about.
const GRANT_BYTES: usize = 128;

/// A connection of the binary port: replies that its client does not take, in a buffer that has grown to twice of them,
/// and a Hello that it does not finish. Half frames of those who have shown a token are [`BINARY_AHEAD_BYTES`].
pub const BINARY_CONNECTION_BYTES: u64 =
    (size_of::<Session>() + 2 * OUTBOX_BYTES_MAX + FRAME_BYTES_MAX_UNAUTHENTICATED) as u64;
/// What one worker has read of frames that are not served.
pub const BINARY_AHEAD_BYTES: u64 = AHEAD_BYTES.all_max as u64;
/// Kinds of accounts that one worker remembers.
pub const BINARY_KINDS_BYTES: u64 = kinds_bytes(KINDS_REMEMBERED);
/// Requests that one thread, of workers or edges, has under way.
pub const REQUESTS_BYTES: u64 = ENDPOINT_REQUEST_BYTES_MAX as u64;
/// A connection under TLS or WebSocket, beside what it has without: the session, half a record or handshake, and what
/// its client does not take.
pub const LAYERS_BYTES: u64 = (TLS_BYTES + LAYER_BYTES_MAX) as u64;
/// A page of rows.
pub const PAGE_BYTES: u64 = PAGE_ROWS_MAX as u64 * ROW_BYTES as u64;
/// A stream of changes whose client does not read.
pub const CHANGE_STREAM_BYTES: u64 = (CHANGE_STEPS_UNREAD * CHANGE_ROW_BYTES_PER_STEP) as u64;
/// What the streams of changes of one edge thread have read ahead.
pub const CHANGES_READ_BYTES: u64 = CHANGE_READ_BYTES.all_max as u64;
/// A history that is read as lines, whose client does not read.
pub const HISTORY_STREAM_BYTES: u64 = (HISTORY_PARTS_UNREAD_MAX * ROW_BYTES) as u64 * HISTORY_PART_ROWS_MAX as u64;
/// Messages of queues that are read as lines, whose client does not read: a page, and what was made of it.
pub const MESSAGE_STREAM_BYTES: u64 = 2 * ANSWER_BYTES_MAX + PAGE_BYTES;
/// A token that is remembered.
pub const TOKEN_BYTES: u64 = CACHED_TOKEN_BYTES;
/// A service or user of the roster with all the grants that it may have: in the shard, in force, on its way there, and
/// as principals before and after a change.
pub const ROSTERED_BYTES: u64 =
    5 * (NAME_BYTES_MAX + PASSWORD_HASH_BYTES_MAX + GRANTS_BYTES_MAX + GRANTS_MAX * GRANT_BYTES) as u64;

/// Readers of changes that there may be at once: each has a file of each log open. Those of `edges` threads of HTTP,
/// and those of MQTT if there is any.
pub fn change_readers(http: Option<&HttpLimits>, edges: usize, has_mqtt: bool) -> usize {
    let of_edge = http.map_or(0, |limits| limits.change_streams_max + limits.change_pages_max);
    of_edge * edges + if has_mqtt { CHANGE_STREAMS_MAX } else { 0 }
}

/// An HTTP connection: a head, and an answer that its client does not take.
pub fn http_connection_bytes(limits: &HttpLimits) -> u64 {
    (HTTP_TASK_BYTES + limits.head_bytes_max) as u64 + PAGE_BYTES
}

/// Kinds of so many accounts.
pub const fn kinds_bytes(accounts: usize) -> u64 {
    (accounts * KIND_ENTRY_BYTES) as u64
}
