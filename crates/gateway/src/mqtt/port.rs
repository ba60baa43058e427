//! All MQTT clients of one worker: from readable sockets to its broker, from its broker to written sockets.
//!
//! ```text
//!   listeners ─▶ Admission ─▶ open ─┐
//!   arrivals (hand-off, WebSocket) ─┤
//!   readable sockets ─▶ read ─▶ rings drained ─▶ Broker::receive ─▶ step ─▶ actions ─▶ batches ─▶ rings
//!   written sockets ◀── write ◀── Broker::unsent ◀──────────────────────────────────────────────┘ room in all rings
//! ```
//!
//! Promise: what a client heard, every worker knows. Nothing is written while a ring to another worker is full, and the rings are
//! drained between reading from a socket and looking at what was read.

mod accept;
mod actions;
mod write;

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use tidegate_broker::{Action, Broker, ConnectionKey, ConnectionTraits, DrainPlan, SharedFacts};
use tidegate_journal::LogStore;
use tidegate_ledger::message::{Reply, Request};
use tidegate_ledger::operation::Message;
use tidegate_machines::ledger::AccountView;
use tidegate_machines::{ShardIndex, TimeMs};

use self::accept::Door;
use super::Arrival;
use super::admission::Admission;
use super::metrics::{BrokerMetrics, MqttMetrics};
use super::overload::Overload;
use super::settings::{MqttAuthenticator, MqttSettings};
use super::sockets::{Flag, Socket, Sockets};
use super::verdicts::Verdicts;
use crate::ledger_topics::{LedgerAnswer, LedgerTopics};
use crate::mesh::Endpoint;
use crate::parcel::Parcel;
use crate::stream::Scratch;

/// Tokens of sockets have this bit; below it stands their place in the table.
const SOCKETS: usize = 1 << 62;
/// Tokens of listeners have this one; below it stands their number.
const LISTENERS: usize = 1 << 61;
/// Bytes that one client may fill a read with.
const READ_BYTES_MAX: usize = 64 << 10;
/// Bytes read in one turn, at most; and at least, when each of them becomes thousands.
const TURN_BYTES_MAX: usize = 1 << 20;
const TURN_BYTES_MIN: usize = 2 << 10;
/// A turn that wrote more than this reads half as much next time; one that wrote less than a quarter, twice as much.
const TURN_WRITTEN_MAX: usize = 4 << 20;
/// A read costs at least as much as so many bytes.
const READ_COST_BYTES: usize = 64;
/// How long a worker sleeps while a client with something to read may not be read: another worker may change that.
pub const PAUSED_TICK: Duration = Duration::from_millis(1);

/// What the port needs of the worker that it lives on.
pub trait Host {
    /// A message for the shards.
    fn deliver(&mut self, message: Message);
    /// A request to the shards; its reply comes to [`MqttPort::reply`] with `token`.
    fn start(&mut self, token: u64, request: Request);
    /// Whether another request may start.
    fn has_room(&self) -> bool;
}

/// The MQTT clients of one worker.
pub struct MqttPort<L: LogStore> {
    worker: u16,
    workers: u16,
    broker: Broker<L>,
    sockets: Sockets,
    doors: Vec<Door>,
    admission: Arc<Admission>,
    overload: Overload,
    authenticator: Arc<dyn MqttAuthenticator>,
    settings: MqttSettings,
    /// By which configuration the rights of all clients were given.
    generation: u64,
    facts: Arc<SharedFacts>,
    verdicts: Verdicts,
    ledger: LedgerTopics,
    arrivals: VecDeque<Box<Arrival>>,
    /// Places of sockets that may have something to read, each once.
    ready: Vec<u32>,
    /// Places of sockets that may take something again.
    writable: Vec<u32>,
    flushable: Vec<ConnectionKey>,
    closing: Vec<ConnectionKey>,
    /// Closed, but what the client sent last was not read: a socket dropped so would take back what we said last.
    lingering: VecDeque<(Instant, TcpStream)>,
    actions: Vec<Action>,
    scratch: Scratch,
    /// Bytes that the next turn may read.
    turn_bytes: usize,
    longest_turn: Duration,
    metrics: MqttMetrics,
    broker_metrics: BrokerMetrics,
}

