//! `[[seed.asset]]`, `[[seed.account]]` and `[[seed.transfer]]`: the first contents of a new ledger.

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
    /// `[[seed.asset]]`
    pub struct SeedAssetKeys in [["seed.asset"]] {
        name: Required<Text> = NoDefault, .., restart, "unit of measure";
        decimals: Required<Count> = NoDefault, .., restart,
            "0 to 18 digits of an amount behind the point, for those who show amounts; they never change";
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

/// Assets, accounts and transfers that are asked of the ledger at each start. Their ids make every time after the first
/// a duplicate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seed {
    /// Assets to declare, before the accounts.
    pub assets: Vec<SeedAssetKeys>,
    /// Accounts to open, before the transfers.
    pub accounts: Vec<SeedAccountKeys>,
    /// Transfers to make, in this order.
    pub transfers: Vec<SeedTransferKeys>,
    /// File and line of each asset.
    pub asset_places: Vec<String>,
    /// File and line of each account.
    pub account_places: Vec<String>,
    /// File and line of each transfer.
    pub transfer_places: Vec<String>,
}

/// The ledger checks all of them before it is seeded.
pub fn settle(document: &Document) -> Result<Seed, ConfigError> {
    let (accounts, transfers): (Vec<SeedAccountKeys>, Vec<SeedTransferKeys>) = (document.list()?, document.list()?);
    let assets: Vec<SeedAssetKeys> = document.list()?;
    let places = |section: &str, key: &str, count: usize| {
        (0..count).map(|index| place(document, &format!("{section}[{index}].{key}"))).collect()
    };
    let asset_places = places("seed.asset", "name", assets.len());
    let account_places = places("seed.account", "id", accounts.len());
    let transfer_places = places("seed.transfer", "id", transfers.len());
    Ok(Seed { assets, accounts, transfers, asset_places, account_places, transfer_places })
}

/// File and line of what `path` names.
pub(super) fn place(document: &Document, path: &str) -> String {
    let at = document.error_at(path, "");
    at.line.map_or(at.place.clone(), |line| format!("{}:{line}", at.place))
}
