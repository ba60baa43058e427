//! One campaign as the pacer follows it: its requests, its leases on each worker, and its throttle.

use std::sync::Arc;

use jiff::tz::TimeZone;
use tidegate_machines::TimeMs;

use super::curve::{DayCurve, Planned};
use super::leases::{Known, Outstanding};
use super::pace::{DayProfile, Rates};
use super::{ControlSettings, SPENDING_MS};
use crate::bidder::{NoBid, Used};
use crate::limits::LEASE_LIFE_MS_MAX;
use crate::machine::{CampaignView, LeaseId, LeaseWanted, Life, NoLease, Spending};
use crate::strategy::Memory;
use crate::units::BudgetMicros;
use crate::zone::{self, ZoneDay};

/// A campaign is active while requests for it have come within so long.
const ACTIVE_MS: u64 = 10_000;
/// A lease that nothing was bid on for so many times its length is given back.
const IDLE_LEASES: u64 = 2;
/// Of a campaign that is asked for less often than that, one is given back after so many times what was between its
/// last requests, and after the longest life of a lease at most.
const IDLE_GAPS: u64 = 2;
/// After this, money is asked for again that was refused.
const REFUSED_MS: u64 = 250;
/// So often this is doubled, where the ledger refuses again and again: each time is records there and here, and whoever
/// asks for many campaigns without money would have those of all others wait.
const REFUSED_DOUBLINGS_MAX: u32 = 3;
/// Longer without a request for it on a worker is a pause of the campaign there.
const PAUSE_MS: u64 = 250;
/// Another lease is asked for when what is left is less than so much of what is bid in the time of a lease. A record
/// and a hold take less time.
const LEFT_OF_BIDS: f64 = 1.0 / 3.0;
/// So much of it a lease has: then there is one in each such time.
const LEASE_OF_BIDS: f64 = 1.0 + LEFT_OF_BIDS;
/// A lease has money for so many bids at least.
const BIDS_MIN: u64 = 4;

/// Why no money is leased for a campaign at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The budget is spent or leased.
    BudgetUsed,
    /// That of the day is.
    DayUsed,
    /// Its account has not so much.
    NoFunds,
    /// The ledger refuses: the account is missing, frozen or of the wrong kind.
    LedgerRefused,
    /// There are as many leases as there may be.
    TooMany,
    /// What is left of the budget is held in the ledger for leases whose bids are not all known, or that it does not
    /// settle.
    Unreleased,
    /// The shard or the ledger does not answer.
    Unavailable,
}

impl Stopped {
    /// All of them, in the order of their numbers in the record of decisions.
    pub const ALL: [Stopped; 7] = [
        Stopped::BudgetUsed,
        Stopped::DayUsed,
        Stopped::NoFunds,
        Stopped::LedgerRefused,
        Stopped::TooMany,
        Stopped::Unavailable,
        Stopped::Unreleased,
    ];

    fn place(self) -> usize {
        Stopped::ALL.iter().position(|other| *other == self).expect("all of them are there")
    }

    /// `None` where it is asked for again at once.
    pub fn of(why: NoLease) -> Option<Stopped> {
        match why {
            NoLease::CampaignUnknown | NoLease::BudgetUsed => Some(Stopped::BudgetUsed),
            NoLease::DayUsed => Some(Stopped::DayUsed),
            NoLease::TooMany => Some(Stopped::TooMany),
            NoLease::Unreleased => Some(Stopped::Unreleased),
            NoLease::ZoneChanged => None,
        }
    }

    /// Its name at the doors.
    pub const fn name(self) -> &'static str {
        match self {
            Stopped::BudgetUsed => "budget_used",
            Stopped::DayUsed => "day_used",
            Stopped::NoFunds => "insufficient_funds",
            Stopped::LedgerRefused => "ledger_refused",
            Stopped::TooMany => "leases_too_many",
            Stopped::Unreleased => "leases_unreleased",
            Stopped::Unavailable => "unavailable",
        }
    }
}

/// How many of something, by why no money is leased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByStopped([u64; Stopped::ALL.len()]);

impl ByStopped {
    /// One more.
    pub(super) fn count(&mut self, why: Stopped) {
        self.0[why.place()] += 1;
    }

