//! A client's PUBLISH: from the packet to routing, and its acknowledgement.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{MessageMeta, Origin};
use tidegate_wire::mqtt::{AckKind, Publish, QoS, ReasonCode, Version, encode_ack};

use super::retain::RetainedMessage;
use super::{Broker, Progress, Routed};
use crate::connection::{Bucket, Connection, Flags};
use crate::flow::{Answer, Incoming, IncomingStage, OUTCOME_UNKNOWN};
use crate::message_ref::MessageRef;
use crate::peer::{AckTo, Publisher, Source, Ticket};
use crate::reason::{About, told};
use crate::retained::Retained;
use crate::session::{SessionFlags, Stage};
use crate::{Access, RequestTopic};

impl<L: LogStore> Broker<L> {
    /// A PUBLISH of a connected client.
    pub(super) fn publish(&mut self, index: u32, publish: &Publish<'_>, now: TimeMs) -> Progress {
        if self.waits_for_retain(index, publish) || !self.may_publish_now(index, publish, now) {
            return Progress::Parked;
        }
        let place = self.clients.session_of(index);
        let mut topic = std::mem::take(&mut self.topic);
        let progress = match self.resolve_alias(index, publish, &mut topic) {
            Ok(named) => self.publish_once(index, place, if named { &topic } else { publish.topic }, publish, now),
            Err(reason) => {
                self.protocol_error(index, reason, now);
                Progress::Gone
            }
        };
        self.topic = topic;
        progress
    }

