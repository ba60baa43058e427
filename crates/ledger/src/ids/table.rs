//! Ids that are not yet in a run: an append-only list of entries, and an open-addressed table of indices into it.
//!
//! ```text
//!   slots (u32, at most half full)      [ · · 7|tag · 0|tag 3|tag · ... ]     home slot = the top bits of the hash
//!                                             │
//!   entries (in journal order)          [ 0 1 2 3 4 5 6 7 ... ]
//! ```
//!
//! Why not a hash map: several positions of one hash need no special case here, the slot can be prefetched, and because
//! slots are in the order of the hashes' top bits, walking them yields the entries almost sorted, which is what a run
//! needs.

use tidegate_journal::Position;
use tidegate_memory::{Zeroed, prefetch};

use super::IdHash;
use super::entry::Entry;
use super::hash::RunKey;

const EMPTY: u32 = 0;
/// So many slots ahead, the memory of an entry is asked for that is to be sorted. Half of them are empty.
const SORT_AHEAD: usize = 32;
/// The bits of a hash from here on make the tag; those below are zero in all hashes.
const TAG_SHIFT: u32 = 17;

/// An id as it came.
#[derive(Clone, Copy)]
struct Recent {
    hash: u64,
    position: Position,
}

/// Entries of one stretch of the journal. Allocated at full size at once, so that no insert ever waits for a rehash.
pub(super) struct Table {
    entries: Vec<Recent>,
    /// The times by which they are kept, in seconds; zero for random ids.
    seconds: Vec<u32>,
    capacity: usize,
    /// `tag << index_bits | index + 1`; the tag is made of the low bits of the hash and saves most looks at entries.
    slots: Zeroed<u32>,
    index_bits: u32,
    home_shift: u32,
}

impl Table {
    pub(super) fn new(capacity: usize) -> Table {
        let slot_count = (capacity * 2).next_power_of_two();
        Table {
            entries: Vec::with_capacity(capacity),
            seconds: Vec::with_capacity(capacity),
            capacity,
            slots: Zeroed::new(slot_count),
            index_bits: usize::BITS - capacity.leading_zeros(),
            home_shift: u64::BITS - slot_count.trailing_zeros(),
        }
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        (hash >> self.home_shift) as usize
    }

    #[inline]
    fn tagged(&self, hash: u64, index: usize) -> u32 {
        ((hash >> TAG_SHIFT) as u32) << self.index_bits | (index as u32 + 1)
    }

    #[inline]
    fn index_in(&self, slot: u32) -> usize {
        (slot & ((1 << self.index_bits) - 1)) as usize - 1
    }

    /// Adds an entry, kept by the time `seconds`, or among the random ones if that is zero. Panics when the table is
    /// full: ask [`Table::is_full`] first.
    #[inline]
    pub(super) fn insert(&mut self, IdHash { hash, .. }: IdHash, position: Position, seconds: u32) {
        assert!(!self.is_full(), "a full table is frozen before the next insert");
        let mask = self.slots.len() - 1;
        let mut at = self.home(hash);
        while self.slots[at] != EMPTY {
            at = (at + 1) & mask;
        }
        self.slots[at] = self.tagged(hash, self.entries.len());
        self.entries.push(Recent { hash, position });
        self.seconds.push(seconds);
    }

