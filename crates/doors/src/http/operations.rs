//! What an operator asks for: health, metrics, the drain and the OpenAPI document.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde::Serialize;
use tidegate_telemetry::Exposition;
use utoipa::{OpenApi, ToSchema};

use super::connection::{Late, PeerAddress};
use super::door::Door;
use super::openapi::GuardProblems;
use super::rooms::{HttpRoom, Routes, own_codes};
use super::time::rfc3339;
use super::{demo, drain, index, login};
use crate::json::{Problem, ProblemBody, ProblemCode, codes, json};

/// The server as an operator sees it. Nothing here may block.
pub trait Operations: Send + Sync {
    /// Whether the server serves.
    fn health(&self) -> Health;

    /// Places of its files that are damaged. What needs them is refused, all else is served.
    fn damage(&self) -> usize {
        0
    }

    /// Journals that find no more room on their disk.
    fn full_journals(&self) -> u32 {
        0
    }

    /// Since when a journal finds no more room, in milliseconds since 1970.
    fn full_since_ms(&self) -> Option<u64> {
        None
    }

    /// Logs whose witness cannot be written.
    fn lost_witnesses(&self) -> u32 {
        0
    }

    /// Shards of which an audit last found that something differs.
    fn differing_shards(&self) -> u32 {
        0
    }

    /// Shards whose state is not what their journal says: they decide nothing new.
    fn wrong_shards(&self) -> u32 {
        0
    }

    /// Shards whose last audit met something that cannot be read.
    fn unread_shards(&self) -> u32 {
        0
    }

    /// Whether what should be in the archive cannot be moved there.
    fn archive_fails(&self) -> bool {
        false
    }

    /// Whether the clock of the host is too far from the time that records get to be followed.
    fn clock_is_off(&self) -> bool {
        false
    }

    /// Shards whose newest record was far ahead of the clock of the host at the start, and still is.
    fn shards_ahead(&self) -> u32 {
        0
    }

    /// Journals whose last snapshot could not be written, or that could not be compacted.
    fn failing_snapshots(&self) -> u32 {
        0
    }

    /// Shards whose index of ids cannot be written.
    fn failing_ids(&self) -> u32 {
        0
    }

    /// What is wrong with rooms now, in a word each, by their names.
    fn room_faults(&self) -> BTreeMap<&'static str, &'static str> {
        BTreeMap::new()
    }

    /// Snapshots that were found not to fit their journal.
    fn misplaced_snapshots(&self) -> u32 {
        0
    }

    /// What is wrong with its data directory as a whole, and what to do.
    fn directory_fault(&self) -> Option<&'static str> {
        None
    }

    /// Whether a worker has no time for new clients.
    fn is_overloaded(&self) -> bool {
        false
    }

    /// Everything the server counts.
    fn metrics(&self, exposition: Exposition) -> String;

    /// Begins to send MQTT clients away, so many per second over all workers, and takes no new ones. Asked again, the
    /// new rate holds.
    fn drain(&self, per_second: u32);

    /// Lets clients stay again, and new ones come.
    fn end_drain(&self);

    /// How far that is.
    fn drain_status(&self) -> DrainStatus;

    /// Asks for a reconciliation at once. When that was, in milliseconds since 1970.
    fn run_audit(&self) -> u64;
}

/// How far the clients are sent away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainStatus {
    /// Clients sent away per second; `None` as long as they may stay.
    pub per_second: Option<u32>,
    /// Clients that are connected.
    pub clients: u64,
}

/// Whether the server serves, and if not, why.
#[derive(Clone, Debug, PartialEq)]
pub enum Health {
    /// Replaying its journals.
    Recovering {
        /// How far, from 0 to 1.
        progress: f64,
    },
    /// Recovered and serving.
    Serving,
    /// A journal failed; the process must be restarted.
    Failed {
        /// What happened, for the operator.
        reason: String,
    },
    /// Finishing what is under way.
    Stopping,
}

