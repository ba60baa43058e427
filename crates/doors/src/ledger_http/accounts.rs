//! `/v1/accounts`: opening, reading and listing accounts, and their histories.

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, Response, StatusCode, Version};
use serde::{Deserialize, Serialize};
use tidegate_ledger::message::{Reply, Request};
use tidegate_machines::ledger::{AccountView, HistoryRow, Refusal, RowKind};
use utoipa::{IntoParams, ToSchema};

use super::address::{AccountPath, InPath, InQuery, path_id, query_problem, refused};
use super::backend::Backend;
use super::history_lines;
use super::history_time;
use super::limits::{LIST_SCAN_ACCOUNTS_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use super::openapi::{LedgerProblems, ReadProblems};
use super::room::Ledger;
use crate::auth::{Grant, Identity, Pattern, Rights};
use crate::http::lines::are_lines_wanted;
use crate::http::{BodyProblems, GuardProblems, OfConnection, StreamCaller};
use crate::json::{Problem, codes, json, response};
use crate::ledger_json::OpenCall;
use crate::ledger_json::account::{AccountBody, KindWord};
use crate::ledger_json::open_call::{OpensAnswer, OpensBody};
use crate::ledger_json::schemas::code_schema;

/// A page of accounts in the byte order of their ids.
#[derive(Serialize, ToSchema)]
pub struct AccountsBody<'a> {
    /// Accounts.
    accounts: Vec<AccountBody<'a>>,
    /// Send as `after` for the next page; absent after the last. A page may be short and still have a next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    next: Option<&'a str>,
}

/// What happened to the account.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RowWord {
    /// Money moved.
    Transfer,
    /// A hold was placed; the balance is unchanged.
    Hold,
    /// A hold was posted; money moved.
    Post,
    /// A hold was voided; the balance is unchanged.
    Void,
    /// A hold expired; the balance is unchanged.
    Expire,
}

/// One row of a history.
#[derive(Serialize, ToSchema)]
pub struct RowBody<'a> {
    /// Transfer or hold id.
    id: &'a str,
    /// In which id space it is unique, for a service if that is not its own; empty for the empty one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "dave")]
    id_space: Option<&'a str>,
    /// What happened.
    kind: RowWord,
    /// Account that was, or would be, debited.
    debit: &'a str,
    /// Account that was, or would be, credited.
    credit: &'a str,
    /// Minor units moved or held.
    amount: u64,
    /// Free text; absent if there is none.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    memo: &'a str,
    /// Code; absent if there is none.
    #[serde(skip_serializing_if = "crate::ledger_json::moves::is_none")]
    #[schema(schema_with = code_schema, required = false)]
    code: u32,
    /// User data; absent if there is none.
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    user_data: &'a str,
    /// When it was decided, milliseconds since the epoch.
    time_ms: u64,
    /// The account's balance after this row.
    balance_after: i64,
}

/// A page of history, newest first.
#[derive(Serialize, ToSchema)]
pub struct HistoryBody<'a> {
    /// Rows.
    transfers: Vec<RowBody<'a>>,
    /// Send as `before` for the next page; absent at the account's first row.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    next: Option<&'a str>,
}

/// Which accounts to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Only ids that begin so.
    prefix: String,
    /// Only ids after this one: the `next` of the page before. That is an id, or a text that begins with a slash and
    /// stands for an account that the caller may not see.
    after: Option<String>,
    /// At most so many, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// At which time to read an account.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct AtQuery {
    /// Balance and holds at the end of this time: RFC 3339 (`2026-11-21T09:14:49Z`) or milliseconds since the epoch. A
    /// time that is more than a minute ahead of the server's clock is answered `time_to_come`; one around which the
    /// clock was wrong, so that there are two balances, `time_uncertain`, with the times that are known.
    at: Option<String>,
    /// With `at`: go on looking behind this cursor, the `next` of a `history_too_long`.
    before: Option<String>,
}

