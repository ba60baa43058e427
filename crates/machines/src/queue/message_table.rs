//! The messages of a shard by their numbers, and when each wakes.
//!
//! ```text
//!   number 130 ─▶ chunk 2 ─▶ place 2      a chunk is 64 numbers, and is freed with its last message
//!
//!   open:   64 entries, a timer for each that waits for a time
//!   packed: some bytes an entry ([`super::packed`]), one timer for all: that of the first that wakes
//! ```
//!
//! What is looked at or changed is opened; so many chunks may be open, and those that nobody has used for longest are
//! packed. So a message of a long backlog, and one of next year with its timer, take some bytes of memory.
//!
//! Why chunks and no hash table of messages: numbers come in order, so neighbours are near each other, and no growth
//! moves a million of them while callers wait. Of the open chunks there is one, which is small: what happens to a
//! message is found there without going through the tree.
//!
//! Invariant: which chunks are open changes no answer.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hashbrown::HashMap;

use super::event::QueueIndex;
use super::limits::OPEN_CHUNKS_MAX;
use super::packed::{CHUNK, Entries, Packed, empty};
use crate::{RecordPosition, TimeMs};

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
    /// Deliveries from the queue in which it is, without those that do not count.
    pub tries: u16,
    pub priority: u8,
    pub state: MessageState,
}

/// The time of what does not happen.
pub(super) const NEVER: TimeMs = TimeMs(u64::MAX);
/// The group of messages without an ordering key.
pub(super) const NO_GROUP: u32 = u32::MAX;

const _: () = assert!(size_of::<Option<Entry>>() <= 72, "an open chunk takes less than 5 KB");

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

    /// When a clock alone ends what its sender was promised: it falls due, or expires. The end of a lease is no such
    /// thing, but what is leased does not expire before it. [`NEVER`] for never.
    pub fn ends_at(&self) -> TimeMs {
        match self.state {
            MessageState::Scheduled => self.until.min(self.expires_at),
            MessageState::Leased => self.until.max(self.expires_at),
            MessageState::Ready | MessageState::Held => self.expires_at,
            _ => NEVER,
        }
    }
}

/// Messages by number.
#[derive(Debug)]
pub(super) struct MessageTable {
    chunks: BTreeMap<u64, Chunk>,
    /// Those that are open. The order of chunks is never taken from here.
    open: HashMap<u64, Box<Open>, foldhash::fast::RandomState>,
    len: u64,
    /// When those of open chunks wake, and their numbers.
    timers: BTreeSet<(TimeMs, u64)>,
    /// When the first of each packed chunk wakes.
    packed_timers: BTreeSet<(TimeMs, u64)>,
    /// The open chunks in the order in which they were last looked at to be packed, and which opening it was; and some
    /// that are gone.
    by_age: VecDeque<(u64, u64)>,
    openings: u64,
    open_max: usize,
    last_read: RefCell<LastRead>,
}

#[derive(Debug)]
enum Chunk {
    Open,
    Packed(Packed),
}

#[derive(Debug)]
struct Open {
    used: usize,
    /// Which opening of a chunk this was.
    opening: u64,
    /// It was changed since it was last looked at to be packed.
    is_recent: bool,
    entries: Entries,
}

/// The packed chunk of which something was read last: neighbours are read together.
#[derive(Debug)]
struct LastRead {
    chunk: u64,
    entries: Box<Entries>,
}

/// The number of no chunk.
const NO_CHUNK: u64 = u64::MAX;

impl Default for MessageTable {
    fn default() -> MessageTable {
        MessageTable {
            chunks: BTreeMap::new(),
            open: HashMap::default(),
            len: 0,
            timers: BTreeSet::new(),
            packed_timers: BTreeSet::new(),
            by_age: VecDeque::new(),
            openings: 0,
            open_max: OPEN_CHUNKS_MAX,
            last_read: RefCell::new(LastRead { chunk: NO_CHUNK, entries: Box::new(empty()) }),
        }
    }
}

