//! The way of a connection from its first byte to CONNACK.
//!
//! ```text
//!   CONNECT ─▶ another worker's? hand off ─▶ shell authenticates ─verdict─▶ attach ─┬─ clean ─────▶ accept ─▶ CONNACK
//!                                                                                   └─ durable ─▶ journal ─▶ accept
//! ```
//!
//! A session whose will is under way is not attached to, nor ended, for a while (`will_wait.rs`).
//!
//! The CONNECT packet stays at the front of the connection's input and is decoded again at each stop. So nothing of it
//! is copied while a connection waits, and a thousand connections that wait for authentication cost only the bytes they
//! sent.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::Command;
use tidegate_wire::mqtt::{ConnAckOut, Connect, ReasonCode, Version, check_topic, decode_connect, encode_connack};

use super::answer_size::bounded_keep_alive_s;
use super::notices::Noticed;
use super::owner::session_bytes;
use super::retain::RetainedMessage;
use super::{Broker, Progress};
use crate::connection::{Comer, ConnectionEvent, ConnectionState, Flags, ParkedFor};
use crate::flow::{Flow, Window};
use crate::holdings::{Holder, Thing};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::CLIENT_ID_BYTES_MAX;
use crate::reason::{About, told};
use crate::retained::Retained;
use crate::session::{Session, SessionFlags, Stage};
use crate::shards::Wait;
use crate::{Access, Action, Admitted, ConnectionKey, Denied};

impl<L: LogStore> Broker<L> {
    /// The first packet of a connection. `rest` is all that was received, from this packet on.
    pub(super) fn receive_connect(
        &mut self,
        index: ConnectionIndex,
        packet: &[u8],
        rest: &[u8],
        now: TimeMs,
    ) -> Progress {
        let connect = match decode_connect(packet) {
            Ok(connect) => connect,
            // [MQTT-3.1.0-1]: the first packet of a client is CONNECT.
            // [MQTT-3.1.2-1]: another protocol name: the server may send CONNACK 0x84, then closes.
            // [MQTT-3.1.2-2]: another protocol version: the server may send CONNACK 0x84, then closes.
            Err(error) => return self.send_stranger_away(index, error.answer(), now),
        };
        let version = connect.version;
        let connection = &mut self.clients.connections[index];
        connection.packet_bytes_max = connect.packet_bytes_max.unwrap_or(u32::MAX);
        if !connect.request_problem_information {
            connection.flags.set(Flags::NO_PROBLEM_INFORMATION);
        }
        if let Some(reason) = self.objection(&connect).or_else(|| self.objection_to_size(index, &connect)) {
            self.refuse(index, version, reason, now);
            return Progress::Gone;
        }
        let client_id: Box<str> = if connect.client_id.is_empty() {
            // [MQTT-3.1.3-6]: an empty client id is allowed: the server assigns one.
            // The assigned id hashes to this worker, so its session is here.
            let id = self.draw_client_id();
            self.clients.connections[index].extra().assigned_id = Some(id.clone());
            id
        } else {
            connect.client_id.into()
        };
        assert!(self.clients.connections[index].session.is_none(), "who greets has no session yet");
        let worker = self.options.worker_of(&client_id);
        if worker != self.options.worker {
            let key = self.clients.key(index);
            self.clients.connections[index].transition(ConnectionEvent::HandedOff);
            self.forget_connection(index);
            self.asked.actions.push(Action::HandOff { key, worker, bytes: rest.into() });
            return Progress::Gone;
        }
        let connection = &mut self.clients.connections[index];
        connection.transition(ConnectionEvent::Connect);
        connection.version = version;
        self.asked.actions.push(Action::Authenticate {
            key: self.clients.key(index),
            client_id,
            user_name: connect.user_name.map(Into::into),
            password: connect.password.map(Into::into),
        });
        Progress::Parked
    }

    /// The first packet was no good CONNECT.
    fn send_stranger_away(
        &mut self,
        index: ConnectionIndex,
        answer: Option<(Version, ReasonCode)>,
        now: TimeMs,
    ) -> Progress {
        self.clients.facts.protocol_errors += 1;
        // How large a packet it takes is not known.
        self.clients.connections[index].flags.set(Flags::NO_PROBLEM_INFORMATION);
        match answer {
            Some((version, reason)) => self.refuse(index, version, reason, now),
            None => self.close_when_sent(index),
        }
        Progress::Gone
    }

