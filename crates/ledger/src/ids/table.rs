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

use super::IdHash;
use super::entry::Entry;
use super::memory::{Zeroed, prefetch};

const EMPTY: u32 = 0;

/// Entries of one stretch of the journal. Allocated at full size at once, so that no insert ever waits for a rehash.
pub(super) struct Table {
    entries: Vec<Entry>,
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
            capacity,
            slots: Zeroed::new(slot_count),
            index_bits: usize::BITS - capacity.leading_zeros(),
            home_shift: u64::BITS - slot_count.trailing_zeros(),
        }
    }

    #[inline]
    fn home(&self, hash: IdHash) -> usize {
        (hash.0 >> self.home_shift) as usize
    }

    #[inline]
    fn tagged(&self, hash: IdHash, index: usize) -> u32 {
        (hash.0 as u32) << self.index_bits | (index as u32 + 1)
    }

    #[inline]
    fn index_in(&self, slot: u32) -> usize {
        (slot & ((1 << self.index_bits) - 1)) as usize - 1
    }

    /// Adds an entry. Panics when the table is full: ask [`Table::is_full`] first.
    #[inline]
    pub(super) fn insert(&mut self, hash: IdHash, position: Position) {
        assert!(!self.is_full(), "a full table is frozen before the next insert");
        let mask = self.slots.len() - 1;
        let mut at = self.home(hash);
        while self.slots[at] != EMPTY {
            at = (at + 1) & mask;
        }
        self.slots[at] = self.tagged(hash, self.entries.len());
        self.entries.push(Entry { hash, position });
    }

    /// Adds the positions of all entries with this hash to `out`.
    pub(super) fn find(&self, hash: IdHash, out: &mut Vec<Position>) {
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
        prefetch(&self.slots[self.home(hash)]);
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
        self.capacity * size_of::<Entry>() + self.slots.len() * size_of::<u32>()
    }

    /// The same memory without its entries.
    pub(super) fn emptied(mut self) -> Table {
        self.entries.clear();
        self.slots.fill(EMPTY);
        self
    }

    /// All entries in the order of a run.
    pub(super) fn sorted(&self) -> Vec<Entry> {
        let mut sorted = Vec::with_capacity(self.len());
        let mut wrapped = Vec::new();
        let mut before_the_first_gap = true;
        for (at, slot) in self.slots.iter().enumerate() {
            if *slot == EMPTY {
                before_the_first_gap = false;
                continue;
            }
            let entry = self.entries[self.index_in(*slot)];
            // Large hashes that found no room at the end stand at the beginning.
            if before_the_first_gap && self.home(entry.hash) > at {
                wrapped.push(entry);
            } else {
                sorted.push(entry);
            }
        }
        sorted.append(&mut wrapped);
        assert_eq!(sorted.len(), self.entries.len(), "ids: each entry of a table has a slot");
        finish_sorting(&mut sorted);
        sorted
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

    fn table_of(hashes: &[u64], capacity: usize) -> Table {
        let mut table = Table::new(capacity);
        for (n, hash) in hashes.iter().enumerate() {
            table.insert(IdHash(*hash), Position(n as u64 + 1));
        }
        table
    }

    proptest! {
        #[test]
        fn finds_every_position_of_a_hash_and_sorts_like_the_library(
            hashes in prop::collection::vec(prop_oneof![0..4u64, any::<u64>(), (u64::MAX - 3)..=u64::MAX], 1..300),
            room in 0..40usize,
        ) {
            let table = table_of(&hashes, hashes.len() + room);
            prop_assert_eq!(table.is_full(), room == 0);
            for hash in &hashes {
                let mut found = Vec::new();
                table.find(IdHash(*hash), &mut found);
                found.sort();
                let expected = hashes.iter().enumerate().filter(|(_, other)| *other == hash);
                let expected: Vec<_> = expected.map(|(n, _)| Position(n as u64 + 1)).collect();
                prop_assert_eq!(found, expected);
            }
            let mut expected = table.entries.clone();
            expected.sort();
            prop_assert_eq!(table.sorted(), expected);
            let emptied = table.emptied();
            prop_assert_eq!(emptied.range(), None);
            prop_assert!(emptied.sorted().is_empty());
        }
    }

    #[test]
    fn a_hash_that_is_not_there_is_not_found() {
        let table = table_of(&[5, u64::MAX], 8);
        let mut found = Vec::new();
        table.find(IdHash(6), &mut found);
        assert!(found.is_empty());
    }
}
