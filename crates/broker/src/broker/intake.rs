//! Intake: from bytes to packets, one after the other, and what makes a connection's packets wait.
//!
//! ```text
//!   bytes ─▶ input ─▶ packet ─┬─ Taken ─▶ the next one
//!                             ├─ Unfinished ─▶ goes on, in this turn or in the next
//!                             ├─ Parked ─▶ stays in front until its answer comes (connection/parked.rs)
//!                             └─ Gone
//!   not looked at:  unserved ─ its turn ─▶           done its share of the work
//!                   stalled ─ a step ─▶              outbox full, or publishers wait for room
//!                   throttled ─ the time has come ─▶ rate spent; is stalled as well
//! ```
//!
//! Promise: a whole packet in an input waits for something that resumes it. Work is counted where it is done, so that
//! no client has more than its turn; a packet of many filters is looked at in several.

use std::collections::VecDeque;

use hashbrown::HashMap;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::{
    Packet, Publish, ReasonCode, Split, Version, announced_bytes, decode_client, decode_client_again, encode_pingresp,
    split,
};

use super::Broker;
use super::connect::seconds;
use crate::ConnectionKey;
use crate::connection::{Bucket, Connection, ConnectionState, Flags};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::{
    BYTES_PER_WORK, CONNECT_BYTES_MAX, RECEIVERS_PER_WORK, ROUTING_STEPS_PER_WORK, UNSERVED_PER_STEP, WORK_AT_ONCE,
    WORK_OF_REQUEST,
};

/// The result of processing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is done with.
    Taken,
    /// It waits at the front of its connection's input.
    Parked,
    /// It stays there for its next turn, in which it goes on.
    Unfinished,
    /// The connection is over.
    Gone,
}

/// Which connections wait, and for what.
#[derive(Debug, Default)]
pub(super) struct Intake {
    /// Connections whose input may hold whole packets that must wait. Each is marked, and stands here once.
    stalled: VecDeque<ConnectionKey>,
    /// Connections that have done their share of the work, and have more.
    unserved: Vec<ConnectionKey>,
    /// Connections that have spent their rate, and until when.
    throttled: Vec<(TimeMs, ConnectionKey)>,
    /// Connections to be disconnected when the current call no longer uses them.
    deferred_disconnects: Vec<(ConnectionKey, ReasonCode)>,
    /// Those of clients that do not take what is sent to them; of one perhaps several times.
    deferred_slow: Vec<ConnectionKey>,
    /// Connections that wait for a session which an earlier one is still opening.
    waiting_connects: HashMap<SessionIndex, ConnectionKey>,
    /// Whether publishers are not read, because what was sent is not taken fast enough.
    pub is_pressed: bool,
    /// What the filters of SUBSCRIBE and UNSUBSCRIBE that were looked at so far were worth.
    pub filter_work: u64,
    /// Buffers of the packet that is looked at.
    pub topic: String,
    pub properties: Vec<u8>,
}

impl Intake {
    /// The packets of a connection are looked at again in the next step.
    pub fn stall(&mut self, connection: &mut Connection, key: ConnectionKey) {
        if !connection.flags.has(Flags::STALLED) {
            connection.flags.set(Flags::STALLED);
            self.stalled.push_back(key);
        }
    }

    /// The packets of a connection wait for its turn.
    fn leave_unserved(&mut self, connection: &mut Connection, key: ConnectionKey) {
        connection.flags.set(Flags::UNSERVED);
        self.unserved.push(key);
    }

    /// Nothing is read from a connection until then.
    pub fn throttle(&mut self, connection: &mut Connection, key: ConnectionKey, until: TimeMs) {
        connection.flags.set(Flags::THROTTLED);
        self.throttled.push((until, key));
    }

    /// A connection is to be disconnected when the current call no longer uses it.
    pub fn defer_disconnect(&mut self, key: ConnectionKey, reason: ReasonCode) {
        self.deferred_disconnects.push((key, reason));
    }

    /// The same for a client that has lost a message because it does not take what is sent to it.
    pub fn defer_disconnect_of_slow(&mut self, key: ConnectionKey) {
        self.deferred_slow.push(key);
    }

    /// A connection waits for a session that another one opens. Gives the one that has waited for it until now.
    pub fn wait_for_session(&mut self, session: SessionIndex, key: ConnectionKey) -> Option<ConnectionKey> {
        self.waiting_connects.insert(session, key)
    }

    /// The connection that waits for a session, which is open now, or gone.
    pub fn session_settled(&mut self, session: SessionIndex) -> Option<ConnectionKey> {
        self.waiting_connects.remove(&session)
    }

