//! A set of numbers as the ranges that it has: a long backlog of one queue, whose messages came one after the other,
//! takes the memory of one range.

use std::collections::BTreeMap;

/// A set of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NumberSet {
    /// The first number of each range, and the one behind its last. No two ranges touch.
    ranges: BTreeMap<u64, u64>,
    len: u64,
}

impl NumberSet {
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn first(&self) -> Option<u64> {
        self.ranges.first_key_value().map(|(first, _)| *first)
    }

    pub fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, end)| number < *end)
    }

    /// Adds a number that is not there.
    pub fn insert(&mut self, number: u64) {
        // Most numbers are the newest.
        if let Some(mut last) = self.ranges.last_entry()
            && *last.get() == number
        {
            *last.get_mut() += 1;
            self.len += 1;
            return;
        }
        let before = self.ranges.range(..=number).next_back().map(|(first, end)| (*first, *end));
        assert!(before.is_none_or(|(_, end)| end <= number), "{number} is in the set already");
        let end = self.ranges.remove(&(number + 1)).unwrap_or(number + 1);
        let first = before.filter(|(_, end)| *end == number).map_or(number, |(first, _)| first);
        self.ranges.insert(first, end);
        self.len += 1;
    }

    /// Removes a number that is there.
    pub fn remove(&mut self, number: u64) {
        let found = self.ranges.range(..=number).next_back().map(|(first, end)| (*first, *end));
        let Some((first, end)) = found.filter(|(_, end)| number < *end) else { panic!("{number} is not in the set") };
        match first == number {
            true => drop(self.ranges.remove(&first)),
            false => drop(self.ranges.insert(first, number)),
        }
        if number + 1 < end {
            self.ranges.insert(number + 1, end);
        }
        self.len -= 1;
    }

    /// The numbers from `from` on, in order.
    pub fn iter_from(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        let begins = self.ranges.range(..=from).next_back().map_or(from, |(first, _)| *first);
        self.ranges.range(begins..).flat_map(move |(first, end)| (*first).max(from)..*end)
    }

    /// All numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.iter_from(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::NumberSet;

    proptest! {
        #[test]
        fn it_has_what_a_set_has(steps in proptest::collection::vec(0u64..40, 0..200), from in 0u64..45) {
            let (mut set, mut model) = (NumberSet::default(), BTreeSet::new());
            for number in steps {
                prop_assert_eq!(set.contains(number), model.contains(&number));
                match model.insert(number) {
                    true => set.insert(number),
                    false => {
                        model.remove(&number);
                        set.remove(number);
                    }
                }
                prop_assert_eq!(set.len(), model.len() as u64);
                prop_assert_eq!(set.first(), model.first().copied());
            }
            prop_assert!(set.iter_from(from).eq(model.range(from..).copied()));
            let touching = set.ranges.iter().zip(set.ranges.iter().skip(1)).any(|((_, end), (first, _))| end >= first);
            prop_assert!(!touching, "ranges that touch are one");
        }
    }
}
