//! `PATCH /v1/accounts/{id}`: status, limits, metadata; and the open holds on an account.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Deserializer};
use tidegate_ledger::message::{ChangeRequest, Reply, Request};
use tidegate_machines::ledger::{MetadataPatch, Refusal};
use utoipa::{IntoParams, ToSchema};

use super::accounts::page_rows;
use super::address::{AccountPath, InPath, InQuery, path_id, query_problem, refused};
use super::backend::Backend;
use super::openapi::{LedgerProblems, ReadProblems};
use super::room::Ledger;
use crate::http::{BodyProblems, GuardProblems};
use crate::json::{Problem, Signed, Whole, decode, json, present};
use crate::ledger_json::account::{AccountBody, StatusWord};
use crate::ledger_json::moves::{HoldStateBody, HoldsBody};

/// What to change on an account; what is absent stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountChangeBody {
    /// Refuse unless the account is at this revision (0: never changed).
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = u64, required = false)]
    if_revision: Option<Whole>,
    /// Which movements it takes part in.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = StatusWord, required = false)]
    status: Option<StatusWord>,
    /// A debit or hold that would leave less available is refused; null for no limit.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<i64>, required = false)]
    balance_min: Option<Option<Signed>>,
    /// A credit that would leave a larger balance is refused, also a hold for one; null for no limit. Only debits of
    /// accounts on the same shard can credit the account then.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<i64>, required = false)]
    balance_max: Option<Option<Signed>>,
    /// Keys to set; those with null are removed. A key has 1 to 64 bytes of visible UTF-8, a value at most 256 bytes.
    /// At most 16 keys and 1,024 bytes on an account.
    #[serde(default)]
    #[schema(value_type = HashMap<String, Option<String>>, required = false)]
    metadata: BTreeMap<Box<str>, Option<Box<str>>>,
}

fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// Which holds to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct HoldsQuery {
    /// Only holds after this one: the `next` of the page before.
    after: Option<String>,
    /// At most so many, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Freeze, close, limit or describe an account
///
/// The answer comes when every shard knows: nothing is decided after it that the change forbids. A credit that another
/// shard decided before is still taken in. An account is closed when its balance is zero and it has no open holds; with
/// more than one shard it is frozen first, and if credits are on their way to it, `account_in_transit` says so and it
/// stays frozen.
#[utoipa::path(
    patch,
    path = "/v1/accounts/{id}",
    tag = "accounts",
    params(AccountPath),
    request_body = AccountChangeBody,
    responses(
        (status = 200, description = "The account, changed by this request or so already", body = AccountBody),
        GuardProblems,
        BodyProblems,
        LedgerProblems,
    )
)]
pub async fn change_account<B: Backend>(
    State(ledger): State<Ledger<B>>,
    path: InPath,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = ledger.door.caller(&head.headers)?;
    let id = path_id(path)?;
    let body = ledger.door.read_json(&head.headers, body).await?;
    let AccountChangeBody { if_revision, status, balance_min, balance_max, metadata } = decode(&body)?;
    let mut patch = Vec::new();
    if let Err(refusal) = MetadataPatch::write(&metadata, &mut patch) {
        return Err(refused(refusal, &id));
    }
    let change = ChangeRequest {
        if_revision: if_revision.map(|revision| revision.0),
        status: status.map(Into::into),
        balance_min: balance_min.map(|limit| limit.map(|Signed(limit)| limit)),
        balance_max: balance_max.map(|limit| limit.map(|Signed(limit)| limit)),
        metadata: patch.into(),
    };
    match ledger.ask_for(&caller, Request::ChangeAccount { id: id.clone(), change }).await? {
        Reply::AccountChanged { account, .. } => Ok(json(StatusCode::OK, &AccountBody::from(&account))),
        Reply::Refused(refusal) => Err(refused(refusal, &id)),
        _ => Err(Problem::unexpected_reply()),
    }
}

/// List the open holds on an account
///
/// In the order of their placement.
#[utoipa::path(
    get,
    path = "/v1/accounts/{id}/holds",
    tag = "accounts",
    params(AccountPath, HoldsQuery),
    responses((status = 200, description = "A page", body = HoldsBody), GuardProblems, ReadProblems)
)]
pub async fn list_holds<B: Backend>(
    State(ledger): State<Ledger<B>>,
    path: InPath,
    query: InQuery<HoldsQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = ledger.door.caller(&headers)?;
    let id = path_id(path)?;
    let HoldsQuery { after, limit } = query.map_err(query_problem)?.0;
    let limit = page_rows(limit)?;
    let after = match after.map(|after| after.parse()) {
        None => None,
        Some(Ok(after)) => Some(after),
        Some(Err(_)) => return Err(refused(Refusal::CursorInvalid, &id).with("field", "after")),
    };
    match ledger.ask_for(&caller, Request::ListHolds { account: id.clone(), after, limit }).await? {
        Reply::Holds { holds, next } => {
            let holds = holds.iter().map(|hold| HoldStateBody::new(hold, &caller)).collect();
            Ok(json(StatusCode::OK, &HoldsBody { holds, next: next.map(|next| next.to_string()) }))
        }
        Reply::Refused(refusal) => Err(refused(refusal, &id)),
        _ => Err(Problem::unexpected_reply()),
    }
}
