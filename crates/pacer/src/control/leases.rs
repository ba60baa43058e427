//! The life of a lease, from its record until it is forgotten.
//!
//! ```text
//!   Opened ──held──▶ Granted ──retired──▶ Retired ──deadline of its last bid──▶ Closing ──paid──▶ Paid ──▶ forgotten
//!      │                                    ├──all of its bids are known──────────▲                 ▲
//!      └──no money──────────────────────────▶                          deadline of its last bid ────┘
//! ```
//!
//! A lease whose bids are all known gives its money back at once. It is remembered until the deadline of its last bid
//! all the same: until then, a notice that comes again is told what it was told before.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use tidegate_machines::TimeMs;
use tidegate_planted::{Bug, is_planted};

use super::{Control, Stopped};
use crate::bidder::{Grant, LeaseChange, Retired};
use crate::machine::{LeaseId, LeaseView, Life, RetiredLease};
use crate::units::BudgetMicros;

/// A lease of this process, or one that was open at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub campaign: u32,
    pub worker: u16,
    pub amount: BudgetMicros,
    /// For whose cap it counts.
    pub day: i32,
    pub life: Life,
    pub hold: Hold,
    pub stage: Stage,
}

/// What is known of the hold of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// The ledger was not asked yet.
    Unasked,
    /// It was asked, and has not answered; or an earlier process has asked.
    Unknown,
    /// It has said that the money is held.
    Held,
    /// It has refused when it was asked first: nothing is held.
    Refused,
}

/// All leases, and which of them are in which stage: looking through all of them in each round would cost more than all
/// else.
#[derive(Default)]
pub(super) struct Leases {
    all: HashMap<LeaseId, Known>,
    /// How many there are of each campaign that has any.
    of_campaigns: HashMap<u32, usize>,
    opened: BTreeSet<LeaseId>,
    /// By when no bid of them can win any more.
    retired: BTreeSet<(TimeMs, LeaseId)>,
    closing: BTreeSet<LeaseId>,
    /// By when no notice of a bid of theirs can come any more that is not late.
    paid: BTreeSet<(TimeMs, LeaseId)>,
    /// What was not bid of retired leases whose shards were not told yet.
    untold: BTreeMap<LeaseId, BudgetMicros>,
}

impl Leases {
    pub fn get(&self, lease: LeaseId) -> Option<&Known> {
        self.all.get(&lease)
    }

    pub fn insert(&mut self, lease: LeaseId, known: Known) {
        assert!(self.all.insert(lease, known).is_none(), "a lease is opened once");
        *self.of_campaigns.entry(known.campaign).or_default() += 1;
        self.list(lease, known.stage);
    }

    /// When they were opened.
    pub fn openings(&self) -> impl Iterator<Item = (LeaseId, TimeMs)> {
        self.all.iter().map(|(lease, known)| (*lease, known.life.opened))
    }

    /// What the ledger has said of the hold of a lease. A refusal behind a question without an answer says nothing of
    /// what was done before.
    fn note_hold(&mut self, lease: LeaseId, hold: Hold) {
        let known = self.all.get_mut(&lease).expect("a lease is known until it is settled");
        if hold != Hold::Refused || known.hold == Hold::Unasked {
            known.hold = hold;
        }
    }

    /// The lease is in another stage. Returns how it was.
    fn set(&mut self, lease: LeaseId, stage: Stage) -> Known {
        let known = self.all.get_mut(&lease).expect("a lease is known until it is settled");
        let before = *known;
        known.stage = stage;
        self.unlist(lease, before.stage);
        self.list(lease, stage);
        before
    }

    fn remove(&mut self, lease: LeaseId) {
        self.untold.remove(&lease);
        if let Some(known) = self.all.remove(&lease) {
            self.unlist(lease, known.stage);
            let count = self.of_campaigns.get_mut(&known.campaign).expect("it was counted");
            *count -= 1;
            if *count == 0 {
                self.of_campaigns.remove(&known.campaign);
            }
        }
    }

    fn list(&mut self, lease: LeaseId, stage: Stage) {
        let is_new = match stage {
            Stage::Opened => self.opened.insert(lease),
            Stage::Granted => true,
            Stage::Retired { until } => self.retired.insert((until, lease)),
            Stage::Closing { .. } => self.closing.insert(lease),
            Stage::Paid { until } => self.paid.insert((until, lease)),
        };
        assert!(is_new, "a lease is in one stage");
    }

