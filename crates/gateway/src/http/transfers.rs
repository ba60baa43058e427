//! `POST /v1/transfers`: one transfer, or many.

use std::sync::atomic::Ordering::Relaxed;

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_machines::ledger::{Outcome, TRANSFERS_PER_REQUEST_MAX, Transfer};
use tidegate_shard::message::{Reply, Request, TransferBatch};
use utoipa::ToSchema;

use super::backend::Backend;
use super::body::read_json;
use super::decode::{Object, Text, Whole, decode, present};
use super::door::Door;
use super::openapi::{any_amount_schema, credit_schema, debit_schema, memo_schema, transfer_id_schema};
use super::outcome::{self, OutcomeBody};
use super::problem::Problem;
use crate::auth::Identity;

/// Move `amount` from `debit` to `credit`, exactly once for this `id`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferBody<'a> {
    /// Client-chosen, unique for ever: the same id and content gives the first outcome again.
    #[serde(borrow)]
    #[schema(schema_with = transfer_id_schema)]
    id: Text<'a>,
    /// Account to take from.
    #[serde(borrow)]
    #[schema(schema_with = debit_schema)]
    debit: Text<'a>,
    /// Account to give to.
    #[serde(borrow)]
    #[schema(schema_with = credit_schema)]
    credit: Text<'a>,
    /// Minor units.
    #[schema(value_type = i64, minimum = 1, example = 1)]
    amount: Whole,
    /// Free text for the history.
    #[serde(borrow, default)]
    #[schema(schema_with = memo_schema, required = false)]
    memo: Text<'a>,
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

/// Both forms in one: the body is read once, and which form it is shows at its end.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EitherBody<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    debit: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    credit: Option<Text<'a>>,
    #[serde(default, deserialize_with = "present")]
    amount: Option<Whole>,
    #[serde(borrow, default, deserialize_with = "present")]
    memo: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    transfers: Option<Vec<Object<TransferBody<'a>>>>,
    #[serde(default, deserialize_with = "present")]
    linked: Option<bool>,
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
        let either: EitherBody<'_> = decode(&body)?;
        match either {
            EitherBody {
                transfers: Some(transfers),
                linked,
                id: None,
                debit: None,
                credit: None,
                amount: None,
                memo: None,
            } => self.transfer_many(&caller, &transfers, linked.unwrap_or(false)).await,
            EitherBody { transfers: Some(_), .. } => Err(Problem::invalid(
                "field_invalid",
                "send one transfer, or `transfers` and `linked`; this body has fields of both",
            )),
            EitherBody { linked: Some(_), .. } => {
                Err(Problem::invalid("field_invalid", "`linked` goes with `transfers`, which is missing"))
            }
            EitherBody { id, debit, credit, amount, memo, .. } => {
                let (Some(id), Some(debit), Some(credit), Some(amount)) = (&id, &debit, &credit, amount) else {
                    return Err(missing_field(&[
                        ("id", id.is_some()),
                        ("debit", debit.is_some()),
                        ("credit", credit.is_some()),
                        ("amount", amount.is_some()),
                    ]));
                };
                let memo = memo.as_deref().unwrap_or("");
                self.transfer_one(&caller, Transfer { id, debit, credit, amount: amount.0, memo }).await
            }
        }
    }

    async fn transfer_one(&self, caller: &Identity, transfer: Transfer<'_>) -> Result<Response<Body>, Problem> {
        self.counters.transfers.fetch_add(1, Relaxed);
        let batch = TransferBatch::copy_of([transfer]);
        match self.ask_for(caller, Request::Transfers { linked: false, batch }).await? {
            Reply::Outcomes(outcomes) if outcomes.len() == 1 => outcome::single(transfer.id, outcomes[0]),
            Reply::Refused(refusal) => outcome::single(transfer.id, Outcome::Refused(refusal)),
            _ => Err(Problem::unexpected_reply()),
        }
    }

    async fn transfer_many(
        &self,
        caller: &Identity,
        transfers: &[Object<TransferBody<'_>>],
        linked: bool,
    ) -> Result<Response<Body>, Problem> {
        if transfers.is_empty() || transfers.len() > TRANSFERS_PER_REQUEST_MAX {
            return Err(tidegate_machines::ledger::Refusal::BatchSizeInvalid.into());
        }
        self.counters.transfers.fetch_add(transfers.len() as u64, Relaxed);
        let batch = TransferBatch::copy_of(transfers.iter().map(|Object(transfer)| Transfer {
            id: &transfer.id,
            debit: &transfer.debit,
            credit: &transfer.credit,
            amount: transfer.amount.0,
            memo: &transfer.memo,
        }));
        match self.ask_for(caller, Request::Transfers { linked, batch }).await? {
            Reply::Outcomes(outcomes) if outcomes.len() == transfers.len() => {
                let lines = transfers.iter().zip(outcomes);
                let outcomes =
                    lines.map(|(Object(transfer), outcome)| OutcomeBody::new(&transfer.id, outcome)).collect();
                Ok(outcome::json(StatusCode::OK, &OutcomesBody { outcomes }))
            }
            Reply::Refused(refusal) => Err(refusal.into()),
            _ => Err(Problem::unexpected_reply()),
        }
    }
}

fn missing_field(fields: &[(&'static str, bool)]) -> Problem {
    let missing = fields.iter().find(|(_, present)| !present).map_or("", |(name, _)| name);
    Problem::invalid("field_invalid", format!("missing field `{missing}`")).with("field", missing)
}
