//! Whether a state agrees with itself: a snapshot that does not is refused, and tests look after each record.

use std::collections::BTreeMap;

use super::Campaigns;
use super::campaign::Campaign;
use super::days::Day;
use super::owners::Owners;
use crate::units::BudgetMicros;

/// What the leases of a campaign add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LeaseSums {
    exposed: BudgetMicros,
    /// By the day for which they count.
    days: BTreeMap<i32, BudgetMicros>,
    unreleased: BudgetMicros,
    leases: u32,
}

impl Campaigns {
    /// Whether what is leased adds up, and every campaign is found by id, number and change.
    pub(super) fn is_sound(&self) -> bool {
        let mut sums: BTreeMap<u32, LeaseSums> = BTreeMap::new();
        for (id, lease) in self.leases.iter() {
            let Some(campaign) = self.campaigns.get(&lease.campaign) else { return false };
            let is_whole = id.shard() == self.shard
                && self.openings.has(id.counter(), lease.life.opened)
                && lease.spent.0.checked_add(lease.returned.0).is_some_and(|sum| sum <= lease.amount.0)
                && lease.won.is_apart_from(&lease.lost)
                && lease.is_known() == self.known.contains(id);
            if !is_whole || !campaign.days.may_have(lease.day) {
                return false;
            }
            let of_campaign = sums.entry(lease.campaign).or_default();
            let Some(exposed) = of_campaign.exposed.0.checked_add(lease.exposed().0) else { return false };
            of_campaign.exposed = BudgetMicros(exposed);
            of_campaign.unreleased += lease.unreleased();
            *of_campaign.days.entry(lease.day).or_default() += lease.exposed();
            of_campaign.leases += 1;
        }
        let is_added = |(number, campaign): (&u32, &Campaign)| {
            let Campaign { exposed, unreleased, leases, days, .. } = campaign;
            let none = LeaseSums::default();
            let sums = sums.get(number).unwrap_or(&none);
            let on = |day: &Day| sums.days.get(&day.number).copied().unwrap_or_default();
            (sums.exposed, sums.unreleased, sums.leases) == (*exposed, *unreleased, *leases)
                && days.is_sound()
                && days.known().iter().all(|day| on(day) == day.exposed)
                && days.known().iter().map(|day| day.spent).sum::<BudgetMicros>() <= campaign.spent
                && self.ids.get(&campaign.id) == Some(number)
                && self.changes.get(&campaign.changed) == Some(number)
                && campaign.changed <= self.sequence
        };
        self.shard.0 < self.shards
            && self.known.iter().all(|id| self.leases.contains_key(id))
            && self.campaigns.iter().all(is_added)
            && self.ids.len() == self.campaigns.len()
            && self.forgotten.iter().all(|(id, _)| !self.ids.contains_key(id))
            && self.owners == Owners::of(&self.campaigns)
            && self.changes.len() == self.campaigns.len()
            && self.campaigns.is_added_up()
    }
}
