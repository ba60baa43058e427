//! `/v1/audit`: the result of the last audit of the ledger.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Serialize;
use tidegate_ledger::message::{AuditReport, Reply, Request};
use utoipa::ToSchema;

use super::backend::Backend;
use super::openapi::ReadProblems;
use super::room::Ledger;
use crate::http::GuardProblems;
use crate::json::{Problem, json};

/// The last reconciliation of every shard.
#[derive(Serialize, ToSchema)]
pub struct AuditBody<'a> {
    /// Whether all shards were reconciled, without a difference or damage.
    agreed: bool,
    /// One report per shard.
    shards: Vec<ShardAuditBody<'a>>,
}

/// What the auditor last found on one shard.
#[derive(Serialize, ToSchema)]
pub struct ShardAuditBody<'a> {
    /// Shard index.
    shard: u16,
    /// When it ended, milliseconds since the epoch; zero if there was none yet.
    finished_at_ms: u64,
    /// Sequence up to which the journal was folded.
    sequence: u64,
    /// Accounts compared.
    accounts_compared: u64,
    /// What differs; empty when all agree.
    differences: Vec<DifferenceBody<'a>>,
    /// Damage in the journal, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    damage: Option<&'a str>,
}

/// One account whose live figure is not what the journal says.
#[derive(Serialize, ToSchema)]
pub struct DifferenceBody<'a> {
    /// Account id.
    account: &'a str,
    /// `balance`, `held`, `credited` or `debited`.
    figure: &'a str,
    /// What the live state says.
    #[schema(value_type = i64)]
    live: i128,
    /// What the journal says.
    #[schema(value_type = i64)]
    journal: i128,
    /// Last sequence at which both agreed.
    agreed_at_sequence: u64,
}

/// The last reconciliation of every shard
#[utoipa::path(
    get,
    path = "/v1/audit",
    tag = "operations",
    responses((status = 200, description = "The reports", body = AuditBody), GuardProblems, ReadProblems)
)]
pub async fn audit<B: Backend>(State(ledger): State<Ledger<B>>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    let caller = ledger.door.caller(&headers)?;
    match ledger.ask_for(&caller, Request::ReadAudit).await? {
        Reply::Audit(reports) => Ok(json(StatusCode::OK, &AuditBody::from(&*reports))),
        Reply::Refused(refusal) => Err(refusal.into()),
        _ => Err(Problem::unexpected_reply()),
    }
}

impl<'a> From<&'a [AuditReport]> for AuditBody<'a> {
    fn from(reports: &'a [AuditReport]) -> AuditBody<'a> {
        let clean = |report: &AuditReport| {
            report.finished_at_ms > 0 && report.differences.is_empty() && report.damage.is_none()
        };
        let shards = reports.iter().map(|report| ShardAuditBody {
            shard: report.shard,
            finished_at_ms: report.finished_at_ms,
            sequence: report.sequence,
            accounts_compared: report.accounts_compared,
            differences: report
                .differences
                .iter()
                .map(|difference| DifferenceBody {
                    account: &difference.account,
                    figure: difference.figure,
                    live: difference.live,
                    journal: difference.journal,
                    agreed_at_sequence: difference.agreed_at_sequence,
                })
                .collect(),
            damage: report.damage.as_deref(),
        });
        AuditBody { agreed: reports.iter().all(clean), shards: shards.collect() }
    }
}
