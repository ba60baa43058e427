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
use super::retain::is_to_be_kept;
use super::{Broker, Routed};
use crate::acknowledgements::{Awaited, Completion};
use crate::holdings::{Exceeded, Holder, PaidDelayed, Thing};
use crate::index::ShardPlace;
use crate::limits::{ANONYMOUS_PART, DELAY_SECONDS_MAX, DUE_PER_STEP, VOLATILE_DELAYED_MAX};
use crate::message_ref::MessageRef;
use crate::peer::{Item, Source};
use crate::shards::Wait;

/// Messages that wait for their time: those of QoS 0, and of the journaled ones those that are being published.
#[derive(Debug, Default)]
pub(super) struct Delayed {
    in_memory: BinaryHeap<Reverse<(TimeMs, u64, ByNumber)>>,
    /// How many of them are of clients without a user.
    anonymous: usize,
    /// Of the next one: of two with the same time the one that came first goes first.
    number: u64,
    /// Journaled ones that are published and not yet durable with all their receivers.
    in_flight: HashSet<(ShardPlace, u64)>,
}

impl Delayed {
    /// Keeps one in memory, if there is room.
    fn add(&mut self, at: TimeMs, message: Arc<Message>, paid: PaidDelayed) -> Result<(), ReasonCode> {
        let is_anonymous = paid.by().principal().is_anonymous();
        let has_part = self.anonymous < VOLATILE_DELAYED_MAX / ANONYMOUS_PART as usize;
        if self.in_memory.len() >= VOLATILE_DELAYED_MAX || is_anonymous && !has_part {
            return Err(ReasonCode::QUOTA_EXCEEDED);
        }
        self.anonymous += usize::from(is_anonymous);
        self.number += 1;
        self.in_memory.push(Reverse((at, self.number, ByNumber(message, paid))));
        assert!(self.in_memory.len() <= VOLATILE_DELAYED_MAX, "what waits in memory is bounded");
        Ok(())
    }

    /// The next one in memory that is due.
    fn take_due(&mut self, now: TimeMs) -> Option<(Arc<Message>, PaidDelayed)> {
        let Reverse((at, ..)) = self.in_memory.peek()?;
        if *at > now {
            return None;
        }
        let Reverse((_, _, ByNumber(message, paid))) = self.in_memory.pop()?;
        self.anonymous -= usize::from(paid.by().principal().is_anonymous());
        Some((message, paid))
    }

    /// Panics if too many wait in memory.
    pub fn assert_sound(&self) {
        assert!(self.in_memory.len() <= VOLATILE_DELAYED_MAX, "messages of QoS 0 that are delayed");
        let is_anonymous = |ByNumber(_, paid): &ByNumber| paid.by().principal().is_anonymous();
        let anonymous = self.in_memory.iter().filter(|Reverse((_, _, waiting))| is_anonymous(waiting));
        assert_eq!(anonymous.count(), self.anonymous, "those of clients without a user");
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
        let payer = self.payer_of(source);
        let paid = payer.map(|payer| PaidDelayed::hold(&payer, self.retained.bytes_of_delayed(&message, &payer)));
        let Some(Ok(paid)) = paid else {
            let is_place = matches!(paid, Some(Err(Exceeded(Thing::Retained))));
            self.clients.facts.retained_refused += u64::from(is_place);
            self.clients.facts.delayed_refused += u64::from(!is_place);
            return (ReasonCode::QUOTA_EXCEEDED, Routed::default());
        };
        if meta.qos == 0 {
            if let Err(reason) = self.timing.delayed.add(at, message, paid) {
                self.clients.facts.dropped_delayed += 1;
                return (reason, Routed::default());
            }
            return (ReasonCode::SUCCESS, Routed { matched: true, ..Routed::default() });
        }
        let worker = self.options.worker_of(topic);
        if worker == self.options.worker {
            self.delay_here(message, at, source, paid);
        } else {
            self.peers.send_to(worker, Item::Delay { message, at, source: *source, paid });
        }
        // That shard knows the origin now, so that a message that is sent again after a crash is not delayed twice.
        // [MQTT-4.3.3-10]: QoS 2: the same packet id again is answered with PUBREC and not delivered twice.
        (ReasonCode::SUCCESS, Routed { awaited: Awaited::of_topic(worker, source), matched: true, refused: None })
    }

