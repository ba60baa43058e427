//! What a record of one shard says about the logs of others: which records there it rests upon.
//!
//! ```text
//!   shard 0   │ … │ debit, credit goes to 1 │ … │ confirmed by 1 │
//!                        ▲ rests on                   │ rests on
//!   shard 1   │ … │ ─────┴ credit received │ … ◀──────┘
//! ```
//!
//! Why: copies of several logs, cut at some place each, are one state only if nothing in one of them rests on what was
//! cut from another. Whoever cuts does not know what records mean; the machine tells it in these words.

use crate::{RecordPosition, ShardIndex};

/// Something that the log of a shard has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The record that stands at this position of the log of this shard.
    Record {
        /// Whose log.
        shard: ShardIndex,
        /// Where.
        position: RecordPosition,
    },
    /// A record that a machine names, whichever shard has it: two of one kind with the same numbers are one fact, or
    /// are taken for one, which only keeps more.
    Named {
        /// Which kind of fact, as the machine numbers them.
        kind: u8,
        /// What it is about, or a hash of that.
        about: u64,
        /// Which one of several about it.
        number: u64,
    },
}

/// How a record is tied to records of other shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tie {
    /// It is this fact. Facts of kind [`Fact::Record`] need not be said.
    Is(Fact),
    /// It was decided because this was durable, if there is such a thing at all.
    RestsOn(Fact),
}
