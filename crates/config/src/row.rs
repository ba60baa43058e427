//! What one key is: the row that parser, errors and documentation are made from.

use std::fmt;

use crate::kind::Kind;

/// One key of a section, as [`crate::config!`] declares it.
#[derive(Clone, Copy, Debug)]
pub struct KeyRow {
    /// Its name, the unit last.
    pub name: &'static str,
    /// Its type in a word: `integer`, `text`, `address` …
    pub kind: &'static str,
    /// What must be written in the file.
    pub expected: Expected,
    /// `bytes`, `ms`, `s`, `per second`, or nothing.
    pub unit: &'static str,
    /// What holds where the file says nothing.
    pub default: DefaultValue,
    /// Which values are good.
    pub allowed: Allowed,
    /// What it means, without a full stop.
    pub meaning: &'static str,
    /// Whether a running process takes over a new value.
    pub change: Change,
}

/// One section of a file, `[path]` or `[[path]]`, as far as one owner declares it. Several owners may have keys in one
/// section.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// As written between the brackets.
    pub path: &'static str,
    /// Whether it is written `[[path]]`, any number of times.
    pub repeated: bool,
    /// The keys of this owner.
    pub rows: &'static [KeyRow],
}

/// What a value must be in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Zero or more.
    Integer,
    /// In quotes.
    Text,
    /// `true` or `false`.
    Flag,
    /// Of quoted texts.
    TextList,
}

impl Expected {
    /// As an error says it.
    pub fn words(self) -> &'static str {
        match self {
            Expected::Integer => "an integer, zero or more",
            Expected::Text => "a quoted text",
            Expected::Flag => "true or false",
            Expected::TextList => "a list of quoted texts",
        }
    }
}

/// What holds where the file says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// A number.
    Integer(u64),
    /// A switch.
    Flag(bool),
    /// A text.
    Text(&'static str),
    /// A list of texts.
    Texts(&'static [&'static str]),
    /// Nothing: the key is optional.
    Absent,
    /// An error: the key must be written.
    Required,
}

impl DefaultValue {
    /// The value, if there is one.
    pub fn value(self) -> Option<Value<'static>> {
        match self {
            DefaultValue::Integer(number) => Some(Value::Integer(number)),
            DefaultValue::Flag(flag) => Some(Value::Flag(flag)),
            DefaultValue::Text(text) => Some(Value::Text(text)),
            DefaultValue::Texts(texts) => Some(Value::Texts(texts.to_vec())),
            DefaultValue::Absent | DefaultValue::Required => None,
        }
    }
}

/// Which values are good. What the type itself demands (an address is an address) and what several keys demand together
/// is not said here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Whatever the type takes.
    Any,
    /// Numbers from `least` to `most`.
    Numbers {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// One of these.
    Words(&'static [&'static str]),
}

/// When a new value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// When the process is told to read its configuration again.
    Live,
    /// At the next start.
    Restart,
}

/// A value, as it was written or as the default gives it. It is shown as TOML writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number.
    Integer(u64),
    /// A switch.
    Flag(bool),
    /// A text.
    Text(&'a str),
    /// A list of texts.
    Texts(Vec<&'a str>),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(number) => write!(f, "{number}"),
            Value::Flag(flag) => write!(f, "{flag}"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Texts(texts) => write!(f, "{texts:?}"),
        }
    }
}

impl KeyRow {
    /// The row of a key of kind `K`. A default outside the range does not compile where the row is a constant.
    pub const fn of<K: Kind>(
        name: &'static str,
        default: DefaultValue,
        allowed: Allowed,
        change: Change,
        meaning: &'static str,
    ) -> KeyRow {
        if let (DefaultValue::Integer(number), Allowed::Numbers { least, most }) = (default, allowed) {
            assert!(least <= number && number <= most, "the default lies in the range");
        }
        let allowed = match allowed {
            Allowed::Any if !K::WORDS.is_empty() => Allowed::Words(K::WORDS),
            allowed => allowed,
        };
        KeyRow { name, kind: K::NAME, expected: K::EXPECTED, unit: K::UNIT, default, allowed, meaning, change }
    }
}

/// ```compile_fail
/// use tidegate_config::{Count, config};
/// config! { pub struct Small in "a" { b: Count = 0, 1..=2, live, "a default out of its range"; } }
/// const ROWS: usize = Small::ROWS.len();
/// ```
///
/// ```compile_fail
/// use tidegate_config::{Count, config};
/// config! { pub struct Large in "a" { b: Count<u16> = 1, 1..=65_536, live, "a range that does not fit"; } }
/// const ROWS: usize = Large::ROWS.len();
/// ```
///
/// ```
/// use tidegate_config::{Count, config};
/// config! { pub struct Good in "a" { b: Count<u16> = 1, 1..=65_535, live, "a range that fits"; } }
/// const ROWS: usize = Good::ROWS.len();
/// ```
#[cfg(doctest)]
struct RowsThatDoNotCompile;
