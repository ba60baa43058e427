//! What the pacer knows and decides between bids and money: a pure core, without clocks, threads or messages.
//!
//! ```text
//!   reports of bidders ─▶ absorb ─┐                          ┌─▶ updates for bidders: aims, throttles, grants
//!   changes of plans   ─▶ learn  ─┤ campaigns and leases ────┤
//!   spending           ─▶ learn  ─┘                          ├─▶ wanted ─▶ opened ─▶ held ─▶ a grant
//!                                                            └─▶ due, or all bids known ─▶ closed ─▶ paid ─▶ settled
//! ```
//!
//! Promise: a lease is granted to one worker, once, and only when its record and its money are durable. It is closed
//! when no bid of it can win any more: when the deadline of its last bid has passed. Behind a crash, nobody knows when
//! that was; but not behind the time for which a lease is bid with. What the ledger may hold of a closed lease is not
//! leased again before the ledger was told.
//!
//! Why one place for all workers: a throttle follows from what all of them have spent, and what they know comes in any
//! order. It knows nothing that must survive: what is open in the journal after a start is closed and settled. What was
//! learned of campaigns' days does survive a restart, if nothing goes wrong with its file.

mod curve;
mod learned;
mod leases;
mod pace;
mod paid;
mod tracked;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_machines::{ShardIndex, TimeMs};

use crate::bidder::{Aim, LeaseChange, NoBid, Report, Throttled, Update, Used};
use crate::decisions::DecisionLog;
use crate::limits::{LEASE_LIFE_MS_MIN, LEASE_LIVES};
use crate::machine::{CampaignView, LeaseView, LeaseWanted, NoLease, Openings, Spending};
use crate::table::Table;
use crate::units::BudgetMicros;

pub use curve::{DayCurve, Planned, Point, SLOTS};
pub use learned::{HEAD as LEARNED_HEAD, Learned, Profile, read_learned};
pub use leases::{Money, Outstanding, Settlement, UnknownHolds, lease_of};
pub use paid::{Paid, Search};
pub use tracked::{ByStopped, Live, Stopped};

use leases::{Hold, Known, Leases, Stage};
use paid::Uncounted;
use tracked::Tracked;
use turns::in_turn;

/// In so many rounds, each campaign that is not at rest is looked at once at least...
const ROUNDS: usize = 13;
/// ... and in each of them, if there are no more.
const LOOKED_AT_MIN: usize = 256;
/// Leases that are wanted in one round: about ten milliseconds of shards and ledger. It ends behind the campaign with
/// which there are so many.
const WANTED_MAX: usize = 2_048;
/// How often it is asked what a campaign has spent.
const SPENDING_MS: u64 = 200;
/// For so long, no campaign of an account that had too little keeps money for requests that come seldom.
const SHORT_MS: u64 = 10_000;

/// How the pacer is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlSettings {
    /// Workers, each with a bidder.
    pub workers: u16,
    /// For about how long a worker leases money.
    pub lease_ms: u64,
    /// How long after its bid a win counts.
    pub win_deadline_ms: u64,
}

impl ControlSettings {
    /// For how long behind its opening a lease is bid with at most.
    pub fn lease_life_ms(&self) -> u64 {
        (self.lease_ms * LEASE_LIVES).max(LEASE_LIFE_MS_MIN)
    }
}

/// What has happened since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bids.
    pub bids: u64,
    /// Requests without a bid, by reason.
    pub no_bids: [u64; NoBid::ALL.len()],
    /// Leases that were not opened, or whose money was not held.
    pub leases_refused: ByStopped,
}

/// All campaigns and leases, as far as this process knows them.
pub struct Control {
    settings: ControlSettings,
    campaigns: Table<u32, Tracked>,
    /// Those that were asked for of late, have leases, or have another plan. The others cost nothing.
    busy: BTreeSet<u32>,
    /// Of those, what the next round looks at whatever its share, and what this one looks at.
    next: BTreeSet<u32>,
    due: BTreeSet<u32>,
    /// Of those, what money may be wanted for.
    to_lease: BTreeSet<u32>,
    /// The last campaign of the round of leases before, and how many such rounds there were.
    leased_up_to: u32,
    lease_turn: usize,
    /// Of those that rounds have looked at, what they have spent is to be asked, each on a day.
    to_ask: Vec<(u32, i32)>,
    /// Of the busy ones, those for which no money is leased.
    stopped: ByStopped,
    /// Those that were among them, and have come to rest since it was asked how campaigns are.
    unshown: BTreeSet<u32>,
    /// Up to which of them rounds have looked.
    looked_up_to: u32,
    leases: Leases,
    /// Accounts that had too little when money was to be held last, and when that was.
    short: HashMap<Box<str>, TimeMs>,
    /// Those for whose accounts nobody has looked for money of unknown leases yet.
    unlooked: BTreeSet<u32>,
    /// What is still to be looked for of what was paid.
    uncounted: Uncounted,
    /// What each shard had opened when this process began.
    began: BTreeMap<ShardIndex, Openings>,
    /// For each worker.
    updates: Vec<Update>,
    /// Ended campaigns of which bidders were told.
    ended: BTreeSet<u32>,
    counts: Counts,
    /// What is recorded of all this, if anything is.
    log: Option<DecisionLog>,
}

