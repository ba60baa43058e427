//! The options with which a broker is created.

use std::sync::Arc;

use tidegate_machines::{ShardIndex, shard_of};
use tidegate_shard::Owners;
use tidegate_wire::mqtt::ReasonCode;

use crate::index::ShardPlace;
use crate::{BrokerLimits, Holdings, SharedFacts};

/// One worker's place among all, and what it shares with them.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// Which worker this is.
    pub worker: u16,
    /// Which worker has which topic shard. The same for all workers.
    pub owners: Owners,
    /// Bounds.
    pub limits: BrokerLimits,
    /// Counters and pressure of all workers.
    pub facts: Arc<SharedFacts>,
    /// What each principal holds, on all workers. The same object for all of them.
    pub holdings: Arc<Holdings>,
    /// Drawn once by the shell, different at each start and for each worker: assigned client ids are made from it.
    pub seed: u64,
    /// Topics that a service behind the broker answers, at most [`crate::limits::REQUEST_TOPICS_MAX`]: what is
    /// published there reaches no subscriber, but becomes an [`crate::Action::Request`].
    pub request_topics: Vec<Box<str>>,
    /// What filters begin with whose messages a source behind the broker keeps; empty for none. Nobody may have the
    /// right to publish there.
    pub feeds: Box<str>,
    /// Partitions of that source, at least one: sequences of messages, each of which always has the same order.
    pub feed_partitions: u16,
    /// Topics that lead to queues behind the broker.
    pub queues: QueueTopics,
    /// What `$SYS/broker/version` says.
    pub version: &'static str,
}

/// Topics that lead to queues behind the broker. By default there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueTopics {
    /// What topics begin with on which a publication is a send: it reaches no subscriber, but becomes an
    /// [`crate::Action::Send`]. Empty for none, otherwise with a `$` in front.
    pub sends: &'static str,
    /// What filters begin with by which one receives: each is an [`crate::Action::Receive`]. Nobody may publish there.
    pub receives: &'static str,
    /// Why sends and receivers are refused: the reason code for MQTT 5, and the text. A [`QueueRefusal`] is a place in
    /// this list.
    pub refusals: &'static [(ReasonCode, &'static str)],
}

/// A place in [`QueueTopics::refusals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRefusal(pub u8);

/// Reason codes from here on stand for refusals, until a client is told. MQTT has none there.
const REFUSALS_FROM: u8 = 0xC0;
/// Refusals that there may be.
const REFUSALS_MAX: u8 = 32;

impl QueueRefusal {
    /// What stands for it inside the broker.
    pub(crate) fn code(self) -> ReasonCode {
        assert!(self.0 < REFUSALS_MAX, "a refusal is in the list");
        ReasonCode(REFUSALS_FROM + self.0)
    }

    /// The refusal that a code stands for, if it does.
    pub(crate) fn of_code(code: ReasonCode) -> Option<QueueRefusal> {
        let nth = code.0.checked_sub(REFUSALS_FROM)?;
        (nth < REFUSALS_MAX).then_some(QueueRefusal(nth))
    }
}

impl BrokerOptions {
    /// How many workers there are.
    pub(crate) fn workers(&self) -> u16 {
        self.owners.workers()
    }

    /// The worker that has the shard of `key`: a topic, or a client id.
    pub(crate) fn worker_of(&self, key: &str) -> u16 {
        self.owners.worker_of(self.shard_of(key))
    }

    /// The place of the shard of `key` among the shards of its worker.
    pub(crate) fn place_of(&self, key: &str) -> ShardPlace {
        ShardPlace(self.owners.place_of(self.shard_of(key)))
    }

    fn shard_of(&self, key: &str) -> ShardIndex {
        shard_of(key, self.owners.shards())
    }
}