    /// A PUBLISH whose topic is known. A repeated PUBLISH does not count against Receive Maximum, but its alias is
    /// still set: so the alias is resolved before this.
    fn publish_once(&mut self, index: u32, place: u32, topic: &str, publish: &Publish<'_>, now: TimeMs) -> Progress {
        if publish.qos == QoS::ExactlyOnce && self.is_repeated(index, place, publish.packet_id, now) {
            return Progress::Taken;
        }
        if publish.qos != QoS::AtMostOnce {
            if self.has_too_many_answers(place) && self.clients.connections[index].version == Version::V311 {
                // MQTT 3.1.1 has no such number: it waits.
                return Progress::Parked;
            }
            if self.in_flight(place) >= usize::from(self.options.limits.receive_maximum)
                && self.clients.connections[index].version == Version::V5
            {
                // [MQTT-3.3.4-7]: the client has at most the server's Receive Maximum of QoS 1 and 2 publications in
                // flight.
                self.protocol_error(index, ReasonCode::RECEIVE_MAXIMUM_EXCEEDED, now);
                return Progress::Gone;
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
    fn resolve_alias(&mut self, index: u32, publish: &Publish<'_>, topic: &mut String) -> Result<bool, ReasonCode> {
        let Some(alias) = publish.properties.topic_alias else { return Ok(false) };
        if alias == 0 || alias > self.options.limits.topic_alias_maximum {
            return Err(ReasonCode::TOPIC_ALIAS_INVALID);
        }
        let aliases = &mut self.clients.connections[index].extra().aliases_in;
        let place = usize::from(alias) - 1;
        if publish.topic.is_empty() {
            let known = aliases.get(place).filter(|known| !known.is_empty()).ok_or(ReasonCode::PROTOCOL_ERROR)?;
            topic.clear();
            topic.push_str(known);
            return Ok(true);
        }
        if aliases.len() <= place {
            aliases.resize_with(place + 1, Box::default);
        }
        assert!(aliases.len() <= usize::from(self.options.limits.topic_alias_maximum), "aliases are bounded");
        aliases[place] = publish.topic.into();
        Ok(false)
    }

    /// QoS 1 and 2 publications of the client that are not over.
    fn in_flight(&self, place: u32) -> usize {
        let flow = self.clients.sessions[place].flow.as_ref();
        flow.map_or(0, |flow| {
            let received = flow.incoming.iter().filter(|incoming| incoming.stage == IncomingStage::Received);
            flow.answers.len() + received.count()
        })
    }

    /// Whether a QoS 2 publication is a repetition. Its PUBREC is then sent again, or is still to come.
    /// `[MQTT-4.3.3-10]`: QoS 2: the same packet id again is answered with PUBREC and not delivered twice.
    fn is_repeated(&mut self, index: u32, place: u32, packet_id: u16, now: TimeMs) -> bool {
        let session = &mut self.clients.sessions[place];
        let Some(flow) = &mut session.flow else { return false };
        let Some(known) = flow.incoming.iter().find(|known| known.packet_id == packet_id).copied() else {
            return false;
        };
        match known.stage {
            IncomingStage::Pending => flow.answers.unmute(packet_id, AckKind::PubRec),
            IncomingStage::Unknown => self.deferred_disconnects.push((self.clients.key(index), OUTCOME_UNKNOWN)),
            IncomingStage::Received | IncomingStage::Released => {
                self.send_ack(index, AckKind::PubRec, packet_id, ReasonCode::SUCCESS, now);
            }
        }
        true
    }

    fn publish_on(&mut self, index: u32, place: u32, topic: &str, publish: &Publish<'_>, now: TimeMs) -> Progress {
        match self.judge(index, place, topic, publish) {
            Ok(None) => {}
            Ok(Some(request_topic)) => return self.request(index, place, request_topic, publish, now),
            Err(reason) => {
                match reason {
                    ReasonCode::QUOTA_EXCEEDED => self.clients.facts.dropped_too_large += 1,
                    _ => self.clients.facts.dropped_unauthorized += 1,
                }
                self.reply(index, place, publish, reason, Routed::default(), now);
                return Progress::Taken;
            }
        }
        let mut properties = std::mem::take(&mut self.properties);
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
                (if routed.matched { ReasonCode::SUCCESS } else { ReasonCode::NO_MATCHING_SUBSCRIBERS }, routed)
            }
        };
        self.properties = properties;
        self.reply(index, place, publish, reason, routed, now);
        Progress::Taken
    }

    /// Whether the client may publish there, and whether a service answers it.
    fn judge(
        &self,
        index: u32,
        place: u32,
        topic: &str,
        publish: &Publish<'_>,
    ) -> Result<Option<RequestTopic>, ReasonCode> {
        let rights = self.rights.get(self.clients.connections[index].rights);
        let client_id = &self.clients.sessions[place].client_id;
        let subject = match topic.strip_prefix("$delayed/") {
            // The right is about the topic on which it will appear.
            Some(rest) => match rest.split_once('/') {
                Some((_, subject)) if !subject.is_empty() => subject,
                _ => return Err(ReasonCode::TOPIC_NAME_INVALID),
            },
            None => topic,
        };
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
            Access::Denied | Access::IfConfirmed(_) => Err(ReasonCode::NOT_AUTHORIZED),
        }
    }

    /// The publisher, where to acknowledge, and the origin for the shards.
    pub(super) fn source(&self, place: u32, publish: &Publish<'_>) -> Source {
        let session = &self.clients.sessions[place];
        let session_ref = self.clients.session_ref(place);
        let worker = self.options.worker;
        let publisher = Some(Publisher { worker, session: session_ref });
        if publish.qos == QoS::AtMostOnce {
            return Source { publisher, origin: None, ack_to: None };
        }
        let serial = session.flow.as_ref().map_or(0, |flow| flow.answers.next_serial());
        let ack_to = Some(AckTo { worker, ticket: Ticket::Answer { session: session_ref, serial } });
        let origin = match session.slot {
            Some(slot) if publish.qos == QoS::ExactlyOnce => {
                let state = self.shards[session.shard as usize].state_ahead().session(slot);
                state.map(|state| Origin::new(self.shard_index(session.shard), state.incarnation(), publish.packet_id))
            }
            _ => None,
        };
        Source { publisher, origin, ack_to }
    }

