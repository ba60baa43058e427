//! Bounds, and the keys that set them.

use tidegate_config::{Bytes, Count, NoDefault, Optional, config};
use tidegate_machines::queue::Bounds;
use tidegate_machines::queue::limits::{
    BATCH_BYTES_MAX, FINISHED_MAX, MESSAGE_BYTES_MAX, STANDING_BYTES_MAX, STANDING_MAX,
};

config! {
    /// `[queues]`.
    pub struct QueuesKeys in "queues" {
        shards: Count<u16> = 1, 1..=256, restart,
            "shards of queues in a new directory; one that exists keeps its number, and a start with another is \
             refused";
        node: Optional<Count<u16>> = NoDefault, .., restart,
            "number of this node, 0 to 65535, which is part of the keys of messages; without it, one that follows from \
             the KEY of data.dir, and from its last restore or accepted loss. Nodes whose links send to one queue need \
             different ones";
        messages_max: Count<u64> = 20_000_000, 1..=1_000_000_000, restart, "messages of one shard that are not gone";
        messages_of_queue_max: Optional<Count<u64>> = NoDefault, .., restart,
            "of these, messages of one queue; without it, half of queues.messages_max";
        messages_of_owner_max: Optional<Count<u64>> = NoDefault, .., restart,
            "of these, messages of all queues that one user or service has made; without it, three quarters of \
             queues.messages_max";
        ids_max: Count<u64> = 1_000_000, 0..=1_000_000_000, restart,
            "ids of messages that one shard remembers; of those that links send, 32 count as one";
        ids_of_queue_max: Optional<Count<u64>> = NoDefault, .., restart,
            "of these, ids of one queue; without it, half of queues.ids_max";
        ids_of_owner_max: Optional<Count<u64>> = NoDefault, .., restart,
            "of these, ids of all queues that one user or service has made; without it, three quarters of \
             queues.ids_max";
        ordering_keys_max: Count<u64> = 2_000_000, 0..=1_000_000_000, restart,
            "different ordering keys that messages of one shard have in their queues";
        ordering_keys_of_queue_max: Optional<Count<u64>> = NoDefault, .., restart,
            "of these, ordering keys of one queue; without it, half of queues.ordering_keys_max";
        ordering_keys_of_owner_max: Optional<Count<u64>> = NoDefault, .., restart,
            "of these, ordering keys of all queues that one user or service has made; without it, three quarters of \
             queues.ordering_keys_max";
        bodies_bytes_max: Bytes = 268_435_456, 1_048_576..=1_099_511_627_776, restart,
            "bodies of one shard in memory";
        receivers_max: Count<usize> = 10_000, 1..=1_000_000, restart,
            "requests that may wait for messages of one shard";
    }
}

impl QueuesKeys {
    /// Those that decisions see.
    pub fn bounds(&self) -> Bounds {
        let shared = Bounds::new(self.messages_max, self.ids_max, self.ordering_keys_max);
        Bounds {
            messages_of_queue_max: self.messages_of_queue_max.unwrap_or(shared.messages_of_queue_max),
            messages_of_owner_max: self.messages_of_owner_max.unwrap_or(shared.messages_of_owner_max),
            ids_of_queue_max: self.ids_of_queue_max.unwrap_or(shared.ids_of_queue_max),
            ids_of_owner_max: self.ids_of_owner_max.unwrap_or(shared.ids_of_owner_max),
            ordering_keys_of_queue_max: self.ordering_keys_of_queue_max.unwrap_or(shared.ordering_keys_of_queue_max),
            ordering_keys_of_owner_max: self.ordering_keys_of_owner_max.unwrap_or(shared.ordering_keys_of_owner_max),
            ..shared
        }
    }
}

