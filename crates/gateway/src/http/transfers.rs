//! `POST /v1/transfers`: one transfer, or many.

use axum::body::{Body, Bytes};
use axum::http::Response;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::backend::Backend;
use super::body::read_json;
use super::decode::{Text, Whole};
use super::door::Door;
use super::openapi::{any_amount_schema, credit_schema, debit_schema, memo_schema, transfer_id_schema};
use super::outcome::{self, OutcomeBody};
use super::problem::Problem;
use super::transfer_call::TransferCall;

/// Move `amount` from `debit` to `credit`, exactly once for this `id`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferBody<'a> {
    /// Client-chosen, unique for ever: the same id and content gives the first outcome again.
    #[serde(borrow)]
    #[schema(schema_with = transfer_id_schema)]
    pub(super) id: Text<'a>,
    /// Account to take from.
    #[serde(borrow)]
    #[schema(schema_with = debit_schema)]
    pub(super) debit: Text<'a>,
    /// Account to give to.
    #[serde(borrow)]
    #[schema(schema_with = credit_schema)]
    pub(super) credit: Text<'a>,
    /// Minor units.
    #[schema(value_type = i64, minimum = 1, example = 1)]
    pub(super) amount: Whole,
    /// Free text for the history.
    #[serde(borrow, default)]
    #[schema(schema_with = memo_schema, required = false)]
    pub(super) memo: Text<'a>,
}

/// A transfer among many: what is wrong with it is said in its line of the answer, so any text and number goes.
#[derive(ToSchema)]
#[schema(as = TransferLine)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the items of a batch; they are decoded as TransferBody")]
pub struct TransferLineBody {
    /// Client-chosen, unique for ever.
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

/// What became of each transfer, in the order asked.
#[derive(Debug, Serialize, ToSchema)]
pub struct OutcomesBody<'a> {
    /// One line per transfer.
    pub outcomes: Vec<OutcomeBody<'a>>,
}

impl<B: Backend> Door<B> {
    /// Serves `POST /v1/transfers`; `body` may be of any server.
    pub async fn transfer<T>(&self, head: &Parts, body: T) -> Result<Response<Body>, Problem>
    where
        T: hyper::body::Body<Data = Bytes>,
    {
        let caller = self.caller(&head.headers)?;
        let body = read_json(&head.headers, body, &self.limits).await?;
        let call = TransferCall::read(&body)?;
        self.metrics.transfers.add(call.transfers() as u64);
        let reply = self.ask_for(&caller, call.request()).await?;
        let (status, body) = call.answer(reply)?;
        Ok(outcome::response(status, body))
    }
}
