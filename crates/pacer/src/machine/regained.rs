//! What the ledger has paid and this log does not know: it is older than the ledger, or has lost its end.
//!
//! ```text
//!   this log   ...  lease 41 opened ──┐ lost: 41 won and closed, 42 and 43 opened, won and closed
//!   ledger     ...  41: paid 70, 42: paid 90, 43: paid 10
//!   Regain  ──▶ 42, 43: spent += paid, and the next lease is number 44
//!   Correct ──▶ 41, when it is closed here: spent = the greater of what is known here, and what was paid
//! ```
//!
//! Promise: what the ledger has paid of a campaign's leases counts against its budget, once. Of a lease that is not
//! known, it counts once because its number does not come again. Which of its bids have won nobody knows any more:
//! impressions are not counted.

use std::collections::BTreeMap;

use super::Campaigns;
use super::event::{PaidLease, RegainedLease, What};
use super::lease::{LeaseId, LeaseStage};
use crate::units::BudgetMicros;

/// What the leases of one command add to their campaigns: what is counted adds up, whatever a ledger says.
#[derive(Default)]
struct Counted(BTreeMap<u32, BudgetMicros>);

impl Counted {
    /// Counts something of a campaign. Returns whether there is such a campaign, and it can have spent that.
    fn take(&mut self, campaigns: &Campaigns, number: u32, paid: BudgetMicros) -> bool {
        let Some(campaign) = campaigns.campaigns.get(&number) else { return false };
        let already = self.0.entry(number).or_insert(campaign.spent);
        let room = BudgetMicros::MAX.left_behind(*already).left_behind(campaign.exposed + campaign.unreleased);
        if paid > room {
            return false;
        }
        *already += paid;
        true
    }
}

impl Campaigns {
    /// Leases that count now: of campaigns that there are, and behind all that were opened here.
    pub(super) fn regain(&self, leases: &[RegainedLease]) -> Option<What> {
        let (mut found, mut last, mut counted) = (Vec::new(), self.opened, Counted::default());
        for lease in leases {
            let RegainedLease { lease: id, campaign, paid, .. } = *lease;
            let is_behind = id.shard() == self.shard && id.counter() > last && paid > BudgetMicros::ZERO;
            if is_behind && counted.take(self, campaign, paid) {
                last = id.counter();
                found.push(*lease);
            }
        }
        (!found.is_empty()).then_some(What::Regained { leases: found })
    }

    pub(super) fn fold_regained(&mut self, leases: &[RegainedLease]) {
        for RegainedLease { lease, campaign, day, paid } in leases {
            self.opened = lease.counter();
            self.campaigns.get_mut(campaign).expect("it follows").regain(*paid, *day);
        }
    }

    /// Closed leases of which more was paid than is known: at most what they had.
    pub(super) fn correct(&self, leases: &[PaidLease]) -> Option<What> {
        let mut counted = Counted::default();
        let paid: BTreeMap<LeaseId, BudgetMicros> = leases.iter().map(|paid| (paid.lease, paid.paid)).collect();
        let is_more = |PaidLease { lease, paid }: &PaidLease| {
            let closed = self.leases.get(lease).filter(|lease| lease.stage == LeaseStage::Closed);
            let more = closed.filter(|lease| *paid > lease.spent && *paid <= lease.amount);
            more.is_some_and(|lease| counted.take(self, lease.campaign, *paid - lease.spent))
        };
        let paid = paid.into_iter().map(|(lease, paid)| PaidLease { lease, paid });
        let more: Vec<PaidLease> = paid.filter(is_more).collect();
        (!more.is_empty()).then_some(What::Corrected { leases: more })
    }

    pub(super) fn fold_corrected(&mut self, leases: &[PaidLease]) {
        for PaidLease { lease, paid } in leases {
            let lease = self.leases.get_mut(lease).expect("it follows");
            let more = *paid - lease.spent;
            lease.spent = *paid;
            // What was thought to have returned was paid.
            lease.returned = lease.returned.min(lease.amount - *paid);
            self.campaigns.get_mut(&lease.campaign).expect("a lease is of a campaign").spend(more, lease.day);
        }
    }
}
