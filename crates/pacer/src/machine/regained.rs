//! What the ledger has paid and this log does not know: it is older than the ledger, or has lost its end.
//!
//! ```text
//!   this log   ...  lease 41 opened ──┐ lost: 41 won and closed, 42 and 43 opened, won and closed
//!   ledger     ...  41: paid 70, 42: paid 90, 43: paid 10
//!   Regain  ──▶ 42 and 43: spent += 100; the mark is 43, behind which the next search need not look
//!   Correct ──▶ 41, when it is closed here: spent = the greater of what is known here, and what was paid
//! ```
//!
//! Promise: what the ledger has paid of a campaign's leases counts against its budget, once: all of a campaign in one
//! record, with the mark. Which bids of such leases have won nobody knows any more: impressions are not counted.

use std::collections::BTreeMap;

use super::Campaigns;
use super::command::Outcome;
use super::event::{Mark, PaidLease, PaidOnDay, Regained, What};
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
    /// What counts of a campaign now, if it has no other mark than it had when that was looked for; and the mark that
    /// it has then. Of a campaign that is not there, its number is not given any more.
    pub(super) fn regain(&self, regained: &Regained, behind: Option<Mark>) -> (Option<What>, Outcome) {
        let what = self.regain_behind(regained, |mark| mark == behind);
        let known = self.campaigns.get(&regained.campaign).and_then(|campaign| campaign.mark);
        let mark = if what.is_some() { Some(regained.mark) } else { known };
        (what, Outcome::Mark(mark))
    }

    pub(super) fn regain_behind(&self, regained: &Regained, is_it: impl Fn(Option<Mark>) -> bool) -> Option<What> {
        let Regained { campaign: number, mark, .. } = regained;
        let is_new = match self.campaigns.get(number) {
            Some(campaign) => campaign.mark != Some(*mark) && is_it(campaign.mark),
            None => self.index_of(*number).is_some_and(|index| index >= self.numbered),
        };
        let mut counted = Counted::default();
        let days = regained.days.iter().filter(|day| counted.take(self, *number, day.paid)).copied().collect();
        is_new.then(|| What::Regained(Regained { days, ..regained.clone() }))
    }

    /// Which of the numbers of this shard this is; `None` if it is of another one.
    fn index_of(&self, number: u32) -> Option<u32> {
        let shards = u32::from(self.shards);
        (number % shards == u32::from(self.shard.0)).then_some(number / shards)
    }

    pub(super) fn fold_regained(&mut self, Regained { campaign: number, mark, days }: &Regained) {
        let Some(mut campaign) = self.campaigns.get_mut(*number) else {
            self.numbered = self.index_of(*number).expect("it follows").saturating_add(1);
            return;
        };
        campaign.mark = Some(*mark);
        days.iter().for_each(|PaidOnDay { day, paid }| campaign.regain(*paid, *day));
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
            self.campaigns.get_mut(lease.campaign).expect("a lease is of a campaign").spend(more, lease.day);
        }
    }
}
