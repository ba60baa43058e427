//! `/v1/holds`: reserving, posting and voiding.

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use tidegate_ledger::message::{Reply, Request};
use tidegate_machines::ledger::Outcome;
use utoipa::ToSchema;

use super::address::{HoldPath, IdSpaceQuery, InPath, InQuery, Named, id_space, refused};
use super::backend::Backend;
use super::openapi::{LedgerProblems, ReadProblems};
use super::room::Ledger;
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
    query: InQuery<IdSpaceQuery>,
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
    query: InQuery<IdSpaceQuery>,
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
    params(HoldPath, IdSpaceQuery),
    responses((status = 200, description = "The hold", body = HoldStateBody), GuardProblems, ReadProblems)
)]
pub async fn read_hold<B: Backend>(
    State(ledger): State<Ledger<B>>,
    path: InPath,
    query: InQuery<IdSpaceQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let Named { caller, id, id_space } = ledger.named(&headers, path, query)?;
    match ledger.ask_in(&caller, &id_space, Request::ReadHold { id: id.clone() }).await? {
        Reply::Hold { hold, .. } => Ok(json(StatusCode::OK, &HoldStateBody::new(&hold, &caller))),
        Reply::Refused(refusal) => Err(refused(refusal, &id)),
        _ => Err(Problem::unexpected_reply()),
    }
}

/// Move what was held, or part of it, to the account to credit
#[utoipa::path(
    post,
    path = "/v1/holds/{id}/post",
    tag = "holds",
    params(HoldPath, IdSpaceQuery),
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
    path: InPath,
    query: InQuery<IdSpaceQuery>,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let post = |id, body: &[u8]| {
        let PostBody { amount } = if body.is_empty() { PostBody::default() } else { decode(body)? };
        Ok(Request::PostHolds(vec![(id, amount.map(|amount| amount.0))]))
    };
    ledger.settle_one(request, path, query, post).await
}

/// Make what was held available again
#[utoipa::path(
    post,
    path = "/v1/holds/{id}/void",
    tag = "holds",
    params(HoldPath, IdSpaceQuery),
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
    path: InPath,
    query: InQuery<IdSpaceQuery>,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let void = |id, body: &[u8]| {
        if !body.is_empty() {
            let VoidBody {} = decode(body)?;
        }
        Ok(Request::VoidHolds(vec![id]))
    };
    ledger.settle_one(request, path, query, void).await
}

impl<B: Backend> Ledger<B> {
    async fn settle_many(
        &self,
        request: HttpRequest,
        query: InQuery<IdSpaceQuery>,
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

    /// Posts or voids a hold. Neither makes anything new, so first time and again are both 200.
    async fn settle_one(
        &self,
        request: HttpRequest,
        path: InPath,
        query: InQuery<IdSpaceQuery>,
        read: impl FnOnce(Box<str>, &[u8]) -> Result<Request, Problem>,
    ) -> Result<Response<Body>, Problem> {
        let (head, body) = request.into_parts();
        let Named { caller, id, id_space } = self.named(&head.headers, path, query)?;
        let body = self.door.read_optional_json(&head.headers, body).await?;
        let outcome = match self.ask_in(&caller, &id_space, read(id.clone(), &body)?).await? {
            Reply::Outcomes(outcomes) if outcomes.len() == 1 => outcomes[0],
            Reply::Refused(refusal) => Outcome::Refused(refusal),
            _ => return Err(Problem::unexpected_reply()),
        };
        let (_, body) = single_body(&id, outcome)?;
        Ok(response(StatusCode::OK, body))
    }
}
