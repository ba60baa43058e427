//! The campaigns of a shard, and what they have together.
//!
//! Why the sums are kept: metrics show them many times a second, and whoever adds up ten thousand campaigns keeps the
//! bids of its worker waiting for a millisecond.

use std::ops::{Deref, DerefMut};

use super::campaign::Campaign;
use crate::table::Table;

/// What campaigns have together. Those of several currencies may have more than one budget can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// What wins have cost, in micros.
    pub spent: u128,
    /// What wins of leases that are not closed may still cost, in micros.
    pub exposed: u128,
    /// What cannot be spent any more of leases that are not closed, in micros.
    pub unreleased: u128,
    /// Wins.
    pub impressions: u128,
    /// Bids that were said to be lost.
    pub losses: u128,
}

impl Totals {
    /// Of one campaign.
    fn of(campaign: &Campaign) -> Totals {
        Totals {
            spent: campaign.spent.0.into(),
            exposed: campaign.exposed.0.into(),
            unreleased: campaign.unreleased.0.into(),
            impressions: campaign.impressions.0.into(),
            losses: campaign.losses.0.into(),
        }
    }

    /// A campaign that had `before` has `behind`.
    fn change(&mut self, before: Totals, behind: Totals) {
        let change = |sum: &mut u128, before, behind| *sum = *sum - before + behind;
        change(&mut self.spent, before.spent, behind.spent);
        change(&mut self.exposed, before.exposed, behind.exposed);
        change(&mut self.unreleased, before.unreleased, behind.unreleased);
        change(&mut self.impressions, before.impressions, behind.impressions);
        change(&mut self.losses, before.losses, behind.losses);
    }
}

/// Campaigns by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Summed {
    campaigns: Table<u32, Campaign>,
    totals: Totals,
}

impl Summed {
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether they have that together.
    pub fn is_added_up(&self) -> bool {
        let mut sum = Totals::default();
        self.campaigns.values().for_each(|campaign| sum.change(Totals::default(), Totals::of(campaign)));
        sum == self.totals
    }

    /// Puts in one that is not there.
    pub fn insert(&mut self, number: u32, campaign: Campaign) {
        self.totals.change(Totals::default(), Totals::of(&campaign));
        self.campaigns.insert(number, campaign);
    }

    pub fn remove(&mut self, number: u32) -> Option<Campaign> {
        let campaign = self.campaigns.remove(&number)?;
        self.totals.change(Totals::of(&campaign), Totals::default());
        Some(campaign)
    }

    /// One that is changed.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<Changing<'_>> {
        let campaign = self.campaigns.get_mut(&number)?;
        Some(Changing { before: Totals::of(campaign), campaign, totals: &mut self.totals })
    }
}

impl Deref for Summed {
    type Target = Table<u32, Campaign>;

    fn deref(&self) -> &Table<u32, Campaign> {
        &self.campaigns
    }
}

impl FromIterator<(u32, Campaign)> for Summed {
    fn from_iter<I: IntoIterator<Item = (u32, Campaign)>>(campaigns: I) -> Summed {
        let mut summed = Summed::default();
        campaigns.into_iter().for_each(|(number, campaign)| summed.insert(number, campaign));
        summed
    }
}

/// A campaign that is changed: when this is dropped, it counts as it is then.
pub(super) struct Changing<'c> {
    campaign: &'c mut Campaign,
    before: Totals,
    totals: &'c mut Totals,
}

impl Deref for Changing<'_> {
    type Target = Campaign;

    fn deref(&self) -> &Campaign {
        self.campaign
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut Campaign {
        self.campaign
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.totals.change(self.before, Totals::of(self.campaign));
    }
}
