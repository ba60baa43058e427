//! Campaigns, the money that is leased of them, and what of it wins have cost: a pure state machine.
//!
//! ```text
//!   Put, Delete ──▶ plans                      Changed ──▶ whoever bids
//!   Open ──▶ lease: amount ≤ what the budget and the day have left ──▶ (held in the ledger) ──▶ bids
//!   Win, Lose ──▶ once for each bid: its price is spent or not, and what it reserved is exposed no more
//!   Retire ──▶ nothing more is bid: the rest is exposed no more; Known: no bid is left that may win
//!   Close ──▶ no win counts any more ──▶ (the ledger gets what was spent) ──▶ Settle: the lease is forgotten
//!   Regain, Correct ──▶ what the ledger has paid and no record says is spent, too
//! ```
//!
//! Promise: `spent + exposed ≤ budget` whenever money is leased, for the budget that is in force then, in all and for
//! each day; a bid is paid once. What is exposed of a lease is its amount without what was spent and what has returned:
//! at least what the bids can cost of which nobody knows whether they were won or lost. A lease stands in the journal
//! before its money is held, so that none is lost by a crash: what is open after a start is settled when its deadline
//! has passed. What the ledger is asked to hold is within the budget, too: what returns of a lease is leased again when
//! the lease is closed and the ledger was told.
//!
//! Invariant: bids are no records. A lease has the most that all of its bids can cost.

mod campaign;
pub(crate) mod codec;
mod command;
mod days;
mod event;
mod fold;
mod forgotten;
mod lease;
mod notices;
mod openings;
mod owners;
mod regained;
mod snapshot;
mod sound;
mod summed;

use std::collections::{BTreeMap, BTreeSet};

use tidegate_machines::{Decision, Machine, Place, ShardIndex, TimeMs};
use tidegate_shard::form::Malformed;

use crate::limits::{ID_BYTES_MAX, LEASES_MAX, PAGE_BYTES_MAX};
use crate::plan::{Plan, VERSION_MAX};
use crate::table::Table;
use crate::units::BudgetMicros;

pub use campaign::{CampaignView, LastChange, Spending};
pub use command::{Change, Command, LeaseWanted, LossOutcome, NoLease, Outcome, Refusal, Win, WinOutcome};
pub use event::{Event, LostBid, Mark, MergedDays, Opened, PaidLease, PaidOnDay, Regained, RetiredLease, What, WonBid};
pub use lease::{LeaseId, LeaseView, Life};
pub use openings::Openings;
pub use summed::Totals;

use campaign::Campaign;
use forgotten::{Forgotten, Last};
use lease::{Lease, LeaseStage};
use owners::Owners;
use summed::Summed;

/// What decisions see beside the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// What may be.
    pub allowed: Allowed,
    /// What time it is by the clock by which is bid, and which day therefore. Behind a start with a clock that was
    /// ahead, the time of records is ahead of that.
    pub clock: TimeMs,
}

/// Bounds of campaigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Campaigns of a shard.
    pub campaigns_max: usize,
    /// Of these, those that one principal has changed last.
    pub campaigns_of_owner_max: usize,
    /// How long after its bid a win counts.
    pub win_deadline_ms: u64,
}

/// An event that does not follow from the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} does not follow from the state before it")]
pub struct Mismatch(Box<Event>);

/// The campaigns of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Campaigns {
    shard: ShardIndex,
    shards: u16,
    /// The newest record folded in, and its time.
    sequence: u64,
    time: TimeMs,
    campaigns: Summed,
    /// Their numbers by their ids.
    ids: BTreeMap<Box<str>, u32>,
    /// Their numbers by the records that have changed them last.
    changes: BTreeMap<u64, u32>,
    /// How many each principal has changed last.
    owners: Owners,
    /// Campaigns that were, by their ids.
    forgotten: Forgotten,
    /// How many numbers were given.
    numbered: u32,
    leases: Table<LeaseId, Lease>,
    /// Those that are retired, and of whose bids all are known.
    known: BTreeSet<LeaseId>,
    openings: Openings,
}

