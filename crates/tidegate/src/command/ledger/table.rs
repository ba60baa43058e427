//! Answers as tables for people, or as they are for programs.

use std::io::Write;

use serde_json::Value;

use super::Output;
use super::door::Failure;

/// The columns of a kind of answer, by the names of its fields, with the width that each has at least: where rows come
/// one by one, that keeps most of them in line.
#[derive(Clone, Copy)]
pub struct Columns(&'static [(&'static str, usize)]);

impl Columns {
    /// An account.
    pub const ACCOUNT: Columns =
        Columns(&[("id", 0), ("asset", 0), ("kind", 0), ("balance", 0), ("held", 0), ("available", 0)]);
    /// An account with what was set on it.
    pub const SETTINGS: Columns = Columns(&[
        ("id", 0),
        ("status", 0),
        ("balance", 0),
        ("held", 0),
        ("balance_min", 0),
        ("balance_max", 0),
        ("revision", 0),
        ("metadata", 0),
    ]);
    /// A transfer as it was decided.
    pub const TRANSFER: Columns = Columns(&[
        ("id", 0),
        ("outcome", 0),
        ("refusal", 0),
        ("debit", 0),
        ("credit", 0),
        ("amount", 0),
        ("time_ms", 0),
        ("memo", 0),
    ]);
    /// A hold as it is.
    pub const HOLD: Columns = Columns(&[
        ("id", 0),
        ("state", 0),
        ("debit", 0),
        ("credit", 0),
        ("amount", 0),
        ("remaining", 0),
        ("time_ms", 0),
        ("expires_at_ms", 0),
        ("memo", 0),
    ]);
    /// An asset.
    pub const ASSET: Columns = Columns(&[("name", 0), ("decimals", 0), ("declared", 0), ("issued", 0), ("held", 0)]);
    /// A balance at a time.
    pub const BALANCE_AT: Columns =
        Columns(&[("id", 0), ("asset", 0), ("kind", 0), ("balance", 0), ("last_id", 0), ("last_time_ms", 0)]);
    /// A row of a history.
    pub const HISTORY: Columns = Columns(&[
        ("time_ms", 0),
        ("kind", 8),
        ("id", 0),
        ("debit", 0),
        ("credit", 0),
        ("amount", 0),
        ("balance_after", 0),
        ("memo", 0),
    ]);
    /// An outcome.
    pub const OUTCOME: Columns = Columns(&[("id", 0), ("outcome", 0), ("code", 0)]);
    /// A change.
    pub const CHANGE: Columns = Columns(&[
        ("sequence", 10),
        ("time_ms", 24),
        ("kind", 15),
        ("id", 20),
        ("account", 0),
        ("debit", 16),
        ("credit", 16),
        ("amount", 10),
        ("refusal", 0),
    ]);
}

/// Where answers go.
#[derive(Clone, Copy)]
pub struct Shown {
    output: Output,
}

impl Shown {
    /// Shows in this way.
    pub fn new(output: Output) -> Shown {
        Shown { output }
    }

    /// One answer. That nobody reads it is no failure of what was done.
    pub fn one(&self, columns: Columns, answer: &Value) {
        let _ = self.rows(columns, std::slice::from_ref(answer), true);
    }

    /// Rows; a head above them if they are the first.
    pub fn rows(&self, columns: Columns, rows: &[Value], with_head: bool) -> Result<(), Failure> {
        let text = match self.output {
            Output::Json => rows.iter().map(|row| format!("{row}\n")).collect(),
            Output::Table => table(columns, rows, with_head),
        };
        print(&text)
    }
}

/// Prints, and says when whoever reads has gone.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|_| Failure::NobodyReads)
}

fn table(Columns(names): Columns, rows: &[Value], with_head: bool) -> String {
    let head: Vec<String> = names.iter().map(|(name, _)| name.to_string()).collect();
    let cells = rows.iter().map(|row| names.iter().map(|(name, _)| cell(name, &row[*name])).collect());
    let cells: Vec<Vec<String>> = cells.collect();
    let is_number = |column: usize| {
        let name = names[column].0;
        !is_time(name) && rows.iter().any(|row| row[name].is_number())
    };
    let width = |column: usize| {
        let texts = std::iter::once(&head).chain(&cells).map(|row| row[column].chars().count());
        texts.max().unwrap_or(0).max(names[column].1)
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let mut text = String::new();
    let heads = if with_head { Some(&head) } else { None };
    for row in heads.into_iter().chain(&cells) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let separator = if column == 0 { "" } else { "  " };
            let padded = if is_number(column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            line.push_str(separator);
            line.push_str(&padded);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A value in a table. What an id or memo may hold besides, no terminal shall obey.
fn cell(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Number(number) if is_time(name) => number.as_u64().map_or_else(String::new, time),
        Value::String(text) => text.chars().map(|sign| if sign.is_control() { '\u{fffd}' } else { sign }).collect(),
        other => other.to_string(),
    }
}

fn is_time(name: &str) -> bool {
    name.ends_with("time_ms") || name.ends_with("_at_ms")
}

fn time(epoch_ms: u64) -> String {
    let seconds = tidegate_doors::http::time::rfc3339(epoch_ms / 1_000);
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), epoch_ms % 1_000)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_stand_under_their_heads() {
        let rows = [
            json!({"id": "wallet:dave", "asset": "credit", "kind": "wallet", "balance": 7, "held": 0, "available": 7}),
            json!({"id": "x\u{1b}[2J", "asset": "credit", "kind": "source", "balance": -123, "held": 10}),
        ];
        let expected = "\
id           asset   kind    balance  held  available
wallet:dave  credit  wallet        7     0          7
x\u{fffd}[2J        credit  source     -123    10          -
";
        assert_eq!(table(Columns::ACCOUNT, &rows, true), expected);
        let row = json!({"time_ms": 1_795_252_489_007u64, "kind": "transfer", "id": "t", "debit": "a", "credit": "b",
                         "amount": 1, "balance_after": 2});
        let line = "2026-11-21T09:14:49.007Z  transfer  t   a      b            1              2  -\n";
        assert_eq!(table(Columns::HISTORY, &[row], false), line);
    }
}
