//! Clients, their sockets, and one tick of the process behind them.

use tidegate_broker::TOPICS;
use tidegate_broker::drive::{self, Shell};
use tidegate_journal::LogId;
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::{ConnectOut, Version, encode_connect};

use super::client::{Life, SimClient};
use super::node::{DIRECTORY_ID, Node, compact_shard};
use super::oracle::{Oracle, Parting};
use super::peer::Peer;
use super::pipe::Socket;
use super::plan::Plan;
use super::worker::{Move, Worker};
use crate::chance::Chance;
use crate::harness::{End, Floor, Process, Setup, Site, Store, StoreName, Workload, World};
use crate::note;
use crate::trace::Trace;
use crate::violation::{Violation, must};

/// Ticks of peace in which everything owed must arrive.
const PEACE_TICKS_MAX: u64 = 40_000;

/// Clients of MQTT, their sockets, and what they were promised.
pub struct Gateway {
    plan: Plan,
    peers: Vec<Peer>,
    oracle: Oracle,
    /// The process was seen to serve.
    serves: bool,
    /// It is killed soon, because a will is under way.
    ends_soon: Option<EndsSoon>,
}

/// When the process is killed, and a log that gets nothing done before.
#[derive(Clone, Copy, Debug)]
struct EndsSoon {
    log: Option<LogId>,
    stall_at: u64,
    kill_at: u64,
}

/// The world of the gateway.
type GatewayWorld<S> = World<Gateway, S>;

impl<S: Store> Workload<S> for Gateway {
    const NAME: &'static str = "gateway";
    type Node = Node<S>;

    fn floors(store: StoreName) -> Vec<Floor> {
        let mut floors = vec![
            Floor::of("a message acknowledged", 5_000, "what was acknowledged reaches every durable session"),
            Floor::of("a delivery", 20_000, "order and duplicates are looked at as messages come"),
            Floor::of("a repetition", 500, "what is repeated says so"),
            Floor::of("a delayed message", 500, "what is due reaches the sessions of all workers"),
            Floor::of("a message of a share group", 1_000, "it is one member's, and none is lost"),
            Floor::of("a will that is owed", 300, "it reaches everybody, one of QoS 2 nobody twice"),
            Floor::of("a will that is owed after its delay", 10, "who stays away longer is told of"),
            Floor::of("a will that was taken back by DISCONNECT", 50, "it reaches nobody"),
            Floor::of("a will that was taken back in time", 20, "it reaches nobody"),
            Floor::of("a kill while a will is under way", 20, "it reaches everybody, one of QoS 2 nobody twice"),
            Floor::of("due while the process was down", 20, "it reaches the sessions of all workers"),
            Floor::of("a clock jump of years", 8, "who speaks is not cut off, what lasts lasts, nothing comes early"),
            Floor::of("a move to another worker", 200, "a session follows its client"),
            Floor::of("a reset connection", 100, "what was under way is sent again"),
            Floor::of("a client that stalls", 200, "an outbox that is full keeps its bounds"),
            Floor::of("an intruder that was refused", 60, "a session is its maker's"),
            Floor::of("rubbish", 60, "bytes that are no MQTT end one connection"),
            Floor::of("a kill", 20, "durable sessions survive"),
            Floor::of("a power failure", 15, "durable sessions survive"),
            Floor::of("a clock that is behind", 10, "what durable sessions were promised does not expire"),
            Floor::of("a compaction", 10, "a log that was compacted is opened"),
        ];
        floors.extend(match store {
            StoreName::Local => {
                vec![Floor::of("a lost tail that was refused", 2, "a log that lost its end is not served")]
            }
            StoreName::Stream => vec![
                Floor::of("a takeover", 15, "a process that was fenced out stops"),
                Floor::of("a shard that stopped itself", 15, "and the next one goes on"),
                Floor::of("a start that reached nobody", 5, "it is tried again, and nothing is lost"),
            ],
        });
        floors
    }

    fn draw(chance: &mut Chance, ticks: u64, trace: &Trace) -> (Gateway, Setup) {
        let (plan, faults) = Plan::draw(chance);
        let setup = Setup {
            families: vec![(TOPICS, plan.topic_shards)],
            directory: DIRECTORY_ID,
            faults,
            tick_ms: 5,
            ticks: plan.ticks.min(ticks),
        };
        let peers = (0..plan.clients).map(|index| Peer::new(SimClient::new(index, &plan, chance)));
        let (peers, oracle) = (peers.collect(), Oracle::new(plan.shares, trace.clone()));
        (Gateway { peers, oracle, plan, serves: false, ends_soon: None }, setup)
    }

