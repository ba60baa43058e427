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

use super::account::AccountSlot;
use super::account_id::AccountId;
use super::accounts::Accounts;
use super::request::AccountView;
use super::state::Ledger;

/// Slots of one leaf.
const LEAF_SLOTS_MAX: usize = 128;

/// An account to be sorted: its id, then its slot.
type New<'a> = (&'a [u8], u32);

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
    ///
    /// They are sorted first, so that each leaf is looked for once. Ids that were opened in order, as they mostly are
    /// in a batch, then cost two comparisons each, where a search for each took more time than to open the account.
    pub fn catch_up(&mut self, ledger: &Ledger, slots_max: u32) -> u32 {
        let accounts = &ledger.accounts;
        assert!(self.reached <= accounts.len(), "the ledger has fewer accounts than before");
        let end = accounts.len().min(self.reached.saturating_add(slots_max));
        let next = accounts.range(self.reached, end - self.reached);
        let here = next.filter(|(_, account)| account.is_on(ledger.shard));
        let mut next: Vec<New<'_>> = here.map(|(slot, account)| (account.id.as_bytes(), slot.0)).collect();
        next.sort_unstable();
        let mut rest = &next[..];
        while !rest.is_empty() {
            rest = self.insert(accounts, rest);
        }
        self.reached = end;
        accounts.len() - end
    }

    /// Takes those of `next`, which is in order and not empty, that belong into the leaf of the first. Returns the
    /// others.
    fn insert<'n, 'a>(&mut self, accounts: &Accounts, next: &'n [New<'a>]) -> &'n [New<'a>] {
        let (first, _) = next[0];
        let bound = self.leaves.range::<[u8], _>((Bound::Excluded(first), Bound::Unbounded)).next();
        let belongs = |(id, _): &&New<'_>| bound.is_none_or(|(bound, _)| *id < bound.as_bytes());
        let (here, others) = next.split_at(next.iter().take_while(belongs).count());
        for leaf in put(accounts, self.leaf_of(first), here) {
            let first = accounts.get(AccountSlot(leaf[0])).expect("sorted accounts are there").id.clone();
            let before = self.leaves.insert(first, leaf);
            assert!(before.is_none(), "two leaves begin with one id");
        }
        others
    }

    /// The leaf in which an id stands.
    fn leaf_of(&mut self, id: &[u8]) -> &mut Vec<u32> {
        if self.leaves.first_key_value().is_some_and(|(first, _)| first.as_bytes() <= id) {
            let below = (Bound::Unbounded, Bound::Included(id));
            let leaf = self.leaves.range_mut::<[u8], _>(below).next_back();
            return leaf.map(|(_, leaf)| leaf).expect("the first leaf begins there or before");
        }
        // It is the first of all: the first leaf gets another beginning.
        let leaf = self.leaves.pop_first().map_or_else(|| new_leaf(&[]), |(_, leaf)| leaf);
        let first = AccountId::from(std::str::from_utf8(id).expect("ids are text"));
        self.leaves.entry(first).or_insert(leaf)
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

/// A leaf has all its memory from the start: it grows soon.
fn new_leaf(slots: &[u32]) -> Vec<u32> {
    let mut leaf = Vec::with_capacity(LEAF_SLOTS_MAX);
    leaf.extend_from_slice(slots);
    leaf
}

/// Puts `new`, which is in order and not empty, into a leaf. Returns further leaves of what finds no room there.
fn put(accounts: &Accounts, leaf: &mut Vec<u32>, new: &[New<'_>]) -> Vec<Vec<u32>> {
    let id_of = |slot: &u32| accounts.id_bytes(AccountSlot(*slot));
    if leaf.last().is_none_or(|last| id_of(last) < new[0].0) {
        // Ids in order fill their leaves.
        let slots: Vec<u32> = new.iter().map(|(_, slot)| *slot).collect();
        let (here, further) = slots.split_at(slots.len().min(LEAF_SLOTS_MAX - leaf.len()));
        leaf.extend_from_slice(here);
        return further.chunks(LEAF_SLOTS_MAX).map(new_leaf).collect();
    }
    let place = |leaf: &[u32], id: &[u8]| leaf.partition_point(|slot| id_of(slot) < id);
    // Of ids drawn at random, few share a leaf.
    if let [(id, slot)] = new
        && leaf.len() < LEAF_SLOTS_MAX
    {
        leaf.insert(place(leaf, id), *slot);
        return Vec::new();
    }
    let mut merged = Vec::with_capacity(leaf.len() + new.len());
    let mut rest = &leaf[..];
    for (id, slot) in new {
        let (before, behind) = rest.split_at(place(rest, id));
        assert!(behind.first() != Some(slot), "an account is sorted once");
        merged.extend_from_slice(before);
        merged.push(*slot);
        rest = behind;
    }
    merged.extend_from_slice(rest);
    // Leaves of one length have room for those that come between.
    let leaves = merged.len().div_ceil(LEAF_SLOTS_MAX);
    let mut parts = merged.chunks(merged.len().div_ceil(leaves));
    leaf.clear();
    leaf.extend_from_slice(parts.next().expect("something was put"));
    parts.map(new_leaf).collect()
}

#[cfg(test)]
mod tests;
