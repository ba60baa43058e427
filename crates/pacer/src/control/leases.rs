//! The life of a lease, from its record to its settlement.
//!
//! ```text
//!   Opened ──held──▶ Granted ──retired──▶ Retired ──deadline of its last bid──▶ Closing ──settled──▶ forgotten
//!      └──no money───────────────────────────────────────────────────────────────▲
//! ```

use std::collections::BTreeSet;

use hashbrown::HashMap;
use tidegate_machines::TimeMs;
use tidegate_planted::{Bug, is_planted};

use super::{Control, Stopped};
use crate::bidder::{Grant, Retired};
use crate::machine::{LeaseId, LeaseView};
use crate::units::BudgetMicros;

/// A lease of this process, or one that was open at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub campaign: u32,
    pub worker: u16,
    pub amount: BudgetMicros,
    /// For whose cap it counts.
    pub day: i32,
    pub opened: TimeMs,
    pub stage: Stage,
}

/// All leases, and which of them are in which stage: looking through all of them in each round would cost more than all
/// else.
#[derive(Default)]
pub(super) struct Leases {
    all: HashMap<LeaseId, Known>,
    opened: BTreeSet<LeaseId>,
    /// By when no bid of them can win any more.
    retired: BTreeSet<(TimeMs, LeaseId)>,
    closing: BTreeSet<LeaseId>,
}

impl Leases {
    pub fn get(&self, lease: LeaseId) -> Option<&Known> {
        self.all.get(&lease)
    }

    pub fn insert(&mut self, lease: LeaseId, known: Known) {
        assert!(self.all.insert(lease, known).is_none(), "a lease is opened once");
        self.list(lease, known.stage);
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
        if let Some(known) = self.all.remove(&lease) {
            self.unlist(lease, known.stage);
        }
    }

    fn list(&mut self, lease: LeaseId, stage: Stage) {
        let is_new = match stage {
            Stage::Opened => self.opened.insert(lease),
            Stage::Granted => true,
            Stage::Retired { until } => self.retired.insert((until, lease)),
            Stage::Closing => self.closing.insert(lease),
        };
        assert!(is_new, "a lease is in one stage");
    }

    fn unlist(&mut self, lease: LeaseId, stage: Stage) {
        let was_there = match stage {
            Stage::Opened => self.opened.remove(&lease),
            Stage::Granted => true,
            Stage::Retired { until } => self.retired.remove(&(until, lease)),
            Stage::Closing => self.closing.remove(&lease),
        };
        assert!(was_there, "a lease is in one stage");
    }

    /// Whether a campaign has a lease.
    pub fn has_of(&self, campaign: u32) -> bool {
        self.all.values().any(|known| known.campaign == campaign)
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
    /// No win counts any more. The ledger is to be told.
    Closing,
}

/// Money of a lease that is to be held in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Money {
    /// The lease.
    pub lease: LeaseId,
    /// When it was opened: part of the id of its hold.
    pub opened: TimeMs,
    /// Whose it is.
    pub account: Box<str>,
    /// Where what is spent goes.
    pub spend: Box<str>,
    /// How much.
    pub amount: BudgetMicros,
}

impl Money {
    /// The id of its hold: a ULID of the time at which the lease was opened, and of the lease. An id with time in it is
    /// found without a look at old ones.
    pub fn hold_id(&self) -> Box<str> {
        const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        let bits = u128::from(self.opened.0) << 80 | u128::from(self.lease.0);
        (0..26).rev().map(|digit| char::from(DIGITS[(bits >> (5 * digit)) as usize & 31])).collect::<String>().into()
    }
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
    /// A lease that was open at the start: bids of it may have been made until now.
    pub fn recover(&mut self, lease: &LeaseView, now: TimeMs) {
        // A recovery that failed half way comes again.
        if self.leases.get(lease.id).is_some() || is_planted(Bug::LeasesForgotten) {
            return;
        }
        let until = TimeMs(now.0 + self.settings.win_deadline_ms);
        let stage = if lease.is_closed { Stage::Closing } else { Stage::Retired { until } };
        let (campaign, amount, opened) = (lease.campaign, lease.amount, lease.opened);
        self.leases.insert(lease.id, Known { campaign, worker: 0, amount, day: 0, opened, stage });
    }