    fn start(&mut self, site: &mut Site<S>) -> Result<Node<S>, String> {
        if site.tick <= 1 {
            note!(site.trace, "{:?}", self.plan);
        }
        self.serves = false;
        let node = Node::start(site, &self.plan)?;
        site.tally.add("due while the process was down", node.due(TimeMs(site.clock.now_ms())));
        Ok(node)
    }

    fn ended(&mut self, _site: &mut Site<S>, _end: End) {
        for peer in &mut self.peers {
            let was_sent_away = peer.link.take().is_none();
            peer.disconnect(Parting::of_process(was_sent_away), &mut self.oracle);
        }
        self.ends_soon = None;
        self.oracle.process_ended();
    }

    fn tick(world: &mut GatewayWorld<S>) -> Result<(), Violation> {
        let clock = &world.site.clock;
        world.load.oracle.tell_time(clock.since_boot_ms(), clock.aged_ms());
        world.kill_over_a_will()?;
        world.see_process();
        world.compact()?;
        for worker in 0..world.load.plan.workers {
            let slow = !world.site.is_calm() && world.site.chance.happens(world.load.plan.weather.slow_worker);
            if !slow && world.node.is_some() {
                world.turn(worker)?;
            }
        }
        world.see_closed();
        for peer in 0..world.load.peers.len() {
            let wills_before = world.load.oracle.wills().at_once;
            world.client_turn(peer)?;
            if world.load.oracle.wills().at_once > wills_before {
                world.plan_kill(peer);
            }
        }
        world.intrude()?;
        if let Some(node) = &world.node {
            node.assert_sound();
        }
        Ok(())
    }

    fn is_quiet(world: &GatewayWorld<S>) -> bool {
        let quiet = |peer: &Peer| peer.client.is_done() && peer.socket.down.is_empty() && peer.socket.up.is_empty();
        world.load.peers.iter().all(quiet) && world.load.oracle.debts().is_empty()
    }

    fn situation(world: &GatewayWorld<S>) -> String {
        let debts = world.load.oracle.debts();
        let unsettled = world.load.peers.iter().filter(|peer| peer.client.life() != Life::Online).count();
        let undone: Vec<_> = world.load.peers.iter().filter_map(|peer| peer.client.unfinished()).collect();
        let shards = world.node.as_ref().map_or_else(String::new, Node::situation);
        format!(
            "in peace, {unsettled} clients are not online, this is missing: {debts:?}, these are not done: \
             {undone:?}; shards: {shards}"
        )
    }

    /// Each topic has its last retained message.
    fn check(world: &mut GatewayWorld<S>) -> Result<(), Violation> {
        world.check_retained()
    }

    /// Trouble, then peace until everything owed has come; then a graceful stop, and once more.
    fn run(world: &mut GatewayWorld<S>) -> Result<(), Violation> {
        world.trouble()?;
        for _ in 0..2 {
            world.become_calm()?;
            let promise = "what was acknowledged reaches every durable session";
            let is_settled = |world: &GatewayWorld<S>| world.node.is_some() && Self::is_quiet(world);
            world.tick_until(promise, PEACE_TICKS_MAX, is_settled)?;
            world.check_retained()?;
            world.end(End::Stop)?;
        }
        let oracle = &world.load.oracle;
        let counts = [
            ("a message acknowledged", oracle.acknowledged),
            ("a delivery", oracle.deliveries),
            ("a repetition", oracle.repetitions),
            ("a delayed message", oracle.delayed),
            ("a message of a share group", oracle.shared()),
            ("a message that a clean session has left", oracle.passed_on()),
            ("a will that is owed", oracle.wills().owed),
            ("a will that is owed after its delay", oracle.wills().delayed),
            ("a will that a CONNECT has waited for", oracle.wills().waited_for),
            ("a will that was taken back by DISCONNECT", oracle.wills().said),
            ("a will that was taken back in time", oracle.wills().resumed),
        ];
        counts.into_iter().for_each(|(what, times)| world.site.tally.add(what, times));
        Ok(())
    }
}

impl<S: Store> GatewayWorld<S> {
    fn now(&self) -> TimeMs {
        let now = TimeMs(self.site.clock.now_ms());
        self.node.as_ref().map_or(now, |node| node.time(now))
    }

