//! The seeds of the configuration: what the ledger is asked before anyone else may ask.
//!
//! ```text
//!   seeds ─▶ which ids are used, for what? which accounts are there? ─▶ check all ─▶ ask all, in order
//!                                                                        └── one is wrong: the start stops, nothing
//!                                                                            was asked
//! ```
//!
//! Promise: a seed that would be refused stops the start with its file and line, and uses up no id. A transfer of which
//! nobody can tell whether it was made, because what says it is damaged or out of reach, is not made and keeps nobody
//! from starting: the log says so. Nothing is fetched from an archive to tell: seeds stand in the oldest segments.

use std::collections::{HashMap, HashSet};

use anyhow::{Result, anyhow, bail};
use tidegate_machines::DamagedPlace;
use tidegate_machines::ledger::{
    ASSET_DECIMALS_MAX, AccountKind, AccountRules, AccountView, Label, MEMO_BYTES_MAX, Outcome, Refusal, Transfer,
    TransferState, TransferView, is_account_id, is_asset, is_transfer_id, shard_of,
};
use tidegate_runtime::Carries;
use tidegate_runtime::background::Background;

use super::OperationClient;
use crate::message::{Reply, Request, TransferBatch};
use crate::operation::{Answer, Message, Operation, SeedId};
use crate::router::Router;

/// One thing that the ledger begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Where the configuration says it: file and line.
    pub at: String,
    /// What.
    pub what: SeedKind,
}

/// What a seed asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeedKind {
    /// An asset to declare.
    Asset {
        /// Unit of measure.
        name: Box<str>,
        /// Digits of an amount behind the point, as it was written.
        decimals: u64,
    },
    /// An account to open.
    Account {
        /// Account id.
        id: Box<str>,
        /// Unit of measure.
        asset: Box<str>,
        /// What it may do.
        kind: AccountKind,
    },
    /// A transfer to make.
    Transfer {
        /// Transfer id.
        id: Box<str>,
        /// Account to take from.
        debit: Box<str>,
        /// Account to give to.
        credit: Box<str>,
        /// Minor units.
        amount: u64,
        /// Free text for the history.
        memo: Box<str>,
    },
}

/// What is known of the ledger before it is seeded.
#[derive(Default)]
pub(super) struct Before {
    /// Ids of transfers that stand for something already.
    used: HashSet<Box<str>>,
    /// Those that are not asked again, because what they stand for was archived, or cannot be told.
    left: HashSet<Box<str>>,
    accounts: HashMap<Box<str>, Known>,
    /// Decimals of the assets that are declared, or will be by the seeds that were checked.
    decimals: HashMap<Box<str>, u8>,
    /// Accounts may be there of which nothing is known.
    is_partial: bool,
}

/// An account, as it will be after the seeds that were checked.
struct Known {
    asset: Box<str>,
    kind: AccountKind,
    available: i128,
    balance: i128,
    rules: AccountRules,
    is_seeded: bool,
}

impl Known {
    fn new(asset: &str, kind: AccountKind) -> Known {
        let rules = AccountRules::default();
        Known { asset: asset.into(), kind, available: 0, balance: 0, rules, is_seeded: false }
    }
}

impl From<AccountView> for Known {
    fn from(account: AccountView) -> Known {
        let rules = account.settings.as_ref().map_or_else(AccountRules::default, |settings| settings.rules);
        Known {
            available: account.available(),
            balance: account.balance.into(),
            rules,
            ..Known::new(&account.asset, account.kind)
        }
    }
}

/// What is wrong with `seeds` as far as they themselves say, before there is a ledger, or without looking at it: an
/// account that is not among them may be there unless `is_new`.
pub fn check_alone(seeds: &[Seed], shard_count: u16, is_new: bool) -> Result<()> {
    Before { is_partial: !is_new, ..Before::default() }.check(seeds, shard_count)
}