    /// One less.
    fn uncount(&mut self, why: Stopped) {
        self.0[why.place()] -= 1;
    }

    /// Of each reason, by its name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Stopped::ALL.iter().zip(self.0).map(|(why, count)| (why.name(), count))
    }
}

/// How a campaign is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// The share of requests that is bid on.
    pub share: f64,
    /// What of the price is bid.
    pub shade: f64,
    /// What should be spent by now of what is to be spent; `None` outside of its flights.
    pub planned: Option<BudgetMicros>,
    /// Requests in a second.
    pub requests_per_s: f64,
    /// Bids in a second.
    pub bids_per_s: f64,
    /// Of bids, the share that wins.
    pub win_rate: f64,
    /// Bids since the start of the process.
    pub bids: u64,
    /// Requests without a bid since the start of the process, by reason.
    pub no_bids: [u64; NoBid::ALL.len()],
    /// What was spent, as far as the throttle knows it.
    pub spending: Spending,
    /// What the ledger may hold of its leases that are over, and that it did not settle yet.
    pub unsettled: BudgetMicros,
    /// What was spent of leases whose holds the ledger does not have any more: it is owed.
    pub unpaid: BudgetMicros,
    /// Why no money is leased.
    pub stopped: Option<Stopped>,
    /// By which curve it is to be spent; `None` outside of its flights.
    pub plan: Option<Planned>,
    /// The day so far; `None` before the first request.
    pub curve: Option<Arc<DayCurve>>,
}

/// A campaign.
pub(super) struct Tracked {
    pub view: CampaignView,
    pub zone: TimeZone,
    pub day: Option<ZoneDay>,
    pub rates: Rates,
    pub profile: Box<DayProfile>,
    pub memory: Memory,
    pub paced: Option<TimeMs>,
    pub share: f64,
    pub shade: f64,
    pub planned: Option<BudgetMicros>,
    pub plan: Option<Planned>,
    pub curve: Option<Arc<DayCurve>>,
    /// What it has spent is known of late to have been more, without wins.
    is_regained: bool,
    workers: Vec<OnWorker>,
    asked: Option<TimeMs>,
    bids: u64,
    no_bids: [u64; NoBid::ALL.len()],
    refused: Option<(Stopped, TimeMs)>,
    /// How often in a row the ledger has refused to hold even what one bid costs.
    refusals: u32,
    /// What the account had when it was asked last, if that was too little.
    available: Option<BudgetMicros>,
    /// When it was asked last what it has spent.
    spending_asked: TimeMs,
    /// As what it is counted among those for which no money is leased.
    counted: Option<Stopped>,
}

/// A campaign on one worker.
#[derive(Clone, Copy, Debug, Default)]
struct OnWorker {
    /// The newest one: an older one may be bid with until it is used.
    lease: Option<LeaseId>,
    /// What is left of all of them.
    left: BudgetMicros,
    /// What the newest one had.
    amount: BudgetMicros,
    granted: TimeMs,
    /// For how long it is bid with.
    life_ms: u64,
    /// For whose cap it counts.
    day: i32,
    /// When something was bid, or would have been with a lease.
    wished: Option<TimeMs>,
    /// What was between that and the time before.
    gap_ms: u64,
    /// What was bid since the last report, and what would have been.
    wish: f64,
    /// The same in a second.
    wishes_per_s: f64,
    last_report: Option<TimeMs>,
    /// A lease is on its way.
    is_asked: bool,
}

impl OnWorker {
    /// Whether it is asked for so seldom that a lease would be given back before the next request.
    fn is_slow(&self, settings: ControlSettings) -> bool {
        self.gap_ms > settings.lease_ms * IDLE_LEASES
    }

    /// What is bid in the time of a lease.
    fn per_lease(&self, settings: ControlSettings) -> f64 {
        self.wishes_per_s * settings.lease_ms as f64 / 1_000.0
    }

    /// Whether there is nothing to bid with, where a bid costs so much at most.
    fn is_used(&self, price: u64) -> bool {
        self.lease.is_none() || self.left.0 < price
    }

