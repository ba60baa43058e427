//! Losses between two shards: credits that one has taken in or confirmed, and of which the other has lost the record.
//!
//! ```text
//!   A, cut:  issued 21          ◀── B's watermark 57     lost debits:  credits 22..57 are in B, and nobody paid them
//!   A:       confirmed 57       ──▶ B, cut: watermark 21 lost credits: A's accounts paid, and nobody has them
//! ```
//!
//! Found when the figures of both shards are laid side by side. An operator may accept it; then the shard that lost its
//! records books what is missing against a source of its own, `source:accepted-loss:<asset>:<n>`. So double entry
//! holds as before (balances + sent - received = 0), numbers of credits go on where the other shard stands, and the
//! balance of that source is the loss.
//!
//! Why on the shard that lost: the other one's log is right and stays as it is, and each log explains its own figures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_planted::{Bug, is_planted};

use super::account::AccountSlot;
use super::asset::AssetIndex;
use super::check::{Checked, wrong};
use super::event::{AccountStep, CreditStep, Event};
use super::hash::shard_of;
use super::request::AccountKind;
use super::state::Ledger;
use crate::{Amount, OutboundNumber, RecordPosition, ShardIndex, TimeMs};

/// How the accounts against which losses are booked begin.
pub const ACCEPTED_LOSS_PREFIX: &str = "source:accepted-loss:";

/// Which records were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossSide {
    /// Debits whose credits the other shard has taken in.
    Sent,
    /// Credits that the other shard has sent and was told to be durable here.
    Received,
}

/// What one shard knows of the credits between it and another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// The last number that it gave to a credit.
    pub sent: OutboundNumber,
    /// The last number of these that the other has confirmed.
    pub confirmed: OutboundNumber,
    /// The last credit of the other that it has taken in.
    pub watermark: OutboundNumber,
}

/// What one shard has sent to another and taken in from it, in sums by asset; both begin at the first record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExchangedSums {
    /// All that was sent, minor units.
    sent: BTreeMap<Arc<str>, u128>,
    /// Of that, what the other has not confirmed yet, in order.
    pending: Vec<(OutboundNumber, Arc<str>, Amount)>,
    /// All that was taken in, minor units.
    received: BTreeMap<Arc<str>, u128>,
}

impl ExchangedSums {
    /// Each asset of which this shard has sent, up to credit `number`, another amount than `there` has taken in when it
    /// had taken in just those: what was sent, and what was taken in. None, if both logs are of one history.
    pub fn differences<'a>(&'a self, number: OutboundNumber, there: &'a ExchangedSums) -> Vec<(&'a str, u128, u128)> {
        let assets: BTreeSet<&str> = self.sent.keys().chain(there.received.keys()).map(|asset| &**asset).collect();
        let figures = assets.into_iter().map(|asset| {
            let behind = self.pending.iter().filter(|(at, of, _)| *at > number && **of == *asset);
            let behind: u128 = behind.map(|(.., amount)| u128::from(amount.get())).sum();
            let sent = self.sent.get(asset).copied().unwrap_or_default().wrapping_sub(behind);
            (asset, sent, there.received.get(asset).copied().unwrap_or_default())
        });
        figures.filter(|(_, sent, received)| sent != received).collect()
    }
}

/// What `here` has lost, judged by what `there`, the other shard, knows.
pub fn losses(here: Exchanged, there: Exchanged) -> impl Iterator<Item = (LossSide, OutboundNumber, OutboundNumber)> {
    let sent = (there.watermark > here.sent).then_some((LossSide::Sent, here.sent, there.watermark));
    let received = there.confirmed > here.watermark;
    let received = received.then_some((LossSide::Received, here.watermark, there.confirmed));
    sent.into_iter().chain(received)
}

/// What a shard has lost of the credits between it and another, for one asset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerLoss {
    /// The other shard.
    pub peer: ShardIndex,
    /// Which records.
    pub side: LossSide,
    /// Up to this number they were durable.
    pub number: OutboundNumber,
    /// Unit of measure.
    pub asset: Box<str>,
    /// Minor units.
    pub amount: Amount,
}

impl Ledger {
    /// What this shard knows of the credits between it and `other`.
    pub fn exchanged(&self, other: ShardIndex) -> Exchanged {
        let peer = self.peer(other);
        Exchanged { sent: peer.last(), confirmed: peer.confirmed(), watermark: peer.watermark }
    }

    /// What this shard has sent to `other` and taken in from it.
    pub fn exchanged_sums(&self, other: ShardIndex) -> ExchangedSums {
        let peer = self.peer(other);
        let name = |asset: AssetIndex| self.assets.get(asset).name.clone();
        let by_name =
            |sums: &BTreeMap<AssetIndex, u128>| sums.iter().map(|(asset, sum)| (name(*asset), *sum)).collect();
        let pending = peer.after(peer.confirmed()).map(|credit| {
            let account = self.accounts.get(credit.slot).expect("a credit is for an account that is known");
            (credit.number, name(account.asset), credit.amount)
        });
        ExchangedSums { sent: by_name(&peer.sent), pending: pending.collect(), received: by_name(&peer.received) }
    }

    /// What this shard has lost, judged by `other`: a row for each asset and kind. `Err` in words when the two are not
    /// of one history, so that no booking can mend it.
    pub fn losses_against(&self, other: &Ledger) -> Result<Vec<PeerLoss>, String> {
        let (here, there) = (self.exchanged(other.shard), other.exchanged(self.shard));
        let mut found = Vec::new();
        for (side, _, number) in losses(here, there) {
            for (asset, has, should_have) in self.sums_against(other, side) {
                let missing = should_have.checked_sub(has).and_then(|missing| u64::try_from(missing).ok());
                let missing = missing.ok_or_else(|| {
                    format!(
                        "shard {} has {has} {asset} {} shard {}, which knows of {should_have}: they are not of one \
                         history",
                        self.shard,
                        if side == LossSide::Sent { "sent to" } else { "received from" },
                        other.shard
                    )
                })?;
                let Some(amount) = Amount::new(missing) else { continue };
                found.push(PeerLoss { peer: other.shard, side, number, asset, amount });
            }
        }
        Ok(found)
    }

