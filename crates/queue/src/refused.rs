//! What is refused because a bound is met: counted, and said in the log.
//!
//! Why in the log: who sends sees a refusal, and whoever runs the server would otherwise not know that a queue takes
//! nothing any more. Why seldom: a sender that is refused tries again.

use std::collections::BTreeMap;

use tidegate_machines::TimeMs;
use tidegate_machines::queue::limits::{
    QUEUES_MAX, QUEUES_OF_OWNER_MAX, QUEUES_OF_OWNERS_MAX, STANDING_MAX, STANDING_OF_OWNER_MAX, STANDING_OF_OWNERS_MAX,
};
use tidegate_machines::queue::{Limit, Refusal};

/// A bound is named in the log once in so many milliseconds.
const SAID_EVERY_MS: u64 = 60_000;

/// A bound that was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bound {
    /// Of messages or ids.
    Of(Limit),
    /// Of all queues of the shard.
    Queues,
    /// Of those of one owner.
    QueuesOfOwner,
    /// Of all schedules of the shard.
    Schedules,
    /// Of those of one owner.
    SchedulesOfOwner,
    /// Of all receivers that wait.
    Receivers,
    /// Of those of one caller.
    ReceiversOfCaller,
}

impl Bound {
    /// The one by which something was refused; `None` if it was refused for another reason.
    pub const fn of(refusal: &Refusal) -> Option<Bound> {
        Some(match refusal {
            Refusal::Full(limit, _) => Bound::Of(*limit),
            Refusal::TooManyQueues => Bound::Queues,
            Refusal::TooManyQueuesOfOwner => Bound::QueuesOfOwner,
            Refusal::TooManySchedules => Bound::Schedules,
            Refusal::TooManySchedulesOfOwner => Bound::SchedulesOfOwner,
            Refusal::TooManyReceivers => Bound::Receivers,
            Refusal::TooManyReceiversOfCaller => Bound::ReceiversOfCaller,
            _ => return None,
        })
    }

