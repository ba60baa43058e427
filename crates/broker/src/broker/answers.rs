//! What is told when a message is durable with all who must keep it: PUBACK, PUBREC and PUBCOMP to clients, a word to
//! another worker, or what the broker does for itself. Who must still say so, [`crate::acknowledgements`] counts.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::{AckKind, Publish, QoS, ReasonCode, Version, encode_ack};

use super::asked::Answered;
use super::{Broker, Routed};
use crate::acknowledgements::{
    AckTo, CollectedIndex, Completion, Followed, Gathered, Outstanding, Ticket, Word, WorkerSet,
};
use crate::flow::{Answer, Incoming, IncomingStage, OUTCOME_UNKNOWN};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::peer::{Item, Source};
use crate::reason::About;
use crate::session::{SessionFlags, Stage};
use crate::share::Picked;

impl<L: LogStore> Broker<L> {
    /// Answers a publication of QoS 1 or 2 now, or when all shards that store it have acknowledged it.
    /// `[MQTT-4.3.2-4]`: QoS 1: the receiver answers with PUBACK once it has taken over the message.
    /// `[MQTT-4.3.3-8]`: QoS 2: the receiver answers with PUBREC once it has taken over the message.
    pub(super) fn reply(
        &mut self,
        index: ConnectionIndex,
        place: SessionIndex,
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
        assert!(session.connection == Some(index), "connection and session point to each other");
        // MQTT 3.1.1 has no word for a lack of rights: the message is acknowledged, dropped and counted.
        let is_silent = self.clients.connections[index].version == Version::V311
            && matches!(reason, ReasonCode::NOT_AUTHORIZED | ReasonCode::TOPIC_NAME_INVALID);
        let reason = if is_silent { ReasonCode::SUCCESS } else { reason };
        assert!(!reason.is_error() || routed.awaited.words() == 0, "what is refused is waited for by nobody");
        if kind == AckKind::PubRec && !reason.is_error() {
            let stage = if routed.awaited.words() > 0 { IncomingStage::Pending } else { IncomingStage::Received };
            if !routed.awaited.origins().is_empty() {
                session.flags.set(SessionFlags::ORIGINS);
            }
            // Sent again after a restart, it may have gone to other shards the first time: their subscriptions have
            // changed since.
            let sent_before = publish.dup && session.flags.has(SessionFlags::RECOVERED);
            let workers = if sent_before { WorkerSet::ALL } else { routed.awaited.origins() };
            let flow = session.flow();
            flow.incoming.add(packet_id, Incoming::new(stage, workers, flow.answers.next_serial()));
        }
        let outstanding = Outstanding::new(routed.awaited.words(), reason);
        let is_counted = kind == AckKind::PubAck || reason.is_error();
        let arrived_ns = self.asked.timing.arrived_ns;
        let answer = Answer { packet_id, kind, outstanding, mute: false, is_counted, arrived_ns };
        self.answer_with(index, place, answer, now);
    }

    /// Sends an answer when those before it are sent and it has all its acknowledgements.
    pub(super) fn answer_with(&mut self, index: ConnectionIndex, place: SessionIndex, answer: Answer, now: TimeMs) {
        let session = &mut self.clients.sessions[place];
        assert!(session.stage == Stage::Live, "an answer is for a session that is ready");
        let is_next = session.flow.as_ref().is_none_or(|flow| flow.answers.is_empty());
        if is_next && answer.outstanding.is_complete() {
            self.send_answer(index, answer, now);
        } else {
            session.flow().answers.push(answer);
        }
    }

    pub(super) fn send_answer(&mut self, index: ConnectionIndex, answer: Answer, now: TimeMs) {
        if answer.arrived_ns > 0 {
            let is_exactly_once = answer.kind == AckKind::PubRec;
            self.asked.timing.answered.push(Answered { is_exactly_once, arrived_ns: answer.arrived_ns });
        }
        let is_refused = answer.kind != AckKind::PubComp && answer.outstanding.reason().is_error();
        let is_unknown = answer.outstanding.reason() == OUTCOME_UNKNOWN;
        if is_unknown || is_refused && self.clients.connections[index].version == Version::V311 {
            // An MQTT 3.1.1 acknowledgement would mean success. Without one the client will send again. So will it
            // where nobody knows the outcome: its packet id is not free, because a shard may know it still.
            let (reason, _) = self.told(About::Publish, answer.outstanding.reason());
            self.intake.defer_disconnect(self.clients.key(index), reason);
            return;
        }
        self.send_ack(index, answer.kind, answer.packet_id, answer.outstanding.reason(), now);
    }

    pub(super) fn send_ack(
        &mut self,
        index: ConnectionIndex,
        kind: AckKind,
        packet_id: u16,
        reason: ReasonCode,
        now: TimeMs,
    ) {
        let version = self.clients.connections[index].version;
        if !reason.is_error() {
            return self.clients.send(index, now, |bytes| encode_ack(bytes, version, kind, packet_id, reason, None));
        }
        let (reason, words) = self.told(About::Publish, reason);
        self.clients.send_refusal(index, now, words, |bytes, words| {
            encode_ack(bytes, version, kind, packet_id, reason, words);
        });
    }

