//! Campaigns that have ended and are forgotten: which version each had, so that a plan of before that comes late makes
//! none of them again, with a budget of which nothing is spent.

use std::collections::{BTreeMap, VecDeque};

/// How many are remembered: of more, the last ones.
pub(super) const FORGOTTEN_MAX: usize = 16_384;

/// What is left of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub number: u32,
    pub version: u64,
}

/// Those that are remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Forgotten {
    by_id: BTreeMap<Box<str>, Last>,
    /// In the order in which they were forgotten.
    order: VecDeque<Box<str>>,
}

impl Forgotten {
    /// These, in their order; `None` if one is there twice, or there are too many.
    pub fn of(all: Vec<(Box<str>, Last)>) -> Option<Forgotten> {
        let order: VecDeque<Box<str>> = all.iter().map(|(id, _)| id.clone()).collect();
        let by_id: BTreeMap<Box<str>, Last> = all.into_iter().collect();
        (by_id.len() == order.len() && order.len() <= FORGOTTEN_MAX).then_some(Forgotten { by_id, order })
    }

    /// All, in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Last)> {
        self.order.iter().map(|id| (&**id, self.by_id[id]))
    }

    pub fn get(&self, id: &str) -> Option<Last> {
        self.by_id.get(id).copied()
    }

    /// A campaign is forgotten.
    pub fn add(&mut self, id: Box<str>, last: Last) {
        let before = self.by_id.insert(id.clone(), last);
        assert!(before.is_none(), "one that is made again is not forgotten");
        self.order.push_back(id);
        if self.order.len() > FORGOTTEN_MAX {
            let oldest = self.order.pop_front().expect("there are many");
            self.by_id.remove(&oldest);
        }
    }

    /// One is made again.
    pub fn remove(&mut self, id: &str) {
        if self.by_id.remove(id).is_some() {
            self.order.retain(|other| **other != *id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(number: u32) -> Last {
        Last { number, version: 7 }
    }

    #[test]
    fn the_last_ones_are_remembered_in_their_order() {
        let mut forgotten = Forgotten::default();
        for number in 0..FORGOTTEN_MAX as u32 + 2 {
            forgotten.add(format!("c{number}").into(), last(number));
        }
        assert_eq!((forgotten.get("c1"), forgotten.get("c2")), (None, Some(last(2))));
        forgotten.remove("c3");
        forgotten.add("c3".into(), last(9));
        let all: Vec<(Box<str>, Last)> = forgotten.iter().map(|(id, last)| (id.into(), last)).collect();
        assert_eq!((all.len(), &*all[0].0, &*all[FORGOTTEN_MAX - 1].0), (FORGOTTEN_MAX, "c2", "c3"));
        assert_eq!(Forgotten::of(all.clone()), Some(forgotten));
        assert_eq!(Forgotten::of([&all[..1], &all[..1]].concat()), None);
    }
}
