//! Bids on everything until the money is spent.
//!
//! Source: "accelerated delivery" of Google Ads (until 2020), "ASAP" of most demand-side platforms; the baseline of the
//! literature, e.g. Lee, Jalali, Dasdan: Real time bid optimization with smooth budget delivery, ADKDD 2013, section 1.

use super::{Follows, Input, Property, StrategyRow, Throttle, UnderWay};

/// The strategy.
pub(super) const ROW: StrategyRow = StrategyRow {
    name: "as_fast_as_possible",
    meaning: "Bids on every request until the money is spent.",
    use_when: "For launches and sales of a few hours, and for budgets that are larger than the traffic.",
    source: "Accelerated delivery, or ASAP, of most demand-side platforms.",
    follows: Follows::Nothing,
    properties: &[
        Property::FallsWithSpent,
        Property::RisesWithBudget,
        Property::ScaleFree,
        Property::Stateless,
        Property::KeepsPrice,
    ],
    parameters: &[],
    decide,
};

fn decide(input: &Input<'_>) -> Throttle {
    match UnderWay::of(input) {
        Some(_) => Throttle::new(1.0, 1.0, input.memory),
        None => Throttle::nothing(input.memory),
    }
}
