//! Whole numbers as JSON writes them. What counts is the text: nothing is rounded on its way in.

use serde::Deserialize;
use serde::de::{self, Deserializer};
use serde_json::value::RawValue;

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

/// A [`Whole`] up to `MOST`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpTo<const MOST: u64>(pub u64);

/// A whole number of 32 bits.
pub type Whole32 = UpTo<{ u32::MAX as u64 }>;

impl Whole32 {
    /// As it is kept.
    pub fn get(self) -> u32 {
        u32::try_from(self.0).expect("it was read with this bound")
    }
}

impl<'de, const MOST: u64> Deserialize<'de> for UpTo<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = <&RawValue>::deserialize(deserializer)?.get();
        match whole(written).filter(|number| *number <= MOST) {
            Some(number) => Ok(UpTo(number)),
            None => Err(de::Error::custom(format_args!(
                "{} is no whole number from 0 to {MOST}, not quoted, without a fraction",
                shown(written)
            ))),
        }
    }
}

/// A whole number that may be below zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signed(pub i64);

impl<'de> Deserialize<'de> for Signed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = <&RawValue>::deserialize(deserializer)?.get();
        let number = match written.strip_prefix('-') {
            Some(digits) => whole(digits).and_then(|number| 0i64.checked_sub_unsigned(number)),
            None => whole(written).and_then(|number| i64::try_from(number).ok()),
        };
        number.map(Signed).ok_or_else(|| {
            de::Error::custom(format_args!(
                "{} is no whole number from {} to {}, not quoted, without a fraction",
                shown(written),
                i64::MIN,
                i64::MAX
            ))
        })
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

#[cfg(test)]
mod tests {
    use super::super::{codes, decode};
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
    fn smaller_numbers_have_their_bounds() {
        let code =
            |text: &str| serde_json::from_str::<Whole32>(text).map(Whole32::get).map_err(|error| error.to_string());
        assert_eq!((code("7"), code("7.0"), code("4294967295")), (Ok(7), Ok(7), Ok(u32::MAX)));
        for text in ["4294967296", "-1", "7.5", "\"7\"", "null"] {
            let why = code(text).expect_err(text);
            assert!(why.contains(&format!("{text} is no whole number from 0 to 4294967295")), "{why}");
        }
        let limit =
            |text: &str| serde_json::from_str::<Signed>(text).map(|limit| limit.0).map_err(|error| error.to_string());
        assert_eq!((limit("-5"), limit("5e0"), limit("-0"), limit("-1.0")), (Ok(-5), Ok(5), Ok(0), Ok(-1)));
        assert_eq!((limit(&i64::MIN.to_string()), limit(&i64::MAX.to_string())), (Ok(i64::MIN), Ok(i64::MAX)));
        for text in ["9223372036854775808", "-9223372036854775809", "1.5", "\"1\"", "true"] {
            let why = limit(text).expect_err(text);
            assert!(why.contains(&format!("{text} is no whole number from -9223372036854775808 to")), "{why}");
        }
    }

    #[derive(Debug, Deserialize)]
    struct Amount {
        amount: Whole,
    }
}
