//! Campaigns, the money that is leased of them, and what of it wins have cost: a pure state machine.
//!
//! ```text
//!   Put, Delete ──▶ plans                      Changed ──▶ whoever bids
//!   Open ──▶ lease: amount ≤ what the budget and the day have left ──▶ (held in the ledger) ──▶ bids
//!   Win  ──▶ lease: once for each bid, within its deadline, never above the amount
//!   Close ──▶ no win counts any more ──▶ (the ledger gets what was spent) ──▶ Settle: the lease is forgotten
//! ```
//!
//! Promise: `spent + exposed ≤ budget` whenever money is leased, for the budget that is in force then, in all and for
//! each day; a bid is paid once. A lease stands in the journal before its money is held, so that none is lost by a
//! crash: what is open after a start is settled when its deadline has passed.
//!
//! Invariant: bids are no records. A lease has the most that all of its bids can cost.

mod campaign;
pub(crate) mod codec;
mod command;
mod event;
mod lease;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet};

use tidegate_machines::{Decision, Machine, Place, ShardIndex, TimeMs};
use tidegate_planted::{Bug, is_planted};
use tidegate_shard::form::Malformed;

use crate::limits::{ID_BYTES_MAX, LEASES_MAX};
use crate::plan::Plan;
use crate::token::Opening;
use crate::units::{BudgetMicros, Impressions};

pub use campaign::{CampaignView, Spending};
pub use command::{Change, Command, LeaseWanted, NoLease, Outcome, Refusal, Win, WinOutcome};
pub use event::{Event, Opened, What, WonBid};
pub use lease::{LeaseId, LeaseView};

use campaign::Campaign;
use lease::Lease;

/// What decisions see beside the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Campaigns of a shard.
    pub campaigns_max: usize,
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
    campaigns: BTreeMap<u32, Campaign>,
    /// Their numbers by their ids.
    ids: BTreeMap<Box<str>, u32>,
    /// Their numbers by the records that have changed them last.
    changes: BTreeMap<u64, u32>,
    /// How many numbers were given.
    numbered: u32,
    leases: BTreeMap<LeaseId, Lease>,
    /// How many leases were opened.
    opened: u64,
}

/// What was decided of earlier parts of one command.
#[derive(Default)]
struct Taken {
    leased: BTreeMap<u32, BudgetMicros>,
    won: BTreeSet<(LeaseId, u32)>,
    paid: BTreeMap<LeaseId, BudgetMicros>,
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

    /// What was spent of all campaigns, and what wins may still cost.
    pub fn totals(&self) -> (BudgetMicros, BudgetMicros) {
        // Campaigns of several currencies may have more together than one budget can be.
        let sum = |of: fn(&Campaign) -> BudgetMicros| {
            BudgetMicros(self.campaigns.values().fold(0, |sum: u64, campaign| sum.saturating_add(of(campaign).0)))
        };
        (sum(|campaign| campaign.spent), sum(|campaign| campaign.exposed))
    }

    /// The number of a new campaign: each shard has its own. `None` if all were given.
    fn next_number(&self) -> Option<u32> {
        self.numbered.checked_mul(self.shards.into())?.checked_add(self.shard.0.into())
    }

    fn view(&self, number: u32) -> CampaignView {
        self.campaigns[&number].view(number)
    }

    /// How much may be leased of a campaign now, at most `amount`.
    fn leasable(&self, taken: &mut Taken, wanted: LeaseWanted) -> Result<BudgetMicros, NoLease> {
        let campaign = self.campaigns.get(&wanted.campaign).filter(|campaign| !campaign.is_ended);
        let campaign = campaign.ok_or(NoLease::CampaignUnknown)?;
        let already = taken.leased.entry(wanted.campaign).or_default();
        let in_all = campaign.budget_left().left_behind(*already);
        let on_day = campaign.day_left(wanted.day).map_or(in_all, |left| left.left_behind(*already));
        let amount = wanted.amount.min(in_all).min(on_day);
        if amount == BudgetMicros::ZERO || amount < wanted.least {
            return Err(if in_all <= on_day { NoLease::BudgetUsed } else { NoLease::DayUsed });
        }
        *already += amount;
        Ok(amount)
    }

