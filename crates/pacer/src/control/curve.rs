//! The curve of a campaign's day: what was spent and planned when, for whoever looks at it.
//!
//! ```text
//!   begins ┬────┬────┬── … ──┬ ends       144 slots: ten minutes each of a whole day, fewer of a short flight
//!          0    1    2      144           a point at the begin of each slot, and at the end
//! ```
//!
//! A point is taken by the first look at the campaign in its slot, which comes at most 250 ms after the slot began
//! while requests come. Of slots in which nobody asked there is none. What is still to come is not stored but follows
//! from [`Planned`], so that a change of ten thousand plans costs nothing here.
//!
//! It lives from the first request of the day to the first of the next one, and takes 2.6 KB.

use std::sync::Arc;

use tidegate_machines::TimeMs;

use crate::strategy::{Day, Follows, Horizon};
use crate::units::BudgetMicros;

/// Slots of a day.
pub const SLOTS: usize = 144;

/// What was at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// What wins had cost of what is spread over the horizon.
    pub spent: BudgetMicros,
    /// What was to be spent by then; `None` for a strategy without a plan.
    pub planned: Option<BudgetMicros>,
    /// The share of requests that was bid on.
    pub share: f32,
}

/// The points of a day that have been.
#[derive(Clone, Debug, PartialEq)]
pub struct DayCurve {
    /// The part of the zone's day in which the flight is under way.
    pub span: Horizon,
    points: Box<[Option<Point>; SLOTS + 1]>,
}

/// By which a campaign means to spend from now on.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Over this time.
    pub horizon: Horizon,
    /// So much.
    pub budget: BudgetMicros,
    follows: Follows,
    day: Arc<Day>,
}

impl Planned {
    pub(super) fn new(follows: Follows, horizon: Horizon, budget: BudgetMicros, day: Arc<Day>) -> Planned {
        Planned { horizon, budget, follows, day }
    }

    /// What is to be spent by a time; `None` if there is no plan.
    pub fn at(&self, time: TimeMs) -> Option<BudgetMicros> {
        self.follows.planned(self.horizon, self.budget, &self.day, time)
    }
}

impl DayCurve {
    /// Of a span that has not ended, with no points yet.
    pub fn new(span: Horizon) -> DayCurve {
        assert!(span.begins < span.ends, "a day has a length");
        DayCurve { span, points: Box::new([None; SLOTS + 1]) }
    }

    /// When a slot begins.
    pub fn time_of(&self, slot: usize) -> TimeMs {
        let length = u128::from(self.span.ends.0 - self.span.begins.0);
        TimeMs(self.span.begins.0 + (length * slot as u128 / SLOTS as u128) as u64)
    }

    /// The points in their order, those that there are not as `None`.
    pub fn points(&self) -> &[Option<Point>; SLOTS + 1] {
        &self.points
    }

    /// Whether there is no point yet of the slot that a time of the span is in.
    pub(super) fn lacks(&self, now: TimeMs) -> bool {
        self.points[self.slot_of(now)].is_none()
    }

    /// Takes the point of the slot that is now.
    pub(super) fn take(&mut self, now: TimeMs, point: Point) {
        let slot = self.slot_of(now);
        self.points[slot].get_or_insert(point);
    }

    /// Puts the point of a slot.
    pub fn put(&mut self, slot: usize, point: Point) {
        self.points[slot] = Some(point);
    }

    fn slot_of(&self, now: TimeMs) -> usize {
        let (past, length) = (now.0.saturating_sub(self.span.begins.0), self.span.ends.0 - self.span.begins.0);
        // A slot begins in the millisecond that `time_of` says.
        let slot = ((u128::from(past) + 1) * SLOTS as u128).saturating_sub(1) / u128::from(length);
        (slot as usize).min(SLOTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(spent: u64) -> Point {
        Point { spent: BudgetMicros(spent), planned: None, share: 1.0 }
    }

    #[test]
    fn a_slot_has_the_first_point_that_was_taken_in_it() {
        for length in [1, 7, 143, 144, 145, 5_000, 86_400_000, 90_000_001] {
            let span = Horizon { begins: TimeMs(1_000), ends: TimeMs(1_000 + length) };
            let curve = DayCurve::new(span);
            assert_eq!((curve.time_of(0), curve.time_of(SLOTS)), (span.begins, span.ends));
            for slot in 0..=SLOTS {
                let at = curve.time_of(slot);
                // Of a span that is shorter than its slots are many, several begin at once.
                let begun = (0..=SLOTS).filter(|slot| curve.time_of(*slot) <= at).max();
                assert_eq!(Some(curve.slot_of(at)), begun, "slot {slot} of {length} ms");
            }
        }
        let mut curve = DayCurve::new(Horizon { begins: TimeMs(0), ends: TimeMs(86_400_000) });
        assert!(curve.lacks(TimeMs(600_000)));
        curve.take(TimeMs(600_000), point(1));
        curve.take(TimeMs(1_199_999), point(2));
        curve.take(TimeMs(1_200_000), point(3));
        curve.take(TimeMs(90_000_000), point(4));
        let spent: Vec<_> = curve.points().iter().map(|point| point.map(|point| point.spent.0)).collect();
        assert_eq!((&spent[..4], spent[SLOTS]), (&[None, Some(1), Some(3), None][..], Some(4)));
    }
}