impl Control {
    /// With nothing known yet.
    pub fn new(settings: ControlSettings) -> Control {
        let updates = (0..settings.workers).map(|_| Update::default()).collect();
        Control {
            settings,
            campaigns: Table::default(),
            busy: BTreeSet::new(),
            next: BTreeSet::new(),
            due: BTreeSet::new(),
            to_lease: BTreeSet::new(),
            leased_up_to: 0,
            lease_turn: 0,
            to_ask: Vec::new(),
            stopped: ByStopped::default(),
            unshown: BTreeSet::new(),
            looked_up_to: 0,
            leases: Leases::default(),
            short: HashMap::new(),
            unlooked: BTreeSet::new(),
            uncounted: Uncounted::default(),
            began: BTreeMap::new(),
            updates,
            ended: BTreeSet::new(),
            counts: Counts::default(),
            log: None,
        }
    }

    /// For bidders on so many workers.
    pub fn workers(&self) -> u16 {
        self.settings.workers
    }

    /// Records its decisions.
    pub fn recording(mut self, log: DecisionLog) -> Control {
        self.log = Some(log);
        self
    }

    /// Its record.
    pub fn log(&mut self) -> Option<&mut DecisionLog> {
        self.log.as_mut()
    }

    /// A campaign has changed.
    pub fn learn(&mut self, view: CampaignView) {
        let number = view.number;
        if let Some(log) = &mut self.log {
            log.plan(&view);
        }
        let aim =
            if view.is_ended { None } else { Some(Arc::new(Aim::of(&view.id, &view.plan, &view.last_change.by))) };
        let workers = self.settings.workers;
        if !self.campaigns.contains_key(&number) {
            self.unlooked.insert(number);
        }
        let tracked = self.campaigns.entry(number, || Tracked::new(view.clone(), workers));
        let is_stopped = tracked.set(view);
        self.note(number);
        for update in &mut self.updates {
            update.aims.push((number, aim.clone()));
            if is_stopped {
                update.leases.push(LeaseChange::Revoke(number));
            }
        }
        if aim.is_none() {
            self.ended.insert(number);
        }
    }

    /// What campaigns have spent.
    pub fn learn_spending(&mut self, number: u32, spending: Spending) {
        if let Some(tracked) = self.campaigns.get_mut(&number) {
            tracked.set_spending(spending);
        }
    }

    /// What a bidder has told.
    pub fn absorb(&mut self, worker: u16, report: Report, now: TimeMs) {
        self.counts.no_bids[NoBid::CampaignUnknown as usize] += report.unknown;
        // Money that was granted since the bidder was asked stands in the next update: it does not tell of that yet.
        let mut granted: BTreeMap<u32, BudgetMicros> = BTreeMap::new();
        for change in &self.updates[usize::from(worker)].leases {
            match change {
                LeaseChange::Grant(grant) => *granted.entry(grant.campaign).or_default() += grant.amount,
                LeaseChange::Revoke(campaign) => drop(granted.remove(campaign)),
            }
        }
        for used in report.used {
            let granted = granted.get(&used.campaign).copied().unwrap_or_default();
            let used = Used { left: used.left + granted, ..used };
            self.counts.bids += u64::from(used.bids);
            self.counts.no_bids.iter_mut().zip(used.no_bids).for_each(|(all, count)| *all += u64::from(count));
            if let Some(tracked) = self.campaigns.get_mut(&used.campaign) {
                let was_active = tracked.is_active(now);
                tracked.absorb(worker, &used, now);
                match was_active {
                    // It is busy, and looked at when it is its turn. Only its money does not wait for that.
                    true if tracked.may_want(worker, self.settings, now) => drop(self.to_lease.insert(used.campaign)),
                    true => {}
                    false => self.note(used.campaign),
                }
            }
        }
        if let Some(log) = &mut self.log {
            log.drop_samples(report.samples_dropped);
            for sample in report.samples {
                if let Some(tracked) = self.campaigns.get(&sample.request.campaign) {
                    log.sample(&tracked.view, sample, now);
                }
            }
        }
        report.retired.into_iter().for_each(|retired| self.retire(worker, retired));
    }

    /// Something has happened to a campaign: the next round looks at it.
    fn note(&mut self, number: u32) {
        self.busy.insert(number);
        self.next.insert(number);
        self.to_lease.insert(number);
    }