    /// Whether it is time for another lease.
    fn runs_low(&self, settings: ControlSettings) -> bool {
        (self.left.0 as f64) < self.per_lease(settings) * LEFT_OF_BIDS
    }

    /// Whether its lease is older than one is to be.
    fn is_old(&self, settings: ControlSettings, now: TimeMs) -> bool {
        let age_ms = now.0.saturating_sub(self.granted.0);
        age_ms > settings.lease_ms && self.left.0 < self.amount.0 / 2 || age_ms > self.life_ms / 2
    }

    /// Whether requests come that it could bid on.
    fn is_wished(&self, settings: ControlSettings, now: TimeMs) -> bool {
        let patience_ms = if self.is_slow(settings) { self.patience_ms(settings) } else { settings.lease_ms };
        self.wished.is_some_and(|at| now.0.saturating_sub(at.0) < patience_ms)
    }

    /// For how long a lease waits for the next request.
    fn patience_ms(&self, settings: ControlSettings) -> u64 {
        (self.gap_ms * IDLE_GAPS).clamp(settings.lease_ms * IDLE_LEASES, LEASE_LIFE_MS_MAX)
    }
}

impl Tracked {
    pub fn new(view: CampaignView, workers: u16) -> Tracked {
        Tracked {
            zone: zone::find(&view.plan.zone).unwrap_or(TimeZone::UTC),
            view,
            day: None,
            rates: Rates::default(),
            profile: Box::default(),
            memory: Memory::default(),
            paced: None,
            share: 0.0,
            shade: 1.0,
            planned: None,
            plan: None,
            curve: None,
            is_regained: false,
            workers: vec![OnWorker::default(); workers.into()],
            asked: None,
            bids: 0,
            no_bids: [0; NoBid::ALL.len()],
            refused: None,
            refusals: 0,
            available: None,
            spending_asked: TimeMs(0),
            counted: None,
        }
    }

    /// It has another plan. Returns whether its leases are to be given back: it is paused, or has less money than is
    /// spent and leased.
    pub fn set(&mut self, view: CampaignView) -> bool {
        if view.plan.zone != self.view.plan.zone {
            (self.zone, self.day) = (zone::find(&view.plan.zone).unwrap_or(TimeZone::UTC), None);
        }
        if view.plan.strategy != self.view.plan.strategy {
            self.memory = Memory::default();
        }
        self.view = view;
        // Decided anew at once.
        (self.paced, self.refused, self.refusals) = (None, None, 0);
        self.is_stopped()
    }

    /// It has spent so much.
    pub fn set_spending(&mut self, spending: Spending) {
        if !std::mem::take(&mut self.is_regained) {
            self.rates.learn_spending(&self.view.spending, &spending);
        }
        self.view.spending = spending;
    }

    /// On which day it is to be asked now what it has spent, if it was not asked lately.
    pub fn asks_spending(&mut self, now: TimeMs) -> Option<i32> {
        if now.0.saturating_sub(self.spending_asked.0) < SPENDING_MS {
            return None;
        }
        self.spending_asked = now;
        Some(self.day(now).number)
    }

    /// Counts it among those for which no money is leased, if it is one.
    pub fn count_stopped(&mut self, all: &mut ByStopped) {
        let stopped = self.stopped();
        if stopped != self.counted {
            self.uncount_stopped(all);
            stopped.into_iter().for_each(|why| all.count(why));
            self.counted = stopped;
        }
    }

    /// Counts it no more.
    pub fn uncount_stopped(&mut self, all: &mut ByStopped) {
        self.counted.take().into_iter().for_each(|why| all.uncount(why));
    }

    /// Something was paid of which no win is known.
    pub fn regained(&mut self) {
        self.is_regained = true;
    }

    /// Whether nothing may be bid: it has ended, is paused, or has less money than is spent and leased.
    pub fn is_stopped(&self) -> bool {
        let Spending { spent, exposed, day, day_spent, day_exposed, .. } = self.view.spending;
        let plan = &self.view.plan;
        let is_today = self.day.is_some_and(|today| today.number == day);
        self.view.is_ended
            || plan.paused
            || spent + exposed > plan.budget_micros
            || is_today && plan.daily_micros.is_some_and(|cap| day_spent + day_exposed > cap)
    }