/// What an account had at a time.
#[derive(Serialize, ToSchema)]
pub struct BalanceAtBody<'a> {
    /// Account id.
    id: &'a str,
    /// Unit of measure.
    asset: &'a str,
    /// What it may do.
    kind: KindWord,
    /// The time asked for, milliseconds since the epoch.
    at_ms: u64,
    /// Its balance then, minor units, with holds not taken off; zero before its first row.
    balance: i64,
    /// What open holds reserved then, minor units; absent if `before` was given by an earlier version of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    held: Option<u64>,
    /// `balance - held`; absent likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    available: Option<i128>,
    /// Id of the transfer or hold whose row is the last one of that time; absent before its first row.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    last_id: Option<&'a str>,
    /// Time of that row, milliseconds since the epoch, as it was written: later than `at` if the clock was wrong then,
    /// and was mended since.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    last_time_ms: Option<u64>,
    /// True if nothing had moved by then: the account was not open yet, or open and untouched. Else absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    before_first_row: bool,
    /// True if that time is still to come by the server's clock, by a minute at most: the balance is that of now, and
    /// may be another one then. Else absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    to_come: bool,
}

/// An account's figures, or its balance at a time.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes answers")]
pub enum AccountOrBalance<'a> {
    /// Without `at`.
    Now(AccountBody<'a>),
    /// With `at`.
    Then(BalanceAtBody<'a>),
}

/// Which rows to read.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct HistoryQuery {
    /// Only rows before this one: the `next` of the page before.
    before: Option<String>,
    /// At most so many, 1 to 1,000; 100 if absent. As lines: at most so many in all, without an upper bound; all if
    /// absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only rows of this time or later: RFC 3339 (`2026-11-21T09:14:49Z`) or milliseconds since the epoch. A page may
    /// be short, even empty, and still have a `next`: one request goes back through 50,000 rows at most. A row that a
    /// wrong clock dated is of the time to which that was mended.
    from_time: Option<String>,
    /// Only rows of this time or earlier.
    to_time: Option<String>,
}

/// Open an account, or many
#[utoipa::path(
    post,
    path = "/v1/accounts",
    tag = "accounts",
    request_body = OpensBody,
    responses(
        (status = 201, description = "One account: opened by this request", body = AccountBody),
        (
            status = 200,
            description = "One account: open already, with the same asset and kind. Many: their outcomes",
            body = OpensAnswer
        ),
        GuardProblems,
        BodyProblems,
        LedgerProblems,
    )
)]
pub async fn open<B: Backend>(
    State(ledger): State<Ledger<B>>,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = ledger.door.caller(&head.headers)?;
    let body = ledger.door.read_json(&head.headers, body).await?;
    let call = OpenCall::read(&body)?;
    let reply = ledger.ask_for(&caller, call.request()).await?;
    let (status, body) = call.answer(reply)?;
    Ok(response(status, body))
}

/// Read an account's figures
///
/// With `?at=TIME`, what its balance was then, and what its open holds reserved; `time_to_come` if that is still to
/// come, `time_uncertain` if the clock was wrong and nobody can tell. The server goes back through the account's
/// history, 50,000 rows in one request at most, and no further than the caller's bound of requests, of which 16 rows
/// are one; further back it answers `history_too_long` with a `next`, which is sent as `before`.
#[utoipa::path(
    get,
    path = "/v1/accounts/{id}",
    tag = "accounts",
    params(AccountPath, AtQuery),
    responses(
        (
            status = 200,
            description = "The figures; with `at`, the balance of that time",
            body = AccountOrBalance
        ),
        GuardProblems,
        ReadProblems
    )
)]
pub async fn read<B: Backend>(
    State(ledger): State<Ledger<B>>,
    path: InPath,
    query: InQuery<AtQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = ledger.door.caller(&headers)?;
    let id = path_id(path)?;
    let AtQuery { at, before } = query.map_err(query_problem)?.0;
    if at.is_none() && before.is_some() {
        let detail = "`before` goes with `at`: it is the cursor at which a search for a time goes on";
        return Err(Problem::new(codes::QUERY_INVALID, detail).with("field", "before"));
    }
    let at_ms = at.map(|at| history_time::parse("at", &at)).transpose()?;
    match ledger.ask_for(&caller, Request::ReadAccount { id: id.clone() }).await? {
        Reply::Account(account) => match at_ms {
            None => Ok(json(StatusCode::OK, &AccountBody::from(&account))),
            Some(at_ms) => {
                let before = before.map(Into::into);
                let then = history_time::balance_at(&ledger, &caller, &id, before, at_ms).await?;
                history_time::check_not_ahead(&ledger, &caller, &id, at_ms, &then).await?;
                let history_time::Then { last, written_by, held } = then;
                let balance = last.as_ref().map_or(0, |row| row.balance_after);
                let body = BalanceAtBody {
                    id: &account.id,
                    asset: &account.asset,
                    kind: account.kind.into(),
                    at_ms,
                    balance,
                    held,
                    available: held.map(|held| i128::from(balance) - i128::from(held)),
                    last_id: last.as_ref().map(|row| &*row.id),
                    last_time_ms: last.as_ref().map(|row| row.time_ms),
                    before_first_row: last.is_none(),
                    to_come: history_time::is_to_come(at_ms, written_by)?,
                };
                Ok(json(StatusCode::OK, &body))
            }
        },
        Reply::Refused(refusal) => Err(refused(refusal, &id)),
        _ => Err(Problem::unexpected_reply()),
    }
}

