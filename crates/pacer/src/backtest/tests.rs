//! No strategy ever spends more than it has, and what each does on the market of seed 1.

use expect_test::expect;

use super::*;

const PRICE_MAX: PriceMicros = PriceMicros(3_000);

/// Small, so that many can be tried.
fn small(seed: u64) -> Market {
    Market { requests: 20_000, late_permille: 50, silent_permille: 100, ..Market::new(seed) }
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
    let broken = Market { reserved_s: 5, delay_s: 50, ..small(1) };
    let rows = run(&broken, &one_of_each(BudgetMicros(100_000), PRICE_MAX)).unwrap();
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
    expect![""].assert_eq(&run(&small(1), &campaigns).unwrap_err().to_string());
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
        assert!(error < 0.02, "{}: {error}", row.strategy);
        if row.strategy != "minimum_pacing" {
            assert!(row.utilisation() > 0.98, "{}: {}", row.strategy, row.utilisation());
        }
    }
}

/// The table of `docs/results/2026-11-28-devbox/pacer-strategies.md`.
#[test]
fn the_table_of_seed_1() {
    let campaigns: Vec<_> = [4_000_000, 40_000_000, 160_000_000]
        .iter()
        .flat_map(|budget| one_of_each(BudgetMicros(*budget), PRICE_MAX))
        .collect();
    let rows = run(&Market::new(1), &campaigns).unwrap();
    expect![""].assert_eq(&Table(&rows).to_string());
}
