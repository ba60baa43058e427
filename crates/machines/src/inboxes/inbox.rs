//! One inbox: its entries by number.
//!
//! ```text
//!   front 41 ─▶ 41 queued   hole   hole   44 received   45 queued      next 46
//! ```
//!
//! The index of an entry is its number minus the front's, so finding one is one array access. An entry that is removed
//! out of order leaves a hole until everything before it has been removed. If one entry stays while many behind it come
//! and go, the holes are compacted and entries are found by binary search.

use std::collections::VecDeque;

use super::bodies::{Bodies, BodyIndex};
use crate::weight::allocation;

/// Fewer entries than this are not swept.
const SWEEP_MIN: usize = 64;
/// A queue of places that is full grows by one of so many parts: one that doubled would have as many empty places.
const GROWTH_PART: usize = 4;

/// How an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// It waits to be taken, or is on its way.
    Queued,
    /// The other side has it, and has yet to say that it is done with the number.
    Received,
}

/// One copy of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The record that made it what it is.
    pub sequence: u64,
    /// Numbers of the subscriptions that it came by.
    // A box of a vector, because a boxed slice would make every entry eight bytes larger.
    #[allow(clippy::box_collection)]
    pub subscription_ids: Option<Box<Vec<u32>>>,
    /// What waits.
    pub body: BodyIndex,
    /// How surely it is delivered.
    pub qos: u8,
    /// Whether it is shown as retained.
    pub retain: bool,
    /// How it stands.
    pub state: EntryState,
    /// Whether its owner has a timer for it, which costs memory, too.
    pub expires: bool,
}

impl Entry {
    /// Bytes of the numbers of its subscriptions.
    fn ids_bytes(&self) -> u64 {
        let of = |ids: &Vec<u32>| allocation(size_of::<Vec<u32>>()) + allocation(ids.capacity() * size_of::<u32>());
        self.subscription_ids.as_ref().map_or(0, |ids| of(ids))
    }
}

#[derive(Clone, Debug)]
struct Place {
    number: u64,
    entry: Option<Entry>,
}

const _: () = assert!(size_of::<Place>() <= 32);

/// What an entry takes, with its part of the places that are empty.
pub const ENTRY_BYTES: usize = size_of::<Place>() + size_of::<Place>() / GROWTH_PART;

/// What waits.
#[derive(Clone, Debug, Default)]
struct Waiting {
    places: VecDeque<Place>,
    len: usize,
    bytes: u64,
    /// Of subscription ids.
    ids_bytes: u64,
    /// Entries with a timer.
    expiring: usize,
}

/// An inbox. Sixteen bytes while nothing waits.
#[derive(Clone, Debug, Default)]
pub struct Inbox {
    next: u64,
    waiting: Option<Box<Waiting>>,
}

const _: () = assert!(size_of::<Inbox>() <= 16);

impl Waiting {
    fn push(&mut self, place: Place) {
        if self.places.len() == self.places.capacity() {
            self.places.reserve_exact((self.places.len() / GROWTH_PART).max(GROWTH_PART));
        }
        self.places.push_back(place);
    }

    /// Gives memory back of which the greater part is not used any more.
    fn shrink(&mut self) {
        let (len, room) = (self.places.len(), self.places.capacity());
        if room > SWEEP_MIN && len < room / 2 {
            self.places.shrink_to(len + len / GROWTH_PART);
        }
    }

    /// The first place whose number is not smaller.
    #[inline]
    fn place_from(&self, number: u64) -> usize {
        let Some(front) = self.places.front() else { return 0 };
        let offset = number.saturating_sub(front.number);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(self.places.len());
        match self.places.get(offset) {
            Some(place) if place.number == number => offset,
            _ => self.places.partition_point(|place| place.number < number),
        }
    }

    #[inline]
    fn get_mut(&mut self, number: u64) -> Option<&mut Place> {
        let place = self.place_from(number);
        self.places.get_mut(place).filter(|place| place.number == number && place.entry.is_some())
    }

    /// Removes holes from the front, and all of them when they are the greater part: a few moves for each entry that
    /// left.
    #[inline]
    fn sweep(&mut self) {
        while self.places.front().is_some_and(|place| place.entry.is_none()) {
            self.places.pop_front();
        }
        if self.places.len() > SWEEP_MIN && self.len < self.places.len() / 2 {
            self.places.retain(|place| place.entry.is_some());
            assert!(self.places.len() == self.len, "a place is neither an entry's nor a hole");
        }
        self.shrink();
        assert!(self.len <= self.places.len(), "every entry has a place");
    }
}

impl Inbox {
    /// An empty inbox whose next entry gets this number.
    pub fn starting_at(next: u64) -> Inbox {
        Inbox { next, waiting: None }
    }

    /// Adds an entry whose body has so many bytes; returns its number.
    #[inline]
    pub fn push(&mut self, entry: Entry, bytes: u32) -> u64 {
        let number = self.next;
        self.next = number.checked_add(1).expect("fewer entries come than 64 bits count");
        let waiting = self.waiting.get_or_insert_default();
        debug_assert!(waiting.places.back().is_none_or(|last| last.number < number), "numbers grow");
        waiting.ids_bytes += entry.ids_bytes();
        waiting.expiring += usize::from(entry.expires);
        waiting.push(Place { number, entry: Some(entry) });
        waiting.len += 1;
        waiting.bytes += u64::from(bytes);
        number
    }

