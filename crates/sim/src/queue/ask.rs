//! What a client asks, as it remembers it until it is answered.

use std::ops::RangeInclusive;

use tidegate_queue::machine::{Lease, MessageKey};

/// A lease that somebody has.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Of a message of which queue.
    pub queue: usize,
    /// The lease.
    pub lease: Lease,
    /// Nobody else gets the message before, in simulated milliseconds.
    pub promised: u64,
}

/// A request.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Makes a queue, or lets it rest, or go on.
    Make { queue: usize, paused: bool },
    /// Deletes a queue, if it is empty.
    Delete { queue: usize },
    /// Sends messages, by their numbers.
    Send { queue: usize, contents: Vec<usize> },
    /// Asks for messages.
    Receive { queue: usize, max: usize, lease_ms: u64 },
    /// Says that these are done with.
    Acknowledge { queue: usize, held: Vec<Held> },
    /// Wants these longer.
    Extend { queue: usize, held: Vec<Held>, lease_ms: u64 },
    /// Gives these back; `retry_ms` is `None` for the dead letter queue. With the versions of what is known of them.
    Reject { queue: usize, held: Vec<(Held, u64)>, retry_ms: Option<u64>, counts: bool },
    /// Removes all messages.
    Purge { queue: usize },
    /// Takes a message back.
    Cancel { key: MessageKey },
    /// Delivers a message at another time. With the version of what is known of it.
    Reschedule { key: MessageKey, visible_at: u64, version: u64 },
    /// Gives dead letters another chance.
    Redrive { from: usize, to: usize },
    /// Makes the schedule of a queue.
    Schedule { queue: usize },
    /// Looks at a message.
    Look { key: MessageKey },
    /// Looks at a message by its id.
    LookById { content: usize },
    /// Looks at the messages of a queue.
    Browse { queue: usize, keys: RangeInclusive<MessageKey> },
}

/// A request under way.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What.
    pub ask: Ask,
    /// When, in simulated milliseconds.
    pub at: u64,
    /// Its receiver has gone away.
    pub is_forgotten: bool,
}