    fn unlist(&mut self, lease: LeaseId, stage: Stage) {
        let was_there = match stage {
            Stage::Opened => self.opened.remove(&lease),
            Stage::Granted => true,
            Stage::Retired { until } => self.retired.remove(&(until, lease)),
            Stage::Closing { .. } => self.closing.remove(&lease),
            Stage::Paid { until } => self.paid.remove(&(until, lease)),
        };
        assert!(was_there, "a lease is in one stage");
    }

    /// What is open with the ledger of closed leases, by campaign. There are none while the ledger takes what it is
    /// told.
    pub fn unsettled(&self) -> BTreeMap<u32, Outstanding> {
        let mut all: BTreeMap<u32, Outstanding> = BTreeMap::new();
        if is_planted(Bug::UnsettledLeased) {
            return all;
        }
        for lease in &self.closing {
            let Known { campaign, stage, .. } = self.all[lease];
            if let Stage::Closing { outstanding: Outstanding { held, owed }, .. } = stage {
                let of_it = all.entry(campaign).or_default();
                (of_it.held, of_it.owed) = (of_it.held + held, of_it.owed + owed);
            }
        }
        all
    }

    /// What the ledger may hold of closed leases of a campaign that were opened then or later.
    pub fn unsettled_since(&self, campaign: u32, at: TimeMs) -> BudgetMicros {
        let known = self.closing.iter().map(|lease| self.all[lease]);
        let of_it = known.filter(|known| known.campaign == campaign && known.life.opened >= at);
        let held = of_it.filter_map(|known| match known.stage {
            Stage::Closing { outstanding, .. } => Some(outstanding.held),
            _ => None,
        });
        held.sum()
    }

    /// Whether a campaign has a lease.
    pub fn has_of(&self, campaign: u32) -> bool {
        self.of_campaigns.contains_key(&campaign)
    }
}

/// How far a lease is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It stands in the journal.
    Opened,
    /// Its money is held, and a worker bids with it.
    Granted,
    /// Nothing more is bid; wins count until then.
    Retired { until: TimeMs },
    /// No win counts any more. The ledger is to be told; notices may come again until then.
    Closing { until: TimeMs, outstanding: Outstanding },
    /// The ledger was told. Notices may come again until then.
    Paid { until: TimeMs },
}

impl Stage {
    /// Until when notices of its bids may come.
    fn until(self) -> TimeMs {
        match self {
            Stage::Opened | Stage::Granted => TimeMs(u64::MAX),
            Stage::Retired { until } | Stage::Closing { until, .. } | Stage::Paid { until } => until,
        }
    }
}

/// Money that the ledger holds for leases that nobody knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownHolds {
    /// This log has never opened these: it is older than the ledger.
    pub of_other_log: Vec<Money>,
    /// These it may have opened, and settled: the ledger is the older one.
    pub forgotten: Vec<Money>,
}

/// What is open with the ledger of leases that are closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// So much it may hold that was not spent.
    pub held: BudgetMicros,
    /// So much was spent of holds that it does not have any more, and is not paid.
    pub owed: BudgetMicros,
}

/// Those of an ULID.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Money of a lease that is to be held in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Money {
    /// The lease.
    pub lease: LeaseId,
    /// When it was opened: part of the id of its hold.
    pub opened: TimeMs,
    /// The number of its campaign, where it is known.
    pub campaign: Option<u32>,
    /// Whose it is.
    pub account: Box<str>,
    /// Where what is spent goes.
    pub spend: Box<str>,
    /// How much.
    pub amount: BudgetMicros,
}

impl Money {
    /// The id of its hold: a ULID of the time at which the lease was opened, of `node`, and of the lease. An id with
    /// time in it is found without a look at old ones. Nodes whose holds share a space of ids have different numbers.
    pub fn hold_id(&self, node: u16) -> Box<str> {
        let bits = u128::from(self.opened.0) << 80 | u128::from(node) << 64 | u128::from(self.lease.0);
        (0..26).rev().map(|digit| char::from(DIGITS[(bits >> (5 * digit)) as usize & 31])).collect::<String>().into()
    }
}