    /// Connections that wait for sessions which others open; some of them may be gone.
    pub fn waiting_connects(&self) -> impl Iterator<Item = ConnectionKey> {
        self.waiting_connects.values().copied()
    }

    /// How often each connection stands among the stalled.
    pub fn stalled(&self) -> HashMap<ConnectionKey, usize> {
        let mut times: HashMap<ConnectionKey, usize> = HashMap::new();
        self.stalled.iter().for_each(|key| *times.entry(*key).or_default() += 1);
        times
    }

    /// Panics if somebody is still to be disconnected.
    pub fn assert_sound(&self) {
        let deferred = self.deferred_disconnects.len() + self.deferred_slow.len();
        assert!(deferred == 0, "whoever is late is disconnected before the shell goes on");
    }
}

impl<L: LogStore> Broker<L> {
    /// Bytes from a client, all of which are processed. A key that is gone is ignored here and everywhere.
    pub fn receive(&mut self, key: ConnectionKey, bytes: &[u8], now: TimeMs) {
        self.serve(key, bytes, isize::MAX, now);
    }

    /// Bytes from a client, of which so many are processed as `may` work allows; at least one packet. Returns how much
    /// work it was. If there is more, [`Broker::is_unserved`] says so, and [`Broker::serve`] without bytes goes on.
    pub fn serve(&mut self, key: ConnectionKey, bytes: &[u8], may: isize, now: TimeMs) -> isize {
        let Some(index) = self.clients.index(key) else { return 0 };
        if self.clients.connections[index].state == ConnectionState::Closing {
            return 0;
        }
        self.clients.facts.bytes_received += bytes.len() as u64;
        let left = if self.clients.connections[index].input.is_none() {
            let (taken, left) = self.process(key, bytes, may, now);
            self.keep_input(key, bytes[taken..].to_vec(), left);
            left
        } else {
            let mut input = self.clients.take_input(index);
            input.extend_from_slice(bytes);
            self.clients.put_input(index, input);
            // Also while the connection is blocked: these bytes may complete a packet, and the client may send no more.
            // `keep_input` then lists the connection for the next steps.
            self.resume_for(index, may, now)
        };
        self.run_deferred_disconnects(now);
        may - left
    }

    /// Whether whole packets of this connection wait for nothing but their turn.
    pub fn is_unserved(&self, key: ConnectionKey) -> bool {
        self.clients.index(key).is_some_and(|index| {
            let connection = &self.clients.connections[index];
            connection.flags.has(Flags::UNSERVED) && connection.state != ConnectionState::Closing
        })
    }

    /// Adds the connections that [`Broker::is_unserved`] is true of since the last call. Whoever takes them has them
    /// [served](Broker::serve) in turn; a step goes on with those that nobody took.
    pub fn take_unserved(&mut self, keys: &mut Vec<ConnectionKey>) {
        keys.append(&mut self.intake.unserved);
    }

    /// Bytes that are still to come of a packet of which some are here.
    pub fn missing_bytes(&self, key: ConnectionKey) -> usize {
        let Some(index) = self.clients.index(key) else { return 0 };
        let input = self.clients.input(index);
        announced_bytes(input).map_or(0, |bytes| bytes.saturating_sub(input.len()))
    }

    /// Goes on with what waits in a connection's input, because of something else than its turn.
    pub(super) fn resume(&mut self, index: ConnectionIndex, now: TimeMs) {
        self.resume_for(index, WORK_AT_ONCE, now);
    }

    /// The same for so much work. Returns how much of it is left.
    fn resume_for(&mut self, index: ConnectionIndex, may: isize, now: TimeMs) -> isize {
        let key = self.clients.key(index);
        self.clients.connections[index].flags.clear(Flags::UNSERVED);
        let mut input = self.clients.take_input(index);
        let (taken, left) = self.process(key, &input, may, now);
        assert!(taken <= input.len(), "no more is done with than there was");
        input.drain(..taken);
        self.keep_input(key, input, left);
        left
    }

