//! What is asked of a shard of queues, and what it answers.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use tidegate_machines::queue::limits::{BATCH_MESSAGES_MAX, PURGED_PER_RECORD};
use tidegate_machines::queue::{
    Command, Delivery, Lease, Message, MessageKey, MessageView, Outcome, QueueView, Readiness, Refusal, Rejection,
    Settings, Standing, StandingSettings, When,
};

use crate::limits::{PAGE_ROWS_MAX, PAGE_TRAILS_MAX};
use crate::rates::Rates;
use crate::trail::Trail;

/// What is asked. Fields as in [`Command`].
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of the commands")]
pub enum Call {
    SetQueue {
        name: Box<str>,
        settings: Box<Settings>,
    },
    DeleteQueue {
        name: Box<str>,
    },
    Send {
        queue: Box<str>,
        messages: Vec<Arc<Message>>,
    },
    Acknowledge {
        queue: Box<str>,
        leases: Vec<Lease>,
    },
    Hand {
        queue: Box<str>,
        to: Box<str>,
        messages: Vec<(Lease, Box<str>)>,
    },
    Route {
        from: Box<str>,
        to: Box<str>,
        by: Box<str>,
        messages: Vec<(Lease, Arc<Message>)>,
    },
    Note {
        queue: Box<str>,
        reference: Box<str>,
        text: Box<str>,
    },
    Extend {
        queue: Box<str>,
        leases: Vec<Lease>,
        lease_ms: u64,
    },
    Reject {
        queue: Box<str>,
        leases: Vec<Lease>,
        then: Rejection,
        reason: Box<str>,
    },
    /// Removes all that the queue has when this is decided.
    Purge {
        queue: Box<str>,
    },
    Cancel {
        key: MessageKey,
        /// By one of which it was found.
        ids: Vec<Box<str>>,
    },
    Reschedule {
        key: MessageKey,
        visible_at: When,
        /// As above.
        ids: Vec<Box<str>>,
    },
    /// All of `from` if `max` is absent.
    Redrive {
        from: Box<str>,
        to: Box<str>,
        max: Option<u64>,
    },
    SetStanding {
        queue: Box<str>,
        name: Box<str>,
        settings: Box<StandingSettings>,
    },
    RemoveStanding {
        queue: Box<str>,
        name: Box<str>,
    },
    Read(Read),
}

/// What is only looked at.
#[derive(Clone, Debug)]
pub enum Read {
    /// A queue.
    Queue(Box<str>),
    /// The queues whose names come after one, so many.
    Queues {
        /// The name.
        after: Box<str>,
        /// How many at most.
        limit: usize,
    },
    /// Whether a queue takes messages of others, and whether somebody receives from it.
    Readiness(Box<str>),
    /// A schedule of a queue.
    Standing {
        /// The queue.
        queue: Box<str>,
        /// Its name.
        name: Box<str>,
    },
    /// The schedules of a queue whose names come after one, so many.
    Standings {
        /// The queue.
        queue: Box<str>,
        /// The name.
        after: Box<str>,
        /// How many at most.
        limit: usize,
    },
    /// A message, with its body and its trail.
    Message(MessageKey),
    /// The same, by its id.
    ById {
        /// Its queue.
        queue: Box<str>,
        /// The id, as records have it; of several, the first one that is remembered.
        ids: Vec<Box<str>>,
    },
    /// Messages in the order of their keys, with their bodies.
    Browse(Browse),
}

/// Which messages are looked through.
#[derive(Clone, Debug)]
pub struct Browse {
    /// Of this queue; `None` for all.
    pub queue: Option<Box<str>>,
    /// Of which queues whoever asks may see messages: of others, nothing is read.
    pub may_see: QueueFilter,
    /// Which keys.
    pub keys: RangeInclusive<MessageKey>,
    /// How many at most.
    pub limit: usize,
    /// Also those that are gone, while their trails are kept.
    pub with_gone: bool,
    /// What happened to each, too.
    pub with_trails: bool,
}

