//! Services that are managed while the server runs.

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_machines::IdSpace;
use tidegate_roster::limits::GRANTS_MAX;
use tidegate_roster::{Action, Outcome, Refusal, Service, TokenHash};
use utoipa::ToSchema;

use super::{Changing, Page, Served, grants_of, is_only_new, secret};
use crate::auth::{Grant, InForce, service_token_hash};
use crate::http::{InQuery, PathName, PeerAddress, RoomBodyProblems, RoomProblems};
use crate::json::{Problem, ProblemCode, decode, json};
use crate::operator_http::page::{parameters, reader, rows};

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

pub(super) const NOT_FOUND: ProblemCode = ProblemCode::new(StatusCode::NOT_FOUND, "service_not_found");
pub(super) const EXISTS: ProblemCode = ProblemCode::new(StatusCode::PRECONDITION_FAILED, "service_exists");
pub(super) const CONFIGURED: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "service_in_configuration");
pub(super) const TOO_MANY: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "services_too_many");
pub(super) const INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "service_invalid");

/// What a service may do.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServicePutBody {
    /// Grants, as `[[service]]` of the configuration has them; at most 64, of together 4,096 bytes.
    #[schema(example = json!(["publish:cam/%u/#"]))]
    grants: Vec<Box<str>>,
}

/// A service that was made through the API.
#[derive(Serialize, ToSchema)]
pub struct ServiceBody<'a> {
    /// Its name: `%u` in its grants.
    #[schema(example = "cam-7")]
    name: &'a str,
    /// What it was given.
    #[schema(value_type = Vec<String>, example = json!(["publish:cam/%u/#"]))]
    grants: &'a [Box<str>],
    /// What of that it may not do now: the configuration does not allow it any more. Absent if there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    withheld: Vec<&'a str>,
    /// It may not come in: the configuration has this name, or `auth.api_grants` allows no services.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    hidden: bool,
    /// Its token, in the answer that made it and in no other; send it as `Authorization: Bearer TOKEN`, or as the
    /// password of MQTT.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    token: Option<&'a str>,
}

impl<'a> ServiceBody<'a> {
    fn new(name: &'a str, service: &'a Service, in_force: &InForce) -> ServiceBody<'a> {
        let withheld = super::withheld_grants(&service.grants, in_force);
        let hidden = in_force.hides(name);
        ServiceBody { name, grants: &service.grants, withheld, hidden, token: None }
    }
}

/// A service that is gone.
#[derive(Serialize, ToSchema)]
pub struct ServiceDeletedBody<'a> {
    /// Its name.
    #[schema(example = "cam-7")]
    name: &'a str,
    /// `deleted`.
    #[schema(example = "deleted")]
    outcome: &'static str,
}

/// A page of services in the byte order of their names.
#[derive(Serialize, ToSchema)]
pub struct ServicesBody<'a> {
    /// Services that were made through the API.
    services: Vec<ServiceBody<'a>>,
    /// Send as `after` for the next page; absent after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    next: Option<&'a str>,
}

/// List the services that were made through the API
#[utoipa::path(
    get,
    path = "/v1/services",
    tag = "operations",
    params(Page),
    responses((status = 200, description = "A page", body = ServicesBody), RoomProblems)
)]
pub(super) async fn list_services(
    State(served): State<Served>,
    query: InQuery<Page>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    reader(&served.door, &headers)?;
    let Page { after, limit } = parameters(query)?;
    let limit = rows(limit)?;
    let (in_force, after) = (served.door.in_force(), after.unwrap_or_default());
    let mut rest = in_force.services_after(&after);
    let page = rest.by_ref().take(limit);
    let services: Vec<_> = page.map(|(name, service)| ServiceBody::new(name, service, &in_force)).collect();
    let next = rest.next().and(services.last()).map(|last| last.name);
    Ok(json(StatusCode::OK, &ServicesBody { services, next }))
}

/// Read a service that was made through the API
#[utoipa::path(
    get,
    path = "/v1/services/{name}",
    tag = "operations",
    params(("name" = inline(String), Path, description = "Name", example = "cam-7", min_length = 1)),
    responses((status = 200, description = "The service", body = ServiceBody), RoomProblems)
)]
pub(super) async fn read_service(
    State(served): State<Served>,
    PathName(name): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    reader(&served.door, &headers)?;
    let in_force = served.door.in_force();
    let service = in_force.service(&name).ok_or_else(|| refused(Refusal::NotFound, &name))?;
    Ok(json(StatusCode::OK, &ServiceBody::new(&name, service, &in_force)))
}

