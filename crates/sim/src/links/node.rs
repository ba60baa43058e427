//! One node: shards of queues under all faults of the harness, and the clients of its process, which reach the shards
//! as those of a real one do.
//!
//! ```text
//!   Asker ── QueueClient ─▶ messages ─▶ Shards<QueueService>      links, requests from the network, and who sends or
//!     ▲           ▲──────── answers ◀────────┘                    receives: all are askers of one process
//!     └── reply ──┘
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tidegate_journal::{LogId, Options};
use tidegate_link::{Coming, Replies, Shards as ShardsOfLinks};
use tidegate_queue::machine::{Bounds, Settings};
use tidegate_queue::{
    Call, CallerRequest, Note, QUEUES, QueueClient, QueueMessage, QueueOptions, QueueReply, QueueRequest, QueueService,
    QueuesFamily, Ticket,
};
use tidegate_runtime::placement::ShardAddresses;
use tidegate_runtime::{Address, Client, Outgoing};
use tidegate_shard::{CompactionRule, Unavailable};
use tokio::sync::oneshot;

use super::network::Waiting;
use crate::chance::Chance;
use crate::harness::{End, Faults, Floor, Setup, Shards, Site, Store, StoreName, Workload, World, audit_log};
use crate::note;
use crate::trace::Trace;
use crate::violation::Violation;

/// Simulated milliseconds of a tick.
pub const TICK_MS: u64 = 10;
/// Queues that are not there are asked for again after so many ticks.
const MAKE_AGAIN_TICKS: u64 = 50;
/// Ticks of trouble that a run has at most.
const TICKS_MAX: u64 = 1_200;
const SEGMENT_BYTES: u64 = 64 << 10;
const SIZES: Options = Options::small(SEGMENT_BYTES);
const COMPACTION: CompactionRule = CompactionRule { floor_bytes: 8 << 10, ratio: 0 };
/// Where clients say that they are.
const ASKER: Address = Address::new(100, 0);

/// Who waits for a reply.
pub enum Asker {
    /// A link of this node.
    Link(oneshot::Sender<QueueReply>),
    /// A client of the simulation, by its number.
    Client(u64),
    /// A request that came over the network.
    Network(Waiting),
    /// Nobody.
    Nobody,
}

/// The clients of one process.
pub struct Process {
    client: QueueClient,
    out: Outgoing<QueueMessage>,
    asked: BTreeMap<u64, Asker>,
    next_token: u64,
    shards: u16,
    /// How many times it has been started.
    pub starts: u64,
    /// It serves.
    pub is_up: bool,
    /// What clients of the simulation were told, or that nobody will tell them.
    pub heard: Vec<(u64, Option<QueueReply>)>,
    /// What requests over the network were told.
    pub answered: Vec<(Waiting, QueueReply)>,
}

impl Process {
    fn new(shards: u16) -> Process {
        Process {
            client: new_client(shards),
            out: Outgoing::new(),
            asked: BTreeMap::new(),
            next_token: 0,
            shards,
            starts: 0,
            is_up: false,
            heard: Vec::new(),
            answered: Vec::new(),
        }
    }

    /// Asks the shards. The token of the request.
    pub fn ask(&mut self, request: QueueRequest, asker: Asker) -> u64 {
        self.ask_as(request.into(), asker)
    }