impl Campaigns {
    /// The newest record folded in.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// How many campaigns there are.
    pub fn count(&self) -> usize {
        self.campaigns.len()
    }

    /// How many leases are not settled.
    pub fn leases(&self) -> usize {
        self.leases.len()
    }

    /// What all campaigns have together.
    pub fn totals(&self) -> Totals {
        self.campaigns.totals()
    }

    /// The number of a new campaign: each shard has its own. `None` if all were given.
    fn next_number(&self) -> Option<u32> {
        self.numbered.checked_mul(self.shards.into())?.checked_add(self.shard.0.into())
    }

    fn view(&self, number: u32) -> CampaignView {
        self.campaigns[&number].view(number)
    }

    /// How much may be leased of a campaign now, at most `amount`, where `left` says what its budget has left.
    fn leasable(
        &self,
        leased: &mut BTreeMap<u32, BudgetMicros>,
        wanted: LeaseWanted,
        left: fn(&Campaign) -> BudgetMicros,
    ) -> Result<BudgetMicros, NoLease> {
        let campaign = self.campaigns.get(&wanted.campaign).filter(|campaign| !campaign.is_ended);
        let campaign = campaign.ok_or(NoLease::CampaignUnknown)?;
        let is_of_plan = wanted.changed == campaign.changed || campaign.is_today(wanted.day, wanted.life.opened);
        if !is_of_plan {
            return Err(NoLease::ZoneChanged);
        }
        let already = leased.entry(wanted.campaign).or_default();
        // However much of it returns, what is held adds up.
        let room = BudgetMicros::MAX.left_behind(campaign.exposed + campaign.unreleased);
        // Of closed leases the ledger may have paid more than the wins that are known.
        let in_all = left(campaign).min(room).left_behind(wanted.unsettled + *already);
        let on_day = campaign.day_left(wanted.day);
        let today = on_day.map_or(in_all, |left| left.left_behind(wanted.unsettled_today + *already));
        let amount = today.min(in_all).min(wanted.amount);
        if amount == BudgetMicros::ZERO || amount < wanted.least {
            let is_enough = |left: BudgetMicros| left > BudgetMicros::ZERO && left >= wanted.least;
            return Err(if !is_enough(campaign.budget_left().left_behind(*already)) {
                NoLease::BudgetUsed
            } else if on_day.is_some_and(|left| !is_enough(left.left_behind(*already))) {
                NoLease::DayUsed
            } else {
                NoLease::Unreleased
            });
        }
        *already += amount;
        Ok(amount)
    }

    fn put(&self, id: &str, plan: &Plan, by: &str, given: Given) -> Result<(What, Outcome), Outcome> {
        let Given { allowed, clock } = given;
        let put = |number, version, change| Outcome::Put { number, version, change };
        let Some(number) = self.ids.get(id) else {
            let last = self.forgotten.get(id);
            // It was said before the campaign has ended. One without a version is said now.
            let is_late = |last: &Last| (1..=last.version).contains(&plan.version) || last.version >= VERSION_MAX;
            if let Some(Last { number, version }) = last.filter(is_late) {
                return Err(put(number, version, Change::Stale));
            }
            // URLs that end with these are other ones for clients.
            if !is_id(id) || [".", ".."].contains(&id) {
                return Err(Outcome::Refused(Refusal::IdInvalid));
            }
            if self.campaigns.len() >= allowed.campaigns_max {
                return Err(Outcome::Refused(Refusal::TooMany));
            }
            // What the server itself makes is of nobody.
            if !by.is_empty() && self.owners.count(by) >= allowed.campaigns_of_owner_max {
                return Err(Outcome::Refused(Refusal::TooManyOfOwner));
            }
            let Some(number) = self.next_number() else { return Err(Outcome::Refused(Refusal::TooMany)) };
            let version = if plan.version == 0 { last.map_or(0, |last| last.version) + 1 } else { plan.version };
            let plan = Box::new(Plan { version, ..plan.clone() });
            let outcome = put(number, plan.version, Change::Made);
            return Ok((What::Put { number, id: id.into(), plan, by: by.into(), merged: None }, outcome));
        };
        let (number, campaign) = (*number, &self.campaigns[number]);
        let known = &campaign.plan;
        if campaign.is_ended {
            return Err(Outcome::Refused(Refusal::Ending));
        }
        if (&known.account, &known.spend) != (&plan.account, &plan.spend) {
            return Err(Outcome::Refused(Refusal::AccountsDiffer));
        }
        if *plan == (Plan { version: plan.version, ..known.clone() }) && plan.version <= known.version {
            return Err(put(number, known.version, Change::Unchanged));
        }
        let version = if plan.version == 0 { known.version + 1 } else { plan.version };
        if version > VERSION_MAX && plan.version == 0 {
            return Err(put(number, known.version, Change::Stale));
        }
        let plan = Plan { version, ..plan.clone() };
        // Two plans of one version: the same one is in force, in whatever order they come.
        if (version, tidegate_shard::form::write(&plan)) <= (known.version, tidegate_shard::form::write(known)) {
            return Err(put(number, known.version, Change::Stale));
        }
        let outcome = put(number, version, Change::Changed);
        let merged = campaign.merged(&plan, clock);
        Ok((What::Put { number, id: id.into(), plan: Box::new(plan), by: by.into(), merged }, outcome))
    }

