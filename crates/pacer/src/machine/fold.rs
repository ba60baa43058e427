//! Folds records into the state: whether one follows from it, and what it changes.

use std::collections::BTreeMap;

use tidegate_machines::TimeMs;

use super::campaign::{Campaign, LastChange};
use super::command::{LeaseWanted, LossOutcome, NoLease, WinOutcome};
use super::event::{MergedDays, Opened, RetiredLease, What};
use super::forgotten::Last;
use super::lease::{Bids, Lease, LeaseId, LeaseStage, Life};
use super::notices::Noticed;
use super::{Campaigns, is_id};
use crate::plan::Plan;
use crate::units::BudgetMicros;

impl Campaigns {
    /// Whether an event follows from the state.
    pub(super) fn follows(&self, what: &What) -> bool {
        let (mut leased, mut noticed) = (BTreeMap::new(), Noticed::default());
        match what {
            What::Put { number, id, plan, merged, .. } => match self.campaigns.get(number) {
                Some(known) => known.id == *id && !known.is_ended && known.plan.version <= plan.version,
                None => {
                    merged.is_none() && self.next_number() == Some(*number) && is_id(id) && !self.ids.contains_key(id)
                }
            },
            What::Ended { number, .. } => self.campaigns.get(number).is_some_and(|known| !known.is_ended),
            What::Forgotten { campaigns, is_noted } => {
                let forgotten = What::Forgotten { campaigns: campaigns.clone(), is_noted: true };
                self.forget(campaigns).as_ref() == Some(if *is_noted { what } else { &forgotten })
            }
            What::Opened { first, leases } => {
                *first == self.openings.opened() + 1
                    && !leases.is_empty()
                    && leases.iter().all(|Opened { campaign, amount, day, life }| {
                        let (campaign, amount, day) = (*campaign, *amount, *day);
                        let changed = self.campaigns.get(&campaign).map_or(0, |known| known.changed);
                        // Records of before may lease what the ledger still holds.
                        let unsettled = BudgetMicros::ZERO;
                        let never = Life::unsaid(TimeMs(0));
                        let (least, unsettled_today) = (amount, unsettled);
                        let wanted = LeaseWanted {
                            campaign,
                            amount,
                            least,
                            unsettled,
                            unsettled_today,
                            day,
                            changed,
                            life: never,
                        };
                        match self.leasable(&mut leased, wanted, Campaign::budget_left) {
                            // And knew one day.
                            Err(NoLease::DayUsed) => life.is_none(),
                            leased => leased.is_ok(),
                        }
                    })
            }
            What::Won { wins } => {
                let mut is_taken = |won| self.judge_win(&mut noticed, won, false) == WinOutcome::Taken;
                !wins.is_empty() && wins.iter().all(|won| is_taken(*won))
            }
            What::Lost { bids } => {
                let mut is_taken = |lost| self.judge_loss(&mut noticed, lost) == LossOutcome::Taken;
                !bids.is_empty() && bids.iter().all(|lost| is_taken(*lost))
            }
            What::Retired { leases } => self.retire(leases).as_ref() == Some(what),
            What::Closed { leases } => self.close(leases).0.as_ref() == Some(what),
            What::Settled { leases } => self.settle(leases).as_ref() == Some(what),
            What::Regained(regained) => self.regain_behind(regained, |_| true).as_ref() == Some(what),
            What::Began => !self.openings.is_begun(),
            What::Corrected { leases } => self.correct(leases).as_ref() == Some(what),
        }
    }

    /// Somebody has changed the campaign in this record.
    fn touch(&mut self, number: u32, by: &str, at: TimeMs) {
        let mut campaign = self.campaigns.get_mut(number).expect("it was found before");
        self.changes.remove(&campaign.changed);
        let before = std::mem::replace(&mut campaign.last_change, LastChange::of(by, at));
        campaign.changed = self.sequence;
        self.changes.insert(self.sequence, number);
        self.owners.remove(&before.by);
        self.owners.add(by);
    }

