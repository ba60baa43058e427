//! All clients of the binary port on one worker: reads requests from their sockets and writes replies to them.
//!
//! ```text
//!   accept ─▶ session ─▶ Turns: whose frames are next? ─▶ serve ─▶ ledger, rooms
//!   socket ◀─ write ◀── outbox ◀──────────────────────── answer ◀─┘
//! ```
//!
//! Invariant: a request is counted in its session's `in_flight` from its frame to its reply, and a session is dropped
//! only when that count is zero. So each reply finds its session, which may be closing.

mod accept;
mod answer;
mod ends;
mod serve;

use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;

use mio::Interest;
use slab::Slab;
use tidegate_ledger::operation::Message;
use tidegate_ledger::router::Router;
use tidegate_machines::TimeMs;
use tidegate_runtime::{Address, Asker, Carries, Context, Port, PortSockets, Resident};

use super::frames::Frames;
use super::limits::{AHEAD_BYTES, KINDS_REMEMBERED, PARKED_MAX};
use super::session::Session;
use super::{BinaryMetrics, BinarySettings};
use crate::admission::{Addresses, Connections};
use crate::auth::Authenticator;
use crate::authorized::AuthorizedRequests;
use crate::held_bytes::HeldTable;
use crate::listing::Listing;
use crate::proxy::ProxyRule;
use crate::refusal_metrics::RefusalMetrics;
use crate::request_metrics::RequestMetrics;
use crate::stream::{DoorTls, Scratch};
use crate::turns::{CallerKey, CallerName, Turns, Weight};

/// The token of the listening socket.
const LISTENER: usize = 0;
/// Sessions have tokens from here on.
const FIRST_SESSION: usize = 1;

/// Whose request it is.
struct Purpose {
    session: usize,
    caller: CallerKey,
    weight: Weight,
    /// Bytes of its reply, about.
    owed: usize,
    correlation: u64,
    since: Instant,
    operation: &'static str,
    /// What a list was asked for.
    listing: Option<Listing>,
}

/// The binary clients of one worker.
pub struct BinaryPort<P> {
    listener: Option<mio::net::TcpListener>,
    /// Clients may wait to be taken.
    somebody_waits: bool,
    /// The worker's poll, once it runs.
    poll: Option<PortSockets>,
    tls: Option<DoorTls>,
    proxy: ProxyRule,
    authenticator: Arc<Authenticator>,
    /// By which configuration the rights of all clients were given.
    generation: u64,
    authorized: AuthorizedRequests<Purpose>,
    /// Asks the ledger.
    asker: Asker<Router>,
    /// The rooms that the schema does not know, and what was asked of them.
    rooms: Vec<Box<dyn Frames<P>>>,
    room_calls: Slab<Purpose>,
    sessions: Slab<Session>,
    /// Who may come in, and who gives way, by session.
    connections: Connections<usize>,
    /// Sessions that may have something to read, and whose turn it is.
    turns: Turns<CallerName, usize>,
    /// Bytes that clients have sent ahead.
    ahead: HeldTable,
    /// Sessions whose clients have not ended, how many they are, those of them with something to be thrown away, and
    /// those that gave way to others.
    parting: usize,
    parted: VecDeque<usize>,
    gave_way: VecDeque<usize>,
    /// Sessions with new bytes to send.
    unsent: Vec<usize>,
    scratch: Scratch,
    /// The worker's clock at its last turn.
    now_ms: u64,
    /// The process stops: nothing is read any more.
    stopping: bool,
    /// Answered in this turn, and when they were read.
    answered: Vec<(&'static str, Instant)>,
    metrics: BinaryMetrics,
    refused: RefusalMetrics,
    requests: RequestMetrics,
}

impl<P> BinaryPort<P> {
    /// Serves the clients of `listener` (`None`: no clients), counted among those of their `addresses`, as `settings`
    /// say. Lives at `me` and asks the ledger by `router`.
    pub fn new(
        me: Address,
        router: Router,
        (listener, addresses): (Option<TcpListener>, Arc<Addresses>),
        settings: &BinarySettings,
        authenticator: Arc<Authenticator>,
        (metrics, refused, requests): (BinaryMetrics, RefusalMetrics, RequestMetrics),
        rooms: Vec<Box<dyn Frames<P>>>,
    ) -> BinaryPort<P> {
        BinaryPort {
            listener: listener.map(mio::net::TcpListener::from_std),
            somebody_waits: true,
            poll: None,
            asker: Asker::new(me, router),
            rooms,
            room_calls: Slab::new(),
            tls: settings.tls.clone(),
            proxy: settings.proxy.clone(),
            generation: authenticator.generation(),
            authenticator,
            authorized: AuthorizedRequests::new(KINDS_REMEMBERED, PARKED_MAX),
            sessions: Slab::new(),
            connections: Connections::new(settings.connections_max, addresses),
            turns: Turns::default(),
            ahead: HeldTable::new(AHEAD_BYTES),
            parting: 0,
            parted: VecDeque::new(),
            gave_way: VecDeque::new(),
            unsent: Vec::new(),
            scratch: Scratch::new(),
            now_ms: 0,
            stopping: false,
            answered: Vec::new(),
            metrics,
            refused,
            requests,
        }
    }
}

impl<P: Carries<Message>> BinaryPort<P> {
    fn send(&mut self, context: &mut Context<'_, P>) {
        self.asker.send(context);
        self.rooms.iter_mut().for_each(|room| room.send(context));
    }
}

impl<P: Carries<Message>> Resident<P> for BinaryPort<P> {
    fn deliver(&mut self, from: Address, body: P, _context: &mut Context<'_, P>) {
        let mut body = match body.unpack() {
            Ok(message) => return self.asker.deliver(from, message),
            Err(body) => body,
        };
        for room in &mut self.rooms {
            match room.deliver(from, body) {
                Ok(()) => return,
                Err(other) => body = other,
            }
        }
        panic!("the binary port got a parcel of a room that it does not serve");
    }