    /// Now and then, a log forgets what a snapshot holds.
    fn compact(&mut self) -> Result<(), Violation> {
        if self.site.is_calm() || !self.site.chance.happens(self.load.plan.weather.compact) || self.node.is_none() {
            return Ok(());
        }
        let shard = self.site.chance.below(u64::from(self.load.plan.topic_shards)) as u16;
        if compact_shard(&self.site, &self.load.plan, shard)? {
            note!(self.site.trace, "log {shard} forgets what a snapshot holds");
            self.site.tally.add("a compaction", 1);
        }
        Ok(())
    }

    /// One turn of a worker: its sockets, its broker, its sockets.
    fn turn(&mut self, worker: u16) -> Result<(), Violation> {
        let now = self.now();
        let node = self.node.as_mut().expect("a worker has a process");
        let is_serving = node.is_serving();
        let mut shell = Worker::new(node, &mut self.load.peers, &self.load.plan, worker);
        shell.take_messages(now);
        for index in 0..shell.peers.len() {
            let link = shell.peers[index].link.filter(|(at, _)| is_serving && *at == worker);
            let Some((_, key)) = link.filter(|(at, key)| shell.node.broker(*at).may_read(*key)) else { continue };
            let bytes = shell.peers[index].socket.up.read(self.site.chance.within(1..=4_096) as usize);
            if !bytes.is_empty() {
                drive::hear(&mut shell, key, &bytes, isize::MAX, now);
            }
        }
        shell.poll_sockets();
        drive::turn(&mut shell, now);
        let Worker { moves, broken, .. } = shell;
        broken?;
        moves.into_iter().for_each(|one| self.take_over(one, now));
        Ok(())
    }

    /// A connection comes to another worker, which has its session.
    fn take_over(&mut self, Move { from, to, bytes }: Move, now: TimeMs) {
        let node = self.node.as_mut().expect("a move has a process");
        let Some(peer) = self.load.peers.iter_mut().find(|peer| peer.link == Some(from)) else { return };
        self.site.tally.add("a move to another worker", 1);
        peer.link = node.open(to, now);
        match peer.link {
            Some((worker, key)) => {
                let mut shell = Worker::new(node, &mut self.load.peers, &self.load.plan, worker);
                drive::hear(&mut shell, key, &bytes, isize::MAX, now);
            }
            None => peer.socket.closed_by_server = true,
        }
    }

    fn client_turn(&mut self, index: usize) -> Result<(), Violation> {
        let weather = self.load.plan.weather.clone();
        let trouble = !self.site.is_calm();
        if trouble && self.site.chance.happens(weather.reset) && self.load.peers[index].client.life() != Life::Offline {
            self.site.tally.add("a reset connection", 1);
            note!(self.site.trace, "client {index} is cut off");
            self.cut(index, true);
            return Ok(());
        }
        if trouble && self.site.chance.happens(weather.stall) {
            self.site.tally.add("a client that stalls", 1);
            self.load.peers[index].socket.stalled_until = self.site.tick + self.site.chance.within(5..=80);
        }
        self.read(index)?;
        self.act(index);
        self.write(index);
        Ok(())
    }

    /// The client takes what has arrived.
    fn read(&mut self, index: usize) -> Result<(), Violation> {
        let (late, partial) = match self.site.is_calm() {
            true => (0, 0),
            false => (self.load.plan.weather.chunk_late, self.load.plan.weather.chunk_partial),
        };
        let tick = self.site.tick;
        let peer = &mut self.load.peers[index];
        let stalled = !self.site.is_calm() && peer.socket.stalled_until > tick;
        if peer.client.life() == Life::Offline || stalled || self.site.chance.happens(late) {
            return Ok(());
        }
        let most =
            if self.site.chance.happens(partial) { self.site.chance.within(1..=32) as usize } else { usize::MAX };
        let bytes = peer.socket.down.read(most);
        let stays = bytes.is_empty() || peer.client.receive(&bytes, &mut self.load.oracle)?;
        if !stays || (peer.socket.closed_by_server && peer.socket.down.is_empty()) {
            note!(self.site.trace, "client {index} is sent away");
            self.cut(index, true);
        }
        Ok(())
    }