/// Make a service, or give it other grants
///
/// A new one gets a token, which is in this answer and in no other. One that is there keeps its token. With
/// `If-None-Match: *`, one that is there is not changed (412). If the answer of a first put is lost, so is the token:
/// ask for another one.
#[utoipa::path(
    put,
    path = "/v1/services/{name}",
    tag = "operations",
    params(("name" = inline(String), Path, description = "Name", example = "cam-7", min_length = 1)),
    request_body = ServicePutBody,
    responses(
        (status = 200, description = "It has these grants", body = ServiceBody),
        (status = 201, description = "It was made, and this is its token", body = ServiceBody),
        RoomBodyProblems
    )
)]
pub(super) async fn put_service(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    PathName(name): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let changing = Changing { served: &served, address, act: "put service", name: &name };
    let caller = changing.caller(&head.headers)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let ServicePutBody { grants } = decode(&body)?;
    let parsed = checked(&name, &grants)?;
    let (token, only_new) = (new_token(), is_only_new(&head.headers));
    let action = Action::Put { grants, token: TokenHash(service_token_hash(&token)), only_new };
    changing.done(&caller, answer(&changing, &parsed, action, Some(&token))).await
}

/// Give a service another token
///
/// The one before is no good any more, and connections that showed it end.
#[utoipa::path(
    post,
    path = "/v1/services/{name}/token",
    tag = "operations",
    params(("name" = inline(String), Path, description = "Name", example = "cam-7", min_length = 1)),
    responses((status = 200, description = "The service and its new token", body = ServiceBody), RoomProblems)
)]
pub(super) async fn rotate_token(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    PathName(name): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let changing = Changing { served: &served, address, act: "rotate token", name: &name };
    let caller = changing.caller(&headers)?;
    let token = new_token();
    let action = Action::Rotate { token: TokenHash(service_token_hash(&token)) };
    changing.done(&caller, answer(&changing, &[], action, Some(&token))).await
}

/// Delete a service that was made through the API
///
/// Its token is no good any more, and connections that showed it end.
#[utoipa::path(
    delete,
    path = "/v1/services/{name}",
    tag = "operations",
    params(("name" = inline(String), Path, description = "Name", example = "cam-7", min_length = 1)),
    responses((status = 200, description = "It is gone", body = ServiceDeletedBody), RoomProblems)
)]
pub(super) async fn delete_service(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    PathName(name): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let changing = Changing { served: &served, address, act: "delete service", name: &name };
    let caller = changing.caller(&headers)?;
    changing.done(&caller, answer(&changing, &[], Action::Delete, None)).await
}

async fn answer(
    changing: &Changing<'_>,
    grants: &[Grant],
    action: Action,
    token: Option<&str>,
) -> Result<Response<Body>, Problem> {
    let (served, name, is_rotation) = (changing.served, changing.name, matches!(action, Action::Rotate { .. }));
    if served.door.in_force().is_configured(name) {
        let detail = "the configuration has this name for a user or service, or in a rule; only its file changes that";
        return Err(Problem::new(CONFIGURED, detail).with("name", name));
    }
    if matches!(action, Action::Put { .. }) {
        super::check_allowed(grants, &served.door.in_force())?;
    }
    let outcome = changing.decided(action).await?.map_err(|refusal| refused(refusal, name))?;
    if outcome == Outcome::Deleted {
        return Ok(json(StatusCode::OK, &ServiceDeletedBody { name, outcome: "deleted" }));
    }
    let (in_force, is_new) = (served.door.in_force(), outcome == Outcome::Made);
    // Somebody else may have deleted it since.
    let service = in_force.service(name).ok_or_else(|| refused(Refusal::NotFound, name))?;
    let token = token.filter(|_| is_new || is_rotation);
    let body = ServiceBody { token, ..ServiceBody::new(name, service, &in_force) };
    Ok(secret(json(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &body)))
}

/// The grants, if the configuration would take them and the name could be that of an id space.
fn checked(name: &str, grants: &[Box<str>]) -> Result<Vec<Grant>, Problem> {
    if IdSpace::new(name).is_none_or(|space| space.is_empty()) {
        let detail = "a name is 1 to 64 bytes of visible characters, without spaces at its ends";
        return Err(Problem::new(INVALID, detail).with("name", name));
    }
    if grants.len() > GRANTS_MAX {
        return Err(refused(Refusal::Invalid, name));
    }
    grants_of(grants, INVALID)
}

fn refused(refusal: Refusal, name: &str) -> Problem {
    let (code, detail) = match refusal {
        Refusal::NotFound => (NOT_FOUND, "no service of this name was made through the API"),
        Refusal::Exists => (EXISTS, "a service of this name was made through the API already"),
        Refusal::Invalid => {
            (INVALID, "a service has a name of 1 to 64 bytes, and at most 64 grants of together 4,096 bytes")
        }
        Refusal::TooMany => {
            (TOO_MANY, "there are as many services as limits.api_services_max allows; delete one first")
        }
    };
    Problem::new(code, detail).with("name", name)
}

/// Letters and digits that nobody can guess.
fn new_token() -> String {
    let mut bytes = [0u8; TOKEN_BYTES];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
