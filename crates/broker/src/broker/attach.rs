//! The session of an admitted client: found, made, resumed or ended, and then CONNACK.
//!
//! ```text
//!   attach ─┬─ none, or clean start ─▶ create ───┬─ clean ───▶ accept ─▶ CONNACK
//!           └─ resumed ──────────────▶ reattach ─┴─ durable ─▶ journal ─▶ accept
//! ```
//!
//! A session whose will is under way is not attached to, nor ended, for a while (`will_wait.rs`); one of a share group
//! ends when others have what it had (`ending.rs`).

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::Command;
use tidegate_wire::mqtt::{ConnAckOut, Connect, ReasonCode, Version, decode_connect, encode_connack};

use super::answer_size::bounded_keep_alive_s;
use super::connect::seconds;
use super::notices::Noticed;
use super::owner::session_bytes;
use super::{Broker, Progress};
use crate::Access;
use crate::connection::{ConnectionEvent, ConnectionState, ParkedFor};
use crate::flow::{Flow, Window};
use crate::holdings::{Holder, Thing};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::session::{Session, SessionFlags, Stage};
use crate::shards::Wait;

impl<L: LogStore> Broker<L> {
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
            self.outrun_awaiting(session);
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
                if self.waits_for_will(index, old, now) || self.waits_for_ending(index, old, now) {
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
        if is_present && !self.restore(index, place, now) {
            return Progress::Gone;
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
    /// packet ids. Whether the client stays: not if it lost a subscription while it was away.
    fn restore(&mut self, index: ConnectionIndex, place: SessionIndex, now: TimeMs) -> bool {
        assert!(self.clients.sessions[place].connection == Some(index), "a client came back");
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
        let has_lost_any = self.deny_forbidden(index, place);
        self.open_feeds(place);
        self.open_receivers(place, now);
        self.member_comes(place, now);
        if has_lost_any {
            self.disconnect(index, ReasonCode::NOT_AUTHORIZED, now);
            return false;
        }
        self.pump(place, now);
        self.send_owed_retained(place, now);
        true
    }
}
