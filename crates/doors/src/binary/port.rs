//! All clients of the binary port on one worker: reads requests from their sockets and writes replies to them.
//!
//! Invariant: a request is counted in its session's `in_flight` from its frame to its reply, and a session is dropped
//! only when that count is zero. So each reply finds its session, which may be closing.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use mio::Interest;
use rustls::ServerConfig;
use slab::Slab;
use tidegate_ledger::message::{Reply, Request};
use tidegate_ledger::operation::Message;
use tidegate_ledger::router::Router;
use tidegate_machines::TimeMs;
use tidegate_machines::ledger::IdSpace;
use tidegate_runtime::{Address, Asker, Carries, Context, Port, PortSockets, Resident};
use tidegate_wire::limits::{FRAME_BYTES_MAX, TRANSFERS_MAX};
use tidegate_wire::proto::{self, reply_frame::Body};
use tidegate_wire::{BodyRef, RoomRef, decode_request, encode_reply, encode_room};

use super::frames::Frames;
use super::limits::{
    BYTES_IN_TURN_MAX, FRAMES_IN_TURN_MAX, FRAMES_PER_TURN, IN_FLIGHT_MAX, KINDS_REMEMBERED, PARKED_MAX,
};
use super::room_call::RoomCall;
use super::session::{Life, Session};
use super::{BinaryMetrics, BinarySettings, Refused, translate};
use crate::auth::Authenticator;
use crate::auth::quota::Exceeded;
use crate::authorized::{Answered, AuthorizedRequests};
use crate::json::codes;
use crate::stream::{Scratch, Stream};

/// The token of the listening socket.
const LISTENER: usize = 0;
/// Sessions have tokens from here on.
const FIRST_SESSION: usize = 1;

/// Whose request it is.
struct Purpose {
    session: usize,
    correlation: u64,
    since: Instant,
    page: bool,
}

/// The binary clients of one worker.
pub struct BinaryPort<P> {
    listener: Option<mio::net::TcpListener>,
    /// The worker's poll, once it runs.
    poll: Option<PortSockets>,
    tls: Option<Arc<ServerConfig>>,
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
    connections_max: usize,
    /// Sessions that may have something to read, each once.
    ready: Vec<usize>,
    /// Sessions with new bytes to send.
    unsent: Vec<usize>,
    scratch: Scratch,
    /// The worker's clock at its last turn.
    now_ms: u64,
    /// The process stops: nothing is read any more.
    stopping: bool,
    metrics: BinaryMetrics,
}

impl<P> BinaryPort<P> {
    /// Serves the clients of `listener` (`None`: no clients) as `settings` say. Lives at `me` and asks the
    /// ledger by `router`.
    pub fn new(
        me: Address,
        router: Router,
        listener: Option<TcpListener>,
        settings: &BinarySettings,
        authenticator: Arc<Authenticator>,
        metrics: BinaryMetrics,
        rooms: Vec<Box<dyn Frames<P>>>,
    ) -> BinaryPort<P> {
        BinaryPort {
            listener: listener.map(mio::net::TcpListener::from_std),
            poll: None,
            asker: Asker::new(me, router),
            rooms,
            room_calls: Slab::new(),
            tls: settings.tls.clone(),
            generation: authenticator.generation(),
            authenticator,
            authorized: AuthorizedRequests::new(KINDS_REMEMBERED, PARKED_MAX),
            sessions: Slab::new(),
            connections_max: settings.connections_max,
            ready: Vec::new(),
            unsent: Vec::new(),
            scratch: Scratch::new(),
            now_ms: 0,
            stopping: false,
            metrics,
        }
    }

