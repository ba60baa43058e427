//! `/v1/changes`: what happened, in the order of the journal, from a cursor on.
//!
//! ```text
//!   page    {changes, next, at_end}     one answer, at once
//!   lines   {…,"cursor"}\n …            as long as the reader reads    application/x-ndjson
//!   events  id: cursor / data: {…}      the same                       text/event-stream
//! ```
//!
//! Promise: whoever goes on behind the last cursor that they received misses nothing and gets nothing twice. A stream
//! ends with its rights: whoever may no longer do what they could when it began is cut off before the next row.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Version, header};
use serde::{Deserialize, Serialize};
use tidegate_ledger::changes::{After, Change, ChangeFilter, ChangeKind, ChangesError, Interest};
use tidegate_machines::ledger::{IdSpace, Refusal};
use tidegate_telemetry::SharedGauge;
use tokio::time::{Duration, Instant};
use utoipa::{IntoParams, ToSchema};

use super::accounts::sees_everything;
use super::address::query_problem;
use super::backend::{Backend, Changes, ChangesEnded};
use super::history_lines::{NDJSON, are_lines_wanted, is_wanted};
use super::limits::{CHANGE_HEARTBEAT, CHANGE_PAGE_PARTS_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use super::openapi::ReadProblems;
use super::room::{Ledger, StreamPlace};
use crate::auth::{Access, Identity, Pattern, Rights};
use crate::http::{GuardProblems, Part, Parts};
use crate::json::{Problem, ProblemCode, codes, json};
use crate::ledger_json::account::{KindWord, StatusWord};
use crate::ledger_json::schemas::code_schema;

/// The content type of events.
const EVENTS: &str = "text/event-stream";
/// How long the head of a stream waits for the first row.
const FIRST_PART_WITHIN: Duration = Duration::from_millis(250);

/// The cursor is none of this server's.
pub const CURSOR_UNKNOWN: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "cursor_unknown");
/// The cursor is of a history that this server does not have.
pub const CURSOR_OF_OTHER_HISTORY: ProblemCode = ProblemCode::new(StatusCode::GONE, "cursor_of_other_history");
/// The journal cannot be read at the cursor.
pub const JOURNAL_UNREADABLE: ProblemCode = ProblemCode::new(StatusCode::SERVICE_UNAVAILABLE, "journal_unreadable");

/// One change.
#[derive(Serialize, ToSchema)]
pub struct ChangeBody<'a> {
    /// Send as `after` to go on behind this change.
    cursor: &'a str,
    /// The shard whose journal has it. Changes of one shard come in their order.
    shard: u16,
    /// Number of its record in that journal.
    sequence: u64,
    /// When it was decided, milliseconds since the epoch.
    time_ms: u64,
    /// `account_opened`, `account_changed`, `asset_declared`, `transfer`, `hold_placed`, `hold_posted`, `hold_voided`,
    /// `hold_expired`, `credit_received` (on a server with several shards: the credit of a transfer or post that
    /// another shard decided), `refused`, `time_mended` (an operator has set the ledger's clock); in a stream also
    /// `heartbeat` and `end`, which have only a cursor.
    kind: &'static str,
    /// Transfer or hold id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    id: Option<&'a str>,
    /// For a service: the id space of that id, if it is not the service's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    id_space: Option<&'a str>,
    /// The account that was opened or changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    account: Option<&'a str>,
    /// Of `account_opened`: what it may do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = KindWord, required = false)]
    account_kind: Option<KindWord>,
    /// Of `account_changed`: how often the account has been changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    revision: Option<u64>,
    /// Of `account_changed`: its status after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = StatusWord, required = false)]
    status: Option<StatusWord>,
    /// Of `account_changed`: its lower limit after the change; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    balance_min: Option<i64>,
    /// Of `account_changed`: its upper limit after the change; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    balance_max: Option<i64>,
    /// Of `account_changed`: keys that were set, with their values, and keys that were removed, with null.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = HashMap<String, Option<String>>, required = false)]
    metadata: Option<BTreeMap<&'a str, Option<&'a str>>>,
    /// Of `asset_declared`: digits of an amount behind the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u8, required = false)]
    decimals: Option<u8>,
    /// Unit of measure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    asset: Option<&'a str>,
    /// Account that was, or would be, debited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    debit: Option<&'a str>,
    /// Its balance after the change; absent if the token may not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    debit_balance_after: Option<i64>,
    /// Account that was, or would be, credited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    credit: Option<&'a str>,
    /// Its balance after the change (of a collector: of its part on this shard); absent if the change did not credit
    /// it here, or the token may not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    credit_balance_after: Option<i64>,
    /// Minor units moved or held.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    amount: Option<u64>,
    /// Of `hold_posted`: minor units that were held.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    held: Option<u64>,
    /// Of `hold_placed`: when it expires, milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    expires_at_ms: Option<u64>,
    /// Free text.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    memo: &'a str,
    /// Code of the client's program; absent for none.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(schema_with = code_schema, required = false)]
    code: u32,
    /// Key of the client's program; absent for none.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    user_data: &'a str,
    /// Of `refused`: why, as a problem's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    refusal: Option<&'static str>,
    /// Of `insufficient_funds`: what was available then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    available: Option<u64>,
}

