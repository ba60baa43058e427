//! What an event says of the state before it, checked before anything is changed: that its accounts are there, its
//! money is here, its histories end where it says and lead to the balances it says.
//!
//! A check costs a few comparisons, and runs in the live shard and at every replay.

use super::account::{Account, AccountSlot};
use super::asset::AssetIndex;
use super::event::{AccountStep, CreditStep, Event, HoldFacts};
use super::mismatch::Mismatch;
use super::request::AccountKind;
use super::state::Ledger;
use crate::{Amount, OutboundNumber, RecordPosition, ShardIndex, TimeMs};

/// A failed check, without the position of the record yet.
pub(super) struct CheckFailed {
    slot: Option<AccountSlot>,
    figure: &'static str,
    expected: i128,
    found: i128,
}

pub(super) type Checked<T> = Result<T, CheckFailed>;

#[cold]
pub(super) fn wrong(
    slot: Option<AccountSlot>,
    figure: &'static str,
    expected: impl Into<i128>,
    found: impl Into<i128>,
) -> CheckFailed {
    CheckFailed { slot, figure, expected: expected.into(), found: found.into() }
}

#[inline(always)]
pub(super) fn same<T: PartialEq + Into<i128>>(
    slot: AccountSlot,
    figure: &'static str,
    expected: T,
    found: T,
) -> Checked<()> {
    if expected == found { Ok(()) } else { Err(wrong(Some(slot), figure, expected, found)) }
}

impl Ledger {
    #[cold]
    pub(super) fn mismatch(&self, wrong: CheckFailed, event: &Event<'_>, position: RecordPosition) -> Mismatch {
        let account = wrong.slot.and_then(|slot| self.accounts.get(slot)).map(|account| (&*account.id).into());
        let CheckFailed { figure, expected, found, .. } = wrong;
        Mismatch { position, event: event.name(), account, figure, expected, found }
    }

    /// The account in a slot is the one that the event names.
    pub(super) fn check_named(&self, slot: AccountSlot, id: &str, home: ShardIndex) -> Checked<()> {
        let Some(account) = self.accounts.get(slot) else {
            return Err(wrong(None, "accounts", self.accounts.len(), slot.0));
        };
        if account.home != home {
            return Err(wrong(Some(slot), "home shard", account.home.0, home.0));
        }
        if *account.id != *id {
            return Err(wrong(self.accounts.find(id), "slot of the account named", slot.0, self.accounts.len()));
        }
        Ok(())
    }

    /// What was set on the two accounts allows the movement; nothing is looked up for accounts without settings.
    #[inline]
    pub(super) fn check_settings(
        &self,
        debit: AccountSlot,
        credit: AccountSlot,
        available: i128,
        amount: Amount,
    ) -> Checked<()> {
        let (Some(from), Some(to)) = (self.accounts.get(debit), self.accounts.get(credit)) else {
            unreachable!("checked before")
        };
        if !(from.is_restricted | to.is_restricted) {
            return Ok(());
        }
        let checked = self
            .check_status(debit, credit)
            .and_then(|()| self.check_min(debit, available, amount))
            .and_then(|()| self.check_max(credit, to, to.balance, amount));
        checked.map_err(|refusal| wrong(Some(debit), refusal.code(), 0, 1))
    }

    /// The account exists, its money is here, its history ends where the event says and leads to the balance it says.
    #[inline]
    pub(super) fn check_step(&self, step: AccountStep, change: i128) -> Checked<&Account> {
        let slot = step.slot;
        let Some(account) = self.accounts.get(slot) else {
            return Err(wrong(None, "accounts", self.accounts.len(), slot.0));
        };
        if !account.is_on(self.shard) {
            return Err(wrong(Some(slot), "home shard", account.home.0, self.shard.0));
        }
        same(slot, "previous record", account.last.0, step.prev.0)?;
        same(slot, "balance", i128::from(account.balance) + change, i128::from(step.after))?;
        Ok(account)
    }

