//! The connections and sessions of one worker, and what is sent to them.
//!
//! ```text
//!   session ─▶ connection ─▶ outbox        indices into slabs: no pointers, and an idle client has no outbox
//! ```

mod sound;

use hashbrown::HashTable;
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::{PublishOut, QoS, Version, encode_publish};

use crate::connection::{Connection, ConnectionState, Flags, NONE};
use crate::flow::{Flight, QueuedMessage, Window};
use crate::limits::{
    ANONYMOUS_OUTBOX_BYTES_MIN, ANONYMOUS_PART, ANONYMOUS_SHARE, FLOWING_MS, POOLED_BUFFER_BYTES_MAX,
    POOLED_BUFFERS_MAX,
};
use crate::message_ref::MessageRef;
use crate::outbox::Outbox;
use crate::session::{Session, SessionRef, Stage};
use crate::slab::Slab;
use crate::template::{Shape, Templates};
use crate::{BrokerFacts, BrokerLimits, ConnectionKey, InboxPolicy};

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Clients {
    pub connections: Slab<Connection>,
    pub sessions: Slab<Session>,
    /// Sessions by client id.
    by_client_id: HashTable<u32>,
    outboxes: Vec<Outbox>,
    free_outboxes: Vec<u32>,
    inputs: Vec<Vec<u8>>,
    free_inputs: Vec<u32>,
    flushable: Vec<ConnectionKey>,
    templates: Templates,
    /// Bytes in all outboxes.
    pub unsent_bytes: u64,
    /// Those of clients without a user.
    pub anonymous_bytes: u64,
    /// Bytes in outboxes that made no progress, at the last look.
    stuck_bytes: u64,
    looked_at: TimeMs,
    pub facts: BrokerFacts,
    pub limits: BrokerLimits,
    hasher: foldhash::fast::RandomState,
}

/// The result of sending one packet to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    Sent,
    /// The client does not take packets of this size.
    /// `[MQTT-3.1.2-24]`: the server sends nothing larger than the client's Maximum Packet Size.
    TooLarge,
}

/// What one receiver is to get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy<'a> {
    pub qos: u8,
    pub retain: bool,
    pub subscription_ids: &'a [u32],
}

/// The result of delivering a copy to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Sent, kept, or dropped and counted.
    Done,
    /// Its inbox is over its bound and the policy is to disconnect.
    Refused,
}

impl Clients {
    pub fn new(limits: BrokerLimits) -> Clients {
        Clients {
            connections: Slab::default(),
            sessions: Slab::default(),
            by_client_id: HashTable::new(),
            outboxes: Vec::new(),
            free_outboxes: Vec::new(),
            inputs: Vec::new(),
            free_inputs: Vec::new(),
            flushable: Vec::new(),
            templates: Templates::default(),
            unsent_bytes: 0,
            anonymous_bytes: 0,
            stuck_bytes: 0,
            looked_at: TimeMs(0),
            facts: BrokerFacts::default(),
            limits,
            hasher: foldhash::fast::RandomState::default(),
        }
    }

    // ── look-ups ───────────────────────────────────────────────────────────────────────────────────────────

    /// The place of a connection, if it is still the one that is meant.
    #[inline]
    pub fn index(&self, key: ConnectionKey) -> Option<u32> {
        let connection = self.connections.get(key.index)?;
        (connection.generation == key.generation && connection.state != ConnectionState::Vacant).then_some(key.index)
    }

    pub fn key(&self, index: u32) -> ConnectionKey {
        assert!(self.connections[index].state != ConnectionState::Vacant, "who has a key is there");
        ConnectionKey { index, generation: self.connections[index].generation }
    }

    /// The place of a session, if it is still the one that is meant.
    #[inline]
    pub fn session(&self, session: SessionRef) -> Option<u32> {
        let found = self.sessions.get(session.index)?;
        (found.generation == session.generation && found.stage != Stage::Vacant).then_some(session.index)
    }

