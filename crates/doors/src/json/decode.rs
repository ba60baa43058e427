//! Decodes JSON into requests that borrow from the body. Nothing is guessed: amounts are integers, and unknown fields
//! are errors. An error names the field that is wrong.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::codes;
use super::problem::Problem;

/// Decodes a body, which must be a JSON object.
pub fn decode<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    match serde_json::from_slice::<Object<T>>(body) {
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

/// A whole number that is not negative; no fraction, no string. JSON has one kind of number, so JSON Schema and
/// protobuf's JSON mapping accept `1.0` and `1e0` as an integer. So does this type. What counts is the text: a number
/// that is nearly an integer is none, however near, and digits beyond 64 bits are not rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole(pub u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = <&RawValue>::deserialize(deserializer)?.get();
        match whole(written) {
            Some(number) => Ok(Whole(number)),
            None => Err(de::Error::custom(format_args!(
                "{} is no whole number, not negative, not quoted, without a fraction, of at most 64 bits",
                shown(written)
            ))),
        }
    }
}

/// The number that JSON text stands for, if it is a whole one of 64 bits.
fn whole(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    // `123.4500e2`: digits and where the point stands among them.
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(place) => (&text[..place], text[place + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_number = !integer.is_empty() && integer.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    let digits = format!("{integer}{fraction}");
    let digits = digits.trim_start_matches('0');
    if !is_number || digits.is_empty() {
        return is_number.then_some(0);
    }
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    let power = i64::from(exponent) - fraction.len() as i64;
    if power < 0 {
        let cut = usize::try_from(-power).ok().filter(|cut| *cut <= zeros)?;
        return digits[..digits.len() - cut].parse().ok();
    }
    // 20 digits hold any number of 64 bits.
    let power = u32::try_from(power).ok().filter(|power| *power <= 20)?;
    digits.parse::<u64>().ok()?.checked_mul(10u64.checked_pow(power)?)
}

/// The beginning of what was written.
fn shown(text: &str) -> &str {
    let end = text.char_indices().nth(40).map_or(text.len(), |(place, _)| place);
    &text[..end]
}

/// For optional fields: absent is `None`, but `null` is an error, as for every other field.
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_number_is_one() {
        for (text, number) in [
            ("0", 0),
            ("1", 1),
            ("1.0", 1),
            ("1e0", 1),
            ("1.5e1", 15),
            ("120e-1", 12),
            ("0.0", 0),
            ("0e99", 0),
            ("18446744073709551615", u64::MAX),
            ("1.8446744073709551615e19", u64::MAX),
        ] {
            assert_eq!(
                decode::<Amount>(format!(r#"{{"amount":{text}}}"#).as_bytes()).unwrap().amount.0,
                number,
                "{text}"
            );
        }
        for text in [
            "0.99999999999999999999",
            "1.0000000000000000000001",
            "0.5",
            "1e-1",
            "-0",
            "-1",
            "-0.0",
            "18446744073709551616",
            "99999999999999999999999999",
            "1e20",
            "1e99999999999",
            "\"1\"",
            "null",
            "true",
            "[1]",
            "{}",
        ] {
            let problem = decode::<Amount>(format!(r#"{{"amount":{text}}}"#).as_bytes()).expect_err(text);
            assert_eq!(problem.code(), codes::FIELD_INVALID, "{text}");
            assert!(problem.detail().starts_with("amount: "), "{}", problem.detail());
        }
    }

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
        amount: Whole,
    }

    #[derive(Deserialize)]
    struct Amounts {
        #[allow(dead_code, reason = "only its fields are looked at")]
        amounts: Vec<Object<Amount>>,
    }
}
