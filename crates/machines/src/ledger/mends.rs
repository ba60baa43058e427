//! Where an operator has set the time of a shard back, and what that says of the rows before.
//!
//! ```text
//!   rows that say     12:00  12:10 │ a wrong clock: 15:00  15:01 │ mended to 12:30 │ 12:40
//!   were written      then    then │ by 12:30, nobody knows when │                 │ then
//! ```
//!
//! Promise: of a row and a time, [`RowTime::is_by`] says whether the row was written by then, or that nobody can tell.
//! It guesses nothing: a balance of a time is given where all rows around that time are told apart.
//!
//! Why a list in the state: rows of a history are chained to each other, and not to the mends between them.
//!
//! What it believes: the newest mend, and every time that is not later than all mends behind it. A row of a wrong clock
//! that says such a time looks like any other, in the journal, too.

use super::event::Event;
use super::limits::MENDS_MAX;
use super::state::Ledger;
use crate::{Place, RecordPosition, RecordSequence, TimeMs};

/// A record that has set the time of its shard back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mend {
    /// Where it stands.
    pub position: RecordPosition,
    /// Which record it is.
    pub sequence: RecordSequence,
    /// The shard's time before.
    pub was: TimeMs,
    /// The time that it was set to, which is earlier.
    pub to: TimeMs,
}

/// The mends of one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mends {
    /// So many older ones are not kept.
    forgotten: u64,
    /// Oldest first.
    kept: Vec<Mend>,
}

/// When a row was written, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowTime {
    /// At the time that it says.
    Said(TimeMs),
    /// Its clock was wrong: at some time between these two.
    Unsure {
        /// Later than this, the time of another mend: a server is started between a mend and what it writes.
        after: TimeMs,
        /// By the time that this one set.
        mend: Mend,
    },
}

impl RowTime {
    /// Whether the row was written at `time` or before; `None` if nobody can tell.
    pub fn is_by(&self, time: TimeMs) -> Option<bool> {
        match *self {
            RowTime::Said(said) => Some(said <= time),
            RowTime::Unsure { mend, .. } if mend.to <= time => Some(true),
            RowTime::Unsure { after, .. } if time <= after => Some(false),
            RowTime::Unsure { .. } => None,
        }
    }

    /// The time by which it was written at the latest.
    pub fn latest(&self) -> TimeMs {
        match *self {
            RowTime::Said(said) => said,
            RowTime::Unsure { mend, .. } => mend.to,
        }
    }
}

impl Mends {
    /// Those that are kept, oldest first.
    pub fn kept(&self) -> &[Mend] {
        &self.kept
    }

    /// How many older ones are not kept. If there are any, no row before the first that is kept says when it was
    /// written.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The same list, as it was written down. `None` if it is not in order, or not of records up to `last`.
    pub(super) fn restore(forgotten: u64, kept: Vec<Mend>, last: RecordPosition) -> Option<Mends> {
        let is_one = |mend: &Mend| mend.position <= last && RecordPosition::NONE < mend.position && mend.to < mend.was;
        let follows = |pair: &[Mend]| pair[0].position < pair[1].position && pair[0].sequence < pair[1].sequence;
        let is_whole = kept.len() <= MENDS_MAX && (forgotten == 0 || kept.len() == MENDS_MAX);
        let is_sound = is_whole && kept.iter().all(is_one) && kept.windows(2).all(follows);
        is_sound.then_some(Mends { forgotten, kept })
    }

    /// Panics if events cannot have made it.
    pub(super) fn assert_sound(&self, last: RecordPosition) {
        let again = Mends::restore(self.forgotten, self.kept.clone(), last);
        assert_eq!(again.as_ref(), Some(self), "mends are in order");
    }

    /// Notes that a record set the time. One that set it forward says of no row before it when that was written: times
    /// do not go back between two mends, so all rows between them say earlier ones.
    pub(super) fn push(&mut self, mend: Mend) {
        if mend.was <= mend.to {
            return;
        }
        assert!(self.kept.last().is_none_or(|last| last.position < mend.position), "mends are noted in order");
        if self.kept.len() == MENDS_MAX {
            self.kept.remove(0);
            self.forgotten += 1;
        }
        self.kept.push(mend);
    }

    /// When the row at `position` was written, which says `time`.
    pub(super) fn time_of(&self, position: RecordPosition, time: TimeMs) -> RowTime {
        let (before, behind) = self.kept.split_at(self.kept.partition_point(|mend| mend.position < position));
        // What was written before several mends was written by the earliest of their times.
        let Some(mend) = behind.iter().min_by_key(|mend| mend.to).copied() else { return RowTime::Said(time) };
        let is_before_all = before.is_empty() && self.forgotten > 0;
        if time <= mend.to && !is_before_all {
            return RowTime::Said(time);
        }
        // One that set a later time than `mend` was itself a mistake.
        let after = before.iter().map(|mend| mend.to).filter(|to| *to <= mend.to).max().unwrap_or_default();
        RowTime::Unsure { after, mend }
    }
}

impl Ledger {
    /// Where the time of this shard was set back.
    pub fn mends(&self) -> &Mends {
        &self.mends
    }

    /// When the event of a history's row at `position` was decided, as far as that is known. A credit that another
    /// shard decided was decided before it was taken in, whatever the clock of that shard said.
    pub fn row_time(&self, event: &Event<'_>, position: RecordPosition) -> RowTime {
        let time = match *event {
            Event::CreditReceived { time, decided_at, .. } => decided_at.min(time),
            ref event => event.time(),
        };
        self.mends.time_of(position, time)
    }

    /// Notes a record that set the time.
    pub(super) fn note_mend(&mut self, was: TimeMs, to: TimeMs, at: Place) {
        self.mends.push(Mend { position: at.position, sequence: at.sequence, was, to });
    }
}

#[cfg(test)]
mod tests;