/// Of which lease a hold is, by its id: when that was opened, for which node, and its id. `None` if it is of none.
pub fn lease_of(hold_id: &str) -> Option<(TimeMs, u16, LeaseId)> {
    let (26, Some('0'..='7')) = (hold_id.len(), hold_id.chars().next()) else { return None };
    let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte);
    let bits = hold_id.bytes().try_fold(0_u128, |bits, byte| Some(bits << 5 | digit(byte)? as u128))?;
    Some((TimeMs((bits >> 80) as u64), (bits >> 64) as u16, LeaseId(bits as u64)))
}

/// What the ledger is to be told of a lease that is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// What was held.
    pub money: Money,
    /// What of it was spent.
    pub spent: BudgetMicros,
}

impl Control {
    /// A lease of an earlier process, or one whose opening was not answered: bids of it may have been made until now,
    /// or until its time was over. A server that starts again and again does not begin the deadline anew each time.
    pub fn recover(&mut self, lease: &LeaseView, now: TimeMs) {
        // A recovery that failed half way comes again, and one behind a lost answer sees them all.
        if self.leases.get(lease.id).is_some() || is_planted(Bug::LeasesForgotten) {
            return;
        }
        let until = TimeMs(now.min(lease.life.until).0 + self.settings.win_deadline_ms);
        let held = lease.amount - lease.spent;
        let outstanding = Outstanding { held, owed: BudgetMicros::ZERO };
        let stage = if lease.is_closed { Stage::Closing { until, outstanding } } else { Stage::Retired { until } };
        let (campaign, amount, life) = (lease.campaign, lease.amount, lease.life);
        if lease.is_closed {
            self.busy.insert(campaign);
        }
        self.leases.insert(lease.id, Known { campaign, worker: 0, amount, day: 0, life, hold: Hold::Unknown, stage });
    }

    /// Leases whose money is to be held.
    pub fn to_hold(&self) -> Vec<Money> {
        self.leases.opened.iter().filter_map(|id| self.money(*id, self.leases.get(*id)?)).collect()
    }

    /// The money of a lease is held: a worker may bid with it.
    pub fn held(&mut self, lease: LeaseId, now: TimeMs) {
        let known = *self.leases.get(lease).expect("a lease is known until it is settled");
        assert!(known.stage == Stage::Opened, "the money of a lease is held once");
        self.leases.note_hold(lease, Hold::Held);
        let Known { campaign, worker, amount, life, .. } = known;
        let Life { opened, until } = life;
        let is_stopped = self.campaigns.get(&campaign).is_none_or(|tracked| tracked.is_stopped());
        if is_stopped || now >= until {
            // The plan has changed since it was asked for, or the ledger took so long that its time is over.
            self.leases.set(lease, Stage::Retired { until: TimeMs(0) });
            if let Some(tracked) = self.campaigns.get_mut(&campaign) {
                tracked.not_granted(worker);
            }
            return;
        }
        self.leases.set(lease, Stage::Granted);
        let grant = LeaseChange::Grant(Grant { campaign, lease, amount, opened, until });
        let changes = &mut self.updates[usize::from(worker)].leases;
        if let Some(tracked) = self.campaigns.get_mut(&campaign) {
            if tracked.is_of_other_day(worker, known.day) {
                // What is bid today counts for the cap of today.
                changes.push(LeaseChange::Revoke(campaign));
            }
            tracked.granted(worker, (lease, &known), now);
            self.busy.insert(campaign);
        }
        changes.push(grant);
        if is_planted(Bug::GrantedTwice) {
            let other = (usize::from(worker) + 1) % self.updates.len();
            self.updates[other].leases.push(grant);
        }
        if let Some(log) = &mut self.log {
            log.granted(campaign, worker, (lease, amount), now);
        }
    }

    /// The ledger does not say whether it holds the money. It is asked again.
    pub fn unanswered(&mut self, lease: LeaseId, now: TimeMs) {
        self.leases.note_hold(lease, Hold::Unknown);
        let Known { campaign, worker, .. } = *self.leases.get(lease).expect("a lease is known until it is settled");
        if self.campaigns.get_mut(&campaign).is_some_and(|tracked| tracked.waits_for_ledger(now)) {
            self.note_refusal(campaign, worker, (Stopped::Unavailable, BudgetMicros::ZERO), now);
        }
    }