/// Which ids of `seeds` are used.
pub(super) fn look_for_ids<P: Carries<Message>>(
    seeds: &[Seed],
    shard_count: u16,
    background: &mut Background<P, OperationClient>,
) -> Result<Before> {
    let mut before = Before::default();
    for seed in seeds {
        let SeedKind::Transfer { id, .. } = &seed.what else { continue };
        let mut asked = shard_of(id, shard_count);
        loop {
            let find = Operation::FindSeeds(vec![id.clone()]);
            let known = match background.ask((asked, find), &|| false) {
                Some(Ok(Answer::Seeds(known))) => known[0],
                other => bail!("{}: the shards did not say whether {id:?} is used: {other:?}", seed.at),
            };
            match known {
                // Whether it can be read there is another matter.
                SeedId::Used(owner) if owner != asked => {
                    asked = owner;
                    continue;
                }
                SeedId::Used(_) => drop(before.used.insert(id.clone())),
                SeedId::Archived => drop(before.left.insert(id.clone())),
                SeedId::Damaged(place) => {
                    leave(&seed.at, id, place);
                    before.left.insert(id.clone());
                }
                SeedId::New => {}
            }
            break;
        }
    }
    Ok(before)
}

/// Checks all seeds, then asks them.
pub(super) fn sow<P: Carries<Message>>(
    seeds: Vec<Seed>,
    mut before: Before,
    shard_count: u16,
    background: &mut Background<P, Router>,
) -> Result<()> {
    if let Some(seed) = seeds.iter().find(|seed| matches!(seed.what, SeedKind::Asset { .. })) {
        match background.ask(Request::ListAssets, &|| false) {
            Some(Reply::Assets(assets)) => {
                let declared = assets.into_iter().filter_map(|asset| Some((asset.name, asset.decimals?)));
                before.decimals = declared.collect();
            }
            other => bail!("{}: the shards did not say which assets there are: {other:?}", seed.at),
        }
    }
    for seed in &seeds {
        let named: [Option<&Box<str>>; 2] = match &seed.what {
            SeedKind::Asset { .. } => [None, None],
            SeedKind::Account { id, .. } => [Some(id), None],
            SeedKind::Transfer { debit, credit, .. } => [Some(debit), Some(credit)],
        };
        for id in named.into_iter().flatten() {
            if before.accounts.contains_key(id) {
                continue;
            }
            match background.ask(Request::ReadAccount { id: id.clone() }, &|| false) {
                Some(Reply::Account(account)) => drop(before.accounts.insert(id.clone(), account.into())),
                Some(Reply::Refused(_)) => {}
                other => bail!("{}: the shards did not say what {id:?} is: {other:?}", seed.at),
            }
        }
    }
    before.check(&seeds, shard_count)?;
    before.check_used(&seeds, background)?;
    for Seed { at, what } in seeds {
        if matches!(&what, SeedKind::Transfer { id, .. } if before.left.contains(id)) {
            continue;
        }
        let (name, request) = what.request();
        match background.ask(request, &|| false) {
            Some(Reply::AccountOpened { .. } | Reply::AssetDeclared { .. }) => {}
            Some(Reply::Outcomes(outcomes)) if outcomes.iter().all(|outcome| outcome.refusal().is_none()) => {}
            Some(Reply::Outcomes(outcomes)) => match outcomes[0].refusal() {
                // Its home knew a claim, and the shard that decided it cannot read the record.
                Some(Refusal::Damaged(place)) => leave(&at, &name, place),
                _ => return Err(refused(&at, &name, outcomes[0])),
            },
            Some(Reply::Refused(refusal)) => return Err(refused(&at, &name, Outcome::Refused(refusal))),
            other => bail!("{at}: the shards did not answer the seed of {name:?}: {other:?}"),
        }
    }
    Ok(())
}

