//! Spends the same in each second.
//!
//! The share of requests is what the plan wants to be spent until the end of a window, divided by what all requests of
//! it would cost. What was spent too much or too little is made up for within the window, and nothing has to be kept.
//!
//! Source: "uniform pacing" of Lee, Jalali, Dasdan: Real time bid optimization with smooth budget delivery in online
//! advertising, ADKDD 2013, section 3; "standard delivery" of most demand-side platforms.

use super::parameter::{Parameter, START_PERMILLE};
use super::{Follows, Input, Property, StrategyRow, Throttle, UnderWay};

/// The strategy.
pub(super) const ROW: StrategyRow = StrategyRow {
    name: "even",
    meaning: "Spends the same in each second, whatever the traffic is.",
    use_when: "For advertisers who want the same at night as in the evening, or where nothing is known of the day.",
    source: "Uniform pacing: Lee, Jalali, Dasdan, ADKDD 2013.",
    follows: Follows::Time,
    properties: &[
        Property::FallsWithSpent,
        Property::RisesWithBudget,
        Property::ScaleFree,
        Property::Stateless,
        Property::KeepsPrice,
    ],
    parameters: &[WINDOW_S, START_PERMILLE],
    decide,
};

/// In which time the plan is met again.
pub(super) const WINDOW_S: Parameter = Parameter {
    name: "window_s",
    default: 120,
    min: 1,
    max: 86_400,
    unit: "s",
    meaning: "Within this time, what was spent too much or too little is made up for.",
};

fn decide(input: &Input<'_>) -> Throttle {
    let Some(campaign) = UnderWay::of(input) else { return Throttle::nothing(input.memory) };
    let wanted_per_ms = campaign.wanted_per_ms(Follows::Time, WINDOW_S.ms_of(input.parameters));
    Throttle::new(campaign.share_for(wanted_per_ms), 1.0, input.memory)
}
