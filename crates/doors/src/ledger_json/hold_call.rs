//! Requests for holds, posts and voids in JSON, and their answers, the same for HTTP and MQTT.
//!
//! A body is one item, answered in the single form, or a list of them, answered by a line each. Which one it is shows
//! by the field that only the list has.

use axum::http::StatusCode;
use tidegate_ledger::message::{HoldRequest, Reply, Request};
use tidegate_machines::ledger::{Outcome, Refusal, TRANSFERS_PER_REQUEST_MAX};

use super::hold::{HoldBatchBody, HoldBody, PostBatchBody, PostLineBody, VoidBatchBody};
use super::outcome::{OutcomeBody, OutcomesBody, single_body};
use crate::json::{Object, Problem, decode, encode, is_object_with};

/// What a client asked for; needed to encode the answer.
#[derive(Debug)]
pub struct HoldCall {
    request: Request,
    ids: Vec<Box<str>>,
    /// Whether one item was asked for, which is answered in the single form.
    single: bool,
    /// Whether something new is made, so that the first time is 201.
    places: bool,
}

impl HoldCall {
    /// Reads the body of `POST /v1/holds`: a hold, or `holds` and `linked`.
    pub fn place(body: &[u8]) -> Result<HoldCall, Problem> {
        if !is_object_with(body, "holds") {
            let hold: HoldBody<'_> = decode(body)?;
            return Ok(HoldCall::placing(vec![asked(&hold)], false, true));
        }
        let HoldBatchBody { holds, linked } = decode(body)?;
        bounded(holds.len())?;
        let holds = holds.iter().map(|Object(hold)| asked(hold)).collect();
        Ok(HoldCall::placing(holds, linked.unwrap_or(false), false))
    }

    fn placing(holds: Vec<HoldRequest>, linked: bool, single: bool) -> HoldCall {
        let ids = holds.iter().map(|hold| hold.id.clone()).collect();
        let request = if linked { Request::PlaceLinkedHolds(holds) } else { Request::PlaceHolds(holds) };
        HoldCall { request, ids, single, places: true }
    }

    /// Reads the body of `POST /v1/holds/post`: `posts`, or one of them.
    pub fn post(body: &[u8]) -> Result<HoldCall, Problem> {
        let single = !is_object_with(body, "posts");
        let posts = if single {
            vec![Object(decode::<PostLineBody<'_>>(body)?)]
        } else {
            decode::<PostBatchBody<'_>>(body)?.posts
        };
        bounded(posts.len())?;
        let ids = posts.iter().map(|Object(post)| post.id.boxed()).collect();
        let posts = posts.iter().map(|Object(post)| (post.id.boxed(), post.amount.map(|amount| amount.0))).collect();
        Ok(HoldCall { request: Request::PostHolds(posts), ids, single, places: false })
    }

    /// Reads the body of `POST /v1/holds/void`: `ids`.
    pub fn void(body: &[u8]) -> Result<HoldCall, Problem> {
        let VoidBatchBody { ids } = decode(body)?;
        bounded(ids.len())?;
        let ids: Vec<Box<str>> = ids.iter().map(|id| id.boxed()).collect();
        Ok(HoldCall { request: Request::VoidHolds(ids.clone()), ids, single: false, places: false })
    }

    /// What to ask of the ledger, if the caller may.
    pub fn request(&self) -> Request {
        self.request.clone()
    }

    /// The answer in the form of the question: a status and a JSON body.
    pub fn answer(&self, reply: Reply) -> Result<(StatusCode, Vec<u8>), Problem> {
        match reply {
            Reply::Unavailable(reason) => Err(reason.into()),
            Reply::Outcomes(outcomes) if self.single && outcomes.len() == 1 => self.one(outcomes[0]),
            Reply::Refused(refusal) if self.single => self.one(Outcome::Refused(refusal)),
            Reply::Outcomes(outcomes) if outcomes.len() == self.ids.len() => {
                let lines = self.ids.iter().zip(outcomes);
                let outcomes = lines.map(|(id, outcome)| OutcomeBody::new(id, outcome)).collect();
                Ok((StatusCode::OK, encode(&OutcomesBody { outcomes })))
            }
            Reply::Refused(refusal) => Err(refusal.into()),
            _ => Err(Problem::unexpected_reply()),
        }
    }

    fn one(&self, outcome: Outcome) -> Result<(StatusCode, Vec<u8>), Problem> {
        let (status, body) = single_body(&self.ids[0], outcome)?;
        Ok((if self.places { status } else { StatusCode::OK }, body))
    }
}

fn bounded(items: usize) -> Result<(), Problem> {
    if items == 0 || items > TRANSFERS_PER_REQUEST_MAX { Err(Refusal::BatchSizeInvalid.into()) } else { Ok(()) }
}

fn asked(hold: &HoldBody<'_>) -> HoldRequest {
    HoldRequest {
        id: hold.id.boxed(),
        debit: hold.debit.boxed(),
        credit: hold.credit.boxed(),
        amount: hold.amount.0,
        expires_in_ms: hold.expires_in_ms.0,
        memo: hold.memo.boxed(),
        code: hold.code.get(),
        user_data: hold.user_data.boxed(),
        open_holds_max: 0,
    }
}
