//! All bounds of the ledger's shards and of the routes to them, in one place, with the relations that must hold between
//! them.

use tidegate_journal::limits::GROUP_BYTES_MAX;
use tidegate_machines::ledger::{EVENT_BYTES_MAX, TRANSFERS_PER_REQUEST_MAX};

/// Requests that one endpoint (a worker's connections, an edge thread) may have in progress. Beyond it the endpoint
/// stops reading its sockets, or refuses with "busy" of its protocol.
pub const ENDPOINT_REQUESTS_MAX: usize = 8_192;
/// Bytes of requests that one endpoint may have in progress.
pub const ENDPOINT_REQUEST_BYTES_MAX: usize = 64 << 20;
/// Streams of replies that one endpoint may have in progress. They last as long as their readers take, so most requests
/// must be others.
pub const ENDPOINT_STREAMS_MAX: usize = 128;
/// Records in memory that one step reads for a history before it serves others.
pub const HISTORY_RECORDS_PER_STEP: usize = 64;
/// Rows that the first page of a span of time looks at, unless more are asked for: nearly all questions are about what
/// was a moment ago, and few rows of most accounts are later.
pub const FIRST_ROWS_LOOKED_AT: usize = 128;
/// Rows of a history that are read at once, before those for which many more were read already.
pub const HISTORY_ROWS_AT_ONCE: usize = 128;
/// Records that one job reads from the disk for a history: what its shard must hold until it has made rows of them.
pub const HISTORY_RECORDS_PER_JOB: usize = 256;
/// Records that one job reads for the ids of a call, from many places of the disk at once; a call of more has several
/// jobs, one after the other. What others have read waits for few of them: 50 milliseconds, or so, of a cold disk.
pub const RECORDS_PER_JOB_MAX: usize = 512;
/// How much later than its neighbours a row may stand in a history: a credit of another shard carries the time at which
/// that one decided it.
pub const HISTORY_TIME_SLACK_MS: u64 = 60_000;
/// Rows of one part of a history that is read as a stream: some tens of kilobytes, because each stream that its client
/// does not read keeps a few parts.
pub const HISTORY_PART_ROWS_MAX: u32 = 128;
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
/// Decisions on items of batches that one step of a shard makes before it serves others: half a millisecond or so, one
/// when the index of ids is far larger than the caches. A linked group is decided as one.
pub const DECISIONS_PER_STEP: usize = 1_024;
/// Accounts that one step of a shard opens before it serves others: about a millisecond.
pub const OPENS_PER_STEP: usize = 2_048;
/// Accounts that one step of a shard sorts for lists before it serves others: two milliseconds if their ids are random.
pub const ACCOUNTS_SORTED_PER_STEP: u32 = 2_048;
/// Accounts that are sorted for lists before a shard serves: half a second if their ids are random.
pub const ACCOUNTS_SORTED_AT_START: u32 = 1 << 20;
/// Records of which one step of a reader of changes makes rows.
pub const CHANGE_RECORDS_PER_STEP: usize = 1_024;
/// Bytes of rows in memory behind which a step of a reader of changes ends: what waits for a client to read it.
pub const CHANGE_ROW_BYTES_PER_STEP: usize = 32 << 10;
/// Bytes of journal that a reader of changes reads at a time, unless a group is larger. There are many such readers.
pub const CHANGE_READ_AHEAD_BYTES: usize = 128 << 10;
/// Names of accounts that a reader of changes keeps for each shard; beyond it, it forgets all and asks again.
pub const CHANGE_NAMES_MAX: usize = 8_192;
/// Open holds that the auditor compares with one question to the live shard.
pub const AUDIT_HOLDS_PER_QUESTION: u32 = 1_024;
/// Differences that one report names; it says how many more there are.
pub const AUDIT_DIFFERENCES_MAX: usize = 1_000;
/// How long a shard waits for an answer before it pulls credits again, in milliseconds.
pub const PULL_RETRY_MS: u64 = 500;
/// A day, in milliseconds.
pub const DAY_MS: u64 = 86_400_000;
/// How far the newest record may be ahead of the host's clock at a start before that is said.
pub const LEDGER_AHEAD_MS_MAX: u64 = 60_000;
/// How far behind the host's clock the time may be set, in milliseconds, unless it is meant: the next start follows
/// that clock at once, which takes so much of what was left to open holds.
pub const MEND_BEHIND_MS_MAX: u64 = 60_000;
/// How far the newest record may be behind the host's clock at a start while holds are open: a clock that is years
/// ahead would end them all.
pub const LEDGER_BEHIND_MS_MAX: u64 = 366 * DAY_MS;
/// How far the newest record may be behind the host's clock at a start before that is said: perhaps nothing was decided
/// for so long, perhaps the clock is ahead.
pub const LEDGER_QUIET_MS_MAX: u64 = 7 * DAY_MS;

/// How long what is damaged is left alone before it is tried again, in milliseconds: an operator may have put the file
/// right.
pub const DAMAGE_RETRY_MS: u64 = 10_000;

/// What a transfer's record takes beyond its texts, at most: framing, numbers, back pointers.
pub const RECORD_OVERHEAD_BYTES: usize = 160;

// A whole linked group must fit one commit group, so that a crash leaves all of it or nothing.
const _: () = assert!(TRANSFERS_PER_REQUEST_MAX * RECORD_OVERHEAD_BYTES < GROUP_BYTES_MAX / 2);
// One more record always fits a group that is not yet full.
const _: () = assert!(EVENT_BYTES_MAX * 4 < GROUP_BYTES_MAX);
const _: () = assert!(HISTORY_RECORDS_PER_STEP <= HISTORY_RECORDS_PER_JOB);
const _: () = assert!(HISTORY_ROWS_AT_ONCE <= HISTORY_RECORDS_PER_JOB && FIRST_ROWS_LOOKED_AT <= HISTORY_ROWS_AT_ONCE);
const _: () = assert!(FIRST_ROWS_LOOKED_AT <= PAGE_ROWS_MAX as usize);
const _: () = assert!(ENDPOINT_STREAMS_MAX <= ENDPOINT_REQUESTS_MAX / 64);
// What one step needs is kept until the step is done.
const _: () = assert!(CHANGE_RECORDS_PER_STEP * 4 <= CHANGE_NAMES_MAX);
