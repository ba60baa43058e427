//! Encodes PUBLISH: once per version and QoS, then patched for each subscriber.

use super::push_binary;
use crate::mqtt::fixed_header::{kind, push_varint, varint_width};
use crate::mqtt::property::id;
use crate::mqtt::{QoS, Version};

/// The fields of a PUBLISH.
#[derive(Clone, Copy, Debug, Default)]
pub struct PublishOut<'a> {
    /// Perhaps sent before; never with QoS 0.
    /// `[MQTT-3.3.1-2]`: QoS 0 never has DUP set.
    pub dup: bool,
    /// How surely it shall arrive.
    pub qos: QoS,
    /// Whether it was (or is to be) retained.
    pub retain: bool,
    /// A valid topic name; empty when `topic_alias` stands for it.
    pub topic: &'a str,
    /// Not written for QoS 0. Zero is a place to be patched.
    /// `[MQTT-2.2.1-2]`: QoS 0 has no packet id.
    pub packet_id: u16,
    /// Not written in MQTT 3.1.1, like all that follows but the payload.
    pub topic_alias: Option<u16>,
    /// Seconds that are left.
    pub message_expiry_s: Option<u32>,
    /// The subscriptions that it is for.
    pub subscription_ids: &'a [u32],
    /// Encoded properties, as [`crate::mqtt::PublishProperties::forwardable`] writes them.
    pub properties: &'a [u8],
    /// Any bytes.
    pub payload: &'a [u8],
}

/// Where things stand in a PUBLISH that was encoded, counted from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedPublish {
    /// The packet id's two bytes, big endian; `None` for QoS 0.
    pub packet_id_at: Option<usize>,
    /// The whole packet's length.
    pub len: usize,
}

/// Appends a PUBLISH.
///
/// # Panics
/// When the topic is longer than 65,535 bytes or the packet longer than [`crate::mqtt::PACKET_BYTES_MAX`].
#[inline]
pub fn encode_publish(out: &mut Vec<u8>, version: Version, publish: &PublishOut<'_>) -> EncodedPublish {
    let start = out.len();
    let has_id = publish.qos != QoS::AtMostOnce;
    let mut properties_bytes = 0;
    let mut remaining = 2 + publish.topic.len() + 2 * usize::from(has_id) + publish.payload.len();
    if version == Version::V5 {
        properties_bytes = publish.properties_bytes();
        // A length beyond four bytes panics below, in `push_varint`.
        remaining += varint_width(properties_bytes.min(u32::MAX as usize) as u32) + properties_bytes;
    }
    out.reserve(5 + remaining);
    let dup = publish.dup && has_id;
    out.push(kind::PUBLISH << 4 | u8::from(dup) << 3 | (publish.qos as u8) << 1 | u8::from(publish.retain));
    push_varint(out, remaining);
    push_binary(out, publish.topic.as_bytes());
    let packet_id_at = has_id.then(|| {
        out.extend_from_slice(&publish.packet_id.to_be_bytes());
        out.len() - 2 - start
    });
    if version == Version::V5 {
        push_varint(out, properties_bytes);
        publish.push_properties(out);
    }
    out.extend_from_slice(publish.payload);
    EncodedPublish { packet_id_at, len: out.len() - start }
}

impl PublishOut<'_> {
    fn properties_bytes(&self) -> usize {
        let alias = if self.topic_alias.is_some() { 3 } else { 0 };
        let expiry = if self.message_expiry_s.is_some() { 5 } else { 0 };
        let ids: usize = self.subscription_ids.iter().map(|&subscription| 1 + varint_width(subscription)).sum();
        alias + expiry + ids + self.properties.len()
    }

    fn push_properties(&self, out: &mut Vec<u8>) {
        super::push_u16_property(out, id::TOPIC_ALIAS, self.topic_alias);
        super::push_u32_property(out, id::MESSAGE_EXPIRY, self.message_expiry_s);
        for &subscription in self.subscription_ids {
            out.push(id::SUBSCRIPTION_ID);
            push_varint(out, subscription as usize);
        }
        out.extend_from_slice(self.properties);
    }
}

/// Appends a response topic to a block of encoded properties.
///
/// # Panics
/// When it is longer than 65,535 bytes.
pub fn push_response_topic(block: &mut Vec<u8>, topic: &str) {
    block.push(id::RESPONSE_TOPIC);
    push_binary(block, topic.as_bytes());
}

/// Appends correlation data to a block of encoded properties.
///
/// # Panics
/// When they are longer than 65,535 bytes.
pub fn push_correlation_data(block: &mut Vec<u8>, data: &[u8]) {
    block.push(id::CORRELATION_DATA);
    push_binary(block, data);
}

/// Appends a content type to a block of encoded properties.
///
/// # Panics
/// When it is longer than 65,535 bytes.
pub fn push_content_type(block: &mut Vec<u8>, content_type: &str) {
    block.push(id::CONTENT_TYPE);
    push_binary(block, content_type.as_bytes());
}

/// Appends a user property to a block of encoded properties.
///
/// # Panics
/// When one of the texts is longer than 65,535 bytes.
pub fn push_user_property(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(id::USER_PROPERTY);
    push_binary(block, name.as_bytes());
    push_binary(block, value.as_bytes());
}
