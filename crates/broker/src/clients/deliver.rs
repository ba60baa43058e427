//! Publications to clients: to the outbox at once, or to the backlog of a clean session until there is room.
//!
//! ```text
//!   deliver ─┬─ QoS 0, or window open ─▶ publish ─▶ template, or own encoding ─▶ outbox
//!            └─ no room ─▶ backlog ─ pump_backlog ─▶ publish
//! ```
//!
//! What came by a share group is kept until it is acknowledged: see `left.rs`.

use std::sync::Arc;

use tidegate_machines::TimeMs;
use tidegate_machines::topic::EntryView;
use tidegate_wire::mqtt::{AckKind, PublishOut, QoS, ReasonCode, Version, encode_ack, encode_publish};

use super::{Clients, Copy, Delivery, Sending};
use crate::connection::{Connection, ConnectionState, Flags};
use crate::flow::{Flight, GroupMessage, QueuedMessage, Window};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::ALIAS_BYTES_OUT_MAX;
use crate::message_ref::MessageRef;
use crate::session::SessionFlags;
use crate::subscriptions::{Owner, Subscriptions};
use crate::template::Shape;
use crate::{Access, InboxPolicy, SlowReader};

impl Clients {
    /// Another message follows: what was encoded is forgotten.
    pub fn begin_message(&mut self) {
        self.templates.begin();
    }

    /// Brings a copy to a clean session, or one of QoS 0 to any. The session and its generation were checked.
    #[inline]
    pub fn deliver(
        &mut self,
        session: SessionIndex,
        message_ref: &mut MessageRef<'_>,
        copy: Copy<'_>,
        now: TimeMs,
    ) -> Delivery {
        let Some(index) = self.connected(session) else {
            self.facts.dropped_offline += 1;
            return Delivery::Done;
        };
        assert!(copy.qos <= 2, "0, 1 or 2");
        let now = message_ref.at_once(now);
        let is_behind = self.sessions[session].flags.has(SessionFlags::HELD_BACK);
        let has_room = !is_behind && self.outbox_has_room(index, message_ref.packet_bytes());
        if copy.qos == 0 {
            if has_room {
                self.publish(index, message_ref, copy, false, 0, now);
                return Delivery::Done;
            }
            self.facts.dropped_outbox += 1;
            return self.lost();
        }
        let window_max = self.connections[index].window_max;
        let flow = self.sessions[session].flow();
        if !has_room || !flow.backlog.is_empty() || !flow.window.is_open(window_max) {
            let delivery = self.wait(session, index, message_ref, copy);
            if !has_room {
                self.hold_back(session, index);
            }
            return delivery;
        }
        let number = self.start(session, index, message_ref, copy, now);
        if let (Some(number), Some(of_group), 1) = (number, copy.of_group, copy.qos) {
            self.keep(session, index, number, GroupMessage { message: message_ref.shared_message(), of_group });
        }
        Delivery::Done
    }

    /// Sends a publication of QoS 1 or 2 and opens its flight. Returns its number; `None` if it is not sent.
    fn start(
        &mut self,
        session: SessionIndex,
        index: ConnectionIndex,
        message_ref: &MessageRef<'_>,
        copy: Copy<'_>,
        now: TimeMs,
    ) -> Option<u64> {
        let flight = if copy.qos == 1 { Flight::Sent1 } else { Flight::Sent2 };
        let window = &mut self.sessions[session].flow().window;
        let number = window.start(flight);
        let in_flight = window.in_flight();
        assert!(copy.qos > 0, "QoS 0 has no flight");
        assert!(
            in_flight <= u32::from(self.connections[index].window_max),
            "no more is under way than the client takes"
        );
        let sending = self.publish(index, message_ref, copy, false, Window::packet_id(number), now);
        if sending == Sending::TooLarge {
            self.sessions[session].flow().window.advance(number, Flight::Done);
            return None;
        }
        Some(number)
    }

