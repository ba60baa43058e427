//! The poll loop: packets are sent when they are due, and their answers are timed from then.

use super::connection::Connection;
use super::protocol::To;
use super::{Answers, Protocol};
use crate::process;
use crate::schedule::Schedule;
use anyhow::{Context, Result, bail};
use histogram::Histogram;
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tidegate_wire::pacer::NoticeOutcome;

/// Packets that are asked and not answered, at most: a bound of memory, reached only by a server that cannot keep up.
const IN_FLIGHT_MAX: u32 = 1 << 17;

/// When a packet was due that is not asked.
const NOT_ASKED: u64 = u64::MAX;

/// One read takes at most so much; small enough to stay in the cache.
const READ_BYTES: usize = 256 * 1024;

/// What won is told with the connection's next packets, or after so much time.
const NOTICE_DELAY: Duration = Duration::from_millis(1);

/// Wins that wait for a connection that tells them, at most: a bound of memory. More are not told, and counted.
const WINS_WAITING_MAX: usize = 4_096;

/// A server that answers nothing for so long has failed the run.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Buckets 0.8 % wide, up to 2^37 ns = 137 s.
const HISTOGRAM_POWERS: (u8, u8) = (7, 37);

/// How much, over how many connections, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections.
    pub connections: usize,
    /// Bid requests a second.
    pub bids_per_s: f64,
    /// Most packets in a row on one connection.
    pub burst: u32,
    /// Most packets without an answer on one connection, of protocols that answer in order. What is due meanwhile goes
    /// to another, or waits.
    pub pipeline: usize,
    /// From one turn to the next, at least.
    pub turn: Duration,
    /// Not measured.
    pub warm_up: Duration,
    /// Measured.
    pub measured: Duration,
    /// Ends the load when a packet could not be sent for so long after it was due.
    pub give_up_after: Option<Duration>,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            connections: 64,
            bids_per_s: 100_000.0,
            burst: 8,
            pipeline: usize::MAX,
            turn: Duration::from_micros(100),
            warm_up: Duration::from_secs(1),
            measured: Duration::from_secs(10),
            give_up_after: None,
        }
    }
}

/// What is loaded.
pub struct Target<'a> {
    /// Where it listens.
    pub address: SocketAddr,
    /// Tells the processor time that it has used.
    pub processor_time: &'a dyn Fn() -> Result<Duration>,
}

/// What the measured stretch brought.
pub struct Measured {
    /// What was asked.
    pub load: Load,
    /// Bid requests in a packet.
    pub bids_per_packet: u64,
    /// Its length.
    pub elapsed: Duration,
    /// What was answered in it.
    pub answers: Answers,
    /// Of packets that were due in it, in nanoseconds, from when they were due until their answer was read.
    latency_ns: Histogram,
    /// How late the load sent packets: what of the latency is its own.
    late_ns: Histogram,
    /// Packets that were due and not sent, as too many were without an answer.
    pub unsent: u64,
    /// Packets and notices that were never answered.
    pub unanswered: u64,
    /// Wins that were not told, as too many waited for a connection.
    pub wins_untold: u64,
    /// Processor time of the load.
    pub own_time: Duration,
    /// Processor time of the server.
    pub server_time: Duration,
}

impl Measured {
    /// Bid requests answered in a second.
    pub fn bids_per_s(&self) -> f64 {
        self.answers.requests() as f64 / self.elapsed.as_secs_f64()
    }

    /// Latency of a packet in milliseconds at a quantile such as 0.99; infinite if packets were not sent or answered.
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        if self.unsent + self.unanswered > 0 { f64::INFINITY } else { ms_at(&self.latency_ns, quantile) }
    }

    /// Processor time of the server for each bid request, in nanoseconds.
    pub fn server_cpu_ns(&self) -> f64 {
        self.server_time.as_nanos() as f64 / self.answers.requests() as f64
    }

    /// Notices in a second that were answered so.
    pub fn notices_per_s(&self, outcome: NoticeOutcome) -> f64 {
        self.answers.notices[outcome as usize] as f64 / self.elapsed.as_secs_f64()
    }

    /// How late packets were sent, in milliseconds at a quantile.
    pub fn late_ms(&self, quantile: f64) -> f64 {
        ms_at(&self.late_ns, quantile)
    }
}

