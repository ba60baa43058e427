//! What can be asked of the queues of a shard, and what is answered.

use std::sync::Arc;

use super::key::MessageKey;
use super::limits::{
    QUEUES_MAX, QUEUES_OF_OWNER_MAX, QUEUES_OF_OWNERS_MAX, STANDING_MAX, STANDING_OF_OWNER_MAX, STANDING_OF_OWNERS_MAX,
};
use super::settings::{BadSetting, Settings};
use super::standing::{DueStanding, StandingSettings};
use super::state::later;
use crate::TimeMs;

/// A time as somebody outside names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// This time, by the clock of the host: see [`Bounds::ahead_ms`].
    At(TimeMs),
    /// So many milliseconds after it is decided, whatever clocks say.
    After(u64),
}

/// A message as its sender gives it. Shared: it may wait to be sent, and be handed out from memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The sender's id: within the queue's window, a second message of one id is not taken.
    pub id: Option<Box<str>>,
    /// Messages of one key are handed out one after the other, in the order in which they were taken.
    pub ordering_key: Option<Box<str>>,
    /// 0 to 9; the highest goes first.
    pub priority: u8,
    /// Not handed out before; `None` for the queue's own delay.
    pub visible_at: Option<When>,
    /// Dropped if nobody acknowledged it by then; `None` for the queue's own expiry.
    pub expires_at: Option<When>,
    /// Through which queues links have brought it: see [`super::Via`].
    pub via: Option<Box<str>>,
    /// What its first sender called it, with the id space, where a walk has brought it: its own id is the key that it
    /// got there. Within the queue's window, what has either as its id is not taken.
    pub origin_id: Option<Box<str>>,
    /// What the doors know of it beside its body: bytes whose form is theirs.
    pub attributes: Box<[u8]>,
    /// Its body.
    pub body: Box<[u8]>,
}

impl Message {
    /// Bytes that it takes in a record, without [`super::limits::MESSAGE_OVERHEAD_BYTES`].
    pub fn bytes(&self) -> usize {
        let texts = [&self.id, &self.ordering_key, &self.via, &self.origin_id];
        let texts: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
        texts + self.attributes.len() + self.body.len()
    }
}

/// Names one delivery of a message: only its receiver knows it, until the lease ends and another one gets the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    /// Which message.
    pub key: MessageKey,
    /// The how-manieth delivery.
    pub attempt: u32,
}

/// What a rejection wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Another delivery: so many milliseconds from now, or when the queue's settings say.
    Retry(Option<u64>),
    /// Another delivery, so many milliseconds from now, and this one does not count: nothing is known against the
    /// message.
    Back(u64),
    /// No further delivery: it goes to the dead letter queue.
    Dead,
}