fn is_zero(code: &u32) -> bool {
    *code == 0
}

/// Some changes.
#[derive(Serialize, ToSchema)]
pub struct ChangesBody<'a> {
    /// In the order of the journal.
    changes: Vec<ChangeBody<'a>>,
    /// Send as `after` for the next page. Always there; a page may be empty and not the last.
    next: &'a str,
    /// Whether all that is durable was looked at.
    at_end: bool,
}

/// What a stream says when it has no change to say.
#[derive(Serialize)]
struct MarkBody<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cursor: &'a str,
}

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
/// news says `heartbeat` every five seconds, with a cursor. Only durable changes are sent. A service gets changes of
/// accounts that its grants let it read, and refusals if it may read all accounts and asks for all; a viewer gets those
/// of its own wallets.
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
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = ledger.door.caller(&headers)?;
    let query = query.map_err(query_problem)?.0;
    let filter = filter(&caller, &query)?;
    let after = after(&query, &headers);
    let format = Format::of(version, &headers);
    let Some(format) = format else {
        let limit = page_rows(query.limit)?;
        let _place = ledger.place_for_stream(&caller)?;
        return page(&ledger, &caller, ledger.changes(after, filter)?, limit).await;
    };
    if query.limit == Some(0) {
        return Err(invalid("limit", "limit = 0: expected 1 or more".to_owned()));
    }
    let place = ledger.place_for_stream(&caller)?;
    let heartbeat = CHANGE_HEARTBEAT.min(ledger.door.limits().request_timeout / 2);
    let mut stream = ChangeStream {
        changes: ledger.changes(after, filter)?,
        caller,
        headers: only_authorization(&headers),
        ledger: ledger.clone(),
        format,
        rows_left: query.limit,
        follows: query.follow.unwrap_or(true),
        cursor: Box::default(),
        heartbeat,
        is_first: true,
        _place: place,
        _counted: OpenStream::new(&ledger.metrics.change_streams),
    };
    let first = ledger.door.in_time(stream.next()).await??;
    let mut response = Response::new(ledger.door.body_in_parts(first, stream));
    let values = response.headers_mut();
    values.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    values.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// One page. It looks at a bounded number of records: a page of a quiet account comes back short, with a cursor.
async fn page<B: Backend>(
    ledger: &Ledger<B>,
    caller: &Identity,
    mut changes: B::Changes,
    limit: usize,
) -> Result<Response<Body>, Problem> {
    let (mut rows, mut next, mut at_end): (Vec<Change>, Box<str>, bool) = (Vec::new(), Box::default(), false);
    for _ in 0..CHANGE_PAGE_PARTS_MAX {
        let mut part = ledger.door.in_time(changes.next()).await??;
        let room = limit - rows.len();
        if part.rows.len() > room {
            part.rows.truncate(room);
            next = part.rows.last().map(|row| row.cursor.clone()).unwrap_or(next);
            rows.append(&mut part.rows);
            break;
        }
        rows.append(&mut part.rows);
        (next, at_end) = (part.cursor, part.is_at_end);
        if at_end || rows.len() == limit {
            break;
        }
    }
    let changes = rows.iter().map(|row| ChangeBody::new(row, caller)).collect();
    Ok(json(StatusCode::OK, &ChangesBody { changes, next: &next, at_end }))
}

/// How a stream is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Lines,
    Events,
}

impl Format {
    /// What the client asks for; `None` for a page.
    fn of(version: Version, headers: &HeaderMap) -> Option<Format> {
        if is_wanted(EVENTS, version, headers) {
            return Some(Format::Events);
        }
        are_lines_wanted(version, headers).then_some(Format::Lines)
    }

    fn content_type(self) -> &'static str {
        match self {
            Format::Lines => NDJSON,
            Format::Events => EVENTS,
        }
    }

    fn row(self, change: &Change, reader: &Identity, into: &mut Vec<u8>) {
        if self == Format::Events {
            into.extend_from_slice(b"id: ");
            into.extend_from_slice(change.cursor.as_bytes());
            into.extend_from_slice(b"\ndata: ");
        }
        serde_json::to_writer(&mut *into, &ChangeBody::new(change, reader)).expect("a change is plain JSON");
        into.extend_from_slice(if self == Format::Events { b"\n\n" } else { b"\n" });
    }

    /// A heartbeat or an end. In events it is a comment, with the cursor as the id of the last event.
    fn mark(self, kind: &'static str, cursor: &str, into: &mut Vec<u8>) {
        match self {
            Format::Lines => {
                serde_json::to_writer(&mut *into, &MarkBody { kind, cursor }).expect("a mark is plain JSON");
                into.push(b'\n');
            }
            Format::Events if cursor.is_empty() => into.extend_from_slice(format!(": {kind}\n\n").as_bytes()),
            Format::Events => into.extend_from_slice(format!(": {kind}\nid: {cursor}\n\n").as_bytes()),
        }
    }
}

