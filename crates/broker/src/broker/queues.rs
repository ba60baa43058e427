//! Topics that lead to queues behind the broker: what is published on some of them is a send, and who subscribes to
//! others is a receiver.
//!
//! ```text
//!   PUBLISH ─▶ Action::Send ─▶ (shell, queue) ─▶ send_answered ─▶ PUBACK, PUBREC
//!   SUBSCRIBE ─▶ Action::FindQueue ─▶ queue_found ─▶ SUBACK ─┐
//!   CONNECT to a session that has such a subscription ───────┴▶ Action::Receive
//!   queue ─▶ hand_out ─▶ window, outbox ─▶ client ─PUBACK─▶ Action::Settle, Action::ReceiveMore
//!   connection ends ─▶ Action::ReceiveEnd: the queue has back what was not settled
//! ```
//!
//! Promise: a send is acknowledged when the queue has it, and else refused; also MQTT 3.1.1, which has no word for a
//! refusal, hears no acknowledgement then: its connection is closed. Nothing of a queue is ever retained, kept in an
//! inbox, routed to subscribers, or reached by a wildcard.
//!
//! Invariant: which topics these are, the options say ([`QueueTopics`]). What a queue is, only the shell knows.

use hashbrown::{HashMap, HashSet};
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::MessageMeta;
use tidegate_wire::mqtt::{Publish, QoS, ReasonCode, Subscription, Version, split_filter};

use super::notices::Noticed;
use super::{Broker, Progress, Routed};
use crate::acknowledgements::Awaited;
use crate::clients::{Copy, Sending};
use crate::connection::ParkedFor;
use crate::flow::{Flight, Window};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::{
    DELIVERIES_UNDER_WAY_MAX, DELIVERIES_UNDER_WAY_V311, IDS_LEFT_TO_INBOX, PACKET_IDS, RECEIVERS_OF_SESSION_MAX,
    REQUEST_BYTES_MAX, UNSENT_DELIVERY_BYTES_MAX,
};
use crate::message_ref::MessageRef;
use crate::options::QueueTopics;
use crate::reason::{About, NEEDS_QOS_1, NOT_RETAINED, SEND_DENIED, told};
use crate::receiver::{QueueDelivery, Receiver, UnderWay};
use crate::{Access, Action, ConnectionKey, QueueRefusal, ReceiverKey, RequestTicket};

/// The receivers of all connected sessions of a worker.
#[derive(Debug, Default)]
pub(super) struct Receivers {
    all: HashMap<u64, Receiver>,
    of_session: HashMap<SessionIndex, Vec<u64>>,
    made: u64,
    /// Bytes that were handed out and not sent.
    waiting_bytes: usize,
    /// Sessions that may ask for more when less waits.
    starved: HashSet<SessionIndex>,
    /// The packet id that was used last beside a window. It goes around over all sessions: a PUBACK that belongs to an
    /// earlier connection is then not taken for that of another message.
    last_id: u16,
}

impl Receivers {
    /// Packet ids begin somewhere.
    pub fn begin_ids(&mut self, chance: u64) {
        self.last_id = Window::packet_id(chance);
    }

    fn keys(&self, place: SessionIndex) -> &[u64] {
        if self.of_session.is_empty() {
            return &[];
        }
        self.of_session.get(&place).map_or(&[][..], Vec::as_slice)
    }

    fn of(&self, place: SessionIndex) -> impl Iterator<Item = &Receiver> {
        self.keys(place).iter().map(|key| &self.all[key])
    }

    fn remove(&mut self, place: SessionIndex, key: u64) -> Option<Receiver> {
        let keys = self.of_session.get_mut(&place)?;
        keys.retain(|other| *other != key);
        if keys.is_empty() {
            self.of_session.remove(&place);
        }
        let receiver = self.all.remove(&key)?;
        self.waiting_bytes -= receiver.waiting_bytes();
        Some(receiver)
    }