    /// Begins a round: which campaigns it looks at. Those that something has happened to, and a share of the others, so
    /// that a round over ten thousand campaigns is not ten times as long as one over a thousand.
    fn begin_round(&mut self) {
        let share = self.busy.len().div_ceil(ROUNDS).max(LOOKED_AT_MIN).min(self.busy.len());
        let behind = self.busy.range(self.looked_up_to.saturating_add(1)..).take(share);
        let mut of_round: Vec<u32> = behind.copied().collect();
        if of_round.len() < share {
            of_round.extend(self.busy.iter().take(share - of_round.len()));
        }
        self.looked_up_to = of_round.last().copied().unwrap_or(0);
        self.due = std::mem::take(&mut self.next);
        self.due.extend(of_round);
    }

    /// Begins a round, and has the strategies decide anew. Leases that nothing is bid on are given back.
    ///
    /// All that is looked at again and again is looked at here, in one visit: of ten thousand campaigns, each visit
    /// waits for memory.
    pub fn pace(&mut self, now: TimeMs) {
        self.begin_round();
        if let Some(log) = &mut self.log {
            log.set_time(now);
        }
        self.short.retain(|_, at| now.0.saturating_sub(at.0) < SHORT_MS);
        let (mut at_rest, unsettled) = (BTreeSet::new(), self.leases.unsettled());
        each_of(&mut self.campaigns, &self.due, |campaign, tracked| {
            if let Some((share, shade)) = tracked.pace(now, self.log.as_mut()) {
                let throttled = Throttled { campaign, share, shade };
                self.updates.iter_mut().for_each(|update| update.throttles.push(throttled));
            }
            let is_short = !self.short.is_empty() && self.short.contains_key(&tracked.view.plan.account);
            for worker in tracked.idle(self.settings, is_short, now) {
                self.updates[usize::from(worker)].leases.push(LeaseChange::Revoke(campaign));
            }
            if tracked.is_active(now) {
                self.to_ask.extend(tracked.asks_spending(now).map(|day| (campaign, day)));
                if (0..self.settings.workers).any(|worker| tracked.may_want(worker, self.settings, now)) {
                    self.to_lease.insert(campaign);
                }
            } else {
                tracked.rest();
                // What the ledger does not settle is shown.
                if unsettled.get(&campaign).is_none_or(|of_it| *of_it == Outstanding::default()) {
                    at_rest.insert(campaign);
                }
            }
            tracked.count_stopped(&mut self.stopped);
        });
        for campaign in at_rest {
            self.leave_busy(campaign);
            self.unshown.insert(campaign);
        }
    }

    fn leave_busy(&mut self, campaign: u32) {
        self.busy.remove(&campaign);
        if let Some(tracked) = self.campaigns.get_mut(&campaign) {
            tracked.uncount_stopped(&mut self.stopped);
        }
    }

    /// What each bidder is to be told, in the order of the workers.
    pub fn take_updates(&mut self) -> Vec<Update> {
        self.updates.iter_mut().map(std::mem::take).collect()
    }

    /// An update did not reach its bidder: it comes before what was added meanwhile.
    pub fn put_back(&mut self, worker: u16, mut update: Update) {
        let later = std::mem::take(&mut self.updates[usize::from(worker)]);
        update.aims.extend(later.aims);
        update.throttles.extend(later.throttles);
        update.leases.extend(later.leases);
        self.updates[usize::from(worker)] = update;
    }

    /// Campaigns for whose accounts nobody has looked for money of unknown leases yet, by account.
    pub fn unlooked(&self) -> BTreeMap<Box<str>, Vec<u32>> {
        let mut all: BTreeMap<Box<str>, Vec<u32>> = BTreeMap::new();
        for number in &self.unlooked {
            let account = self.campaigns[number].view.plan.account.clone();
            all.entry(account).or_default().push(*number);
        }
        all
    }

    /// The account of these campaigns was looked at. What it holds later is of leases that are known.
    pub fn looked(&mut self, campaigns: &[u32]) {
        for number in campaigns {
            self.unlooked.remove(number);
        }
    }

    /// Campaigns that spend of, or pay into, accounts that do not begin so: their ids.
    pub fn with_other_accounts(&self, account_prefix: &str, spend_prefix: &str) -> Vec<Box<str>> {
        let views = self.campaigns.values().map(|tracked| &tracked.view);
        let others = views.filter(|CampaignView { plan, .. }| {
            !plan.account.starts_with(account_prefix) || !plan.spend.starts_with(spend_prefix)
        });
        others.map(|view| view.id.clone()).collect()
    }

    /// What the ledger may hold of closed leases.
    pub fn unsettled(&self) -> BudgetMicros {
        self.leases.unsettled().into_values().fold(BudgetMicros::ZERO, |sum, of_it| sum + of_it.held)
    }