impl Health {
    /// What to answer to a client that needs a server that serves; `None` when it does.
    pub fn problem(&self) -> Option<Problem> {
        match self {
            Health::Serving => None,
            Health::Recovering { progress } => {
                let detail = format!("the journal is being replayed: {:.1} %", progress * 100.0);
                Some(Problem::new(codes::RECOVERING, detail).retry_after_s(1).with("progress", *progress))
            }
            Health::Failed { reason } => Some(Problem::new(codes::SHARD_FAILED, reason.clone()).retry_after_s(30)),
            Health::Stopping => Some(Problem::new(codes::STOPPING, "the server is stopping").retry_after_s(1)),
        }
    }
}

/// The paths of the door itself.
pub(super) struct OwnRoom;

#[derive(OpenApi)]
#[openapi(
    info(description = ""),
    paths(login::log_in, drain::begin, drain::progress, drain::end, health, ready, metrics, openapi)
)]
struct Document;

impl HttpRoom for OwnRoom {
    fn name(&self) -> &'static str {
        "door"
    }

    fn openapi(&self) -> utoipa::openapi::OpenApi {
        Document::openapi()
    }

    fn codes(&self) -> Vec<ProblemCode> {
        own_codes().to_vec()
    }

    fn routes(self: Box<Self>, door: &Door) -> Routes {
        Routes::new()
            .route("/healthz", get(health).with_state(door.clone()))
            .route("/readyz", get(ready).with_state(door.clone()))
            .route("/metrics", get(metrics).with_state(door.clone()))
            .route("/openapi.json", get(openapi).with_state(door.clone()))
            .route("/v1/login", post(login::log_in).with_state(door.clone()))
            .route("/v1/drain", post(drain::begin).get(drain::progress).delete(drain::end).with_state(door.clone()))
            .hidden("/", get(index::page).with_state(door.clone()))
            .hidden(demo::PATH, get(demo::page).with_state(door.clone()))
            .hidden(&format!("{}/{{part}}", demo::PATH), get(demo::part).with_state(door.clone()))
            .hidden(&format!("{}/", demo::PATH), get(demo::slash).with_state(door.clone()))
            .hidden(&format!("{}/stage/", demo::PATH), get(demo::slash).with_state(door.clone()))
    }
}

/// The server serves.
#[derive(Serialize, ToSchema)]
pub struct HealthBody {
    /// `ok`, or `degraded` if an operator should look: one of the other members says why.
    #[schema(example = "ok")]
    status: &'static str,
    /// Places of its files that are damaged; absent if there are none. What needs them is refused (`damaged`), all else
    /// is served; `/v1/audit` and the server's log name them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    damage: Option<usize>,
    /// Journals that find no more room on their disk; absent if there are none. What must be written to them is refused
    /// (`disk_full`), reads are served, and writes again when there is room.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, required = false)]
    disk_full: Option<u32>,
    /// Since when, by the clock of the host; absent with `disk_full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "2026-11-21T09:14:49Z")]
    disk_full_since: Option<String>,
    /// `differs`, if the last audit found that figures are not what the journal says (what must be decided on them is
    /// refused then, `state_differs`, until a restart), or that money was created or lost; `damaged`, if it met
    /// something that cannot be read, also for a moment; absent otherwise. It is the `state` of `/v1/audit`, which says
    /// which, as the server's log does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "differs")]
    audit: Option<&'static str>,
    /// Journals whose witness (`data.witness`) cannot be written; absent if there are none. All is served, but if such
    /// a journal loses its end, nothing may prove it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, required = false)]
    witness_lost: Option<u32>,
    /// `failing`, if old segments of journals cannot be moved to `archive.to`, perhaps because its disk is not mounted:
    /// they stay where they are; absent otherwise. What was moved there before and is asked for is refused (`damaged`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "failing")]
    archive: Option<&'static str>,
    /// `off`, if the clock of the host is more than an hour from the time that records get: it is not followed, and all
    /// is served by the time from before it jumped. Correct the clock; if it is right, restart. `behind`, if it was
    /// more than an hour behind the newest record of a shard of the ledger or of queues at the start: that shard's
    /// records go on from there, and the server's log says what can be done. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "off")]
    clock: Option<&'static str>,
    /// What is wrong with the data directory as a whole, and what to do; absent if nothing is. It begins with `away`
    /// (it was moved, removed or replaced), `in_use` (another process has a lock of it), or `unwritten` (a file that
    /// the next start needs is lost, and the server cannot put it back).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    directory: Option<&'static str>,
    /// `misplaced`, if a snapshot was found, since the start, that does not fit its journal: what was durable when it
    /// was written is not there any more; stop, and run `tidegate audit`. `failing`, if the last snapshot of a journal
    /// could not be written, or the journal not be compacted: it is tried again, and a restart takes longer. Absent
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "failing")]
    snapshots: Option<&'static str>,
    /// `failing`, if the index of ids of a shard cannot be written: nothing is lost and all is served, but memory grows
    /// with each new id, and a restart takes longer; the server's log says why. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "failing")]
    ids: Option<&'static str>,
    /// What is wrong with one of the server's rooms, by its name; absent if nothing is. `pacing`: `ledger_away`, if the
    /// ledger does not say whether it holds money, so that bids end; `ledger_other`, if that of another server is not
    /// the one that it was, or an older state of it; `ledger_refuses`, if it does not settle leases that are over;
    /// `ledger_unread`, if it does not say what it has paid out of an account, so that no money of it is leased;
    /// `ledger_older`, if it holds money for leases that are settled here; `unpaid`, if it has no hold any more of
    /// leases of which something was spent; `ledger_unremembered`, if what it has settled last cannot be saved, by
    /// which that of another server is known again. The server's log says why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = std::collections::HashMap<String, String>, required = false)]
    rooms: BTreeMap<&'static str, &'static str>,
}

