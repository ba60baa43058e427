//! The way of a connection from its first byte until its client is admitted, or refused.
//!
//! ```text
//!   CONNECT ─▶ another worker's? hand off ─▶ shell authenticates ─verdict─▶ attach (`attach.rs`) ─▶ CONNACK
//! ```
//!
//! The CONNECT packet stays at the front of the connection's input and is decoded again at each stop. So nothing of it
//! is copied while a connection waits, and a thousand connections that wait for authentication cost only the bytes they
//! sent.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::{ConnAckOut, Connect, ReasonCode, Version, check_topic, decode_connect, encode_connack};

use super::retain::RetainedMessage;
use super::{Broker, Progress};
use crate::connection::{Comer, ConnectionEvent, ConnectionState, Flags};
use crate::index::ConnectionIndex;
use crate::limits::CLIENT_ID_BYTES_MAX;
use crate::reason::{About, told};
use crate::retained::Retained;
use crate::{Action, Admitted, ConnectionKey, Denied};

impl<L: LogStore> Broker<L> {
    /// The first packet of a connection. `rest` is all that was received, from this packet on.
    pub(super) fn receive_connect(
        &mut self,
        index: ConnectionIndex,
        packet: &[u8],
        rest: &[u8],
        now: TimeMs,
    ) -> Progress {
        let connect = match decode_connect(packet) {
            Ok(connect) => connect,
            // [MQTT-3.1.0-1]: the first packet of a client is CONNECT.
            // [MQTT-3.1.2-1]: another protocol name: the server may send CONNACK 0x84, then closes.
            // [MQTT-3.1.2-2]: another protocol version: the server may send CONNACK 0x84, then closes.
            Err(error) => return self.send_stranger_away(index, error.answer(), now),
        };
        let version = connect.version;
        let connection = &mut self.clients.connections[index];
        connection.packet_bytes_max = connect.packet_bytes_max.unwrap_or(u32::MAX);
        if !connect.request_problem_information {
            connection.flags.set(Flags::NO_PROBLEM_INFORMATION);
        }
        if let Some(reason) = self.objection(&connect).or_else(|| self.objection_to_size(index, &connect)) {
            self.refuse(index, version, reason, now);
            return Progress::Gone;
        }
        let client_id: Box<str> = if connect.client_id.is_empty() {
            // [MQTT-3.1.3-6]: an empty client id is allowed: the server assigns one.
            // The assigned id hashes to this worker, so its session is here.
            let id = self.draw_client_id();
            self.clients.connections[index].extra().assigned_id = Some(id.clone());
            id
        } else {
            connect.client_id.into()
        };
        assert!(self.clients.connections[index].session.is_none(), "who greets has no session yet");
        let worker = self.options.worker_of(&client_id);
        if worker != self.options.worker {
            let key = self.clients.key(index);
            self.clients.connections[index].transition(ConnectionEvent::HandedOff);
            self.forget_connection(index);
            self.asked.actions.push(Action::HandOff { key, worker, bytes: rest.into() });
            return Progress::Gone;
        }
        let connection = &mut self.clients.connections[index];
        connection.transition(ConnectionEvent::Connect);
        connection.version = version;
        self.asked.actions.push(Action::Authenticate {
            key: self.clients.key(index),
            client_id,
            user_name: connect.user_name.map(Into::into),
            password: connect.password.map(Into::into),
        });
        Progress::Parked
    }

    /// The first packet was no good CONNECT.
    fn send_stranger_away(
        &mut self,
        index: ConnectionIndex,
        answer: Option<(Version, ReasonCode)>,
        now: TimeMs,
    ) -> Progress {
        self.clients.facts.protocol_errors += 1;
        // How large a packet it takes is not known.
        self.clients.connections[index].flags.set(Flags::NO_PROBLEM_INFORMATION);
        match answer {
            Some((version, reason)) => self.refuse(index, version, reason, now),
            None => self.close_when_sent(index),
        }
        Progress::Gone
    }

