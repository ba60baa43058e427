//! The world of one seed: clients, sockets, the process, the disk, and what goes wrong between them.

use tidegate_journal::disk::FakeDisk;
use tidegate_machines::TimeMs;

use super::client::{Life, SimClient};
use super::house::{Event, House, Link, compact_shard};
use super::oracle::Oracle;
use super::pipe::Socket;
use super::plan::Plan;
use crate::chance::Chance;
use crate::note;
use crate::trace::Trace;
use crate::violation::{Violation, must};

/// Ticks of peace in which everything owed must arrive.
const PEACE_TICKS_MAX: u64 = 40_000;
/// A packet of the largest message here, on top of a full outbox.
const PACKET_BYTES_MAX: usize = 4_096;

/// What happened, counted, so that a test can see that faults were met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages acknowledged to their senders.
    pub acknowledged: u64,
    /// Messages heard.
    pub deliveries: u64,
    /// Of them, those of QoS 1 that came again.
    pub repetitions: u64,
    /// Connections that moved to another worker.
    pub moves: u64,
    /// Connections reset.
    pub resets: u64,
    /// Clients that stopped reading for a while.
    pub stalls: u64,
    /// Clients that sent rubbish.
    pub rubbish: u64,
    /// Processes killed.
    pub kills: u64,
    /// Power failures.
    pub power_failures: u64,
    /// Logs that forgot what a snapshot holds.
    pub compactions: u64,
}

impl Tally {
    /// Adds another run's.
    pub fn add(&mut self, other: &Tally) {
        self.acknowledged += other.acknowledged;
        self.deliveries += other.deliveries;
        self.repetitions += other.repetitions;
        self.moves += other.moves;
        self.resets += other.resets;
        self.stalls += other.stalls;
        self.rubbish += other.rubbish;
        self.kills += other.kills;
        self.power_failures += other.power_failures;
        self.compactions += other.compactions;
    }

    /// What some hundred seeds must have met.
    pub fn met(&self) -> [(&'static str, u64); 10] {
        [
            ("acknowledgements", self.acknowledged),
            ("deliveries", self.deliveries),
            ("repetitions", self.repetitions),
            ("moves", self.moves),
            ("resets", self.resets),
            ("stalls", self.stalls),
            ("rubbish", self.rubbish),
            ("kills", self.kills),
            ("power failures", self.power_failures),
            ("compactions", self.compactions),
        ]
    }
}

/// A client and its connection, if it has one.
struct Seat {
    client: SimClient,
    socket: Socket,
    link: Option<Link>,
    /// The client has said good-bye: the connection closes when that is sent.
    leaving: bool,
    /// The server wants it closed when its bytes are sent.
    closing: bool,
}

/// One seed's world.
pub struct World {
    plan: Plan,
    chance: Chance,
    trace: Trace,
    disk: FakeDisk,
    house: Option<House>,
    seats: Vec<Seat>,
    oracle: Oracle,
    tally: Tally,
    tick: u64,
    peace: bool,
}

impl World {
    /// The world of `seed`, before its first tick.
    pub fn new(seed: u64, trace: Trace) -> World {
        let mut chance = Chance::new(seed);
        let plan = Plan::draw(&mut chance);
        note!(trace, "{plan:?}");
        let disk = FakeDisk::new(chance.number());
        House::create(&disk, &plan);
        let seats = (0..plan.clients).map(|index| Seat {
            client: SimClient::new(index, &mut chance),
            socket: Socket::default(),
            link: None,
            leaving: false,
            closing: false,
        });
        let seats = seats.collect();
        let (oracle, tally) = (Oracle::new(trace.clone()), Tally::default());
        World { plan, chance, trace, disk, house: None, seats, oracle, tally, tick: 0, peace: false }
    }

    /// Runs to the end: trouble, then peace until everything owed has come.
    pub fn run(&mut self) -> Result<(), Violation> {
        for _ in 0..self.plan.ticks {
            self.step()?;
        }
        self.peace = true;
        note!(self.trace, "peace");
        for _ in 0..PEACE_TICKS_MAX {
            self.step()?;
            if self.is_settled() {
                return self.check_retained();
            }
        }
        let debts = self.oracle.debts();
        let unsettled = self.seats.iter().filter(|seat| seat.client.life() != Life::Online).count();
        Err(Violation::of(
            "what was acknowledged reaches every durable session",
            format!("in peace, {unsettled} clients are not online, and this is missing: {debts:?}"),
        ))
    }

    /// What happened so far.
    pub fn tally(&self) -> Tally {
        let oracle = &self.oracle;
        Tally {
            acknowledged: oracle.acknowledged,
            deliveries: oracle.deliveries,
            repetitions: oracle.repetitions,
            ..self.tally
        }
    }

    fn now(&self) -> TimeMs {
        TimeMs(1_700_000_000_000 + self.tick * 5)
    }

