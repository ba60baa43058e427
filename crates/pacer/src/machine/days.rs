//! What of a campaign was spent on which day, for the cap of a day.
//!
//! Promise: what is leased for a day counts for that day. A clock that was ahead has leased for days to come; behind
//! it, the cap of today goes on where it was, and that of a later day has what was spent on it already.

use super::event::MergedDays;
use crate::units::BudgetMicros;

/// Days that are remembered: clocks that are wrong for a while are off by one day, or far away.
const DAYS_MAX: usize = 4;

/// What was spent on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Day {
    /// Days since 1970 in the campaign's zone.
    pub number: i32,
    pub spent: BudgetMicros,
    pub exposed: BudgetMicros,
}

/// The days for which money was leased; of more than can be remembered, the last ones of the calendar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Days {
    /// In their order.
    known: Vec<Day>,
    /// For which money was leased last.
    last: i32,
}

impl MergedDays {
    /// From the first to the last of these as `day`; `None` if nothing is known of any other than `day` itself.
    pub(super) fn of(days: &Days, (first, last): (i32, i32), day: i32) -> Option<MergedDays> {
        let merged = MergedDays { first, last, day };
        days.known.iter().any(|day| merged.has(day.number)).then_some(merged)
    }

    /// Whether this day counts as another one.
    pub fn has(&self, number: i32) -> bool {
        (self.first..=self.last).contains(&number) && number != self.day
    }
}

impl Days {
    /// As a snapshot has them; `None` if they are none.
    pub fn of(known: Vec<Day>, last: i32) -> Option<Days> {
        let days = Days { known, last };
        days.is_sound().then_some(days)
    }

    /// As snapshots of before have them: the last one.
    pub fn of_last(day: Day) -> Days {
        let known = if day == Day::default() { Vec::new() } else { vec![day] };
        Days { known, last: day.number }
    }

    /// A lease of an earlier day is open, of which a snapshot of before says nothing else.
    pub fn remember(&mut self, exposed: BudgetMicros, number: i32) {
        if number < self.last && self.counting(number) == number {
            let at = self.find(number).unwrap_or_else(|| self.begin(number));
            // What does not add up is refused with the snapshot.
            self.known[at].exposed.0 = self.known[at].exposed.0.saturating_add(exposed.0);
        }
    }

    pub fn known(&self) -> &[Day] {
        &self.known
    }

    /// That for which money was leased last.
    pub fn last(&self) -> Day {
        self.at(self.last)
    }

    /// What counts for a day. For one that is forgotten, what counts for the first that is known.
    pub fn at(&self, number: i32) -> Day {
        let number = self.counting(number);
        self.find(number).map_or(Day { number, ..Day::default() }, |at| self.known[at])
    }

    /// Money is leased for a day. Returns for which day it counts.
    pub fn lease(&mut self, amount: BudgetMicros, number: i32) -> i32 {
        let number = self.counting(number);
        self.last = number;
        let at = self.find(number).unwrap_or_else(|| self.begin(number));
        self.known[at].exposed += amount;
        number
    }

    /// A win of money that was leased for this day costs so much.
    pub fn spend(&mut self, price: BudgetMicros, number: i32) {
        if let Some(at) = self.find(number) {
            self.known[at].spent += price;
        }
    }

    /// What was paid for a day of which it is not known that money was leased for it.
    pub fn regain(&mut self, paid: BudgetMicros, number: i32) {
        let number = self.counting(number);
        let at = self.find(number).unwrap_or_else(|| self.begin(number));
        self.known[at].spent += paid;
        if self.find(self.last).is_none() {
            self.last = number;
        }
    }

    /// Whether this day is forgotten: what was leased for it counts for the first that is known.
    pub fn is_forgotten(&self, number: i32) -> bool {
        self.known.len() == DAYS_MAX && number < self.known[0].number
    }

    /// Of a lease of a forgotten day: for which day it counts from now on, with what of it is exposed.
    pub fn adopt(&mut self, exposed: BudgetMicros) -> i32 {
        self.known[0].exposed += exposed;
        self.known[0].number
    }

    /// What counts for some days counts for another one from now on. No lease is of a forgotten day.
    pub fn merge(&mut self, merged: MergedDays) {
        let (mut spent, mut exposed) = (BudgetMicros::ZERO, BudgetMicros::ZERO);
        for day in self.known.extract_if(.., |day| merged.has(day.number)) {
            (spent, exposed) = (spent + day.spent, exposed + day.exposed);
        }
        let at = self.find(merged.day).unwrap_or_else(|| self.begin(merged.day));
        (self.known[at].spent, self.known[at].exposed) =
            (self.known[at].spent + spent, self.known[at].exposed + exposed);
        if self.find(self.last).is_none() {
            self.last = merged.day;
        }
    }

    /// So much of what was leased for this day is not exposed any more.
    pub fn free(&mut self, amount: BudgetMicros, number: i32) {
        if let Some(at) = self.find(number) {
            self.known[at].exposed -= amount;
        }
    }