/// What can be asked. Borrowed from whoever waits for the answer.
#[derive(Clone, Debug)]
pub enum Command<'a> {
    /// Notes that this node was started, as node number `node`.
    Start {
        /// Its number among the nodes.
        node: u16,
    },
    /// Makes a queue, or gives it other settings.
    SetQueue {
        /// Its name.
        name: &'a str,
        /// All of its settings.
        settings: &'a Settings,
    },
    /// Deletes a queue that is empty.
    DeleteQueue {
        /// Its name.
        name: &'a str,
    },
    /// Takes messages: all of them, or those of an id that is known are told apart in the answer.
    Send {
        /// To which queue.
        queue: &'a str,
        /// The messages.
        messages: &'a [Arc<Message>],
    },
    /// Hands out up to `max` messages for `lease_ms`, or as long as the settings say.
    Receive {
        /// From which queue.
        queue: &'a str,
        /// At most so many.
        max: usize,
        /// At most so many bytes of messages, but at least one message.
        bytes_max: u64,
        /// How long the receiver has.
        lease_ms: Option<u64>,
        /// Who receives, for the trail.
        consumer: &'a str,
    },
    /// Says that these are done with.
    Acknowledge {
        /// Which deliveries.
        leases: &'a [Lease],
        /// Of which queue.
        queue: &'a str,
    },
    /// Says that these are done with, because another system has them.
    Hand {
        /// Which deliveries, and what that system calls each: [`Command::Note`] finds it by that. May be empty.
        messages: &'a [(Lease, Box<str>)],
        /// Of which queue.
        queue: &'a str,
        /// Which system, for the trail.
        to: &'a str,
    },
    /// Writes into the trail of a message that was handed to another system.
    Note {
        /// Of which queue it was.
        queue: &'a str,
        /// What that system calls it.
        reference: &'a str,
        /// What is written.
        text: &'a str,
    },
    /// Lets leases last so long from now.
    Extend {
        /// Which.
        leases: &'a [Lease],
        /// Of which queue.
        queue: &'a str,
        /// How long.
        lease_ms: u64,
    },
    /// Gives messages back.
    Reject {
        /// Which deliveries.
        leases: &'a [Lease],
        /// Of which queue.
        queue: &'a str,
        /// And then?
        then: Rejection,
        /// Why, for the trail.
        reason: &'a str,
    },
    /// Puts messages into another queue, as if they had been sent there: under their ordering keys, with their expiry,
    /// behind that queue's delay. They keep their keys.
    Route {
        /// Which deliveries, and what was sent of each: it is kept in memory for who receives it next.
        messages: &'a [(Lease, Arc<Message>)],
        /// From here.
        from: &'a str,
        /// To there.
        to: &'a str,
        /// Who does it, for the trail.
        by: &'a str,
    },
    /// Removes messages whose numbers are not above `up_to`, some thousand at a time.
    Purge {
        /// Of which queue.
        queue: &'a str,
        /// The newest to remove.
        up_to: u64,
    },
    /// Removes a message that nobody has.
    Cancel {
        /// Which.
        key: MessageKey,
        /// By which of its ids it was found, if it was: where ids are remembered until their messages are due, its time
        /// begins now.
        ids: &'a [Box<str>],
    },
    /// Delivers a message at another time; one that nobody has.
    Reschedule {
        /// Which.
        key: MessageKey,
        /// When.
        visible_at: When,
        /// As above; its time begins when the message is due.
        ids: &'a [Box<str>],
    },
    /// Puts waiting messages into another queue, some thousand at a time: what was a dead letter gets another chance.
    Redrive {
        /// From here.
        from: &'a str,
        /// To there.
        to: &'a str,
        /// At most so many.
        max: usize,
    },
    /// Makes a schedule, or puts another one in its place.
    SetStanding {
        /// Of which queue.
        queue: &'a str,
        /// Its name.
        name: &'a str,
        /// What is said of it.
        settings: &'a StandingSettings,
        /// When it fires first.
        next: TimeMs,
    },
    /// Removes a schedule.
    RemoveStanding {
        /// Of which queue.
        queue: &'a str,
        /// Its name.
        name: &'a str,
    },
    /// Sends the message of a schedule whose time has come, if it is still that.
    Fire {
        /// The schedule as it was seen.
        due: &'a DueStanding,
        /// When it fires next; `None` if its text says nothing any more.
        next: Option<TimeMs>,
    },
    /// Ends what has ended by the clock: delays, leases, messages.
    PassTime,
    /// Writes messages again whose bodies stand in old parts of the log, so that these can be forgotten.
    Move {
        /// Their numbers, and what stands in the log of each.
        messages: &'a [(u64, Arc<Message>)],
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, or was already.
    Done,
    /// What became of each message that was sent, in their order.
    Sent(Vec<Receipt>),
    /// What was handed out.
    Leased(Vec<Delivery>),
    /// What became of each lease, in their order.
    Leases(Vec<Result<(), LeaseRefusal>>),
    /// So many messages were concerned; `more` says whether there are more.
    Some {
        /// How many.
        count: u64,
        /// More are left.
        more: bool,
    },
    /// It is not done.
    Refused(Refusal),
}

/// What became of a message that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its key, or that of the earlier one with its id.
    pub key: MessageKey,
    /// One with its id was taken before; this one was not.
    pub is_duplicate: bool,
}

/// A message that was handed out; its body is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The lease.
    pub lease: Lease,
    /// Until when.
    pub until: TimeMs,
}

/// Why nothing is done to a message that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseRefusal {
    /// It was handed out again, or given back, or is gone.
    #[error("the lease has ended, and the message was handed out again, given back, or is gone")]
    Lost,
    /// Nothing was done: the queue that it is to go to has no room for it, or has handed out a later message of its
    /// ordering key.
    #[error("the queue that the message is to go to cannot take it now")]
    NotNow,
    /// The queue has no such message.
    #[error("the queue does not have this message, or not any more")]
    Unknown,
}

