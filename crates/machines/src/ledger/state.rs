//! The state of one shard's ledger and everything that reads it.

use std::collections::BTreeMap;

use tidegate_memory::Pages;
use tidegate_planted::BalanceChange;

use super::account::{Account, AccountSlot};
use super::accounts::{Accounts, Guess, SoughtPair};
use super::asset::{AssetView, Assets};
use super::command::InboundCredit;
use super::event::{CreditStep, Event, HoldFacts};
use super::hash::{ContentDigest, content_digest};
use super::hold::OpenHolds;
use super::limits::OUTBOUND_PENDING_MAX;
use super::mends::Mends;
use super::peer::{OutboundCredit, Peer};
use super::request::{AccountKind, AccountView, Hold, Transfer};
use super::settings::SettingsTable;
use crate::{OutboundNumber, RecordPosition, ShardIndex, TimeMs};

/// The ledger of one shard: a fold of its events. See the [module](super) for what it promises.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub(super) shard: ShardIndex,
    pub(super) shard_count: u16,
    /// Time of the newest event; decisions are never made before it.
    pub(super) time: TimeMs,
    /// The newest event.
    pub(super) position: RecordPosition,
    pub(super) accounts: Accounts,
    pub(super) assets: Assets,
    pub(super) holds: OpenHolds,
    pub(super) settings: SettingsTable,
    /// By shard; the own entry stays empty.
    pub(super) peers: Vec<Peer>,
    /// Where the time was set back.
    pub(super) mends: Mends,
}

/// The sums of one asset on one shard. `balances + sent - received = 0`, always.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssetTotals {
    /// Unit of measure.
    pub asset: Box<str>,
    /// Sum of all balances, minor units.
    pub balances: i128,
    /// Sum of all that was sent to each other shard, minor units.
    pub sent: Vec<(ShardIndex, u128)>,
    /// Sum of all that was taken in from each other shard, minor units.
    pub received: Vec<(ShardIndex, u128)>,
}

impl AssetTotals {
    /// `balances + sent - received`: zero unless something is wrong. Counted modulo 2^128, so that damaged sums cannot
    /// panic.
    pub fn imbalance(&self) -> i128 {
        let sum = |of: &[(ShardIndex, u128)]| of.iter().fold(0i128, |sum, (_, part)| sum.wrapping_add(*part as i128));
        self.balances.wrapping_add(sum(&self.sent)).wrapping_sub(sum(&self.received))
    }
}

impl Ledger {
    /// An empty ledger. `shard_count` is fixed for the life of the data; panics if it is zero or `shard` is beyond it.
    pub fn new(shard: ShardIndex, shard_count: u16) -> Ledger {
        assert!(shard.0 < shard_count, "shard {shard} of {shard_count}");
        Ledger {
            shard,
            shard_count,
            time: TimeMs(0),
            position: RecordPosition::NONE,
            accounts: Accounts::default(),
            assets: Assets::default(),
            holds: OpenHolds::default(),
            settings: SettingsTable::default(),
            peers: vec![Peer::default(); shard_count as usize],
            mends: Mends::default(),
        }
    }

    /// Which shard this is.
    pub fn shard(&self) -> ShardIndex {
        self.shard
    }

    /// Of how many.
    pub fn shard_count(&self) -> u16 {
        self.shard_count
    }

    /// The newest event applied; [`RecordPosition::NONE`] before the first.
    pub fn position(&self) -> RecordPosition {
        self.position
    }

    /// Time of the newest event.
    pub fn time(&self) -> TimeMs {
        self.time
    }

    /// The account, as this shard knows it: for a collector this shard's part, for an account of another shard its
    /// facts with figures of zero.
    pub fn account(&self, id: &str) -> Option<AccountView> {
        self.account_at(self.slot(id)?)
    }

    /// Asks for the memory where the search for the accounts of a transfer begins. Changes nothing.
    #[inline]
    pub fn seek(&self, transfer: &Transfer<'_>) -> SoughtPair {
        SoughtPair { debit: self.accounts.seek(transfer.debit), credit: self.accounts.seek(transfer.credit) }
    }

    /// Asks for the memory of accounts that were sought some transfers ago, and tells where they are. Changes nothing.
    #[inline]
    pub fn touch(&self, sought: SoughtPair) -> Guess {
        Guess { debit: self.accounts.touch(sought.debit), credit: self.accounts.touch(sought.credit) }
    }

    /// The same with the place of an account that will be opened soon.
    #[inline]
    pub fn seek_account(&self, id: &str) {
        self.accounts.seek(id);
    }

    /// Changes a live balance in memory, as a flipped bit would: no event, no other figure. Returns whether there is
    /// such an account. A release cannot call this, because it has no [`BalanceChange`].
    pub fn tamper(&mut self, order: &BalanceChange) -> bool {
        let Some(slot) = self.slot(order.account()) else { return false };
        let account = self.accounts.get_mut(slot).expect("found accounts are there");
        account.balance = account.balance.wrapping_add(order.change());
        true
    }

