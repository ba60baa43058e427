//! The members of a worker: residents, which are stepped, and ports, which also serve sockets.
//!
//! ```text
//!   one turn:  parcels ─▶ Resident::deliver
//!              sockets ─▶ Port::serve
//!              Resident::step
//!              Port::flush ─▶ sockets
//!              parcels ─▶ rings
//! ```
//!
//! Invariant: the worker's loop knows these traits and no implementation of them. `dyn` costs one call per turn and per
//! parcel; all that happens per record is compiled for its type.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use mio::event::Event;
use mio::{Interest, Registry, Token, event};
use tidegate_machines::TimeMs;

use crate::address::{Address, EndpointIndex, Envelope};
use crate::limits::PORT_TOKENS;
use crate::mesh::Endpoint;

/// What a member sees of its worker while it is called.
pub struct Context<'a, P> {
    me: Address,
    now: TimeMs,
    wall: TimeMs,
    endpoint: &'a mut Endpoint<P>,
    /// Parcels to members of this worker.
    own: &'a mut VecDeque<Envelope<P>>,
}

impl<'a, P: Send> Context<'a, P> {
    /// For the member at `me`.
    pub fn new(
        me: Address,
        now: TimeMs,
        endpoint: &'a mut Endpoint<P>,
        own: &'a mut VecDeque<Envelope<P>>,
    ) -> Context<'a, P> {
        Context { me, now, wall: now, endpoint, own }
    }

    /// The same, where the clock of the host says `wall`.
    pub fn with_wall(self, wall: TimeMs) -> Context<'a, P> {
        Context { wall, ..self }
    }

    /// Where this member gets its parcels.
    pub fn me(&self) -> Address {
        self.me
    }

    /// The time at the beginning of this turn: the node's, or the port's.
    pub fn now(&self) -> TimeMs {
        self.now
    }

    /// What the clock of the host said at the beginning of this turn, as a resident sees it while it is stepped; the
    /// same as [`now`](Context::now) elsewhere.
    pub fn wall(&self) -> TimeMs {
        self.wall
    }

    /// Sends a parcel. It is in the receiver's ring when this returns, if that has room.
    #[inline]
    pub fn send(&mut self, to: Address, body: P) {
        if to.endpoint == self.me.endpoint {
            self.own.push_back(Envelope { from: self.me, to: to.member, body });
        } else {
            self.endpoint.send(self.me, to, body);
        }
    }

    /// Whether the next parcel to `to` goes into the ring at once.
    pub fn has_room(&mut self, to: EndpointIndex) -> bool {
        self.endpoint.has_room(to)
    }

    /// Wakes the receivers of what was sent, before the turn does.
    pub fn wake_receivers(&mut self) {
        self.endpoint.wake_receivers();
    }

    /// Takes all that is in the rings now: parcels to this member are given to `mine`, in order; the others wait for
    /// the loop.
    pub fn drain_rings(&mut self, mut mine: impl FnMut(Address, P)) {
        let (me, own) = (self.me.member, &mut *self.own);
        self.endpoint.receive(|envelope| match envelope.to == me {
            true => mine(envelope.from, envelope.body),
            false => own.push_back(envelope),
        });
    }
}

/// A member of a worker.
pub trait Resident<P>: Send {
    /// Takes a parcel.
    fn deliver(&mut self, from: Address, body: P, context: &mut Context<'_, P>);

    /// Does what can be done now. Returns whether anything happened, so that an idle worker may sleep.
    fn step(&mut self, _context: &mut Context<'_, P>) -> bool {
        false
    }

    /// Whether there is something to do that the next turn can do and that came by no ring and no socket. Asked after
    /// the worker has announced sleep, because only a worker that has announced sleep is woken.
    fn has_news(&mut self) -> bool;

    /// Whether no client waits for anything.
    fn is_quiet(&self) -> bool {
        true
    }

    /// Whether all that was accepted is decided, durable and answered.
    fn is_idle(&self) -> bool;

    /// Why it serves no more, if it failed. The process then fails.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Called about every twenty milliseconds, for timers and metrics.
    fn tick(&mut self, _now: TimeMs) {}

    /// Makes durable what was accepted, and ends. May wait.
    fn close(self: Box<Self>) -> anyhow::Result<()> {
        Ok(())
    }
}

/// A member that serves sockets.
pub trait Port<P>: Resident<P> {
    /// Registers its listeners; it keeps `sockets` for those that come later.
    fn register(&mut self, sockets: PortSockets) -> io::Result<()>;

    /// A socket or listener with this token of the port has something to read or room to write.
    fn on_event(&mut self, token: usize, event: &Event);

    /// Reads from sockets, and sends what their clients ask. Returns whether there was anything.
    fn serve(&mut self, context: &mut Context<'_, P>) -> bool;

    /// Writes to sockets what there is for their clients, after all residents have been stepped. Returns whether there
    /// was anything.
    fn flush(&mut self, context: &mut Context<'_, P>) -> bool;

    /// How long its worker may sleep at most, if that is less than usual.
    fn sleep_max(&self) -> Option<Duration> {
        None
    }

    /// A turn of the worker took so long.
    fn observe_turn(&mut self, _took: Duration) {}

    /// Sends clients away, so many per second over all workers.
    fn drain(&mut self, _per_second: u32, _now: TimeMs) {}

    /// Clients may stay again, and new ones come.
    fn end_drain(&mut self) {}

    /// The process stops: accepts no more clients, and begins to disconnect those that are connected.
    fn stop_listening(&mut self, now: TimeMs);

    /// How long its clients have to leave when the process stops.
    fn leave_time(&self) -> Duration {
        Duration::ZERO
    }

    /// That time is over: disconnects all clients that are left.
    fn disconnect_rest(&mut self, _now: TimeMs) {}
}

/// The worker's poll as one port sees it: tokens are the port's own numbers, below 2^56.
#[derive(Debug)]
pub struct PortSockets {
    registry: Registry,
    base: usize,
}

impl PortSockets {
    /// For port number `port` of the worker that polls `registry`.
    pub fn new(registry: &Registry, port: usize) -> io::Result<PortSockets> {
        Ok(PortSockets { registry: registry.try_clone()?, base: port * PORT_TOKENS })
    }

    /// The port that a token of the poll belongs to, and the port's own number for it.
    pub fn owner(token: Token) -> (usize, usize) {
        (token.0 / PORT_TOKENS, token.0 % PORT_TOKENS)
    }

    /// Watches a source.
    pub fn register(&self, source: &mut impl event::Source, token: usize, interest: Interest) -> io::Result<()> {
        self.registry.register(source, self.token(token), interest)
    }

    /// Watches it for something else.
    pub fn reregister(&self, source: &mut impl event::Source, token: usize, interest: Interest) -> io::Result<()> {
        self.registry.reregister(source, self.token(token), interest)
    }

    /// Stops watching it. An error would mean that it was not watched, so errors are ignored.
    pub fn deregister(&self, source: &mut impl event::Source) {
        let _ = self.registry.deregister(source);
    }

    fn token(&self, token: usize) -> Token {
        assert!(token < PORT_TOKENS, "a port's tokens are below 2^56");
        Token(self.base + token)
    }
}
