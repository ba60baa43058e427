//! Notices of bids that another server may have made: the peers of this one are asked.

use std::net::IpAddr;

use axum::http::HeaderMap;
use serde_json::{Value, json};

use super::{PEER_UNAVAILABLE, Served, bids};
use crate::json::Problem;
use crate::pacer_notices::{Judged, name_of, named};
use crate::pacer_peers::{NoticePeers, PeerAnswer, PeerAsk, PeerOutcome, PeerOutcomes, is_of_peer};

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
        let mut away = None;
        for answer in self.door.in_time(peers.ask(asked)).await? {
            match answer {
                PeerAnswer::Done(body) => {
                    let said: PeerOutcomes = serde_json::from_slice(&body).unwrap_or(PeerOutcomes { outcomes: vec![] });
                    let known = unknown.iter().zip(&said.outcomes).filter_map(|(at, said)| Some((*at, named(said)?)));
                    known.for_each(|(at, outcome)| judged.learn(at, outcome));
                }
                PeerAnswer::Refused => {}
                PeerAnswer::Away(why) => away = Some(why),
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
        let Some(peers) = self.peers_for(headers).filter(|peers| peers.listen_to(address)) else { return Ok(None) };
        let mut away = None;
        for answer in self.door.in_time(peers.ask(PeerAsk::Get(path_and_query.to_owned()))).await? {
            match answer {
                PeerAnswer::Done(body) => {
                    let said = serde_json::from_slice(&body).map(|PeerOutcome { outcome }| outcome);
                    match said {
                        Ok(outcome) if &*outcome == IGNORED => return Ok(Some(IGNORED)),
                        Ok(outcome) if named(&outcome).is_some() => return Ok(named(&outcome).map(name_of)),
                        _ => {}
                    }
                }
                PeerAnswer::Refused => {}
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

fn unavailable(why: &str) -> Problem {
    let detail =
        format!("a bid of a notice was not made here, and a server that may have made it does not answer: {why}");
    Problem::new(PEER_UNAVAILABLE, detail).retry_after_s(1)
}
