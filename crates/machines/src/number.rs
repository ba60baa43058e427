//! The numbers that cross boundaries, each with its own type, so that an amount cannot be used as a time.

use std::fmt;

/// An amount of money in minor units of its asset: 1 to [`Amount::MAX`]. Zero is not an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(u64);

impl Amount {
    /// The largest amount of one transfer: `i64::MAX` minor units, so that a balance fits a signed 64-bit integer.
    pub const MAX: Amount = Amount(i64::MAX as u64);

    /// Takes minor units; `None` when zero or above [`Amount::MAX`].
    pub const fn new(minor_units: u64) -> Option<Amount> {
        if minor_units == 0 || minor_units > Self::MAX.0 { None } else { Some(Amount(minor_units)) }
    }

    /// The amount in minor units.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeMs(pub u64);

impl TimeMs {
    /// The latest time that a record can carry: 48 bits of milliseconds, the year 10889. A later one is taken as this.
    pub const MAX: TimeMs = TimeMs((1 << 48) - 1);
}

// A balance after any number of transfers is the sum of what sources issued, which is capped at this.
const _: () = assert!(Amount::MAX.0 == i64::MAX as u64 && Amount::new(0).is_none());
// What is due so many seconds after a time never passes 64 bits.
const _: () = assert!(TimeMs::MAX.0.checked_add(u32::MAX as u64 * 1000).is_some());

/// Which shard, counted from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardIndex(pub u16);

/// Where a record stands in its shard's journal. Opaque and strictly increasing; zero means "nowhere", the end of a
/// chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordPosition(pub u64);

impl RecordPosition {
    /// The end of every chain of records: no record stands here.
    pub const NONE: RecordPosition = RecordPosition(0);
}

/// Number of a record in its shard's log: 1 for the first, without gaps. Zero stands before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordSequence(pub u64);

/// Numbers the credits that one shard sends to another, from 1 without gaps; the receiver's watermark is the last one
/// applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutboundNumber(pub u64);

impl fmt::Display for ShardIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
