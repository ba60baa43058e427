//! CONNACK, as a client reads it.

use crate::mqtt::connect::switch;
use crate::mqtt::property::{self, IdSet, UserProperties, Value, id};
use crate::mqtt::reader::Reader;
use crate::mqtt::{Malformed, QoS, ReasonCode, Version};

/// A CONNACK packet. What a server did not say has the value that this means.
#[derive(Clone, Debug)]
pub struct ConnAck<'a> {
    /// Whether the server had a session.
    pub session_present: bool,
    /// Whether the client is in.
    pub reason: ReasonCode,
    /// The session expiry that the server uses instead of the client's.
    pub session_expiry_s: Option<u32>,
    /// How many QoS 1 and 2 messages the server takes before it acknowledges.
    pub receive_maximum: u16,
    /// The highest QoS that the client may publish.
    pub maximum_qos: QoS,
    /// Whether it may retain.
    pub retain_available: bool,
    /// The longest packet the server takes.
    pub packet_bytes_max: Option<u32>,
    /// The name that the server gave to a client without one.
    pub assigned_client_id: Option<&'a str>,
    /// How many topic aliases the server remembers.
    pub topic_alias_maximum: u16,
    /// For people.
    pub reason_string: Option<&'a str>,
    /// Whether filters may have wildcards.
    pub wildcard_available: bool,
    /// Whether subscriptions may have identifiers.
    pub subscription_ids_available: bool,
    /// Whether subscriptions may be shared.
    pub shared_available: bool,
    /// The keep-alive that the client must use.
    pub server_keep_alive_s: Option<u16>,
    /// Where to build response topics.
    pub response_information: Option<&'a str>,
    /// Where else to connect.
    pub server_reference: Option<&'a str>,
    /// Enhanced authentication: which.
    pub authentication_method: Option<&'a str>,
    /// Enhanced authentication: the server's last data.
    pub authentication_data: Option<&'a [u8]>,
    block: &'a [u8],
}

const ALLOWED: IdSet = IdSet::of(&[
    id::SESSION_EXPIRY,
    id::RECEIVE_MAXIMUM,
    id::MAXIMUM_QOS,
    id::RETAIN_AVAILABLE,
    id::MAXIMUM_PACKET_SIZE,
    id::ASSIGNED_CLIENT_ID,
    id::TOPIC_ALIAS_MAXIMUM,
    id::REASON_STRING,
    id::USER_PROPERTY,
    id::WILDCARD_AVAILABLE,
    id::SUBSCRIPTION_ID_AVAILABLE,
    id::SHARED_AVAILABLE,
    id::SERVER_KEEP_ALIVE,
    id::RESPONSE_INFORMATION,
    id::SERVER_REFERENCE,
    id::AUTHENTICATION_METHOD,
    id::AUTHENTICATION_DATA,
]);

