//! PUBLISH: an application message.

use crate::mqtt::fixed_header::open;
use crate::mqtt::property::{self, Checked, IdSet, UserProperties, Value, id};
use crate::mqtt::reader::Reader;
use crate::mqtt::{Malformed, QoS, ReasonCode, Version, check_topic};

/// A PUBLISH packet.
#[derive(Clone, Debug)]
pub struct Publish<'a> {
    /// Perhaps sent before.
    pub dup: bool,
    /// How surely it shall arrive.
    pub qos: QoS,
    /// Whether it is to be kept for later subscribers.
    pub retain: bool,
    /// Empty when a topic alias stands for it, which only MQTT 5 can; otherwise a valid topic name.
    pub topic: &'a str,
    /// Zero for QoS 0, never otherwise.
    /// `[MQTT-2.2.1-2]`: QoS 0 has no packet id.
    pub packet_id: u16,
    /// Any bytes, also none.
    pub payload: &'a [u8],
    /// None of them in MQTT 3.1.1.
    pub properties: PublishProperties<'a>,
}

/// The properties of a message, from a PUBLISH or a will.
#[derive(Clone, Copy, Debug, Default)]
pub struct PublishProperties<'a> {
    /// 0: bytes; 1: UTF-8, which is not checked.
    pub payload_format: Option<u8>,
    /// Seconds until the message is worth nothing.
    pub message_expiry_s: Option<u32>,
    /// Never zero.
    pub topic_alias: Option<u16>,
    /// Where an answer is expected; a valid topic name.
    pub response_topic: Option<&'a str>,
    /// What the answer must carry.
    pub correlation_data: Option<&'a [u8]>,
    /// What the payload is, in words of the application.
    pub content_type: Option<&'a str>,
    /// The block that was checked, without its length.
    block: &'a [u8],
    /// Whether the block holds what concerns this hop only.
    has_local: bool,
}

/// What may stand in a PUBLISH from a client: no subscription identifier, which is checked separately because its
/// reason code differs.
/// `[MQTT-3.3.4-6]`: a client sends no subscription identifiers in PUBLISH.
const PUBLISH: IdSet = IdSet::of(&[
    id::PAYLOAD_FORMAT,
    id::MESSAGE_EXPIRY,
    id::TOPIC_ALIAS,
    id::RESPONSE_TOPIC,
    id::CORRELATION_DATA,
    id::USER_PROPERTY,
    id::SUBSCRIPTION_ID,
    id::CONTENT_TYPE,
]);

const WILL: IdSet = IdSet::of(&[
    id::WILL_DELAY,
    id::PAYLOAD_FORMAT,
    id::MESSAGE_EXPIRY,
    id::CONTENT_TYPE,
    id::RESPONSE_TOPIC,
    id::CORRELATION_DATA,
    id::USER_PROPERTY,
]);

const FORWARDABLE: IdSet =
    IdSet::of(&[id::PAYLOAD_FORMAT, id::CONTENT_TYPE, id::RESPONSE_TOPIC, id::CORRELATION_DATA, id::USER_PROPERTY]);

const REPEATABLE: IdSet = IdSet::of(&[id::USER_PROPERTY, id::SUBSCRIPTION_ID]);

