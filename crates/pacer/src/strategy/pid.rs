//! A PID controller of what was spent against the plan of the day.
//!
//! The error is how far spending is behind the plan, in minutes of the average second's spending, so that budgets of
//! any size have the same gains. The controller's answer is how fast to spend, as a multiple of the average; it becomes
//! a share of requests by what they are measured to cost (a gain schedule). Without that, gains that are right for
//! a budget of half of the traffic would swing with one of a thousandth.
//!
//! The integral stands still while the answer is at an end of its range (anti-windup by clamping): after hours without
//! traffic it would otherwise spend everything at once.
//!
//! Source: Zhang, Rong, Wang, Zhu, Wang: Feedback control of real-time display advertising, WSDM 2016; Chen, Berkhin,
//! Anderson, Devanur: Real-time bidding algorithms for performance-based display ad allocation, KDD 2011; anti-windup
//! and gain schedule: Åström, Hägglund: PID controllers, 2nd edition, 1995, sections 3.5 and 6.3.

use super::parameter::{Parameter, START_PERMILLE};
use super::{Follows, Input, Memory, Property, StrategyRow, Throttle, UnderWay, ms_between, within};

/// The strategy.
pub(super) const ROW: StrategyRow = StrategyRow {
    name: "pid",
    meaning: "A PID controller with anti-windup holds what was spent at the plan of the day.",
    use_when: "Where the pace is to be tuned: how hard it pulls back to the plan, and how long it remembers.",
    source: "Zhang, Rong, Wang, Zhu, Wang: Feedback control of real-time display advertising, WSDM 2016.",
    follows: Follows::Day,
    properties: &[Property::FallsWithSpent, Property::RisesWithBudget, Property::ScaleFree, Property::KeepsPrice],
    parameters: &[PROPORTIONAL_PERMILLE, INTEGRAL_PERMILLE, DERIVATIVE_PERMILLE, START_PERMILLE],
    decide,
};

const PROPORTIONAL_PERMILLE: Parameter = Parameter {
    name: "proportional_permille",
    default: 500,
    min: 0,
    max: 100_000,
    unit: "1/1000 of the average spending, per minute behind",
    meaning: "How hard it pulls back to the plan.",
};

const INTEGRAL_PERMILLE: Parameter = Parameter {
    name: "integral_permille",
    default: 60,
    min: 0,
    max: 100_000,
    unit: "1/1000 of the average spending, per minute behind and minute",
    meaning: "How fast it learns how fast to spend; a quarter of the square of the proportional part does not swing.",
};

const DERIVATIVE_PERMILLE: Parameter = Parameter {
    name: "derivative_permille",
    default: 0,
    min: 0,
    max: 100_000,
    unit: "1/1000 of the average spending, per minute behind in a minute",
    meaning: "How hard it brakes when spending comes nearer to the plan; it makes noise louder.",
};

const MINUTE_MS: f64 = 60_000.0;

/// The most that the integral can be, as a multiple of the average spending.
const INTEGRAL_MAX: f64 = 1_000.0;

/// The most that spending can be ahead or behind, in minutes: more than any horizon has.
const BEHIND_MAX: f64 = 1e15;

fn decide(input: &Input<'_>) -> Throttle {
    let Some(campaign) = UnderWay::of(input) else { return Throttle::nothing(input.memory) };
    let told = input.parameters;
    let average_per_ms = campaign.budget / ms_between(input.horizon.begins, input.horizon.ends);
    let behind = (campaign.planned(Follows::Day, input.now) - campaign.expected) / average_per_ms / MINUTE_MS;
    let minutes = campaign.since_ms() / MINUTE_MS;

    let begins = input.horizon.begins.0 as f64;
    let integral = input.memory.number(0, -INTEGRAL_MAX, INTEGRAL_MAX);
    // In another horizon, yesterday's, the error was another's.
    let is_same_horizon = input.memory.0[2] == begins;
    let behind_before = if is_same_horizon { input.memory.number(1, -BEHIND_MAX, BEHIND_MAX) } else { behind };
    let slope = if minutes > 0.0 { (behind - behind_before) / minutes } else { 0.0 };
    let next = integral + INTEGRAL_PERMILLE.thousandths_of(told) * behind * minutes;
    let next = within(next, -INTEGRAL_MAX, INTEGRAL_MAX);
    let pull = PROPORTIONAL_PERMILLE.thousandths_of(told) * behind;
    let brake = DERIVATIVE_PERMILLE.thousandths_of(told) * slope;
    let wanted = pull + next + brake;

    let share = campaign.share_for(wanted * average_per_ms);
    let winds_up = (share >= 1.0 && behind > 0.0) || (share <= 0.0 && behind < 0.0);
    let kept = if winds_up { integral } else { next };
    Throttle::new(share, 1.0, Memory([kept, behind, begins, 0.0]))
}
