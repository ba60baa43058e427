//! Attributes of a queue's message: what its sender says beside the body, by name. All doors keep them in one form, so
//! that each shows what came through another.
//!
//! ```text
//!   {"lang": "en", "tries": {"type": "Number", "value": "4"}, "key": {"type": "Binary.aes", "value": "3q2+7w=="}}
//!     ▲ a text      ▲ anything else; the value of a binary one is in base64
//! ```
//!
//! Promise: what was written before there were types, and what a later version adds to an attribute, is read.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// Attributes of a message, at most. Reading one costs more than its bytes do, and all who speak HTTP wait for it.
pub const ATTRIBUTES_MAX: usize = 64;

/// Characters of the longest type, as in SQS.
const TYPE_CHARS_MAX: usize = 256;

/// What a message says under one name: a text, or a value with its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum QueueAttributeBody {
    /// A text.
    #[schema(value_type = String)]
    Text(Box<str>),
    /// A value of another type.
    Typed(QueueTypedAttributeBody),
}

/// A value with its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueTypedAttributeBody {
    /// `String`, `Number` or `Binary`, and perhaps a dot and a word of the sender's.
    #[serde(rename = "type")]
    #[schema(value_type = String, example = "Number")]
    kind: Box<str>,
    /// The value as text; of a binary one, in base64.
    #[schema(value_type = String, example = "4711")]
    value: Box<str>,
}

/// The attributes of a message, by name.
pub type QueueAttributes = BTreeMap<Box<str>, QueueAttributeBody>;

impl QueueAttributeBody {
    /// An attribute of such a type; `value` is in base64 if the type is binary.
    pub fn new(kind: &str, value: Box<str>) -> Result<QueueAttributeBody, &'static str> {
        check(kind, &value)?;
        Ok(match kind {
            "String" => QueueAttributeBody::Text(value),
            _ => QueueAttributeBody::Typed(QueueTypedAttributeBody { kind: kind.into(), value }),
        })
    }

    /// Whether it is one that may be kept.
    pub fn check(&self) -> Result<(), &'static str> {
        check(self.kind(), self.value())
    }

    /// Its type.
    pub fn kind(&self) -> &str {
        match self {
            QueueAttributeBody::Text(_) => "String",
            QueueAttributeBody::Typed(typed) => &typed.kind,
        }
    }

    /// Its value; of a binary one, in base64.
    pub fn value(&self) -> &str {
        match self {
            QueueAttributeBody::Text(value) => value,
            QueueAttributeBody::Typed(typed) => &typed.value,
        }
    }

    /// The bytes of a binary one.
    pub fn binary(&self) -> Option<Vec<u8>> {
        is_binary(self.kind()).then(|| BASE64.decode(self.value()).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for QueueAttributeBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AttributeVisitor;
        impl<'de> Visitor<'de> for AttributeVisitor {
            type Value = QueueAttributeBody;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or an object with `type` and `value`, which are texts")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<QueueAttributeBody, E> {
                Ok(QueueAttributeBody::Text(text.into()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<QueueAttributeBody, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(QueueAttributeBody::Typed)
            }
        }
        deserializer.deserialize_any(AttributeVisitor)
    }
}

/// Reads what a client says to be the attributes of a message; no more of them than there may be.
pub fn given_attributes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<QueueAttributes, D::Error> {
    struct AttributesVisitor;
    impl<'de> Visitor<'de> for AttributesVisitor {
        type Value = QueueAttributes;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object with the attributes of a message, by name")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<QueueAttributes, A::Error> {
            let mut attributes = QueueAttributes::new();
            while let Some((name, attribute)) = map.next_entry()? {
                if attributes.len() == ATTRIBUTES_MAX {
                    return Err(A::Error::custom(format!("a message has at most {ATTRIBUTES_MAX} attributes")));
                }
                attributes.insert(name, attribute);
            }
            Ok(attributes)
        }
    }
    deserializer.deserialize_map(AttributesVisitor)
}

fn is_binary(kind: &str) -> bool {
    kind == "Binary" || kind.starts_with("Binary.")
}

fn check(kind: &str, value: &str) -> Result<(), &'static str> {
    let (base, label) = kind.split_once('.').map_or((kind, None), |(base, label)| (base, Some(label)));
    let is_known = matches!(base, "String" | "Number" | "Binary") && label != Some("");
    if !is_known || kind.chars().count() > TYPE_CHARS_MAX || kind.chars().any(char::is_control) {
        return Err("its type is String, Number or Binary, and perhaps a dot and a word: at most 256 characters");
    }
    if is_binary(kind) && BASE64.decode(value).is_err() {
        return Err("the value of a binary attribute is in base64");
    }
    Ok(())
}

