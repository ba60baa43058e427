//! How connections and sessions end, and when wills are sent.
//!
//! ```text
//!   connection ends ─▶ detach ─┬─ clean, or expiry 0 ─▶ will now, session ends
//!                              └─ durable ────────────▶ journal: detached, its will ─due─▶ will, session ends
//! ```

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::Command;
use tidegate_planted::{Bug, is_planted};
use tidegate_wire::mqtt::{Disconnect, Malformed, ReasonCode, Version, encode_disconnect};

use super::Broker;
use super::due::DueThing;
use super::subscribe::work_of_filter;
use crate::connection::{ConnectionEvent, ConnectionState};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::operator::OperatorAnswer;
use crate::peer::Item;
use crate::reason::{About, reason_text};
use crate::session::{SessionFlags, Stage};
use crate::shards::Wait;
use crate::subscriptions::Owner;
use crate::{Action, ConnectionKey, OperatorTicket};

impl<L: LogStore> Broker<L> {
    /// The socket is closed: by the client, by an error, or because the broker asked for it. The key is forgotten.
    /// Returns what that was worth, in the work of a turn: a session may have ended with thousands of filters.
    pub fn closed(&mut self, key: ConnectionKey, now: TimeMs) -> isize {
        let Some(index) = self.clients.index(key) else { return 0 };
        let filter_work = self.intake.filter_work;
        // [MQTT-3.1.2-8]: the will is published once the connection is closed and the will delay has passed, unless the
        // will was deleted.
        // The socket closed without a DISCONNECT.
        self.detach(index, true, now);
        self.clients.connections[index].transition(ConnectionEvent::Closed);
        self.forget_connection(index);
        (self.intake.filter_work - filter_work) as isize
    }

    /// Frees everything that belongs to a vacant place.
    pub(super) fn forget_connection(&mut self, index: ConnectionIndex) {
        assert!(self.clients.connections[index].state == ConnectionState::Vacant, "only who is gone is forgotten");
        assert!(self.clients.connections[index].session.is_none(), "who is gone has been parted from its session");
        drop(self.clients.take_input(index));
        self.clients.release_outbox(index);
        let connection = &mut self.clients.connections[index];
        if let Some(rights) = connection.rights {
            self.clients.rights.release(rights);
        }
        connection.vacate();
        self.clients.connections.give(index);
    }

    /// Nothing more is read from a connection; what is written is sent, then it is closed.
    pub(super) fn close_when_sent(&mut self, index: ConnectionIndex) {
        assert!(self.clients.connections[index].session.is_none(), "who is sent away has been parted from its session");
        drop(self.clients.take_input(index));
        self.clients.connections[index].transition(ConnectionEvent::CloseRequested);
        self.asked.actions.push(Action::Close { key: self.clients.key(index) });
    }

    /// The server ends a connection: DISCONNECT gives the reason, to clients of MQTT 5.
    /// `[MQTT-4.13.1-1]`: a malformed packet or protocol error closes the connection.
    pub(super) fn disconnect(&mut self, index: ConnectionIndex, reason: ReasonCode, now: TimeMs) {
        self.disconnect_with(index, reason, reason_text(About::Connection, reason), now);
    }

    fn disconnect_with(&mut self, index: ConnectionIndex, reason: ReasonCode, reason_text: Option<&str>, now: TimeMs) {
        let connection = &self.clients.connections[index];
        let (life, version) = (connection.state, connection.version);
        if matches!(life, ConnectionState::Vacant | ConnectionState::Closing) {
            return;
        }
        if life == ConnectionState::Connected && version == Version::V5 {
            let reference = self.timing.drain.as_ref().and_then(|drain| drain.plan.server_reference.clone());
            let reference = reference.as_deref().filter(|_| reason == ReasonCode::USE_ANOTHER_SERVER);
            self.clients.send_refusal(index, now, reason_text, |bytes, reason_text| {
                encode_disconnect(bytes, version, reason, None, reason_text, reference);
            });
        }
        self.detach(index, true, now);
        self.close_when_sent(index);
    }

    /// The client broke the protocol. Before CONNACK no DISCONNECT is sent.
    pub(super) fn protocol_error(&mut self, index: ConnectionIndex, reason: ReasonCode, now: TimeMs) {
        self.clients.facts.protocol_errors += 1;
        self.disconnect(index, reason, now);
    }