const fn place(number: u64) -> (u64, usize) {
    (number / CHUNK as u64, number as usize % CHUNK)
}

/// The number of the message at a place of a chunk.
pub(super) const fn number_at(chunk: u64, place: usize) -> u64 {
    chunk * CHUNK as u64 + place as u64
}

impl MessageTable {
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn get(&self, number: u64) -> Option<Entry> {
        let (index, place) = place(number);
        if let Some(open) = self.open.get(&index) {
            return open.entries[place];
        }
        let Chunk::Packed(packed) = self.chunks.get(&index)? else { panic!("an open chunk is among the open ones") };
        let mut last_read = self.last_read.borrow_mut();
        if last_read.chunk != index {
            *last_read.entries = packed.entries();
            last_read.chunk = index;
        }
        last_read.entries[place]
    }

    /// A message that is there.
    pub fn of(&self, number: u64) -> Entry {
        self.get(number).expect("the message is there")
    }

    /// Changes a message that is there, and when it wakes. Returns what it was, and what it is now.
    pub fn change(&mut self, number: u64, change: impl FnOnce(&mut Entry)) -> (Entry, Entry) {
        let (index, place) = place(number);
        let open = self.open_chunk(index);
        open.is_recent = true;
        let entry = open.entries[place].as_mut().expect("the message is there");
        let before = *entry;
        change(entry);
        let after = *entry;
        if before.wake_at() != after.wake_at() {
            self.stop_timer(number, before.wake_at());
            self.start_timer(number, after.wake_at());
        }
        (before, after)
    }

    pub fn insert(&mut self, number: u64, entry: Entry) {
        let (index, place) = place(number);
        if !self.open.contains_key(&index) && !self.chunks.contains_key(&index) {
            self.add_open(index, 0, empty());
        }
        let open = self.open_chunk(index);
        open.is_recent = true;
        let before = open.entries[place].replace(entry);
        assert!(before.is_none(), "message {number} is there already");
        open.used += 1;
        self.len += 1;
        self.start_timer(number, entry.wake_at());
    }

    pub fn remove(&mut self, number: u64) -> Entry {
        let (index, place) = place(number);
        let open = self.open_chunk(index);
        let entry = open.entries[place].take().expect("the message is there");
        open.used -= 1;
        if open.used == 0 {
            self.open.remove(&index);
            self.chunks.remove(&index);
        }
        self.len -= 1;
        self.stop_timer(number, entry.wake_at());
        entry
    }

    /// Puts in a whole chunk, packed, behind all others.
    pub fn push_packed(&mut self, index: u64, packed: Packed) {
        assert!(self.chunks.last_key_value().is_none_or(|(last, _)| *last < index), "chunks come in order");
        self.len += packed.len();
        if packed.wakes_at() != NEVER {
            self.packed_timers.insert((packed.wakes_at(), index));
        }
        self.chunks.insert(index, Chunk::Packed(packed));
    }

