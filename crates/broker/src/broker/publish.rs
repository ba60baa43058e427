//! A client's PUBLISH: from the packet to routing, and its acknowledgement.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::MessageMeta;
use tidegate_wire::mqtt::{AckKind, Publish, QoS, ReasonCode, Version};

use super::notices::Noticed;
use super::retain::RetainedMessage;
use super::{Broker, Progress, Routed};
use crate::acknowledgements::{AckTo, Ticket};
use crate::flow::{IncomingStage, OUTCOME_UNKNOWN};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::{ALIAS_BYTES_MAX, ANSWERS_PER_RECEIVE_MAXIMUM, OPEN_PER_RECEIVE_MAXIMUM};
use crate::message_ref::MessageRef;
use crate::peer::{Publisher, Source};
use crate::retained::Retained;
use crate::{Access, RequestTopic};

impl<L: LogStore> Broker<L> {
    /// A PUBLISH of a connected client.
    pub(super) fn publish(&mut self, index: ConnectionIndex, publish: &Publish<'_>, now: TimeMs) -> Progress {
        if self.waits_for_retain(index, publish) || !self.may_publish_now(index, publish, now) {
            return Progress::Parked;
        }
        let place = self.clients.session_of(index);
        let mut topic = std::mem::take(&mut self.intake.topic);
        let progress = match self.resolve_alias(index, publish, &mut topic) {
            Ok(named) => self.publish_once(index, place, if named { &topic } else { publish.topic }, publish, now),
            Err(reason) => {
                self.protocol_error(index, reason, now);
                Progress::Gone
            }
        };
        self.intake.topic = topic;
        progress
    }

    /// A PUBLISH whose topic is known. A repeated PUBLISH does not count against Receive Maximum, but its alias is
    /// still set: so the alias is resolved before this.
    fn publish_once(
        &mut self,
        index: ConnectionIndex,
        place: SessionIndex,
        topic: &str,
        publish: &Publish<'_>,
        now: TimeMs,
    ) -> Progress {
        if publish.qos == QoS::ExactlyOnce && self.is_repeated(index, place, publish.packet_id, now) {
            return Progress::Taken;
        }
        if publish.qos != QoS::AtMostOnce {
            if self.has_too_many_answers(place) && self.clients.connections[index].version == Version::V311 {
                // MQTT 3.1.1 has no such number: it waits.
                return Progress::Parked;
            }
            if self.has_too_many_unanswered(place) && self.clients.connections[index].version == Version::V5 {
                // [MQTT-3.3.4-7]: the client has at most the server's Receive Maximum of QoS 1 and 2 publications in
                // flight.
                self.protocol_error(index, ReasonCode::RECEIVE_MAXIMUM_EXCEEDED, now);
                return Progress::Gone;
            }
            // What connections before this one have left unanswered does not count, and is bounded all the same.
            if self.answers(place) >= ANSWERS_PER_RECEIVE_MAXIMUM * usize::from(self.options.limits.receive_maximum) {
                return Progress::Parked;
            }
        }
        self.clients.facts.publish_received += 1;
        self.clients.facts.publish_bytes_received += publish.payload.len() as u64;
        self.publish_on(index, place, topic, publish, now)
    }