    /// The slot of an account, opened or adopted.
    pub fn slot(&self, id: &str) -> Option<AccountSlot> {
        self.accounts.find(id)
    }

    /// The account in a slot, as [`Ledger::account`].
    pub fn account_at(&self, slot: AccountSlot) -> Option<AccountView> {
        self.accounts.get(slot).map(|account| self.view(slot, account))
    }

    /// Asset and kind of the account in a slot, and whether its money is on this shard.
    pub fn facts_at(&self, slot: AccountSlot) -> Option<(&str, AccountKind, bool)> {
        let account = self.accounts.get(slot)?;
        Some((&self.assets.get(account.asset).name, account.kind, account.is_on(self.shard)))
    }

    /// The id of the account in a slot.
    pub fn id_at(&self, slot: AccountSlot) -> Option<&str> {
        self.accounts.get(slot).map(|account| &*account.id)
    }

    /// The figures of the accounts and parts of this shard among the slots from `first` on, `count` slots at most.
    pub fn figures(&self, first: u32, count: u32) -> impl Iterator<Item = AccountView> {
        self.accounts.range(first, count).filter_map(|(slot, _)| self.figures_at(slot))
    }

    /// The figures of the account or part in a slot; `None` if its money is on another shard.
    pub fn figures_at(&self, slot: AccountSlot) -> Option<AccountView> {
        self.accounts.get(slot).filter(|account| account.is_on(self.shard)).map(|account| self.view(slot, account))
    }

    /// How many accounts and parts have their money on this shard. Takes time in proportion to the accounts.
    pub fn count_here(&self) -> u64 {
        self.accounts.iter().filter(|account| account.is_on(self.shard)).count() as u64
    }

    /// Memory that the accounts opened next will take, for another thread to touch; `asked` is as far as that was asked
    /// before, and begins as zero. `None` if nothing is worth it now. Changes nothing.
    pub fn pages_ahead(&self, asked: &mut u32) -> Option<Pages> {
        self.accounts.pages_ahead(asked)
    }

    /// How many slots are taken: accounts opened, parts, and facts of other shards' accounts.
    pub fn slots(&self) -> u32 {
        self.accounts.len()
    }

    /// The newest event of an account's history; [`RecordPosition::NONE`] if it has none, `None` if there is no such
    /// account.
    pub fn last_position(&self, id: &str) -> Option<RecordPosition> {
        self.accounts.get(self.slot(id)?).map(|account| account.last)
    }

    /// When the first open hold expires.
    pub fn next_expiry(&self) -> Option<TimeMs> {
        self.holds.first().map(|hold| hold.expires_at)
    }

    /// The open holds whose time is over at `now`, by id, those that expired first in front.
    pub fn expired_holds(&self, now: TimeMs) -> impl Iterator<Item = &str> {
        let now = self.time_of(now);
        self.holds.by_expiry().take_while(move |hold| hold.expires_at <= now).map(|hold| hold.id.as_str())
    }

    /// The same, with the record that placed each, behind the hold that `after` placed in that order.
    pub fn expired_holds_after(
        &self,
        now: TimeMs,
        after: Option<(TimeMs, RecordPosition)>,
    ) -> impl Iterator<Item = (&str, (TimeMs, RecordPosition))> {
        let now = self.time_of(now);
        let behind = self.holds.by_expiry_after(after);
        behind.take_while(move |hold| hold.expires_at <= now).map(|hold| (hold.id.as_str(), hold.key()))
    }

    /// How many holds are open.
    pub fn open_holds(&self) -> usize {
        self.holds.len()
    }

