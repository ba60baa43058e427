//! Requests for transfers in JSON, and their answers, the same for HTTP and MQTT.
//!
//! ```text
//!   body ─▶ TransferCall::read ─▶ request ─▶ (a door asks the ledger) ─▶ reply
//!   reply ─▶ TransferCall::answer ─▶ status and body, or problem
//! ```

use axum::http::StatusCode;
use serde::Deserialize;
use tidegate_ledger::message::{Reply, Request, TransferBatch};
use tidegate_machines::ledger::{Label, Outcome, Refusal, TRANSFERS_PER_REQUEST_MAX, Transfer};

use super::outcome::{OutcomeBody, OutcomesBody, single_body};
use super::transfer::TransferBody;
use crate::json::{Object, Problem, Text, Whole, Whole32, codes, decode, encode, present};

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
    #[serde(default, deserialize_with = "present")]
    code: Option<Whole32>,
    #[serde(borrow, default, deserialize_with = "present")]
    user_data: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    transfers: Option<Vec<Object<TransferBody<'a>>>>,
    #[serde(default, deserialize_with = "present")]
    linked: Option<bool>,
}

/// What a client asked for; needed to encode the answer.
#[derive(Debug)]
pub struct TransferCall {
    batch: TransferBatch,
    /// `None` for a single transfer, which is answered in the single form.
    linked: Option<bool>,
}

impl TransferCall {
    /// Reads the body of `POST /v1/transfers`.
    pub fn read(body: &[u8]) -> Result<TransferCall, Problem> {
        match decode(body)? {
            EitherBody {
                transfers: Some(transfers),
                linked,
                id: None,
                debit: None,
                credit: None,
                amount: None,
                memo: None,
                code: None,
                user_data: None,
            } => TransferCall::many(&transfers, linked.unwrap_or(false)),
            EitherBody { transfers: Some(_), .. } => Err(Problem::new(
                codes::FIELD_INVALID,
                "send one transfer, or `transfers` and `linked`; this body has fields of both",
            )),
            EitherBody { linked: Some(_), .. } => {
                Err(Problem::new(codes::FIELD_INVALID, "`linked` goes with `transfers`, which is missing"))
            }
            EitherBody { id, debit, credit, amount, memo, code, user_data, .. } => {
                let (Some(id), Some(debit), Some(credit), Some(amount)) = (&id, &debit, &credit, amount) else {
                    return Err(first_missing(&[
                        ("id", id.is_some()),
                        ("debit", debit.is_some()),
                        ("credit", credit.is_some()),
                        ("amount", amount.is_some()),
                    ]));
                };
                let memo = memo.as_deref().unwrap_or("");
                let label =
                    Label { code: code.unwrap_or_default().get(), user_data: user_data.as_deref().unwrap_or("") };
                let batch = TransferBatch::copy_of([Transfer { id, debit, credit, amount: amount.0, memo, label }]);
                Ok(TransferCall { batch, linked: None })
            }
        }
    }

    fn many(transfers: &[Object<TransferBody<'_>>], linked: bool) -> Result<TransferCall, Problem> {
        if transfers.is_empty() || transfers.len() > TRANSFERS_PER_REQUEST_MAX {
            return Err(Refusal::BatchSizeInvalid.into());
        }
        let batch = TransferBatch::copy_of(transfers.iter().map(|Object(transfer)| Transfer {
            id: &transfer.id,
            debit: &transfer.debit,
            credit: &transfer.credit,
            amount: transfer.amount.0,
            memo: &transfer.memo,
            label: Label { code: transfer.code.get(), user_data: &transfer.user_data },
        }));
        Ok(TransferCall { batch, linked: Some(linked) })
    }

    /// How many transfers.
    pub fn transfers(&self) -> usize {
        self.batch.len()
    }

    /// What to ask of the ledger, if the caller may.
    pub fn request(&self) -> Request {
        Request::Transfers { linked: self.linked.unwrap_or(false), batch: self.batch.clone() }
    }

    /// The answer in the form of the question: a status and a JSON body.
    pub fn answer(&self, reply: Reply) -> Result<(StatusCode, Vec<u8>), Problem> {
        match (self.linked, reply) {
            (_, Reply::Unavailable(reason)) => Err(reason.into()),
            (None, Reply::Outcomes(outcomes)) if outcomes.len() == 1 => self.single(outcomes[0]),
            (None, Reply::Refused(refusal)) => self.single(Outcome::Refused(refusal)),
            (Some(_), Reply::Outcomes(outcomes)) if outcomes.len() == self.batch.len() => {
                let lines = self.batch.iter().zip(outcomes);
                let outcomes = lines.map(|(transfer, outcome)| OutcomeBody::new(transfer.id, outcome)).collect();
                Ok((StatusCode::OK, encode(&OutcomesBody { outcomes })))
            }
            (Some(_), Reply::Refused(refusal)) => Err(refusal.into()),
            _ => Err(Problem::unexpected_reply()),
        }
    }

    fn single(&self, outcome: Outcome) -> Result<(StatusCode, Vec<u8>), Problem> {
        single_body(self.batch.get(0).id, outcome)
    }
}

/// Of fields that must all be there, the first that is not.
pub(crate) fn first_missing(fields: &[(&'static str, bool)]) -> Problem {
    let missing = fields.iter().find(|(_, is_there)| !is_there).map_or("", |(name, _)| name);
    Problem::missing_field(None, missing)
}
