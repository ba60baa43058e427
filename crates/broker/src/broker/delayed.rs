//! `$delayed/{seconds}/{topic}`, as in EMQX: a message that is published after a delay.
//!
//! QoS 1 and 2 go through the shard of the topic and survive a crash; the message is then published with an origin of
//! its own, so that shards take it once. QoS 0 waits in memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use hashbrown::HashSet;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Message, MessageMeta};
use tidegate_wire::mqtt::{ReasonCode, check_topic};

use super::due::{DueThing, Turn};
use super::{Broker, Routed};
use crate::acknowledgements::{Awaited, Completion};
use crate::index::ShardPlace;
use crate::limits::{DELAY_SECONDS_MAX, DUE_PER_STEP, VOLATILE_DELAYED_MAX};
use crate::message_ref::MessageRef;
use crate::peer::{Item, Source};
use crate::shards::Wait;

/// Messages that wait for their time: those of QoS 0, and of the journaled ones those that are being published.
#[derive(Debug, Default)]
pub(super) struct Delayed {
    in_memory: BinaryHeap<Reverse<(TimeMs, u64, ByNumber)>>,
    /// Of the next one: of two with the same time the one that came first goes first.
    number: u64,
    /// Journaled ones that are published and not yet durable with all their receivers.
    in_flight: HashSet<(ShardPlace, u64)>,
}

impl Delayed {
    /// Keeps one in memory, if there is room.
    fn add(&mut self, at: TimeMs, message: Arc<Message>) -> Result<(), ReasonCode> {
        if self.in_memory.len() >= VOLATILE_DELAYED_MAX {
            return Err(ReasonCode::QUOTA_EXCEEDED);
        }
        self.number += 1;
        self.in_memory.push(Reverse((at, self.number, ByNumber(message))));
        assert!(self.in_memory.len() <= VOLATILE_DELAYED_MAX, "what waits in memory is bounded");
        Ok(())
    }

    /// The next one in memory that is due.
    fn take_due(&mut self, now: TimeMs) -> Option<Arc<Message>> {
        let Reverse((at, ..)) = self.in_memory.peek()?;
        if *at > now {
            return None;
        }
        self.in_memory.pop().map(|Reverse((_, _, ByNumber(message)))| message)
    }

    /// Panics if too many wait in memory.
    pub fn assert_sound(&self) {
        assert!(self.in_memory.len() <= VOLATILE_DELAYED_MAX, "messages of QoS 0 that are delayed");
    }
}

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
            if let Err(reason) = self.timing.delayed.add(at, message) {
                self.clients.facts.dropped_delayed += 1;
                return (reason, Routed::default());
            }
            return (ReasonCode::SUCCESS, Routed { matched: true, ..Routed::default() });
        }
        let worker = self.options.worker_of(topic);
        if worker == self.options.worker {
            self.delay_here(message, at, source);
        } else {
            self.peers.send_to(worker, Item::Delay { message, at, source: *source });
        }
        // That shard knows the origin now, so that a message that is sent again after a crash is not delayed twice.
        // [MQTT-4.3.3-10]: QoS 2: the same packet id again is answered with PUBREC and not delivered twice.
        (ReasonCode::SUCCESS, Routed { awaited: Awaited::of_topic(worker, source), matched: true })
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
            let Some(message) = self.timing.delayed.take_due(now) else { return };
            self.route(&mut MessageRef::of(&message), &Source::default(), now);
        }
    }

    /// Publishes a journaled one that is due.
    pub(super) fn publish_delayed(&mut self, shard: ShardPlace, id: u64, message: &Arc<Message>, now: TimeMs) {
        let turn = self.timing.again.turn(DueThing::Delayed { shard, id }, now);
        if turn == Turn::Later || !self.timing.delayed.in_flight.insert((shard, id)) {
            return;
        }
        let (collected, ack_to) = self.acknowledgements.begin(Completion::ForgetDelayed { shard, id });
        let origin = self.shards.origin(shard, id, 0);
        // One that is retained may not have reached anybody.
        let is_again = turn == Turn::Again && !message.retain();
        let source = Source { publisher: None, origin: Some(origin), ack_to: Some(ack_to), is_again };
        let routed = self.route(&mut MessageRef::of(message), &source, now);
        self.expect_words(collected, routed.awaited.words(), now);
    }

    /// A delayed message could not be kept by all of its receivers: it is sent again. Who took it knows its origin.
    pub(super) fn delayed_stays_due(&mut self, shard: ShardPlace, id: u64, now: TimeMs) {
        assert!(self.timing.delayed.in_flight.remove(&(shard, id)), "what was published was under way");
        self.timing.again.wait(DueThing::Delayed { shard, id }, now);
    }

    /// A delayed message is durable with all its receivers.
    pub(super) fn delayed_sent(&mut self, shard: ShardPlace, id: u64) {
        assert!(self.timing.delayed.in_flight.remove(&(shard, id)), "what was published was under way");
        self.timing.again.end(DueThing::Delayed { shard, id });
        let thing = DueThing::Delayed { shard, id };
        self.timing.again.note(thing);
        let origin = Some(self.shards.origin(shard, id, 0));
        self.shards.call(shard, Command::DelayedSent { id }, Wait::Noted { thing, origin });
    }
}

/// A message in a heap, of which only the time and the number are compared.
#[derive(Debug)]
struct ByNumber(Arc<Message>);

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