    /// Checks of a CONNECT that do not need authentication: the reason to refuse it.
    fn objection(&self, connect: &Connect<'_>) -> Option<ReasonCode> {
        if self.timing.drain.is_some() {
            return Some(ReasonCode::USE_ANOTHER_SERVER);
        }
        // [MQTT-4.12.0-1]: an unknown Authentication Method: the server may send CONNACK 0x8C or 0x87, then closes.
        // No method of enhanced authentication is implemented.
        if connect.authentication_method.is_some() {
            return Some(ReasonCode::BAD_AUTHENTICATION_METHOD);
        }
        // [MQTT-3.1.1 3.1.3-8]: an empty client id without a clean session: return code 0x02, then close.
        // MQTT 3.1.1 cannot tell the client an assigned id, so it could never come back to that session.
        if connect.client_id.is_empty() && connect.version == Version::V311 && !connect.clean_start {
            return Some(ReasonCode::CLIENT_IDENTIFIER_NOT_VALID);
        }
        // [MQTT-4.7.3-2]: topics and filters contain no U+0000.
        // Client id and user name appear in logs and metrics, so they are held to the same rule.
        if connect.client_id.len() > CLIENT_ID_BYTES_MAX {
            return Some(ReasonCode::CLIENT_IDENTIFIER_NOT_VALID);
        }
        let will = connect.will.as_ref()?;
        if will.retain && !Retained::<RetainedMessage>::admits(will.topic) {
            return Some(ReasonCode::TOPIC_NAME_INVALID);
        }
        // A request is made by who is there: a will has nobody to answer.
        if self.request_topic(will.topic).is_some() {
            // MQTT 3.1.1 has no word for topics. It must not sound as if trying again helped.
            return Some(match connect.version {
                Version::V5 => ReasonCode::TOPIC_NAME_INVALID,
                Version::V311 => ReasonCode::NOT_AUTHORIZED,
            });
        }
        check_topic(will.topic).err().map(|error| error.reason)
    }

    /// A random id whose session belongs to this worker.
    fn draw_client_id(&mut self) -> Box<str> {
        const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        loop {
            let mut id = String::with_capacity(22);
            id.push_str("tg");
            for _ in 0..2 {
                let mut bits = self.random.next();
                for _ in 0..10 {
                    id.push(DIGITS[bits as usize % DIGITS.len()] as char);
                    bits >>= 5;
                }
            }
            let worker = self.options.worker_of(&id);
            if worker == self.options.worker && self.clients.find_session(&id).is_none() {
                return id.into();
            }
        }
    }

    /// The answer to [`Action::Authenticate`].
    pub fn verdict(&mut self, key: ConnectionKey, verdict: Result<Admitted, Denied>, now: TimeMs) {
        let Some(index) = self.clients.index(key) else { return };
        if self.clients.connections[index].state != ConnectionState::Authenticating {
            return;
        }
        match verdict {
            Ok(Admitted { rights, principal, may_claim, ends_at }) => {
                if rights.user().is_none() {
                    self.clients.is_anonymous(index);
                }
                let rights = self.clients.rights.hold(rights);
                let connection = &mut self.clients.connections[index];
                assert!(connection.rights.is_none() && connection.session.is_none(), "who is admitted had nothing yet");
                connection.rights = Some(rights);
                connection.flags.mark(Flags::RENEWED, self.reloads.mark());
                let holder = self.options.holdings.holder(&principal);
                connection.extra().comer = Some(Comer { holder, may_claim, has_waited: false });
                connection.transition(ConnectionEvent::Admitted);
                if let Some(at) = ends_at {
                    self.end_at(key, at);
                }
                self.resume(index, now);
            }
            Err(Denied { reason }) => {
                let version = self.clients.connections[index].version;
                self.refuse(index, version, reason, now);
            }
        }
    }

    /// Sends CONNACK with a reason and closes the connection.
    /// `[MQTT-3.2.2-7]`: after a CONNACK with an error the server closes the connection.
    /// `[MQTT-3.1.4-2]`: a client that is not authorised: the server closes the connection.
    pub(super) fn refuse(&mut self, index: ConnectionIndex, version: Version, reason: ReasonCode, now: TimeMs) {
        self.clients.facts.connects_refused += 1;
        let (reason, words) = told(About::Connect, reason);
        let reference = self.timing.drain.as_ref().and_then(|drain| drain.plan.server_reference.clone());
        let server_reference = reference.as_deref().filter(|_| reason == ReasonCode::USE_ANOTHER_SERVER);
        self.clients.send_refusal(index, now, words, |bytes, reason_string| {
            let out = ConnAckOut { reason, server_reference, reason_string, ..ConnAckOut::default() };
            encode_connack(bytes, version, &out);
        });
        self.close_when_sent(index);
    }

