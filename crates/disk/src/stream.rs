//! A replicated stream of numbered messages, as a log store uses it: the few calls of JetStream that are needed, each
//! with a stated promise, so that a fake can break whatever is not promised.
//!
//! ```text
//!   publish(expected last, message) ──▶ stream ──▶ 1 │ 2 │ 3 │ …            numbers have no gap; no truncation
//!   look_up(number)                 ──▶   │
//!   poll ◀── Stored, Refused, Found, or Unknown ◀──┘
//! ```
//!
//! Promise of every implementation: a message is stored as `expected last + 1` or not at all, and what was once stored
//! is never lost or changed. What it does not promise: that an answer comes soon, in order, or at all.

mod fake;

use std::sync::Arc;

pub use fake::{FakeStream, FakeStreams, StreamWeather};

/// Called from another thread whenever there is something new to poll. Must be quick and must not block.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// A message. Shared, because it is kept until its outcome is known.
pub type Message = Arc<[u8]>;

/// The world failing: the stream cannot be reached, or says something that it should not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError(pub String);

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StreamError {}

/// What came of a [`Stream::publish`] or [`Stream::look_up`]. Each has exactly one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The message was stored under this number, durably.
    Stored {
        /// Its number.
        number: u64,
    },
    /// The message was not stored: when it arrived, the last number was not the expected one. This is the fence.
    Refused {
        /// The number that it would have got.
        number: u64,
    },
    /// Time is up. The message was stored, or was not, or will be.
    Unknown {
        /// The number that it would have got.
        number: u64,
    },
    /// What is stored under a number.
    Found {
        /// The number.
        number: u64,
        /// Its message; `None` if there is none now.
        message: Option<Message>,
    },
    /// Time is up, and nobody has said what is stored under the number.
    NotFound {
        /// The number.
        number: u64,
    },
}

/// What a stream holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Number of the first message that was not purged. One more than `last` if there is none.
    pub first: u64,
    /// Number of the last message ever stored; 0 for none.
    pub last: u64,
    /// Bytes of all that are there.
    pub bytes: u64,
}

/// A handle to one stream, for one thread.
///
/// The calls with `&mut self` never wait, but for [`Stream::wait`]; those with `&self` may, and try again for a while
/// on their own before they give up.
pub trait Stream: Send + Sized + 'static {
    /// Another handle to the same stream, for another thread.
    fn another(&self) -> Self;

    /// Sends `message`, to be stored as number `expected_last + 1` if `expected_last` is the last number when it
    /// arrives.
    fn publish(&mut self, expected_last: u64, message: Message);

    /// Asks what is stored under `number`, of those who have seen everything that was ever acknowledged.
    fn look_up(&mut self, number: u64);

    /// The next outcome, in no particular order.
    fn poll(&mut self) -> Option<Outcome>;

    /// Whether [`Stream::poll`] would return one.
    fn has_outcome(&self) -> bool;

    /// Whom to wake from now on when an outcome comes.
    fn set_wake(&mut self, wake: Wake);

    /// Waits until there is an outcome. `Err`: nothing is under way that could have one.
    fn wait(&mut self) -> Result<(), StreamError>;

    /// The message under `number`; `None` if there is none now.
    fn get(&self, number: u64) -> Result<Option<Message>, StreamError>;

    /// What the stream holds.
    fn extent(&self) -> Result<Extent, StreamError>;

    /// Removes all messages below `number`, for good. The last one ever stored keeps its number.
    fn purge_below(&self, number: u64) -> Result<(), StreamError>;
}

/// Where streams are: opens them by name.
pub trait Streams: Clone + Send + 'static {
    /// What it opens.
    type Stream: Stream;

    /// A handle to the stream of this name, which is created if it is not there.
    fn open(&self, name: &str) -> Result<Self::Stream, StreamError>;
}
