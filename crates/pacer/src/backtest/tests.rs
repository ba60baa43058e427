//! No strategy ever spends more than it has, and what each does on the market of seed 1.

use expect_test::expect;

use super::*;

const PRICE_MAX: PriceMicros = PriceMicros(3_000);

/// Small, so that many can be tried.
fn small(seed: u64) -> Market {
    Market { requests: 20_000, late_permille: 200, silent_permille: 100, ..Market::new(seed) }
}

/// Of a budget that is small, middle, or larger than the market.
fn some_budget(seed: u64) -> BudgetMicros {
    BudgetMicros([3_000, 50_000, 500_000, 5_000_000, 50_000_000][seed as usize % 5] + seed * 7_919)
}

#[test]
fn no_strategy_overspends_on_any_market() {
    for seed in 0..40 {
        for row in run(&small(seed), &one_of_each(some_budget(seed), PRICE_MAX)).unwrap() {
            assert_eq!(row.overspend, BudgetMicros::ZERO, "seed {seed}, {}", row.strategy);
            assert!(row.spent <= row.budget, "seed {seed}, {}", row.strategy);
            assert!(row.curve.is_sorted(), "seed {seed}, {}: what is spent stays spent", row.strategy);
            assert!(row.bids == 0 || row.reserved_max <= row.budget, "seed {seed}, {}", row.strategy);
        }
    }
}

/// That the test above would notice: reservations that return before wins are refused are spent twice.
#[test]
fn reservations_that_return_before_the_deadline_overspend() {
    let broken = Market { reserved_s: 5, delay_s: 50, ..Market::new(1) };
    let rows = run(&broken, &one_of_each(BudgetMicros(4_000_000), PRICE_MAX)).unwrap();
    let overspent: Vec<_> =
        rows.iter().filter(|row| row.overspend > BudgetMicros::ZERO).map(|row| row.strategy).collect();
    assert!(overspent.contains(&"as_fast_as_possible"), "{overspent:?}");
}

#[test]
fn the_same_seed_gives_the_same_rows_and_another_one_others() {
    let campaigns = one_of_each(BudgetMicros(1_000_000), PRICE_MAX);
    let [one, again, other] = [3, 3, 4].map(|seed| run(&small(seed), &campaigns).unwrap());
    assert_eq!(one, again);
    assert!(one.iter().zip(&other).all(|(one, other)| one.curve != other.curve));
}

#[test]
fn a_campaign_does_not_change_another_one() {
    let all = one_of_each(BudgetMicros(1_000_000), PRICE_MAX);
    let together = run(&small(5), &all).unwrap();
    for (campaign, row) in all.iter().zip(&together) {
        assert_eq!(run(&small(5), std::slice::from_ref(campaign)).unwrap(), std::slice::from_ref(row));
    }
}