    /// An admitted CONNECT finds its session, or gets one. Comes here again when a record that it waits for is durable.
    pub(super) fn attach(&mut self, index: ConnectionIndex, packet: &[u8], now: TimeMs) -> Progress {
        let connect = decode_connect(packet).expect("was decoded when it came");
        assert!(
            self.clients.connections[index].state == ConnectionState::Opening,
            "only who was admitted gets a session"
        );
        assert!(self.clients.connections[index].rights.is_some(), "who was admitted has rights");
        if let Some(found) = self.clients.connections[index].session {
            return self.accept(index, found, &connect, now);
        }
        let assigned = self.clients.connections[index].extra.as_ref().and_then(|extra| extra.assigned_id.clone());
        let client_id = assigned.as_deref().unwrap_or(connect.client_id);
        let comer = self.clients.connections[index].extra().comer.clone().expect("who was admitted is somebody");
        if assigned.is_none() && !self.rights_of(index).may_be_called(client_id) {
            self.clients.facts.connects_of_others += 1;
            self.notice(index, Noticed::ClientIdDenied, client_id);
            self.refuse(index, connect.version, ReasonCode::CLIENT_IDENTIFIER_NOT_VALID, now);
            return Progress::Gone;
        }
        if let Some(will) = &connect.will {
            let rights = self.rights_of(index);
            if rights.may_publish(client_id, will.topic) != Access::Allowed {
                self.clients.facts.dropped_unauthorized += 1;
                self.notice(index, Noticed::PublishDenied, will.topic);
                self.refuse(index, connect.version, ReasonCode::NOT_AUTHORIZED, now);
                return Progress::Gone;
            }
        }
        if let Some(session) = self.clients.find_session(client_id) {
            // Before anything is changed: it is not taken over, not ended, and not waited for.
            if !self.may_have(session, &comer, index) {
                self.clients.facts.connects_of_others += 1;
                self.notice(index, Noticed::ClientIdDenied, client_id);
                self.refuse(index, connect.version, ReasonCode::NOT_AUTHORIZED, now);
                return Progress::Gone;
            }
            self.outrun_comer(index, session);
            if self.clients.sessions[session].connection.is_some() {
                self.notice(index, Noticed::TookOver, client_id);
            }
            if self.clients.sessions[session].stage == Stage::Opening {
                return self.wait_for_session(index, session);
            }
            // [MQTT-3.1.4-3]: a second connection with a client id disconnects the first one with 0x8E.
            self.take_over(session, now);
        }
        match self.clients.find_session(client_id) {
            // [MQTT-3.1.2-4]: Clean Start deletes the existing session.
            // One without expiry is over, and was kept for its will.
            Some(old) if connect.clean_start || self.clients.sessions[old].expiry_s == 0 => {
                // The end of a session is the end of its will's delay (MQTT 5, 3.1.3.2.2).
                self.send_pending_will(old, now);
                if self.waits_for_will(index, old, now) {
                    return Progress::Parked;
                }
                self.end_session(old, true, now);
            }
            // [MQTT-3.1.2-5]: without Clean Start the existing session continues.
            Some(session) => {
                self.send_overdue_will(session, now);
                if self.waits_for_will(index, session, now) {
                    return Progress::Parked;
                }
                return self.reattach(index, session, &connect, comer.holder, now);
            }
            None => {}
        }
        self.create(index, client_id, &connect, comer.holder, now)
    }

    /// The session waits for the record of an earlier connection, which has lost: this one is next.
    fn wait_for_session(&mut self, index: ConnectionIndex, session: SessionIndex) -> Progress {
        assert!(
            self.clients.sessions[session].stage == Stage::Opening,
            "one waits for a session that waits for its record"
        );
        assert!(self.clients.connections[index].session.is_none(), "who waits for a session has none");
        if let Some(earlier) = self.clients.sessions[session].connection.take() {
            assert!(earlier != index, "nobody waits for itself");
            assert!(
                self.clients.connections[earlier].session == Some(session),
                "connection and session point to each other"
            );
            self.clients.facts.take_overs += 1;
            self.clients.connections[earlier].session = None;
            self.close_when_sent(earlier);
        }
        let key = self.clients.key(index);
        self.clients.connections[index].park(ParkedFor::EarlierConnection);
        // The earlier one may have been disconnected meanwhile, and only wait for its socket to close.
        if let Some(earlier) = self.intake.wait_for_session(session, key)
            && let Some(earlier) = self.clients.index(earlier)
            && self.clients.connections[earlier].state == ConnectionState::Opening
        {
            self.clients.facts.take_overs += 1;
            self.close_when_sent(earlier);
        }
        Progress::Parked
    }