impl Browse {
    /// Messages of a page of it at most.
    pub(crate) fn rows_max(&self) -> usize {
        self.limit.min(if self.with_trails { PAGE_TRAILS_MAX } else { PAGE_ROWS_MAX })
    }
}

/// Some queues, by their names.
#[derive(Clone)]
pub struct QueueFilter(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl QueueFilter {
    /// Those whose names `matches` says yes to.
    pub fn new(matches: impl Fn(&str) -> bool + Send + Sync + 'static) -> QueueFilter {
        QueueFilter(Arc::new(matches))
    }

    /// All queues.
    pub fn all() -> QueueFilter {
        QueueFilter::new(|_| true)
    }

    /// Whether the queue of this name is one of them.
    pub fn matches(&self, queue: &str) -> bool {
        (self.0)(queue)
    }
}

impl fmt::Debug for QueueFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueueFilter(..)")
    }
}

/// A request for messages, which may wait.
#[derive(Clone, Debug)]
pub struct Receive {
    /// From which queue.
    pub queue: Box<str>,
    /// How many at most.
    pub max: usize,
    /// How long the lease lasts; `None` for as long as the queue says.
    pub lease_ms: Option<u64>,
    /// Who receives, for the trail.
    pub consumer: Box<str>,
    /// How long to wait if there is nothing.
    pub wait_ms: u64,
}

/// A message that was handed out.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its lease.
    pub delivery: Delivery,
    /// Deliveries so far, this one among them.
    pub attempts: u32,
    /// In how many milliseconds its lease ends.
    pub lease_left_ms: u64,
    /// In how many milliseconds it is dropped, if at all.
    pub expires_in_ms: Option<u64>,
    /// What was sent.
    pub message: Arc<Message>,
}

/// A message that was asked for.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where it is.
    pub view: MessageView,
    /// What was sent; `None` if it is gone, or cannot be read.
    pub message: Option<Arc<Message>>,
    /// What happened to it; empty if nobody asked.
    pub trail: Trail,
}

/// Messages of a range.
#[derive(Clone, Debug, Default)]
pub struct MessagePage {
    /// Messages, in the order of their keys.
    pub rows: Vec<Found>,
    /// If not all were looked at that were asked for, the key from which on to ask for the others.
    pub next: Option<MessageKey>,
    /// How many were looked at, also of those that were not asked for.
    pub looked_at: usize,
}

/// What is answered.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The answer to a command.
    Outcome(Outcome),
    /// What was handed out.
    Received(Vec<Received>),
    /// A queue.
    Queue(Box<QueueView>, Rates),
    /// Whether a queue takes messages of others, and whether somebody receives from it.
    Readiness(Readiness, bool),
    /// Queues, in the order of their names.
    Queues(Vec<(QueueView, Rates)>),
    /// Schedules in the order of their names, and whether there are more behind them.
    Standings(Vec<(Box<str>, Arc<Standing>)>, bool),
    /// The message that was asked for.
    Message(Box<Found>),
    /// Those of a range.
    Page(MessagePage),
}

impl Answer {
    /// A refusal.
    pub const fn refused(refusal: Refusal) -> Answer {
        Answer::Outcome(Outcome::Refused(refusal))
    }
}

