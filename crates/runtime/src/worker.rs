//! The poll loop of a worker: it serves rings, sockets and shards in turn, on one pinned thread.
//!
//! ```text
//!   ┌▶ deliver parcels ─▶ ports serve ─▶ residents step ─▶ ports flush ─▶ wake receivers ─────────────┐
//!   └──────────────── poll: at once if there was work, else asleep until a socket, a ring or a log ◀──┘
//! ```
//!
//! Why all ports are served before the shards are stepped: requests that arrive together are then decided together and
//! synced as one group.
//!
//! Invariant: the loop holds a list of ports and a list of residents, and names none of them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use tidegate_machines::TimeMs;
use tidegate_rings::limits::RING_MESSAGES;

use crate::address::{Address, EndpointIndex, Envelope, MemberIndex};
use crate::clock::{ClockKeeper, NodeClock};
use crate::limits::PORTS_MAX;
use crate::longest_turn::LongestTurn;
use crate::member::{Context, Port, PortSockets, Resident};
use crate::mesh::Endpoint;
use crate::metrics::LoopMetrics;
use crate::port_clock::PortClock;
use crate::status::Status;
use crate::threads::now_ms;

/// How long an idle worker sleeps at most: timers (expiries, retries, silent clients) are looked at so often.
const TICK: Duration = Duration::from_millis(20);
/// How long a stopping worker waits at least for clients to take their replies.
const STOP_PATIENCE_MIN: Duration = Duration::from_secs(5);
/// How long it takes to disconnect the clients that are left when the time to send them away is over.
const DISCONNECT_TIME: Duration = Duration::from_secs(2);
/// How long a stopping worker waits for its residents to sync what they hold.
const STOP_AT_LATEST: Duration = Duration::from_secs(20);
/// The token of the waker.
const WAKER: Token = Token(usize::MAX);

/// What the workers of a node share so that they stop together.
#[derive(Clone)]
pub struct WorkerGroup {
    /// What the process is doing.
    pub status: Arc<Status>,
    /// What time it is.
    pub clock: Arc<NodeClock>,
    /// Workers that have nothing of their own under way while the process stops.
    pub quiet: Arc<AtomicU16>,
    /// How many workers there are.
    pub count: u16,
}

/// Everything that a worker's thread owns.
pub struct Worker<P> {
    members: Members<P>,
    endpoint: Endpoint<P>,
    /// Parcels from members of this worker to others of them.
    own: VecDeque<Envelope<P>>,
    poll: Poll,
    group: WorkerGroup,
    /// One worker of all makes the clock follow the host's.
    clock_keeper: Option<ClockKeeper>,
    metrics: LoopMetrics,
}

/// The members of one worker, by their numbers: ports first.
struct Members<P> {
    endpoint: EndpointIndex,
    ports: Vec<Box<dyn Port<P>>>,
    /// Of the ports, in their order.
    clocks: Vec<PortClock>,
    residents: Vec<Box<dyn Resident<P>>>,
}

impl<P> Members<P> {
    fn address(&self, member: usize) -> Address {
        Address { endpoint: self.endpoint, member: MemberIndex(member as u16) }
    }

    /// Each port, and its time when it is `now` for the node.
    fn ports_at(&mut self, now: TimeMs) -> impl Iterator<Item = (&mut Box<dyn Port<P>>, TimeMs)> {
        let times = self.clocks.iter_mut().map(move |clock| clock.time(now));
        self.ports.iter_mut().zip(times)
    }

    /// All of them as what they have in common.
    fn all(&mut self) -> impl Iterator<Item = &mut dyn Resident<P>> {
        let ports = self.ports.iter_mut().map(|port| &mut **port as &mut dyn Resident<P>);
        ports.chain(self.residents.iter_mut().map(|resident| &mut **resident as &mut dyn Resident<P>))
    }

    fn any(&mut self, is_so: impl FnMut(&mut dyn Resident<P>) -> bool) -> bool {
        self.all().any(is_so)
    }
}

/// A process that stops, as its worker sees it.
struct Stopping {
    since: Instant,
    /// Whether the clients that were left when their time was over have been disconnected.
    disconnected_rest: bool,
    counted_quiet: bool,
}

