//! `/v1/drain`: disconnects the MQTT clients of this node before it is replaced, slowly enough for the other nodes to
//! take them over.
//!
//! Promise: the answer comes at once and does not wait for the last client; the operator asks again until `clients` is
//! zero. A drain that is ended leaves those connected who still are, and lets new ones in; who was sent away may come
//! back.

use axum::body::Body;
use axum::extract::{Extension, Request as HttpRequest, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::act::Act;
use super::connection::PeerAddress;
use super::door::Door;
use super::openapi::{BodyProblems, GuardProblems};
use super::operations::DrainStatus;
use crate::json::{Problem, Whole, codes, decode, json};

/// How fast to send clients away.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainBody {
    /// Clients per second, over all workers of the node.
    #[schema(value_type = u32, format = "uint32", minimum = 1, maximum = 4_294_967_295u32, example = 1000)]
    rate: Whole,
}

/// How far the clients are sent away.
#[derive(Serialize, ToSchema)]
pub struct DrainStatusBody {
    /// Whether clients are being sent away, and new ones refused.
    draining: bool,
    /// Clients per second; absent as long as they may stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, value_type = u32, format = "uint32")]
    rate: Option<u32>,
    /// MQTT clients that are connected.
    clients: u64,
}

/// Send the MQTT clients away, so many per second
///
/// They get DISCONNECT 0x9C (use another server) with the configured server reference. Asked again, the new rate holds.
#[utoipa::path(
    post,
    path = "/v1/drain",
    tag = "operations",
    request_body = DrainBody,
    responses(
        (status = 202, description = "It has begun", body = DrainStatusBody),
        GuardProblems,
        BodyProblems,
    )
)]
pub async fn begin(
    State(door): State<Door>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = door.caller(&head.headers)?;
    if !caller.rights().may_drain() {
        return Err(Act { caller: &caller, address, act: "drain", what: "" }.forbidden(DENIAL));
    }
    let body = door.read_json(&head.headers, body).await?;
    let DrainBody { rate } = decode(&body)?;
    let rate = u32::try_from(rate.0).ok().filter(|rate| *rate > 0).ok_or_else(|| {
        Problem::new(codes::RATE_INVALID, "the rate must be 1 to 4294967295 clients per second").with("field", "rate")
    })?;
    door.operations.drain(rate);
    Act { caller: &caller, address, act: "drain", what: &format!("{rate} clients per second") }.tell("done");
    Ok(json(StatusCode::ACCEPTED, &DrainStatusBody::from(door.operations.drain_status())))
}

/// How many MQTT clients are still connected
#[utoipa::path(
    get,
    path = "/v1/drain",
    tag = "operations",
    responses((status = 200, description = "The state", body = DrainStatusBody), GuardProblems)
)]
pub async fn progress(State(door): State<Door>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    match door.caller(&headers)?.rights().may_drain() {
        true => Ok(json(StatusCode::OK, &DrainStatusBody::from(door.operations.drain_status()))),
        false => Err(Problem::forbidden(DENIAL)),
    }
}

/// Let the MQTT clients stay again
///
/// Those who are still connected stay, and new ones are let in. A server that stops cannot be kept from it.
#[utoipa::path(
    delete,
    path = "/v1/drain",
    tag = "operations",
    responses((status = 200, description = "The state after it", body = DrainStatusBody), GuardProblems)
)]
pub async fn end(
    State(door): State<Door>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = door.caller(&headers)?;
    let act = Act { caller: &caller, address, act: "end drain", what: "" };
    if !caller.rights().may_drain() {
        return Err(act.forbidden(DENIAL));
    }
    door.operations.end_drain();
    act.tell("done");
    Ok(json(StatusCode::OK, &DrainStatusBody::from(door.operations.drain_status())))
}

const DENIAL: &str = "this token may not drain the node";

impl From<DrainStatus> for DrainStatusBody {
    fn from(status: DrainStatus) -> DrainStatusBody {
        DrainStatusBody { draining: status.per_second.is_some(), rate: status.per_second, clients: status.clients }
    }
}
