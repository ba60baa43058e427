//! The entries of tables and runs.

use tidegate_journal::Position;

use super::hash::RunKey;

/// Positions have fewer bits than this: 256 TiB of journal.
const POSITION_BITS: u32 = 48;

/// A record's position under the key of its id; ordered by key, then position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    key: u64,
    /// The key's tail, and the position.
    word: u64,
}

impl Entry {
    /// Bytes of an entry on disk.
    pub(super) const BYTES: usize = 16;

    pub(super) fn new(key: RunKey, position: Position) -> Entry {
        assert!(position.0 >> POSITION_BITS == 0, "ids: position {position} does not fit an entry");
        Entry { key: key.key, word: u64::from(key.tail) << POSITION_BITS | position.0 }
    }

    /// Not above any entry of this key.
    pub(super) fn first_of(key: RunKey) -> Entry {
        Entry::new(key, Position(0))
    }

    pub(super) fn key(self) -> RunKey {
        RunKey { key: self.key, tail: (self.word >> POSITION_BITS) as u16 }
    }

    pub(super) fn position(self) -> Position {
        Position(self.word & ((1 << POSITION_BITS) - 1))
    }

    /// The same as a number, in the same order.
    #[inline]
    pub(super) fn number(self) -> u128 {
        u128::from(self.key) << 64 | u128::from(self.word)
    }

    /// The entry with this [`Entry::number`].
    #[inline]
    pub(super) fn of_number(number: u128) -> Entry {
        Entry { key: (number >> 64) as u64, word: number as u64 }
    }

    pub(super) fn encode(self, into: &mut [u8]) {
        into[..8].copy_from_slice(&self.key.to_le_bytes());
        into[8..Entry::BYTES].copy_from_slice(&self.word.to_le_bytes());
    }

    pub(super) fn decode(from: &[u8]) -> Entry {
        let word = |at: usize| u64::from_le_bytes(from[at..at + 8].try_into().expect("eight bytes"));
        Entry { key: word(0), word: word(8) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_in_the_order_of_entries(one: (u64, u64), other: (u64, u64)) {
            let entry = |(key, word)| Entry { key, word };
            let (one, other) = (entry(one), entry(other));
            prop_assert_eq!(one.number().cmp(&other.number()), one.cmp(&other));
            prop_assert_eq!(Entry::of_number(one.number()), one);
        }
    }
}
