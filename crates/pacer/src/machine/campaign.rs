//! A campaign: its plan, and what was spent of its money.

use tidegate_machines::TimeMs;
use tidegate_planted::{Bug, is_planted};

use super::days::{Day, Days};
use super::event::{Mark, MergedDays};
use crate::plan::Plan;
use crate::units::{BudgetMicros, Impressions, Losses};
use crate::zone;

/// A campaign of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Campaign {
    pub id: Box<str>,
    pub plan: Plan,
    /// The record that has changed the plan last.
    pub changed: u64,
    pub last_change: LastChange,
    /// It has ended: no money is leased any more.
    pub is_ended: bool,
    /// Leases that are not settled.
    pub leases: u32,
    pub spent: BudgetMicros,
    /// What wins of leases that are not closed may still cost.
    pub exposed: BudgetMicros,
    /// What cannot be spent any more of leases that are not closed: the ledger holds it until they are.
    pub unreleased: BudgetMicros,
    pub impressions: Impressions,
    pub losses: Losses,
    pub days: Days,
    /// The newest payment of the ledger when it was looked last what it has paid for leases that are not known here.
    pub mark: Option<Mark>,
}

/// Who has changed a plan last, and when: nobody at 0, where the record is from before these were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastChange {
    /// Who.
    pub by: Box<str>,
    /// When.
    pub at: TimeMs,
}

impl LastChange {
    /// By somebody.
    pub fn of(by: &str, at: TimeMs) -> LastChange {
        if by.is_empty() { LastChange::default() } else { LastChange { by: by.into(), at } }
    }
}

/// A campaign as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignView {
    /// Its id.
    pub id: Box<str>,
    /// By which bid requests name it.
    pub number: u32,
    /// Its plan.
    pub plan: Plan,
    /// The record that has changed the plan last.
    pub changed: u64,
    /// Who has done it, and when.
    pub last_change: LastChange,
    /// It has ended.
    pub is_ended: bool,
    /// Leases that are not settled.
    pub leases: u32,
    /// What was spent.
    pub spending: Spending,
    /// The newest payment of the ledger when it was looked last what it has paid for leases that are not known here.
    pub mark: Option<Mark>,
}

/// What was spent of a campaign's money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spending {
    /// What wins have cost.
    pub spent: BudgetMicros,
    /// What wins of bids that were made may still cost, at most, and what is leased for others.
    pub exposed: BudgetMicros,
    /// What cannot be spent any more of leases that are not closed: the ledger holds it until they are.
    pub unreleased: BudgetMicros,
    /// A day, in days since 1970 in the campaign's zone: the one that was asked for, or that for which money was leased
    /// last.
    pub day: i32,
    /// What wins of that day have cost.
    pub day_spent: BudgetMicros,
    /// As `exposed`, of that day.
    pub day_exposed: BudgetMicros,
    /// Wins.
    pub impressions: Impressions,
    /// Bids that were said to be lost.
    pub losses: Losses,
}

#[cfg(test)]
impl CampaignView {
    /// Of a campaign that has spent nothing.
    pub fn unspent(id: &str, number: u32, plan: Plan) -> CampaignView {
        Campaign::new(id.into(), plan, 1).view(number)
    }
}

impl Campaign {
    /// A new one.
    pub fn new(id: Box<str>, plan: Plan, changed: u64) -> Campaign {
        Campaign {
            id,
            plan,
            changed,
            last_change: LastChange::default(),
            is_ended: false,
            leases: 0,
            spent: BudgetMicros::ZERO,
            exposed: BudgetMicros::ZERO,
            unreleased: BudgetMicros::ZERO,
            impressions: Impressions::default(),
            losses: Losses::default(),
            days: Days::default(),
            mark: None,
        }
    }

    /// What may be leased in all.
    pub fn budget_left(&self) -> BudgetMicros {
        self.plan.budget_micros.left_behind(self.spent + self.exposed)
    }

    /// What of that the ledger is asked to hold: all of what it holds for the campaign is within the budget.
    pub fn holdable(&self) -> BudgetMicros {
        self.budget_left().left_behind(self.unreleased)
    }

    /// What may be leased on a day; `None` if no cap says so.
    pub fn day_left(&self, day: i32) -> Option<BudgetMicros> {
        let Day { spent, exposed, .. } = self.days.at(day);
        self.plan.daily_micros.map(|cap| cap.left_behind(spent + exposed))
    }

    /// Whether it is this day in its zone at a time.
    pub fn is_today(&self, day: i32, at: TimeMs) -> bool {
        zone::find(&self.plan.zone).is_some_and(|zone| zone::day_at(&zone, at).number == day)
    }

    /// Whether today has begun, and it is a later day than this one. Who asks for money looks at its clock some
    /// milliseconds before it is asked for, and what was spent in another zone may count as today's already.
    pub fn is_over(&self, day: i32, clock: TimeMs) -> bool {
        self.days.begun_behind(day).any(|begun| self.is_today(begun, clock))
    }

    /// Which days of its zone count as today of the zone of another plan: all in which some of today is.
    pub fn merged(&self, plan: &Plan, clock: TimeMs) -> Option<MergedDays> {
        if self.plan.zone == plan.zone || is_planted(Bug::DaysOfZoneApart) {
            return None;
        }
        let (before, behind) = (zone::find(&self.plan.zone)?, zone::find(&plan.zone)?);
        let today = zone::day_at(&behind, clock);
        let day_of = |at: u64| zone::day_at(&before, TimeMs(at)).number;
        MergedDays::of(&self.days, (day_of(today.begins.0), day_of(today.ends.0 - 1)), today.number)
    }

    /// Money is leased on a day. Returns for which day it counts.
    pub fn lease(&mut self, amount: BudgetMicros, day: i32) -> i32 {
        self.leases += 1;
        self.exposed += amount;
        self.days.lease(amount, day)
    }

    /// A win of money that was leased for this day costs so much.
    pub fn spend(&mut self, price: BudgetMicros, day: i32) {
        self.spent += price;
        self.days.spend(price, day);
    }

    /// The ledger has paid so much for this day of which nothing else is known.
    pub fn regain(&mut self, paid: BudgetMicros, day: i32) {
        self.spent += paid;
        self.days.regain(paid, day);
    }

    /// So much of an open or retired lease of this day cannot be spent any more.
    pub fn unexpose(&mut self, amount: BudgetMicros, day: i32) {
        self.free(amount, day);
        self.unreleased += amount;
    }

    /// So much of what was leased for this day is not exposed any more.
    pub fn free(&mut self, amount: BudgetMicros, day: i32) {
        self.exposed -= amount;
        self.days.free(amount, day);
    }

    pub fn view(&self, number: u32) -> CampaignView {
        CampaignView {
            id: self.id.clone(),
            number,
            plan: self.plan.clone(),
            changed: self.changed,
            last_change: self.last_change.clone(),
            is_ended: self.is_ended,
            leases: self.leases,
            spending: self.spending(self.days.last()),
            mark: self.mark,
        }
    }

    /// What was spent on a day.
    pub fn spending_on(&self, day: i32) -> Spending {
        self.spending(Day { number: day, ..self.days.at(day) })
    }

    fn spending(&self, day: Day) -> Spending {
        Spending {
            spent: self.spent,
            exposed: self.exposed,
            unreleased: self.unreleased,
            day: day.number,
            day_spent: day.spent,
            day_exposed: day.exposed,
            impressions: self.impressions,
            losses: self.losses,
        }
    }
}