    /// Whether a bid that has won is to be paid, whatever its deadline.
    fn judge(&self, taken: &mut Taken, bid: WonBid) -> WinOutcome {
        let Some(lease) = self.leases.get(&bid.lease) else { return WinOutcome::Late };
        if lease.won.has(bid.number) || taken.won.contains(&(bid.lease, bid.number)) {
            return WinOutcome::Duplicate;
        }
        if lease.is_closed {
            return WinOutcome::Late;
        }
        let paid = taken.paid.entry(bid.lease).or_default();
        let left = lease.amount.left_behind(lease.spent + *paid);
        if left < bid.price.into() {
            return WinOutcome::Unfunded;
        }
        *paid += bid.price.into();
        taken.won.insert((bid.lease, bid.number));
        WinOutcome::Taken
    }

    fn put(&self, id: &str, plan: &Plan, allowed: Allowed) -> Result<(What, Outcome), Outcome> {
        let put = |number, version, change| Outcome::Put { number, version, change };
        let Some(number) = self.ids.get(id) else {
            if !is_id(id) {
                return Err(Outcome::Refused(Refusal::IdInvalid));
            }
            if self.campaigns.len() >= allowed.campaigns_max {
                return Err(Outcome::Refused(Refusal::TooMany));
            }
            let Some(number) = self.next_number() else { return Err(Outcome::Refused(Refusal::TooMany)) };
            let plan = Box::new(Plan { version: plan.version.max(1), ..plan.clone() });
            let outcome = put(number, plan.version, Change::Made);
            return Ok((What::Put { number, id: id.into(), plan }, outcome));
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
        let plan = Plan { version, ..plan.clone() };
        // Two plans of one version: the same one is in force, in whatever order they come.
        if (version, tidegate_shard::form::write(&plan)) <= (known.version, tidegate_shard::form::write(known)) {
            return Err(put(number, known.version, Change::Stale));
        }
        let outcome = put(number, version, Change::Changed);
        Ok((What::Put { number, id: id.into(), plan: Box::new(plan) }, outcome))
    }

    fn open(&self, wanted: &[LeaseWanted], now: TimeMs) -> (Option<What>, Outcome) {
        let (mut taken, mut leases, mut outcomes) = (Taken::default(), Vec::new(), Vec::new());
        for wanted in wanted {
            let counter = self.opened + 1 + leases.len() as u64;
            if self.leases.len() + leases.len() >= LEASES_MAX {
                outcomes.push(Err(NoLease::TooMany));
                continue;
            }
            outcomes.push(self.leasable(&mut taken, *wanted).map(|amount| {
                leases.push(Opened::of(wanted, amount));
                LeaseView {
                    id: LeaseId::new(self.shard, counter),
                    campaign: wanted.campaign,
                    amount,
                    spent: BudgetMicros::ZERO,
                    opened: now,
                    is_closed: false,
                }
            }));
        }
        let what = (!leases.is_empty()).then_some(What::Opened { first: self.opened + 1, leases });
        (what, Outcome::Opened(outcomes))
    }

    fn win(&self, wins: &[Win], deadline_ms: u64, now: TimeMs) -> (Option<What>, Outcome) {
        let (mut taken, mut paid, mut outcomes) = (Taken::default(), Vec::new(), Vec::new());
        for win in wins {
            let is_late = now.0 > win.bid_at.0.saturating_add(deadline_ms);
            // One of another timeline: before a restore, leases had the same numbers.
            if self.leases.get(&win.lease).is_some_and(|lease| win.opened != Opening::of(lease.opened)) {
                outcomes.push(WinOutcome::Unfunded);
                continue;
            }
            let outcome = match self.judge(&mut taken, win.into()) {
                // A duplicate is one also when it is late: what was paid is paid.
                WinOutcome::Taken if is_late && !is_planted(Bug::LateWinTaken) => {
                    taken.won.remove(&(win.lease, win.number));
                    *taken.paid.get_mut(&win.lease).expect("it was paid of just now") -= win.price.into();
                    WinOutcome::Late
                }
                outcome => outcome,
            };
            if outcome == WinOutcome::Taken {
                paid.push(win.into());
            }
            outcomes.push(outcome);
        }
        ((!paid.is_empty()).then_some(What::Won { wins: paid }), Outcome::Won(outcomes))
    }

    fn close(&self, leases: &[LeaseId]) -> (Option<What>, Outcome) {
        let known = |id: &LeaseId| self.leases.get(id).map(|lease| (*id, lease));
        let views = leases.iter().filter_map(known);
        let views = views.map(|(id, lease)| LeaseView { is_closed: true, ..lease.view(id) }).collect();
        let open = leases.iter().filter_map(known).filter(|(_, lease)| !lease.is_closed).map(|(id, _)| id);
        let open: Vec<LeaseId> = open.collect::<BTreeSet<_>>().into_iter().collect();
        ((!open.is_empty()).then_some(What::Closed { leases: open }), Outcome::Closed(views))
    }

    fn settle(&self, leases: &[LeaseId]) -> Option<What> {
        let is_closed = |id: &&LeaseId| self.leases.get(id).is_some_and(|lease| lease.is_closed);
        let closed: BTreeSet<LeaseId> = leases.iter().filter(is_closed).copied().collect();
        (!closed.is_empty()).then(|| What::Settled { leases: closed.into_iter().collect() })
    }

    fn forget(&self, campaigns: &[u32]) -> Option<What> {
        let is_over =
            |number: &&u32| self.campaigns.get(number).is_some_and(|known| known.is_ended && known.leases == 0);
        let over: BTreeSet<u32> = campaigns.iter().filter(is_over).copied().collect();
        (!over.is_empty()).then(|| What::Forgotten { campaigns: over.into_iter().collect() })
    }

    fn list(&self, after: &str, limit: usize) -> Outcome {
        use std::ops::Bound::{Excluded, Unbounded};
        let behind = self.ids.range::<str, _>((Excluded(after), Unbounded));
        let found: Vec<CampaignView> =
            behind.take(limit.saturating_add(1)).map(|(_, number)| self.view(*number)).collect();
        let has_more = found.len() > limit;
        let page: Vec<CampaignView> = found.into_iter().take(limit).collect();
        let next = page.last().filter(|_| has_more).map(|last| last.id.clone());
        Outcome::Campaigns(page, next)
    }

    fn changed(&self, after: u64, limit: usize) -> Outcome {
        let behind = self.changes.range(after.saturating_add(1)..).take(limit);
        let campaigns: Vec<CampaignView> = behind.map(|(_, number)| self.view(*number)).collect();
        let up_to = campaigns.last().map_or(after, |last| last.changed);
        Outcome::Changed { campaigns, up_to }
    }

    /// Whether an event follows from the state.
    fn follows(&self, what: &What) -> bool {
        let mut taken = Taken::default();
        match what {
            What::Put { number, id, plan } => match self.campaigns.get(number) {
                Some(known) => known.id == *id && !known.is_ended && known.plan.version <= plan.version,
                None => self.next_number() == Some(*number) && is_id(id) && !self.ids.contains_key(id),
            },
            What::Ended { number } => self.campaigns.get(number).is_some_and(|known| !known.is_ended),
            What::Forgotten { campaigns } => self.forget(campaigns).as_ref() == Some(what),
            What::Opened { first, leases } => {
                *first == self.opened + 1
                    && !leases.is_empty()
                    && leases.iter().all(|Opened { campaign, amount, day }| {
                        let wanted = LeaseWanted { campaign: *campaign, amount: *amount, least: *amount, day: *day };
                        self.leasable(&mut taken, wanted).is_ok()
                    })
            }
            What::Won { wins } => {
                !wins.is_empty() && wins.iter().all(|bid| self.judge(&mut taken, *bid) == WinOutcome::Taken)
            }
            What::Closed { leases } => self.close(leases).0.as_ref() == Some(what),
            What::Settled { leases } => self.settle(leases).as_ref() == Some(what),
        }
    }

    /// The campaign has changed in this record.
    fn touch(&mut self, number: u32) {
        let campaign = self.campaigns.get_mut(&number).expect("it was found before");
        self.changes.remove(&campaign.changed);
        campaign.changed = self.sequence;
    }

    fn fold(&mut self, what: &What, at: TimeMs) {
        match what {
            What::Put { number, id, plan } => {
                let is_new = !self.campaigns.contains_key(number);
                let new = || Campaign::new(id.clone(), (**plan).clone(), 0);
                let campaign = self.campaigns.entry(*number).or_insert_with(new);
                campaign.plan = (**plan).clone();
                self.ids.insert(id.clone(), *number);
                self.numbered += u32::from(is_new);
                self.touch(*number);
                self.changes.insert(self.sequence, *number);
            }
            What::Ended { number } => {
                self.touch(*number);
                self.campaigns.get_mut(number).expect("it follows").is_ended = true;
                self.changes.insert(self.sequence, *number);
            }
            What::Forgotten { campaigns } => {
                for number in campaigns {
                    let campaign = self.campaigns.remove(number).expect("it follows");
                    self.ids.remove(&campaign.id);
                    self.changes.remove(&campaign.changed);
                }
            }
            What::Opened { leases, .. } => {
                for Opened { campaign, amount, day } in leases {
                    let day = self.campaigns.get_mut(campaign).expect("it follows").lease(*amount, *day);
                    let (campaign, amount) = (*campaign, *amount);
                    let (opened, is_closed, spent) = (at, false, BudgetMicros::ZERO);
                    let lease = Lease { campaign, amount, day, opened, is_closed, spent, won: lease::Won::default() };
                    self.opened += 1;
                    self.leases.insert(LeaseId::new(self.shard, self.opened), lease);
                }
            }
            What::Won { wins } => {
                for WonBid { lease, number, price } in wins {
                    let lease = self.leases.get_mut(lease).expect("it follows");
                    let price: BudgetMicros = (*price).into();
                    assert!(lease.won.insert(*number), "a bid wins once");
                    lease.spent += price;
                    assert!(lease.spent <= lease.amount, "a lease spends no more than it has");
                    let campaign = self.campaigns.get_mut(&lease.campaign).expect("a lease is of a campaign");
                    campaign.spent += price;
                    campaign.exposed -= price;
                    campaign.impressions += Impressions(1);
                    if lease.day >= campaign.day.number {
                        campaign.day.spent += price;
                        campaign.day.exposed -= price;
                    }
                }
            }
            What::Closed { leases } => {
                for id in leases {
                    let lease = self.leases.get_mut(id).expect("it follows");
                    let campaign = self.campaigns.get_mut(&lease.campaign).expect("a lease is of a campaign");
                    campaign.exposed -= lease.exposed();
                    if lease.day >= campaign.day.number {
                        campaign.day.exposed -= lease.exposed();
                    }
                    lease.is_closed = true;
                }
            }
            What::Settled { leases } => {
                for id in leases {
                    let lease = self.leases.remove(id).expect("it follows");
                    self.campaigns.get_mut(&lease.campaign).expect("a lease is of a campaign").leases -= 1;
                }
            }
        }
    }

    fn is_sound(&self) -> bool {
        let mut exposed: BTreeMap<u32, (BudgetMicros, BudgetMicros, u32)> = BTreeMap::new();
        for (id, lease) in &self.leases {
            let Some(campaign) = self.campaigns.get(&lease.campaign) else { return false };
            let is_whole =
                id.shard() == self.shard && (1..=self.opened).contains(&id.counter()) && lease.spent <= lease.amount;
            if !is_whole || lease.day > campaign.day.number {
                return false;
            }
            let (all, day, count) = exposed.entry(lease.campaign).or_default();
            let Some(sum) = all.0.checked_add(lease.exposed().0) else { return false };
            *all = BudgetMicros(sum);
            if lease.day == campaign.day.number {
                *day += lease.exposed();
            }
            *count += 1;
        }
        let is_added = |(number, campaign): (&u32, &Campaign)| {
            let of_leases = exposed.get(number).copied().unwrap_or_default();
            of_leases == (campaign.exposed, campaign.day.exposed, campaign.leases)
                && self.ids.get(&campaign.id) == Some(number)
                && self.changes.get(&campaign.changed) == Some(number)
                && campaign.changed <= self.sequence
                && campaign.day.spent <= campaign.spent
        };
        self.shard.0 < self.shards
            && self.campaigns.iter().all(is_added)
            && self.ids.len() == self.campaigns.len()
            && self.changes.len() == self.campaigns.len()
    }
}

fn is_id(id: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(is_good)
}

impl Machine for Campaigns {
    type Command<'a> = Command;
    type With<'a> = Allowed;
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
            campaigns: BTreeMap::new(),
            ids: BTreeMap::new(),
            changes: BTreeMap::new(),
            numbered: 0,
            leases: BTreeMap::new(),
            opened: 0,
        }
    }

    fn decide<'a>(&self, command: &Command, allowed: Allowed, now: TimeMs) -> Decision<Event, Outcome>
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
            Command::Put { id, plan } => match self.put(id, plan, allowed) {
                Ok((what, outcome)) => append(what, outcome),
                Err(outcome) => Decision::Answer(outcome),
            },
            Command::Delete { id } => match self.ids.get(id) {
                None => Decision::Answer(Outcome::Refused(Refusal::NotFound)),
                Some(number) if self.campaigns[number].is_ended => Decision::Answer(Outcome::Done),
                Some(number) => append(What::Ended { number: *number }, Outcome::Done),
            },
            Command::Forget { campaigns } => maybe((self.forget(campaigns), Outcome::Done)),
            Command::Open { wanted } => maybe(self.open(wanted, now)),
            Command::Win { wins } => maybe(self.win(wins, allowed.win_deadline_ms, now)),
            Command::Close { leases } => maybe(self.close(leases)),
            Command::Settle { leases } => maybe((self.settle(leases), Outcome::Done)),
            Command::Read { id } => Decision::Answer(match self.ids.get(id) {
                Some(number) => Outcome::Campaign(Box::new(self.view(*number))),
                None => Outcome::Refused(Refusal::NotFound),
            }),
            Command::List { after, limit } => Decision::Answer(self.list(after, *limit)),
            Command::Changed { after, limit } => Decision::Answer(self.changed(*after, *limit)),
            Command::Spending { campaigns } => {
                let known = campaigns.iter().filter_map(|number| self.campaigns.get_key_value(number));
                let known = known.map(|(number, campaign)| (*number, campaign.spending()));
                Decision::Answer(Outcome::Spending(known.collect()))
            }
            Command::Leases { after, limit } => {
                let behind = self.leases.range(LeaseId(after.0.saturating_add(1))..).take(*limit);
                Decision::Answer(Outcome::Leases(behind.map(|(id, lease)| lease.view(*id)).collect()))
            }
        }
    }

    fn apply(&mut self, event: &Event, at: Place) {
        match &event.what {
            // They were judged just now, one by one. What must hold is asserted where they are folded in.
            won @ What::Won { .. } if at.sequence.0 > self.sequence && event.at >= self.time => {
                (self.sequence, self.time) = (at.sequence.0, event.at);
                self.fold(won, event.at);
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
