//! What happens to the queues of a shard: the records of its log.

use super::settings::Settings;
use super::via::Via;
use crate::{RecordPosition, TimeMs};

/// Which queue of its shard; a number that is used again when the queue is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueIndex(pub u32);

/// A message that something happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Which message.
    pub number: u64,
    /// The newest record about it before this one: a trail is read backwards.
    pub before: RecordPosition,
}

/// What becomes of a message that was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is handed out again, from this time on.
    Again(TimeMs),
    /// It goes to the dead letter queue.
    Dead,
}

/// A message as a record has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<'a> {
    /// The sender's id.
    pub id: Option<&'a str>,
    /// Its ordering key.
    pub ordering_key: Option<&'a str>,
    /// Its level.
    pub priority: u8,
    /// Not handed out before; `None` for at once.
    pub visible_at: Option<TimeMs>,
    /// When it is dropped.
    pub expires_at: Option<TimeMs>,
    /// Through which queues links have brought it, this one with them.
    pub via: Option<Via<'a>>,
    /// What its first sender called it, where a walk has brought it.
    pub origin_id: Option<&'a str>,
    /// What the doors know of it.
    pub attributes: &'a [u8],
    /// Its body.
    pub body: &'a [u8],
}

impl<'a> Sent<'a> {
    /// The ids under which it is taken once.
    pub fn ids(&self) -> impl Iterator<Item = &'a str> {
        [self.id, self.origin_id].into_iter().flatten()
    }
}

/// A message that is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved<'a> {
    /// Which message, and its newest record.
    pub touched: Touched,
    /// What the first record about it said.
    pub message: Sent<'a>,
}

/// What happened. Each has the time at which it was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the commands")]
pub enum Event<'a> {
    /// The node was started.
    Started { at: TimeMs, node: u16 },
    /// A queue was made, or has other settings.
    QueueSet { at: TimeMs, name: &'a str, settings: Settings },
    /// A queue was deleted.
    QueueDeleted { at: TimeMs, queue: QueueIndex },
    /// Messages were taken; `first` is the number of the first one.
    Sent { at: TimeMs, queue: QueueIndex, first: u64, messages: Vec<Sent<'a>> },
    /// Messages were handed out.
    Leased { at: TimeMs, queue: QueueIndex, until: TimeMs, consumer: &'a str, messages: Vec<Touched> },
    /// Messages are done with.
    Acknowledged { at: TimeMs, queue: QueueIndex, messages: Vec<Touched> },
    /// Leases last longer, or shorter.
    Extended { at: TimeMs, queue: QueueIndex, until: TimeMs, messages: Vec<Touched> },
    /// Messages were given back.
    Rejected { at: TimeMs, queue: QueueIndex, reason: &'a str, messages: Vec<(Touched, Verdict)> },
    /// Up to [`super::limits::TIMERS_PER_RECORD`] things ended by the clock.
    TimePassed { at: TimeMs },
    /// Messages were removed, whatever they waited for.
    Purged { at: TimeMs, queue: QueueIndex, numbers: Vec<u64> },
    /// A message was cancelled.
    Cancelled { at: TimeMs, message: Touched, id: Option<&'a str> },
    /// A message is delivered at another time.
    Rescheduled { at: TimeMs, visible_at: TimeMs, message: Touched, id: Option<&'a str> },
    /// Messages were put into another queue, of this name; records of before names were written have none.
    Redriven { at: TimeMs, from: QueueIndex, to: QueueIndex, name: Option<&'a str>, messages: Vec<Touched> },
    /// Messages were given back by somebody who could do nothing with them: that delivery does not count.
    Returned { at: TimeMs, queue: QueueIndex, visible_at: TimeMs, reason: &'a str, messages: Vec<Touched> },
    /// Messages are done with: they were handed to another system, each under a reference, which may be empty.
    Handed { at: TimeMs, queue: QueueIndex, to: &'a str, messages: Vec<(Touched, &'a str)> },
    /// Something was learned about a message.
    Noted { at: TimeMs, message: Touched, text: &'a str },
    /// A schedule was made, or another one is in its place.
    StandingSet {
        at: TimeMs,
        queue: QueueIndex,
        name: &'a str,
        cron: &'a str,
        zone: &'a str,
        expiry_ms: Option<u64>,
        next: TimeMs,
        message: Sent<'a>,
        owner: Option<&'a str>,
    },
    /// A schedule was removed.
    StandingRemoved { at: TimeMs, queue: QueueIndex, name: &'a str },
    /// The time of a schedule had come, at `due`: message number `first` was taken.
    Fired {
        at: TimeMs,
        queue: QueueIndex,
        name: &'a str,
        due: TimeMs,
        next: Option<TimeMs>,
        first: u64,
        message: Sent<'a>,
    },
    /// Messages were put into another queue by whoever had them, under their ordering keys.
    Routed { at: TimeMs, from: QueueIndex, to: &'a str, by: &'a str, messages: Vec<Touched> },
    /// Messages were written again.
    Moved { at: TimeMs, messages: Vec<Moved<'a>> },
}

impl Event<'_> {
    /// When it was decided.
    pub const fn at(&self) -> TimeMs {
        match self {
            Event::Started { at, .. }
            | Event::QueueSet { at, .. }
            | Event::QueueDeleted { at, .. }
            | Event::Sent { at, .. }
            | Event::Leased { at, .. }
            | Event::Acknowledged { at, .. }
            | Event::Extended { at, .. }
            | Event::Rejected { at, .. }
            | Event::TimePassed { at }
            | Event::Purged { at, .. }
            | Event::Cancelled { at, .. }
            | Event::Rescheduled { at, .. }
            | Event::Redriven { at, .. }
            | Event::Returned { at, .. }
            | Event::Handed { at, .. }
            | Event::Noted { at, .. }
            | Event::StandingSet { at, .. }
            | Event::StandingRemoved { at, .. }
            | Event::Fired { at, .. }
            | Event::Routed { at, .. }
            | Event::Moved { at, .. } => *at,
        }
    }
}
