//! Histories by time: the rows of a span, and the balance of a time.
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
use tidegate_ledger::message::{BalanceAt, Reply, Request, TimeSpan};
use tidegate_machines::TimeMs;
use tidegate_machines::ledger::{HistoryRow, Mend};

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

/// Nobody can tell what an account had at a time, because the clock was wrong.
pub const TIME_UNCERTAIN: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "time_uncertain");

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

/// Whether a time is still to come, by this host's clock or by when the newest row up to it was written. One that the
/// clock of another host may already show is answered, with that sign; one that is further away is refused.
pub fn is_to_come(at_ms: u64, written_by: TimeMs) -> Result<bool, Problem> {
    let now_ms = now_ms();
    if at_ms <= written_by.0.max(now_ms) {
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
    let mut page = Page { rows: Vec::new(), next: before, rows_read: 0 };
    for _ in 0..HISTORY_PAGES_BACK_MAX {
        let left = limit - page.rows.len() as u32;
        let found = read(ledger, caller, account, page.next.take(), left, times).await?;
        ledger.door.take_turns_of_rows(caller, found.rows_read.saturating_sub(found.rows.len())).await;
        page.rows_read += found.rows_read;
        page.rows.extend(found.rows);
        page.next = found.next;
        if page.next.is_none() || page.rows.len() == limit as usize || caller.owes() {
            break;
        }
    }
    Ok(page)
}

/// What an account had at a time.
pub struct Then {
    /// The last row that was written by then, if there is one, with the balance after it.
    pub last: Option<Box<HistoryRow>>,
    /// When that row was written at the latest.
    pub written_by: TimeMs,
    /// What was held then; unknown behind a cursor of an earlier version.
    pub held: Option<u64>,
}

/// What `account` had at `at_ms`, looked for from `before` on.
pub async fn balance_at<B: Backend>(
    ledger: &Ledger<B>,
    caller: &Identity,
    account: &str,
    mut before: Option<Box<str>>,
    at_ms: u64,
) -> Result<Then, Problem> {
    let mut looked_at = 0;
    for _ in 0..HISTORY_PAGES_BACK_MAX {
        let _place = if before.is_some() { Some(ledger.door.place_to_walk(caller).await?) } else { None };
        let request = Request::ReadBalanceAt { id: account.into(), at: TimeMs(at_ms), before };
        let (found, rows_read) = match ledger.ask_for(caller, request).await? {
            Reply::BalanceAt { found, rows_read } => (found, rows_read),
            Reply::Refused(refusal) => return Err(untold(Problem::from(refusal).with("id", account), account, at_ms)),
            _ => return Err(Problem::unexpected_reply()),
        };
        ledger.door.take_turns_of_rows(caller, rows_read).await;
        looked_at += rows_read;
        let next = match found {
            BalanceAt::Known { last, written_by, held } => return Ok(Then { last, written_by, held }),
            BalanceAt::Untold { mend, until } => return Err(uncertain(account, at_ms, mend, until)),
            BalanceAt::Further { next } => next,
        };
        if caller.owes() {
            return Err(too_long(looked_at, &next));
        }
        before = Some(next);
    }
    Err(too_long(looked_at, &before.expect("each page but the last one says where to go on")))
}

fn too_long(rows: usize, next: &str) -> Problem {
    let detail =
        format!("{rows} rows were looked at, and all are later; ask again with before = the `next` of this answer");
    Problem::new(HISTORY_TOO_LONG, detail).with("next", next)
}

/// Nobody can tell, because of `mend`; up to the time `until`, and from that of the mend on, one can.
fn uncertain(account: &str, at_ms: u64, mend: Mend, until: Option<TimeMs>) -> Problem {
    let (asked, was, to) = (exact(at_ms), exact(mend.was.0), exact(mend.to.0));
    let earlier = until.map_or_else(String::new, |until| format!("up to {}, or ", exact(until.0)));
    let detail = format!(
        "nobody can tell the balance of {account:?} at {asked}: a row that may be of before or behind it was written \
         by a wrong clock, until the time was mended from {was} to {to} (sequence {}). Ask for a time {earlier}from \
         {to} on; without `at`, for the balance of now",
        mend.sequence.0
    );
    Problem::new(TIME_UNCERTAIN, detail).with("field", "at")
}

/// A time with its milliseconds: rows of one second are told apart by them.
fn exact(ms: u64) -> String {
    let seconds = rfc3339(ms / 1_000);
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), ms % 1_000)
}

/// An error if what `then` says may be wrong, because rows that came later are of a time that is still to come: the
/// clock was ahead when they were written, and nobody has mended the time yet. When they were really written is not
/// known, but that it was behind the newest row that is not of them.
pub async fn check_not_ahead<B: Backend>(
    ledger: &Ledger<B>,
    caller: &Identity,
    account: &str,
    at_ms: u64,
    then: &Then,
) -> Result<(), Problem> {
    // They came behind that one.
    if then.last.as_ref().is_some_and(|last| last.time_ms == at_ms) {
        return Ok(());
    }
    let newest = read(ledger, caller, account, None, 1, TimeSpan::ALL).await?.rows.pop();
    let now = now_ms();
    let Some(newest) = newest.filter(|newest| newest.time_ms > now.max(at_ms).saturating_add(CLOCKS_DIFFER_MS_MAX))
    else {
        return Ok(());
    };
    let place = |row: &HistoryRow| (row.time_ms, row.id.clone(), row.balance_after);
    // A row of a clock that was mended since counts for now, too.
    if then.last.as_deref().is_some_and(|last| place(last) == place(&newest)) {
        return Ok(());
    }
    let before_those = balance_at(ledger, caller, account, None, now).await?.last;
    if before_those.as_deref().map(place) != then.last.as_deref().map(place) {
        return Ok(());
    }
    let until = before_those.map_or_else(String::new, |row| format!("up to {}, or ", exact(row.time_ms)));
    let detail = format!(
        "nobody can tell the balance of {account:?} at {}: the clock was ahead when its newest row was written, which \
         is of {}, a time that is still to come. Ask for a time {until}without `at`, for the balance of now; \
         `tidegate mend-time` sets the time of the ledger right",
        exact(at_ms),
        exact(newest.time_ms)
    );
    Err(Problem::new(TIME_UNCERTAIN, detail).with("field", "at"))
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
        Reply::History { rows, next, held: _, rows_read } => Ok(Page { rows, next, rows_read }),
        Reply::Refused(refusal) => Err(Problem::from(refusal).with("id", account)),
        _ => Err(Problem::unexpected_reply()),
    }
}
