//! One worker's broker: the calls through which bytes, peers' messages and time come in, and bytes and actions go out.

mod acknowledge;
mod connect;
mod delayed;
mod disconnect;
mod drain;
mod due;
mod durable;
mod feeds;
mod pending_acks;
mod publish;
mod recover;
mod request;
mod retain;
mod retain_order;
mod retained_scan;
mod route;
mod sound;
mod subscribe;
mod sweep;
mod sys;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::Refusal;

use tidegate_wire::mqtt::{
    Packet, ReasonCode, Split, announced_bytes, check_filter, decode_client, encode_pingresp, lists_filters, split,
};

use crate::clients::Clients;
use crate::connection::{ConnectionEvent, ConnectionState, Flags};
use crate::index::{ConnectionIndex, RightsIndex, SessionIndex, ShardPlace};
use crate::limits::{
    BYTES_PER_WORK, FILTER_BYTES_PER_WORK, PEER_ITEMS_MAX, RECEIVERS_PER_WORK, REQUEST_TOPICS_MAX, WORK_AT_ONCE,
    WORK_OF_REQUEST,
};
use crate::peer::{Item, Peers};
use crate::retained::Retained;
use crate::rights::Again;
use crate::rights::RightsTable;
use crate::session::Stage;
use crate::shards::Shards;
use crate::subscriptions::{Matches, SHAPES_MAX, Subscriptions, WatchedFilter};
use crate::topics::TopicShard;
use crate::{Action, BrokerFacts, BrokerMessage, BrokerOptions, ConnectionKey, Rights};

use pending_acks::{Completion, PendingAcks};
use retain::RetainedMessage;
use route::{DurableReceiver, Routed};

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

/// The result of processing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// It is done with.
    Taken,
    /// It waits at the front of its connection's input.
    Parked,
    /// The connection is over.
    Gone,
}

/// One worker's broker.
pub struct Broker<L: LogStore> {
    options: BrokerOptions,
    clients: Clients,
    trie: Subscriptions,
    retained: Retained<RetainedMessage>,
    shards: Shards<L>,
    peers: Peers,
    rights: RightsTable,
    actions: Vec<Action>,
    /// Connections whose input may hold whole packets that must wait.
    stalled: VecDeque<ConnectionKey>,
    /// Connections that have done their share of the work, and have more.
    unserved: Vec<ConnectionKey>,
    /// Connections that have spent their rate, and until when.
    throttled: Vec<(TimeMs, ConnectionKey)>,
    /// Connections to be disconnected when the current call no longer uses them.
    deferred_disconnects: Vec<(ConnectionKey, ReasonCode)>,
    /// Connections that wait for a session which an earlier one is still opening.
    waiting_connects: HashMap<SessionIndex, ConnectionKey>,
    scans: retained_scan::Scans,
    retains_in_flight: usize,
    retaining: retain_order::RetainsInFlight,
    pending_acks: PendingAcks,
    requests: HashMap<u64, request::Request>,
    feeds: feeds::Feeds,
    tickets: u64,
    delayed: BinaryHeap<Reverse<(TimeMs, u64, delayed::ByNumber)>>,
    delayed_number: u64,
    delayed_in_flight: HashSet<(ShardPlace, u64)>,
    sweep: sweep::Sweep,
    drain: Option<drain::Drain>,
    sys: sys::Sys,
    random: SplitMix64,
    /// Whether publishers are not read, because what was sent is not taken fast enough.
    is_pressed: bool,
    /// Buffers that are used again and again.
    matches: Matches,
    topic: String,
    properties: Vec<u8>,
    durable: Vec<DurableReceiver>,
    refused: Vec<crate::session::SessionRef>,
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
        assert!(options.worker < options.workers(), "a worker is one of all");
        assert!(options.workers() <= 256, "an entry of the tree names its worker in a byte");
        for (nth, shard) in (0..).zip(&shards) {
            let at = (options.owners.worker_of(shard.index()), options.owners.place_of(shard.index()));
            assert!(at == (options.worker, nth), "a worker has the shards that it owns, ascending");
        }
        let mut random = SplitMix64(options.seed);
        let mut broker = Broker {
            clients: Clients::new(options.limits.clone()),
            trie: Subscriptions::new(random.next(), SHAPES_MAX).watching(prefix),
            retained: Retained::new(random.next()),
            shards: Shards::new(shards),
            peers: Peers::new(options.worker, options.workers()),
            rights: RightsTable::default(),
            actions: Vec::new(),
            stalled: VecDeque::new(),
            unserved: Vec::new(),
            throttled: Vec::new(),
            deferred_disconnects: Vec::new(),
            waiting_connects: HashMap::new(),
            scans: retained_scan::Scans::default(),
            retains_in_flight: 0,
            retaining: retain_order::RetainsInFlight::default(),
            pending_acks: PendingAcks::default(),
            requests: HashMap::new(),
            feeds: feeds::Feeds::default(),
            tickets: 0,
            delayed: BinaryHeap::new(),
            delayed_number: 0,
            delayed_in_flight: HashSet::new(),
            sweep: sweep::Sweep::default(),
            drain: None,
            sys: sys::Sys::default(),
            random,
            is_pressed: false,
            matches: Matches::new(),
            topic: String::new(),
            properties: Vec::new(),
            durable: Vec::new(),
            refused: Vec::new(),
            options,
        };
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