/// List accounts by id
///
/// A viewer sees own wallets and all collectors.
#[utoipa::path(
    get,
    path = "/v1/accounts",
    tag = "accounts",
    params(ListQuery),
    responses((status = 200, description = "A page", body = AccountsBody), GuardProblems, ReadProblems)
)]
pub async fn list<B: Backend>(
    State(ledger): State<Ledger<B>>,
    query: InQuery<ListQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = ledger.door.caller(&headers)?;
    let ListQuery { prefix, after, limit } = query.map_err(query_problem)?.0;
    let limit = page_rows(limit)?;
    let open = |cursor: String| ledger.door.cursors().open(caller.name(), &cursor).ok_or(Refusal::CursorInvalid);
    let after = after.map(open).transpose()?;
    let page = ledger.visible_accounts(&caller, prefix.into(), after, limit).await?;
    let accounts = page.accounts.iter().map(AccountBody::from).collect();
    Ok(json(StatusCode::OK, &AccountsBody { accounts, next: page.next.as_deref() }))
}

/// Read an account's history, newest first
///
/// A viewer reads the history of a collector without names: of moves that are not its own, `id`, `debit`, `memo` and
/// `user_data` are empty.
///
/// With `Accept: application/x-ndjson`, the answer is the whole history, one row a line, sent as fast as the client
/// reads. If something goes wrong after the first row, such as a damaged record, a last line says it: `{"problem": …}`
/// with what would have been the answer before the first row, `code`, `detail` and all. Then the connection breaks;
/// what was read up to there is true. Rows that are older than a damaged record can be read when its file is mended. It
/// breaks off so, too, when the token is no longer good or its rights have changed, and when the server stops.
#[utoipa::path(
    get,
    path = "/v1/accounts/{id}/transfers",
    tag = "accounts",
    params(AccountPath, HistoryQuery),
    responses(
        (
            status = 200,
            description = "A page; or the whole history, a row on each line",
            content((HistoryBody = "application/json"), (RowBody = "application/x-ndjson"))
        ),
        GuardProblems,
        ReadProblems
    )
)]
pub async fn history<B: Backend>(
    State(ledger): State<Ledger<B>>,
    version: Version,
    path: InPath,
    query: InQuery<HistoryQuery>,
    OfConnection(silence): OfConnection,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = ledger.door.caller(&headers)?;
    let id = path_id(path)?;
    let HistoryQuery { before, limit, from_time, to_time } = query.map_err(query_problem)?.0;
    let before = before.map(Into::into);
    let times = history_time::span(from_time.as_deref(), to_time.as_deref())?;
    if are_lines_wanted(version, &headers) {
        let caller = StreamCaller::new(caller, &headers);
        return history_lines::answer(&ledger, (caller, silence), id, before, rows_max(limit)?, times).await;
    }
    let limit = page_rows(limit)?;
    let page = history_time::page(&ledger, &caller, &id, before, limit, times).await?;
    let transfers = page.rows.iter().map(|row| RowBody::new(row, &caller)).collect();
    Ok(json(StatusCode::OK, &HistoryBody { transfers, next: page.next.as_deref() }))
}

struct Page {
    accounts: Vec<AccountView>,
    next: Option<Box<str>>,
}