/// Attributes as the log has them; nothing if there are none.
pub fn write_attributes(attributes: &QueueAttributes) -> Box<[u8]> {
    match attributes.is_empty() {
        true => Box::default(),
        false => serde_json::to_vec(attributes).expect("names and texts are JSON").into(),
    }
}

/// Reads what [`write_attributes`] wrote. What is no attribute to this version is left out.
pub fn read_attributes(bytes: &[u8]) -> QueueAttributes {
    let named: Named = serde_json::from_slice(bytes).unwrap_or_default();
    let known = |(name, value)| Some((name, serde_json::from_value::<QueueAttributeBody>(value).ok()?));
    named.into_iter().filter_map(known).collect()
}

/// What stands there by name, whatever it is.
type Named = BTreeMap<Box<str>, serde_json::Value>;

/// Whether [`read_attributes`] finds attributes there, if there are any bytes.
pub fn is_object_or_nothing(bytes: &[u8]) -> bool {
    bytes.is_empty() || serde_json::from_slice::<Named>(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let mut attributes = QueueAttributes::new();
        attributes.insert("lang".into(), QueueAttributeBody::new("String", "en".into()).unwrap());
        attributes.insert("tries".into(), QueueAttributeBody::new("Number.int", "4".into()).unwrap());
        attributes.insert("key".into(), QueueAttributeBody::new("Binary", "3q2+7w==".into()).unwrap());
        let bytes = write_attributes(&attributes);
        assert_eq!(
            std::str::from_utf8(&bytes).unwrap(),
            r#"{"key":{"type":"Binary","value":"3q2+7w=="},"lang":"en","tries":{"type":"Number.int","value":"4"}}"#
        );
        assert_eq!(read_attributes(&bytes), attributes);
        assert_eq!(attributes["key"].binary(), Some(vec![0xde, 0xad, 0xbe, 0xef]));
        assert_eq!(write_attributes(&QueueAttributes::new()).len(), 0);
    }

    #[test]
    fn bytes_that_are_no_object_are_seen() {
        for good in ["", "{}", r#"{"a":"1"}"#, r#" {"a":{"type":"Number","value":"1"},"of a later version":[1]} "#] {
            assert!(is_object_or_nothing(good.as_bytes()), "{good}");
        }
        for bad in ["x", "[]", "1", "{", r#"{"a"}"#, r#"{"a":1}}"#, "{\"\u{0}\":1}", " "] {
            assert!(!is_object_or_nothing(bad.as_bytes()), "{bad}");
        }
        // What would be read as no attributes at all.
        let deep = format!("{{\"to\":\"a\",\"x\":{}1{}}}", "[".repeat(200), "]".repeat(200));
        for bad in [&b"{\"\xff\":1}"[..], b"{\"x\":\"\xff\"}", br#"{"x":"\ud800"}"#, br#"{"x":1e999}"#, deep.as_bytes()]
        {
            assert!(!is_object_or_nothing(bad) && read_attributes(bad).is_empty(), "{bad:?}");
        }
    }

    #[test]
    fn what_other_versions_write_is_read_as_far_as_it_is_known() {
        let read = |text: &str| read_attributes(text.as_bytes());
        assert_eq!(read(r#"{"a":"1"}"#)["a"].value(), "1");
        let more = read(r#"{"a":{"type":"Number","value":"1","unit":"s"},"b":[1],"c":7}"#);
        assert_eq!((more.len(), more["a"].kind(), more["a"].value()), (1, "Number", "1"));
        assert!(read("").is_empty() && read("[]").is_empty() && read("\u{0}").is_empty());
    }

    #[test]
    fn what_is_no_attribute_is_refused() {
        for (kind, value) in [("", "a"), ("Text", "a"), ("String.", "a"), ("Binary", "not base64"), ("Binary.x", "=")] {
            assert!(QueueAttributeBody::new(kind, value.into()).is_err(), "{kind} {value}");
        }
        for (kind, value) in [("String", ""), ("String.a.b", "x"), ("Number", "1e5"), ("Binary", "")] {
            assert!(QueueAttributeBody::new(kind, value.into()).is_ok(), "{kind} {value}");
        }
    }
}
