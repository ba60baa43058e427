//! Commands to the topic shards and their answers: nothing is acknowledged before its record is on disk.
//!
//! ```text
//!   call(command, Wait) ─▶ a shard of topics ─decide, sync─▶ released: Wait, Durable<decision> ─▶ continue
//! ```

use std::sync::Arc;

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Event, Message, Slot};

use tidegate_shard::{Decided, Unavailable};
use tidegate_wire::mqtt::ReasonCode;

use super::Broker;
use crate::Access;
use crate::clients::{Copy, Sending};
use crate::connection::{ConnectionState, Flags, NONE};
use crate::flow::{Flight, OUTCOME_UNKNOWN, Window};
use crate::message_ref::MessageRef;
use crate::peer::{AckTo, Source};
use crate::reason::DISK_FULL;
use crate::session::{SessionFlags, SessionRef, Stage};
use crate::subscriptions::EntryOptions;
use crate::topics::Released;

/// What a command to a shard is known by: what goes on when it is durable. Opaque outside.
#[derive(Debug)]
pub struct Waiting(pub(super) Wait);

/// See [`Waiting`].
#[derive(Debug)]
pub(super) enum Wait {
    /// Nobody waits.
    Nothing,
    /// A session was opened.
    Opened { session: SessionRef },
    /// A session got a connection again.
    Attached { session: SessionRef },
    /// A subscription was added.
    Subscribed { session: SessionRef, filter: Box<str>, options: EntryOptions, subscription_id: u32, nth: u32 },
    /// A subscription was removed.
    Unsubscribed { session: SessionRef, filter: Box<str>, nth: u32 },
    /// The place where a feed begins was noted.
    FirstPlace { session: SessionRef, nth: u32 },
    /// The place up to which a feed was acknowledged was noted.
    PlaceKept { feed: u64, session: SessionRef },
    /// A message was put into inboxes.
    Published { ack_to: Option<AckTo> },
    /// A client's PUBREC was noted.
    Received { session: SessionRef, number: u64 },
    /// A message was retained.
    Retained { message: Arc<Message>, source: Source },
    /// A command whose only effect is an acknowledgement.
    Ack { ack_to: AckTo },
}

impl<L: LogStore> Broker<L> {
    /// Asks a shard of this worker, named by its place among them.
    pub(super) fn call(&mut self, shard: u16, command: Command, wait: Wait) {
        self.shards[shard as usize].call(Waiting(wait), command);
    }

    /// The number of a shard in the directory, by its place among this worker's.
    pub(super) fn shard_index(&self, place: u16) -> u16 {
        self.shards[place as usize].index().0
    }

    /// Steps all shards, and continues what became durable.
    pub(super) fn step_shards(&mut self, now: TimeMs) -> bool {
        let mut worked = false;
        for shard in 0..self.shards.len() {
            worked |= self.shards[shard].step(now);
            while let Some((Waiting(wait), released)) = self.shards[shard].released() {
                worked = true;
                self.released(shard as u16, wait, released, now);
            }
        }
        worked
    }

    fn released(&mut self, shard: u16, wait: Wait, released: Released, now: TimeMs) {
        let is_unknown = matches!(released, Err(Unavailable::ShardFailed));
        let (reason, event) = match released.map(|durable| durable.into_inner()) {
            Ok(Decided::Done { event, .. }) => (ReasonCode::SUCCESS, Some(event)),
            Ok(Decided::Answered(Err(refusal))) => (super::refusal_reason(&refusal), None),
            Ok(Decided::Answered(Ok(()))) => unreachable!("what topics allow has an event"),
            Ok(Decided::TooLarge) => (ReasonCode::QUOTA_EXCEEDED, None),
            // A refusal that passes: there may be room again.
            Err(Unavailable::DiskFull) => (DISK_FULL, None),
            Err(_) => (ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR, None),
        };
        match wait {
            Wait::Nothing => {}
            Wait::Opened { session } => self.opened(session, event.as_ref(), reason, now),
            Wait::Attached { session } => self.settle(session, reason, now),
            Wait::Subscribed { session, filter, options, subscription_id, nth } => {
                self.subscription_durable((session, &filter, options, subscription_id, nth), reason, now);
            }
            Wait::Unsubscribed { session, filter, nth } => {
                self.unsubscription_durable(session, &filter, nth, reason, now);
            }
            Wait::FirstPlace { session, nth } => self.first_place_durable(session, nth, reason, now),
            // Without its record it is as if the client had not acknowledged: the process ends, and what was sent comes
            // again.
            Wait::PlaceKept { .. } if reason.is_error() => {}
            Wait::PlaceKept { feed, session } => self.place_kept(feed, session, now),
            Wait::Published { ack_to } => {
                if let Some(Event::Published { receivers, .. }) = &event {
                    for receiver in receivers {
                        self.pump_slot(shard, receiver.slot, now);
                    }
                }
                if let Some(ack_to) = ack_to {
                    self.send_ack_to(ack_to, if is_unknown { OUTCOME_UNKNOWN } else { reason }, now);
                }
            }
            // Without its record there is no PUBREL: after a restart the message is sent again, under an id that the
            // client still knows.
            Wait::Received { .. } if is_unknown => {}
            Wait::Received { session, number } => self.received(session, number, now),
            Wait::Retained { message, source } => {
                self.retained(message, source, if is_unknown { OUTCOME_UNKNOWN } else { reason }, now);
            }
            Wait::Ack { ack_to } => self.send_ack_to(ack_to, if is_unknown { OUTCOME_UNKNOWN } else { reason }, now),
        }
    }