    pub fn absorb(&mut self, worker: u16, used: &Used, now: TimeMs) {
        let on_worker = &mut self.workers[usize::from(worker)];
        on_worker.left = used.left;
        let unfunded = f64::from(used.no_bids[NoBid::NoLease as usize]) * f64::from(self.view.plan.price_micros.0);
        let wish = used.reserved.0 as f64 + unfunded * self.shade;
        if wish > 0.0 {
            on_worker.wish += wish;
            let before = on_worker.wished.replace(now);
            on_worker.gap_ms = before.map_or(0, |before| now.0.saturating_sub(before.0));
        }
        self.asked = Some(now);
        self.bids += u64::from(used.bids);
        let no_bids: u64 = used.no_bids.iter().map(|count| u64::from(*count)).sum();
        self.no_bids.iter_mut().zip(used.no_bids).for_each(|(all, count)| *all += u64::from(count));
        let of_none = [NoBid::CampaignUnknown, NoBid::NotInFlight, NoBid::NotTargeted];
        let not_for_it: u64 = of_none.iter().map(|why| u64::from(used.no_bids[*why as usize])).sum();
        let requests = u64::from(used.bids) + no_bids - not_for_it;
        self.rates.count(requests, used.bids);
        self.profile.count(requests, now);
        self.follow_wishes(worker, now);
    }

    /// Bids, and requests without one by reason, since the start of the process.
    pub fn counts(&self) -> (u64, &[u64; NoBid::ALL.len()]) {
        (self.bids, &self.no_bids)
    }

    /// What was wished on a worker since its last report about this campaign is known. Behind a pause, it came at the
    /// end of it.
    fn follow_wishes(&mut self, worker: u16, now: TimeMs) {
        let on_worker = &mut self.workers[usize::from(worker)];
        let since = on_worker.last_report.map_or(PAUSE_MS, |last| now.0.saturating_sub(last.0).min(PAUSE_MS));
        if since > 0 {
            // Follows half of a change within 150 ms.
            let weight = (since as f64 / 200.0).min(1.0);
            let per_s = on_worker.wish * 1_000.0 / since as f64;
            on_worker.wishes_per_s += (per_s - on_worker.wishes_per_s) * weight;
            (on_worker.wish, on_worker.last_report) = (0.0, Some(now));
        }
    }

    pub fn is_active(&self, now: TimeMs) -> bool {
        self.asked.is_some_and(|asked| now.0.saturating_sub(asked.0) < ACTIVE_MS)
            || self.workers.iter().any(|on_worker| on_worker.lease.is_some())
    }

    /// The day of its zone.
    pub fn day(&mut self, now: TimeMs) -> ZoneDay {
        match self.day {
            Some(day) if day.has(now) => day,
            _ => *self.day.insert(zone::day_at(&self.zone, now)),
        }
    }

    /// Whether a worker may want another lease now.
    pub fn may_want(&self, worker: u16, settings: ControlSettings, now: TimeMs) -> bool {
        let (on_worker, price) = (&self.workers[usize::from(worker)], self.view.plan.price_micros.0.into());
        let is_short = on_worker.is_used(price) || on_worker.runs_low(settings) || on_worker.is_old(settings, now);
        !on_worker.is_asked && is_short && on_worker.is_wished(settings, now)
    }