impl<'a> ConnAck<'a> {
    /// Names and values of the server.
    pub const fn user(&self) -> UserProperties<'a> {
        UserProperties::new(self.block)
    }

    pub(crate) fn decode(body: &'a [u8], version: Version) -> Result<ConnAck<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let flags = reader.u8()?;
        if flags > 1 {
            return Err(Malformed::packet("MQTT-3.2.2-1", "reserved CONNACK flags are set"));
        }
        let code = reader.u8()?;
        let reason = match version {
            Version::V5 => check_reason(ReasonCode(code))?,
            Version::V311 => ReasonCode::of_connect_return_code(code)
                .ok_or(Malformed::packet("MQTT-3.1.1 3.2.2-6", "a return code that MQTT 3.1.1 does not have"))?,
        };
        if flags != 0 && reason != ReasonCode::SUCCESS {
            return Err(Malformed::protocol("MQTT-3.2.2-6", "a session is present, but the client is refused"));
        }
        let mut connack = ConnAck {
            session_present: flags != 0,
            reason,
            session_expiry_s: None,
            receive_maximum: u16::MAX,
            maximum_qos: QoS::ExactlyOnce,
            retain_available: true,
            packet_bytes_max: None,
            assigned_client_id: None,
            topic_alias_maximum: 0,
            reason_string: None,
            wildcard_available: true,
            subscription_ids_available: true,
            shared_available: true,
            server_keep_alive_s: None,
            response_information: None,
            server_reference: None,
            authentication_method: None,
            authentication_data: None,
            block: &[],
        };
        if version == Version::V5 {
            let block = property::take(&mut reader, ALLOWED, property::USER, |id, value| connack.set(id, value))?;
            connack.block = block;
        }
        reader.end()?;
        Ok(connack)
    }

    fn set(&mut self, id: u8, value: Value<'a>) -> Result<(), Malformed> {
        match (id, value) {
            (id::SESSION_EXPIRY, Value::Four(seconds)) => self.session_expiry_s = Some(seconds),
            (id::RECEIVE_MAXIMUM, Value::Two(0)) => {
                return Err(Malformed::protocol("MQTT5 3.2.2.3.3", "receive maximum 0"));
            }
            (id::RECEIVE_MAXIMUM, Value::Two(count)) => self.receive_maximum = count,
            (id::MAXIMUM_QOS, Value::Byte(qos)) => {
                self.maximum_qos = match switch(qos, "MQTT5 3.2.2.3.4", "maximum QoS other than 0 and 1")? {
                    false => QoS::AtMostOnce,
                    true => QoS::AtLeastOnce,
                };
            }
            (id::RETAIN_AVAILABLE, Value::Byte(byte)) => {
                self.retain_available = switch(byte, "MQTT5 3.2.2.3.5", "retain available other than 0 and 1")?;
            }
            (id::MAXIMUM_PACKET_SIZE, Value::Four(0)) => {
                return Err(Malformed::protocol("MQTT5 3.2.2.3.6", "maximum packet size 0"));
            }
            (id::MAXIMUM_PACKET_SIZE, Value::Four(bytes)) => self.packet_bytes_max = Some(bytes),
            (id::ASSIGNED_CLIENT_ID, Value::Text(client_id)) => self.assigned_client_id = Some(client_id),
            (id::TOPIC_ALIAS_MAXIMUM, Value::Two(count)) => self.topic_alias_maximum = count,
            (id::REASON_STRING, Value::Text(text)) => self.reason_string = Some(text),
            (id::WILDCARD_AVAILABLE, Value::Byte(byte)) => {
                self.wildcard_available = switch(byte, "MQTT5 3.2.2.3.11", "wildcards available other than 0 and 1")?;
            }
            (id::SUBSCRIPTION_ID_AVAILABLE, Value::Byte(byte)) => {
                self.subscription_ids_available =
                    switch(byte, "MQTT5 3.2.2.3.12", "identifiers available other than 0 and 1")?;
            }
            (id::SHARED_AVAILABLE, Value::Byte(byte)) => {
                self.shared_available = switch(byte, "MQTT5 3.2.2.3.13", "sharing available other than 0 and 1")?;
            }
            (id::SERVER_KEEP_ALIVE, Value::Two(seconds)) => self.server_keep_alive_s = Some(seconds),
            (id::RESPONSE_INFORMATION, Value::Text(text)) => self.response_information = Some(text),
            (id::SERVER_REFERENCE, Value::Text(text)) => self.server_reference = Some(text),
            (id::AUTHENTICATION_METHOD, Value::Text(method)) => self.authentication_method = Some(method),
            (id::AUTHENTICATION_DATA, Value::Binary(data)) => self.authentication_data = Some(data),
            _ => {}
        }
        Ok(())
    }
}

/// CONNACK's own reason codes.
/// `[MQTT-3.2.2-8]`: the reason code of CONNACK is one of those listed.
const fn check_reason(reason: ReasonCode) -> Result<ReasonCode, Malformed> {
    match reason.0 {
        0x00 | 0x80..=0x8a | 0x8c | 0x90 | 0x95 | 0x97 | 0x99..=0x9d | 0x9f => Ok(reason),
        _ => Err(Malformed::protocol("MQTT-3.2.2-8", "a reason code that CONNACK does not have")),
    }
}