impl<B: Backend> Ledger<B> {
    /// A page of those accounts that `caller` may see. It looks at a bounded number of accounts: among a million
    /// wallets of others, a viewer's page comes back short, with a cursor.
    async fn visible_accounts(
        &self,
        caller: &Identity,
        prefix: Box<str>,
        mut after: Option<Box<str>>,
        limit: u32,
    ) -> Result<Page, Problem> {
        let mut accounts: Vec<AccountView> = Vec::new();
        let mut scanned = 0;
        // One more than asked, so that it is known whether there is a next page.
        let chunk =
            if sees_everything(caller.rights()) { limit.saturating_add(1).min(PAGE_ROWS_MAX) } else { PAGE_ROWS_MAX };
        loop {
            let request = Request::ListAccounts { prefix: prefix.clone(), after: after.clone(), limit: chunk };
            let found = match self.ask_for(caller, request).await? {
                Reply::Accounts(found) => found,
                Reply::Refused(refusal) => return Err(refusal.into()),
                _ => return Err(Problem::unexpected_reply()),
            };
            let last_chunk = found.len() < chunk as usize;
            let seen = found.iter().filter(|account| caller.rights().may_see(account)).count();
            self.door.take_turns_of_rows(caller, found.len() - seen).await;
            for account in found {
                scanned += 1;
                if caller.rights().may_see(&account) {
                    // Only one that they may see: whether others have accounts behind it is not said.
                    if accounts.len() == limit as usize {
                        let next = accounts.last().map(|account| account.id.clone());
                        return Ok(Page { accounts, next });
                    }
                    accounts.push(account.clone());
                }
                after = Some(account.id);
            }
            if last_chunk {
                return Ok(Page { accounts, next: None });
            }
            if scanned >= LIST_SCAN_ACCOUNTS_MAX || caller.owes() {
                let is_shown = |place: &str| accounts.last().is_some_and(|last| *last.id == *place);
                let hide = |place: Box<str>| match is_shown(&place) {
                    true => place,
                    false => self.door.cursors().seal(caller.name(), &place).into(),
                };
                let next = after.map(hide);
                return Ok(Page { accounts, next });
            }
        }
    }
}

/// Whether a list needs no filter, so that no more must be read than is asked for.
pub(super) fn sees_everything(rights: &Rights) -> bool {
    match rights {
        Rights::Viewer { .. } => false,
        Rights::Service { grants } => {
            grants.iter().any(|grant| matches!(grant, Grant::Everything | Grant::Read(Pattern::Any)))
        }
    }
}

pub(super) fn page_rows(limit: Option<u32>) -> Result<u32, Problem> {
    match limit {
        None => Ok(PAGE_ROWS_DEFAULT),
        Some(rows) if (1..=PAGE_ROWS_MAX).contains(&rows) => Ok(rows),
        Some(rows) => {
            let detail = format!("limit = {rows}: expected 1 to {PAGE_ROWS_MAX}");
            Err(Problem::new(codes::QUERY_INVALID, detail).with("field", "limit"))
        }
    }
}

fn rows_max(limit: Option<u32>) -> Result<Option<u64>, Problem> {
    match limit {
        Some(0) => Err(Problem::new(codes::QUERY_INVALID, "limit = 0: expected 1 or more").with("field", "limit")),
        rows => Ok(rows.map(u64::from)),
    }
}

impl<'a> RowBody<'a> {
    /// The row as `reader` may see it.
    pub fn new(row: &'a HistoryRow, reader: &Identity) -> RowBody<'a> {
        let kind = match row.kind {
            RowKind::Transfer => RowWord::Transfer,
            RowKind::Hold => RowWord::Hold,
            RowKind::Post => RowWord::Post,
            RowKind::Void => RowWord::Void,
            RowKind::Expire => RowWord::Expire,
        };
        RowBody {
            id: &row.id,
            id_space: reader.shown_space(&row.id_space),
            kind,
            debit: &row.debit,
            credit: &row.credit,
            amount: row.amount,
            memo: &row.memo,
            code: row.code,
            user_data: &row.user_data,
            time_ms: row.time_ms,
            balance_after: row.balance_after,
        }
    }
}