    /// Does something to a receiver that changes what waits for it.
    fn change<T>(&mut self, key: u64, change: impl FnOnce(&mut Receiver) -> T) -> T {
        let receiver = self.all.get_mut(&key).expect("a receiver of a session is there");
        let before = receiver.waiting_bytes();
        let changed = change(receiver);
        self.waiting_bytes = self.waiting_bytes + receiver.waiting_bytes() - before;
        changed
    }
}

impl<L: LogStore> Broker<L> {
    /// Whether nobody may publish on a topic, or only by [`Broker::send_to_queue`].
    #[inline]
    pub(super) fn is_of_queues(&self, topic: &str) -> bool {
        let QueueTopics { sends, receives, .. } = &self.options.queues;
        begins(topic, sends) || begins(topic, receives)
    }

    /// Whether what is published there is sent to a queue.
    #[inline]
    pub(super) fn is_send(&self, topic: &str) -> bool {
        begins(topic, self.options.queues.sends)
    }

    /// Whether a filter, given with its share group, is that of a receiver.
    pub(super) fn is_receiver(&self, filter: &str) -> bool {
        begins(split_filter(filter).filter, self.options.queues.receives)
    }

    /// A publication that is to be sent to a queue.
    pub(super) fn send_to_queue(
        &mut self,
        index: ConnectionIndex,
        place: SessionIndex,
        topic: &str,
        publish: &Publish<'_>,
        now: TimeMs,
    ) -> Progress {
        if let Err(reason) = self.judge_send(index, place, topic, publish) {
            match reason {
                SEND_DENIED => self.clients.facts.dropped_unauthorized += 1,
                ReasonCode::QUOTA_EXCEEDED => self.clients.facts.dropped_too_large += 1,
                _ => self.clients.facts.dropped_invalid += 1,
            }
            if reason == SEND_DENIED || publish.qos == QoS::AtMostOnce {
                self.notice(index, Noticed::PublishDenied, topic);
            }
            self.reply(index, place, publish, reason, Routed::default(), now);
            return Progress::Taken;
        }
        let mut properties = Vec::new();
        publish.properties.forwardable(&mut properties);
        let expires_at = publish.properties.message_expiry_s.map(|seconds| TimeMs(now.0 + u64::from(seconds) * 1000));
        let ack_to = self.source(place, publish).ack_to;
        let ticket = self.add_send(place, ack_to);
        self.asked.actions.push(Action::Send {
            ticket,
            rights: self.rights_of(index).clone(),
            topic: topic.into(),
            properties: properties.into(),
            expires_at,
            payload: publish.payload.into(),
        });
        let routed = Routed { awaited: Awaited::of_service(true), matched: true, refused: None };
        self.reply(index, place, publish, ReasonCode::SUCCESS, routed, now);
        Progress::Taken
    }

    fn judge_send(
        &self,
        index: ConnectionIndex,
        place: SessionIndex,
        topic: &str,
        publish: &Publish<'_>,
    ) -> Result<(), ReasonCode> {
        if publish.qos == QoS::AtMostOnce {
            // Nobody could be told whether it was taken.
            return Err(ReasonCode::TOPIC_NAME_INVALID);
        }
        let client_id = &self.clients.sessions[place].client_id;
        if self.rights_of(index).may_publish(client_id, topic) != Access::Allowed {
            return Err(SEND_DENIED);
        }
        if publish.retain {
            return Err(NOT_RETAINED);
        }
        if self.asked.requests.is_full() || publish.payload.len() > REQUEST_BYTES_MAX {
            return Err(ReasonCode::QUOTA_EXCEEDED);
        }
        Ok(())
    }

    /// The answer to [`Action::Send`]: the queue has it, or why not.
    pub fn send_answered(&mut self, ticket: RequestTicket, answer: Result<(), QueueRefusal>, now: TimeMs) {
        let reason = answer.map_or_else(QueueRefusal::code, |()| ReasonCode::SUCCESS);
        self.respond(ticket, None, reason, now);
    }

    /// The reason of a publication's or subscription's refusal as a client is told it, and the text.
    pub(super) fn told(&self, about: About, reason: ReasonCode) -> (ReasonCode, Option<&'static str>) {
        match QueueRefusal::of_code(reason) {
            Some(QueueRefusal(nth)) => {
                let (reason, words) = self.options.queues.refusals[usize::from(nth)];
                (reason, Some(words))
            }
            None => told(about, reason),
        }
    }

