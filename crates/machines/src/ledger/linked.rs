//! Linked groups: all transfers and holds, or none.
//!
//! The group is checked item by item on an overlay of the resulting figures, with the same rules as a single transfer
//! or hold. If all pass, the shard decides and applies them one by one, and none can be refused.

use hashbrown::HashMap;

use super::account::{Account, AccountSlot, reserve};
use super::accounts::Guess;
use super::asset::AssetIndex;
use super::hash::Content;
use super::limits::TRANSFERS_PER_REQUEST_MAX;
use super::outcome::Refusal;
use super::request::{AccountKind, Hold, Transfer};
use super::rules::{Figures, Verdict};
use super::state::Ledger;
use super::validity::{check_expiry, check_form, check_label};
use crate::TimeMs;

/// What the group would leave behind, for the accounts it touches.
struct Overlay<'l> {
    ledger: &'l Ledger,
    /// Balance and held.
    figures: HashMap<AccountSlot, (i64, u64)>,
    reserves: HashMap<AssetIndex, u64>,
    /// How many holds the group has placed on each account so far.
    placed: HashMap<AccountSlot, u32>,
}

impl Figures for Overlay<'_> {
    fn figures(&self, slot: AccountSlot, account: &Account) -> (i64, u64) {
        self.figures.get(&slot).copied().unwrap_or((account.balance, account.held))
    }

    fn asset_reserve(&self, asset: AssetIndex) -> u64 {
        self.reserves.get(&asset).copied().unwrap_or_else(|| self.ledger.asset_reserve(asset))
    }
}

impl Overlay<'_> {
    /// Moves the balance by `change`, and holds `placed` more.
    fn change(&mut self, slot: AccountSlot, change: i128, placed: u64) {
        let account = self.ledger.accounts.get(slot).expect("found accounts are there");
        if !account.is_on(self.ledger.shard) {
            return;
        }
        let (before, held_before) = self.figures(slot, account);
        let after = i64::try_from(i128::from(before) + change).expect("what sources issue is capped");
        let held = held_before.checked_add(placed).expect("what is held is weighed");
        assert!(account.kind != AccountKind::Wallet || i128::from(after) >= i128::from(held), "a wallet is overdrawn");
        self.figures.insert(slot, (after, held));
        if account.kind == AccountKind::Source {
            let before = reserve(account.kind, before, held_before);
            let others = self.asset_reserve(account.asset).checked_sub(before).expect("every source is in the sum");
            self.reserves.insert(account.asset, others + reserve(account.kind, after, held));
        }
    }
}

impl Ledger {
    /// Whether these transfers and holds, decided and applied in order, would all be applied. `Err` names the first
    /// that would not, and why. Their ids must be new and distinct, and all that other shards know of their credit
    /// accounts adopted: one that is unknown is taken as missing. An account may have so many open holds afterwards.
    pub fn check_linked<'a>(
        &self,
        items: impl Iterator<Item = Content<'a>>,
        open_holds_max: u32,
        _now: TimeMs,
    ) -> Result<(), (usize, Refusal)> {
        let mut overlay =
            Overlay { ledger: self, figures: HashMap::new(), reserves: HashMap::new(), placed: HashMap::new() };
        for (index, item) in items.enumerate() {
            assert!(index < TRANSFERS_PER_REQUEST_MAX, "a group of more than {TRANSFERS_PER_REQUEST_MAX}");
            overlay.admit(&item, open_holds_max).map_err(|refusal| (index, refusal))?;
        }
        Ok(())
    }
}

impl Overlay<'_> {
    fn admit(&mut self, item: &Content<'_>, open_holds_max: u32) -> Result<(), Refusal> {
        let (amount, debit, credit, is_hold) = match *item {
            Content::Transfer(Transfer { id, debit, credit, amount, memo, label }) => {
                let amount = check_form(id, false, debit, credit, amount, memo)?;
                check_label(&label)?;
                (amount, debit, credit, false)
            }
            Content::Hold(Hold { id, debit, credit, amount, expires_in_ms, memo, label }) => {
                let amount = check_form(id, false, debit, credit, amount, memo)?;
                check_label(&label)?;
                check_expiry(expires_in_ms)?;
                (amount, debit, credit, true)
            }
        };
        match self.ledger.weigh((debit, credit), Guess::NONE, amount, true, self) {
            Verdict::Admit { debit, .. } if is_hold => {
                let placed = self.placed.entry(debit).or_insert(0);
                if self.ledger.holds.count_of(debit) + *placed >= open_holds_max {
                    return Err(Refusal::TooManyHolds);
                }
                *placed += 1;
                self.change(debit, 0, amount.get());
            }
            Verdict::Admit { debit, credit } => {
                self.change(debit, -i128::from(amount.get()), 0);
                self.change(credit, i128::from(amount.get()), 0);
            }
            Verdict::Refuse(refusal) | Verdict::Invalid(refusal) => return Err(refusal),
            Verdict::NeedAccount => unreachable!("unknown accounts are taken as missing"),
        }
        Ok(())
    }
}
