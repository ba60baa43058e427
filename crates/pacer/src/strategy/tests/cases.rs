//! Answers that can be read.

use expect_test::{Expect, expect};

use super::*;
use crate::plan::StrategyChoice;

/// What all strategies answer, in per mille, that have paced the campaign for an hour before.
fn check_all(case: &Case, expected: Expect) {
    let line = |strategy: &StrategyRow| {
        let throttle = Case { memory: settled(strategy), since_ms: 60_000, ..case.clone() }.ask(strategy);
        line(strategy.name, throttle)
    };
    expected.assert_eq(&STRATEGIES.iter().map(line).collect::<String>());
}

/// What all strategies answer that were never asked before.
fn check_all_at_first(case: &Case, expected: Expect) {
    let line = |strategy: &StrategyRow| line(strategy.name, Case { since_ms: 0, ..case.clone() }.ask(strategy));
    expected.assert_eq(&STRATEGIES.iter().map(line).collect::<String>());
}

fn line(name: &str, throttle: Throttle) -> String {
    format!("{name:<20} share {:>6.1}  shade {:>6.1}\n", throttle.share * 1e3, throttle.shade * 1e3)
}

/// What a strategy keeps a minute before the case on plan, if it has paced the campaign for an hour until then.
fn settled(strategy: &StrategyRow) -> Memory {
    let on_plan = Case::on_plan();
    let begins = on_plan.now - 3_660_000;
    let mut case = Case { now: begins, spent: begins - MIDNIGHT, ..on_plan };
    for _ in 0..3_600 {
        advance(strategy, &mut case);
    }
    case.memory
}

/// A second passes: the strategy is asked, and what it answers is spent. Half the price wins half as often.
fn advance(strategy: &StrategyRow, case: &mut Case) -> Throttle {
    let throttle = case.ask(strategy);
    let wins_per_s = case.requests_per_s * throttle.share * case.win_rate * throttle.shade;
    case.spent += (wins_per_s * case.win_price) as u64;
    case.memory = throttle.memory;
    case.now += 1_000;
    throttle
}

/// What a strategy answers each second, or each `every` seconds, in per mille.
fn check_series(name: &str, mut case: Case, every: u64, mut change: impl FnMut(u64, &mut Case), expected: Expect) {
    let strategy = find(name).unwrap();
    let mut lines = String::new();
    for second in 0..=5 * every {
        change(second, &mut case);
        let throttle = case.ask(strategy);
        if second % every == 0 {
            lines += &line(&format!("{second} s"), throttle);
        }
        case.memory = throttle.memory;
        case.now += 1_000;
    }
    expected.assert_eq(&lines);
}

