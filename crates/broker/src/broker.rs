//! One worker's broker: the calls through which bytes, peers' messages and time come in, and bytes and actions go out.

mod acknowledge;
mod answer_size;
mod answers;
mod asked;
mod attach;
mod connect;
mod connect_time;
mod delayed;
mod disconnect;
mod drain;
mod due;
mod durable;
mod ending;
mod feeds;
mod intake;
mod leave;
mod notices;
mod operate;
mod operator_scan;
mod origins;
mod owner;
mod pass_on;
mod peers;
mod publish;
mod queues;
mod recover;
mod reload;
mod request;
mod retain;
mod retain_order;
mod retained_scan;
mod route;
mod shares;
mod sound;
mod subscribe;
mod sweep;
mod sys;
mod timing;
mod will_wait;
mod wills;

use std::sync::Arc;

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::Refusal;

use tidegate_wire::mqtt::ReasonCode;

use crate::acknowledgements::Acknowledgements;
use crate::clients::Clients;
use crate::connection::ConnectionEvent;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::{PEER_ITEMS_MAX, REQUEST_TOPICS_MAX, STARVED_PER_STEP};
use crate::peer::Peers;
use crate::session::Stage;
use crate::shards::Shards;
use crate::subscriptions::{Subscriptions, WatchedFilter};
use crate::topics::TopicShard;
use crate::{Action, BrokerFacts, BrokerOptions, ConnectionKey, Rights};

pub use asked::Answered;
use asked::Asked;
pub(crate) use due::DueThing;
use ending::Endings;
use intake::{Intake, Progress};
pub use notices::{Notice, Noticed, SubscriptionsDenied};
use operate::Operator;
use pass_on::PassOn;
pub(crate) use pass_on::PassedMessage;
pub use reload::Reloaded;
use reload::Reloads;
use retain::RetainedMessages;
use route::{Routed, Routing};
use shares::Shares;
pub(crate) use subscribe::Reserved;
use timing::Timing;

/// What the shell knows of a connection and the broker needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTraits {
    /// A smaller bound on packets for this listener; 0 for the broker's own.
    pub packet_bytes_max: u32,
}

/// How clients are disconnected during a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainPlan {
    /// Connections of this worker to close per second.
    pub per_second: u32,
    /// Where MQTT 5 clients should go instead.
    pub server_reference: Option<Box<str>>,
}

/// One worker's broker. Each concern keeps its own state; the broker wires them.
pub struct Broker<L: LogStore> {
    options: BrokerOptions,
    /// Connections, sessions and their bytes.
    clients: Clients,
    /// Which connections wait, and for what.
    intake: Intake,
    /// The subscriptions of all sessions of all workers.
    subscriptions: Subscriptions,
    /// The message that is being routed.
    routing: Routing,
    retained: RetainedMessages,
    /// Who must still say that a message is durable.
    acknowledgements: Acknowledgements,
    shards: Shards<L>,
    peers: Peers,
    /// What happens by the clock.
    timing: Timing,
    /// Rights that are asked for again.
    reloads: Reloads,
    /// What the shell was asked for.
    asked: Asked,
    /// Members of share groups that are connected.
    shares: Shares,
    /// What they leave to others.
    passing: PassOn,
    endings: Endings,
    /// What operators have asked.
    operator: Operator,
    /// Draws client ids.
    random: SplitMix64,
}

impl<L: LogStore> Broker<L> {
    /// A broker over the topic shards that its worker owns, ascending. It serves when [`Broker::is_serving`] says so.
    /// Sessions that were connected when the process ended count as disconnected without DISCONNECT.
    pub fn new(options: BrokerOptions, shards: Vec<TopicShard<L>>) -> Broker<L> {
        Broker::watching(options, shards, "")
    }