    /// Asks whether the queue of a filter is there, if this is one of a receiver. True when an answer is awaited.
    pub(super) fn asks_queue(
        &mut self,
        index: ConnectionIndex,
        place: SessionIndex,
        subscription: &Subscription<'_>,
    ) -> bool {
        let filter = subscription.filter;
        if !self.is_receiver(filter) || self.judge_receiver_alone(subscription).is_err() {
            return false;
        }
        let known = self.clients.connections[index].extra.as_ref().map_or(0, |extra| extra.places.len());
        if known >= RECEIVERS_OF_SESSION_MAX
            || self.place_found(index, filter).is_some()
            || self.access(index, place, filter) != Access::Allowed
        {
            return false;
        }
        let key = self.clients.key(index);
        self.asked.actions.push(Action::FindQueue { key, filter: filter.into() });
        self.clients.connections[index].park(ParkedFor::FeedPlace);
        true
    }

    /// The answer to [`Action::FindQueue`].
    pub fn queue_found(&mut self, key: ConnectionKey, filter: &str, found: Result<(), QueueRefusal>, now: TimeMs) {
        self.placed(key, filter, found.map(|()| Box::default()).map_err(QueueRefusal::code), now);
    }

    /// What a filter is refused with, whoever subscribes.
    fn judge_receiver_alone(&self, subscription: &Subscription<'_>) -> Result<(), ReasonCode> {
        let parts = split_filter(subscription.filter);
        if parts.share_group.is_some() {
            return Err(ReasonCode::SHARED_SUBSCRIPTIONS_NOT_SUPPORTED);
        }
        if parts.filter.contains(['+', '#']) {
            return Err(ReasonCode::TOPIC_FILTER_INVALID);
        }
        match subscription.qos {
            // It would be lost whenever its client is: nobody could acknowledge it.
            QoS::AtMostOnce => Err(NEEDS_QOS_1),
            QoS::AtLeastOnce | QoS::ExactlyOnce => Ok(()),
        }
    }

    /// What a filter of a receiver is granted: QoS 1, or why not. `new` ones were granted before it.
    pub(super) fn judge_receiver(
        &self,
        index: ConnectionIndex,
        place: SessionIndex,
        subscription: &Subscription<'_>,
        new: usize,
    ) -> ReasonCode {
        if let Err(reason) = self.judge_receiver_alone(subscription) {
            return reason;
        }
        let others = self.asked.receivers.of(place).filter(|receiver| *receiver.filter != *subscription.filter).count();
        if others + new >= RECEIVERS_OF_SESSION_MAX {
            return ReasonCode::QUOTA_EXCEEDED;
        }
        match self.place_found(index, subscription.filter) {
            Some(Ok(_)) => ReasonCode(QoS::AtLeastOnce as u8),
            Some(Err(code)) => *code,
            // It was not asked about: others of the same SUBSCRIBE were.
            None => ReasonCode::QUOTA_EXCEEDED,
        }
    }

    fn receiver_of(&self, place: SessionIndex, filter: &str) -> Option<u64> {
        let receivers = &self.asked.receivers;
        let is_it = |receiver: &Receiver| !receiver.is_over() && *receiver.filter == *filter;
        receivers.keys(place).iter().copied().find(|key| is_it(&receivers.all[key]))
    }

    /// A SUBSCRIBE was granted, or the client of a session is back: its receiver begins, or goes on as it now says.
    pub(super) fn open_receiver(&mut self, place: SessionIndex, filter: &str, now: TimeMs) {
        let Some(entry) = self.entry_of(place, filter) else { return };
        let Some(index) = self.clients.sessions[place].connection else { return };
        if let Some(key) = self.receiver_of(place, filter) {
            let receiver = self.asked.receivers.all.get_mut(&key).expect("a receiver of a session is there");
            receiver.subscription_id = entry.subscription_id;
            return;
        }
        if self.access(index, place, filter) != Access::Allowed {
            return;
        }
        self.asked.receivers.made += 1;
        let number = self.asked.receivers.made;
        let receiver = Receiver::new(self.clients.session_ref(place), filter, entry.subscription_id);
        self.asked.receivers.all.insert(number, receiver);
        self.asked.receivers.of_session.entry(place).or_default().push(number);
        self.clients.facts.receivers += 1;
        let client_id = Box::<str>::from(&*self.clients.sessions[place].client_id);
        self.asked.actions.push(Action::Receive { receiver: ReceiverKey(number), client_id, filter: filter.into() });
        self.pump_receivers(place, now);
    }

