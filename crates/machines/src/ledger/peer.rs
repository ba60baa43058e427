//! The credits that this shard and another have sent each other.
//!
//! ```text
//!   here                                                there
//!   debit decided ─▶ outbound n+1, n+2 … ──pulled──▶ watermark moves, credit applied
//!                    forgotten up to n  ◀─confirmed─ once that is durable there
//! ```
//!
//! The debit decides and is final. The credit is applied exactly once, because the receiver accepts number watermark +
//! 1 and no other.

use std::collections::{BTreeMap, VecDeque};

use super::account::AccountSlot;
use super::asset::AssetIndex;
use crate::{Amount, OutboundNumber, RecordPosition};

/// A credit that another shard has not confirmed yet. The record at `position` has the rest:
/// [`Ledger::credit_of`](super::Ledger::credit_of) puts both together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboundCredit {
    /// Which of the credits to that shard.
    pub number: OutboundNumber,
    /// The record that decided it, in this shard's journal.
    pub position: RecordPosition,
    /// The credited account, as known here.
    pub slot: AccountSlot,
    /// Minor units.
    pub amount: Amount,
}

/// The figures of one other shard.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    /// Sent and not confirmed: numbers `confirmed + 1` and up, without gaps.
    outbound: VecDeque<(RecordPosition, AccountSlot, Amount)>,
    confirmed: OutboundNumber,
    /// The last of its credits taken in here.
    pub watermark: OutboundNumber,
    /// Sum of all credits sent to it, by asset.
    pub sent: BTreeMap<AssetIndex, u128>,
    /// Sum of all its credits taken in here, by asset.
    pub received: BTreeMap<AssetIndex, u128>,
}

impl Peer {
    pub fn new(confirmed: OutboundNumber, watermark: OutboundNumber) -> Peer {
        Peer { confirmed, watermark, ..Peer::default() }
    }

    pub fn confirmed(&self) -> OutboundNumber {
        self.confirmed
    }

    /// The last number given to a credit.
    pub fn last(&self) -> OutboundNumber {
        OutboundNumber(self.confirmed.0 + self.outbound.len() as u64)
    }

    pub fn next(&self) -> OutboundNumber {
        OutboundNumber(self.last().0 + 1)
    }

    pub fn pending(&self) -> usize {
        self.outbound.len()
    }

    /// Adds the next credit, which a record after all others decided.
    pub fn push(&mut self, position: RecordPosition, slot: AccountSlot, amount: Amount) {
        let is_next = self.outbound.back().is_none_or(|(last, ..)| *last < position);
        assert!(is_next, "a credit follows another that was decided later");
        self.outbound.push_back((position, slot, amount));
    }

    /// Forgets up to `number`, which is above `confirmed` and at most `last`.
    pub fn confirm(&mut self, number: OutboundNumber) {
        let last = self.last();
        assert!(self.confirmed < number && number <= last, "credit {} of {} is confirmed", number.0, last.0);
        self.outbound.drain(..(number.0 - self.confirmed.0) as usize);
        self.confirmed = number;
        assert!(self.last() == last, "numbers are not given again");
    }

    /// Takes in the next credit of the other shard.
    pub fn take_in(&mut self, number: OutboundNumber, asset: AssetIndex, amount: Amount) {
        assert!(number.0 == self.watermark.0 + 1, "credit {} follows {}", number.0, self.watermark.0);
        self.watermark = number;
        *self.received.entry(asset).or_default() += u128::from(amount.get());
    }

    /// Goes on behind `number`: the debits up to there are lost, and the other shard has taken their credits in.
    /// `amount` is what it has of one asset and this shard does not know.
    pub fn lose_sent(&mut self, number: OutboundNumber, asset: AssetIndex, amount: Amount) {
        assert!(number >= self.last(), "credit {} was sent, and nothing up to {} is lost", self.last().0, number.0);
        // The other has these as well: it takes credits in without gaps.
        self.outbound.clear();
        self.confirmed = number;
        *self.sent.entry(asset).or_default() += u128::from(amount.get());
    }

    /// Goes on behind `number`: the credits up to there were taken in, and are lost.
    pub fn lose_received(&mut self, number: OutboundNumber, asset: AssetIndex, amount: Amount) {
        assert!(number >= self.watermark, "credit {} follows {}", number.0, self.watermark.0);
        self.watermark = number;
        *self.received.entry(asset).or_default() += u128::from(amount.get());
    }

    /// Whether there never was a credit in either direction.
    pub fn is_untouched(&self) -> bool {
        self.last() == OutboundNumber(0)
            && self.watermark == OutboundNumber(0)
            && self.sent.is_empty()
            && self.received.is_empty()
    }

    /// Those after `after`, in order.
    pub fn after(&self, after: OutboundNumber) -> impl Iterator<Item = OutboundCredit> {
        let skip = usize::try_from(after.0.saturating_sub(self.confirmed.0)).unwrap_or(usize::MAX);
        let skip = skip.min(self.outbound.len());
        let first = self.confirmed.0 + skip as u64 + 1;
        debug_assert!(first > after.0 || skip == self.outbound.len(), "a credit that was asked for is passed over");
        self.outbound.range(skip..).zip(first..).map(|(&(position, slot, amount), number)| OutboundCredit {
            number: OutboundNumber(number),
            position,
            slot,
            amount,
        })
    }
}
