//! A set of numbers as words of 64 bits: a long backlog takes half a byte a message, also if it is that of many queues
//! or priorities, whose messages came between each other.

use std::collections::BTreeMap;

/// A set of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NumberSet {
    /// By number / 64, which of those 64 are there. None is zero.
    words: BTreeMap<u64, u64>,
    len: u64,
}

const fn place(number: u64) -> (u64, u64) {
    (number / 64, 1 << (number % 64))
}

impl NumberSet {
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn first(&self) -> Option<u64> {
        self.words.first_key_value().map(|(index, word)| 64 * index + u64::from(word.trailing_zeros()))
    }

    pub fn contains(&self, number: u64) -> bool {
        let (index, bit) = place(number);
        self.words.get(&index).is_some_and(|word| word & bit != 0)
    }

    /// Adds a number that is not there.
    pub fn insert(&mut self, number: u64) {
        let (index, bit) = place(number);
        self.len += 1;
        // Most numbers are the newest.
        if let Some(mut last) = self.words.last_entry()
            && *last.key() == index
        {
            assert!(*last.get() & bit == 0, "{number} is in the set already");
            *last.get_mut() |= bit;
            return;
        }
        let word = self.words.entry(index).or_insert(0);
        assert!(*word & bit == 0, "{number} is in the set already");
        *word |= bit;
    }

    /// Adds so many numbers, none of which is there.
    pub fn insert_run(&mut self, first: u64, count: u64) {
        let end = first + count;
        let mut from = first;
        while from < end {
            let (index, _) = place(from);
            let to = end.min(64 * (index + 1));
            let bits = (u64::MAX >> (64 - (to - from))) << (from % 64);
            let word = match self.words.last_entry() {
                Some(last) if *last.key() == index => last.into_mut(),
                _ => self.words.entry(index).or_insert(0),
            };
            assert!(*word & bits == 0, "some of {from} to {to} are in the set already");
            *word |= bits;
            from = to;
        }
        self.len += count;
    }

    /// Removes a number that is there.
    pub fn remove(&mut self, number: u64) {
        let (index, bit) = place(number);
        self.len = self.len.wrapping_sub(1);
        // Many are the oldest.
        if let Some(mut first) = self.words.first_entry()
            && *first.key() == index
        {
            assert!(*first.get() & bit != 0, "{number} is not in the set");
            *first.get_mut() &= !bit;
            if *first.get() == 0 {
                first.remove();
            }
            return;
        }
        let word = self.words.get_mut(&index).filter(|word| **word & bit != 0);
        let word = word.unwrap_or_else(|| panic!("{number} is not in the set"));
        *word &= !bit;
        if *word == 0 {
            self.words.remove(&index);
        }
    }

    /// The numbers from `from` on, in order.
    pub fn iter_from(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        let (begins, bit) = place(from);
        let from_there = move |(index, word): (&u64, &u64)| match *index == begins {
            true => (*index, word & !(bit - 1)),
            false => (*index, *word),
        };
        self.words.range(begins..).map(from_there).flat_map(|(index, word)| numbers_of(index, word))
    }

    /// All numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.iter_from(0)
    }
}

/// Numbers that come in their order: a set is made of them with one look-up for 64.
#[derive(Debug, Default)]
pub(crate) struct InOrder {
    set: NumberSet,
    /// The word that is being filled, and its place.
    word: u64,
    index: u64,
}

impl InOrder {
    /// Adds a number behind those that are there.
    pub fn push(&mut self, number: u64) {
        let (index, bit) = place(number);
        if index != self.index {
            self.end_word();
            self.index = index;
        }
        assert!(self.word < bit, "{number} is behind the others");
        self.word |= bit;
    }

    fn end_word(&mut self) {
        if self.word != 0 {
            let before = self.set.words.insert(self.index, self.word);
            assert!(before.is_none(), "numbers come in order");
            self.set.len += u64::from(self.word.count_ones());
            self.word = 0;
        }
    }

    pub fn into_set(mut self) -> NumberSet {
        self.end_word();
        self.set
    }
}

/// The numbers of a word, in order.
fn numbers_of(index: u64, word: u64) -> impl Iterator<Item = u64> {
    let without_lowest = |word: &u64| Some(word & (word - 1)).filter(|word| *word != 0);
    let words = std::iter::successors(Some(word).filter(|word| *word != 0), without_lowest);
    words.map(move |word| 64 * index + u64::from(word.trailing_zeros()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{InOrder, NumberSet};

    proptest! {
        #[test]
        fn it_has_what_a_set_has(steps in proptest::collection::vec(0u64..400, 0..300), from in 0u64..450) {
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
            prop_assert!(set.iter().eq(model.iter().copied()));
            prop_assert!(set.iter_from(from).eq(model.range(from..).copied()));
            prop_assert!(set.words.values().all(|word| *word != 0), "no word is kept for nothing");
            let mut in_order = InOrder::default();
            model.iter().for_each(|number| in_order.push(*number));
            prop_assert!(in_order.into_set() == set);
        }

        #[test]
        fn a_run_is_its_numbers(runs in proptest::collection::vec((1u64..70, 0u64..200), 1..6)) {
            let (mut set, mut model, mut first) = (NumberSet::default(), BTreeSet::new(), 0);
            for (gap, count) in runs {
                first += gap;
                set.insert_run(first, count);
                model.extend(first..first + count);
                first += count;
            }
            prop_assert!(set.iter().eq(model.iter().copied()));
            prop_assert_eq!(set.len(), model.len() as u64);
        }
    }
}