    /// What is to be leased for which worker, where the ledger may hold so much of closed leases: in all, and of those
    /// that were opened at a time or later.
    pub fn wanted(
        &mut self,
        settings: ControlSettings,
        (unsettled, unsettled_since): (BudgetMicros, impl Fn(TimeMs) -> BudgetMicros),
        now: TimeMs,
    ) -> Vec<(u16, LeaseWanted)> {
        let is_refused = self.is_refused(now);
        let plan = &self.view.plan;
        if self.view.is_ended || plan.paused || is_refused || plan.flight_at(now).is_none() {
            return Vec::new();
        }
        let ZoneDay { number: day, begins, .. } = self.day(now);
        let unsettled_today = if unsettled == BudgetMicros::ZERO { unsettled } else { unsettled_since(begins) };
        let (price, campaign) = (u64::from(self.view.plan.price_micros.0), self.view.number);
        let changed = self.view.changed;
        // What is left is not all given to the first who asks.
        let Spending { spent, exposed, unreleased, .. } = self.view.spending;
        let left = self.view.plan.budget_micros.left_behind(spent + exposed + unreleased).left_behind(unsettled).0;
        let left = self.available.map_or(left, |available| left.min(available.0));
        let share = (left / u64::from(settings.workers) / 2).max(price);
        let mut wanted = Vec::new();
        for (worker, on_worker) in self.workers.iter_mut().enumerate() {
            let amount = (on_worker.per_lease(settings) * LEASE_OF_BIDS) as u64;
            let amount = amount.max(price * BIDS_MIN).min(share);
            // Where what is left of the budget does not give much more than there is, another lease would be as short.
            let is_short = on_worker.is_used(price)
                || on_worker.runs_low(settings) && amount / 2 >= on_worker.left.0
                || on_worker.is_old(settings, now);
            if on_worker.is_asked || !on_worker.is_wished(settings, now) || !is_short {
                continue;
            }
            on_worker.is_asked = true;
            let (amount, least) = (BudgetMicros(amount), BudgetMicros(price.min(amount)));
            // Another one for each request in a minute would be many records for few bids.
            let life =
                Life::of(now, if on_worker.is_slow(settings) { LEASE_LIFE_MS_MAX } else { settings.lease_life_ms() });
            let wish = LeaseWanted { campaign, amount, least, unsettled, unsettled_today, day, changed, life };
            wanted.push((worker as u16, wish));
        }
        wanted
    }

    /// Leases that are to be given back: nothing was bid on them for long; or their day is over, and what is bid would
    /// come on top of the cap of the next one; or they are used, and no other one comes, perhaps because the ledger
    /// holds what has returned of them.
    pub fn idle(&mut self, settings: ControlSettings, is_account_short: bool, now: TimeMs) -> Vec<u16> {
        if self.workers.iter().all(|on_worker| on_worker.lease.is_none()) {
            return Vec::new();
        }
        let (is_refused, bid) = (self.refused.is_some(), f64::from(self.view.plan.price_micros.0) * self.shade);
        let today = self.view.plan.daily_micros.map(|_| self.day(now).number);
        let is_idle = |on_worker: &OnWorker| {
            // Where money is short, others may need it.
            let is_short = is_refused || is_account_short;
            let idle_ms = if is_short { settings.lease_ms * IDLE_LEASES } else { on_worker.patience_ms(settings) };
            let is_unused = now.0.saturating_sub(on_worker.granted.0) > idle_ms
                && on_worker.wished.is_none_or(|at| now.0.saturating_sub(at.0) > idle_ms);
            let is_used_up = is_refused && !on_worker.is_asked && (on_worker.left.0 as f64) < bid;
            on_worker.lease.is_some() && (is_unused || is_used_up || today.is_some_and(|today| today != on_worker.day))
        };
        let numbered = self.workers.iter().enumerate();
        numbered.filter(|(_, on_worker)| is_idle(on_worker)).map(|(worker, _)| worker as u16).collect()
    }

    /// Whether a worker bids with a lease that counts for the cap of another day.
    pub fn is_of_other_day(&self, worker: u16, day: i32) -> bool {
        let on_worker = &self.workers[usize::from(worker)];
        self.view.plan.daily_micros.is_some() && on_worker.lease.is_some() && on_worker.day != day
    }

    pub fn granted(&mut self, worker: u16, (lease, known): (LeaseId, &Known), now: TimeMs) {
        let Known { amount, day, life, .. } = *known;
        let on_worker = &mut self.workers[usize::from(worker)];
        let left = if on_worker.lease.is_some() { on_worker.left } else { BudgetMicros::ZERO };
        (on_worker.lease, on_worker.left, on_worker.amount) = (Some(lease), left + amount, amount);
        (on_worker.granted, on_worker.is_asked, on_worker.day) = (now, false, day);
        on_worker.life_ms = life.ms();
        (self.refused, self.refusals, self.available) = (None, 0, None);
    }

