//! `/v1/changes`: what happened, in the order of the journal, from a cursor on.
//!
//! ```text
//!   page    {changes, next, at_end}     one answer, at once
//!   lines   {…,"cursor"}\n …            as long as the reader reads    application/x-ndjson
//!   events  id: cursor / data: {…}      the same                       text/event-stream
//! ```
//!
//! Promise: whoever goes on behind the last cursor that they received misses nothing and gets nothing twice. A stream
//! ends with its rights: whoever may no longer do what they could when it began is cut off before the next row. Pages
//! wait their turn and take no place of a stream.

mod page;
mod row;
mod stream;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Response, StatusCode, Version};
use serde::Deserialize;
use tidegate_ledger::changes::{After, ChangeFilter, ChangeKind, ChangesError, Interest};
use utoipa::IntoParams;

use super::accounts::sees_everything;
use super::address::query_problem;
use super::backend::{Backend, ChangesEnded};
use super::limits::{PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use super::openapi::ReadProblems;
use super::room::{Ledger, StreamKind};
use crate::auth::{Access, Identity, Pattern, Rights};
use crate::http::{GuardProblems, OfConnection};
use crate::json::{Problem, ProblemCode, codes};
use page::page;
use stream::{Format, Wanted, stream};

pub use page::ChangesBody;
pub use row::ChangeBody;
pub(crate) use row::change_json;

/// The cursor is none of this server's.
pub const CURSOR_UNKNOWN: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "cursor_unknown");
/// The cursor is of a history that this server does not have.
pub const CURSOR_OF_OTHER_HISTORY: ProblemCode = ProblemCode::new(StatusCode::GONE, "cursor_of_other_history");
/// The journal cannot be read at the cursor.
pub const JOURNAL_UNREADABLE: ProblemCode = ProblemCode::new(StatusCode::SERVICE_UNAVAILABLE, "journal_unreadable");

/// Which changes to read.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ChangesQuery {
    /// Only changes behind this cursor; `start` (as if absent) for all, `now` for those from now on.
    after: Option<String>,
    /// Only changes of these accounts: `*`, a beginning with `*` such as `wallet:*`, or one id. Of a transfer or hold,
    /// either side counts.
    accounts: Option<String>,
    /// Only changes of these kinds, separated by commas.
    kinds: Option<String>,
    /// At most so many: of a page 1 to 1,000, and 100 if absent; of a stream any number, and all if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
    /// Of a stream: whether it goes on with what happens later; true if absent. If false, it ends with a line of kind
    /// `end`.
    follow: Option<bool>,
}

/// Read changes from a cursor on
///
/// With `Accept: application/x-ndjson`, a row on each line, and with `Accept: text/event-stream`, as server-sent events
/// whose `id` is the cursor (`Last-Event-ID` goes before `after`): for as long as the client reads. A stream without
/// news says `heartbeat` every five seconds, with a cursor. When all places of streams are taken, the newest of whoever
/// has the most is cut off for a caller with fewer: it says `heartbeat` with a cursor and `ended`, and the connection
/// breaks; connect again with that cursor. So does one that cannot go on, for instance because of damage. Only durable
/// changes are sent. A service gets changes of accounts that its grants let it read, and refusals if it may read all
/// accounts and asks for all; a viewer gets those of its own wallets.
#[utoipa::path(
    get,
    path = "/v1/changes",
    tag = "changes",
    params(
        ChangesQuery,
        (
            "Last-Event-ID" = inline(Option<String>),
            Header,
            description = "The id of the last event that was received: goes before `after`"
        )
    ),
    responses(
        (
            status = 200,
            description = "A page; or a stream, a change on each line",
            content((ChangesBody = "application/json"), (ChangeBody = "application/x-ndjson"))
        ),
        (
            status = 410,
            description = "`cursor_of_other_history`: the server was restored from an older copy, or the cursor is \
                           another server's. Begin again without it",
            body = crate::json::ProblemBody,
            content_type = "application/problem+json"
        ),
        GuardProblems,
        ReadProblems
    )
)]
pub async fn changes<B: Backend>(
    State(ledger): State<Ledger<B>>,
    version: Version,
    query: Result<Query<ChangesQuery>, QueryRejection>,
    OfConnection(silence): OfConnection,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = ledger.door.caller(&headers)?;
    let query = query.map_err(query_problem)?.0;
    let filter = filter(&caller, &query)?;
    let after = after(&query, &headers);
    let format = Format::of(version, &headers);
    let Some(format) = format else {
        let limit = page_rows(query.limit)?;
        let _turn = ledger.turn_for_page(&caller).await?;
        return page(&ledger, &caller, ledger.changes(&caller, after, filter)?, limit).await;
    };
    if query.limit == Some(0) {
        return Err(invalid("limit", "limit = 0: expected 1 or more".to_owned()));
    }
    let place = ledger.place_for_stream(&caller, StreamKind::Changes)?;
    let wanted = Wanted { format, rows_max: query.limit, follows: query.follow.unwrap_or(true) };
    let changes = ledger.changes(&caller, after, filter)?;
    stream(&ledger, caller, &headers, changes, wanted, (place, silence)).await
}

