//! Routes a client's request to its shards and collects the answers.
//!
//! ```text
//!   Request ─▶ which shards? ─▶ calls ─▶ answers ─▶ more calls, or the Reply
//!
//!   transfers, one shard:    Deciding ─▶ reply
//!   transfers, many shards:  Claiming ─▶ Deciding ─▶ Describing ─▶ Deciding ─▶ reply
//!                            ids whose      by debit     unknown credit
//!                            home is        account      accounts
//!                            elsewhere
//! ```
//!
//!   a change of an account:  its home ─▶ all others are told ─▶ reply      (closing: see `changing`)
//!
//! A history that is streamed has one reply for each page. A page is asked for when the reader has room for it:
//!
//! ```text
//!   more ─▶ calls for a page ─▶ answers ─▶ reply ─▶ more, or the last page was given, or cancel
//! ```
//!
//! Why claims: an id is unique over all shards only if one shard decides who may use it first. That is the id's home
//! shard. With one shard, or if the id has the `{tag}` of its debit account, the home shard also decides the transfer
//! and no claim is needed.
//!
//! Invariant: a router stores nothing durable. If it ends with requests in progress, clients retry with the same ids.

mod assets;
mod changing;
mod history;
mod lookup;
mod stage;
mod transfers;

use std::collections::HashMap;

use slab::Slab;
use tidegate_machines::ledger::shard_of;
use tidegate_machines::{RecordPosition, ShardIndex};
use tidegate_runtime::{Address, Client, ShardAddresses};
use tidegate_shard::Durable;

use crate::limits::{ENDPOINT_REQUEST_BYTES_MAX, ENDPOINT_REQUESTS_MAX, ENDPOINT_STREAMS_MAX};
use crate::message::{Caller, CallerRequest, Reply, Request, Unavailable};
use crate::operation::{Answer, Message, Operation, Outgoing};
use changing::Changing;
pub use history::CursorKey;
use history::{HistoryMerge, HistoryStream};
use lookup::Lookup;
use stage::{Next, Stage};
use transfers::Deciding;

/// A finished request: the token that its listener gave it, and the reply.
pub type Finished = Vec<(u64, Reply)>;

/// Routes the requests of one member of an endpoint.
pub struct Router {
    me: Address,
    shards: ShardAddresses,
    /// How many there are.
    shard_count: u16,
    cursors: CursorKey,
    requests: Slab<Pending>,
    /// Where in `requests` the streams are, by their tokens.
    streams: HashMap<u64, usize>,
    bytes: usize,
}

/// A request in progress.
struct Pending {
    token: u64,
    caller: Caller,
    bytes: usize,
    /// Answers still to come before the next stage.
    awaited: usize,
    /// Replies that the reader of a stream still has room for; `None` if one reply is all.
    allowed: Option<usize>,
    stage: Stage,
}

impl Router {
    /// A router for the requests of `me`, to these shards.
    pub fn new(me: Address, shards: ShardAddresses, cursors: CursorKey) -> Router {
        let shard_count = shards.count();
        assert!(shard_count > 0, "somebody answers");
        Router { me, shards, shard_count, cursors, requests: Slab::new(), streams: HashMap::new(), bytes: 0 }
    }

    /// Shards of the ledger.
    pub fn shard_count(&self) -> u16 {
        self.shard_count
    }

    /// Whether another request may start. A worker that cannot start one stops reading its sockets.
    pub fn has_room(&self) -> bool {
        self.requests.len() < ENDPOINT_REQUESTS_MAX && self.bytes < ENDPOINT_REQUEST_BYTES_MAX
    }

    /// Requests in progress.
    pub fn pending(&self) -> usize {
        self.requests.len()
    }

    /// Starts a request; its reply comes with `token` from here or from a later [`Router::answer`]. A stream waits for
    /// [`Router::more`].
    pub fn start(
        &mut self,
        token: u64,
        request: impl Into<CallerRequest>,
        out: &mut Outgoing,
        finished: &mut Finished,
    ) {
        let CallerRequest { caller, request } = request.into();
        let is_stream = matches!(request, Request::StreamHistory { .. });
        if !self.has_room() || is_stream && self.streams.len() >= ENDPOINT_STREAMS_MAX {
            return finished.push((token, Reply::Unavailable(Unavailable::Busy)));
        }
        let bytes = request.bytes();
        let (stage, next) = self.open(request);
        match next {
            Next::Reply(reply) => finished.push((token, reply)),
            Next::Calls(calls) => {
                self.bytes += bytes;
                assert!(calls.is_empty() == is_stream, "only a stream waits before it asks");
                let allowed = is_stream.then_some(0);
                let key = self.requests.insert(Pending { token, caller, bytes, awaited: 0, allowed, stage });
                assert!(self.requests.len() <= ENDPOINT_REQUESTS_MAX, "requests under way are bounded");
                if is_stream {
                    let before = self.streams.insert(token, key);
                    assert!(before.is_none(), "a token is one stream's");
                } else {
                    self.send(key, calls, out);
                }
            }
        }
    }