    /// The session of a connected client. Both point to each other.
    #[inline]
    pub fn session_of(&self, index: u32) -> u32 {
        let connection = &self.connections[index];
        assert!(connection.state == ConnectionState::Connected, "only who is connected is served");
        assert!(connection.session != NONE, "who is connected has a session");
        assert!(self.sessions[connection.session].connection == index, "connection and session point to each other");
        connection.session
    }

    pub fn session_ref(&self, index: u32) -> SessionRef {
        assert!(self.sessions[index].stage != Stage::Vacant, "who is remembered is there");
        SessionRef { index, generation: self.sessions[index].generation }
    }

    pub fn find_session(&self, client_id: &str) -> Option<u32> {
        let hash = self.hash(client_id);
        self.by_client_id.find(hash, |index| &*self.sessions[*index].client_id == client_id).copied()
    }

    /// Registers a session by its client id, which no other session may have.
    pub fn add_session(&mut self, session: Session) -> u32 {
        assert!(session.stage != Stage::Vacant, "a session that is added is somebody's");
        assert!(self.find_session(&session.client_id).is_none(), "a client id names one session");
        let index = self.sessions.take();
        let hash = self.hash(&session.client_id);
        assert!(self.sessions[index].stage == Stage::Vacant, "a place that is taken was nobody's");
        let generation = self.sessions[index].generation;
        self.sessions[index] = Session { generation, ..session };
        let (sessions, hasher) = (&self.sessions, &self.hasher);
        self.by_client_id.insert_unique(hash, index, |other| hash_of(hasher, &sessions[*other].client_id));
        self.facts.sessions += 1;
        self.facts.sessions_durable += u64::from(self.sessions[index].is_durable());
        index
    }

    /// Forgets a session. Its place may be another's at once, with another generation.
    pub fn remove_session(&mut self, index: u32) -> Session {
        assert!(self.sessions[index].stage != Stage::Vacant, "a session is removed once");
        let hash = self.hash(&self.sessions[index].client_id);
        let entry = self.by_client_id.find_entry(hash, |other| *other == index).expect("a session stands under its id");
        entry.remove();
        let generation = self.sessions[index].generation.wrapping_add(1);
        let session = std::mem::replace(&mut self.sessions[index], Session { generation, ..Session::default() });
        self.sessions.give(index);
        assert!(self.facts.sessions > 0, "what is removed was counted");
        self.facts.sessions -= 1;
        assert!(self.facts.sessions_durable >= u64::from(session.is_durable()), "what is removed was counted");
        self.facts.sessions_durable -= u64::from(session.is_durable());
        assert!(self.sessions.len() as u64 == self.facts.sessions, "sessions are counted where they are kept");
        session
    }

    fn hash(&self, client_id: &str) -> u64 {
        hash_of(&self.hasher, client_id)
    }

    // ── bytes out ──────────────────────────────────────────────────────────────────────────────────────────

    /// Lets `write` append to a connection's outbox.
    #[inline]
    pub fn write(&mut self, index: u32, now: TimeMs, write: impl FnOnce(&mut Vec<u8>, &Templates)) -> usize {
        let connection = &mut self.connections[index];
        assert!(connection.state != ConnectionState::Vacant, "nothing is written to nobody");
        if connection.outbox == NONE {
            connection.outbox = match self.free_outboxes.pop() {
                Some(outbox) => outbox,
                None => {
                    self.outboxes.push(Outbox::default());
                    (self.outboxes.len() - 1) as u32
                }
            };
            assert!(self.outboxes[connection.outbox as usize].len() == 0, "a free outbox is empty");
            self.outboxes[connection.outbox as usize].progress_at = now;
        }
        if !connection.flags.has(Flags::FLUSH_QUEUED) {
            connection.flags.set(Flags::FLUSH_QUEUED);
            self.flushable.push(ConnectionKey { index, generation: connection.generation });
        }
        let bytes = self.outboxes[connection.outbox as usize].bytes();
        let before = bytes.len();
        write(bytes, &self.templates);
        assert!(bytes.len() >= before, "what is written comes behind what was");
        let added = bytes.len() - before;
        self.unsent_bytes += added as u64;
        self.anonymous_bytes += anonymous(connection, added);
        self.facts.bytes_sent += added as u64;
        added
    }

