//! How a thread asks shards. A client turns requests into messages, and messages into replies. It has no thread and no
//! ring of its own.
//!
//! ```text
//!   start(token, request) ─▶ Client ─▶ messages to addresses ─▶ shards
//!   (token, reply)        ◀─ Client ◀─ messages               ◀┘          one reply, or a stream of them
//! ```
//!
//! Invariant: a client has no state that must survive. If it ends with requests in flight, its callers ask again.

use crate::address::{Address, Carries, Outgoing};
use crate::member::Context;
use crate::mesh::Endpoint;

/// Replies, each with the token of its request.
pub type Replies<R> = Vec<(u64, R)>;

/// Asks the shards of one family on behalf of others.
pub trait Client: Send + 'static {
    /// What can be asked.
    type Request: Send + 'static;
    /// What is replied.
    type Reply: Send + 'static;
    /// What passes between it and the shards.
    type Message: Send + 'static;

    /// Whether another request may start.
    fn has_room(&self) -> bool;

    /// Requests under way.
    fn pending(&self) -> usize;

    /// Starts a request. Each of its replies appears in `replies` with `token`, here or in a later call. A request that
    /// finds no room is replied to at once.
    fn start(
        &mut self,
        token: u64,
        request: Self::Request,
        out: &mut Outgoing<Self::Message>,
        replies: &mut Replies<Self::Reply>,
    );

    /// Takes a message for this client.
    fn deliver(
        &mut self,
        from: Address,
        message: Self::Message,
        out: &mut Outgoing<Self::Message>,
        replies: &mut Replies<Self::Reply>,
    );

    /// Whether no further reply comes under the token of `reply`. A client that streams says no for all replies but the
    /// last.
    fn is_last(_reply: &Self::Reply) -> bool {
        true
    }

    /// The reader of the stream `token` takes one more reply. A client that streams sends no more than it was allowed.
    fn more(&mut self, _token: u64, _out: &mut Outgoing<Self::Message>, _replies: &mut Replies<Self::Reply>) {}

    /// Nobody waits for replies under `token` any more. Replies that come all the same are dropped. `out` is for
    /// telling whoever works for it.
    fn cancel(&mut self, _token: u64, _out: &mut Outgoing<Self::Message>) {}
}

/// A client on a worker, with its messages and replies that were not taken yet.
pub struct Asker<C: Client> {
    me: Address,
    client: C,
    out: Outgoing<C::Message>,
    replies: Replies<C::Reply>,
}

impl<C: Client> Asker<C> {
    /// The client of the member at `me`.
    pub fn new(me: Address, client: C) -> Asker<C> {
        Asker { me, client, out: Vec::new(), replies: Vec::new() }
    }

    /// The client.
    pub fn client(&self) -> &C {
        &self.client
    }

    /// Whether another request may start.
    pub fn has_room(&self) -> bool {
        self.client.has_room()
    }

    /// Starts a request.
    pub fn start(&mut self, token: u64, request: impl Into<C::Request>) {
        self.client.start(token, request.into(), &mut self.out, &mut self.replies);
    }

    /// Takes a message for the client.
    pub fn deliver(&mut self, from: Address, message: C::Message) {
        self.client.deliver(from, message, &mut self.out, &mut self.replies);
    }

    /// The reader of the stream `token` takes one more reply.
    pub fn more(&mut self, token: u64) {
        self.client.more(token, &mut self.out, &mut self.replies);
    }

    /// Nobody waits for replies under `token` any more.
    pub fn cancel(&mut self, token: u64) {
        self.client.cancel(token, &mut self.out);
    }

    /// The replies that have come since the last call.
    pub fn take_replies(&mut self) -> Replies<C::Reply> {
        std::mem::take(&mut self.replies)
    }

    /// Whether there are replies to take.
    pub fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Sends what the client has made, from a worker.
    pub fn send<P: Carries<C::Message>>(&mut self, context: &mut Context<'_, P>) {
        for (to, message) in self.out.drain(..) {
            context.send(to, P::pack(message));
        }
    }

    /// Sends what the client has made, from a thread that is no worker.
    pub fn send_by<P: Carries<C::Message>>(&mut self, endpoint: &mut Endpoint<P>) {
        for (to, message) in self.out.drain(..) {
            endpoint.send(self.me, to, P::pack(message));
        }
    }
}
