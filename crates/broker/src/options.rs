//! The options with which a broker is created.

use std::sync::Arc;

use crate::{BrokerLimits, SharedFacts};

/// One worker's place among all, and what it shares with them.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// Which worker this is.
    pub worker: u16,
    /// How many workers there are.
    pub workers: u16,
    /// How many topic shards the directory has; shard n lives with worker n modulo `workers`.
    pub topic_shards: u16,
    /// Bounds.
    pub limits: BrokerLimits,
    /// Counters and pressure of all workers.
    pub facts: Arc<SharedFacts>,
    /// Drawn once by the shell, different at each start and for each worker: assigned client ids are made from it.
    pub seed: u64,
    /// Topics that a service behind the broker answers, at most [`crate::limits::REQUEST_TOPICS_MAX`]: what is
    /// published there reaches no subscriber, but becomes an [`crate::Action::Request`].
    pub request_topics: Vec<Box<str>>,
    /// What `$SYS/broker/version` says.
    pub version: &'static str,
}