    /// Keeps a copy for a clean session until its client has room for it.
    #[cold]
    fn wait(
        &mut self,
        session: SessionIndex,
        index: ConnectionIndex,
        message_ref: &mut MessageRef<'_>,
        copy: Copy<'_>,
    ) -> Delivery {
        let message = message_ref.shared_message();
        let (messages_max, bytes_max) = (self.limits.clean_inbox_messages_max, self.limits.clean_inbox_bytes_max);
        let is_anonymous = self.connections[index].flags.has(Flags::ANONYMOUS);
        let bytes = QueuedMessage::bytes_of(&message);
        let mut delivery = Delivery::Done;
        let held = loop {
            let waiting = &self.sessions[session].flow().backlog;
            let held = waiting.bytes();
            let has_room = waiting.has_room(&message, messages_max, bytes_max);
            if has_room && self.inbox_has_share(index, held, bytes) {
                break held;
            }
            let policy = self.limits.clean_inbox_policy;
            if self.limits.slow_reader == SlowReader::Disconnect || policy == InboxPolicy::Refuse {
                delivery = Delivery::Refused;
            }
            let makes_room = policy == InboxPolicy::DropOldest;
            if makes_room && self.sessions[session].flow().backlog.drop_oldest().is_some() {
                self.facts.evicted_inbox += 1;
                self.settle_backlog(session, held);
            } else {
                self.facts.dropped_inbox += 1;
                return delivery;
            }
        };
        assert!(copy.qos > 0, "QoS 0 does not wait");
        let Copy { qos, retain, subscription_ids, of_group } = copy;
        let waiting = &mut self.sessions[session].flow().backlog;
        waiting.is_anonymous = is_anonymous;
        waiting.push(QueuedMessage { message, qos, retain, subscription_ids: subscription_ids.into(), of_group });
        self.settle_backlog(session, held);
        delivery
    }

    /// What becomes of a client that has lost a message because it takes too little.
    fn lost(&self) -> Delivery {
        match self.limits.slow_reader {
            SlowReader::Drop => Delivery::Done,
            SlowReader::Disconnect => Delivery::Refused,
        }
    }

    /// Sends what waits in memory, as far as window and outbox go.
    /// What is not for the client any more goes nowhere.
    pub fn pump_backlog(&mut self, session: SessionIndex, subscriptions: &Subscriptions, now: TimeMs) {
        let Some(index) = self.connected(session) else { return };
        let window_max = self.connections[index].window_max;
        loop {
            let Some(flow) = &self.sessions[session].flow else { return };
            let bytes = match flow.backlog.front() {
                None => return,
                Some(queued) if queued.qos > 0 && !flow.window.is_open(window_max) => return,
                Some(queued) => MessageRef::of(&queued.message).packet_bytes(),
            };
            let before = flow.backlog.bytes();
            if !self.outbox_has_room(index, bytes) {
                return self.hold_back(session, index);
            }
            let queued = self.sessions[session].flow().backlog.pop().expect("it was at the front");
            self.settle_backlog(session, before);
            if !self.is_withheld(session, subscriptions, queued.message.topic()) {
                self.send_queued(session, index, &queued, now);
            }
        }
    }

    fn send_queued(&mut self, session: SessionIndex, index: ConnectionIndex, queued: &QueuedMessage, now: TimeMs) {
        let message_ref = MessageRef::of(&queued.message);
        let QueuedMessage { qos, retain, ref subscription_ids, of_group, .. } = *queued;
        let copy = Copy { qos, retain, subscription_ids, of_group };
        self.begin_message();
        if qos == 0 {
            self.publish(index, &message_ref, copy, false, 0, now);
        } else if message_ref.expiry_s(now).is_err() {
            self.facts.dropped_expired += 1;
        } else if let (Some(number), Some(of_group), 1) =
            (self.start(session, index, &message_ref, copy, now), of_group, qos)
        {
            self.keep(session, index, number, GroupMessage { message: Arc::clone(&queued.message), of_group });
        }
    }