/// Why a command is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such queue.
    #[error("there is no queue \"{0}\"")]
    QueueNotFound(Box<str>),
    /// A name that is none.
    #[error("a queue's name has 1 to 80 letters, digits, and characters of \"-_.:{{}}\", not all of them \".\"")]
    QueueNameInvalid,
    /// A setting that cannot be.
    #[error(transparent)]
    SettingInvalid(#[from] BadSetting),
    /// A delivery window that says nothing.
    #[error("delivery_window: {0}")]
    WindowInvalid(Box<str>),
    /// The queue has messages.
    #[error("the queue has messages; purge it first")]
    QueueNotEmpty,
    /// Others send their dead letters there.
    #[error("it is the dead letter queue of \"{0}\"")]
    QueueInUse(Box<str>),
    /// A route of the configuration needs it.
    #[error("the route \"{0}\" of the configuration needs it; take it out of its [[route_rule]]s first, and restart")]
    QueueOfRoute(Box<str>),
    /// Messages would never come to an end.
    #[error(
        "messages of \"{0}\" might come back to it by routes of the configuration, or as dead letters that no rule \
         fits: they would go round for ever. Choose another dead letter queue"
    )]
    GoesRound(Box<str>),
    /// Messages go from one queue to another within a shard only.
    #[error("the two queues are on different shards; write the same {{tag}} into both names")]
    OnTwoShards,
    /// There are too many queues.
    #[error(
        "the shard has as many queues as may be made there, {QUEUES_OF_OWNERS_MAX} of {QUEUES_MAX}, which leaves room \
         for those of the configuration; delete queues that nobody uses, or ask the operator"
    )]
    TooManyQueues,
    /// The same, of whoever wants to make it.
    #[error(
        "you have made as many queues of the shard as one user or service may, {QUEUES_OF_OWNER_MAX} of {QUEUES_MAX}; \
         delete some, or ask the operator"
    )]
    TooManyQueuesOfOwner,
    /// A message that cannot be.
    #[error("message {index}: {what}")]
    MessageInvalid {
        /// Which of those that were sent.
        index: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// More messages, or more bytes, than one request may have.
    #[error("a request has at most 1000 messages, and 1000000 bytes of them")]
    BatchTooLarge,
    /// A number that a request must not have.
    #[error("{0}")]
    ArgumentInvalid(&'static str),
    /// There would be more messages, or ids of them, than this bound allows.
    #[error("{}", .0.text(*.1))]
    Full(Limit, u64),
    /// As many requests wait for messages as may. Said by whoever keeps them, and by no decision.
    #[error("as many requests wait for messages as may (queues.receivers_max); ask again later")]
    TooManyReceivers,
    /// The same, of one caller.
    #[error(
        "as many requests of this caller wait for messages as may, three quarters of queues.receivers_max; wait with \
             fewer requests, or ask again later"
    )]
    TooManyReceiversOfCaller,
    /// The queue has schedules.
    #[error("the queue has schedules; delete them first")]
    QueueHasSchedules,
    /// A schedule that cannot be.
    #[error("the schedule cannot be: {0}")]
    ScheduleInvalid(Box<str>),
    /// There is no such schedule.
    #[error("the queue has no such schedule")]
    ScheduleNotFound,
    /// There are too many schedules.
    #[error(
        "the shard has as many schedules as may be made there: {STANDING_OF_OWNERS_MAX}, and {STANDING_MAX} with those \
         of queues of the configuration; remove schedules that nobody needs, or ask the operator"
    )]
    TooManySchedules,
    /// The same, of whoever wants to make it.
    #[error(
        "you have made as many schedules of the shard as one user or service may, {STANDING_OF_OWNER_MAX} of \
         {STANDING_MAX}; remove some, or ask the operator"
    )]
    TooManySchedulesOfOwner,
    /// There is no such message.
    #[error(
        "there is no such message, or not any more: by its key, what became of one that is gone is remembered for the \
         trail_ms of its queue, and not if it was purged or its queue was deleted; by its sender's id, for the \
         id_window_ms of its queue alone, whether it is gone or not (with ids_until_due, from the time for which it \
         was sent or scheduled anew by its id, and from when it was taken back by it)"
    )]
    MessageNotFound,
    /// Somebody has it.
    #[error("the message is handed out")]
    MessageLeased,
}

/// A bound by which messages are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Of the queue's own settings.
    OfSettings,
    /// Of the messages of any one queue.
    MessagesOfQueue,
    /// Of the messages of all queues of one owner.
    MessagesOfOwner,
    /// Of the messages of all queues.
    Messages,
    /// Of the ids of any one queue.
    IdsOfQueue,
    /// Of the ids of all queues of one owner.
    IdsOfOwner,
    /// Of the ids of all queues.
    Ids,
    /// Of the ordering keys of any one queue.
    OrderingKeysOfQueue,
    /// Of the ordering keys of all queues of one owner.
    OrderingKeysOfOwner,
    /// Of the ordering keys of all queues.
    OrderingKeys,
    /// Of the numbers of messages.
    Numbers,
}

impl Limit {
    /// Whether there may be so many.
    pub(super) const fn check(self, count: u64, most: u64) -> Result<(), Refusal> {
        if count > most { Err(Refusal::Full(self, most)) } else { Ok(()) }
    }