    fn step(&mut self) -> Result<(), Violation> {
        self.tick += 1;
        self.trace.at(self.now().0);
        if !self.peace {
            self.strike()?;
        }
        if self.house.is_none() {
            let house = House::start(&self.disk, &self.plan, &mut self.chance)?;
            note!(self.trace, "the process starts");
            self.house = Some(house);
        }
        for worker in 0..self.plan.workers {
            let slow = !self.peace && self.chance.happens(self.plan.weather.slow_worker);
            if !slow {
                self.turn(worker)?;
            }
            if self.peace || !self.chance.happens(self.plan.weather.slow_disk) {
                let house = self.house.as_mut().expect("it was just started");
                house.step_logs(worker);
            }
        }
        for seat in 0..self.seats.len() {
            self.client_turn(seat)?;
        }
        self.house.as_ref().map_or(Ok(()), House::check)
    }

    /// What the world does to the house.
    fn strike(&mut self) -> Result<(), Violation> {
        let weather = self.plan.weather.clone();
        let (power, kill) = (self.chance.happens(weather.power), self.chance.happens(weather.kill));
        if power || kill {
            if power {
                self.disk.crash();
                self.tally.power_failures += 1;
            } else {
                self.disk.kill();
                self.tally.kills += 1;
            }
            note!(self.trace, "the process ends, by {}", if power { "power failure" } else { "kill" });
            self.house = None;
            for seat in 0..self.seats.len() {
                self.cut(seat, false);
            }
        }
        if self.chance.happens(weather.compact) && self.house.is_some() {
            let shard = self.chance.below(u64::from(self.plan.topic_shards)) as u16;
            if compact_shard(&self.disk, &self.plan, shard)? {
                note!(self.trace, "log {shard} forgets what a snapshot holds");
                self.tally.compactions += 1;
            }
        }
        Ok(())
    }

    /// One turn of a worker: its sockets, its broker, its sockets.
    fn turn(&mut self, worker: u16) -> Result<(), Violation> {
        let now = self.now();
        let house = self.house.as_mut().expect("a worker has a process");
        if house.is_serving() {
            for seat in &mut self.seats {
                let Some((at, key)) = seat.link.filter(|(at, _)| *at == worker) else { continue };
                if !house.broker(at).may_read(key) {
                    continue;
                }
                let bytes = seat.socket.up.read(self.chance.within(1..=4_096) as usize);
                if bytes.is_empty() {
                    continue;
                }
                house.drain_rings(worker, now);
                house.broker(worker).receive(key, &bytes, now);
            }
        }
        let events = house.turn(worker, now);
        for event in events {
            self.take(event)?;
        }
        self.flush(worker)
    }

    fn take(&mut self, event: Event) -> Result<(), Violation> {
        let now = self.now();
        let house = self.house.as_mut().expect("an event has a process");
        match event {
            Event::Moves { from, to, bytes } => {
                let Some(seat) = self.seats.iter_mut().find(|seat| seat.link == Some(from)) else { return Ok(()) };
                self.tally.moves += 1;
                seat.link = house.open(to, now);
                if let Some((worker, key)) = seat.link {
                    house.broker(worker).receive(key, &bytes, now);
                } else {
                    seat.socket.closed_by_server = true;
                }
            }
            Event::Closes(link) => {
                if let Some(seat) = self.seats.iter_mut().find(|seat| seat.link == Some(link)) {
                    seat.closing = true;
                }
            }
        }
        Ok(())
    }

    /// Moves bytes from outboxes into sockets, as far as they fit.
    fn flush(&mut self, worker: u16) -> Result<(), Violation> {
        let now = self.now();
        let (pipe_bytes, outbox_bytes_max) = (self.plan.pipe_bytes, self.plan.outbox_bytes_max);
        let house = self.house.as_mut().expect("a worker has a process");
        let mut flushable = Vec::new();
        house.broker(worker).take_flushable(&mut flushable);
        for seat in &mut self.seats {
            let Some((at, key)) = seat.link.filter(|(at, _)| *at == worker) else { continue };
            let unsent = house.broker(at).unsent(key);
            must(unsent.len() <= outbox_bytes_max + 2 * PACKET_BYTES_MAX, "memory bounds hold", || {
                format!("an outbox of {} bytes", unsent.len())
            })?;
            // A socket that was full becomes writable without a new packet.
            if !flushable.contains(&key) && seat.socket.down.len() >= pipe_bytes {
                continue;
            }
            let written = seat.socket.down.write(unsent, pipe_bytes);
            if written > 0 {
                house.broker(at).sent(key, written, now);
            }
            if seat.closing && house.broker(at).unsent(key).is_empty() {
                seat.socket.closed_by_server = true;
                seat.link = None;
                seat.closing = false;
                house.broker(at).closed(key, now);
            }
        }
        Ok(())
    }