    /// The ledger does not hold the money: its account has less, or the ledger has another reason.
    pub fn not_held(&mut self, lease: LeaseId, why: Stopped, available: BudgetMicros, now: TimeMs) {
        self.leases.note_hold(lease, Hold::Refused);
        let Known { campaign, worker, .. } = self.leases.set(lease, Stage::Retired { until: TimeMs(0) });
        if let Some(tracked) = self.campaigns.get_mut(&campaign) {
            tracked.refused(worker, why, available, now);
            if why == Stopped::NoFunds {
                self.short.insert(tracked.view.plan.account.clone(), now);
            }
        }
        self.note_refusal(campaign, worker, (why, available), now);
    }

    /// A worker bids no more on a lease.
    pub(super) fn retire(&mut self, worker: u16, retired: Retired) {
        let Retired { lease, bids, left, at } = retired;
        // Without bids there is nothing to wait for.
        let is_early = bids == 0 || is_planted(Bug::ClosedEarly);
        let until = if is_early { TimeMs(0) } else { TimeMs(at.0 + self.settings.win_deadline_ms) };
        let known = self.leases.set(lease, Stage::Retired { until });
        if !is_planted(Bug::GrantedTwice) {
            assert!(known.stage == Stage::Granted && known.worker == worker, "who retires a lease had it");
        }
        if bids > 0 {
            let twice = if is_planted(Bug::LeftReturnedTwice) { left } else { BudgetMicros::ZERO };
            self.leases.untold.insert(lease, left + twice);
        }
        if let Some(tracked) = self.campaigns.get_mut(&known.campaign) {
            tracked.retired(worker, lease);
        }
    }

    /// Retired leases whose shards were not told yet.
    pub fn untold(&self) -> Vec<RetiredLease> {
        self.leases.untold.iter().map(|(lease, left)| RetiredLease { lease: *lease, left: *left }).collect()
    }

    /// Their shards were told.
    pub fn told(&mut self, leases: &[RetiredLease]) {
        for RetiredLease { lease, .. } in leases {
            self.leases.untold.remove(lease);
        }
    }

    /// Whether leases wait for notices of their bids.
    pub fn has_retired(&self) -> bool {
        !self.leases.retired.is_empty()
    }

    /// Whether a lease waits for notices of its bids.
    pub fn is_retired(&self, lease: LeaseId) -> bool {
        self.leases.get(lease).is_some_and(|known| matches!(known.stage, Stage::Retired { .. }))
    }

    /// Leases of which no win counts any more.
    pub fn due(&self, now: TimeMs) -> Vec<LeaseId> {
        self.leases.retired.range(..(now, LeaseId(0))).map(|(_, id)| *id).collect()
    }

    /// Their shard is asked to close them. If it does, it counts on them no more, whether its answer comes or not.
    pub fn close(&mut self, leases: &[LeaseId]) {
        for lease in leases {
            let known = *self.leases.get(*lease).expect("a lease is known until it is settled");
            if let Known { stage: Stage::Retired { until }, campaign, amount, hold, .. } = known {
                let held = if hold == Hold::Refused { BudgetMicros::ZERO } else { amount };
                let outstanding = Outstanding { held, owed: BudgetMicros::ZERO };
                self.leases.set(*lease, Stage::Closing { until, outstanding });
                self.busy.insert(campaign);
            }
        }
    }

    /// They are closed in the journal.
    pub fn closed(&mut self, leases: &[LeaseView]) {
        for lease in leases {
            let known = self.leases.get(lease.id).expect("a lease is known until it is settled");
            // What was given back does not come back.
            let before = match known.stage {
                Stage::Closing { outstanding, .. } => outstanding,
                _ => Outstanding { held: lease.amount, owed: BudgetMicros::ZERO },
            };
            if before.held > BudgetMicros::ZERO {
                self.is_outstanding(lease.id, Outstanding { held: lease.amount - lease.spent, ..before });
            }
        }
    }

    /// Whether this process has heard from the ledger that the money of a lease is held.
    pub fn was_held(&self, lease: LeaseId) -> bool {
        self.leases.get(lease).is_some_and(|known| known.hold == Hold::Held)
    }

    /// Whether the ledger has held nothing for a lease, so that there is nothing to settle.
    pub fn was_refused(&self, lease: LeaseId) -> bool {
        self.leases.get(lease).is_some_and(|known| known.hold == Hold::Refused)
    }