impl<P: Send> Worker<P> {
    /// Prepares the thread's poll; its endpoint can be woken from here on. Members are numbered as they stand in the
    /// lists, ports first.
    pub(crate) fn new(
        ports: Vec<(Box<dyn Port<P>>, PortClock)>,
        residents: Vec<Box<dyn Resident<P>>>,
        endpoint: Endpoint<P>,
        group: WorkerGroup,
        metrics: LoopMetrics,
    ) -> io::Result<Worker<P>> {
        assert!(ports.len() <= PORTS_MAX, "each port has its tokens");
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        endpoint.parker().set_wake(move || {
            // If a wake-up fails, the worker wakes at its next tick.
            let _ = waker.wake();
        });
        let (ports, clocks) = ports.into_iter().unzip();
        let members = Members { endpoint: endpoint.index(), ports, clocks, residents };
        Ok(Worker { members, endpoint, own: VecDeque::new(), poll, group, clock_keeper: None, metrics })
    }

    /// Lets this worker make the clock of all follow the host's.
    pub fn with_clock_keeper(mut self, keeper: ClockKeeper) -> Worker<P> {
        self.clock_keeper = Some(keeper);
        self
    }

    /// Serves until the process stops, then closes what its members hold.
    pub fn run(mut self) -> anyhow::Result<()> {
        for (number, port) in self.members.ports.iter_mut().enumerate() {
            port.register(PortSockets::new(self.poll.registry(), number)?)?;
        }
        let mut events = Events::with_capacity(1_024);
        let mut stopping: Option<Stopping> = None;
        let mut drained_per_second = None;
        let (mut ticked, mut busy) = (Instant::now(), Duration::ZERO);
        let mut longest = LongestTurn::new();
        loop {
            let turned = Instant::now();
            // The earlier one of the two is read first: a pause between them makes nothing early.
            let wall = now_ms();
            let now = self.group.clock.now();
            let worked = self.turn(now, wall);
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.tick(now, std::mem::take(&mut busy));
                longest.show(&self.metrics);
                // A process that stops has begun a drain of its own, which nobody ends.
                if stopping.is_none() {
                    self.follow_drain(&mut drained_per_second, now);
                }
            }
            if stopping.is_none() && self.group.status.is_stopping() {
                self.members.ports_at(now).for_each(|(port, now)| port.stop_listening(now));
                stopping = Some(Stopping { since: Instant::now(), disconnected_rest: false, counted_quiet: false });
            }
            if let Some(stopping) = &mut stopping
                && self.may_end(stopping, now)
            {
                break;
            }
            let took = turned.elapsed();
            busy += took;
            longest.note(took);
            self.members.ports.iter_mut().for_each(|port| port.observe_turn(took));
            self.wait(!worked, &mut events)?;
        }
        self.note_failure();
        self.close()
    }

    /// Runs one turn. Returns whether anything happened.
    fn turn(&mut self, now: TimeMs, wall: TimeMs) -> bool {
        // Parcels left from the last turn are older than those in the rings.
        let mut worked = self.deliver_own(now);
        worked |= self.receive(now);
        for member in 0..self.members.ports.len() {
            let now = self.members.clocks[member].time(now);
            let mut context = Context::new(self.members.address(member), now, &mut self.endpoint, &mut self.own);
            worked |= self.members.ports[member].serve(&mut context);
        }
        worked |= self.deliver_own(now);
        let ports = self.members.ports.len();
        for number in 0..self.members.residents.len() {
            let me = self.members.address(ports + number);
            let mut context = Context::new(me, now, &mut self.endpoint, &mut self.own).with_wall(wall);
            worked |= self.members.residents[number].step(&mut context);
        }
        worked |= self.deliver_own(now);
        // Other workers go on while this one writes to its sockets.
        self.endpoint.wake_receivers();
        for member in 0..ports {
            let now = self.members.clocks[member].time(now);
            let mut context = Context::new(self.members.address(member), now, &mut self.endpoint, &mut self.own);
            worked |= self.members.ports[member].flush(&mut context);
        }
        self.endpoint.wake_receivers();
        worked || !self.own.is_empty()
    }

    /// Delivers what the rings have, at most one ring's worth from each sender. What members send each other because of
    /// it comes later.
    fn receive(&mut self, now: TimeMs) -> bool {
        let mut any = false;
        for ring in 0..self.endpoint.rings() {
            for _ in 0..RING_MESSAGES {
                let Some(envelope) = self.endpoint.take_from(ring) else { break };
                any = true;
                self.deliver(envelope, now);
            }
        }
        any
    }

    /// Delivers what members of this worker have sent each other, and what they send each other because of it.
    fn deliver_own(&mut self, now: TimeMs) -> bool {
        let any = !self.own.is_empty();
        while let Some(envelope) = self.own.pop_front() {
            self.deliver(envelope, now);
        }
        any
    }

    fn deliver(&mut self, envelope: Envelope<P>, now: TimeMs) {
        let Envelope { from, to, body } = envelope;
        let me = Address { endpoint: self.members.endpoint, member: to };
        let member = usize::from(to.0);
        let ports = self.members.ports.len();
        let now = self.members.clocks.get_mut(member).map_or(now, |clock| clock.time(now));
        let mut context = Context::new(me, now, &mut self.endpoint, &mut self.own);
        match self.members.ports.get_mut(member) {
            Some(port) => port.deliver(from, body, &mut context),
            None => self.members.residents[member - ports].deliver(from, body, &mut context),
        }
    }

    /// Sleeps if there was nothing to do and nothing has come meanwhile, and looks at the sockets in any case.
    fn wait(&mut self, is_free: bool, events: &mut Events) -> io::Result<()> {
        let members = &mut self.members;
        let asleep = is_free && self.endpoint.sleep_unless(|| members.any(|member| member.has_news()));
        let sleeps = self.members.ports.iter().filter_map(|port| port.sleep_max());
        let timeout = if asleep { sleeps.fold(TICK, Duration::min) } else { Duration::ZERO };
        self.poll.poll(events, Some(timeout)).or_else(interrupted)?;
        if asleep {
            self.endpoint.awake();
        }
        for event in events.iter().filter(|event| event.token() != WAKER) {
            let (port, token) = PortSockets::owner(event.token());
            self.members.ports[port].on_event(token, event);
        }
        Ok(())
    }

    /// Does what is due at each tick. `busy` is the time since the last tick in which the loop did not wait.
    fn tick(&mut self, now: TimeMs, busy: Duration) {
        if let Some(keeper) = &mut self.clock_keeper {
            keeper.tick();
        }
        self.members.ports_at(now).for_each(|(port, now)| port.tick(now));
        self.members.clocks.iter().for_each(PortClock::observe);
        self.members.residents.iter_mut().for_each(|resident| resident.tick(now));
        self.metrics.ring_depth.set(self.endpoint.depth() as i64);
        self.metrics.busy_nanoseconds.add(busy.as_nanos() as u64);
        self.note_failure();
    }

    /// Sends clients away, or lets them stay, as the operator has asked since the last time.
    fn follow_drain(&mut self, followed: &mut Option<u32>, now: TimeMs) {
        let asked = self.group.status.drain_per_second();
        if std::mem::replace(followed, asked) == asked {
            return;
        }
        self.members.ports_at(now).for_each(|(port, now)| match asked {
            Some(per_second) => port.drain(per_second, now),
            None => port.end_drain(),
        });
    }

    /// A member that failed fails the process: from then on nothing is reported as durable.
    fn note_failure(&mut self) {
        if let Some(failure) = self.members.all().find_map(|member| member.failure()) {
            self.group.status.fail(failure);
        }
    }

    /// Whether a stopping worker may end: no requests are left, and what was accepted is durable.
    fn may_end(&mut self, stopping: &mut Stopping, now: TimeMs) -> bool {
        let elapsed = stopping.since.elapsed();
        let leave_time = self.members.ports.iter().map(|port| port.leave_time()).max().unwrap_or_default();
        if elapsed >= leave_time && !std::mem::replace(&mut stopping.disconnected_rest, true) {
            self.members.ports_at(now).for_each(|(port, now)| port.disconnect_rest(now));
        }
        let patience = STOP_PATIENCE_MIN.max(leave_time + DISCONNECT_TIME);
        let patient = elapsed < patience;
        let is_quiet = !self.members.any(|member| !member.is_quiet());
        if !stopping.counted_quiet && (is_quiet || !patient) {
            stopping.counted_quiet = true;
            self.group.quiet.fetch_add(1, Ordering::AcqRel);
        }
        let all_quiet = self.group.quiet.load(Ordering::Acquire) >= self.group.count;
        let is_idle = self.own.is_empty() && !self.members.any(|member| !member.is_idle());
        // What cannot be synced any more, for example on a full disk, was never acknowledged.
        let settled = all_quiet && is_idle || elapsed >= patience + STOP_AT_LATEST;
        settled && self.group.status.may_end()
    }

    fn close(self) -> anyhow::Result<()> {
        let Members { ports, residents, .. } = self.members;
        let ports = ports.into_iter().map(|port| -> Box<dyn Resident<P>> { port });
        ports.chain(residents).try_for_each(|member| member.close())
    }
}

fn interrupted(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}