    /// Bytes from a client, all of which are processed. A key that is gone is ignored here and everywhere.
    pub fn receive(&mut self, key: ConnectionKey, bytes: &[u8], now: TimeMs) {
        self.serve(key, bytes, isize::MAX, now);
    }

    /// Bytes from a client, of which so many are processed as `may` work allows; at least one packet. Returns how much
    /// work it was. If there is more, [`Broker::is_unserved`] says so, and [`Broker::serve`] without bytes goes on.
    pub fn serve(&mut self, key: ConnectionKey, bytes: &[u8], may: isize, now: TimeMs) -> isize {
        let Some(index) = self.clients.index(key) else { return 0 };
        if self.clients.connections[index].state == ConnectionState::Closing {
            return 0;
        }
        self.clients.facts.bytes_received += bytes.len() as u64;
        let left = if self.clients.connections[index].input.is_none() {
            let (taken, left) = self.process(key, bytes, may, now);
            self.keep_input(key, bytes[taken..].to_vec(), left);
            left
        } else {
            let mut input = self.clients.take_input(index);
            input.extend_from_slice(bytes);
            self.clients.put_input(index, input);
            // Also while the connection is blocked: these bytes may complete a packet, and the client may send no more.
            // `keep_input` then lists the connection for the next steps.
            self.resume_for(index, may, now)
        };
        self.run_deferred_disconnects(now);
        may - left
    }

    /// Whether whole packets of this connection wait for nothing but their turn.
    pub fn is_unserved(&self, key: ConnectionKey) -> bool {
        self.clients.index(key).is_some_and(|index| {
            let connection = &self.clients.connections[index];
            connection.flags.has(Flags::UNSERVED) && connection.state != ConnectionState::Closing
        })
    }

    /// Adds the connections that [`Broker::is_unserved`] is true of since the last call. Whoever takes them has them
    /// [served](Broker::serve) in turn; a step goes on with those that nobody took.
    pub fn take_unserved(&mut self, keys: &mut Vec<ConnectionKey>) {
        keys.append(&mut self.unserved);
    }

    /// Bytes that are still to come of a packet of which some are here.
    pub fn missing_bytes(&self, key: ConnectionKey) -> usize {
        let Some(index) = self.clients.index(key) else { return 0 };
        let input = self.clients.input(index);
        announced_bytes(input).map_or(0, |bytes| bytes.saturating_sub(input.len()))
    }

    /// Goes on with what waits in a connection's input, because of something else than its turn.
    fn resume(&mut self, index: ConnectionIndex, now: TimeMs) {
        self.resume_for(index, WORK_AT_ONCE, now);
    }

    /// The same for so much work. Returns how much of it is left.
    fn resume_for(&mut self, index: ConnectionIndex, may: isize, now: TimeMs) -> isize {
        let key = self.clients.key(index);
        self.clients.connections[index].flags.clear(Flags::UNSERVED);
        let mut input = self.clients.take_input(index);
        let (taken, left) = self.process(key, &input, may, now);
        assert!(taken <= input.len(), "no more is done with than there was");
        input.drain(..taken);
        self.keep_input(key, input, left);
        left
    }

