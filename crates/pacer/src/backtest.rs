//! All strategies on one synthetic market: what each would have spent, when, and at which price.
//!
//! ```text
//!   Market (seed) ──▶ requests of a day: time, id, highest other bid, when its end is known
//!                          │
//!   Campaign ─────────────▶│ share from the id ─▶ reserve price ─▶ win: pay the second price, the rest returns
//!   (strategy, budget)     │      ▲                                loss, silence: the reservation returns
//!                          ▼      └── Throttle, each second
//!                         Row: overspend, utilisation, error against the plan, price, curve
//! ```
//!
//! The rules are those of the pacer: a bid reserves the most that it can cost until its end is known or its deadline
//! is over, and there is no bid that would take what is spent and reserved above the budget. A win that is told after
//! the deadline is refused. Each campaign has the market for itself, so that strategies are compared, and do not bid
//! against each other.
//!
//! Promise: everything follows from the seed. The same market and campaigns give the same rows on any machine.

mod chance;
mod drawing;
mod market;
mod measured;
mod reservations;
mod simulation;
mod table;

use std::collections::BTreeMap;

use crate::plan::StrategyChoice;
use crate::strategy::{STRATEGIES, StrategyError, check};
use crate::units::{BudgetMicros, Impressions, PriceMicros};

pub use drawing::svg;
pub use market::Market;
pub use table::Table;

pub(crate) use market::{Auction, Auctions, DAY_S};

/// What is paced on the market.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// By what.
    pub strategy: StrategyChoice,
    /// What it may spend on the day.
    pub budget: BudgetMicros,
    /// The most that it bids for one impression.
    pub price_max: PriceMicros,
}

/// What became of a campaign.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The name of its strategy.
    pub strategy: &'static str,
    /// What the strategy was told.
    pub parameters: BTreeMap<Box<str>, i64>,
    /// What it might have spent.
    pub budget: BudgetMicros,
    /// What it spent.
    pub spent: BudgetMicros,
    /// What it spent, or had promised at any time, above the budget. It is zero, or there is a bug.
    pub overspend: BudgetMicros,
    /// The most that was reserved at any time.
    pub reserved_max: BudgetMicros,
    /// The root of the mean square of what was spent too much or too little each minute, against the curve of the
    /// learned day, as a part of the budget.
    pub day_error: f64,
    /// The same against the strategy's own plan, if it has one.
    pub plan_error: Option<f64>,
    /// What was bid on.
    pub bids: u64,
    /// What was won, and paid.
    pub impressions: Impressions,
    /// Bids that there was no money for: what was spent and reserved would have been above the budget.
    pub without_money: u64,
    /// Wins that were told too late, and refused.
    pub late_wins: u64,
    /// What was spent until each minute of the day, and at its end.
    pub curve: Vec<BudgetMicros>,
    /// What was planned until then: by the strategy, or by the learned day if it has no plan.
    pub plan: Vec<BudgetMicros>,
}

impl Row {
    /// What was spent, as a part of the budget.
    pub fn utilisation(&self) -> f64 {
        if self.budget.0 == 0 { 1.0 } else { self.spent.0 as f64 / self.budget.0 as f64 }
    }

    /// What an impression cost, in micros; zero if there was none.
    pub fn average_price(&self) -> f64 {
        if self.impressions.0 == 0 { 0.0 } else { self.spent.0 as f64 / self.impressions.0 as f64 }
    }
}

/// One campaign for each strategy, told nothing.
pub fn one_of_each(budget: BudgetMicros, price_max: PriceMicros) -> Vec<Campaign> {
    let campaign = |name: &str| Campaign {
        strategy: StrategyChoice { name: name.into(), parameters: BTreeMap::new() },
        budget,
        price_max,
    };
    STRATEGIES.iter().map(|row| campaign(row.name)).collect()
}

/// Each campaign on the same market.
///
/// # Errors
///
/// If there is no such strategy or parameter.
pub fn run(market: &Market, campaigns: &[Campaign]) -> Result<Vec<Row>, StrategyError> {
    let auctions = Auctions::of(market);
    campaigns
        .iter()
        .map(|campaign| Ok(simulation::simulate(market, &auctions, campaign, check(&campaign.strategy)?)))
        .collect()
}

#[cfg(test)]
mod tests;