    fn open(&self, wanted: &[LeaseWanted], clock: TimeMs) -> (Option<What>, Outcome) {
        let (mut leased, mut leases, mut outcomes) = (BTreeMap::new(), Vec::new(), Vec::new());
        for wanted in wanted {
            let counter = self.openings.opened() + 1 + leases.len() as u64;
            if self.leases.len() + leases.len() >= LEASES_MAX {
                outcomes.push(Err(NoLease::TooMany));
                continue;
            }
            if self.campaigns.get(&wanted.campaign).is_some_and(|campaign| campaign.is_over(wanted.day, clock)) {
                outcomes.push(Err(NoLease::ZoneChanged));
                continue;
            }
            outcomes.push(self.leasable(&mut leased, *wanted, Campaign::holdable).map(|amount| {
                leases.push(Opened::of(wanted, amount));
                LeaseView {
                    id: LeaseId::new(self.shard, counter),
                    campaign: wanted.campaign,
                    amount,
                    spent: BudgetMicros::ZERO,
                    life: wanted.life,
                    is_closed: false,
                }
            }));
        }
        let what = (!leases.is_empty()).then_some(What::Opened { first: self.openings.opened() + 1, leases });
        (what, Outcome::Opened(outcomes))
    }

    fn retire(&self, leases: &[RetiredLease]) -> Option<What> {
        // What cannot be is not believed: the lease waits for its deadline.
        let is_open = |retired: &&RetiredLease| {
            let lease = self.leases.get(&retired.lease).filter(|lease| lease.stage == LeaseStage::Open);
            lease.is_some_and(|lease| retired.left <= lease.exposed())
        };
        let open: BTreeMap<LeaseId, BudgetMicros> =
            leases.iter().filter(is_open).map(|retired| (retired.lease, retired.left)).collect();
        let retired = |(lease, left)| RetiredLease { lease, left };
        (!open.is_empty()).then(|| What::Retired { leases: open.into_iter().map(retired).collect() })
    }

    fn close(&self, leases: &[LeaseId]) -> (Option<What>, Outcome) {
        let known = |id: &LeaseId| self.leases.get(id).map(|lease| (*id, lease));
        let views = leases.iter().filter_map(known);
        let views = views.map(|(id, lease)| LeaseView { is_closed: true, ..lease.view(id) }).collect();
        let open =
            leases.iter().filter_map(known).filter(|(_, lease)| lease.stage != LeaseStage::Closed).map(|(id, _)| id);
        let open: Vec<LeaseId> = open.collect::<BTreeSet<_>>().into_iter().collect();
        ((!open.is_empty()).then_some(What::Closed { leases: open }), Outcome::Closed(views))
    }

