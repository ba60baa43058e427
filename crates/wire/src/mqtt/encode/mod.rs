//! Encodes packets. Each encoder appends one whole packet to a buffer that may hold others.
//!
//! The frequent packets (PUBLISH, acknowledgements) know their lengths beforehand. The others are written with one byte
//! for each length, which is widened if it does not suffice.
//!
//! A string longer than 65,535 bytes or a packet longer than [`crate::mqtt::PACKET_BYTES_MAX`] cannot be encoded:
//! encoders panic, since the caller should have refused it.

mod client;
mod publish;
mod server;

pub use client::{
    ConnectOut, SubscriptionOut, WillOut, encode_auth, encode_connect, encode_pingreq, encode_subscribe,
    encode_unsubscribe,
};
pub use publish::{
    EncodedPublish, PublishOut, encode_publish, push_content_type, push_correlation_data, push_response_topic,
    push_user_property,
};
pub use server::{ConnAckOut, encode_connack, encode_pingresp, encode_suback, encode_unsuback};

use crate::mqtt::fixed_header::{kind, push_varint};
use crate::mqtt::property::id;
use crate::mqtt::{AckKind, ReasonCode, Version};

/// Appends one of the four acknowledgements. MQTT 3.1.1 has neither reason nor text. Whether a client wants the text
/// and takes so long a packet is for the caller to know.
/// `[MQTT-3.1.2-29]`: with Request Problem Information 0, reason strings and user properties only on PUBLISH, CONNACK
/// and DISCONNECT.
#[inline]
pub fn encode_ack(
    out: &mut Vec<u8>,
    version: Version,
    kind: AckKind,
    packet_id: u16,
    reason: ReasonCode,
    reason_string: Option<&str>,
) {
    let [high, low] = packet_id.to_be_bytes();
    if version == Version::V311 || (reason == ReasonCode::SUCCESS && reason_string.is_none()) {
        out.extend_from_slice(&[kind.first_byte(), 2, high, low]);
    } else if reason_string.is_none() {
        out.extend_from_slice(&[kind.first_byte(), 3, high, low, reason.0]);
    } else {
        packet(out, kind.first_byte(), |out| {
            out.extend_from_slice(&[high, low, reason.0]);
            properties(out, |out| push_text_property(out, id::REASON_STRING, reason_string));
        });
    }
}

/// Appends a DISCONNECT. A client's MQTT 3.1.1 one says nothing but itself; a server of MQTT 3.1.1 has none and must
/// not call this. A session expiry is for clients only, a server reference for servers only.
pub fn encode_disconnect(
    out: &mut Vec<u8>,
    version: Version,
    reason: ReasonCode,
    session_expiry_s: Option<u32>,
    reason_string: Option<&str>,
    server_reference: Option<&str>,
) {
    packet(out, kind::DISCONNECT << 4, |out| {
        let plain = session_expiry_s.is_none() && reason_string.is_none() && server_reference.is_none();
        if version == Version::V311 || (plain && reason == ReasonCode::NORMAL_DISCONNECTION) {
            return;
        }
        out.push(reason.0);
        if plain {
            return;
        }
        properties(out, |out| {
            push_u32_property(out, id::SESSION_EXPIRY, session_expiry_s);
            push_text_property(out, id::REASON_STRING, reason_string);
            push_text_property(out, id::SERVER_REFERENCE, server_reference);
        });
    });
}

/// Appends a packet whose body `write` appends.
fn packet(out: &mut Vec<u8>, first_byte: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(first_byte);
    counted(out, write);
}

/// Appends a block of properties.
fn properties(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    counted(out, write);
}

/// Appends what `write` appends, with its length in front.
fn counted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.push(0);
    write(out);
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
    } else {
        // Long bodies are rare among these packets. The length goes behind, and is turned to the front.
        let content_end = out.len();
        push_varint(out, length);
        let width = out.len() - content_end;
        out[start + 1..].rotate_right(width);
        out.remove(start);
    }
}

/// Appends a text or binary data with its length.
#[inline]
fn push_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("a field has at most 65,535 bytes");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

fn push_text_property(out: &mut Vec<u8>, id: u8, text: Option<&str>) {
    push_binary_property(out, id, text.map(str::as_bytes));
}

fn push_binary_property(out: &mut Vec<u8>, id: u8, bytes: Option<&[u8]>) {
    if let Some(bytes) = bytes {
        out.push(id);
        push_binary(out, bytes);
    }
}

fn push_byte_property(out: &mut Vec<u8>, id: u8, value: Option<u8>) {
    if let Some(value) = value {
        out.extend_from_slice(&[id, value]);
    }
}

fn push_u16_property(out: &mut Vec<u8>, id: u8, value: Option<u16>) {
    if let Some(value) = value {
        out.push(id);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

fn push_u32_property(out: &mut Vec<u8>, id: u8, value: Option<u32>) {
    if let Some(value) = value {
        out.push(id);
        out.extend_from_slice(&value.to_be_bytes());
    }
}
