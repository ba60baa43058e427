//! A set of numbers as words of 64 bits: a long backlog takes half a byte a message, also if it is that of many queues
//! or priorities, whose messages came between each other.

use std::collections::BTreeMap;

/// A set of numbers.
#[derive(Clone, Debug)]
pub(crate) struct NumberSet {
    /// By number / 64, which of those 64 are there. None is zero.
    words: BTreeMap<u64, u64>,
    /// The word behind all of those, and its place; zero and [`NO_WORD`] if there is none. Most numbers are the newest:
    /// they need no look-up.
    last: u64,
    last_index: u64,
    len: u64,
}

/// The place of no word.
const NO_WORD: u64 = u64::MAX;

impl Default for NumberSet {
    fn default() -> NumberSet {
        NumberSet { words: BTreeMap::new(), last: 0, last_index: NO_WORD, len: 0 }
    }
}

impl PartialEq for NumberSet {
    fn eq(&self, other: &NumberSet) -> bool {
        self.len == other.len && self.words_from(0).eq(other.words_from(0))
    }
}

impl Eq for NumberSet {}

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
        let first = self.words.first_key_value().map(|(index, word)| (*index, *word));
        first.or(self.last_word()).map(|(index, word)| 64 * index + u64::from(word.trailing_zeros()))
    }

    pub fn contains(&self, number: u64) -> bool {
        let (index, bit) = place(number);
        let word = match index == self.last_index {
            true => self.last,
            false => self.words.get(&index).copied().unwrap_or_default(),
        };
        word & bit != 0
    }

    /// Adds a number that is not there.
    pub fn insert(&mut self, number: u64) {
        let (index, bit) = place(number);
        let word = self.word_mut(index);
        assert!(*word & bit == 0, "{number} is in the set already");
        *word |= bit;
        self.len += 1;
    }

    /// Adds so many numbers, none of which is there.
    pub fn insert_run(&mut self, first: u64, count: u64) {
        let end = first + count;
        let mut from = first;
        while from < end {
            let (index, _) = place(from);
            let to = end.min(64 * (index + 1));
            let bits = (u64::MAX >> (64 - (to - from))) << (from % 64);
            let word = self.word_mut(index);
            assert!(*word & bits == 0, "some of {from} to {to} are in the set already");
            *word |= bits;
            from = to;
        }
        self.len += count;
    }

    /// A word to which a number will be added.
    fn word_mut(&mut self, index: u64) -> &mut u64 {
        if self.last == 0 {
            let is_last = self.words.last_key_value().is_none_or(|(last, _)| *last < index);
            self.last_index = if is_last { index } else { NO_WORD };
        } else if index > self.last_index {
            self.words.insert(self.last_index, self.last);
            (self.last, self.last_index) = (0, index);
        }
        match index == self.last_index {
            true => &mut self.last,
            false => self.words.entry(index).or_insert(0),
        }
    }

    /// Removes a number that is there.
    pub fn remove(&mut self, number: u64) {
        let (index, bit) = place(number);
        self.len = self.len.wrapping_sub(1);
        if index == self.last_index {
            assert!(self.last & bit != 0, "{number} is not in the set");
            self.last &= !bit;
            if self.last == 0 {
                self.last_index = NO_WORD;
            }
            return;
        }
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

    fn last_word(&self) -> Option<(u64, u64)> {
        (self.last != 0).then_some((self.last_index, self.last))
    }

    /// The words from a place on, in order.
    fn words_from(&self, index: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let words = self.words.range(index..).map(|(index, word)| (*index, *word));
        words.chain(self.last_word().filter(|(last, _)| *last >= index))
    }

    /// The numbers from `from` on, in order.
    pub fn iter_from(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        let (begins, bit) = place(from);
        let from_there = move |(index, word): (u64, u64)| match index == begins {
            true => (index, word & !(bit - 1)),
            false => (index, word),
        };
        self.words_from(begins).map(from_there).flat_map(|(index, word)| numbers_of(index, word))
    }

    /// All numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.iter_from(0)
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

    use super::NumberSet;

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
            let mut in_order = NumberSet::default();
            model.iter().for_each(|number| in_order.insert(*number));
            prop_assert!(in_order == set, "it does not matter in which order they came");
            let before_last = |(index, _): (&u64, &u64)| *index < set.last_index || set.last == 0;
            let is_behind = set.words.last_key_value().is_none_or(before_last);
            prop_assert!(is_behind, "the last word is behind the others");
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
