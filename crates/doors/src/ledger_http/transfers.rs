//! `POST /v1/transfers`: one transfer, or many.

use axum::body::{Body, Bytes};
use axum::extract::{Request as HttpRequest, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use tidegate_ledger::message::{Reply, Request};
use tidegate_machines::ledger::Refusal;
use utoipa::ToSchema;

use super::address::{IdSpaceQuery, InPath, InQuery, Named, TransferPath, refused};
use super::backend::Backend;
use super::openapi::{LedgerProblems, ReadProblems};
use super::room::Ledger;
use crate::http::{BodyProblems, GuardProblems, Readable};
use crate::json::{Problem, json, whole_response};
use crate::ledger_json::TransferCall;
use crate::ledger_json::moves::TransferStateBody;
use crate::ledger_json::outcome::{OutcomeBody, OutcomesBody};
use crate::ledger_json::schemas::{any_amount_schema, code_schema};
use crate::ledger_json::transfer::TransferBody;

/// Path of the hot request.
pub const TRANSFERS: &str = "/v1/transfers";

/// A transfer among many: what is wrong with it is said in its line of the answer, so any text and number is accepted
/// here.
#[derive(ToSchema)]
#[schema(as = TransferLine)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the items of a batch; they are decoded as TransferBody")]
pub struct TransferLineBody {
    /// Chosen by the client. Never used again for another transfer or hold.
    #[schema(example = "vote-1")]
    id: String,
    /// Account to take from.
    #[schema(example = "wallet:dave")]
    debit: String,
    /// Account to give to.
    #[schema(example = "candidate:3")]
    credit: String,
    /// Minor units.
    #[schema(schema_with = any_amount_schema)]
    amount: u64,
    /// Free text for the history.
    #[schema(required = false)]
    memo: String,
    /// The reason, as the client numbers its reasons.
    #[schema(schema_with = code_schema, required = false)]
    code: u32,
    /// A key of another system.
    #[schema(required = false)]
    user_data: String,
}

/// Many transfers at once.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the second form of the body; both are decoded as EitherBody")]
pub struct TransferBatchBody {
    /// The transfers, decided in this order.
    #[schema(min_items = 1, max_items = 8190)]
    transfers: Vec<TransferLineBody>,
    /// All or nothing; their debit accounts must share a shard.
    #[schema(required = false)]
    linked: bool,
}

/// One transfer, or many.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes the body for the OpenAPI document")]
pub enum TransfersBody<'a> {
    /// Answered 201, 200 or by a problem.
    One(TransferBody<'a>),
    /// Answered by one line per transfer.
    Many(TransferBatchBody),
}

/// What became of the transfer or transfers.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes the answer for the OpenAPI document")]
pub enum TransfersAnswer<'a> {
    /// To one transfer: a duplicate.
    One(OutcomeBody<'a>),
    /// To many.
    Many(OutcomesBody<'a>),
}

/// Move money, once per id
///
/// The same id and content gives the first outcome again; the same id with other content is refused.
// Requests come by the hot path; this describes it, and lets the routes know which method is served.
#[utoipa::path(
    post,
    path = TRANSFERS,
    tag = "transfers",
    request_body = TransfersBody,
    responses(
        (status = 201, description = "One transfer: applied by this request", body = OutcomeBody),
        (
            status = 200,
            description = "One transfer: applied before, with the same content. Many: their outcomes",
            body = TransfersAnswer
        ),
        GuardProblems,
        BodyProblems,
        LedgerProblems,
    )
)]
pub async fn submit<B: Backend>(
    State(ledger): State<Ledger<B>>,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    Ok(ledger.transfer(&head, body).await?.map(Body::new))
}

/// Read what became of a transfer
///
/// A transfer between others is answered as one that does not exist. Of a refused one, the content is not kept.
#[utoipa::path(
    get,
    path = "/v1/transfers/{id}",
    tag = "transfers",
    params(TransferPath, IdSpaceQuery),
    responses((status = 200, description = "The transfer", body = TransferStateBody), GuardProblems, ReadProblems)
)]
pub async fn read_transfer<B: Backend>(
    State(ledger): State<Ledger<B>>,
    path: InPath,
    query: InQuery<IdSpaceQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let Named { caller, id, id_space } = ledger.named(&headers, path, query)?;
    match ledger.ask_in(&caller, &id_space, Request::ReadTransfer { id: id.clone() }).await? {
        Reply::Transfer { shard, transfer } => {
            Ok(json(StatusCode::OK, &TransferStateBody::new(shard, &transfer, &caller)))
        }
        // One id names one thing. Whoever may see the hold is told where it is.
        Reply::Refused(refusal @ Refusal::TransferNotFound) => {
            let hold = ledger.ask_in(&caller, &id_space, Request::ReadHold { id: id.clone() }).await?;
            let problem = refused(refusal, &id);
            Err(match hold {
                Reply::Hold { .. } => problem.with_detail("this is the id of a hold: read it at /v1/holds/{id}"),
                _ => problem,
            })
        }
        Reply::Refused(refusal) => Err(refused(refusal, &id)),
        _ => Err(Problem::unexpected_reply()),
    }
}

impl<B: Backend> Ledger<B> {
    /// Serves `POST /v1/transfers`; `body` may be of any server.
    pub async fn transfer<T>(&self, head: &Parts, body: T) -> Result<Response<Full<Bytes>>, Problem>
    where
        T: Readable,
    {
        let caller = self.door.caller(&head.headers)?;
        let body = self.door.read_json(&head.headers, body).await?;
        let call = TransferCall::read(&body)?;
        self.metrics.transfers.add(call.transfers() as u64);
        let reply = self.ask_for(&caller, call.request()).await?;
        let (status, body) = call.answer(reply)?;
        Ok(whole_response(status, body))
    }
}
