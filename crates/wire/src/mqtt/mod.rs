//! MQTT 3.1.1 and MQTT 5 packets: bytes to borrowed packets and back, and the grammar of topics. No session, no socket,
//! no clock.
//!
//! ```text
//!   bytes ─▶ split ─▶ decode_connect ─▶ Connect ─┐ the first packet gives the version of all others
//!                  └▶ decode_client ──▶ Packet ──┴▶ (broker)           the server's way in
//!   bytes ◀─ encode::{connack, publish, ack, ...} ◀─ (broker)          the server's way out
//!   bytes ─▶ split ─▶ decode_server ──▶ Packet ───▶ (load generator, simulator, tests)
//!   bytes ◀─ encode::{connect, subscribe, ...} ◀──  (load generator, simulator, tests)
//! ```
//!
//! Promises: errors of a packet that can be seen without knowing the session are refused here, as [`Malformed`]: the
//! MQTT 5 reason code, the normative statement and a text. A decoded packet is valid and borrows from the bytes without
//! a copy. No decoder allocates or panics, and each takes time linear in the bytes given. An encoder only appends.
//!
//! Why our own: a broker's inner loop decodes a packet of some fifty bytes and writes a thousand of them, and the
//! codecs on crates.io copy payloads, allocate properties, or do not report which statement was violated.
//! `docs/formats/mqtt.md` lists bounds and statements.
//!
//! A statement is cited by its number in MQTT 5 and with what it demands; as `MQTT-3.1.1 3.1.3-8` if only MQTT 3.1.1
//! has it.

mod ack;
mod auth;
mod connack;
mod connect;
mod disconnect;
pub mod encode;
mod error;
mod fixed_header;
mod packet;
mod property;
mod publish;
mod reader;
mod reason;
mod subscribe;
pub mod topic;

#[cfg(test)]
mod tests;

pub use ack::{Ack, AckKind};
pub use auth::Auth;
pub use connack::ConnAck;
pub use connect::{Connect, Will, decode_connect};
pub use disconnect::Disconnect;
pub use encode::{
    ConnAckOut, ConnectOut, EncodedPublish, PublishOut, SubscriptionOut, WillOut, encode_ack, encode_auth,
    encode_connack, encode_connect, encode_disconnect, encode_pingreq, encode_pingresp, encode_publish, encode_suback,
    encode_subscribe, encode_unsuback, encode_unsubscribe, push_content_type, push_correlation_data,
    push_response_topic, push_user_property,
};
pub use error::{ConnectError, Malformed};
pub use fixed_header::{PACKET_BYTES_MAX, REMAINING_LENGTH_MAX, Split, announced_bytes, split};
pub use packet::{Packet, decode_client, decode_client_again, decode_server};
pub use property::UserProperties;
pub use publish::{Publish, PublishProperties, SubscriptionIds};
pub use reason::ReasonCode;
pub use subscribe::{Filters, SubAck, Subscribe, Subscription, Subscriptions, UnsubAck, Unsubscribe};
pub use topic::{Filter, QUEUE_GROUP, check_filter, check_topic, filter_covers, filter_matches, split_filter};

/// Which of the two texts a connection speaks. Its CONNECT says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// MQTT 3.1.1, protocol level 4.
    V311,
    /// MQTT 5, protocol version 5.
    V5,
}

/// How surely a message arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QoS {
    /// QoS 0: perhaps.
    #[default]
    AtMostOnce = 0,
    /// QoS 1: perhaps twice.
    AtLeastOnce = 1,
    /// QoS 2: once.
    ExactlyOnce = 2,
}

impl QoS {
    /// The QoS of two bits; `None` for 3, which no packet may carry.
    #[inline]
    pub const fn of(bits: u8) -> Option<QoS> {
        match bits {
            0 => Some(QoS::AtMostOnce),
            1 => Some(QoS::AtLeastOnce),
            2 => Some(QoS::ExactlyOnce),
            _ => None,
        }
    }
}