    /// Journals a delayed message whose topic's shard lives here.
    pub(super) fn delay_here(&mut self, message: Arc<Message>, at: TimeMs, source: &Source, paid: PaidDelayed) {
        let shard = self.options.place_of(message.topic());
        assert!(usize::from(shard.0) < self.shards.len(), "the topic's shard is one of this worker's");
        let owner = Some(paid.by().principal().clone());
        let wait = Wait::Delayed { ack_to: source.ack_to, paid };
        self.shards.call(shard, Command::Delay { at, message, origin: source.origin, owner }, wait);
    }

    /// Publishes what waited in memory and is due.
    pub(super) fn step_delayed(&mut self, now: TimeMs) {
        for _ in 0..DUE_PER_STEP {
            let Some((message, paid)) = self.timing.delayed.take_due(now) else { return };
            if !self.may_still_publish(Some(paid.by().principal()), None, message.topic()) {
                continue;
            }
            let mut message_ref = MessageRef::of(&message).paid_by(Some(paid.by().clone()), paid.has_place());
            self.route(&mut message_ref, &Source::default(), now);
        }
    }

    /// Publishes a journaled one that is due.
    pub(super) fn publish_delayed(&mut self, shard: ShardPlace, id: u64, message: &Arc<Message>, now: TimeMs) {
        let turn = self.timing.again.turn(DueThing::Delayed { shard, id }, now);
        if turn == Turn::Later || !self.timing.delayed.in_flight.insert((shard, id)) {
            return;
        }
        let owner = self.shards.state(shard).delayed_kept(id).and_then(|kept| kept.owner.clone());
        if !self.may_still_publish(owner.as_ref(), None, message.topic()) {
            return self.delayed_sent(shard, id);
        }
        let (collected, ack_to) = self.acknowledgements.begin(Completion::ForgetDelayed { shard, id });
        let origin = self.shards.origin(shard, id, 0);
        // One that is retained may not have reached anybody.
        let is_again = turn == Turn::Again && !message.retain();
        let source = Source { origin: Some(origin), ack_to: Some(ack_to), is_again, ..Source::default() };
        let payer = self.delayed_payer(shard, id);
        let has_place = payer.is_some() && is_to_be_kept(message);
        let routed = self.route(&mut MessageRef::of(message).paid_by(payer, has_place), &source, now);
        self.expect_words(collected, routed.awaited.words(), now);
    }

    /// Whose a journaled one is.
    fn delayed_payer(&self, shard: ShardPlace, id: u64) -> Option<Holder> {
        let owner = self.shards.state(shard).delayed_kept(id)?.owner.as_ref()?;
        Some(self.options.holdings.holder(owner))
    }

    /// Who pays for what a session of this worker publishes.
    pub(super) fn payer_of(&self, source: &Source) -> Option<Holder> {
        let publisher = source.publisher.filter(|publisher| publisher.worker == self.options.worker)?;
        let place = self.clients.session(publisher.session)?;
        self.clients.sessions[place].owner.clone()
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
        let paid = self.delayed_payer(shard, id).map(|payer| {
            let message = self.shards.state(shard).delayed(id).expect("it is there until it is sent");
            PaidDelayed::take_back(&payer, self.retained.bytes_of_delayed(message, &payer))
        });
        let thing = DueThing::Delayed { shard, id };
        self.timing.again.note(thing);
        let origin = Some(self.shards.origin(shard, id, 0));
        self.shards.call(shard, Command::DelayedSent { id }, Wait::Noted { thing, origin, paid });
    }
}

/// A message in a heap, of which only the time and the number are compared.
#[derive(Debug)]
struct ByNumber(Arc<Message>, PaidDelayed);

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
