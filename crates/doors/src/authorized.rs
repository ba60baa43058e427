//! Requests to the ledger on behalf of a worker's clients, after their rights were checked.
//!
//! ```text
//!   ask(identity, request) ─▶ gate ─┬─ allowed ───────────────────────────▶ start ─▶ … ─▶ reply ─▶ purpose
//!                                   ├─ needs kinds ─▶ parked, kinds asked ─▶ (again to the gate)
//!                                   └─ denied, or too many parked ─▶ said at once
//! ```
//!
//! Promise: every purpose that was taken is returned exactly once, with the answer to its request. The number of parked
//! requests is bounded.

use slab::Slab;
use tidegate_ledger::message::{Reply, Request, Unavailable};

use crate::auth::gate::{Verdict, check, is_shown_in_part, not_found, shown};
use crate::auth::{AccountKinds, Identity};

/// What became of a request.
#[derive(Debug)]
pub enum Answered {
    /// The ledger's reply, or that it could not be asked.
    Reply(Reply),
    /// The caller may not ask this, for this reason.
    Denied(String),
}

/// What a request to the shards is for.
enum Purpose<P> {
    /// It is a client's request.
    Client(P),
    /// As above; the client sees a part of the reply.
    Shown(P, Identity),
    /// The kind of an account is needed before a parked request can go on.
    Kind { parked: usize, account: Box<str> },
}

/// A request that waits for kinds of accounts.
struct Parked<P> {
    purpose: P,
    identity: Identity,
    request: Request,
    awaited: usize,
    /// What to answer instead, if an account is missing or could not be looked at.
    instead: Option<Reply>,
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
        start: &mut impl FnMut(u64, Request),
    ) -> Option<(P, Answered)> {
        match check(identity, &request, &mut self.kinds) {
            Verdict::Allowed if is_shown_in_part(&request) => {
                let token = self.asked.insert(Purpose::Shown(purpose, identity.clone()));
                start(token as u64, request);
                None
            }
            Verdict::Allowed => {
                self.ask_unchecked(request, purpose, start);
                None
            }
            Verdict::Denied(reason) => Some((purpose, Answered::Denied(reason))),
            Verdict::NeedsKinds(accounts) if self.parked.len() < self.parked_max => {
                let waiting =
                    Parked { purpose, identity: identity.clone(), request, awaited: accounts.len(), instead: None };
                let parked = self.parked.insert(waiting);
                for account in accounts {
                    let token = self.asked.insert(Purpose::Kind { parked, account: account.clone() });
                    start(token as u64, Request::ReadAccount { id: account });
                }
                None
            }
            Verdict::NeedsKinds(_) => Some((purpose, Answered::Reply(Reply::Unavailable(Unavailable::Busy)))),
        }
    }

    /// Sends a request of the server itself, for which no client's rights are checked.
    pub fn ask_unchecked(&mut self, request: Request, purpose: P, start: &mut impl FnMut(u64, Request)) {
        let token = self.asked.insert(Purpose::Client(purpose));
        start(token as u64, request);
    }

    /// A reply of the shards. `Some` when it, or what it set free, answers a purpose; `start` takes a request that it
    /// sets free.
    pub fn reply(&mut self, token: u64, reply: Reply, start: &mut impl FnMut(u64, Request)) -> Option<(P, Answered)> {
        match self.asked.remove(token as usize) {
            Purpose::Client(purpose) => Some((purpose, Answered::Reply(reply))),
            Purpose::Shown(purpose, identity) => Some((purpose, Answered::Reply(shown(&identity, reply)))),
            Purpose::Kind { parked, account } => {
                let waiting = &mut self.parked[parked];
                waiting.awaited -= 1;
                match reply {
                    Reply::Account(found) => self.kinds.learn(&account, found.kind),
                    Reply::Unavailable(reason) => waiting.instead = Some(Reply::Unavailable(reason)),
                    _ => {
                        let refusal = Reply::Refused(not_found(&waiting.request));
                        waiting.instead.get_or_insert(refusal);
                    }
                }
                if waiting.awaited > 0 {
                    return None;
                }
                let Parked { purpose, identity, request, instead, .. } = self.parked.remove(parked);
                match instead {
                    Some(reply) => Some((purpose, Answered::Reply(reply))),
                    None => self.ask(&identity, request, purpose, start),
                }
            }
        }
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }
}
