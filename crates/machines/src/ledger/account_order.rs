//! The accounts of a shard in byte order of their ids, for lists.
//!
//! ```text
//!   slots 0 … reached … last       a catch-up takes the next slots into their places
//!             │
//!             ▼
//!   first id ─▶ leaf: 128 slots, in order of the ids in the accounts
//! ```
//!
//! Promise: every account up to [`AccountOrder::reached`] whose money is on the shard stands here once.
//!
//! Why apart from the ledger: no decision needs an order. So the auditor's fold does without it, a start does not wait
//! for it, and accounts can be opened faster than they are sorted. Leaves have slots and no ids: 4 to 8 bytes an
//! account.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::account::{Account, AccountSlot};
use super::account_id::AccountId;
use super::accounts::Accounts;
use super::request::AccountView;
use super::state::Ledger;

/// Slots of one leaf.
const LEAF_SLOTS_MAX: usize = 128;

/// The accounts up to a slot, in byte order of their ids: 4 to 8 bytes each.
#[derive(Debug, Default)]
pub struct AccountOrder {
    /// Leaves by an id that is not above their first and above all of the leaf before. None is empty.
    leaves: BTreeMap<AccountId, Vec<u32>>,
    /// All slots below it are sorted.
    reached: u32,
}

impl AccountOrder {
    /// How many slots of the ledger are sorted.
    pub fn reached(&self) -> u32 {
        self.reached
    }

    /// Takes at most `slots_max` further slots of `ledger`, which must be the same one every time. Returns how many are
    /// left.
    pub fn catch_up(&mut self, ledger: &Ledger, slots_max: u32) -> u32 {
        let accounts = &ledger.accounts;
        assert!(self.reached <= accounts.len(), "the ledger has fewer accounts than before");
        let end = accounts.len().min(self.reached.saturating_add(slots_max));
        for (slot, account) in accounts.range(self.reached, end - self.reached) {
            if account.is_on(ledger.shard) {
                self.insert(accounts, slot, account);
            }
        }
        self.reached = end;
        accounts.len() - end
    }

    fn insert(&mut self, accounts: &Accounts, slot: AccountSlot, account: &Account) {
        let id = account.id.as_bytes();
        let (at, leaf) = match self.leaf_of(id) {
            Some(leaf) => {
                let at = leaf.partition_point(|slot| accounts.id_bytes(AccountSlot(*slot)) < id);
                assert!(leaf.get(at).is_none_or(|next| *next != slot.0), "an account is sorted once");
                (at, leaf)
            }
            None => (0, self.leaves.entry(account.id.clone()).or_default()),
        };
        if leaf.len() < LEAF_SLOTS_MAX {
            // A leaf has all its memory from the start: it grows soon.
            leaf.reserve_exact(LEAF_SLOTS_MAX - leaf.len());
            leaf.insert(at, slot.0);
            return;
        }
        // Ids in order fill their leaves; the next ones go to a new leaf.
        if at == leaf.len() {
            self.add_leaf(account.id.clone(), &[slot.0]);
            return;
        }
        let upper = leaf.split_off(LEAF_SLOTS_MAX / 2);
        let first_upper = accounts.get(AccountSlot(upper[0])).expect("sorted accounts are there").id.clone();
        if at <= leaf.len() {
            leaf.insert(at, slot.0);
            self.add_leaf(first_upper, &upper);
        } else {
            let mut upper = upper;
            upper.insert(at - LEAF_SLOTS_MAX / 2, slot.0);
            self.add_leaf(first_upper, &upper);
        }
    }

    fn add_leaf(&mut self, first: AccountId, slots: &[u32]) {
        let mut leaf = Vec::with_capacity(LEAF_SLOTS_MAX);
        leaf.extend_from_slice(slots);
        let before = self.leaves.insert(first, leaf);
        assert!(before.is_none(), "two leaves begin with one id");
    }

    /// The leaf in which an id stands, if any does.
    fn leaf_of(&mut self, id: &[u8]) -> Option<&mut Vec<u32>> {
        let below = (Bound::Unbounded, Bound::Included(id));
        if self.leaves.range::<[u8], _>(below).next_back().is_some() {
            return self.leaves.range_mut::<[u8], _>(below).next_back().map(|(_, leaf)| leaf);
        }
        // It is the first of all: the first leaf gets another beginning.
        let (_, leaf) = self.leaves.pop_first()?;
        let first = AccountId::from(std::str::from_utf8(id).expect("ids are text"));
        Some(self.leaves.entry(first).or_insert(leaf))
    }

    /// Accounts and parts of collectors whose money is on the shard of `ledger`, whose id begins with `prefix` and
    /// comes after `after`, in byte order of their ids, at most `limit`. Of those that are sorted.
    pub fn list(&self, ledger: &Ledger, prefix: &str, after: Option<&str>, limit: usize) -> Vec<AccountView> {
        let accounts = &ledger.accounts;
        let (from, is_included) = match after {
            Some(after) if after >= prefix => (after.as_bytes(), false),
            _ => (prefix.as_bytes(), true),
        };
        let below = (Bound::Unbounded, Bound::Included(from));
        let first = self.leaves.range::<[u8], _>(below).next_back().map(|(first, _)| first.as_bytes());
        let leaves = self.leaves.range::<[u8], _>((first.map_or(Bound::Unbounded, Bound::Included), Bound::Unbounded));
        leaves
            .flat_map(|(_, leaf)| leaf)
            .map(|slot| AccountSlot(*slot))
            .skip_while(|slot| match is_included {
                true => accounts.id_bytes(*slot) < from,
                false => accounts.id_bytes(*slot) <= from,
            })
            .take_while(|slot| accounts.id_bytes(*slot).starts_with(prefix.as_bytes()))
            .take(limit)
            .filter_map(|slot| ledger.figures_at(slot))
            .collect()
    }
}

#[cfg(test)]
mod tests;
