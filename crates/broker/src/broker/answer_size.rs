//! Answers that are larger than their client takes: CONNACK, SUBACK and UNSUBACK have no shorter form.
//!
//! Promise: a client gets nothing that is larger than it takes, and nothing is done for it that it cannot be told of.
//! `[MQTT-3.1.2-24]`: the server sends nothing larger than the client's Maximum Packet Size.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::{ConnAckOut, Connect, ReasonCode, Version, encode_connack, encode_suback};

use super::Broker;
use crate::index::ConnectionIndex;

/// Bytes of a CONNACK that accepts, with all that it may say.
const CONNACK_BYTES_MAX: usize = 64;
/// An id as long as those that the server assigns.
const ASSIGNED_ID: &str = "tgaaaaaaaaaaaaaaaaaaaa";
/// What a SUBACK or UNSUBACK has beside its codes, at most.
const CODES_OVERHEAD_BYTES: usize = 8;

impl<L: LogStore> Broker<L> {
    /// A client that does not take its own CONNACK cannot be told anything else either.
    /// `[MQTT-3.1.2-24]`: the server sends nothing larger than the client's Maximum Packet Size.
    pub(super) fn objection_to_size(&self, index: ConnectionIndex, connect: &Connect<'_>) -> Option<ReasonCode> {
        let bytes_max = self.clients.connections[index].packet_bytes_max as usize;
        if bytes_max >= CONNACK_BYTES_MAX {
            return None;
        }
        let assigned = connect.client_id.is_empty().then_some(ASSIGNED_ID);
        let mut connack = Vec::new();
        encode_connack(&mut connack, connect.version, &self.greeting(index, connect, self.expiry(connect), assigned));
        (connack.len() > bytes_max).then_some(ReasonCode::PACKET_TOO_LARGE)
    }

    /// The CONNACK of a client that is accepted.
    pub(super) fn greeting<'a>(
        &self,
        index: ConnectionIndex,
        connect: &Connect<'_>,
        session_expiry_s: u32,
        assigned_client_id: Option<&'a str>,
    ) -> ConnAckOut<'a> {
        let limits = &self.options.limits;
        ConnAckOut {
            reason: ReasonCode::SUCCESS,
            session_expiry_s: (session_expiry_s != connect.session_expiry_s).then_some(session_expiry_s),
            receive_maximum: Some(limits.receive_maximum),
            packet_bytes_max: Some(self.packet_bytes_max(index)),
            assigned_client_id,
            topic_alias_maximum: Some(limits.topic_alias_maximum),
            // MQTT 3.1.1 cannot be told.
            server_keep_alive_s: bounded_keep_alive_s(connect, limits.keep_alive_max_s)
                .filter(|_| connect.version == Version::V5),
            ..ConnAckOut::default()
        }
    }

    /// Disconnects a client that asks for so much that it does not take the answer, before anything is done.
    /// `[MQTT-3.1.2-24]`: the server sends nothing larger than the client's Maximum Packet Size.
    pub(super) fn has_no_room_for_codes(&mut self, index: ConnectionIndex, codes: usize, now: TimeMs) -> bool {
        let connection = &self.clients.connections[index];
        let bytes_max = connection.packet_bytes_max as usize;
        if codes + CODES_OVERHEAD_BYTES <= bytes_max {
            return false;
        }
        let mut suback = Vec::new();
        encode_suback(&mut suback, connection.version, 1, &vec![ReasonCode::SUCCESS; codes], None);
        let is_too_large = suback.len() > bytes_max;
        if is_too_large {
            self.disconnect(index, ReasonCode::PACKET_TOO_LARGE, now);
        }
        is_too_large
    }
}

/// The keep alive that holds for a client that asks for a longer one than there may be, or for none.
/// `[MQTT-3.1.2-21]`: a client uses the keep alive that the server returns.
pub(super) fn bounded_keep_alive_s(connect: &Connect<'_>, max_s: u16) -> Option<u16> {
    let is_longer = connect.keep_alive_s == 0 || connect.keep_alive_s > max_s;
    (max_s > 0 && is_longer).then_some(max_s)
}
