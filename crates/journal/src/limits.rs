//! Every bound of the journal in one place, with the relations between them checked by the compiler.

/// Largest commit group in bytes, header and records together.
pub const GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Largest record in bytes that any log may have, without its own header (see [`crate::Options::record_bytes_max`]). A
/// record is one event: tens of bytes in a ledger, a whole message in a shard of topics.
pub const RECORD_BYTES_MAX: usize = 1024 * 1024;

/// No more than this part of a disk is left free for what makes room on it.
pub const RESERVE_PART: u64 = 32;
/// Shards of one family that a directory may have.
pub const SHARDS_MAX: u16 = 1 << 15;

/// Families that a directory may list.
pub const FAMILIES_MAX: usize = 32;

/// Bytes of a family's name.
pub const FAMILY_NAME_BYTES_MAX: usize = 32;

/// Size of a segment file unless the data directory says otherwise.
pub const SEGMENT_BYTES: u64 = 256 * 1024 * 1024;

/// How much of a segment is claimed from the file system at a time, ahead of the writer.
pub const ALLOCATION_STEP_BYTES: u64 = 64 * 1024 * 1024;

/// How much is overwritten with zeros ahead of the writer at a time (see `docs/decisions/0002-journal-io.md`).
pub const ZERO_AHEAD_BYTES: u64 = 4 * 1024 * 1024;

/// Groups that may be submitted and not yet durable. One is being synced, one waits behind it, one gives slack.
pub const GROUPS_IN_FLIGHT_MAX: usize = 3;

/// Memory of durable groups that are kept for look-ups in a log that has any, see [`crate::Options::recent_bytes_max`].
pub const RECENT_BYTES_MAX: usize = 8 << 20;

/// Segment files that a reader keeps open.
pub const OPEN_SEGMENTS_MAX: usize = 64;

/// How much a reader of a whole log fetches at a time. In smaller pieces, Linux takes twice as long to read without
/// keeping what was read.
pub const READ_AHEAD_BYTES: usize = 2 * 1024 * 1024;

/// Bytes of verified groups that go from thread to thread at once, about (logs of unit tests are short), ...
pub const VERIFIED_PART_BYTES: usize = if cfg!(test) { 4 * 1024 } else { 512 * 1024 };
/// ... and how often so many may wait.
pub const VERIFIED_PARTS_MAX: usize = 2;

/// From so many bytes on, a start verifies the groups of a log on a thread of their own.
pub const VERIFIED_AHEAD_FROM_BYTES: u64 = 16 * 1024 * 1024;

/// Batch facts that wait for somebody to drain them; more are dropped and counted.
pub const FACTS_WAITING_MAX: usize = 256;

/// How long the log is left alone before its tail is marked on disk, in milliseconds (see `docs/formats/journal.md`).
pub const IDLE_MARK_AFTER_MS: u64 = 20;

/// When a full disk is asked again for room, in milliseconds: so soon, then each time twice as late ...
pub const DISK_FULL_RETRY_MS: u64 = 100;
/// ... and so late at most. Whoever has made room waits so long.
pub const DISK_FULL_RETRY_MS_MAX: u64 = 1_600;

/// Bytes of a stream's message, header included.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Messages to a stream whose outcome is not known; more wait in the log. Two of the largest groups, about.
pub const MESSAGES_IN_FLIGHT_MAX: usize = 128;

/// How often the opening of a stream's log tries to append its epoch message.
pub const EPOCH_ATTEMPTS_MAX: usize = 16;

const _: () = assert!(GROUP_BYTES_MAX as u64 <= SEGMENT_BYTES / 4, "a segment holds several of the largest groups");
const _: () = assert!(RECORD_BYTES_MAX <= GROUP_BYTES_MAX / 4, "a group holds several of the largest records");
const _: () =
    assert!(GROUP_BYTES_MAX as u64 * 4 <= ALLOCATION_STEP_BYTES, "one step of room outlasts the groups in flight");
const _: () = assert!(ALLOCATION_STEP_BYTES <= SEGMENT_BYTES);
const _: () = assert!(ZERO_AHEAD_BYTES <= ALLOCATION_STEP_BYTES / 4, "zeros are written where room has been claimed");
