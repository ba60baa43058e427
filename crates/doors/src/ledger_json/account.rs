//! An account's figures in JSON.

use serde::{Deserialize, Serialize};
use tidegate_machines::ledger::{AccountKind, AccountView};
use utoipa::ToSchema;

use crate::json::encode;

/// What an account may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
        AccountBody {
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
