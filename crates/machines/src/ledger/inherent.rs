//! The ledger's door of old, for shards that do not call it through [`Machine`] yet.

use super::command::Command;
use super::event::Event;
use super::mismatch::Mismatch;
use super::outcome::{Outcome, Ruling};
use super::state::Ledger;
use crate::{Machine, OutboundNumber, Place, RecordPosition, RecordSequence, TimeMs};

/// What a command comes to. Nothing has changed yet: [`Ledger::apply`](super::Ledger::apply) does that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Journal the event, apply it, and give the outcome once it is durable.
    Append {
        /// What happened.
        event: Event<'a>,
        /// What to answer.
        outcome: Outcome,
    },
    /// Nothing to journal: a duplicate, a repeated answer, or a refusal that is the same for ever.
    Answer(Outcome),
    /// The credit account is not known on this shard; ask its home, then send [`Command::AdoptAccount`] (or repeat with
    /// `credit_missing`) and decide again. Only with more than one shard.
    NeedAccount,
    /// A credit arrived before the one that must come first. Only for [`Command::ReceiveCredit`].
    Gap {
        /// The number that must come next.
        expected: OutboundNumber,
    },
    /// Nothing to do and nobody to answer: it has been done.
    Nothing,
}

impl Ledger {
    /// As [`Machine::decide`].
    #[inline]
    pub fn decide<'a>(&self, command: &Command<'a>, prior: Option<&'a Event<'a>>, now: TimeMs) -> Decision<'a> {
        match Machine::decide(self, command, prior, now) {
            crate::Decision::Append { event, outcome: Ruling::Outcome(outcome) } => Decision::Append { event, outcome },
            crate::Decision::Answer(Ruling::Outcome(outcome)) => Decision::Answer(outcome),
            crate::Decision::Answer(Ruling::AppliedBefore) => Decision::Nothing,
            crate::Decision::Answer(Ruling::Gap { expected }) => Decision::Gap { expected },
            crate::Decision::Answer(Ruling::NeedAccount) => Decision::NeedAccount,
            crate::Decision::Append { .. } => unreachable!("an event answers a request"),
        }
    }

    /// As [`Machine::apply`].
    #[inline]
    pub fn apply(&mut self, event: &Event<'_>, position: RecordPosition) {
        Machine::apply(self, event, place(position));
    }

    /// As [`Machine::apply_checked`].
    #[inline]
    pub fn apply_checked(&mut self, event: &Event<'_>, position: RecordPosition) -> Result<(), Mismatch> {
        Machine::apply_checked(self, event, place(position))
    }
}

/// The ledger keeps no sequence.
fn place(position: RecordPosition) -> Place {
    Place { position, sequence: RecordSequence::default() }
}
