//! DISCONNECT: the last packet of a connection, from either side. A server of MQTT 3.1.1 has none.

use crate::mqtt::property::{self, IdSet, UserProperties, Value, id};
use crate::mqtt::reader::Reader;
use crate::mqtt::{Malformed, ReasonCode, Version};

/// A DISCONNECT packet.
#[derive(Clone, Debug)]
pub struct Disconnect<'a> {
    /// Why.
    pub reason: ReasonCode,
    /// From a client: the session expiry that shall hold from now on. That it may not become other than 0 once CONNECT
    /// said 0 is the session's to know.
    pub session_expiry_s: Option<u32>,
    /// For people.
    pub reason_string: Option<&'a str>,
    /// From a server: where to connect instead.
    pub server_reference: Option<&'a str>,
    block: &'a [u8],
}

const FROM_CLIENT: IdSet = IdSet::of(&[id::SESSION_EXPIRY, id::REASON_STRING, id::USER_PROPERTY]);
// Not the session expiry.
// [MQTT-3.14.2-2]: a DISCONNECT of the server has no session expiry interval.
const FROM_SERVER: IdSet = IdSet::of(&[id::REASON_STRING, id::USER_PROPERTY, id::SERVER_REFERENCE]);

impl<'a> Disconnect<'a> {
    /// Names and values of the application.
    pub const fn user(&self) -> UserProperties<'a> {
        UserProperties::new(self.block)
    }

    pub(crate) fn decode(body: &'a [u8], version: Version, from_client: bool) -> Result<Disconnect<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let mut disconnect = Disconnect {
            reason: ReasonCode::NORMAL_DISCONNECTION,
            session_expiry_s: None,
            reason_string: None,
            server_reference: None,
            block: &[],
        };
        if version == Version::V311 {
            if !from_client {
                return Err(Malformed::protocol("MQTT-3.1.1 3.14", "DISCONNECT from a server"));
            }
            reader.end()?;
            return Ok(disconnect);
        }
        // A remaining length of 0 means success, one below 2 no properties (MQTT5 3.14.2.1, 3.14.2.2.1).
        if !reader.is_empty() {
            disconnect.reason = ReasonCode(reader.u8()?);
            check_reason(disconnect.reason, from_client)?;
        }
        if !reader.is_empty() {
            let allowed = if from_client { FROM_CLIENT } else { FROM_SERVER };
            let block = property::take(&mut reader, allowed, property::USER, |id, value| {
                match (id, value) {
                    (id::SESSION_EXPIRY, Value::Four(seconds)) => disconnect.session_expiry_s = Some(seconds),
                    (id::REASON_STRING, Value::Text(text)) => disconnect.reason_string = Some(text),
                    (id::SERVER_REFERENCE, Value::Text(text)) => disconnect.server_reference = Some(text),
                    _ => {}
                }
                Ok(())
            })?;
            disconnect.block = block;
        }
        reader.end()?;
        Ok(disconnect)
    }
}

/// MQTT 5 table 3-10, with its column "sent by".
/// `[MQTT-3.14.2-1]`: the reason code of DISCONNECT is one of those listed.
const fn check_reason(reason: ReasonCode, from_client: bool) -> Result<(), Malformed> {
    let both = matches!(reason.0, 0x00 | 0x80..=0x83 | 0x90 | 0x93..=0x99);
    let client = reason.0 == ReasonCode::DISCONNECT_WITH_WILL.0;
    let server = matches!(reason.0, 0x87 | 0x89 | 0x8b | 0x8d..=0x8f | 0x9a..=0xa2);
    if both || (client && from_client) || (server && !from_client) {
        Ok(())
    } else {
        Err(Malformed::protocol("MQTT-3.14.2-1", "a reason code that this side's DISCONNECT does not have"))
    }
}
