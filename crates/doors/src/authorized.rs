//! Requests to the ledger on behalf of a worker's clients, after their rights were checked.
//!
//! ```text
//!   ask(identity, request) ─▶ gate ─┬─ allowed ───────────────────────────▶ start ─▶ … ─▶ reply ─▶ purpose
//!                                   ├─ needs kinds ─▶ parked, kinds asked ─▶ (again to the gate)
//!                                   └─ denied, too many, or too many parked ─▶ said at once
//! ```
//!
//! What is let on has the ids of its caller's id space, and a place among the caller's requests under way.
//!
//! Promise: every purpose that was taken is returned exactly once, with the answer to its request. The number of parked
//! requests is bounded.

use std::sync::Arc;

use slab::Slab;
use tidegate_ledger::message::{CallerRequest, Reply, Request, Unavailable};
use tidegate_machines::IdSpace;

use crate::auth::gate::{NotFound, Verdict, check, not_found, shown};
use crate::auth::quota::{Exceeded, InFlight};
use crate::auth::{AccountKinds, Identity, Opening};

/// What became of a request.
#[derive(Debug)]
pub enum Answered {
    /// The ledger's reply, or that it could not be asked.
    Reply(Reply),
    /// The caller may not ask this, for this reason.
    Denied(String),
    /// An account is missing, or is none that the caller may know.
    NotFound(NotFound),
    /// The caller asks more than it may.
    TooMany(Exceeded),
}

/// What a request to the shards is for.
enum Purpose<P> {
    /// It is a client's request.
    Client { purpose: P, from: Option<Identity>, _place: InFlight },
    /// The kind of an account is needed before a parked request can go on.
    Kind { parked: usize, account: Box<str> },
    /// A wallet of a client is opened before its request.
    Opening { opening: Arc<Opening>, place: usize },
}

/// A request whose rights are looked at, and that may have to wait for kinds of accounts.
struct Parked<P> {
    purpose: P,
    identity: Identity,
    id_space: IdSpace,
    request: Request,
    place: InFlight,
    awaited: usize,
    /// What to answer instead, if an account is missing or could not be looked at.
    instead: Option<Answered>,
}

/// Requests under way, each with a purpose of the port that it came from.
pub struct AuthorizedRequests<P> {
    kinds: AccountKinds,
    asked: Slab<Purpose<P>>,
    parked: Slab<Parked<P>>,
    parked_max: usize,
}

impl<P> AuthorizedRequests<P> {
    /// Remembers `kinds_max` kinds of accounts and parks at most `parked_max` requests.
    pub fn new(kinds_max: usize, parked_max: usize) -> AuthorizedRequests<P> {
        AuthorizedRequests { kinds: AccountKinds::new(kinds_max), asked: Slab::new(), parked: Slab::new(), parked_max }
    }

    /// Lets a request on to the shards if its sender may make it. `Some` when it is answered already.
    pub fn ask(
        &mut self,
        identity: &Identity,
        request: Request,
        purpose: P,
        start: &mut impl FnMut(u64, CallerRequest),
    ) -> Option<(P, Answered)> {
        self.ask_in(identity, identity.id_space().clone(), request, purpose, start)
    }

    /// The same with ids of another id space than the sender's.
    pub fn ask_in(
        &mut self,
        identity: &Identity,
        id_space: IdSpace,
        request: Request,
        purpose: P,
        start: &mut impl FnMut(u64, CallerRequest),
    ) -> Option<(P, Answered)> {
        match identity.admit(&request) {
            Ok(place) => {
                self.open_wallets(identity, start);
                let identity = identity.clone();
                let asked = Parked { purpose, identity, id_space, request, place, awaited: 0, instead: None };
                self.check(asked, start)
            }
            Err(exceeded) => Some((purpose, Answered::TooMany(exceeded))),
        }
    }

