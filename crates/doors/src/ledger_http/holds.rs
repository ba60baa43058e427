//! `/v1/holds`: reserving, posting and voiding.

use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request as HttpRequest, State};
use axum::http::{Response, StatusCode};
use serde::Deserialize;
use tidegate_ledger::message::{HoldRequest, Reply, Request};
use tidegate_machines::ledger::{IdSpace, Outcome};
use utoipa::{IntoParams, ToSchema};

use super::accounts::{path_id, query_problem};
use super::backend::Backend;
use super::openapi::LedgerProblems;
use super::room::Ledger;
use crate::auth::Identity;
use crate::http::{BodyProblems, GuardProblems};
use crate::json::{Problem, Text, Whole, codes, decode, json, present, response};
use crate::ledger_json::outcome::{OutcomeBody, single_body};
use crate::ledger_json::schemas::{credit_schema, debit_schema, memo_schema, transfer_id_schema};

/// Reserve `amount` of `debit` for a later post to `credit`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldBody<'a> {
    /// Chosen by the client. Never used again for another transfer or hold.
    #[serde(borrow)]
    #[schema(schema_with = transfer_id_schema)]
    id: Text<'a>,
    /// Account whose available balance shrinks.
    #[serde(borrow)]
    #[schema(schema_with = debit_schema)]
    debit: Text<'a>,
    /// Account that a post will credit.
    #[serde(borrow)]
    #[schema(schema_with = credit_schema)]
    credit: Text<'a>,
    /// Minor units.
    #[schema(value_type = i64, minimum = 1, example = 2)]
    amount: Whole,
    /// How long the hold lives, in milliseconds; at most one hundred years.
    #[schema(value_type = i64, minimum = 1, maximum = 3_155_760_000_000i64, example = 60000)]
    expires_in_ms: Whole,
    /// Free text for the history.
    #[serde(borrow, default)]
    #[schema(schema_with = memo_schema, required = false)]
    memo: Text<'a>,
}

/// How much of a hold to post.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PostBody {
    /// Minor units; all that is held if absent. The rest is available again.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = i64, required = false, minimum = 1, example = 1)]
    amount: Option<Whole>,
}

/// Nothing: voiding has no choices.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VoidBody {}

/// Whose hold it is.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct HoldQuery {
    /// Id space of the hold, if it is not the caller's own: the user name of the viewer who placed it.
    #[param(max_length = 64, example = "dave")]
    id_space: Option<String>,
}

/// Reserve money for a later post
#[utoipa::path(
    post,
    path = "/v1/holds",
    tag = "holds",
    request_body = HoldBody,
    responses(
        (status = 201, description = "Placed by this request", body = OutcomeBody),
        (status = 200, description = "Placed before, with the same content", body = OutcomeBody),
        GuardProblems,
        BodyProblems,
        LedgerProblems,
    )
)]
pub async fn place<B: Backend>(
    State(ledger): State<Ledger<B>>,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = ledger.door.caller(&head.headers)?;
    let body = ledger.door.read_json(&head.headers, body).await?;
    let hold: HoldBody<'_> = decode(&body)?;
    let request = Request::PlaceHolds(vec![HoldRequest {
        id: hold.id.boxed(),
        debit: hold.debit.boxed(),
        credit: hold.credit.boxed(),
        amount: hold.amount.0,
        expires_in_ms: hold.expires_in_ms.0,
        memo: hold.memo.boxed(),
        open_holds_max: 0,
    }]);
    let outcome = ledger.one_outcome(&caller, caller.id_space(), request).await?;
    placed(&hold.id, outcome)
}

/// Move what was held, or part of it, to the account to credit
#[utoipa::path(
    post,
    path = "/v1/holds/{id}/post",
    tag = "holds",
    params(
        ("id" = inline(String), Path, description = "Hold id", example = "hold-1", min_length = 1, max_length = 64),
        HoldQuery
    ),
    request_body = PostBody,
    responses(
        (status = 200, description = "Posted, by this request or before", body = OutcomeBody),
        GuardProblems,
        BodyProblems,
        LedgerProblems,
    )
)]
pub async fn post<B: Backend>(
    State(ledger): State<Ledger<B>>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<HoldQuery>, QueryRejection>,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = ledger.door.caller(&head.headers)?;
    let id = path_id(path)?;
    let id_space = id_space(query, &caller)?;
    let body = ledger.door.read_optional_json(&head.headers, body).await?;
    let PostBody { amount } = if body.is_empty() { PostBody::default() } else { decode(&body)? };
    let request = Request::PostHolds(vec![(id.clone(), amount.map(|amount| amount.0))]);
    settled(&id, ledger.one_outcome(&caller, &id_space, request).await?)
}

/// Make what was held available again
#[utoipa::path(
    post,
    path = "/v1/holds/{id}/void",
    tag = "holds",
    params(
        ("id" = inline(String), Path, description = "Hold id", example = "hold-1", min_length = 1, max_length = 64),
        HoldQuery
    ),
    request_body = VoidBody,
    responses(
        (status = 200, description = "Voided, by this request or before", body = OutcomeBody),
        GuardProblems,
        BodyProblems,
        LedgerProblems,
    )
)]
pub async fn void<B: Backend>(
    State(ledger): State<Ledger<B>>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<HoldQuery>, QueryRejection>,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = ledger.door.caller(&head.headers)?;
    let id = path_id(path)?;
    let id_space = id_space(query, &caller)?;
    let body = ledger.door.read_optional_json(&head.headers, body).await?;
    if !body.is_empty() {
        let VoidBody {} = decode(&body)?;
    }
    let request = Request::VoidHolds(vec![id.clone()]);
    settled(&id, ledger.one_outcome(&caller, &id_space, request).await?)
}

impl<B: Backend> Ledger<B> {
    async fn one_outcome(&self, caller: &Identity, id_space: &IdSpace, request: Request) -> Result<Outcome, Problem> {
        match self.ask_in(caller, id_space, request).await? {
            Reply::Outcomes(outcomes) if outcomes.len() == 1 => Ok(outcomes[0]),
            Reply::Refused(refusal) => Ok(Outcome::Refused(refusal)),
            _ => Err(Problem::unexpected_reply()),
        }
    }
}

/// The id space that the query names, or the caller's own.
fn id_space(query: Result<Query<HoldQuery>, QueryRejection>, caller: &Identity) -> Result<IdSpace, Problem> {
    match query.map_err(query_problem)?.0.id_space {
        None => Ok(caller.id_space().clone()),
        Some(name) => IdSpace::new(&name).ok_or_else(|| {
            let detail = "id_space: expected the name of a user or id space, at most 64 bytes of printable UTF-8";
            Problem::new(codes::QUERY_INVALID, detail).with("field", "id_space")
        }),
    }
}

/// The answer to a hold that was asked for: 201, 200 or a problem.
fn placed(id: &str, outcome: Outcome) -> Result<Response<Body>, Problem> {
    single_body(id, outcome).map(|(status, body)| response(status, body))
}

/// Posting and voiding make nothing new, so both first time and again are 200.
fn settled(id: &str, outcome: Outcome) -> Result<Response<Body>, Problem> {
    match outcome {
        Outcome::Refused(_) | Outcome::RefusedBefore { .. } => placed(id, outcome),
        Outcome::Applied | Outcome::Duplicate => Ok(json(StatusCode::OK, &OutcomeBody::new(id, outcome))),
    }
}