    /// The client of a session is back.
    pub(super) fn open_receivers(&mut self, place: SessionIndex, now: TimeMs) {
        if self.options.queues.receives.is_empty() {
            return;
        }
        let nodes = self.clients.sessions[place].subscriptions.as_slice();
        let filters = nodes.iter().map(|node| self.subscriptions.filter(*node));
        let filters: Vec<Box<str>> = filters.filter(|filter| self.is_receiver(filter)).map(Into::into).collect();
        filters.iter().for_each(|filter| self.open_receiver(place, filter, now));
    }

    /// A subscription is gone. What was not sent is given back; what was may still be acknowledged, as whoever
    /// unsubscribes may have done with it.
    pub(super) fn end_receiver(&mut self, place: SessionIndex, filter: &str) {
        let Some(key) = self.receiver_of(place, filter) else { return };
        let (unsent, is_done) =
            self.asked.receivers.change(key, |receiver| (receiver.stop(), receiver.under_way() == 0));
        let receiver = ReceiverKey(key);
        self.asked.actions.push(Action::ReceiveStop { receiver, unsent });
        if is_done {
            self.drop_receiver(place, key);
        }
    }

    /// The client of a session is gone.
    pub(super) fn end_receivers(&mut self, place: SessionIndex) {
        for key in self.asked.receivers.keys(place).to_vec() {
            self.drop_receiver(place, key);
        }
    }

    fn drop_receiver(&mut self, place: SessionIndex, key: u64) {
        let removed = self.asked.receivers.remove(place, key);
        assert!(removed.is_some() && self.clients.facts.receivers > 0, "a receiver of a session is there");
        self.clients.facts.receivers -= 1;
        self.asked.actions.push(Action::ReceiveEnd { receiver: ReceiverKey(key) });
    }

    /// The answer to [`Action::ReceiveMore`]: at least one message, and not more than were asked for. If the receiver
    /// is gone, they are ignored: whoever has the queue hears so, and has them back.
    pub fn hand_out(&mut self, ReceiverKey(key): ReceiverKey, deliveries: Vec<QueueDelivery>, now: TimeMs) {
        let Some(receiver) = self.asked.receivers.all.get(&key).filter(|receiver| !receiver.is_over()) else {
            return;
        };
        let session = receiver.session;
        self.asked.receivers.change(key, |receiver| receiver.take(deliveries));
        if let Some(place) = self.clients.session(session) {
            self.pump_receivers(place, now);
        }
    }

    /// Messages of queues that a session's client has, and that its window does not count.
    pub(super) fn received_beside_window(&self, place: SessionIndex) -> u16 {
        self.asked.receivers.of(place).map(Receiver::beside_window).sum::<usize>() as u16
    }

    /// Whether a message of a queue has this packet id.
    pub(super) fn is_id_of_receiver(&self, place: SessionIndex, packet_id: u16) -> bool {
        self.asked.receivers.of(place).any(|receiver| receiver.uses(packet_id))
    }

    /// Whether a session receives from a queue.
    pub(super) fn has_receivers(&self, place: SessionIndex) -> bool {
        !self.asked.receivers.keys(place).is_empty()
    }