impl HealthBody {
    fn of(operations: &dyn Operations) -> HealthBody {
        let damage = Some(operations.damage()).filter(|places| *places > 0);
        let disk_full = Some(operations.full_journals()).filter(|journals| *journals > 0);
        let disk_full_since = operations.full_since_ms().filter(|_| disk_full.is_some()).map(|ms| rfc3339(ms / 1_000));
        let audit = match (operations.differing_shards(), operations.unread_shards()) {
            (1.., _) => Some("differs"),
            (0, 1..) => Some("damaged"),
            (0, 0) => None,
        };
        let witness_lost = Some(operations.lost_witnesses()).filter(|journals| *journals > 0);
        let archive = operations.archive_fails().then_some("failing");
        let clock = match (operations.clock_is_off(), operations.shards_ahead()) {
            (true, _) => Some("off"),
            (false, 1..) => Some("behind"),
            (false, 0) => None,
        };
        let directory = operations.directory_fault();
        let snapshots = match (operations.misplaced_snapshots(), operations.failing_snapshots()) {
            (1.., _) => Some("misplaced"),
            (0, 1..) => Some("failing"),
            (0, 0) => None,
        };
        let ids = (operations.failing_ids() > 0).then_some("failing");
        let rooms = operations.room_faults();
        let counts = [damage.is_some(), disk_full.is_some(), witness_lost.is_some()];
        let words = [audit, archive, clock, directory, snapshots, ids];
        let is_degraded = counts.contains(&true) || words.iter().any(Option::is_some) || !rooms.is_empty();
        let status = if is_degraded { "degraded" } else { "ok" };
        HealthBody {
            status,
            damage,
            disk_full,
            disk_full_since,
            audit,
            witness_lost,
            archive,
            clock,
            directory,
            snapshots,
            ids,
            rooms,
        }
    }
}

/// Whether the server has recovered and serves
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operations",
    security(()),
    responses(
        (status = 200, description = "It serves", body = HealthBody),
        (
            status = 503,
            description = "Not yet (`recovering`, with `progress` from 0 to 1), or not any more",
            body = ProblemBody,
            content_type = "application/problem+json"
        ),
    )
)]
pub async fn health(
    State(door): State<Door>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Response<Body> {
    let is_over = door.count(&headers, address).is_err();
    let mut answer = match door.operations.health().problem() {
        None => json(StatusCode::OK, &HealthBody::of(&*door.operations)),
        Some(problem) => problem.into_response(),
    };
    if is_over {
        // Late and not refused: whoever watches the server, perhaps from the address of a flood, must not take it for
        // dead. A refusal would cost as much.
        answer.extensions_mut().insert(Late);
    }
    answer
}

/// The server takes writes.
#[derive(Serialize, ToSchema)]
pub struct ReadyBody {
    /// `ready`.
    #[schema(example = "ready")]
    status: &'static str,
}

/// Why a server takes no writes, or should get no new clients, in the words of `/readyz`.
fn unready(operations: &dyn Operations) -> Vec<&'static str> {
    let phase = match operations.health() {
        Health::Serving => None,
        Health::Recovering { .. } => Some("recovering"),
        Health::Failed { .. } => Some("journal_failed"),
        Health::Stopping => Some("stopping"),
    };
    let others = [
        (operations.full_journals() > 0, "disk_full"),
        (operations.wrong_shards() > 0, "state_differs"),
        (operations.drain_status().per_second.is_some(), "draining"),
        (operations.is_overloaded(), "overloaded"),
    ];
    phase.into_iter().chain(others.into_iter().filter(|(is_so, _)| *is_so).map(|(_, reason)| reason)).collect()
}