fn ms_at(histogram: &Histogram, quantile: f64) -> f64 {
    match histogram.quantile_bucket(quantile) {
        Ok(Some(bucket)) => bucket.end() as f64 / 1e6,
        _ => f64::NAN,
    }
}

fn histogram() -> Histogram {
    Histogram::new(HISTOGRAM_POWERS.0, HISTOGRAM_POWERS.1).expect("the histogram's powers are constants")
}

#[inline]
fn count(histogram: &mut Histogram, ns: u64) {
    histogram.increment(ns.min((1 << HISTOGRAM_POWERS.1) - 1)).expect("the value was bounded");
}

/// Puts `load` on a server.
pub fn measure(target: &Target<'_>, load: Load, protocol: &mut impl Protocol) -> Result<Measured> {
    let mut run = Run::open(target.address, load, protocol)?;
    match run.ask_until_over(target, protocol)? {
        End::Over => run.drain(protocol)?,
        // A server so far behind may need long for the rest.
        End::GivenUp => run.measured.unanswered = run.in_flight(),
    }
    Ok(run.measured)
}

/// How the measured stretch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// By its time.
    Over,
    /// By [`Load::give_up_after`].
    GivenUp,
}

/// A load that is under way. Times are in nanoseconds since it began.
struct Run<P: Protocol> {
    poll: Poll,
    events: Events,
    /// Those that ask, then those that tell of wins, if these go apart.
    connections: Vec<Connection<P::Won>>,
    /// Those of the latter that wait for no answer.
    idle_tellers: Vec<usize>,
    /// Won, and to be told apart.
    wins_waiting: VecDeque<P::Won>,
    buffer: Vec<u8>,
    begin: Instant,
    schedule: Schedule,
    /// By tag: when the packet was due.
    due_ns: Vec<u64>,
    free_tags: Vec<u32>,
    notices_in_flight: u64,
    /// Whose turn it is.
    next_connection: usize,
    answers: Answers,
    measured: Measured,
    measured_from_ns: u64,
    measured_until_ns: u64,
}

