//! The properties of MQTT 5: a block of identifiers with values after the header of many packets.
//!
//! ```text
//!   ┌────────┬────────────┬────────────┬─────┐
//!   │ length │ id │ value │ id │ value │ ... │    a value's type follows from its id
//!   └────────┴────────────┴────────────┴─────┘
//! ```
//!
//! One pass checks a block: only identifiers that the packet may have, none twice that must be single, values that can
//! be read. A property is looked up later by another pass, so a packet with a hundred user properties needs no memory.

use crate::mqtt::Malformed;
use crate::mqtt::reader::Reader;

/// Property identifiers, MQTT 5 table 2-4.
pub(crate) mod id {
    pub(crate) const PAYLOAD_FORMAT: u8 = 0x01;
    pub(crate) const MESSAGE_EXPIRY: u8 = 0x02;
    pub(crate) const CONTENT_TYPE: u8 = 0x03;
    pub(crate) const RESPONSE_TOPIC: u8 = 0x08;
    pub(crate) const CORRELATION_DATA: u8 = 0x09;
    pub(crate) const SUBSCRIPTION_ID: u8 = 0x0b;
    pub(crate) const SESSION_EXPIRY: u8 = 0x11;
    pub(crate) const ASSIGNED_CLIENT_ID: u8 = 0x12;
    pub(crate) const SERVER_KEEP_ALIVE: u8 = 0x13;
    pub(crate) const AUTHENTICATION_METHOD: u8 = 0x15;
    pub(crate) const AUTHENTICATION_DATA: u8 = 0x16;
    pub(crate) const REQUEST_PROBLEM_INFORMATION: u8 = 0x17;
    pub(crate) const WILL_DELAY: u8 = 0x18;
    pub(crate) const REQUEST_RESPONSE_INFORMATION: u8 = 0x19;
    pub(crate) const RESPONSE_INFORMATION: u8 = 0x1a;
    pub(crate) const SERVER_REFERENCE: u8 = 0x1c;
    pub(crate) const REASON_STRING: u8 = 0x1f;
    pub(crate) const RECEIVE_MAXIMUM: u8 = 0x21;
    pub(crate) const TOPIC_ALIAS_MAXIMUM: u8 = 0x22;
    pub(crate) const TOPIC_ALIAS: u8 = 0x23;
    pub(crate) const MAXIMUM_QOS: u8 = 0x24;
    pub(crate) const RETAIN_AVAILABLE: u8 = 0x25;
    pub(crate) const USER_PROPERTY: u8 = 0x26;
    pub(crate) const MAXIMUM_PACKET_SIZE: u8 = 0x27;
    pub(crate) const WILDCARD_AVAILABLE: u8 = 0x28;
    pub(crate) const SUBSCRIPTION_ID_AVAILABLE: u8 = 0x29;
    pub(crate) const SHARED_AVAILABLE: u8 = 0x2a;
}

/// A set of property identifiers, one bit each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdSet(u64);

impl IdSet {
    pub(crate) const fn of(ids: &[u8]) -> IdSet {
        let mut bits = 0;
        let mut index = 0;
        while index < ids.len() {
            bits |= 1 << ids[index];
            index += 1;
        }
        IdSet(bits)
    }

    #[inline]
    pub(crate) const fn has(self, id: u8) -> bool {
        id < 64 && self.0 & 1 << id != 0
    }
}

