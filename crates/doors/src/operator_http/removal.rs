//! Sending a client away and ending a session: who may, the line of the log, and the answer.

use std::net::IpAddr;

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Serialize;
use tidegate_broker::OperatorCall;
use utoipa::ToSchema;

use super::Served;
use crate::auth::Action;
use crate::http::Act;
use crate::json::{Problem, json};
use crate::operator::{PortAnswer, PortCall};

/// What was done.
#[derive(Serialize, ToSchema)]
pub struct DoneBody<'a> {
    /// Client id.
    client_id: &'a str,
    /// `disconnected` or `ended`.
    #[schema(example = "disconnected")]
    outcome: &'static str,
}

/// One of the two, in words.
pub struct Removal {
    /// A verb and a noun, for the log.
    pub act: &'static str,
    /// What is said to who may not.
    pub forbidden: &'static str,
    /// What is answered when it is done.
    pub outcome: &'static str,
    /// What is answered when there is none.
    pub not_found: fn(&str) -> Problem,
}

/// What is answered when it will be done later.
const BEGUN: &str = "ending";

impl Removal {
    /// Asks the ports for it, if the sender of these headers may.
    pub async fn make(
        &self,
        served: &Served,
        headers: &HeaderMap,
        address: IpAddr,
        client_id: &str,
        call: OperatorCall,
    ) -> Result<Response<Body>, Problem> {
        let caller = served.door.caller(headers)?;
        let act = Act { caller: &caller, address, act: self.act, what: client_id };
        if !caller.rights().may_operate(Action::Write) {
            return Err(act.forbidden(self.forbidden));
        }
        act.done(match served.ask(PortCall::Broker(call)).await {
            Ok(PortAnswer::Done) => Ok(json(StatusCode::OK, &DoneBody { client_id, outcome: self.outcome })),
            Ok(PortAnswer::Begun) => Ok(json(StatusCode::ACCEPTED, &DoneBody { client_id, outcome: BEGUN })),
            Ok(PortAnswer::NotFound) => Err((self.not_found)(client_id)),
            Ok(_) => Err(Problem::unexpected_reply()),
            Err(problem) => Err(problem),
        })
    }
}
