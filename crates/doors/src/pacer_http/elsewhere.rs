//! Notices of bids that another server may have made: the peers of this one are asked.

use std::net::IpAddr;

use axum::http::HeaderMap;
use serde_json::{Value, json};
use tidegate_wire::pacer::NoticeOutcome;

use super::{BIDS_INVALID, OPENRTB_NOTICE_INVALID, PEER_UNAVAILABLE, Served, bids};
use crate::json::{Problem, ProblemCode};
use crate::pacer_notices::{Judged, name_of, named};
use crate::pacer_peers::{
    NoticePeers, PATH_BYTES_MAX, PeerAnswer, PeerAsk, PeerOutcome, PeerOutcomes, PeerProblem, is_of_peer,
};

/// An outcome of a notice that only the paths of OpenRTB know.
const IGNORED: &str = "ignored";

impl Served {
    /// The peers, unless it was one of them who has asked.
    fn peers_for(&self, headers: &HeaderMap) -> Option<&NoticePeers> {
        self.peers.as_deref().filter(|_| !is_of_peer(headers))
    }

    /// Whether a peer has passed a notice on, and not somebody who says so.
    pub(super) fn is_passed_on(&self, headers: &HeaderMap) -> bool {
        is_of_peer(headers) && self.door.caller(headers).is_ok_and(|caller| bids::check_right(&caller).is_ok())
    }

    /// What becomes of those notices whose bids were not made here: `rows` are all of them, as they came in `field`.
    pub(super) async fn judge_elsewhere(
        &self,
        judged: &mut Judged,
        headers: &HeaderMap,
        (path, field): (&'static str, &str),
        row: impl Fn(usize) -> Value,
    ) -> Result<(), Problem> {
        let unknown = judged.unknown();
        let Some(peers) = self.peers_for(headers).filter(|_| !unknown.is_empty()) else { return Ok(()) };
        let rows: Vec<Value> = unknown.iter().map(|at| row(*at)).collect();
        let asked = PeerAsk::Post(path, json!({ field: rows }).to_string().into_bytes());
        let (mut answers, mut away) = (peers.ask(asked), None);
        while !judged.unknown().is_empty()
            && let Some(answer) = self.door.in_time(answers.join_next()).await?
        {
            match answer.map_err(|error| error.to_string()).and_then(|answer| outcomes_of(answer, unknown.len())) {
                Ok(outcomes) => unknown.iter().zip(outcomes).for_each(|(at, outcome)| judged.learn(*at, outcome)),
                Err(why) => away = Some(why),
            }
        }
        match away {
            Some(why) if !judged.unknown().is_empty() => Err(unavailable(&why)),
            _ => Ok(()),
        }
    }

    /// What becomes of a notice of OpenRTB whose bid was not made here. `None`: no peer has made it either.
    pub(super) async fn outcome_elsewhere(
        &self,
        headers: &HeaderMap,
        address: IpAddr,
        path_and_query: &str,
    ) -> Result<Option<&'static str>, Problem> {
        let Some(peers) = self.peers_for(headers).filter(|_| path_and_query.len() <= PATH_BYTES_MAX) else {
            return Ok(None);
        };
        if !peers.may_ask_for(address) {
            // Perhaps one of them has made it.
            return Err(unavailable("this address sends many notices of bids that nobody has made"));
        }
        let (mut answers, mut away) = (peers.ask(PeerAsk::Get(path_and_query.to_owned())), None);
        while let Some(answer) = self.door.in_time(answers.join_next()).await? {
            match answer.unwrap_or_else(|error| PeerAnswer::Away(error.to_string())) {
                PeerAnswer::Done(body) => match outcome_of(&body) {
                    Some(outcome) => return Ok(Some(outcome)),
                    None => away = Some(UNREADABLE.to_owned()),
                },
                PeerAnswer::Refused(body) => match problem_of(&body, OPENRTB_NOTICE_INVALID) {
                    None => away = Some(UNREADABLE.to_owned()),
                    Some(PeerProblem { field, .. }) if ["", "token"].contains(&&*field) => {}
                    // It has made the bid.
                    Some(PeerProblem { detail, field, .. }) => {
                        return Err(Problem::new(OPENRTB_NOTICE_INVALID, detail).with("field", field));
                    }
                },
                PeerAnswer::Away(why) => away = Some(why),
            }
        }
        match away {
            Some(why) => Err(unavailable(&why)),
            None => {
                peers.note_unknown(address);
                Ok(None)
            }
        }
    }
}

const UNREADABLE: &str = "its answer is none of a pacer";

/// What a peer says of so many notices; nothing, if it takes none of them. `Err`: why that is not known.
fn outcomes_of(answer: PeerAnswer, count: usize) -> Result<Vec<NoticeOutcome>, String> {
    match answer {
        PeerAnswer::Refused(body) => match problem_of(&body, BIDS_INVALID) {
            Some(_) => Ok(Vec::new()),
            None => Err(UNREADABLE.to_owned()),
        },
        PeerAnswer::Away(why) => Err(why),
        PeerAnswer::Done(body) => {
            let said: Option<PeerOutcomes> = serde_json::from_slice(&body).ok();
            let outcomes: Option<Vec<_>> = said.and_then(|said| said.outcomes.iter().map(|name| named(name)).collect());
            outcomes.filter(|outcomes| outcomes.len() == count).ok_or_else(|| UNREADABLE.to_owned())
        }
    }
}

/// Why a peer refuses, if it is a pacer, and refuses for this.
fn problem_of(body: &[u8], code: ProblemCode) -> Option<PeerProblem> {
    serde_json::from_slice(body).ok().filter(|problem: &PeerProblem| *problem.code == *code.name())
}

/// What a peer says of a notice of OpenRTB.
fn outcome_of(body: &[u8]) -> Option<&'static str> {
    let PeerOutcome { outcome } = serde_json::from_slice(body).ok()?;
    if &*outcome == IGNORED { Some(IGNORED) } else { named(&outcome).map(name_of) }
}

fn unavailable(why: &str) -> Problem {
    let detail = format!("a bid of a notice was not made here, and whether a peer has made it is not known: {why}");
    Problem::new(PEER_UNAVAILABLE, detail).retry_after_s(1)
}
