//! How long one connection's requests take: from their head to the first write of their answer.
//!
//! Why at the socket: hyper says when it asks for an answer, and never when it has written one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::door::Door;
use super::rooms::Operation;

/// See the [module](self). Only the connection's thread uses it. The mutex is there because hyper's services must be
/// `Send`.
pub(super) struct AnswerClock {
    door: Door,
    /// Whether answers are to be written.
    is_due: AtomicBool,
    answers: Mutex<Vec<(Instant, Operation)>>,
}

impl AnswerClock {
    pub fn new(door: Door) -> AnswerClock {
        AnswerClock { door, is_due: AtomicBool::new(false), answers: Mutex::default() }
    }

    /// The answer to a request that came at `since` is there, and is written next, perhaps with those behind it.
    pub fn answered(&self, since: Instant, operation: Operation) {
        self.answers.lock().expect("no thread panics while it holds it").push((since, operation));
        self.is_due.store(true, Ordering::Relaxed);
    }

    /// Something was written.
    pub fn wrote(&self) {
        if !self.is_due.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut answers = self.answers.lock().expect("no thread panics while it holds it");
        for (since, Operation(operation)) in answers.drain(..) {
            self.door.took(operation, since.elapsed());
        }
    }
}