    /// Takes all clients that wait.
    fn accept(&mut self) {
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok((tcp, _)) if self.sessions.len() >= self.connections_max => {
                    self.metrics.connections_refused.increment("limit");
                    drop(tcp);
                }
                Ok((tcp, _)) => {
                    if self.open(tcp).is_ok() {
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

    fn open(&mut self, tcp: mio::net::TcpStream) -> io::Result<()> {
        tcp.set_nodelay(true)?;
        let stream = Stream::accept(tcp, self.tls.as_ref()).map_err(io::Error::other)?;
        let entry = self.sessions.vacant_entry();
        let key = entry.key();
        let mut session = Session::new(stream, self.now_ms);
        let poll = self.poll.as_ref().expect("a port is registered before it serves");
        session.register(poll, key + FIRST_SESSION)?;
        session.listed = true;
        entry.insert(session);
        self.ready.push(key);
        Ok(())
    }

    /// Reads and decodes from all sessions that may, up to a turn's worth. Returns whether anything was read.
    fn serve_sessions(&mut self) -> bool {
        let (mut worked, mut frames, mut bytes) = (false, 0, 0);
        let mut queue = std::mem::take(&mut self.ready).into_iter();
        while frames < FRAMES_IN_TURN_MAX && bytes < BYTES_IN_TURN_MAX {
            let Some(key) = queue.next() else { break };
            if self.sessions.contains(key) {
                let (served, read) = self.serve_session(key);
                worked |= served + read > 0;
                (frames, bytes) = (frames + served, bytes + read);
            }
        }
        // Those who did not get their turn come first in the next one.
        let mut ready: Vec<usize> = queue.collect();
        ready.append(&mut self.ready);
        self.ready = ready;
        worked
    }

    /// Reads from one session, and serves its frames. Returns how many frames and bytes that were.
    fn serve_session(&mut self, key: usize) -> (usize, usize) {
        let now_ms = self.now_ms;
        let session = &mut self.sessions[key];
        let mut read = 0;
        if self.asker.has_room() && session.may_read() && !session.backlog {
            match session.read(&mut self.scratch, now_ms) {
                Ok(bytes) => read = bytes,
                Err(_) => session.drain(now_ms),
            }
            self.metrics.received_bytes.add(read as u64);
        }
        let served = self.serve_frames(key);
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
        (served, read)
    }

    /// Serves frames that were read. Returns how many.
    fn serve_frames(&mut self, key: usize) -> usize {
        let mut served = 0;
        while served < FRAMES_PER_TURN && self.asker.has_room() && self.sessions[key].may_ask() {
            match self.sessions[key].next_frame() {
                Ok(Some(frame)) => {
                    served += 1;
                    self.serve_frame(key, frame);
                    if std::mem::take(&mut self.sessions[key].over_quota) {
                        break;
                    }
                }
                Ok(None) => {
                    self.sessions[key].backlog = false;
                    return served;
                }
                Err(error) => {
                    self.refuse(key, 0, Refused::new(error.code(), error.to_string()));
                    self.sessions[key].drain(self.now_ms);
                    return served + 1;
                }
            }
        }
        // Whole frames may be left in the buffer. They are served in the next turn, or when replies have made room.
        let session = &mut self.sessions[key];
        session.readable |= !matches!(session.life, Life::Draining);
        if !std::mem::replace(&mut session.backlog, true) && served < FRAMES_PER_TURN {
            self.metrics.reads_paused.add(1);
        }
        served
    }

    fn serve_frame(&mut self, key: usize, frame: Bytes) {
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
        if let Life::Serving(identity) = &self.sessions[key].life
            && let Err(exceeded) = identity.arrive()
        {
            return self.refuse_too_many(key, correlation, exceeded);
        }
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
            (Life::Serving(_), BodyRef::Room(room)) => {
                let call = RoomCall::of(room, &frame);
                self.ask_room(key, correlation, call);
            }
            (Life::Serving(_), body) => {
                let asked = translate::id_space(&body)
                    .and_then(|id_space| translate::to_request(body, &frame).map(|request| (id_space, request)));
                match asked {
                    Ok((id_space, request)) => self.admit(key, correlation, id_space, request),
                    Err(refused) => self.refuse(key, correlation, refused),
                }
            }
        }
    }

    fn greet(&mut self, key: usize, correlation: u64, token: &str) {
        match self.authenticator.rights_of(token) {
            Ok(rights) => {
                let session = &mut self.sessions[key];
                session.welcome(rights);
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
    fn admit(&mut self, key: usize, correlation: u64, id_space: Option<IdSpace>, request: Request) {
        let Life::Serving(identity) = &self.sessions[key].life else { return };
        let identity = identity.clone();
        self.metrics.requests.increment(kind_of(&request));
        let page = matches!(request, Request::ReadHistory { .. } | Request::ListAccounts { .. });
        self.sessions[key].in_flight += 1;
        self.sessions[key].pages_in_flight += usize::from(page);
        let purpose = Purpose { session: key, correlation, since: Instant::now(), page };
        let asker = &mut self.asker;
        let mut start = |token, request| asker.start(token, request);
        let id_space = id_space.unwrap_or_else(|| identity.id_space().clone());
        if let Some((purpose, answered)) = self.authorized.ask_in(&identity, id_space, request, purpose, &mut start) {
            self.answer(purpose, answered);
        }
    }

    /// Lets a room that the schema does not know have its request.
    fn ask_room(&mut self, key: usize, correlation: u64, call: RoomCall) {
        let Life::Serving(identity) = &self.sessions[key].life else { return };
        self.metrics.requests.increment("room");
        let Some(room) = self.rooms.iter_mut().find(|room| room.family() == call.family) else {
            return self.refuse(key, correlation, call.unknown());
        };
        if !room.has_room() {
            let busy = Refused::new("busy", "too many requests of this room are under way; try again");
            return self.refuse(key, correlation, busy);
        }
        let purpose = Purpose { session: key, correlation, since: Instant::now(), page: false };
        let token = self.room_calls.insert(purpose);
        match room.ask(token as u64, identity, &call.body) {
            Ok(()) => self.sessions[key].in_flight += 1,
            Err(refused) => {
                self.room_calls.remove(token);
                self.refuse(key, correlation, refused);
            }
        }
    }

    /// Answers of rooms that the schema does not know. Returns whether there were any.
    fn receive_from_rooms(&mut self) -> bool {
        let mut answers = Vec::new();
        for room in &mut self.rooms {
            let family = room.family();
            answers.extend(room.take_answers().into_iter().map(|(token, answer)| (family, token, answer)));
        }
        let any = !answers.is_empty();
        for (family, token, answer) in answers {
            let Purpose { session: key, correlation, since, .. } = self.room_calls.remove(token as usize);
            self.metrics.request_latency.record(since.elapsed().as_nanos() as u64);
            match answer {
                Ok(body) => {
                    let reply = RoomRef { family, body: &body };
                    encode_room(self.sessions[key].outbox(), correlation, reply);
                }
                Err(refused) => self.refuse(key, correlation, refused),
            }
            self.sessions[key].in_flight -= 1;
            self.look_again(key);
        }
        any
    }

    /// A reply of the shards.
    fn reply(&mut self, token: u64, reply: Reply) {
        let asker = &mut self.asker;
        let mut start = |token, request| asker.start(token, request);
        if let Some((purpose, answered)) = self.authorized.reply(token, reply, &mut start) {
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
            Answered::NotFound(missing) => self.refuse(key, correlation, missing.into()),
            Answered::TooMany(exceeded) => self.refuse_too_many(key, correlation, exceeded),
        }
        self.look_again(key);
    }

    /// Frames that waited for a reply are looked at again, and the reply is sent.
    fn look_again(&mut self, key: usize) {
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
        let reader = session.identity().cloned();
        translate::encode_page(session.outbox(), correlation, reply, reader.as_ref(), next);
    }

    /// Refuses what is over a bound of the caller. The rest of what the connection has sent waits for its next turn, so
    /// that those who flood take turns with those who do not.
    fn refuse_too_many(&mut self, key: usize, correlation: u64, exceeded: Exceeded) {
        self.metrics.refusals.increment(codes::TOO_MANY_REQUESTS.name());
        translate::encode_error(self.sessions[key].outbox(), correlation, &exceeded.into());
        self.sessions[key].over_quota = true;
        self.unsent.push(key);
    }

    fn refuse(&mut self, key: usize, correlation: u64, refused: Refused) {
        self.metrics.refusals.increment(refused.code);
        translate::encode_error(self.sessions[key].outbox(), correlation, &refused);
        self.unsent.push(key);
    }

    /// Sends what is unsent, as far as sockets take it, and forgets sessions that are over.
    fn write_sessions(&mut self) {
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
                session.close(self.poll.as_ref().expect("it was registered"), &mut self.scratch);
                self.sessions.remove(key);
                self.metrics.connections_open.set(self.sessions.len() as i64);
            }
        }
    }

    /// Gives every client the rights that a reload has left it; whose token is good no more is told so, and ended.
    fn follow_reload(&mut self) {
        let generation = self.authenticator.generation();
        if std::mem::replace(&mut self.generation, generation) == generation {
            return;
        }
        let mut gone = Vec::new();
        for (key, session) in &mut self.sessions {
            let Some(rights) = session.rights() else { continue };
            match self.authenticator.renewed(rights) {
                Some(rights) => session.renew(rights),
                None => gone.push(key),
            }
        }
        for key in gone {
            self.refuse(key, 0, Refused::new("unauthenticated", "the configuration has taken this token away"));
            self.sessions[key].drain(self.now_ms);
        }
    }

    /// Ends sessions whose client began a frame, or a connection, and went silent.
    fn end_overdue(&mut self, now_ms: u64) {
        for (key, session) in &mut self.sessions {
            if session.is_overdue(now_ms) {
                // The first time, the client gets its outstanding replies. A client that does not take them in time
                // loses them.
                if matches!(session.life, Life::Draining) {
                    session.forget_outbox();
                }
                session.drain(now_ms);
                self.unsent.push(key);
                self.metrics.connections_refused.increment("timeout");
            }
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
        !self.stopping
            && self.asker.has_room()
            && self.ready.iter().any(|key| self.sessions.get(*key).is_some_and(Session::may_read))
    }

    fn is_quiet(&self) -> bool {
        self.authorized.is_empty() && self.asker.client().pending() == 0 && self.room_calls.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.asker.client().pending() == 0 && self.room_calls.is_empty()
    }

    fn tick(&mut self, now: TimeMs) {
        self.now_ms = now.0;
        self.follow_reload();
        self.end_overdue(now.0);
        // Clients that could not be taken when files had run out cause no event of their own.
        self.accept();
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
            return self.accept();
        }
        let key = token - FIRST_SESSION;
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

    fn serve(&mut self, context: &mut Context<'_, P>) -> bool {
        self.now_ms = context.now().0;
        let worked = !self.stopping && self.serve_sessions();
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
        worked
    }

    fn stop_listening(&mut self, _now: TimeMs) {
        self.stopping = true;
        if let (Some(mut listener), Some(poll)) = (self.listener.take(), &self.poll) {
            poll.deregister(&mut listener);
        }
    }
}

fn kind_of(request: &Request) -> &'static str {
    match request {
        Request::OpenAccount { .. } => "open_account",
        Request::OpenAccounts(_) => "open_accounts",
        Request::Transfers { .. } => "transfers",
        Request::PlaceHolds(_) => "holds",
        Request::PlaceLinkedHolds(_) => "linked_holds",
        Request::ReadTransfer { .. } => "read_transfer",
        Request::ReadHold { .. } => "read_hold",
        Request::ListHolds { .. } => "list_holds",
        Request::ChangeAccount { .. } => "change_account",
        Request::DeclareAsset { .. } => "declare_asset",
        Request::ListAssets => "list_assets",
        Request::PostHolds(_) => "post_holds",
        Request::VoidHolds(_) => "void_holds",
        Request::ReadAccount { .. } => "read_account",
        Request::ListAccounts { .. } => "list_accounts",
        Request::ReadHistory { .. } => "read_history",
        Request::StreamHistory { .. } => unreachable!("the schema has no streams"),
        Request::Announce(_) => unreachable!("no client may ask it"),
        Request::ReadAudit => "read_audit",
    }
}

#[cfg(test)]
mod tests;