    fn settle(&self, leases: &[LeaseId]) -> Option<What> {
        let is_closed = |id: &&LeaseId| self.leases.get(id).is_some_and(|lease| lease.stage == LeaseStage::Closed);
        let closed: BTreeSet<LeaseId> = leases.iter().filter(is_closed).copied().collect();
        (!closed.is_empty()).then(|| What::Settled { leases: closed.into_iter().collect() })
    }

    fn forget(&self, campaigns: &[u32]) -> Option<What> {
        let is_over =
            |number: &&u32| self.campaigns.get(number).is_some_and(|known| known.is_ended && known.leases == 0);
        let over: BTreeSet<u32> = campaigns.iter().filter(is_over).copied().collect();
        (!over.is_empty()).then(|| What::Forgotten { campaigns: over.into_iter().collect(), is_noted: true })
    }

    fn list(&self, after: &str, limit: usize) -> Outcome {
        use std::ops::Bound::{Excluded, Unbounded};
        let behind = self.ids.range::<str, _>((Excluded(after), Unbounded));
        let mut behind = behind.map(|(_, number)| *number);
        let page = self.page(&mut behind, limit);
        let next = page.last().filter(|_| behind.next().is_some()).map(|last| last.id.clone());
        Outcome::Campaigns(page, next)
    }

    fn changed(&self, after: u64, limit: usize) -> Outcome {
        let mut behind = self.changes.range(after.saturating_add(1)..).map(|(_, number)| *number);
        let campaigns = self.page(&mut behind, limit);
        let up_to = campaigns.last().map_or(after, |last| last.changed);
        Outcome::Changed { campaigns, up_to }
    }

    /// The first ones, as many as one answer may have, and one at least.
    fn page(&self, numbers: &mut impl Iterator<Item = u32>, limit: usize) -> Vec<CampaignView> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        while page.len() < limit
            && bytes < PAGE_BYTES_MAX
            && let Some(number) = numbers.next()
        {
            let view = self.view(number);
            bytes += view.plan.bytes();
            page.push(view);
        }
        page
    }
}

fn is_id(id: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(is_good)
}

impl Machine for Campaigns {
    type Command<'a> = Command;
    type With<'a> = Given;
    type Event<'a> = Event;
    type Outcome = Outcome;
    type Mismatch = Mismatch;
    type EventError = Malformed;
    type SnapshotError = Malformed;

    fn new(shard: ShardIndex, shards: u16) -> Campaigns {
        assert!(shard.0 < shards, "a shard is one of all");
        Campaigns {
            shard,
            shards,
            sequence: 0,
            time: TimeMs(0),
            campaigns: Summed::default(),
            ids: BTreeMap::new(),
            changes: BTreeMap::new(),
            owners: Owners::default(),
            forgotten: Forgotten::default(),
            numbered: 0,
            leases: Table::default(),
            known: BTreeSet::new(),
            openings: Openings::default(),
        }
    }