    fn ask_as(&mut self, request: CallerRequest, asker: Asker) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        if !self.is_up {
            self.reply(asker, Err(Unavailable::Stopping));
            return token;
        }
        self.asked.insert(token, asker);
        let mut replies = Vec::new();
        self.client.start(token, request, &mut self.out, &mut replies);
        self.deal_out(replies);
        token
    }

    fn cancel(&mut self, token: u64) {
        if self.asked.remove(&token).is_some() {
            self.client.cancel(token, &mut self.out);
        }
    }

    fn deal_out(&mut self, replies: Vec<(u64, QueueReply)>) {
        for (token, reply) in replies {
            let asker = self.asked.remove(&token).unwrap_or(Asker::Nobody);
            self.reply(asker, reply);
        }
    }

    fn reply(&mut self, asker: Asker, reply: QueueReply) {
        match asker {
            // The link may have gone.
            Asker::Link(waits) => drop(waits.send(reply)),
            Asker::Client(number) => self.heard.push((number, Some(reply))),
            Asker::Network(waiting) => self.answered.push((waiting, reply)),
            Asker::Nobody => {}
        }
    }

    /// The process has ended: nobody is told anything.
    fn end(&mut self) {
        self.is_up = false;
        (self.client, self.out) = (new_client(self.shards), Outgoing::new());
        for asker in std::mem::take(&mut self.asked).into_values() {
            if let Asker::Client(number) = asker {
                self.heard.push((number, None));
            }
        }
        self.answered.clear();
    }
}

fn new_client(shards: u16) -> QueueClient {
    QueueClient::new(ShardAddresses::new((0..shards).map(|shard| Address::new(0, shard))))
}

/// The way of a node's links to its shards.
#[derive(Clone)]
pub struct AsLink(pub Rc<RefCell<Process>>);

struct LinkReplies {
    process: Rc<RefCell<Process>>,
    token: u64,
    reply: oneshot::Receiver<QueueReply>,
}

impl ShardsOfLinks for AsLink {
    fn ask(&self, request: CallerRequest) -> Coming<'static, QueueReply> {
        let (sender, reply) = oneshot::channel();
        self.0.borrow_mut().ask_as(request, Asker::Link(sender));
        Box::pin(async move { reply.await.unwrap_or(Err(Unavailable::Stopping)) })
    }

    fn open(&self, request: CallerRequest) -> Option<Box<dyn Replies>> {
        let (sender, reply) = oneshot::channel();
        let token = self.0.borrow_mut().ask_as(request, Asker::Link(sender));
        Some(Box::new(LinkReplies { process: self.0.clone(), token, reply }))
    }
}

impl Replies for LinkReplies {
    fn next(&mut self) -> Coming<'_, Option<QueueReply>> {
        Box::pin(async move { (&mut self.reply).await.ok() })
    }
}

impl Drop for LinkReplies {
    fn drop(&mut self) {
        self.process.borrow_mut().cancel(self.token);
    }
}

/// What a node has, which its seed decides, but for the queues: they follow from its place.
pub struct LinkedNode {
    /// Its process.
    pub process: Rc<RefCell<Process>>,
    queues: Vec<(Box<str>, Settings)>,
    options: QueueOptions,
    compactions: u64,
}

impl LinkedNode {
    /// Gives it its number and its queues, before it is started for the first time.
    pub fn settle(&mut self, node: u16, queues: Vec<(Box<str>, Settings)>) {
        self.options.node = node;
        self.queues = queues;
    }

    /// Makes the queues, or finds them as they are.
    fn make_queues(&self) {
        let mut process = self.process.borrow_mut();
        for (name, settings) in &self.queues {
            let call = Call::SetQueue { name: name.clone(), settings: Box::new(settings.clone()) };
            process.ask(QueueRequest::Call(call), Asker::Nobody);
        }
    }
}

/// The shards of a node.
pub type Node<S> = Shards<QueueService<Ticket>, S>;

impl<S: Store> Workload<S> for LinkedNode {
    const NAME: &'static str = "links";
    type Node = Node<S>;

    fn floors(_: StoreName) -> Vec<Floor> {
        Vec::new()
    }

