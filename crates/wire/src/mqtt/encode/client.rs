//! Packets that only clients send, for load generators, the simulator and tests.

use super::{
    packet, properties, push_binary, push_binary_property, push_byte_property, push_text_property, push_u16_property,
    push_u32_property,
};
use crate::mqtt::fixed_header::{kind, push_varint};
use crate::mqtt::property::id;
use crate::mqtt::subscribe::option;
use crate::mqtt::{QoS, ReasonCode, Version};

/// The fields of a CONNECT. Properties are not written in MQTT 3.1.1; `None` means what MQTT 5 says it means.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectOut<'a> {
    /// Whether a session that there is shall be forgotten.
    pub clean_start: bool,
    /// Seconds; zero turns it off.
    pub keep_alive_s: u16,
    /// Empty: the server assigns one.
    pub client_id: &'a str,
    /// For when the client is lost.
    pub will: Option<WillOut<'a>>,
    /// The user name.
    pub user_name: Option<&'a str>,
    /// How it shows that. MQTT 3.1.1 wants a user name with it.
    pub password: Option<&'a [u8]>,
    /// How long the session outlives the connection.
    pub session_expiry_s: Option<u32>,
    /// How many QoS 1 and 2 messages the client takes at once.
    pub receive_maximum: Option<u16>,
    /// The longest packet that the client takes.
    pub packet_bytes_max: Option<u32>,
    /// How many topic aliases the client remembers.
    pub topic_alias_maximum: Option<u16>,
    /// Whether it wants response information.
    pub request_response_information: Option<bool>,
    /// Whether it wants reasons in words.
    pub request_problem_information: Option<bool>,
    /// Enhanced authentication: which.
    pub authentication_method: Option<&'a str>,
    /// Enhanced authentication: the first data.
    pub authentication_data: Option<&'a [u8]>,
    /// User properties, as [`super::push_user_property`] writes them.
    pub user: &'a [u8],
}

/// A will.
#[derive(Clone, Copy, Debug, Default)]
pub struct WillOut<'a> {
    /// A valid topic name.
    pub topic: &'a str,
    /// Any bytes.
    pub payload: &'a [u8],
    /// How surely it shall arrive.
    pub qos: QoS,
    /// Whether it is to be kept.
    pub retain: bool,
    /// How long the server waits whether the client comes back.
    pub delay_s: Option<u32>,
    /// When the message is worth nothing.
    pub message_expiry_s: Option<u32>,
    /// Encoded properties, as [`crate::mqtt::PublishProperties::forwardable`] writes them.
    pub properties: &'a [u8],
}

/// Appends a CONNECT.
pub fn encode_connect(out: &mut Vec<u8>, version: Version, connect: &ConnectOut<'_>) {
    let mut flags = u8::from(connect.clean_start) << 1;
    if let Some(will) = &connect.will {
        flags |= 0x04 | (will.qos as u8) << 3 | u8::from(will.retain) << 5;
    }
    flags |= u8::from(connect.password.is_some()) << 6 | u8::from(connect.user_name.is_some()) << 7;
    packet(out, kind::CONNECT << 4, |out| {
        push_binary(out, b"MQTT");
        out.extend_from_slice(&[if version == Version::V5 { 5 } else { 4 }, flags]);
        out.extend_from_slice(&connect.keep_alive_s.to_be_bytes());
        if version == Version::V5 {
            properties(out, |out| connect.push_properties(out));
        }
        push_binary(out, connect.client_id.as_bytes());
        if let Some(will) = &connect.will {
            if version == Version::V5 {
                properties(out, |out| {
                    push_u32_property(out, id::WILL_DELAY, will.delay_s);
                    push_u32_property(out, id::MESSAGE_EXPIRY, will.message_expiry_s);
                    out.extend_from_slice(will.properties);
                });
            }
            push_binary(out, will.topic.as_bytes());
            push_binary(out, will.payload);
        }
        if let Some(user_name) = connect.user_name {
            push_binary(out, user_name.as_bytes());
        }
        if let Some(password) = connect.password {
            push_binary(out, password);
        }
    });
}

