//! All MQTT clients of one worker: reads from their sockets into its broker, and writes from its broker to them.
//!
//! ```text
//!   listeners ─▶ Admission ─▶ open ─┐
//!   arrivals (hand-off, WebSocket) ─┤
//!   readable sockets ─▶ read ─▶ rings drained ─▶ Broker::receive ─▶ step ─▶ actions ─▶ batches ─▶ rings
//!   written sockets ◀── write ◀── Broker::unsent ◀──────────────────────────────────────────────┘ room in all rings
//! ```
//!
//! Promise: what a client was told, every worker knows. Nothing is written to clients while a ring to another worker is
//! full. The rings are drained between reading from a socket and decoding what was read.

mod accept;
mod actions;
mod write;

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::Interest;
use mio::unix::SourceFd;
use tidegate_broker::{
    Action, Broker, BrokerMessage, ConnectionKey, ConnectionTraits, DrainPlan, ReasonCode, SharedFacts, TOPICS,
};
use tidegate_journal::LogStore;
use tidegate_ledger::message::Reply;
use tidegate_ledger::operation::Message;
use tidegate_ledger::router::Router;
use tidegate_machines::ledger::AccountView;
use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_runtime::metrics::UNRECORDED;
use tidegate_runtime::{Address, Asker, Carries, Context, Port, PortSockets, Resident, ShardMetrics};

use self::accept::Door;
use super::Arrival;
use super::admission::Admission;
use super::metrics::{BrokerMetrics, MqttMetrics};
use super::overload::Overload;
use super::settings::{MqttAuthenticator, MqttSettings};
use super::sockets::{Flag, Socket, Sockets};
use super::verdicts::Verdicts;
use crate::ledger_topics::{LedgerAnswer, LedgerTopics};
use crate::stream::Scratch;

/// Tokens of sockets have this bit; below it stands their place in the table.
const SOCKETS: usize = 1 << 55;
/// Tokens of listeners have this one; below it stands their number.
const LISTENERS: usize = 1 << 54;
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
const PAUSED_TICK: Duration = Duration::from_millis(1);

/// Parcels that can carry all that an MQTT port sends and gets.
pub trait CarriesMqtt: Carries<BrokerMessage> + Carries<Message> + Carries<Box<Arrival>> {}

impl<P: Carries<BrokerMessage> + Carries<Message> + Carries<Box<Arrival>>> CarriesMqtt for P {}

/// The MQTT clients of one worker.
pub struct MqttPort<L: LogStore> {
    /// The ports of other workers have the same number on theirs.
    me: Address,
    workers: u16,
    broker: Broker<L>,
    /// Of the broker's shards, in their order.
    shard_metrics: Vec<ShardMetrics>,
    sockets: Sockets,
    /// The worker's poll, once it runs.
    poll: Option<PortSockets>,
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
    /// Asks the ledger.
    asker: Asker<Router>,
    /// New figures of accounts, to be announced.
    figures: Vec<(ShardIndex, AccountView)>,
    arrivals: VecDeque<Box<Arrival>>,
    /// Places of sockets that may have something to read, each once.
    ready: Vec<u32>,
    /// Places of sockets that may take something again.
    writable: Vec<u32>,
    flushable: Vec<ConnectionKey>,
    closing: Vec<ConnectionKey>,
    /// Closed, but the client's last bytes were not read. If such a socket were dropped, the kernel would reset the
    /// connection, and the client might lose the last packets sent to it.
    lingering: VecDeque<(Instant, TcpStream)>,
    actions: Vec<Action>,
    scratch: Scratch,
    /// Bytes that the next turn may read.
    turn_bytes: usize,
    longest_turn: Duration,
    metrics: MqttMetrics,
    broker_metrics: BrokerMetrics,
}

/// What one worker's port is made of.
pub struct MqttParts<L: LogStore> {
    /// Where it lives.
    pub me: Address,
    /// Workers of the node.
    pub workers: u16,
    /// Its broker, over the shards of its worker.
    pub broker: Broker<L>,
    /// What these are counted with, in their order.
    pub shard_metrics: Vec<ShardMetrics>,
    /// Its sockets of the listeners, in the order of the settings.
    pub listeners: Vec<std::net::TcpListener>,
    /// What it is told.
    pub settings: MqttSettings,
    /// The counts of all clients.
    pub admission: Arc<Admission>,
    /// What all brokers count.
    pub facts: Arc<SharedFacts>,
    /// Who decides on clients.
    pub authenticator: Arc<dyn MqttAuthenticator>,
    /// What it says later.
    pub verdicts: Verdicts,
    /// The ledger on topics.
    pub ledger: LedgerTopics,
    /// Asks the ledger.
    pub router: Router,
    /// What the port counts.
    pub metrics: MqttMetrics,
    /// What its broker counts.
    pub broker_metrics: BrokerMetrics,
}