    /// Puts back what could not be processed, if its connection is still there to process it. `left` is what it might
    /// still have done.
    fn keep_input(&mut self, key: ConnectionKey, input: Vec<u8>, left: isize) {
        let Some(index) = self.clients.index(key) else { return };
        if input.is_empty() || self.clients.connections[index].state == ConnectionState::Closing {
            return;
        }
        self.clients.put_input(index, input);
        // A packet that waits for an answer is resumed by it, part of a packet by the rest; a whole one that waits for
        // better times is looked at in each step, and one that waits for its turn when that comes.
        let connection = &self.clients.connections[index];
        if connection.is_parked()
            || connection.flags.has(Flags::STALLED)
            || connection.state == ConnectionState::Authenticating
        {
            return;
        }
        let is_blocked = self.is_blocked(index);
        // What is malformed is nothing to wait for, either.
        let is_whole = split(self.clients.input(index), self.packet_bytes_max(index)) != Ok(Split::NeedMore);
        if is_whole && left <= 0 && !is_blocked {
            self.intake.leave_unserved(&mut self.clients.connections[index], key);
        } else if is_whole || is_blocked {
            self.intake.stall(&mut self.clients.connections[index], key);
        } else if !self.clients.pay_for_input(index) {
            self.intake.defer_disconnect(key, ReasonCode::QUOTA_EXCEEDED);
        }
    }

    /// Takes whole packets from `bytes` as long as the connection may go on. Returns how many bytes are done with, and
    /// how much is left of `may`.
    fn process(&mut self, key: ConnectionKey, bytes: &[u8], may: isize, now: TimeMs) -> (usize, isize) {
        let (mut taken, mut left) = (0, may);
        while let Some(index) = self.clients.index(key) {
            if left <= 0 || self.is_blocked(index) {
                break;
            }
            let rest = &bytes[taken..];
            let length = match split(rest, self.packet_bytes_max(index)) {
                Ok(Split::NeedMore) => break,
                Ok(Split::Packet(length)) => length,
                Err(malformed) => {
                    self.malformed(index, malformed, now);
                    break;
                }
            };
            assert!(length > 0 && length <= rest.len(), "a whole packet is among what was received");
            let (before, is_begun) = (self.done(), self.has_begun(index));
            let progress = self.packet(index, &rest[..length], rest, now);
            let looked_at = if is_begun { 1 } else { work_of(&rest[..length]) };
            left -= looked_at + self.done().work_since(&before);
            match progress {
                Progress::Taken => taken += length,
                Progress::Unfinished => {}
                Progress::Parked | Progress::Gone => break,
            }
        }
        assert!(taken <= bytes.len(), "no more is done with than there was");
        (taken, left)
    }

    /// Whether the packet in front is a SUBSCRIBE or UNSUBSCRIBE of which something was done before.
    fn has_begun(&self, index: ConnectionIndex) -> bool {
        self.clients.connections[index].extra.as_ref().is_some_and(|extra| extra.filter_answers.is_some())
    }

    /// What was done so far that packets become.
    fn done(&self) -> Done {
        Done {
            copies: self.clients.facts.publish_sent,
            requests: self.asked.requests.made(),
            routing_steps: self.routing.steps,
            filter_work: self.intake.filter_work,
        }
    }

    /// One whole packet.
    fn packet(&mut self, index: ConnectionIndex, packet: &[u8], rest: &[u8], now: TimeMs) -> Progress {
        let has_rights = self.clients.connections[index].rights.is_some();
        if self.reloads.is_under_way() && has_rights && !self.renew_rights(index, now) {
            return Progress::Gone;
        }
        let connection = &mut self.clients.connections[index];
        match connection.state {
            ConnectionState::AwaitingConnect => {
                self.clients.facts.messages_received += 1;
                return self.receive_connect(index, packet, rest, now);
            }
            ConnectionState::Opening => return self.attach(index, packet, now),
            ConnectionState::Connected => {}
            ConnectionState::Vacant | ConnectionState::Authenticating | ConnectionState::Closing => {
                return Progress::Parked;
            }
        }
        connection.last_seen_s = seconds(now);
        let version = connection.version;
        let decoded = match self.has_begun(index) {
            true => decode_client_again(packet, version),
            false => decode_client(packet, version),
        };
        let packet = match decoded {
            Ok(packet) => packet,
            Err(malformed) => {
                self.malformed(index, malformed, now);
                return Progress::Gone;
            }
        };
        let progress = self.dispatch(index, &packet, now);
        self.clients.facts.messages_received += u64::from(progress == Progress::Taken);
        progress
    }