#[test]
fn an_unknown_strategy_is_an_error() {
    let mut campaigns = one_of_each(BudgetMicros(1), PRICE_MAX);
    campaigns[0].strategy.name = "evn".into();
    expect![[r#"unknown strategy "evn"; did you mean "even"?"#]]
        .assert_eq(&run(&small(1), &campaigns).unwrap_err().to_string());
}

#[test]
fn without_money_or_without_a_price_nothing_is_bid() {
    for (budget, price_max) in [(0, 3_000), (1_000_000, 0), (2_999, 3_000)] {
        let campaigns = one_of_each(BudgetMicros(budget), PriceMicros(price_max));
        for row in run(&small(1), &campaigns[..6]).unwrap() {
            assert_eq!((row.bids, row.spent), (0, BudgetMicros::ZERO), "{}", row.strategy);
        }
    }
}

#[test]
fn those_that_follow_a_plan_keep_to_it() {
    let rows = run(&Market::new(2), &one_of_each(BudgetMicros(40_000_000), PRICE_MAX)).unwrap();
    for row in &rows {
        let Some(error) = row.plan_error else { continue };
        // It knows only whether it is ahead, and swings about its plan.
        let (error_max, used_min) = if row.strategy == "feedback" { (0.05, 0.95) } else { (0.01, 0.99) };
        assert!(error < error_max, "{}: {error}", row.strategy);
        assert!(row.utilisation() > used_min, "{}: {}", row.strategy, row.utilisation());
    }
}

/// The table of `docs/results/2026-11-28-devbox/pacer-strategies.md`.
#[test]
fn the_table_of_seed_1() {
    let mut campaigns: Vec<_> = [4_000_000, 40_000_000, 160_000_000]
        .iter()
        .flat_map(|budget| one_of_each(BudgetMicros(*budget), PRICE_MAX))
        .collect();
    let parameters = BTreeMap::from([("average_price_permille".into(), 200)]);
    let strategy = StrategyChoice { name: "minimum_pacing".into(), parameters };
    campaigns.push(Campaign { strategy, budget: BudgetMicros(160_000_000), price_max: PRICE_MAX });
    let rows = run(&Market::new(1), &campaigns).unwrap();
    expect![[r#"
        | strategy             | budget | overspend | used % | RMSE day | RMSE plan |   CPM | impressions | 95 % at |
        |---|---:|---:|---:|---:|---:|---:|---:|---:|
        | as_fast_as_possible  |   4.00 |      0.00 |  99.93 |    68.52 |         - | 0.963 |        4152 |   00:31 |
        | even                 |   4.00 |      0.00 |  98.87 |    14.33 |      0.09 | 1.032 |        3833 |   22:48 |
        | traffic_shaped       |   4.00 |      0.00 |  99.06 |     0.08 |      0.08 | 1.106 |        3584 |   22:46 |
        | feedback             |   4.00 |      0.00 |  99.93 |     1.98 |      1.98 | 1.101 |        3632 |   22:23 |
        | slot_rate            |   4.00 |      0.00 |  99.09 |     0.86 |      0.86 | 1.103 |        3592 |   22:44 |
        | pid                  |   4.00 |      0.00 |  99.08 |     0.08 |      0.08 | 1.110 |        3572 |   22:46 |
        | adaptive_dual        |   4.00 |      0.00 |  98.78 |     1.27 |      1.27 | 0.185 |       21369 |   22:44 |
        | minimum_pacing       |   4.00 |      0.00 |  98.78 |     1.27 |      1.27 | 0.185 |       21369 |   22:44 |
        | as_fast_as_possible  |  40.00 |      0.00 |  99.99 |    49.32 |         - | 0.897 |       44568 |   08:15 |
        | even                 |  40.00 |      0.00 |  98.73 |    14.32 |      0.09 | 1.031 |       38313 |   22:48 |
        | traffic_shaped       |  40.00 |      0.00 |  98.91 |     0.08 |      0.08 | 1.109 |       35670 |   22:48 |
        | feedback             |  40.00 |      0.00 |  99.99 |     1.87 |      1.87 | 1.118 |       35766 |   22:39 |
        | slot_rate            |  40.00 |      0.00 |  98.91 |     0.19 |      0.19 | 1.110 |       35656 |   22:48 |
        | pid                  |  40.00 |      0.00 |  98.92 |     0.08 |      0.08 | 1.108 |       35697 |   22:47 |
        | adaptive_dual        |  40.00 |      0.00 |  98.68 |     0.66 |      0.66 | 0.415 |       95066 |   22:46 |
        | minimum_pacing       |  40.00 |      0.00 |  98.68 |     0.66 |      0.66 | 0.415 |       95066 |   22:46 |
        | as_fast_as_possible  | 160.00 |      0.00 | 100.00 |    22.66 |         - | 1.101 |      145366 |   16:18 |
        | even                 | 160.00 |      0.00 |  98.72 |    11.70 |      5.14 | 1.070 |      147650 |   22:48 |
        | traffic_shaped       | 160.00 |      0.00 |  98.90 |     0.08 |      0.08 | 1.109 |      142668 |   22:48 |
        | feedback             | 160.00 |      0.00 |  99.99 |     1.91 |      1.91 | 1.111 |      144030 |   22:54 |
        | slot_rate            | 160.00 |      0.00 |  98.92 |     0.16 |      0.16 | 1.110 |      142555 |   22:47 |
        | pid                  | 160.00 |      0.00 |  98.90 |     0.08 |      0.08 | 1.109 |      142714 |   22:47 |
        | adaptive_dual        | 160.00 |      0.00 |  98.48 |     0.44 |      0.44 | 0.732 |      215276 |   22:49 |
        | minimum_pacing       | 160.00 |      0.00 |  98.48 |     0.44 |      0.44 | 0.732 |      215276 |   22:49 |
        | minimum_pacing (200) | 160.00 |      0.00 |  68.56 |    17.91 |     17.91 | 0.591 |      185744 |       - |
    "#]]
    .assert_eq(&Table(&rows).to_string());
}

/// What the market of seed 1 is like: requests and the median of the other bids for each hour, and the longest time
/// without a request.
#[test]
fn the_market_of_seed_1() {
    let auctions = Auctions::of(&Market::new(1));
    let mut lines = String::new();
    for hour in 0..24 {
        let seconds = hour * 3_600..(hour + 1) * 3_600;
        let mut bids: Vec<_> =
            seconds.flat_map(|second| auctions.in_second(second)).map(|auction| auction.other_bid).collect();
        bids.sort_unstable();
        lines += &format!("{hour:>2}:00 {:>6} requests, median {:>5}\n", bids.len(), bids[bids.len() / 2]);
    }
    let busy: Vec<_> = (0..86_400).filter(|second| !auctions.in_second(*second).is_empty()).collect();
    let silence = busy.windows(2).map(|pair| (pair[1] - pair[0], pair[0])).max().unwrap();
    lines += &format!(
        "longest silence: {} s, from second {}; last request in second {}",
        silence.0,
        silence.1,
        busy[busy.len() - 1]
    );
    expect![[r#"
         0:00   7730 requests, median   837
         1:00   4549 requests, median   735
         2:00   3350 requests, median   729
         3:00   3138 requests, median   696
         4:00   5871 requests, median   690
         5:00   5191 requests, median   697
         6:00   5739 requests, median   777
         7:00   8292 requests, median   873
         8:00  12909 requests, median   936
         9:00  14756 requests, median   995
        10:00  14715 requests, median  1628
        11:00  14069 requests, median  2936
        12:00  18238 requests, median  2600
        13:00  15944 requests, median  1087
        14:00  17810 requests, median  1048
        15:00  14444 requests, median  1040
        16:00  16810 requests, median  1066
        17:00  43823 requests, median  1105
        18:00  20787 requests, median  1211
        19:00  30662 requests, median  1291
        20:00  38071 requests, median  1315
        21:00  44349 requests, median   977
        22:00  30881 requests, median   726
        23:00   8069 requests, median   784
        longest silence: 6 s, from second 16225; last request in second 85297"#]]
    .assert_eq(&lines);
}