    /// For each asset: what this shard has sent to (or received from) `other`, and what `other` says it was when all up
    /// to its own number had been sent (or received).
    fn sums_against(&self, other: &Ledger, side: LossSide) -> Vec<(Box<str>, u128, u128)> {
        let (here, there) = (self.peer(other.shard), other.peer(self.shard));
        let mut sums = Vec::new();
        for (index, asset) in other.assets.iter() {
            let own = self.assets.iter().find(|(_, own)| own.name == asset.name).map(|(own, _)| own);
            let of_own = |sums: &BTreeMap<_, u128>| own.and_then(|own| sums.get(&own).copied()).unwrap_or_default();
            let (has, should_have) = match side {
                LossSide::Sent => (of_own(&here.sent), there.received.get(&index).copied().unwrap_or_default()),
                LossSide::Received => {
                    let pending = there
                        .after(there.confirmed())
                        .filter(|credit| other.accounts.get(credit.slot).is_some_and(|account| account.asset == index));
                    let pending: u128 = pending.map(|credit| u128::from(credit.amount.get())).sum();
                    let sent = there.sent.get(&index).copied().unwrap_or_default();
                    (of_own(&here.received), sent.saturating_sub(pending))
                }
            };
            sums.push(((&*asset.name).into(), has, should_have));
        }
        sums
    }

    /// The account of this shard against which losses of `asset` are booked, and whether it is open already.
    pub fn accepted_loss_account(&self, asset: &str) -> (Box<str>, Option<AccountSlot>) {
        for number in 0u32.. {
            let id = format!("{ACCEPTED_LOSS_PREFIX}{asset}:{number}");
            if shard_of(&id, self.shard_count) != self.shard {
                continue;
            }
            let Some(slot) = self.slot(&id) else { return (id.into(), None) };
            let account = self.accounts.get(slot).expect("found accounts are there");
            // Somebody may have opened an account of this name as something else.
            if account.kind == AccountKind::Source && &*self.assets.get(account.asset).name == asset {
                return (id.into(), Some(slot));
            }
        }
        unreachable!("one of so many names is at home here")
    }

    /// The event that opens an account again whose opening this shard has lost, as another shard knows it; `None` for
    /// one that is known here, or at home elsewhere. Its id and asset may be such as only older builds let in: a credit
    /// to it may be on its way.
    pub fn open_again<'a>(&self, id: &'a str, asset: &'a str, kind: AccountKind, now: TimeMs) -> Option<Event<'a>> {
        if shard_of(id, self.shard_count) != self.shard || self.slot(id).is_some() {
            return None;
        }
        let slot = AccountSlot(self.accounts.len());
        Some(Event::AccountOpened { time: self.time_of(now), slot, id, asset, kind })
    }

    /// The next event that books `loss`: first the account is opened, then the loss is booked against it. The caller
    /// applies it, and asks again until the loss is booked.
    pub fn book_loss<'a>(&self, loss: &'a PeerLoss, account: &'a str, now: TimeMs) -> Event<'a> {
        let time = self.time_of(now);
        let Some(slot) = self.slot(account) else {
            let opened = self.open_again(account, &loss.asset, AccountKind::Source, now);
            return opened.expect("it is at home here, and unknown");
        };
        let source = self.accounts.get(slot).expect("found accounts are there");
        let PeerLoss { peer, side, number, mut amount, .. } = *loss;
        if is_planted(Bug::LossBookedShort) {
            amount = Amount::new(amount.get() / 2).unwrap_or(amount);
        }
        let after = match side {
            LossSide::Sent => source.balance.wrapping_sub(amount.get() as i64),
            LossSide::Received => source.balance.wrapping_add(amount.get() as i64),
        };
        let account = AccountStep { slot, prev: source.last, after };
        Event::LossBooked { time, peer, side, number, account, amount }
    }

    /// Folds in a booked loss. Several assets are booked one after the other, up to the same number.
    pub(super) fn fold_loss(
        &mut self,
        peer: ShardIndex,
        side: LossSide,
        number: OutboundNumber,
        step: AccountStep,
        amount: Amount,
        position: RecordPosition,
    ) -> Checked<()> {
        self.check_other_shard(peer)?;
        let reached = match side {
            LossSide::Sent => self.peer(peer).last(),
            LossSide::Received => self.peer(peer).watermark,
        };
        if number < reached {
            return Err(wrong(Some(step.slot), "number at least", reached.0, number.0));
        }
        let change = match side {
            LossSide::Sent => -i128::from(amount.get()),
            LossSide::Received => i128::from(amount.get()),
        };
        let account = self.check_moved(step, change)?;
        let (kind, asset, held) = (account.kind, account.asset, account.held);
        if kind != AccountKind::Source {
            return Err(wrong(Some(step.slot), "source account", 1, 0));
        }
        match side {
            LossSide::Sent => {
                self.check_reserve(step.slot, asset, step.after, held)?;
                self.take(step, amount, 0, position);
                self.peers[usize::from(peer.0)].lose_sent(number, asset, amount);
            }
            LossSide::Received => {
                self.give(CreditStep::Here(step), amount, position);
                self.peers[usize::from(peer.0)].lose_received(number, asset, amount);
            }
        }
        Ok(())
    }
}
