//! Answers that can be read.

use expect_test::{Expect, expect};

use super::*;
use crate::plan::StrategyChoice;

/// What all strategies answer, in per mille.
fn check_all(case: &Case, expected: Expect) {
    let line = |strategy: &StrategyRow| {
        let throttle = case.ask(strategy);
        format!("{:<20} share {:>6.1}  shade {:>6.1}\n", strategy.name, throttle.share * 1e3, throttle.shade * 1e3)
    };
    expected.assert_eq(&STRATEGIES.iter().map(line).collect::<String>());
}

/// What a strategy answers each second, or each `every` seconds, in per mille.
fn check_series(name: &str, mut case: Case, every: u64, mut change: impl FnMut(u64, &mut Case), expected: Expect) {
    let strategy = find(name).unwrap();
    let mut lines = String::new();
    for second in 0..=5 * every {
        change(second, &mut case);
        let throttle = case.ask(strategy);
        if second % every == 0 {
            lines +=
                &format!("{second:>4} s: share {:>6.1}  shade {:>6.1}\n", throttle.share * 1e3, throttle.shade * 1e3);
        }
        case.memory = throttle.memory;
        case.now += 1_000;
    }
    expected.assert_eq(&lines);
}

#[test]
fn on_plan_half_of_the_requests_are_bid_on() {
    check_all(&Case::on_plan(), expect![""]);
}

#[test]
fn ahead_of_the_plan_less_is_bid_on() {
    check_all(&Case { spent: 21_600_000 + 60_000, ..Case::on_plan() }, expect![""]);
}

#[test]
fn behind_the_plan_more_is_bid_on() {
    check_all(&Case { spent: 21_600_000 - 60_000, ..Case::on_plan() }, expect![""]);
}

#[test]
fn what_is_reserved_counts_as_what_it_will_cost() {
    check_all(&Case { reserved: 240_000, ..Case::on_plan() }, expect![""]);
}

#[test]
fn in_a_burst_of_ten_times_the_traffic_a_tenth_is_bid_on() {
    check_all(&Case { requests_per_s: 40.0, ..Case::on_plan() }, expect![""]);
}

#[test]
fn where_nothing_was_measured_yet_it_begins_low() {
    let nothing = Case { requests_per_s: 0.0, win_rate: 0.0, win_price: 0.0, since_ms: 0, spent: 0, ..Case::on_plan() };
    check_all(&nothing, expect![""]);
}

#[test]
fn where_no_request_comes_the_next_one_is_worth_a_bid() {
    check_all(&Case { requests_per_s: 0.0, spent: 21_000_000, ..Case::on_plan() }, expect![""]);
}

#[test]
fn at_night_those_that_follow_the_day_spend_less() {
    let day = Day::new(&std::array::from_fn(|quarter| if quarter < 32 { 1.0 } else { 4.0 }));
    let planned = find("traffic_shaped").unwrap().planned(
        Case::on_plan().horizon,
        BudgetMicros(86_400_000),
        &day,
        TimeMs(Case::on_plan().now),
    );
    check_all(&Case { day, spent: planned.unwrap().0, ..Case::on_plan() }, expect![""]);
}

#[test]
fn in_the_last_second_all_that_is_left_is_wanted() {
    check_all(&Case { spent: 86_000_000, now: MIDNIGHT + DAY - 1_000, ..Case::on_plan() }, expect![""]);
}

#[test]
fn behind_the_end_nothing_is_bid_on() {
    check_all(&Case { now: MIDNIGHT + DAY, ..Case::on_plan() }, expect![""]);
}

#[test]
fn feedback_moves_by_a_tenth_each_minute() {
    let behind = Case { spent: 0, ..Case::on_plan() };
    check_series(
        "feedback",
        behind,
        60,
        |second, case| {
            if second == 150 {
                case.spent = 40_000_000
            }
        },
        expect![""],
    );
}

#[test]
fn slot_rate_keeps_its_share_for_a_minute() {
    check_series("slot_rate", Case::on_plan(), 30, |second, case| case.spent += second * 100, expect![""]);
}

#[test]
fn pid_does_not_wind_up_while_there_is_no_traffic() {
    let no_traffic = Case { spent: 0, requests_per_s: 0.0, ..Case::on_plan() };
    // After an hour without requests they come back, and the money that was planned was spent at once.
    let comes_back = |second, case: &mut Case| {
        if second == 3_600 {
            case.requests_per_s = 40.0;
            case.spent = 86_400_000 / 24 * 7 + 43_000;
        } else if second > 3_600 {
            case.spent += 1_000;
        }
    };
    check_series("pid", no_traffic, 1_200, comes_back, expect![""]);
}

#[test]
fn adaptive_dual_lowers_the_price_while_too_much_is_spent() {
    check_series("adaptive_dual", Case::on_plan(), 60, |_, case| case.spent += 2_000, expect![""]);
}

#[test]
fn minimum_pacing_goes_up_while_wins_are_cheap_and_the_budget_allows() {
    let parameters = BTreeMap::from([("average_price_permille".into(), 400)]);
    let cheap = Case { parameters, win_price: 200.0, ..Case::on_plan() };
    check_series("minimum_pacing", cheap, 120, |_, case| case.spent += 500, expect![""]);
}

fn refused(name: &str, parameters: &[(&str, i64)], expected: Expect) {
    let parameters = parameters.iter().map(|(name, value)| ((*name).into(), *value)).collect();
    let error = check(&StrategyChoice { name: name.into(), parameters }).unwrap_err();
    expected.assert_eq(&error.to_string());
}

#[test]
fn what_cannot_be_had_is_named_with_what_can() {
    refused("trafic_shaped", &[], expect![""]);
    refused("quantum", &[], expect![""]);
    refused("pid", &[("integral", 1)], expect![""]);
    refused("even", &[("q", 1)], expect![""]);
    refused("as_fast_as_possible", &[("window_s", 1)], expect![""]);
    refused("even", &[("window_s", 0)], expect![""]);
}