    /// Leases whose money is to be held.
    pub fn to_hold(&self) -> Vec<Money> {
        self.leases.opened.iter().filter_map(|id| self.money(*id, self.leases.get(*id)?)).collect()
    }

    /// The money of a lease is held: a worker may bid with it.
    pub fn held(&mut self, lease: LeaseId, now: TimeMs) {
        let known = *self.leases.get(lease).expect("a lease is known until it is settled");
        assert!(known.stage == Stage::Opened, "the money of a lease is held once");
        let Known { campaign, worker, amount, day, opened, .. } = known;
        let is_stopped = self.campaigns.get(&campaign).is_none_or(|tracked| tracked.is_stopped());
        if is_stopped {
            // The plan has changed since it was asked for.
            self.leases.set(lease, Stage::Retired { until: TimeMs(0) });
            return;
        }
        self.leases.set(lease, Stage::Granted);
        self.updates[usize::from(worker)].grants.push(Grant { campaign, lease, amount, opened });
        if is_planted(Bug::GrantedTwice) {
            let other = (usize::from(worker) + 1) % self.updates.len();
            self.updates[other].grants.push(Grant { campaign, lease, amount, opened });
        }
        if let Some(tracked) = self.campaigns.get_mut(&campaign) {
            tracked.granted(worker, (lease, amount, day), now);
        }
        if let Some(log) = &mut self.log {
            log.granted(campaign, worker, (lease, amount), now);
        }
    }

    /// The ledger does not hold the money: its account has less, or the ledger has another reason.
    pub fn not_held(&mut self, lease: LeaseId, why: Stopped, available: BudgetMicros, now: TimeMs) {
        let Known { campaign, worker, .. } = self.leases.set(lease, Stage::Retired { until: TimeMs(0) });
        if let Some(tracked) = self.campaigns.get_mut(&campaign) {
            tracked.refused(worker, why, available, now);
        }
        self.note_refusal(campaign, worker, (why, available), now);
    }

    /// A worker bids no more on a lease.
    pub(super) fn retire(&mut self, worker: u16, retired: Retired) {
        let Retired { lease, bids, at } = retired;
        // Without bids there is nothing to wait for.
        let is_early = bids == 0 || is_planted(Bug::ClosedEarly);
        let until = if is_early { TimeMs(0) } else { TimeMs(at.0 + self.settings.win_deadline_ms) };
        let known = self.leases.set(lease, Stage::Retired { until });
        if !is_planted(Bug::GrantedTwice) {
            assert!(known.stage == Stage::Granted && known.worker == worker, "who retires a lease had it");
        }
        if let Some(tracked) = self.campaigns.get_mut(&known.campaign) {
            tracked.retired(worker, lease);
        }
    }

    /// Leases of which no win counts any more.
    pub fn due(&self, now: TimeMs) -> Vec<LeaseId> {
        self.leases.retired.range(..(now, LeaseId(0))).map(|(_, id)| *id).collect()
    }

    /// They are closed in the journal.
    pub fn closed(&mut self, leases: &[LeaseView]) {
        for lease in leases {
            self.leases.set(lease.id, Stage::Closing);
        }
    }

    /// Leases that are closed and not settled: their closing is asked for again, for what was spent of them.
    pub fn closing(&self) -> Vec<LeaseId> {
        self.leases.closing.iter().copied().collect()
    }

    /// What the ledger is to be told of a lease that is closed.
    pub fn settlement(&self, lease: &LeaseView) -> Option<Settlement> {
        let known = self.leases.get(lease.id)?;
        Some(Settlement { money: self.money(lease.id, &Known { opened: lease.opened, ..*known })?, spent: lease.spent })
    }

    /// The ledger has what was spent, and the journal says so.
    pub fn settled(&mut self, leases: &[LeaseId]) {
        for lease in leases {
            self.leases.remove(*lease);
        }
    }

    /// How many leases are not settled.
    pub fn leases(&self) -> usize {
        self.leases.all.len()
    }

    fn money(&self, lease: LeaseId, known: &Known) -> Option<Money> {
        let plan = &self.campaigns.get(&known.campaign)?.view.plan;
        let (account, spend) = (plan.account.clone(), plan.spend.clone());
        Some(Money { lease, opened: known.opened, account, spend, amount: known.amount })
    }
}
