//! The shadow price of a budget: what one more micro of it would be worth. A bid is the price divided by one and it.
//!
//! It goes up when more is spent than the target, and down when less. The target is what is left, spread over the
//! traffic that is still to come. Balseiro and Gur take a step that is the same at each price; here it is in proportion
//! to one and the shadow price, and to the target, so that budgets and prices of any size need the same steps.
//!
//! It is kept as the multiplier `1 + mu`, which is never below 1: a memory of zeros was never written.

use tidegate_machines::TimeMs;

use super::parameter::Parameter;
use super::{Input, Memory, UnderWay, within};

pub(super) const STEP_PERMILLE: Parameter = Parameter {
    name: "step_permille",
    default: 50,
    min: 1,
    max: 1_000,
    unit: "1/1000 of the price, per minute",
    meaning: "How fast the price moves where spending is at twice the target.",
};

pub(super) const INTERVAL_S: Parameter = Parameter {
    name: "interval_s",
    default: 10,
    min: 1,
    max: 3_600,
    unit: "s",
    meaning: "How often the price is moved.",
};

pub(super) const START_SHADOW_PERMILLE: Parameter = Parameter {
    name: "start_shadow_permille",
    default: 1_000,
    min: 0,
    max: 1_000_000,
    unit: "1/1000",
    meaning: "The shadow price mu to begin with: a bid is price / (1 + mu).",
};

pub(super) const SHADOW_MAX_PERMILLE: Parameter = Parameter {
    name: "shadow_max_permille",
    default: 99_000,
    min: 0,
    max: 1_000_000,
    unit: "1/1000",
    meaning: "The highest shadow price, which bounds how low a bid can be.",
};

/// What is kept: three of the numbers of a memory.
pub(super) struct Dual {
    /// One and the shadow price.
    pub multiplier: f64,
    /// What was spent when it was moved before, in micros.
    spent: f64,
    /// Time since then.
    passed_ms: f64,
    /// For how much time it was moved now; zero if it was not.
    pub moved_by_minutes: f64,
}

impl Dual {
    /// What it is now.
    pub fn of(input: &Input<'_>, campaign: &UnderWay<'_>) -> Dual {
        let told = input.parameters;
        let multiplier_max = 1.0 + SHADOW_MAX_PERMILLE.thousandths_of(told);
        let kept = input.memory.number(0, 0.0, multiplier_max);
        if kept < 1.0 {
            let multiplier = (1.0 + START_SHADOW_PERMILLE.thousandths_of(told)).min(multiplier_max);
            return Dual { multiplier, spent: campaign.spent, passed_ms: 0.0, moved_by_minutes: 0.0 };
        }
        let spent = input.memory.number(1, 0.0, f64::MAX);
        let passed_ms = input.memory.number(2, 0.0, f64::MAX) + campaign.since_ms();
        if passed_ms < INTERVAL_S.ms_of(told) {
            return Dual { multiplier: kept, spent, passed_ms, moved_by_minutes: 0.0 };
        }
        let minutes = passed_ms.min(INTERVAL_MS_MAX) / 60_000.0;
        let excess = excess(input, campaign, spent, passed_ms);
        let step = STEP_PERMILLE.thousandths_of(told) * minutes;
        let multiplier = within(kept + kept * (step * excess), 1.0, multiplier_max);
        Dual { multiplier, spent: campaign.spent, passed_ms: 0.0, moved_by_minutes: minutes }
    }

    /// What is to be kept, and a fourth number.
    pub fn memory(&self, fourth: f64) -> Memory {
        Memory([self.multiplier, self.spent, self.passed_ms, fourth])
    }
}

/// A step is as for so much time at most: an hour.
const INTERVAL_MS_MAX: f64 = 3_600_000.0;

/// How much more was spent than the target, as a multiple of it: -1 for nothing.
fn excess(input: &Input<'_>, campaign: &UnderWay<'_>, spent_before: f64, passed_ms: f64) -> f64 {
    let since = TimeMs(input.now.0.saturating_sub(passed_ms as u64)).max(input.horizon.begins);
    let days_passed = campaign.day().between(since, input.now);
    // Where less was spent than before, a new horizon has begun: what was spent in it counts from the next time on.
    let spent = (campaign.spent - spent_before).max(0.0);
    let target = campaign.left() / campaign.days_left() * days_passed;
    if days_passed <= 0.0 {
        0.0
    } else if target > 0.0 {
        (spent / target - 1.0).min(EXCESS_MAX)
    } else {
        EXCESS_MAX
    }
}

/// More than this is an accident, or a time of almost no traffic, and moves the price no further.
const EXCESS_MAX: f64 = 1_000.0;
