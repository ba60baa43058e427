//! Backtest of all pacing strategies on one synthetic market.
//!
//! ```text
//! cargo run -p tidegate-pacer --example backtest -- [SEED] [SVG]
//! ```
//!
//! It prints the table for three budgets, a hundredth, a tenth and two fifths of what the market could take, and draws
//! the curves of plan and actual spending of the middle one into a file.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tidegate_pacer::backtest::{Market, Table, one_of_each, run, svg};
use tidegate_pacer::units::{BudgetMicros, PriceMicros};

const BUDGETS: [BudgetMicros; 3] = [BudgetMicros(4_000_000), BudgetMicros(40_000_000), BudgetMicros(160_000_000)];
const PRICE_MAX: PriceMicros = PriceMicros(3_000);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse()).context("the seed is a number")?;
    let path = arguments.next().map(PathBuf::from);
    ensure!(arguments.next().is_none(), "usage: backtest [SEED] [SVG]");

    let campaigns: Vec<_> = BUDGETS.iter().flat_map(|budget| one_of_each(*budget, PRICE_MAX)).collect();
    let rows = run(&Market::new(seed), &campaigns)?;
    print!("{}", Table(&rows));
    if let Some(path) = path {
        let title =
            format!("Spent (blue) and planned (dashed), seed {seed}, a budget of {:.0}", BUDGETS[1].0 as f64 / 1e6);
        let drawn: Vec<_> = rows.into_iter().filter(|row| row.budget == BUDGETS[1]).collect();
        std::fs::write(&path, svg(&title, &drawn)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
