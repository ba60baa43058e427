//! Bounds of the queues of a shard that nobody sets.

use crate::ID_SPACE_BYTES_MAX;

/// Characters of a queue's name.
pub const QUEUE_NAME_CHARS_MAX: usize = 80;
/// Queues of a shard.
pub const QUEUES_MAX: usize = 10_000;
/// Of these, those that principals have made, all together: the configuration finds room for the others.
pub const QUEUES_OF_OWNERS_MAX: usize = QUEUES_MAX - QUEUES_MAX / 10;
/// Of these, those of one principal.
pub const QUEUES_OF_OWNER_MAX: usize = QUEUES_MAX - QUEUES_MAX / 4;
/// Bytes of the name of whoever made a queue or a schedule.
pub const OWNER_BYTES_MAX: usize = 256;
/// Messages that have expired, and of which no record was written yet, that a receiver passes over at most.
pub const EXPIRED_PASSED_MAX: usize = 4_096;
/// Levels of priority: 0 is the lowest.
pub const PRIORITIES: usize = 10;
/// The level of a message that names none.
pub const PRIORITY_DEFAULT: u8 = 4;
/// One of so many deliveries is of a lower level than the highest that has something.
pub const LOW_SHARE: u64 = 8;
/// Bytes of a client's id of a message, and of an ordering key.
pub const ID_BYTES_MAX: usize = 128;
/// Bytes of an id of a message with its [id space](crate::IdSpace): as it stands in records.
pub const WHOLE_ID_BYTES_MAX: usize = ID_SPACE_BYTES_MAX + 1 + ID_BYTES_MAX;
/// Bytes of what doors note of a queue.
pub const NOTES_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the text that says when a queue hands out messages.
pub const WINDOW_BYTES_MAX: usize = 128;
/// Schedules of a shard.
pub const STANDING_MAX: usize = 1_000;
/// Of these, those of queues that principals have made: the others are left to queues of the configuration.
pub const STANDING_OF_OWNERS_MAX: usize = STANDING_MAX - STANDING_MAX / 10;
/// Of all, those that one principal has made.
pub const STANDING_OF_OWNER_MAX: usize = STANDING_MAX - STANDING_MAX / 4;
/// Bytes of the message of a schedule: body, attributes and ordering key. They are in memory and in snapshots.
pub const STANDING_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the text that says when a schedule fires.
pub const CRON_BYTES_MAX: usize = 128;
/// Bytes of the name of a time zone.
pub const ZONE_BYTES_MAX: usize = 64;
/// Bytes of the way that a message has come: through a dozen queues with the longest names, a hundred with short ones.
pub const VIA_BYTES_MAX: usize = 1_000;
/// Bytes that a queue adds to it, at most.
pub const VIA_PLACE_BYTES_MAX: usize = " 65535/".len() + QUEUE_NAME_CHARS_MAX;
/// Bytes of the name of a consumer.
pub const CONSUMER_BYTES_MAX: usize = 64;
/// Bytes of the reason of a rejection.
pub const REASON_BYTES_MAX: usize = 256;
/// Bytes of what another system calls a message.
pub const REFERENCE_BYTES_MAX: usize = 100;
/// Bytes of what is noted of a message.
pub const NOTE_BYTES_MAX: usize = 256;
/// Bytes of a message: body, attributes, id and ordering key.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// Messages of one send, receive, acknowledgement, or rejection.
pub const BATCH_MESSAGES_MAX: usize = 1_000;
/// Bytes of the messages of one send: they are one record.
pub const BATCH_BYTES_MAX: usize = 1_000_000;
/// Bytes that a message takes in a record beside its own, at most.
pub const MESSAGE_OVERHEAD_BYTES: usize = 48;
/// How far ahead something may be scheduled, or expire, in milliseconds: a hundred years.
pub const AHEAD_MS_MAX: u64 = 100 * 366 * 24 * 3_600_000;
/// The longest lease, in milliseconds: twelve hours, as in SQS.
pub const LEASE_MS_MAX: u64 = 12 * 3_600_000;
/// Timers that one record ends at most.
pub const TIMERS_PER_RECORD: usize = 4_096;
/// Ids whose window is over that one record forgets at most: more than it adds, so that they do not pile up.
pub const IDS_PER_RECORD: usize = 4_096;
/// Chunks of ids that are keys which one record forgets at most: more than it adds.
pub const KEY_CHUNKS_PER_RECORD: usize = 1_024;
/// Ids that are keys of other nodes, and came in order: so many count as one.
pub const KEYS_PER_ID: u64 = 32;
/// Messages that one record purges at most.
pub const PURGED_PER_RECORD: usize = 8_192;
/// Finished messages of a shard of which it is remembered what became of them; each takes some 30 bytes.
pub const FINISHED_MAX: usize = 1 << 20;
/// Chunks of 64 messages of a shard that are kept open, with some 6 KB each: those that are under way.
pub const OPEN_CHUNKS_MAX: usize = 2_048;
/// Steps of a message's trail that are read.
pub const TRAIL_STEPS_MAX: usize = 64;
/// Bytes of the log that are looked at together when old bodies are moved.
pub const PLACE_BITS: u32 = 20;

const _: () = assert!(MESSAGE_BYTES_MAX + MESSAGE_OVERHEAD_BYTES <= BATCH_BYTES_MAX, "a batch holds any one message");
const _: () = assert!(QUEUES_OF_OWNER_MAX < QUEUES_OF_OWNERS_MAX, "one owner leaves room for others");
const _: () = assert!(STANDING_OF_OWNER_MAX < STANDING_OF_OWNERS_MAX, "one owner leaves room for others");
const _: () = assert!(REFERENCE_BYTES_MAX < ID_BYTES_MAX, "references are remembered among the ids");
const _: () = assert!(OPEN_CHUNKS_MAX > 0, "what changes is open");
const _: () = assert!(KEY_CHUNKS_PER_RECORD > BATCH_MESSAGES_MAX, "chunks are forgotten faster than they come");
const _: () = assert!(IDS_PER_RECORD > BATCH_MESSAGES_MAX, "ids are forgotten faster than they come");
const _: () = assert!(PRIORITY_DEFAULT as usize <= PRIORITIES, "the default is a level");
