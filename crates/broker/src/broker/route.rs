//! Routes a message to its receivers: matched once, then delivered to live sessions of this worker, journaled for its
//! durable sessions, or batched for another worker.
//!
//! ```text
//!   retain ─▶ the topic's shard ─durable─▶ every worker matches for itself (retain.rs)
//!   else   ─▶ match ─▶ per worker: receivers ─┬─ ours:  deliver_here ─┬─ live ─▶ outbox
//!                                             │                       └─ durable ─▶ shard ─▶ inbox ─▶ outbox
//!                                             └─ others': one item of a batch, deliver_here there
//! ```

use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Event, Message, Origin, Receiver, Slot, entry_bytes};
use tidegate_planted::{Bug, is_planted};
use tidegate_wire::mqtt::ReasonCode;

use super::Broker;
use super::retain::RetainedMessage;
use crate::SlowReader;
use crate::acknowledgements::Awaited;
use crate::clients::{Copy, Delivery};
use crate::holdings::Thing;
use crate::index::{SessionIndex, ShardPlace};
use crate::limits::PART_SLOTS;
use crate::message_ref::MessageRef;
use crate::peer::{Item, Source};
use crate::retained::Retained;
use crate::session::{SessionFlags, SessionRef, Stage};
use crate::shards::Wait;
use crate::share::{OfGroup, Picked};
use crate::subscriptions::{Entry, EntryOptions, Matches, Presence};

/// The result of routing a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Routed {
    /// Who will say that it is durable.
    pub awaited: Awaited,
    /// Whether there are receivers, as far as this worker knows.
    pub matched: bool,
    /// It was brought to nobody, for this reason.
    pub refused: Option<ReasonCode>,
}

/// Buffers of the message that is being routed. Empty between two messages.
#[derive(Default)]
pub(super) struct Routing {
    pub matches: Matches,
    /// Nodes that were visited, and copies for shards and for other workers, of all messages so far.
    pub steps: u64,
    /// Receivers whose shards take it.
    durable: Vec<DurableReceiver>,
    /// Sessions whose inbox is full.
    refused: Vec<SessionRef>,
    /// Sessions for which others may still have matched what they do not subscribe to any more.
    pub unsubscribed: Unsubscribed,
}

/// Sessions of this worker that have removed subscriptions, and how many words of other workers are to come that know
/// it. Until then, what a worker has matched for such a session may be too late.
#[derive(Debug, Default)]
pub(super) struct Unsubscribed(HashMap<SessionIndex, u32>);

impl Unsubscribed {
    /// A session has removed a subscription, and so many workers were told.
    pub fn begin(&mut self, session: SessionIndex, workers: u16) {
        if workers > 0 {
            *self.0.entry(session).or_default() += u32::from(workers);
        }
    }

    /// One of them knows it.
    pub fn heard(&mut self, session: SessionIndex) {
        let words = self.0.get_mut(&session).expect("who was asked answers once");
        *words -= 1;
        if *words == 0 {
            self.0.remove(&session);
        }
    }

    /// Whether somebody may not know yet of a subscription that a session has removed.
    #[inline]
    fn has(&self, session: SessionIndex) -> bool {
        !self.0.is_empty() && self.0.contains_key(&session)
    }
}

impl Routing {
    /// Panics if a message is half delivered.
    pub fn assert_sound(&self) {
        assert!(self.durable.is_empty() && self.refused.is_empty(), "no message is half delivered");
    }
}

/// A receiver whose shard takes the message.
#[derive(Debug)]
struct DurableReceiver {
    shard: ShardPlace,
    receiver: Receiver,
    /// Which part of the message's origin takes it.
    part: u32,
    /// Its client takes nothing: it may not keep others from getting the message.
    is_unheeded: bool,
}

impl DurableReceiver {
    /// Which record takes it: the shard's, for this part.
    fn record(&self) -> (ShardPlace, u32) {
        (self.shard, self.part)
    }
}

impl<L: LogStore> Broker<L> {
    /// Sends a message to all subscribers of its topic.
    pub(super) fn route(&mut self, message_ref: &mut MessageRef<'_>, source: &Source, now: TimeMs) -> Routed {
        // On a topic of too many levels nothing is retained, but it is delivered.
        if message_ref.retain && Retained::<RetainedMessage>::admits(message_ref.topic) {
            return self.retain(message_ref, source, now);
        }
        let mut found = std::mem::take(&mut self.routing.matches);
        self.subscriptions.matches(message_ref.topic, source.client, &mut found);
        let routed = self.send_found(message_ref, &found, source, now);
        self.routing.matches = found;
        routed
    }