    /// Reads and sets topic aliases. True when the topic stands in `topic`.
    /// `[MQTT-3.3.2-7]`: topic aliases are valid for their connection only.
    /// `[MQTT-3.3.2-8]`: a topic alias is not 0.
    /// `[MQTT-3.3.2-9]`: the client uses no topic alias above the server's maximum.
    ///
    /// A client whose topics with aliases are longer than [`ALIAS_BYTES_MAX`] together is told 0x97: nobody pays for
    /// them.
    fn resolve_alias(
        &mut self,
        index: ConnectionIndex,
        publish: &Publish<'_>,
        topic: &mut String,
    ) -> Result<bool, ReasonCode> {
        let Some(alias) = publish.properties.topic_alias else { return Ok(false) };
        if alias == 0 || alias > self.options.limits.topic_alias_maximum {
            return Err(ReasonCode::TOPIC_ALIAS_INVALID);
        }
        let extra = self.clients.connections[index].extra();
        let aliases = &mut extra.aliases_in;
        let place = usize::from(alias) - 1;
        if publish.topic.is_empty() {
            let known = aliases.get(place).filter(|known| !known.is_empty()).ok_or(ReasonCode::PROTOCOL_ERROR)?;
            topic.clear();
            topic.push_str(known);
            return Ok(true);
        }
        let before = aliases.get(place).map_or(0, |topic| topic.len());
        let bytes = extra.alias_bytes_in as usize - before + publish.topic.len();
        if bytes > ALIAS_BYTES_MAX {
            return Err(ReasonCode::QUOTA_EXCEEDED);
        }
        extra.alias_bytes_in = bytes as u32;
        if aliases.len() <= place {
            aliases.resize_with(place + 1, Box::default);
        }
        assert!(aliases.len() <= usize::from(self.options.limits.topic_alias_maximum), "aliases are bounded");
        aliases[place] = publish.topic.into();
        Ok(false)
    }

    /// Whether as many QoS 1 and 2 publications of a connection are not over as it was told there may be. Those of the
    /// connections before it do not count: its client begins with all that it was told (MQTT 5, 4.9). But publications
    /// that are open and that a client never comes back to may not become more and more.
    fn has_too_many_unanswered(&self, place: SessionIndex) -> bool {
        let receive_maximum = usize::from(self.options.limits.receive_maximum);
        self.clients.sessions[place].flow.as_ref().is_some_and(|flow| {
            flow.unanswered() >= receive_maximum
                || flow.incoming.len() >= OPEN_PER_RECEIVE_MAXIMUM.saturating_mul(receive_maximum)
        })
    }

    /// Answers that a session's client waits for, over this connection or those before.
    fn answers(&self, place: SessionIndex) -> usize {
        self.clients.sessions[place].flow.as_ref().map_or(0, |flow| flow.answers.len())
    }

    /// Whether a QoS 2 publication is a repetition. Its PUBREC is then sent again, or is still to come.
    /// `[MQTT-4.3.3-10]`: QoS 2: the same packet id again is answered with PUBREC and not delivered twice.
    fn is_repeated(&mut self, index: ConnectionIndex, place: SessionIndex, packet_id: u16, now: TimeMs) -> bool {
        let session = &mut self.clients.sessions[place];
        let Some(flow) = &mut session.flow else { return false };
        let Some(known) = flow.incoming.get(packet_id).copied() else { return false };
        flow.incoming.count(packet_id);
        match known.stage {
            IncomingStage::Pending => flow.answers.unmute(known.serial),
            IncomingStage::Unknown => self.intake.defer_disconnect(self.clients.key(index), OUTCOME_UNKNOWN),
            IncomingStage::Received | IncomingStage::Released => {
                self.send_ack(index, AckKind::PubRec, packet_id, ReasonCode::SUCCESS, now);
            }
        }
        true
    }

