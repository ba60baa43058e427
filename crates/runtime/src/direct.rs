//! The simplest client: each call to a shard is one message, and so is its answer.
//!
//! ```text
//!   ask(call) ─▶ DirectClient ─▶ Direct::Call ─▶ shard ─▶ Direct::Answer ─▶ DirectClient ─▶ reply
//! ```
//!
//! For rooms whose requests each concern one shard. A room whose requests concern several brings a [`Client`] of its
//! own.

use slab::Slab;
use tidegate_machines::ShardIndex;
use tidegate_shard::{Durable, Released, Service, Unavailable};

use crate::address::{Address, Outgoing};
use crate::client::{Client, Replies};
use crate::limits::CLIENT_REQUESTS_MAX;
use crate::placement::ShardAddresses;
use crate::shard_resident::{Protocol, Received};

/// Identifies a call at its shard: the caller's address, and the caller's number for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Who asked.
    pub from: Address,
    /// The asker's number.
    pub number: u64,
}

/// A call to a shard, or its answer.
pub enum Direct<S: Service> {
    /// Asks.
    Call {
        /// The asker's number.
        number: u64,
        /// What.
        call: S::Call,
    },
    /// Answers.
    Answer {
        /// The asker's number.
        number: u64,
        /// Durable, or why there is none.
        answer: Result<Durable<S::Answer>, Unavailable>,
    },
}

/// Speaks for a shard in [`Direct`] messages.
pub struct DirectProtocol;

impl<S: Service<Ticket = Ticket>> Protocol<S> for DirectProtocol
where
    S::Call: Send,
    S::Answer: Send,
{
    type Message = Direct<S>;

    fn receive(&self, from: Address, message: Direct<S>) -> Received<S> {
        match message {
            Direct::Call { number, call } => Received::Call(Ticket { from, number }, call),
            Direct::Answer { .. } => unreachable!("a shard asks nobody"),
        }
    }

    fn answer(&self, _shard: ShardIndex, (ticket, answer): Released<S>) -> Option<(Address, Direct<S>)> {
        Some((ticket.from, Direct::Answer { number: ticket.number, answer }))
    }
}

/// Asks shards in [`Direct`] messages.
pub struct DirectClient<S: Service> {
    shards: ShardAddresses,
    /// Which shard a call is for, of so many.
    shard_of: fn(&S::Call, u16) -> ShardIndex,
    /// The caller's token of each request; `None` once it was cancelled.
    asked: Slab<Option<u64>>,
}

impl<S: Service> DirectClient<S> {
    /// A client of these shards, of which `shard_of` says which one a call is for.
    pub fn new(shards: ShardAddresses, shard_of: fn(&S::Call, u16) -> ShardIndex) -> DirectClient<S> {
        DirectClient { shards, shard_of, asked: Slab::new() }
    }
}

impl<S> Client for DirectClient<S>
where
    S: Service<Call: Send, Answer: Send> + 'static,
{
    type Request = S::Call;
    type Reply = Result<S::Answer, Unavailable>;
    type Message = Direct<S>;

    fn has_room(&self) -> bool {
        self.asked.len() < CLIENT_REQUESTS_MAX
    }

    fn pending(&self) -> usize {
        self.asked.len()
    }

    fn start(&mut self, token: u64, call: S::Call, out: &mut Outgoing<Direct<S>>, replies: &mut Replies<Self::Reply>) {
        if !self.has_room() {
            return replies.push((token, Err(Unavailable::Busy)));
        }
        let number = self.asked.insert(Some(token)) as u64;
        let shard = (self.shard_of)(&call, self.shards.count());
        out.push((self.shards.of(shard), Direct::Call { number, call }));
    }

    fn deliver(
        &mut self,
        _from: Address,
        message: Direct<S>,
        _out: &mut Outgoing<Direct<S>>,
        replies: &mut Replies<Self::Reply>,
    ) {
        let Direct::Answer { number, answer } = message else { unreachable!("nobody calls a client") };
        if let Some(token) = self.asked.remove(number as usize) {
            replies.push((token, answer.map(Durable::into_inner)));
        }
    }

    fn cancel(&mut self, token: u64, _out: &mut Outgoing<Direct<S>>) {
        let of_token = self.asked.iter_mut().map(|(_, asked)| asked).find(|asked| **asked == Some(token));
        if let Some(asked) = of_token {
            *asked = None;
        }
    }
}
