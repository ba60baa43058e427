//! Bids on everything, at a price that the budget can bear: price / (1 + mu), with the shadow price mu of the budget.
//!
//! Where throttling buys a random part of what the full price wins, shading buys the cheap part: in auctions of the
//! second price it gets the most impressions for the money.
//!
//! Source: Balseiro, Gur: Learning in repeated auctions with budgets: regret minimization and equilibrium, Management
//! Science 65(9), 2019 ("adaptive pacing"). What is different here is told in [`super::dual`].

use super::dual::{Dual, INTERVAL_S, SHADOW_MAX_PERMILLE, START_SHADOW_PERMILLE, STEP_PERMILLE};
use super::{Follows, Input, Property, StrategyRow, Throttle, UnderWay};

/// The strategy.
pub(super) const ROW: StrategyRow = StrategyRow {
    name: "adaptive_dual",
    meaning: "Bids on everything at price / (1 + mu); the shadow price mu follows spending against what is left.",
    use_when: "For the most impressions for the money in second-price auctions, where each is worth the same.",
    source: "Adaptive pacing: Balseiro, Gur, Management Science 65(9), 2019.",
    follows: Follows::Day,
    properties: &[Property::FallsWithSpent, Property::RisesWithBudget, Property::ScaleFree],
    parameters: &[STEP_PERMILLE, INTERVAL_S, START_SHADOW_PERMILLE, SHADOW_MAX_PERMILLE],
    decide,
};

fn decide(input: &Input<'_>) -> Throttle {
    let Some(campaign) = UnderWay::of(input) else { return Throttle::nothing(input.memory) };
    let dual = Dual::of(input, &campaign);
    Throttle::new(1.0, 1.0 / dual.multiplier, dual.memory(0.0))
}
