//! The time at which a shard decides: that of its owner, or ahead of it by as much as the state was at the start. An
//! owner of several shards that share what lasts for a time has one such clock for all of them.
//!
//! ```text
//!   owner's time   ──────────────┬──────────────────▶
//!   newest event   ──────────────┼── lead ──┐
//!   shard's time                 └──────────┴───────▶  goes on at once; makes up for 1 ms of the lead in 20
//! ```
//!
//! Promise: a shard's time never stands still. Why: the time of events does not go back, so with a state that is ahead
//! of a corrected clock, every event would get the time of the newest one, and nothing that is placed now would ever be
//! over.

use tidegate_machines::TimeMs;
use tidegate_planted::{Bug, is_planted};

/// One millisecond of the lead is made up for in so many.
const FOLLOW_ONE_IN: u64 = 20;

/// The clock of one shard. Knows no clock: the owner's time is an argument.
#[derive(Clone, Copy, Debug)]
pub struct StateClock {
    /// Time of the newest event at the start.
    newest: TimeMs,
    /// By how much that was ahead of the owner's first time, in milliseconds, and that time.
    lead: Option<(u64, TimeMs)>,
    ahead_ms: u64,
}

impl StateClock {
    /// The clock of a state whose newest event has this time.
    pub fn new(newest: TimeMs) -> StateClock {
        StateClock { newest, lead: None, ahead_ms: 0 }
    }

    /// The clock of a state whose newest event has this time, when it is `now` for its owner: two that are made of the
    /// same times always agree.
    pub fn starting(newest: TimeMs, now: TimeMs) -> StateClock {
        let mut clock = StateClock::new(newest);
        clock.time(now);
        clock
    }

    /// The shard's time when it is `now` for its owner.
    pub fn time(&mut self, now: TimeMs) -> TimeMs {
        let newest = if is_planted(Bug::TimeStandsStill) { TimeMs(0) } else { self.newest };
        let (lead_ms, since) = *self.lead.get_or_insert_with(|| (newest.0.saturating_sub(now.0), now));
        self.ahead_ms = lead_ms.saturating_sub(now.0.saturating_sub(since.0) / FOLLOW_ONE_IN);
        TimeMs(now.0.saturating_add(self.ahead_ms))
    }

    /// By how much the shard's time was ahead when it was last asked, in milliseconds.
    pub fn ahead_ms(&self) -> u64 {
        self.ahead_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEARS_10_MS: u64 = 10 * 365 * 86_400_000;

    #[test]
    fn a_state_that_is_not_ahead_follows_its_owner() {
        let mut clock = StateClock::new(TimeMs(5_000));
        assert_eq!(clock.time(TimeMs(5_000)), TimeMs(5_000));
        assert_eq!(clock.time(TimeMs(4_000)), TimeMs(4_000), "the machine keeps its own time from going back");
        assert_eq!(clock.time(TimeMs(9_000)), TimeMs(9_000));
        assert_eq!(clock.ahead_ms(), 0);
    }

    #[test]
    fn time_goes_on_for_a_state_of_the_future() {
        let mut clock = StateClock::new(TimeMs(YEARS_10_MS));
        assert_eq!(clock.time(TimeMs(1_000)), TimeMs(YEARS_10_MS));
        assert_eq!(clock.time(TimeMs(3_000)), TimeMs(YEARS_10_MS + 1_900));
    }

    #[test]
    fn clocks_of_one_start_agree() {
        let (mut one, mut other) =
            (StateClock::starting(TimeMs(61_000), TimeMs(1_000)), StateClock::starting(TimeMs(61_000), TimeMs(1_000)));
        assert_eq!(one.time(TimeMs(2_000)), TimeMs(61_950));
        assert_eq!(other.time(TimeMs(3_000)), one.time(TimeMs(3_000)), "whoever asked first");
    }

    #[test]
    fn a_short_lead_is_made_up_for() {
        let mut clock = StateClock::new(TimeMs(61_000));
        assert_eq!(clock.time(TimeMs(1_000)), TimeMs(61_000));
        assert_eq!(clock.ahead_ms(), 60_000);
        assert_eq!(clock.time(TimeMs(601_000)), TimeMs(631_000));
        assert_eq!(clock.ahead_ms(), 30_000);
        assert_eq!(clock.time(TimeMs(1_201_000)), TimeMs(1_201_000));
        assert_eq!(clock.time(TimeMs(9_000_000)), TimeMs(9_000_000));
    }
}
