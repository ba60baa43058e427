//! How an edge thread, whose tasks may wait, asks the shards, which must not wait.
//!
//! ```text
//!   tasks ─ask, open─▶ EdgeHandle ─bounded channel─▶ Pump: Client ─▶ rings ─▶ workers
//!         ◀─ oneshot, or a stream with credits ───── Pump: Client ◀─ rings ◀─ workers
//! ```
//!
//! There is one pump per edge thread, a task of its runtime. It owns the thread's rings. It serves any number of
//! clients, each of which is a member of the edge's endpoint.

use std::sync::Arc;

use slab::Slab;
use tidegate_shard::Unavailable;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::address::{Address, Carries, EndpointIndex, MemberIndex};
use crate::client::{Asker, Client};
use crate::limits::CLIENT_REQUESTS_MAX;
use crate::mesh::{Endpoint, Parker};
use crate::status::{Phase, Status};

/// Why a request did not reach the shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// Too much is under way.
    Busy,
    /// The logs are being replayed.
    Recovering,
    /// The process stops.
    Stopping,
}

impl From<Unasked> for Unavailable {
    fn from(unasked: Unasked) -> Unavailable {
        match unasked {
            Unasked::Busy => Unavailable::Busy,
            Unasked::Recovering => Unavailable::Recovering,
            Unasked::Stopping => Unavailable::Stopping,
        }
    }
}

/// What a task wants of its client.
enum Asked<C: Client> {
    /// One reply.
    Ask(C::Request, oneshot::Sender<C::Reply>),
    /// A stream of replies.
    Open(C::Request, mpsc::Sender<C::Reply>),
}

/// Wakes the pump, now and when it is dropped: the pump ends when its last handle is gone.
#[derive(Clone)]
struct Waker(Arc<Parker>);

impl Drop for Waker {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// A client on a pump, as the tasks of the edge thread know it. Cheap to clone.
pub struct EdgeHandle<C: Client> {
    status: Arc<Status>,
    asked: mpsc::Sender<Asked<C>>,
    // Behind the sender, because it is dropped after it.
    waker: Waker,
}

impl<C: Client> Clone for EdgeHandle<C> {
    fn clone(&self) -> Self {
        EdgeHandle { status: self.status.clone(), asked: self.asked.clone(), waker: self.waker.clone() }
    }
}

impl<C: Client> EdgeHandle<C> {
    /// Asks, and waits for the reply. Dropping the future gives up the reply, not what was asked.
    pub fn ask(&self, request: C::Request) -> impl Future<Output = Result<C::Reply, Unasked>> + Send + use<C> {
        let (reply, answer) = oneshot::channel();
        let sent = self.send(Asked::Ask(request, reply));
        async move {
            sent?;
            // If the pump has ended, the outcome of its requests is unknown.
            answer.await.map_err(|_| Unasked::Stopping)
        }
    }

    /// Asks for something whose reply says nothing. Returns whether it is on its way.
    pub fn tell(&self, request: C::Request) -> bool {
        self.send(Asked::Ask(request, oneshot::channel().0)).is_ok()
    }

    /// Asks for a stream of replies, of which at most `window` wait to be read.
    pub fn open(&self, request: C::Request, window: usize) -> Result<ReplyStream<C>, Unasked> {
        let (replies, reader) = mpsc::channel(window);
        self.send(Asked::Open(request, replies))?;
        Ok(ReplyStream { reader, waker: self.waker.clone() })
    }

    fn send(&self, asked: Asked<C>) -> Result<(), Unasked> {
        match self.status.phase() {
            Phase::Recovering => return Err(Unasked::Recovering),
            // The shard whose log failed says so itself. Others serve: an error of the disk that has the topics is no
            // reason to stop the ledger.
            Phase::Serving | Phase::Stopping | Phase::Failed => {}
        }
        let sent = self.asked.try_send(asked).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Unasked::Busy,
            mpsc::error::TrySendError::Closed(_) => Unasked::Stopping,
        });
        self.waker.0.wake();
        sent
    }
}

/// The replies to one request, one after the other. Dropping it ends the request.
pub struct ReplyStream<C: Client> {
    reader: mpsc::Receiver<C::Reply>,
    // Behind the reader, because it is dropped after it.
    waker: Waker,
}

impl<C: Client> ReplyStream<C> {
    /// The next reply; `None` after the last one, or when the process stops.
    pub async fn next(&mut self) -> Option<C::Reply> {
        let reply = self.reader.recv().await;
        // The pump may let the client make one more.
        self.waker.0.wake();
        reply
    }
}

/// Who waits for replies under one token.
enum Waiting<C: Client> {
    One(oneshot::Sender<C::Reply>),
    Stream {
        replies: mpsc::Sender<C::Reply>,
        /// Replies that the client may still make before the reader has to take one. Never more than there is room for.
        allowed: usize,
    },
}

/// One client of a pump, whatever it asks.
trait Pumped<P>: Send {
    fn deliver(&mut self, from: Address, body: P);
    /// Starts what was asked and sends what is to be sent. Returns whether there was anything.
    fn turn(&mut self, endpoint: &mut Endpoint<P>) -> bool;
    /// Whether somebody has asked, has taken a reply of a stream, or does not want the rest of one.
    fn has_news(&self) -> bool;
    /// Whether all handles are gone and all requests are answered.
    fn is_over(&self) -> bool;
}

struct PumpedClient<C: Client> {
    asker: Asker<C>,
    asked: mpsc::Receiver<Asked<C>>,
    waiting: Slab<Waiting<C>>,
    /// The tokens of those that are streams.
    streams: Vec<usize>,
}

