//! The two forms of `POST /v1/accounts`, and of the same over MQTT: one account, or many.
//!
//! ```text
//!   body ─▶ OpenCall::read ─▶ request ─▶ (the ledger) ─▶ reply ─▶ OpenCall::answer ─▶ answer, or problem
//! ```

use axum::http::StatusCode;
use serde::Deserialize;
use tidegate_ledger::message::{OpenBatch, Reply, Request};
use tidegate_machines::ledger::{Refusal, TRANSFERS_PER_REQUEST_MAX};
use utoipa::ToSchema;

use super::account::{AccountBody, KindWord};
use super::first_missing;
use super::outcome::{OutcomeBody, OutcomesBody};
use super::schemas::{asset_schema, debit_schema};
use crate::json::{Object, Problem, Text, codes, decode, encode, present};

/// An account to open.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenBody<'a> {
    /// Account id.
    #[serde(borrow)]
    #[schema(schema_with = debit_schema)]
    id: Text<'a>,
    /// Unit of measure.
    #[serde(borrow)]
    #[schema(schema_with = asset_schema)]
    asset: Text<'a>,
    /// What it may do.
    kind: KindWord,
}

/// Both forms in one: the body is read once, and which form it is shows at its end.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EitherBody<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    asset: Option<Text<'a>>,
    #[serde(default, deserialize_with = "present")]
    kind: Option<KindWord>,
    #[serde(borrow, default, deserialize_with = "present")]
    accounts: Option<Vec<Object<OpenBody<'a>>>>,
}

/// Many accounts at once.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the second form of the body; both are decoded as EitherBody")]
pub struct OpenBatchBody<'a> {
    /// The accounts, opened in this order.
    #[schema(min_items = 1, max_items = 8190)]
    accounts: Vec<OpenBody<'a>>,
}

/// One account, or many.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes the body for the OpenAPI document")]
pub enum OpensBody<'a> {
    /// Answered 201, 200 or by a problem.
    One(OpenBody<'a>),
    /// Answered by one line per account.
    Many(OpenBatchBody<'a>),
}

/// What became of the account or accounts.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes the answer for the OpenAPI document")]
pub enum OpensAnswer<'a> {
    /// To one account that was open already.
    One(AccountBody<'a>),
    /// To many.
    Many(OutcomesBody<'a>),
}

/// What a client asked for; needed to encode the answer.
#[derive(Debug)]
pub enum OpenCall {
    /// One account.
    One(Request, Box<str>),
    /// Many, answered in lines.
    Many(OpenBatch),
}

impl OpenCall {
    /// Reads the body.
    pub fn read(body: &[u8]) -> Result<OpenCall, Problem> {
        match decode(body)? {
            EitherBody { accounts: Some(accounts), id: None, asset: None, kind: None } => OpenCall::many(&accounts),
            EitherBody { accounts: Some(_), .. } => {
                Err(Problem::new(codes::FIELD_INVALID, "send one account, or `accounts`; this body has fields of both"))
            }
            EitherBody { id: Some(id), asset: Some(asset), kind: Some(kind), .. } => {
                let request = Request::OpenAccount { id: id.boxed(), asset: asset.boxed(), kind: kind.into() };
                Ok(OpenCall::One(request, id.boxed()))
            }
            EitherBody { id, asset, .. } => {
                Err(first_missing(&[("id", id.is_some()), ("asset", asset.is_some()), ("kind", false)]))
            }
        }
    }

    fn many(accounts: &[Object<OpenBody<'_>>]) -> Result<OpenCall, Problem> {
        if accounts.is_empty() || accounts.len() > TRANSFERS_PER_REQUEST_MAX {
            return Err(Refusal::BatchSizeInvalid.into());
        }
        let texts = accounts.iter().map(|Object(open)| (&*open.id, &*open.asset, open.kind.into()));
        Ok(OpenCall::Many(OpenBatch::copy_of(texts)))
    }

    /// What to ask of the ledger, if the caller may.
    pub fn request(&self) -> Request {
        match self {
            OpenCall::One(request, _) => request.clone(),
            OpenCall::Many(batch) => Request::OpenAccounts(batch.clone()),
        }
    }

    /// The answer in the form of the question.
    pub fn answer(&self, reply: Reply) -> Result<(StatusCode, Vec<u8>), Problem> {
        match (self, reply) {
            (_, Reply::Unavailable(reason)) => Err(reason.into()),
            (OpenCall::One(..), Reply::AccountOpened { created, account }) => {
                let status = if created { StatusCode::CREATED } else { StatusCode::OK };
                Ok((status, encode(&AccountBody::from(&account))))
            }
            (OpenCall::One(_, id), Reply::Refused(refusal)) => Err(Problem::from(refusal).with("id", &**id)),
            (OpenCall::Many(batch), Reply::Outcomes(outcomes)) if outcomes.len() == batch.len() => {
                let lines = batch.ids().zip(outcomes).map(|(id, outcome)| OutcomeBody::new(id, outcome));
                Ok((StatusCode::OK, encode(&OutcomesBody { outcomes: lines.collect() })))
            }
            (OpenCall::Many(_), Reply::Refused(refusal)) => Err(refusal.into()),
            _ => Err(Problem::unexpected_reply()),
        }
    }
}
