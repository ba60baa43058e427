//! What a transfer and a hold have in common: two accounts, an amount, and what the client writes on it.

use clap::Args;
use serde_json::{Value, json};
use tidegate_machines::Amount;

use super::door::query;
use super::id::not_empty;
use crate::command::number::whole;

/// The two sides of a transfer or hold, how much, and what is written on it.
#[derive(Args)]
pub struct Movement {
    /// Chosen by you, unique for ever: asked again with the same content, it gives the first outcome.
    #[arg(value_parser = not_empty)]
    id: String,
    /// Account to take from.
    #[arg(long, value_name = "ACCOUNT", value_parser = not_empty)]
    debit: String,
    /// Account to give to.
    #[arg(long, value_name = "ACCOUNT", value_parser = not_empty)]
    credit: String,
    /// How much, in the asset's minor units: a whole number, 1 or more.
    #[arg(long, allow_negative_numbers = true, value_parser = amount)]
    amount: u64,
    /// Free text for the history, at most 256 bytes.
    #[arg(long, value_name = "TEXT")]
    memo: Option<String>,
    /// The reason, as you number your reasons: 1 to 4294967295.
    #[arg(long, value_parser = whole::<u32>(1..=u64::from(u32::MAX), "the number of a reason"))]
    code: Option<u32>,
    /// A key of another system, at most 64 bytes.
    #[arg(long, value_name = "TEXT")]
    user_data: Option<String>,
}

/// An amount to move.
pub fn amount(text: &str) -> Result<u64, String> {
    whole(1..=Amount::MAX.get(), "minor units")(text)
}

/// Rows of a list.
pub fn limit(text: &str) -> Result<u64, String> {
    whole(1..=u64::MAX, "rows")(text)
}

impl Movement {
    /// The request's body.
    pub fn body(self) -> Value {
        let Movement { id, debit, credit, amount, memo, code, user_data } = self;
        let mut body = json!({ "id": id, "debit": debit, "credit": credit, "amount": amount });
        let written = [
            ("memo", memo.map(Value::from)),
            ("code", code.map(Value::from)),
            ("user_data", user_data.map(Value::from)),
        ];
        for (name, value) in written.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            body[name] = value;
        }
        body
    }
}

/// A transfer, hold or message that is there.
#[derive(Args)]
pub struct Known {
    /// Its id.
    #[arg(value_parser = not_empty)]
    pub id: String,
    /// Id space of the id, if it is not the token's own: the user name of the viewer who chose it, or the `id_space` of
    /// another service.
    #[arg(long, value_name = "NAME")]
    id_space: Option<String>,
}

impl Known {
    /// `path`, in the id space that was named.
    pub fn address(&self, path: &str) -> String {
        query(path, &[("id_space", self.id_space.as_deref())])
    }
}
