//! A campaign that is under way: its horizon has begun and is not over, and there is money.
//!
//! Promise: every number in it is finite, and none is below zero, whatever was measured. So each strategy begins with
//! it, and what cannot be paced is answered in one place.

use tidegate_machines::TimeMs;

use super::parameter::START_PERMILLE;
use super::{Day, Follows, Input, Memory, ms_between, within};

/// The shortest time over which what is missing is made up for. Towards the end of the horizon, less is left.
const CATCH_UP_MS_MIN: f64 = 1_000.0;

/// So much time has passed at most since a strategy was asked before. One that was not asked for longer, because its
/// campaign was paused, knows no more than that.
const SINCE_MS_MAX: f64 = 60_000.0;

/// A campaign that is under way. Money is in micros, time in ms.
pub(super) struct UnderWay<'a> {
    input: &'a Input<'a>,
    /// What may be spent.
    pub budget: f64,
    /// What was spent, as far as it is known.
    pub spent: f64,
    /// What is to be expected to be spent once all bids are answered.
    pub expected: f64,
    /// Requests in a ms; zero if it is not known how many come.
    pub requests_per_ms: f64,
    /// What is to be expected that a bid costs.
    bid_cost: f64,
}

impl<'a> UnderWay<'a> {
    /// `None` where nothing may be bid: before the horizon, behind it, and without money.
    pub fn of(input: &'a Input<'a>) -> Option<UnderWay<'a>> {
        let is_open = input.horizon.begins <= input.now && input.now < input.horizon.ends;
        let has_money = input.spent.0.saturating_add(input.reserved.0) < input.budget.0;
        if !is_open || !has_money {
            return None;
        }
        let price_max = f64::from(input.price_max.0);
        // Without a win, whether none was measured or none was had, a bid may cost all.
        let win_price = within(input.traffic.win_price, 0.0, price_max);
        let measured = within(input.traffic.win_rate, 0.0, 1.0) * win_price;
        let bid_cost = if measured > 0.0 { measured } else { price_max };
        let reserved = input.reserved.0 as f64;
        let expected_of_reserved = if price_max > 0.0 { reserved * (bid_cost / price_max) } else { 0.0 };
        let spent = input.spent.0 as f64;
        let requests_per_ms = within(input.traffic.requests_per_s, 0.0, 1e12) / 1_000.0;
        let expected = spent + expected_of_reserved;
        Some(UnderWay { input, budget: input.budget.0 as f64, spent, expected, requests_per_ms, bid_cost })
    }

    /// What is to be expected to be left once all bids are answered.
    pub fn left(&self) -> f64 {
        (self.budget - self.expected).max(0.0)
    }

    /// What the curve has planned to be spent at a time.
    pub fn planned(&self, follows: Follows, at: TimeMs) -> f64 {
        let share = follows.share_until(self.input.horizon, self.input.traffic.day, at);
        self.budget * share.unwrap_or(1.0)
    }

    /// What a plan wants to be spent in each ms of the next `window_ms`, so that it is met then. It is below zero if
    /// more than that was spent.
    pub fn wanted_per_ms(&self, follows: Follows, window_ms: f64) -> f64 {
        let window_ms = window_ms.min(self.ms_left()).max(CATCH_UP_MS_MIN);
        let then = TimeMs(self.input.now.0.saturating_add(window_ms as u64));
        (self.planned(follows, then) - self.expected) / window_ms
    }

    /// The share of requests to bid on, so that so much is spent in a ms.
    pub fn share_for(&self, wanted_per_ms: f64) -> f64 {
        if wanted_per_ms <= 0.0 {
            return 0.0;
        }
        let all_per_ms = self.requests_per_ms * self.bid_cost;
        if all_per_ms > 0.0 {
            return within(wanted_per_ms / all_per_ms, 0.0, 1.0);
        }
        // Where no request came for a while, one that comes is worth a bid, except at the very beginning.
        if self.is_first() { START_PERMILLE.thousandths_of(self.input.parameters) } else { 1.0 }
    }

    /// Whether the strategy was never asked before.
    pub fn is_first(&self) -> bool {
        self.input.traffic.since_ms == 0
    }

    /// Time since the strategy was asked before.
    pub fn since_ms(&self) -> f64 {
        (self.input.traffic.since_ms as f64).min(SINCE_MS_MAX)
    }

    /// How many days' requests are still to come.
    pub fn days_left(&self) -> f64 {
        self.day().between(self.input.now, self.input.horizon.ends)
    }

    /// How the requests of a day are spread over it.
    pub fn day(&self) -> &'a Day {
        self.input.traffic.day
    }

    /// The time until the end.
    fn ms_left(&self) -> f64 {
        ms_between(self.input.now, self.input.horizon.ends)
    }
}

impl Memory {
    /// One of its numbers, within a range.
    pub(super) fn number(&self, at: usize, low: f64, high: f64) -> f64 {
        within(self.0[at], low, high)
    }
}