    /// The number of the campaign that has a lease.
    pub fn number_of(&self, lease: LeaseId) -> Option<u32> {
        self.leases.get(lease).map(|known| known.campaign)
    }

    /// The id of the campaign that has a lease.
    pub fn campaign_of(&self, lease: LeaseId) -> &str {
        self.number_of(lease).map_or("", |number| self.id_of(number))
    }

    /// The id of a campaign.
    pub fn id_of(&self, number: u32) -> &str {
        self.campaigns.get(&number).map_or("", |tracked| &tracked.view.id)
    }

    /// The ledger does not settle a closed lease: so much stays open.
    pub fn left_open(&mut self, Settlement { money, .. }: &Settlement, outstanding: Outstanding) {
        self.is_outstanding(money.lease, outstanding);
        self.busy.extend(self.number_of(money.lease));
    }

    /// Whether the campaign of a lease has ended.
    pub fn is_of_ended(&self, lease: LeaseId) -> bool {
        let tracked = self.number_of(lease).and_then(|number| self.campaigns.get(&number));
        tracked.is_some_and(|tracked| tracked.view.is_ended)
    }

    fn is_outstanding(&mut self, lease: LeaseId, outstanding: Outstanding) {
        let until = self.leases.get(lease).expect("a lease is known until it is settled").stage.until();
        self.leases.set(lease, Stage::Closing { until, outstanding });
    }

    /// Leases that are closed and not settled: their closing is asked for again, for what was spent of them.
    pub fn closing(&self) -> Vec<LeaseId> {
        self.leases.closing.iter().copied().collect()
    }

    /// What the ledger is to be told of a lease that is closed.
    pub fn settlement(&self, lease: &LeaseView) -> Option<Settlement> {
        let known = self.leases.get(lease.id)?;
        Some(Settlement { money: self.money(lease.id, &Known { life: lease.life, ..*known })?, spent: lease.spent })
    }

    /// The ledger has what was spent.
    pub fn paid(&mut self, leases: &[LeaseId]) {
        for lease in leases {
            let until = self.leases.get(*lease).expect("a lease is known until it is settled").stage.until();
            let until = if is_planted(Bug::ForgottenEarly) { TimeMs(0) } else { until };
            self.leases.set(*lease, Stage::Paid { until });
        }
    }

    /// Leases that the ledger was told of, and of whose bids no notice can come any more that is not late.
    pub fn over(&self, now: TimeMs) -> Vec<LeaseId> {
        let over = self.leases.paid.range(..(now, LeaseId(0))).map(|(_, id)| *id);
        over.filter(|id| !self.number_of(*id).is_some_and(|number| self.is_uncounted(number))).collect()
    }

    /// The journal says that they are settled.
    pub fn settled(&mut self, leases: &[LeaseId]) {
        for lease in leases {
            self.leases.remove(*lease);
        }
    }

    /// How many leases are not settled.
    pub fn leases(&self) -> usize {
        self.leases.all.len()
    }

    /// Of an account of which the ledger holds money for these leases, those that nobody knows. A lease that is opened
    /// now is known before its money is held.
    pub fn unknown(&self, held: Vec<Money>) -> UnknownHolds {
        let is_known =
            |money: &Money| self.leases.get(money.lease).is_some_and(|known| known.life.opened == money.opened);
        let unknown: Vec<Money> = held.into_iter().filter(|money| !is_known(money)).collect();
        if unknown.is_empty() {
            return UnknownHolds::default();
        }
        let (forgotten, of_other_log) = unknown.into_iter().partition(|money| self.has_opened(money));
        UnknownHolds { of_other_log, forgotten }
    }

    /// Whether this log had opened a lease when this process began: if it is not known, it has forgotten it since.
    fn has_opened(&self, Money { lease, opened, .. }: &Money) -> bool {
        self.began.get(&lease.shard()).is_some_and(|openings| openings.has(lease.counter(), *opened))
    }

    fn money(&self, lease: LeaseId, known: &Known) -> Option<Money> {
        let plan = &self.campaigns.get(&known.campaign)?.view.plan;
        let (account, spend) = (plan.account.clone(), plan.spend.clone());
        let (opened, campaign) = (known.life.opened, Some(known.campaign));
        Some(Money { lease, opened, campaign, account, spend, amount: known.amount })
    }
}
