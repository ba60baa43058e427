//! Decodes JSON into requests that borrow from the body. Nothing is guessed: amounts are integers, and unknown fields
//! are errors. An error names the field that is wrong.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Unexpected, Visitor};
use serde_json::error::Category;

use super::codes;
use super::problem::Problem;

/// Decodes a body, which must be a JSON object.
pub fn decode<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    // Looking once whether it is UTF-8 costs less than looking at each string. One that is not is read as before: what
    // nobody reads of it may be anything.
    let decoded = match std::str::from_utf8(body) {
        Ok(text) => serde_json::from_str::<Object<T>>(text),
        Err(_) => serde_json::from_slice::<Object<T>>(body),
    };
    match decoded {
        Ok(object) => Ok(object.0),
        Err(error) => Err(explain::<T>(body, &error)),
    }
}

/// Whether a body is a JSON object that has this field: which of two forms it is. Reads all of it.
pub fn is_object_with(body: &[u8], field: &str) -> bool {
    let fields = serde_json::from_slice::<BTreeMap<Cow<'_, str>, de::IgnoredAny>>(body);
    fields.is_ok_and(|fields| fields.contains_key(field))
}

/// Decodes again, now with the path to each field: slower, and only for requests that fail anyway.
fn explain<'a, T: Deserialize<'a>>(body: &'a [u8], error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    if error.classify() != Category::Data {
        let detail = match body.trim_ascii() {
            b"" => "the body is empty; expected a JSON object".to_owned(),
            _ => format!("the body is not JSON: {error}"),
        };
        return Problem::new(codes::JSON_INVALID, detail).with("line", line).with("column", column);
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let found = serde_path_to_error::deserialize::<_, Object<T>>(&mut reader).err();
    let path = found.map(|found| found.path().to_string()).filter(|path| path != ".");
    let said = error.to_string();
    // A missing field is reported where its object is.
    if let Some((field, _)) = said.strip_prefix("missing field `").and_then(|rest| rest.split_once('`')) {
        return Problem::missing_field(path.as_deref(), field);
    }
    let detail = match &path {
        Some(path) => format!("{path}: {said}"),
        None => said,
    };
    let problem = Problem::new(codes::FIELD_INVALID, detail);
    let problem = problem.with("line", line).with("column", column);
    match path {
        Some(path) => problem.with("field", path),
        None => problem,
    }
}

/// A `T` written as a JSON object. Derived structs would take an array of their fields as well.
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(std::marker::PhantomData))
    }
}

/// A string, borrowed from the body unless it has escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Text<'_> {
    /// A copy for a request that outlives the body.
    pub fn boxed(&self) -> Box<str> {
        Box::from(&*self.0)
    }
}

impl std::ops::Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// For optional fields: absent is `None`, but `null` is an error, as for every other field.
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// One of few words. Why not serde's own enums: with them, JSON that has `null` or a number in the place of a word is
/// answered as if it were no JSON, and what is allowed there is not said.
pub fn word<'de, D: Deserializer<'de>, T: Copy>(
    deserializer: D,
    words: &'static [(&'static str, T)],
) -> Result<T, D::Error> {
    struct WordVisitor<T: 'static>(&'static [(&'static str, T)]);
    impl<T: Copy> Visitor<'_> for WordVisitor<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let words: Vec<String> = self.0.iter().map(|(word, _)| format!("{word:?}")).collect();
            write!(f, "one of {}", words.join(", "))
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            let found = self.0.iter().find(|(word, _)| *word == text);
            found.map(|(_, value)| *value).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
        }
    }
    deserializer.deserialize_str(WordVisitor(words))
}

#[cfg(test)]
mod tests {
    use super::super::Whole;
    use super::*;

    #[test]
    fn a_missing_field_is_named() {
        let problem = decode::<Amount>(b"{}").err().unwrap();
        let body: serde_json::Value = serde_json::from_slice(&problem.body()).unwrap();
        assert_eq!(body["field"], "amount");
        let problem = decode::<Amounts>(br#"{"amounts":[{"amount":1},{}]}"#).err().unwrap();
        let body: serde_json::Value = serde_json::from_slice(&problem.body()).unwrap();
        assert_eq!(body["field"], "amounts[1].amount");
    }

    #[derive(Debug, Deserialize)]
    struct Amount {
        #[allow(dead_code, reason = "only whether it is there is looked at")]
        amount: Whole,
    }

    #[derive(Deserialize)]
    struct Amounts {
        #[allow(dead_code, reason = "only its fields are looked at")]
        amounts: Vec<Object<Amount>>,
    }
}
