//! The brokers of all workers, the shell around each, and the client side of all connections.

use crate::mqtt::packet::{self, Arrival, ConnectOptions, PING_REQUEST};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use tidegate_broker::drive::{self, Driven, Rings, Shell};
use tidegate_broker::{
    Access, Action, Admitted, Broker, BrokerLimits, BrokerMessage, BrokerOptions, ConnectionKey, ConnectionTraits,
    HoldingLimits, Holdings, Owners, Principal, QueueTopics, Rights, SharedFacts,
};
use tidegate_journal::LocalLog;
use tidegate_journal::disk::RealDisk;
use tidegate_machines::TimeMs;

/// Everyone may do everything.
#[derive(Debug)]
struct Everything;

impl Rights for Everything {
    fn user(&self) -> Option<&str> {
        None
    }

    fn may_publish(&self, _: &str, _: &str) -> Access {
        Access::Allowed
    }

    fn may_subscribe(&self, _: &str, _: &str) -> Access {
        Access::Allowed
    }
}

/// How far a client has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Outside,
    Connected,
    Subscribed,
}

/// The far end of one connection.
#[derive(Clone, Copy, Debug)]
struct Client {
    key: ConnectionKey,
    worker: u16,
    stage: Stage,
}

/// Sessions that end with their connection never reach a log.
type Log = LocalLog<RealDisk>;

/// All workers of a server, driven in turn.
pub struct Node {
    brokers: Vec<Driven<Log>>,
    rings: Rings,
    /// Clients on their way to another worker, and what was received from them.
    arrivals: VecDeque<(u32, u16, Box<[u8]>)>,
    /// By worker and index of the key: which client it is.
    ends: Vec<Vec<u32>>,
    clients: Vec<Client>,
    rights: Arc<dyn Rights>,
    principal: Principal,
    started: Instant,
    pings: u64,
    pongs: u64,
    delivered: Vec<u32>,
    /// What went wrong while a broker had its turn.
    failed: Result<()>,
}

impl Node {
    /// For so many clients, who are all still outside.
    pub fn new(workers: u16, clients: u32) -> Node {
        let owners = Owners::spread(workers, workers);
        let facts = Arc::new(SharedFacts::new(workers));
        let holdings = Arc::new(Holdings::new(HoldingLimits::NONE));
        let broker = |worker| {
            let options = BrokerOptions {
                worker,
                owners: owners.clone(),
                limits: BrokerLimits { sys_interval_ms: 0, ..BrokerLimits::default() },
                facts: facts.clone(),
                holdings: holdings.clone(),
                seed: u64::from(worker) + 1,
                request_topics: Vec::new(),
                feeds: Box::default(),
                feed_partitions: 1,
                queues: QueueTopics::default(),
                version: env!("CARGO_PKG_VERSION"),
            };
            // Sessions that end with their connection never reach a shard.
            Driven::new(Broker::new(options, Vec::new()))
        };
        let nobody = Client { key: ConnectionKey { index: 0, generation: 0 }, worker: 0, stage: Stage::Outside };
        Node {
            brokers: (0..workers).map(broker).collect(),
            rings: Rings::new(workers),
            arrivals: VecDeque::new(),
            ends: (0..workers).map(|_| Vec::new()).collect(),
            clients: vec![nobody; clients as usize],
            rights: Arc::new(Everything),
            principal: Principal::address("10.0.0.1"),
            started: Instant::now(),
            pings: 0,
            pongs: 0,
            delivered: Vec::new(),
            failed: Ok(()),
        }
    }

    /// A client connects and subscribes.
    pub fn connect(&mut self, client: u32, options: &ConnectOptions) -> Result<()> {
        let mut hello = options.connect();
        hello.extend(options.subscribes().iter().flatten());
        // The kernel gives a new connection to any worker.
        self.accept(client, client as u16 % self.brokers.len() as u16, &hello)?;
        self.settle()?;
        let stage = self.clients[client as usize].stage;
        ensure!(stage == Stage::Subscribed, "client {client} is {stage:?} after CONNECT and SUBSCRIBE");
        Ok(())
    }

    /// Sends the pings that are due by now, of clients up to `reached`.
    pub fn ping_due(&mut self, reached: u32, keep_alive_s: u16) -> Result<()> {
        let clients = self.clients.len() as u64;
        let due = (self.started.elapsed().as_secs_f64() * clients as f64 / f64::from(keep_alive_s)) as u64;
        let now = self.now();
        while self.pings < due {
            let client = self.pings % clients;
            self.pings += 1;
            if client > u64::from(reached) {
                self.pongs += 1; // there is nobody yet who could ping
            } else {
                let Client { key, worker, .. } = self.clients[client as usize];
                self.hear(worker, key, &PING_REQUEST, now);
            }
        }
        self.settle()
    }

    /// Turns of all workers, until there is nothing left to do.
    pub fn step(&mut self) -> Result<()> {
        self.settle()
    }

