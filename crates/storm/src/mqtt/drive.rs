//! The poll loop of a load: a warm-up, the measured time, a drain in which everything must still arrive, and a ping to
//! every client, after which nothing may arrive.

use super::link::Link;
use super::packet::{Arrival, PING_REQUEST};
use crate::process;
use anyhow::{Context, Result, bail};
use mio::{Events, Interest, Poll, Token};
use std::time::{Duration, Instant};

/// A load to which nothing comes for so long has lost something.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// One read takes at most so much; small enough to stay in the cache.
const READ_BYTES: usize = 256 * 1024;

/// Clients by index, and which of them have something to send.
pub struct Links {
    all: Vec<Link>,
    to_flush: Vec<usize>,
}

impl Links {
    /// Where packets of a client go; flushed at the end of the turn.
    #[inline]
    pub fn outbox(&mut self, link: usize) -> &mut Vec<u8> {
        let outbox = self.all[link].outbox();
        if outbox.is_empty() {
            self.to_flush.push(link);
        }
        outbox
    }

    /// Bytes that a client's socket has not taken.
    #[inline]
    pub fn unsent_bytes(&self, link: usize) -> usize {
        self.all[link].unsent_bytes()
    }
}

/// Who publishes what and what must arrive where. Times are in nanoseconds since the load began.
pub trait Traffic {
    /// A packet came to a client; answers go to its outbox.
    fn arrived(&mut self, link: usize, arrival: Arrival<'_>, outbox: &mut Vec<u8>, now_ns: u64) -> Result<()>;

    /// Publishes what may be published now. Asked after each turn of the loop until the measured stretch is over.
    fn publish(&mut self, links: &mut Links, now_ns: u64) -> Result<()>;

    /// The measured stretch begins.
    fn begin(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// Messages delivered so far.
    fn delivered(&self) -> u64;

    /// Messages, or acknowledgements, that must still come.
    fn outstanding(&self) -> u64;
}

/// How long.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Not measured.
    pub warm_up: Duration,
    /// Measured.
    pub measured: Duration,
    /// From one turn of the loop to the next, at least. What comes or is due in between is taken together: a load that
    /// wakes up for each packet takes from the broker the processor time that it is to be measured by.
    pub turn: Duration,
}

/// What the measured stretch brought.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Messages delivered.
    pub delivered: u64,
    /// Its length.
    pub elapsed: Duration,
    /// Processor time of the broker.
    pub broker_time: Duration,
    /// Processor time of the load.
    pub load_time: Duration,
}

impl Measured {
    /// Messages delivered in a second.
    pub fn per_second(&self) -> f64 {
        self.delivered as f64 / self.elapsed.as_secs_f64()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measured,
    Drain,
    Ping,
}

/// Drives clients that are in and subscribed through a plan. `broker_time` tells the processor time the broker has
/// used.
pub fn drive(
    clients: Vec<Link>,
    traffic: &mut impl Traffic,
    plan: Plan,
    broker_time: impl Fn() -> Result<Duration>,
) -> Result<Measured> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(clients.len().max(16));
    let mut links = Links { all: clients, to_flush: Vec::new() };
    for (index, link) in links.all.iter_mut().enumerate() {
        poll.registry().register(link.socket(), Token(index), Interest::READABLE | Interest::WRITABLE)?;
    }
    let mut buffer = vec![0; READ_BYTES];
    let mut pongs = 0;
    let mut phase = Phase::WarmUp;
    let mut before = (0, Duration::ZERO, Duration::ZERO, Instant::now());
    let mut measured = None;
    let started = Instant::now();
    let (mut heard, mut next_turn) = (started, started);
    loop {
        let until = match phase {
            Phase::WarmUp => started + plan.warm_up,
            Phase::Measured => started + plan.warm_up + plan.measured,
            Phase::Drain | Phase::Ping => heard + SILENCE_MAX,
        };
        std::thread::sleep(next_turn.saturating_duration_since(Instant::now()));
        next_turn = Instant::now() + plan.turn;
        poll.poll(&mut events, Some(Duration::ZERO))?;
        for event in &events {
            let index = event.token().0;
            let link = &mut links.all[index];
            if event.is_readable() {
                let now = started.elapsed().as_nanos() as u64;
                let take = |arrival: Arrival<'_>, outbox: &mut Vec<u8>| match arrival {
                    Arrival::Pong => {
                        pongs += 1;
                        Ok(())
                    }
                    other => traffic.arrived(index, other, outbox, now),
                };
                link.receive(&mut buffer, take).with_context(|| format!("client {index}"))?;
                heard = Instant::now();
            }
            if link.unsent_bytes() > 0 {
                link.flush()?;
            }
        }
        let now = Instant::now();
        if matches!(phase, Phase::WarmUp | Phase::Measured) {
            traffic.publish(&mut links, (now - started).as_nanos() as u64)?;
        }
        while let Some(index) = links.to_flush.pop() {
            links.all[index].flush()?;
        }
        match phase {
            Phase::WarmUp if now >= until => {
                traffic.begin((now - started).as_nanos() as u64);
                before = (traffic.delivered(), broker_time()?, process::own_processor_time()?, now);
                phase = Phase::Measured;
            }
            Phase::Measured if now >= until => {
                measured = Some(Measured {
                    delivered: traffic.delivered() - before.0,
                    elapsed: now - before.3,
                    broker_time: broker_time()? - before.1,
                    load_time: process::own_processor_time()? - before.2,
                });
                heard = now;
                phase = Phase::Drain;
            }
            Phase::Drain if traffic.outstanding() == 0 => {
                for index in 0..links.all.len() {
                    links.all[index].outbox().extend(PING_REQUEST);
                    links.all[index].flush()?;
                }
                phase = Phase::Ping;
            }
            Phase::Ping if pongs == links.all.len() => return Ok(measured.expect("a drain follows a stretch")),
            Phase::Drain | Phase::Ping if now >= until => {
                bail!(
                    "nothing came for {} s: of {} messages delivered, {} more are outstanding; {pongs} pongs",
                    SILENCE_MAX.as_secs(),
                    traffic.delivered(),
                    traffic.outstanding()
                );
            }
            _ => {}
        }
    }
}