    fn has_news(&mut self) -> bool {
        let may_read = |key: usize| self.sessions.get(key).is_some_and(Session::may_read);
        let has_frames = || self.asker.has_room() && self.turns.any_waiting(may_read);
        !self.parted.is_empty() || !self.stopping && (self.has_clients_to_take() || has_frames())
    }

    fn is_quiet(&self) -> bool {
        self.parting == 0
            && self.authorized.is_empty()
            && self.asker.client().pending() == 0
            && self.room_calls.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.asker.client().pending() == 0 && self.room_calls.is_empty()
    }

    fn tick(&mut self, now: TimeMs) {
        self.now_ms = now.0;
        self.follow_reload();
        self.end_overdue(now.0);
        self.end_expired(now.0);
        self.end_pauses(now.0);
        // Clients that could not be taken when files had run out cause no event of their own.
        self.somebody_waits = true;
    }
}

impl<P: Carries<Message>> Port<P> for BinaryPort<P> {
    fn register(&mut self, sockets: PortSockets) -> io::Result<()> {
        if let Some(listener) = &mut self.listener {
            sockets.register(listener, LISTENER, Interest::READABLE)?;
        }
        self.poll = Some(sockets);
        Ok(())
    }

    fn on_event(&mut self, token: usize, event: &mio::event::Event) {
        if token == LISTENER {
            self.somebody_waits = true;
            return;
        }
        let key = token - FIRST_SESSION;
        let Some(session) = self.sessions.get_mut(key) else { return };
        if session.is_parting() {
            return self.list_parting(key);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            session.readable = true;
            session.hung_up |= event.is_read_closed() || event.is_error();
            self.line_up(key);
        }
        if event.is_writable() {
            self.write_later(key);
        }
    }

    fn serve(&mut self, context: &mut Context<'_, P>) -> bool {
        self.now_ms = context.now().0;
        self.rooms.iter_mut().for_each(|room| room.begin_turn(context.now()));
        // Before anything is asked: what a reload has taken away is gone at the next request.
        self.follow_reload();
        let threw_away = self.serve_parted();
        let worked = threw_away | (!self.stopping && (self.accept() | self.serve_sessions()));
        self.send(context);
        worked
    }

    fn flush(&mut self, context: &mut Context<'_, P>) -> bool {
        let mut worked = false;
        while self.asker.has_replies() {
            worked = true;
            for (token, reply) in self.asker.take_replies() {
                self.reply(token, reply);
            }
        }
        worked |= self.receive_from_rooms();
        self.send(context);
        self.write_sessions();
        self.record_answered();
        worked
    }

    fn stop_listening(&mut self, _now: TimeMs) {
        self.stopping = true;
        if let (Some(mut listener), Some(poll)) = (self.listener.take(), &self.poll) {
            poll.deregister(&mut listener);
        }
        // Each client gets the replies that are under way, and then its end.
        let heard = self.sessions.iter().filter(|(_, session)| session.is_heard());
        for key in heard.map(|(key, _)| key).collect::<Vec<usize>>() {
            self.drain(key);
            self.write_later(key);
        }
    }
}

#[cfg(test)]
mod tests;
