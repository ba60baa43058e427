//! All clients of the binary port on one worker: from readable sockets to requests, from replies to written sockets.
//!
//! Invariant: a request is counted in its session's `in_flight` from its frame to its reply, and a session is forgotten only at
//! zero, so a reply always finds its session or a session that no longer listens.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use mio::{Interest, Registry, Token};
use rustls::ServerConfig;
use slab::Slab;
use tidegate_ledger::message::{Reply, Request};
use tidegate_wire::limits::{FRAME_BYTES_MAX, TRANSFERS_MAX};
use tidegate_wire::proto::{self, reply_frame::Body};
use tidegate_wire::{BodyRef, decode_request, encode_reply};

use super::limits::{IN_FLIGHT_MAX, KINDS_REMEMBERED, PARKED_MAX};
use super::session::{Life, Session};
use super::{BinaryMetrics, Refused, translate};
use crate::auth::Authenticator;
use crate::desk::{Answered, Desk};
use crate::stream::{Scratch, Stream};

/// The token of the listening socket; sessions have those from 2 on.
pub const LISTENER: Token = Token(0);
/// The token of the waker.
pub const WAKER: Token = Token(1);
const FIRST_SESSION: usize = 2;

/// Whose request it is.
struct Purpose {
    session: usize,
    correlation: u64,
    since: Instant,
    page: bool,
}

/// The binary clients of one worker.
pub struct BinaryPort {
    listener: Option<mio::net::TcpListener>,
    tls: Option<Arc<ServerConfig>>,
    authenticator: Arc<Authenticator>,
    desk: Desk<Purpose>,
    sessions: Slab<Session>,
    connections_max: usize,
    /// Sessions that may have something to read, each once.
    ready: Vec<usize>,
    /// Sessions with new bytes to send.
    unsent: Vec<usize>,
    scratch: Scratch,
    /// The worker's clock at its last turn.
    now_ms: u64,
    metrics: BinaryMetrics,
}

impl BinaryPort {
    /// Serves the clients of `listener` (none: a door that stays shut), each under TLS if a configuration is given.
    pub fn new(
        listener: Option<TcpListener>,
        tls: Option<Arc<ServerConfig>>,
        authenticator: Arc<Authenticator>,
        connections_max: usize,
        metrics: BinaryMetrics,
    ) -> BinaryPort {
        BinaryPort {
            listener: listener.map(mio::net::TcpListener::from_std),
            tls,
            authenticator,
            desk: Desk::new(KINDS_REMEMBERED, PARKED_MAX),
            sessions: Slab::new(),
            connections_max,
            ready: Vec::new(),
            unsent: Vec::new(),
            scratch: Scratch::new(),
            now_ms: 0,
            metrics,
        }
    }

    /// Registers the listening socket.
    pub fn register(&mut self, registry: &Registry) -> io::Result<()> {
        match &mut self.listener {
            Some(listener) => registry.register(listener, LISTENER, Interest::READABLE),
            None => Ok(()),
        }
    }

    /// Takes no more clients.
    pub fn stop_listening(&mut self, registry: &Registry) {
        if let Some(mut listener) = self.listener.take() {
            // Not registered any more is as good.
            let _ = registry.deregister(&mut listener);
        }
    }

    /// Takes all clients that wait.
    pub fn accept(&mut self, registry: &Registry, now_ms: u64) {
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok((tcp, _)) if self.sessions.len() >= self.connections_max => {
                    self.metrics.connections_refused.increment("limit");
                    drop(tcp);
                }
                Ok((tcp, _)) => {
                    if self.open(tcp, registry, now_ms).is_ok() {
                        self.metrics.connections_accepted.add(1);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The client was gone before it was taken, or files have run out; the next event tries again.
                Err(_) => break,
            }
        }
        self.metrics.connections_open.set(self.sessions.len() as i64);
    }

    fn open(&mut self, tcp: mio::net::TcpStream, registry: &Registry, now_ms: u64) -> io::Result<()> {
        tcp.set_nodelay(true)?;
        let stream = Stream::accept(tcp, self.tls.as_ref()).map_err(io::Error::other)?;
        let entry = self.sessions.vacant_entry();
        let key = entry.key();
        let mut session = Session::new(stream, now_ms);
        session.register(registry, Token(key + FIRST_SESSION))?;
        session.listed = true;
        entry.insert(session);
        self.ready.push(key);
        Ok(())
    }

