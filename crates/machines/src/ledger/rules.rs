//! The rules for debits, the same for a transfer, a hold, and each member of a linked group.

use tidegate_planted::{Bug, is_planted};

use super::account::{Account, AccountSlot};
use super::accounts::Guess;
use super::asset::AssetIndex;
use super::outcome::Refusal;
use super::request::AccountKind;
use super::state::Ledger;
use super::validity::check_accounts;
use crate::Amount;

/// Where the figures that a rule weighs come from: the live accounts, or those a linked group would leave.
pub(super) trait Figures {
    /// Balance and held.
    fn figures(&self, slot: AccountSlot, account: &Account) -> (i64, u64);
    /// Sum of the reserves of the sources of one asset.
    fn asset_reserve(&self, asset: AssetIndex) -> u64;
}

impl Figures for Ledger {
    #[inline(always)]
    fn figures(&self, _: AccountSlot, account: &Account) -> (i64, u64) {
        (account.balance, account.held)
    }

    #[inline(always)]
    fn asset_reserve(&self, asset: AssetIndex) -> u64 {
        self.assets.get(asset).reserve
    }
}

/// What the rules say of a debit and credit account.
pub(super) enum Verdict {
    /// The amount may leave `debit` (or be reserved there) for `credit`.
    Admit { debit: AccountSlot, credit: AccountSlot },
    /// Refused for what the state is.
    Refuse(Refusal),
    /// Refused for its form.
    Invalid(Refusal),
    /// The credit account's home must be asked.
    NeedAccount,
}

impl Ledger {
    /// Weighs moving or reserving `amount`. Panics if the debit account lives on another shard: that is the router's
    /// bug.
    #[inline]
    pub(super) fn weigh(
        &self,
        (debit, credit): (&str, &str),
        guess: Guess,
        amount: Amount,
        credit_missing: bool,
        figures: &impl Figures,
    ) -> Verdict {
        let found = (self.accounts.find_near(debit, guess.debit), self.accounts.find_near(credit, guess.credit));
        let (Some(debit_slot), Some(credit_slot)) = found else {
            return self.weigh_unknown(debit, credit, credit_missing);
        };
        let (Some(from), Some(to)) = (self.accounts.get(debit_slot), self.accounts.get(credit_slot)) else {
            unreachable!("found accounts are there")
        };
        if from.asset != to.asset {
            return Verdict::Refuse(Refusal::AssetMismatch);
        }
        let is_restricted = from.is_restricted | to.is_restricted;
        if is_restricted && let Err(refusal) = self.check_status(debit_slot, credit_slot) {
            return Verdict::Refuse(refusal);
        }
        let (balance, held) = figures.figures(debit_slot, from);
        if let Err(refusal) = self.may_leave(from, balance, held, amount, figures) {
            return Verdict::Refuse(refusal);
        }
        if is_restricted {
            let (to_balance, _) = figures.figures(credit_slot, to);
            let available = i128::from(balance) - i128::from(held);
            let checked = self
                .check_min(debit_slot, available, amount)
                .and_then(|()| self.check_max(credit_slot, to, to_balance, amount));
            if let Err(refusal) = checked {
                return Verdict::Refuse(refusal);
            }
        }
        debug_assert!(debit_slot != credit_slot, "{debit} and {credit} are two ids of one account");
        assert!(from.home == self.shard, "a debit of {debit} came to shard {}, not its home {}", self.shard, from.home);
        Verdict::Admit { debit: debit_slot, credit: credit_slot }
    }