    /// Opens wallets that are to be. What is asked behind it of the same shard finds them: a ring keeps its order.
    fn open_wallets(&mut self, identity: &Identity, start: &mut impl FnMut(u64, CallerRequest)) {
        let Some(opening) = identity.to_open() else { return };
        for (place, request) in opening.requests() {
            self.insert(Purpose::Opening { opening: opening.clone(), place }, identity.asks(request), start);
        }
    }

    fn check(&mut self, mut asked: Parked<P>, start: &mut impl FnMut(u64, CallerRequest)) -> Option<(P, Answered)> {
        match check(&asked.identity, &asked.request, &mut self.kinds) {
            Verdict::Allowed => {
                let Parked { purpose, identity, id_space, request, place, .. } = asked;
                let request = identity.asks(identity.send_in(request, &id_space));
                self.insert(Purpose::Client { purpose, from: Some(identity), _place: place }, request, start);
                None
            }
            Verdict::Denied(reason) => {
                asked.identity.denied();
                Some((asked.purpose, Answered::Denied(reason)))
            }
            Verdict::NeedsKinds(accounts) if self.parked.len() < self.parked_max => {
                asked.awaited = accounts.len();
                let identity = asked.identity.clone();
                let parked = self.parked.insert(asked);
                for account in accounts {
                    let read = Request::ReadAccount { id: account.clone() };
                    self.insert(Purpose::Kind { parked, account }, identity.asks(read), start);
                }
                None
            }
            Verdict::NeedsKinds(_) => Some((asked.purpose, Answered::Reply(Reply::Unavailable(Unavailable::Busy)))),
        }
    }

    /// Sends a request of the server itself, for which no client's rights are checked.
    pub fn ask_unchecked(&mut self, request: Request, purpose: P, start: &mut impl FnMut(u64, CallerRequest)) {
        self.insert(Purpose::Client { purpose, from: None, _place: InFlight::default() }, request.into(), start);
    }

    fn insert(&mut self, purpose: Purpose<P>, request: CallerRequest, start: &mut impl FnMut(u64, CallerRequest)) {
        let token = self.asked.insert(purpose);
        start(token as u64, request);
    }

    /// A reply of the shards. `Some` when it, or what it set free, answers a purpose; `start` takes a request that it
    /// sets free.
    pub fn reply(
        &mut self,
        token: u64,
        reply: Reply,
        start: &mut impl FnMut(u64, CallerRequest),
    ) -> Option<(P, Answered)> {
        match self.asked.remove(token as usize) {
            Purpose::Client { purpose, from: None, .. } => Some((purpose, Answered::Reply(reply))),
            Purpose::Client { purpose, from: Some(identity), .. } => {
                let reply = shown(&identity, reply);
                identity.answered(&reply);
                Some((purpose, Answered::Reply(reply)))
            }
            Purpose::Opening { opening, place } => {
                opening.answered(place, &reply);
                None
            }
            Purpose::Kind { parked, account } => {
                let waiting = &mut self.parked[parked];
                waiting.awaited -= 1;
                match reply {
                    Reply::Account(found) if self.kinds.learn(&account, found.kind) => {}
                    Reply::Unavailable(reason) => waiting.instead = Some(Answered::Reply(Reply::Unavailable(reason))),
                    _ => {
                        let refused = Answered::NotFound(not_found(&waiting.request, &account));
                        waiting.instead.get_or_insert(refused);
                    }
                }
                if waiting.awaited > 0 {
                    return None;
                }
                let mut waiting = self.parked.remove(parked);
                match waiting.instead.take() {
                    Some(answered) => {
                        match &answered {
                            Answered::Reply(reply) => waiting.identity.answered(reply),
                            Answered::NotFound(missing) => waiting.identity.answered(&Reply::Refused(missing.refusal)),
                            Answered::Denied(_) | Answered::TooMany(_) => {}
                        }
                        Some((waiting.purpose, answered))
                    }
                    None => self.check(waiting, start),
                }
            }
        }
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }
}
