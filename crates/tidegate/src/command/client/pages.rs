//! Lists that come in pages: asked for one after the other, and shown as they come.

use super::door::Door;
use super::failure::Failure;
use super::table::{Columns, Shown};

/// Rows of one page; the most that the server gives.
const PAGE_ROWS: u64 = 1_000;

/// Shows the rows of all pages, `limit` at most. `path` gives the address of the page behind a cursor.
pub fn show(
    door: &Door,
    shown: &Shown,
    columns: Columns,
    rows: &str,
    limit: Option<u64>,
    path: impl Fn(Option<&str>, &str) -> String,
) -> Result<(), Failure> {
    let mut left = limit.unwrap_or(u64::MAX);
    let mut next: Option<String> = None;
    let mut is_first = true;
    while left > 0 {
        let page = door.get(&path(next.as_deref(), &left.min(PAGE_ROWS).to_string()))?;
        let found = page[rows].as_array().map(Vec::as_slice).unwrap_or_default();
        shown.rows(columns, found, is_first)?;
        is_first = false;
        left = left.saturating_sub(found.len() as u64);
        match page["next"].as_str() {
            Some(cursor) => next = Some(cursor.to_owned()),
            None => break,
        }
    }
    Ok(())
}
