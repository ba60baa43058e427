//! How a connection of the binary port is told that it gives way to a new one, which another worker may have let in.
//!
//! ```text
//!   worker 0: accept ─▶ enter ─▶ gives way: Place { worker 1, session 7 } ─▶ its list
//!   worker 1: next turn or tick ─▶ takes its list ─▶ session 7 is told "busy", and ended
//! ```

use std::sync::{Arc, Mutex};

use crate::admission;

/// The connections of all workers.
pub type Connections = admission::Connections<Place>;
/// A connection that is counted until it is dropped.
pub type Entered = admission::Entered<Place>;

/// Where a connection is served.
#[derive(Clone, Debug)]
pub struct Place {
    worker: Arc<GivingWay>,
    session: usize,
}

/// The sessions of one worker that are to give way. One of them may have ended since, and another have its key.
#[derive(Debug, Default)]
pub struct GivingWay {
    sessions: Mutex<Vec<usize>>,
}

impl Place {
    /// The session of this key, at the worker that looks at `worker`.
    pub fn new(worker: &Arc<GivingWay>, session: usize) -> Place {
        Place { worker: worker.clone(), session }
    }

    /// It is to give way.
    pub fn tell(self) {
        self.worker.sessions.lock().expect("no thread panics while it holds the list").push(self.session);
    }
}

impl GivingWay {
    /// Those that were told so since it was asked last.
    pub fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.sessions.lock().expect("no thread panics while it holds the list"))
    }
}