impl Call {
    /// The command that does it; of a purge or a redrive, its next part. `None` for reads and schedules.
    pub(crate) fn command(&self, up_to: u64, left: u64) -> Option<Command<'_>> {
        Some(match self {
            Call::SetQueue { name, settings } => Command::SetQueue { name, settings },
            Call::DeleteQueue { name } => Command::DeleteQueue { name },
            Call::Send { queue, messages } => Command::Send { queue, messages },
            Call::Acknowledge { queue, leases } => Command::Acknowledge { queue, leases },
            Call::Hand { queue, to, messages } => Command::Hand { queue, to, messages },
            Call::Route { from, to, by, messages } => Command::Route { messages, from, to, by },
            Call::Note { queue, reference, text } => Command::Note { queue, reference, text },
            Call::Extend { queue, leases, lease_ms } => Command::Extend { queue, leases, lease_ms: *lease_ms },
            Call::Reject { queue, leases, then, reason } => Command::Reject { queue, leases, then: *then, reason },
            Call::Purge { queue } => Command::Purge { queue, up_to },
            Call::Cancel { key, ids } => Command::Cancel { key: *key, ids },
            Call::Reschedule { key, visible_at, ids } => {
                Command::Reschedule { key: *key, visible_at: *visible_at, ids }
            }
            Call::Redrive { from, to, .. } => Command::Redrive { from, to, max: left.min(1 << 20) as usize },
            Call::RemoveStanding { queue, name } => Command::RemoveStanding { queue, name },
            // When it fires first is not known here.
            Call::SetStanding { .. } | Call::Read(_) => return None,
        })
    }

    /// The queue that it is about; `None` if it names a message, or asks about all queues.
    pub(crate) fn queue(&self) -> Option<&str> {
        match self {
            Call::SetQueue { name: queue, .. } | Call::DeleteQueue { name: queue } => Some(queue),
            Call::Send { queue, .. }
            | Call::Acknowledge { queue, .. }
            | Call::Hand { queue, .. }
            | Call::Note { queue, .. }
            | Call::Extend { queue, .. }
            | Call::Reject { queue, .. }
            | Call::Purge { queue }
            | Call::Redrive { from: queue, .. }
            | Call::Route { from: queue, .. }
            | Call::SetStanding { queue, .. }
            | Call::RemoveStanding { queue, .. }
            | Call::Read(Read::Standing { queue, .. } | Read::Standings { queue, .. })
            | Call::Read(Read::Readiness(queue))
            | Call::Read(Read::Queue(queue) | Read::ById { queue, .. }) => Some(queue),
            Call::Read(Read::Browse(browse)) => browse.queue.as_deref(),
            Call::Cancel { .. } | Call::Reschedule { .. } => None,
            Call::Read(Read::Message(_) | Read::Queues { .. }) => None,
        }
    }

    /// Messages or leases that it names.
    pub fn items(&self) -> usize {
        match self {
            Call::Send { messages, .. } => messages.len(),
            Call::Acknowledge { leases, .. } | Call::Extend { leases, .. } | Call::Reject { leases, .. } => {
                leases.len()
            }
            Call::Hand { messages, .. } => messages.len(),
            Call::Route { messages, .. } => messages.len(),
            _ => 0,
        }
    }

    /// What is done of it before others have their turn, in messages.
    pub fn work(&self) -> usize {
        match self {
            Call::Purge { .. } => PURGED_PER_RECORD,
            Call::Redrive { max, .. } => {
                max.map_or(BATCH_MESSAGES_MAX, |max| BATCH_MESSAGES_MAX.min(max as usize)).max(1)
            }
            _ => self.items().max(1),
        }
    }

    /// Memory that it takes while it waits, about, in bytes.
    pub fn weight(&self) -> usize {
        let beside = match self {
            Call::Send { messages, .. } => messages.iter().map(|message| size_of::<Message>() + message.bytes()).sum(),
            Call::Acknowledge { leases, .. } | Call::Extend { leases, .. } | Call::Reject { leases, .. } => {
                size_of_val(&**leases)
            }
            Call::Hand { messages, .. } => {
                size_of_val(&**messages) + messages.iter().map(|(_, reference)| reference.len()).sum::<usize>()
            }
            Call::Route { messages, .. } => {
                let bodies = messages.iter().map(|(_, message)| size_of::<Message>() + message.bytes());
                size_of_val(&**messages) + bodies.sum::<usize>()
            }
            Call::Cancel { ids, .. } | Call::Reschedule { ids, .. } | Call::Read(Read::ById { ids, .. }) => {
                size_of_val(&**ids) + ids.iter().map(|id| id.len()).sum::<usize>()
            }
            Call::SetStanding { settings, .. } => size_of::<StandingSettings>() + settings.message.bytes(),
            _ => 0,
        };
        size_of::<Call>() + beside
    }
}
