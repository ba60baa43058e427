//! What a link needs of the other side.
//!
//! ```text
//!   Target ── open ──▶ Session ── give(messages) ──▶ a Fate for each
//!     ▲                   └─ over ─┐
//!     └──── a pause that grows ────┘
//! ```

use std::rc::Rc;

use tidegate_queue::Received;

use crate::queue::Queue;

/// What all links are told.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// `link`, `smpp` …
    pub kind: &'static str,
    /// Its name; unique among those of its kind.
    pub name: Box<str>,
    /// The queue whose messages are given.
    pub from: Box<str>,
    /// For how long they are leased meanwhile, in milliseconds; leases last as long as it takes.
    pub lease_ms: u64,
    /// The longest pause after a failure, in milliseconds.
    pub pause_max_ms: u64,
}

/// Bytes of a link's name: a consumer's, with its kind before it, fits its own bound.
pub const NAME_BYTES_MAX: usize = 55;

impl LinkSettings {
    /// Who receives, in trails.
    pub fn consumer(&self) -> Box<str> {
        format!("{}:{}", self.kind, self.name).into()
    }

    /// The value of the label `link`.
    pub fn label(&self) -> Box<str> {
        match self.kind {
            "link" => self.name.clone(),
            _ => self.consumer(),
        }
    }
}

/// What became of a message that was given.
pub enum Fate {
    /// It is in another queue of this server already, by the same record that took it out of this one.
    Routed,
    /// The other side has it.
    Taken {
        /// What it calls the message; empty if it has no word for it.
        reference: Box<str>,
    },
    /// The other side is away, or wants it slower: back to its place, uncounted.
    Back {
        /// Why, for the trail.
        why: String,
        /// Not handed out again before, in milliseconds.
        after_ms: u64,
        /// The other side is away: nothing more is given to it before a pause.
        is_away: bool,
    },
    /// Nothing takes it now: back to its place, uncounted; others pass meanwhile.
    Later {
        /// Why.
        why: String,
        /// Not handed out again before, in milliseconds.
        after_ms: u64,
    },
    /// This attempt has failed.
    Again {
        /// Why.
        why: String,
        /// When the next one may be, in milliseconds; `None` for when the queue says.
        after_ms: Option<u64>,
    },
    /// It will never be taken.
    Dead {
        /// Why.
        why: String,
    },
}

/// The other side.
pub trait Target: 'static {
    /// A connection to it.
    type Session: Session;

    /// What all links are told.
    fn settings(&self) -> &LinkSettings;

    /// Connects. An error says why it is not there.
    fn open(&mut self, queue: &Queue) -> impl Future<Output = Result<Self::Session, String>>;
}

/// A connection to the other side, or what stands for it.
pub trait Session: 'static {
    /// How many times at once messages may be given.
    fn gifts_max(&self) -> usize;

    /// How many messages at once.
    fn messages_max(&self) -> usize {
        1
    }

    /// Gives messages; a fate for each, in their order. Of a session that is over, they come back.
    fn give(self: Rc<Self>, messages: Vec<Received>) -> impl Future<Output = Vec<Fate>> + 'static;

    /// The queue knows this reference now, or could not be told.
    fn noted(&self, _reference: &str) {}

    /// Whether the session is over because the other side has closed it or did not answer, and would take a message
    /// once more that it had been given: one at which it does so is put aside, so that it is not given again and again,
    /// and others pass.
    fn gave_up(&self) -> bool {
        false
    }

    /// Why it is over, as soon as it is.
    fn over(&self) -> impl Future<Output = String>;

    /// Ends it in good order. Nothing is under way.
    fn close(&self) -> impl Future<Output = ()>;
}
