//! Outcomes as JSON: one body for a single transfer or hold, one line per transfer of a batch.

use axum::http::StatusCode;
use serde::Serialize;
use tidegate_machines::ledger::{Outcome, Refusal};
use utoipa::ToSchema;

use crate::json::{Problem, encode};

/// What became of a transfer or hold.
#[derive(Debug, Serialize, ToSchema)]
pub struct OutcomeBody<'a> {
    /// Its id.
    #[schema(example = "vote-1")]
    pub id: &'a str,
    /// `applied` by this request, `duplicate` of an earlier one with the same content, or `refused`.
    pub outcome: OutcomeWord,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "insufficient_funds")]
    pub code: Option<&'static str>,
    /// With `insufficient_funds`: what was available when it was decided, in minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub available: Option<u64>,
    /// `true` if it was not decided by this request: the id was refused before, and stays so. Send a new id.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub remembered: bool,
    /// With `remembered`: when it was decided, milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub decided_at_ms: Option<u64>,
}

/// The word for an outcome.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeWord {
    /// Decided and journaled by this request.
    Applied,
    /// Applied before; nothing was done again.
    Duplicate,
    /// Refused.
    Refused,
}

/// What became of each transfer, in the order asked.
#[derive(Debug, Serialize, ToSchema)]
pub struct OutcomesBody<'a> {
    /// One line per transfer.
    pub outcomes: Vec<OutcomeBody<'a>>,
}

impl<'a> OutcomeBody<'a> {
    /// The line for `id`.
    pub fn new(id: &'a str, outcome: Outcome) -> OutcomeBody<'a> {
        let code = outcome.refusal();
        let (outcome, decided_at_ms) = match outcome {
            Outcome::Applied => (OutcomeWord::Applied, None),
            Outcome::Duplicate => (OutcomeWord::Duplicate, None),
            Outcome::Refused(_) => (OutcomeWord::Refused, None),
            Outcome::RefusedBefore { decided_at, .. } => (OutcomeWord::Refused, Some(decided_at.0)),
        };
        let available = match code {
            Some(Refusal::InsufficientFunds { available }) => Some(available),
            _ => None,
        };
        let remembered = decided_at_ms.is_some();
        OutcomeBody { id, outcome, code: code.map(Refusal::code), available, remembered, decided_at_ms }
    }
}

/// The answer to a single transfer or hold: 201 or 200 with a body, or a problem.
pub fn single_body(id: &str, outcome: Outcome) -> Result<(StatusCode, Vec<u8>), Problem> {
    let status = match outcome {
        Outcome::Applied => StatusCode::CREATED,
        Outcome::Duplicate => StatusCode::OK,
        Outcome::Refused(refusal) => return Err(Problem::from(refusal).with("id", id).with("outcome", "refused")),
        Outcome::RefusedBefore { refusal, decided_at } => {
            let problem = Problem::remembered(refusal, decided_at);
            return Err(problem.with("id", id).with("outcome", "refused"));
        }
    };
    Ok((status, encode(&OutcomeBody::new(id, outcome))))
}
