//! Linked groups: all transfers or none.
//!
//! The group is checked transfer by transfer on an overlay of the resulting balances, with the same rules as a single
//! transfer. If all pass, the shard decides and applies them one by one, and none can be refused.

use hashbrown::HashMap;

use super::account::{Account, AccountSlot, reserve};
use super::asset::AssetIndex;
use super::limits::TRANSFERS_PER_REQUEST_MAX;
use super::outcome::Refusal;
use super::request::{AccountKind, Transfer};
use super::rules::{Figures, Verdict};
use super::state::Ledger;
use super::validity::check_form;
use crate::{Amount, TimeMs};

/// What the group would leave behind, for the accounts it touches.
struct Overlay<'l> {
    ledger: &'l Ledger,
    balances: HashMap<AccountSlot, i64>,
    reserves: HashMap<AssetIndex, u64>,
}

impl Figures for Overlay<'_> {
    fn figures(&self, slot: AccountSlot, account: &Account) -> (i64, u64) {
        (self.balances.get(&slot).copied().unwrap_or(account.balance), account.held)
    }

    fn asset_reserve(&self, asset: AssetIndex) -> u64 {
        self.reserves.get(&asset).copied().unwrap_or_else(|| self.ledger.asset_reserve(asset))
    }
}

impl Overlay<'_> {
    fn change(&mut self, slot: AccountSlot, change: i128) {
        let account = self.ledger.accounts.get(slot).expect("found accounts are there");
        if !account.is_on(self.ledger.shard) {
            return;
        }
        let (before, held) = self.figures(slot, account);
        let after = i64::try_from(i128::from(before) + change).expect("what sources issue is capped");
        assert!(account.kind != AccountKind::Wallet || i128::from(after) >= i128::from(held), "a wallet is overdrawn");
        self.balances.insert(slot, after);
        if account.kind == AccountKind::Source {
            let before = reserve(account.kind, before, held);
            let others = self.asset_reserve(account.asset).checked_sub(before).expect("every source is in the sum");
            self.reserves.insert(account.asset, others + reserve(account.kind, after, held));
        }
    }
}

impl Ledger {
    /// Whether these transfers, decided and applied in order, would all be applied. `Err` names the first that would
    /// not, and why. Their ids must be new and distinct, and all that other shards know of their credit accounts
    /// adopted: one that is unknown is taken as missing.
    pub fn check_linked<'a>(
        &self,
        transfers: impl Iterator<Item = Transfer<'a>>,
        _now: TimeMs,
    ) -> Result<(), (usize, Refusal)> {
        let mut overlay = Overlay { ledger: self, balances: HashMap::new(), reserves: HashMap::new() };
        for (index, transfer) in transfers.enumerate() {
            assert!(index < TRANSFERS_PER_REQUEST_MAX, "a group of more than {TRANSFERS_PER_REQUEST_MAX}");
            overlay.admit(&transfer).map_err(|refusal| (index, refusal))?;
        }
        Ok(())
    }
}

impl Overlay<'_> {
    fn admit(&mut self, transfer: &Transfer<'_>) -> Result<(), Refusal> {
        let Transfer { id, debit, credit, amount, memo } = *transfer;
        let amount: Amount = check_form(id, false, debit, credit, amount, memo)?;
        match self.ledger.weigh(debit, credit, amount, true, self) {
            Verdict::Admit { debit, credit } => {
                self.change(debit, -i128::from(amount.get()));
                self.change(credit, i128::from(amount.get()));
                Ok(())
            }
            Verdict::Refuse(refusal) | Verdict::Invalid(refusal) => Err(refusal),
            Verdict::NeedAccount => unreachable!("unknown accounts are taken as missing"),
        }
    }
}