    pub fn first(&self) -> Option<u64> {
        self.iter().next().map(|(number, _)| number)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, Entry)> + '_ {
        self.each_chunk().flat_map(|(index, entries)| each_entry(index, entries))
    }

    /// Those from a number on, in order.
    pub fn iter_from(&self, number: u64) -> impl Iterator<Item = (u64, Entry)> + '_ {
        let chunks = self.chunks.range(place(number).0..);
        let all = chunks.flat_map(|(index, chunk)| each_entry(*index, self.entries(*index, chunk)));
        all.skip_while(move |(other, _)| *other < number)
    }

    /// The messages that wake until some time, and perhaps others.
    pub fn iter_waking(&self, until: TimeMs) -> impl Iterator<Item = (u64, Entry)> + '_ {
        let wakes = move |chunk: &Chunk| match chunk {
            Chunk::Open => true,
            Chunk::Packed(packed) => packed.wakes_at() <= until,
        };
        let chunks = self.chunks.iter().filter(move |(_, chunk)| wakes(chunk));
        chunks.flat_map(|(index, chunk)| each_entry(*index, self.entries(*index, chunk)))
    }

    /// All chunks, in order.
    pub fn each_chunk(&self) -> impl ExactSizeIterator<Item = (u64, Entries)> + '_ {
        self.chunks.iter().map(|(index, chunk)| (*index, self.entries(*index, chunk)))
    }

    fn entries(&self, index: u64, chunk: &Chunk) -> Entries {
        match chunk {
            Chunk::Open => self.open[&index].entries,
            Chunk::Packed(packed) => packed.entries(),
        }
    }

    /// When the first message wakes.
    pub fn next_wake(&self) -> Option<TimeMs> {
        let first = |timers: &BTreeSet<(TimeMs, u64)>| timers.first().map(|(at, _)| *at);
        first(&self.timers).into_iter().chain(first(&self.packed_timers)).min()
    }

    /// The message that wakes first, if it does so until `at`: of several at one time, that of the lowest number.
    pub fn first_due(&mut self, at: TimeMs) -> Option<u64> {
        // A message in a packed chunk may come before all that are in open ones. Of chunks that wake at one time the
        // first is enough: a million of such messages are in more chunks than may be open.
        while let Some((due, index)) = self.packed_timers.first().copied()
            && due <= at
            && self.timers.first().is_none_or(|first| (due, number_at(index, 0)) < *first)
        {
            self.open_chunk(index);
        }
        self.timers.first().filter(|(due, _)| *due <= at).map(|(_, number)| *number)
    }

    fn start_timer(&mut self, number: u64, at: Option<TimeMs>) {
        if let Some(at) = at {
            assert!(self.timers.insert((at, number)), "a message has one timer");
        }
    }

    fn stop_timer(&mut self, number: u64, at: Option<TimeMs>) {
        if let Some(at) = at {
            assert!(self.timers.remove(&(at, number)), "what wakes is among the timers");
        }
    }

    /// A chunk that is there, opened if it was packed.
    fn open_chunk(&mut self, index: u64) -> &mut Open {
        if !self.open.contains_key(&index) {
            self.unpack(index);
        }
        self.open.get_mut(&index).expect("it was opened")
    }

    fn unpack(&mut self, index: u64) {
        let Some(Chunk::Packed(packed)) = self.chunks.get(&index) else { panic!("the message is there") };
        let (used, entries, wakes_at) = (packed.len() as usize, packed.entries(), packed.wakes_at());
        if wakes_at != NEVER {
            let was_there = self.packed_timers.remove(&(wakes_at, index));
            assert!(was_there, "a packed chunk of which something wakes has a timer");
        }
        for (number, entry) in each_entry(index, entries) {
            self.start_timer(number, entry.wake_at());
        }
        if self.last_read.get_mut().chunk == index {
            self.last_read.get_mut().chunk = NO_CHUNK;
        }
        self.add_open(index, used, entries);
    }

    /// Opens a chunk, and packs others if too many are open.
    fn add_open(&mut self, index: u64, used: usize, entries: Entries) {
        self.openings += 1;
        let opening = self.openings;
        self.chunks.insert(index, Chunk::Open);
        self.open.insert(index, Box::new(Open { used, opening, is_recent: true, entries }));
        self.by_age.push_back((index, opening));
        // The one that was opened now is recent, and behind all others: one of them is packed before it.
        while self.by_age.len() > self.open_max {
            let (oldest, opening) = self.by_age.pop_front().expect("there are some");
            match self.open.get_mut(&oldest) {
                Some(open) if open.opening != opening => {}
                Some(open) if open.is_recent => {
                    open.is_recent = false;
                    self.by_age.push_back((oldest, opening));
                }
                Some(_) => self.pack(oldest),
                None => {}
            }
        }
    }

    fn pack(&mut self, index: u64) {
        let Some(open) = self.open.remove(&index) else { return };
        for (number, entry) in each_entry(index, open.entries) {
            self.stop_timer(number, entry.wake_at());
        }
        let packed = Packed::of(&open.entries);
        if packed.wakes_at() != NEVER {
            self.packed_timers.insert((packed.wakes_at(), index));
        }
        self.chunks.insert(index, Chunk::Packed(packed));
    }

    /// Packs all chunks: for tests, whose messages would be too few.
    #[cfg(test)]
    pub fn pack_all(&mut self) {
        let by_age = std::mem::take(&mut self.by_age);
        by_age.into_iter().for_each(|(index, _)| self.pack(index));
    }

    /// Panics if timers, counts and messages do not fit each other.
    pub fn assert_sound(&self) {
        let (mut len, mut timers, mut packed_timers, mut open) = (0, 0, 0, 0);
        for (index, chunk) in &self.chunks {
            match chunk {
                Chunk::Open => {
                    let chunk = &self.open[index];
                    let used = chunk.entries.iter().flatten().count();
                    (open, len) = (open + 1, len + used as u64);
                    assert!(chunk.used == used && used > 0, "chunk {index} has its messages");
                    for (number, entry) in each_entry(*index, chunk.entries) {
                        let Some(at) = entry.wake_at() else { continue };
                        timers += 1;
                        assert!(self.timers.contains(&(at, number)), "message {number} wakes at {at:?}");
                    }
                }
                Chunk::Packed(packed) => {
                    len += packed.len();
                    assert!(packed.len() > 0, "chunk {index} has messages");
                    // A start that has millions of messages shall not pack them once more.
                    let is_same = || *packed == Packed::of(&packed.entries());
                    assert!(!cfg!(debug_assertions) || is_same(), "chunk {index} is packed as it would be again");
                    packed_timers += usize::from(packed.wakes_at() != NEVER);
                    let has_timer = self.packed_timers.contains(&(packed.wakes_at(), *index));
                    assert!(has_timer || packed.wakes_at() == NEVER, "chunk {index} wakes");
                }
            }
        }
        assert!(len == self.len, "all messages were counted");
        assert!(timers == self.timers.len(), "there is a timer for what wakes, and no other");
        assert!(packed_timers == self.packed_timers.len(), "there is a timer for a chunk that wakes, and no other");
        assert!(open == self.open.len(), "what is open is found");
        assert!(open <= self.by_age.len() && self.by_age.len() <= self.open_max, "no more is open than may be");
    }
}

