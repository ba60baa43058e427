//! What the pacer's thread tells a bidder, and what a bidder tells it.

use std::sync::Arc;

use tidegate_machines::TimeMs;

use super::NoBid;
use super::aim::Aim;
use super::decision::Sample;
use crate::machine::LeaseId;
use crate::units::BudgetMicros;

/// What a bidder is told.
#[derive(Clone, Debug, Default)]
pub struct Update {
    /// Campaigns that have other aims from now on, or none any more.
    pub aims: Vec<(u32, Option<Arc<Aim>>)>,
    /// Shares of requests that are bid on.
    pub throttles: Vec<Throttled>,
    /// Leases that come and go, in this order.
    pub leases: Vec<LeaseChange>,
}

/// A change of the leases of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// Money to bid with, when what there is is used.
    Grant(Grant),
    /// All leases of this campaign are to be given back.
    Revoke(u32),
}

/// How one campaign is throttled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttled {
    /// Its number.
    pub campaign: u32,
    /// The share of requests that is bid on, from 0 to 1.
    pub share: f64,
    /// What of the price is bid, from 0 to 1.
    pub shade: f64,
}

/// Money to bid with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The campaign's number.
    pub campaign: u32,
    /// The lease, which no other worker has.
    pub lease: LeaseId,
    /// How much.
    pub amount: BudgetMicros,
    /// When it was opened.
    pub opened: TimeMs,
    /// From then on, nothing is bid on it.
    pub until: TimeMs,
}

/// What a bidder tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Campaigns that were asked for since the last report.
    pub used: Vec<Used>,
    /// Leases on which nothing more is bid.
    pub retired: Vec<Retired>,
    /// Requests for campaigns that nobody knows.
    pub unknown: u64,
    /// The bidder's time.
    pub now: TimeMs,
    /// Requests that were taken as samples.
    pub samples: Vec<Sample>,
    /// Those for which there was no room.
    pub samples_dropped: u64,
}

/// What was asked of one campaign since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Its number.
    pub campaign: u32,
    /// Bids that were made.
    pub bids: u32,
    /// What they reserve.
    pub reserved: BudgetMicros,
    /// Requests without a bid, by reason.
    pub no_bids: [u32; NoBid::ALL.len()],
    /// What is left of its leases.
    pub left: BudgetMicros,
}

/// A lease on which nothing more is bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// The lease.
    pub lease: LeaseId,
    /// Bids that were made on it.
    pub bids: u32,
    /// What was not bid.
    pub left: BudgetMicros,
    /// When the last one may have been made.
    pub at: TimeMs,
}