impl<L: LogStore> MqttPort<L> {
    /// A port of these parts.
    pub fn new(parts: MqttParts<L>) -> MqttPort<L> {
        let MqttParts { me, settings, authenticator, broker, shard_metrics, .. } = parts;
        assert!(broker.shards().len() == shard_metrics.len(), "each shard has its metrics");
        let doors = parts.listeners.into_iter().enumerate();
        MqttPort {
            me,
            workers: parts.workers,
            broker,
            shard_metrics,
            sockets: Sockets::default(),
            poll: None,
            doors: doors.map(|(number, listener)| Door::new(number, listener)).collect(),
            admission: parts.admission,
            overload: Overload::new(settings.admission.turn_ms_max, settings.limits.pressure_bytes_max),
            generation: authenticator.generation(),
            authenticator,
            facts: parts.facts,
            settings,
            verdicts: parts.verdicts,
            ledger: parts.ledger,
            asker: Asker::new(me, parts.router),
            figures: Vec::new(),
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
            metrics: parts.metrics,
            broker_metrics: parts.broker_metrics,
        }
    }

    /// The worker's poll.
    fn poll(&self) -> &PortSockets {
        self.poll.as_ref().expect("a port is registered before it serves")
    }

    /// Takes the parcels for this port that have come by the rings.
    fn take_parcels<P: CarriesMqtt>(&mut self, context: &mut Context<'_, P>) {
        let now = context.now();
        context.drain_rings(|from, body| self.take_parcel(from, body, now));
    }

    fn take_parcel<P: CarriesMqtt>(&mut self, from: Address, body: P, now: TimeMs) {
        let body = match Carries::<BrokerMessage>::unpack(body) {
            Ok(message) => return self.broker.deliver(from.endpoint.0, message, now),
            Err(other) => other,
        };
        let body = match Carries::<Message>::unpack(body) {
            Ok(Message::Figures { shard, accounts }) => {
                return self.figures.extend(accounts.into_inner().into_iter().map(|account| (shard, account)));
            }
            Ok(message) => return self.asker.deliver(from, message),
            Err(other) => other,
        };
        match Carries::<Box<Arrival>>::unpack(body) {
            Ok(arrival) => self.arrivals.push_back(arrival),
            Err(_) => unreachable!("everything else is for others"),
        }
    }

    /// Takes new clients: from listeners, and from other workers or the HTTP door.
    fn take_clients<P: CarriesMqtt>(&mut self, context: &mut Context<'_, P>) -> bool {
        if !self.broker.is_serving() {
            return false;
        }
        let now = context.now();
        let mut worked = self.accept(now);
        while let Some(arrival) = self.arrivals.pop_front() {
            worked = true;
            self.take_parcels(context);
            self.adopt(*arrival, now);
        }
        worked
    }

    /// Reads from all sockets that may be read, up to a turn's worth.
    fn read_sockets<P: CarriesMqtt>(&mut self, context: &mut Context<'_, P>) -> bool {
        let (mut worked, mut left) = (false, self.turn_bytes);
        for index in std::mem::take(&mut self.ready) {
            let Some((key, _)) = self.sockets.at(index) else { continue };
            if left == 0 || !self.broker.may_read(key) {
                self.ready.push(index);
                continue;
            }
            worked = true;
            left = left.saturating_sub(self.read(index, key, left, context));
        }
        worked
    }

    /// Reads from one socket, at most about `left` bytes. Returns what that cost.
    fn read<P: CarriesMqtt>(
        &mut self,
        index: u32,
        key: ConnectionKey,
        left: usize,
        context: &mut Context<'_, P>,
    ) -> usize {
        let now = context.now();
        self.metrics.reads.increment();
        let (_, socket) = self.sockets.at(index).expect("it was looked at just now");
        let Ok(heard) = socket.stream.read(&mut self.scratch, READ_BYTES_MAX.min(left.max(READ_COST_BYTES))) else {
            self.lose(key, now);
            return READ_COST_BYTES;
        };
        socket.set(Flag::READABLE, heard.more);
        socket.set(Flag::LISTED, heard.more);
        if heard.more {
            self.ready.push(index);
        }
        // Drained between reading and decoding: this worker then knows all that the client may have learned from
        // another worker.
        self.take_parcels(context);
        let bytes = self.scratch.bytes(&heard);
        let cost = bytes.len().max(READ_COST_BYTES);
        if !bytes.is_empty() {
            self.broker.receive(key, bytes, now);
        }
        if heard.ended {
            self.lose(key, now);
        }
        cost
    }

