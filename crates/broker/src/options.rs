//! The options with which a broker is created.

use std::sync::Arc;

use tidegate_machines::{ShardIndex, shard_of};
use tidegate_shard::Owners;

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
    /// What `$SYS/broker/version` says.
    pub version: &'static str,
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