/// A stream of changes to one client.
struct ChangeStream<B: Backend> {
    changes: B::Changes,
    caller: Identity,
    /// Shows the caller's token again.
    headers: HeaderMap,
    ledger: Ledger<B>,
    format: Format,
    rows_left: Option<u64>,
    follows: bool,
    /// Where a client that got all parts goes on.
    cursor: Box<str>,
    heartbeat: Duration,
    is_first: bool,
    _place: StreamPlace<B>,
    _counted: OpenStream,
}

/// Counts a stream for as long as it is open.
struct OpenStream(SharedGauge);

impl OpenStream {
    fn new(gauge: &SharedGauge) -> OpenStream {
        gauge.add(1);
        OpenStream(gauge.clone())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

impl<B: Backend> Parts for ChangeStream<B> {
    async fn next(&mut self) -> Result<Part, Problem> {
        let patience = if self.is_first { FIRST_PART_WITHIN.min(self.heartbeat) } else { self.heartbeat };
        let quiet_until = Instant::now() + patience;
        loop {
            let part = tokio::time::timeout_at(quiet_until, self.changes.next()).await;
            self.check_rights()?;
            let Ok(part) = part else {
                self.is_first = false;
                return Ok(self.mark("heartbeat", false));
            };
            let mut part = part?;
            if let Some(left) = self.rows_left {
                part.rows.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                self.rows_left = Some(left - part.rows.len() as u64);
            }
            self.cursor = part.cursor;
            if !part.rows.is_empty() {
                self.is_first = false;
                let mut bytes = Vec::with_capacity(part.rows.len() * 384);
                part.rows.iter().for_each(|row| self.format.row(row, &self.caller, &mut bytes));
                return Ok(Part { bytes, is_last: self.rows_left == Some(0) });
            }
            if part.is_at_end && !self.follows {
                return Ok(self.mark("end", true));
            }
            // A client that follows wants to know at once that it is connected.
            if part.is_at_end && std::mem::take(&mut self.is_first) {
                return Ok(self.mark("heartbeat", false));
            }
        }
    }
}

impl<B: Backend> ChangeStream<B> {
    fn mark(&self, kind: &'static str, is_last: bool) -> Part {
        let mut bytes = Vec::new();
        // The first heartbeat may come before the first part, without a cursor.
        self.format.mark(kind, &self.cursor, &mut bytes);
        Part { bytes, is_last }
    }

    /// The token is still good, and gives the same rights as when the stream began.
    fn check_rights(&self) -> Result<(), Problem> {
        let now = self.ledger.door.caller(&self.headers)?;
        if now.rights() == self.caller.rights() {
            return Ok(());
        }
        Err(Problem::forbidden("the rights of this token have changed; connect again with the last cursor"))
    }
}

/// A change as `reader` sees it, the same at every door.
pub(crate) fn change_json(change: &Change, reader: &Identity) -> Vec<u8> {
    serde_json::to_vec(&ChangeBody::new(change, reader)).expect("a change is plain JSON")
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

fn only_authorization(headers: &HeaderMap) -> HeaderMap {
    let values = headers.get_all(header::AUTHORIZATION).iter();
    values.map(|value| (header::AUTHORIZATION, value.clone())).collect()
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

impl<'a> ChangeBody<'a> {
    fn new(change: &'a Change, reader: &Identity) -> ChangeBody<'a> {
        let (id_space, id) = change.id.as_deref().map(IdSpace::split).unzip();
        let id_space = id_space.and_then(|space| reader.shown_space(space));
        ChangeBody {
            cursor: &change.cursor,
            shard: change.shard,
            sequence: change.sequence,
            time_ms: change.time_ms,
            kind: change.kind.word(),
            id,
            id_space,
            account: change.account.as_deref(),
            account_kind: change.opened_kind.map(KindWord::from),
            revision: change.settings.as_ref().map(|settings| settings.revision),
            status: change.settings.as_ref().map(|settings| StatusWord::from(settings.rules.status)),
            balance_min: change.settings.as_ref().and_then(|settings| settings.rules.balance_min),
            balance_max: change.settings.as_ref().and_then(|settings| settings.rules.balance_max),
            metadata: change
                .settings
                .as_ref()
                .filter(|settings| !settings.metadata.is_empty())
                .map(|settings| settings.metadata.iter().map(|(key, value)| (&**key, value.as_deref())).collect()),
            decimals: change.decimals,
            asset: change.asset.as_deref(),
            debit: change.debit.as_ref().map(|account| &*account.id),
            debit_balance_after: change.debit.as_ref().and_then(|account| account.balance_after),
            credit: change.credit.as_ref().map(|account| &*account.id),
            credit_balance_after: change.credit.as_ref().and_then(|account| account.balance_after),
            amount: change.amount,
            held: change.held,
            expires_at_ms: change.expires_at_ms,
            memo: &change.memo,
            code: change.code,
            user_data: &change.user_data,
            refusal: change.refusal.map(|refusal| refusal.code()),
            available: match change.refusal {
                Some(Refusal::InsufficientFunds { available }) => Some(available),
                _ => None,
            },
        }
    }
}
