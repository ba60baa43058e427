//! Verdicts on clients that arrive later, from the threads that check passwords.
//!
//! ```text
//!   worker: begin(credentials, reply) ─▶ login thread ─ reply(verdict) ─▶ channel + wake ─▶ worker: take
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
}

impl Verdicts {
    /// For the worker that is woken by `parker`.
    pub fn new(parker: Arc<Parker>) -> Verdicts {
        let (sender, receiver) = channel();
        Verdicts { sender, receiver, waiting: Arc::default(), parker }
    }

    /// Takes the verdict on `key`, from any thread.
    pub fn reply(&self, key: ConnectionKey) -> VerdictReply {
        let (sender, waiting, parker) = (self.sender.clone(), self.waiting.clone(), self.parker.clone());
        Box::new(move |verdict| {
            waiting.fetch_add(1, Ordering::Release);
            // A worker that is gone needs no verdicts.
            if sender.send((key, verdict)).is_ok() {
                parker.wake();
            }
        })
    }

    /// The next verdict that has come.
    pub fn take(&mut self) -> Option<(ConnectionKey, Verdict)> {
        let taken = self.receiver.try_recv().ok()?;
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        Some(taken)
    }

    /// Whether there is one.
    pub fn has_news(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }
}