    /// A PUBACK. Whether it was for a message of a queue: below 0x80 it acknowledges it, otherwise it rejects it.
    pub(super) fn delivery_acknowledged(
        &mut self,
        place: SessionIndex,
        packet_id: u16,
        reason: ReasonCode,
        now: TimeMs,
    ) -> bool {
        let mut found = None;
        for nth in 0..self.asked.receivers.keys(place).len() {
            let key = self.asked.receivers.keys(place)[nth];
            let receiver = self.asked.receivers.all.get_mut(&key).expect("a receiver of a session is there");
            if let Some(message) = receiver.acknowledge(packet_id) {
                found = Some((key, message, receiver.is_over() && receiver.under_way() == 0));
                break;
            }
        }
        let Some((key, UnderWay { number, flight, .. }, is_done)) = found else { return false };
        if let Some(flight) = flight {
            self.clients.sessions[place].flow().window.advance(flight, Flight::Done);
        }
        self.asked.actions.push(Action::Settle { receiver: ReceiverKey(key), number, reason });
        if is_done {
            self.drop_receiver(place, key);
        }
        self.pump_feeds(place, now);
        true
    }

    /// Sends what was handed out to a session's receivers as far as its window and its outbox go, and asks for more
    /// where nothing waits.
    pub(super) fn pump_receivers(&mut self, place: SessionIndex, now: TimeMs) {
        if !self.has_receivers(place) {
            return;
        }
        let Some(index) = self.clients.connected(place) else { return };
        for key in self.asked.receivers.keys(place).to_vec() {
            self.send_deliveries(place, index, key, now);
            if self.asked.receivers.waiting_bytes > UNSENT_DELIVERY_BYTES_MAX {
                self.asked.receivers.starved.insert(place);
                continue;
            }
            let room = self.room_of_receiver(place, index, key);
            let receiver = self.asked.receivers.all.get_mut(&key).expect("sending ends no receiver");
            if let Some(max) = receiver.demand(room) {
                self.asked.actions.push(Action::ReceiveMore { receiver: ReceiverKey(key), max });
            }
        }
    }

    /// Lets receivers ask for messages that could not because too much was handed out and not sent.
    pub(super) fn step_receivers(&mut self, now: TimeMs) {
        while self.asked.receivers.waiting_bytes <= UNSENT_DELIVERY_BYTES_MAX {
            let Some(place) = self.asked.receivers.starved.iter().next().copied() else { return };
            self.asked.receivers.starved.remove(&place);
            self.pump_receivers(place, now);
        }
    }

    /// How many more messages of a receiver may be with its client.
    fn room_of_receiver(&self, place: SessionIndex, index: ConnectionIndex, key: u64) -> usize {
        let connection = &self.clients.connections[index];
        let own_max = match connection.version {
            Version::V5 => DELIVERIES_UNDER_WAY_MAX,
            // It cannot say how many it takes.
            Version::V311 => DELIVERIES_UNDER_WAY_V311,
        };
        let window = self.clients.sessions[place].flow.as_ref().map(|flow| &flow.window);
        let in_flight = window.map_or(0, Window::in_flight) as usize + usize::from(self.beside_window(place));
        let of_client = usize::from(connection.window_max).saturating_sub(in_flight);
        of_client.min(own_max.saturating_sub(self.asked.receivers.all[&key].under_way()))
    }

    fn send_deliveries(&mut self, place: SessionIndex, index: ConnectionIndex, key: u64, now: TimeMs) {
        loop {
            let receiver = &self.asked.receivers.all[&key];
            let Some(delivery) = receiver.front() else { return };
            if self.room_of_receiver(place, index, key) == 0 {
                return;
            }
            let Some(packet_id) = self.free_packet_id(place) else { return };
            let meta = MessageMeta { qos: 1, retain: false, expires_at: delivery.expires_at };
            let message_ref = MessageRef::new(&receiver.filter, &delivery.properties, &delivery.payload, meta);
            if !self.clients.outbox_has_room(index, message_ref.packet_bytes()) {
                return self.clients.hold_back(place, index);
            }
            let ids = [receiver.subscription_id];
            let subscription_ids = if receiver.subscription_id == 0 { &[][..] } else { &ids[..] };
            let copy = Copy { qos: 1, retain: false, subscription_ids, of_group: None };
            self.clients.begin_message();
            let sending = self.clients.publish(index, &message_ref, copy, false, packet_id, now);
            if sending == Sending::TooLarge {
                // [MQTT-3.1.2-25]: it is not sent; but it is the queue's, and goes on as its settings say.
                let number = self.asked.receivers.change(key, Receiver::give_up);
                let reason = ReasonCode::PACKET_TOO_LARGE;
                self.asked.actions.push(Action::Settle { receiver: ReceiverKey(key), number, reason });
                continue;
            }
            let session = &mut self.clients.sessions[place];
            let flight = session.slot.is_none().then(|| session.flow().window.start(Flight::Sent1));
            assert!(flight.is_none_or(|number| Window::packet_id(number) == packet_id), "the id that was free is used");
            self.asked.receivers.change(key, |receiver| receiver.sent(packet_id, flight));
            if flight.is_none() {
                self.asked.receivers.last_id = packet_id;
            }
        }
    }