    fn create(
        &mut self,
        index: ConnectionIndex,
        client_id: &str,
        connect: &Connect<'_>,
        owner: Holder,
        now: TimeMs,
    ) -> Progress {
        let expiry_s = self.expiry(connect);
        let shard = self.options.place_of(client_id);
        let will = self.will(connect);
        let mut session = Session {
            stage: Stage::Live,
            shard,
            connection: Some(index),
            expiry_s,
            client_id: client_id.into(),
            owner: Some(owner.clone()),
            ..Session::default()
        };
        session.flags.set(SessionFlags::FRESH);
        self.clients.connections[index].extra().comer = None;
        let Ok(will_place) = self.retained.pay_for_will(will.as_ref(), &owner, None) else {
            return self.refuse_will(index, connect, now);
        };
        if expiry_s == 0 {
            session.will = will.map(Box::new);
            let place = self.clients.add_session(session);
            self.retained.set_will_place(place, will_place);
            self.clients.connections[index].session = Some(place);
            return self.accept(index, place, connect, now);
        }
        assert!(usize::from(shard.0) < self.shards.len(), "the session's shard is one of this worker's");
        let bytes = session_bytes(client_id, will.as_ref());
        let Ok(paid) = owner.hold(Thing::Session, 1, bytes.into()) else {
            return self.refuse_session(index, connect, now);
        };
        paid.keep();
        session.paid_bytes = bytes;
        session.flags.set(SessionFlags::DURABLE);
        session.stage = Stage::Opening;
        let place = self.clients.add_session(session);
        self.retained.set_will_place(place, will_place);
        let connection = &mut self.clients.connections[index];
        connection.session = Some(place);
        connection.park(ParkedFor::SessionRecord);
        let session = self.clients.session_ref(place);
        let owner = Some(owner.principal().clone());
        let command = Command::OpenSession { client_id: client_id.into(), owner, expiry_s, will };
        self.shards.call(shard, command, Wait::Opened { session });
        Progress::Parked
    }

    /// The owner, or all, have too many sessions, or too large ones.
    fn refuse_session(&mut self, index: ConnectionIndex, connect: &Connect<'_>, now: TimeMs) -> Progress {
        self.clients.facts.sessions_refused += 1;
        self.refuse(index, connect.version, ReasonCode::QUOTA_EXCEEDED, now);
        Progress::Gone
    }

    /// The owner, or all, have too many retained messages: the will could not be one when it falls due.
    fn refuse_will(&mut self, index: ConnectionIndex, connect: &Connect<'_>, now: TimeMs) -> Progress {
        self.clients.facts.retained_refused += 1;
        self.refuse(index, connect.version, ReasonCode::QUOTA_EXCEEDED, now);
        Progress::Gone
    }

    fn reattach(
        &mut self,
        index: ConnectionIndex,
        place: SessionIndex,
        connect: &Connect<'_>,
        owner: Holder,
        now: TimeMs,
    ) -> Progress {
        let (expiry_s, will) = (self.expiry(connect), self.will(connect));
        let Ok(will_place) = self.retained.pay_for_will(will.as_ref(), &owner, Some(place)) else {
            return self.refuse_will(index, connect, now);
        };
        if !self.pay_for_session(place, &owner, will.as_ref()) {
            return self.refuse_session(index, connect, now);
        }
        let before = self.retained.set_will_place(place, will_place);
        self.clients.connections[index].extra().comer = None;
        let session = &mut self.clients.sessions[place];
        let (shard, slot) = (session.shard, session.slot.expect("a live session without a connection is durable"));
        assert!(
            session.stage == Stage::Live && session.connection.is_none(),
            "a client comes back to a session without one"
        );
        assert!(session.is_durable(), "only a durable session is come back to");
        session.stage = Stage::Opening;
        session.connection = Some(index);
        session.expiry_s = expiry_s;
        let session = self.clients.session_ref(place);
        let connection = &mut self.clients.connections[index];
        connection.session = Some(place);
        connection.park(ParkedFor::SessionRecord);
        // The will before may be known. It is forgotten when the session no longer has it: after a crash before that,
        // it would be sent again.
        let is_recovered = self.clients.sessions[place].flags.has(SessionFlags::RECOVERED);
        let state = self.shards.state(shard).session(slot);
        let name = state.and_then(|state| self.name_of_will(shard, state));
        let forget = name.filter(|name| self.may_be_known(*name, is_recovered));
        let owner = Some(owner.principal().clone());
        let attach = Command::AttachSession { slot, owner, expiry_s, will };
        self.shards.call(shard, attach, Wait::Attached { session, forget, place: before });
        Progress::Parked
    }

