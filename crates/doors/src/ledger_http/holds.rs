//! `/v1/holds`: reserving, posting and voiding.

use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request as HttpRequest, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use tidegate_ledger::message::{Reply, Request};
use tidegate_machines::ledger::{IdSpace, Outcome};
use utoipa::{IntoParams, ToSchema};

use super::accounts::{path_id, query_problem};
use super::backend::Backend;
use super::openapi::{LedgerProblems, ReadProblems};
use super::room::Ledger;
use crate::auth::Identity;
use crate::http::{BodyProblems, GuardProblems};
use crate::json::{Problem, Whole, codes, decode, json, present, response};
use crate::ledger_json::HoldCall;
use crate::ledger_json::hold::{HoldBatchBody, HoldBody, PostBatchBody, VoidBatchBody};
use crate::ledger_json::moves::HoldStateBody;
use crate::ledger_json::outcome::{OutcomeBody, OutcomesBody, single_body};

/// One hold, or many.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes the body for the OpenAPI document")]
pub enum HoldsBodies<'a> {
    /// Answered 201, 200 or by a problem.
    One(HoldBody<'a>),
    /// Answered by one line per hold.
    Many(HoldBatchBody<'a>),
}

/// What became of the hold or holds.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes the answer for the OpenAPI document")]
pub enum HoldsAnswer<'a> {
    /// To one hold: a duplicate.
    One(OutcomeBody<'a>),
    /// To many.
    Many(OutcomesBody<'a>),
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

/// Whose transfer or hold it is.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct IdSpaceQuery {
    /// Id space of the id, if it is not the caller's own: the user name of the viewer who chose it.
    #[param(max_length = 64, example = "dave")]
    id_space: Option<String>,
}

/// Reserve money for a later post
#[utoipa::path(
    post,
    path = "/v1/holds",
    tag = "holds",
    request_body = HoldsBodies,
    responses(
        (status = 201, description = "One hold: placed by this request", body = OutcomeBody),
        (
            status = 200,
            description = "One hold: placed before, with the same content. Many: their outcomes",
            body = HoldsAnswer
        ),
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
    let call = HoldCall::place(&body)?;
    let reply = ledger.ask_for(&caller, call.request()).await?;
    let (status, body) = call.answer(reply)?;
    Ok(response(status, body))
}

/// Post many holds
#[utoipa::path(
    post,
    path = "/v1/holds/post",
    tag = "holds",
    params(IdSpaceQuery),
    request_body = PostBatchBody,
    responses(
        (status = 200, description = "Their outcomes, in the order asked", body = OutcomesBody),
        GuardProblems,
        BodyProblems,
        LedgerProblems,
    )
)]
pub async fn post_many<B: Backend>(
    State(ledger): State<Ledger<B>>,
    query: Result<Query<IdSpaceQuery>, QueryRejection>,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    ledger.settle_many(request, query, HoldCall::post).await
}

/// Void many holds
#[utoipa::path(
    post,
    path = "/v1/holds/void",
    tag = "holds",
    params(IdSpaceQuery),
    request_body = VoidBatchBody,
    responses(
        (status = 200, description = "Their outcomes, in the order asked", body = OutcomesBody),
        GuardProblems,
        BodyProblems,
        LedgerProblems,
    )
)]
pub async fn void_many<B: Backend>(
    State(ledger): State<Ledger<B>>,
    query: Result<Query<IdSpaceQuery>, QueryRejection>,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    ledger.settle_many(request, query, HoldCall::void).await
}

/// Read a hold and its state
///
/// A hold between others is answered as one that does not exist.
#[utoipa::path(
    get,
    path = "/v1/holds/{id}",
    tag = "holds",
    params(
        ("id" = inline(String), Path, description = "Hold id", example = "hold-1", min_length = 1, max_length = 64),
        IdSpaceQuery
    ),
    responses((status = 200, description = "The hold", body = HoldStateBody), GuardProblems, ReadProblems)
)]
pub async fn read_hold<B: Backend>(
    State(ledger): State<Ledger<B>>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<IdSpaceQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = ledger.door.caller(&headers)?;
    let id = path_id(path)?;
    let id_space = id_space(query, &caller)?;
    match ledger.ask_in(&caller, &id_space, Request::ReadHold { id: id.clone() }).await? {
        Reply::Hold { hold, .. } => Ok(json(StatusCode::OK, &HoldStateBody::new(&hold, &caller))),
        Reply::Refused(refusal) => Err(Problem::from(refusal).with("id", &*id)),
        _ => Err(Problem::unexpected_reply()),
    }
}

/// Move what was held, or part of it, to the account to credit
#[utoipa::path(
    post,
    path = "/v1/holds/{id}/post",
    tag = "holds",
    params(
        ("id" = inline(String), Path, description = "Hold id", example = "hold-1", min_length = 1, max_length = 64),
        IdSpaceQuery
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
    query: Result<Query<IdSpaceQuery>, QueryRejection>,
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
        IdSpaceQuery
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
    query: Result<Query<IdSpaceQuery>, QueryRejection>,
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
    async fn settle_many(
        &self,
        request: HttpRequest,
        query: Result<Query<IdSpaceQuery>, QueryRejection>,
        read: fn(&[u8]) -> Result<HoldCall, Problem>,
    ) -> Result<Response<Body>, Problem> {
        let (head, body) = request.into_parts();
        let caller = self.door.caller(&head.headers)?;
        let id_space = id_space(query, &caller)?;
        let body = self.door.read_json(&head.headers, body).await?;
        let call = read(&body)?;
        let reply = self.ask_in(&caller, &id_space, call.request()).await?;
        let (status, body) = call.answer(reply)?;
        Ok(response(status, body))
    }

    async fn one_outcome(&self, caller: &Identity, id_space: &IdSpace, request: Request) -> Result<Outcome, Problem> {
        match self.ask_in(caller, id_space, request).await? {
            Reply::Outcomes(outcomes) if outcomes.len() == 1 => Ok(outcomes[0]),
            Reply::Refused(refusal) => Ok(Outcome::Refused(refusal)),
            _ => Err(Problem::unexpected_reply()),
        }
    }
}

/// The id space that the query names, or the caller's own.
pub(super) fn id_space(
    query: Result<Query<IdSpaceQuery>, QueryRejection>,
    caller: &Identity,
) -> Result<IdSpace, Problem> {
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
