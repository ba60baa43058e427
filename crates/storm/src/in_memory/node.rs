//! The brokers of all workers, the shell around each, and the client side of all connections.

use crate::mqtt::packet::{self, Arrival, ConnectOptions, PING_REQUEST};
use anyhow::{Context, Result, bail, ensure};
use std::sync::Arc;
use std::time::Instant;
use tidegate_broker::{
    Access, Action, Admitted, Broker, BrokerLimits, BrokerOptions, ConnectionKey, ConnectionTraits, Owners, Rights,
    SharedFacts,
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

/// All workers of a server, driven in turn.
pub struct Node {
    brokers: Vec<Broker<LocalLog<RealDisk>>>,
    /// By worker and index of the key: which client it is.
    ends: Vec<Vec<u32>>,
    clients: Vec<Client>,
    rights: Arc<dyn Rights>,
    started: Instant,
    pings: u64,
    pongs: u64,
    delivered: Vec<u32>,
    flushable: Vec<ConnectionKey>,
}

impl Node {
    /// For so many clients, who are all still outside.
    pub fn new(workers: u16, clients: u32) -> Node {
        let owners = Owners::spread(workers, workers);
        let facts = Arc::new(SharedFacts::new(workers));
        let broker = |worker| {
            let options = BrokerOptions {
                worker,
                owners: owners.clone(),
                limits: BrokerLimits { sys_interval_ms: 0, ..BrokerLimits::default() },
                facts: facts.clone(),
                seed: u64::from(worker) + 1,
                request_topics: Vec::new(),
                feeds: Box::default(),
                version: env!("CARGO_PKG_VERSION"),
            };
            // Sessions that end with their connection never reach a shard.
            Broker::new(options, Vec::new())
        };
        let nobody = Client { key: ConnectionKey { index: 0, generation: 0 }, worker: 0, stage: Stage::Outside };
        Node {
            brokers: (0..workers).map(broker).collect(),
            ends: (0..workers).map(|_| Vec::new()).collect(),
            clients: vec![nobody; clients as usize],
            rights: Arc::new(Everything),
            started: Instant::now(),
            pings: 0,
            pongs: 0,
            delivered: Vec::new(),
            flushable: Vec::new(),
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
                self.brokers[usize::from(worker)].receive(key, &PING_REQUEST, now);
            }
        }
        self.settle()
    }

    /// One turn of all workers.
    pub fn step(&mut self) -> Result<()> {
        let now = self.now();
        for broker in &mut self.brokers {
            while broker.step(now) {}
        }
        self.settle()
    }

    /// One publishes a message that only the other must get.
    pub fn deliver_one(&mut self, publisher: u32, receiver: u32, packet: &[u8]) -> Result<()> {
        let Client { key, worker, .. } = self.clients[publisher as usize];
        let now = self.now();
        self.brokers[usize::from(worker)].receive(key, packet, now);
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
        broker.receive(key, bytes, now);
        Ok(())
    }

    /// Does what the brokers ask, forwards their messages and bytes, until there is nothing left to do.
    fn settle(&mut self) -> Result<()> {
        let mut worked = true;
        while worked {
            worked = false;
            for worker in 0..self.brokers.len() {
                worked |= self.act(worker)?;
                worked |= self.pass_on(worker);
                worked |= self.flush(worker)?;
            }
        }
        Ok(())
    }

    fn act(&mut self, worker: usize) -> Result<bool> {
        let now = self.now();
        let actions: Vec<Action> = self.brokers[worker].actions().collect();
        let worked = !actions.is_empty();
        for action in actions {
            match action {
                Action::Authenticate { key, .. } => {
                    let admitted = Admitted { rights: self.rights.clone() };
                    self.brokers[worker].verdict(key, Ok(admitted), now);
                }
                Action::HandOff { key, worker: to, bytes } => {
                    let client = self.ends[worker][key.index as usize];
                    self.accept(client, to, &bytes)?;
                }
                other => bail!("the broker wants {other:?}"),
            }
        }
        Ok(worked)
    }

    fn pass_on(&mut self, worker: usize) -> bool {
        let now = self.now();
        let mut worked = false;
        for peer in (0..self.brokers.len()).filter(|peer| *peer != worker) {
            if let Some(message) = self.brokers[worker].take_batch(peer as u16) {
                self.brokers[peer].deliver(worker as u16, message, now);
                worked = true;
            }
        }
        worked
    }

    fn flush(&mut self, worker: usize) -> Result<bool> {
        let now = self.now();
        let mut keys = std::mem::take(&mut self.flushable);
        self.brokers[worker].take_flushable(&mut keys);
        let worked = !keys.is_empty();
        for key in keys.drain(..) {
            let client = self.ends[worker][key.index as usize];
            let bytes = self.brokers[worker].unsent(key);
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
            let count = bytes.len();
            self.brokers[worker].sent(key, count, now);
        }
        self.flushable = keys;
        Ok(worked)
    }
}