    /// The client sent a malformed packet. The DISCONNECT says what is wrong with it.
    pub(super) fn malformed(&mut self, index: ConnectionIndex, malformed: Malformed, now: TimeMs) {
        self.clients.facts.protocol_errors += 1;
        self.disconnect_with(index, malformed.reason, Some(malformed.what), now);
    }

    /// The client has sent DISCONNECT.
    /// `[MQTT-3.14.4-1]`: nothing is sent after DISCONNECT.
    pub(super) fn client_disconnect(&mut self, index: ConnectionIndex, goodbye: &Disconnect<'_>, now: TimeMs) {
        let place = self.clients.session_of(index);
        if let Some(expiry_s) = goodbye.session_expiry_s {
            let session = &mut self.clients.sessions[place];
            // [MQTT-3.14.2-2]: a DISCONNECT of the server has no session expiry interval.
            // [MQTT-3.1.2-23]: the session is stored as long as its expiry interval says.
            if session.expiry_s == 0 && expiry_s > 0 {
                return self.protocol_error(index, ReasonCode::PROTOCOL_ERROR, now);
            }
            session.expiry_s = expiry_s.min(self.options.limits.session_expiry_max_s);
        }
        // [MQTT-3.14.4-3]: DISCONNECT 0x00 deletes the will.
        self.detach(index, goodbye.reason != ReasonCode::SUCCESS || is_planted(Bug::WillSentAfterGoodbye), now);
        self.close_when_sent(index);
    }

    /// Another connection came for the session.
    pub(super) fn take_over(&mut self, session: SessionIndex, now: TimeMs) {
        let Some(index) = self.clients.sessions[session].connection else { return };
        assert!(self.clients.connections[index].session == Some(session), "connection and session point to each other");
        self.clients.facts.take_overs += 1;
        self.disconnect(index, ReasonCode::SESSION_TAKEN_OVER, now);
    }

    /// Parts a connection from its session, which may end with it.
    pub(super) fn detach(&mut self, index: ConnectionIndex, send_will: bool, now: TimeMs) {
        let connection = &mut self.clients.connections[index];
        let is_connected = connection.state == ConnectionState::Connected;
        let Some(place) = connection.session.take() else { return };
        self.end_feeds(place);
        self.end_receivers(place);
        assert!(self.clients.facts.clients_connected >= u64::from(is_connected), "who leaves was counted");
        self.clients.facts.clients_connected -= u64::from(is_connected);
        let session = &mut self.clients.sessions[place];
        assert!(session.connection == Some(index), "connection and session point to each other");
        assert!(session.stage != Stage::Vacant, "the session of a connection is there");
        session.connection = None;
        self.member_leaves(place, now);
        let session = &mut self.clients.sessions[place];
        if session.stage == Stage::Opening {
            // Its record is not durable yet; `settle` will find the session without a connection.
            return;
        }
        if !session.is_durable() {
            return self.end_session(place, send_will, now);
        }
        self.suspend(place, send_will, now);
    }

    /// A durable session has lost its connection.
    fn suspend(&mut self, place: SessionIndex, send_will: bool, now: TimeMs) {
        let session = &mut self.clients.sessions[place];
        assert!(session.connection.is_none() && session.stage == Stage::Live, "who has lost its connection was ready");
        assert!(session.will.is_none(), "a durable session's will is in its shard");
        self.clients.drop_backlog(place);
        let session = &mut self.clients.sessions[place];
        if let Some(flow) = &mut session.flow {
            session.next_number = session.next_number.max(flow.window.next());
            flow.disconnected();
            flow.window = crate::flow::Window::new(session.next_number);
            if flow.is_idle() {
                session.flow = None;
            }
        }
        let (shard, slot, expiry_s) =
            (session.shard, session.slot.expect("a live durable session has one"), session.expiry_s);
        let has_will = self.shards.state(shard).session(slot).is_some_and(|state| state.will().is_some());
        let has_more = send_will && has_will || expiry_s == 0 && self.passes_on_before_end(place, now);
        if expiry_s == 0 && !has_more {
            return self.end_session(place, false, now);
        }
        if !send_will {
            self.retained.will_places.remove(&place);
        }
        let wait = if send_will { Wait::Nothing } else { self.take_will_back(shard, slot) };
        // A session without expiry is over, but for its will and for what others may have: it ends when all who must
        // keep those have them.
        self.shards.call(shard, Command::DetachSession { slot, expiry_s, keep_will: send_will }, wait);
        self.presence_begins(place);
        // A will without delay is sent now: another connection may be about to take the session over.
        // [MQTT-3.1.3-9]: a client that reconnects before the will delay has passed: the will is not sent.
        // The delay ends with the session, if that ends first (MQTT 5, 3.1.3.2.2).
        let state = self.shards.state(shard).session(slot);
        let is_now = |delay_s: u32| delay_s == 0 || expiry_s == 0;
        if send_will && state.is_some_and(|state| state.will().is_some_and(|will| is_now(will.delay_s))) {
            self.send_due_will(shard, place, slot, now);
        }
    }

