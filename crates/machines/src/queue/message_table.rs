//! The messages of a shard by their numbers.
//!
//! ```text
//!   number 130 ─▶ chunk 2 ─▶ place 2      a chunk is 64 numbers, and is freed with its last message
//! ```
//!
//! Why chunks and no hash table: numbers come in order, so neighbours are near each other, and no growth moves a
//! million of them while callers wait.

use std::collections::BTreeMap;

use super::event::QueueIndex;
use crate::{RecordPosition, TimeMs};

const CHUNK_BITS: u32 = 6;
const CHUNK: usize = 1 << CHUNK_BITS;

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageState {
    /// It waits for its time.
    Scheduled,
    /// It waits for a receiver.
    Ready,
    /// It waits for an earlier message of its ordering key.
    Held,
    /// Somebody has it.
    Leased,
    /// It is done with.
    Acknowledged,
    /// Its time was over before anybody acknowledged it.
    Expired,
    /// Its sender took it back.
    Cancelled,
}

impl MessageState {
    pub(super) const ALL: [MessageState; 7] = [
        MessageState::Scheduled,
        MessageState::Ready,
        MessageState::Held,
        MessageState::Leased,
        MessageState::Acknowledged,
        MessageState::Expired,
        MessageState::Cancelled,
    ];

    /// Whether the message is gone, and only its trail is left.
    pub const fn is_finished(self) -> bool {
        matches!(self, MessageState::Acknowledged | MessageState::Expired | MessageState::Cancelled)
    }

    /// Whether nobody has it, and it is not gone.
    pub const fn is_waiting(self) -> bool {
        matches!(self, MessageState::Scheduled | MessageState::Ready | MessageState::Held)
    }
}

/// A message as memory has it; its body is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The record with its body...
    pub body: RecordPosition,
    /// ... and the how-manieth message of it.
    pub part: u16,
    /// The newest record about it.
    pub last: RecordPosition,
    pub sent_at: TimeMs,
    /// Of a scheduled message, when it is handed out; of a leased one, the end of the lease; of others, zero.
    pub until: TimeMs,
    /// [`NEVER`] for never.
    pub expires_at: TimeMs,
    pub queue: QueueIndex,
    /// Its ordering key, [`NO_GROUP`] for none.
    pub group: u32,
    pub bytes: u32,
    /// Deliveries in all: what tells leases apart.
    pub attempts: u32,
    /// Deliveries from the queue in which it is.
    pub tries: u16,
    pub priority: u8,
    pub state: MessageState,
}

/// The time of what does not happen.
pub(super) const NEVER: TimeMs = TimeMs(u64::MAX);
/// The group of messages without an ordering key.
pub(super) const NO_GROUP: u32 = u32::MAX;

const _: () = assert!(size_of::<Option<Entry>>() <= 72, "a waiting message takes about 72 bytes");

impl Entry {
    /// When something is due about it.
    pub fn wake_at(&self) -> Option<TimeMs> {
        let at = match self.state {
            MessageState::Scheduled => self.until.min(self.expires_at),
            MessageState::Leased => self.until,
            MessageState::Ready | MessageState::Held => self.expires_at,
            _ => NEVER,
        };
        (at != NEVER).then_some(at)
    }
}

/// Messages by number.
#[derive(Debug, Default)]
pub(super) struct MessageTable {
    chunks: BTreeMap<u64, Box<Chunk>>,
    len: u64,
}

#[derive(Debug)]
struct Chunk {
    used: usize,
    entries: [Option<Entry>; CHUNK],
}

const fn place(number: u64) -> (u64, usize) {
    (number >> CHUNK_BITS, number as usize & (CHUNK - 1))
}

impl MessageTable {
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn get(&self, number: u64) -> Option<&Entry> {
        let (chunk, place) = place(number);
        self.chunks.get(&chunk)?.entries[place].as_ref()
    }

    /// A message that is there.
    pub fn of(&self, number: u64) -> &Entry {
        self.get(number).expect("the message is there")
    }

    pub fn of_mut(&mut self, number: u64) -> &mut Entry {
        let (chunk, place) = place(number);
        let chunk = self.chunks.get_mut(&chunk).expect("the message is there");
        chunk.entries[place].as_mut().expect("the message is there")
    }

    pub fn insert(&mut self, number: u64, entry: Entry) {
        let (chunk, place) = place(number);
        let chunk = self.chunks.entry(chunk).or_insert_with(|| Box::new(Chunk { used: 0, entries: [None; CHUNK] }));
        let before = chunk.entries[place].replace(entry);
        assert!(before.is_none(), "message {number} is there already");
        chunk.used += 1;
        self.len += 1;
    }

    pub fn remove(&mut self, number: u64) -> Entry {
        let (index, place) = place(number);
        let chunk = self.chunks.get_mut(&index).expect("the message is there");
        let entry = chunk.entries[place].take().expect("the message is there");
        chunk.used -= 1;
        self.len -= 1;
        if chunk.used == 0 {
            self.chunks.remove(&index);
        }
        entry
    }

    pub fn first(&self) -> Option<u64> {
        self.iter().next().map(|(number, _)| number)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.chunks.iter().flat_map(|(chunk, entries)| {
            let numbered = entries.entries.iter().enumerate();
            numbered.filter_map(move |(place, entry)| Some(((chunk << CHUNK_BITS) + place as u64, entry.as_ref()?)))
        })
    }
}
