//! Spends in each second the part of the budget that the second has of the traffic, as it was learned.
//!
//! It is [`super::even`] with another curve: the share of requests stays about the same all day, so that everybody who
//! could see the campaign has the same chance, at whatever hour.
//!
//! Source: "traffic-based pacing" of Lee, Jalali, Dasdan: Real time bid optimization with smooth budget delivery in
//! online advertising, ADKDD 2013, section 3.

use super::even::WINDOW_S;
use super::parameter::START_PERMILLE;
use super::{Follows, Input, Property, StrategyRow, Throttle, UnderWay};

/// The strategy.
pub(super) const ROW: StrategyRow = StrategyRow {
    name: "traffic_shaped",
    meaning: "Spends in proportion to the traffic that the learned day has at that time.",
    use_when: "The usual choice: days are alike, and each user should have the same chance of seeing the campaign.",
    source: "Traffic-based pacing: Lee, Jalali, Dasdan, ADKDD 2013.",
    follows: Follows::Day,
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

fn decide(input: &Input<'_>) -> Throttle {
    let Some(campaign) = UnderWay::of(input) else { return Throttle::nothing(input.memory) };
    let wanted_per_ms = campaign.wanted_per_ms(Follows::Day, WINDOW_S.ms_of(input.parameters));
    Throttle::new(campaign.share_for(wanted_per_ms), 1.0, input.memory)
}