    /// What was asked for comes to nothing, and is asked for again when it is wanted.
    pub fn not_granted(&mut self, worker: u16) {
        self.workers[usize::from(worker)].is_asked = false;
    }

    pub fn retired(&mut self, worker: u16, lease: LeaseId) {
        let on_worker = &mut self.workers[usize::from(worker)];
        if on_worker.lease == Some(lease) {
            (on_worker.lease, on_worker.left) = (None, BudgetMicros::ZERO);
        }
    }

    pub fn refused(&mut self, worker: u16, why: Stopped, available: BudgetMicros, now: TimeMs) {
        self.not_granted(worker);
        let is_again = !self.is_refused(now);
        self.refused = Some((why, now));
        self.available = (why == Stopped::NoFunds).then_some(available);
        let is_of_ledger = matches!(why, Stopped::NoFunds | Stopped::LedgerRefused);
        let has_none = is_of_ledger && available.0 < u64::from(self.view.plan.price_micros.0);
        // What several workers have asked for at once is refused once.
        self.refusals = if has_none { self.refusals.saturating_add(is_again.into()) } else { 0 };
    }

    /// Whether money was refused so lately that it is not asked for again.
    fn is_refused(&self, now: TimeMs) -> bool {
        let wait_ms = REFUSED_MS << self.refusals.saturating_sub(1).min(REFUSED_DOUBLINGS_MAX);
        self.refused.is_some_and(|(_, at)| now.0 < at.0 + wait_ms)
    }

    /// The ledger does not say whether it holds a lease. Whether that is new.
    pub fn waits_for_ledger(&mut self, now: TimeMs) -> bool {
        let before = self.refused.replace((Stopped::Unavailable, now));
        before.is_none_or(|(why, _)| why != Stopped::Unavailable)
    }

    /// Nobody asks for it, so nobody sees whether money could be leased again; but a budget that is spent stays so
    /// until another plan comes. While the ledger is asked for a lease, what it says is still to come.
    pub fn rest(&mut self) {
        if self.workers.iter().any(|on_worker| on_worker.is_asked) {
            return;
        }
        let price = BudgetMicros(self.view.plan.price_micros.0.into());
        let is_spent = self.view.spending.spent + price > self.view.plan.budget_micros;
        self.refused = self.refused.filter(|(why, _)| is_spent && *why == Stopped::BudgetUsed);
        // Its day may end meanwhile.
        (self.refusals, self.available, self.day) = (0, None, None);
    }

    /// Why no money is leased. Where all is spent, the strategy may bid on no request: nothing is asked for then, nor
    /// refused.
    pub fn stopped(&self) -> Option<Stopped> {
        self.refused.map(|(why, _)| why).or_else(|| self.used_up())
    }

    /// What is spent, if it leaves less than the price of one bid.
    fn used_up(&self) -> Option<Stopped> {
        let plan = &self.view.plan;
        let Spending { spent, day, day_spent, .. } = self.view.spending;
        let is_less = |left: BudgetMicros| left < BudgetMicros::from(plan.price_micros);
        let is_today = self.day.is_some_and(|today| today.number == day);
        match () {
            () if self.view.is_ended || plan.paused => None,
            () if is_less(plan.budget_micros.left_behind(spent)) => Some(Stopped::BudgetUsed),
            () if is_today && plan.daily_micros.is_some_and(|cap| is_less(cap.left_behind(day_spent))) => {
                Some(Stopped::DayUsed)
            }
            () => None,
        }
    }

    /// How it is, where so much is open with the ledger of leases that are over.
    pub fn live(&self, Outstanding { held, owed }: Outstanding) -> Live {
        Live {
            share: self.share,
            shade: self.shade,
            planned: self.planned,
            requests_per_s: self.rates.requests_per_s,
            bids_per_s: self.rates.bids_per_s,
            win_rate: self.rates.win_rate(),
            bids: self.bids,
            no_bids: self.no_bids,
            spending: self.view.spending,
            unsettled: held,
            unpaid: owed,
            stopped: self.stopped(),
            plan: self.plan.clone(),
            curve: self.curve.clone(),
        }
    }
}
