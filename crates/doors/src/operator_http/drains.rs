//! `/v1/drain/addresses`: sends the MQTT clients of one network away, and lets them stay again.

use std::net::IpAddr;

use axum::body::Body;
use axum::extract::{Extension, Request as HttpRequest, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Served;
use crate::auth::Identity;
use crate::http::{Act, PathName, PeerAddress, RoomBodyProblems, RoomProblems};
use crate::json::{Problem, ProblemCode, Whole32, codes, decode, json};
use crate::operator::{DrainOfNetwork, PortAnswer, PortCall};
use crate::turns::network_of;

/// What the path names is no address.
const ADDRESS_INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "address_invalid");
/// What an address of IPv6 counts with.
const NETWORK: &str = "/64";
/// The clients of this address may stay already.
const DRAIN_NOT_FOUND: ProblemCode = ProblemCode::new(StatusCode::NOT_FOUND, "drain_not_found");
/// One more drain of an address than there may be.
const DRAINS_TOO_MANY: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "drains_too_many");

/// The codes of these problems.
pub const CODES: &[ProblemCode] = &[ADDRESS_INVALID, DRAIN_NOT_FOUND, DRAINS_TOO_MANY];

/// How fast.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressDrainBody {
    /// Clients per second, over all workers of the node.
    #[schema(value_type = u32, format = "uint32", minimum = 1, maximum = 4_294_967_295u32, example = 1000)]
    rate: Whole32,
}

/// How far the clients of an address are sent away.
#[derive(Serialize, ToSchema)]
pub struct AddressDrainStatusBody {
    /// The address, or of IPv6 the /64 around it, such as `2001:db8::/64`.
    #[schema(example = "203.0.113.7")]
    address: String,
    /// Whether its clients are being sent away, and new ones refused.
    draining: bool,
    /// Clients per second; absent as long as they may stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, value_type = u32, format = "uint32")]
    rate: Option<u32>,
    /// MQTT connections from there.
    connections: u64,
}

/// The drain of an address among others.
#[derive(Serialize, ToSchema)]
pub struct AddressDrainRowBody {
    /// The address, or of IPv6 the /64 around it, such as `2001:db8::/64`.
    #[schema(example = "203.0.113.7")]
    address: String,
    /// Clients per second.
    rate: u32,
}

/// All of them.
#[derive(Serialize, ToSchema)]
pub struct AddressDrainsBody {
    /// In the order of their beginning.
    drains: Vec<AddressDrainRowBody>,
}

/// List the addresses whose MQTT clients are sent away
#[utoipa::path(
    get,
    path = "/v1/drain/addresses",
    tag = "operations",
    responses((status = 200, description = "All of them", body = AddressDrainsBody), RoomProblems)
)]
pub async fn list_address_drains(State(served): State<Served>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    permit(&served.door.caller(&headers)?)?;
    match served.ask(PortCall::ListDrains).await? {
        PortAnswer::Drains(drains) => {
            let row = |(network, rate)| AddressDrainRowBody { address: shown(network), rate };
            let drains = drains.into_iter().map(row).collect();
            Ok(json(StatusCode::OK, &AddressDrainsBody { drains }))
        }
        _ => Err(Problem::unexpected_reply()),
    }
}

/// How many MQTT clients of an address are still connected
#[utoipa::path(
    get,
    path = "/v1/drain/addresses/{address}",
    tag = "operations",
    params(("address" = inline(String), Path, description = "Address of IPv4 or IPv6", example = "203.0.113.7")),
    responses((status = 200, description = "The state", body = AddressDrainStatusBody), RoomProblems)
)]
pub async fn read_address_drain(
    State(served): State<Served>,
    PathName(address): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    permit(&served.door.caller(&headers)?)?;
    let network = network(&address)?;
    match served.ask(PortCall::ReadDrain { network }).await? {
        PortAnswer::Drain(drain) => Ok(status(StatusCode::OK, network, drain)),
        _ => Err(Problem::unexpected_reply()),
    }
}