    /// As the metric has it.
    const fn name(self) -> &'static str {
        match self {
            Bound::Of(Limit::OfSettings) => "queue_settings",
            Bound::Of(Limit::MessagesOfQueue) => "messages_of_queue",
            Bound::Of(Limit::MessagesOfOwner) => "messages_of_owner",
            Bound::Of(Limit::Messages) => "messages",
            Bound::Of(Limit::IdsOfQueue) => "ids_of_queue",
            Bound::Of(Limit::IdsOfOwner) => "ids_of_owner",
            Bound::Of(Limit::Ids) => "ids",
            Bound::Of(Limit::OrderingKeysOfQueue) => "ordering_keys_of_queue",
            Bound::Of(Limit::OrderingKeysOfOwner) => "ordering_keys_of_owner",
            Bound::Of(Limit::OrderingKeys) => "ordering_keys",
            Bound::Of(Limit::Numbers) => "numbers",
            Bound::Queues => "queues",
            Bound::QueuesOfOwner => "queues_of_owner",
            Bound::Schedules => "schedules",
            Bound::SchedulesOfOwner => "schedules_of_owner",
            Bound::Receivers => "receivers",
            Bound::ReceiversOfCaller => "receivers_of_caller",
        }
    }

    /// What is met, and what to do.
    const fn advice(self) -> &'static str {
        match self {
            Bound::Of(Limit::OfSettings) => {
                "a queue has as many messages as its own messages_max allows and takes no more; see to it that they \
                 are received, or give it a larger one"
            }
            Bound::Of(Limit::MessagesOfQueue) => {
                "a queue has as many messages as any one may have (queues.messages_of_queue_max) and takes no more; \
                 see to it that they are received, or purge it; other queues go on"
            }
            Bound::Of(Limit::MessagesOfOwner) => {
                "the queues that one owner has made have as many messages together as they may \
                 (queues.messages_of_owner_max) and take no more; see to it that they are received, or purge them; \
                 queues of others go on"
            }
            Bound::Of(Limit::Messages) => {
                "all queues of a shard together have as many messages as they may (queues.messages_max): none takes \
                 any more; see to it that they are received, purge queues, or configure more"
            }
            Bound::Of(Limit::IdsOfQueue) => {
                "as many ids of messages of a queue are remembered as may be of one (queues.ids_of_queue_max): it \
                 takes no more with ids until some are forgotten; give it a shorter id_window_ms; other queues go on"
            }
            Bound::Of(Limit::IdsOfOwner) => {
                "as many ids of messages are remembered of the queues that one owner has made as may be \
                 (queues.ids_of_owner_max): they take no more with ids until some are forgotten; give them a shorter \
                 id_window_ms; queues of others go on"
            }
            Bound::Of(Limit::Ids) => {
                "as many ids of messages are remembered as may be for all queues of a shard (queues.ids_max): none \
                 takes messages with ids until some are forgotten; give queues a shorter id_window_ms, or configure \
                 more"
            }
            Bound::Of(Limit::OrderingKeysOfQueue) => {
                "messages of a queue have as many different ordering keys as those of any one may \
                 (queues.ordering_keys_of_queue_max): it takes no messages with others; see to it that they are \
                 received; other queues go on"
            }
            Bound::Of(Limit::OrderingKeysOfOwner) => {
                "messages of the queues that one owner has made have as many different ordering keys as they may \
                 (queues.ordering_keys_of_owner_max): they take no messages with others; see to it that they are \
                 received; queues of others go on"
            }
            Bound::Of(Limit::OrderingKeys) => {
                "messages of all queues of a shard have as many different ordering keys as they may \
                 (queues.ordering_keys_max): none takes messages with others; see to it that they are received, or \
                 configure more"
            }
            Bound::Of(Limit::Numbers) => {
                "a shard has given all numbers of messages that there are and takes no more; its queues must be \
                 moved to another server"
            }
            Bound::Queues => {
                "a shard has as many queues as may be: 9,000 that were made over its doors, and 10,000 with those of \
                 [[queue]]; delete those that nobody uses (GET /v1/queues shows owners)"
            }
            Bound::QueuesOfOwner => {
                "one owner has made as many queues of a shard as it may, 7,500, and makes no more; delete those that \
                 nobody uses; others go on"
            }
            Bound::Schedules => {
                "a shard has as many schedules as may be: 900, and 1,000 with those of queues of [[queue]]; remove \
                 those that nobody needs (GET /v1/queues/{queue}/schedules shows owners)"
            }
            Bound::SchedulesOfOwner => {
                "one owner has made as many schedules of a shard as it may, 750, and makes no more; remove those that \
                 nobody needs; others go on"
            }
            Bound::Receivers => {
                "as many requests wait for messages of a shard as may (queues.receivers_max); others are told to come \
                 again later; configure more, or have clients wait on fewer connections"
            }
            Bound::ReceiversOfCaller => {
                "one caller has as many requests that wait for messages of a shard as it may, three quarters of \
                 queues.receivers_max; more of them are told to come again later"
            }
        }
    }
}

/// Counts refusals by their bounds.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    bounds: BTreeMap<Bound, OfBound>,
}

#[derive(Debug, Default)]
struct OfBound {
    requests: u64,
    /// Of these, those that the log did not count yet.
    unsaid: u64,
    said_at: Option<TimeMs>,
}

impl Refused {
    /// A request to this queue was refused; `owner` is who made the queue, or wants to make something.
    pub fn note(&mut self, bound: Bound, (queue, owner): (&str, Option<&str>), now: TimeMs) {
        let of = self.bounds.entry(bound).or_default();
        of.requests += 1;
        of.unsaid += 1;
        if of.said_at.is_none_or(|at| now.0 >= at.0.saturating_add(SAID_EVERY_MS)) {
            let requests = std::mem::take(&mut of.unsaid);
            of.said_at = Some(now);
            tracing::warn!(queue, owner, requests, bound = bound.name(), "{}", bound.advice());
        }
    }

    /// Requests so far, by bounds.
    pub fn totals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.bounds.iter().map(|(bound, of)| (bound.name(), of.requests))
    }
}

const _: () = assert!(QUEUES_OF_OWNERS_MAX == 9_000 && QUEUES_MAX == 10_000 && QUEUES_OF_OWNER_MAX == 7_500);
const _: () = assert!(STANDING_OF_OWNERS_MAX == 900 && STANDING_MAX == 1_000 && STANDING_OF_OWNER_MAX == 750);
