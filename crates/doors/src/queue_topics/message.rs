//! A message of a queue as MQTT has it: its fields and attributes are properties.
//!
//! ```text
//!   id, ordering_key, priority, delay_ms, deliver_at_ms ─┐
//!   other user properties, content type, response topic, ├─▶ Message ─▶ key, attempts, and the same again
//!   correlation data, message expiry ────────────────────┘
//! ```
//!
//! The names of fields are those of HTTP. MQTT 3.1.1 has no properties: a message is its payload then.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use tidegate_broker::QueueRefusal;
use tidegate_machines::TimeMs;
use tidegate_queue::Received;
use tidegate_queue::machine::limits::{AHEAD_MS_MAX, ID_BYTES_MAX, MESSAGE_BYTES_MAX, PRIORITIES, PRIORITY_DEFAULT};
use tidegate_queue::machine::{Message, When};
use tidegate_wire::mqtt::{
    PublishProperties, check_topic, push_content_type, push_correlation_data, push_response_topic, push_user_property,
};

use super::refusal::{EXPIRED, ID_INVALID, NAME_TWICE, PRIORITY_INVALID, TIME_INVALID, TOO_LARGE, TOO_MANY};
use crate::queue_attributes::{ATTRIBUTES_MAX, QueueAttributeBody, QueueAttributes, read_attributes, write_attributes};

/// Attributes that MQTT has properties of its own for.
const CONTENT_TYPE: &str = "content_type";
const RESPONSE_TOPIC: &str = "response_topic";
const CORRELATION_DATA: &str = "correlation_data";
/// What a receiver is shown and a sender does not set: who sends on what it received need not take it out.
const KEY: &str = "key";
const ATTEMPTS: &str = "attempts";
/// How many attributes MQTT cannot show.
const LEFT_OUT: &str = "attributes_left_out";
/// Bytes of the longest text or binary of MQTT.
const FIELD_BYTES_MAX: usize = u16::MAX as usize;

/// What a publication sends. `properties` are encoded.
pub fn message_of(
    properties: &[u8],
    expires_at: Option<TimeMs>,
    payload: Box<[u8]>,
    now: TimeMs,
) -> Result<Message, QueueRefusal> {
    let properties = PublishProperties::read(properties).expect("the broker has decoded them");
    // Four bytes of seconds say up to 136 years, and some clients mean never by it.
    let latest = TimeMs(now.0.saturating_add(AHEAD_MS_MAX));
    if expires_at.is_some_and(|at| at <= now) {
        return Err(EXPIRED);
    }
    // By the time of the port, which is not that of the queue.
    let left = |at: TimeMs| When::After(at.0.saturating_sub(now.0));
    let expires_at = expires_at.filter(|at| *at < latest).map(left);
    let mut message = Message { priority: PRIORITY_DEFAULT, expires_at, body: payload, ..Message::default() };
    let mut attributes = QueueAttributes::new();
    for (name, value) in properties.user() {
        match name {
            "id" => set(&mut message.id, id_of(value)?)?,
            "ordering_key" => set(&mut message.ordering_key, id_of(value)?)?,
            "priority" => message.priority = priority_of(value)?,
            "delay_ms" => set_time(&mut message, When::After(number(value, TIME_INVALID)?), now)?,
            "deliver_at_ms" => set_time(&mut message, When::At(TimeMs(number(value, TIME_INVALID)?)), now)?,
            KEY | ATTEMPTS | LEFT_OUT => {}
            name => add(&mut attributes, name, "String", value.into())?,
        }
    }
    if let Some(content_type) = properties.content_type {
        add(&mut attributes, CONTENT_TYPE, "String", content_type.into())?;
    }
    if let Some(topic) = properties.response_topic {
        add(&mut attributes, RESPONSE_TOPIC, "String", topic.into())?;
    }
    if let Some(data) = properties.correlation_data {
        add(&mut attributes, CORRELATION_DATA, "Binary", BASE64.encode(data).into())?;
    }
    message.attributes = write_attributes(&attributes);
    if message.bytes() > MESSAGE_BYTES_MAX {
        return Err(TOO_LARGE);
    }
    Ok(message)
}

