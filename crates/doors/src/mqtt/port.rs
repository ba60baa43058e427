//! All MQTT clients of one worker: reads from their sockets into its broker, and writes from its broker to them.
//!
//! ```text
//!   listeners ─▶ Admission ─▶ open ─┐
//!   arrivals (hand-off, WebSocket) ─┤
//!   readable sockets ─▶ Turns ─▶ read ─▶ rings drained ─▶ Broker::serve ─▶ step ─▶ actions ─▶ batches ─▶ rings
//!   written sockets ◀── write ◀── Broker::unsent ◀──────────────────────────────────────────────┘ room in all rings
//! ```
//!
//! Promise: what a client was told, every worker knows. Nothing is written to clients while a ring to another worker is
//! full. The rings are drained between reading from a socket and decoding what was read.

mod accept;
mod actions;
mod certificates;
mod ledger;
mod operator;
mod pacer;
mod queues;
mod read;
mod shell;
mod write;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_broker::drive::{self, Driven};
use tidegate_broker::{Broker, BrokerMessage, ConnectionKey, DrainPlan, Holdings, Reloaded, SharedFacts, TOPICS};
use tidegate_journal::LogStore;
use tidegate_ledger::announcer::Announcement;
use tidegate_ledger::operation::Message;
use tidegate_ledger::router::Router;
use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_pacer::family::CampaignMessage;
use tidegate_queue::{QueueClient, QueueMessage};
use tidegate_runtime::metrics::UNRECORDED;
use tidegate_runtime::{Address, Asker, Carries, Context, Port, PortSockets, Resident, ShardMetrics};

use self::accept::Door;
use self::certificates::Certificates;
use self::operator::Operators;
pub(super) use self::read::address_of;
use self::shell::PortShell;
use super::Arrival;
use super::admission::{Admission, monotonic_ns};
use super::feeds::Feeds;
use super::latency::Latency;
use super::lingering::LingeringSockets;
use super::metrics::{BrokerMetrics, MqttMetrics, NodeMqttMetrics};
use super::newcomers::PortNewcomers;
use super::overload::Overload;
use super::settings::{MqttAuthenticator, MqttSettings};
use super::sockets::{Flag, Sockets};
use super::verdicts::Verdicts;
use crate::ledger_topics::LedgerTopics;
use crate::operator::OperatorMessage;
use crate::pacer_topics::PacerTopics;
use crate::queue_topics::QueueClients;
use crate::refusal_metrics::RefusalMetrics;
use crate::request_metrics::RequestMetrics;
use crate::security;
use crate::stream::Scratch;
use crate::turns::limits::WORK_IN_TURN_MAX;
use crate::turns::{CallerMark, CallerMarks, Turns};

/// Tokens of sockets have this bit; below it stands their place in the table.
const SOCKETS: usize = 1 << 55;
/// Tokens of listeners have this one; below it stands their number.
const LISTENERS: usize = 1 << 54;
/// Tokens of sockets that are closed have this one; below it stands their place.
const LINGERING: usize = 1 << 53;
/// Bytes of one read, if no packet needs more: what is read of a client waits until the client's turn.
const READ_BYTES: usize = 8 << 10;
/// Bytes of one read of a packet that needs more.
const READ_BYTES_MAX: usize = 64 << 10;
/// Work of one turn, when each packet becomes thousands; else it is [`WORK_IN_TURN_MAX`].
const TURN_WORK_MIN: isize = 32;
/// A turn that wrote more than this does half as much next time; one that wrote less than a quarter, twice as much.
const TURN_WRITTEN_MAX: usize = 4 << 20;
/// How long a worker sleeps while a client with something to read may not be read: another worker may change that.
const PAUSED_TICK: Duration = Duration::from_millis(1);

/// Parcels that can carry all that an MQTT port sends and gets.
pub trait CarriesMqtt:
    Carries<BrokerMessage>
    + Carries<Message>
    + Carries<Box<Arrival>>
    + Carries<OperatorMessage>
    + Carries<QueueMessage>
    + Carries<CampaignMessage>
{
}

impl<P> CarriesMqtt for P where
    P: Carries<BrokerMessage>
        + Carries<Message>
        + Carries<Box<Arrival>>
        + Carries<OperatorMessage>
        + Carries<QueueMessage>
        + Carries<CampaignMessage>
{
}