    fn decide<'a>(&self, command: &Command, given: Given, now: TimeMs) -> Decision<Event, Outcome>
    where
        'a: 'a,
    {
        // A clock that goes back makes no times that do.
        let now = now.max(self.time);
        let append = |what: What, outcome| Decision::Append { event: Event { at: now, what }, outcome };
        let maybe = |(what, outcome): (Option<What>, Outcome)| match what {
            Some(what) => append(what, outcome),
            None => Decision::Answer(outcome),
        };
        match command {
            Command::Put { id, plan, by } => match self.put(id, plan, by, given) {
                Ok((what, outcome)) => append(what, outcome),
                Err(outcome) => Decision::Answer(outcome),
            },
            Command::Delete { id, by } => match self.ids.get(id) {
                None => Decision::Answer(Outcome::Refused(Refusal::NotFound)),
                Some(number) if self.campaigns[number].is_ended => Decision::Answer(Outcome::Done),
                Some(number) => append(What::Ended { number: *number, by: by.clone() }, Outcome::Done),
            },
            Command::Forget { campaigns } => maybe((self.forget(campaigns), Outcome::Done)),
            Command::Open { wanted } => maybe(self.open(wanted, given.clock)),
            Command::Win { wins } => maybe(self.win(wins, given.allowed.win_deadline_ms)),
            Command::Lose { bids } => maybe(self.lose(bids)),
            Command::Retire { leases } => maybe((self.retire(leases), Outcome::Done)),
            Command::Known { limit } => {
                Decision::Answer(Outcome::Known(self.known.iter().take(*limit).copied().collect()))
            }
            Command::Close { leases } => maybe(self.close(leases)),
            Command::Settle { leases } => maybe((self.settle(leases), Outcome::Done)),
            Command::Begin => maybe(((!self.openings.is_begun()).then_some(What::Began), Outcome::Done)),
            Command::Openings => Decision::Answer(Outcome::Openings(self.openings.clone())),
            Command::Regain { regained, behind } => maybe(self.regain(regained, *behind)),
            Command::Correct { leases } => maybe((self.correct(leases), Outcome::Done)),
            Command::Read { id } => Decision::Answer(match self.ids.get(id) {
                Some(number) => Outcome::Campaign(Box::new(self.view(*number))),
                None => Outcome::Refused(Refusal::NotFound),
            }),
            Command::List { after, limit } => Decision::Answer(self.list(after, *limit)),
            Command::Changed { after, limit } => Decision::Answer(self.changed(*after, *limit)),
            Command::Spending { campaigns } => {
                let spending =
                    |(number, day): &(u32, i32)| Some((*number, self.campaigns.get(number)?.spending_on(*day)));
                Decision::Answer(Outcome::Spending(campaigns.iter().filter_map(spending).collect()))
            }
            Command::Leases { after, limit } => {
                let behind = self.leases.behind(*after).take(*limit);
                let leases = behind.map(|(id, lease)| lease.view(*id)).collect();
                Decision::Answer(Outcome::Leases { leases })
            }
        }
    }

    fn apply(&mut self, event: &Event, at: Place) {
        match &event.what {
            // They were judged just now, one by one. What must hold is asserted where they are folded in.
            noticed @ (What::Won { .. } | What::Lost { .. })
                if at.sequence.0 > self.sequence && event.at >= self.time =>
            {
                (self.sequence, self.time) = (at.sequence.0, event.at);
                self.fold(noticed, event.at);
            }
            _ => {
                let applied = self.apply_checked(event, at);
                applied.unwrap_or_else(|mismatch| panic!("a decided event: {mismatch}"));
            }
        }
    }

    fn apply_checked(&mut self, event: &Event, at: Place) -> Result<(), Mismatch> {
        if at.sequence.0 <= self.sequence || event.at < self.time || !self.follows(&event.what) {
            return Err(Mismatch(Box::new(event.clone())));
        }
        (self.sequence, self.time) = (at.sequence.0, event.at);
        self.fold(&event.what, event.at);
        Ok(())
    }

    fn encode(event: &Event, into: &mut Vec<u8>) {
        event.encode(into);
    }

    fn decode(bytes: &[u8]) -> Result<Event, Malformed> {
        Event::decode(bytes)
    }

    fn decided_at(event: &Event) -> Option<TimeMs> {
        Some(event.at)
    }

    fn time(&self) -> TimeMs {
        self.time
    }

    fn next_due(&self) -> Option<TimeMs> {
        None
    }

    fn write_snapshot(&self, part: &mut dyn FnMut(&[u8])) {
        self.write(part);
    }

    fn read_snapshot(body: &[u8]) -> Result<Campaigns, Malformed> {
        let state = Campaigns::read(body)?;
        if state.is_sound() { Ok(state) } else { Err(Malformed) }
    }

    fn assert_sound(&self) {
        assert!(self.is_sound(), "what is leased adds up, and every campaign is found by id, number and change");
    }
}

#[cfg(test)]
mod tests;