    /// How long the session outlives its connection. MQTT 3.1.1 knows only two values: not at all, and without end.
    /// `[MQTT-3.1.2-23]`: the session is stored as long as its expiry interval says.
    pub(super) fn expiry(&self, connect: &Connect<'_>) -> u32 {
        let max = self.options.limits.session_expiry_max_s;
        match connect.version {
            Version::V5 => connect.session_expiry_s.min(max),
            Version::V311 if connect.clean_start => 0,
            Version::V311 => max,
        }
    }

    /// The session is there and, if durable, its record is: CONNACK.
    fn accept(&mut self, index: ConnectionIndex, place: SessionIndex, connect: &Connect<'_>, now: TimeMs) -> Progress {
        let session = &mut self.clients.sessions[place];
        assert!(session.stage == Stage::Live, "a session is accepted when its record is durable");
        assert!(session.connection == Some(index), "connection and session point to each other");
        let is_present = !session.flags.has(SessionFlags::FRESH);
        session.flags.clear(SessionFlags::FRESH);

        let limits = &self.options.limits;
        let bounded_keep_alive_s = bounded_keep_alive_s(connect, limits.keep_alive_max_s);
        let connection = &mut self.clients.connections[index];
        assert!(connection.session == Some(place), "connection and session point to each other");
        connection.transition(ConnectionEvent::Accepted);
        assert!(!connection.is_parked(), "who is accepted waits for nothing more");
        connection.last_seen_s = seconds(now);
        connection.connected_at_s = seconds(now);
        connection.keep_alive_s = bounded_keep_alive_s.unwrap_or(connect.keep_alive_s);
        connection.window_max = connect.receive_maximum.min(limits.window_max);
        let aliases_out_max = connect.topic_alias_maximum.min(limits.topic_aliases_out_max);
        if aliases_out_max > 0 {
            connection.extra().aliases_out_max = aliases_out_max;
        }
        self.greet(index, place, connect, is_present, now);
        self.clients.facts.connects += 1;
        self.clients.facts.clients_connected += 1;
        if is_present {
            self.restore(place, now);
        }
        Progress::Taken
    }

    /// Sends CONNACK to a client that is accepted.
    /// `[MQTT-3.2.0-1]`: CONNACK is the first packet that the server sends.
    fn greet(
        &mut self,
        index: ConnectionIndex,
        place: SessionIndex,
        connect: &Connect<'_>,
        session_present: bool,
        now: TimeMs,
    ) {
        let session_expiry_s = self.clients.sessions[place].expiry_s;
        let assigned = self.clients.connections[index].extra.as_mut().and_then(|extra| extra.assigned_id.take());
        let greeting = self.greeting(index, connect, session_expiry_s, assigned.as_deref());
        let (out, version) = (ConnAckOut { session_present, ..greeting }, connect.version);
        self.clients.send(index, now, |bytes| {
            encode_connack(bytes, version, &out);
        });
        let extra = &mut self.clients.connections[index].extra;
        extra.take_if(|extra| extra.is_empty());
    }

    /// A client has resumed its session: what was in flight is sent again, and its rights are checked again.
    /// `[MQTT-4.4.0-1]`: on reconnecting, and only then, unacknowledged PUBLISH and PUBREL are sent again with their
    /// packet ids.
    fn restore(&mut self, place: SessionIndex, now: TimeMs) {
        assert!(self.clients.sessions[place].connection.is_some(), "a client came back");
        let session = &mut self.clients.sessions[place];
        if let Some(slot) = session.slot {
            let inbox = self.shards.state(session.shard).inbox(slot);
            let front = inbox.front_number();
            assert!(front <= inbox.next_number(), "the oldest message is not newer than the next");
            if front < session.next_number || session.flow.is_some() {
                let flow = session.flow.get_or_insert_with(|| Box::new(Flow::new(front)));
                flow.window = Window::new(front);
            }
        }
        let flags = &mut self.clients.sessions[place].flags;
        flags.clear(SessionFlags::PARTLY_DENIED);
        flags.set(SessionFlags::CHECKED);
        self.remove_forbidden(place);
        self.open_feeds(place);
        self.member_comes(place, now);
        self.pump(place, now);
        self.send_owed_retained(place, now);
    }
}

/// Whole seconds, for clocks of four bytes.
pub(super) fn seconds(now: TimeMs) -> u32 {
    (now.0 / 1000) as u32
}
