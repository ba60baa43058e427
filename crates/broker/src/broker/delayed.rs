//! `$delayed/{seconds}/{topic}`, as in EMQX: a message that is published after a delay.
//!
//! QoS 1 and 2 go through the shard of the topic and survive a crash; the message is then published with an origin of
//! its own, so that shards take it once. QoS 0 waits in memory.

use std::cmp::Reverse;
use std::sync::Arc;

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Message, MessageMeta};
use tidegate_wire::mqtt::{ReasonCode, check_topic};

use super::{Broker, Completion, Routed};
use crate::index::ShardPlace;
use crate::limits::{DELAY_SECONDS_MAX, DUE_PER_STEP, VOLATILE_DELAYED_MAX};
use crate::message_ref::MessageRef;
use crate::peer::{AckTo, Item, Source, Ticket};
use crate::shards::Wait;

impl<L: LogStore> Broker<L> {
    /// Takes a message on `$delayed/{rest}`.
    pub(super) fn delay(
        &mut self,
        rest: &str,
        properties: &[u8],
        payload: &[u8],
        meta: MessageMeta,
        source: &Source,
        now: TimeMs,
    ) -> (ReasonCode, Routed) {
        let parts = rest.split_once('/').and_then(|(seconds, topic)| Some((seconds.parse::<u64>().ok()?, topic)));
        let Some((seconds, topic)) =
            parts.filter(|(seconds, topic)| *seconds <= DELAY_SECONDS_MAX && check_topic(topic).is_ok())
        else {
            return (ReasonCode::TOPIC_NAME_INVALID, Routed::default());
        };
        let at = TimeMs(now.0 + seconds * 1000);
        // What expires counts from its publication to receivers.
        let expires_at = meta.expires_at.map(|expiry| TimeMs(expiry.0 + seconds * 1000));
        let message = Arc::new(Message::new(topic, properties, payload, MessageMeta { expires_at, ..meta }));
        if meta.qos == 0 {
            if self.delayed.len() >= VOLATILE_DELAYED_MAX {
                self.clients.facts.dropped_inbox += 1;
                return (ReasonCode::QUOTA_EXCEEDED, Routed::default());
            }
            self.delayed_number += 1;
            self.delayed.push(Reverse((at, self.delayed_number, ByNumber(message))));
            assert!(self.delayed.len() <= VOLATILE_DELAYED_MAX, "what waits in memory is bounded");
            return (ReasonCode::SUCCESS, Routed { matched: true, ..Routed::default() });
        }
        let worker = self.options.worker_of(topic);
        if worker == self.options.worker {
            self.delay_here(message, at, source);
        } else {
            self.peers.send_to(worker, Item::Delay { message, at, source: *source });
        }
        let outstanding = u16::from(source.ack_to.is_some());
        // That shard knows the origin now, so that a message that is sent again after a crash is not delayed twice.
        // [MQTT-4.3.3-10]: QoS 2: the same packet id again is answered with PUBREC and not delivered twice.
        let workers = if source.origin.is_some() { 1 << (worker % 64) } else { 0 };
        (ReasonCode::SUCCESS, Routed { outstanding, workers, matched: true })
    }

    /// Journals a delayed message whose topic's shard lives here.
    pub(super) fn delay_here(&mut self, message: Arc<Message>, at: TimeMs, source: &Source) {
        let shard = self.options.place_of(message.topic());
        assert!(usize::from(shard.0) < self.shards.len(), "the topic's shard is one of this worker's");
        let wait = source.ack_to.map_or(Wait::Nothing, |ack_to| Wait::Ack { ack_to });
        self.shards.call(shard, Command::Delay { at, message, origin: source.origin }, wait);
    }

    /// Publishes what waited in memory and is due.
    pub(super) fn step_delayed(&mut self, now: TimeMs) {
        for _ in 0..DUE_PER_STEP {
            match self.delayed.peek() {
                Some(Reverse((at, ..))) if *at <= now => {}
                _ => return,
            }
            let Some(Reverse((at, _, ByNumber(message)))) = self.delayed.pop() else { return };
            assert!(at <= now, "nothing is published before its time");
            self.route(&mut MessageRef::of(&message), &Source::default(), now);
        }
    }

    /// Publishes a journaled one that is due.
    pub(super) fn publish_delayed(&mut self, shard: ShardPlace, id: u64, message: &Arc<Message>, now: TimeMs) {
        if !self.delayed_in_flight.insert((shard, id)) {
            return;
        }
        let pending = self.pending_acks.begin(Completion::ForgetDelayed { shard, id });
        let origin = self.shards.origin(shard, id, 0);
        let ack_to = AckTo { worker: self.options.worker, ticket: Ticket::PendingAck(pending) };
        let source = Source { publisher: None, origin: Some(origin), ack_to: Some(ack_to) };
        let routed = self.route(&mut MessageRef::of(message), &source, now);
        self.expect_acks(pending, routed.outstanding, now);
    }

    /// A delayed message is durable with all its receivers.
    pub(super) fn delayed_sent(&mut self, shard: ShardPlace, id: u64) {
        assert!(self.delayed_in_flight.remove(&(shard, id)), "what was published was under way");
        self.shards.call(shard, Command::DelayedSent { id }, Wait::Nothing);
        self.forget_origins(self.shards.number(shard), id);
    }
}

/// A message in a heap, of which only the time and the number are compared.
#[derive(Debug)]
pub(super) struct ByNumber(Arc<Message>);

impl PartialEq for ByNumber {
    fn eq(&self, _: &ByNumber) -> bool {
        true
    }
}

impl Eq for ByNumber {}

impl PartialOrd for ByNumber {
    fn partial_cmp(&self, other: &ByNumber) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByNumber {
    fn cmp(&self, _: &ByNumber) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}
