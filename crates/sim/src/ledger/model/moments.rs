//! What accounts had at times at which nothing was under way, and what may be said of those times later.
//!
//! ```text
//!   at rest at 12:00: every balance is kept ─▶ later: what had they at 12:00?  ─▶ known: what was kept, for ever
//!                                                                              └▶ nobody can tell: only up to a mend
//! ```
//!
//! Promise: the times are those of a clock that is right, also while that of the process is wrong. So whoever moves a
//! row of a wrong clock to another time, or forgets that its clock was mended, names a balance that is not of then.

use std::collections::BTreeMap;

use tidegate_ledger::message::BalanceAt;
use tidegate_machines::ledger::AccountView;

use super::Model;
use crate::chance::Chance;
use crate::violation::{Violation, must};

/// By account, in minor units: the balance, and what open holds reserved.
type Figures = BTreeMap<String, (i64, u64)>;

/// Figures by the time of a right clock, and when clocks were mended.
#[derive(Clone, Debug, Default)]
pub(super) struct Moments {
    by_time: BTreeMap<u64, Figures>,
    mends: Vec<MendedClock>,
}

/// A clock that was wrong, and then mended, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct MendedClock {
    /// What it showed first when it was wrong, which no right clock shows.
    wrong_from: u64,
    /// The time to which it was mended.
    to: u64,
}

impl Moments {
    /// How often clocks were mended.
    pub fn mends(&self) -> usize {
        self.mends.len()
    }

    /// Whether a decision of `at` may be between a row of `before` and the next one, because the time was set back
    /// there.
    pub fn may_be_mended_between(&self, before: Option<u64>, next: Option<u64>, at: u64) -> bool {
        let stands_there = |mend: &MendedClock| {
            next.is_none_or(|next| mend.to <= next)
                && before.is_none_or(|before| before <= mend.to || mend.wrong_from <= before)
        };
        let mut mends = self.mends.iter().filter(|mend| stands_there(mend));
        let Some(first) = mends.next() else { return false };
        // Between two of them there is a time of its own.
        let is_between_two = first.to <= at && mends.next().is_some();
        is_between_two || before.is_none_or(|before| before <= at) || next.is_none_or(|next| at <= next)
    }

    /// Whether a hold that was to live so long may be open until this time because a clock was mended.
    pub fn may_have_moved(&self, expires_at: u64, lives_ms: u64) -> bool {
        self.mends.iter().any(|mend| expires_at <= mend.to + lives_ms)
    }
}

impl Model {
    /// Nothing is under way at this time of a right clock, and this is what accounts have. Nothing more is written at
    /// this time.
    pub fn at_rest(&mut self, time_ms: u64, views: &BTreeMap<String, AccountView>) {
        let figures = views.iter().map(|(id, view)| (id.clone(), (view.balance, view.held)));
        self.moments.by_time.insert(time_ms, figures.collect());
    }

    /// A clock that had shown `wrong_from` and more was set right, and the time of all shards to `to`.
    pub fn mended(&mut self, wrong_from: u64, to: u64) {
        self.moments.mends.push(MendedClock { wrong_from, to });
    }

    /// How often clocks were mended.
    pub fn mends(&self) -> usize {
        self.moments.mends()
    }

    /// An account and a time at which its figures are known.
    pub fn some_moment(&self, chance: &mut Chance) -> Option<(String, u64)> {
        let moments: Vec<_> = self.moments.by_time.iter().filter(|(_, figures)| !figures.is_empty()).collect();
        if moments.is_empty() {
            return None;
        }
        let (time_ms, figures) = *chance.one_of(&moments);
        let ids: Vec<&String> = figures.keys().collect();
        Some(((*chance.one_of(&ids)).clone(), *time_ms))
    }

    /// Compares what is answered of an account at a time.
    pub(super) fn balance_at_answered(&self, id: &str, at_ms: u64, found: &BalanceAt) -> Result<(), Violation> {
        let told = || format!("{id} at {at_ms} is answered {found:?}; mends {:?}", self.moments.mends);
        match found {
            BalanceAt::Further { .. } => Ok(()),
            BalanceAt::Untold { mend, until } => {
                let is_mended = self.moments.mends.iter().any(|of| of.to == mend.to.0) && at_ms < mend.to.0;
                let is_so = is_mended && until.is_none_or(|until| until.0 < at_ms);
                must(is_so, "a balance at a time is told but for the time of a clock that was mended", told)
            }
            BalanceAt::Known { last, written_by, held } => {
                must(written_by.0 <= at_ms, "a balance at a time is of what was written by then", told)?;
                let Some(then) = self.moments.by_time.get(&at_ms).and_then(|figures| figures.get(id)) else {
                    return Ok(());
                };
                let figures = (last.as_ref().map_or(0, |row| row.balance_after), *held);
                must(figures == (then.0, Some(then.1)), "a balance at a time is that of then", || {
                    format!("{}, but it had {then:?}", told())
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_machines::ledger::Mend;
    use tidegate_machines::{RecordPosition, RecordSequence, TimeMs};

    use super::*;

    #[test]
    fn of_a_moment_only_its_own_figures_are_told_or_that_nobody_can_tell_before_a_mend() {
        let mut model = Model::new(1);
        let figures = Figures::from([("wallet:a".to_owned(), (7, 2))]);
        model.moments.by_time.insert(100, figures);
        model.mended(900, 200);
        let known = |held| BalanceAt::Known { last: None, written_by: TimeMs(0), held: Some(held) };
        let untold = |until: u64, to: u64| {
            let (position, sequence) = (RecordPosition(9), RecordSequence(9));
            let mend = Mend { position, sequence, was: TimeMs(900), to: TimeMs(to) };
            BalanceAt::Untold { mend, until: Some(TimeMs(until)) }
        };
        let is_so = |at, found| model.balance_at_answered("wallet:a", at, &found).is_ok();
        assert!(!is_so(100, known(2)), "it had 7");
        assert!(is_so(101, known(5)), "nobody was at rest then");
        assert!(is_so(100, untold(99, 200)) && !is_so(100, untold(100, 200)) && !is_so(100, untold(99, 201)));
        assert!(!is_so(200, untold(99, 200)), "from the mend on it is known");
    }

    #[test]
    fn a_decision_is_on_either_side_of_a_mend() {
        let moments = Moments { mends: vec![MendedClock { wrong_from: 900, to: 20 }], ..Moments::default() };
        let may = |before, next, at| moments.may_be_mended_between(before, next, at);
        assert!(may(Some(10), Some(30), 900), "by the wrong clock");
        assert!(may(Some(900), Some(30), 25) && may(Some(900), Some(30), 950), "behind the mend, or before it");
        assert!(!may(Some(900), Some(30), 31) && !may(Some(21), Some(30), 900), "no mend is there");
        assert!(may(Some(900), None, 25), "nothing was written behind it");
        assert!(may(Some(900), Some(2_000), 25), "the clock is wrong again by then");
    }
}
