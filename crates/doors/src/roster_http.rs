//! Services that are managed while the server runs, behind the HTTP door.
//!
//! ```text
//!   PUT ─▶ who, and may they? ─▶ name free, grants allowed? ─▶ shard ─▶ durable ─▶ in force ─▶ 201 with the token
//!                                                                └─ an act ─▶ a line in the log (http::Act)
//! ```
//!
//! Promise: an answered change is durable and in force at every door. A token is shown once, in the answer that made
//! it; its hash is never shown. Who may operate can give what `auth.api_grants` allows, and nothing else.

use std::net::IpAddr;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use tidegate_machines::ledger::IdSpace;
use tidegate_roster::limits::GRANTS_MAX;
use tidegate_roster::{Action, Command, Outcome, Refusal, RosterService, Service, TokenHash};
use tidegate_runtime::direct::{DirectClient, Ticket};
use tidegate_runtime::pump::EdgeHandle;
use tidegate_shard::Decided;
use utoipa::{IntoParams, OpenApi, ToSchema};

use crate::RoomClient;
use crate::auth::{self, Grant, Identity, InForce, service_token_hash};
use crate::http::{Act, Door, HttpRoom, InQuery, PathName, PeerAddress, RoomBodyProblems, RoomProblems, Routes};
use crate::json::{Problem, ProblemCode, decode, json};
use crate::operator_http::page::{parameters, reader, rows};
use crate::security::{self, SecurityEvent};

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

const NOT_FOUND: ProblemCode = ProblemCode::new(StatusCode::NOT_FOUND, "service_not_found");
const EXISTS: ProblemCode = ProblemCode::new(StatusCode::PRECONDITION_FAILED, "service_exists");
const CONFIGURED: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "service_in_configuration");
const TOO_MANY: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "services_too_many");
const INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "service_invalid");
const GRANT_NOT_ALLOWED: ProblemCode = ProblemCode::new(StatusCode::FORBIDDEN, "grant_not_allowed");

/// The services at the door of one edge thread, before it opens.
pub struct RosterHttp(pub EdgeHandle<RosterClient>);

/// Asks the shard.
type RosterClient = DirectClient<RosterService<Ticket>>;

/// What handlers share.
type Served = RoomClient<RosterClient>;

#[derive(OpenApi)]
#[openapi(
    info(description = "Services can be made, changed and deleted while the server runs, beside those of its \
                       configuration, which only its file changes. Seeing them needs the grant `operate:read`, the \
                       rest `operate:write`; no service can be given more than `auth.api_grants` of the configuration \
                       allows. An answered change is durable and in force: a token that is replaced, or whose service \
                       is deleted, is no good any more, and connections that showed it end."),
    paths(list_services, read_service, put_service, delete_service, rotate_token)
)]
struct Document;

impl HttpRoom for RosterHttp {
    fn name(&self) -> &'static str {
        "roster"
    }

    fn openapi(&self) -> utoipa::openapi::OpenApi {
        Document::openapi()
    }

    fn codes(&self) -> Vec<ProblemCode> {
        vec![NOT_FOUND, EXISTS, CONFIGURED, TOO_MANY, INVALID, GRANT_NOT_ALLOWED]
    }

    fn routes(self: Box<Self>, door: &Door) -> Routes {
        let served = RoomClient::new(door.clone(), self.0);
        let one = get(read_service).put(put_service).delete(delete_service);
        Routes::new()
            .route("/v1/services", get(list_services).with_state(served.clone()))
            .route("/v1/services/{name}", one.with_state(served.clone()))
            .route("/v1/services/{name}/token", post(rotate_token).with_state(served))
    }
}

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
    /// The configuration has another service of this name, and this one may not come in.
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
        let is_withheld = |grant: &&str| !grant.parse().is_ok_and(|grant: Grant| in_force.allows(&grant));
        let withheld = service.grants.iter().map(|grant| &**grant).filter(is_withheld).collect();
        let hidden = in_force.is_configured(name);
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

/// Which services.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ServicesQuery {
    /// Only names after this one: the `next` of the page before.
    after: Option<String>,
    /// At most so many, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// List the services that were made through the API