impl<P: Protocol> Run<P> {
    fn open(address: SocketAddr, load: Load, protocol: &mut P) -> Result<Run<P>> {
        let poll = Poll::new()?;
        let tellers = if P::NOTICES_APART { load.connections } else { 0 };
        let count = load.connections + tellers;
        let mut connections = Vec::with_capacity(count);
        for index in 0..count {
            let mut connection =
                Connection::open(address, protocol).with_context(|| format!("connection {} of {count}", index + 1))?;
            poll.registry().register(connection.socket(), Token(index), Interest::READABLE | Interest::WRITABLE)?;
            connections.push(connection);
        }
        let bids_per_packet = protocol.bids_per_packet();
        let measured_from_ns = load.warm_up.as_nanos() as u64;
        Ok(Run {
            poll,
            events: Events::with_capacity(count.max(16)),
            connections,
            idle_tellers: (load.connections..count).collect(),
            wins_waiting: VecDeque::new(),
            buffer: vec![0; READ_BYTES],
            begin: Instant::now(),
            schedule: Schedule::new(load.bids_per_s / bids_per_packet as f64),
            due_ns: vec![NOT_ASKED; IN_FLIGHT_MAX as usize],
            free_tags: (0..IN_FLIGHT_MAX).rev().collect(),
            notices_in_flight: 0,
            next_connection: 0,
            answers: Answers::default(),
            measured: Measured {
                load,
                bids_per_packet,
                elapsed: Duration::ZERO,
                answers: Answers::default(),
                latency_ns: histogram(),
                late_ns: histogram(),
                unsent: 0,
                unanswered: 0,
                wins_untold: 0,
                own_time: Duration::ZERO,
                server_time: Duration::ZERO,
            },
            measured_from_ns,
            measured_until_ns: measured_from_ns + load.measured.as_nanos() as u64,
        })
    }

    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// The warm-up and the measured stretch.
    fn ask_until_over(&mut self, target: &Target<'_>, protocol: &mut P) -> Result<End> {
        let turn = self.measured.load.turn;
        self.begin = Instant::now();
        let (mut next_turn, mut next_notices) = (self.begin, self.begin);
        let used = || Ok::<_, anyhow::Error>((process::own_processor_time()?, (target.processor_time)()?));
        let mut before = (self.begin, self.answers, used()?);
        let mut is_measured = false;
        let end = loop {
            std::thread::sleep(next_turn.saturating_duration_since(Instant::now()));
            let now = Instant::now();
            next_turn = now + turn;
            let now_ns = (now - self.begin).as_nanos() as u64;
            if !is_measured && now_ns >= self.measured_from_ns {
                is_measured = true;
                before = (now, self.answers, used()?);
            }
            // First what frees connections, then what needs them.
            self.receive(protocol)?;
            let sent_all = self.ask(protocol, now_ns)?;
            if now_ns >= self.measured_until_ns {
                break End::Over;
            }
            if now >= next_notices {
                self.notify(protocol)?;
                next_notices = now + NOTICE_DELAY;
            }
            if !sent_all && self.is_given_up() {
                break End::GivenUp;
            }
        };
        let (began, answers, (own_time, server_time)) = before;
        self.measured.elapsed = began.elapsed();
        self.measured.answers = self.answers - answers;
        let (own_time_now, server_time_now) = used()?;
        self.measured.own_time = own_time_now - own_time;
        self.measured.server_time = server_time_now - server_time;
        let until_ns = self.now_ns().min(self.measured_until_ns);
        self.measured.unsent = std::iter::from_fn(|| self.schedule.due(until_ns)).count() as u64;
        Ok(end)
    }

    /// Whether the next packet has been due for longer than anybody waits.
    fn is_given_up(&self) -> bool {
        let late_ns = self.now_ns().saturating_sub(self.schedule.next_due_ns());
        self.measured.load.give_up_after.is_some_and(|after| late_ns > after.as_nanos() as u64)
    }

    /// Sends what is due and belongs to the load; `false` if some of it must wait until others are answered.
    fn ask(&mut self, protocol: &mut P, now_ns: u64) -> Result<bool> {
        let until_ns = now_ns.min(self.measured_until_ns);
        let mut left_of_burst = 0;
        let mut index = self.next_connection;
        let sent_all = loop {
            let Some(&tag) = self.free_tags.last() else { break false };
            let goes_on = left_of_burst > 0 && self.has_room(index);
            let Some(next) = (if goes_on { Some(index) } else { self.next_with_room() }) else { break false };
            let Some((_, due_ns)) = self.schedule.due(until_ns) else { break true };
            self.free_tags.pop();
            if !goes_on {
                self.connections[index].flush()?;
                index = next;
                self.next_connection = (index + 1) % self.measured.load.connections;
                left_of_burst = self.measured.load.burst;
                if due_ns >= self.measured_from_ns {
                    count(&mut self.measured.late_ns, now_ns - due_ns);
                }
                // What won goes with these packets: a call less.
                if !P::NOTICES_APART {
                    self.notices_in_flight += self.connections[index].notify(protocol);
                }
            }
            left_of_burst -= 1;
            self.due_ns[tag as usize] = due_ns;
            let connection = &mut self.connections[index];
            protocol.ask(tag, connection.outbox());
            if P::IN_ORDER {
                connection.order.push_back(tag);
            }
        };
        self.connections[index].flush()?;
        Ok(sent_all)
    }

    /// Whether one more packet may be asked on a connection.
    fn has_room(&self, index: usize) -> bool {
        self.connections[index].order.len() < self.measured.load.pipeline
    }

    /// The next connection in turn on which one more packet may be asked.
    fn next_with_room(&self) -> Option<usize> {
        let count = self.measured.load.connections;
        (0..count).map(|step| (self.next_connection + step) % count).find(|index| self.has_room(*index))
    }

