//! Retained messages: journaled by the shard of their topic and sent to all workers. `retained_scan.rs` sends them to
//! new subscriptions.
//!
//! ```text
//!   PUBLISH retain ─▶ shard_of(topic)'s worker ─▶ journal ─▶ broadcast ─▶ each: replica and receivers, in one step
//! ```
//!
//! Why through one worker: two publications on one topic then reach every replica in the same order. Why in one step:
//! otherwise a client that subscribes between the two changes would miss the message, or get an old one after a new
//! one.

use std::sync::Arc;

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Message, MessageMeta};
use tidegate_wire::mqtt::ReasonCode;

use super::{Broker, Routed};
use crate::limits::DUE_PER_STEP;
use crate::message_ref::MessageRef;
use crate::peer::{AckTo, Item, Source};
use crate::retained::Retainable;
use crate::shards::Wait;
use crate::subscriptions::Entry;

/// A retained message as the replica keeps it.
#[derive(Clone, Debug)]
pub(crate) struct RetainedMessage(pub Arc<Message>);

impl Retainable for RetainedMessage {
    fn expires_at_ms(&self) -> Option<u64> {
        self.0.expires_at().map(|at| at.0)
    }

    fn bytes(&self) -> usize {
        self.0.topic().len() + self.0.properties().len() + self.0.payload().len()
    }
}

impl<L: LogStore> Broker<L> {
    /// A publication with the retain flag goes to the worker of its topic.
    /// `[MQTT-3.3.1-5]`: a retained message replaces the one before on its topic.
    pub(super) fn retain(&mut self, message_ref: &mut MessageRef<'_>, source: &Source, now: TimeMs) -> Routed {
        let message = message_ref.shared_message();
        self.retain_begins(source, message_ref.topic);
        let worker = self.options.worker_of(message_ref.topic);
        if worker == self.options.worker {
            self.retain_here(message, *source, now);
        } else {
            self.peers.send_to(worker, Item::Retain { message, source: *source });
        }
        // Each worker says when its own receivers' records are durable.
        let outstanding = if source.ack_to.is_some() { self.options.workers() } else { 0 };
        let workers = if source.ack_to.is_some() { u64::MAX } else { 0 };
        Routed { outstanding, workers, matched: true }
    }

    /// Journals a retained message whose topic's shard lives here.
    pub(super) fn retain_here(&mut self, message: Arc<Message>, source: Source, now: TimeMs) {
        let shard = self.options.place_of(message.topic());
        assert!(usize::from(shard.0) < self.shards.len(), "the topic's shard is one of this worker's");
        let is_live = message.qos() == 0 && self.retains_in_flight == 0;
        let command = Command::Retain(Arc::clone(&message));
        if is_live {
            // QoS 0 needs no durability, so it is not delayed by the disk, unless an earlier retained message is: then
            // the order must be kept.
            self.broadcast_retained(message, source, now);
            self.shards.call(shard, command, Wait::Nothing);
        } else {
            self.retains_in_flight += 1;
            self.shards.call(shard, command, Wait::Retained { message, source });
        }
    }

    /// A retained message is durable, or refused.
    pub(super) fn retained(&mut self, message: Arc<Message>, source: Source, reason: ReasonCode, now: TimeMs) {
        assert!(self.retains_in_flight > 0, "what is durable was on its way");
        self.retains_in_flight -= 1;
        if !reason.is_error() {
            return self.broadcast_retained(message, source, now);
        }
        match source.publisher {
            Some(publisher) if publisher.worker != self.options.worker => {
                self.peers.send_to(publisher.worker, Item::NotRetained { message, source });
            }
            _ => self.retain_ends(&source, message.topic()),
        }
        // The message was not sent to any worker, so no worker will acknowledge: acknowledge for all of them.
        if let Some(ack_to) = source.ack_to {
            for _ in 0..self.options.workers() {
                self.send_ack_to(ack_to, reason, now);
            }
        }
    }

    /// Tells all workers, this one included. Members of share groups are picked once, here.
    fn broadcast_retained(&mut self, message: Arc<Message>, source: Source, now: TimeMs) {
        let mut found = std::mem::take(&mut self.matches);
        self.trie.matches(message.topic(), &mut found);
        let picked: Box<[Entry]> = found.picked().into();
        self.matches = found;
        self.peers.broadcast(|| Item::Retained { message: Arc::clone(&message), picked: picked.clone(), source });
        self.set_retained(&message, &picked, source, now);
    }

    /// Changes this worker's replica and delivers to its sessions, in one step.
    pub(super) fn set_retained(&mut self, message: &Arc<Message>, picked: &[Entry], source: Source, now: TimeMs) {
        self.retain_ends(&source, message.topic());
        // [MQTT-3.3.1-6]: a retained message without payload is delivered, and deletes the retained message of its
        // topic.
        // [MQTT-3.3.1-7]: a message without payload is not stored as a retained message.
        let before = match message.payload().is_empty() {
            true => self.retained.clear(message.topic()),
            false => self.retained.set(message.topic(), RetainedMessage(Arc::clone(message))),
        };
        let own = self.options.worker as u8;
        let mut found = std::mem::take(&mut self.matches);
        self.trie.matches_of_worker(message.topic(), own, &mut found);
        let gathered = self.gather(&source);
        let mut message_ref = MessageRef::of(message);
        // The server announces on some topics only what somebody subscribes to. The first message there is the answer
        // to that subscription.
        message_ref.was_awaited = source == Source::default() && before.is_none();
        let picked = picked.iter().filter(|entry| entry.worker == own);
        let acks =
            self.deliver_here(&mut message_ref, found.receivers(own), picked, found.filters() > 1, &gathered, now);
        self.matches = found;
        self.expect(gathered, acks, now);
    }

    /// Publishes a message of the server's own (such as `$SYS`), QoS 0, not journaled; an empty retained payload
    /// clears.
    pub fn announce(&mut self, topic: &str, payload: &[u8], retained: bool, now: TimeMs) {
        let meta = MessageMeta { qos: 0, retain: retained, expires_at: None };
        if retained {
            let message = Arc::new(Message::new(topic, &[], payload, meta));
            self.broadcast_retained(message, Source::default(), now);
        } else {
            self.route(&mut MessageRef::new(topic, &[], payload, meta), &Source::default(), now);
        }
    }

    /// Forgets what has expired: in this worker's replica, and in the shards that live here.
    pub(super) fn step_expired(&mut self, now: TimeMs) {
        // A message that waits for its record may be a newer one on the same topic, which must not be cleared with the
        // old one.
        if self.retains_in_flight > 0 {
            return;
        }
        let mut gone: Vec<Arc<Message>> = Vec::new();
        self.retained.expire(now.0, DUE_PER_STEP, |RetainedMessage(message)| gone.push(message));
        for message in gone {
            if self.options.worker_of(message.topic()) == self.options.worker {
                let place = self.options.place_of(message.topic());
                let clear = Message::new(message.topic(), &[], &[], MessageMeta { expires_at: None, ..message.meta() });
                self.shards.call(place, Command::Retain(Arc::new(clear)), Wait::Nothing);
            }
        }
    }

    /// Sends an acknowledgement to its requester, on this worker or another.
    pub(super) fn send_ack_to(&mut self, ack_to: AckTo, reason: ReasonCode, now: TimeMs) {
        assert!(ack_to.worker < self.options.workers(), "a worker is one of all");
        if ack_to.worker == self.options.worker {
            self.take_ack(ack_to.ticket, reason, now);
        } else {
            self.peers.send_to(ack_to.worker, Item::Ack { ticket: ack_to.ticket, reason });
        }
    }
}