    /// Sends what waits in the inbox of a durable session, or PUBREL if its client has received it before.
    /// `TooLarge`: it is not for this client any more, too large for it, or expired, and will never be sent.
    /// `[MQTT-4.4.0-1]`: on reconnecting, and only then, unacknowledged PUBLISH and PUBREL are sent again with their
    /// packet ids.
    pub fn send_entry(
        &mut self,
        session: SessionIndex,
        index: ConnectionIndex,
        entry: &EntryView<'_>,
        subscriptions: &Subscriptions,
        now: TimeMs,
    ) -> Sending {
        let (number, packet_id) = (entry.number(), Window::packet_id(entry.number()));
        let flight = match (entry.is_received(), entry.qos()) {
            (true, _) => Flight::Released,
            (false, 1) => Flight::Sent1,
            (false, _) => Flight::Sent2,
        };
        let started = self.sessions[session].flow().window.start(flight);
        assert!(started == number, "a message has one number, in its inbox and under way");
        if entry.is_received() {
            let version = self.connections[index].version;
            let (kind, reason) = (AckKind::PubRel, ReasonCode::SUCCESS);
            self.send(index, now, |bytes| encode_ack(bytes, version, kind, packet_id, reason, None));
            return Sending::Sent;
        }
        let window_max = u32::from(self.connections[index].window_max);
        let in_flight = self.sessions[session].flow().window.in_flight();
        assert!(in_flight <= window_max, "no more is under way than the client takes");
        let message_ref = MessageRef::of(entry.message());
        // [MQTT-3.3.1-1]: a PUBLISH that is sent again has DUP set.
        let dup = number < self.sessions[session].next_number;
        // [MQTT-3.10.4-3]: after UNSUBSCRIBE, QoS 1 and 2 messages whose delivery has begun are completed.
        let is_forbidden = match dup {
            true => self.is_unreadable(session, message_ref.topic),
            false => self.is_withheld(session, subscriptions, message_ref.topic),
        };
        let (qos, retain, subscription_ids) = (entry.qos(), entry.retain(), entry.subscription_ids());
        let copy = Copy { qos, retain, subscription_ids, of_group: None };
        self.begin_message();
        if is_forbidden || self.publish(index, &message_ref, copy, dup, packet_id, now) == Sending::TooLarge {
            self.sessions[session].flow().window.advance(number, Flight::Done);
            return Sending::TooLarge;
        }
        Sending::Sent
    }

    /// Nothing waits for a session in its shard: if nothing does here either, what comes from now on was matched and
    /// judged by what holds now.
    pub fn nothing_waits(&mut self, session: SessionIndex) {
        let session = &mut self.sessions[session];
        if session.flow.as_ref().is_none_or(|flow| flow.backlog.is_empty()) {
            session.flags.clear(SessionFlags::CHECKED);
        }
    }

    /// Whether what has waited is not for a session's client any more: see [`SessionFlags::CHECKED`].
    fn is_withheld(&mut self, session: SessionIndex, subscriptions: &Subscriptions, topic: &str) -> bool {
        if !self.sessions[session].flags.has(SessionFlags::CHECKED) {
            return false;
        }
        let owner = Owner { worker: self.worker, session };
        if !subscriptions.covers(topic, owner) {
            self.facts.withheld += 1;
            return true;
        }
        self.is_unreadable(session, topic)
    }

    /// The same as [`Clients::may_not_read`], counted.
    pub fn is_unreadable(&mut self, session: SessionIndex, topic: &str) -> bool {
        let is_unreadable = self.may_not_read(session, topic);
        self.facts.withheld += u64::from(is_unreadable);
        is_unreadable
    }

    /// Whether a session's client is there and has no right to what is published on a topic.
    fn may_not_read(&self, session: SessionIndex, topic: &str) -> bool {
        let session = &self.sessions[session];
        let rights = session.connection.and_then(|index| self.connections[index].rights);
        rights.is_some_and(|rights| self.rights.get(rights).may_subscribe(&session.client_id, topic) == Access::Denied)
    }