impl ConnectOut<'_> {
    fn push_properties(&self, out: &mut Vec<u8>) {
        push_u32_property(out, id::SESSION_EXPIRY, self.session_expiry_s);
        push_u16_property(out, id::RECEIVE_MAXIMUM, self.receive_maximum);
        push_u32_property(out, id::MAXIMUM_PACKET_SIZE, self.packet_bytes_max);
        push_u16_property(out, id::TOPIC_ALIAS_MAXIMUM, self.topic_alias_maximum);
        push_byte_property(out, id::REQUEST_RESPONSE_INFORMATION, self.request_response_information.map(u8::from));
        push_byte_property(out, id::REQUEST_PROBLEM_INFORMATION, self.request_problem_information.map(u8::from));
        push_text_property(out, id::AUTHENTICATION_METHOD, self.authentication_method);
        push_binary_property(out, id::AUTHENTICATION_DATA, self.authentication_data);
        out.extend_from_slice(self.user);
    }
}

/// A subscription of a SUBSCRIBE; MQTT 3.1.1 has filter and QoS only.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubscriptionOut<'a> {
    /// A valid filter.
    pub filter: &'a str,
    /// The highest QoS wanted.
    pub qos: QoS,
    /// Not what this client published itself.
    pub no_local: bool,
    /// Keep the retain flag.
    pub retain_as_published: bool,
    /// 0 always, 1 if new, 2 never.
    pub retain_handling: u8,
}

/// Appends a SUBSCRIBE.
pub fn encode_subscribe(
    out: &mut Vec<u8>,
    version: Version,
    packet_id: u16,
    subscription_id: Option<u32>,
    subscriptions: &[SubscriptionOut<'_>],
) {
    packet(out, kind::SUBSCRIBE << 4 | 2, |out| {
        out.extend_from_slice(&packet_id.to_be_bytes());
        if version == Version::V5 {
            properties(out, |out| {
                if let Some(subscription_id) = subscription_id {
                    out.push(id::SUBSCRIPTION_ID);
                    push_varint(out, subscription_id as usize);
                }
            });
        }
        for subscription in subscriptions {
            push_binary(out, subscription.filter.as_bytes());
            let mut options = subscription.qos as u8;
            if version == Version::V5 {
                options |= u8::from(subscription.no_local) * option::NO_LOCAL;
                options |= u8::from(subscription.retain_as_published) * option::RETAIN_AS_PUBLISHED;
                options |= subscription.retain_handling << 4 & option::RETAIN_HANDLING;
            }
            out.push(options);
        }
    });
}

/// Appends an UNSUBSCRIBE.
pub fn encode_unsubscribe(out: &mut Vec<u8>, version: Version, packet_id: u16, filters: &[&str]) {
    packet(out, kind::UNSUBSCRIBE << 4 | 2, |out| {
        out.extend_from_slice(&packet_id.to_be_bytes());
        if version == Version::V5 {
            properties(out, |_| {});
        }
        for filter in filters {
            push_binary(out, filter.as_bytes());
        }
    });
}

/// Appends a PINGREQ.
pub fn encode_pingreq(out: &mut Vec<u8>) {
    out.extend_from_slice(&[kind::PINGREQ << 4, 0]);
}

/// Appends an AUTH, which only MQTT 5 has.
pub fn encode_auth(out: &mut Vec<u8>, reason: ReasonCode, method: &str, data: Option<&[u8]>) {
    packet(out, kind::AUTH << 4, |out| {
        out.push(reason.0);
        properties(out, |out| {
            push_text_property(out, id::AUTHENTICATION_METHOD, Some(method));
            push_binary_property(out, id::AUTHENTICATION_DATA, data);
        });
    });
}
