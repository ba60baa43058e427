//! What is asked of the campaigns of a shard, and what is answered.

use tidegate_machines::TimeMs;

use super::campaign::{CampaignView, Spending};
use super::event::{Mark, PaidLease, Regained, RetiredLease};
use super::lease::{LeaseId, LeaseView, Life};
use super::openings::Openings;
use crate::plan::Plan;
use crate::token::Bid;
use crate::units::{BudgetMicros, PriceMicros};

/// What is asked.
#[derive(Clone, Debug)]
pub enum Command {
    /// The campaign has this plan from now on, unless it has one of a higher version. If there is none, it is made.
    Put {
        /// Its id.
        id: Box<str>,
        /// The plan. Version 0: one above that of the plan in force.
        plan: Box<Plan>,
        /// Who puts it; empty for nobody who can be named.
        by: Box<str>,
    },
    /// The campaign ends: nothing more is bid on it.
    Delete {
        /// Its id.
        id: Box<str>,
        /// Who ends it, likewise.
        by: Box<str>,
    },
    /// Campaigns that have ended, and whose numbers nobody uses any more, are forgotten.
    Forget {
        /// Their numbers.
        campaigns: Vec<u32>,
    },
    /// Money is to be leased. Each lease stands in the journal before its money is held in the ledger.
    Open {
        /// What for.
        wanted: Vec<LeaseWanted>,
    },
    /// Bids have won.
    Win {
        /// The wins.
        wins: Vec<Win>,
    },
    /// Bids have not won: what they reserve returns.
    Lose {
        /// The bids, as their tokens say.
        bids: Vec<Bid>,
    },
    /// Nothing more is bid on these leases: what was not bid returns.
    Retire {
        /// The leases.
        leases: Vec<RetiredLease>,
    },
    /// Retired leases of all of whose bids it is known whether they were won or lost.
    Known {
        /// At most so many.
        limit: usize,
    },
    /// No further win of these leases counts.
    Close {
        /// The leases.
        leases: Vec<LeaseId>,
    },
    /// The ledger has what was spent of these leases, and has given back the rest. They are forgotten: no notice of a
    /// bid of theirs can come any more that is not late.
    Settle {
        /// The leases.
        leases: Vec<LeaseId>,
    },
    /// A process begins, and opens leases from now on.
    Begin,
    /// Which leases this log has opened.
    Openings,
    /// The ledger has paid for leases of a campaign that this log does not know: it is older than the ledger, or has
    /// lost its end. What they have cost counts.
    Regain {
        /// What.
        regained: Regained,
        /// The mark that the campaign had when it was looked for: nothing counts twice.
        behind: Option<Mark>,
    },
    /// The ledger has paid more of closed leases than their wins have cost, so far as this log knows: that counts.
    Correct {
        /// The leases.
        leases: Vec<PaidLease>,
    },
    /// One campaign.
    Read {
        /// Its id.
        id: Box<str>,
    },
    /// Campaigns by their ids.
    List {
        /// Behind this one.
        after: Box<str>,
        /// At most so many.
        limit: usize,
    },
    /// Campaigns that were changed behind a record, oldest change first.
    Changed {
        /// The record.
        after: u64,
        /// At most so many.
        limit: usize,
    },
    /// What was spent of these campaigns.
    Spending {
        /// Their numbers, and on which day.
        campaigns: Vec<(u32, i32)>,
    },
    /// Leases that are not settled.
    Leases {
        /// Behind this one.
        after: LeaseId,
        /// At most so many.
        limit: usize,
    },
}

/// Money that is to be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseWanted {
    /// The number of the campaign.
    pub campaign: u32,
    /// At most so much.
    pub amount: BudgetMicros,
    /// Not less than that.
    pub least: BudgetMicros,
    /// What the ledger may still hold of closed leases of the campaign: it has not taken their settlements yet.
    pub unsettled: BudgetMicros,
    /// The same of leases that were opened on this day.
    pub unsettled_today: BudgetMicros,
    /// The day of the campaign's zone: days since 1970.
    pub day: i32,
    /// The record of the plan whose zone that is. Two plans may have one version.
    pub changed: u64,
    /// When the lease is bid with.
    pub life: Life,
}

