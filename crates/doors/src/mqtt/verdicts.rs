//! Verdicts on clients that arrive later, from the threads that check passwords.
//!
//! ```text
//!   worker: begin(credentials, reply) ─▶ login thread ─ reply(verdict) ─▶ channel + wake ─▶ worker: take
//!           the client is gone ─ forget ─▶ nothing is hashed for it
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use tidegate_broker::ConnectionKey;
use tidegate_runtime::Parker;

use super::settings::{Verdict, VerdictReply};

/// A worker's end. Bounded by its connections: each waits for one verdict at most.
pub struct Verdicts {
    sender: Sender<(ConnectionKey, Verdict)>,
    receiver: Receiver<(ConnectionKey, Verdict)>,
    /// How many are in the channel; a worker checks this before it sleeps.
    waiting: Arc<AtomicUsize>,
    parker: Arc<Parker>,
    /// Of the clients that wait for one: what becomes true when they are gone.
    awaited: HashMap<ConnectionKey, Arc<AtomicBool>>,
}

impl Verdicts {
    /// For the worker that is woken by `parker`.
    pub fn new(parker: Arc<Parker>) -> Verdicts {
        let (sender, receiver) = channel();
        Verdicts { sender, receiver, waiting: Arc::default(), parker, awaited: HashMap::new() }
    }

    /// Takes the verdict on `key`, from any thread.
    pub fn reply(&mut self, key: ConnectionKey) -> VerdictReply {
        let (sender, waiting, parker) = (self.sender.clone(), self.waiting.clone(), self.parker.clone());
        let answer = move |verdict| {
            waiting.fetch_add(1, Ordering::Release);
            // A worker that is gone needs no verdicts.
            if sender.send((key, verdict)).is_ok() {
                parker.wake();
            }
        };
        let is_gone = self.awaited.entry(key).or_default().clone();
        VerdictReply::new(answer, is_gone)
    }

    /// Whether a verdict on `key` is still to come.
    pub fn is_awaited(&self, key: ConnectionKey) -> bool {
        self.awaited.contains_key(&key)
    }

    /// Nobody waits for a verdict on `key` any more.
    pub fn forget(&mut self, key: ConnectionKey) {
        if let Some(is_gone) = self.awaited.remove(&key) {
            is_gone.store(true, Ordering::Relaxed);
        }
    }

    /// The next verdict that has come.
    pub fn take(&mut self) -> Option<(ConnectionKey, Verdict)> {
        let taken = self.receiver.try_recv().ok()?;
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        self.awaited.remove(&taken.0);
        Some(taken)
    }

    /// Whether there is one.
    pub fn has_news(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }
}
