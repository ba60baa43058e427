//! Takes clients, and ends those whose time is over.

use std::io;
use std::net::SocketAddr;

use super::super::Refused;
use super::super::limits::ACCEPTS_IN_TURN_MAX;
use super::super::session::{Life, Session};
use super::{BinaryPort, FIRST_SESSION};
use crate::admission::{Entered, LetIn};
use crate::auth::AuthError;
use crate::json::codes;
use crate::stream::Stream;
use crate::turns::{CallerName, Lane};

/// What a client is told that has shown no token when others need its place.
const GAVE_WAY: &str = "the server has as many connections as it may, and this one has shown no token: it gives way to \
                        a new one; try again in a second";

impl<P> BinaryPort<P> {
    /// Takes clients that wait, some in each turn. Returns whether any came.
    pub(super) fn accept(&mut self) -> bool {
        let mut taken = 0;
        while let Some(listener) = self.listener.as_ref().filter(|_| self.somebody_waits && taken < ACCEPTS_IN_TURN_MAX)
        {
            taken += 1;
            match listener.accept() {
                Ok((tcp, address)) => match self.connections.enter(address.ip(), self.sessions.vacant_key()) {
                    Ok(LetIn { entered, gives_way }) => {
                        if self.open(tcp, entered, address).is_ok() {
                            self.metrics.connections_accepted.add(1);
                        }
                        if let Some(other) = gives_way {
                            self.metrics.connections_refused.increment("gave_way");
                            self.give_way(other);
                        }
                    }
                    Err(crowded) => {
                        self.metrics.connections_refused.increment(crowded.word());
                        drop(tcp);
                    }
                },
                // Nobody waits; or the client was gone before it was taken, or files have run out: the next event or
                // tick tries again.
                Err(_) => {
                    self.somebody_waits = false;
                    taken -= 1;
                }
            }
        }
        if taken > 0 {
            self.metrics.connections_open.set(self.sessions.len() as i64);
        }
        taken > 0
    }

    /// Whether clients may wait that the last turn did not take.
    pub(super) fn has_clients_to_take(&self) -> bool {
        self.listener.is_some() && self.somebody_waits
    }

    /// Ends a session without a token at once; it is told why if it takes that at once.
    fn give_way(&mut self, key: usize) {
        if self.sessions[key].is_parting() {
            return self.forget(key);
        }
        // One that was turned away just now has had its answer, which waits, or waits no longer.
        self.sessions[key].resume(u64::MAX);
        if matches!(self.sessions[key].life, Life::Greeting) {
            self.refuse(key, 0, Refused::new(codes::BUSY.name(), GAVE_WAY));
        }
        self.drain(key);
        let session = &mut self.sessions[key];
        // What does not fit the socket is lost: it would hold the place that another needs.
        let _ = session.flush(&mut self.scratch, self.now_ms);
        session.forget_outbox();
        self.part(key);
        if self.sessions.get(key).is_some_and(Session::is_parting) {
            self.note_gave_way(key);
        }
    }

    fn open(&mut self, tcp: mio::net::TcpStream, mut entered: Entered, address: SocketAddr) -> io::Result<()> {
        let nodelay = tcp.set_nodelay(true);
        let tls = self.tls.as_ref().map(|tls| (tls, address.ip()));
        let stream = nodelay.and_then(|()| Stream::accept(tcp, tls).map_err(io::Error::other));
        let stream = stream.inspect_err(|_| self.connections.leave(&mut entered))?;
        let stream = match self.proxy.header_of(address.ip()) {
            Some(header) => stream.behind(header),
            None => stream,
        };
        let poll = self.poll.as_ref().expect("a port is registered before it serves");
        let entry = self.sessions.vacant_entry();
        let key = entry.key();
        let lane = Lane::of(stream.is_handshaking());
        let caller = self.turns.join_in(lane, CallerName::of_address(address.ip()));
        let mut session = Session::new(stream, entered, caller, self.now_ms);
        if let Err(error) = session.register(poll, key + FIRST_SESSION) {
            self.turns.leave(caller);
            self.connections.leave(&mut session.entered);
            return Err(error);
        }
        entry.insert(session);
        self.line_up(key);
        Ok(())
    }