/// Says that a transfer is left undone.
fn leave(at: &str, id: &str, place: &DamagedPlace) {
    let DamagedPlace { file, offset, what, .. } = place;
    tracing::warn!(
        seed = at,
        id,
        file = &**file,
        offset,
        what = &**what,
        "nobody can tell whether the transfer of this seed was made, so it is not made now. Restore the file from a \
         copy, or make its archive reachable, and restart; or take the seed out of the configuration"
    );
}

fn refused(at: &str, name: &str, outcome: Outcome) -> anyhow::Error {
    let code = outcome.refusal().map_or("unknown", |refusal| refusal.code());
    let advice = match outcome {
        Outcome::RefusedBefore { .. } => "its id was refused at an earlier start, and stays so: give it another id",
        _ => "an id stands for one content for ever: give a seed with other content another id",
    };
    anyhow!("{at}: the seed of {name:?} is refused: {code}; {advice}")
}

impl SeedKind {
    fn request(self) -> (Box<str>, Request) {
        match self {
            SeedKind::Asset { name, decimals } => {
                let decimals = u8::try_from(decimals).expect("it was checked");
                (name.clone(), Request::DeclareAsset { asset: name, decimals })
            }
            SeedKind::Account { id, asset, kind } => (id.clone(), Request::OpenAccount { id, asset, kind }),
            SeedKind::Transfer { id, debit, credit, amount, memo } => {
                let transfer =
                    Transfer { id: &id, debit: &debit, credit: &credit, amount, memo: &memo, label: Label::NONE };
                let batch = TransferBatch::copy_of([transfer]);
                (id, Request::Transfers { linked: false, batch })
            }
        }
    }
}

/// What an id stands for that a seed has too; an error in words if it is something else.
fn check_known(known: &TransferView, (debit, credit): (&str, &str), amount: u64, memo: &str) -> Result<(), String> {
    let id = &known.id;
    match known.state {
        TransferState::Refused(refusal) => {
            let why = "its id was refused at an earlier start, and stays so: give it another id";
            Err(format!("the seed of {id:?} is refused: {}; {why}", refusal.code()))
        }
        TransferState::Applied => {
            let is_same = (&*known.debit, &*known.credit, known.amount, &*known.memo) == (debit, credit, amount, memo)
                && known.code == 0
                && known.user_data.is_empty();
            let TransferView { debit, credit, amount, .. } = known;
            let why = format!("its id stands for {amount} from {debit:?} to {credit:?}");
            let advice = "an id stands for one content for ever: give a seed with other content another id";
            is_same.then_some(()).ok_or(format!("the seed of {id:?} is refused: id_reused; {why}, and {advice}"))
        }
    }
}

impl Before {
    /// Whether the ids that are used stand for what the seeds say.
    fn check_used<P: Carries<Message>>(
        &mut self,
        seeds: &[Seed],
        background: &mut Background<P, Router>,
    ) -> Result<()> {
        for Seed { at, what } in seeds {
            let SeedKind::Transfer { id, debit, credit, amount, memo } = what else { continue };
            if !self.used.contains(id) {
                continue;
            }
            match background.ask(Request::ReadTransfer { id: id.clone() }, &|| false) {
                Some(Reply::Transfer { transfer, .. }) => check_known(&transfer, (debit, credit), *amount, memo)
                    .map_err(|wrong| anyhow!("{at}: {wrong}; nothing was seeded"))?,
                Some(Reply::Refused(Refusal::Damaged(place))) => {
                    leave(at, id, place);
                    self.left.insert(id.clone());
                }
                // Of a hold, or claimed and never decided: the answer to the seed will say.
                Some(Reply::Refused(_)) => {}
                other => bail!("{at}: the shards did not say what {id:?} stands for: {other:?}"),
            }
        }
        Ok(())
    }

