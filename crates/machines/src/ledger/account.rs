//! The accounts a shard knows: its own, its parts of collectors, and facts about accounts of other shards.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::Arc;

use hashbrown::HashTable;

use super::account_id::AccountId;
use super::asset::AssetIndex;
use super::limits::ACCOUNTS_MAX;
use super::request::{AccountKind, AccountView};
use super::settings::AccountSettings;
use crate::{RecordPosition, ShardIndex};

/// An account's number on its shard: 0 for the first opened, without gaps. Events name accounts by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountSlot(pub u32);

/// One account. Everything that a transfer touches stands in 96 bytes.
#[derive(Clone, Debug)]
pub(super) struct Account {
    /// Gross credits, minor units.
    pub credited: u128,
    /// Gross debits, minor units.
    pub debited: u128,
    pub id: AccountId,
    /// `credited - debited`; zero for an account that lives on another shard.
    pub balance: i64,
    /// Sum of the open holds on it.
    pub held: u64,
    /// Its newest event, the head of its history.
    pub last: RecordPosition,
    pub asset: AssetIndex,
    pub home: ShardIndex,
    pub kind: AccountKind,
    /// Whether its settings have anything to check when money moves.
    pub is_restricted: bool,
}

const _: () = assert!(size_of::<Account>() <= 96);

impl Account {
    /// How far a source can fall below zero once all its holds are posted: what it counts against the issuance cap.
    pub fn reserve(&self) -> u64 {
        reserve(self.kind, self.balance, self.held)
    }

    /// Credits less debits, modulo 2^64: the balance, unless memory is damaged. Two loads, so asked wherever money
    /// moves.
    #[inline(always)]
    pub fn net(&self) -> i64 {
        (self.credited as u64).wrapping_sub(self.debited as u64) as i64
    }

    /// What holds of every account between two events.
    #[inline]
    pub fn assert_sound(&self) {
        let net = self.credited.wrapping_sub(self.debited) as i128;
        assert!(net == i128::from(self.balance), "the balance of {} is not credited - debited", &*self.id);
        let is_covered = self.balance >= 0 && self.held <= self.balance as u64;
        assert!(is_covered || self.kind == AccountKind::Source, "{} is below zero, or below what it holds", &*self.id);
        let was_debited = self.debited > 0 || self.held > 0;
        assert!(!was_debited || self.kind != AccountKind::Collector, "collector {} was debited", &*self.id);
    }

    /// Whether its money (or its part's) is on `shard`.
    pub fn is_on(&self, shard: ShardIndex) -> bool {
        self.home == shard || self.kind == AccountKind::Collector
    }
}

/// See [`Account::reserve`].
pub(super) fn reserve(kind: AccountKind, balance: i64, held: u64) -> u64 {
    match kind {
        // At most 2^63 + i64::MAX fits 64 bits without sign.
        AccountKind::Source => u64::try_from(i128::from(held) - i128::from(balance)).unwrap_or(0),
        AccountKind::Wallet | AccountKind::Collector => 0,
    }
}

/// Where an id leads. The tag tells nearly all other ids apart without a look at the account itself.
#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u32,
    slot: u32,
}

/// All accounts by slot, found by id, listed by id in byte order.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    by_slot: Vec<Account>,
    /// Slots by id. Never iterated: its random seed, which keeps hostile ids from colliding, shows in no decision.
    by_id: HashTable<Entry>,
    hasher: foldhash::fast::RandomState,
    /// Those whose money is here. Opens are rare; this tree is not on the way of a transfer.
    in_order: BTreeMap<AccountId, AccountSlot>,
}

impl Accounts {
    /// How many, so the next slot.
    pub fn len(&self) -> u32 {
        self.by_slot.len() as u32
    }

    #[inline]
    pub fn find(&self, id: &str) -> Option<AccountSlot> {
        let hash = self.hasher.hash_one(id.as_bytes());
        let entry = self.by_id.find(hash, |entry| {
            entry.tag == hash as u32 && self.by_slot[entry.slot as usize].id.as_bytes() == id.as_bytes()
        })?;
        Some(AccountSlot(entry.slot))
    }

