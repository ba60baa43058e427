//! `[[seed.account]]` and `[[seed.transfer]]`: the first contents of a new ledger.

use tidegate_config::{ConfigError, Count, Document, NoDefault, Required, Text, config, words};
use tidegate_machines::ledger::AccountKind;

words! {
    /// The kinds of accounts.
    pub struct AccountKindWord(AccountKind) {
        "wallet" => AccountKind::Wallet,
        "source" => AccountKind::Source,
        "collector" => AccountKind::Collector,
    }
}

config! {
    /// `[[seed.account]]`
    pub struct SeedAccountKeys in [["seed.account"]] {
        id: Required<Text> = NoDefault, .., restart, "account id";
        asset: Required<Text> = NoDefault, .., restart, "unit of measure";
        kind: Required<AccountKindWord> = NoDefault, .., restart,
            "\"wallet\" never goes below zero, \"source\" may, \"collector\" only takes";
    }
}

config! {
    /// `[[seed.transfer]]`
    pub struct SeedTransferKeys in [["seed.transfer"]] {
        id: Required<Text> = NoDefault, .., restart, "transfer id; it makes seeding again a duplicate";
        debit: Required<Text> = NoDefault, .., restart, "account to take from";
        credit: Required<Text> = NoDefault, .., restart, "account to give to";
        amount: Required<Count> = NoDefault, .., restart, "minor units";
        memo: Text = "", .., restart, "free text for the history";
    }
}

/// Accounts and transfers that are asked of the ledger at each start. Their ids make every time after the first a
/// duplicate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seed {
    /// Accounts to open, before the transfers.
    pub accounts: Vec<SeedAccountKeys>,
    /// Transfers to make, in this order.
    pub transfers: Vec<SeedTransferKeys>,
}

/// The ledger checks ids and amounts, when it is seeded.
pub fn settle(document: &Document) -> Result<Seed, ConfigError> {
    Ok(Seed { accounts: document.list()?, transfers: document.list()? })
}
