//! The rows as a table that can be read and compared.

use std::fmt;

use super::Row;

/// Rows, to be shown as a table in Markdown. Money is in units of the currency, prices are for a thousand impressions.
/// RMSE is in hundredths of the budget. What a strategy was told stands in brackets behind its name.
pub struct Table<'a>(pub &'a [Row]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {:<20} | budget | overspend | used % | RMSE day | RMSE plan ", "strategy")?;
        writeln!(f, "|   CPM | impressions | 95 % at |")?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|---:|---:|")?;
        self.0.iter().try_for_each(|row| line(f, row))
    }
}

fn line(f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
    let told: Vec<_> = row.parameters.values().map(i64::to_string).collect();
    let told = if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) };
    let plan_error = row.plan_error.map_or_else(|| "-".to_owned(), |error| format!("{:.2}", error * 100.0));
    writeln!(
        f,
        "| {:<20} | {:>6.2} | {:>9.2} | {:>6.2} | {:>8.2} | {plan_error:>9} | {:>5.3} | {:>11} | {:>7} |",
        format!("{}{told}", row.strategy),
        row.budget.0 as f64 / 1e6,
        row.overspend.0 as f64 / 1e6,
        row.utilisation() * 100.0,
        row.day_error * 100.0,
        row.average_price() / 1e3,
        row.impressions.0,
        spent_at(row),
    )
}

/// When nineteen twentieths of the budget were spent.
fn spent_at(row: &Row) -> String {
    let minute = row.curve.iter().position(|spent| spent.0 >= row.budget.0 / 20 * 19);
    minute.map_or_else(|| "-".to_owned(), |minute| format!("{:02}:{:02}", minute / 60, minute % 60))
}