    /// Adds the positions of all entries with this hash to `out`.
    pub(super) fn find(&self, IdHash { hash, .. }: IdHash, out: &mut Vec<Position>) {
        let tag = self.tagged(hash, 0) >> self.index_bits;
        let mask = self.slots.len() - 1;
        let mut at = self.home(hash);
        while self.slots[at] != EMPTY {
            let slot = self.slots[at];
            if slot >> self.index_bits == tag {
                let entry = self.entries[self.index_in(slot)];
                if entry.hash == hash {
                    out.push(entry.position);
                }
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, hash: IdHash) {
        prefetch(&self.slots[self.home(hash.hash)]);
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() == self.capacity
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// First and last position in it; `None` when it is empty.
    pub(super) fn range(&self) -> Option<(Position, Position)> {
        Some((self.entries.first()?.position, self.entries.last()?.position))
    }

    pub(super) fn bytes(&self) -> usize {
        self.capacity * (size_of::<Recent>() + size_of::<u32>()) + self.slots.len() * size_of::<u32>()
    }

    /// The same memory without its entries.
    pub(super) fn emptied(mut self) -> Table {
        self.entries.clear();
        self.seconds.clear();
        self.slots.fill(EMPTY);
        self
    }

    /// All entries in the order of a run, in the place of what is in `sorted`: random ids by their hashes, then the
    /// others by their times.
    pub(super) fn sort_into(&self, sorted: &mut Vec<Entry>) {
        sorted.clear();
        sorted.reserve_exact(self.len());
        let mut wrapped = Vec::new();
        let mut before_the_first_gap = true;
        for (at, slot) in self.slots.iter().enumerate() {
            self.expect(at + SORT_AHEAD);
            if *slot == EMPTY {
                before_the_first_gap = false;
                continue;
            }
            let index = self.index_in(*slot);
            let Recent { hash, position } = self.entries[index];
            if self.seconds[index] != 0 {
                continue;
            }
            let entry = Entry::new(RunKey::new(hash, 0), position);
            // Large hashes that found no room at the end stand at the beginning.
            if before_the_first_gap && self.home(hash) > at {
                wrapped.push(entry);
            } else {
                sorted.push(entry);
            }
        }
        sorted.append(&mut wrapped);
        finish_sorting(sorted);
        let random = sorted.len();
        // In the order of the journal they are nearly in the order of their times.
        let by_time = self.entries.iter().zip(&self.seconds).filter(|(_, seconds)| **seconds != 0);
        sorted.extend(by_time.map(|(of, seconds)| Entry::new(RunKey::new(of.hash, *seconds), of.position)));
        sorted[random..].sort_unstable();
        assert_eq!(sorted.len(), self.entries.len(), "ids: each entry of a table has a slot");
    }

    /// Asks for the memory of the entry that a slot leads to, if there is one: entries are in the order in which they
    /// came.
    #[inline]
    fn expect(&self, at: usize) {
        if let Some(slot) = self.slots.get(at).filter(|slot| **slot != EMPTY) {
            let index = self.index_in(*slot);
            prefetch(&self.entries[index]);
            prefetch(&self.seconds[index]);
        }
    }
}

/// Insertion sort, linear for entries that are a few places off. Hashes that are not uniform (tests make such) may be
/// far off: past a budget the general sort takes over.
fn finish_sorting(entries: &mut [Entry]) {
    let mut moves_left = entries.len() * 8;
    for end in 1..entries.len() {
        let entry = entries[end];
        let mut at = end;
        while at > 0 && entries[at - 1] > entry {
            entries[at] = entries[at - 1];
            at -= 1;
        }
        entries[at] = entry;
        moves_left = moves_left.saturating_sub(end - at);
        if moves_left == 0 {
            return entries.sort_unstable();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table_of(hashes: &[(u64, u32)], capacity: usize) -> Table {
        let mut table = Table::new(capacity);
        for (n, (hash, seconds)) in hashes.iter().enumerate() {
            table.insert(IdHash::of(*hash), Position(n as u64 + 1), *seconds);
        }
        table
    }

    fn hash() -> impl Strategy<Value = u64> {
        prop_oneof![(0..4u64).prop_map(|n| n << 17), any::<u64>(), (0..4u64).prop_map(|n| u64::MAX - (n << 17))]
    }

    proptest! {
        #[test]
        fn finds_every_position_of_a_hash_and_sorts_like_the_library(
            hashes in prop::collection::vec((hash(), prop_oneof![Just(0u32), 1..5u32]), 1..300),
            room in 0..40usize,
        ) {
            let table = table_of(&hashes, hashes.len() + room);
            prop_assert_eq!(table.is_full(), room == 0);
            for (hash, _) in &hashes {
                let mut found = Vec::new();
                table.find(IdHash::of(*hash), &mut found);
                found.sort();
                let same = |other: u64| IdHash::of(other) == IdHash::of(*hash);
                let expected = hashes.iter().enumerate().filter(|(_, (other, _))| same(*other));
                let expected: Vec<_> = expected.map(|(n, _)| Position(n as u64 + 1)).collect();
                prop_assert_eq!(found, expected);
            }
            let entry = |(n, (hash, seconds)): (usize, &(u64, u32))| {
                Entry::new(RunKey::new(IdHash::of(*hash).hash, *seconds), Position(n as u64 + 1))
            };
            let mut expected: Vec<_> = hashes.iter().enumerate().map(entry).collect();
            expected.sort();
            let mut sorted = vec![Entry::new(RunKey::new(0, 0), Position(1)); 3];
            table.sort_into(&mut sorted);
            prop_assert_eq!(&sorted, &expected);
            let emptied = table.emptied();
            prop_assert_eq!(emptied.range(), None);
            emptied.sort_into(&mut sorted);
            prop_assert!(sorted.is_empty());
        }
    }

    #[test]
    fn a_hash_that_is_not_there_is_not_found() {
        let table = table_of(&[(5 << 17, 0), (u64::MAX, 7)], 8);
        let mut found = Vec::new();
        table.find(IdHash::of(6 << 17), &mut found);
        assert!(found.is_empty());
    }
}
