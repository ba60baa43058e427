//! The types that a key can have, and what each makes of what was written.
//!
//! A kind has two functions beside the trait, which [`crate::config!`] calls on constants: `default_of`, which says
//! which literals can be its default, and `range_of`, which says which ranges it can have (`..` for none). They are not
//! in the trait because functions of traits cannot run at compile time.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::{RangeFull, RangeInclusive};
use std::path::PathBuf;

use crate::row::{Allowed, DefaultValue, Expected, KeyRow, Value};

/// A type of a key.
pub trait Kind {
    /// What the validated struct holds.
    type Value;
    /// The type in a word, for documentation.
    const NAME: &'static str;
    /// What must be written.
    const EXPECTED: Expected;
    /// The unit, or nothing.
    const UNIT: &'static str = "";
    /// The words that can be written, if only some can.
    const WORDS: &'static [&'static str] = &[];

    /// What `value` means; `None` if nothing is written and there is no default. The value is of the type that
    /// `EXPECTED` says.
    fn settle(value: Option<Value<'_>>, row: &KeyRow) -> Result<Self::Value, Wrong>;
}

/// Why a value cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It must be written and is not.
    Missing,
    /// What was expected in its place.
    Expected(String),
}

/// The default of a key that has none.
#[derive(Clone, Copy, Debug)]
pub struct NoDefault;

/// Integers that can hold a value.
pub trait Whole: Sized {
    /// The largest.
    const MAX: u64;
    /// The number, which is at most `MAX`.
    fn of(number: u64) -> Self;
}

macro_rules! wholes {
    ($($whole:ident)*) => {
        $(impl Whole for $whole {
            const MAX: u64 = $whole::MAX as u64;
            fn of(number: u64) -> $whole {
                $whole::try_from(number).unwrap_or_else(|_| panic!("{number} is within the range of its key"))
            }
        })*
    };
}

wholes! { u16 u32 u64 usize }

