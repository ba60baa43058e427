//! Calls that are served in steps.

use tidegate_machines::ledger::Outcome;
use tidegate_shard::JobId;

use super::history::RowsRead;
use super::records::AtHand;
use crate::operation::Answer;

/// How far a call was served.
#[derive(Debug, Default)]
pub struct Progress {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) need_credit: Vec<u32>,
    /// Of a history, boxed like what follows: nearly no call has it, and progress moves with each call.
    pub(super) rows: Option<Box<RowsRead>>,
    /// Pages and records that were read for the items to come.
    pub(super) at_hand: Option<Box<AtHand>>,
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