impl<L: LogStore> MqttPort<L> {
    /// A port over `broker`. `listeners` are this worker's, in the order of the settings.
    #[expect(clippy::too_many_arguments, reason = "one worker's share of everything")]
    pub fn new(
        worker: u16,
        workers: u16,
        broker: Broker<L>,
        listeners: Vec<std::net::TcpListener>,
        settings: MqttSettings,
        admission: Arc<Admission>,
        facts: Arc<SharedFacts>,
        authenticator: Arc<dyn MqttAuthenticator>,
        verdicts: Verdicts,
        ledger: LedgerTopics,
        metrics: MqttMetrics,
        broker_metrics: BrokerMetrics,
    ) -> MqttPort<L> {
        let doors = listeners.into_iter().enumerate().map(|(number, listener)| Door::new(number, listener)).collect();
        MqttPort {
            worker,
            workers,
            broker,
            sockets: Sockets::default(),
            doors,
            admission,
            overload: Overload::new(settings.admission.turn_ms_max, settings.limits.pressure_bytes_max),
            generation: authenticator.generation(),
            authenticator,
            facts,
            settings,
            verdicts,
            ledger,
            arrivals: VecDeque::new(),
            ready: Vec::new(),
            writable: Vec::new(),
            flushable: Vec::new(),
            closing: Vec::new(),
            lingering: VecDeque::new(),
            actions: Vec::new(),
            scratch: Scratch::new(),
            turn_bytes: TURN_BYTES_MAX,
            longest_turn: Duration::ZERO,
            metrics,
            broker_metrics,
        }
    }

    /// Whether a token of the worker's poll is one of this port.
    pub fn owns(token: Token) -> bool {
        token.0 & (SOCKETS | LISTENERS) != 0
    }