fn set(field: &mut Option<Box<str>>, value: Box<str>) -> Result<(), QueueRefusal> {
    match field.replace(value) {
        Some(_) => Err(NAME_TWICE),
        None => Ok(()),
    }
}

fn id_of(value: &str) -> Result<Box<str>, QueueRefusal> {
    let is_one = (1..=ID_BYTES_MAX).contains(&value.len()) && !value.chars().any(char::is_control);
    if is_one { Ok(value.into()) } else { Err(ID_INVALID) }
}

fn number(value: &str, otherwise: QueueRefusal) -> Result<u64, QueueRefusal> {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| is_number).ok_or(otherwise)
}

fn priority_of(value: &str) -> Result<u8, QueueRefusal> {
    let level = number(value, PRIORITY_INVALID)?;
    if level < PRIORITIES as u64 { Ok(level as u8) } else { Err(PRIORITY_INVALID) }
}

fn set_time(message: &mut Message, when: When, now: TimeMs) -> Result<(), QueueRefusal> {
    let ahead_ms = match when {
        When::At(at) => at.0.saturating_sub(now.0),
        When::After(ms) => ms,
    };
    match message.visible_at.replace(when) {
        None if ahead_ms <= AHEAD_MS_MAX => Ok(()),
        _ => Err(TIME_INVALID),
    }
}

fn add(attributes: &mut QueueAttributes, name: &str, kind: &str, value: Box<str>) -> Result<(), QueueRefusal> {
    let attribute = QueueAttributeBody::new(kind, value).expect("a text, and bytes in base64, may be an attribute");
    match attributes.insert(name.into(), attribute) {
        Some(_) => Err(NAME_TWICE),
        None if attributes.len() > ATTRIBUTES_MAX => Err(TOO_MANY),
        None => Ok(()),
    }
}

/// The properties with which a message is shown to a receiver, encoded.
pub fn properties_of(received: &Received) -> Box<[u8]> {
    let (lease, message) = (received.delivery.lease, &*received.message);
    let mut block = Vec::new();
    let mut user = |name: &str, value: &str| push_user_property(&mut block, name, value);
    user(KEY, &lease.key.to_string());
    user(ATTEMPTS, &received.attempts.to_string());
    for (name, value) in [("id", message.sender_id()), ("ordering_key", message.ordering_key.as_deref())] {
        value.into_iter().for_each(|value| user(name, value));
    }
    if message.priority != PRIORITY_DEFAULT {
        user("priority", &message.priority.to_string());
    }
    let mut left_out = 0;
    for (name, attribute) in read_attributes(&message.attributes) {
        left_out += u32::from(!show(&mut block, &name, &attribute));
    }
    if left_out > 0 {
        push_user_property(&mut block, LEFT_OUT, &left_out.to_string());
    }
    block.into()
}

/// Appends an attribute; false for one that MQTT cannot show: too long, with U+0000, or under a name that says
/// something else here.
fn show(block: &mut Vec<u8>, name: &str, attribute: &QueueAttributeBody) -> bool {
    let is_text = |text: &str| text.len() <= FIELD_BYTES_MAX && !text.contains('\0');
    let value = attribute.value();
    match (name, attribute.kind()) {
        (CONTENT_TYPE, "String") if is_text(value) => push_content_type(block, value),
        (RESPONSE_TOPIC, "String") if check_topic(value).is_ok() => push_response_topic(block, value),
        (CORRELATION_DATA, "Binary") => match attribute.binary().filter(|data| data.len() <= FIELD_BYTES_MAX) {
            Some(data) => push_correlation_data(block, &data),
            None => return false,
        },
        (KEY | ATTEMPTS | LEFT_OUT | "id" | "ordering_key" | "priority" | "delay_ms" | "deliver_at_ms", _) => {
            return false;
        }
        _ if is_text(name) && is_text(value) => push_user_property(block, name, value),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests;
