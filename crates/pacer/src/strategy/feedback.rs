//! Throttles by chance: where less was spent than planned, a little more of the requests is bid on, else a little less.
//!
//! The plan is the learned day, as LinkedIn's is the forecast of impressions. The share starts low ("slow start"), and
//! the plan is done before the end ("fast finish"). It needs to know nothing of prices and wins. It knows only whether
//! spending is behind or ahead, and not how far: it swings about its plan by a few percent of the budget.
//!
//! Source: Agarwal, Ghosh, Wei, You: Budget pacing for targeted online advertisements at LinkedIn, KDD 2014: the
//! pass-through rate goes up or down by a tenth each minute.

use tidegate_machines::TimeMs;

use super::parameter::{Parameter, START_PERMILLE};
use super::{Follows, Input, Memory, Property, StrategyRow, Throttle, UnderWay, ms_between};

/// The strategy.
pub(super) const ROW: StrategyRow = StrategyRow {
    name: "feedback",
    meaning: "The share of requests rises or falls by a step, as spending is behind or ahead of the learned day.",
    use_when: "Where prices and wins are not measured well: it looks only at what was spent. It swings.",
    source: "Agarwal, Ghosh, Wei, You: Budget pacing at LinkedIn, KDD 2014.",
    follows: Follows::Day,
    properties: &[Property::FallsWithSpent, Property::RisesWithBudget, Property::ScaleFree, Property::KeepsPrice],
    parameters: &[STEP_PERMILLE, INTERVAL_S, START_PERMILLE, FLOOR_PPM, FINISH_PERMILLE],
    decide,
};

const STEP_PERMILLE: Parameter = Parameter {
    name: "step_permille",
    default: 100,
    min: 1,
    max: 1_000,
    unit: "1/1000 of the share",
    meaning: "By so much the share rises or falls in each interval.",
};

const INTERVAL_S: Parameter = Parameter {
    name: "interval_s",
    default: 60,
    min: 1,
    max: 3_600,
    unit: "s",
    meaning: "How often the share is changed.",
};

const FLOOR_PPM: Parameter = Parameter {
    name: "floor_ppm",
    default: 100,
    min: 1,
    max: 1_000_000,
    unit: "1/1000000 of the requests",
    meaning: "The share never falls below this, so that it can rise again.",
};

const FINISH_PERMILLE: Parameter = Parameter {
    name: "finish_permille",
    default: 960,
    min: 500,
    max: 1_000,
    unit: "1/1000 of the flight or day",
    meaning: "At this part of its time all money should be spent; the rest is for what is missing then.",
};

fn decide(input: &Input<'_>) -> Throttle {
    let Some(campaign) = UnderWay::of(input) else { return Throttle::nothing(input.memory) };
    let told = input.parameters;
    let floor = FLOOR_PPM.of(told) as f64 / 1_000_000.0;
    let kept = input.memory.number(0, 0.0, 1.0);
    // A share of zero was never kept.
    let share = if kept > 0.0 { kept } else { START_PERMILLE.thousandths_of(told) };
    let passed_ms = input.memory.number(1, 0.0, f64::MAX) + campaign.since_ms();
    if passed_ms < INTERVAL_S.ms_of(told) {
        return Throttle::new(share, 1.0, Memory([share, passed_ms, 0.0, 0.0]));
    }
    let step = STEP_PERMILLE.thousandths_of(told);
    let is_behind = campaign.expected <= planned(input, &campaign);
    let share = if is_behind { share + share * step } else { share - share * step };
    let share = share.max(floor).min(1.0);
    Throttle::new(share, 1.0, Memory([share, 0.0, 0.0, 0.0]))
}

/// What should be spent by now, if all should be spent at the finish.
fn planned(input: &Input<'_>, campaign: &UnderWay<'_>) -> f64 {
    let finish = FINISH_PERMILLE.thousandths_of(input.parameters);
    let whole_ms = ms_between(input.horizon.begins, input.horizon.ends);
    let finish = TimeMs(input.horizon.begins.0.saturating_add((whole_ms * finish) as u64));
    let at_finish = campaign.planned(Follows::Day, finish);
    if at_finish > 0.0 {
        (campaign.planned(Follows::Day, input.now) / at_finish).min(1.0) * campaign.budget
    } else {
        campaign.budget
    }
}