    /// An acknowledgement has arrived.
    pub(super) fn take_ack(&mut self, ticket: Ticket, word: Word, now: TimeMs) {
        let (session, serial) = match ticket {
            Ticket::Collected(collected) => {
                if let Some((completion, word)) = self.acknowledgements.take(collected, word) {
                    self.complete(completion, word, now);
                }
                return;
            }
            Ticket::PassedOn { session, number } => return self.passed_on(session, number, word, now),
            Ticket::Answer { session, serial } => (session, serial),
        };
        let Some(place) = self.clients.session(session) else { return };
        let Some(flow) = &mut self.clients.sessions[place].flow else { return };
        if flow.answers.take_ack(serial, word) {
            self.send_answers(place, now);
        }
    }

    /// Sends the answers at the front that have all their acknowledgements.
    fn send_answers(&mut self, place: SessionIndex, now: TimeMs) {
        while let Some(flow) = &mut self.clients.sessions[place].flow {
            let Some(answer) = flow.answers.take() else { return };
            match answer.kind {
                AckKind::PubAck | AckKind::PubRel => {}
                // The packet id is not free: the client will send again what some shards may have taken.
                AckKind::PubRec if answer.outstanding.reason() == OUTCOME_UNKNOWN => {
                    flow.incoming.get_mut(answer.packet_id).into_iter().for_each(|known| {
                        known.stage = IncomingStage::Unknown;
                    });
                }
                AckKind::PubRec if answer.outstanding.reason().is_error() => {
                    // Some shards may have taken what others refused. The packet id is free from here on, so they must
                    // forget; what the client sends next reaches them behind that.
                    if let Some(origin) = self.origin(place, answer.packet_id) {
                        self.forget_origin_everywhere(origin);
                    }
                    self.forget_incoming(place, answer.packet_id);
                }
                AckKind::PubRec => {
                    flow.incoming.get_mut(answer.packet_id).into_iter().for_each(|known| {
                        known.stage = IncomingStage::Received;
                    });
                }
                AckKind::PubComp if answer.outstanding.reason() == OUTCOME_UNKNOWN => {
                    // Some shard may still know it. A PUBREL that comes again asks again.
                    flow.incoming.get_mut(answer.packet_id).into_iter().for_each(|known| {
                        known.stage = IncomingStage::Received;
                    });
                }
                AckKind::PubComp => self.forget_incoming(place, answer.packet_id),
            }
            if let Some(index) = self.clients.sessions[place].connection.filter(|_| !answer.mute) {
                assert!(
                    self.clients.connections[index].session == Some(place),
                    "connection and session point to each other"
                );
                self.send_answer(index, answer, now);
            }
        }
    }

    pub(super) fn forget_incoming(&mut self, place: SessionIndex, packet_id: u16) {
        if let Some(flow) = &mut self.clients.sessions[place].flow {
            flow.incoming.remove(packet_id);
        }
    }

    /// Sends an acknowledgement to its requester, on this worker or another.
    pub(super) fn send_ack_to(&mut self, ack_to: AckTo, word: Word, now: TimeMs) {
        assert!(ack_to.worker < self.options.workers(), "a worker is one of all");
        if ack_to.worker == self.options.worker {
            self.take_ack(ack_to.ticket, word, now);
        } else {
            self.peers.send_to(ack_to.worker, Item::Ack { ticket: ack_to.ticket, word });
        }
    }

    /// Several shards here may acknowledge, but the requester of a message waits for one word.
    pub(super) fn gather(&mut self, source: &Source, picked: &[Picked]) -> Gathered {
        // What a share group takes once has a record of its own, and what a member leaves to others a word of its own.
        self.acknowledgements.gather(source, !picked.is_empty() || self.shards.may_split())
    }

    /// So many words will come about a gathered source, or have come.
    pub(super) fn expect(&mut self, gathered: &Gathered, words: u16, now: TimeMs) {
        match self.acknowledgements.expect_gathered(gathered, words) {
            Followed::Nothing => {}
            Followed::Tell(ack_to) => self.send_ack_to(ack_to, Word::Durable, now),
            Followed::Complete(completion, word) => self.complete(completion, word, now),
        }
    }

    /// So many words about what the broker sent for itself will come.
    pub(super) fn expect_words(&mut self, collected: CollectedIndex, words: u16, now: TimeMs) {
        if let Some((completion, word)) = self.acknowledgements.expect(collected, words) {
            self.complete(completion, word, now);
        }
    }

    fn complete(&mut self, completion: Completion, word: Word, now: TimeMs) {
        // What could not be kept for now was acknowledged to its publisher: it stays due.
        let is_open = matches!(word, Word::Unavailable(_) | Word::Unknown);
        match completion {
            Completion::Ack(ack_to) => self.send_ack_to(ack_to, word, now),
            Completion::ForgetWill { name } if is_open => self.will_stays_due(name, word == Word::Unknown, now),
            Completion::ForgetWill { name } => self.will_sent(name, now),
            Completion::ForgetDelayed { shard, id } if is_open => self.delayed_stays_due(shard, id, now),
            Completion::ForgetDelayed { shard, id } => self.delayed_sent(shard, id),
            Completion::Left { number } => self.left_offered(number, word, now),
            Completion::Operator { ticket } => self.operator.published(ticket, word),
        }
    }
}
