//! What can be left behind, and how much of it.

use std::ops::{Index, IndexMut};

use crate::limits::ANONYMOUS_PART;

/// Something that a client can leave behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A session that outlives its connection, with its will.
    Session,
    /// A subscription to a filter.
    Filter,
    /// A message that is retained, or will be when its time has come.
    Retained,
    /// A message that waits for its time, or a will that waits for room on the disk.
    Delayed,
    /// A message that waits in the journal for a session, once for each.
    Queued,
    /// Part of a packet that was received, without the rest.
    Unread,
    /// A shape of filters that is not common, with which each match has more work.
    Shape,
}

impl Thing {
    /// All of them.
    pub const ALL: [Thing; 7] =
        [Thing::Session, Thing::Filter, Thing::Retained, Thing::Delayed, Thing::Queued, Thing::Unread, Thing::Shape];

    /// As metrics and logs name it.
    pub fn name(self) -> &'static str {
        match self {
            Thing::Session => "sessions",
            Thing::Filter => "filters",
            Thing::Retained => "retained",
            Thing::Delayed => "delayed",
            Thing::Queued => "queued",
            Thing::Unread => "unread",
            Thing::Shape => "shapes",
        }
    }
}

/// The most of a thing. Zero is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Bound {
    /// None.
    pub const NONE: Bound = Bound { count: 0, bytes: 0 };

    /// The part of it for all who are not known.
    pub(super) fn of_anonymous(self) -> Bound {
        let part = |most: u64| if most == 0 { 0 } else { (most / ANONYMOUS_PART).max(1) };
        Bound { count: part(self.count), bytes: part(self.bytes) }
    }
}

/// The bounds of one thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThingLimits {
    /// Of one principal that is known.
    pub principal: Bound,
    /// Of all who are not known and come from one address.
    pub address: Bound,
    /// Of all principals; those who are not known have a part of it.
    pub all: Bound,
}

/// The bounds of all things. [`Default`] is what a config that is silent gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldingLimits([ThingLimits; Thing::ALL.len()]);

impl HoldingLimits {
    /// No bounds.
    pub const NONE: HoldingLimits = HoldingLimits(
        [ThingLimits { principal: Bound::NONE, address: Bound::NONE, all: Bound::NONE }; Thing::ALL.len()],
    );
}

impl Default for HoldingLimits {
    fn default() -> HoldingLimits {
        let bound = |count, bytes| Bound { count, bytes };
        let of = |thing| match thing {
            Thing::Session => ThingLimits {
                principal: bound(10_000, 64 << 20),
                address: bound(1_000, 8 << 20),
                all: bound(1 << 21, 2 << 30),
            },
            Thing::Filter => ThingLimits {
                principal: bound(1_000_000, 256 << 20),
                address: bound(100_000, 32 << 20),
                all: bound(1 << 24, 4 << 30),
            },
            Thing::Retained => ThingLimits {
                principal: bound(100_000, 256 << 20),
                address: bound(10_000, 16 << 20),
                all: bound(1 << 22, 4 << 30),
            },
            Thing::Delayed => ThingLimits {
                principal: bound(100_000, 64 << 20),
                address: bound(10_000, 16 << 20),
                all: bound(1 << 20, 1 << 30),
            },
            Thing::Queued => ThingLimits {
                principal: bound(1 << 22, 4 << 30),
                address: bound(1 << 20, 256 << 20),
                all: bound(1 << 25, 16 << 30),
            },
            Thing::Unread => {
                ThingLimits { principal: bound(0, 256 << 20), address: bound(0, 64 << 20), all: bound(0, 1 << 30) }
            }
            // A match visits one node for each shape at most: all of them are a millisecond's worth.
            Thing::Shape => ThingLimits { principal: bound(1_024, 0), address: bound(256, 0), all: bound(16_384, 0) },
        };
        HoldingLimits(Thing::ALL.map(of))
    }
}

impl Index<Thing> for HoldingLimits {
    type Output = ThingLimits;

    fn index(&self, thing: Thing) -> &ThingLimits {
        &self.0[thing as usize]
    }
}

impl IndexMut<Thing> for HoldingLimits {
    fn index_mut(&mut self, thing: Thing) -> &mut ThingLimits {
        &mut self.0[thing as usize]
    }
}
