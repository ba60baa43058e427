//! Verdicts on clients that arrive later, from the threads that check passwords.
//!
//! ```text
//!   worker: begin(credentials, reply) ─▶ login thread ─ reply(verdict) ─▶ mail ─▶ worker: take
//! ```

use std::sync::Arc;

use tidegate_broker::ConnectionKey;
use tidegate_runtime::Parker;

use super::mail::Mail;
use super::settings::{Verdict, VerdictReply};

/// A worker's end. Bounded by its connections: each waits for one verdict at most.
pub struct Verdicts {
    mail: Mail<(ConnectionKey, Verdict)>,
}

impl Verdicts {
    /// For the worker that is woken by `parker`.
    pub fn new(parker: Arc<Parker>) -> Verdicts {
        Verdicts { mail: Mail::new(parker) }
    }

    /// Takes the verdict on `key`, from any thread.
    pub fn reply(&self, key: ConnectionKey) -> VerdictReply {
        let sender = self.mail.sender();
        Box::new(move |verdict| sender.send((key, verdict)))
    }

    /// The next verdict that has come.
    pub fn take(&mut self) -> Option<(ConnectionKey, Verdict)> {
        self.mail.take()
    }

    /// Whether there is one.
    pub fn has_news(&self) -> bool {
        self.mail.has_news()
    }
}