    fn client_turn(&mut self, index: usize) -> Result<(), Violation> {
        let weather = self.plan.weather.clone();
        let trouble = !self.peace;
        if trouble && self.chance.happens(weather.reset) && self.seats[index].client.life() != Life::Offline {
            self.tally.resets += 1;
            note!(self.trace, "client {index} is cut off");
            self.cut(index, true);
            return Ok(());
        }
        if trouble && self.chance.happens(weather.stall) {
            self.tally.stalls += 1;
            self.seats[index].socket.stalled_until = self.tick + self.chance.within(5..=80);
        }
        self.read(index)?;
        self.act(index);
        self.write(index);
        Ok(())
    }

    /// The client takes what has arrived.
    fn read(&mut self, index: usize) -> Result<(), Violation> {
        let (late, partial) = match self.peace {
            true => (0, 0),
            false => (self.plan.weather.chunk_late, self.plan.weather.chunk_partial),
        };
        let tick = self.tick;
        let seat = &mut self.seats[index];
        let stalled = !self.peace && seat.socket.stalled_until > tick;
        if seat.client.life() == Life::Offline || stalled || self.chance.happens(late) {
            return Ok(());
        }
        let most = if self.chance.happens(partial) { self.chance.within(1..=32) as usize } else { usize::MAX };
        let bytes = seat.socket.down.read(most);
        let stays = bytes.is_empty() || seat.client.receive(&bytes, &mut self.oracle)?;
        if !stays || (seat.socket.closed_by_server && seat.socket.down.is_empty()) {
            note!(self.trace, "client {index} is sent away");
            self.cut(index, true);
        }
        Ok(())
    }

    fn act(&mut self, index: usize) {
        let rooms = self.plan.rooms;
        let weather = self.plan.weather.clone();
        let serving = self.house.as_ref().is_some_and(House::is_serving);
        match self.seats[index].client.life() {
            Life::Offline if serving && (self.peace || self.chance.happens(100)) => self.connect(index),
            Life::Online if !self.peace => {
                if self.chance.happens(weather.rubbish) {
                    note!(self.trace, "client {index} sends rubbish");
                    self.tally.rubbish += 1;
                    self.seats[index].client.send_rubbish();
                    self.seats[index].leaving = true;
                } else if self.chance.happens(5) {
                    note!(self.trace, "client {index} leaves");
                    self.seats[index].client.leave();
                    self.seats[index].leaving = true;
                } else if !self.seats[index].leaving && self.chance.happens(500) {
                    self.seats[index].client.act(rooms, &mut self.oracle);
                }
            }
            Life::Offline | Life::Greeting | Life::Online => {}
        }
    }

    fn connect(&mut self, index: usize) {
        let worker = self.chance.below(u64::from(self.plan.workers)) as u16;
        let clean = !self.peace && self.chance.happens(30);
        let now = self.now();
        let house = self.house.as_mut().expect("a client connects to a process");
        // Sometimes while the old connection still stands: the server must take the session over.
        let Some(link) = house.open(worker, now) else { return };
        let seat = &mut self.seats[index];
        seat.socket = Socket::default();
        seat.link = Some(link);
        (seat.leaving, seat.closing) = (false, false);
        seat.client.connect(clean, &mut self.oracle);
        note!(self.trace, "client {index} connects to worker {worker}{}", if clean { ", clean" } else { "" });
    }

    /// What the client has to say goes into its socket.
    fn write(&mut self, index: usize) {
        let late = !self.peace && self.chance.happens(self.plan.weather.chunk_late);
        let seat = &mut self.seats[index];
        if seat.client.life() == Life::Offline || late {
            return;
        }
        let most = if self.peace { usize::MAX } else { self.chance.within(1..=2_048) as usize };
        let count = seat.client.output.len().min(most);
        let written = seat.socket.up.write(&seat.client.output[..count], self.plan.pipe_bytes);
        seat.client.output.drain(..written);
        if seat.leaving && seat.client.output.is_empty() && seat.socket.up.is_empty() {
            self.cut(index, true);
        }
    }

    /// The connection ends. The server may hear of it, or find out when the client comes again.
    fn cut(&mut self, index: usize, server_hears: bool) {
        let now = self.now();
        let heard = server_hears && self.chance.happens(800);
        let seat = &mut self.seats[index];
        if let Some((worker, key)) = seat.link.take()
            && let Some(house) = self.house.as_mut()
            && (heard || self.peace)
        {
            house.broker(worker).closed(key, now);
        }
        (seat.leaving, seat.closing) = (false, false);
        seat.socket = Socket::default();
        seat.client.disconnected(&mut self.oracle);
    }

    fn is_settled(&self) -> bool {
        let quiet = |seat: &Seat| seat.client.is_done() && seat.socket.down.is_empty() && seat.socket.up.is_empty();
        self.seats.iter().all(quiet) && self.oracle.debts().is_empty()
    }

    /// Each topic has its last retained message.
    fn check_retained(&mut self) -> Result<(), Violation> {
        for (topic, (last, possible)) in self.oracle.retained_candidates() {
            let Some(last) = last else { continue };
            let house = self.house.as_ref().expect("peace has a process");
            let found = house.retained(&topic);
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
