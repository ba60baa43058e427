//! A lease: money of a campaign that one worker may bid with, for about a second.

use std::fmt;

use tidegate_machines::{ShardIndex, TimeMs};

use crate::units::BudgetMicros;

/// Bits of a lease's id that count; above them is the shard.
const COUNTER_BITS: u32 = 48;

/// Names a lease: its shard, and a number that is used once and is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

impl LeaseId {
    /// Number `counter` of a shard.
    pub fn new(shard: ShardIndex, counter: u64) -> LeaseId {
        assert!(counter < 1 << COUNTER_BITS, "a shard opens fewer than 2^48 leases");
        LeaseId(u64::from(shard.0) << COUNTER_BITS | counter)
    }

    /// Whose it is.
    pub const fn shard(self) -> ShardIndex {
        ShardIndex((self.0 >> COUNTER_BITS) as u16)
    }

    /// Its number in the shard.
    pub const fn counter(self) -> u64 {
        self.0 & ((1 << COUNTER_BITS) - 1)
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.shard().0, self.counter())
    }
}

/// Money of a campaign that is leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub campaign: u32,
    pub amount: BudgetMicros,
    /// The day whose cap it counts for.
    pub day: i32,
    pub opened: TimeMs,
    pub is_closed: bool,
    pub spent: BudgetMicros,
    pub won: Won,
}

/// A lease as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// Which.
    pub id: LeaseId,
    /// The number of its campaign.
    pub campaign: u32,
    /// What is leased.
    pub amount: BudgetMicros,
    /// What wins have cost.
    pub spent: BudgetMicros,
    /// When it was opened.
    pub opened: TimeMs,
    /// No further win counts.
    pub is_closed: bool,
}

impl Lease {
    /// What wins may still cost.
    pub fn exposed(&self) -> BudgetMicros {
        if self.is_closed { BudgetMicros::ZERO } else { self.amount - self.spent }
    }

    pub fn view(&self, id: LeaseId) -> LeaseView {
        let Lease { campaign, amount, spent, opened, is_closed, .. } = *self;
        LeaseView { id, campaign, amount, spent, opened, is_closed }
    }
}

/// Which bids of a lease have won: a bit for each, up to the last one that has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Won(Vec<u64>);

impl Won {
    /// As a snapshot has it; `None` if its last word has no bit.
    pub fn from_words(words: Vec<u64>) -> Option<Won> {
        (words.last() != Some(&0)).then_some(Won(words))
    }

    pub fn words(&self) -> &[u64] {
        &self.0
    }

    pub fn has(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Notes a win. Returns whether it is new.
    pub fn insert(&mut self, number: u32) -> bool {
        let at = number as usize / 64;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        let (before, bit) = (self.0[at], 1 << (number % 64));
        self.0[at] |= bit;
        before & bit == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_its_shard() {
        let id = LeaseId::new(ShardIndex(7), 12);
        assert_eq!((id.shard(), id.counter(), id.to_string()), (ShardIndex(7), 12, "7-12".to_owned()));
    }

    #[test]
    fn a_bid_wins_once() {
        let mut won = Won::default();
        assert!(won.insert(0) && won.insert(200) && !won.insert(200) && !won.insert(0));
        assert_eq!(
            [0, 1, 199, 200, 201, 9_999].map(|number| won.has(number)),
            [true, false, false, true, false, false]
        );
        assert_eq!(Won::from_words(won.words().to_vec()), Some(won));
        assert_eq!(Won::from_words(vec![1, 0]), None);
    }
}