    /// Whether the ledger will take all seeds, in order.
    fn check(&mut self, seeds: &[Seed], shard_count: u16) -> Result<()> {
        let (mut ids, mut assets) = (HashSet::new(), HashSet::new());
        for Seed { at, what } in seeds {
            let wrong = match what {
                SeedKind::Asset { name, .. } if !assets.insert(name) => Err(format!("the asset {name:?} stands twice")),
                SeedKind::Asset { name, decimals } => self.check_asset(name, *decimals),
                SeedKind::Account { id, asset, kind } => self.check_account(id, asset, *kind),
                SeedKind::Transfer { id, .. } if !ids.insert(id) => Err(format!("the id {id:?} stands twice")),
                SeedKind::Transfer { id, debit, credit, amount, memo } => {
                    self.check_transfer(id, [debit, credit], *amount, memo, shard_count)
                }
            };
            wrong.map_err(|wrong| anyhow!("{at}: {wrong}; nothing was seeded"))?;
        }
        Ok(())
    }

    fn check_asset(&self, name: &str, decimals: u64) -> Result<(), String> {
        if !is_asset(name) {
            return Err(format!("{name:?} is no asset: 1 to 32 bytes of visible characters"));
        }
        if decimals > ASSET_DECIMALS_MAX.into() {
            return Err(format!("decimals = {decimals}: expected 0 to {ASSET_DECIMALS_MAX}"));
        }
        match self.decimals.get(name) {
            Some(declared) if u64::from(*declared) != decimals => {
                Err(format!("the asset {name:?} is declared with {declared} decimals, which never changes"))
            }
            _ => Ok(()),
        }
    }

    fn check_account(&mut self, id: &str, asset: &str, kind: AccountKind) -> Result<(), String> {
        match self.accounts.get_mut(id) {
            Some(known) if known.is_seeded => Err(format!("the account {id:?} stands twice")),
            Some(known) if *known.asset != *asset || known.kind != kind => Err(format!(
                "the account {id:?} is there as a {:?} of {:?}, which never changes",
                known.kind, known.asset
            )),
            Some(known) => {
                known.is_seeded = true;
                Ok(())
            }
            None if !is_account_id(id) => {
                Err(format!("{id:?} is no account id: 1 to 128 bytes of visible characters without '/' and '*'"))
            }
            None if !is_asset(asset) => Err(format!("{asset:?} is no asset: 1 to 32 bytes of visible characters")),
            None => {
                self.accounts.insert(id.into(), Known { is_seeded: true, ..Known::new(asset, kind) });
                Ok(())
            }
        }
    }