    /// Tells of what won: of all of it, or where notices go apart of as much as there are connections for.
    fn notify(&mut self, protocol: &mut P) -> Result<()> {
        if P::NOTICES_APART {
            return self.notify_apart(protocol);
        }
        for connection in &mut self.connections {
            let notices = connection.notify(protocol);
            if notices > 0 {
                self.notices_in_flight += notices;
                connection.flush()?;
            }
        }
        Ok(())
    }

    fn notify_apart(&mut self, protocol: &mut P) -> Result<()> {
        while let Some(&index) = self.idle_tellers.last()
            && let Some(won) = self.wins_waiting.pop_front()
        {
            self.idle_tellers.pop();
            let connection = &mut self.connections[index];
            connection.won.push(won);
            self.notices_in_flight += connection.notify(protocol);
            connection.flush()?;
        }
        Ok(())
    }

    /// Reads all answers that have come; whether there were any.
    fn receive(&mut self, protocol: &mut P) -> Result<bool> {
        self.poll.poll(&mut self.events, Some(Duration::ZERO))?;
        let Run { connections, buffer, begin, due_ns, free_tags, answers, measured, .. } = self;
        let (idle_tellers, wins_waiting) = (&mut self.idle_tellers, &mut self.wins_waiting);
        let askers = measured.load.connections;
        let (from_ns, mut is_heard) = (self.measured_from_ns, false);
        for event in &self.events {
            let index = event.token().0;
            let connection = &mut connections[index];
            if event.is_readable() {
                is_heard = true;
                let notices = &mut self.notices_in_flight;
                connection.receive(protocol, answers, buffer, |answer, order, now| {
                    let to = if index < askers { answer.to } else { To::Notices };
                    let tag = match to {
                        To::Packet(_) if P::IN_ORDER => order.pop_front().context("an answer that nobody asked for")?,
                        To::Packet(tag) => tag,
                        To::Notices => {
                            *notices = notices.checked_sub(1).context("an answer to a notice that nobody sent")?;
                            if index >= askers {
                                idle_tellers.push(index);
                            }
                            return Ok(());
                        }
                    };
                    let due = due_ns.get_mut(tag as usize).map(|due_ns| std::mem::replace(due_ns, NOT_ASKED));
                    let due_ns = due.filter(|due_ns| *due_ns != NOT_ASKED);
                    let due_ns = due_ns.context("an answer with the correlation of no open request")?;
                    free_tags.push(tag);
                    if due_ns >= from_ns {
                        let now_ns = (now - *begin).as_nanos() as u64;
                        count(&mut measured.latency_ns, now_ns - due_ns);
                    }
                    Ok(())
                })?;
            }
            if P::NOTICES_APART {
                let room = WINS_WAITING_MAX - wins_waiting.len();
                measured.wins_untold += connection.won.len().saturating_sub(room) as u64;
                wins_waiting.extend(connection.won.drain(..).take(room));
            }
            if connection.unsent_bytes() > 0 {
                connection.flush()?;
            }
        }
        Ok(is_heard)
    }

    /// Waits for what is still to be answered.
    fn drain(&mut self, protocol: &mut P) -> Result<()> {
        let mut heard = Instant::now();
        while self.in_flight() > 0 {
            if self.receive(protocol)? {
                heard = Instant::now();
                self.notify(protocol)?;
            }
            if heard.elapsed() > SILENCE_MAX {
                break;
            }
            std::thread::sleep(self.measured.load.turn);
        }
        self.measured.unanswered = self.in_flight();
        if self.answers.requests() == 0 && self.measured.unanswered > 0 {
            bail!("the server answered nothing for {} s; its log says why", SILENCE_MAX.as_secs());
        }
        Ok(())
    }

    /// Packets and notices without an answer, and wins that are still to be told.
    fn in_flight(&self) -> u64 {
        let packets = u64::from(IN_FLIGHT_MAX) - self.free_tags.len() as u64;
        packets + self.notices_in_flight + self.wins_waiting.len() as u64
    }
}