    /// A socket has something to read, or room to write, or a client waits before a listener.
    pub fn on_event(&mut self, event: &mio::event::Event) {
        let token = event.token().0;
        if token & LISTENERS != 0 {
            if let Some(door) = self.doors.get_mut(token & !LISTENERS) {
                door.somebody_waits();
            }
            return;
        }
        let index = (token & !SOCKETS) as u32;
        let Some((_, socket)) = self.sockets.at(index) else { return };
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            socket.set(Flag::READABLE, true);
            if !socket.replace(Flag::LISTED, true) {
                self.ready.push(index);
            }
        }
        if event.is_writable() && socket.has(Flag::BLOCKED) {
            self.writable.push(index);
        }
    }

    /// Takes the parcels that have come by the rings.
    pub fn take_parcels(&mut self, host: &mut impl Host, endpoint: &mut Endpoint<Parcel>, now: TimeMs) -> bool {
        let (broker, arrivals) = (&mut self.broker, &mut self.arrivals);
        endpoint.receive(|from, parcel| match parcel {
            Parcel::Shard(message) => host.deliver(message),
            Parcel::Topics(message) => broker.deliver(from.0, message, now),
            Parcel::Connection(arrival) => arrivals.push_back(arrival),
        })
    }

    /// Takes new clients, and reads from all that may be read, up to a turn's worth. Returns whether there was anything.
    pub fn serve(
        &mut self,
        host: &mut impl Host,
        endpoint: &mut Endpoint<Parcel>,
        registry: &Registry,
        now: TimeMs,
    ) -> bool {
        let mut worked = false;
        if self.broker.is_serving() {
            worked |= self.accept(registry, now);
            while let Some(arrival) = self.arrivals.pop_front() {
                worked = true;
                self.take_parcels(host, endpoint, now);
                self.adopt(*arrival, registry, now);
            }
        }
        let mut left = self.turn_bytes;
        for index in std::mem::take(&mut self.ready) {
            let Some((key, socket)) = self.sockets.at(index) else { continue };
            if left == 0 || !self.broker.may_read(key) {
                self.ready.push(index);
                continue;
            }
            worked = true;
            self.metrics.reads.increment();
            match socket.stream.read(&mut self.scratch, READ_BYTES_MAX.min(left.max(READ_COST_BYTES))) {
                Err(_) => self.lose(key, now),
                Ok(heard) => {
                    socket.set(Flag::READABLE, heard.more);
                    socket.set(Flag::LISTED, heard.more);
                    if heard.more {
                        self.ready.push(index);
                    }
                    // Between reading and looking: all that the client may have heard of elsewhere is known here now.
                    self.take_parcels(host, endpoint, now);
                    let bytes = self.scratch.bytes(&heard);
                    left = left.saturating_sub(bytes.len().max(READ_COST_BYTES));
                    if !bytes.is_empty() {
                        self.broker.receive(key, bytes, now);
                    }
                    if heard.ended {
                        self.lose(key, now);
                    }
                }
            }
        }
        worked
    }

    /// A connection that comes from another worker or from the HTTP door.
    fn adopt(&mut self, arrival: Arrival, registry: &Registry, now: TimeMs) {
        let Arrival { stream, listener, mark, refusal, bytes } = arrival;
        let socket = Socket::new(stream, listener, mark, refusal);
        if let Some(key) = self.admit(socket, registry, now) {
            if !bytes.is_empty() {
                self.broker.receive(key, &bytes, now);
            }
            // What its layers have read already causes no event; what stands in the socket does.
            if let Some(socket) = self.sockets.get(key).filter(|socket| socket.stream.is_ahead()) {
                socket.set(Flag::READABLE, true);
                if !socket.replace(Flag::LISTED, true) {
                    self.ready.push(key.index);
                }
            }
        }
    }

    /// Gives a socket to the broker and the poll.
    fn admit(&mut self, mut socket: Socket, registry: &Registry, now: TimeMs) -> Option<ConnectionKey> {
        let (listener, mark) = (socket.listener, socket.mark);
        // The WebSocket door, which is behind the listeners, takes packets of any size that the broker takes.
        let packet_bytes_max =
            self.settings.listeners.get(usize::from(listener.0)).map_or(0, |listener| listener.packet_bytes_max);
        let Some(key) = self.broker.open(ConnectionTraits { packet_bytes_max }, now) else {
            self.metrics.turned_away.increment("limit");
            self.admission.leave(listener, mark);
            return None;
        };
        let fd = socket.stream.socket().as_raw_fd();
        if registry.register(&mut SourceFd(&fd), Token(SOCKETS | key.index as usize), Interest::READABLE).is_err() {
            self.broker.closed(key, now);
            self.admission.leave(listener, mark);
            return None;
        }
        self.sockets.insert(key, socket);
        Some(key)
    }

    /// The client is gone.
    fn lose(&mut self, key: ConnectionKey, now: TimeMs) {
        self.broker.closed(key, now);
        if let Some(socket) = self.sockets.remove(key) {
            self.admission.leave(socket.listener, socket.mark);
        }
    }

    /// Everything that does not come from a socket: verdicts, shards, timers; then what the broker asks for, tells its peers, and has
    /// for its clients. Returns whether there was anything.
    pub fn step(
        &mut self,
        host: &mut impl Host,
        endpoint: &mut Endpoint<Parcel>,
        registry: &Registry,
        now: TimeMs,
    ) -> bool {
        let mut worked = false;
        while let Some((key, verdict)) = self.verdicts.take() {
            worked = true;
            self.broker.verdict(key, verdict, now);
        }
        worked |= self.broker.step(now);
        worked |= self.act(host, endpoint, registry, now);
        let (clear, told) = self.tell_peers(endpoint);
        worked |= told;
        if clear {
            worked |= self.flush(registry, now);
        }
        worked
    }

    /// Sends what the broker has for its peers. Whether all rings had room, and whether there was anything.
    fn tell_peers(&mut self, endpoint: &mut Endpoint<Parcel>) -> (bool, bool) {
        let (mut clear, mut told) = (true, false);
        for peer in (0..self.workers).filter(|peer| *peer != self.worker) {
            let to = tidegate_ledger::operation::EndpointIndex(peer);
            if !endpoint.has_room(to) {
                clear = false;
            } else if let Some(batch) = self.broker.take_batch(peer) {
                told = true;
                endpoint.send(&mut vec![(to, batch)]);
            }
        }
        (clear, told)
    }

    /// A reply of the shards to a request of this port.
    pub fn reply(&mut self, host: &mut impl Host, token: u64, reply: Reply, now: TimeMs) {
        if let Some(answer) = self.ledger.reply(token, reply, &mut |token, request| host.start(token, request)) {
            self.answer(answer, now);
        }
    }

    fn answer(&mut self, answer: LedgerAnswer, now: TimeMs) {
        match answer {
            LedgerAnswer::Transfer { ticket, body } => self.broker.respond(ticket, Ok(&body), now),
            LedgerAnswer::Collector { key, account, is_collector } => {
                self.broker.confirm(key, &account, is_collector, now);
            }
        }
    }

    /// New figures of an account, to be announced on its topic.
    pub fn announce(&mut self, shard: ShardIndex, account: AccountView, now: TimeMs) {
        if let Some((topic, payload)) = self.ledger.announcement(shard, account) {
            self.broker.announce(&topic, &payload, true, now);
        }
    }

    /// What is done now and then.
    pub fn tick(&mut self, now: Instant, wall: TimeMs) {
        let authenticator = &self.authenticator;
        let generation = authenticator.generation();
        if std::mem::replace(&mut self.generation, generation) != generation {
            self.broker.reload(&mut |rights| authenticator.renew(rights), wall);
        }
        self.doors.iter_mut().for_each(Door::look_again);
        self.end_lingering(now);
        let longest_turn = std::mem::take(&mut self.longest_turn);
        let overloaded = self.overload.observe(longest_turn, self.facts.pressure_bytes(), now);
        self.admission.set_overloaded(self.worker, overloaded);
        self.metrics.sockets_open.set(self.sockets.len() as i64);
        self.broker_metrics.observe(&self.broker.facts());
    }

    /// How long a turn of the worker took.
    pub fn observe_turn(&mut self, took: Duration) {
        self.longest_turn = self.longest_turn.max(took);
    }

    /// Registers the listening sockets.
    pub fn register(&mut self, registry: &Registry) -> io::Result<()> {
        self.doors.iter_mut().try_for_each(|door| door.register(registry))
    }

    /// Takes no more clients.
    pub fn stop_listening(&mut self) {
        self.doors.clear();
    }

    /// Sends clients away, so many per second over all workers.
    pub fn drain(&mut self, per_second: u32, now: TimeMs) {
        let plan = DrainPlan {
            per_second: per_second.div_ceil(u32::from(self.workers)),
            server_reference: self.settings.drain.server_reference.clone(),
        };
        self.broker.drain(plan, now);
    }

    /// Whether nobody is connected and nothing is asked of the ledger any more.
    pub fn is_quiet(&self) -> bool {
        self.sockets.len() == 0 && self.arrivals.is_empty() && self.ledger.is_quiet()
    }

    /// Whether nothing waits for a journal.
    pub fn is_idle(&self) -> bool {
        self.broker.is_idle()
    }

    /// Whether there is something to do that the next turn can do.
    pub fn has_work(&mut self) -> bool {
        let Self { broker, sockets, ready, .. } = self;
        let readable = ready.iter().any(|index| sockets.at(*index).is_some_and(|(key, _)| broker.may_read(key)));
        readable
            || self.verdicts.has_news()
            || self.broker.has_news()
            || self.broker.is_serving() && (!self.arrivals.is_empty() || self.doors.iter().any(Door::has_more))
    }

    /// Whether clients have something to read that may not be read now.
    pub fn has_paused(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The broker, for who watches its shards.
    pub fn broker(&self) -> &Broker<L> {
        &self.broker
    }

    /// The broker, to be changed.
    pub fn broker_mut(&mut self) -> &mut Broker<L> {
        &mut self.broker
    }

    /// Gives the broker back, to close the logs of its shards.
    pub fn into_broker(self) -> Broker<L> {
        self.broker
    }
}

#[cfg(test)]
mod tests;