    /// Appends one packet that is no PUBLISH.
    pub fn send(&mut self, index: u32, now: TimeMs, encode: impl FnOnce(&mut Vec<u8>)) {
        self.write(index, now, |bytes, _| encode(bytes));
        self.facts.messages_sent += 1;
    }

    /// Appends one packet that refuses something, with words for people, if the client wants them and takes a packet of
    /// that size.
    /// `[MQTT-3.1.2-29]`: with Request Problem Information 0, reason strings and user properties only on PUBLISH,
    /// CONNACK and DISCONNECT.
    /// `[MQTT-3.2.2-19]`: no reason string that makes CONNACK too large for the client.
    /// `[MQTT-3.14.2-3]`: no reason string that makes DISCONNECT too large for the receiver.
    pub fn send_refusal(
        &mut self,
        index: u32,
        now: TimeMs,
        reason_text: Option<&str>,
        encode: impl Fn(&mut Vec<u8>, Option<&str>),
    ) {
        let connection = &self.connections[index];
        let bytes_max = connection.packet_bytes_max as usize;
        let reason_text = reason_text.filter(|_| !connection.flags.has(Flags::NO_PROBLEM_INFORMATION));
        self.send(index, now, |bytes| {
            let before = bytes.len();
            encode(bytes, reason_text);
            if reason_text.is_some() && bytes.len() - before > bytes_max {
                bytes.truncate(before);
                encode(bytes, None);
            }
        });
    }

    pub fn outbox(&self, index: u32) -> &[u8] {
        match self.connections[index].outbox {
            NONE => &[],
            outbox => self.outboxes[outbox as usize].unsent(),
        }
    }

    #[inline]
    pub fn outbox_len(&self, index: u32) -> usize {
        match self.connections[index].outbox {
            NONE => 0,
            outbox => self.outboxes[outbox as usize].len(),
        }
    }

    /// Whether the outbox takes another publication.
    #[inline]
    pub fn outbox_has_room(&self, index: u32) -> bool {
        self.outbox_len(index) < self.outbox_bytes_max(index)
    }

    /// Bytes that may wait in a connection's outbox. Clients without a user that read nothing share a bound, and one of
    /// them may have less the more wait for all: whoever opens many connections and reads none gets little for each.
    #[inline]
    pub fn outbox_bytes_max(&self, index: u32) -> usize {
        let bytes_max = self.limits.outbox_bytes_max;
        if !self.connections[index].flags.has(Flags::ANONYMOUS) || !self.is_stuck(index) {
            return bytes_max;
        }
        let left = (self.limits.pressure_bytes_max / ANONYMOUS_PART).saturating_sub(self.anonymous_bytes);
        bytes_max.min(((left / ANONYMOUS_SHARE) as usize).max(ANONYMOUS_OUTBOX_BYTES_MIN))
    }

    /// Whether a connection takes nothing of what it is sent, by the last look.
    fn is_stuck(&self, index: u32) -> bool {
        let outbox = self.outboxes.get(self.connections[index].outbox as usize);
        outbox.is_some_and(|outbox| self.looked_at.0.saturating_sub(outbox.progress_at.0) > FLOWING_MS)
    }

    /// Whoever is connected here has no user.
    pub fn is_anonymous(&mut self, index: u32) {
        let connection = &mut self.connections[index];
        assert!(connection.outbox == NONE, "nothing was said before the verdict");
        connection.flags.set(Flags::ANONYMOUS);
    }

    pub fn sent(&mut self, index: u32, count: usize, now: TimeMs) {
        let number = self.connections[index].outbox;
        if number == NONE {
            assert!(count == 0, "nothing was there to be sent");
            return;
        }
        let outbox = &mut self.outboxes[number as usize];
        outbox.sent(count, now);
        assert!(count as u64 <= self.unsent_bytes, "what is sent was counted when it was written");
        self.unsent_bytes -= count as u64;
        self.anonymous_bytes -= anonymous(&self.connections[index], count);
        if outbox.len() == 0 {
            self.release_outbox(index);
        }
    }