    fn dispatch(&mut self, index: ConnectionIndex, packet: &Packet<'_>, now: TimeMs) -> Progress {
        match packet {
            Packet::Publish(publish) => return self.publish(index, publish, now),
            Packet::PubAck(ack) => self.puback(index, ack, now),
            Packet::PubRec(ack) => self.pubrec(index, ack, now),
            Packet::PubRel(ack) => return self.pubrel(index, ack, now),
            Packet::PubComp(ack) => self.pubcomp(index, ack, now),
            Packet::Subscribe(subscribe) => return self.subscribe(index, subscribe, now),
            Packet::Unsubscribe(unsubscribe) => return self.unsubscribe(index, unsubscribe, now),
            // [MQTT-3.12.4-1]: PINGREQ is answered with PINGRESP.
            Packet::PingReq => self.clients.send(index, now, |bytes| {
                encode_pingresp(bytes);
            }),
            Packet::Disconnect(goodbye) => {
                self.client_disconnect(index, goodbye, now);
                return Progress::Gone;
            }
            // [MQTT-4.12.1-1]: re-authentication uses the Authentication Method of CONNECT.
            // No authentication was begun here that AUTH could continue.
            Packet::Auth(_) => self.protocol_error(index, ReasonCode::PROTOCOL_ERROR, now),
            // [MQTT-3.1.0-2]: a second CONNECT ends the connection.
            // All other packets are sent by servers only.
            _ => self.protocol_error(index, ReasonCode::PROTOCOL_ERROR, now),
        }
        Progress::Taken
    }

    /// Bytes of the largest packet that this connection may send now. A client that is not authenticated may use little
    /// memory.
    pub(super) fn packet_bytes_max(&self, index: ConnectionIndex) -> u32 {
        let connection = &self.clients.connections[index];
        let mut bytes_max = self.options.limits.packet_bytes_max;
        if let Some(extra) = connection.extra.as_ref().filter(|extra| extra.packet_bytes_max > 0) {
            bytes_max = bytes_max.min(extra.packet_bytes_max);
        }
        assert!(
            bytes_max <= self.options.limits.packet_bytes_max,
            "a connection's bound is no larger than the broker's"
        );
        if connection.state == ConnectionState::AwaitingConnect { bytes_max.min(CONNECT_BYTES_MAX) } else { bytes_max }
    }

    /// Takes one publication from the client's rate, or makes it wait.
    pub(super) fn may_publish_now(&mut self, index: ConnectionIndex, publish: &Publish<'_>, now: TimeMs) -> bool {
        let limits = &self.options.limits;
        let (messages, bytes) = (f64::from(limits.publishes_per_s), limits.publish_bytes_per_s as f64);
        let connection = &mut self.clients.connections[index];
        connection.flags.set(Flags::PUBLISHER);
        if messages == 0.0 && bytes == 0.0 {
            return true;
        }
        let size = (publish.topic.len() + publish.payload.len()) as f64;
        let bucket = refilled(connection, messages, bytes, now);
        // A publication larger than a second's bytes must wait for a full bucket, not without end.
        let lacks_messages = messages > 0.0 && bucket.messages < 1.0;
        let lacks_bytes = bytes > 0.0 && bucket.bytes < size.min(bytes);
        if lacks_messages || lacks_bytes {
            let messages_s = if lacks_messages { (1.0 - bucket.messages) / messages } else { 0.0 };
            let bytes_s = if lacks_bytes { (size.min(bytes) - bucket.bytes) / bytes } else { 0.0 };
            let until = TimeMs(now.0 + 1 + (messages_s.max(bytes_s) * 1000.0) as u64);
            let key = self.clients.key(index);
            self.intake.throttle(&mut self.clients.connections[index], key, until);
            return false;
        }
        bucket.messages -= 1.0;
        bucket.bytes -= size;
        true
    }

    /// Whether the shell should read from this connection now. A `no` may become a `yes` with any call of
    /// [`Broker::step`].
    pub fn may_read(&self, key: ConnectionKey) -> bool {
        self.clients.index(key).is_some_and(|index| !self.is_blocked(index))
    }

    /// Whether this connection is about to be closed: what comes from it is thrown away, and what is unsent of it says
    /// why.
    pub fn is_closing(&self, key: ConnectionKey) -> bool {
        self.clients.index(key).is_some_and(|index| self.clients.connections[index].state == ConnectionState::Closing)
    }

    /// Lets clients publish again whose rate has recovered, and reads on what waits in their inputs and others'.
    pub(super) fn step_stalled(&mut self, now: TimeMs) {
        self.intake.throttled.retain(|(until, key)| {
            if *until > now {
                return true;
            }
            if let Some(index) = self.clients.index(*key) {
                self.clients.connections[index].flags.clear(Flags::THROTTLED);
            }
            false
        });
        for _ in 0..self.intake.stalled.len() {
            let Some(key) = self.intake.stalled.pop_front() else { break };
            let Some(index) = self.clients.index(key) else { continue };
            if self.is_blocked(index) {
                self.intake.stalled.push_back(key);
                continue;
            }
            assert!(self.clients.connections[index].flags.has(Flags::STALLED), "who stands in the list is marked");
            self.clients.connections[index].flags.clear(Flags::STALLED);
            self.resume(index, now);
        }
    }