    /// A connection that comes from another worker or from the HTTP door.
    fn adopt(&mut self, arrival: Arrival, now: TimeMs) {
        let Arrival { stream, listener, mark, refusal, bytes } = arrival;
        let socket = Socket::new(stream, listener, mark, refusal);
        if let Some(key) = self.admit(socket, now) {
            if !bytes.is_empty() {
                self.broker.receive(key, &bytes, now);
            }
            // Bytes that its layers have read already cause no event; bytes in the socket do.
            if let Some(socket) = self.sockets.get(key).filter(|socket| socket.stream.is_ahead()) {
                socket.set(Flag::READABLE, true);
                if !socket.replace(Flag::LISTED, true) {
                    self.ready.push(key.index);
                }
            }
        }
    }

    /// Gives a socket to the broker and the poll.
    fn admit(&mut self, mut socket: Socket, now: TimeMs) -> Option<ConnectionKey> {
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
        let token = SOCKETS | key.index as usize;
        if self.poll().register(&mut SourceFd(&fd), token, Interest::READABLE).is_err() {
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
        self.verdicts.forget(key);
        if let Some(socket) = self.sockets.remove(key) {
            self.admission.leave(socket.listener, socket.mark);
        }
    }

    /// Sends what the broker has for its peers. Whether all rings had room, and whether there was anything.
    fn tell_peers<P: CarriesMqtt>(&mut self, context: &mut Context<'_, P>) -> (bool, bool) {
        let (mut clear, mut told) = (true, false);
        for peer in (0..self.workers).filter(|peer| *peer != self.me.endpoint.0) {
            let to = Address::new(peer, self.me.member.0);
            if !context.has_room(to.endpoint) {
                clear = false;
            } else if let Some(batch) = self.broker.take_batch(peer) {
                told = true;
                context.send(to, P::pack(batch));
            }
        }
        if told {
            // The receivers work while this worker writes to its clients.
            context.wake_receivers();
        }
        (clear, told)
    }

    /// Tells the broker what the ledger replied, and what it announces.
    fn receive_from_ledger(&mut self, now: TimeMs) -> bool {
        let mut worked = false;
        while self.asker.has_replies() {
            worked = true;
            for (token, reply) in self.asker.take_replies() {
                self.reply(token, reply, now);
            }
        }
        for (shard, account) in std::mem::take(&mut self.figures) {
            worked = true;
            self.announce(shard, account, now);
        }
        self.follow_subscriptions(now) || worked
    }

    /// Lets the shards announce what somebody subscribes to, and clears what nobody does any more.
    fn follow_subscriptions(&mut self, now: TimeMs) -> bool {
        for change in self.broker.take_watched() {
            self.ledger.watched(&change);
        }
        if !self.ledger.has_changes() {
            return false;
        }
        for topic in self.ledger.take_unwanted() {
            self.broker.announce(&topic, &[], true, now);
        }
        let asker = &mut self.asker;
        if asker.has_room() {
            self.ledger.tell_wants(&mut |token, request| asker.start(token, request));
        }
        true
    }

    /// A reply of the shards to a request of this port.
    fn reply(&mut self, token: u64, reply: Reply, now: TimeMs) {
        let asker = &mut self.asker;
        if let Some(answer) = self.ledger.reply(token, reply, &mut |token, request| asker.start(token, request)) {
            self.answer(answer, now);
        }
    }

    fn answer(&mut self, answer: LedgerAnswer, now: TimeMs) {
        match answer {
            LedgerAnswer::Transfer { ticket, body, is_too_many } => {
                let reason = if is_too_many { ReasonCode::QUOTA_EXCEEDED } else { ReasonCode::SUCCESS };
                self.broker.respond(ticket, Some(&body), reason, now);
            }
            LedgerAnswer::Collector { key, account, is_collector } => {
                self.broker.confirm(key, &account, is_collector, now);
            }
        }
    }

    /// New figures of an account, to be announced on its topic.
    fn announce(&mut self, shard: ShardIndex, account: AccountView, now: TimeMs) {
        if let Some((topic, payload)) = self.ledger.announcement(shard, account) {
            self.broker.announce(&topic, &payload, true, now);
        }
    }

    /// Sends clients away, so many per second over all workers.
    fn send_away(&mut self, per_second: u32, now: TimeMs) {
        let plan = DrainPlan {
            per_second: per_second.div_ceil(u32::from(self.workers)),
            server_reference: self.settings.drain.server_reference.clone(),
        };
        self.broker.drain(plan, now);
    }
}

impl<P: CarriesMqtt, L: LogStore + Send> Resident<P> for MqttPort<L>
where
    Broker<L>: Send,
{
    fn deliver(&mut self, from: Address, body: P, context: &mut Context<'_, P>) {
        self.take_parcel(from, body, context.now());
    }

    fn has_news(&mut self) -> bool {
        let Self { broker, sockets, ready, .. } = self;
        let readable = ready.iter().any(|index| sockets.at(*index).is_some_and(|(key, _)| broker.may_read(key)));
        readable
            || self.verdicts.has_news()
            || self.broker.has_news()
            || self.broker.is_serving() && (!self.arrivals.is_empty() || self.doors.iter().any(Door::has_more))
    }

    fn is_quiet(&self) -> bool {
        self.sockets.len() == 0
            && self.arrivals.is_empty()
            && self.ledger.is_quiet()
            && self.asker.client().pending() == 0
    }

    fn is_idle(&self) -> bool {
        self.broker.is_idle()
    }

    fn failure(&self) -> Option<String> {
        let failed = self.broker.shards().iter().find_map(|shard| Some((shard.index(), shard.failure()?)));
        failed.map(|(shard, failure)| format!("{} shard {shard}: {failure}", TOPICS.name))
    }

    fn tick(&mut self, wall: TimeMs) {
        let (now, authenticator) = (Instant::now(), &self.authenticator);
        let generation = authenticator.generation();
        if std::mem::replace(&mut self.generation, generation) != generation {
            self.broker.reload(&mut |rights| authenticator.renew(rights), wall);
        }
        self.doors.iter_mut().for_each(Door::look_again);
        self.end_lingering(now);
        let longest_turn = std::mem::take(&mut self.longest_turn);
        let overloaded = self.overload.observe(longest_turn, self.facts.pressure_bytes(), now);
        self.admission.set_overloaded(self.me.endpoint.0, overloaded);
        self.metrics.sockets_open.set(self.sockets.len() as i64);
        self.broker_metrics.observe(&self.broker.facts());
        for (metrics, shard) in self.shard_metrics.iter().zip(self.broker.shards_mut()) {
            metrics.refusals.follow([(UNRECORDED, shard.service().unrecorded())]);
            metrics.observe(shard);
        }
    }

    fn close(self: Box<Self>) -> anyhow::Result<()> {
        for shard in self.broker.into_shards() {
            shard.into_log().close()?;
        }
        Ok(())
    }
}

impl<P: CarriesMqtt, L: LogStore + Send> Port<P> for MqttPort<L>
where
    Broker<L>: Send,
{
    fn register(&mut self, sockets: PortSockets) -> io::Result<()> {
        self.doors.iter_mut().try_for_each(|door| door.register(&sockets))?;
        self.poll = Some(sockets);
        Ok(())
    }

    fn on_event(&mut self, token: usize, event: &mio::event::Event) {
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

    /// Takes new clients, and reads from all that may be read, up to a turn's worth.
    fn serve(&mut self, context: &mut Context<'_, P>) -> bool {
        let took = self.take_clients(context);
        took | self.read_sockets(context)
    }

    /// Everything that does not come from a socket: verdicts, the ledger, shards, timers; then what the broker asks
    /// for, tells its peers, and has for its clients.
    fn flush(&mut self, context: &mut Context<'_, P>) -> bool {
        let now = context.now();
        let mut worked = self.receive_from_ledger(now);
        while let Some((key, verdict)) = self.verdicts.take() {
            worked = true;
            self.broker.verdict(key, verdict, now);
        }
        worked |= self.broker.step(now);
        worked |= self.act(context);
        self.asker.send(context);
        let (clear, told) = self.tell_peers(context);
        worked |= told;
        if clear {
            worked |= self.write_sockets(now);
        }
        worked
    }

    fn sleep_max(&self) -> Option<Duration> {
        (!self.ready.is_empty()).then_some(PAUSED_TICK)
    }

    fn observe_turn(&mut self, took: Duration) {
        self.longest_turn = self.longest_turn.max(took);
    }

    fn drain(&mut self, per_second: u32, now: TimeMs) {
        self.send_away(per_second, now);
    }

    fn stop_listening(&mut self, now: TimeMs) {
        self.doors.clear();
        self.send_away(self.settings.drain.per_second, now);
    }

    fn leave_time(&self) -> Duration {
        Duration::from_millis(self.settings.drain_timeout_ms)
    }

    fn disconnect_rest(&mut self, now: TimeMs) {
        self.send_away(u32::MAX, now);
    }
}

#[cfg(test)]
mod tests;