/// Whether the server takes writes and new clients
///
/// For a load balancer: other than `/healthz`, it says no while a disk is full, an audit found balances that are not
/// what the journal says, clients are sent away, or a worker is overloaded. The server is alive then. It is restarted
/// for `state_differs` only, by an operator.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    security(()),
    responses(
        (status = 200, description = "It takes writes", body = ReadyBody),
        (
            status = 503,
            description = "It takes none (`not_ready`); `reasons` are some of `recovering`, `journal_failed`, \
                           `stopping`, `disk_full`, `state_differs`, `draining`, `overloaded`",
            body = ProblemBody,
            content_type = "application/problem+json"
        ),
    )
)]
pub async fn ready(
    State(door): State<Door>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Response<Body> {
    let is_over = door.count(&headers, address).is_err();
    let reasons = unready(&*door.operations);
    let mut answer = if reasons.is_empty() {
        json(StatusCode::OK, &ReadyBody { status: "ready" })
    } else {
        let detail = format!("the server takes no writes, or no new clients: {}", reasons.join(", "));
        Problem::new(codes::NOT_READY, detail).retry_after_s(1).with("reasons", reasons).into_response()
    };
    if is_over {
        // As of `/healthz`.
        answer.extensions_mut().insert(Late);
    }
    answer
}

/// Everything the server counts, in Prometheus' text format, or as OpenMetrics
///
/// OpenMetrics is for who asks for it by `Accept: application/openmetrics-text`.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    responses(
        (status = 200, description = "Metrics", content(
            (String = "text/plain"),
            (String = "application/openmetrics-text"),
        )),
        GuardProblems
    )
)]
pub async fn metrics(
    State(door): State<Door>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    if door.is_open("/metrics") {
        door.count(&headers, address)?;
    } else if !door.caller(&headers)?.rights().may_read_metrics() {
        return Err(Problem::forbidden("this token may not read metrics; a service may with the grant \"metrics\""));
    }
    let exposition = wanted(&headers);
    let mut answer = with_type(door.metrics_text(exposition), exposition.content_type());
    answer.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(answer)
}

/// The form that `Accept` asks for: OpenMetrics if it is named, and not with the weight zero.
fn wanted(headers: &HeaderMap) -> Exposition {
    let asked = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = asked.flat_map(|value| value.split(','));
    let is_openmetrics = ranges.any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_it = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text"));
        is_it && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    });
    if is_openmetrics { Exposition::OpenMetrics } else { Exposition::Prometheus }
}

/// This document
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "operations",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value), GuardProblems)
)]
pub async fn openapi(
    State(door): State<Door>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    if door.is_open("/openapi.json") {
        door.count(&headers, address)?;
    } else {
        door.caller(&headers)?;
    }
    Ok(with_type(door.openapi.clone(), "application/json"))
}

fn with_type(text: impl Into<Body>, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_who_names_it() {
        let wanted = |accept: &'static str| wanted(&HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]));
        for accept in [
            "application/openmetrics-text",
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "text/plain;q=0.1, Application/OpenMetrics-Text; version=1.0.0",
        ] {
            assert_eq!(wanted(accept), Exposition::OpenMetrics, "{accept}");
        }
        for accept in ["*/*", "text/plain", "", "application/openmetrics-text;q=0, text/plain", "application/json"] {
            assert_eq!(wanted(accept), Exposition::Prometheus, "{accept}");
        }
        assert_eq!(super::wanted(&HeaderMap::new()), Exposition::Prometheus);
    }
}
