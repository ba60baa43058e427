//! Retained messages: journaled by the shard of their topic, told to all workers, and sent to new subscriptions.
//!
//! ```text
//!   PUBLISH retain ─▶ shard_of(topic)'s worker ─▶ journal ─▶ told to all ─▶ each: replica, and its own receivers, in one step
//! ```
//!
//! Why through one worker: two publications on one topic then reach every replica in one order; and why "in one step": else a client
//! that subscribes between the two would miss the message, or get an old one after a new one.

use std::sync::Arc;

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::ledger::shard_of;
use tidegate_machines::topic::{Command, Message, MessageMeta, Receiver};
use tidegate_wire::mqtt::{ReasonCode, check_filter};

use super::{Broker, Routed, Wait};
use crate::flow::Waiter;
use crate::limits::{DUE_PER_STEP, RETAINED_NODES_PER_STEP, RETAINED_PER_PUMP};
use crate::parcel::Parcel;
use crate::peer::{AskedBy, Item, Source};
use crate::retained::{Cursor, Keepable, Progress};
use crate::session::SessionRef;
use crate::subscriptions::Entry;

/// A retained message as the replica keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Kept(pub Arc<Message>);

impl Keepable for Kept {
    fn expires_at_ms(&self) -> Option<u64> {
        self.0.expires_at().map(|at| at.0)
    }

    fn bytes(&self) -> usize {
        self.0.topic().len() + self.0.properties().len() + self.0.payload().len()
    }
}

/// A new subscription on its way through the retained messages.
pub(super) struct Walk {
    session: SessionRef,
    cursor: Cursor,
    qos: u8,
    subscription_id: u32,
}

impl<L: LogStore> Broker<L> {
    /// A publication with the retain flag goes to the worker of its topic. `[MQTT-3.3.1-5]`
    pub(super) fn retain(&mut self, parcel: &mut Parcel<'_>, source: &Source, now: TimeMs) -> Routed {
        let message = parcel.message();
        self.retain_begins(source, parcel.topic);
        let worker = shard_of(parcel.topic, self.options.topic_shards).0 % self.options.workers;
        if worker == self.options.worker {
            self.retain_here(message, *source, now);
        } else {
            self.peers.tell(worker, Item::Retain { message, source: *source });
        }
        // Each worker says when its own receivers' records are durable.
        let outstanding = if source.asked_by.is_some() { self.options.workers } else { 0 };
        let workers = if source.asked_by.is_some() { u64::MAX } else { 0 };
        Routed { outstanding, workers, matched: true }
    }

    /// Journals a retained message whose topic's shard lives here.
    pub(super) fn retain_here(&mut self, message: Arc<Message>, source: Source, now: TimeMs) {
        let shard = shard_of(message.topic(), self.options.topic_shards).0 / self.options.workers;
        let is_live = message.qos() == 0 && self.retains_under_way == 0;
        let command = Command::Retain(Arc::clone(&message));
        if is_live {
            // QoS 0 promises nothing, so nobody waits for the disk; unless one before it does, which must not come after it.
            self.tell_retained(message, source, now);
            self.call(shard, command, Wait::Nothing);
        } else {
            self.retains_under_way += 1;
            self.call(shard, command, Wait::Retained { message, source });
        }
    }

    /// A retained message is durable, or refused.
    pub(super) fn retained(&mut self, message: Arc<Message>, source: Source, reason: ReasonCode, now: TimeMs) {
        self.retains_under_way -= 1;
        if !reason.is_error() {
            return self.tell_retained(message, source, now);
        }
        match source.publisher {
            Some(publisher) if publisher.worker != self.options.worker => {
                self.peers.tell(publisher.worker, Item::NotRetained { message, source });
            }
            _ => self.retain_ends(&source, message.topic()),
        }
        // Nobody else will say anything: say it for all.
        if let Some(asked_by) = source.asked_by {
            for _ in 0..self.options.workers {
                self.say(asked_by, reason, now);
            }
        }
    }

    /// Tells all workers, this one included. Members of share groups are picked once, here.
    fn tell_retained(&mut self, message: Arc<Message>, source: Source, now: TimeMs) {
        let mut found = std::mem::take(&mut self.matches);
        self.trie.matches(message.topic(), &mut found);
        let picked: Box<[Entry]> = found.picked().into();
        self.matches = found;
        self.peers.tell_all(|| Item::Retained { message: Arc::clone(&message), picked: picked.clone(), source });
        self.set_retained(&message, &picked, source, now);
    }

    /// Changes this worker's replica and delivers to its sessions, in one step.
    pub(super) fn set_retained(&mut self, message: &Arc<Message>, picked: &[Entry], source: Source, now: TimeMs) {
        self.retain_ends(&source, message.topic());
        // [MQTT-3.3.1-6] [MQTT-3.3.1-7]: nothing to say means nothing to keep.
        if message.payload().is_empty() {
            self.retained.clear(message.topic());
        } else {
            self.retained.set(message.topic(), Kept(Arc::clone(message)));
        }
        let own = self.options.worker as u8;
        let mut found = std::mem::take(&mut self.matches);
        self.trie.matches_of_worker(message.topic(), own, &mut found);
        let gathered = self.gather(&source);
        let mut parcel = Parcel::of(message);
        let picked = picked.iter().filter(|entry| entry.worker == own);
        let said = self.deliver_here(&mut parcel, found.receivers(own), picked, found.filters() > 1, &gathered, now);
        self.matches = found;
        self.expect(gathered, said, now);
    }