    fn act(&mut self, index: usize) {
        let rooms = self.load.plan.rooms;
        let weather = self.load.plan.weather.clone();
        let serving = self.node.as_ref().is_some_and(Node::is_serving);
        match self.load.peers[index].client.life() {
            Life::Offline if !serving || !self.load.peers[index].client.comes_back(&self.load.oracle) => {}
            Life::Offline if self.site.is_calm() || self.site.chance.happens(100) => self.connect(index),
            Life::Online if !self.site.is_calm() => {
                if self.site.chance.happens(weather.rubbish) {
                    let sent = self.load.peers[index].client.send_rubbish(&mut self.load.oracle);
                    note!(self.site.trace, "client {index} sends rubbish: {sent:?}");
                    self.site.tally.add("rubbish", u64::from(sent.is_some()));
                    self.load.peers[index].leaving = true;
                } else if self.site.chance.happens(5) {
                    note!(self.site.trace, "client {index} leaves");
                    self.load.peers[index].client.leave(&mut self.load.oracle);
                    self.load.peers[index].leaving = true;
                } else if !self.load.peers[index].leaving && self.site.chance.happens(500) {
                    self.load.peers[index].client.act(rooms, &mut self.load.oracle);
                }
            }
            Life::Offline | Life::Greeting | Life::Online => {}
        }
    }

    fn connect(&mut self, index: usize) {
        let worker = self.site.chance.below(u64::from(self.load.plan.workers)) as u16;
        let clean = !self.site.is_calm() && self.site.chance.happens(30);
        let now = self.now();
        let node = self.node.as_mut().expect("a client connects to a process");
        // Sometimes while the old connection still stands: the server must take the session over.
        let Some(link) = node.open(worker, now) else { return };
        let peer = &mut self.load.peers[index];
        peer.socket = Socket::default();
        peer.link = Some(link);
        peer.leaving = false;
        peer.client.connect(clean, &mut self.load.oracle);
        note!(self.site.trace, "client {index} connects to worker {worker}{}", if clean { ", clean" } else { "" });
    }

    /// Somebody comes with the client id of another, and goes again. If its session is there, nothing happens to it:
    /// the oracle would miss what waits in it, or the client its connection.
    fn intrude(&mut self) -> Result<(), Violation> {
        let is_serving = self.node.as_ref().is_some_and(Node::is_serving);
        if self.site.is_calm() || !is_serving || !self.site.chance.happens(self.load.plan.weather.intruder) {
            return Ok(());
        }
        let client_id = self.site.chance.one_of(&self.load.peers).client.client_id();
        let mut bytes = Vec::new();
        let connect = ConnectOut {
            clean_start: self.site.chance.happens(500),
            client_id: &client_id,
            user_name: Some("intruder"),
            ..ConnectOut::default()
        };
        encode_connect(&mut bytes, Version::V5, &connect);
        let before = self.node.as_ref().map_or(0, Node::connects_of_others);
        let worker = self.site.chance.below(u64::from(self.load.plan.workers)) as u16;
        // To another worker it is sent once at most: that one has the session, or would.
        if let Some(to) = self.intrude_at(worker, &bytes)? {
            self.intrude_at(to, &bytes)?;
        }
        if self.node.as_ref().map_or(0, Node::connects_of_others) > before {
            note!(self.site.trace, "an intruder is refused the session of {client_id}");
            self.site.tally.add("an intruder that was refused", 1);
        }
        Ok(())
    }

    /// The same at one worker. Gives the one to which the intruder is sent.
    fn intrude_at(&mut self, worker: u16, bytes: &[u8]) -> Result<Option<u16>, Violation> {
        let now = self.now();
        let node = self.node.as_mut().expect("somebody connects to a process");
        let Some((_, key)) = node.open(worker, now) else { return Ok(None) };
        let mut shell = Worker::new(node, &mut self.load.peers, &self.load.plan, worker);
        drive::hear(&mut shell, key, bytes, isize::MAX, now);
        drive::turn(&mut shell, now);
        let Worker { moves, broken, .. } = shell;
        broken?;
        let (own, others): (Vec<Move>, Vec<Move>) = moves.into_iter().partition(|one| one.from == (worker, key));
        others.into_iter().for_each(|one| self.take_over(one, now));
        // Whoever is let in leaves nothing behind.
        self.node.as_mut().expect("it is still there").broker(worker).closed(key, now);
        Ok(own.first().map(|one| one.to))
    }

    /// What the client has to say goes into its socket.
    fn write(&mut self, index: usize) {
        let late = !self.site.is_calm() && self.site.chance.happens(self.load.plan.weather.chunk_late);
        let peer = &mut self.load.peers[index];
        if peer.client.life() == Life::Offline || late {
            return;
        }
        let most = if self.site.is_calm() { usize::MAX } else { self.site.chance.within(1..=2_048) as usize };
        let count = peer.client.output.len().min(most);
        let written = peer.socket.up.write(&peer.client.output[..count], self.load.plan.pipe_bytes);
        peer.client.output.drain(..written);
        if written > 0 {
            peer.client.spoke(self.site.clock.since_boot_ms());
        }
        if peer.leaving && peer.client.output.is_empty() && peer.socket.up.is_empty() {
            self.cut(index, true);
        }
    }

