//! Two paces, one for the budget and one for the average price, each by itself; bids the lower of the two prices.
//!
//! The budget's is that of [`super::adaptive_dual`]. The other one holds the average price of a win at a part of the
//! most that is bid, which is a return on spend: it bids that part at first, which can never cost more, and goes up
//! while wins are cheaper.
//!
//! Source: Balseiro, Bhawalkar, Feng, Lu, Mirrokni, Sivan, Wang: A field guide for pacing budget and ROS constraints,
//! ICML 2024 ("min pacing"): the minimum of two pacers that know nothing of each other is about as good as one that
//! knows all, while one behind the other can break both bounds.

use super::dual::{Dual, INTERVAL_S, SHADOW_MAX_PERMILLE, START_SHADOW_PERMILLE, STEP_PERMILLE};
use super::parameter::Parameter;
use super::{Follows, Input, Property, StrategyRow, Throttle, UnderWay, within};

/// The strategy.
pub(super) const ROW: StrategyRow = StrategyRow {
    name: "minimum_pacing",
    meaning: "Bids on everything, at the lower of two prices: one that the budget bears, one for the average price.",
    use_when: "Where there is a goal for the average price as well, and money may be left over to meet it.",
    source: "Min pacing: Balseiro, Bhawalkar, Feng, Lu, Mirrokni, Sivan, Wang, ICML 2024.",
    follows: Follows::Day,
    properties: &[Property::FallsWithSpent, Property::RisesWithBudget, Property::ScaleFree],
    parameters: &[AVERAGE_PRICE_PERMILLE, STEP_PERMILLE, INTERVAL_S, START_SHADOW_PERMILLE, SHADOW_MAX_PERMILLE],
    decide,
};

const AVERAGE_PRICE_PERMILLE: Parameter = Parameter {
    name: "average_price_permille",
    default: 500,
    min: 1,
    max: 1_000,
    unit: "1/1000 of the plan's price",
    meaning: "What a win should cost at most on average: 500 is a return of 2 for each spent.",
};

fn decide(input: &Input<'_>) -> Throttle {
    let Some(campaign) = UnderWay::of(input) else { return Throttle::nothing(input.memory) };
    let dual = Dual::of(input, &campaign);
    let for_price = price_shade(input, dual.moved_by_minutes);
    Throttle::new(1.0, (1.0 / dual.multiplier).min(for_price), dual.memory(for_price))
}

/// What of the price may be bid for the sake of the average. Below the goal itself it need never be.
fn price_shade(input: &Input<'_>, minutes: f64) -> f64 {
    let goal = AVERAGE_PRICE_PERMILLE.thousandths_of(input.parameters);
    let price_goal = f64::from(input.price_max.0) * goal;
    let kept = input.memory.number(3, goal, 1.0);
    let win_price = within(input.traffic.win_price, 0.0, f64::MAX);
    if minutes <= 0.0 || win_price <= 0.0 || price_goal <= 0.0 {
        return kept;
    }
    let step = STEP_PERMILLE.thousandths_of(input.parameters) * minutes;
    let spare = within(1.0 - win_price / price_goal, -1.0, 1.0);
    within(kept + kept * (step * spare), goal, 1.0)
}