    /// The next entry gets this number, if it is not smaller than what it would get.
    pub fn skip_to(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    /// Takes an entry out; whether it was there.
    #[inline]
    pub fn remove<B>(&mut self, number: u64, bodies: &mut Bodies<B>) -> bool {
        let Some(waiting) = &mut self.waiting else { return false };
        let Some(entry) = waiting.get_mut(number).and_then(|place| place.entry.take()) else { return false };
        assert!(number < self.next, "an entry has a number that was not given yet");
        waiting.len = waiting.len.checked_sub(1).expect("the entry was counted");
        let bytes = u64::from(bodies.bytes_of(entry.body));
        waiting.bytes = waiting.bytes.checked_sub(bytes).expect("its bytes are in the sum");
        let ids_bytes = waiting.ids_bytes.checked_sub(entry.ids_bytes());
        waiting.ids_bytes = ids_bytes.expect("the numbers of its subscriptions were counted");
        let expiring = waiting.expiring.checked_sub(usize::from(entry.expires));
        waiting.expiring = expiring.expect("its timer was counted");
        bodies.release(entry.body);
        if waiting.len == 0 {
            assert!(waiting.bytes == 0, "bytes of no entry are left");
            self.waiting = None;
        } else {
            waiting.sweep();
        }
        true
    }

    /// Takes all entries out.
    pub fn clear<B>(&mut self, bodies: &mut Bodies<B>) {
        let Some(waiting) = self.waiting.take() else { return };
        let (mut len, mut bytes) = (0, 0);
        for entry in waiting.places.iter().filter_map(|place| place.entry.as_ref()) {
            len += 1;
            bytes += u64::from(bodies.bytes_of(entry.body));
            bodies.release(entry.body);
        }
        assert_eq!((len, bytes), (waiting.len, waiting.bytes), "entries and their bytes are counted");
    }

    /// Notes that the other side has an entry, as the record `sequence` says; whether it was there and only queued.
    #[inline]
    pub fn mark_received(&mut self, number: u64, sequence: u64) -> bool {
        let Some(waiting) = &mut self.waiting else { return false };
        let before = waiting.expiring;
        match waiting.get_mut(number).and_then(|place| place.entry.as_mut()) {
            Some(entry) if entry.state == EntryState::Queued => {
                assert!(entry.sequence < sequence, "an entry is received by a later record");
                entry.state = EntryState::Received;
                entry.sequence = sequence;
                let had_timer = std::mem::take(&mut entry.expires);
                waiting.expiring = before.checked_sub(usize::from(had_timer)).expect("its timer was counted");
                true
            }
            _ => false,
        }
    }

    /// An entry.
    #[inline]
    pub fn entry(&self, number: u64) -> Option<&Entry> {
        let waiting = self.waiting.as_ref()?;
        let place = waiting.places.get(waiting.place_from(number))?;
        place.entry.as_ref().filter(|_| place.number == number)
    }

    /// All entries from this number on, with their numbers, oldest first.
    #[inline]
    pub fn entries_from(&self, number: u64) -> impl Iterator<Item = (u64, &Entry)> {
        let places = self.waiting.iter().flat_map(move |waiting| waiting.places.range(waiting.place_from(number)..));
        places.filter_map(|place| Some((place.number, place.entry.as_ref()?)))
    }

    /// Number of the oldest entry; of the next one when nothing waits.
    pub fn front_number(&self) -> u64 {
        self.waiting.as_ref().and_then(|waiting| waiting.places.front()).map_or(self.next, |place| place.number)
    }

    /// Number that the next entry gets.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.as_ref().map_or(0, |waiting| waiting.len)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_none()
    }

    /// Bytes of the bodies that wait.
    pub fn bytes(&self) -> u64 {
        self.waiting.as_ref().map_or(0, |waiting| waiting.bytes)
    }

    /// Bytes of memory that its entries take, without their bodies and timers.
    pub fn memory_bytes(&self) -> u64 {
        self.waiting.as_ref().map_or(0, |waiting| {
            let places = allocation(waiting.places.capacity() * size_of::<Place>());
            allocation(size_of::<Waiting>()) + places + waiting.ids_bytes
        })
    }

    /// How many entries have a timer.
    pub fn expiring(&self) -> usize {
        self.waiting.as_ref().map_or(0, |waiting| waiting.expiring)
    }

    /// Walks all and panics if counts, sums and numbers do not fit the entries.
    pub fn assert_sound<B>(&self, bodies: &Bodies<B>) {
        let Some(waiting) = &self.waiting else { return };
        let entries = || waiting.places.iter().filter_map(|place| place.entry.as_ref());
        assert!(waiting.len > 0, "an inbox in which nothing waits has memory of its own");
        assert_eq!(waiting.len, entries().count(), "entries that wait");
        let bytes: u64 = entries().map(|entry| u64::from(bodies.bytes_of(entry.body))).sum();
        assert_eq!(waiting.bytes, bytes, "bytes that wait");
        let ids_bytes: u64 = entries().map(Entry::ids_bytes).sum();
        assert_eq!(waiting.ids_bytes, ids_bytes, "bytes of subscription ids");
        assert_eq!(waiting.expiring, entries().filter(|entry| entry.expires).count(), "entries with a timer");
        let numbers = || waiting.places.iter().map(|place| place.number);
        assert!(numbers().is_sorted_by(|one, next| one < next), "entries stand in the order of their numbers");
        assert!(numbers().all(|number| number < self.next), "an entry has a number that was not given yet");
        assert!(
            waiting.places.front().is_some_and(|place| place.entry.is_some()),
            "holes stand before the first entry"
        );
        let holes = waiting.places.len() - waiting.len;
        assert!(holes <= SWEEP_MIN.max(waiting.len + 1), "{holes} holes are not swept out");
        for number in numbers() {
            let place = &waiting.places[waiting.place_from(number)];
            assert_eq!(place.number, number, "an entry is not found where it is");
        }
    }
}