    /// Puts back what could not be processed, if its connection is still there to process it. `left` is what it might
    /// still have done.
    fn keep_input(&mut self, key: ConnectionKey, input: Vec<u8>, left: isize) {
        let Some(index) = self.clients.index(key) else { return };
        if input.is_empty() || self.clients.connections[index].state == ConnectionState::Closing {
            return;
        }
        self.clients.put_input(index, input);
        // A packet that waits for an answer is resumed by it, part of a packet by the rest; a whole one that waits for
        // better times is looked at in each step, and one that waits for its turn when that comes.
        let connection = &self.clients.connections[index];
        if connection.is_parked()
            || connection.flags.has(Flags::STALLED)
            || connection.state == ConnectionState::Authenticating
        {
            return;
        }
        let is_blocked = self.is_blocked(index);
        // What is malformed is nothing to wait for, either.
        let is_whole = split(self.clients.input(index), self.packet_bytes_max(index)) != Ok(Split::NeedMore);
        if is_whole && left <= 0 && !is_blocked {
            self.clients.connections[index].flags.set(Flags::UNSERVED);
            self.unserved.push(key);
        } else if is_whole || is_blocked {
            self.clients.connections[index].flags.set(Flags::STALLED);
            self.stalled.push_back(key);
        }
    }

    /// Takes whole packets from `bytes` as long as the connection may go on. Returns how many bytes are done with, and
    /// how much is left of `may`.
    fn process(&mut self, key: ConnectionKey, bytes: &[u8], may: isize, now: TimeMs) -> (usize, isize) {
        let (mut taken, mut left) = (0, may);
        while let Some(index) = self.clients.index(key) {
            if left <= 0 || self.is_blocked(index) {
                break;
            }
            let rest = &bytes[taken..];
            let length = match split(rest, self.packet_bytes_max(index)) {
                Ok(Split::NeedMore) => break,
                Ok(Split::Packet(length)) => length,
                Err(malformed) => {
                    self.malformed(index, malformed, now);
                    break;
                }
            };
            assert!(length > 0 && length <= rest.len(), "a whole packet is among what was received");
            let before = (self.clients.facts.publish_sent, self.tickets);
            let progress = self.packet(index, &rest[..length], rest, now);
            let copies = (self.clients.facts.publish_sent - before.0) as isize;
            let requests = (self.tickets - before.1) as isize;
            left -= work_of(&rest[..length]) + copies / RECEIVERS_PER_WORK + requests * WORK_OF_REQUEST;
            match progress {
                Progress::Taken => taken += length,
                Progress::Parked | Progress::Gone => break,
            }
        }
        assert!(taken <= bytes.len(), "no more is done with than there was");
        (taken, left)
    }

    /// One whole packet.
    fn packet(&mut self, index: ConnectionIndex, packet: &[u8], rest: &[u8], now: TimeMs) -> Progress {
        let connection = &mut self.clients.connections[index];
        match connection.state {
            ConnectionState::AwaitingConnect => {
                self.clients.facts.messages_received += 1;
                return self.receive_connect(index, packet, rest, now);
            }
            ConnectionState::Opening => return self.attach(index, packet, now),
            ConnectionState::Connected => {}
            ConnectionState::Vacant | ConnectionState::Authenticating | ConnectionState::Closing => {
                return Progress::Parked;
            }
        }
        connection.last_seen_s = connect::seconds(now);
        let packet = match decode_client(packet, connection.version) {
            Ok(packet) => packet,
            Err(malformed) => {
                self.malformed(index, malformed, now);
                return Progress::Gone;
            }
        };
        let progress = self.dispatch(index, &packet, now);
        self.clients.facts.messages_received += u64::from(progress == Progress::Taken);
        progress
    }

    fn dispatch(&mut self, index: ConnectionIndex, packet: &Packet<'_>, now: TimeMs) -> Progress {
        match packet {
            Packet::Publish(publish) => return self.publish(index, publish, now),
            Packet::PubAck(ack) => self.puback(index, ack, now),
            Packet::PubRec(ack) => self.pubrec(index, ack, now),
            Packet::PubRel(ack) => return self.pubrel(index, ack, now),
            Packet::PubComp(ack) => self.pubcomp(index, ack, now),
            Packet::Subscribe(subscribe) => return self.subscribe(index, subscribe, now),
            Packet::Unsubscribe(unsubscribe) => return self.unsubscribe(index, unsubscribe, now),
            // [MQTT-3.12.4-1]: PINGREQ is answered with PINGRESP.
            Packet::PingReq => self.clients.send(index, now, |bytes| {
                encode_pingresp(bytes);
            }),
            Packet::Disconnect(goodbye) => {
                self.client_disconnect(index, goodbye, now);
                return Progress::Gone;
            }
            // [MQTT-4.12.1-1]: re-authentication uses the Authentication Method of CONNECT.
            // No authentication was begun here that AUTH could continue.
            Packet::Auth(_) => self.protocol_error(index, ReasonCode::PROTOCOL_ERROR, now),
            // [MQTT-3.1.0-2]: a second CONNECT ends the connection.
            // All other packets are sent by servers only.
            _ => self.protocol_error(index, ReasonCode::PROTOCOL_ERROR, now),
        }
        Progress::Taken
    }

