//! The process: brokers of all workers over one store, and the rings between them.

use std::sync::Arc;

use tidegate_broker::drive::{Driven, Rings};
use tidegate_broker::{
    Broker, BrokerLimits, BrokerMessage, BrokerOptions, ConnectionKey, ConnectionTraits, HoldingLimits, Holdings,
    Owners, QueueTopics, SharedFacts, TOPICS, TopicShard, TopicsFamily, topics::open_shard,
};
use tidegate_journal::disk::FakeDisk;
use tidegate_journal::{JournalError, LogId, LogStore, Logs};
use tidegate_machines::topic::{Due, InboxLimits, InboxPolicy};
use tidegate_machines::{Machine, ShardIndex, TimeMs};
use tidegate_shard::{CompactionRule, NothingDerived, OpenShard, Snapshots, StateClock, compact};

use super::plan::Plan;
use crate::harness::{Process, Site, Store, data};
use crate::violation::Violation;

/// The random number of the data directory.
pub const DIRECTORY_ID: u64 = 1;
/// No inbox fills up: what is dropped for want of room is no broken promise, so it must not happen.
const INBOX: InboxLimits = InboxLimits {
    messages_max: 1 << 20,
    bytes_max: 1 << 30,
    age_max_ms: 0,
    policy: InboxPolicy::Refuse,
    refuse_away_ms: u64::MAX,
};

/// A connection as both sides know it.
pub type Link = (u16, ConnectionKey);

/// A running process.
pub struct Node<S: Store> {
    brokers: Vec<Driven<S::Log>>,
    /// That of their ports.
    clock: StateClock,
    rings: Rings,
}

impl<S: Store> Node<S> {
    /// Starts a process over what is in the store.
    pub fn start(site: &mut Site<S>, plan: &Plan) -> Result<Node<S>, String> {
        let facts = Arc::new(SharedFacts::new(plan.workers));
        let holdings = Arc::new(Holdings::new(HoldingLimits::default()));
        let mut shards: Vec<Vec<TopicShard<S::Log>>> = (0..plan.workers).map(|_| Vec::new()).collect();
        let owners = Owners::spread(plan.topic_shards, plan.workers);
        for shard in 0..plan.topic_shards {
            shards[usize::from(owners.worker_of(ShardIndex(shard)))].push(recover(site, plan, shard)?);
        }
        let newest = shards.iter().flatten().map(|shard| shard.state_ahead().newest_known()).max();
        let clock = StateClock::starting(newest.unwrap_or(TimeMs(0)), TimeMs(site.clock.now_ms()));
        let limits = BrokerLimits {
            outbox_bytes_max: plan.outbox_bytes_max,
            waiting_bytes_max: plan.waiting_bytes_max(),
            session_expiry_max_s: plan.session_expiry_s,
            sys_interval_ms: 0,
            share_strategy: plan.share_strategy,
            share_stalled_ms: plan.shares.stalled_ms,
            ..BrokerLimits::default()
        };
        let brokers = shards.into_iter().enumerate().map(|(worker, shards)| {
            let options = BrokerOptions {
                worker: worker as u16,
                owners: owners.clone(),
                limits: limits.clone(),
                facts: facts.clone(),
                holdings: holdings.clone(),
                seed: site.chance.number(),
                request_topics: Vec::new(),
                feeds: Box::default(),
                feed_partitions: 1,
                queues: QueueTopics::default(),
                version: "simulated",
            };
            Driven::new(Broker::new(options, shards))
        });
        Ok(Node { brokers: brokers.collect(), clock, rings: Rings::new(plan.workers) })
    }

    /// The brokers' time when it is `now` for the process.
    pub fn time(&self, now: TimeMs) -> TimeMs {
        let mut clock = self.clock;
        clock.time(now)
    }

    /// The broker of a worker.
    pub fn broker(&mut self, worker: u16) -> &mut Driven<S::Log> {
        &mut self.brokers[usize::from(worker)]
    }

    /// A client connects to some worker; `None` when it is turned away.
    pub fn open(&mut self, worker: u16, now: TimeMs) -> Option<Link> {
        let key = self.broker(worker).open(ConnectionTraits::default(), now)?;
        Some((worker, key))
    }

    /// Whether the server has ended a connection, whose client may be told why before it is closed.
    pub fn is_closing(&self, (worker, key): Link) -> bool {
        self.brokers[usize::from(worker)].is_closing(key)
    }

    /// Delivers all that peers have sent to `worker`, as a worker does between reading and looking at what it read.
    pub fn take_messages(&mut self, worker: u16, now: TimeMs) {
        while let Some((from, message)) = self.rings.take(worker) {
            self.broker(worker).deliver(from, message, now);
        }
    }