    /// Days behind this one for which something counts.
    pub fn begun_behind(&self, number: i32) -> impl Iterator<Item = i32> + '_ {
        self.known.iter().map(|day| day.number).filter(move |day| *day > number)
    }

    /// Whether money can have been leased for this day.
    pub fn may_have(&self, number: i32) -> bool {
        self.is_forgotten(number) || self.find(number).is_some()
    }

    /// Whether they can be.
    pub fn is_sound(&self) -> bool {
        let is_ascending = self.known.windows(2).all(|pair| pair[0].number < pair[1].number);
        is_ascending && self.known.len() <= DAYS_MAX && (self.known.is_empty() || self.find(self.last).is_some())
    }

    /// Remembers another day. Returns where.
    fn begin(&mut self, number: i32) -> usize {
        if self.known.len() == DAYS_MAX {
            self.known.remove(0);
        }
        let at = self.known.partition_point(|day| day.number < number);
        self.known.insert(at, Day { number, ..Day::default() });
        at
    }

    /// For which day money counts that is leased for this one.
    fn counting(&self, number: i32) -> i32 {
        match self.known.first() {
            Some(first) if self.known.len() == DAYS_MAX => number.max(first.number),
            _ => number,
        }
    }

    fn find(&self, number: i32) -> Option<usize> {
        self.known.binary_search_by_key(&number, |day| day.number).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leased(days: &mut Days, number: i32, amount: u64) -> i32 {
        days.lease(BudgetMicros(amount), number)
    }

    #[test]
    fn a_clock_that_was_ahead_takes_nothing_from_today() {
        let mut days = Days::default();
        assert_eq!((leased(&mut days, 10, 5), days.last().number), (10, 10));
        days.spend(BudgetMicros(3), 10);
        days.free(BudgetMicros(3), 10);
        assert_eq!(leased(&mut days, 3_660, 100), 3_660);
        let today = Day { number: 10, spent: BudgetMicros(3), exposed: BudgetMicros(2) };
        assert_eq!((days.at(10), days.last().number), (today, 3_660));
        for day in 10..30 {
            assert_eq!((leased(&mut days, day, 1), days.last().number), (day, day));
        }
        assert_eq!(days.at(3_660).exposed.0, 100, "it counts when it comes");
        assert_eq!(days.known().iter().map(|day| day.number).collect::<Vec<_>>(), [27, 28, 29, 3_660]);
        // Of a day that is forgotten nobody knows what was spent: it counts for one that is known.
        assert!(days.may_have(10) && !days.may_have(30));
        assert_eq!((leased(&mut days, 12, 7), days.last().exposed.0), (27, 8));
        days.free(BudgetMicros(1), 12);
        assert_eq!(days.at(12), Day { number: 27, exposed: BudgetMicros(8), ..Day::default() });
        assert!(days.is_sound());
    }

    #[test]
    fn what_was_paid_counts_for_its_day_also_where_nothing_was_leased_for_it() {
        let mut days = Days::default();
        days.regain(BudgetMicros(7), 12);
        assert_eq!((days.at(12).spent.0, days.last().number, days.is_sound()), (7, 12, true));
        for day in 20..24 {
            days.regain(BudgetMicros(1), day);
        }
        assert_eq!((days.last().number, days.is_sound()), (23, true), "the day of before is forgotten");
        days.regain(BudgetMicros(3), 12);
        assert_eq!(days.at(20).spent.0, 4, "what counts for a forgotten day counts for the first that is known");
    }

    #[test]
    fn a_lease_of_an_earlier_day_is_remembered_behind_a_snapshot_of_before() {
        let day = |number, exposed| Day { number, spent: BudgetMicros::ZERO, exposed: BudgetMicros(exposed) };
        let mut days = Days::of_last(day(8, 30));
        for (exposed, number) in [(5, 7), (30, 8), (6, 7)] {
            days.remember(BudgetMicros(exposed), number);
        }
        assert_eq!((days.known(), days.last().number), (&[day(7, 11), day(8, 30)][..], 8));
        assert!(days.is_sound() && days.may_have(7));
    }

    #[test]
    fn days_of_another_zone_count_as_one() {
        let mut days = Days::default();
        for day in 10..14 {
            leased(&mut days, day, 100);
            days.spend(BudgetMicros(day as u64), day);
            days.free(BudgetMicros(day as u64), day);
        }
        assert_eq!(MergedDays::of(&days, (14, 15), 14), None);
        assert_eq!(MergedDays::of(&days, (13, 14), 13), None, "it counts already");
        let merged = MergedDays::of(&days, (12, 13), 13).expect("12 is known");
        days.merge(merged);
        let today = Day { number: 13, spent: BudgetMicros(25), exposed: BudgetMicros(175) };
        assert_eq!((days.at(13), days.known().len(), days.last().number), (today, 3, 13));
        days.merge(MergedDays::of(&days, (11, 13), 14).expect("two are known"));
        assert_eq!((days.at(14).spent.0, days.at(10).spent.0, days.last().number), (36, 10, 14));
        assert!(days.is_sound());
    }

    #[test]
    fn what_cannot_be_is_not_read() {
        let day = |number| Day { number, ..Day::default() };
        assert!(Days::of(vec![], 7).is_some() && Days::of(vec![day(1), day(2)], 1).is_some());
        for (known, last) in [(vec![day(1)], 2), (vec![day(2), day(1)], 1), ((0..5).map(day).collect(), 1)] {
            assert_eq!(Days::of(known, last), None);
        }
    }
}
