//! What clients acknowledge, and the last steps of QoS 2 in both directions.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::Command;
use tidegate_wire::mqtt::{Ack, AckKind, ReasonCode};

use super::{Broker, Progress};
use crate::acknowledgements::{Outstanding, WorkerSet};
use crate::flow::{Answer, Flight, IncomingStage};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::session::{SessionFlags, SessionRef};
use crate::shards::Wait;

impl<L: LogStore> Broker<L> {
    fn flight(&self, place: SessionIndex, packet_id: u16) -> Option<(u64, Flight)> {
        self.clients.sessions[place].flow.as_ref()?.window.find(packet_id)
    }

    fn advance(&mut self, place: SessionIndex, number: u64, to: Flight) {
        self.clients.sessions[place].flow().window.advance(number, to);
    }

    /// A message has reached its client for good.
    fn acknowledge(&mut self, place: SessionIndex, number: u64) {
        let session = &self.clients.sessions[place];
        match session.slot {
            Some(slot) => {
                self.shards.call(session.shard, Command::Acknowledge { slot, number }, Wait::Nothing);
            }
            None => self.clients.acknowledged(place, number),
        }
    }

    /// A PUBACK for a packet id that is not in flight is ignored: its delivery has ended. One for a message of QoS 2 is
    /// a protocol error (MQTT 5, 4.3.3).
    /// `[MQTT-4.3.2-3]`: QoS 1: a message is unacknowledged until PUBACK arrives.
    pub(super) fn puback(&mut self, index: ConnectionIndex, ack: &Ack<'_>, now: TimeMs) {
        let place = self.clients.session_of(index);
        self.member_acknowledges(place, now);
        if self.has_receivers(place) && self.delivery_acknowledged(place, ack.packet_id, ack.reason, now) {
            return self.pump(place, now);
        }
        match self.flight(place, ack.packet_id) {
            Some((number, Flight::Sent1)) => {
                self.advance(place, number, Flight::Done);
                self.acknowledge(place, number);
                // What is of the other kind goes first, so that neither keeps the other from a small window.
                self.pump_feeds(place, now);
                self.pump_receivers(place, now);
                self.pump(place, now);
            }
            Some((_, Flight::Sent2 | Flight::Received | Flight::Released)) => {
                self.protocol_error(index, ReasonCode::PROTOCOL_ERROR, now);
            }
            Some((_, Flight::Done)) | None => {
                if self.feed_acknowledged(place, ack.packet_id) {
                    self.pump(place, now);
                }
            }
        }
    }

    /// `[MQTT-4.3.3-3]`: QoS 2: a message is unacknowledged until PUBREC arrives.
    /// `[MQTT-4.3.3-4]`: QoS 2: a PUBREC below 0x80 is answered with PUBREL.
    pub(super) fn pubrec(&mut self, index: ConnectionIndex, ack: &Ack<'_>, now: TimeMs) {
        let place = self.clients.session_of(index);
        self.member_acknowledges(place, now);
        match self.flight(place, ack.packet_id) {
            // [MQTT-4.3.3-4]: QoS 2: a PUBREC below 0x80 is answered with PUBREL.
            // A PUBREC of 0x80 or more ends the delivery.
            Some((number, Flight::Sent2)) if ack.reason.is_error() => {
                self.advance(place, number, Flight::Done);
                self.acknowledge(place, number);
                self.pump(place, now);
            }
            Some((number, Flight::Sent2)) => {
                let session = &self.clients.sessions[place];
                match session.slot {
                    // Journaled before PUBREL: else a crash would send the message again, under an id that the client
                    // has given up.
                    Some(slot) => {
                        let shard = session.shard;
                        self.advance(place, number, Flight::Received);
                        let session = self.clients.session_ref(place);
                        self.shards.call(
                            shard,
                            Command::MarkReceived { slot, number },
                            Wait::Received { session, number },
                        );
                    }
                    None => {
                        self.advance(place, number, Flight::Released);
                        self.send_ack(index, AckKind::PubRel, ack.packet_id, ReasonCode::SUCCESS, now);
                    }
                }
            }
            Some((_, Flight::Released)) => {
                self.send_ack(index, AckKind::PubRel, ack.packet_id, ReasonCode::SUCCESS, now)
            }
            Some((_, Flight::Received)) => {}
            Some((_, Flight::Sent1 | Flight::Done)) => self.protocol_error(index, ReasonCode::PROTOCOL_ERROR, now),
            None if ack.reason.is_error() => {}
            None => {
                self.send_ack(index, AckKind::PubRel, ack.packet_id, ReasonCode::PACKET_IDENTIFIER_NOT_FOUND, now);
            }
        }
    }