    /// A socket has something to read, or room to write.
    pub fn on_event(&mut self, event: &mio::event::Event) {
        let key = event.token().0.wrapping_sub(FIRST_SESSION);
        let Some(session) = self.sessions.get_mut(key) else { return };
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            session.readable = true;
            if !std::mem::replace(&mut session.listed, true) {
                self.ready.push(key);
            }
        }
        if event.is_writable() {
            self.unsent.push(key);
        }
    }

    /// Reads and decodes from all sessions that may; gives each request to `start` with a token for its reply. `has_room` says
    /// whether another one may start. Returns whether anything was read.
    pub fn serve(&mut self, now_ms: u64, has_room: impl Fn() -> bool, mut start: impl FnMut(u64, Request)) -> bool {
        self.now_ms = now_ms;
        let mut worked = false;
        for key in std::mem::take(&mut self.ready) {
            let Some(session) = self.sessions.get_mut(key) else { continue };
            if has_room() && session.may_read() && !session.backlog {
                worked = true;
                match session.read(&mut self.scratch, now_ms) {
                    Ok(bytes) => self.metrics.received_bytes.add(bytes as u64),
                    Err(_) => session.drain(now_ms),
                }
            }
            worked |= self.serve_frames(key, &has_room, &mut start);
            let session = &mut self.sessions[key];
            if session.has_said_all() {
                session.drain(now_ms);
            }
            session.listed = session.readable && !matches!(session.life, Life::Draining);
            if session.listed {
                self.ready.push(key);
            } else if session.is_over() || session.has_unsent() {
                self.unsent.push(key);
            }
        }
        worked
    }

    fn serve_frames(&mut self, key: usize, has_room: impl Fn() -> bool, start: &mut impl FnMut(u64, Request)) -> bool {
        let mut worked = false;
        while has_room() && self.sessions[key].may_ask() {
            match self.sessions[key].next_frame() {
                Ok(Some(frame)) => {
                    worked = true;
                    self.serve_frame(key, frame, start);
                }
                Ok(None) => {
                    self.sessions[key].backlog = false;
                    return worked;
                }
                Err(error) => {
                    self.refuse(key, 0, Refused::new(error.code(), error.to_string()));
                    self.sessions[key].drain(self.now_ms);
                    return true;
                }
            }
        }
        // Whole frames may be left in the buffer; they are served when replies have made room.
        let session = &mut self.sessions[key];
        session.readable |= !matches!(session.life, Life::Draining);
        if !std::mem::replace(&mut session.backlog, true) {
            self.metrics.reads_paused.add(1);
        }
        worked
    }

    fn serve_frame(&mut self, key: usize, frame: Bytes, start: &mut impl FnMut(u64, Request)) {
        let request = match decode_request(&frame) {
            Ok(request) => request,
            Err(bad) => {
                self.refuse(key, bad.correlation, bad.error.into());
                if matches!(self.sessions[key].life, Life::Greeting) {
                    self.sessions[key].drain(self.now_ms);
                }
                return;
            }
        };
        let correlation = request.correlation;
        match (&self.sessions[key].life, request.body) {
            (Life::Draining, _) => {}
            (_, BodyRef::Hello { token }) => self.greet(key, correlation, token),
            (Life::Greeting, _) => {
                self.refuse(
                    key,
                    correlation,
                    Refused::new("unauthenticated", "the first frame must be a Hello with a token"),
                );
                self.sessions[key].drain(self.now_ms);
            }
            (Life::Serving(_), BodyRef::Ping) => {
                encode_reply(self.sessions[key].outbox(), correlation, Body::Pong(proto::Pong {}));
                self.unsent.push(key);
            }
            (Life::Serving(_), body) => match translate::to_request(body, &frame) {
                Ok(request) => self.admit(key, correlation, request, start),
                Err(refused) => self.refuse(key, correlation, refused),
            },
        }
    }

    fn greet(&mut self, key: usize, correlation: u64, token: &str) {
        match self.authenticator.authenticate(token) {
            Ok(identity) => {
                let session = &mut self.sessions[key];
                session.welcome(identity);
                let welcome = proto::Welcome {
                    frame_bytes_max: FRAME_BYTES_MAX as u32,
                    transfers_max: TRANSFERS_MAX as u32,
                    in_flight_max: IN_FLIGHT_MAX as u32,
                    server: concat!("tidegate/", env!("CARGO_PKG_VERSION")).into(),
                };
                encode_reply(session.outbox(), correlation, Body::Welcome(welcome));
                self.unsent.push(key);
            }
            Err(error) => {
                self.refuse(key, correlation, Refused::new("unauthenticated", error.to_string()));
                self.sessions[key].drain(self.now_ms);
            }
        }
    }

    /// Lets a request on to the shards if its sender may make it.
    fn admit(&mut self, key: usize, correlation: u64, request: Request, start: &mut impl FnMut(u64, Request)) {
        let Life::Serving(identity) = &self.sessions[key].life else { return };
        let identity = identity.clone();
        self.metrics.requests.increment(kind_of(&request));
        let page = matches!(request, Request::ReadHistory { .. } | Request::ListAccounts { .. });
        self.sessions[key].in_flight += 1;
        self.sessions[key].pages_in_flight += usize::from(page);
        let purpose = Purpose { session: key, correlation, since: Instant::now(), page };
        if let Some((purpose, answered)) = self.desk.ask(&identity, request, purpose, start) {
            self.answer(purpose, answered);
        }
    }

    /// A reply of the shards. `start` takes a request that this reply sets free.
    pub fn reply(&mut self, token: u64, reply: Reply, start: &mut impl FnMut(u64, Request)) {
        if let Some((purpose, answered)) = self.desk.reply(token, reply, start) {
            self.metrics.request_latency.record(purpose.since.elapsed().as_nanos() as u64);
            self.answer(purpose, answered);
        }
    }

    fn answer(&mut self, purpose: Purpose, answered: Answered) {
        let Purpose { session: key, correlation, page, .. } = purpose;
        let session = &mut self.sessions[key];
        session.in_flight -= 1;
        session.pages_in_flight -= usize::from(page);
        match answered {
            Answered::Reply(reply) => self.encode(key, correlation, reply),
            Answered::Denied(reason) => self.refuse(key, correlation, Refused::new("forbidden", reason)),
        }
        // Frames that waited for this reply are looked at again.
        let session = &mut self.sessions[key];
        if session.readable && !std::mem::replace(&mut session.listed, true) {
            self.ready.push(key);
        }
        self.unsent.push(key);
    }

    fn encode(&mut self, key: usize, correlation: u64, mut reply: Reply) {
        let session = &mut self.sessions[key];
        let mut next = String::new();
        if let Reply::Accounts(accounts) = &mut reply {
            // The page goes on behind the last account that was looked at, also if this client may not see it.
            next = accounts.last().map(|last| last.id.to_string()).unwrap_or_default();
            accounts.retain(|account| session.identity().is_some_and(|identity| identity.rights().may_see(account)));
        }
        if let Reply::Unavailable(reason) = &reply {
            self.metrics.unavailable.increment(translate::unavailable(*reason).0);
        }
        translate::encode_page(session.outbox(), correlation, reply, next);
    }

    fn refuse(&mut self, key: usize, correlation: u64, refused: Refused) {
        self.metrics.refusals.increment(refused.code);
        translate::encode_error(self.sessions[key].outbox(), correlation, refused.code, &refused.detail);
        self.unsent.push(key);
    }

    /// Sends what is unsent, as far as sockets take it, and forgets sessions that are over.
    pub fn flush(&mut self, registry: &Registry) {
        for key in std::mem::take(&mut self.unsent) {
            let Some(session) = self.sessions.get_mut(key) else { continue };
            match session.flush(&mut self.scratch) {
                Ok(bytes) => self.metrics.sent_bytes.add(bytes as u64),
                Err(_) => {
                    session.drain(self.now_ms);
                    session.forget_outbox();
                }
            }
            if session.is_over() {
                session.close(registry, &mut self.scratch);
                self.sessions.remove(key);
                self.metrics.connections_open.set(self.sessions.len() as i64);
            }
        }
    }

    /// Ends sessions whose client began a frame, or a connection, and went silent.
    pub fn end_overdue(&mut self, now_ms: u64) {
        for (key, session) in &mut self.sessions {
            if session.is_overdue(now_ms) {
                // Once to say what it is owed; who does not even take that loses it.
                if matches!(session.life, Life::Draining) {
                    session.forget_outbox();
                }
                session.drain(now_ms);
                self.unsent.push(key);
                self.metrics.connections_refused.increment("timeout");
            }
        }
    }

    /// Whether all that was asked is answered and sent as far as clients read.
    pub fn is_quiet(&self) -> bool {
        self.desk.is_empty()
    }

    /// Whether a session has something to read that may be read now.
    pub fn has_work(&self, has_room: bool) -> bool {
        has_room && self.ready.iter().any(|key| self.sessions.get(*key).is_some_and(Session::may_read))
    }
}

fn kind_of(request: &Request) -> &'static str {
    match request {
        Request::OpenAccount { .. } => "open_account",
        Request::Transfers { .. } => "transfers",
        Request::PlaceHolds(_) => "holds",
        Request::PostHolds(_) => "post_holds",
        Request::VoidHolds(_) => "void_holds",
        Request::ReadAccount { .. } => "read_account",
        Request::ListAccounts { .. } => "list_accounts",
        Request::ReadHistory { .. } => "read_history",
        Request::ReadAudit => "read_audit",
    }
}

#[cfg(test)]
mod tests;