    /// Answers a publication of QoS 1 or 2 now, or when all shards that store it have acknowledged it.
    /// `[MQTT-4.3.2-4]`: QoS 1: the receiver answers with PUBACK once it has taken over the message.
    /// `[MQTT-4.3.3-8]`: QoS 2: the receiver answers with PUBREC once it has taken over the message.
    pub(super) fn reply(
        &mut self,
        index: u32,
        place: u32,
        publish: &Publish<'_>,
        reason: ReasonCode,
        routed: Routed,
        now: TimeMs,
    ) {
        let packet_id = publish.packet_id;
        let kind = match publish.qos {
            QoS::AtMostOnce => return,
            QoS::AtLeastOnce => AckKind::PubAck,
            QoS::ExactlyOnce => AckKind::PubRec,
        };
        let session = &mut self.clients.sessions[place];
        assert!(session.connection == index, "connection and session point to each other");
        // MQTT 3.1.1 has no word for a lack of rights: the message is acknowledged, dropped and counted.
        let is_silent = self.clients.connections[index].version == Version::V311
            && matches!(reason, ReasonCode::NOT_AUTHORIZED | ReasonCode::TOPIC_NAME_INVALID);
        let reason = if is_silent { ReasonCode::SUCCESS } else { reason };
        assert!(!reason.is_error() || routed.outstanding == 0, "what is refused is waited for by nobody");
        if kind == AckKind::PubRec && !reason.is_error() {
            let stage = if routed.outstanding > 0 { IncomingStage::Pending } else { IncomingStage::Received };
            if routed.workers != 0 {
                session.flags.set(SessionFlags::ORIGINS);
            }
            // Sent again after a restart, it may have gone to other shards the first time: their subscriptions have
            // changed since.
            let sent_before = publish.dup && session.flags.has(SessionFlags::RECOVERED);
            let workers = if sent_before { u64::MAX } else { routed.workers };
            session.flow().incoming.push(Incoming { packet_id, stage, workers });
        }
        self.answer_with(
            index,
            place,
            Answer { packet_id, kind, reason, remaining: routed.outstanding, mute: false },
            now,
        );
    }

    /// Sends an answer when those before it are sent and it has all its acknowledgements.
    pub(super) fn answer_with(&mut self, index: u32, place: u32, answer: Answer, now: TimeMs) {
        let session = &mut self.clients.sessions[place];
        assert!(session.stage == Stage::Live, "an answer is for a session that is ready");
        let is_next = session.flow.as_ref().is_none_or(|flow| flow.answers.is_empty());
        if is_next && answer.remaining == 0 {
            self.send_answer(index, answer, now);
        } else {
            session.flow().answers.push(answer);
        }
    }

    pub(super) fn send_answer(&mut self, index: u32, answer: Answer, now: TimeMs) {
        let is_refused = answer.kind != AckKind::PubComp && answer.reason.is_error();
        let is_unknown = answer.reason == OUTCOME_UNKNOWN;
        if is_unknown || is_refused && self.clients.connections[index].version == Version::V311 {
            // An MQTT 3.1.1 acknowledgement would mean success. Without one the client will send again. So will it
            // where nobody knows the outcome: its packet id is not free, because a shard may know it still.
            self.deferred_disconnects.push((self.clients.key(index), told(About::Publish, answer.reason).0));
            return;
        }
        self.send_ack(index, answer.kind, answer.packet_id, answer.reason, now);
    }

    pub(super) fn send_ack(&mut self, index: u32, kind: AckKind, packet_id: u16, reason: ReasonCode, now: TimeMs) {
        let version = self.clients.connections[index].version;
        if !reason.is_error() {
            return self.clients.send(index, now, |bytes| encode_ack(bytes, version, kind, packet_id, reason, None));
        }
        let (reason, words) = told(About::Publish, reason);
        self.clients.send_refusal(index, now, words, |bytes, words| {
            encode_ack(bytes, version, kind, packet_id, reason, words);
        });
    }

    /// Takes one publication from the client's rate, or makes it wait.
    fn may_publish_now(&mut self, index: u32, publish: &Publish<'_>, now: TimeMs) -> bool {
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
            connection.flags.set(Flags::THROTTLED);
            self.throttled.push((until, self.clients.key(index)));
            return false;
        }
        bucket.messages -= 1.0;
        bucket.bytes -= size;
        true
    }
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
