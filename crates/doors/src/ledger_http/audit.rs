//! `/v1/audit`: the result of the last audit of the ledger.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Serialize;
use tidegate_ledger::message::{AuditDifference, AuditReport, AuditState, Reply, Request};
use tidegate_machines::DamagedPlace;
use utoipa::ToSchema;

use super::backend::Backend;
use super::openapi::ReadProblems;
use super::room::Ledger;
use crate::http::{Act, GuardProblems, PeerAddress};
use crate::json::{Problem, json};

/// The last reconciliation of every shard.
#[derive(Serialize, ToSchema)]
pub struct AuditBody<'a> {
    /// Whether all shards were reconciled, without a difference or damage.
    agreed: bool,
    /// The worst of the shards' states: `differs`, else `damaged`, else `never_run`, else `agreed`.
    #[schema(example = "agreed")]
    state: &'static str,
    /// Whether money was created or lost over all shards, by asset; empty until all were compared.
    conservation: Vec<ConservationBody<'a>>,
    /// One report per shard.
    shards: Vec<ShardAuditBody<'a>>,
}

/// The money of one asset over all shards.
#[derive(Serialize, ToSchema)]
pub struct ConservationBody<'a> {
    /// Unit of measure.
    asset: &'a str,
    /// Balances plus sent minus received: zero unless something is wrong.
    #[schema(value_type = i64)]
    sum: i128,
    /// Sent by one shard and not taken in by another yet.
    #[schema(value_type = i64)]
    in_transit: i128,
}

/// What the auditor last found on one shard.
#[derive(Serialize, ToSchema)]
pub struct ShardAuditBody<'a> {
    /// Shard index.
    shard: u16,
    /// `never_run`, `agreed`, `differs` or `damaged`.
    #[schema(example = "agreed")]
    state: &'static str,
    /// When it ended, milliseconds since the epoch; zero if there was none yet.
    finished_at_ms: u64,
    /// Sequence up to which the journal was folded.
    sequence: u64,
    /// Accounts compared.
    accounts_compared: u64,
    /// Open holds compared.
    holds_compared: u64,
    /// What differs; empty when all agree.
    differences: Vec<DifferenceBody<'a>>,
    /// Differences beyond those that are named.
    differences_more: u64,
    /// Damage in the journal, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    damage: Option<&'a str>,
    /// How far all that is stored was read again.
    scrub: ScrubBody<'a>,
    /// The fold from the first record on, which rests on no snapshot.
    first_fold: FirstFoldBody,
}

/// How far all that a shard stored was read again.
#[derive(Serialize, ToSchema)]
pub struct ScrubBody<'a> {
    /// Position in the journal that the pass under way has reached.
    position: u64,
    /// Position at which it ends.
    of: u64,
    /// When the last pass over everything ended, milliseconds since the epoch; zero if none has.
    last_full_at_ms: u64,
    /// What cannot be read.
    damage: Vec<DamageBody<'a>>,
}

/// Stored bytes that cannot be read any more.
#[derive(Serialize, ToSchema)]
pub struct DamageBody<'a> {
    /// From the data directory on.
    file: &'a str,
    /// In that file.
    offset: u64,
    /// What is wrong there.
    what: &'a str,
    /// Which records cannot be read, as far as it can be told.
    lost: &'a str,
}

/// The fold from the first record on.
#[derive(Serialize, ToSchema)]
pub struct FirstFoldBody {
    /// Sequence that it has reached.
    sequence: u64,
    /// Sequence up to which the live state was shown to follow from the first record; zero if it was not yet.
    agreed_at_sequence: u64,
}

/// One account, hold or shard whose live figure is not what the journal says.
#[derive(Serialize, ToSchema)]
pub struct DifferenceBody<'a> {
    /// Account id; `(shard N)` for what was exchanged with another shard, `(all accounts)` for their number.
    account: &'a str,
    /// The hold whose figure it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    hold: Option<&'a str>,
    /// `balance`, `held`, `credited`, `debited`, `kind`, `asset` or `present` of an account; `count` of all; `amount`,
    /// `expires_at_ms`, `placed_at`, `debit`, `credit` or `present` of a hold; `watermark`, `outbound`, `confirmed`,
    /// `sent` or `received` of another shard; `arrived`: what that shard has sent, and this one should have taken in.
    figure: &'a str,
    /// What the live state says.
    #[schema(value_type = i64)]
    live: i128,
    /// What the journal says.
    #[schema(value_type = i64)]
    journal: i128,
    /// What the live state says, for a figure that is no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    live_text: Option<&'a str>,
    /// What the journal says, for a figure that is no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    journal_text: Option<&'a str>,
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