    /// One publishes a message that only the other must get.
    pub fn deliver_one(&mut self, publisher: u32, receiver: u32, packet: &[u8]) -> Result<()> {
        let Client { key, worker, .. } = self.clients[publisher as usize];
        let now = self.now();
        self.hear(worker, key, packet, now);
        self.settle()?;
        let delivered = std::mem::take(&mut self.delivered);
        ensure!(delivered == [receiver], "a message for client {receiver} came to {delivered:?}");
        Ok(())
    }

    /// Clients that the brokers count as connected.
    pub fn connected(&self) -> u64 {
        self.brokers.iter().map(|broker| broker.facts().clients_connected).sum()
    }

    /// Answers to pings so far.
    pub fn pongs(&self) -> u64 {
        self.pongs
    }

    /// Pings that were not answered.
    pub fn unanswered(&self) -> u64 {
        self.pings - self.pongs
    }

    fn now(&self) -> TimeMs {
        TimeMs(1_000_000 + self.started.elapsed().as_millis() as u64)
    }

    fn accept(&mut self, client: u32, worker: u16, bytes: &[u8]) -> Result<()> {
        let now = self.now();
        let broker = &mut self.brokers[usize::from(worker)];
        let key = broker.open(ConnectionTraits::default(), now).context("the broker has no room")?;
        let ends = &mut self.ends[usize::from(worker)];
        if ends.len() <= key.index as usize {
            ends.resize(key.index as usize + 1, u32::MAX);
        }
        ends[key.index as usize] = client;
        self.clients[client as usize] = Client { key, worker, stage: Stage::Outside };
        self.hear(worker, key, bytes, now);
        Ok(())
    }

    fn hear(&mut self, worker: u16, key: ConnectionKey, bytes: &[u8], now: TimeMs) {
        drive::hear(&mut Worker { node: self, worker }, key, bytes, isize::MAX, now);
    }

    /// Turns of all workers, until there is nothing left to do.
    fn settle(&mut self) -> Result<()> {
        let mut worked = true;
        while worked {
            worked = false;
            while let Some((client, worker, bytes)) = self.arrivals.pop_front() {
                self.accept(client, worker, &bytes)?;
            }
            for worker in 0..self.brokers.len() as u16 {
                let now = self.now();
                let mut shell = Worker { node: self, worker };
                shell.take_messages(now);
                worked |= drive::turn(&mut shell, now).worked;
                std::mem::replace(&mut self.failed, Ok(()))?;
            }
        }
        Ok(())
    }

    /// What a client got; whole packets, because all that is unsent is taken.
    fn take(&mut self, client: u32, bytes: &[u8]) -> Result<()> {
        let mut left = bytes;
        while let Some(length) = packet::split(left)? {
            let (packet, rest) = left.split_at(length);
            left = rest;
            let end = &mut self.clients[client as usize];
            match packet::read(packet)? {
                Arrival::Pong => self.pongs += 1,
                Arrival::Publish { .. } => self.delivered.push(client),
                Arrival::ConnectAck { .. } if end.stage == Stage::Outside => end.stage = Stage::Connected,
                Arrival::SubscribeAck if end.stage == Stage::Connected => end.stage = Stage::Subscribed,
                other => bail!("client {client} got {other:?}"),
            }
        }
        ensure!(left.is_empty(), "client {client} got half a packet");
        Ok(())
    }
}

/// One worker, as its broker sees it.
struct Worker<'n> {
    node: &'n mut Node,
    worker: u16,
}

impl Worker<'_> {
    fn client(&self, key: ConnectionKey) -> u32 {
        self.node.ends[usize::from(self.worker)][key.index as usize]
    }

    fn fail(&mut self, failed: Result<()>) {
        if self.node.failed.is_ok() {
            self.node.failed = failed;
        }
    }
}

impl Shell<Log> for Worker<'_> {
    fn driven(&mut self) -> &mut Driven<Log> {
        &mut self.node.brokers[usize::from(self.worker)]
    }

    fn take_messages(&mut self, now: TimeMs) {
        while let Some((from, message)) = self.node.rings.take(self.worker) {
            self.driven().deliver(from, message, now);
        }
    }

    fn has_room(&mut self, _worker: u16) -> bool {
        true
    }

    fn send(&mut self, worker: u16, message: BrokerMessage) {
        self.node.rings.send(self.worker, worker, message);
    }

    fn act(&mut self, action: Action, now: TimeMs) {
        match action {
            Action::Authenticate { key, .. } => {
                let (rights, principal) = (self.node.rights.clone(), self.node.principal.clone());
                self.driven().verdict(key, Ok(Admitted { rights, principal, may_claim: true, ends_at: None }), now);
            }
            Action::HandOff { key, worker, bytes } => {
                let client = self.client(key);
                self.node.arrivals.push_back((client, worker, bytes));
            }
            other => self.fail(Err(anyhow!("the broker wants {other:?}"))),
        }
    }

    fn write(&mut self, key: ConnectionKey, _now: TimeMs) -> usize {
        let bytes = self.driven().unsent(key).to_vec();
        let taken = self.node.take(self.client(key), &bytes);
        self.fail(taken);
        bytes.len()
    }

    fn close(&mut self, key: ConnectionKey, _now: TimeMs) {
        self.fail(Err(anyhow!("the broker sends client {} away", self.client(key))));
    }
}
