//! Every bound of a shard and of the way to it, in one place, with the relations that must hold between them.

use tidegate_journal::limits::GROUP_BYTES_MAX;
use tidegate_machines::ledger::{EVENT_BYTES_MAX, TRANSFERS_PER_REQUEST_MAX};

/// Requests that one endpoint (a worker's connections, an edge thread) may have under way. Beyond it the endpoint stops reading
/// its sockets, or refuses with its protocol's word for "busy".
pub const ENDPOINT_REQUESTS_MAX: usize = 8_192;
/// Bytes of requests that one endpoint may have under way.
pub const ENDPOINT_REQUEST_BYTES_MAX: usize = 64 << 20;
/// Messages that wait in one ring between two threads. More wait with their sender, bounded by its requests under way.
pub const RING_MESSAGES: usize = 1 << 10;
/// Records that one step of a shard reads for histories before it serves others.
pub const HISTORY_RECORDS_PER_STEP: usize = 64;
/// Rows of one page of history, and accounts of one page of a list.
pub const PAGE_ROWS_MAX: u32 = 1_000;
/// Credits that one shard hands to another in one message.
pub const CREDITS_PER_PULL_MAX: usize = 4_096;
/// Expired holds that one step of a shard releases before it serves others.
pub const EXPIRIES_PER_STEP: usize = 1_024;
/// Accounts whose new figures one step of a shard announces before it serves others.
pub const ANNOUNCEMENTS_PER_STEP: usize = 1_024;
/// Accounts that the auditor compares with one question to the live shard.
pub const AUDIT_ACCOUNTS_PER_QUESTION: u32 = 1_024;
/// How long a shard waits for an answer before it pulls credits again, in milliseconds.
pub const PULL_RETRY_MS: u64 = 500;

/// Commands that wait to be decided by a shard of topics before it has no room for more.
pub const TOPIC_COMMANDS_WAITING_MAX: usize = 16_384;
/// Their bytes, messages included.
pub const TOPIC_COMMAND_BYTES_WAITING_MAX: usize = 16 << 20;
/// Sealed bytes of a log of topics behind its newest snapshot that make another one worth it: about two segments.
pub const BYTES_PER_COMPACTION: u64 = 112 << 20;

/// What a transfer's record takes beyond its texts, at most: framing, numbers, back pointers.
pub const RECORD_OVERHEAD_BYTES: usize = 160;

// A whole linked group must fit one commit group, so that a crash leaves all of it or nothing.
const _: () = assert!(TRANSFERS_PER_REQUEST_MAX * RECORD_OVERHEAD_BYTES < GROUP_BYTES_MAX / 2);
// One more record always fits a group that is not yet full.
const _: () = assert!(EVENT_BYTES_MAX * 4 < GROUP_BYTES_MAX);
