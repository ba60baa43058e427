//! What is due in the topic shards: wills whose delay has passed, sessions that have expired, delayed messages whose
//! time has come.

use std::sync::Arc;

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Due, Message, MessageMeta, Origin, Slot, Will};
use tidegate_wire::mqtt::Connect;

use super::Broker;
use crate::acknowledgements::Completion;
use crate::index::{SessionIndex, ShardPlace};
use crate::limits::DUE_PER_STEP;
use crate::message_ref::MessageRef;
use crate::peer::Source;
use crate::session::{SessionFlags, Stage};
use crate::shards::Wait;

impl<L: LogStore> Broker<L> {
    /// Does what is due in the shards. Nothing is due before the subscriptions of all workers are known here: what fell
    /// due while the server was down would reach only the sessions of those who are.
    pub(super) fn step_due(&mut self, now: TimeMs) {
        if !self.is_serving() {
            return;
        }
        for shard in self.shards.places() {
            // What was asked for last time may not be decided yet.
            if self.shards[shard].facts().inbox > 0 {
                continue;
            }
            let due: Vec<Due> = self.shards.state(shard).due(now).take(DUE_PER_STEP).collect();
            for due in due {
                self.do_due(shard, due, now);
            }
        }
    }

    fn do_due(&mut self, shard: ShardPlace, due: Due, now: TimeMs) {
        match due {
            Due::Will { slot } => {
                let Some(place) = self.session_at(shard, slot) else { return };
                self.send_due_will(shard, place, slot, now);
            }
            Due::SessionExpiry { slot } => {
                let Some(place) = self.session_at(shard, slot) else { return };
                let session = &self.clients.sessions[place];
                if session.connection.is_none() && session.stage == Stage::Live {
                    self.clients.facts.sessions_expired += 1;
                    self.end_session(place, now);
                }
            }
            Due::Delayed { id } => {
                let message = self.shards.state(shard).delayed(id).cloned();
                if let Some(message) = message {
                    self.publish_delayed(shard, id, &message, now);
                }
            }
            Due::Drop { slot, number, reason } => {
                self.clients.facts.dropped_expired += 1;
                self.shards.call(shard, Command::Drop { slot, number, reason }, Wait::Nothing);
            }
        }
    }

    /// A durable session's will, whose delay has passed.
    /// `[MQTT-3.1.3-9]`: a client that reconnects before the will delay has passed: the will is not sent.
    pub(super) fn send_due_will(&mut self, shard: ShardPlace, place: SessionIndex, slot: Slot, now: TimeMs) {
        let session = &mut self.clients.sessions[place];
        if session.connection.is_some() || session.flags.has(SessionFlags::WILL_SENT) {
            return;
        }
        session.flags.set(SessionFlags::WILL_SENT);
        let Some(state) = self.shards.state(shard).session(slot) else { return };
        let Some(will) = state.will().cloned() else { return };
        let origin = self.shards.origin(shard, state.incarnation(), 0);
        let (collected, ack_to) = self.acknowledgements.begin(Completion::ForgetWill { shard, slot });
        let source = Source { publisher: None, origin: Some(origin), ack_to: Some(ack_to) };
        let message = published(&will, now);
        let routed = self.route(&mut MessageRef::of(&message), &source, now);
        self.expect_words(collected, routed.awaited.words(), now);
    }

    /// A will is durable with all its receivers: it need not be sent again after a crash.
    pub(super) fn will_sent(&mut self, shard: ShardPlace, slot: Slot) {
        let Some(state) = self.shards.state(shard).session(slot) else { return };
        let incarnation = state.incarnation();
        // A client that came back meanwhile may have brought another one.
        let is_same = |place| self.clients.sessions[place].flags.has(SessionFlags::WILL_SENT);
        if self.session_at(shard, slot).is_some_and(is_same) {
            self.shards.call(shard, Command::ClearWill { slot }, Wait::Nothing);
        }
        let origin = self.shards.origin(shard, incarnation, 0);
        self.forget_origin_everywhere(origin);
    }

    /// Sends a will and asks for nothing.
    pub(super) fn send_will(&mut self, will: &Will, origin: Option<Origin>, now: TimeMs) {
        let message = published(will, now);
        let source = Source { publisher: None, origin, ack_to: None };
        self.route(&mut MessageRef::of(&message), &source, now);
    }

    /// The will of a CONNECT, as it is kept.
    pub(super) fn will(&mut self, connect: &Connect<'_>) -> Option<Will> {
        let will = connect.will.as_ref()?;
        let mut properties = Vec::new();
        will.properties.forwardable(&mut properties);
        let meta = MessageMeta { qos: will.qos as u8, retain: will.retain, expires_at: None };
        let message = Arc::new(Message::new(will.topic, &properties, will.payload, meta));
        Some(Will { message, delay_s: will.delay_s, expiry_s: will.properties.message_expiry_s })
    }
}

/// A will as it is published now: its expiry counts from here.
fn published(will: &Will, now: TimeMs) -> Arc<Message> {
    let Some(expiry_s) = will.expiry_s else { return Arc::clone(&will.message) };
    let message = &will.message;
    let expires_at = Some(TimeMs(now.0 + u64::from(expiry_s) * 1000));
    let meta = MessageMeta { qos: message.qos(), retain: message.retain(), expires_at };
    Arc::new(Message::new(message.topic(), message.properties(), message.payload(), meta))
}
