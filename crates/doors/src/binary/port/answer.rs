//! Answers requests, and writes what is to be sent.

use std::time::Instant;

use tidegate_ledger::message::{Reply, Unavailable};
use tidegate_wire::{RoomRef, encode_room};

use super::super::session::Life;
use super::super::{Refused, translate};
use super::{BinaryPort, Purpose};
use crate::auth::quota::Exceeded;
use crate::authorized::Answered;
use crate::json::codes;
use crate::listing::Listing;
use crate::security::{self, SecurityEvent};

impl<P> BinaryPort<P> {
    /// Answers of rooms that the schema does not know. Returns whether there were any.
    pub(super) fn receive_from_rooms(&mut self) -> bool {
        let mut answers = Vec::new();
        for room in &mut self.rooms {
            let family = room.family();
            let (calls, sessions) = (&self.room_calls, &mut self.sessions);
            let mut client_of = |token: u64| {
                let session = &mut sessions[calls[token as usize].session];
                if session.has_gone() { None } else { session.identity().cloned() }
            };
            answers
                .extend(room.take_answers(&mut client_of).into_iter().map(|(token, answer)| (family, token, answer)));
        }
        let any = !answers.is_empty();
        for (family, token, answer) in answers {
            let purpose = self.room_calls.remove(token as usize);
            let Purpose { session: key, correlation, .. } = purpose;
            match answer {
                Ok(body) => {
                    let reply = RoomRef { family, body: &body };
                    encode_room(self.sessions[key].outbox(), correlation, reply);
                }
                Err(refused) => self.refuse(key, correlation, refused),
            }
            self.end(&purpose);
            self.look_again(key);
        }
        any
    }

    /// A reply of the shards.
    pub(super) fn reply(&mut self, token: u64, reply: Reply) {
        let asker = &mut self.asker;
        let mut start = |token, request| asker.start(token, request);
        if let Some((purpose, answered)) = self.authorized.reply(token, reply, &mut start) {
            self.answer(purpose, answered);
        }
    }

    pub(super) fn answer(&mut self, purpose: Purpose, answered: Answered) {
        self.end(&purpose);
        let Purpose { session: key, correlation, listing, operation, .. } = purpose;
        match answered {
            Answered::Reply(reply) => self.encode(key, correlation, reply, listing),
            Answered::Denied(reason) => {
                self.tell(key, SecurityEvent::Denied, operation);
                self.refuse(key, correlation, Refused::new("forbidden", reason));
            }
            Answered::NotFound(missing) => self.refuse(key, correlation, missing.into()),
            Answered::TooMany(exceeded) => self.refuse_too_many(key, correlation, exceeded),
        }
        self.look_again(key);
    }

    /// The request is not under way any more.
    pub(super) fn end(&mut self, purpose: &Purpose) {
        let session = &mut self.sessions[purpose.session];
        session.in_flight -= 1;
        session.pages_in_flight -= purpose.weight.pages;
        session.owed -= purpose.owed;
        self.turns.end(purpose.caller, purpose.weight);
        self.answered.push((purpose.operation, purpose.since));
    }

    /// Frames that waited for a reply are looked at again, and the reply is sent.
    fn look_again(&mut self, key: usize) {
        self.line_up(key);
        self.write_later(key);
    }

    fn encode(&mut self, key: usize, correlation: u64, reply: Reply, listing: Option<Listing>) {
        let session = &mut self.sessions[key];
        let reader = session.identity().cloned();
        let (reply, next) = match (reply, listing, &reader) {
            (Reply::Accounts(accounts), Some(listing), Some(reader)) => {
                let (accounts, next) = listing.page(reader, self.authenticator.cursors(), accounts);
                (Reply::Accounts(accounts), next)
            }
            (reply, ..) => (reply, None),
        };
        if let Reply::Unavailable(reason) = &reply {
            self.metrics.unavailable.increment(translate::unavailable(*reason).0);
            if *reason == Unavailable::Busy {
                session.pause(self.now_ms);
            }
        }
        translate::encode_page(session.outbox(), correlation, reply, reader.as_ref(), next.unwrap_or_default());
    }

    /// Refuses what is over a bound of the caller. The rest of what the connection has sent waits for a while, so that
    /// a flood costs its sender more than those who share the worker with it.
    pub(super) fn refuse_too_many(&mut self, key: usize, correlation: u64, exceeded: Exceeded) {
        self.refused.refusals.increment(codes::TOO_MANY_REQUESTS.name());
        self.refused.quota.increment(exceeded.bound());
        translate::encode_error(self.sessions[key].outbox(), correlation, &exceeded.into());
        self.sessions[key].pause(self.now_ms);
        self.write_later(key);
    }

    pub(super) fn refuse(&mut self, key: usize, correlation: u64, refused: Refused) {
        self.refused.refusals.increment(refused.code);
        translate::encode_error(self.sessions[key].outbox(), correlation, &refused);
        self.write_later(key);
    }

    /// Refuses, and reads nothing more. Who has not shown a token waits for the answer: otherwise those who come with
    /// wrong ones, again and again, would be served before those who come once.
    pub(super) fn turn_away(&mut self, key: usize, correlation: u64, refused: Refused) {
        self.refuse(key, correlation, refused);
        let session = &mut self.sessions[key];
        if matches!(session.life, Life::Greeting) {
            session.hold(self.now_ms);
        }
        self.drain(key);
    }

    /// Reads nothing more of a session. What it waits for is given up.
    pub(super) fn drain(&mut self, key: usize) {
        let session = &mut self.sessions[key];
        session.drain(self.now_ms);
        if session.in_flight > 0 {
            let calls = &self.room_calls;
            let is_of_session = |token: u64| calls[token as usize].session == key;
            self.rooms.iter_mut().for_each(|room| room.give_up(&is_of_session));
        }
    }

    /// The session is written to at the end of this turn: once, however many replies it gets.
    pub(super) fn write_later(&mut self, key: usize) {
        if !std::mem::replace(&mut self.sessions[key].to_be_written, true) {
            self.unsent.push(key);
        }
    }

    /// Sends what is unsent, as far as sockets take it, and forgets sessions that are over.
    pub(super) fn write_sessions(&mut self) {
        for key in std::mem::take(&mut self.unsent) {
            // One that gave way may have gone before.
            let Some(session) = self.sessions.get_mut(key) else { continue };
            session.to_be_written = false;
            if session.is_held() || session.is_parting() {
                continue;
            }
            match session.flush(&mut self.scratch, self.now_ms) {
                Ok(bytes) => self.metrics.sent_bytes.add(bytes as u64),
                Err(_) => {
                    session.forget_outbox();
                    self.drain(key);
                }
            }
            if self.sessions[key].is_over() {
                self.part(key);
            }
        }
    }

    /// What was answered in this turn was written just now.
    pub(super) fn record_answered(&mut self) {
        if self.answered.is_empty() {
            return;
        }
        let now = Instant::now();
        for (operation, since) in self.answered.drain(..) {
            self.requests.took.record(operation, now.duration_since(since).as_nanos() as u64);
        }
    }

    /// Writes into the security log what the client of a session did.
    pub(super) fn tell(&mut self, key: usize, event: SecurityEvent, detail: &str) {
        let session = &mut self.sessions[key];
        let Some(address) = session.address() else { return };
        let name = session.identity().map_or("", |identity| identity.name());
        security::tell(event, "binary", address, name, detail);
    }
}