    /// Goes on with connections that have more than their share of the work and that nobody has taken. Whether there
    /// were any.
    pub(super) fn step_unserved(&mut self, now: TimeMs) -> bool {
        let count = self.intake.unserved.len().min(UNSERVED_PER_STEP);
        let some: Vec<ConnectionKey> = self.intake.unserved.drain(..count).collect();
        for key in &some {
            if let Some(index) = self.clients.index(*key)
                && self.clients.connections[index].flags.has(Flags::UNSERVED)
            {
                self.resume(index, now);
            }
        }
        !some.is_empty()
    }

    /// Whether nothing more may be read from a connection for now.
    #[inline]
    pub(super) fn is_blocked(&self, index: ConnectionIndex) -> bool {
        let state = self.clients.connections[index].state;
        matches!(state, ConnectionState::Authenticating | ConnectionState::Closing | ConnectionState::Vacant)
            || self.is_held_back(index)
            || self.clients.outbox_len(index) > self.clients.outbox_bytes_max(index)
    }

    /// Whether the server does not read a client for reasons of its own, whatever the client takes of what it is sent.
    #[inline]
    fn is_held_back(&self, index: ConnectionIndex) -> bool {
        let connection = &self.clients.connections[index];
        connection.is_parked()
            || connection.flags.has(Flags::THROTTLED)
            || connection.flags.has(Flags::PUBLISHER)
                && (self.intake.is_pressed
                    || self.clients.outboxes.flowing_bytes() > self.options.limits.pressure_bytes_max
                    || connection.version == Version::V311
                        && connection.session.is_some_and(|session| self.has_too_many_answers(session)))
    }

    /// Whether a client may have said something that the server has not looked at, for reasons of its own.
    pub(super) fn may_be_unheard(&self, index: ConnectionIndex) -> bool {
        self.is_held_back(index) || self.clients.connections[index].flags.has(Flags::UNSERVED)
    }

    #[inline]
    pub(super) fn has_too_many_answers(&self, place: SessionIndex) -> bool {
        let flow = self.clients.sessions[place].flow.as_ref();
        flow.is_some_and(|flow| flow.answers.len() >= usize::from(self.options.limits.receive_maximum))
    }

    /// Disconnects the clients whose disconnection was deferred.
    pub(super) fn run_deferred_disconnects(&mut self, now: TimeMs) {
        while let Some(key) = self.intake.deferred_slow.pop() {
            let Some(index) = self.clients.index(key) else { continue };
            if self.clients.connections[index].state == ConnectionState::Connected {
                self.clients.facts.slow_closed += 1;
                self.disconnect(index, ReasonCode::QUOTA_EXCEEDED, now);
            }
        }
        while let Some((key, reason)) = self.intake.deferred_disconnects.pop() {
            if let Some(index) = self.clients.index(key) {
                self.disconnect(index, reason, now);
            }
        }
    }
}

/// What packets become, counted from the start.
struct Done {
    copies: u64,
    requests: u64,
    routing_steps: u64,
    filter_work: u64,
}

impl Done {
    /// What it was worth, besides looking at the packets.
    fn work_since(&self, before: &Done) -> isize {
        let copies = (self.copies - before.copies) as isize / RECEIVERS_PER_WORK;
        let steps = (self.routing_steps - before.routing_steps) as isize / ROUTING_STEPS_PER_WORK;
        let requests = (self.requests - before.requests) as isize * WORK_OF_REQUEST;
        let filters = (self.filter_work - before.filter_work) as isize;
        copies + steps + requests + filters
    }
}

/// What it is worth to look at a packet, without what it becomes.
fn work_of(packet: &[u8]) -> isize {
    1 + (packet.len() / BYTES_PER_WORK) as isize
}

/// The bucket of a connection as it is now.
fn refilled(connection: &mut Connection, messages: f64, bytes: f64, now: TimeMs) -> &mut Bucket {
    let bucket = connection.extra().bucket.get_or_insert(Bucket { messages, bytes, filled_at_ms: now.0 });
    let passed_s = now.0.saturating_sub(bucket.filled_at_ms) as f64 / 1000.0;
    bucket.messages = (bucket.messages + passed_s * messages).min(messages.max(1.0));
    bucket.bytes = (bucket.bytes + passed_s * bytes).min(bytes);
    bucket.filled_at_ms = now.0;
    bucket
}