    fn open(&self, request: Request) -> (Stage, Next) {
        match request {
            Request::OpenAccount { id, asset, kind } => {
                self.one(self.home(&id), Operation::OpenAccount { id, asset, kind })
            }
            Request::OpenAccounts(batch) => self.deciding(Deciding::opens(batch)),
            Request::Transfers { linked, batch } => self.deciding(Deciding::transfers(batch, linked)),
            Request::PlaceHolds(holds) => self.deciding(Deciding::holds(holds, false)),
            Request::PlaceLinkedHolds(holds) => self.deciding(Deciding::holds(holds, true)),
            Request::PostHolds(posts) => self.deciding(Deciding::posts(posts)),
            Request::VoidHolds(ids) => self.deciding(Deciding::voids(ids)),
            Request::ReadAccount { id } => self.one(self.home(&id), Operation::ReadAccount { id }),
            Request::ListAccounts { prefix, after, limit } => {
                let stage = Stage::List { accounts: Vec::new(), limit: limit as usize };
                let list = Operation::ListAccounts { prefix, after, limit };
                (stage, Next::Calls(self.all_shards().map(|shard| (shard, list.clone())).collect()))
            }
            Request::ReadHistory { id, before, limit, times } => {
                match HistoryMerge::open(id, before.as_deref(), limit, self.shard_count, self.cursors) {
                    Ok(merge) => {
                        let merge = merge.of(times);
                        let calls = merge.calls();
                        (Stage::History(merge), Next::Calls(calls))
                    }
                    Err(refusal) => (Stage::One, Next::Reply(Reply::Refused(refusal))),
                }
            }
            Request::ReadBalanceAt { id, at, before } => {
                match HistoryMerge::open(id, before.as_deref(), 1, self.shard_count, self.cursors) {
                    Ok(merge) => {
                        let search = merge.until(at);
                        let calls = search.calls();
                        (Stage::Balance(search), Next::Calls(calls))
                    }
                    Err(refusal) => (Stage::One, Next::Reply(Reply::Refused(refusal))),
                }
            }
            Request::StreamHistory { id, before, rows_max } => {
                match HistoryStream::open(id, before.as_deref(), rows_max, self.shard_count, self.cursors) {
                    Ok(stream) => (Stage::Stream(stream), Next::Calls(Vec::new())),
                    Err(refusal) => (Stage::One, Next::Reply(Reply::Refused(refusal))),
                }
            }
            Request::ReadTransfer { id } => self.lookup(Lookup::transfer(id)),
            Request::ReadHold { id } => self.lookup(Lookup::hold(id)),
            Request::ListHolds { account, after, limit } => {
                let after = RecordPosition(after.unwrap_or(0));
                self.one(self.home(&account), Operation::ListHolds { account, after, limit })
            }
            Request::ChangeAccount { id, change } => {
                let changing = Changing::new(id, change, self.shard_count);
                let calls = changing.begin();
                (Stage::Changing(changing), Next::Calls(calls))
            }
            Request::DeclareAsset { asset, decimals } => {
                self.one(self.home(&asset), Operation::DeclareAsset { asset, decimals })
            }
            Request::ListAssets => {
                let calls = self.all_shards().map(|shard| (shard, Operation::ReadAssets)).collect();
                (Stage::Assets(Vec::new()), Next::Calls(calls))
            }
            Request::Announce(want) => {
                let calls = self.all_shards().map(|shard| (shard, Operation::Announce(want.clone()))).collect();
                (Stage::Announced, Next::Calls(calls))
            }
            Request::ReadAudit => {
                let calls = self.all_shards().map(|shard| (shard, Operation::ReadAudit)).collect();
                (Stage::Audit(Vec::new()), Next::Calls(calls))
            }
        }
    }

    fn one(&self, shard: ShardIndex, operation: Operation) -> (Stage, Next) {
        (Stage::One, Next::Calls(vec![(shard, operation)]))
    }

    fn lookup(&self, lookup: Lookup) -> (Stage, Next) {
        let calls = lookup.begin(self.shard_count);
        (Stage::Lookup(lookup), Next::Calls(calls))
    }

    fn deciding(&self, mut deciding: Deciding) -> (Stage, Next) {
        let next = deciding.begin(self.shard_count);
        (Stage::Deciding(deciding), next)
    }

    fn home(&self, account: &str) -> ShardIndex {
        shard_of(account, self.shard_count)
    }

    fn all_shards(&self) -> impl Iterator<Item = ShardIndex> + use<> {
        (0..self.shard_count).map(ShardIndex)
    }

    fn send(&mut self, key: usize, calls: Vec<(ShardIndex, Operation)>, out: &mut Outgoing) {
        assert!(!calls.is_empty() && calls.len() <= usize::from(self.shard_count), "a call to a shard at most");
        let pending = &mut self.requests[key];
        pending.awaited = calls.len();
        let caller = pending.caller;
        for (shard, operation) in calls {
            assert!(shard.0 < self.shard_count, "a call is to a shard that there is");
            let call = Message::Call { from: self.me, ticket: key as u64, caller, shard, operation };
            out.push((self.shards.of(shard), call));
        }
    }