impl<'a> PublishProperties<'a> {
    /// Reads a block without its length, as [`PublishProperties::forwardable`] wrote it; refuses what that does not
    /// write.
    pub fn read(block: &'a [u8]) -> Result<PublishProperties<'a>, Malformed> {
        let mut properties = PublishProperties { block, ..PublishProperties::default() };
        property::walk(block, FORWARDABLE, REPEATABLE, |id, value| properties.set(id, value))?;
        Ok(properties)
    }

    #[inline]
    fn take(reader: &mut Reader<'a>, from_client: bool) -> Result<PublishProperties<'a>, Malformed> {
        let mut properties = PublishProperties::default();
        properties.block = property::take(reader, PUBLISH, REPEATABLE, |id, value| {
            if from_client && id == id::SUBSCRIPTION_ID {
                return Err(Malformed::protocol("MQTT-3.3.4-6", "PUBLISH of a client with a subscription identifier"));
            }
            properties.set(id, value)
        })?;
        Ok(properties)
    }

    /// A will's properties and its delay in seconds.
    pub(crate) fn take_will(reader: &mut Reader<'a>) -> Result<(PublishProperties<'a>, u32), Malformed> {
        let mut properties = PublishProperties::default();
        let mut delay_s = 0;
        properties.block = property::take(reader, WILL, property::USER, |id, value| match (id, value) {
            (id::WILL_DELAY, Value::Four(seconds)) => {
                delay_s = seconds;
                properties.has_local = true;
                Ok(())
            }
            _ => properties.set(id, value),
        })?;
        Ok((properties, delay_s))
    }

    fn set(&mut self, id: u8, value: Value<'a>) -> Result<(), Malformed> {
        match (id, value) {
            (id::PAYLOAD_FORMAT, Value::Byte(format)) => {
                if format > 1 {
                    return Err(Malformed::protocol("MQTT5 3.3.2.3.2", "payload format indicator other than 0 and 1"));
                }
                self.payload_format = Some(format);
            }
            (id::MESSAGE_EXPIRY, Value::Four(seconds)) => {
                self.message_expiry_s = Some(seconds);
                self.has_local = true;
            }
            (id::TOPIC_ALIAS, Value::Two(alias)) => {
                if alias == 0 {
                    return Err(Malformed::because(ReasonCode::TOPIC_ALIAS_INVALID, "MQTT-3.3.2-8", "topic alias 0"));
                }
                self.topic_alias = Some(alias);
                self.has_local = true;
            }
            (id::RESPONSE_TOPIC, Value::Text(topic)) => {
                check_topic(topic).map_err(|malformed| Malformed { statement: "MQTT-3.3.2-14", ..malformed })?;
                self.response_topic = Some(topic);
            }
            (id::CORRELATION_DATA, Value::Binary(data)) => self.correlation_data = Some(data),
            (id::CONTENT_TYPE, Value::Text(content)) => self.content_type = Some(content),
            (id::SUBSCRIPTION_ID, Value::Varint(subscription)) => {
                if subscription == 0 {
                    return Err(Malformed::protocol("MQTT5 3.3.2.3.8", "subscription identifier 0"));
                }
                self.has_local = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// The subscriptions that a message from a server came for.
    pub const fn subscription_ids(&self) -> SubscriptionIds<'a> {
        SubscriptionIds(Checked::new(self.block))
    }

    /// Names and values of the application.
    pub const fn user(&self) -> UserProperties<'a> {
        UserProperties::new(self.block)
    }

    /// Appends what goes on to subscribers unchanged and in order, without a length: all but topic alias, expiry,
    /// subscription identifiers and will delay.
    /// `[MQTT-3.3.2-4]`: Payload Format Indicator is forwarded unchanged.
    /// `[MQTT-3.3.2-15]`: the response topic is forwarded unchanged.
    /// `[MQTT-3.3.2-16]`: correlation data is forwarded unchanged.
    /// `[MQTT-3.3.2-17]`: user properties are forwarded unchanged.
    /// `[MQTT-3.3.2-18]`: user properties are forwarded in their order.
    /// `[MQTT-3.3.2-20]`: the content type is forwarded unchanged.
    #[inline]
    pub fn forwardable(&self, out: &mut Vec<u8>) {
        if !self.has_local {
            out.extend_from_slice(self.block);
            return;
        }
        for (id, _, bytes) in Checked::new(self.block) {
            if FORWARDABLE.has(id) {
                out.extend_from_slice(bytes);
            }
        }
    }
}

/// Iterates over subscription identifiers.
#[derive(Clone, Debug)]
pub struct SubscriptionIds<'a>(Checked<'a>);

impl Iterator for SubscriptionIds<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.0.find_map(|(id, value, _)| match (id, value) {
            (id::SUBSCRIPTION_ID, Value::Varint(subscription)) => Some(subscription),
            _ => None,
        })
    }
}

/// Decodes a PUBLISH. `from_client` says whose rules hold.
#[inline]
pub(crate) fn decode(packet: &[u8], version: Version, from_client: bool) -> Result<Publish<'_>, Malformed> {
    let (first, body) = open(packet, Some(version))?;
    // `open` refused QoS 3.
    let qos = QoS::of(first >> 1 & 3).ok_or(Malformed::packet("MQTT-3.3.1-4", "PUBLISH with QoS 3"))?;
    let mut reader = Reader::new(body);
    // The topic comes first.
    // [MQTT-3.3.2-1]: the topic is the first field and a UTF-8 string.
    let topic = reader.text()?;
    // QoS 0 has none.
    // [MQTT-2.2.1-2]: QoS 0 has no packet id.
    let packet_id = if qos == QoS::AtMostOnce { 0 } else { reader.packet_id()? };
    let properties = match version {
        Version::V5 => PublishProperties::take(&mut reader, from_client)?,
        Version::V311 => PublishProperties::default(),
    };
    if !topic.is_empty() || version == Version::V311 {
        check_topic(topic)?;
    } else if properties.topic_alias.is_none() {
        return Err(Malformed::protocol("MQTT5 3.3.2.1", "PUBLISH with neither a topic nor an alias"));
    }
    let payload = reader.rest();
    Ok(Publish { dup: first & 8 != 0, qos, retain: first & 1 != 0, topic, packet_id, payload, properties })
}