    fn publish_on(
        &mut self,
        index: ConnectionIndex,
        place: SessionIndex,
        topic: &str,
        publish: &Publish<'_>,
        now: TimeMs,
    ) -> Progress {
        if self.is_send(topic) {
            return self.send_to_queue(index, place, topic, publish, now);
        }
        match self.judge(index, place, topic, publish) {
            Ok(None) => {}
            Ok(Some(request_topic)) => return self.request(index, place, request_topic, publish, now),
            Err(reason) => {
                match reason {
                    ReasonCode::QUOTA_EXCEEDED => self.clients.facts.dropped_too_large += 1,
                    ReasonCode::TOPIC_NAME_INVALID => self.clients.facts.dropped_invalid += 1,
                    _ => {
                        self.clients.facts.dropped_unauthorized += 1;
                        self.notice(index, Noticed::PublishDenied, topic);
                    }
                }
                self.reply(index, place, publish, reason, Routed::default(), now);
                return Progress::Taken;
            }
        }
        let mut properties = std::mem::take(&mut self.intake.properties);
        properties.clear();
        publish.properties.forwardable(&mut properties);
        let expires_at = publish.properties.message_expiry_s.map(|seconds| TimeMs(now.0 + u64::from(seconds) * 1000));
        let meta = MessageMeta { qos: publish.qos as u8, retain: publish.retain, expires_at };
        let source = self.source(place, publish);
        let (reason, routed) = match topic.strip_prefix("$delayed/") {
            Some(rest) => self.delay(rest, &properties, publish.payload, meta, &source, now),
            None => {
                let mut message_ref = MessageRef::new(topic, &properties, publish.payload, meta);
                let routed = self.route(&mut message_ref, &source, now);
                let matched = if routed.matched { ReasonCode::SUCCESS } else { ReasonCode::NO_MATCHING_SUBSCRIBERS };
                (routed.refused.unwrap_or(matched), routed)
            }
        };
        self.clients.facts.dropped_invalid += u64::from(reason == ReasonCode::TOPIC_NAME_INVALID);
        self.intake.properties = properties;
        self.reply(index, place, publish, reason, routed, now);
        Progress::Taken
    }

    /// Whether the client may publish there, and whether a service answers it.
    fn judge(
        &self,
        index: ConnectionIndex,
        place: SessionIndex,
        topic: &str,
        publish: &Publish<'_>,
    ) -> Result<Option<RequestTopic>, ReasonCode> {
        let rights = self.rights_of(index);
        let client_id = &self.clients.sessions[place].client_id;
        let subject = match topic.strip_prefix("$delayed/") {
            // The right is about the topic on which it will appear.
            Some(rest) => match rest.split_once('/') {
                Some((_, subject)) if !subject.is_empty() => subject,
                _ => return Err(ReasonCode::TOPIC_NAME_INVALID),
            },
            None => topic,
        };
        if self.is_of_queues(subject) {
            // A send is answered when the queue has it, so it waits in the queue itself. Nobody sends to receivers.
            return Err(if subject == topic { ReasonCode::NOT_AUTHORIZED } else { ReasonCode::TOPIC_NAME_INVALID });
        }
        let request_topic = self.request_topic(subject);
        if request_topic.is_some() && subject != topic {
            // A request is answered when it is made, or not at all.
            return Err(ReasonCode::TOPIC_NAME_INVALID);
        }
        match rights.may_publish(client_id, subject) {
            // It could not be retained, so it is not acknowledged as if it had been.
            // [MQTT-3.3.1-5]: a retained message replaces the one before on its topic.
            Access::Allowed
                if publish.retain
                    && publish.qos != QoS::AtMostOnce
                    && !Retained::<RetainedMessage>::admits(subject) =>
            {
                Err(ReasonCode::QUOTA_EXCEEDED)
            }
            Access::Allowed => Ok(request_topic),
            Access::Denied | Access::AllowedInPart | Access::IfConfirmed(_) => Err(ReasonCode::NOT_AUTHORIZED),
        }
    }

    /// The publisher, where to acknowledge, and the origin for the shards.
    pub(super) fn source(&self, place: SessionIndex, publish: &Publish<'_>) -> Source {
        let session = &self.clients.sessions[place];
        let session_ref = self.clients.session_ref(place);
        let worker = self.options.worker;
        let publisher = Some(Publisher { worker, session: session_ref });
        let client = self.share_hash_of(&session.client_id);
        if publish.qos == QoS::AtMostOnce {
            return Source { publisher, client, ..Source::default() };
        }
        let serial = session.flow.as_ref().map_or(0, |flow| flow.answers.next_serial());
        let ack_to = Some(AckTo { worker, ticket: Ticket::Answer { session: session_ref, serial } });
        let origin = match session.slot {
            Some(slot) if publish.qos == QoS::ExactlyOnce => {
                let state = self.shards.state(session.shard).session(slot);
                state.map(|state| self.shards.origin(session.shard, state.incarnation(), publish.packet_id))
            }
            _ => None,
        };
        Source { publisher, origin, ack_to, client, ..Source::default() }
    }
}