    /// As [`Ledger::check_step`], where money moves: the balance before is what the sums say, or memory is damaged.
    #[inline]
    pub(super) fn check_moved(&self, step: AccountStep, change: i128) -> Checked<&Account> {
        let account = self.check_step(step, change)?;
        same(step.slot, "credited - debited", account.net(), account.balance)?;
        Ok(account)
    }

    #[inline]
    pub(super) fn check_debit(&self, step: AccountStep, amount: Amount) -> Checked<&Account> {
        let account = self.check_moved(step, -i128::from(amount.get()))?;
        self.check_debit_kind(step.slot, account.kind, account.home)?;
        Ok(account)
    }

    #[inline]
    pub(super) fn check_debit_kind(&self, slot: AccountSlot, kind: AccountKind, home: ShardIndex) -> Checked<()> {
        if kind == AccountKind::Collector || home != self.shard {
            return Err(wrong(Some(slot), "debits allowed", 0, 1));
        }
        Ok(())
    }

    #[inline]
    pub(super) fn check_credit(
        &self,
        credit: CreditStep,
        debit: AccountSlot,
        asset: AssetIndex,
        amount: Amount,
    ) -> Checked<()> {
        let slot = credit.slot();
        self.check_credit_account(slot, debit, asset)?;
        match credit {
            CreditStep::Here(step) => self.check_moved(step, i128::from(amount.get())).map(|_| ()),
            CreditStep::Outbound { slot, number } => self.check_outbound(slot, number),
        }
    }

    #[inline]
    pub(super) fn check_credit_account(
        &self,
        credit: AccountSlot,
        debit: AccountSlot,
        asset: AssetIndex,
    ) -> Checked<()> {
        let Some(account) = self.accounts.get(credit) else {
            return Err(wrong(None, "accounts", self.accounts.len(), credit.0));
        };
        if credit == debit {
            return Err(wrong(Some(credit), "different accounts", 1, 0));
        }
        same(credit, "asset", asset.0, account.asset.0)
    }

    pub(super) fn check_outbound(&self, slot: AccountSlot, number: OutboundNumber) -> Checked<()> {
        let account = self.accounts.get(slot).expect("checked with its asset");
        if account.is_on(self.shard) {
            return Err(wrong(Some(slot), "credits to other shards", 0, 1));
        }
        same(slot, "next credit to that shard", self.peer(account.home).next().0, number.0)
    }

    pub(super) fn check_reserve(&self, slot: AccountSlot, asset: AssetIndex, balance: i64, held: u64) -> Checked<()> {
        let before = self.accounts.get(slot).expect("checked before").reserve();
        let others = self.assets.get(asset).reserve.checked_sub(before).expect("every source is in the sum");
        let after = i128::from(others) + i128::from(super::account::reserve(AccountKind::Source, balance, held));
        if after > i128::from(self.issuance_cap()) {
            return Err(wrong(Some(slot), "issuance at most", self.issuance_cap(), after));
        }
        Ok(())
    }

    /// The hold is open and the event repeats what its placement said. Returns when it expires.
    pub(super) fn check_open(&self, hold: &HoldFacts<'_>, debit: AccountSlot) -> Checked<TimeMs> {
        let Some(open) = self.holds.find(hold.id) else {
            return Err(wrong(Some(debit), "open holds of this id", 0, 1));
        };
        same(debit, "debit account of the hold", open.debit.0, debit.0)?;
        same(debit, "credit account of the hold", open.credit.0, hold.credit.0)?;
        same(debit, "held by the hold", open.amount.get(), hold.amount.get())?;
        same(debit, "lifetime of the hold", open.expires_in_ms, hold.expires_in_ms)?;
        Ok(open.expires_at)
    }

    pub(super) fn check_other_shard(&self, shard: ShardIndex) -> Checked<()> {
        if shard == self.shard || shard.0 >= self.shard_count {
            return Err(wrong(None, "shards", self.shard_count, shard.0));
        }
        Ok(())
    }
}