/// The messages of a chunk, with their numbers.
fn each_entry(index: u64, entries: Entries) -> impl Iterator<Item = (u64, Entry)> {
    let numbered = entries.into_iter().enumerate();
    numbered.filter_map(move |(place, entry)| Some((number_at(index, place), entry?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wakes_at_one_time_does_so_in_order_also_if_it_is_in_more_chunks_than_may_be_open() {
        let mut messages = MessageTable { open_max: 2, ..MessageTable::default() };
        let due = |number: u64| TimeMs(if number == 300 { 5 } else { 9 });
        let entry = |number: u64| Entry {
            body: RecordPosition(1),
            part: 0,
            last: RecordPosition(1),
            sent_at: TimeMs(1),
            until: due(number),
            expires_at: NEVER,
            queue: QueueIndex(0),
            group: NO_GROUP,
            bytes: 1,
            attempts: 0,
            tries: 0,
            priority: 0,
            state: MessageState::Scheduled,
        };
        (1..1_000).for_each(|number| messages.insert(number, entry(number)));
        messages.assert_sound();
        assert_eq!(messages.first_due(TimeMs(4)), None);
        let mut order = Vec::new();
        while let Some(number) = messages.first_due(TimeMs(9)) {
            assert!(messages.packed_timers.len() + 2 >= messages.chunks.len(), "few are open");
            order.push(number);
            messages.remove(number);
        }
        let others = (1..1_000).filter(|number| *number != 300);
        assert!(order.iter().copied().eq([300].into_iter().chain(others)));
    }
}
