//! `[[link]]`: a queue of another Tidegate, over its binary port.
//!
//! ```text
//!   here: receive ─▶ send, many at once ─▶ there: durable ─▶ here: acknowledge
//!                         └─ refused as a whole: by halves, so that only the bad one is a dead letter
//! ```
//!
//! A message is sent under the key that its first node gave it as its id, so what is sent again is taken once, for as
//! long as the queue there remembers ids.

mod keys;
mod remote;
mod tcp;

use std::rc::Rc;

use tidegate_client::ClientError;
use tidegate_queue::Received;
use tokio::sync::{Mutex, watch};

use crate::queue::Queue;
use crate::room::{Kind, Running, Start};
use crate::server::why_of;
use crate::target::{Fate, LinkSettings, Session, Target};

pub use keys::{LinkKeys, TidegateLink, links};
use remote::Remote;

/// The way to the other server.
pub trait Transport: 'static {
    /// A connection to it.
    type Exchange: Exchange;

    /// Connects.
    fn connect(&self) -> impl Future<Output = Result<Self::Exchange, ClientError>>;

    /// Why it cannot connect, for an operator.
    fn why(&self, error: &ClientError) -> String {
        why_of(error)
    }
}

/// A connection to the other server's binary port.
pub trait Exchange: 'static {
    /// Asks for what this `QueueRequest` says, and waits for the `QueueReply`.
    fn exchange(&mut self, request: Vec<u8>) -> impl Future<Output = Result<Vec<u8>, ClientError>>;
}

/// A link to a queue of another server, over whatever carries requests there.
pub struct Forwarding<T> {
    /// What all links are told.
    pub link: LinkSettings,
    /// The queue there.
    pub to: Box<str>,
    /// Messages at once.
    pub batch: usize,
    /// The way there.
    pub transport: T,
}

impl Kind for TidegateLink {
    fn start(self: Box<Self>, start: Start) -> Running {
        let TidegateLink { link, to, server, batch } = *self;
        server.warn_if_open(&link.consumer());
        start.forward(Forwarding { link, to, batch, transport: server })
    }
}

impl<T: Transport> Target for Forwarding<T> {
    type Session = Connection<T::Exchange>;

    fn settings(&self) -> &LinkSettings {
        &self.link
    }

    async fn open(&mut self, _queue: &Queue) -> Result<Self::Session, String> {
        let exchange = self.transport.connect().await.map_err(|error| self.transport.why(&error))?;
        let (to, messages_max) = (self.to.clone(), self.batch);
        let remote = Mutex::new(Some(Remote(exchange)));
        Ok(Connection { remote, to, messages_max, over: watch::channel(String::new()).0 })
    }
}

/// A connection to the other server.
pub struct Connection<E> {
    /// `None` once it is of no more use.
    remote: Mutex<Option<Remote<E>>>,
    to: Box<str>,
    messages_max: usize,
    /// Why it is over; empty while it is not.
    over: watch::Sender<String>,
}

impl<E: Exchange> Session for Connection<E> {
    fn gifts_max(&self) -> usize {
        1
    }

    fn messages_max(&self) -> usize {
        self.messages_max
    }

    async fn give(self: Rc<Self>, messages: Vec<Received>) -> Vec<Fate> {
        let mut held = self.remote.lock().await;
        let Some(mut remote) = held.take() else { return back(messages.len(), "the connection is over") };
        let (fates, over) = remote.give(&self.to, &messages).await;
        match over {
            Some(why) => _ = self.over.send_replace(why),
            None => *held = Some(remote),
        }
        fates
    }

    async fn over(&self) -> String {
        let mut over = self.over.subscribe();
        let why = over.wait_for(|why| !why.is_empty()).await;
        why.expect("the sender is here").clone()
    }

    async fn close(&self) {}
}

/// All messages go back: the other side is away.
fn back(messages: usize, why: &str) -> Vec<Fate> {
    (0..messages).map(|_| Fate::Back { why: why.to_owned(), after_ms: 0, is_away: true }).collect()
}