    /// Ends a session: removes its subscriptions and all that was in flight, and sends a will that is still pending, if
    /// it is to be sent.
    /// `[MQTT-3.1.2-8]`: the will is published once the connection is closed and the will delay has passed, unless the
    /// will was deleted.
    pub(super) fn end_session(&mut self, place: SessionIndex, sends_will: bool, now: TimeMs) {
        let operator = self.forget_ending(place);
        if !self.end_session_for(operator, place, sends_will, now)
            && let Some(ticket) = operator
        {
            self.operator.answer(ticket, OperatorAnswer::Done);
        }
    }

    /// The same; an operator is told when it is durable. Whether there is a record to wait for.
    pub(super) fn end_session_for(
        &mut self,
        operator: Option<OperatorTicket>,
        place: SessionIndex,
        sends_will: bool,
        now: TimeMs,
    ) -> bool {
        assert!(self.clients.sessions[place].stage == Stage::Live, "a session that ends was ready");
        assert!(self.clients.sessions[place].connection.is_none(), "a session ends without a connection");
        self.leave_to_groups(place);
        let owner = self.owner(place);
        for node in self.clients.sessions[place].subscriptions.as_slice() {
            let filter: Box<str> = self.subscriptions.filter(*node).into();
            // So that of sessions with thousands of filters that end together, few end in one turn.
            self.intake.filter_work += work_of_filter(&filter);
            self.clients.sessions[place].release_filter(&filter);
            if self.options.workers() > 1 {
                self.peers.broadcast(|| Item::Unsubscribed { filter: filter.clone(), owner, is_asked: false });
            }
            assert!(self.subscriptions.remove_at(*node, owner).is_some(), "a session's subscriptions are in the tree");
            assert!(self.clients.facts.subscriptions > 0, "what is removed was counted");
            self.clients.facts.subscriptions -= 1;
        }
        self.shares.forget(place);
        self.passing.is_back(place);
        self.forget_denied(place);
        let waited = self.clients.sessions[place].flow.as_ref().map_or(0, |flow| flow.backlog.len());
        let session = self.clients.remove_session(place);
        let will_place = self.retained.will_places.remove(&place).filter(|_| sends_will);
        let Some(slot) = session.slot else {
            self.clients.facts.dropped_ended += waited as u64;
            if let Some(will) = session.will.filter(|_| sends_will) {
                self.send_will(&will, &session.client_id, session.owner, None, will_place, now);
            }
            return false;
        };
        let inbox = self.shards.state(session.shard).inbox(slot);
        self.clients.facts.dropped_ended += inbox.entries_from(0).filter(|entry| !entry.is_received()).count() as u64;
        let Some(state) = self.shards.state(session.shard).session(slot) else { return false };
        let (incarnation, will) = (state.incarnation(), state.will().cloned());
        let is_recovered = session.flags.has(SessionFlags::RECOVERED);
        let name = self.name_of_will(session.shard, state);
        let is_over = |name| self.timing.again.is_over(DueThing::Will { shard: session.shard, name });
        let sends_will = sends_will && !name.is_some_and(is_over);
        let known = name.filter(|name| sends_will || self.may_be_known(*name, is_recovered));
        match name.zip(will) {
            Some((name, _)) if self.timing.wills.are_sending(name) => self.will_is_left(name),
            Some((name, will)) if sends_will => {
                self.send_will(&will, &session.client_id, session.owner, Some(name), will_place, now);
            }
            _ => {}
        }
        let has_origins = session.flags.has(SessionFlags::ORIGINS) || is_recovered;
        let origins = has_origins.then_some(incarnation);
        self.shards.call(session.shard, Command::EndSession { slot }, Wait::Ended { origins, will: known, operator });
        true
    }

    pub(super) fn owner(&self, session: SessionIndex) -> Owner {
        assert!(self.clients.sessions[session].stage != Stage::Vacant, "an owner is there");
        Owner { worker: self.options.worker as u8, session }
    }
}