    /// Which watched filters got their first subscription or lost their last since the last call, in order.
    pub fn take_watched(&mut self) -> Vec<WatchedFilter> {
        self.trie.take_watched()
    }

    /// Takes a message of another worker's broker. Messages of one broker must come in their order.
    pub fn deliver(&mut self, from: u16, message: BrokerMessage, now: TimeMs) {
        let BrokerMessage { items, receivers } = message;
        assert!(from != self.options.worker && from < self.options.workers(), "another worker has said it");
        let mut receivers = &receivers[..];
        for item in items {
            match item {
                Item::ReplicaComplete => self.peers.complete(from),
                Item::Subscribed { filter, entry } => {
                    assert!(u16::from(entry.worker) == from, "a worker tells of its own sessions");
                    let parts = check_filter(&filter).expect("its own worker has checked it");
                    self.trie.insert(parts.share_group, parts.filter, entry);
                }
                Item::Unsubscribed { filter, owner } => {
                    assert!(u16::from(owner.worker) == from, "a worker tells of its own sessions");
                    let parts = check_filter(&filter).expect("its own worker has checked it");
                    let removed = self.trie.remove(parts.share_group, parts.filter, owner);
                    assert!(removed.is_some(), "what is removed was told before");
                }
                Item::Presence { filter, owner, online } => {
                    assert!(u16::from(owner.worker) == from, "a worker tells of its own sessions");
                    let parts = check_filter(&filter).expect("its own worker has checked it");
                    let node = self.trie.find(parts.share_group, parts.filter);
                    let is_known = node.is_some_and(|node| self.trie.set_online(node, owner, online));
                    assert!(is_known, "a member that comes and goes was told of before");
                }
                Item::Publish { message, receivers: count, picked, may_repeat, source } => {
                    assert!((count + picked) as usize <= receivers.len(), "receivers come with their message");
                    let (of_item, others) = receivers.split_at((count + picked) as usize);
                    let (of_item, picked) = of_item.split_at(count as usize);
                    receivers = others;
                    self.publish_from_peer(&message, of_item, picked, may_repeat, &source, now);
                }
                Item::Ack { ticket, reason } => self.take_ack(ticket, reason, now),
                Item::Retain { message, source } => self.retain_here(message, source, now),
                Item::NotRetained { message, source } => self.retain_ends(&source, message.topic()),
                Item::Retained { message, picked, source } => self.set_retained(&message, &picked, source, now),
                Item::Recovered { message } => {
                    self.retained.set(message.topic(), RetainedMessage(Arc::clone(&message)));
                }
                Item::Delay { message, at, source } => self.delay_here(message, at, &source),
                Item::ForgetOrigin { origin, ack_to } => self.forget_origin_for_peer(origin, ack_to, now),
                Item::ForgetOrigins { shard, incarnation } => self.forget_origins_here(shard, incarnation),
            }
        }
        assert!(receivers.is_empty(), "each receiver belongs to a message");
        self.run_deferred_disconnects(now);
    }

    /// The message to `worker` since the last call; call it only if the ring to it has room.
    pub fn take_batch(&mut self, worker: u16) -> Option<BrokerMessage> {
        assert!(worker < self.options.workers(), "a worker is one of all");
        self.peers.take(worker)
    }

    /// Everything that does not come from a socket: shards, timers, parked packets. Returns whether there is more to do
    /// at once.
    pub fn step(&mut self, now: TimeMs) -> bool {
        let mut worked = self.step_shards(now);
        self.step_due(now);
        self.step_delayed(now);
        self.step_sweep(now);
        self.step_drain(now);
        self.step_stalled(now);
        worked |= self.step_unserved(now);
        worked |= self.step_scans(now);
        self.step_expired(now);
        self.step_feeds(now);
        self.step_sys(now);
        self.run_deferred_disconnects(now);
        // What was asked of the shards in this step is submitted in this step.
        worked |= self.step_shards(now);
        // A shard may have failed just now.
        self.run_deferred_disconnects(now);
        self.publish_facts(now);
        worked
    }

