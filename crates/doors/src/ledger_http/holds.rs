//! `/v1/holds`: reserving, posting and voiding.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request as HttpRequest, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use tidegate_ledger::message::{Reply, Request};
use tidegate_machines::ledger::Outcome;
use utoipa::ToSchema;

use super::accounts::path_id;
use super::backend::Backend;
use super::openapi::{LedgerProblems, ReadProblems};
use super::room::Ledger;
use crate::auth::Identity;
use crate::http::{BodyProblems, GuardProblems};
use crate::json::{Problem, Whole, decode, json, present, response};
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
    ledger.hold_call(request, HoldCall::place).await
}

/// Post many holds
#[utoipa::path(
    post,
    path = "/v1/holds/post",
    tag = "holds",
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
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    ledger.hold_call(request, HoldCall::post).await
}

/// Void many holds
#[utoipa::path(
    post,
    path = "/v1/holds/void",
    tag = "holds",
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
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    ledger.hold_call(request, HoldCall::void).await
}

/// Read a hold and its state
///
/// A hold between others is answered as one that does not exist.
#[utoipa::path(
    get,
    path = "/v1/holds/{id}",
    tag = "holds",
    params(("id" = inline(String), Path, description = "Hold id", example = "hold-1", min_length = 1, max_length = 64)),
    responses((status = 200, description = "The hold", body = HoldStateBody), GuardProblems, ReadProblems)
)]
pub async fn read_hold<B: Backend>(
    State(ledger): State<Ledger<B>>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = ledger.door.caller(&headers)?;
    let id = path_id(path)?;
    match ledger.ask_for(&caller, Request::ReadHold { id: id.clone() }).await? {
        Reply::Hold { hold, .. } => Ok(json(StatusCode::OK, &HoldStateBody::from(&hold))),
        Reply::Refused(refusal) => Err(Problem::from(refusal).with("id", &*id)),
        _ => Err(Problem::unexpected_reply()),
    }
}

/// Move what was held, or part of it, to the account to credit
#[utoipa::path(
    post,
    path = "/v1/holds/{id}/post",
    tag = "holds",
    params(("id" = inline(String), Path, description = "Hold id", example = "hold-1", min_length = 1, max_length = 64)),
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
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = ledger.door.caller(&head.headers)?;
    let id = path_id(path)?;
    let body = ledger.door.read_optional_json(&head.headers, body).await?;
    let PostBody { amount } = if body.is_empty() { PostBody::default() } else { decode(&body)? };
    let request = Request::PostHolds(vec![(id.clone(), amount.map(|amount| amount.0))]);
    settled(&id, ledger.one_outcome(&caller, request).await?)
}

/// Make what was held available again
#[utoipa::path(
    post,
    path = "/v1/holds/{id}/void",
    tag = "holds",
    params(("id" = inline(String), Path, description = "Hold id", example = "hold-1", min_length = 1, max_length = 64)),
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
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = ledger.door.caller(&head.headers)?;
    let id = path_id(path)?;
    let body = ledger.door.read_optional_json(&head.headers, body).await?;
    if !body.is_empty() {
        let VoidBody {} = decode(&body)?;
    }
    settled(&id, ledger.one_outcome(&caller, Request::VoidHolds(vec![id.clone()])).await?)
}

impl<B: Backend> Ledger<B> {
    async fn hold_call(
        &self,
        request: HttpRequest,
        read: fn(&[u8]) -> Result<HoldCall, Problem>,
    ) -> Result<Response<Body>, Problem> {
        let (head, body) = request.into_parts();
        let caller = self.door.caller(&head.headers)?;
        let body = self.door.read_json(&head.headers, body).await?;
        let call = read(&body)?;
        let reply = self.ask_for(&caller, call.request()).await?;
        let (status, body) = call.answer(reply)?;
        Ok(response(status, body))
    }

    async fn one_outcome(&self, caller: &Identity, request: Request) -> Result<Outcome, Problem> {
        match self.ask_for(caller, request).await? {
            Reply::Outcomes(outcomes) if outcomes.len() == 1 => Ok(outcomes[0]),
            Reply::Refused(refusal) => Ok(Outcome::Refused(refusal)),
            _ => Err(Problem::unexpected_reply()),
        }
    }
}

/// The answer to a hold that was asked for: 201, 200 or a problem.
fn placed(id: &str, outcome: Outcome) -> Result<Response<Body>, Problem> {
    single_body(id, outcome).map(|(status, body)| response(status, body))
}

/// Posting and voiding make nothing new, so both first time and again are 200.
fn settled(id: &str, outcome: Outcome) -> Result<Response<Body>, Problem> {
    match outcome {
        Outcome::Refused(_) => placed(id, outcome),
        Outcome::Applied | Outcome::Duplicate => Ok(json(StatusCode::OK, &OutcomeBody::new(id, outcome))),
    }
}