macro_rules! numbers {
    ($($(#[$about:meta])* $name:ident $unit:literal;)*) => {
        $(
            $(#[$about])*
            #[derive(Debug)]
            pub struct $name<T = u64>(PhantomData<T>);

            impl<T: Whole> $name<T> {
                /// Any number can be the default.
                pub const fn default_of(number: u64) -> DefaultValue {
                    DefaultValue::Integer(number)
                }

                /// A range must fit the integer that holds the value.
                pub const fn range_of(range: RangeInclusive<u64>) -> Allowed {
                    assert!(*range.end() <= T::MAX, "the range fits the integer");
                    Allowed::Numbers { least: *range.start(), most: *range.end() }
                }
            }

            impl<T: Whole> Kind for $name<T> {
                type Value = T;
                const NAME: &'static str = "integer";
                const EXPECTED: Expected = Expected::Integer;
                const UNIT: &'static str = $unit;
                fn settle(value: Option<Value<'_>>, row: &KeyRow) -> Result<T, Wrong> {
                    let number = number(value, row)?;
                    // A key without a default has no range of its own.
                    let is_within = number <= T::MAX;
                    is_within.then(|| T::of(number)).ok_or_else(|| Wrong::Expected(format!("0 to {}", T::MAX)))
                }
            }
        )*
    };
}

numbers! {
    /// A number of things.
    Count "";
    /// A number of bytes.
    Bytes "bytes";
    /// A duration in milliseconds.
    Milliseconds "ms";
    /// A duration in seconds.
    Seconds "s";
    /// So many in each second.
    PerSecond "per second";
}

fn number(value: Option<Value<'_>>, row: &KeyRow) -> Result<u64, Wrong> {
    match (value, row.allowed) {
        (Some(Value::Integer(number)), Allowed::Numbers { least, most }) if number < least || number > most => {
            Err(Wrong::Expected(format!("{least} to {most}")))
        }
        (Some(Value::Integer(number)), _) => Ok(number),
        _ => Err(Wrong::Missing),
    }
}

macro_rules! plain {
    ($(
        $(#[$about:meta])*
        $name:ident: $value:ty = $word:literal, $expected:ident, $default:ident($literal:ty), $settle:expr;
    )*) => {
        $(
            $(#[$about])*
            #[derive(Debug)]
            pub struct $name;

            impl $name {
                /// A literal of its type can be the default.
                pub const fn default_of(value: $literal) -> DefaultValue {
                    DefaultValue::$default(value)
                }

                /// It has no range.
                pub const fn range_of(_: RangeFull) -> Allowed {
                    Allowed::Any
                }
            }

            impl Kind for $name {
                type Value = $value;
                const NAME: &'static str = $word;
                const EXPECTED: Expected = Expected::$expected;
                fn settle(value: Option<Value<'_>>, row: &KeyRow) -> Result<$value, Wrong> {
                    value.map_or(Err(Wrong::Missing), |value| $settle(value, row))
                }
            }
        )*
    };
}

plain! {
    /// `true` or `false`.
    Flag: bool = "flag", Flag, Flag(bool), flag;
    /// Any text.
    Text: Box<str> = "text", Text, Text(&'static str), text;
    /// A file or a folder; never empty.
    FilePath: PathBuf = "path", Text, Text(&'static str), path;
    /// An IP address and a port, or `"off"`, which is `None`.
    Address: Option<SocketAddr> = "address", Text, Text(&'static str), address;
    /// A list of texts.
    Texts: Vec<Box<str>> = "list of texts", TextList, Texts(&'static [&'static str]), texts;
}

fn flag(value: Value<'_>, _row: &KeyRow) -> Result<bool, Wrong> {
    match value {
        Value::Flag(flag) => Ok(flag),
        _ => Err(Wrong::Missing),
    }
}

fn text(value: Value<'_>, _row: &KeyRow) -> Result<Box<str>, Wrong> {
    match value {
        Value::Text(text) => Ok(text.into()),
        _ => Err(Wrong::Missing),
    }
}

fn path(value: Value<'_>, _row: &KeyRow) -> Result<PathBuf, Wrong> {
    match value {
        Value::Text("") => Err(Wrong::Expected("a path".to_owned())),
        Value::Text(text) => Ok(text.into()),
        _ => Err(Wrong::Missing),
    }
}

fn address(value: Value<'_>, row: &KeyRow) -> Result<Option<SocketAddr>, Wrong> {
    let example = match row.default {
        DefaultValue::Text(text) if text != "off" => text,
        _ => "127.0.0.1:8080",
    };
    match value {
        Value::Text("off") => Ok(None),
        Value::Text(text) => text
            .parse()
            .map(Some)
            .map_err(|_| Wrong::Expected(format!("an IP address and port such as {example:?}, or \"off\""))),
        _ => Err(Wrong::Missing),
    }
}

fn texts(value: Value<'_>, _row: &KeyRow) -> Result<Vec<Box<str>>, Wrong> {
    match value {
        Value::Texts(texts) => Ok(texts.into_iter().map(Box::from).collect()),
        _ => Err(Wrong::Missing),
    }
}

/// A key that may be left out: `None` then.
#[derive(Debug)]
pub struct Optional<K>(PhantomData<K>);

/// A key that must be written, and not as an empty text or list.
#[derive(Debug)]
pub struct Required<K>(PhantomData<K>);

impl<K> Optional<K> {
    /// It has no default.
    pub const fn default_of(_: NoDefault) -> DefaultValue {
        DefaultValue::Absent
    }

    /// It has no range.
    pub const fn range_of(_: RangeFull) -> Allowed {
        Allowed::Any
    }
}

impl<K> Required<K> {
    /// It has no default.
    pub const fn default_of(_: NoDefault) -> DefaultValue {
        DefaultValue::Required
    }

    /// It has no range.
    pub const fn range_of(_: RangeFull) -> Allowed {
        Allowed::Any
    }
}

impl<K: Kind> Kind for Optional<K> {
    type Value = Option<K::Value>;
    const NAME: &'static str = K::NAME;
    const EXPECTED: Expected = K::EXPECTED;
    const UNIT: &'static str = K::UNIT;
    const WORDS: &'static [&'static str] = K::WORDS;
    fn settle(value: Option<Value<'_>>, row: &KeyRow) -> Result<Option<K::Value>, Wrong> {
        value.map(|value| K::settle(Some(value), row)).transpose()
    }
}

impl<K: Kind> Kind for Required<K> {
    type Value = K::Value;
    const NAME: &'static str = K::NAME;
    const EXPECTED: Expected = K::EXPECTED;
    const UNIT: &'static str = K::UNIT;
    const WORDS: &'static [&'static str] = K::WORDS;
    fn settle(value: Option<Value<'_>>, row: &KeyRow) -> Result<K::Value, Wrong> {
        match value {
            None | Some(Value::Text("")) => Err(Wrong::Missing),
            Some(Value::Texts(texts)) if texts.is_empty() => Err(Wrong::Missing),
            value => K::settle(value, row),
        }
    }
}

impl Wrong {
    /// None of the known words was written.
    pub fn one_of(words: &[&str]) -> Wrong {
        Wrong::Expected(one_of(words))
    }
}

/// `"permit" or "deny"`
pub(crate) fn one_of(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    words.join(" or ")
}