    /// What is met, and what to do.
    fn text(self, most: u64) -> String {
        match self {
            Limit::OfSettings => format!(
                "the queue has as many messages as its messages_max allows, {most}; receive or purge some, or give it \
                 a larger messages_max"
            ),
            Limit::MessagesOfQueue => format!(
                "the queue has as many messages as one queue may, {most} (queues.messages_of_queue_max of the server's \
                 configuration); receive or purge some, or ask the operator"
            ),
            Limit::MessagesOfOwner => format!(
                "the queues that the owner of this one has made have as many messages together as they may, {most} \
                 (queues.messages_of_owner_max of the server's configuration); receive or purge some, or ask the \
                 operator"
            ),
            Limit::Messages => format!(
                "all queues of the shard together have as many messages as they may, {most} (queues.messages_max of \
                 the server's configuration); send later, or ask the operator"
            ),
            Limit::IdsOfQueue => format!(
                "as many ids of messages of the queue are remembered as may be of one queue, {most} \
                 (queues.ids_of_queue_max of the server's configuration); send without ids, give the queue a shorter \
                 id_window_ms, or send later"
            ),
            Limit::IdsOfOwner => format!(
                "as many ids of messages are remembered of the queues that the owner of this one has made as may be, \
                 {most} (queues.ids_of_owner_max of the server's configuration); send without ids, give the queues a \
                 shorter id_window_ms, or send later"
            ),
            Limit::Ids => format!(
                "as many ids of messages are remembered of all queues of the shard as may be, {most} (queues.ids_max \
                 of the server's configuration); send without ids, send later, or ask the operator"
            ),
            Limit::OrderingKeysOfQueue => format!(
                "the messages of the queue have as many different ordering keys as those of one queue may, {most} \
                 (queues.ordering_keys_of_queue_max of the server's configuration); send without them or under those \
                 that are there, or receive some first, or ask the operator"
            ),
            Limit::OrderingKeysOfOwner => format!(
                "the messages of the queues that the owner of this one has made have as many different ordering keys \
                 as they may, {most} (queues.ordering_keys_of_owner_max of the server's configuration); send without \
                 them or under those that are there, or receive some first, or ask the operator"
            ),
            Limit::OrderingKeys => format!(
                "the messages of all queues of the shard have as many different ordering keys as they may, {most} \
                 (queues.ordering_keys_max of the server's configuration); send without them or under those that are \
                 there, send later, or ask the operator"
            ),
            Limit::Numbers => {
                "the shard of the queue has given all numbers of messages that there are; ask the operator \
                               to move its queues to another server"
                    .into()
            }
        }
    }
}

/// The bounds of a shard, as the configuration has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Messages that there may be at once.
    pub messages_max: u64,
    /// Of these, those of one queue.
    pub messages_of_queue_max: u64,
    /// Of these, those of all queues of one owner.
    pub messages_of_owner_max: u64,
    /// Ids of messages that may be remembered at once.
    pub ids_max: u64,
    /// Of these, those of one queue.
    pub ids_of_queue_max: u64,
    /// Of these, those of all queues of one owner.
    pub ids_of_owner_max: u64,
    /// Ordering keys that messages may have at once.
    pub ordering_keys_max: u64,
    /// Of these, those of one queue.
    pub ordering_keys_of_queue_max: u64,
    /// Of these, those of all queues of one owner.
    pub ordering_keys_of_owner_max: u64,
    /// By how much the time of the shard is ahead of the clock of the host, in milliseconds: so much later is what a
    /// sender names by that clock, since nothing may come early by it.
    pub ahead_ms: u64,
}

impl Bounds {
    /// Bounds of all queues, of which one queue may have half, and one owner with all its queues three quarters: others
    /// go on when it is full, also those of the same owner.
    pub const fn new(messages_max: u64, ids_max: u64, ordering_keys_max: u64) -> Bounds {
        Bounds {
            messages_max,
            messages_of_queue_max: messages_max - messages_max / 2,
            messages_of_owner_max: messages_max - messages_max / 4,
            ids_max,
            ids_of_queue_max: ids_max - ids_max / 2,
            ids_of_owner_max: ids_max - ids_max / 4,
            ordering_keys_max,
            ordering_keys_of_queue_max: ordering_keys_max - ordering_keys_max / 2,
            ordering_keys_of_owner_max: ordering_keys_max - ordering_keys_max / 4,
            ahead_ms: 0,
        }
    }

    /// What `when` is by the time of the shard, if it is decided at `at`.
    pub fn time_of(&self, when: When, at: TimeMs) -> TimeMs {
        match when {
            When::At(time) => later(time, self.ahead_ms),
            When::After(ms) => later(at, ms),
        }
    }
}
