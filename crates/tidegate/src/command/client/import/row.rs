//! A row of an import: what it must and may say, and the request that it becomes.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::{Content, Hold, Label, Refusal, Transfer, is_account_id, is_asset};

use super::super::account::KINDS;

/// The fields of a row, as the file has them.
pub type Fields = Map<String, Value>;

/// The fields of a JSON object in which no name stands twice: of two amounts, nobody can tell which was meant.
pub struct Once(pub Fields);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Once, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Once;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Once, A::Error> {
                let mut fields = Fields::new();
                while let Some(name) = map.next_key::<String>()? {
                    if fields.contains_key(&name) {
                        return Err(A::Error::custom(format_args!("{name:?} stands twice in it")));
                    }
                    fields.insert(name, map.next_value()?);
                }
                Ok(Once(fields))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

/// What the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Accounts to open.
    Accounts,
    /// Transfers.
    Transfers,
    /// Holds to place.
    Holds,
}

/// A row, and where it stands.
#[derive(Debug, PartialEq)]
pub struct Row {
    /// Its line in the file, from 1.
    pub line: u64,
    /// Its part of the request.
    pub body: Value,
}

impl Kind {
    /// What a row with these fields is; `None` if it is nothing that can be imported.
    pub fn of(is_there: impl Fn(&str) -> bool) -> Option<Kind> {
        match (is_there("debit"), is_there("expires_in_ms"), is_there("kind")) {
            (true, true, false) => Some(Kind::Holds),
            (true, false, false) => Some(Kind::Transfers),
            (false, false, true) => Some(Kind::Accounts),
            _ => None,
        }
    }

    /// Where many of them are sent.
    pub fn path(self) -> &'static str {
        match self {
            Kind::Accounts => "/v1/accounts",
            Kind::Transfers => "/v1/transfers",
            Kind::Holds => "/v1/holds",
        }
    }

    /// The name of the list in that request.
    pub fn list(self) -> &'static str {
        match self {
            Kind::Accounts => "accounts",
            Kind::Transfers => "transfers",
            Kind::Holds => "holds",
        }
    }

    /// Fields that each must have.
    pub fn needed(self) -> &'static [&'static str] {
        match self {
            Kind::Accounts => &["id", "asset", "kind"],
            Kind::Transfers => &["id", "debit", "credit", "amount"],
            Kind::Holds => &["id", "debit", "credit", "amount", "expires_in_ms"],
        }
    }

    /// Fields that it may have besides.
    pub fn allowed(self) -> &'static [&'static str] {
        match self {
            Kind::Accounts => &[],
            Kind::Transfers | Kind::Holds => &["memo", "code", "user_data"],
        }
    }

    /// Why a field of this name is in the way.
    pub fn unknown_field(self, name: &str) -> Option<String> {
        let known = [self.needed(), self.allowed()].concat();
        (!known.contains(&name)).then(|| {
            let list = self.list();
            format!("{name:?} is no field of {list}, which have {}", known.join(", "))
        })
    }

    /// The part of the request for a row, or what is wrong with it.
    pub fn body(self, fields: Fields) -> Result<Value, String> {
        let mut body = Fields::new();
        for (name, value) in fields {
            if let Some(why) = self.unknown_field(&name) {
                return Err(why);
            }
            let value = match &*name {
                "amount" => whole(&name, &value, 1, u64::MAX, "minor units")?.into(),
                "expires_in_ms" => whole(&name, &value, 1, u64::MAX, "milliseconds")?.into(),
                "code" => whole(&name, &value, 0, u64::from(u32::MAX), "at most 4294967295")?.into(),
                "kind" if value.as_str().is_none_or(|word| !KINDS.contains(&word)) => {
                    return Err(format!("kind = {value}: expected {}", KINDS.join(", ")));
                }
                _ if value.is_string() => value,
                _ => return Err(format!("{name} = {value}: expected a text")),
            };
            body.insert(name, value);
        }
        match self.needed().iter().find(|name| !body.contains_key(**name)) {
            Some(missing) => Err(format!("missing field `{missing}`")),
            None => Ok(Value::Object(body)),
        }
    }
}

impl Kind {
    /// Why every server refuses the request of a row, whatever accounts it has. (One that has an account or a row with
    /// an id that was good once still takes that.)
    pub fn check(self, body: &Value) -> Result<(), Refusal> {
        let text = |name: &str| body[name].as_str().unwrap_or("");
        let number = |name: &str| body[name].as_u64().unwrap_or(0);
        // What is read into a code has 32 bits.
        let label = Label { code: number("code") as u32, user_data: text("user_data") };
        let (id, debit, credit) = (IdSpace::checked(text("id")), text("debit"), text("credit"));
        let (amount, memo) = (number("amount"), text("memo"));
        match self {
            Kind::Accounts if !is_account_id(text("id")) => Err(Refusal::AccountIdInvalid),
            Kind::Accounts if !is_asset(text("asset")) => Err(Refusal::AssetInvalid),
            Kind::Accounts => Ok(()),
            Kind::Transfers => Content::Transfer(Transfer { id, debit, credit, amount, memo, label }).check(),
            Kind::Holds => {
                let expires_in_ms = number("expires_in_ms");
                Content::Hold(Hold { id, debit, credit, amount, expires_in_ms, memo, label }).check()
            }
        }
    }
}

/// A whole number, which a CSV file has as a text.
fn whole(name: &str, value: &Value, least: u64, most: u64, unit: &str) -> Result<u64, String> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        number => number.as_u64(),
    };
    match number {
        Some(number) if (least..=most).contains(&number) => Ok(number),
        Some(number) if number < least => Err(format!("{name} = {number}: expected {least} or more {unit}")),
        _ => Err(format!("{name} = {value}: expected a whole number, {unit}")),
    }
}