    /// Publishes a message of the server's own (`$SYS`, `$ledger`), QoS 0, not journaled; an empty retained payload clears.
    pub fn announce(&mut self, topic: &str, payload: &[u8], retained: bool, now: TimeMs) {
        let meta = MessageMeta { qos: 0, retain: retained, expires_at: None };
        if retained {
            let message = Arc::new(Message::new(topic, &[], payload, meta));
            self.tell_retained(message, Source::default(), now);
        } else {
            self.route(&mut Parcel::new(topic, &[], payload, meta), &Source::default(), now);
        }
    }

    /// A new subscription gets what is retained: at once as far as a step goes, the rest in steps. `[MQTT-3.3.1-9]`
    pub(super) fn send_retained(&mut self, place: u32, filter: &str, qos: u8, subscription_id: u32, now: TimeMs) {
        let Ok(parts) = check_filter(filter) else { return };
        if self.retained.is_empty() {
            return;
        }
        let cursor = self.retained.open(parts.filter);
        let session = self.clients.session_ref(place);
        let walk = Walk { session, cursor, qos, subscription_id };
        if let Some(walk) = self.walk(walk, now) {
            self.walks.push_back(walk);
        }
    }

    /// One step of each walk that is under way. Whether any came further.
    pub(super) fn step_walks(&mut self, now: TimeMs) -> bool {
        let mut worked = false;
        for _ in 0..self.walks.len().min(RETAINED_PER_PUMP) {
            let Some(walk) = self.walks.pop_front() else { break };
            worked |= self.clients.session(walk.session).is_none_or(|place| self.may_take_retained(place));
            if let Some(walk) = self.walk(walk, now) {
                self.walks.push_back(walk);
            }
        }
        worked
    }

    /// One step of a walk; gives it back while there is more.
    fn walk(&mut self, mut walk: Walk, now: TimeMs) -> Option<Walk> {
        let Some(place) = self.clients.session(walk.session) else {
            self.retained.close(walk.cursor);
            return None;
        };
        if !self.may_take_retained(place) {
            return Some(walk);
        }
        let session = &mut self.clients.sessions[place];
        let (slot, shard, qos_max) = (session.slot, session.shard, walk.qos);
        let ids: &[u32] = if walk.subscription_id == 0 { &[] } else { &[walk.subscription_id] };
        let mut journaled: Vec<Arc<Message>> = Vec::new();
        let waiting = &mut session.flow().waiting;
        let mut room = RETAINED_PER_PUMP;
        let progress = self.retained.step(&mut walk.cursor, now.0, RETAINED_NODES_PER_STEP, |Kept(message)| {
            let qos = message.qos().min(qos_max);
            if slot.is_some() && qos > 0 {
                journaled.push(Arc::clone(message));
            } else {
                // [MQTT-3.3.1-8]: it is a retained one, and says so.
                let waiter = Waiter { message: Arc::clone(message), qos, retain: true, subscription_ids: ids.into() };
                waiting.push_retained(waiter);
            }
            room -= 1;
            room > 0
        });
        for message in journaled {
            let qos = message.qos().min(qos_max);
            let slot = slot.expect("only durable sessions journal");
            let receivers = [Receiver { slot, qos, retain: true, subscription_ids: ids.into() }];
            let command = Command::Publish { message, receivers: receivers.into(), origin: None };
            self.call(shard, command, Wait::Published { asked_by: None });
        }
        self.clients.pump_waiting(place, now);
        match progress {
            Progress::More => Some(walk),
            Progress::Done => {
                self.retained.close(walk.cursor);
                None
            }
        }
    }

    /// Whether a session has taken most of what it was given before.
    fn may_take_retained(&self, place: u32) -> bool {
        let session = &self.clients.sessions[place];
        let waiting = session.flow.as_ref().map_or(0, |flow| flow.waiting.retained_len());
        let kept = session.slot.map_or(0, |slot| self.shards[session.shard as usize].state().inbox(slot).len());
        waiting < RETAINED_PER_PUMP && kept < 4 * RETAINED_PER_PUMP
    }

    /// Forgets what has expired: in this worker's replica, and in the shards that live here.
    pub(super) fn step_expired(&mut self, now: TimeMs) {
        // A message that waits for its record may be a newer one on the same topic, which must not be cleared with the old one.
        if self.retains_under_way > 0 {
            return;
        }
        let mut gone: Vec<Arc<Message>> = Vec::new();
        self.retained.expire(now.0, DUE_PER_STEP, |Kept(message)| gone.push(message));
        for message in gone {
            let shard = shard_of(message.topic(), self.options.topic_shards).0;
            if shard % self.options.workers == self.options.worker {
                let clear = Message::new(message.topic(), &[], &[], MessageMeta { expires_at: None, ..message.meta() });
                self.call(shard / self.options.workers, Command::Retain(Arc::new(clear)), Wait::Nothing);
            }
        }
    }

    /// Somebody who asked is told: here, or over there.
    pub(super) fn say(&mut self, asked_by: AskedBy, reason: ReasonCode, now: TimeMs) {
        if asked_by.worker == self.options.worker {
            self.said(asked_by.ticket, reason, now);
        } else {
            self.peers.tell(asked_by.worker, Item::Said { ticket: asked_by.ticket, reason });
        }
    }
}