    /// Gives the outbox back, with what is in it.
    pub fn release_outbox(&mut self, index: u32) {
        let number = std::mem::replace(&mut self.connections[index].outbox, NONE);
        if number == NONE {
            return;
        }
        let outbox = &mut self.outboxes[number as usize];
        assert!(outbox.len() as u64 <= self.unsent_bytes, "what is given up was counted when it was written");
        self.unsent_bytes -= outbox.len() as u64;
        self.anonymous_bytes -= anonymous(&self.connections[index], outbox.len());
        outbox.reset(if self.free_outboxes.len() < POOLED_BUFFERS_MAX { POOLED_BUFFER_BYTES_MAX } else { 0 });
        assert!(self.free_outboxes.len() < self.outboxes.len(), "an outbox is given back once");
        self.free_outboxes.push(number);
    }

    pub fn take_flushable(&mut self, keys: &mut Vec<ConnectionKey>) {
        for key in &self.flushable {
            let connection = &mut self.connections[key.index];
            if connection.generation == key.generation {
                connection.flags.clear(Flags::FLUSH_QUEUED);
                keys.push(*key);
            }
        }
        self.flushable.clear();
    }

    /// Bytes in outboxes that flow. A reader that takes nothing does not count, so it slows no publisher.
    pub fn pressure_bytes(&mut self, now: TimeMs) -> u64 {
        if now.0.saturating_sub(self.looked_at.0) >= FLOWING_MS / 4 {
            self.looked_at = now;
            let stuck = |outbox: &&Outbox| now.0.saturating_sub(outbox.progress_at.0) > FLOWING_MS;
            self.stuck_bytes = self.outboxes.iter().filter(stuck).map(|outbox| outbox.len() as u64).sum();
        }
        self.flowing_bytes()
    }

    /// The same as of the last look, and what was written since.
    #[inline]
    pub fn flowing_bytes(&self) -> u64 {
        self.unsent_bytes.saturating_sub(self.stuck_bytes)
    }

    // ── bytes in ───────────────────────────────────────────────────────────────────────────────────────────

    /// Takes what waits in a connection's input out of it.
    pub fn take_input(&mut self, index: u32) -> Vec<u8> {
        match std::mem::replace(&mut self.connections[index].input, NONE) {
            NONE => Vec::new(),
            number => {
                assert!(self.free_inputs.len() < self.inputs.len(), "an input is given back once");
                self.free_inputs.push(number);
                std::mem::take(&mut self.inputs[number as usize])
            }
        }
    }

    pub fn input(&self, index: u32) -> &[u8] {
        match self.connections[index].input {
            NONE => &[],
            number => &self.inputs[number as usize],
        }
    }

    /// Puts back what is left of an input; nothing is kept for nothing.
    pub fn put_input(&mut self, index: u32, input: Vec<u8>) {
        assert!(self.connections[index].input == NONE, "an input is put back once");
        assert!(self.connections[index].state != ConnectionState::Vacant, "nobody has no input");
        if input.is_empty() {
            return;
        }
        let number = match self.free_inputs.pop() {
            Some(number) => number,
            None => {
                self.inputs.push(Vec::new());
                (self.inputs.len() - 1) as u32
            }
        };
        assert!(self.inputs[number as usize].is_empty(), "a free input is empty");
        self.inputs[number as usize] = input;
        self.connections[index].input = number;
    }

    // ── publications out ───────────────────────────────────────────────────────────────────────────────────

    /// Another message follows: what was encoded is forgotten.
    pub fn begin_message(&mut self) {
        self.templates.begin();
    }

    /// Brings a copy to a clean session, or one of QoS 0 to any. The session and its generation were checked.
    #[inline]
    pub fn deliver(&mut self, session: u32, message_ref: &mut MessageRef<'_>, copy: Copy<'_>, now: TimeMs) -> Delivery {
        let index = self.sessions[session].connection;
        if index == NONE || self.connections[index].state != ConnectionState::Connected {
            return Delivery::Done;
        }
        assert!(self.connections[index].session == session, "connection and session point to each other");
        assert!(copy.qos <= 2, "0, 1 or 2");
        let has_room = self.outbox_has_room(index);
        if copy.qos == 0 {
            if has_room {
                self.publish(index, message_ref, copy, false, 0, now);
            } else {
                self.facts.dropped_outbox += 1;
            }
            return Delivery::Done;
        }
        let window_max = self.connections[index].window_max;
        let flow = self.sessions[session].flow();
        if !has_room || !flow.backlog.is_empty() || !flow.window.is_open(window_max) {
            return self.wait(session, message_ref, copy);
        }
        self.start(session, index, message_ref, copy, now);
        Delivery::Done
    }