    /// The same; [`Broker::take_watched`] tells which filters that begin with `prefix` anybody subscribes to, on any
    /// worker.
    pub fn watching(options: BrokerOptions, shards: Vec<TopicShard<L>>, prefix: &str) -> Broker<L> {
        let topics = options.request_topics.len();
        assert!(topics <= REQUEST_TOPICS_MAX, "{topics} request topics, and each PUBLISH is compared with all of them");
        let queues = &options.queues;
        let are_special =
            [queues.sends, queues.receives].iter().all(|begin| begin.is_empty() || begin.starts_with('$'));
        assert!(are_special, "what leads to queues is no ordinary topic");
        assert!(options.worker < options.workers(), "a worker is one of all");
        assert!(options.workers() <= 256, "an entry of the tree names its worker in a byte");
        for (nth, shard) in (0..).zip(&shards) {
            let at = (options.owners.worker_of(shard.index()), options.owners.place_of(shard.index()));
            assert!(at == (options.worker, nth), "a worker has the shards that it owns, ascending");
        }
        let mut random = SplitMix64(options.seed);
        let mut broker = Broker {
            clients: Clients::new(options.worker as u8, options.limits.clone()),
            intake: Intake::default(),
            subscriptions: Subscriptions::new(random.next()).watching(prefix).sharing_by(options.limits.share_strategy),
            routing: Routing::default(),
            retained: RetainedMessages::new(random.next(), options.workers()),
            acknowledgements: Acknowledgements::new(options.worker),
            shards: Shards::new(shards),
            peers: Peers::new(options.worker, options.workers()),
            timing: Timing::default(),
            reloads: Reloads::default(),
            asked: Asked::default(),
            shares: Shares::default(),
            passing: PassOn::default(),
            endings: Endings::default(),
            operator: Operator::default(),
            random,
            options,
        };
        // After a restart, packet ids begin elsewhere.
        let first_id = SplitMix64(!broker.options.seed).next();
        broker.asked.receivers.begin_ids(first_id);
        broker.recover();
        broker
    }

    /// A connection was accepted, or handed off by another worker. `None` when there are too many: close it.
    pub fn open(&mut self, traits: ConnectionTraits, now: TimeMs) -> Option<ConnectionKey> {
        if self.clients.connections.len() >= self.options.limits.connections_max {
            return None;
        }
        let index = self.clients.connections.take();
        let connection = &mut self.clients.connections[index];
        connection.transition(ConnectionEvent::Opened);
        assert!(connection.session.is_none() && connection.rights.is_none(), "a place that was given back is nobody's");
        assert!(
            connection.outbox.is_none() && connection.input.is_none(),
            "a place that was given back holds no bytes"
        );
        connection.last_seen_s = connect::seconds(now);
        if traits.packet_bytes_max > 0 {
            connection.extra().packet_bytes_max = traits.packet_bytes_max;
        }
        assert!(self.clients.connections.len() <= self.options.limits.connections_max, "connections are bounded");
        Some(self.clients.key(index))
    }

    /// Which watched filters got their first subscription or lost their last since the last call, in order.
    pub fn take_watched(&mut self) -> Vec<WatchedFilter> {
        self.subscriptions.take_watched()
    }

    /// Everything that does not come from a socket: shards, timers, parked packets. Returns whether there is more to do
    /// at once.
    pub fn step(&mut self, now: TimeMs) -> bool {
        let mut worked = self.step_shards(now);
        self.step_timing(now);
        self.step_stalled(now);
        worked |= self.step_unserved(now);
        worked |= self.step_scans(now);
        worked |= self.step_reload(now);
        self.step_starved(now);
        worked |= self.step_operator(now);
        self.step_expired(now);
        self.step_feeds(now);
        self.step_receivers(now);
        self.step_sys(now);
        self.run_deferred_disconnects(now);
        // What was asked of the shards in this step is submitted in this step.
        worked |= self.step_shards(now);
        // A shard may have failed just now.
        self.run_deferred_disconnects(now);
        self.publish_facts(now);
        worked || self.clients.has_left() && !self.intake.is_pressed
    }

    fn publish_facts(&mut self, now: TimeMs) {
        let pressure_bytes = self.clients.outboxes.pressure_bytes(now);
        self.clients.facts.retained = self.retained.messages.len() as u64;
        let (mut messages, mut bytes) = (0, 0);
        for shard in self.shards.as_slice() {
            let facts = shard.state_ahead().facts();
            messages += facts.inbox_messages;
            bytes += facts.bodies_bytes + facts.retained_bytes;
        }
        (self.clients.facts.store_messages, self.clients.facts.store_bytes) = (messages, bytes);
        let lost = self.shards.take_lost();
        self.clients.facts.evicted_inbox += lost.evicted;
        self.clients.facts.dropped_inbox += lost.full;
        self.clients.facts.dropped_expired += lost.expired;
        self.clients.facts.dropped_aged += lost.aged;
        self.clients.facts.waiting_bytes = self.clients.waiting_bytes();
        self.options.facts.publish(self.options.worker, &self.clients.facts, pressure_bytes);
        let is_full = self.shards.are_full();
        let is_behind = self.peers.waiting_max() > PEER_ITEMS_MAX;
        self.intake.is_pressed =
            is_full || is_behind || self.options.facts.pressure_bytes() > self.options.limits.pressure_bytes_max;
    }

    /// What is served from now on arrived at this time, by a clock of the shell that begins above zero.
    pub fn arrived(&mut self, now_ns: u64) {
        self.asked.timing.arrived_ns = now_ns;
    }

