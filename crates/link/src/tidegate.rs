//! `[[link]]`: a queue of another Tidegate, over its binary port.
//!
//! ```text
//!   here: receive ─▶ send, many at once ─▶ there: durable ─▶ here: acknowledge
//!                         └─ refused as a whole: one by one, so that only the bad one is a dead letter
//! ```
//!
//! A message is sent under the key that its first node gave it as its id, so what is sent again is taken once, for as
//! long as the queue there remembers ids.

mod keys;
mod remote;

use std::rc::Rc;

use tidegate_queue::Received;
use tokio::sync::{Mutex, watch};

use crate::queue::Queue;
use crate::room::{Kind, Running, Start};
use crate::target::{Fate, LinkSettings, Session, Target};
use crate::tls::warn_if_open;

pub use keys::{LinkKeys, TidegateLink, links};
use remote::Remote;

impl Kind for TidegateLink {
    fn start(self: Box<Self>, start: Start) -> Running {
        warn_if_open(&self.link.consumer(), &self.address, self.tls.as_ref());
        start.forward(*self)
    }
}

impl Target for TidegateLink {
    type Session = Connection;

    fn settings(&self) -> &LinkSettings {
        &self.link
    }

    async fn open(&mut self, _queue: &Queue) -> Result<Connection, String> {
        let link = self.clone();
        // The client of the binary port waits on its thread.
        let remote = blocking(move || Remote::connect(&link)).await.map_err(|not_taken| not_taken.why)?;
        let (to, messages_max) = (self.to.clone(), self.batch);
        Ok(Connection { remote: Mutex::new(Some(remote)), to, messages_max, over: watch::channel(String::new()).0 })
    }
}

/// A connection to the other server.
pub struct Connection {
    /// `None` once it is of no more use.
    remote: Mutex<Option<Remote>>,
    to: Box<str>,
    messages_max: usize,
    /// Why it is over; empty while it is not.
    over: watch::Sender<String>,
}

impl Session for Connection {
    fn gifts_max(&self) -> usize {
        1
    }

    fn messages_max(&self) -> usize {
        self.messages_max
    }

    async fn give(self: Rc<Self>, messages: Vec<Received>) -> Vec<Fate> {
        let mut held = self.remote.lock().await;
        let Some(mut remote) = held.take() else { return back(messages.len(), "the connection is over") };
        let to = self.to.clone();
        let (remote, fates, over) = blocking(move || {
            let (fates, over) = remote.give(&to, &messages);
            (remote, fates, over)
        })
        .await;
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

/// Does what waits on a thread that may.
async fn blocking<R: Send + 'static>(what: impl FnOnce() -> R + Send + 'static) -> R {
    tokio::task::spawn_blocking(what).await.expect("the client of the binary port does not panic")
}