    /// A PUBREC is durable.
    pub(super) fn received(&mut self, session: SessionRef, number: u64, now: TimeMs) {
        let Some(place) = self.clients.session(session) else { return };
        let session = &mut self.clients.sessions[place];
        let (Some(index), Some(flow)) = (session.connection, &mut session.flow) else { return };
        if flow.window.get(number) == Some(Flight::Received) {
            assert!(
                self.clients.connections[index].session == Some(place),
                "connection and session point to each other"
            );
            flow.window.advance(number, Flight::Released);
            let packet_id = crate::flow::Window::packet_id(number);
            self.send_ack(index, AckKind::PubRel, packet_id, ReasonCode::SUCCESS, now);
        }
    }

    /// A PUBCOMP for a packet id that is not in flight is ignored. One for a message of QoS 1, or of QoS 2 before its
    /// PUBREL, is a protocol error (MQTT 5, 4.3.3).
    /// `[MQTT-4.3.3-7]`: QoS 2: a message that was sent does not expire.
    pub(super) fn pubcomp(&mut self, index: ConnectionIndex, ack: &Ack<'_>, now: TimeMs) {
        let place = self.clients.session_of(index);
        self.member_acknowledges(place, now);
        match self.flight(place, ack.packet_id) {
            Some((number, Flight::Released)) => {
                self.advance(place, number, Flight::Done);
                self.acknowledge(place, number);
                self.pump(place, now);
            }
            Some((_, Flight::Sent1 | Flight::Sent2 | Flight::Received)) => {
                self.protocol_error(index, ReasonCode::PROTOCOL_ERROR, now);
            }
            Some((_, Flight::Done)) | None => {}
        }
    }

    /// The client has received our PUBREC: the packet id is free again when all shards have forgotten the origin.
    /// `[MQTT-4.3.3-11]`: QoS 2: PUBREL is answered with PUBCOMP.
    pub(super) fn pubrel(&mut self, index: ConnectionIndex, ack: &Ack<'_>, now: TimeMs) -> Progress {
        let place = self.clients.session_of(index);
        let packet_id = ack.packet_id;
        let is_full = self.has_too_many_answers(place);
        let session = &mut self.clients.sessions[place];
        let was_recovered = session.flags.has(SessionFlags::RECOVERED);
        let serial = session.flow.as_ref().map_or(0, |flow| flow.answers.next_serial());
        let known = session.flow.as_mut().and_then(|flow| flow.incoming.get_mut(packet_id));
        let (workers, reason) = match known {
            Some(incoming) => match incoming.stage {
                IncomingStage::Received => {
                    (incoming.stage, incoming.serial) = (IncomingStage::Released, serial);
                    (incoming.workers, ReasonCode::SUCCESS)
                }
                IncomingStage::Released => {
                    let serial = incoming.serial;
                    session.flow().answers.unmute(serial);
                    return Progress::Taken;
                }
                // It cannot know our PUBREC yet.
                IncomingStage::Pending | IncomingStage::Unknown => {
                    self.protocol_error(index, ReasonCode::PROTOCOL_ERROR, now);
                    return Progress::Gone;
                }
            },
            // Each is a command to all shards, and nothing else bounds how many a client sends.
            None if was_recovered && is_full => return Progress::Parked,
            // What this process does not know the one before may have.
            None if was_recovered => (WorkerSet::ALL, ReasonCode::SUCCESS),
            None => (WorkerSet::NONE, ReasonCode::PACKET_IDENTIFIER_NOT_FOUND),
        };
        let words = self.forget_origin(place, packet_id, workers);
        if words == 0 {
            self.forget_incoming(place, packet_id);
        }
        let outstanding = Outstanding::new(words, reason);
        let (kind, mute, is_counted, arrived_ns) = (AckKind::PubComp, false, false, 0);
        let answer = Answer { packet_id, kind, outstanding, mute, is_counted, arrived_ns };
        self.answer_with(index, place, answer, now);
        Progress::Taken
    }
}