    /// Checks of a CONNECT that do not need authentication: the reason to refuse it.
    fn objection(&self, connect: &Connect<'_>) -> Option<ReasonCode> {
        if self.timing.drain.is_some() {
            return Some(ReasonCode::USE_ANOTHER_SERVER);
        }
        // [MQTT-4.12.0-1]: an unknown Authentication Method: the server may send CONNACK 0x8C or 0x87, then closes.
        // No method of enhanced authentication is implemented.
        if connect.authentication_method.is_some() {
            return Some(ReasonCode::BAD_AUTHENTICATION_METHOD);
        }
        // [MQTT-3.1.1 3.1.3-8]: an empty client id without a clean session: return code 0x02, then close.
        // MQTT 3.1.1 cannot tell the client an assigned id, so it could never come back to that session.
        if connect.client_id.is_empty() && connect.version == Version::V311 && !connect.clean_start {
            return Some(ReasonCode::CLIENT_IDENTIFIER_NOT_VALID);
        }
        // [MQTT-4.7.3-2]: topics and filters contain no U+0000.
        // Client id and user name appear in logs and metrics, so they are held to the same rule.
        if connect.client_id.len() > CLIENT_ID_BYTES_MAX {
            return Some(ReasonCode::CLIENT_IDENTIFIER_NOT_VALID);
        }
        let will = connect.will.as_ref()?;
        if will.retain && !Retained::<RetainedMessage>::admits(will.topic) {
            return Some(ReasonCode::TOPIC_NAME_INVALID);
        }
        // A request is made by who is there: a will has nobody to answer. Nor could anybody be told that a queue
        // refused it.
        if self.request_topic(will.topic).is_some() || self.is_of_queues(will.topic) {
            // MQTT 3.1.1 has no word for topics. It must not sound as if trying again helped.
            return Some(match connect.version {
                Version::V5 => ReasonCode::TOPIC_NAME_INVALID,
                Version::V311 => ReasonCode::NOT_AUTHORIZED,
            });
        }
        check_topic(will.topic).err().map(|error| error.reason)
    }

    /// A random id whose session belongs to this worker.
    fn draw_client_id(&mut self) -> Box<str> {
        const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        loop {
            let mut id = String::with_capacity(22);
            id.push_str("tg");
            for _ in 0..2 {
                let mut bits = self.random.next();
                for _ in 0..10 {
                    id.push(DIGITS[bits as usize % DIGITS.len()] as char);
                    bits >>= 5;
                }
            }
            let worker = self.options.worker_of(&id);
            if worker == self.options.worker && self.clients.find_session(&id).is_none() {
                return id.into();
            }
        }
    }

    /// The answer to [`Action::Authenticate`].
    pub fn verdict(&mut self, key: ConnectionKey, verdict: Result<Admitted, Denied>, now: TimeMs) {
        let Some(index) = self.clients.index(key) else { return };
        if self.clients.connections[index].state != ConnectionState::Authenticating {
            return;
        }
        match verdict {
            Ok(Admitted { rights, principal, may_claim, ends_at }) => {
                if rights.user().is_none() {
                    self.clients.is_anonymous(index);
                }
                let rights = self.clients.rights.hold(rights);
                let connection = &mut self.clients.connections[index];
                assert!(connection.rights.is_none() && connection.session.is_none(), "who is admitted had nothing yet");
                connection.rights = Some(rights);
                connection.flags.mark(Flags::RENEWED, self.reloads.mark());
                let holder = self.options.holdings.holder(&principal);
                connection.extra().comer = Some(Comer { holder, may_claim, has_waited: false });
                connection.transition(ConnectionEvent::Admitted);
                if let Some(at) = ends_at {
                    self.end_at(key, at);
                }
                self.resume(index, now);
            }
            Err(Denied { reason }) => {
                let version = self.clients.connections[index].version;
                self.refuse(index, version, reason, now);
            }
        }
    }

    /// Sends CONNACK with a reason and closes the connection.
    /// `[MQTT-3.2.2-7]`: after a CONNACK with an error the server closes the connection.
    /// `[MQTT-3.1.4-2]`: a client that is not authorised: the server closes the connection.
    pub(super) fn refuse(&mut self, index: ConnectionIndex, version: Version, reason: ReasonCode, now: TimeMs) {
        self.clients.facts.connects_refused += 1;
        let (reason, words) = told(About::Connect, reason);
        let reference = self.timing.drain.as_ref().and_then(|drain| drain.plan.server_reference.clone());
        let server_reference = reference.as_deref().filter(|_| reason == ReasonCode::USE_ANOTHER_SERVER);
        self.clients.send_refusal(index, now, words, |bytes, reason_string| {
            let out = ConnAckOut { reason, server_reference, reason_string, ..ConnAckOut::default() };
            encode_connack(bytes, version, &out);
        });
        self.close_when_sent(index);
    }
}

/// Whole seconds, for clocks of four bytes.
pub(super) fn seconds(now: TimeMs) -> u32 {
    (now.0 / 1000) as u32
}
