//! A lease: money of a campaign that one worker may bid with, for about a second.
//!
//! ```text
//!   Open ──retired──▶ Retired ──▶ Closed ──settled──▶ forgotten
//!     └─────────────────────────────▲
//! ```

use std::fmt;

use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_planted::{Bug, is_planted};

use crate::limits::LEASE_LIFE_MS_MAX;
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

/// When a lease is bid with, by the clock by which bids are made. That of the records may be ahead of it, and stands
/// still then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// It is opened then.
    pub opened: TimeMs,
    /// Nothing is bid with it behind that.
    pub until: TimeMs,
}

impl Life {
    /// So many milliseconds from its opening.
    pub const fn of(opened: TimeMs, ms: u64) -> Life {
        Life { opened, until: TimeMs(opened.0.saturating_add(ms)) }
    }

    /// The longest that may be, of a lease whose record has this time and does not say it.
    pub(super) const fn unsaid(at: TimeMs) -> Life {
        Life::of(at, LEASE_LIFE_MS_MAX)
    }

    /// For how long it is bid with.
    pub const fn ms(self) -> u64 {
        self.until.0 - self.opened.0
    }
}

/// Money of a campaign that is leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub campaign: u32,
    pub amount: BudgetMicros,
    /// The day whose cap it counts for.
    pub day: i32,
    pub life: Life,
    pub stage: LeaseStage,
    /// What wins have cost.
    pub spent: BudgetMicros,
    /// What cannot be spent any more: what lost bids have reserved, what won bids have reserved above their cost, and
    /// what was never bid.
    pub returned: BudgetMicros,
    pub won: Bids,
    pub lost: Bids,
}

/// How far a lease is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseStage {
    /// Its worker bids.
    Open,
    /// Nothing more is bid. What was bid may win.
    Retired,
    /// No win counts any more.
    Closed,
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
    /// When it is bid with.
    pub life: Life,
    /// No further win counts.
    pub is_closed: bool,
}

impl Lease {
    /// What wins may still cost.
    pub fn exposed(&self) -> BudgetMicros {
        match self.stage {
            LeaseStage::Open | LeaseStage::Retired => self.amount - (self.spent + self.returned),
            LeaseStage::Closed => BudgetMicros::ZERO,
        }
    }

    /// What of it cannot be spent any more, and is held in the ledger until it is closed.
    pub fn unreleased(&self) -> BudgetMicros {
        match self.stage {
            LeaseStage::Open | LeaseStage::Retired => self.returned,
            LeaseStage::Closed => BudgetMicros::ZERO,
        }
    }

    /// Whether of each of its bids it is known whether it was won or lost: no bid reserves nothing.
    pub fn is_known(&self) -> bool {
        self.stage == LeaseStage::Retired && (self.exposed() == BudgetMicros::ZERO || is_planted(Bug::KnownEarly))
    }

    pub fn view(&self, id: LeaseId) -> LeaseView {
        let Lease { campaign, amount, spent, life, stage, .. } = *self;
        LeaseView { id, campaign, amount, spent, life, is_closed: stage == LeaseStage::Closed }
    }
}

/// Some bids of a lease: a bit for each, up to the last one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bids(Vec<u64>);

impl Bids {
    /// As a snapshot has it; `None` if its last word has no bit.
    pub fn from_words(words: Vec<u64>) -> Option<Bids> {
        (words.last() != Some(&0)).then_some(Bids(words))
    }

    pub fn words(&self) -> &[u64] {
        &self.0
    }

    pub fn has(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Whether no bid is here and there.
    pub fn is_apart_from(&self, other: &Bids) -> bool {
        self.0.iter().zip(&other.0).all(|(one, other)| one & other == 0)
    }

    /// Adds a bid. Returns whether it is new.
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
    fn a_bid_is_added_once() {
        let mut won = Bids::default();
        assert!(won.insert(0) && won.insert(200) && !won.insert(200) && !won.insert(0));
        assert_eq!(
            [0, 1, 199, 200, 201, 9_999].map(|number| won.has(number)),
            [true, false, false, true, false, false]
        );
        let mut lost = Bids::default();
        assert!(lost.insert(1) && lost.is_apart_from(&won) && won.is_apart_from(&lost));
        assert!(lost.insert(200) && !lost.is_apart_from(&won) && !won.is_apart_from(&lost));
        assert_eq!(Bids::from_words(won.words().to_vec()), Some(won));
        assert_eq!(Bids::from_words(vec![1, 0]), None);
    }
}