    /// Sends a message to those who were found.
    pub(super) fn send_found(
        &mut self,
        message_ref: &mut MessageRef<'_>,
        found: &Matches,
        source: &Source,
        now: TimeMs,
    ) -> Routed {
        self.routing.steps += found.visits() as u64;
        let mut routed = Routed { matched: !found.is_empty(), ..Routed::default() };
        if routed.matched {
            let own = self.options.worker;
            for worker in self.peers.others() {
                self.send_over(worker, message_ref, found, source, &mut routed);
            }
            assert!(routed.awaited.words() < self.options.workers(), "each other worker says one word");
            let picked = found.picked().iter().filter(|picked| u16::from(picked.entry.worker) == own);
            let acks =
                self.deliver_here(message_ref, found.receivers(own as u8), picked, found.filters() > 1, source, now);
            routed.awaited.add_records(own, acks);
        }
        routed
    }

    /// Puts a message with its receivers into the batch for another worker.
    fn send_over(
        &mut self,
        worker: u16,
        message_ref: &mut MessageRef<'_>,
        found: &Matches,
        source: &Source,
        routed: &mut Routed,
    ) {
        let receivers = found.receivers(worker as u8);
        let picked = found.picked().iter().filter(|picked| u16::from(picked.entry.worker) == worker);
        let picked_count = picked.clone().count();
        if receivers.is_empty() && picked_count == 0 {
            return;
        }
        let qos = message_ref.qos;
        let is_kept = |entry: &Entry| entry.options.has(EntryOptions::DURABLE) && entry.options.qos().min(qos) > 0;
        // A worker that has only live receivers does not acknowledge durability.
        let asks = source.ack_to.is_some()
            && (receivers.iter().any(is_kept) || picked.clone().any(|picked| is_kept(&picked.entry)));
        if asks {
            routed.awaited.add_worker(worker);
        }
        let source = Source { ack_to: source.ack_to.filter(|_| asks), ..*source };
        let message = message_ref.shared_message();
        let batch = self.peers.batch(worker);
        batch.receivers.extend_from_slice(receivers);
        batch.picked.extend(picked.copied());
        let (receivers, picked) = (receivers.len() as u32, picked_count as u32);
        self.routing.steps += u64::from(receivers + picked);
        let may_repeat = found.filters() > 1;
        batch.items.push(Item::Publish { message, receivers, picked, may_repeat, source });
    }