impl<P: Carries<C::Message>, C: Client> Pumped<P> for PumpedClient<C> {
    fn deliver(&mut self, from: Address, body: P) {
        let Ok(message) = body.unpack() else { panic!("a client of an edge got a parcel of another room") };
        self.asker.deliver(from, message);
    }

    fn turn(&mut self, endpoint: &mut Endpoint<P>) -> bool {
        let mut worked = false;
        while let Ok(asked) = self.asked.try_recv() {
            worked = true;
            self.start(asked);
        }
        self.let_streams_go_on();
        worked |= self.pass_on_replies();
        self.asker.send_by(endpoint);
        worked
    }

    fn has_news(&self) -> bool {
        let can_go_on = |token: &usize| match &self.waiting[*token] {
            Waiting::Stream { replies, allowed } => replies.is_closed() || replies.capacity() > *allowed,
            Waiting::One(_) => unreachable!("streams are listed"),
        };
        !self.asked.is_empty() || self.streams.iter().any(can_go_on)
    }

    fn is_over(&self) -> bool {
        self.asked.is_closed() && self.asked.is_empty() && self.waiting.is_empty()
    }
}

impl<C: Client> PumpedClient<C> {
    fn start(&mut self, asked: Asked<C>) {
        match asked {
            Asked::Ask(request, reply) => {
                let token = self.waiting.insert(Waiting::One(reply)) as u64;
                self.asker.start(token, request);
            }
            Asked::Open(request, replies) => {
                let token = self.waiting.insert(Waiting::Stream { replies, allowed: 0 });
                self.streams.push(token);
                self.asker.start(token as u64, request);
            }
        }
    }

    /// Lets each stream make as many replies as its reader has room for, and ends streams whose reader is gone.
    fn let_streams_go_on(&mut self) {
        for token in std::mem::take(&mut self.streams) {
            let Some(Waiting::Stream { replies, allowed }) = self.waiting.get_mut(token) else {
                unreachable!("streams are listed until they end")
            };
            if replies.is_closed() {
                self.waiting.remove(token);
                self.asker.cancel(token as u64);
                continue;
            }
            let room = replies.capacity();
            let more = room.checked_sub(*allowed).expect("a client is allowed what there is room for");
            *allowed = room;
            (0..more).for_each(|_| self.asker.more(token as u64));
            self.streams.push(token);
        }
    }

    fn pass_on_replies(&mut self) -> bool {
        let mut worked = false;
        while self.asker.has_replies() {
            worked = true;
            for (token, reply) in self.asker.take_replies() {
                self.pass_on(token as usize, reply);
            }
        }
        worked
    }

    fn pass_on(&mut self, token: usize, reply: C::Reply) {
        let is_last = C::is_last(&reply);
        match self.waiting.get_mut(token) {
            Some(Waiting::One(_)) => {
                let Waiting::One(waits) = self.waiting.remove(token) else { unreachable!("it was one just now") };
                // A task that went away no longer listens.
                let _ = waits.send(reply);
            }
            Some(Waiting::Stream { replies, allowed }) => {
                *allowed = allowed.checked_sub(1).expect("a client makes no more replies than it was allowed");
                // A reader that went away says so, and the stream is cancelled then.
                let _ = replies.try_send(reply);
                if is_last {
                    self.waiting.remove(token);
                    self.streams.retain(|stream| *stream != token);
                }
            }
            // It was cancelled.
            None => {}
        }
    }
}

/// The other end of an edge thread's [`EdgeHandle`]s, to be run by the same thread's runtime.
pub struct Pump<P> {
    status: Arc<Status>,
    endpoint: Endpoint<P>,
    clients: Vec<Box<dyn Pumped<P>>>,
    woken: Arc<Notify>,
}

impl<P: Send + 'static> Pump<P> {
    /// Takes its end of the rings. Nobody can ask before `status` says that the process serves.
    pub fn new(endpoint: Endpoint<P>, status: Arc<Status>) -> Pump<P> {
        let woken = Arc::new(Notify::new());
        let wake = woken.clone();
        endpoint.parker().set_wake(move || wake.notify_one());
        Pump { status, endpoint, clients: Vec::new(), woken }
    }

    /// Which endpoint it is.
    pub fn endpoint(&self) -> EndpointIndex {
        self.endpoint.index()
    }

    /// Adds a client, which `make` makes for its address.
    pub fn client<C: Client>(&mut self, make: impl FnOnce(Address) -> C) -> EdgeHandle<C>
    where
        P: Carries<C::Message>,
    {
        let me = Address { endpoint: self.endpoint.index(), member: MemberIndex(self.clients.len() as u16) };
        let (sender, asked) = mpsc::channel(CLIENT_REQUESTS_MAX);
        self.clients.push(Box::new(PumpedClient {
            asker: Asker::new(me, make(me)),
            asked,
            waiting: Slab::new(),
            streams: Vec::new(),
        }));
        EdgeHandle { status: self.status.clone(), asked: sender, waker: Waker(self.endpoint.parker().clone()) }
    }

    /// Carries requests and replies until every handle is gone and all that was asked is answered.
    pub async fn run(mut self) {
        while !self.clients.iter().all(|client| client.is_over()) {
            let clients = &self.clients;
            let has_work = || clients.iter().any(|c| c.has_news()) || clients.iter().all(|c| c.is_over());
            if self.endpoint.sleep_unless(has_work) {
                self.woken.notified().await;
                self.endpoint.awake();
            } else {
                tokio::task::yield_now().await;
            }
            let clients = &mut self.clients;
            self.endpoint.receive(|envelope| {
                clients[usize::from(envelope.to.0)].deliver(envelope.from, envelope.body);
            });
            for client in &mut self.clients {
                client.turn(&mut self.endpoint);
            }
            self.endpoint.wake_receivers();
        }
    }
}

#[cfg(test)]
mod tests;