/// A reconciliation was asked for.
#[derive(Serialize, ToSchema)]
pub struct AuditAskedBody {
    /// When, milliseconds since the epoch: the reports of a reconciliation that comes after it have a later
    /// `finished_at_ms`. One that was under way is finished first.
    asked_at_ms: u64,
}

/// Reconcile every shard at once, and not only when it is time
///
/// The answer does not wait for the end. Those who ask before it begins get the same one.
#[utoipa::path(
    post,
    path = "/v1/audit",
    tag = "operations",
    responses((status = 202, description = "It follows", body = AuditAskedBody), GuardProblems, ReadProblems)
)]
pub async fn run_audit<B: Backend>(
    State(ledger): State<Ledger<B>>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = ledger.door.caller(&headers)?;
    let act = Act { caller: &caller, address, act: "run audit", what: "" };
    if !caller.rights().may_run_audit() {
        return Err(act.forbidden("this token may not ask for an audit; a service may with the grant \"audit:run\""));
    }
    let operations = ledger.door.operations();
    act.done(match operations.health().problem() {
        Some(problem) => Err(problem),
        None => Ok(json(StatusCode::ACCEPTED, &AuditAskedBody { asked_at_ms: operations.run_audit() })),
    })
}

impl<'a> From<&'a [AuditReport]> for AuditBody<'a> {
    fn from(reports: &'a [AuditReport]) -> AuditBody<'a> {
        let state = worst(reports.iter().map(AuditReport::state));
        let conservation = reports.first().map_or(&[][..], |report| &report.conservation).iter();
        AuditBody {
            agreed: state == AuditState::Agreed,
            state: state.name(),
            conservation: conservation
                .map(|of| ConservationBody { asset: &of.asset, sum: of.sum, in_transit: of.in_transit })
                .collect(),
            shards: reports.iter().map(ShardAuditBody::from).collect(),
        }
    }
}

fn worst(states: impl Iterator<Item = AuditState>) -> AuditState {
    let badness = |state: &AuditState| match state {
        AuditState::Agreed => 0,
        AuditState::NeverRun => 1,
        AuditState::Damaged => 2,
        AuditState::Differs => 3,
    };
    states.max_by_key(badness).unwrap_or(AuditState::NeverRun)
}

impl<'a> From<&'a AuditReport> for ShardAuditBody<'a> {
    fn from(report: &'a AuditReport) -> ShardAuditBody<'a> {
        let damage = |place: &&'static DamagedPlace| DamageBody {
            file: &place.file,
            offset: place.offset,
            what: &place.what,
            lost: &place.lost,
        };
        ShardAuditBody {
            shard: report.shard,
            state: report.state().name(),
            finished_at_ms: report.finished_at_ms,
            sequence: report.sequence,
            accounts_compared: report.accounts_compared,
            holds_compared: report.holds_compared,
            differences: report.differences.iter().map(DifferenceBody::from).collect(),
            differences_more: report.differences_more,
            damage: report.damage.as_deref(),
            scrub: ScrubBody {
                position: report.scrub.position,
                of: report.scrub.of,
                last_full_at_ms: report.scrub.last_full_at_ms,
                damage: report.scrub.damage.iter().map(damage).collect(),
            },
            first_fold: FirstFoldBody {
                sequence: report.first_fold.sequence,
                agreed_at_sequence: report.first_fold.agreed_at_sequence,
            },
        }
    }
}

impl<'a> From<&'a AuditDifference> for DifferenceBody<'a> {
    fn from(difference: &'a AuditDifference) -> DifferenceBody<'a> {
        DifferenceBody {
            account: &difference.account,
            hold: difference.hold.as_deref(),
            figure: difference.figure,
            live: difference.live,
            journal: difference.journal,
            live_text: difference.texts.as_ref().map(|(live, _)| &**live),
            journal_text: difference.texts.as_ref().map(|(_, journal)| &**journal),
            agreed_at_sequence: difference.agreed_at_sequence,
        }
    }
}