    /// A campaign has another plan. Days of its old zone in which some of today is may be one day then.
    fn replace_plan(&mut self, number: u32, plan: &Plan, merged: Option<MergedDays>) {
        let mut campaign = self.campaigns.get_mut(number).expect("it follows");
        campaign.plan = plan.clone();
        let Some(merged) = merged else { return };
        let of_it = self.leases.values_mut().filter(|lease| lease.campaign == number);
        for lease in of_it.take(campaign.leases as usize) {
            if campaign.days.is_forgotten(lease.day) {
                lease.day = campaign.days.adopt(lease.exposed());
            }
            if merged.has(lease.day) {
                lease.day = merged.day;
            }
        }
        campaign.days.merge(merged);
    }

    pub(super) fn fold(&mut self, what: &What, at: TimeMs) {
        match what {
            What::Put { number, id, plan, by, merged } => {
                let is_new = !self.campaigns.contains_key(number);
                if is_new {
                    self.forgotten.remove(id);
                    let campaign = Campaign::new(id.clone(), (**plan).clone(), 0);
                    self.owners.add(&campaign.last_change.by);
                    self.campaigns.insert(*number, campaign);
                } else {
                    self.replace_plan(*number, plan, *merged);
                }
                self.ids.insert(id.clone(), *number);
                self.numbered += u32::from(is_new);
                self.touch(*number, by, at);
            }
            What::Ended { number, by } => {
                self.touch(*number, by, at);
                self.campaigns.get_mut(*number).expect("it follows").is_ended = true;
            }
            What::Forgotten { campaigns, is_noted } => {
                for number in campaigns {
                    let campaign = self.campaigns.remove(*number).expect("it follows");
                    self.ids.remove(&campaign.id);
                    self.changes.remove(&campaign.changed);
                    self.owners.remove(&campaign.last_change.by);
                    if *is_noted {
                        self.forgotten.add(campaign.id, Last { number: *number, version: campaign.plan.version });
                    }
                }
            }
            What::Opened { leases, .. } => {
                for Opened { campaign, amount, day, life } in leases {
                    let day = self.campaigns.get_mut(*campaign).expect("it follows").lease(*amount, *day);
                    let (campaign, amount) = (*campaign, *amount);
                    let (spent, returned) = (BudgetMicros::ZERO, BudgetMicros::ZERO);
                    let (life, stage) = (life.unwrap_or(Life::unsaid(at)), LeaseStage::Open);
                    let (won, lost) = (Bids::default(), Bids::default());
                    let lease = Lease { campaign, amount, day, life, stage, spent, returned, won, lost };
                    self.openings.add(life.opened);
                    self.leases.insert(LeaseId::new(self.shard, self.openings.opened()), lease);
                }
            }
            What::Won { wins } => self.fold_won(wins),
            What::Lost { bids } => self.fold_lost(bids),
            What::Retired { leases } => {
                for RetiredLease { lease: id, left } in leases {
                    let lease = self.leases.get_mut(id).expect("it follows");
                    lease.returned += *left;
                    assert!(lease.spent + lease.returned <= lease.amount, "no more is left of a lease than it has");
                    lease.stage = LeaseStage::Retired;
                    let mut campaign = self.campaigns.get_mut(lease.campaign).expect("a lease is of a campaign");
                    campaign.unexpose(*left, lease.day);
                    if lease.is_known() {
                        self.known.insert(*id);
                    }
                }
            }
            What::Closed { leases } => {
                for id in leases {
                    let lease = self.leases.get_mut(id).expect("it follows");
                    let mut campaign = self.campaigns.get_mut(lease.campaign).expect("a lease is of a campaign");
                    campaign.free(lease.exposed(), lease.day);
                    campaign.unreleased -= lease.returned;
                    lease.stage = LeaseStage::Closed;
                    self.known.remove(id);
                }
            }
            What::Settled { leases } => {
                for id in leases {
                    let lease = self.leases.remove(id).expect("it follows");
                    self.campaigns.get_mut(lease.campaign).expect("a lease is of a campaign").leases -= 1;
                }
            }
            What::Regained(regained) => self.fold_regained(regained),
            What::Began => self.openings.begin(),
            What::Corrected { leases } => self.fold_corrected(leases),
        }
    }
}