/// A bid that has won.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Win {
    /// The bid, as its token says.
    pub bid: Bid,
    /// What it costs, at most what was bid.
    pub price: PriceMicros,
    /// When that was told, by the clock by which bids are made.
    pub at: TimeMs,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// To a put.
    Put {
        /// The campaign's number.
        number: u32,
        /// The version in force.
        version: u64,
        /// What the put has done.
        change: Change,
    },
    /// It was done.
    Done,
    /// To an open, in the order of what was wanted.
    Opened(Vec<Result<LeaseView, NoLease>>),
    /// To wins, in their order.
    Won(Vec<WinOutcome>),
    /// To losses, in their order.
    Lost(Vec<LossOutcome>),
    /// To a question for leases whose bids are all known.
    Known(Vec<LeaseId>),
    /// To a close: those that are closed, also from before.
    Closed(Vec<LeaseView>),
    /// To a read.
    Campaign(Box<CampaignView>),
    /// To a list, and the last id if there are more.
    Campaigns(Vec<CampaignView>, Option<Box<str>>),
    /// To a question for changes.
    Changed {
        /// The campaigns.
        campaigns: Vec<CampaignView>,
        /// Ask behind this record the next time.
        up_to: u64,
    },
    /// To a question for spending: of those that there are.
    Spending(Vec<(u32, Spending)>),
    /// To a question for leases.
    Leases {
        /// They.
        leases: Vec<LeaseView>,
    },
    /// To a regain: the mark that the campaign has now.
    Mark(Option<Mark>),
    /// To a question for what was opened.
    Openings(Openings),
    /// It is not done.
    Refused(Refusal),
}

/// What a put has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The campaign is new.
    Made,
    /// It has another plan.
    Changed,
    /// It had this plan before.
    Unchanged,
    /// It has a plan of a higher version.
    Stale,
}

/// Why no money is leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLease {
    /// No campaign has this number, or it has ended.
    CampaignUnknown,
    /// Its plan has changed since it was asked for, and another day is today in the zone of the new one, or that day is
    /// over: it is asked for again when that is known.
    ZoneChanged,
    /// The budget is spent or leased.
    BudgetUsed,
    /// That of the day is.
    DayUsed,
    /// What is left of the budget is held in the ledger for leases that are not closed, or not settled there.
    Unreleased,
    /// There are as many leases as there may be.
    TooMany,
}

/// What became of a win.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WinOutcome {
    /// It counts now.
    Taken,
    /// It counted before.
    Duplicate,
    /// The bid was said to be lost before.
    Lost,
    /// Its deadline has passed, or its lease is closed.
    Late,
    /// The lease has not so much, or was opened at another time: no token of this server and this timeline says so.
    Unfunded,
}

/// What became of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossOutcome {
    /// It counts now: what the bid reserved is free.
    Taken,
    /// It counted before.
    Duplicate,
    /// The bid has won. Nothing has changed.
    Won,
    /// Its lease is closed: what the bid reserved was free before.
    Late,
    /// As of a win.
    Unfunded,
}

/// Why a command is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is none.
    #[error("there is no campaign of this id")]
    NotFound,
    /// Its id can be none.
    #[error(
        "a campaign's id has 1 to 64 of the characters a-z, A-Z, 0-9, '-', '_', '.' and ':', and is not \".\" or \"..\""
    )]
    IdInvalid,
    /// There are as many as there may be.
    #[error("there are as many campaigns as pacing.campaigns_max lets be")]
    TooMany,
    /// There are as many of whoever asks.
    #[error(
        "you have changed as many campaigns last as pacing.campaigns_of_owner_max lets be; the places of ended ones \
         are free when their last bids are settled"
    )]
    TooManyOfOwner,
    /// An ended campaign is not settled yet.
    #[error("a campaign of this id has ended, and its last bids are not settled yet; try again in a while")]
    Ending,
    /// Its money is on another account.
    #[error("the accounts of a campaign cannot be changed; make another campaign")]
    AccountsDiffer,
}
