//! Packets that only servers send.

use super::{
    packet, properties, push_binary_property, push_byte_property, push_text_property, push_u16_property,
    push_u32_property,
};
use crate::mqtt::fixed_header::kind;
use crate::mqtt::property::id;
use crate::mqtt::{QoS, ReasonCode, Version};

/// The fields of a CONNACK. `None` is not written, and means what MQTT 5 says it means.
#[derive(Clone, Copy, Debug)]
pub struct ConnAckOut<'a> {
    /// Whether there was a session; not written with an error.
    /// `[MQTT-3.2.2-6]`: a CONNACK with an error has Session Present 0.
    pub session_present: bool,
    /// For MQTT 3.1.1 the return code that comes nearest.
    pub reason: ReasonCode,
    /// The session expiry that holds instead of the client's.
    pub session_expiry_s: Option<u32>,
    /// How many QoS 1 and 2 messages the server takes at once.
    pub receive_maximum: Option<u16>,
    /// The highest QoS, if not 2.
    pub maximum_qos: Option<QoS>,
    /// Whether clients may retain.
    pub retain_available: Option<bool>,
    /// The longest packet that the server takes.
    pub packet_bytes_max: Option<u32>,
    /// The name for a client that has none.
    pub assigned_client_id: Option<&'a str>,
    /// How many topic aliases the server remembers.
    pub topic_alias_maximum: Option<u16>,
    /// For people.
    pub reason_string: Option<&'a str>,
    /// Whether filters may have wildcards.
    pub wildcard_available: Option<bool>,
    /// Whether subscriptions may have identifiers.
    pub subscription_ids_available: Option<bool>,
    /// Whether subscriptions may be shared.
    pub shared_available: Option<bool>,
    /// The keep-alive that the client must use.
    /// `[MQTT-3.1.2-21]`: a client uses the keep alive that the server returns.
    pub server_keep_alive_s: Option<u16>,
    /// Where to build response topics.
    pub response_information: Option<&'a str>,
    /// Where else to connect.
    pub server_reference: Option<&'a str>,
    /// Enhanced authentication: which.
    pub authentication_method: Option<&'a str>,
    /// Enhanced authentication: the last data.
    pub authentication_data: Option<&'a [u8]>,
}

impl Default for ConnAckOut<'_> {
    fn default() -> Self {
        ConnAckOut::with(ReasonCode::SUCCESS)
    }
}

impl ConnAckOut<'_> {
    /// A CONNACK that says nothing but this.
    pub const fn with(reason: ReasonCode) -> Self {
        ConnAckOut {
            session_present: false,
            reason,
            session_expiry_s: None,
            receive_maximum: None,
            maximum_qos: None,
            retain_available: None,
            packet_bytes_max: None,
            assigned_client_id: None,
            topic_alias_maximum: None,
            reason_string: None,
            wildcard_available: None,
            subscription_ids_available: None,
            shared_available: None,
            server_keep_alive_s: None,
            response_information: None,
            server_reference: None,
            authentication_method: None,
            authentication_data: None,
        }
    }
}

/// Appends a CONNACK.
pub fn encode_connack(out: &mut Vec<u8>, version: Version, connack: &ConnAckOut<'_>) {
    let present = u8::from(connack.session_present && !connack.reason.is_error());
    if version == Version::V311 {
        out.extend_from_slice(&[kind::CONNACK << 4, 2, present, connack.reason.connect_return_code()]);
        return;
    }
    packet(out, kind::CONNACK << 4, |out| {
        out.extend_from_slice(&[present, connack.reason.0]);
        properties(out, |out| {
            push_u32_property(out, id::SESSION_EXPIRY, connack.session_expiry_s);
            push_u16_property(out, id::RECEIVE_MAXIMUM, connack.receive_maximum);
            // 2 is what is meant without it, and cannot be written.
            push_byte_property(
                out,
                id::MAXIMUM_QOS,
                connack.maximum_qos.filter(|&qos| qos < QoS::ExactlyOnce).map(|qos| qos as u8),
            );
            push_byte_property(out, id::RETAIN_AVAILABLE, connack.retain_available.map(u8::from));
            push_u32_property(out, id::MAXIMUM_PACKET_SIZE, connack.packet_bytes_max);
            push_text_property(out, id::ASSIGNED_CLIENT_ID, connack.assigned_client_id);
            push_u16_property(out, id::TOPIC_ALIAS_MAXIMUM, connack.topic_alias_maximum);
            push_text_property(out, id::REASON_STRING, connack.reason_string);
            push_byte_property(out, id::WILDCARD_AVAILABLE, connack.wildcard_available.map(u8::from));
            push_byte_property(out, id::SUBSCRIPTION_ID_AVAILABLE, connack.subscription_ids_available.map(u8::from));
            push_byte_property(out, id::SHARED_AVAILABLE, connack.shared_available.map(u8::from));
            push_u16_property(out, id::SERVER_KEEP_ALIVE, connack.server_keep_alive_s);
            push_text_property(out, id::RESPONSE_INFORMATION, connack.response_information);
            push_text_property(out, id::SERVER_REFERENCE, connack.server_reference);
            push_text_property(out, id::AUTHENTICATION_METHOD, connack.authentication_method);
            push_binary_property(out, id::AUTHENTICATION_DATA, connack.authentication_data);
        });
    });
}

/// Appends a SUBACK with one reason for each subscription, in order. MQTT 3.1.1 has one return code for every failure.
/// `[MQTT-3.8.4-6]`: SUBACK has a reason code for each filter.
pub fn encode_suback(
    out: &mut Vec<u8>,
    version: Version,
    packet_id: u16,
    reasons: &[ReasonCode],
    reason_string: Option<&str>,
) {
    packet(out, kind::SUBACK << 4, |out| {
        out.extend_from_slice(&packet_id.to_be_bytes());
        if version == Version::V5 {
            properties(out, |out| push_text_property(out, id::REASON_STRING, reason_string));
        }
        out.extend(reasons.iter().map(|reason| match version {
            Version::V311 if reason.is_error() => ReasonCode::UNSPECIFIED_ERROR.0,
            _ => reason.0,
        }));
    });
}

/// Appends an UNSUBACK with one reason for each filter, in order. MQTT 3.1.1 does not send them.
/// `[MQTT-3.11.3-1]`: the reason codes of UNSUBACK are in the order of the filters.
pub fn encode_unsuback(
    out: &mut Vec<u8>,
    version: Version,
    packet_id: u16,
    reasons: &[ReasonCode],
    reason_string: Option<&str>,
) {
    packet(out, kind::UNSUBACK << 4, |out| {
        out.extend_from_slice(&packet_id.to_be_bytes());
        if version == Version::V5 {
            properties(out, |out| push_text_property(out, id::REASON_STRING, reason_string));
            out.extend(reasons.iter().map(|reason| reason.0));
        }
    });
}

/// Appends a PINGRESP.
pub fn encode_pingresp(out: &mut Vec<u8>) {
    out.extend_from_slice(&[kind::PINGRESP << 4, 0]);
}
