//! Wins and losses: which of them count, and what they do to the money of a lease.
//!
//! ```text
//!   Win  ──▶ spent += price, returned += bid − price  ┐ a bid is won, or lost, or nobody knows it: what it is once,
//!   Loss ──▶ returned += bid                          ┘ it is for ever
//! ```
//!
//! Promise: a bid is paid at most once, and not after it was lost; what it reserves returns at most once. Both follow
//! from one place that knows of each bid of a lease whether it was won or lost, and that is the lease's shard.
//!
//! What a bid reserves is the price that its token says. No client can choose it: the token is signed, and so is the
//! time at which the lease was opened, so that no token of another timeline is taken for one of this.
//!
//! When a win came is told by the clock by which bids are made. That of the records may be ahead of it, after a start
//! with a clock of the host that was.
//!
//! A loss counts as long as its lease is open, also behind the deadline of its bid: its win would be refused then.

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use tidegate_planted::{Bug, is_planted};

use super::Campaigns;
use super::command::{LossOutcome, Outcome, Win, WinOutcome};
use super::event::{LostBid, What, WonBid};
use super::lease::{Lease, LeaseId, LeaseStage};
use crate::token::{Bid, Opening};
use crate::units::{BudgetMicros, Impressions, Losses};

/// What earlier notices of one command have taken.
#[derive(Default)]
pub(super) struct Noticed {
    bids: HashSet<(LeaseId, u32), FixedState>,
    reserved: HashMap<LeaseId, BudgetMicros, FixedState>,
}

impl Noticed {
    fn has(&self, lease: LeaseId, number: u32) -> bool {
        self.bids.contains(&(lease, number))
    }

    /// Takes a bid that reserves so much. Returns whether its lease has that.
    fn take(&mut self, lease: &Lease, (id, number): (LeaseId, u32), reserved: BudgetMicros) -> bool {
        let already = self.reserved.entry(id).or_default();
        if lease.exposed().left_behind(*already) < reserved {
            return false;
        }
        *already += reserved;
        self.bids.insert((id, number))
    }
}

impl Campaigns {
    pub(super) fn win(&self, wins: &[Win], deadline_ms: u64) -> (Option<What>, Outcome) {
        let (mut noticed, mut paid) = (Noticed::default(), Vec::new());
        let judge = |win: &Win| {
            let Some(won) = WonBid::of(win).filter(|_| !self.is_foreign(&win.bid)) else { return WinOutcome::Unfunded };
            let is_late = win.at.0 > win.bid.at.0.saturating_add(deadline_ms) && !is_planted(Bug::LateWinTaken);
            let outcome = self.judge_win(&mut noticed, won, is_late);
            if outcome == WinOutcome::Taken {
                paid.push(won);
            }
            outcome
        };
        let outcomes = wins.iter().map(judge).collect();
        ((!paid.is_empty()).then_some(What::Won { wins: paid }), Outcome::Won(outcomes))
    }

    pub(super) fn lose(&self, bids: &[Bid]) -> (Option<What>, Outcome) {
        let (mut noticed, mut lost) = (Noticed::default(), Vec::new());
        let judge = |bid: &Bid| {
            if self.is_foreign(bid) {
                return LossOutcome::Unfunded;
            }
            let outcome = self.judge_loss(&mut noticed, bid.into());
            if outcome == LossOutcome::Taken {
                lost.push(bid.into());
            }
            outcome
        };
        let outcomes = bids.iter().map(judge).collect();
        ((!lost.is_empty()).then_some(What::Lost { bids: lost }), Outcome::Lost(outcomes))
    }

    /// Whether a bid is of another timeline: before a restore, leases had the same numbers.
    fn is_foreign(&self, bid: &Bid) -> bool {
        let is_other = |lease: &Lease| bid.opened != Opening::of(lease.life.opened);
        self.leases.get(&bid.lease).is_some_and(is_other) && !is_planted(Bug::ForeignWinTaken)
    }

    /// Whether a win is to be paid. A duplicate is one also when it is late: what was paid is paid.
    pub(super) fn judge_win(&self, noticed: &mut Noticed, won: WonBid, is_late: bool) -> WinOutcome {
        let bid = (won.lease, won.number);
        let Some(lease) = self.leases.get(&won.lease) else { return WinOutcome::Late };
        if lease.won.has(won.number) || noticed.has(won.lease, won.number) {
            return WinOutcome::Duplicate;
        }
        if lease.lost.has(won.number) {
            return WinOutcome::Lost;
        }
        if is_late || lease.stage == LeaseStage::Closed {
            return WinOutcome::Late;
        }
        if noticed.take(lease, bid, won.reserved()) { WinOutcome::Taken } else { WinOutcome::Unfunded }
    }

    /// Whether a loss returns what its bid reserves.
    pub(super) fn judge_loss(&self, noticed: &mut Noticed, lost: LostBid) -> LossOutcome {
        let LostBid { lease: id, number, price } = lost;
        let Some(lease) = self.leases.get(&id) else { return LossOutcome::Late };
        if lease.lost.has(number) || noticed.has(id, number) {
            return LossOutcome::Duplicate;
        }
        if lease.won.has(number) && !is_planted(Bug::WonBidReturned) {
            return LossOutcome::Won;
        }
        if lease.stage == LeaseStage::Closed {
            return LossOutcome::Late;
        }
        if noticed.take(lease, (id, number), price.into()) { LossOutcome::Taken } else { LossOutcome::Unfunded }
    }

    pub(super) fn fold_won(&mut self, wins: &[WonBid]) {
        for won in wins {
            let lease = self.leases.get_mut(&won.lease).expect("it follows");
            assert!(lease.won.insert(won.number) && !lease.lost.has(won.number), "a bid wins once, unless it was lost");
            lease.spent += won.price.into();
            lease.returned += won.returned.into();
            assert!(lease.spent + lease.returned <= lease.amount, "a lease has money for all of its bids");
            let mut campaign = self.campaigns.get_mut(lease.campaign).expect("a lease is of a campaign");
            campaign.spend(won.price.into(), lease.day);
            campaign.free(won.price.into(), lease.day);
            campaign.unexpose(won.returned.into(), lease.day);
            campaign.impressions += Impressions(1);
            if lease.is_known() {
                self.known.insert(won.lease);
            }
        }
    }

    pub(super) fn fold_lost(&mut self, bids: &[LostBid]) {
        for LostBid { lease: id, number, price } in bids {
            let lease = self.leases.get_mut(id).expect("it follows");
            if !is_planted(Bug::LossForgotten) {
                assert!(lease.lost.insert(*number), "a bid is lost once");
            }
            lease.returned += (*price).into();
            assert!(lease.spent + lease.returned <= lease.amount, "a lease has money for all of its bids");
            let mut campaign = self.campaigns.get_mut(lease.campaign).expect("a lease is of a campaign");
            campaign.unexpose((*price).into(), lease.day);
            campaign.losses += Losses(1);
            if lease.is_known() {
                self.known.insert(*id);
            }
        }
    }
}
