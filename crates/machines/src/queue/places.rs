//! Which messages have their bodies in which part of the log.

use std::collections::BTreeMap;

use super::limits::PLACE_BITS;
use super::number_set::NumberSet;
use crate::RecordPosition;

/// The part of the log in which a record is.
pub(super) const fn place_of(body: RecordPosition) -> u64 {
    body.0 >> PLACE_BITS
}

/// The numbers of messages by the part of the log that has their bodies, while they are gathered.
#[derive(Default)]
pub(super) struct Places {
    by_place: BTreeMap<u64, NumberSet>,
    /// The place of the last one, which is that of most next ones, and its numbers.
    last: u64,
    of_last: NumberSet,
}

impl Places {
    pub fn insert(&mut self, number: u64, body: RecordPosition) {
        let place = place_of(body);
        if place != self.last {
            self.end_last();
            self.last = place;
            self.of_last = self.by_place.remove(&place).unwrap_or_default();
        }
        self.of_last.insert(number);
    }

    fn end_last(&mut self) {
        self.by_place.insert(self.last, std::mem::take(&mut self.of_last));
    }

    pub fn into_sets(mut self) -> BTreeMap<u64, NumberSet> {
        self.end_last();
        self.by_place.retain(|_, numbers| !numbers.is_empty());
        self.by_place
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_message_is_where_its_body_is(bodies in proptest::collection::vec(0u64..5, 0..60)) {
            let (mut places, mut model) = (Places::default(), BTreeMap::<u64, NumberSet>::new());
            for (number, place) in bodies.into_iter().enumerate() {
                places.insert(number as u64, RecordPosition(place << PLACE_BITS | 7));
                model.entry(place).or_default().insert(number as u64);
            }
            prop_assert!(places.into_sets() == model);
        }
    }
}
