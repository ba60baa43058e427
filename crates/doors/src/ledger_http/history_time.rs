//! Histories by time: the rows of a span, and the last row up to a time.
//!
//! ```text
//!   newest ─▶ rows after the span: passed ─▶ rows of the span: given ─▶ a row before it: the end
//!                └─ 50 pages, and still none: `next`, from where another request goes on
//! ```
//!
//! Promise: a request costs a bounded number of pages, however long the history, and says where to go on. Why not an
//! index by time: histories are chains from the newest row back, and nearly all questions are about yesterday. What is
//! far back costs a thousand rows a page; `docs/decisions/0014-changes.md` has the figures and the way to an index.

use axum::http::StatusCode;
use tidegate_ledger::message::{Reply, Request};
use tidegate_machines::ledger::HistoryRow;

use super::backend::Backend;
use super::limits::{CLOCKS_DIFFER_MS_MAX, HISTORY_PAGES_BACK_MAX, HISTORY_TIME_SLACK_MS, PAGE_ROWS_MAX};
use super::room::Ledger;
use crate::auth::Identity;
use crate::http::time::{now_ms, rfc3339};
use crate::http::time_ms;
use crate::json::{Problem, ProblemCode, codes};

/// A time is further back than one request goes.
pub const HISTORY_TOO_LONG: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "history_too_long");

/// A time is still to come.
pub const TIME_TO_COME: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "time_to_come");

/// A span of time, both ends included, in milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    from_ms: u64,
    to_ms: u64,
}

impl Times {
    /// From the parameters of a query; what is absent is no bound.
    pub fn parse(from: Option<&str>, to: Option<&str>) -> Result<Times, Problem> {
        let from_ms = from.map_or(Ok(0), |text| parse("from_time", text))?;
        let to_ms = to.map_or(Ok(u64::MAX), |text| parse("to_time", text))?;
        if from_ms > to_ms {
            let detail = "from_time is later than to_time: no row can be of that time";
            return Err(Problem::new(codes::QUERY_INVALID, detail).with("field", "from_time"));
        }
        Ok(Times { from_ms, to_ms })
    }

    /// Whether there is no bound.
    pub fn are_all(&self) -> bool {
        (self.from_ms, self.to_ms) == (0, u64::MAX)
    }

    /// Whether the row is of this span.
    pub fn contain(&self, row: &HistoryRow) -> bool {
        (self.from_ms..=self.to_ms).contains(&row.time_ms)
    }

    /// Whether no row behind this one, further back, is of this span.
    pub fn end_before(&self, row: &HistoryRow) -> bool {
        row.time_ms.saturating_add(HISTORY_TIME_SLACK_MS) < self.from_ms
    }
}

/// The time that a query parameter says.
pub fn parse(field: &'static str, text: &str) -> Result<u64, Problem> {
    time_ms(text).ok_or_else(|| {
        let detail = format!(
            "{field} = {text:?}: expected a time such as 2026-11-21T09:14:49Z, or milliseconds since 1970 as a number"
        );
        Problem::new(codes::QUERY_INVALID, detail).with("field", field)
    })
}

/// Whether a time is still to come, by this host's clock or the newest row up to it. One that the clock of another host
/// may already show is answered, with that sign; one that is further away is refused.
pub fn is_to_come(at_ms: u64, newest: Option<&HistoryRow>) -> Result<bool, Problem> {
    let now_ms = now_ms();
    if at_ms <= newest.map_or(0, |row| row.time_ms).max(now_ms) {
        return Ok(false);
    }
    if at_ms - now_ms <= CLOCKS_DIFFER_MS_MAX {
        return Ok(true);
    }
    let detail = format!(
        "at = {}: this time is still to come, and nobody knows the balance of then; this server's clock says {}",
        rfc3339(at_ms / 1_000),
        rfc3339(now_ms / 1_000)
    );
    Err(Problem::new(TIME_TO_COME, detail).with("field", "at"))
}

/// A page of at most `limit` rows of `times`, from `before` on, and where to go on; `None` when there are no more.
pub async fn page<B: Backend>(
    ledger: &Ledger<B>,
    caller: &Identity,
    account: &str,
    mut before: Option<Box<str>>,
    limit: u32,
    times: Times,
) -> Result<(Vec<HistoryRow>, Option<Box<str>>), Problem> {
    let mut rows: Vec<HistoryRow> = Vec::new();
    let limit = limit as usize;
    for _ in 0..HISTORY_PAGES_BACK_MAX {
        let (found, next) = read(ledger, caller, account, before.clone(), PAGE_ROWS_MAX).await?;
        let length = found.len();
        for (place, row) in found.into_iter().enumerate() {
            if times.end_before(&row) {
                return Ok((rows, None));
            }
            if times.contain(&row) {
                rows.push(row);
            }
            if rows.len() == limit && place + 1 < length {
                // The cursor behind a row in the middle: the same page again, as long as it was used.
                let (_, next) = read(ledger, caller, account, before, place as u32 + 1).await?;
                return Ok((rows, next));
            }
        }
        if next.is_none() || rows.len() == limit {
            return Ok((rows, next));
        }
        before = next;
    }
    Ok((rows, before))
}

/// The newest row of `at_ms` or earlier, looked for from `before` on; `None` if the account has none.
pub async fn last_row<B: Backend>(
    ledger: &Ledger<B>,
    caller: &Identity,
    account: &str,
    before: Option<Box<str>>,
    at_ms: u64,
) -> Result<Option<HistoryRow>, Problem> {
    let times = Times { from_ms: 0, to_ms: at_ms };
    let (mut rows, next) = page(ledger, caller, account, before, 1, times).await?;
    match (rows.pop(), next) {
        (Some(row), _) => Ok(Some(row)),
        (None, None) => Ok(None),
        (None, Some(next)) => {
            let rows = HISTORY_PAGES_BACK_MAX as u32 * PAGE_ROWS_MAX;
            let detail =
                format!("the last {rows} rows are all later; ask again with before = the `next` of this answer");
            Err(Problem::new(HISTORY_TOO_LONG, detail).with("next", &*next))
        }
    }
}

async fn read<B: Backend>(
    ledger: &Ledger<B>,
    caller: &Identity,
    account: &str,
    before: Option<Box<str>>,
    limit: u32,
) -> Result<(Vec<HistoryRow>, Option<Box<str>>), Problem> {
    match ledger.ask_for(caller, Request::ReadHistory { id: account.into(), before, limit }).await? {
        Reply::History { rows, next } => Ok((rows, next)),
        Reply::Refused(refusal) => Err(Problem::from(refusal).with("id", account)),
        _ => Err(Problem::unexpected_reply()),
    }
}
