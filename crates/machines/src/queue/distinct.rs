//! Which numbers came before.

use std::collections::HashSet;

/// The numbers that were met so far. Those of a batch mostly rise, and need no hash then.
pub(super) struct Distinct {
    rising: Vec<u64>,
    /// That came behind a greater one.
    others: HashSet<u64>,
}

impl Distinct {
    /// None yet, and room for so many.
    pub fn with_capacity(count: usize) -> Distinct {
        Distinct { rising: Vec::with_capacity(count), others: HashSet::new() }
    }

    /// Notes a number. Whether it is the first of its value.
    pub fn insert(&mut self, number: u64) -> bool {
        if self.rising.last().is_none_or(|last| *last < number) {
            self.rising.push(number);
            return true;
        }
        self.rising.binary_search(&number).is_err() && self.others.insert(number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::Distinct;

    proptest! {
        #[test]
        fn a_number_is_new_once(numbers in proptest::collection::vec(0u64..40, 0..60)) {
            let (mut distinct, mut model) = (Distinct::with_capacity(8), HashSet::new());
            for number in numbers {
                prop_assert_eq!(distinct.insert(number), model.insert(number));
            }
        }
    }
}