/// The MQTT clients of one worker.
pub struct MqttPort<L: LogStore> {
    /// The ports of other workers have the same number on theirs.
    me: Address,
    workers: u16,
    broker: Driven<L>,
    /// Of the broker's shards, in their order.
    shard_metrics: Vec<ShardMetrics>,
    sockets: Sockets,
    /// The worker's poll, once it runs.
    poll: Option<PortSockets>,
    doors: Vec<Door>,
    admission: Arc<Admission>,
    /// Who gives way to new clients.
    newcomers: PortNewcomers,
    overload: Overload,
    authenticator: Arc<dyn MqttAuthenticator>,
    settings: MqttSettings,
    /// By which configuration the rights of all clients were given.
    generation: u64,
    facts: Arc<SharedFacts>,
    certificates: Certificates,
    verdicts: Verdicts,
    feeds: Feeds,
    ledger: LedgerTopics,
    /// Asks the ledger.
    asker: Asker<Router>,
    /// Queues on topics.
    queues: QueueClients,
    /// Campaigns on topics.
    pacer: PacerTopics,
    /// New figures of accounts, to be announced.
    figures: Vec<(ShardIndex, Announcement)>,
    arrivals: VecDeque<Box<Arrival>>,
    /// What operators have asked.
    operators: Operators,
    /// Connections that may have something to be served, and whose turn it is. One has joined only while it waits:
    /// there are millions.
    turns: Turns<CallerMark, ConnectionKey>,
    callers: CallerMarks,
    unserved: Vec<ConnectionKey>,
    /// Were read for the first time in this turn, and the poll does not know them.
    unpolled: Vec<ConnectionKey>,
    /// Closed, but their clients have not ended.
    lingering: LingeringSockets,
    /// The process stops.
    stopping: bool,
    /// Left before the verdict on them.
    left: Vec<ConnectionKey>,
    scratch: Scratch,
    /// Work that the next turn may do.
    turn_work: isize,
    longest_turn: Duration,
    latency: Latency,
    metrics: MqttMetrics,
    refused: RefusalMetrics,
    broker_metrics: BrokerMetrics,
    /// What all workers hold together, and who shows it: the first of them.
    of_node: Option<(NodeMqttMetrics, Arc<Holdings>)>,
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
    /// Who reads what clients follow.
    pub feeds: Feeds,
    /// The ledger on topics.
    pub ledger: LedgerTopics,
    /// Asks the ledger.
    pub router: Router,
    /// Asks the queues.
    pub queues: QueueClient,
    /// Campaigns on topics.
    pub pacer: PacerTopics,
    /// What the port counts.
    pub metrics: MqttMetrics,
    /// What it refuses.
    pub refused: RefusalMetrics,
    /// What its broker counts.
    pub broker_metrics: BrokerMetrics,
    /// How long its clients wait.
    pub requests: RequestMetrics,
    /// What all workers hold together, and who shows it: the first of them.
    pub of_node: Option<(NodeMqttMetrics, Arc<Holdings>)>,
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
            broker: Driven::new(broker),
            shard_metrics,
            sockets: Sockets::default(),
            poll: None,
            doors: doors.map(|(number, listener)| Door::new(number, listener)).collect(),
            newcomers: PortNewcomers::new(me.endpoint.0, settings.listener_limits().len(), parts.admission.clone()),
            admission: parts.admission,
            overload: Overload::new(settings.admission.turn_ms_max, settings.limits.pressure_bytes_max),
            generation: authenticator.generation(),
            authenticator,
            facts: parts.facts,
            certificates: Certificates::default(),
            settings,
            verdicts: parts.verdicts,
            feeds: parts.feeds,
            ledger: parts.ledger,
            asker: Asker::new(me, parts.router),
            queues: QueueClients::new(me, parts.queues),
            pacer: parts.pacer,
            figures: Vec::new(),
            arrivals: VecDeque::new(),
            operators: Operators::default(),
            turns: Turns::default(),
            callers: CallerMarks::default(),
            unserved: Vec::new(),
            unpolled: Vec::new(),
            lingering: LingeringSockets::default(),
            stopping: false,
            left: Vec::new(),
            scratch: Scratch::new(),
            turn_work: WORK_IN_TURN_MAX,
            longest_turn: Duration::ZERO,
            latency: Latency::new(parts.requests),
            metrics: parts.metrics,
            refused: parts.refused,
            broker_metrics: parts.broker_metrics,
            of_node: parts.of_node,
        }
    }

    /// The worker's poll.
    fn poll(&self) -> &PortSockets {
        self.poll.as_ref().expect("a port is registered before it serves")
    }

    /// Says what a reload has done to subscriptions; of a worker where that is nothing, only the first says so.
    fn tell_reloaded(&self, reloaded: Reloaded) {
        let Reloaded { clients, denied, given_back, removed, ended } = reloaded;
        let worker = self.me.endpoint.0;
        if clients > 0 || ended > 0 || worker == 0 {
            security::tell_of_configuration(&format!(
                "worker {worker}: {ended} clients are disconnected, as they are known no longer; subscriptions of \
                 {clients} others changed: {denied} denied, {given_back} given back, {removed} removed and their \
                 clients disconnected"
            ));
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
        let Self { broker, turns, .. } = self;
        turns.any_waiting(|key| broker.may_read(key))
            || self.verdicts.has_news()
            || self.feeds.has_news()
            || self.broker.has_news()
            || self.lingering.has_news()
            || self.operators.has_more()
            || self.queues.has_answers()
            || self.certificates.are_looked_at()
            || self.newcomers.are_asked()
            || self.broker.is_serving() && (!self.arrivals.is_empty() || self.doors.iter().any(Door::has_more))
    }

    fn is_quiet(&self) -> bool {
        self.sockets.len() == 0
            && self.lingering.len() == 0
            && self.arrivals.is_empty()
            && self.ledger.is_quiet()
            && self.operators.are_quiet()
            && self.asker.client().pending() == 0
            && self.queues.is_quiet()
            && self.pacer.is_quiet()
    }

    fn is_idle(&self) -> bool {
        self.broker.is_idle()
    }

    fn failure(&self) -> Option<String> {
        let failed = self.broker.shards().iter().find_map(|shard| Some((shard.index(), shard.failure()?)));
        failed.map(|(shard, failure)| format!("{} shard {shard}: {failure}", TOPICS.name))
    }

    fn tick(&mut self, wall: TimeMs) {
        self.drain_networks(wall);
        self.queues.tick(wall);
        let now = Instant::now();
        let generation = self.authenticator.generation();
        if std::mem::replace(&mut self.generation, generation) != generation {
            let authenticator = Arc::clone(&self.authenticator);
            self.broker.reload(Arc::new(move |rights| authenticator.renew(rights)));
            self.certificates.begin(self.sockets.places());
        }
        if let Some(reloaded) = self.broker.take_reloaded() {
            self.tell_reloaded(reloaded);
        }
        self.doors.iter_mut().for_each(Door::look_again);
        self.lingering.end_overdue(monotonic_ms(), &mut self.newcomers);
        let longest_turn = std::mem::take(&mut self.longest_turn);
        let overloaded = self.overload.observe(longest_turn, self.facts.pressure_bytes(), now);
        self.admission.set_overloaded(self.me.endpoint.0, overloaded);
        self.metrics.sockets_open.set(self.sockets.len() as i64);
        self.metrics.sockets_lingering.set(self.lingering.len() as i64);
        self.broker_metrics.observe(&self.broker.facts());
        if let Some((metrics, holdings)) = &self.of_node {
            metrics.observe(&self.broker.facts(), holdings);
        }
        for (metrics, shard) in self.shard_metrics.iter().zip(self.broker.shards_mut()) {
            metrics.refusals.follow([(UNRECORDED, shard.service().unrecorded())]);
            metrics.observe(shard);
        }
    }

    fn close(self: Box<Self>) -> anyhow::Result<()> {
        for shard in self.broker.into_broker().into_shards() {
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
        if token & LINGERING != 0 {
            return self.lingering.list(token & !LINGERING);
        }
        let index = (token & !SOCKETS) as u32;
        let Some((key, socket)) = self.sockets.at(index) else { return };
        let (mut is_writable, mut is_readable) = (false, false);
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            socket.set(Flag::READABLE, true);
            is_readable = true;
            if event.is_read_closed() || event.is_error() {
                socket.set(Flag::CLOSED, true);
            }
        }
        if event.is_writable() && socket.replace(Flag::BLOCKED, false) {
            is_writable = true;
        }
        // It is not read before the verdict, so its end would be met only then, and its password hashed for nobody.
        if event.is_read_closed() && self.verdicts.is_awaited(key) {
            self.left.push(key);
        }
        if is_readable {
            self.line_up(key);
        }
        if is_writable {
            self.broker.is_writable(key);
        }
    }

    /// Takes new clients, and serves those that have said something, in turn and a turn's worth.
    fn serve(&mut self, context: &mut Context<'_, P>) -> bool {
        for key in std::mem::take(&mut self.left) {
            self.lose(key, context.now());
        }
        let gave_way = self.give_way_as_asked(context.now());
        let took = self.take_clients(context);
        let threw_away = self.lingering.go_on(&mut self.scratch, &mut self.newcomers);
        let looked = self.look_at_certificates(context.now());
        took | gave_way | threw_away | looked | self.serve_sockets(context)
    }

    /// Everything that does not come from a socket: one turn of the broker.
    fn flush(&mut self, context: &mut Context<'_, P>) -> bool {
        let now = context.now();
        let turned = drive::turn(&mut PortShell { port: self, context }, now);
        // Now those that belong to other workers have gone to them.
        self.watch_newcomers(now);
        if let Some(written) = turned.written_bytes {
            self.adapt(written);
            let Self { latency, broker, .. } = self;
            latency.published(|answered| broker.take_answered(answered));
        }
        turned.worked
    }

    fn sleep_max(&self) -> Option<Duration> {
        (!self.turns.is_empty()).then_some(PAUSED_TICK)
    }

    fn observe_turn(&mut self, took: Duration) {
        self.longest_turn = self.longest_turn.max(took);
    }

    fn drain(&mut self, per_second: u32, now: TimeMs) {
        self.send_away(per_second, now);
    }

    fn end_drain(&mut self) {
        self.broker.end_drain();
    }

    fn stop_listening(&mut self, now: TimeMs) {
        self.doors.clear();
        self.stopping = true;
        self.lingering.hurry(monotonic_ms());
        self.send_away(self.settings.drain.per_second, now);
    }

    fn leave_time(&self) -> Duration {
        Duration::from_millis(self.settings.drain_timeout_ms)
    }

    fn disconnect_rest(&mut self, now: TimeMs) {
        self.send_away(u32::MAX, now);
    }
}

/// The clock of sockets that are closed.
fn monotonic_ms() -> u64 {
    monotonic_ns() / 1_000_000
}

#[cfg(test)]
mod tests;
