//! What leaves a shard of the ledger and for whom, and what other shards send it.
//!
//! ```text
//!   call ─▶ shard ─▶ Output ─ Ticket ─▶ its caller, another shard, the announcer
//!             ▲ Note ─ another shard: its credits, or how far it has applied ours
//! ```

use tidegate_machines::{OutboundNumber, ShardIndex};
use tidegate_runtime::Address;
use tidegate_shard::Caller;

use crate::announcer::Announcement;
use crate::operation::{Answer, Credit};

/// What leaves a shard of the ledger, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// The answer to a call.
    Call {
        /// The caller.
        from: Address,
        /// The asker's own number for it.
        ticket: u64,
        /// On whose caller.
        caller: Caller,
    },
    /// Credits for another shard.
    Credits {
        /// The crediting shard.
        to: ShardIndex,
    },
    /// A question to another shard for its credits.
    Pull {
        /// The debiting shard.
        from: ShardIndex,
    },
    /// New balances, for the announcer.
    Figures,
}

/// What leaves with a [`Ticket`] of the same name.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// The answer.
    Answer(Answer),
    /// The credits, in order of their numbers.
    Credits(Vec<Credit>),
    /// The watermark: all credits up to this number are applied here.
    Watermark(OutboundNumber),
    /// The figures.
    Figures(Vec<Announcement>),
}

impl Output {
    pub(crate) fn into_answer(self) -> Answer {
        match self {
            Output::Answer(answer) => answer,
            other => unreachable!("{other:?} leaves with a call's ticket"),
        }
    }

    pub(crate) fn into_credits(self) -> Vec<Credit> {
        match self {
            Output::Credits(credits) => credits,
            other => unreachable!("{other:?} leaves as credits"),
        }
    }

    pub(crate) fn into_watermark(self) -> OutboundNumber {
        match self {
            Output::Watermark(number) => number,
            other => unreachable!("{other:?} leaves as a pull"),
        }
    }

    pub(crate) fn into_figures(self) -> Vec<Announcement> {
        match self {
            Output::Figures(figures) => figures,
            other => unreachable!("{other:?} leaves as figures"),
        }
    }
}

/// Messages of other shards to this one. They are not answered.
#[derive(Clone, Debug)]
pub enum Note {
    /// `by` has durably applied our credits up to `after` and wants those beyond.
    Pull {
        /// The crediting shard.
        by: ShardIndex,
        /// Its watermark.
        after: OutboundNumber,
    },
    /// Credits of `from`.
    Credits {
        /// The debiting shard.
        from: ShardIndex,
        /// In order of their numbers.
        credits: Vec<Credit>,
    },
}
