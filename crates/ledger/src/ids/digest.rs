//! A sum over the ids of many records, to be made twice: from the journal, and from the runs.
//!
//! ```text
//!   journal, record by record  ─▶ hash of the id, position ─┐
//!                                                           ├─▶ equal sums: the runs have these records and no others
//!   runs, in whatever order    ─▶ hash kept,      position ─┘
//! ```
//!
//! Why besides checksums and order: they show that a page is as it was written, not that it was written right. An entry
//! that is missing, or stands under another hash, is not missed by anybody until its id is used again, and then money
//! moves twice.
//!
//! Why a sum: it needs no order and no memory. Accidents are shown by 64 bits; the files of an index are not protected
//! against who can write them.

use tidegate_journal::Position;

use super::{IdHash, IdSeed};

/// The sum over all records up to a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdDigest {
    up_to: Position,
    entries: u64,
    sum: u64,
}

impl IdDigest {
    /// Of no record yet; those behind `up_to` will not be counted.
    pub const fn up_to(up_to: Position) -> IdDigest {
        IdDigest { up_to, entries: 0, sum: 0 }
    }

    /// Up to which position it counts.
    pub const fn end(&self) -> Position {
        self.up_to
    }

    /// Counts no further than `end`, before which all was counted, and nothing behind it.
    pub fn ends_at(&mut self, end: Position) {
        self.up_to = self.up_to.min(end);
    }

    /// How many records were counted.
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// Their sum.
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// Counts the record at `position`, which is about `id`.
    pub fn note(&mut self, seed: IdSeed, id: &str, position: Position) {
        self.add(seed.hash(id.as_bytes()), position);
    }

    /// Counts an entry.
    pub(super) fn add(&mut self, IdHash { hash, .. }: IdHash, position: Position) {
        if position <= self.up_to {
            self.entries += 1;
            self.sum = self.sum.wrapping_add(mix(hash ^ mix(position.0)));
        }
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): each bit of the result depends on all.
const fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: IdSeed = IdSeed([1, 2]);

    fn of(records: &[(&str, u64)]) -> IdDigest {
        let mut digest = IdDigest::up_to(Position(100));
        records.iter().for_each(|(id, at)| digest.note(SEED, id, Position(*at)));
        digest
    }

    #[test]
    fn the_order_does_not_matter_and_everything_else_does() {
        let digest = of(&[("a", 10), ("b", 20), ("b", 100), ("late", 101)]);
        assert_eq!(digest, of(&[("b", 100), ("a", 10), ("b", 20)]));
        assert_eq!(digest.entries(), 3);
        let others: [&[(&str, u64)]; 4] = [
            &[("a", 10), ("b", 20)],
            &[("a", 20), ("b", 10), ("b", 100)],
            &[("a", 10), ("c", 20), ("b", 100)],
            &[("a", 10), ("a", 10), ("b", 20), ("b", 100)],
        ];
        for other in others {
            assert_ne!(digest.sum(), of(other).sum(), "{other:?}");
        }
    }

    #[test]
    fn nothing_behind_the_end_is_counted_also_if_that_is_heard_later() {
        let mut digest = IdDigest::up_to(Position(100));
        digest.ends_at(Position(200));
        assert_eq!(digest.end(), Position(100), "it does not count further than it did");
        digest.ends_at(Position(50));
        digest.note(SEED, "a", Position(50));
        digest.note(SEED, "b", Position(51));
        assert_eq!((digest.end(), digest.entries()), (Position(50), 1));
    }

    #[test]
    fn where_a_record_stands_counts_whatever_its_hash_is() {
        for hash in [0, u64::MAX] {
            let sum = |position| {
                let mut digest = IdDigest::up_to(Position(100));
                digest.add(IdHash::of(hash), Position(position));
                digest.sum()
            };
            assert_ne!(sum(10), sum(20), "{hash:x}");
        }
    }
}
