//! An account's figures in JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use tidegate_machines::ledger::{AccountKind, AccountStatus, AccountView};
use utoipa::ToSchema;

use crate::json::{encode, word};

/// What an account may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum KindWord {
    /// Never below zero.
    Wallet,
    /// May go negative: where money enters.
    Source,
    /// Credit-only.
    Collector,
}

/// An account's figures, in minor units.
#[derive(Serialize, ToSchema)]
pub struct AccountBody<'a> {
    /// Account id.
    pub id: &'a str,
    /// Unit of measure.
    pub asset: &'a str,
    /// What it may do.
    pub kind: KindWord,
    /// `credited - debited`.
    pub balance: i64,
    /// Reserved by open holds.
    pub held: u64,
    /// `balance - held`.
    #[schema(value_type = i64)]
    pub available: i128,
    /// All that ever came in; may pass 64 bits.
    #[schema(value_type = u64)]
    pub credited: u128,
    /// All that ever went out; may pass 64 bits.
    #[schema(value_type = u64)]
    pub debited: u128,
    /// Which movements it takes part in; absent as long as nothing was ever set on the account, which is `open`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = StatusWord, required = false)]
    pub status: Option<StatusWord>,
    /// A debit or hold that would leave less available is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    pub balance_min: Option<i64>,
    /// A credit that would leave a larger balance is refused, also a hold for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false)]
    pub balance_max: Option<i64>,
    /// Keys and values of the client's; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = HashMap<String, String>, required = false)]
    pub metadata: Option<&'a BTreeMap<Box<str>, Box<str>>>,
    /// How often the account was changed; absent if it never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub revision: Option<u64>,
}

/// Which movements an account takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatusWord {
    /// All.
    Open,
    /// Nothing leaves it.
    DebitsFrozen,
    /// Nothing leaves it and nothing enters it; its open holds can be voided, and expire.
    Frozen,
    /// As frozen; it was empty when it was closed.
    Closed,
}

const KINDS: &[(&str, KindWord)] =
    &[("wallet", KindWord::Wallet), ("source", KindWord::Source), ("collector", KindWord::Collector)];
const STATUSES: &[(&str, StatusWord)] = &[
    ("open", StatusWord::Open),
    ("debits_frozen", StatusWord::DebitsFrozen),
    ("frozen", StatusWord::Frozen),
    ("closed", StatusWord::Closed),
];

impl<'de> Deserialize<'de> for KindWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, KINDS)
    }
}

impl<'de> Deserialize<'de> for StatusWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, STATUSES)
    }
}

impl From<StatusWord> for AccountStatus {
    fn from(word: StatusWord) -> AccountStatus {
        match word {
            StatusWord::Open => AccountStatus::Open,
            StatusWord::DebitsFrozen => AccountStatus::DebitsFrozen,
            StatusWord::Frozen => AccountStatus::Frozen,
            StatusWord::Closed => AccountStatus::Closed,
        }
    }
}

impl From<AccountStatus> for StatusWord {
    fn from(status: AccountStatus) -> StatusWord {
        match status {
            AccountStatus::Open => StatusWord::Open,
            AccountStatus::DebitsFrozen => StatusWord::DebitsFrozen,
            AccountStatus::Frozen => StatusWord::Frozen,
            AccountStatus::Closed => StatusWord::Closed,
        }
    }
}

impl From<KindWord> for AccountKind {
    fn from(word: KindWord) -> AccountKind {
        match word {
            KindWord::Wallet => AccountKind::Wallet,
            KindWord::Source => AccountKind::Source,
            KindWord::Collector => AccountKind::Collector,
        }
    }
}

impl From<AccountKind> for KindWord {
    fn from(kind: AccountKind) -> KindWord {
        match kind {
            AccountKind::Wallet => KindWord::Wallet,
            AccountKind::Source => KindWord::Source,
            AccountKind::Collector => KindWord::Collector,
        }
    }
}

/// An account as `GET /v1/accounts/{id}` shows it.
pub fn account_json(account: &AccountView) -> Vec<u8> {
    encode(&AccountBody::from(account))
}

impl<'a> From<&'a AccountView> for AccountBody<'a> {
    fn from(account: &'a AccountView) -> AccountBody<'a> {
        let settings = account.settings.as_deref();
        AccountBody {
            status: settings.map(|settings| settings.status.into()),
            balance_min: settings.and_then(|settings| settings.balance_min),
            balance_max: settings.and_then(|settings| settings.balance_max),
            metadata: settings.map(|settings| &settings.metadata).filter(|metadata| !metadata.is_empty()),
            revision: settings.map(|settings| settings.revision),
            id: &account.id,
            asset: &account.asset,
            kind: account.kind.into(),
            balance: account.balance,
            held: account.held,
            available: account.available(),
            credited: account.credited,
            debited: account.debited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for (text, word) in KINDS {
            assert_eq!(encode(word), format!("{text:?}").into_bytes());
        }
        for (text, word) in STATUSES {
            assert_eq!(encode(word), format!("{text:?}").into_bytes());
        }
    }
}