/// Memory of an ordering key that messages have, the longest.
pub const ORDERING_KEY_MEMORY_BYTES: u64 = 256;
/// Memory of a message that waits, without its body, id and ordering key: its entry, its place among the others, its
/// timer. Most take less than half of it; this is one that shares nothing with its neighbours.
pub const MESSAGE_MEMORY_BYTES: u64 = 32;
/// Memory of an id that is remembered, the longest.
pub const ID_MEMORY_BYTES: u64 = 384;
/// Memory of a request that waits for messages.
pub const RECEIVER_MEMORY_BYTES: u64 = 512;
/// Memory of a consumer whose rate is known: two entries with the longest names of queue and consumer.
pub const CONSUMER_MEMORY_BYTES: u64 = 512;
/// Memory of a shard that no key sets: its schedules, twice while a snapshot is made, consumers, and messages that are
/// gone and remembered.
pub const SHARD_MEMORY_BYTES: u64 = 2 * (STANDING_MAX * (STANDING_BYTES_MAX + 1_024)) as u64
    + CONSUMERS_MAX as u64 * CONSUMER_MEMORY_BYTES
    + FINISHED_MAX as u64 * MESSAGE_MEMORY_BYTES;
const _: () = assert!(FINISHED_MAX == 1_048_576, "the key `trail_ms` says so");
/// Bytes of a segment of a log.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// Messages of calls behind which a step serves no more of them: some 0.6 ms, for which others wait.
pub const WORK_IN_STEP_MAX: usize = 2_048;
/// Calls that may wait for a shard.
pub const CALLS_WAITING_MAX: usize = 8_192;
/// Their bytes.
pub const CALL_BYTES_WAITING_MAX: usize = 64 << 20;
/// Messages, and bytes of them, that are read ahead of the receivers of a queue.
pub const READ_AHEAD_MESSAGES: usize = 2_048;
/// See [`READ_AHEAD_MESSAGES`].
pub const READ_AHEAD_BYTES: u64 = 4 << 20;
/// Consumers of a shard that had messages in the last moments, and whose rate is therefore known.
pub const CONSUMERS_MAX: usize = 16_384;
/// Threads that read bodies for a shard.
pub const FETCH_THREADS: usize = 2;
/// Records about what ended by the clock that are written in one step.
pub const TIMERS_PER_STEP: usize = 4;
/// Schedules that fire in one step: what their texts say is read then.
pub const FIRINGS_PER_STEP: usize = 64;
/// Messages that are handed out in one step, about: then the calls have their turn.
pub const DELIVERIES_PER_STEP: usize = 2_048;
/// The log is kept short of garbage from so many segments on.
pub const SEGMENTS_MIN: u64 = 4;
/// Bytes of log for each byte of messages that are not gone, before old bodies are written again: the log then has as
/// much garbage as messages, so each byte is written again for a byte that was sent, at most.
pub const LOG_BYTES_PER_LIVE_BYTE: u64 = 2;
/// Bodies of so many bytes may be written again in the room that is kept for acknowledgements: with them, a segment of
/// a full disk can go.
pub const MOVED_AS_NOTE_BYTES: usize = 64 << 10;
/// A message whose body cannot be read is tried again after so long.
pub const UNREADABLE_AGAIN_MS: u64 = 30_000;
/// The longest that a receiver waits for messages, in milliseconds.
pub const WAIT_MS_MAX: u64 = 20_000;
/// By how much the time of a shard is ahead of the clock of the host at least if it is called so: two clocks that are
/// read one after the other differ by some milliseconds.
pub const AHEAD_MS_MIN: u64 = 5;
/// A start names a lead of more than this.
pub const AHEAD_SAID_MS_MIN: u64 = 60_000;
/// Rows of a page of queues or messages.
pub const PAGE_ROWS_MAX: usize = 1_000;
/// Those of a page that shows what happened to each: its steps stand in many records.
pub const PAGE_TRAILS_MAX: usize = 20;
/// Messages that are looked at for a page; others wait meanwhile.
pub const PAGE_LOOKED_AT_MAX: usize = 10_000;
/// Bytes of the bodies of one page or one delivery, about.
pub const ANSWER_BYTES_MAX: u64 = 4 << 20;

const _: () = assert!(BATCH_BYTES_MAX < tidegate_journal::limits::RECORD_BYTES_MAX, "a batch is one record");
const _: () = assert!(MESSAGE_BYTES_MAX as u64 <= ANSWER_BYTES_MAX, "an answer has room for any one message");
