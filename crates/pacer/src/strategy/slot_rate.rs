//! Sets the share of requests anew for each slot of time, by what is left of money and traffic.
//!
//! What is left is spread over the traffic that is still to come; the part of the slot, divided by what its requests
//! would cost, is the share. What was missed is thereby spread over all the rest, and not made up for at once.
//!
//! Where a request comes each few minutes, nearly every slot seems to have none, and by that alone each would be bid
//! on. So the average of the last hour, for this time of the day, counts as ten requests beside those that came.
//!
//! Source: Xu, Lee, Li, Qi, Lu: Smart pacing for effective online ad campaign optimization, KDD 2015, section 4, for
//! campaigns without a goal of performance: one layer, with the pacing rate of a slot from the remaining budget.

use super::parameter::{Parameter, START_PERMILLE};
use super::{Follows, Input, Memory, Property, StrategyRow, Throttle, UnderWay, ms_between};

/// The strategy.
pub(super) const ROW: StrategyRow = StrategyRow {
    name: "slot_rate",
    meaning: "Sets the share for each slot of time so that what is left lasts for the traffic that is left.",
    use_when: "For budgets that change during the flight, and rough forecasts: it plans anew from what is left.",
    source: "Xu, Lee, Li, Qi, Lu: Smart pacing, KDD 2015.",
    follows: Follows::Day,
    properties: &[Property::FallsWithSpent, Property::RisesWithBudget, Property::ScaleFree, Property::KeepsPrice],
    parameters: &[SLOT_S, START_PERMILLE],
    decide,
};

const SLOT_S: Parameter =
    Parameter { name: "slot_s", default: 60, min: 1, max: 3_600, unit: "s", meaning: "For so long a share is kept." };

/// The average of the requests changes by this part in each slot: with slots of a minute, it is of about an hour.
const AVERAGE_STEP: f64 = 1.0 / 60.0;

/// The average counts as much as so many requests that come.
const AVERAGE_REQUESTS: f64 = 10.0;

fn decide(input: &Input<'_>) -> Throttle {
    let Some(mut campaign) = UnderWay::of(input) else { return Throttle::nothing(input.memory) };
    // Slots are numbered from one: zero is a memory that was never written.
    let passed_ms = ms_between(input.horizon.begins, input.now);
    let slot_ms = SLOT_S.ms_of(input.parameters);
    let slot = (passed_ms / slot_ms).floor() + 1.0;
    // The slot of another horizon, yesterday's, is told by when that began.
    let begins = input.horizon.begins.0 as f64;
    let Memory([kept_slot, kept_share, kept_begins, _]) = input.memory;
    if kept_slot == slot && kept_begins == begins {
        return Throttle::new(kept_share, 1.0, input.memory);
    }
    // What is left for each ms at this time of the day, so that it lasts.
    let day_per_ms = campaign.day().per_ms(input.now);
    let wanted_per_ms = campaign.left() / campaign.days_left() * day_per_ms;
    let day_requests = campaign.requests_per_ms / day_per_ms;
    let average = match input.memory.number(3, 0.0, f64::MAX) {
        before if before > 0.0 => before + (day_requests - before) * AVERAGE_STEP,
        _ => day_requests,
    };
    campaign.requests_per_ms = expected(campaign.requests_per_ms * slot_ms, average * day_per_ms * slot_ms) / slot_ms;
    let share = campaign.share_for(wanted_per_ms);
    // A guess is not kept.
    let slot = if campaign.requests_per_ms > 0.0 { slot } else { 0.0 };
    Throttle::new(share, 1.0, Memory([slot, share, begins, average]))
}

/// How many requests of a slot are to be expected, by how many come now and how many came on average.
fn expected(now: f64, average: f64) -> f64 {
    average * ((now + AVERAGE_REQUESTS) / (average + AVERAGE_REQUESTS))
}
