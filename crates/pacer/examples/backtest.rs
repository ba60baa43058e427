//! Backtest of all pacing strategies on one synthetic market.
//!
//! ```text
//! cargo run -p tidegate-pacer --example backtest -- [SEED] [SVG]
//! ```
//!
//! It prints a table for three budgets, 1 %, 11 % and 44 % of what the whole market would cost, and the worst of twenty
//! other markets; and draws the curves of plan and actual spending of the middle one into a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tidegate_pacer::backtest::{Campaign, Market, Row, Table, one_of_each, run, svg};
use tidegate_pacer::plan::StrategyChoice;
use tidegate_pacer::units::{BudgetMicros, PriceMicros};

const BUDGETS: [BudgetMicros; 3] = [BudgetMicros(4_000_000), BudgetMicros(40_000_000), BudgetMicros(160_000_000)];
const PRICE_MAX: PriceMicros = PriceMicros(3_000);
/// The others that are tried.
const SEEDS: std::ops::RangeInclusive<u64> = 2..=21;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse()).context("the seed is a number")?;
    let path = arguments.next().map(PathBuf::from);
    ensure!(arguments.next().is_none(), "usage: backtest [SEED] [SVG]");

    let mut campaigns: Vec<_> = BUDGETS.iter().flat_map(|budget| one_of_each(*budget, PRICE_MAX)).collect();
    campaigns.push(with_a_goal_for_the_price());
    let rows = run(&Market::new(seed), &campaigns)?;
    print!("{}", Table(&rows));
    println!("\nOf seeds {} to {}, the worst:\n", SEEDS.start(), SEEDS.end());
    print_worst()?;
    if let Some(path) = path {
        let middle = BUDGETS[1];
        let title = format!("Spent (blue) and planned (dashed), seed {seed}, budget {}", middle.0 / 1_000_000);
        let drawn: Vec<_> = rows.into_iter().filter(|row| row.budget == middle).collect();
        std::fs::write(&path, svg(&title, &drawn)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A goal that binds before the budget does: a CPM of 0.60.
fn with_a_goal_for_the_price() -> Campaign {
    let parameters = BTreeMap::from([("average_price_permille".into(), 200)]);
    let strategy = StrategyChoice { name: "minimum_pacing".into(), parameters };
    Campaign { strategy, budget: BUDGETS[2], price_max: PRICE_MAX }
}

fn print_worst() -> Result<()> {
    let campaigns = one_of_each(BUDGETS[1], PRICE_MAX);
    let markets: Vec<Vec<Row>> = SEEDS.map(|seed| run(&Market::new(seed), &campaigns)).collect::<Result<_, _>>()?;
    println!("| strategy            | overspend | used % | RMSE day | RMSE plan |");
    println!("|---|---:|---:|---:|---:|");
    for at in 0..campaigns.len() {
        let rows = || markets.iter().map(|rows| &rows[at]);
        let most = |of: fn(&Row) -> f64| rows().map(of).fold(0.0, f64::max);
        println!(
            "| {:<19} | {:>9.2} | {:>6.2} | {:>8.2} | {:>9} |",
            markets[0][at].strategy,
            most(|row| row.overspend.0 as f64 / 1e6),
            100.0 - most(|row| (1.0 - row.utilisation()) * 100.0),
            most(|row| row.day_error * 100.0),
            markets[0][at]
                .plan_error
                .map_or("-".to_owned(), |_| { format!("{:.2}", most(|row| row.plan_error.unwrap_or(0.0) * 100.0)) }),
        );
    }
    Ok(())
}