    /// Appends a PUBLISH to a connection's outbox.
    #[inline]
    pub fn publish(
        &mut self,
        index: ConnectionIndex,
        message_ref: &MessageRef<'_>,
        copy: Copy<'_>,
        dup: bool,
        packet_id: u16,
        now: TimeMs,
    ) -> Sending {
        let connection = &self.connections[index];
        let version = connection.version;
        assert!(connection.state == ConnectionState::Connected, "messages go to who is connected");
        assert!(copy.qos <= 2 && (copy.qos > 0) == (packet_id > 0), "QoS 1 and 2 have packet ids");
        let Ok(expiry_s) = message_ref.expiry_s(now) else {
            self.facts.dropped_expired += 1;
            return Sending::TooLarge;
        };
        let is_plain = connection.extra.as_ref().is_none_or(|extra| extra.aliases_out_max == 0)
            && (copy.subscription_ids.is_empty() || version == Version::V311);
        if dup || !is_plain {
            return self.publish_own(index, message_ref, copy, dup, packet_id, now);
        }
        let packet_bytes_max = connection.packet_bytes_max;
        let shape = Shape { version, qos: copy.qos, retain: copy.retain };
        let bytes = self.templates.get(message_ref, expiry_s, shape).len();
        if bytes > packet_bytes_max as usize {
            self.facts.dropped_too_large += 1;
            return Sending::TooLarge;
        }
        self.write(index, now, |out, templates| templates.copy(shape, packet_id, out));
        self.count_publish(message_ref);
        Sending::Sent
    }

    fn count_publish(&mut self, message_ref: &MessageRef<'_>) {
        self.facts.messages_sent += 1;
        self.facts.publish_sent += 1;
        self.facts.publish_bytes_sent += message_ref.payload.len() as u64;
    }

    /// Appends a PUBLISH that is not like others': with subscription identifiers, a topic alias, or sent again.
    #[cold]
    fn publish_own(
        &mut self,
        index: ConnectionIndex,
        message_ref: &MessageRef<'_>,
        copy: Copy<'_>,
        dup: bool,
        packet_id: u16,
        now: TimeMs,
    ) -> Sending {
        let connection = &mut self.connections[index];
        let (version, packet_bytes_max) = (connection.version, connection.packet_bytes_max as usize);
        let (alias, is_new) = alias_out(connection, message_ref.topic);
        let out = PublishOut {
            dup,
            qos: QoS::of(copy.qos).expect("0, 1 or 2"),
            retain: copy.retain,
            // A client that knows the alias gets an empty topic (MQTT 5, 3.3.2.3.4).
            topic: if alias.is_some() && !is_new { "" } else { message_ref.topic },
            packet_id,
            topic_alias: alias,
            message_expiry_s: message_ref.expiry_s(now).unwrap_or_default(),
            subscription_ids: copy.subscription_ids,
            properties: message_ref.properties,
            payload: message_ref.payload,
        };
        assert!(alias.is_none_or(|alias| alias > 0), "aliases begin with 1");
        let added = self.write(index, now, |bytes, _| {
            let before = bytes.len();
            encode_publish(bytes, version, &out);
            if bytes.len() - before > packet_bytes_max {
                bytes.truncate(before);
            }
        });
        if added == 0 {
            if is_new && let Some(extra) = &mut self.connections[index].extra {
                extra.aliases_out.pop();
            }
            self.facts.dropped_too_large += 1;
            return Sending::TooLarge;
        }
        self.count_publish(message_ref);
        Sending::Sent
    }
}

/// The alias for a topic, and whether the client has yet to hear of it. Aliases are assigned to the first topics and
/// never reassigned: a client with few topics gains most.
fn alias_out(connection: &mut Connection, topic: &str) -> (Option<u16>, bool) {
    let Some(extra) = connection.extra.as_mut().filter(|extra| extra.aliases_out_max > 0) else { return (None, false) };
    if let Some(place) = extra.aliases_out.iter().position(|known| **known == *topic) {
        return (Some(place as u16 + 1), false);
    }
    let bytes: usize = extra.aliases_out.iter().map(|known| known.len()).sum();
    if extra.aliases_out.len() >= usize::from(extra.aliases_out_max) || bytes + topic.len() > ALIAS_BYTES_OUT_MAX {
        return (None, false);
    }
    extra.aliases_out.push(topic.into());
    assert!(extra.aliases_out.len() <= usize::from(extra.aliases_out_max), "no more aliases than the client takes");
    (Some(extra.aliases_out.len() as u16), true)
}
