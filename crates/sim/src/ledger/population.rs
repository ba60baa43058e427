//! The accounts that clients know of, of all kinds, on all shards, some bound together by a `{tag}`.

use tidegate_machines::ledger::AccountKind;

use crate::chance::Chance;
use crate::ledger::model::HUGE_ASSET;

/// The assets that are in everyday use.
const ASSETS: [&str; 2] = ["credit", "vote"];
/// Tags: accounts that share one share a shard.
const TAGS: u64 = 3;

/// One account.
#[derive(Clone, Debug)]
pub struct Account {
    /// Account id.
    pub id: String,
    /// Unit of measure.
    pub asset: &'static str,
    /// Kind.
    pub kind: AccountKind,
}

/// All accounts that anyone will ever name.
pub struct Population {
    accounts: Vec<Account>,
}

impl Population {
    /// Some sources, wallets and collectors of two assets, and a few of an asset that has too much of everything.
    pub fn new(chance: &mut Chance) -> Population {
        let mut accounts = Vec::new();
        let mut add = |kind, asset, id: String| accounts.push(Account { id, asset, kind });
        for asset in ASSETS {
            for number in 0..chance.within(1..=2) {
                add(AccountKind::Source, asset, format!("source:{asset}-{number}"));
            }
            for tag in 0..TAGS {
                add(AccountKind::Source, asset, format!("source:{{t{tag}}}-{asset}"));
            }
            for number in 0..chance.within(2..=8) {
                add(AccountKind::Wallet, asset, format!("wallet:{asset}-{number}"));
            }
            for number in 0..chance.within(3..=9) {
                let tag = chance.below(TAGS);
                add(AccountKind::Wallet, asset, format!("wallet:{{t{tag}}}-{asset}-{number}"));
            }
            for number in 0..chance.within(1..=3) {
                add(AccountKind::Collector, asset, format!("collector:{asset}-{number}"));
            }
        }
        add(AccountKind::Source, HUGE_ASSET, format!("source:{HUGE_ASSET}"));
        add(AccountKind::Wallet, HUGE_ASSET, format!("wallet:{HUGE_ASSET}"));
        Population { accounts }
    }

    /// All of them.
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// One of those that `fits`; there is always one.
    pub fn one(&self, chance: &mut Chance, fits: impl Fn(&Account) -> bool) -> &Account {
        let fitting: Vec<&Account> = self.accounts.iter().filter(|account| fits(account)).collect();
        fitting[chance.below(fitting.len() as u64) as usize]
    }

    /// One of the assets in everyday use.
    pub fn asset(chance: &mut Chance) -> &'static str {
        ASSETS[chance.below(ASSETS.len() as u64) as usize]
    }

    /// The tag of an id, if it has one.
    pub fn tag(id: &str) -> Option<&str> {
        let open = id.find('{')?;
        id[open..].find('}').map(|close| &id[open..open + close + 1])
    }
}
