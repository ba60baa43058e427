//! Calls that are served in steps.

use tidegate_journal::Position;
use tidegate_machines::ledger::Outcome;
use tidegate_shard::JobId;

use super::history::RowsRead;
use super::records::AtHand;
use crate::operation::Answer;

/// The items of a call whose ids were new at one moment, so that less has to be asked when they are decided.
#[derive(Debug)]
pub(super) struct NewIds {
    /// The newest record of an id at that moment.
    pub(super) since: Position,
    /// A bit for each item, from the first that was not decided then on.
    bits: Vec<u64>,
    first: usize,
}

impl NewIds {
    /// None of the items from `first` on.
    pub(super) fn none(first: usize, since: Position) -> NewIds {
        NewIds { since, bits: Vec::new(), first }
    }

    /// The next item, of which it is the `at`-th, is one.
    pub(super) fn add(&mut self, at: usize) {
        let word = at / 64;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (at % 64);
    }

    /// Whether an item is one of them.
    #[inline]
    pub(super) fn has(&self, item: usize) -> bool {
        let at = item.wrapping_sub(self.first);
        self.bits.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}

/// How far a call was served.
#[derive(Debug, Default)]
pub struct Progress {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) need_credit: Vec<u32>,
    /// Of a history, boxed like what follows: nearly no call has it, and progress moves with each call.
    pub(super) rows: Option<Box<RowsRead>>,
    /// Pages and records that were read for the items to come.
    pub(super) at_hand: Option<Box<AtHand>>,
    /// Which of the items to come name ids that were new when their pages and records were looked for.
    pub(super) new_ids: Option<Box<NewIds>>,
    /// The job that reads more of them.
    pub(super) reading: Option<JobId>,
    /// Nothing new is decided for it.
    only_known: bool,
}

impl Progress {
    /// That of a call that is answered only as far as it asks what was decided before: nothing is appended for it.
    pub(super) fn of_what_is_known() -> Progress {
        Progress { only_known: true, ..Progress::default() }
    }

    /// Whether it is of such a call.
    pub(super) fn is_of_what_is_known(&self) -> bool {
        self.only_known
    }

    /// Items that have their outcomes.
    pub(super) fn decided(&self) -> usize {
        self.outcomes.len()
    }

    /// The outcomes of `count` items, of which all are decided.
    pub(super) fn answer(&mut self, count: usize) -> Answer {
        assert!(self.outcomes.len() == count, "an outcome for each item asked");
        assert!(self.need_credit.len() <= count, "an item waits for its account once");
        assert!(self.reading.is_none(), "whoever has its answer reads nothing");
        Answer::Outcomes {
            outcomes: std::mem::take(&mut self.outcomes),
            need_credit: std::mem::take(&mut self.need_credit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_counted_from_the_first_that_was_not_decided() {
        let mut new = NewIds::none(100, Position(7));
        assert!((0..300).all(|item| !new.has(item)));
        for at in [0, 63, 64, 130] {
            new.add(at);
        }
        let found: Vec<_> = (0..400).filter(|item| new.has(*item)).collect();
        assert_eq!((found, new.since), (vec![100, 163, 164, 230], Position(7)));
    }
}
