//! What each strategy promises, for any input; what it answers in cases that can be read.

mod cases;
mod page;
mod promises;

use std::collections::BTreeMap;

use tidegate_machines::TimeMs;

use super::*;

/// Midnight before 28 November 2026, UTC.
const MIDNIGHT: u64 = 1_795_824_000_000;
const DAY: u64 = 86_400_000;

/// An input that owns what it refers to.
#[derive(Clone, Debug)]
struct Case {
    horizon: Horizon,
    budget: u64,
    spent: u64,
    reserved: u64,
    now: u64,
    price_max: u32,
    requests_per_s: f64,
    win_rate: f64,
    win_price: f64,
    day: Day,
    since_ms: u64,
    parameters: BTreeMap<Box<str>, i64>,
    memory: Memory,
}

impl Case {
    /// A quarter of the day is over, and a quarter of the budget was spent: each ms a micro. All requests together
    /// cost twice as much.
    fn on_plan() -> Case {
        Case {
            horizon: Horizon { begins: TimeMs(MIDNIGHT), ends: TimeMs(MIDNIGHT + DAY) },
            budget: 86_400_000,
            spent: 21_600_000,
            reserved: 0,
            now: MIDNIGHT + DAY / 4,
            price_max: 2_000,
            requests_per_s: 4.0,
            win_rate: 0.5,
            win_price: 1_000.0,
            day: Day::flat(),
            since_ms: 1_000,
            parameters: BTreeMap::new(),
            memory: Memory::default(),
        }
    }

    fn input(&self) -> Input<'_> {
        Input {
            horizon: self.horizon,
            budget: BudgetMicros(self.budget),
            spent: BudgetMicros(self.spent),
            reserved: BudgetMicros(self.reserved),
            now: TimeMs(self.now),
            price_max: PriceMicros(self.price_max),
            traffic: Traffic {
                requests_per_s: self.requests_per_s,
                win_rate: self.win_rate,
                win_price: self.win_price,
                day: &self.day,
                since_ms: self.since_ms,
            },
            parameters: &self.parameters,
            memory: self.memory,
        }
    }

    /// What a strategy answers.
    fn ask(&self, strategy: &StrategyRow) -> Throttle {
        (strategy.decide)(&self.input())
    }
}
