//! What an operator asks: is it up, does it add up, how is it doing, what can it do.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use tidegate_ledger::message::{AuditReport, Reply, Request};
use utoipa::ToSchema;

use super::backend::{Backend, Health};
use super::door::Door;
use super::openapi::{GuardProblems, ReadProblems};
use super::outcome::json;
use super::problem::{Problem, ProblemBody};

/// The server serves.
#[derive(Serialize, ToSchema)]
pub struct HealthBody {
    /// `ok`.
    #[schema(example = "ok")]
    status: &'static str,
}

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

/// Whether the server has recovered and serves
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operations",
    security(()),
    responses(
        (status = 200, description = "It serves", body = HealthBody),
        (status = 503, description = "Not yet (`recovering`, with `progress` from 0 to 1), or not any more", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub async fn health<B: Backend>(State(door): State<Door<B>>) -> Response<Body> {
    let unavailable =
        |code, detail: String| Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).retry_after_s(1);
    match door.backend.health() {
        Health::Serving => json(StatusCode::OK, &HealthBody { status: "ok" }),
        Health::Recovering { progress } => {
            let detail = format!("the journal is being replayed: {:.1} %", progress * 100.0);
            unavailable("recovering", detail).with("progress", progress).into_response()
        }
        Health::Failed { reason } => unavailable("shard_failed", reason).retry_after_s(30).into_response(),
        Health::Stopping => unavailable("stopping", "the server is stopping".to_owned()).into_response(),
    }
}

/// Everything the server counts, in Prometheus' text format
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    responses((status = 200, description = "Metrics", body = String, content_type = "text/plain"), GuardProblems)
)]
pub async fn metrics<B: Backend>(State(door): State<Door<B>>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    if !door.is_open("/metrics") && !door.caller(&headers)?.rights().may_read_metrics() {
        return Err(Problem::forbidden("this token may not read metrics"));
    }
    Ok(with_type(door.backend.metrics(), "text/plain; version=0.0.4; charset=utf-8"))
}

/// This document
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "operations",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value), GuardProblems)
)]
pub async fn openapi<B: Backend>(State(door): State<Door<B>>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    if !door.is_open("/openapi.json") {
        door.caller(&headers)?;
    }
    Ok(with_type(door.openapi.clone(), "application/json"))
}

/// The last reconciliation of every shard
#[utoipa::path(
    get,
    path = "/v1/audit",
    tag = "operations",
    responses((status = 200, description = "The reports", body = AuditBody), GuardProblems, ReadProblems)
)]
pub async fn audit<B: Backend>(State(door): State<Door<B>>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    let caller = door.caller(&headers)?;
    match door.ask_for(&caller, Request::ReadAudit).await? {
        Reply::Audit(reports) => Ok(json(StatusCode::OK, &AuditBody::from(&*reports))),
        Reply::Refused(refusal) => Err(refusal.into()),
        _ => Err(Problem::unexpected_reply()),
    }
}

fn with_type(text: String, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
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