    /// A message of `worker` for another one sets out.
    pub fn send(&mut self, worker: u16, to: u16, message: BrokerMessage) {
        self.rings.send(worker, to, message);
    }

    /// CONNECTs that were refused because the session is another's.
    pub fn connects_of_others(&self) -> u64 {
        self.brokers.iter().map(|broker| broker.facts().connects_of_others).sum()
    }

    /// How far each shard is, for a person.
    pub fn situation(&self) -> String {
        let shards = self.brokers.iter().flat_map(|broker| broker.shards());
        let place = |shard: &TopicShard<S::Log>| format!("{} of {} durable", shard.durable(), shard.appended());
        shards.map(place).collect::<Vec<_>>().join(", ")
    }

    /// Every broker's tables agree with each other.
    pub fn assert_sound(&self) {
        self.brokers.iter().for_each(|broker| broker.assert_sound());
    }

    /// The payload of a topic's retained message.
    pub fn retained(&self, topic: &str) -> Option<Vec<u8>> {
        let mut all =
            self.brokers.iter().flat_map(|broker| broker.shards()).flat_map(|shard| shard.state_ahead().retained());
        all.find(|message| message.topic() == topic).map(|message| message.payload().to_vec())
    }

    /// Delayed messages that are due.
    pub fn due(&self, now: TimeMs) -> u64 {
        let now = self.time(now);
        let shards = self.brokers.iter().flat_map(|broker| broker.shards());
        let due = shards.flat_map(|shard| shard.state_ahead().due(now));
        due.filter(|due| matches!(due, Due::Delayed { .. })).count() as u64
    }

    /// The log that has the session of this client, if it has one that outlives its connection.
    pub fn log_of(&self, client_id: &str) -> Option<LogId> {
        let mut shards = self.brokers.iter().flat_map(|broker| broker.shards());
        let has = |shard: &&TopicShard<S::Log>| {
            shard.state_ahead().sessions().any(|(_, session)| session.client_id() == client_id)
        };
        shards.find(has).map(|shard| log_id(shard.index().0))
    }

    /// Whether all that the process was told is decided and durable.
    pub fn is_durable(&self) -> bool {
        let mut shards = self.brokers.iter().flat_map(|broker| broker.shards());
        shards.all(|shard| shard.is_idle() && shard.failure().is_none())
    }

    /// Whether every broker knows the subscriptions of all others.
    pub fn is_serving(&self) -> bool {
        self.brokers.iter().all(|broker| broker.is_serving())
    }
}

impl<S: Store> Process for Node<S> {
    fn failure(&self) -> Option<String> {
        let failed = self.brokers.iter().flat_map(|broker| broker.shards()).find_map(|shard| shard.failure());
        failed.map(ToString::to_string)
    }

    fn stop(self) -> Result<(), JournalError> {
        let shards = self.brokers.into_iter().flat_map(|driven| driven.into_broker().into_shards());
        shards.map(TopicShard::into_log).try_for_each(|log| log.close().map(|_| ()))
    }
}

/// A snapshot of one shard, and the end of what lies behind it. The shard need not know.
pub fn compact_shard<S: Store>(site: &Site<S>, plan: &Plan, shard: u16) -> Result<bool, Violation> {
    let rule = CompactionRule { floor_bytes: 2 * plan.journal.segment_bytes * 3 / 4, ratio: 0 };
    let made = site.store.served().reader(log_id(shard)).map_err(|error| error.to_string()).and_then(|reader| {
        compact(&snapshots(&site.disk, shard), &reader, plan.topic_shards, rule, || true)
            .map_err(|error| error.to_string())
    });
    let made = made.map_err(|error| Violation::of("a log can be compacted while it is written", error))?;
    Ok(made.is_some())
}

fn log_id(shard: u16) -> LogId {
    TOPICS.log(DIRECTORY_ID, shard)
}

fn snapshots(disk: &FakeDisk, shard: u16) -> Snapshots<TopicsFamily, FakeDisk> {
    Snapshots::new(disk.clone(), data(), log_id(shard))
}

fn recover<S: Store>(site: &Site<S>, plan: &Plan, shard: u16) -> Result<TopicShard<S::Log>, String> {
    let open = OpenShard::open(&site.store.served(), snapshots(&site.disk, shard), plan.journal)
        .map_err(|error| error.to_string())?;
    let back = open.replay(plan.topic_shards, &mut NothingDerived, |_| {}).map_err(|error| error.to_string())?;
    open_shard(back, INBOX).map_err(|error| error.to_string())
}
