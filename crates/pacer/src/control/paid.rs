//! What the ledger has paid for leases that are not known here: the log of campaigns is older than it, or has lost its
//! end.

use hashbrown::HashMap;
use tidegate_machines::{ShardIndex, TimeMs};

use super::Control;
use crate::machine::{LeaseId, RegainedLease};
use crate::units::BudgetMicros;
use crate::zone;

/// What the ledger has paid of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paid {
    /// The lease.
    pub lease: LeaseId,
    /// When it was opened.
    pub opened: TimeMs,
    /// The number of its campaign. Holds of before do not say it.
    pub campaign: Option<u32>,
    /// What was paid.
    pub amount: BudgetMicros,
}

/// What is known here of a lease that the ledger has paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaidOf {
    /// It was not settled here at the start: it is now, or will be.
    Open,
    /// The log has settled and forgotten it, and so it has all that was paid before.
    Forgotten,
    /// A part of the log that is lost has opened it.
    Lost(RegainedLease),
    /// The same, and no campaign here has it.
    Nobody,
}

impl Control {
    /// All that there was at the start is known.
    pub fn recovered(&mut self) {
        self.uncounted.clear();
        for (number, tracked) in self.campaigns.iter() {
            self.uncounted.entry(tracked.view.plan.account.clone()).or_default().push(*number);
        }
        self.open_at_start = self.leases.openings().collect();
    }

    /// An account of which nobody has looked yet what was paid for leases that are not known, and the campaigns that it
    /// had at the start.
    pub fn uncounted(&self) -> Option<(Box<str>, Vec<u32>)> {
        self.uncounted.first_key_value().map(|(account, campaigns)| (account.clone(), campaigns.clone()))
    }

    /// That account was looked at.
    pub fn counted(&mut self, account: &str) {
        self.uncounted.remove(account);
        if self.uncounted.is_empty() {
            self.open_at_start = HashMap::new();
        }
    }

    /// What a campaign has spent is more than its wins say: that is no price of theirs.
    pub fn regained(&mut self, number: u32) {
        if let Some(tracked) = self.campaigns.get_mut(&number) {
            tracked.regained();
        }
    }

    /// The time of the newest record that a shard had when this process began.
    pub fn began(&self, shard: ShardIndex) -> TimeMs {
        self.began.get(&shard).map_or(TimeMs(0), |(_, time)| *time)
    }

    /// What is known of a lease that the ledger has paid, out of an account that these campaigns have.
    pub fn paid_of(&self, paid: &Paid, campaigns: &[u32]) -> PaidOf {
        let Paid { lease, opened, campaign, amount } = *paid;
        if self.open_at_start.get(&lease) == Some(&opened) {
            return PaidOf::Open;
        }
        if self.began.get(&lease.shard()).is_none_or(|(opened, _)| lease.counter() <= *opened) {
            return PaidOf::Forgotten;
        }
        let number = match (campaign, campaigns) {
            (Some(number), _) => Some(number).filter(|number| campaigns.contains(number)),
            (None, [only]) => Some(*only),
            (None, _) => None,
        };
        let tracked = number.and_then(|number| Some((number, self.campaigns.get(&number)?)));
        tracked.map_or(PaidOf::Nobody, |(campaign, tracked)| {
            let day = zone::day_at(&tracked.zone, opened).number;
            PaidOf::Lost(RegainedLease { lease, campaign, day, paid: amount })
        })
    }
}