    /// A packet id for a message of a queue. A session that ends with its connection has it from its window. The
    /// window of a durable one has the numbers of its inbox, so the id is one that those numbers do not reach soon.
    /// `[MQTT-2.2.1-4]`: a packet id chosen by the server is not 0 and not in use.
    fn free_packet_id(&self, place: SessionIndex) -> Option<u16> {
        let session = &self.clients.sessions[place];
        let window = session.flow.as_ref().map(|flow| &flow.window);
        let next = window.map_or(session.next_number, Window::next);
        if session.slot.is_none() {
            let is_open = window.is_none_or(|window| window.is_open(u16::MAX));
            return is_open.then(|| Window::packet_id(next));
        }
        let after = |id: u16| u64::from(id) % PACKET_IDS + 1;
        let is_free = |id: &u16| {
            let ahead = (u64::from(*id) - 1 + PACKET_IDS - next % PACKET_IDS) % PACKET_IDS;
            let is_of_window = window.is_some_and(|window| window.find(*id).is_some());
            ahead >= IDS_LEFT_TO_INBOX && !is_of_window && !self.is_id_of_source(place, *id)
        };
        let first = after(self.asked.receivers.last_id) as u16;
        let mut ids = std::iter::successors(Some(first), |id| Some(after(*id) as u16)).take(PACKET_IDS as usize);
        ids.find(is_free)
    }

    /// Messages that feeds and queues have under way with a client, beside its window: they share its Receive Maximum.
    pub(super) fn beside_window(&self, place: SessionIndex) -> u16 {
        self.feeds_in_flight(place) + self.received_beside_window(place)
    }

    /// Whether a message of a feed or of a queue has this packet id.
    pub(super) fn is_id_of_source(&self, place: SessionIndex, packet_id: u16) -> bool {
        self.is_id_of_feed(place, packet_id) || self.is_id_of_receiver(place, packet_id)
    }

    /// Panics, saying what disagrees. For tests and simulation.
    pub(super) fn assert_receivers_sound(&self) {
        let Receivers { all, of_session, waiting_bytes, .. } = &self.asked.receivers;
        let bytes: usize = all.values().map(Receiver::waiting_bytes).sum();
        assert_eq!(bytes, *waiting_bytes, "bytes that were handed out and not sent");
        let listed: usize = of_session.values().map(Vec::len).sum();
        assert_eq!(listed, all.len(), "each receiver is its session's");
        assert_eq!(all.len() as u64, self.clients.facts.receivers, "receivers");
        for (place, keys) in of_session {
            assert!(!keys.is_empty(), "receivers of session {place}");
            assert!(self.clients.sessions[*place].connection.is_some(), "receivers end with their connection");
            for receiver in keys.iter().map(|key| &all[key]) {
                receiver.assert_sound();
                assert_eq!(self.clients.session(receiver.session), Some(*place), "whose receiver it is");
                let is_subscribed = self.entry_of(*place, &receiver.filter).is_some();
                assert!(receiver.is_over() || is_subscribed, "the subscription of a receiver");
            }
        }
    }
}

/// Whether a topic begins so, and has more. Topics without `$` are looked at no further.
#[inline]
fn begins(topic: &str, with: &str) -> bool {
    topic.starts_with('$') && !with.is_empty() && topic.starts_with(with)
}
