//! AUTH: the steps of enhanced authentication, in MQTT 5 only.

use crate::mqtt::property::{self, IdSet, UserProperties, Value, id};
use crate::mqtt::reader::Reader;
use crate::mqtt::{Malformed, ReasonCode, Version};

/// An AUTH packet.
#[derive(Clone, Debug)]
pub struct Auth<'a> {
    /// Success, continue, or authenticate again.
    pub reason: ReasonCode,
    /// Which method; `None` only in a packet without a body, which means success.
    pub method: Option<&'a str>,
    /// What the method wants to say.
    pub data: Option<&'a [u8]>,
    /// For people.
    pub reason_string: Option<&'a str>,
    block: &'a [u8],
}

const ALLOWED: IdSet =
    IdSet::of(&[id::AUTHENTICATION_METHOD, id::AUTHENTICATION_DATA, id::REASON_STRING, id::USER_PROPERTY]);

impl<'a> Auth<'a> {
    /// Names and values of the application.
    pub const fn user(&self) -> UserProperties<'a> {
        UserProperties::new(self.block)
    }

    pub(crate) fn decode(body: &'a [u8], version: Version, from_client: bool) -> Result<Auth<'a>, Malformed> {
        if version == Version::V311 {
            return Err(Malformed::packet("MQTT-3.1.1 2.2.1", "packet type 15 is reserved"));
        }
        let mut reader = Reader::new(body);
        let mut auth = Auth { reason: ReasonCode::SUCCESS, method: None, data: None, reason_string: None, block: &[] };
        if !reader.is_empty() {
            auth.reason = ReasonCode(reader.u8()?);
        }
        let may_send = match auth.reason {
            ReasonCode::SUCCESS => !from_client,
            ReasonCode::CONTINUE_AUTHENTICATION => true,
            ReasonCode::REAUTHENTICATE => from_client,
            _ => false,
        };
        if !may_send {
            return Err(Malformed::protocol("MQTT-3.15.2-1", "a reason code that this side's AUTH does not have"));
        }
        // Only success without properties may leave all of it out (MQTT5 3.15.2.1).
        if !body.is_empty() {
            let block = property::take(&mut reader, ALLOWED, property::USER, |id, value| {
                match (id, value) {
                    (id::AUTHENTICATION_METHOD, Value::Text(method)) => auth.method = Some(method),
                    (id::AUTHENTICATION_DATA, Value::Binary(data)) => auth.data = Some(data),
                    (id::REASON_STRING, Value::Text(text)) => auth.reason_string = Some(text),
                    _ => {}
                }
                Ok(())
            })?;
            auth.block = block;
            if auth.method.is_none() {
                return Err(Malformed::protocol("MQTT5 3.15.2.2.2", "AUTH without an authentication method"));
            }
        }
        reader.end()?;
        Ok(auth)
    }
}
