//! The rows as a table that can be read and compared.

use std::fmt;

use super::Row;

/// Rows, to be shown as a table in Markdown. Money is in units of the currency, prices are for a thousand impressions.
pub struct Table<'a>(pub &'a [Row]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| strategy            |  budget | overspend | utilisation % | RMSE of the day % | RMSE of its plan % |   CPM \
             | impressions | 95 % spent at |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|---:|---:|")?;
        self.0.iter().try_for_each(|row| line(f, row))
    }
}

fn line(f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
    let plan_error = row.plan_error.map_or_else(|| "-".to_owned(), |error| format!("{:.2}", error * 100.0));
    writeln!(
        f,
        "| {:<19} | {:>7.2} | {:>9.2} | {:>13.2} | {:>17.2} | {:>18} | {:>5.3} | {:>11} | {:>13} |",
        row.strategy,
        row.budget.0 as f64 / 1e6,
        row.overspend.0 as f64 / 1e6,
        row.utilisation() * 100.0,
        row.day_error * 100.0,
        plan_error,
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
