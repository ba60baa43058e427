//! What is in flight between one session and its client: an idle session has none of it.

mod answers;
mod backlog;
mod incoming;
mod window;

pub(crate) use answers::{Answer, Answers, OUTCOME_UNKNOWN, worse};
pub(crate) use backlog::{Backlog, GroupMessage, QueuedMessage};
pub(crate) use incoming::{AllIncoming, Incoming, IncomingStage};
pub(crate) use window::{Flight, Window};

/// All of it.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Publications of QoS 1 and 2 on their way to the client.
    pub window: Window,
    /// Messages that wait in memory for the window or the outbox to open, and those of share groups until they are
    /// acknowledged.
    pub backlog: Backlog,
    /// Answers that the client's publications wait for.
    pub answers: Answers,
    /// QoS 2 publications of the client whose PUBREL has not come.
    pub incoming: AllIncoming,
}

impl Flow {
    /// Nothing in flight; the next publication to the client has this number.
    pub fn new(next_number: u64) -> Flow {
        Flow {
            window: Window::new(next_number),
            backlog: Backlog::default(),
            answers: Answers::default(),
            incoming: AllIncoming::default(),
        }
    }

    /// QoS 1 and 2 publications that the client has sent over the connection there is and that are not over.
    pub fn unanswered(&self) -> usize {
        self.answers.counted() + self.incoming.counted()
    }

    /// The connection is gone: its client is not answered, and what it has sent does not count for the next one.
    pub fn disconnected(&mut self) {
        self.answers.mute();
        self.incoming.count_none();
    }

    /// Whether it can be forgotten.
    pub fn is_idle(&self) -> bool {
        self.window.is_empty() && self.backlog.is_empty() && self.answers.is_empty() && self.incoming.is_empty()
    }

    /// Panics if something disagrees. Visits everything: for tests and simulation.
    pub fn assert_sound(&self) {
        self.window.assert_sound();
        self.backlog.assert_sound();
        self.answers.assert_sound();
        self.incoming.assert_sound();
    }
}