    /// A session that may have something to read waits for its caller's turn.
    pub(super) fn line_up(&mut self, key: usize) {
        let session = &mut self.sessions[key];
        // The end of a client that is not read any more is an event as well.
        let is_read = session.readable && !session.is_paused() && session.is_heard();
        if is_read && !std::mem::replace(&mut session.listed, true) {
            self.turns.wait(session.caller, key);
        }
    }

    /// A load balancer has said whose connection this is: it counts for its client from now on, as if that had come
    /// itself.
    pub(super) fn meet(&mut self, key: usize) {
        let session = &mut self.sessions[key];
        let Some(address) = session.address() else { return };
        let gives_way = self.connections.come_from(&mut session.entered, address);
        self.take_turns_of(key, CallerName::of_address(address));
        match gives_way {
            Ok(None) => {}
            Ok(Some(other)) => {
                self.metrics.connections_refused.increment("gave_way");
                self.give_way(other);
            }
            Err(crowded) => {
                self.metrics.connections_refused.increment(crowded.word());
                self.sessions[key].forget_outbox();
                self.drain(key);
            }
        }
    }

    /// The session becomes one of another caller, who has shown a token.
    pub(super) fn move_to(&mut self, key: usize, name: CallerName) {
        self.connections.show(&mut self.sessions[key].entered, &name);
        self.take_turns_of(key, name);
    }

    /// The handshake of a session is over: its turns are those of all else.
    pub(super) fn leave_handshakes(&mut self, key: usize) {
        if let Some(address) = self.sessions[key].address() {
            self.take_turns_of(key, CallerName::of_address(address));
        }
    }

    /// The session's turns are those of this caller from now on.
    fn take_turns_of(&mut self, key: usize, name: CallerName) {
        let session = &mut self.sessions[key];
        let joined = self.turns.join_in(Lane::of(session.is_handshaking()), name);
        let before = std::mem::replace(&mut session.caller, joined);
        self.turns.take_back(before, key);
        self.turns.leave(before);
    }

    /// Gives every client the rights that a reload has left it; whose token is good no more is told so, and ended.
    pub(super) fn follow_reload(&mut self) {
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
            self.refuse(
                key,
                0,
                Refused::new(
                    "unauthenticated",
                    "the configuration, or the keys of the identity provider, took this token away",
                ),
            );
            self.drain(key);
        }
    }

    /// Tells clients whose token has expired, and ends them.
    pub(super) fn end_expired(&mut self, now_ms: u64) {
        let expired = self.sessions.iter().filter(|(_, session)| session.has_expired(now_ms));
        for key in expired.map(|(key, _)| key).collect::<Vec<usize>>() {
            self.refuse(key, 0, Refused::new("unauthenticated", AuthError::Expired.to_string()));
            self.drain(key);
            self.metrics.connections_refused.increment("expired");
        }
    }

    /// Reads again from sessions whose pause is over.
    pub(super) fn end_pauses(&mut self, now_ms: u64) {
        let resumed: Vec<usize> =
            self.sessions.iter_mut().filter_map(|(key, session)| session.resume(now_ms).then_some(key)).collect();
        for key in resumed {
            self.line_up(key);
            self.write_later(key);
        }
    }

    /// Ends sessions whose client began a frame, or a connection, and went silent.
    pub(super) fn end_overdue(&mut self, now_ms: u64) {
        self.end_parting(now_ms);
        let overdue = self.sessions.iter().filter(|(_, session)| session.is_overdue(now_ms));
        for key in overdue.map(|(key, _)| key).collect::<Vec<usize>>() {
            let session = &mut self.sessions[key];
            // The first time, the client gets its outstanding replies. Whoever takes none of them in time loses them.
            if matches!(session.life, Life::Draining) || session.takes_too_long(now_ms) {
                session.forget_outbox();
            }
            self.drain(key);
            self.write_later(key);
            self.metrics.connections_refused.increment("timeout");
        }
    }
}