    /// Sends a publication of QoS 1 or 2 and opens its flight.
    fn start(&mut self, session: u32, index: u32, message_ref: &MessageRef<'_>, copy: Copy<'_>, now: TimeMs) {
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
        }
    }

    /// Keeps a copy for a clean session until its client has room for it.
    #[cold]
    fn wait(&mut self, session: u32, message_ref: &mut MessageRef<'_>, copy: Copy<'_>) -> Delivery {
        let message = message_ref.shared_message();
        let (messages_max, bytes_max) = (self.limits.clean_inbox_messages_max, self.limits.clean_inbox_bytes_max);
        let waiting = &mut self.sessions[session].flow().backlog;
        while !waiting.has_room(&message, messages_max, bytes_max) {
            self.facts.dropped_inbox += 1;
            match self.limits.clean_inbox_policy {
                InboxPolicy::Refuse => return Delivery::Refused,
                InboxPolicy::DropNewest => return Delivery::Done,
                InboxPolicy::DropOldest => match waiting.drop_oldest() {
                    Some(_) => {}
                    None => return Delivery::Done,
                },
            }
        }
        assert!(copy.qos > 0, "QoS 0 does not wait");
        let Copy { qos, retain, subscription_ids } = copy;
        waiting.push(QueuedMessage { message, qos, retain, subscription_ids: subscription_ids.into() });
        Delivery::Done
    }

    /// Sends what waits in memory, as far as window and outbox go.
    pub fn pump_backlog(&mut self, session: u32, now: TimeMs) {
        let index = self.sessions[session].connection;
        if index == NONE || self.connections[index].state != ConnectionState::Connected {
            return;
        }
        assert!(self.connections[index].session == session, "connection and session point to each other");
        let window_max = self.connections[index].window_max;
        while self.outbox_has_room(index) {
            let Some(flow) = &mut self.sessions[session].flow else { return };
            match flow.backlog.front() {
                None => return,
                Some(queued) if queued.qos > 0 && !flow.window.is_open(window_max) => return,
                Some(_) => {}
            }
            let queued = flow.backlog.pop().expect("it was at the front");
            self.send_queued(session, index, &queued, now);
        }
    }

    fn send_queued(&mut self, session: u32, index: u32, queued: &QueuedMessage, now: TimeMs) {
        let message_ref = MessageRef::of(&queued.message);
        let copy = Copy { qos: queued.qos, retain: queued.retain, subscription_ids: &queued.subscription_ids };
        self.begin_message();
        if queued.qos == 0 {
            self.publish(index, &message_ref, copy, false, 0, now);
        } else if message_ref.expiry_s(now).is_err() {
            self.facts.dropped_expired += 1;
        } else {
            self.start(session, index, &message_ref, copy, now);
        }
    }

    /// Appends a PUBLISH to a connection's outbox.
    #[inline]
    pub fn publish(
        &mut self,
        index: u32,
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
        index: u32,
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
    if extra.aliases_out.len() >= usize::from(extra.aliases_out_max) {
        return (None, false);
    }
    extra.aliases_out.push(topic.into());
    assert!(extra.aliases_out.len() <= usize::from(extra.aliases_out_max), "no more aliases than the client takes");
    (Some(extra.aliases_out.len() as u16), true)
}

/// How many of `bytes` wait for a client without a user.
#[inline]
fn anonymous(connection: &Connection, bytes: usize) -> u64 {
    if connection.flags.has(Flags::ANONYMOUS) { bytes as u64 } else { 0 }
}

fn hash_of(hasher: &foldhash::fast::RandomState, client_id: &str) -> u64 {
    use std::hash::BuildHasher;
    hasher.hash_one(client_id)
}
