//! By what campaigns are paced: pure functions of plan, spending, time and traffic. The same input gives the same
//! answer on any machine, and no strategy sees another's state, or in which order changes came.
//!
//! ```text
//!   StrategyChoice ── check ──▶ a row of STRATEGIES ── decide(&Input) ──▶ Throttle { share, shade, memory }
//!                                                          ▲                                      │
//!                                                          └───────────── the next time ──────────┘
//! ```
//!
//! A strategy is one file in `strategy/`, and one line in [`STRATEGIES`]. It is asked again and again; what it wants to
//! know the next time it puts into its [`Memory`].
//!
//! Invariant: strategies use only sums, differences, products, quotients and comparisons of `f64`, which IEEE 754
//! rounds in one way. Functions like `exp` differ between machines, and two workers would disagree.
//!
//! Invariant: a strategy is no guard of the budget. It says how often to bid; the lease says whether there is money.

mod adaptive_dual;
mod as_fast_as_possible;
mod check;
mod day;
mod dual;
mod even;
mod feedback;
mod minimum_pacing;
mod parameter;
mod pid;
mod slot_rate;
mod traffic_shaped;
mod under_way;

use std::collections::BTreeMap;

use tidegate_machines::TimeMs;

use crate::units::{BudgetMicros, PriceMicros};

pub use check::{StrategyError, check, find};
pub use day::{Day, QUARTERS};
pub use parameter::Parameter;
use under_way::UnderWay;

/// All strategies, in the order in which the documentation explains them.
pub const STRATEGIES: &[StrategyRow] = &[
    as_fast_as_possible::ROW,
    even::ROW,
    traffic_shaped::ROW,
    feedback::ROW,
    slot_rate::ROW,
    pid::ROW,
    adaptive_dual::ROW,
    minimum_pacing::ROW,
];

/// What there is to know about a strategy.
#[derive(Clone, Copy, Debug)]
pub struct StrategyRow {
    /// As plans name it.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub meaning: &'static str,
    /// For which campaigns it is meant, in a sentence.
    pub use_when: &'static str,
    /// Where it comes from: the paper or product. The head of its file says more.
    pub source: &'static str,
    /// By which curve it means to spend.
    pub follows: Follows,
    /// What can be said of its answers, besides that they are always within their ranges.
    pub properties: &'static [Property],
    /// What it can be told.
    pub parameters: &'static [Parameter],
    /// What it answers: never a share or a shade outside of 0 to 1, whatever the input is; a share of 0 where the
    /// horizon is over or not begun, or where all money is spent or reserved.
    pub decide: fn(&Input<'_>) -> Throttle,
}

/// The curve by which a strategy means to spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// None.
    Nothing,
    /// Each second has the same part of the budget.
    Time,
    /// Each second has the part of the budget that it has of the traffic.
    Day,
}

/// What holds for a strategy, and is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// If more is spent or reserved, all else the same, it does not answer a higher share or shade.
    FallsWithSpent,
    /// If the budget is higher, all else the same, it does not answer a lower share or shade.
    RisesWithBudget,
    /// If all money and all prices are multiplied by the same number, it answers the same.
    ScaleFree,
    /// Its answer does not depend on its memory.
    Stateless,
    /// It never lowers the price.
    KeepsPrice,
}

/// What a strategy decides by.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The time over which the money is spread: the flight, or the rest of the day where a daily cap binds.
    pub horizon: Horizon,
    /// What may be spent in it.
    pub budget: BudgetMicros,
    /// What was spent in it.
    pub spent: BudgetMicros,
    /// What bids that are not answered yet may still cost.
    pub reserved: BudgetMicros,
    /// Now.
    pub now: TimeMs,
    /// The most that is bid.
    pub price_max: PriceMicros,
    /// How requests come.
    pub traffic: Traffic<'a>,
    /// What the strategy is told.
    pub parameters: &'a BTreeMap<Box<str>, i64>,
    /// What it gave back when it was asked before; all zeros at first, and when the strategy of a plan changes.
    pub memory: Memory,
}

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// From then on.
    pub begins: TimeMs,
    /// Until before then.
    pub ends: TimeMs,
}

/// How requests for a campaign come, as it was measured.
#[derive(Clone, Copy, Debug)]
pub struct Traffic<'a> {
    /// Requests that could be bid on, whether they were or not, in a second; zero if it is not known.
    pub requests_per_s: f64,
    /// Of the bids whose end is known, the share that won, from 0 to 1; zero if none did, or if it is not known.
    pub win_rate: f64,
    /// What a win cost, in micros; zero if it is not known.
    pub win_price: f64,
    /// How the requests of a day are spread over it, learned.
    pub day: &'a Day,
    /// Time since the strategy was asked before, in ms; zero if it never was.
    pub since_ms: u64,
}

/// What a strategy keeps from one answer to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory(pub [f64; 4]);

/// What a strategy answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// The share of requests that is bid on, from 0 to 1.
    pub share: f64,
    /// What of its price is bid, from 0 to 1.
    pub shade: f64,
    /// To be given back the next time.
    pub memory: Memory,
}

impl StrategyRow {
    /// What it means to have spent at a time; `None` if it has no such plan.
    pub fn planned(&self, horizon: Horizon, budget: BudgetMicros, day: &Day, now: TimeMs) -> Option<BudgetMicros> {
        self.follows.planned(horizon, budget, day, now)
    }
}

impl Follows {
    /// What the curve has of a budget before a time; `None` if there is no curve.
    pub fn planned(self, horizon: Horizon, budget: BudgetMicros, day: &Day, now: TimeMs) -> Option<BudgetMicros> {
        let share = self.share_until(horizon, day, now)?;
        Some(BudgetMicros((budget.0 as f64 * share) as u64))
    }

    /// Of the whole horizon, the share that is before `now`; `None` if there is no curve.
    fn share_until(self, horizon: Horizon, day: &Day, now: TimeMs) -> Option<f64> {
        let now = now.clamp(horizon.begins, horizon.ends.max(horizon.begins));
        let (past, whole) = match self {
            Follows::Nothing => return None,
            Follows::Time => (ms_between(horizon.begins, now), ms_between(horizon.begins, horizon.ends)),
            Follows::Day => (day.between(horizon.begins, now), day.between(horizon.begins, horizon.ends)),
        };
        Some(if whole > 0.0 { (past / whole).clamp(0.0, 1.0) } else { 1.0 })
    }
}

impl Throttle {
    /// An answer; what is outside of its range is brought into it.
    fn new(share: f64, shade: f64, memory: Memory) -> Throttle {
        Throttle { share: within(share, 0.0, 1.0), shade: within(shade, 0.0, 1.0), memory }
    }

    /// Nothing is bid on.
    const fn nothing(memory: Memory) -> Throttle {
        Throttle { share: 0.0, shade: 1.0, memory }
    }
}

/// A number within a range; its lower end, if it is none.
fn within(number: f64, low: f64, high: f64) -> f64 {
    if number > low { number.min(high) } else { low }
}

/// From one time to another; zero if they are in the other order.
fn ms_between(from: TimeMs, to: TimeMs) -> f64 {
    to.0.saturating_sub(from.0) as f64
}

#[cfg(test)]
mod tests;