    /// Campaigns of which it is to be asked what they have spent, and which day it is there: requests come for them, or
    /// they have leases.
    pub fn take_to_ask(&mut self) -> Vec<(u32, i32)> {
        std::mem::take(&mut self.to_ask)
    }

    /// Ended campaigns without leases, which no bidder bids for.
    pub fn take_ended(&mut self) -> Vec<u32> {
        let over: Vec<u32> = self.ended.iter().filter(|number| !self.leases.has_of(**number)).copied().collect();
        over.iter().for_each(|number| {
            self.leave_busy(*number);
            self.ended.remove(number);
            self.campaigns.remove(number);
            self.unlooked.remove(number);
            self.log.iter_mut().for_each(|log| log.forget(*number));
        });
        over
    }

    /// How the campaigns are that may have changed since they were asked for before.
    pub fn live(&mut self) -> Vec<(u32, Live)> {
        let (unsettled, unshown) = (self.leases.unsettled(), std::mem::take(&mut self.unshown));
        let changed = self.busy.union(&unshown);
        let live = |number: &u32| {
            let outstanding = unsettled.get(number).copied().unwrap_or_default();
            Some((*number, self.campaigns.get(number)?.live(outstanding)))
        };
        changed.filter_map(live).collect()
    }

    /// What has happened since the start.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Campaigns that are not at rest and for which no money is leased.
    pub fn stopped(&self) -> ByStopped {
        self.stopped
    }

    /// What is to be leased for which worker, as much as can be in one round. The rest waits for the next one, and each
    /// owner has as much of it as any other: one whose thousands of campaigns have no money keeps nobody waiting.
    pub fn wanted(&mut self, now: TimeMs) -> Vec<(u16, LeaseWanted)> {
        let (mut all, mut of) = (Vec::new(), std::mem::take(&mut self.to_lease));
        let unsettled = self.leases.unsettled();
        let owner_of = |number| Some(&*self.campaigns.get(&number)?.view.last_change.by);
        // From behind the campaign with which the round before has ended.
        let (before, behind) = (of.range(..=self.leased_up_to), of.range(self.leased_up_to.saturating_add(1)..));
        let order = in_turn(behind.chain(before), owner_of, self.lease_turn);
        self.lease_turn = self.lease_turn.wrapping_add(1);
        for number in order {
            if all.len() >= WANTED_MAX {
                break;
            }
            of.remove(&number);
            self.leased_up_to = number;
            if let Some(tracked) = self.campaigns.get_mut(&number) {
                let held = unsettled.get(&number).copied().unwrap_or_default().held;
                let since = |at| self.leases.unsettled_since(number, at);
                all.extend(tracked.wanted(self.settings, (held, since), now));
            }
        }
        self.to_lease = of;
        all
    }

    /// The machine has not answered.
    pub fn not_opened(&mut self, worker: u16, campaign: u32, now: TimeMs) {
        if let Some(tracked) = self.campaigns.get_mut(&campaign) {
            tracked.refused(worker, Stopped::Unavailable, BudgetMicros::ZERO, now);
        }
        self.note_refusal(campaign, worker, (Stopped::Unavailable, BudgetMicros::ZERO), now);
    }

    fn note_refusal(&mut self, campaign: u32, worker: u16, why: (Stopped, BudgetMicros), now: TimeMs) {
        self.counts.leases_refused.count(why.0);
        if let Some(log) = &mut self.log {
            log.refused(campaign, worker, why, now);
        }
    }

    /// What the machine has answered to one of them.
    pub fn opened(&mut self, worker: u16, wanted: LeaseWanted, opened: Result<LeaseView, NoLease>, now: TimeMs) {
        match opened {
            Ok(lease) => {
                let LeaseView { campaign, amount, life, .. } = lease;
                let (day, stage) = (wanted.day, Stage::Opened);
                let known = Known { campaign, worker, amount, day, life, hold: Hold::Unasked, stage };
                self.leases.insert(lease.id, known);
            }
            Err(why) => {
                let (why, none) = (Stopped::of(why), BudgetMicros::ZERO);
                if let Some(tracked) = self.campaigns.get_mut(&wanted.campaign) {
                    match why {
                        Some(why) => tracked.refused(worker, why, none, now),
                        None => tracked.not_granted(worker),
                    }
                }
                why.into_iter().for_each(|why| self.note_refusal(wanted.campaign, worker, (why, none), now));
            }
        }
    }
}

/// Calls `each` for these campaigns.
fn each_of(campaigns: &mut Table<u32, Tracked>, of: &BTreeSet<u32>, mut each: impl FnMut(u32, &mut Tracked)) {
    for number in of {
        if let Some(tracked) = campaigns.get_mut(number) {
            each(*number, tracked);
        }
    }
}

#[cfg(test)]
mod tests;
