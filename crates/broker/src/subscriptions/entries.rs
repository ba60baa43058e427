//! The entries of a filter with several subscribers. Adding or removing one takes constant time, also among a million.
//!
//! ```text
//!   entries:  ready │ online │ others, in any order        in chunks: the list never moves
//!   index:    owner ─▶ place                       once there are many; a few are looked through
//! ```
//!
//! Entries whose sessions are ready are in front, then those that are online, so that a share group finds its next
//! member without visiting the others.

use super::entry::{Entry, Owner, Presence};
use crate::share::heaviest;
use crate::topic_tree::IdTable;
use std::cell::Cell;

const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 10;

/// Entries from which an index pays: fewer are looked through in 200 ns, and an index begins with 2 KiB.
const INDEXED_FROM: usize = 512;

/// See the module's description.
#[derive(Default)]
pub(super) struct Entries {
    /// All full but the last.
    chunks: Vec<Vec<Entry>>,
    len: usize,
    /// So many in front are ready.
    ready: usize,
    /// So many in front are online, those that are ready among them.
    online: usize,
    /// Boxed: nearly no list has one, and each would hold the room.
    index: Option<Box<IdTable>>,
    /// How many times a member has been picked.
    turns: Cell<u32>,
}

impl Entries {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<Entry>()).sum();
        let table = self.chunks.capacity() * size_of::<Vec<Entry>>();
        chunks + table + self.index.as_ref().map_or(0, |index| size_of::<IdTable>() + index.heap_bytes())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flatten()
    }

    /// Adds an entry, or puts it in place of its owner's. Whether its owner had none.
    pub(super) fn put(&mut self, entry: Entry) -> bool {
        let there = self.find(entry.owner());
        if let Some(place) = there {
            self.take(place);
        }
        let (place, presence) = (self.len, entry.options.presence());
        self.push(entry);
        if presence >= Presence::Busy {
            self.swap(place, self.online);
            self.online += 1;
        }
        if presence == Presence::Ready {
            self.swap(self.online - 1, self.ready);
            self.ready += 1;
        }
        assert!(self.ready <= self.online && self.online <= self.len, "who is ready is online, and there");
        there.is_none()
    }

    /// Removes an owner's entry and gives it.
    pub(super) fn remove(&mut self, owner: Owner) -> Option<Entry> {
        let place = self.find(owner)?;
        Some(self.take(place))
    }

    /// The entry of an owner.
    pub(super) fn get(&self, owner: Owner) -> Option<Entry> {
        self.find(owner).map(|place| self.at(place))
    }

    /// Any entry, if there is one.
    pub(super) fn first(&self) -> Option<Entry> {
        self.chunks.first().and_then(|chunk| chunk.first().copied())
    }

    /// The member whose turn it is: of those ready, else of those online, else of all.
    pub(super) fn pick_next(&self) -> Option<Entry> {
        let candidates = [self.ready, self.online, self.len].into_iter().find(|count| *count > 0)?;
        let turn = self.turns.get();
        self.turns.set(turn.wrapping_add(1));
        Some(self.at(turn as usize % candidates))
    }

    /// The member that a key goes to, of those online, else of all. Whether one of them is ready says nothing: what
    /// belongs together stays together.
    pub(super) fn pick_by(&self, key: u64) -> Option<Entry> {
        heaviest(self.iter().take(self.weighed()), key)
    }

    /// How many members are looked at to pick one by a key.
    pub(super) fn weighed(&self) -> usize {
        if self.online > 0 { self.online } else { self.len }
    }

    /// Panics if counts, order and index disagree. Visits everything: for tests and simulation.
    pub(super) fn assert_sound(&self) {
        assert_eq!(self.iter().count(), self.len, "entries in all chunks");
        for (nth, chunk) in self.chunks.iter().enumerate() {
            assert!(chunk.len() == CHUNK || nth + 1 == self.chunks.len(), "chunk {nth} has {} entries", chunk.len());
        }
        for (place, entry) in self.iter().enumerate() {
            let expected = match place {
                _ if place < self.ready => Presence::Ready,
                _ if place < self.online => Presence::Busy,
                _ => Presence::Away,
            };
            assert_eq!(entry.options.presence(), expected, "who is ready stands in front, then who is online");
            assert_eq!(self.find(entry.owner()), Some(place), "an owner is found at its place");
        }
        assert!(self.index.as_ref().is_none_or(|index| index.len() == self.len), "every entry is indexed");
    }

    #[inline]
    fn at(&self, place: usize) -> Entry {
        self.chunks[place >> CHUNK_BITS][place & (CHUNK - 1)]
    }

    fn find(&self, owner: Owner) -> Option<usize> {
        match &self.index {
            Some(index) => {
                index.find(hash(owner), |place| self.at(place as usize).owner() == owner).map(|place| place as usize)
            }
            None => self.iter().position(|entry| entry.owner() == owner),
        }
    }

    fn push(&mut self, entry: Entry) {
        if self.len == self.chunks.len() * CHUNK {
            self.chunks.reserve_exact(self.chunks.len().max(1));
            self.chunks.push(Vec::new());
        }
        let last = self.chunks.last_mut().expect("one was added if there was no room");
        if last.len() == last.capacity() {
            // Doubling by our own hand: a list of two is common, and `Vec` would begin with four.
            last.reserve_exact(last.len().max(2));
        }
        last.push(entry);
        self.len += 1;
        if self.len == INDEXED_FROM {
            self.index = Some(Box::new(IdTable::default()));
            for place in 0..self.len {
                self.index_place(place);
            }
        } else if self.index.is_some() {
            self.index_place(self.len - 1);
        }
    }

    fn index_place(&mut self, place: usize) {
        let hash_at =
            |place: u32| hash(self.chunks[place as usize >> CHUNK_BITS][place as usize & (CHUNK - 1)].owner());
        if let Some(index) = &mut self.index {
            index.insert(hash_at(place as u32), place as u32, hash_at);
        }
    }

    fn take(&mut self, place: usize) -> Entry {
        assert!(place < self.len, "an entry is taken from its place");
        let mut place = place;
        if place < self.ready {
            self.ready -= 1;
            self.swap(place, self.ready);
            place = self.ready;
        }
        if place < self.online {
            self.online -= 1;
            self.swap(place, self.online);
            place = self.online;
        }
        self.swap(place, self.len - 1);
        self.pop()
    }

    fn pop(&mut self) -> Entry {
        let last = self.chunks.last_mut().expect("there is an entry to take");
        let entry = last.pop().expect("no chunk is empty");
        self.len -= 1;
        assert!(self.ready <= self.online && self.online <= self.len, "who is ready is online, and there");
        if last.is_empty() {
            self.chunks.pop();
        } else if last.len() <= last.capacity() / 4 {
            last.shrink_to(last.len() * 2);
        }
        if let Some(index) = &mut self.index {
            assert!(index.remove(hash(entry.owner()), self.len as u32), "every entry is indexed");
        }
        // Some way below, so that one who comes and goes at the bound does not make an index each time.
        if self.len < INDEXED_FROM / 2 {
            self.index = None;
        }
        entry
    }

    fn swap(&mut self, one: usize, other: usize) {
        if one == other {
            return;
        }
        let (first, second) = (self.at(one), self.at(other));
        self.chunks[one >> CHUNK_BITS][one & (CHUNK - 1)] = second;
        self.chunks[other >> CHUNK_BITS][other & (CHUNK - 1)] = first;
        if let Some(index) = &mut self.index {
            // Found by owner and place together, so both may be out of step for a moment.
            assert!(index.replace(hash(first.owner()), one as u32, other as u32), "every entry is indexed");
            assert!(index.replace(hash(second.owner()), other as u32, one as u32), "every entry is indexed");
        }
    }
}

/// Places of sessions are dense numbers that no client chooses: spreading them is enough.
fn hash(owner: Owner) -> u64 {
    let key = u64::from(owner.session.number()) | u64::from(owner.worker) << 32;
    let mixed = u128::from(key + 1) * 0x9E37_79B9_7F4A_7C15;
    (mixed >> 64) as u64 ^ (mixed as u64).rotate_right(32)
}