    /// Unconfirmed credits to another shard after number `after`, in order, at most `max`.
    pub fn outbound(
        &self,
        to: ShardIndex,
        after: OutboundNumber,
        max: usize,
    ) -> impl Iterator<Item = OutboundCredit> + use<'_> {
        self.peer(to).after(after).take(max)
    }

    /// The last number given to a credit to `to`.
    pub fn outbound_last(&self, to: ShardIndex) -> OutboundNumber {
        self.peer(to).last()
    }

    /// The last credit that `to` confirmed.
    pub fn outbound_confirmed(&self, to: ShardIndex) -> OutboundNumber {
        self.peer(to).confirmed()
    }

    /// Whether so many credits to another shard are unconfirmed that the shard should take no more requests for now.
    pub fn is_outbound_full(&self) -> bool {
        self.peers.iter().any(|peer| peer.pending() >= OUTBOUND_PENDING_MAX)
    }

    /// The last credit of `from` that was taken in here.
    pub fn watermark(&self, from: ShardIndex) -> OutboundNumber {
        self.peer(from).watermark
    }

    /// What was asked under the id that this event is the first decision on, as [`content_digest`] says it.
    pub fn digest_of(&self, event: &Event<'_>) -> Option<ContentDigest> {
        match *event {
            Event::Refused { digest, .. } => Some(digest),
            Event::Transferred { id, debit, credit, amount, memo, label, .. } => {
                let (debit, credit) = (self.id_at(debit.slot)?, self.id_at(credit.slot())?);
                let transfer = Transfer { id, debit, credit, amount: amount.get(), memo, label };
                Some(content_digest(&transfer))
            }
            Event::HoldPlaced { hold, debit, .. } => {
                let HoldFacts { id, credit, amount, expires_in_ms, memo, label } = hold;
                let (debit, credit) = (self.id_at(debit.slot)?, self.id_at(credit)?);
                let hold = Hold { id, debit, credit, amount: amount.get(), expires_in_ms, memo, label };
                Some(content_digest(&hold))
            }
            _ => None,
        }
    }

    /// What to send for an outbound credit, given the event that its record holds. `None` if that is not the event that
    /// decided it.
    pub fn credit_of<'a>(&'a self, outbound: &OutboundCredit, event: &Event<'a>) -> Option<InboundCredit<'a>> {
        let (id, memo, label, posted, debit, amount, time) = match *event {
            Event::Transferred { time, id, debit, credit, amount, memo, label } => {
                self.sends(outbound, credit).then_some((id, memo, label, false, debit, amount, time))?
            }
            Event::HoldPosted { time, hold, posted, debit, credit } => {
                self.sends(outbound, credit).then_some((hold.id, hold.memo, hold.label, true, debit, posted, time))?
            }
            _ => return None,
        };
        (amount == outbound.amount).then_some(InboundCredit {
            from: self.shard,
            number: outbound.number,
            posted,
            id,
            debit: &self.accounts.get(debit.slot)?.id,
            credit: &self.accounts.get(outbound.slot)?.id,
            amount: amount.get(),
            memo,
            label,
            debit_position: outbound.position,
            decided_at: time,
        })
    }

    fn sends(&self, outbound: &OutboundCredit, credit: CreditStep) -> bool {
        credit == CreditStep::Outbound { slot: outbound.slot, number: outbound.number }
    }

    /// The sums by asset, in the order of first use. Takes time in proportion to the accounts.
    pub fn totals(&self) -> Vec<AssetTotals> {
        let mut balances = vec![0i128; self.assets.len() as usize];
        assert!(self.peers[usize::from(self.shard.0)].is_untouched(), "shard {} sent itself something", self.shard);
        for account in self.accounts.iter() {
            balances[account.asset.0 as usize] += i128::from(account.balance);
        }
        let by_peer = |sums: fn(&Peer) -> &BTreeMap<_, u128>, asset| {
            let with = |(shard, peer)| Some((ShardIndex(shard as u16), *sums(peer).get(&asset)?));
            self.peers.iter().enumerate().filter_map(with).collect()
        };
        self.assets
            .iter()
            .map(|(index, asset)| AssetTotals {
                asset: (&*asset.name).into(),
                balances: balances[index.0 as usize],
                sent: by_peer(|peer| &peer.sent, index),
                received: by_peer(|peer| &peer.received, index),
            })
            .collect()
    }

    /// The assets that this shard knows, in the order of first use, with what it has of each.
    pub fn assets(&self) -> Vec<AssetView> {
        let views = self.assets.iter().map(|(_, asset)| AssetView {
            name: (&*asset.name).into(),
            decimals: asset.decimals,
            issued: asset.issued,
            held: asset.held,
        });
        views.collect()
    }

    /// How many credits to an account of another shard are not confirmed yet, and whether decisions here know that
    /// nothing may enter it. Takes time in proportion to the unconfirmed credits.
    pub fn under_way_to(&self, account: &str) -> (usize, bool) {
        let Some(slot) = self.slot(account) else { return (0, false) };
        let home = self.accounts.get(slot).expect("found accounts are there").home;
        let peer = self.peer(home);
        let credits = peer.after(peer.confirmed()).filter(|credit| credit.slot == slot).count();
        (credits, self.settings.rules(slot).status.forbids_credit().is_some())
    }

    /// The time a decision is made at: the clock's, but never before an earlier event's.
    pub(super) fn time_of(&self, now: TimeMs) -> TimeMs {
        debug_assert!(self.time <= TimeMs::MAX, "an event of a time that no record can carry");
        now.min(TimeMs::MAX).max(self.time)
    }

    /// The most that this shard's sources of one asset may be below zero together. With every shard at its cap, all
    /// money there is still fits one balance.
    pub(super) fn issuance_cap(&self) -> u64 {
        i64::MAX as u64 / u64::from(self.shard_count)
    }

    #[inline]
    pub(super) fn peer(&self, shard: ShardIndex) -> &Peer {
        &self.peers[shard.0 as usize]
    }

    pub(super) fn view(&self, slot: AccountSlot, account: &Account) -> AccountView {
        account.view(&self.assets.get(account.asset).name, self.accounts.gross(slot), self.settings.get(slot))
    }
}