    /// Brings the account that `id` most likely leads to into the cache, ahead of its use. The loads depend on nothing
    /// that follows, so the core does not wait for them.
    #[inline]
    pub fn touch(&self, id: &str) {
        let hash = self.hasher.hash_one(id.as_bytes());
        if let Some(entry) = self.by_id.find(hash, |entry| entry.tag == hash as u32) {
            let account = &self.by_slot[entry.slot as usize];
            std::hint::black_box((account.credited, account.balance, account.kind));
        }
    }

    #[inline]
    pub fn get(&self, slot: AccountSlot) -> Option<&Account> {
        self.by_slot.get(slot.0 as usize)
    }

    #[inline]
    pub fn get_mut(&mut self, slot: AccountSlot) -> Option<&mut Account> {
        self.by_slot.get_mut(slot.0 as usize)
    }

    /// Adds an account whose id is new; `listed` when its money is here.
    pub fn push(&mut self, account: Account, listed: bool) {
        debug_assert!(self.find(&account.id).is_none(), "account {} is there", &*account.id);
        let slot = self.len();
        assert!(slot < ACCOUNTS_MAX, "there is no slot left");
        if listed {
            let before = self.in_order.insert(account.id.clone(), AccountSlot(slot));
            assert!(before.is_none(), "account {} was listed", &*account.id);
        }
        let hash = self.hasher.hash_one(account.id.as_bytes());
        self.by_slot.push(account);
        let (by_slot, hasher) = (&self.by_slot, &self.hasher);
        let entry = Entry { tag: hash as u32, slot };
        self.by_id.insert_unique(hash, entry, |entry| hasher.hash_one(by_slot[entry.slot as usize].id.as_bytes()));
        assert_eq!(self.by_id.len(), self.by_slot.len(), "every account is found by its id");
        assert!(self.in_order.len() <= self.by_slot.len(), "more accounts are listed than there are");
    }

    /// Walks all and panics if the three indices do not fit each other. `is_listed` says whose money is here.
    pub fn assert_sound(&self, is_listed: impl Fn(&Account) -> bool) {
        assert_eq!(self.by_id.len(), self.by_slot.len(), "every account is found by its id");
        for (slot, account) in (0..).map(AccountSlot).zip(self.iter()) {
            let id = &*account.id;
            assert_eq!(self.find(id), Some(slot), "account {id} is not found where it is");
            let listed = is_listed(account).then_some(slot);
            assert_eq!(self.in_order.get(&account.id).copied(), listed, "account {id} is listed elsewhere");
            account.assert_sound();
        }
        let listed = self.iter().filter(|account| is_listed(account)).count();
        assert_eq!(self.in_order.len(), listed, "accounts are listed that are not here");
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Account> {
        self.by_slot.iter()
    }

    /// Those from slot `first` on, at most `count`.
    pub fn range(&self, first: u32, count: u32) -> &[Account] {
        let end = first.saturating_add(count).min(self.len());
        self.by_slot.get(first as usize..end as usize).unwrap_or(&[])
    }

    /// Listed accounts whose id begins with `prefix` and comes after `after`, in byte order of the id.
    pub fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>) -> impl Iterator<Item = (AccountSlot, &'a Account)> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after.as_bytes()),
            _ => Bound::Included(prefix.as_bytes()),
        };
        self.in_order
            .range::<[u8], _>((from, Bound::Unbounded))
            .take_while(move |(id, _)| id.as_bytes().starts_with(prefix.as_bytes()))
            .map(|(_, slot)| (*slot, &self.by_slot[slot.0 as usize]))
    }
}

impl Account {
    pub fn view(&self, asset: &str, settings: Option<&Arc<AccountSettings>>) -> AccountView {
        AccountView {
            id: (&*self.id).into(),
            asset: asset.into(),
            kind: self.kind,
            balance: self.balance,
            held: self.held,
            credited: self.credited,
            debited: self.debited,
            settings: settings.cloned(),
        }
    }
}