    #[inline]
    fn may_leave(
        &self,
        from: &Account,
        balance: i64,
        held: u64,
        amount: Amount,
        figures: &impl Figures,
    ) -> Result<(), Refusal> {
        let after = i128::from(balance) - i128::from(held) - i128::from(amount.get());
        let wrongly_refused = is_planted(Bug::FundedTransferRefused) && amount.get().is_multiple_of(7)
            || is_planted(Bug::HeldCountedTwice) && after < i128::from(held);
        if from.kind == AccountKind::Wallet && wrongly_refused {
            return Err(Refusal::InsufficientFunds { available: amount.get() - 1 });
        }
        match from.kind {
            AccountKind::Wallet if after < 0 => {
                let available = u64::try_from(after + i128::from(amount.get()));
                let available = available.expect("a wallet has what it has held");
                Err(Refusal::InsufficientFunds { available })
            }
            AccountKind::Wallet => Ok(()),
            AccountKind::Source => {
                let before = super::account::reserve(from.kind, balance, held);
                let others = figures.asset_reserve(from.asset).checked_sub(before).expect("every source is in the sum");
                let reserve = i128::from(others) + (-after).max(0);
                if reserve > i128::from(self.issuance_cap()) { Err(Refusal::Overflow) } else { Ok(()) }
            }
            AccountKind::Collector => Err(Refusal::CollectorCreditOnly),
        }
    }

    /// Whether the status of the two accounts lets money move.
    #[cold]
    pub(super) fn check_status(&self, debit: AccountSlot, credit: AccountSlot) -> Result<(), Refusal> {
        let leaves =
            self.settings.rules(debit).status.forbids_debit().filter(|_| !is_planted(Bug::FrozenAccountDebited));
        let enters =
            || self.settings.rules(credit).status.forbids_credit().filter(|_| !is_planted(Bug::FrozenAccountCredited));
        match leaves.or_else(enters) {
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }

    /// Whether a hold may be posted: what was reserved may still leave and enter.
    #[inline]
    pub(super) fn check_post(&self, debit: AccountSlot, credit: AccountSlot, posted: Amount) -> Result<(), Refusal> {
        let (Some(from), Some(to)) = (self.accounts.get(debit), self.accounts.get(credit)) else {
            unreachable!("a hold is between accounts that are there")
        };
        if !from.is_restricted && !to.is_restricted {
            return Ok(());
        }
        self.check_status(debit, credit)?;
        if is_planted(Bug::PostLimitIgnored) {
            return Ok(());
        }
        self.check_max(credit, to, to.balance, posted)
    }

    /// Whether the debited account keeps what it must keep. `available` is balance less holds before the debit.
    #[cold]
    pub(super) fn check_min(&self, debit: AccountSlot, available: i128, amount: Amount) -> Result<(), Refusal> {
        match self.settings.rules(debit).balance_min {
            Some(min) if available - i128::from(amount.get()) < i128::from(min) => Err(Refusal::BalanceBelowMin),
            _ => Ok(()),
        }
    }

    /// Whether the credited account may have so much. Only its own shard knows its balance, so a debit that another
    /// shard decides is refused: a limit that is checked too late is none.
    #[cold]
    pub(super) fn check_max(
        &self,
        credit: AccountSlot,
        to: &Account,
        balance: i64,
        amount: Amount,
    ) -> Result<(), Refusal> {
        match self.settings.rules(credit).balance_max {
            Some(_) if !to.is_on(self.shard) => Err(Refusal::LimitAcrossShards),
            Some(max) if i128::from(balance) + i128::from(amount.get()) > i128::from(max) => {
                Err(Refusal::BalanceAboveMax)
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn weigh_unknown(&self, debit: &str, credit: &str, credit_missing: bool) -> Verdict {
        if let Err(refusal) = check_accounts(debit, credit) {
            return Verdict::Invalid(refusal);
        }
        assert!(debit != credit, "a form that was not checked");
        if self.accounts.find(debit).is_none() {
            let home = super::hash::shard_of(debit, self.shard_count);
            assert!(home == self.shard, "a debit of {debit} came to shard {}, not its home {home}", self.shard);
            return Verdict::Refuse(Refusal::DebitAccountNotFound);
        }
        let elsewhere = super::hash::shard_of(credit, self.shard_count) != self.shard;
        if elsewhere && !credit_missing {
            return Verdict::NeedAccount;
        }
        Verdict::Refuse(Refusal::CreditAccountNotFound)
    }
}
