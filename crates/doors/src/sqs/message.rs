//! A message as SQS has it, and as it is here.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_machines::TimeMs;
use tidegate_queue::machine::limits::{PRIORITIES, PRIORITY_DEFAULT};
use tidegate_queue::machine::{Message, MessageKey};

use super::Done;
use super::error::AwsError;
use crate::queue_attributes::{QueueAttributeBody, QueueAttributes, read_attributes};

/// Attributes of one message, as in SQS.
const ATTRIBUTES_MAX: usize = 10;
/// Characters of an attribute's name.
const NAME_CHARS_MAX: usize = 256;
/// What the names of attributes begin with that say what SQS cannot say.
const OWN_PREFIX: &str = "Tidegate.";

/// An attribute as a request has it.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub struct AttributeBody {
    data_type: Option<Box<str>>,
    string_value: Option<Box<str>>,
    binary_value: Option<Box<str>>,
}

/// Attributes as a request has them.
pub type Given = BTreeMap<Box<str>, AttributeBody>;

/// What a sender says by attributes that is no attribute here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// The level.
    pub priority: u8,
    /// When it is delivered.
    pub deliver_at: Option<TimeMs>,
    /// When it is dropped.
    pub expires_at: Option<TimeMs>,
}

/// The attributes that are given.
pub fn attributes_of(given: Given) -> Done<QueueAttributes> {
    if given.len() > ATTRIBUTES_MAX {
        return Err(AwsError::parameter("MessageAttributes", format!("a message has at most {ATTRIBUTES_MAX}")));
    }
    let attribute = |(name, given): (Box<str>, AttributeBody)| {
        let wrong = |what: &str| AwsError::parameter("MessageAttributes", format!("{name:?}: {what}"));
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.bytes().all(is_letter) {
            return Err(wrong("a name has 1 to 256 letters, digits and characters of \"-_.\""));
        }
        let kind = given.data_type.ok_or_else(|| wrong("DataType is missing"))?;
        let value = match kind.starts_with("Binary") {
            true => given.binary_value.ok_or_else(|| wrong("BinaryValue is missing"))?,
            false => given.string_value.ok_or_else(|| wrong("StringValue is missing"))?,
        };
        if value.is_empty() {
            return Err(wrong("a value is not empty"));
        }
        Ok((name.clone(), QueueAttributeBody::new(&kind, value).map_err(wrong)?))
    };
    given.into_iter().map(attribute).collect()
}

/// Takes out of the attributes what is none here.
pub fn take_own(attributes: &mut QueueAttributes) -> Done<Own> {
    let mut own = Own { priority: PRIORITY_DEFAULT, deliver_at: None, expires_at: None };
    let names: Vec<Box<str>> = attributes.keys().filter(|name| name.starts_with(OWN_PREFIX)).cloned().collect();
    for name in names {
        let attribute = attributes.remove(&name).expect("it was there just now");
        let wrong = |what: &str| AwsError::parameter("MessageAttributes", format!("{name}: {what}"));
        let number = || attribute.value().parse::<u64>().map_err(|_| wrong("expected a whole number"));
        let time = || Ok::<_, AwsError>(Some(TimeMs(number()?.min(u64::MAX - 1))));
        match &name[OWN_PREFIX.len()..] {
            "Priority" => match number()? {
                level if level < PRIORITIES as u64 => own.priority = level as u8,
                _ => return Err(wrong("expected 0 to 9")),
            },
            "DeliverAt" => own.deliver_at = time()?,
            "ExpiresAt" => own.expires_at = time()?,
            // What a receiver was shown, and sends on.
            "Key" | "BodyEncoding" => {}
            _ => return Err(wrong("there are Tidegate.Priority, Tidegate.DeliverAt and Tidegate.ExpiresAt")),
        }
    }
    Ok(own)
}

/// The body as text: SQS has no other. Bytes that are none are in base64, and an attribute says so.
pub fn body_of(message: &Message) -> (String, bool) {
    match std::str::from_utf8(&message.body) {
        Ok(text) => (text.to_owned(), true),
        Err(_) => (BASE64.encode(&message.body), false),
    }
}

/// Those attributes of a message that are asked for by `wanted`: names, beginnings such as `order.*`, or `All`. What
/// begins with `Tidegate.` is shown to who asks for that, so that others get back what was sent.
pub fn chosen(message: &Message, key: MessageKey, is_text: bool, wanted: &[Box<str>]) -> QueueAttributes {
    let is_wanted = |name: &str| {
        wanted.iter().any(|wanted| match wanted.strip_suffix(".*") {
            Some(beginning) => name.starts_with(beginning),
            None => **wanted == *name || &**wanted == "All",
        })
    };
    let mut chosen = read_attributes(&message.attributes);
    // What a sender says under such a name, at another door, is not what the server says.
    chosen.retain(|name, _| is_wanted(name) && !name.starts_with(OWN_PREFIX));
    let mut add = |name: &str, kind: &str, value: String| {
        let attribute = QueueAttributeBody::new(kind, value.into()).expect("a text or number may be an attribute");
        chosen.insert(name.into(), attribute);
    };
    let is_own_wanted = |name: &str| wanted.iter().any(|wanted| wanted.starts_with(OWN_PREFIX)) && is_wanted(name);
    if is_own_wanted("Tidegate.Key") {
        add("Tidegate.Key", "String", key.to_string());
    }
    if is_own_wanted("Tidegate.Priority") {
        add("Tidegate.Priority", "Number", message.priority.to_string());
    }
    if !is_text {
        add("Tidegate.BodyEncoding", "String", "base64".to_owned());
    }
    chosen
}

/// Attributes as answers have them.
pub fn shown(attributes: &QueueAttributes) -> Value {
    let one = |attribute: &QueueAttributeBody| {
        let field = if attribute.binary().is_some() { "BinaryValue" } else { "StringValue" };
        json!({ "DataType": attribute.kind(), field: attribute.value() })
    };
    attributes.iter().map(|(name, attribute)| (name.to_string(), one(attribute))).collect()
}