    /// Takes a shard's answer.
    pub fn answer(
        &mut self,
        ticket: u64,
        shard: ShardIndex,
        answer: Result<Durable<Answer>, Unavailable>,
        out: &mut Outgoing,
        finished: &mut Finished,
    ) {
        let key = ticket as usize;
        let pending = &mut self.requests[key];
        assert!(shard.0 < self.shard_count, "an answer is of a shard that there is");
        assert!(pending.awaited > 0, "each shard that was asked answers once");
        pending.awaited -= 1;
        match answer {
            _ if matches!(pending.stage, Stage::Cancelled) => {}
            Ok(answer) => pending.stage.collect(shard, answer.into_inner()),
            // The client is told "not known"; answers of other shards to this request are still awaited, and dropped.
            Err(reason) => pending.stage = Stage::Known(Reply::Unavailable(reason)),
        }
        if pending.awaited > 0 {
            return;
        }
        if matches!(pending.stage, Stage::Cancelled) {
            self.end(key);
            return;
        }
        match pending.stage.complete(shard, self.shard_count) {
            Next::Calls(calls) => self.send(key, calls, out),
            Next::Reply(reply) if Router::is_last(&reply) => {
                let token = self.end(key);
                finished.push((token, reply));
            }
            Next::Reply(part) => {
                finished.push((pending.token, part));
                let allowed = pending.allowed.as_mut().expect("only a stream has several replies");
                *allowed = allowed.checked_sub(1).expect("a page was asked for because there was room for it");
                self.go_on(key, out);
            }
        }
    }

    /// The reader of a stream has room for one more reply.
    pub fn more(&mut self, token: u64, out: &mut Outgoing) {
        // Of a stream that is over, the last reply is on its way to the reader.
        let Some(key) = self.streams.get(&token).copied() else { return };
        *self.requests[key].allowed.as_mut().expect("it is a stream") += 1;
        self.go_on(key, out);
    }

    /// Nobody reads a stream any more. Answers of shards that were asked for it are still awaited, and dropped.
    pub fn cancel(&mut self, token: u64) {
        let Some(key) = self.streams.remove(&token) else { return };
        let pending = &mut self.requests[key];
        pending.allowed = None;
        pending.stage = Stage::Cancelled;
        if pending.awaited == 0 {
            self.end(key);
        }
    }

    /// Asks for the next page of a stream, if its reader has room and no page is under way.
    fn go_on(&mut self, key: usize, out: &mut Outgoing) {
        let pending = &mut self.requests[key];
        if pending.awaited > 0 || pending.allowed == Some(0) {
            return;
        }
        let Stage::Stream(stream) = &mut pending.stage else { unreachable!("a stream that failed is over") };
        let calls = stream.calls();
        self.send(key, calls, out);
    }

    /// Forgets a request. Gives its token.
    fn end(&mut self, key: usize) -> u64 {
        let pending = self.requests.remove(key);
        if pending.allowed.is_some() {
            self.streams.remove(&pending.token);
        }
        assert!(pending.awaited == 0, "the end waits for all answers");
        assert!(pending.bytes <= self.bytes, "what is over was counted when it came");
        self.bytes -= pending.bytes;
        assert!(!self.requests.is_empty() || self.bytes == 0, "no requests have no bytes");
        pending.token
    }
}

impl Client for Router {
    type Request = CallerRequest;
    type Reply = Reply;
    type Message = Message;

    fn has_room(&self) -> bool {
        Router::has_room(self)
    }

    fn pending(&self) -> usize {
        Router::pending(self)
    }

    fn start(&mut self, token: u64, request: CallerRequest, out: &mut Outgoing, finished: &mut Finished) {
        Router::start(self, token, request, out, finished);
    }

    fn deliver(&mut self, _from: Address, message: Message, out: &mut Outgoing, finished: &mut Finished) {
        let Message::Answer { ticket, shard, answer } = message else { unreachable!("everything else is for shards") };
        self.answer(ticket, shard, answer, out, finished);
    }

    fn is_last(reply: &Reply) -> bool {
        !matches!(reply, Reply::HistoryPart { is_last: false, .. })
    }

    fn more(&mut self, token: u64, out: &mut Outgoing, _finished: &mut Finished) {
        Router::more(self, token, out);
    }

    fn cancel(&mut self, token: u64, _out: &mut Outgoing) {
        Router::cancel(self, token);
    }
}

impl Request {
    /// About how much memory the request uses while it is in progress.
    fn bytes(&self) -> usize {
        const EACH: usize = 64;
        match self {
            Request::Transfers { batch, .. } => batch.text_bytes() + batch.len() * EACH,
            Request::OpenAccounts(batch) => batch.text_bytes() + batch.len() * EACH,
            Request::PlaceHolds(holds) | Request::PlaceLinkedHolds(holds) => holds.len() * 5 * EACH,
            Request::ChangeAccount { change, .. } => change.metadata.len() + 4 * EACH,
            Request::PostHolds(posts) => posts.len() * 2 * EACH,
            Request::VoidHolds(ids) => ids.len() * 2 * EACH,
            _ => 4 * EACH,
        }
    }
}

#[cfg(test)]
mod tests;