    /// A new session's record is durable, or was refused.
    fn opened(&mut self, session: SessionRef, event: Option<&Event>, reason: ReasonCode, now: TimeMs) {
        let Some(place) = self.clients.session(session) else { return };
        let Some(Event::SessionOpened { slot, .. }) = event else {
            let index = self.clients.sessions[place].connection;
            self.clients.remove_session(place);
            self.resume_waiting_connect(place, now);
            if index != NONE {
                self.clients.connections[index].session = NONE;
                let version = self.clients.connections[index].version;
                self.refuse(index, version, reason, now);
            }
            return;
        };
        let session_now = &mut self.clients.sessions[place];
        assert!(session_now.stage == Stage::Opening && session_now.slot.is_none(), "a session is opened once");
        session_now.slot = Some(*slot);
        let shard = session_now.shard as usize;
        self.set_place(shard, *slot, place);
        self.settle(session, ReasonCode::SUCCESS, now);
    }

    /// A session's record is durable: the connections that wait for it continue.
    fn settle(&mut self, session: SessionRef, reason: ReasonCode, now: TimeMs) {
        let Some(place) = self.clients.session(session) else { return };
        let session = &mut self.clients.sessions[place];
        assert!(session.stage == Stage::Opening, "a session is waited for once");
        assert!(session.slot.is_some(), "a durable session has a slot");
        session.stage = Stage::Live;
        let index = session.connection;
        if index == NONE {
            // Its client did not wait for CONNACK, so it has no will to be sent.
            // [MQTT-3.1.2-8]: the will is published once the connection is closed and the will delay has passed, unless
            // the will was deleted.
            let (shard, slot, expiry_s) = (session.shard, session.slot, session.expiry_s);
            session.flags.clear(SessionFlags::FRESH);
            match slot {
                Some(slot) if expiry_s > 0 => {
                    let command = Command::DetachSession { slot, expiry_s, keep_will: false };
                    self.call(shard, command, Wait::Nothing);
                }
                _ => {
                    session.flags.set(SessionFlags::WILL_SENT);
                    self.end_session(place, now);
                }
            }
            return self.resume_waiting_connect(place, now);
        }
        assert!(self.clients.connections[index].session == place, "connection and session point to each other");
        assert!(
            self.clients.connections[index].state == ConnectionState::Opening,
            "who waits for its session is not connected"
        );
        if reason.is_error() {
            session.connection = NONE;
            let version = self.clients.connections[index].version;
            self.clients.connections[index].session = NONE;
            return self.refuse(index, version, reason, now);
        }
        self.clients.connections[index].flags.clear(Flags::PARKED);
        self.resume(index, now);
    }

    /// The connection that waits for the session of an earlier one, if there is one.
    fn resume_waiting_connect(&mut self, place: u32, now: TimeMs) {
        let Some(key) = self.waiting_connects.remove(&place) else { return };
        if let Some(index) = self.clients.index(key)
            && self.clients.connections[index].state == ConnectionState::Opening
        {
            self.clients.connections[index].flags.clear(Flags::PARKED);
            self.resume(index, now);
        }
    }

    /// Remembers which session stands at a slot.
    pub(super) fn set_place(&mut self, shard: usize, slot: Slot, place: u32) {
        assert!(self.clients.sessions[place].slot == Some(slot), "slot and session point to each other");
        let earlier = self.place_of(shard as u16, slot);
        assert!(earlier.is_none_or(|earlier| earlier == place), "a slot is one session's");
        let places = &mut self.places[shard];
        let index = slot.0 as usize;
        if places.len() <= index {
            places.resize(index + 1, NONE);
        }
        places[index] = place;
    }

    /// The session at a slot, if it is still there.
    pub(super) fn place_of(&self, shard: u16, slot: Slot) -> Option<u32> {
        let place = *self.places[shard as usize].get(slot.0 as usize)?;
        let session = self.clients.sessions.get(place)?;
        (session.slot == Some(slot) && session.shard == shard).then_some(place)
    }