#[test]
fn on_plan_half_of_the_requests_are_bid_on() {
    check_all(
        &Case::on_plan(),
        expect![[r#"
            as_fast_as_possible  share 1000.0  shade 1000.0
            even                 share  500.0  shade 1000.0
            traffic_shaped       share  500.0  shade 1000.0
            feedback             share 1000.0  shade 1000.0
            slot_rate            share  500.0  shade 1000.0
            pid                  share  500.4  shade 1000.0
            adaptive_dual        share 1000.0  shade  499.6
            minimum_pacing       share 1000.0  shade  499.6
        "#]],
    );
}

#[test]
fn ahead_of_the_plan_less_is_bid_on() {
    check_all(
        &Case { spent: 21_600_000 + 60_000, ..Case::on_plan() },
        expect![[r#"
            as_fast_as_possible  share 1000.0  shade 1000.0
            even                 share  250.0  shade 1000.0
            traffic_shaped       share  250.0  shade 1000.0
            feedback             share 1000.0  shade 1000.0
            slot_rate            share  499.5  shade 1000.0
            pid                  share  220.4  shade 1000.0
            adaptive_dual        share 1000.0  shade  475.8
            minimum_pacing       share 1000.0  shade  475.8
        "#]],
    );
}

#[test]
fn behind_the_plan_more_is_bid_on() {
    check_all(
        &Case { spent: 21_600_000 - 60_000, ..Case::on_plan() },
        expect![[r#"
            as_fast_as_possible  share 1000.0  shade 1000.0
            even                 share  750.0  shade 1000.0
            traffic_shaped       share  750.0  shade 1000.0
            feedback             share 1000.0  shade 1000.0
            slot_rate            share  500.5  shade 1000.0
            pid                  share  780.4  shade 1000.0
            adaptive_dual        share 1000.0  shade  525.9
            minimum_pacing       share 1000.0  shade  500.0
        "#]],
    );
}

#[test]
fn what_is_reserved_counts_as_what_it_will_cost() {
    check_all(
        &Case { reserved: 240_000, ..Case::on_plan() },
        expect![[r#"
            as_fast_as_possible  share 1000.0  shade 1000.0
            even                 share  250.0  shade 1000.0
            traffic_shaped       share  250.0  shade 1000.0
            feedback             share 1000.0  shade 1000.0
            slot_rate            share  499.5  shade 1000.0
            pid                  share  220.4  shade 1000.0
            adaptive_dual        share 1000.0  shade  499.6
            minimum_pacing       share 1000.0  shade  499.6
        "#]],
    );
}

#[test]
fn in_a_burst_of_ten_times_the_traffic_a_tenth_is_bid_on() {
    check_all(
        &Case { requests_per_s: 40.0, ..Case::on_plan() },
        expect![[r#"
            as_fast_as_possible  share 1000.0  shade 1000.0
            even                 share   50.0  shade 1000.0
            traffic_shaped       share   50.0  shade 1000.0
            feedback             share 1000.0  shade 1000.0
            slot_rate            share   51.6  shade 1000.0
            pid                  share   50.0  shade 1000.0
            adaptive_dual        share 1000.0  shade  499.6
            minimum_pacing       share 1000.0  shade  499.6
        "#]],
    );
}

#[test]
fn where_nothing_was_measured_yet_it_begins_low() {
    let nothing = Case { requests_per_s: 0.0, win_rate: 0.0, win_price: 0.0, since_ms: 0, spent: 0, ..Case::on_plan() };
    check_all_at_first(
        &nothing,
        expect![[r#"
            as_fast_as_possible  share 1000.0  shade 1000.0
            even                 share   10.0  shade 1000.0
            traffic_shaped       share   10.0  shade 1000.0
            feedback             share   10.0  shade 1000.0
            slot_rate            share   10.0  shade 1000.0
            pid                  share   10.0  shade 1000.0
            adaptive_dual        share 1000.0  shade  500.0
            minimum_pacing       share 1000.0  shade  500.0
        "#]],
    );
}

#[test]
fn where_no_request_comes_the_next_one_is_worth_a_bid() {
    check_all(
        &Case { requests_per_s: 0.0, spent: 21_000_000, ..Case::on_plan() },
        expect![[r#"
            as_fast_as_possible  share 1000.0  shade 1000.0
            even                 share 1000.0  shade 1000.0
            traffic_shaped       share 1000.0  shade 1000.0
            feedback             share 1000.0  shade 1000.0
            slot_rate            share 1000.0  shade 1000.0
            pid                  share 1000.0  shade 1000.0
            adaptive_dual        share 1000.0  shade  530.5
            minimum_pacing       share 1000.0  shade  500.0
        "#]],
    );
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
    check_all(
        &Case { day, spent: planned.unwrap().0, ..Case::on_plan() },
        expect![[r#"
            as_fast_as_possible  share 1000.0  shade 1000.0
            even                 share 1000.0  shade 1000.0
            traffic_shaped       share  166.7  shade 1000.0
            feedback             share 1000.0  shade 1000.0
            slot_rate            share  179.4  shade 1000.0
            pid                  share  500.4  shade 1000.0
            adaptive_dual        share 1000.0  shade  530.5
            minimum_pacing       share 1000.0  shade  500.0
        "#]],
    );
}

#[test]
fn in_the_last_second_all_that_is_left_is_wanted() {
    check_all(
        &Case { spent: 86_000_000, now: MIDNIGHT + DAY - 1_000, ..Case::on_plan() },
        expect![[r#"
            as_fast_as_possible  share 1000.0  shade 1000.0
            even                 share 1000.0  shade 1000.0
            traffic_shaped       share 1000.0  shade 1000.0
            feedback             share 1000.0  shade 1000.0
            slot_rate            share 1000.0  shade 1000.0
            pid                  share 1000.0  shade 1000.0
            adaptive_dual        share 1000.0  shade  464.3
            minimum_pacing       share 1000.0  shade  464.3
        "#]],
    );
}

#[test]
fn behind_the_end_nothing_is_bid_on() {
    check_all(
        &Case { now: MIDNIGHT + DAY, ..Case::on_plan() },
        expect![[r#"
        as_fast_as_possible  share    0.0  shade 1000.0
        even                 share    0.0  shade 1000.0
        traffic_shaped       share    0.0  shade 1000.0
        feedback             share    0.0  shade 1000.0
        slot_rate            share    0.0  shade 1000.0
        pid                  share    0.0  shade 1000.0
        adaptive_dual        share    0.0  shade 1000.0
        minimum_pacing       share    0.0  shade 1000.0
    "#]],
    );
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
        expect![[r#"
            0 s                  share   10.0  shade 1000.0
            60 s                 share   11.0  shade 1000.0
            120 s                share   12.1  shade 1000.0
            180 s                share   10.9  shade 1000.0
            240 s                share    9.8  shade 1000.0
            300 s                share    8.8  shade 1000.0
        "#]],
    );
}

#[test]
fn slot_rate_keeps_its_share_for_a_minute() {
    check_series(
        "slot_rate",
        Case::on_plan(),
        30,
        |second, case| case.spent += second * 100,
        expect![[r#"
        0 s                  share  500.0  shade 1000.0
        30 s                 share  500.0  shade 1000.0
        60 s                 share  499.1  shade 1000.0
        90 s                 share  499.1  shade 1000.0
        120 s                share  495.3  shade 1000.0
        150 s                share  495.3  shade 1000.0
    "#]],
    );
}

#[test]
fn slot_rate_does_not_take_the_share_of_a_slot_of_yesterday() {
    let strategy = find("slot_rate").unwrap();
    let today = Case { memory: Case::on_plan().ask(strategy).memory, ..Case::on_plan() };
    let mut tomorrow = Case { spent: 43_200_000, now: today.now + DAY, ..today };
    tomorrow.horizon = Horizon { begins: TimeMs(MIDNIGHT + DAY), ends: TimeMs(MIDNIGHT + 2 * DAY) };
    expect!["333.3"].assert_eq(&format!("{:.1}", tomorrow.ask(strategy).share * 1e3));
}

/// An hour without requests, and then twenty times what is needed. The hour is made up for, and then not overshot.
#[test]
fn pid_does_not_wind_up_while_there_is_no_traffic() {
    let strategy = find("pid").unwrap();
    let mut case = Case { requests_per_s: 0.0, ..Case::on_plan() };
    let mut lines = String::new();
    for second in 0..=6_000 {
        if second == 3_600 {
            case.requests_per_s = 40.0;
        }
        let ahead_s = (case.spent as i64 - (case.now - MIDNIGHT) as i64) / 1_000;
        let throttle = advance(strategy, &mut case);
        if second % 600 == 0 || (second > 3_600 && second % 60 == 0 && second < 4_200) {
            lines += &format!("{second:>4} s: ahead by {ahead_s:>5} s, share {:>6.1}\n", throttle.share * 1e3);
        }
    }
    expect![[r#"
           0 s: ahead by     0 s, share 1000.0
         600 s: ahead by  -600 s, share 1000.0
        1200 s: ahead by -1200 s, share 1000.0
        1800 s: ahead by -1800 s, share 1000.0
        2400 s: ahead by -2400 s, share 1000.0
        3000 s: ahead by -3000 s, share 1000.0
        3600 s: ahead by -3600 s, share 1000.0
        3660 s: ahead by -2460 s, share 1000.0
        3720 s: ahead by -1489 s, share  711.5
        3780 s: ahead by  -831 s, share  494.1
        3840 s: ahead by  -394 s, share  341.5
        3900 s: ahead by  -111 s, share  235.5
        3960 s: ahead by    65 s, share  162.5
        4020 s: ahead by   169 s, share  113.1
        4080 s: ahead by   224 s, share   80.2
        4140 s: ahead by   246 s, share   58.9
        4200 s: ahead by   249 s, share   45.5
        4800 s: ahead by    71 s, share   39.9
        5400 s: ahead by    11 s, share   48.2
        6000 s: ahead by     1 s, share   49.8
    "#]]
    .assert_eq(&lines);
}

#[test]
fn adaptive_dual_lowers_the_price_while_too_much_is_spent() {
    check_series(
        "adaptive_dual",
        Case::on_plan(),
        60,
        |_, case| case.spent += 2_000,
        expect![[r#"
        0 s                  share 1000.0  shade  500.0
        60 s                 share 1000.0  shade  475.7
        120 s                share 1000.0  shade  452.5
        180 s                share 1000.0  shade  430.4
        240 s                share 1000.0  shade  409.4
        300 s                share 1000.0  shade  389.3
    "#]],
    );
}

#[test]
fn minimum_pacing_goes_up_while_wins_are_cheap_and_the_budget_allows() {
    let parameters = BTreeMap::from([("average_price_permille".into(), 400)]);
    let cheap = Case { parameters, win_price: 200.0, ..Case::on_plan() };
    check_series(
        "minimum_pacing",
        cheap,
        120,
        |_, case| case.spent += 500,
        expect![[r#"
        0 s                  share 1000.0  shade  400.0
        120 s                share 1000.0  shade  431.1
        240 s                share 1000.0  shade  464.5
        360 s                share 1000.0  shade  500.6
        480 s                share 1000.0  shade  539.4
        600 s                share 1000.0  shade  581.3
    "#]],
    );
}

fn refused(name: &str, parameters: &[(&str, i64)], expected: Expect) {
    let parameters = parameters.iter().map(|(name, value)| ((*name).into(), *value)).collect();
    let error = check(&StrategyChoice { name: name.into(), parameters }).unwrap_err();
    expected.assert_eq(&error.to_string());
}

#[test]
fn what_cannot_be_had_is_named_with_what_can() {
    refused("trafic_shaped", &[], expect![[r#"unknown strategy "trafic_shaped"; did you mean "traffic_shaped"?"#]]);
    refused(
        "pid",
        &[("integral", 1)],
        expect![[r#"strategy "pid" has no parameter "integral"; did you mean "integral_permille"?"#]],
    );
    refused("even", &[("q", 1)], expect![[r#"strategy "even" has no parameter "q"; known: window_s, start_permille"#]]);
    refused(
        "as_fast_as_possible",
        &[("x", 1)],
        expect![[r#"strategy "as_fast_as_possible" has no parameter "x"; it has none"#]],
    );
    refused(
        "even",
        &[("window_s", 0)],
        expect![[r#"strategy "even": window_s = 0 is out of range: expected 1 to 86400, in s"#]],
    );
    let error = check(&StrategyChoice { name: "quantum".into(), parameters: BTreeMap::new() }).unwrap_err().to_string();
    assert!(STRATEGIES.iter().all(|row| error.contains(row.name)), "{error}");
}