    /// Takes the publications of QoS 1 and 2 that were answered since the last call, if the shell says when they
    /// arrive.
    pub fn take_answered(&mut self, answered: &mut Vec<Answered>) {
        answered.append(&mut self.asked.timing.answered);
    }

    /// Takes what the shell has to do.
    pub fn actions(&mut self) -> impl Iterator<Item = Action> + '_ {
        self.asked.actions.drain(..)
    }

    /// Adds the connections that have bytes to send since the last call. Nothing while a batch waits for a full ring.
    pub fn take_flushable(&mut self, keys: &mut Vec<ConnectionKey>) {
        if !self.peers.have_waiting() {
            self.clients.take_flushable(keys);
        }
    }

    /// The bytes to send to this client, in one piece.
    pub fn unsent(&self, key: ConnectionKey) -> &[u8] {
        self.clients.index(key).map_or(&[], |index| self.clients.outbox(index))
    }

    /// The socket took so many of them. The shell calls it again when the socket has become writable and took more.
    pub fn sent(&mut self, key: ConnectionKey, count: usize, now: TimeMs) {
        let Some(index) = self.clients.index(key) else { return };
        // Who takes more than an outbox holds is not read meanwhile: that it takes it shows that it is there.
        if count > 0 && self.clients.outbox_len(index) > self.clients.outbox_bytes_max(index) {
            self.clients.connections[index].last_seen_s = connect::seconds(now);
        }
        self.clients.sent(index, count, now);
        let Some(place) = self.clients.connections[index].session else { return };
        assert!(self.clients.sessions[place].connection == Some(index), "connection and session point to each other");
        if self.clients.sessions[place].stage == Stage::Live {
            if self.may_have_more(place) {
                self.pump(place, now);
            }
            if count > 0 {
                self.member_takes_bytes(place, now);
            }
        }
    }

    /// Tries some of the sessions again for which something waits because others held all that may wait.
    fn step_starved(&mut self, now: TimeMs) {
        for _ in 0..self.clients.starved().min(STARVED_PER_STEP) {
            if let Some(place) = self.clients.take_starved() {
                self.pump(place, now);
            }
        }
    }

    /// Whether something may wait for the outbox of a session.
    fn may_have_more(&self, place: SessionIndex) -> bool {
        let session = &self.clients.sessions[place];
        session.slot.is_some()
            || self.has_feeds(place)
            || self.has_receivers(place)
            || session.flow.as_ref().is_some_and(|flow| !flow.backlog.is_empty())
    }

    /// The rights of an admitted connection.
    fn rights_of(&self, index: ConnectionIndex) -> &Arc<dyn Rights> {
        self.clients.rights.get(self.clients.connections[index].rights.expect("who was admitted has rights"))
    }

    /// Whether all peers' subscriptions are known here, so that connections may be opened.
    pub fn is_serving(&self) -> bool {
        self.peers.are_complete()
    }

    /// Whether a sleeping thread should look: a shard's journal has news. As for [`LogStore::has_news`].
    pub fn has_news(&self) -> bool {
        self.shards.as_slice().iter().any(TopicShard::has_news)
    }

    /// Whether nothing waits for a journal.
    pub fn is_idle(&self) -> bool {
        self.shards.as_slice().iter().all(TopicShard::is_idle)
    }

    /// The topic shards, for compaction and for checking whether one failed.
    pub fn shards_mut(&mut self) -> &mut [TopicShard<L>] {
        self.shards.as_mut_slice()
    }

    /// The topic shards.
    pub fn shards(&self) -> &[TopicShard<L>] {
        self.shards.as_slice()
    }

    /// Gives the shards back, to close their logs.
    pub fn into_shards(self) -> Vec<TopicShard<L>> {
        self.shards.into_vec()
    }

    /// This worker's counts.
    pub fn facts(&self) -> BrokerFacts {
        self.clients.facts
    }
}

impl<L: LogStore> std::fmt::Debug for Broker<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").field("worker", &self.options.worker).field("facts", &self.clients.facts).finish()
    }
}

/// The reason code when a shard refuses.
fn refusal_reason(refusal: &Refusal) -> ReasonCode {
    match refusal {
        // It was done before, or its session no longer exists.
        Refusal::Duplicate | Refusal::Nothing => ReasonCode::SUCCESS,
        Refusal::InboxFull => ReasonCode::QUOTA_EXCEEDED,
        Refusal::NoSubscription => ReasonCode::NO_SUBSCRIPTION_EXISTED,
        _ => ReasonCode::UNSPECIFIED_ERROR,
    }
}

/// Pseudo-random numbers from the seed that the shell drew: SplitMix64.
#[derive(Debug)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
