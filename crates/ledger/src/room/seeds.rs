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
use crate::message::{Reply, Request, TransferBatch, Unavailable};
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
            Some(Reply::Unavailable(reason)) => return Err(unavailable(&at, &name, reason)),
            other => bail!("{at}: the shards did not answer the seed of {name:?}: {other:?}"),
        }
    }
    Ok(())
}

/// A seed that was not decided, and is asked again at the next start.
fn unavailable(at: &str, name: &str, reason: Unavailable) -> anyhow::Error {
    let why = match reason {
        Unavailable::DiskFull => {
            "the disk of the data directory has no room for it. Make room there, beyond data.disk_reserve_bytes, which \
             journals leave free"
        }
        Unavailable::ShardFailed => "its journal failed; the log says why. Mend that",
        Unavailable::StateDiffers => "an audit found that its shard is not what its journal says",
        Unavailable::Busy | Unavailable::Recovering | Unavailable::Stopping => "its shard was not ready for it",
    };
    anyhow!("{at}: the seed of {name:?} could not be written: {why}, and start again; what was seeded before it stays")
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
                "the account {id:?} exists already, as a {} of {:?}; its kind and asset never change",
                known.kind.name(),
                known.asset
            )),
            Some(known) => {
                known.is_seeded = true;
                Ok(())
            }
            None if !is_account_id(id) => {
                let rule = "1 to 128 bytes of visible characters without '/' and '*', neither \".\" nor \"..\"";
                Err(format!("{id:?} is no account id: {rule}"))
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
            let rule = "1 to 64 bytes of visible characters, neither \".\" nor \"..\"";
            return Err(format!("{id:?} is no transfer id: {rule}"));
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
mod tests;