    /// Delivers a message to sessions of this worker. Returns how many words of it will be sent to the requester: one
    /// of each shard that takes it, and one of each picked member that is none any more, when another has it.
    pub(super) fn deliver_here<'e>(
        &mut self,
        message_ref: &mut MessageRef<'_>,
        receivers: &[Entry],
        picked: impl Iterator<Item = &'e Picked>,
        may_repeat: bool,
        source: &Source,
        now: TimeMs,
    ) -> u16 {
        assert!(self.routing.durable.is_empty() && self.routing.refused.is_empty(), "one message after the other");
        assert!(message_ref.qos <= 2, "0, 1 or 2");
        self.clients.begin_message();
        if may_repeat && receivers.len() > 1 {
            self.deliver_merged(message_ref, receivers, source, now);
        } else {
            for entry in receivers {
                self.deliver_to(message_ref, entry, None, source, now);
            }
        }
        let mut words = 0;
        // What is new to a share group was published while it was subscribed.
        message_ref.was_awaited = false;
        // A member of a share group gets its copy in addition to those of its other subscriptions (MQTT 5, 4.8.2).
        for picked @ Picked { entry, group } in picked {
            let is_lost = is_planted(Bug::SharedWithNobody) && entry.options.presence() == Presence::Away;
            if is_lost {
                continue;
            }
            if self.leaves_picked(message_ref, picked, source) {
                words += u16::from(source.ack_to.is_some());
                continue;
            }
            let before = self.routing.durable.len();
            let of_group = OfGroup { group: *group, client: source.client };
            self.deliver_to(message_ref, entry, Some(of_group), source, now);
            if source.origin.is_some() {
                self.routing.durable[before..].iter_mut().for_each(|receiver| receiver.part = group.part());
            }
            self.look_at_picked(entry, now);
        }
        self.disconnect_refused();
        if !self.routing.durable.is_empty() {
            words += self.journal(message_ref, source);
        }
        words
    }

    #[inline]
    fn deliver_to(
        &mut self,
        message_ref: &mut MessageRef<'_>,
        entry: &Entry,
        of_group: Option<OfGroup>,
        source: &Source,
        now: TimeMs,
    ) {
        let ids = [entry.subscription_id];
        let ids = if entry.subscription_id == 0 { &[][..] } else { &ids[..] };
        self.deliver_copy(message_ref, entry, (ids, of_group), source, now);
    }

    /// A session with several filters that match gets one copy, with the highest QoS and all identifiers.
    /// `[MQTT-3.3.4-2]`: if several subscriptions match, the highest of their QoS applies.
    /// `[MQTT-3.3.4-3]`: a message carries the identifiers of the subscriptions that it matched.
    #[cold]
    fn deliver_merged(&mut self, message_ref: &mut MessageRef<'_>, receivers: &[Entry], source: &Source, now: TimeMs) {
        let mut entries = receivers.to_vec();
        entries.retain(|entry| !self.is_echo(entry, source));
        entries.sort_unstable_by_key(|entry| entry.session);
        let mut ids = Vec::new();
        for same in entries.chunk_by(|one, other| one.session == other.session) {
            ids.clear();
            ids.extend(same.iter().map(|entry| entry.subscription_id).filter(|id| *id != 0));
            ids.sort_unstable();
            let mut merged = same[0];
            for entry in &same[1..] {
                let qos = merged.options.qos().max(entry.options.qos());
                let flags = merged.options.with(entry.options).without(EntryOptions(0b11));
                merged.options = flags.with(EntryOptions::of_qos(qos));
            }
            merged.options = merged.options.without(EntryOptions::NO_LOCAL);
            self.deliver_copy(message_ref, &merged, (&ids, None), source, now);
        }
    }

    /// Whether the subscriber published it itself and subscribed with No Local.
    /// `[MQTT-3.8.3-3]`: No Local: a message is not sent to the client id that published it.
    #[inline]
    fn is_echo(&self, entry: &Entry, source: &Source) -> bool {
        entry.options.has(EntryOptions::NO_LOCAL)
            && source.publisher.is_some_and(|publisher| {
                publisher.worker == u16::from(entry.worker)
                    && publisher.session == SessionRef { index: entry.session, generation: entry.generation }
            })
    }

    #[inline]
    fn deliver_copy(
        &mut self,
        message_ref: &mut MessageRef<'_>,
        entry: &Entry,
        (ids, of_group): (&[u32], Option<OfGroup>),
        source: &Source,
        now: TimeMs,
    ) {
        let session = &self.clients.sessions[entry.session];
        if session.generation != entry.generation || session.stage == Stage::Vacant || self.is_echo(entry, source) {
            return;
        }
        assert!(u16::from(entry.worker) == self.options.worker, "each worker serves its own sessions");
        // [MQTT-3.10.4-2]: after UNSUBSCRIBE no new messages are sent for the removed filters.
        if self.has_unsubscribed(message_ref.topic, entry) {
            return;
        }
        let is_partly_denied = session.flags.has(SessionFlags::PARTLY_DENIED);
        if is_partly_denied && self.clients.is_unreadable(entry.session, message_ref.topic) {
            return;
        }
        let session = &self.clients.sessions[entry.session];
        // [MQTT-3.8.4-8]: a message is forwarded with the lower of its QoS and the granted QoS.
        let qos = message_ref.qos.min(entry.options.qos());
        // [MQTT-3.3.1-12]: without Retain As Published a message is forwarded with RETAIN 0.
        // [MQTT-3.3.1-13]: with Retain As Published a message is forwarded with the RETAIN flag of its publisher.
        // [MQTT-3.3.1-8]: RETAIN is 1 in a message that is sent because a new subscription was made.
        let keeps_flag = message_ref.was_awaited || entry.options.has(EntryOptions::RETAIN_AS_PUBLISHED);
        let retain = message_ref.retain && keeps_flag;
        if qos > 0
            && let Some(slot) = session.slot
        {
            // Who is there takes what waits for it; who is away leaves it behind.
            let is_away = session.connection.is_none();
            let bytes = entry_bytes(message_ref.topic.len() + message_ref.properties.len() + message_ref.payload.len());
            if is_away && session.owner.as_ref().is_some_and(|owner| !owner.has_room(Thing::Queued, bytes)) {
                self.clients.facts.queued_refused += 1;
                return;
            }
            let (shard, receiver) = (session.shard, Receiver { slot, qos, retain, subscription_ids: ids.into() });
            assert!(usize::from(shard.0) < self.shards.len(), "a session's shard is one of this worker's");
            let is_unheeded = self.is_unheeded(entry.session, now);
            let part = slot.0 / PART_SLOTS as u32;
            self.routing.durable.push(DurableReceiver { shard, receiver, part, is_unheeded });
            return;
        }
        if source.is_again {
            return;
        }
        if qos > 0 && self.leaves_again(message_ref, entry.session, of_group, source, now) {
            return;
        }
        let copy = Copy { qos, retain, subscription_ids: ids, of_group };
        if self.clients.deliver(entry.session, message_ref, copy, now) == Delivery::Refused {
            self.routing.refused.push(self.clients.session_ref(entry.session));
        }
    }

    /// Whether a session has unsubscribed from what it was found by, and who found it did not know that.
    #[inline]
    pub(super) fn has_unsubscribed(&self, topic: &str, entry: &Entry) -> bool {
        self.routing.unsubscribed.has(entry.session) && !self.subscriptions.covers(topic, entry.owner())
    }

    /// Disconnects clients whose inbox is full, if the policy says so.
    fn disconnect_refused(&mut self) {
        while let Some(session) = self.routing.refused.pop() {
            if let Some(place) = self.clients.session(session) {
                self.disconnect_slow(place);
            }
        }
    }

    /// Disconnects a client that does not take what is sent to it, and has lost a message by that.
    fn disconnect_slow(&mut self, place: SessionIndex) {
        if let Some(index) = self.clients.connected(place) {
            self.intake.defer_disconnect_of_slow(self.clients.key(index));
        }
    }

    /// Counts those of a message's receivers, by slot, that lost it because they refuse nothing any more.
    pub(super) fn count_unheeded(&mut self, shard: ShardPlace, unheeded: &[Slot], event: &Event) {
        let Event::Published { receivers, dropped, .. } = event else { return };
        if !unheeded.is_empty() && *dropped > 0 {
            let is_taken = |slot: &Slot| receivers.iter().any(|taker| taker.slot == *slot);
            let lost = unheeded.iter().filter(|slot| !is_taken(slot) && self.session_at(shard, **slot).is_some());
            self.clients.facts.dropped_stalled += lost.count() as u64;
        }
    }

    /// The same for those of a message's receivers, by slot, whose inboxes in the journal had no room for it: `event`
    /// says who took it, and who made room. `asked` is empty where slow readers are left alone.
    pub(super) fn disconnect_losers(&mut self, shard: ShardPlace, asked: &[Slot], event: &Event) {
        let Event::Published { receivers, evicted, dropped, .. } = event else { return };
        if asked.is_empty() || *dropped == 0 && evicted.is_empty() {
            return;
        }
        let mut evicted = evicted.iter();
        let taken: HashMap<Slot, bool> =
            receivers.iter().map(|taker| (taker.slot, evicted.next().is_some_and(|count| *count > 0))).collect();
        for slot in asked {
            if taken.get(slot).copied().unwrap_or(true)
                && let Some(place) = self.session_at(shard, *slot)
            {
                self.disconnect_slow(place);
            }
        }
    }

    /// Hands the message to the shards of the durable receivers that were found, in parts that fit a record each. The
    /// part of a session depends on its slot alone, and that of a message's only member of a group on the group. So a
    /// message that is sent again after a crash, with other receivers, is checked in the same part for each.
    fn journal(&mut self, message_ref: &mut MessageRef<'_>, source: &Source) -> u16 {
        let message = message_ref.shared_message();
        let mut receivers = std::mem::take(&mut self.routing.durable);
        self.routing.steps += receivers.len() as u64;
        let mut acks = 0;
        receivers.sort_by_key(DurableReceiver::record);
        let mut waiting = receivers.drain(..).peekable();
        while let Some(first) = waiting.next() {
            let (shard, part) = first.record();
            let (mut of_part, mut unheeded) = (Vec::new(), Vec::new());
            let mut next = Some(first);
            while let Some(one) = next {
                unheeded.extend(one.is_unheeded.then_some(one.receiver.slot));
                of_part.push(one.receiver);
                next = waiting.next_if(|next| next.record() == (shard, part));
            }
            let asked = match self.options.limits.slow_reader {
                SlowReader::Drop => Box::default(),
                SlowReader::Disconnect => of_part.iter().map(|receiver| receiver.slot).collect(),
            };
            let origin = source.origin.map(|origin| Origin { part, ..origin });
            let (message, receivers, unheeded) = (Arc::clone(&message), of_part.into(), Box::<[Slot]>::from(unheeded));
            let command = Command::Publish { message, receivers, origin, unheeded: unheeded.clone() };
            self.shards.call(shard, command, Wait::Published { ack_to: source.ack_to, asked, unheeded });
            acks += 1;
        }
        assert!(acks > 0, "there were receivers");
        drop(waiting);
        self.routing.durable = receivers;
        acks
    }

    /// A message that another worker has matched, for sessions of this one.
    pub(super) fn publish_from_peer(
        &mut self,
        message: &Arc<Message>,
        receivers: &[Entry],
        picked: &[Picked],
        may_repeat: bool,
        source: &Source,
        now: TimeMs,
    ) {
        let mut message_ref = MessageRef::of(message);
        let gathered = self.gather(source, picked);
        let acks = self.deliver_here(&mut message_ref, receivers, picked.iter(), may_repeat, &gathered.source, now);
        self.expect(&gathered, acks, now);
    }
}