    fn check_transfer(
        &mut self,
        id: &str,
        [debit, credit]: [&str; 2],
        amount: u64,
        memo: &str,
        shard_count: u16,
    ) -> Result<(), String> {
        if !is_transfer_id(id) {
            return Err(format!("{id:?} is no transfer id: 1 to 64 bytes of visible characters"));
        }
        if amount == 0 || amount > i64::MAX as u64 {
            return Err(format!("amount = {amount}: expected 1 to {}", i64::MAX));
        }
        if memo.len() > MEMO_BYTES_MAX {
            return Err(format!("the memo has {} bytes: expected at most {MEMO_BYTES_MAX}", memo.len()));
        }
        if debit == credit {
            return Err(format!("debit and credit are both {debit:?}"));
        }
        let missing = [debit, credit].into_iter().find(|id| !self.accounts.contains_key(*id));
        match missing {
            Some(missing) if !self.is_partial => {
                return Err(format!("there is no account {missing:?}; write a [[seed.account]] for it"));
            }
            Some(_) => return Ok(()),
            None => {}
        }
        if self.used.contains(id) || self.left.contains(id) {
            return Ok(());
        }
        let (from, to) = (&self.accounts[debit], &self.accounts[credit]);
        if from.asset != to.asset {
            return Err(format!("{debit:?} holds {:?}, and {credit:?} holds {:?}", from.asset, to.asset));
        }
        let least = match from.kind {
            AccountKind::Wallet => 0,
            AccountKind::Source => -(i128::from(i64::MAX) / i128::from(shard_count)),
            AccountKind::Collector => return Err(format!("{debit:?} is a collector, which is only credited")),
        };
        // What they have is not known, nor whether this was done before.
        if self.is_partial {
            return Ok(());
        }
        let amount = i128::from(amount);
        if from.available - amount < least {
            return Err(format!("{debit:?} has {} left, not {amount}", from.available - least));
        }
        let forbidden = from.rules.status.forbids_debit().or_else(|| to.rules.status.forbids_credit());
        if let Some(refusal) = forbidden {
            return Err(format!("the seed of {id:?} would be refused: {}", refusal.code()));
        }
        if from.rules.balance_min.is_some_and(|min| from.available - amount < min.into()) {
            return Err(format!("{debit:?} would have less than its balance_min: {}", from.available - amount));
        }
        if let Some(max) = to.rules.balance_max {
            if shard_of(debit, shard_count) != shard_of(credit, shard_count) {
                return Err(format!("{credit:?} has a balance_max, and is not on the shard of {debit:?}"));
            }
            if to.balance + amount > max.into() {
                return Err(format!("{credit:?} would have {}, and its balance_max is {max}", to.balance + amount));
            }
        }
        for (id, change) in [(debit, -amount), (credit, amount)] {
            let known = self.accounts.get_mut(id).expect("it is there");
            known.available += change;
            known.balance += change;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_machines::RecordPosition;
    use tidegate_machines::ledger::AccountStatus;

    use super::*;

    fn account(id: &str, kind: AccountKind) -> Seed {
        Seed { at: "dev.toml:1".into(), what: SeedKind::Account { id: id.into(), asset: "credit".into(), kind } }
    }

    fn transfer(id: &str, debit: &str, credit: &str, amount: u64) -> Seed {
        let (id, debit, credit, memo) = (id.into(), debit.into(), credit.into(), "".into());
        Seed { at: "dev.toml:9".into(), what: SeedKind::Transfer { id, debit, credit, amount, memo } }
    }

    fn checked(more: &[Seed]) -> Result<(), String> {
        checked_after(Before::default(), more)
    }

    fn checked_after(mut before: Before, more: &[Seed]) -> Result<(), String> {
        let mut seeds = vec![
            account("source", AccountKind::Source),
            account("wallet", AccountKind::Wallet),
            account("collector", AccountKind::Collector),
        ];
        seeds.extend_from_slice(more);
        before.check(&seeds, 1).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn wrong(seeds: &[Seed], says: &str) {
        let said = checked(seeds).expect_err(says);
        assert!(said.contains(says) && said.starts_with("dev.toml:"), "{said}");
    }

    #[test]
    fn what_the_ledger_takes_is_right() {
        let seeds = [transfer("a", "source", "wallet", 10), transfer("b", "wallet", "collector", 10)];
        assert_eq!(checked(&seeds), Ok(()));
    }

    #[test]
    fn what_the_ledger_would_refuse_is_found_before_it_is_asked() {
        wrong(&[transfer("a", "source", "walet", 10)], "there is no account \"walet\"");
        wrong(&[transfer("a", "wallet", "collector", 1)], "\"wallet\" has 0 left, not 1");
        wrong(&[transfer("a", "source", "wallet", 0)], "amount = 0");
        wrong(&[transfer("a", "source", "wallet", u64::MAX)], "amount = 18446744073709551615");
        wrong(&[transfer("a\u{3164}", "source", "wallet", 1)], "is no transfer id");
        wrong(&[transfer("a", "source", "source", 1)], "debit and credit are both");
        wrong(&[transfer("a", "collector", "wallet", 1)], "only credited");
        wrong(&[transfer("a", "source", "wallet", 1), transfer("a", "source", "wallet", 1)], "stands twice");
        wrong(&[account("wallet", AccountKind::Wallet)], "stands twice");
        wrong(&[account("a/b", AccountKind::Wallet)], "is no account id");
        let mut other = account("points", AccountKind::Wallet);
        if let SeedKind::Account { asset, .. } = &mut other.what {
            *asset = "point".into();
        }
        wrong(&[other, transfer("a", "source", "points", 1)], "holds \"point\"");
    }

    #[test]
    fn an_asset_has_its_decimals_for_ever() {
        let asset = |name: &str, decimals| Seed {
            at: "dev.toml:3".into(),
            what: SeedKind::Asset { name: name.into(), decimals },
        };
        assert_eq!(checked(&[asset("eur", 2), asset("jpy", 0)]), Ok(()));
        wrong(&[asset("eur", 2), asset("eur", 2)], "the asset \"eur\" stands twice");
        wrong(&[asset("eur", 19)], "decimals = 19: expected 0 to 18");
        wrong(&[asset(" eur", 2)], "is no asset");
        let declared = || Before { decimals: HashMap::from([("eur".into(), 2)]), ..Before::default() };
        assert_eq!(checked_after(declared(), &[asset("eur", 2)]), Ok(()));
        let said = checked_after(declared(), &[asset("eur", 3)]).expect_err("other decimals");
        assert!(said.contains("declared with 2 decimals") && said.contains("nothing was seeded"), "{said}");
    }

    #[test]
    fn bounds_are_those_of_the_ledger_to_the_last_unit() {
        let most = i64::MAX as u64;
        assert_eq!(checked(&[transfer("a", "source", "wallet", most)]), Ok(()));
        let one_more = [transfer("a", "source", "wallet", most), transfer("b", "source", "wallet", 1)];
        wrong(&one_more, "\"source\" has 0 left, not 1");
        wrong(&[transfer("a", "source", "wallet", most + 1)], "amount = 9223372036854775808");
        // On each of two shards a source may issue half of it.
        let mut seeds = vec![account("source", AccountKind::Source), account("wallet", AccountKind::Wallet)];
        seeds.push(transfer("a", "source", "wallet", most / 2));
        assert!(Before::default().check(&seeds, 2).is_ok());
        seeds.push(transfer("b", "source", "wallet", 1));
        assert!(Before::default().check(&seeds, 2).is_err());

        let with_memo = |bytes: usize| {
            let mut seed = transfer("a", "source", "wallet", 1);
            if let SeedKind::Transfer { memo, .. } = &mut seed.what {
                *memo = "x".repeat(bytes).into();
            }
            seed
        };
        assert_eq!(checked(&[with_memo(MEMO_BYTES_MAX)]), Ok(()));
        wrong(&[with_memo(MEMO_BYTES_MAX + 1)], "the memo has");
        let decimals =
            |decimals| Seed { at: "dev.toml:3".into(), what: SeedKind::Asset { name: "eur".into(), decimals } };
        assert_eq!(checked(&[decimals(ASSET_DECIMALS_MAX.into())]), Ok(()));
    }

    #[test]
    fn what_was_set_on_accounts_holds_for_seeds() {
        let refused = |id: &str, change: fn(&mut Known), seeds: &[Seed]| {
            let mut known =
                Known::new("credit", if id == "source" { AccountKind::Source } else { AccountKind::Wallet });
            change(&mut known);
            let before = Before { accounts: HashMap::from([(id.into(), known)]), ..Before::default() };
            checked_after(before, seeds).err().unwrap_or_default()
        };
        let gift = [transfer("a", "source", "wallet", 10)];
        let frozen: fn(&mut Known) = |known| known.rules.status = AccountStatus::Frozen;
        assert!(
            refused("source", frozen, &gift).contains("would be refused: debit_account_frozen; nothing was seeded")
        );
        assert!(refused("wallet", frozen, &gift).contains("would be refused: credit_account_frozen"));
        let max: fn(&mut Known) = |known| known.rules.balance_max = Some(10);
        assert_eq!(refused("wallet", max, &gift), "");
        let more = [gift[0].clone(), transfer("b", "source", "wallet", 1)];
        assert!(refused("wallet", max, &more).contains("\"wallet\" would have 11, and its balance_max is 10"));
        let min: fn(&mut Known) = |known| known.rules.balance_min = Some(-9);
        assert!(refused("source", min, &gift).contains("less than its balance_min: -10"));
    }

    #[test]
    fn a_used_id_stands_for_its_seed_or_stops_the_start() {
        let known = TransferView {
            id: "gift".into(),
            state: TransferState::Applied,
            debit: "source".into(),
            credit: "wallet".into(),
            amount: 10,
            memo: "".into(),
            code: 0,
            user_data: "".into(),
            time_ms: 1,
            at: RecordPosition(0),
        };
        let check = |known: &TransferView, amount| check_known(known, ("source", "wallet"), amount, "");
        assert_eq!(check(&known, 10), Ok(()));
        let other = check(&known, 11).expect_err("it has another amount");
        assert!(other.contains("id_reused; its id stands for 10 from \"source\""), "{other}");
        assert!(check(&TransferView { code: 1, ..known.clone() }, 10).is_err());
        let state = TransferState::Refused(Refusal::BalanceAboveMax);
        let before = check(&TransferView { state, ..known }, 10).expect_err("it was refused");
        assert!(before.contains("its id was refused at an earlier start"), "{before}");
    }

    #[test]
    fn what_seeds_say_alone_is_checked_without_a_ledger() {
        let seeds = |more: &[Seed]| [&[account("source", AccountKind::Source)], more].concat();
        let checked = |more: &[Seed], is_new| check_alone(&seeds(more), 1, is_new).map_err(|error| error.to_string());
        let gift = transfer("a", "source", "wallet", 1);
        let one = std::slice::from_ref(&gift);
        assert_eq!(checked(one, false), Ok(()), "the wallet may be there");
        assert!(checked(one, true).is_err_and(|error| error.contains("there is no account \"wallet\"")));
        for wrong in [vec![gift.clone(), gift], vec![transfer("a", "source", "wallet", 0)]] {
            assert!(checked(&wrong, false).is_err() && checked(&wrong, true).is_err());
        }
        let spent = [account("wallet", AccountKind::Wallet), transfer("b", "wallet", "source", 1)];
        assert!(checked(&spent, true).is_err() && checked(&spent, false).is_ok(), "it may have something");
    }

    #[test]
    fn an_account_that_is_there_as_another_one_stops_the_start() {
        let known = |asset: &str, kind| Before {
            accounts: HashMap::from([("wallet".into(), Known::new(asset, kind))]),
            ..Before::default()
        };
        assert_eq!(checked_after(known("credit", AccountKind::Wallet), &[]), Ok(()));
        for other in [known("point", AccountKind::Wallet), known("credit", AccountKind::Source)] {
            let said = checked_after(other, &[]).expect_err("it is another account");
            assert!(said.contains("which never changes"), "{said}");
        }
        let mut nameless = account("points", AccountKind::Wallet);
        if let SeedKind::Account { asset, .. } = &mut nameless.what {
            *asset = " credit".into();
        }
        wrong(&[nameless], "\" credit\" is no asset");
    }

    #[test]
    fn what_was_seeded_before_is_not_weighed_again() {
        let spent = || {
            let wallet = ("wallet".into(), Known::new("credit", AccountKind::Wallet));
            Before { used: HashSet::from(["gift".into()]), accounts: HashMap::from([wallet]), ..Before::default() }
        };
        assert_eq!(checked_after(spent(), &[transfer("gift", "wallet", "collector", 10)]), Ok(()));
        assert!(checked_after(spent(), &[transfer("new", "wallet", "collector", 10)]).is_err());
        let other = [transfer("gift", "source", "wallet", 10), account("x", AccountKind::Wallet)];
        assert_eq!(checked_after(spent(), &other), Ok(()));
    }
}
