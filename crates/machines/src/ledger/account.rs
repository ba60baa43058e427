//! An account that a shard knows: its own, its part of a collector, or facts about an account of another shard.

use std::sync::Arc;

use super::account_id::AccountId;
use super::asset::AssetIndex;
use super::request::{AccountKind, AccountView};
use super::settings::AccountSettings;
use crate::{RecordPosition, ShardIndex};

/// An account's number on its shard: 0 for the first opened, without gaps. Events name accounts by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountSlot(pub u32);

/// One account. Everything that a transfer touches stands in 72 bytes.
#[derive(Clone, Debug)]
pub(super) struct Account {
    /// Gross credits modulo 2^64, minor units. All of them: [`Account::gross`].
    pub credited: u64,
    /// Gross debits modulo 2^64, minor units.
    pub debited: u64,
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

const _: () = assert!(size_of::<Account>() <= 72);

impl Account {
    /// How far a source can fall below zero once all its holds are posted: what it counts against the issuance cap.
    pub fn reserve(&self) -> u64 {
        reserve(self.kind, self.balance, self.held)
    }

    /// Credits less debits, modulo 2^64: the balance, unless memory is damaged. Two loads, so asked wherever money
    /// moves.
    #[inline(always)]
    pub fn net(&self) -> i64 {
        self.credited.wrapping_sub(self.debited) as i64
    }

    /// What holds of every account between two events.
    #[inline]
    pub fn assert_sound(&self) {
        assert!(self.net() == self.balance, "the balance of {} is not credited - debited", &*self.id);
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

impl Account {
    /// Gross credits and debits, of an account whose debits have passed 2^64 so many times. How often its credits have
    /// follows from debits and balance; the rest of them is read, so that an audit names the figure that is wrong.
    pub fn gross(&self, turns: u64) -> (u128, u128) {
        let debited = u128::from(turns) << 64 | u128::from(self.debited);
        let credit_turns = debited.wrapping_add_signed(self.balance.into()) >> 64;
        (credit_turns << 64 | u128::from(self.credited), debited)
    }

    pub fn view(&self, asset: &str, gross: (u128, u128), settings: Option<&Arc<AccountSettings>>) -> AccountView {
        let (credited, debited) = gross;
        AccountView {
            id: (&*self.id).into(),
            asset: asset.into(),
            kind: self.kind,
            balance: self.balance,
            held: self.held,
            credited,
            debited,
            settings: settings.cloned(),
        }
    }
}
