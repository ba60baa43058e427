//! Services and users that are managed while the server runs, behind the HTTP door.
//!
//! ```text
//!   PUT ─▶ who, and may they? ─▶ name free, rights allowed? ─▶ shard ─▶ durable ─▶ in force ─▶ 201
//!                                                                └─ an act ─▶ a line in the log (http::Act)
//! ```
//!
//! Promise: an answered change is durable and in force at every door. A token is shown once, in the answer that made
//! it; neither its hash nor anything of a password is ever shown. Who may operate can give what `auth.api_grants` and
//! `auth.api_wallets` allow, and nothing else.

mod services;
mod users;

use std::net::IpAddr;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::routing::{get, post};
use serde::Deserialize;
use tidegate_roster::{Action, Command, Outcome, Refusal, RosterService};
use tidegate_runtime::direct::{DirectClient, Ticket};
use tidegate_runtime::pump::EdgeHandle;
use tidegate_shard::Decided;
use utoipa::{IntoParams, OpenApi};

use crate::RoomClient;
use crate::auth::{self, Grant, Identity, InForce};
use crate::http::{Act, Door, HttpRoom, Routes};
use crate::json::{Problem, ProblemCode};
use crate::security::{self, SecurityEvent};

const GRANT_NOT_ALLOWED: ProblemCode = ProblemCode::new(StatusCode::FORBIDDEN, "grant_not_allowed");

/// The services and users at the door of one edge thread, before it opens.
pub struct RosterHttp(pub EdgeHandle<RosterClient>);

/// Asks the shard.
type RosterClient = DirectClient<RosterService<Ticket>>;

/// What handlers share.
type Served = RoomClient<RosterClient>;

#[derive(OpenApi)]
#[openapi(
    info(
        description = "Services and users can be made, changed and deleted while the server runs, beside those of its \
                       configuration, which only its file changes. Seeing them needs the grant `operate:read`, the \
                       rest `operate:write`; nobody can be given more than `auth.api_grants` and `auth.api_wallets` of \
                       the configuration allow. An answered change is durable and in force: a token or password that \
                       is replaced, or whose owner is deleted, is no good any more, and connections that showed it \
                       end."
    ),
    paths(
        services::list_services,
        services::read_service,
        services::put_service,
        services::delete_service,
        services::rotate_token,
        users::list_users,
        users::read_user,
        users::put_user,
        users::delete_user,
    )
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
        use {services as s, users as u};
        let of_services = [s::NOT_FOUND, s::EXISTS, s::CONFIGURED, s::TOO_MANY, s::INVALID];
        let of_users = [u::NOT_FOUND, u::EXISTS, u::CONFIGURED, u::TOO_MANY, u::INVALID, u::WALLET_NOT_ALLOWED];
        of_services.into_iter().chain(of_users).chain([GRANT_NOT_ALLOWED]).collect()
    }

    fn routes(self: Box<Self>, door: &Door) -> Routes {
        let served = RoomClient::new(door.clone(), self.0);
        let service = get(services::read_service).put(services::put_service).delete(services::delete_service);
        let user = get(users::read_user).put(users::put_user).delete(users::delete_user);
        Routes::new()
            .route("/v1/services", get(services::list_services).with_state(served.clone()))
            .route("/v1/services/{name}", service.with_state(served.clone()))
            .route("/v1/services/{name}/token", post(services::rotate_token).with_state(served.clone()))
            .route("/v1/users", get(users::list_users).with_state(served.clone()))
            .route("/v1/users/{name}", user.with_state(served))
    }
}

/// Which of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// Only names after this one: the `next` of the page before.
    after: Option<String>,
    /// At most so many, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
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
            false => {
                let detail = "this token may not change services and users; a service may with \"operate:write\"";
                Err(self.line(&caller).forbidden(detail))
            }
        }
    }

    /// Answers what the change came to, and says so in the log.
    async fn done(
        &self,
        caller: &Identity,
        answer: impl Future<Output = Result<Response<Body>, Problem>>,
    ) -> Result<Response<Body>, Problem> {
        let answer = self.line(caller).done(answer.await)?;
        let detail = format!("{} {}", self.act, self.name);
        security::tell(SecurityEvent::RightsChanged, "http", self.address, caller.name(), &detail);
        Ok(answer)
    }

    /// Asks the shard, and waits until what it decided is in force.
    async fn decided(&self, action: Action) -> Result<Result<Outcome, Refusal>, Problem> {
        let door = &self.served.door;
        match self.served.ask(Command { name: self.name.into(), action }).await? {
            Decided::Done { sequence, outcome, .. } => {
                door.in_time(door.is_in_force(sequence.0)).await?;
                Ok(outcome)
            }
            Decided::Answered(outcome) => {
                // Whoever made it so may still be waiting.
                if let Ok(Outcome::Unchanged { since }) = outcome {
                    door.in_time(door.is_in_force(since)).await?;
                }
                Ok(outcome)
            }
            Decided::TooLarge => Ok(Err(Refusal::Invalid)),
        }
    }
}

/// Whether one that is there is not to be changed.
fn is_only_new(headers: &HeaderMap) -> bool {
    headers.get(header::IF_NONE_MATCH).is_some_and(|value| value == "*")
}

/// The grants, if the configuration would take them.
fn grants_of(grants: &[Box<str>], wrong: ProblemCode) -> Result<Vec<Grant>, Problem> {
    let parse = |grant: &str| grant.parse::<Grant>().map_err(|error| Problem::new(wrong, error.to_string()));
    grants.iter().map(|grant| parse(grant)).collect()
}

/// The configuration lets the API give these grants.
fn check_allowed(grants: &[Grant], in_force: &InForce) -> Result<(), Problem> {
    if !in_force.allows_services() {
        let detail = "auth.api_grants of the configuration names no grant: the API makes no services";
        return Err(Problem::new(GRANT_NOT_ALLOWED, detail));
    }
    match grants.iter().position(|grant| !in_force.allows(grant)) {
        None => Ok(()),
        Some(place) => {
            let detail = format!("grants[{place}]: auth.api_grants of the configuration does not allow to give it");
            Err(Problem::new(GRANT_NOT_ALLOWED, detail))
        }
    }
}

/// The grants that the configuration does not allow any more.
fn withheld_grants<'a>(grants: &'a [Box<str>], in_force: &InForce) -> Vec<&'a str> {
    let is_withheld = |grant: &&str| !grant.parse().is_ok_and(|grant: Grant| in_force.allows(&grant));
    grants.iter().map(|grant| &**grant).filter(is_withheld).collect()
}

/// An answer that nobody on the way may keep.
fn secret(mut answer: Response<Body>) -> Response<Body> {
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