    /// The connection ends. The server may hear of it, or find out when the client comes again.
    fn cut(&mut self, index: usize, server_hears: bool) {
        let now = self.now();
        let heard = server_hears && self.site.chance.happens(800);
        let peer = &mut self.load.peers[index];
        let link = peer.link.take();
        let parting = match (link, self.node.as_mut()) {
            (Some((worker, key)), Some(node)) if heard || self.site.is_calm() => {
                // As a worker does between reading the end and telling its broker.
                node.take_messages(worker, now);
                node.broker(worker).closed(key, now);
                Parting::Cut { is_heard: true }
            }
            (Some(_), _) => Parting::Cut { is_heard: false },
            // A process that has lost a shard sends clients away whatever they have said.
            (None, Some(node)) if node.failure().is_some() => Parting::Unknown,
            (None, _) => Parting::SentAway,
        };
        peer.disconnect(parting, &mut self.load.oracle);
    }

    /// Tells the oracle whose connections the server has ended by itself, though they have not noticed. Where it has
    /// read a good-bye to the last byte, that has ended the connection.
    fn see_closed(&mut self) {
        let Gateway { peers, oracle, .. } = &mut self.load;
        let node = self.node.as_ref();
        let has_failed = node.is_some_and(|node| node.failure().is_some());
        let is_ended = |link| node.is_none_or(|node| node.is_closing(link));
        let is_over = |peer: &Peer| has_failed || !peer.is_heard_out() && peer.link.is_none_or(is_ended);
        let online = peers.iter().enumerate().filter(|(_, peer)| peer.client.life() == Life::Online);
        online.filter(|(_, peer)| is_over(peer)).for_each(|(index, _)| oracle.may_be_over(index));
    }

    /// Tells the oracle how far the process is.
    fn see_process(&mut self) {
        let Some(node) = &self.node else { return };
        if node.is_durable() && !self.site.disk.has_stopped() {
            self.load.oracle.all_is_durable();
        }
        if node.is_serving() && !std::mem::replace(&mut self.load.serves, true) {
            self.load.oracle.process_serves();
            // The wills of all who were connected are due now.
            self.plan_kill(self.site.tick as usize % self.load.peers.len());
        }
    }

    /// A client's will is due: now and then the process is killed before all have it, or before that is on record. The
    /// log that has the will may get nothing done for the last ticks, so that others know more.
    fn plan_kill(&mut self, client: usize) {
        let is_drawn = !self.site.is_calm() && self.site.chance.happens(self.load.plan.weather.will_kill);
        let Some(node) = self.node.as_ref().filter(|_| is_drawn && self.load.ends_soon.is_none()) else { return };
        let log = node.log_of(&self.load.peers[client].client.client_id());
        // Most wills are sent and on record within this time.
        let stall_at = self.site.tick + self.site.chance.within(1..=6);
        let kill_at = stall_at + self.site.chance.within(2..=10);
        let log = log.filter(|_| self.site.chance.happens(800));
        self.load.ends_soon = Some(EndsSoon { log, stall_at, kill_at });
    }

    fn kill_over_a_will(&mut self) -> Result<(), Violation> {
        let Some(EndsSoon { log, stall_at, kill_at }) = self.load.ends_soon.filter(|_| self.node.is_some()) else {
            return Ok(());
        };
        if self.site.tick == stall_at
            && let Some(log) = log
        {
            self.site.stall_log(log, kill_at + 1 - stall_at);
        }
        if self.site.tick < kill_at {
            return Ok(());
        }
        self.site.tally.add("a kill while a will is under way", 1);
        let end = if self.site.chance.happens(500) { End::Kill } else { End::Power };
        self.end(end)
    }

    /// Each topic has its last retained message.
    fn check_retained(&mut self) -> Result<(), Violation> {
        for (topic, (last, possible)) in self.load.oracle.retained_candidates() {
            let Some(last) = last else { continue };
            let node = self.node.as_ref().expect("peace has a process");
            let found = node.retained(&topic);
            let text = found.map(|payload| String::from_utf8_lossy(&payload).into_owned());
            let mut numbers =
                text.iter().flat_map(|text| text.split(' ')).map_while(|number| number.parse::<u64>().ok());
            let name = numbers.next().zip(numbers.next()).map(|(publisher, number)| (publisher as usize, number));
            must(name.is_some_and(|name| possible.contains(&name)), "the last retained message stays", || {
                format!("{topic}: {name:?}, but {last:?} was acknowledged")
            })?;
        }
        Ok(())
    }
}