/// Send the MQTT clients of an address away, so many per second
///
/// They get DISCONNECT 0x9C (use another server), and new ones are refused with it, until the drain is ended or the
/// server restarts. Asked again, the new rate holds. Of IPv6, all of the /64 are meant.
#[utoipa::path(
    post,
    path = "/v1/drain/addresses/{address}",
    tag = "operations",
    params(("address" = inline(String), Path, description = "Address of IPv4 or IPv6", example = "203.0.113.7")),
    request_body = AddressDrainBody,
    responses((status = 202, description = "It has begun", body = AddressDrainStatusBody), RoomBodyProblems)
)]
pub async fn begin_address_drain(
    State(served): State<Served>,
    Extension(PeerAddress(from)): Extension<PeerAddress>,
    PathName(address): PathName,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    let act = Act { caller: &caller, address: from, act: "drain address", what: &address };
    if !caller.rights().may_drain() {
        return Err(act.forbidden(DENIAL));
    }
    let network = network(&address)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let AddressDrainBody { rate } = decode(&body)?;
    let per_second = rate.get();
    if per_second == 0 {
        let detail = "the rate must be 1 to 4294967295 clients per second";
        return Err(Problem::new(codes::RATE_INVALID, detail).with("field", "rate"));
    }
    act.done(match served.ask(PortCall::BeginDrain { network, per_second }).await {
        Ok(PortAnswer::Drain(drain)) => Ok(status(StatusCode::ACCEPTED, network, drain)),
        Ok(PortAnswer::TooManyDrains) => {
            Err(Problem::new(DRAINS_TOO_MANY, "as many addresses are drained as may be at once; end one of them"))
        }
        Ok(_) => Err(Problem::unexpected_reply()),
        Err(problem) => Err(problem),
    })
}

/// Let the MQTT clients of an address stay again
#[utoipa::path(
    delete,
    path = "/v1/drain/addresses/{address}",
    tag = "operations",
    params(("address" = inline(String), Path, description = "Address of IPv4 or IPv6", example = "203.0.113.7")),
    responses((status = 200, description = "The drain has ended", body = AddressDrainStatusBody), RoomProblems)
)]
pub async fn end_address_drain(
    State(served): State<Served>,
    Extension(PeerAddress(from)): Extension<PeerAddress>,
    PathName(address): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    let act = Act { caller: &caller, address: from, act: "end drain of address", what: &address };
    if !caller.rights().may_drain() {
        return Err(act.forbidden(DENIAL));
    }
    let network = network(&address)?;
    act.done(match end(&served, network).await {
        Ok(Some(drain)) => Ok(status(StatusCode::OK, network, drain)),
        Ok(None) => Err(Problem::new(DRAIN_NOT_FOUND, "the clients of this address are not sent away")),
        Err(problem) => Err(problem),
    })
}

async fn end(served: &Served, network: IpAddr) -> Result<Option<DrainOfNetwork>, Problem> {
    match served.ask(PortCall::EndDrain { network }).await? {
        PortAnswer::Done => {}
        PortAnswer::NotFound => return Ok(None),
        _ => return Err(Problem::unexpected_reply()),
    }
    match served.ask(PortCall::ReadDrain { network }).await? {
        PortAnswer::Drain(drain) => Ok(Some(drain)),
        _ => Err(Problem::unexpected_reply()),
    }
}

const DENIAL: &str = "this token may not drain the node; a service may with the grant \"drain\"";

fn permit(caller: &Identity) -> Result<(), Problem> {
    match caller.rights().may_drain() {
        true => Ok(()),
        false => {
            caller.denied();
            Err(Problem::forbidden(DENIAL))
        }
    }
}

fn network(address: &str) -> Result<IpAddr, Problem> {
    let detail = "expected an address of IPv4 or IPv6, without a port";
    let address = address.strip_suffix(NETWORK).filter(|address| address.contains(':')).unwrap_or(address);
    let address = address.parse().map_err(|_| Problem::new(ADDRESS_INVALID, detail).with("field", "address"))?;
    Ok(network_of(address))
}

/// Whose clients they are, as it is shown.
fn shown(network: IpAddr) -> String {
    if network.is_ipv6() { format!("{network}{NETWORK}") } else { network.to_string() }
}

fn status(code: StatusCode, address: IpAddr, drain: DrainOfNetwork) -> Response<Body> {
    let DrainOfNetwork { per_second, connections } = drain;
    let (address, draining) = (shown(address), per_second.is_some());
    json(code, &AddressDrainStatusBody { address, draining, rate: per_second, connections })
}