/// Which changes `caller` gets of those that they ask for.
fn filter(caller: &Identity, query: &ChangesQuery) -> Result<ChangeFilter, Problem> {
    let rights = caller.rights();
    if !rights.may_read_some() {
        return Err(Problem::forbidden("this token may not read any account, so no changes either"));
    }
    let pattern = match query.accounts.as_deref() {
        None => Pattern::Any,
        Some(text) => Pattern::parse(text).ok_or_else(|| {
            let detail = format!("accounts = {text:?}: expected \"*\", a beginning with \"*\", or one account id");
            invalid("accounts", detail)
        })?,
    };
    let kinds = match query.kinds.as_deref() {
        None => ChangeKind::ALL.to_vec(),
        Some(words) => words.split(',').map(kind).collect::<Result<_, _>>()?,
    };
    Ok(changes_of(rights, pattern, kinds))
}

/// Those changes of `kinds`, of accounts among `pattern`, that `rights` let their owner see.
pub(crate) fn changes_of(rights: &Rights, pattern: Pattern, kinds: Vec<ChangeKind>) -> ChangeFilter {
    let without_account = pattern == Pattern::Any && sees_everything(rights);
    let rights = rights.clone();
    let interest = move |account: &str| Interest {
        visible: rights.may_read(account, None) == Access::Allowed,
        wanted: pattern.matches(account),
    };
    ChangeFilter { interest: Box::new(interest), without_account, kinds }
}

fn kind(word: &str) -> Result<ChangeKind, Problem> {
    ChangeKind::parse(word.trim()).ok_or_else(|| {
        let known: Vec<&str> = ChangeKind::ALL.iter().map(|kind| kind.word()).collect();
        invalid("kinds", format!("kinds: {word:?} is no kind of change; there are {}", known.join(", ")))
    })
}

/// Where to begin. A browser that connects again sends the id of the last event, and the address of the first time.
fn after(query: &ChangesQuery, headers: &HeaderMap) -> After {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
    match last.or(query.after.as_deref()) {
        None | Some("start") => After::Start,
        Some("now") => After::Now,
        Some(cursor) => After::Cursor(cursor.into()),
    }
}

fn page_rows(limit: Option<u64>) -> Result<usize, Problem> {
    match limit {
        None => Ok(PAGE_ROWS_DEFAULT as usize),
        Some(rows) if (1..=u64::from(PAGE_ROWS_MAX)).contains(&rows) => Ok(rows as usize),
        Some(rows) => Err(invalid("limit", format!("limit = {rows}: expected 1 to {PAGE_ROWS_MAX}"))),
    }
}

fn invalid(field: &str, detail: String) -> Problem {
    Problem::new(codes::QUERY_INVALID, detail).with("field", field)
}

impl From<ChangesEnded> for Problem {
    fn from(ended: ChangesEnded) -> Problem {
        let error = match ended {
            ChangesEnded::Unavailable(unavailable) => return unavailable.into(),
            ChangesEnded::Unreadable(error) => error,
        };
        let code = match &error {
            ChangesError::CursorInvalid => CURSOR_UNKNOWN,
            ChangesError::OtherHistory { .. } => CURSOR_OF_OTHER_HISTORY,
            ChangesError::Unreadable { .. } => JOURNAL_UNREADABLE,
            ChangesError::Nameless { .. } => codes::UNEXPECTED_REPLY,
        };
        Problem::new(code, error.to_string())
    }
}