/// A property's value, in the type that its identifier says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Byte(u8),
    Two(u16),
    Four(u32),
    Varint(u32),
    Text(&'a str),
    Binary(&'a [u8]),
    Pair(&'a str, &'a str),
}

/// Reads the value of property `id`.
#[inline]
fn value<'a>(reader: &mut Reader<'a>, id: u8) -> Result<Value<'a>, Malformed> {
    Ok(match id {
        id::PAYLOAD_FORMAT
        | id::REQUEST_PROBLEM_INFORMATION
        | id::REQUEST_RESPONSE_INFORMATION
        | id::MAXIMUM_QOS
        | id::RETAIN_AVAILABLE
        | id::WILDCARD_AVAILABLE
        | id::SUBSCRIPTION_ID_AVAILABLE
        | id::SHARED_AVAILABLE => Value::Byte(reader.u8()?),
        id::SERVER_KEEP_ALIVE | id::RECEIVE_MAXIMUM | id::TOPIC_ALIAS_MAXIMUM | id::TOPIC_ALIAS => {
            Value::Two(reader.u16()?)
        }
        id::MESSAGE_EXPIRY | id::SESSION_EXPIRY | id::WILL_DELAY | id::MAXIMUM_PACKET_SIZE => {
            Value::Four(reader.u32()?)
        }
        id::SUBSCRIPTION_ID => Value::Varint(reader.varint()?),
        id::CORRELATION_DATA | id::AUTHENTICATION_DATA => Value::Binary(reader.binary()?),
        // Both halves are texts.
        // [MQTT-1.5.7-1]: both halves of a string pair are valid strings.
        id::USER_PROPERTY => Value::Pair(reader.text()?, reader.text()?),
        id::CONTENT_TYPE
        | id::RESPONSE_TOPIC
        | id::ASSIGNED_CLIENT_ID
        | id::AUTHENTICATION_METHOD
        | id::RESPONSE_INFORMATION
        | id::SERVER_REFERENCE
        | id::REASON_STRING => Value::Text(reader.text()?),
        _ => return Err(Malformed::packet("MQTT5 2.2.2.2", "a property identifier that MQTT 5 does not have")),
    })
}

/// Takes the block at the reader's position, checks it, and shows each property to `each`. `allowed` are the packet's
/// identifiers, `repeatable` those that may come more than once. Returns the block without its length.
#[inline]
pub(crate) fn take<'a>(
    reader: &mut Reader<'a>,
    allowed: IdSet,
    repeatable: IdSet,
    each: impl FnMut(u8, Value<'a>) -> Result<(), Malformed>,
) -> Result<&'a [u8], Malformed> {
    // Zero is written as such, never left out.
    // [MQTT-2.2.2-1]: a packet without properties has a property length of 0.
    let length = reader.varint()?;
    let block = reader.take(length as usize)?;
    if !block.is_empty() {
        walk(block, allowed, repeatable, each)?;
    }
    Ok(block)
}

/// Checks a block without its length and shows each property to `each`.
pub(crate) fn walk<'a>(
    block: &'a [u8],
    allowed: IdSet,
    repeatable: IdSet,
    mut each: impl FnMut(u8, Value<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut reader = Reader::new(block);
    let mut seen = 0u64;
    while !reader.is_empty() {
        // The identifier is a variable byte integer, but all there are fit one byte.
        let id = u8::try_from(reader.varint()?).unwrap_or(u8::MAX);
        let value = value(&mut reader, id)?;
        if !allowed.has(id) {
            return Err(Malformed::packet("MQTT5 2.2.2.2", "a property that this packet cannot have"));
        }
        if seen & 1 << id != 0 && !repeatable.has(id) {
            return Err(Malformed::protocol("MQTT5 2.2.2.2", "a property twice"));
        }
        seen |= 1 << id;
        each(id, value)?;
    }
    Ok(())
}

/// The one repeatable property of most packets.
pub(crate) const USER: IdSet = IdSet::of(&[id::USER_PROPERTY]);

/// Iterates over a block that was checked: each identifier with its value and its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Checked<'a>(Reader<'a>);

impl<'a> Checked<'a> {
    pub(crate) const fn new(block: &'a [u8]) -> Checked<'a> {
        Checked(Reader::new(block))
    }
}

impl<'a> Iterator for Checked<'a> {
    type Item = (u8, Value<'a>, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let before = self.0.rest();
        let id = self.0.varint().ok()? as u8;
        let value = value(&mut self.0, id).ok()?;
        Some((id, value, &before[..before.len() - self.0.rest().len()]))
    }
}

/// The user properties of a packet, in its order.
/// `[MQTT-3.3.2-18]`: user properties are forwarded in their order.
#[derive(Clone, Debug)]
pub struct UserProperties<'a>(Checked<'a>);

impl<'a> UserProperties<'a> {
    pub(crate) const fn new(block: &'a [u8]) -> UserProperties<'a> {
        UserProperties(Checked::new(block))
    }
}

impl<'a> Iterator for UserProperties<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.find_map(|(_, value, _)| if let Value::Pair(name, value) = value { Some((name, value)) } else { None })
    }
}
