//! Spends what wallets have, while nothing else happens: what is available can be spent, and not one unit more.
//!
//! ```text
//!   figures of a wallet at rest:  balance ─ held = available
//!   transfer some, hold the rest  ─▶ applied       transfer one more ─▶ refused, with what is available
//!   void the hold                 ─▶ applied       transfer one      ─▶ applied
//! ```
//!
//! Why beside the oracle: while clients work, a wallet may or may not have the funds, so a refusal for want of them can
//! hardly ever be called wrong. At rest the answer to each request is known.

use tidegate_ledger::message::Reply;
use tidegate_machines::ledger::{AccountKind, AccountView, Outcome, Refusal};

use super::LedgerWorld;
use crate::harness::Store;
use crate::ledger::ask::{Ask, Content, Item};
use crate::ledger::model::Census;
use crate::note;
use crate::violation::{Violation, must};

/// Wallets that one census tries.
const WALLETS: usize = 4;
/// The most that a first transfer takes, so that a wallet lasts for many censuses.
const AMOUNT_MAX: u64 = 21;
/// Longer than the clock stands.
pub(super) const EXPIRES_IN_MS: u64 = 60_000;

impl<S: Store> LedgerWorld<S> {
    /// Tries some wallets of a census that was just taken.
    pub(super) fn probe(&mut self, census: &Census) -> Result<(), Violation> {
        let mut funded: Vec<&AccountView> =
            census.values().map(|(view, _)| view).filter(|view| is_funded(view)).collect();
        for _ in 0..WALLETS.min(funded.len()) {
            let wallet = funded.swap_remove(self.site.chance.below(funded.len() as u64) as usize);
            let mut others = census.values().map(|(view, _)| view);
            // A thaw whose client was not answered may be unknown to some shards, until it is asked again.
            let all_know = |view: &AccountView| self.load.model.is_surely_open(&view.id);
            let is_free_other = |view: &&AccountView| view.id != wallet.id && is_free(view) && all_know(view);
            let Some(other) = others.rfind(|view| view.asset == wallet.asset && is_free_other(view)) else { continue };
            // An earlier probe may have credited it. Credits between shards need time to arrive.
            self.site.clock.go_on();
            self.come_to_rest()?;
            self.site.clock.stand_still();
            // Holds whose time is over by now expire in the next step of their shard.
            self.tick()?;
            let now = self.read_views(&[wallet.id.to_string()])?;
            self.probe_wallet(now.values().next().expect("it was read before"), other)?;
            self.site.tally.add("a probe of a wallet", 1);
            self.probe_settings(&wallet.id, other)?;
        }
        Ok(())
    }

    fn probe_wallet(&mut self, wallet: &AccountView, other: &AccountView) -> Result<(), Violation> {
        let available = available(wallet);
        note!(self.site.trace, "probe {} with {available}", wallet.id);
        let first = self.site.chance.within(1..=available.min(AMOUNT_MAX));
        let rest = available - first;
        let number = self.load.model.ids();
        let item = |name: &str, amount, expires_in_ms| Item {
            id: format!("probe-{number}-{name}"),
            content: Content {
                debit: wallet.id.to_string(),
                credit: other.id.to_string(),
                amount,
                memo: String::new(),
                expires_in_ms,
            },
        };
        let transfer = |name, amount| Ask::Transfers { linked: false, items: vec![item(name, amount, None)] };

        self.must_refuse(transfer("too-much", available + 1), available)?;
        self.must_apply(transfer("some", first))?;
        if rest == 0 {
            return self.must_refuse(transfer("empty", 1), 0);
        }
        let hold = item("rest", rest, Some(EXPIRES_IN_MS));
        self.must_apply(Ask::Holds { linked: false, items: vec![hold.clone()] })?;
        self.must_refuse(transfer("held", 1), 0)?;
        self.must_apply(Ask::Voids(vec![hold.id]))?;
        self.must_apply(transfer("released", 1))
    }

    /// An answer may have been lost to a power failure that was drawn before the census; the same is asked again then.
    fn must_apply(&mut self, ask: Ask) -> Result<(), Violation> {
        let outcome = self.outcome_of(ask.clone())?;
        must(matches!(outcome, Outcome::Applied | Outcome::Duplicate), "what is available can be spent", || {
            format!("{ask:?} was answered {outcome:?}")
        })
    }

    fn must_refuse(&mut self, ask: Ask, available: u64) -> Result<(), Violation> {
        let outcome = self.outcome_of(ask.clone())?;
        let refused = Outcome::Refused(Refusal::InsufficientFunds { available });
        must(outcome.as_if_new() == refused, "nothing is spent that is not available", || {
            format!("{ask:?} was answered {outcome:?}, {available} was available")
        })
    }

    pub(super) fn outcome_of(&mut self, ask: Ask) -> Result<Outcome, Violation> {
        match self.ask_all(vec![ask])?.pop() {
            Some(Reply::Outcomes(outcomes)) => Ok(outcomes[0]),
            other => unreachable!("the model lets {other:?} pass"),
        }
    }
}

fn is_funded(view: &AccountView) -> bool {
    view.kind == AccountKind::Wallet && available(view) > 0 && is_free(view)
}

/// Whether nothing that was set on it is in the way of a transfer.
fn is_free(view: &AccountView) -> bool {
    view.settings.as_ref().is_none_or(|settings| !settings.rules.restrict())
}

/// What a wallet may spend; fits, because balances do.
pub(super) fn available(wallet: &AccountView) -> u64 {
    u64::try_from(wallet.available()).unwrap_or(0)
}