    fn publish_facts(&mut self, now: TimeMs) {
        let pressure_bytes = self.clients.outboxes.pressure_bytes(now);
        self.clients.facts.retained = self.retained.len() as u64;
        let (mut messages, mut bytes) = (0, 0);
        for shard in self.shards.as_slice() {
            let facts = shard.state_ahead().facts();
            messages += facts.inbox_messages;
            bytes += facts.bodies_bytes + facts.retained_bytes;
        }
        (self.clients.facts.store_messages, self.clients.facts.store_bytes) = (messages, bytes);
        self.options.facts.publish(self.options.worker, &self.clients.facts, pressure_bytes);
        let is_full = self.shards.are_full();
        let is_behind = self.peers.waiting_max() > PEER_ITEMS_MAX;
        self.is_pressed =
            is_full || is_behind || self.options.facts.pressure_bytes() > self.options.limits.pressure_bytes_max;
    }

    /// Disconnects the clients whose disconnection was deferred.
    fn run_deferred_disconnects(&mut self, now: TimeMs) {
        while let Some((key, reason)) = self.deferred_disconnects.pop() {
            if let Some(index) = self.clients.index(key) {
                self.disconnect(index, reason, now);
            }
        }
    }

    /// Takes what the shell has to do.
    pub fn actions(&mut self) -> impl Iterator<Item = Action> + '_ {
        self.actions.drain(..)
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
        self.clients.sent(index, count, now);
        let Some(place) = self.clients.connections[index].session else { return };
        assert!(self.clients.sessions[place].connection == Some(index), "connection and session point to each other");
        if self.clients.sessions[place].stage == Stage::Live && self.may_have_more(place) {
            self.pump(place, now);
        }
    }

    /// Whether something may wait for the outbox of a session.
    fn may_have_more(&self, place: SessionIndex) -> bool {
        let session = &self.clients.sessions[place];
        session.slot.is_some()
            || self.has_feeds(place)
            || session.flow.as_ref().is_some_and(|flow| !flow.backlog.is_empty())
    }

    /// Whether the shell should read from this connection now. A `no` may become a `yes` with any call of
    /// [`Broker::step`].
    pub fn may_read(&self, key: ConnectionKey) -> bool {
        self.clients.index(key).is_some_and(|index| !self.is_blocked(index))
    }

    /// Asks for the rights of every connected user again; `None`: the user is gone, and its clients are disconnected.
    pub fn reload(&mut self, again: &mut Again<'_>, now: TimeMs) {
        let renewed: HashMap<RightsIndex, Option<Arc<dyn Rights>>> =
            self.rights.held().map(|(place, rights)| (place, again(&**rights))).collect();
        for index in (0..self.clients.connections.reached()).map(ConnectionIndex::new) {
            let connection = &mut self.clients.connections[index];
            let Some(before) = connection.rights else { continue };
            assert!(connection.state != ConnectionState::Vacant, "nobody has no rights");
            match renewed.get(&before) {
                Some(Some(rights)) => {
                    connection.rights = Some(self.rights.hold(Arc::clone(rights)));
                    let session = connection.session;
                    self.rights.release(before);
                    if let Some(session) = session
                        && self.clients.connections[index].state == ConnectionState::Connected
                    {
                        self.remove_forbidden(session);
                        // What was read of them was read with the rights before.
                        self.open_feeds(session);
                    }
                }
                _ => self.disconnect(index, ReasonCode::NOT_AUTHORIZED, now),
            }
        }
    }

    /// The rights of an admitted connection.
    fn rights_of(&self, index: ConnectionIndex) -> &Arc<dyn Rights> {
        self.rights.get(self.clients.connections[index].rights.expect("who was admitted has rights"))
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

/// What it is worth to process a packet, without the copies and requests that it becomes.
fn work_of(packet: &[u8]) -> isize {
    let bytes_per_work = if lists_filters(packet) { FILTER_BYTES_PER_WORK } else { BYTES_PER_WORK };
    1 + (packet.len() / bytes_per_work) as isize
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
