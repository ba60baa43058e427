//! Bounds of a shard.

/// Calls of a caller behind one that waits for a read that begin their own reads meanwhile...
pub const LOOK_AHEAD_CALLS: usize = 64;
/// ... and the work that these are worth: one full batch of the ledger. The next caller's reads wait for so much.
pub const LOOK_AHEAD_WORK: usize = 8_192;
/// Work of all calls whose reads have begun and that are not answered. Beyond that nobody else has a turn, because what
/// was read takes memory; they go on at half of it.
pub const READING_WORK_MAX: usize = 64 * LOOK_AHEAD_WORK;
/// Calls that may wait for room on a full disk before the shard takes no more of any kind. They take note of what has
/// happened, so there are never more of them than of what they end, and what they end takes more memory than they do.
pub const BLOCKED_CALLS_MAX: usize = 1 << 20;
/// Events of things whose time has come that one step appends at most, so that a million of them at once keep no caller
/// waiting.
pub const DUE_PER_STEP: usize = 256;
/// Jobs that may wait for others which threads have at a time: one that comes then waits for no more of them.
pub const LATER_JOBS_OUT_MAX: usize = 2;
/// Jobs that are taken before one of those that may wait, if both wait: so that those, too, are done at some time.
pub const FIRST_JOBS_BEFORE_LATER: usize = 32;
/// Bytes by which a snapshot is larger, at most and about, for each byte of log that it covers in addition: a record of
/// a message for many receivers takes eleven bytes for each of them, and a snapshot tells of each copy.
pub const SNAPSHOT_BYTES_PER_LOG_BYTE: u64 = 3;
/// Work that a shard does for one caller before the next one gets its round. One is the decision on one item.
pub const WORK_IN_ROUND: isize = 64;
/// A call that is worth more is large: it is not begun in a step that has served other callers, so that those do not
/// wait for it until what was decided for them is on its way to the disk. Half a millisecond of work, or so.
pub const LARGE_CALL_WORK: usize = 1_024;
/// Empty queues that are kept for callers that come.
pub const SPARE_LANES_MAX: usize = 64;

const _: () = assert!(WORK_IN_ROUND as usize <= LARGE_CALL_WORK, "a call of a round's work is not large");
