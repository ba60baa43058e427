//! Limits and freezes accounts while nothing else happens: what was set holds for transfers, holds and posts, and no
//! longer than it is set.
//!
//! ```text
//!   balance_min = available - 1   transfer 2, hold 2 ─▶ refused      transfer 1 ─▶ applied
//!   hold 2, then balance_max = balance of the other     post ─▶ refused
//!   debits frozen                 post, transfer ─▶ refused          opened again: post ─▶ applied
//!   the other frozen              transfer ─▶ refused                opened again: transfer ─▶ applied
//! ```

use tidegate_ledger::message::{ChangeRequest, Reply};
use tidegate_machines::ledger::{AccountKind, AccountStatus, AccountView, Outcome, Refusal};

use super::LedgerWorld;
use super::probe::{EXPIRES_IN_MS, available};
use crate::harness::Store;
use crate::ledger::ask::{Ask, Content, Item};
use crate::note;
use crate::violation::{Violation, must};

/// What a wallet must have for all of it.
const AVAILABLE_MIN: u64 = 8;
/// A power failure that was drawn before may cost an answer.
const ATTEMPTS: usize = 4;

/// The accounts of a probe, and its number.
struct Pair {
    wallet: String,
    other: String,
    number: usize,
}

impl Pair {
    fn item(&self, name: &str, amount: u64, expires_in_ms: Option<u64>) -> Item {
        let (debit, credit, memo) = (self.wallet.clone(), self.other.clone(), "settings".into());
        let content = Content { debit, credit, amount, memo, expires_in_ms };
        Item { id: format!("probe-{}-{name}", self.number), content }
    }

    fn transfer(&self, name: &str, amount: u64) -> Ask {
        Ask::Transfers { linked: false, items: vec![self.item(name, amount, None)] }
    }

    fn hold(&self, name: &str, amount: u64) -> Ask {
        Ask::Holds { linked: false, items: vec![self.item(name, amount, Some(EXPIRES_IN_MS))] }
    }

    fn post(&self, name: &str) -> Ask {
        Ask::Posts(vec![(self.item(name, 1, None).id, None)])
    }
}

impl<S: Store> LedgerWorld<S> {
    /// Tries what can be set on two accounts of one asset on which nothing is set.
    pub(super) fn probe_settings(&mut self, wallet: &str, other: &AccountView) -> Result<(), Violation> {
        let is_free = |id: &str| self.load.model.changeable(id).is_some();
        if other.kind == AccountKind::Collector || !is_free(wallet) || !is_free(&other.id) {
            return Ok(());
        }
        let available = available(&self.view(wallet)?);
        if available < AVAILABLE_MIN {
            return Ok(());
        }
        note!(self.site.trace, "probe the settings of {wallet} and {}", other.id);
        let pair = Pair { wallet: wallet.into(), other: other.id.to_string(), number: self.load.model.ids() };
        self.probe_min(&pair, available)?;
        self.must_do(pair.hold("held", 2))?;
        self.probe_max(&pair)?;
        self.probe_status(&pair)?;
        self.site.tally.add("a probe of settings", 1);
        Ok(())
    }

    fn probe_min(&mut self, pair: &Pair, available: u64) -> Result<(), Violation> {
        let min = |min: Option<i64>| ChangeRequest { balance_min: Some(min), ..ChangeRequest::default() };
        self.set(&pair.wallet, min(Some(available as i64 - 1)))?;
        let refused = [Refusal::BalanceBelowMin];
        self.must_not("a lower limit holds", pair.transfer("below", 2), &refused)?;
        self.must_not("a lower limit holds for holds, too", pair.hold("held-below", 2), &refused)?;
        self.must_do(pair.transfer("down-to", 1))?;
        self.set(&pair.wallet, min(None))
    }

    fn probe_max(&mut self, pair: &Pair) -> Result<(), Violation> {
        // Credits between shards need time to arrive, and what was tried in vain is tried again only later.
        self.site.clock.go_on();
        self.come_to_rest()?;
        self.site.clock.stand_still();
        let balance = self.view(&pair.other)?.balance;
        let max = |max: Option<i64>| ChangeRequest { balance_max: Some(max), ..ChangeRequest::default() };
        if balance < 0 && self.view(&pair.other)?.kind == AccountKind::Wallet {
            return Ok(());
        }
        self.set(&pair.other, max(Some(balance)))?;
        let refused = [Refusal::BalanceAboveMax, Refusal::LimitAcrossShards];
        self.must_not("an upper limit holds", pair.transfer("above", 1), &refused)?;
        self.must_not("an upper limit holds for posts, too", pair.post("held"), &refused)?;
        self.set(&pair.other, max(None))
    }

    fn probe_status(&mut self, pair: &Pair) -> Result<(), Violation> {
        let status = |status| ChangeRequest { status: Some(status), ..ChangeRequest::default() };
        self.set(&pair.wallet, status(AccountStatus::DebitsFrozen))?;
        let refused = [Refusal::DebitAccountFrozen];
        self.must_not("nothing leaves a frozen account", pair.transfer("frozen", 1), &refused)?;
        self.must_not("nothing leaves a frozen account", pair.post("held"), &refused)?;
        self.set(&pair.wallet, status(AccountStatus::Open))?;
        self.set(&pair.other, status(AccountStatus::Frozen))?;
        let refused = [Refusal::CreditAccountFrozen];
        self.must_not("nothing enters a frozen account", pair.transfer("into-frozen", 1), &refused)?;
        self.must_not("nothing enters a frozen account", pair.post("held"), &refused)?;
        self.set(&pair.other, status(AccountStatus::Open))?;
        self.must_do(pair.post("held"))?;
        self.must_do(pair.transfer("opened", 1))
    }

    fn view(&mut self, id: &str) -> Result<AccountView, Violation> {
        let mut views = self.read_views(&[id.to_owned()])?;
        views.remove(id).ok_or_else(|| Violation::of("no acknowledged account is lost", id))
    }

    /// Changes an account, and waits for the answer.
    fn set(&mut self, id: &str, change: ChangeRequest) -> Result<(), Violation> {
        for _ in 0..ATTEMPTS {
            let revision = self.view(id)?.settings.map_or(0, |settings| settings.revision);
            let change = ChangeRequest { if_revision: Some(revision), ..change.clone() };
            match self.ask_all(vec![Ask::Change { id: id.to_owned(), change }])?.pop() {
                Some(Reply::AccountChanged { .. }) => return Ok(()),
                // It was done, and the answer lost with the process.
                Some(Reply::Refused(Refusal::RevisionStale { .. })) => {}
                other => return Err(Violation::of("an account can be changed", format!("{id}: {other:?}"))),
            }
        }
        Err(Violation::of("an account can be changed", format!("{id}: {change:?}")))
    }

    fn must_do(&mut self, ask: Ask) -> Result<(), Violation> {
        let outcome = self.outcome_of(ask.clone())?;
        must(matches!(outcome, Outcome::Applied | Outcome::Duplicate), "what nothing forbids is done", || {
            format!("{ask:?} was answered {outcome:?}")
        })
    }

    fn must_not(&mut self, property: &'static str, ask: Ask, refused: &[Refusal]) -> Result<(), Violation> {
        let outcome = self.outcome_of(ask.clone())?;
        let is_refused = outcome.refusal().is_some_and(|refusal| refused.contains(&refusal));
        must(is_refused, property, || format!("{ask:?} was answered {outcome:?}, expected one of {refused:?}"))
    }
}