    fn pump_slot(&mut self, shard: u16, slot: Slot, now: TimeMs) {
        if let Some(place) = self.place_of(shard, slot)
            && self.clients.sessions[place].connection != NONE
        {
            self.pump(place, now);
        }
    }

    /// Sends a session what waits for it, as far as window and outbox go.
    pub(super) fn pump(&mut self, place: u32, now: TimeMs) {
        self.pump_inbox(place, now);
        self.pump_feeds(place, now);
    }

    fn pump_inbox(&mut self, place: u32, now: TimeMs) {
        self.clients.pump_backlog(place, now);
        self.scans.unblock(|| self.clients.session_ref(place));
        let session = &self.clients.sessions[place];
        let Some(slot) = session.slot else { return };
        assert!(self.place_of(session.shard, slot) == Some(place), "slot and session point to each other");
        let index = session.connection;
        if index == NONE || self.clients.connections[index].state != ConnectionState::Connected {
            return;
        }
        assert!(self.clients.connections[index].session == place, "connection and session point to each other");
        let window_max = self.clients.connections[index].window_max;
        let open_max = window_max.saturating_sub(self.feeds_in_flight(place));
        let shard = session.shard;
        let is_resumed = session.flags.has(SessionFlags::RESUMED);
        let durable = self.shards[shard as usize].durable().0;
        let mut given_up: Vec<u64> = Vec::new();
        // What waits may be nothing: then no flow is made for it.
        let next = session.flow.as_ref().map_or(session.next_number, |flow| flow.window.next());
        let mut next = next;
        while self.clients.outbox_has_room(index) {
            let inbox = self.shards[shard as usize].state_ahead().inbox(slot);
            let Some(entry) = inbox.entry_from(next) else { break };
            if entry.sequence() > durable {
                break;
            }
            let session = &mut self.clients.sessions[place];
            let sent_before = session.next_number;
            let flow = session.flow();
            let is_open = flow.window.is_open(open_max);
            let number = entry.number();
            if !is_open || self.is_id_of_feed(place, Window::packet_id(number)) {
                break;
            }
            let flow = self.clients.sessions[place].flow();
            // While something is under way, no number may come that has its packet id. An empty window begins anywhere:
            // it may be far behind, if the inbox has dropped more messages than there are ids.
            if !flow.window.is_empty() && number - flow.window.front() >= crate::limits::PACKET_IDS - 1 {
                break;
            }
            assert!(number >= next, "an inbox is read in order");
            flow.window.skip_to(number);
            next = number + 1;
            if entry.is_received() {
                // [MQTT-4.4.0-1]: on reconnecting, and only then, unacknowledged PUBLISH and PUBREL are sent again with
                // their packet ids.
                // The client has this message already: PUBREL is sent, not PUBLISH.
                let started = flow.window.start(Flight::Released);
                assert!(started == number, "a message has one number, in its inbox and under way");
                let packet_id = Window::packet_id(number);
                self.send_ack(index, tidegate_wire::mqtt::AckKind::PubRel, packet_id, ReasonCode::SUCCESS, now);
                continue;
            }
            let message_ref = MessageRef::of(entry.message());
            // The session may have been another user's until now. Messages that the new client may not receive are not
            // sent to it.
            let rights = self.rights.get(self.clients.connections[index].rights);
            let is_forbidden = is_resumed
                && rights.may_subscribe(&self.clients.sessions[place].client_id, message_ref.topic) == Access::Denied;
            let flow = self.clients.sessions[place].flow();
            let started = flow.window.start(if entry.qos() == 1 { Flight::Sent1 } else { Flight::Sent2 });
            assert!(started == number, "a message has one number, in its inbox and under way");
            assert!(flow.window.in_flight() <= u32::from(window_max), "no more is under way than the client takes");
            let copy = Copy { qos: entry.qos(), retain: entry.retain(), subscription_ids: entry.subscription_ids() };
            self.clients.begin_message();
            // [MQTT-3.3.1-1]: a PUBLISH that is sent again has DUP set.
            let dup = number < sent_before;
            self.clients.facts.dropped_unauthorized += u64::from(is_forbidden);
            if is_forbidden
                || self.clients.publish(index, &message_ref, copy, dup, Window::packet_id(number), now)
                    == Sending::TooLarge
            {
                // Forbidden, too large for this client, or expired: it will never be sent.
                self.clients.sessions[place].flow().window.advance(number, Flight::Done);
                given_up.push(number);
            }
        }
        for number in given_up {
            self.call(shard, Command::Acknowledge { slot, number }, Wait::Nothing);
        }
    }
}