    fn draw(chance: &mut Chance, ticks: u64, _: &Trace) -> (LinkedNode, Setup) {
        let mut some = |most: u64| if chance.happens(500) { chance.within(1..=most) } else { 0 };
        let faults = Faults {
            power: some(30),
            power_in_operation: some(30),
            kill: some(30),
            stop: some(20),
            stalled_log: some(40),
            take_over: some(20),
            unreachable_start: some(200),
            slow_log: some(400),
            slow_job: some(500),
            full_disk: some(20),
            ..Faults::default()
        };
        let compactions = some(60);
        // A route needs its queues on one shard.
        let shards = 1;
        let options = QueueOptions {
            bounds: Bounds::new(*chance.one_of(&[80, 200, 2_000]), 5_000, 5_000),
            node: 0,
            bodies_bytes_max: *chance.one_of(&[1 << 10, 16 << 10]),
            receivers_max: 10_000,
            segment_bytes: *chance.one_of(&[8 << 10, SEGMENT_BYTES]),
        };
        let process = Rc::new(RefCell::new(Process::new(shards)));
        let setup = Setup {
            families: vec![(QUEUES, shards)],
            directory: 7,
            faults,
            tick_ms: TICK_MS,
            ticks: ticks.min(TICKS_MAX),
        };
        (LinkedNode { process, queues: Vec::new(), options, compactions }, setup)
    }

    fn start(&mut self, site: &mut Site<S>) -> Result<Node<S>, String> {
        let options = self.options;
        let node = Shards::start(site, SIZES, |_| QueueService::new(options, &Default::default()))?;
        {
            let mut process = self.process.borrow_mut();
            process.starts += 1;
            process.is_up = true;
        }
        self.make_queues();
        Ok(node)
    }

    fn ended(&mut self, site: &mut Site<S>, end: End) {
        note!(site.trace, "node {} has ended by {end:?}", self.options.node);
        self.process.borrow_mut().end();
    }

    fn tick(world: &mut World<Self, S>) -> Result<(), Violation> {
        let (site, load) = (&mut world.site, &mut world.load);
        let Some(node) = &mut world.node else { return Ok(()) };
        if !site.is_calm() && site.chance.happens(load.compactions) {
            node.compact(site, 0, COMPACTION)?;
        }
        // On a full disk, none was made at the start.
        let is_missing = load.queues.iter().any(|(name, _)| node.state(0).settings(name).is_none());
        if is_missing && site.tick.is_multiple_of(MAKE_AGAIN_TICKS) {
            load.make_queues();
        }
        let out = std::mem::take(&mut load.process.borrow_mut().out);
        for (to, message) in out {
            carry(node, to, message);
        }
        node.step(site);
        let mut process = load.process.borrow_mut();
        while let Some((shard, ticket, answer)) = node.answered() {
            let Process { client, out, .. } = &mut *process;
            let (answer, mut replies) = (QueueMessage::Answer { number: ticket.number, answer }, Vec::new());
            client.deliver(Address::new(0, shard), answer, out, &mut replies);
            process.deal_out(replies);
        }
        Ok(())
    }

    fn is_quiet(world: &World<Self, S>) -> bool {
        world.node.as_ref().is_some_and(Node::is_idle)
    }

    fn check(_: &mut World<Self, S>) -> Result<(), Violation> {
        Ok(())
    }

    fn audit(&self, site: &Site<S>, log: LogId) -> Option<Vec<String>> {
        Some(audit_log::<QueuesFamily, S>(site, log, 1))
    }
}

fn carry<S: Store>(node: &mut Node<S>, to: Address, message: QueueMessage) {
    let shard = to.member.0;
    let ticket = |number, caller| Ticket { from: ASKER, number, caller };
    match message {
        QueueMessage::Call { number, caller, call } => node.call(shard, ticket(number, caller), call),
        QueueMessage::Receive { number, caller, receive } => {
            node.note(shard, Note::Receive(ticket(number, caller), receive));
        }
        QueueMessage::Forget { number, caller, queue } => {
            node.note(shard, Note::Forget(ticket(number, caller), queue));
        }
        QueueMessage::Answer { .. } => unreachable!("a client answers nobody"),
    }
}
