//! Histories by time: the rows of a span, and the last row up to a time.
//!
//! ```text
//!   newest ─▶ rows after the span: passed ─▶ rows of the span: given ─▶ a row before it: the end
//!                └─ 50 pages, or the caller's requests are used up: `next`, from where another request goes on
//! ```
//!
//! Promise: a request costs a bounded number of pages, however long the history, and says where to go on. Its caller is
//! charged for the rows that were read, and pages that look at many rows are read in turn by caller. Why not an
//! index by time: histories are chains from the newest row back, and nearly all questions are about yesterday. What is
//! far back costs a thousand rows a page; `docs/decisions/0014-changes.md` has the figures and the way to an index.

use axum::http::StatusCode;
use tidegate_ledger::message::{Reply, Request, TimeSpan};
use tidegate_machines::ledger::HistoryRow;

use super::backend::Backend;
use super::limits::{CLOCKS_DIFFER_MS_MAX, HISTORY_PAGES_BACK_MAX, SMALL_PAGE_ROWS_MAX};
use super::room::Ledger;
use crate::auth::Identity;
use crate::http::time::{now_ms, rfc3339};
use crate::http::time_ms;
use crate::json::{Problem, ProblemCode, codes};
use crate::ledger_json::DAMAGED;

/// A time is further back than one request goes.
pub const HISTORY_TOO_LONG: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "history_too_long");

/// A time is still to come.
pub const TIME_TO_COME: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "time_to_come");

/// The span of time that the parameters of a query say; what is absent is no bound.
pub fn span(from: Option<&str>, to: Option<&str>) -> Result<TimeSpan, Problem> {
    let from_ms = from.map(|text| parse("from_time", text)).transpose()?;
    let to_ms = to.map(|text| parse("to_time", text)).transpose()?;
    TimeSpan::new(from_ms, to_ms).ok_or_else(|| {
        let detail = "from_time is later than to_time: no row can be of that time";
        Problem::new(codes::QUERY_INVALID, detail).with("field", "from_time")
    })
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

/// Rows of a history, newest first.
pub struct Page {
    /// Rows of the times that were asked for.
    pub rows: Vec<HistoryRow>,
    /// Where to go on; `None` when there are no more.
    pub next: Option<Box<str>>,
    /// What was held after the first row; with no row, where the next page begins. Unknown behind a cursor of an
    /// earlier version.
    pub held: Option<u64>,
    /// Rows that were read for it.
    rows_read: usize,
}

/// A page of at most `limit` rows of `times`, from `before` on.
pub async fn page<B: Backend>(
    ledger: &Ledger<B>,
    caller: &Identity,
    account: &str,
    before: Option<Box<str>>,
    limit: u32,
    times: TimeSpan,
) -> Result<Page, Problem> {
    let mut page = Page { rows: Vec::new(), next: before, held: None, rows_read: 0 };
    for _ in 0..HISTORY_PAGES_BACK_MAX {
        let left = limit - page.rows.len() as u32;
        let found = read(ledger, caller, account, page.next.take(), left, times).await?;
        ledger.door.take_turns_of_rows(caller, found.rows_read.saturating_sub(found.rows.len())).await;
        page.rows_read += found.rows_read;
        if page.rows.is_empty() {
            page.held = found.held;
        }
        page.rows.extend(found.rows);
        page.next = found.next;
        if page.next.is_none() || page.rows.len() == limit as usize || caller.owes() {
            break;
        }
    }
    Ok(page)
}

/// The newest row of `at_ms` or earlier, looked for from `before` on, if the account has one, and what was held then.
pub async fn last_row<B: Backend>(
    ledger: &Ledger<B>,
    caller: &Identity,
    account: &str,
    before: Option<Box<str>>,
    at_ms: u64,
) -> Result<(Option<HistoryRow>, Option<u64>), Problem> {
    let times = TimeSpan::new(None, Some(at_ms)).expect("it has no beginning");
    let found = page(ledger, caller, account, before, 1, times).await;
    let Page { mut rows, next, held, rows_read } = found.map_err(|problem| untold(problem, account, at_ms))?;
    match (rows.pop(), next) {
        (None, Some(next)) => {
            let detail = format!(
                "{rows_read} rows were looked at, and all are later; ask again with before = the `next` of this answer"
            );
            Err(Problem::new(HISTORY_TOO_LONG, detail).with("next", &*next))
        }
        (last, _) => Ok((last, held)),
    }
}

/// Says of which question a part of the history cannot be read.
fn untold(problem: Problem, account: &str, at_ms: u64) -> Problem {
    if problem.code().name() != DAMAGED {
        return problem;
    }
    let asked = format!("the balance of {account:?} at {} needs its history of then", rfc3339(at_ms / 1_000));
    let detail = format!("{asked}: {}. Its balance of now is known: ask without `at`", problem.detail());
    problem.with_detail(detail)
}

async fn read<B: Backend>(
    ledger: &Ledger<B>,
    caller: &Identity,
    account: &str,
    before: Option<Box<str>>,
    limit: u32,
    times: TimeSpan,
) -> Result<Page, Problem> {
    let is_large = limit > SMALL_PAGE_ROWS_MAX || (before.is_some() && !times.is_all());
    let _place = if is_large { Some(ledger.door.place_to_walk(caller).await?) } else { None };
    match ledger.ask_for(caller, Request::ReadHistory { id: account.into(), before, limit, times }).await? {
        Reply::History { rows, next, held, rows_read } => Ok(Page { rows, next, held, rows_read }),
        Reply::Refused(refusal) => Err(Problem::from(refusal).with("id", account)),
        _ => Err(Problem::unexpected_reply()),
    }
}
