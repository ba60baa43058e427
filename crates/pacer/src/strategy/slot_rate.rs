//! Sets the share of requests anew for each slot of time, by what is left of money and traffic.
//!
//! What is left is spread over the traffic that is still to come; the part of the slot, divided by what its requests
//! would cost, is the share. What was missed is thereby spread over all the rest, and not made up for at once.
//!
//! Source: Xu, Lee, Li, Qi, Lu: Smart pacing for effective online ad campaign optimization, KDD 2015, section 4, for
//! campaigns without a goal of performance: one layer, with the pacing rate of a slot from the remaining budget.

use super::parameter::{Parameter, START_PERMILLE};
use super::{Follows, Input, Memory, Property, StrategyRow, Throttle, UnderWay, ms_between};

/// The strategy.
pub(super) const ROW: StrategyRow = StrategyRow {
    name: "slot_rate",
    meaning: "Sets the share for each slot of time so that what is left lasts for the traffic that is left.",
    use_when: "Budgets change during the flight, or the learned day is rough: it plans anew from what is left.",
    source: "Xu, Lee, Li, Qi, Lu: Smart pacing, KDD 2015.",
    follows: Follows::Day,
    properties: &[Property::FallsWithSpent, Property::RisesWithBudget, Property::ScaleFree, Property::KeepsPrice],
    parameters: &[SLOT_S, START_PERMILLE],
    decide,
};

const SLOT_S: Parameter =
    Parameter { name: "slot_s", default: 60, min: 1, max: 3_600, unit: "s", meaning: "For so long a share is kept." };

fn decide(input: &Input<'_>) -> Throttle {
    let Some(campaign) = UnderWay::of(input) else { return Throttle::nothing(input.memory) };
    // Slots are numbered from one: zero is a memory that was never written.
    let passed_ms = ms_between(input.horizon.begins, input.now);
    let slot = (passed_ms / SLOT_S.ms_of(input.parameters)).floor() + 1.0;
    // The slot of another horizon, yesterday's, is told by when that began.
    let begins = input.horizon.begins.0 as f64;
    let Memory([kept_slot, kept_share, kept_begins, _]) = input.memory;
    if kept_slot == slot && kept_begins == begins {
        return Throttle::new(kept_share, 1.0, input.memory);
    }
    // What is left for each ms at this time of the day, so that it lasts.
    let wanted_per_ms = campaign.left() / campaign.days_left() * campaign.day().per_ms(input.now);
    let share = campaign.share_for(wanted_per_ms);
    // A guess is not kept.
    let slot = if campaign.has_requests() { slot } else { 0.0 };
    Throttle::new(share, 1.0, Memory([slot, share, begins, 0.0]))
}
