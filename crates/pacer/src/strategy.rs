//! By what campaigns are paced: pure functions of plan, spending, time and traffic. The same input gives the same
//! answer on any machine, and no strategy sees another's state, or in which order changes came.

use std::collections::BTreeMap;

use tidegate_machines::TimeMs;

use crate::units::{BudgetMicros, PriceMicros};

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
    /// What it gave back when it was asked before; all zeros at first.
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
    /// Requests that could be bid on, in a second.
    pub requests_per_s: f64,
    /// Of the bids that were made, the share that won, from 0 to 1.
    pub win_rate: f64,
    /// What a win cost, in micros.
    pub win_price: f64,
    /// The share of a day's requests that comes in each quarter of an hour, learned; 96 weights, in any unit.
    pub day: &'a [f64; 96],
    /// Time since the strategy was asked before, in ms.
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

/// What a strategy answers that is still to come.
pub fn decide(_choice: &crate::plan::StrategyChoice, _input: &Input<'_>) -> Throttle {
    Throttle { share: 1.0, shade: 1.0, memory: Memory::default() }
}
