//! PUBACK, PUBREC, PUBREL, PUBCOMP: four packets of one form.

use crate::mqtt::fixed_header::kind;
use crate::mqtt::property::{self, IdSet, UserProperties, Value, id};
use crate::mqtt::reader::Reader;
use crate::mqtt::{Malformed, ReasonCode, Version};

/// Which of the four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// QoS 1: received.
    PubAck,
    /// QoS 2, first: received.
    PubRec,
    /// QoS 2, second: the sender knows.
    PubRel,
    /// QoS 2, third: done.
    PubComp,
}

impl AckKind {
    /// The first byte of such a packet, flags included.
    /// `[MQTT-3.6.1-1]`: the flags of PUBREL are 0010.
    #[inline]
    pub(crate) const fn first_byte(self) -> u8 {
        match self {
            AckKind::PubAck => kind::PUBACK << 4,
            AckKind::PubRec => kind::PUBREC << 4,
            AckKind::PubRel => kind::PUBREL << 4 | 2,
            AckKind::PubComp => kind::PUBCOMP << 4,
        }
    }

    /// Whether such a packet may carry `reason`, and where that is said.
    const fn may_carry(self, reason: ReasonCode) -> Result<(), Malformed> {
        let statement = match self {
            AckKind::PubAck => "MQTT-3.4.2-1",
            AckKind::PubRec => "MQTT-3.5.2-1",
            AckKind::PubRel => "MQTT-3.6.2-1",
            AckKind::PubComp => "MQTT-3.7.2-1",
        };
        match (self, reason.0) {
            (AckKind::PubAck | AckKind::PubRec, 0x00 | 0x10 | 0x80 | 0x83 | 0x87 | 0x90 | 0x91 | 0x97 | 0x99) => Ok(()),
            (AckKind::PubRel | AckKind::PubComp, 0x00 | 0x92) => Ok(()),
            _ => Err(Malformed::protocol(statement, "a reason code that this acknowledgement does not have")),
        }
    }
}

/// One of the four packets.
#[derive(Clone, Debug)]
pub struct Ack<'a> {
    /// Of the PUBLISH that it is about; never zero.
    pub packet_id: u16,
    /// [`ReasonCode::SUCCESS`] when the packet says nothing else.
    pub reason: ReasonCode,
    /// For people.
    pub reason_string: Option<&'a str>,
    block: &'a [u8],
}

const ALLOWED: IdSet = IdSet::of(&[id::REASON_STRING, id::USER_PROPERTY]);

impl<'a> Ack<'a> {
    /// Names and values of the application.
    pub const fn user(&self) -> UserProperties<'a> {
        UserProperties::new(self.block)
    }

    #[inline]
    pub(crate) fn decode(body: &'a [u8], version: Version, kind: AckKind) -> Result<Ack<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let packet_id = reader.packet_id()?;
        let mut ack = Ack { packet_id, reason: ReasonCode::SUCCESS, reason_string: None, block: &[] };
        if version == Version::V5 && !reader.is_empty() {
            ack.reason = ReasonCode(reader.u8()?);
            kind.may_carry(ack.reason)?;
            // A remaining length below 4 means: no properties (MQTT5 3.4.2.2.1).
            if !reader.is_empty() {
                (ack.reason_string, ack.block) = reason_properties(&mut reader)?;
            }
        }
        reader.end()?;
        Ok(ack)
    }
}

/// The properties of all packets that may have a reason string and user properties and nothing else: the string, the
/// block.
pub(crate) fn reason_properties<'a>(reader: &mut Reader<'a>) -> Result<(Option<&'a str>, &'a [u8]), Malformed> {
    let mut reason_string = None;
    let block = property::take(reader, ALLOWED, property::USER, |_, value| {
        if let Value::Text(text) = value {
            reason_string = Some(text);
        }
        Ok(())
    })?;
    Ok((reason_string, block))
}