#[utoipa::path(
    get,
    path = "/v1/services",
    tag = "operations",
    params(ServicesQuery),
    responses((status = 200, description = "A page", body = ServicesBody), RoomProblems)
)]
async fn list_services(
    State(served): State<Served>,
    query: InQuery<ServicesQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    reader(&served.door, &headers)?;
    let ServicesQuery { after, limit } = parameters(query)?;
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
async fn read_service(
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
async fn put_service(
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
    let only_new = head.headers.get(header::IF_NONE_MATCH).is_some_and(|value| value == "*");
    let token = new_token();
    let action = Action::Put { grants, token: TokenHash(service_token_hash(&token)), only_new };
    changing.run(&caller, &parsed, action, Some(&token)).await
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
async fn rotate_token(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    PathName(name): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let changing = Changing { served: &served, address, act: "rotate token", name: &name };
    let caller = changing.caller(&headers)?;
    let token = new_token();
    let action = Action::Rotate { token: TokenHash(service_token_hash(&token)) };
    changing.run(&caller, &[], action, Some(&token)).await
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
async fn delete_service(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    PathName(name): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let changing = Changing { served: &served, address, act: "delete service", name: &name };
    let caller = changing.caller(&headers)?;
    changing.run(&caller, &[], Action::Delete, None).await
}

/// A change that somebody at this address asks for.
struct Changing<'a> {
    served: &'a Served,
    address: IpAddr,
    act: &'static str,
    name: &'a str,
}

impl Changing<'_> {
    fn line<'b>(&'b self, caller: &'b Identity) -> Act<'b> {
        Act { caller, address: self.address, act: self.act, what: self.name }
    }

    /// Who asks; they may.
    fn caller(&self, headers: &HeaderMap) -> Result<Identity, Problem> {
        let caller = self.served.door.caller(headers)?;
        match caller.rights().may_operate(auth::Action::Write) {
            true => Ok(caller),
            false => Err(self
                .line(&caller)
                .forbidden("this token may not change services; a service may with \"operate:write\"")),
        }
    }

    /// Does it, and says so in the log.
    async fn run(
        &self,
        caller: &Identity,
        grants: &[Grant],
        action: Action,
        token: Option<&str>,
    ) -> Result<Response<Body>, Problem> {
        let answer = self.line(caller).done(self.answer(grants, action, token).await)?;
        let detail = format!("{} {}", self.act, self.name);
        security::tell(SecurityEvent::RightsChanged, "http", self.address, caller.name(), &detail);
        Ok(answer)
    }

    async fn answer(&self, grants: &[Grant], action: Action, token: Option<&str>) -> Result<Response<Body>, Problem> {
        self.check_configured(grants)?;
        let (door, name, is_rotation) = (&self.served.door, self.name, matches!(action, Action::Rotate { .. }));
        let outcome = match self.served.ask(Command { name: name.into(), action }).await? {
            Decided::Done { sequence, outcome, .. } => {
                door.in_time(door.is_in_force(sequence.0)).await?;
                outcome
            }
            Decided::Answered(outcome) => {
                // Whoever made it so may still be waiting.
                if let Ok(Outcome::Unchanged { since }) = outcome {
                    door.in_time(door.is_in_force(since)).await?;
                }
                outcome
            }
            Decided::TooLarge => Err(Refusal::Invalid),
        };
        let outcome = outcome.map_err(|refusal| refused(refusal, name))?;
        if outcome == Outcome::Deleted {
            return Ok(json(StatusCode::OK, &ServiceDeletedBody { name, outcome: "deleted" }));
        }
        let (in_force, is_new) = (door.in_force(), outcome == Outcome::Made);
        // Somebody else may have deleted it since.
        let service = in_force.service(name).ok_or_else(|| refused(Refusal::NotFound, name))?;
        let token = token.filter(|_| is_new || is_rotation);
        let body = ServiceBody { token, ..ServiceBody::new(name, service, &in_force) };
        let mut answer = json(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &body);
        answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(answer)
    }

    /// The configuration lets the API change this service, and give these grants.
    fn check_configured(&self, grants: &[Grant]) -> Result<(), Problem> {
        let in_force = self.served.door.in_force();
        if in_force.is_configured(self.name) {
            let detail = "the configuration has a service of this name, which only its file changes";
            return Err(Problem::new(CONFIGURED, detail).with("name", self.name));
        }
        match grants.iter().position(|grant| !in_force.allows(grant)) {
            None => Ok(()),
            Some(place) => {
                let detail = format!("grants[{place}]: auth.api_grants of the configuration does not allow to give it");
                Err(Problem::new(GRANT_NOT_ALLOWED, detail))
            }
        }
    }
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
    let parse = |grant: &str| grant.parse::<Grant>().map_err(|error| Problem::new(INVALID, error.to_string()));
    grants.iter().map(|grant| parse(grant)).collect()
}

fn refused(refusal: Refusal, name: &str) -> Problem {
    let code = match refusal {
        Refusal::NotFound => NOT_FOUND,
        Refusal::Exists => EXISTS,
        Refusal::Invalid => INVALID,
        Refusal::TooMany => TOO_MANY,
    };
    Problem::new(code, refusal.to_string()).with("name", name)
}

/// Letters and digits that nobody can guess.
fn new_token() -> String {
    let mut bytes = [0u8; TOKEN_BYTES];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
