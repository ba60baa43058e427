//! What the ledger has paid for leases that are not known here: the log of campaigns is older than it, or has lost its
//! end.
//!
//! ```text
//!   payments out of an account, newest first:   lost, lost, open here, lost, │ settled and forgotten here ...
//!                                               all of these may be lost     │ nothing behind it is
//! ```
//!
//! Promise: of a campaign, no lease is opened before it is known what was paid, and all of it counts against its
//! budget.
//!
//! Why the first lease that is settled and forgotten ends the search: it was paid before its record was written, and
//! each lease that is lost was opened behind that record. Until a campaign counts, no lease of it is forgotten, or the
//! next process would end its search too early.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use tidegate_machines::{ShardIndex, TimeMs};

use super::Control;
use crate::machine::{LeaseId, Mark, Openings, PaidOnDay, Regained};
use crate::units::BudgetMicros;
use crate::zone;

/// So many rows are read again at each start rather than noted.
const NOTED_BEHIND: u64 = 256;

/// What the ledger has paid of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paid {
    /// The lease.
    pub lease: LeaseId,
    /// When it was opened.
    pub opened: TimeMs,
    /// The number of its campaign. Holds of before do not say it.
    pub campaign: Option<u32>,
    /// What was paid.
    pub amount: BudgetMicros,
}

/// Accounts of which it is not known yet what was paid for leases that are not known here.
#[derive(Default)]
pub(super) struct Uncounted {
    /// Each with the campaigns that it had at the start.
    accounts: BTreeMap<Box<str>, BTreeSet<u32>>,
    /// Those of campaigns that money is wanted for.
    asked: BTreeSet<Box<str>>,
    /// Those that were looked at in this pass.
    tried: BTreeSet<Box<str>>,
    /// Leases that were not settled at the start, and when they were opened.
    open_at_start: HashMap<LeaseId, TimeMs>,
}

/// What was paid for leases of a campaign that are lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lost {
    leases: u64,
    days: BTreeMap<i32, BudgetMicros>,
}

/// The search through the payments of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Campaigns of which payments that are not known may still come, by their shards.
    left: BTreeMap<ShardIndex, BTreeSet<u32>>,
    /// All of them.
    campaigns: BTreeSet<u32>,
    /// Payments of which an earlier search has said all, and of which campaigns.
    marks: HashMap<Mark, Vec<u32>>,
    /// The marks that campaigns had when it began.
    behind: BTreeMap<u32, Option<Mark>>,
    newest: Option<Mark>,
    /// Rows of the history.
    rows: u64,
    /// What was found of each campaign.
    lost: BTreeMap<u32, Lost>,
    /// The same of campaigns that are not here, by the numbers that payments say.
    of_others: BTreeMap<Option<u32>, BudgetMicros>,
}

impl Search {
    /// Whether nothing is left to be found.
    pub fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    /// Nothing of these campaigns is left to be found.
    fn end(&mut self, shard: ShardIndex, is_over: impl Fn(&u32) -> bool) {
        let Some(of_shard) = self.left.get_mut(&shard) else { return };
        of_shard.retain(|number| !is_over(number));
        if of_shard.is_empty() {
            self.left.remove(&shard);
        }
    }

    /// So many more rows of the history were read.
    pub fn read(&mut self, rows: usize) {
        self.rows += rows as u64;
    }

    /// How many leases of a campaign were found, and what was paid for them.
    pub fn found(&self, number: u32) -> (u64, BudgetMicros) {
        self.lost.get(&number).map_or((0, BudgetMicros::ZERO), |lost| (lost.leases, sum(lost.days.values())))
    }

    /// What was paid for leases of which it is not known whose they are.
    pub fn of_nobody(&self) -> BudgetMicros {
        sum(self.of_others.values())
    }

    /// What is to count, of each campaign in one piece, and what is to be noted; with the mark that the campaign had.
    pub fn regained(&self) -> Vec<(Regained, Option<Mark>)> {
        let Some(mark) = self.newest else { return Vec::new() };
        let is_noted = |number: &&u32| self.lost.contains_key(number) || self.rows > NOTED_BEHIND;
        let regained = |number: &u32| {
            let days = self.lost.get(number).into_iter().flat_map(|lost| &lost.days);
            let days = days.map(|(day, paid)| PaidOnDay { day: *day, paid: *paid }).collect();
            (Regained { campaign: *number, mark, days }, self.behind.get(number).copied().flatten())
        };
        let of_others = self.of_others.keys().flatten();
        self.campaigns.iter().filter(is_noted).chain(of_others).map(regained).collect()
    }
}

/// What is too much for a budget is as much as can be.
fn sum<'a>(all: impl Iterator<Item = &'a BudgetMicros>) -> BudgetMicros {
    all.fold(BudgetMicros::ZERO, |sum, one| BudgetMicros(sum.0.saturating_add(one.0)))
}

impl Control {
    /// All that there was at the start is known.
    pub fn recovered(&mut self) {
        let mut accounts: BTreeMap<Box<str>, BTreeSet<u32>> = BTreeMap::new();
        for (number, tracked) in self.campaigns.iter() {
            accounts.entry(tracked.view.plan.account.clone()).or_default().insert(*number);
        }
        self.uncounted =
            Uncounted { accounts, open_at_start: self.leases.openings().collect(), ..Uncounted::default() };
    }

    /// A shard had opened these when this process began.
    pub fn had_opened(&mut self, shard: ShardIndex, openings: Openings) {
        self.began.entry(shard).or_insert(openings);
    }

    /// How many accounts were not looked at yet.
    pub fn uncounted(&self) -> usize {
        self.uncounted.accounts.len()
    }

    /// Whether it is not known yet what was paid for lost leases out of the account of a campaign. One that is new
    /// waits, too: a lease of it that is settled would end the search of the others.
    pub fn is_uncounted(&self, number: u32) -> bool {
        let account = || self.campaigns.get(&number).map(|tracked| &*tracked.view.plan.account);
        self.uncounted() > 0 && account().is_some_and(|account| self.uncounted.accounts.contains_key(account))
    }

    /// Money is wanted for a campaign of which that is not known yet: it is asked for again later, and its account is
    /// looked at before others.
    pub fn not_counted(&mut self, worker: u16, number: u32, now: TimeMs) {
        if let Some(tracked) = self.campaigns.get(&number) {
            self.uncounted.asked.insert(tracked.view.plan.account.clone());
        }
        self.not_opened(worker, number, now);
    }

    /// The next account to be looked at, and the search through its payments. `None` at the end of a pass: what was not
    /// [counted](Control::counted) comes again in the next one.
    pub fn next_uncounted(&mut self) -> Option<(Box<str>, Search)> {
        let Uncounted { accounts, asked, tried, .. } = &mut self.uncounted;
        asked.retain(|account| accounts.contains_key(account));
        let mut in_order = asked.iter().chain(accounts.keys());
        let Some(account) = in_order.find(|account| !tried.contains(*account)).cloned() else {
            tried.clear();
            return None;
        };
        tried.insert(account.clone());
        let mut search = Search { campaigns: accounts[&account].clone(), ..Search::default() };
        for number in &search.campaigns {
            search.left.entry(self.shard_of(*number)).or_default().insert(*number);
            let mark = self.campaigns.get(number).and_then(|tracked| tracked.view.mark);
            search.behind.insert(*number, mark);
            mark.iter().for_each(|mark| search.marks.entry(*mark).or_default().push(*number));
        }
        Some((account, search))
    }

    /// What was paid out of an account counts.
    pub fn counted(&mut self, account: &str) {
        self.uncounted.accounts.remove(account);
        if self.uncounted.accounts.is_empty() {
            self.uncounted = Uncounted::default();
        }
    }

    /// What a campaign has spent is about to be more than its wins say: that is no price of theirs.
    pub fn regained(&mut self, number: u32) {
        if let Some(tracked) = self.campaigns.get_mut(&number) {
            tracked.regained();
        }
    }

    /// A campaign has this mark now.
    pub fn set_mark(&mut self, number: u32, mark: Option<Mark>) {
        if let Some(tracked) = self.campaigns.get_mut(&number) {
            tracked.view.mark = mark;
        }
    }

    /// Looks at a payment of an account, behind newer ones.
    pub fn look_at(&self, paid: &Paid, search: &mut Search) {
        let Paid { lease, opened, campaign, amount } = *paid;
        let mark = Mark { lease, opened };
        search.newest.get_or_insert(mark);
        for number in search.marks.remove(&mark).into_iter().flatten() {
            search.end(self.shard_of(number), |of| *of == number);
        }
        let shard = lease.shard();
        if !search.left.contains_key(&shard) || self.uncounted.open_at_start.get(&lease) == Some(&opened) {
            return;
        }
        if self.began.get(&shard).is_some_and(|openings| openings.has(lease.counter(), opened)) {
            search.end(shard, |_| true);
            return;
        }
        // Holds of before do not say whose they are.
        let only = search.campaigns.first().copied().filter(|_| search.campaigns.len() == 1);
        let number = campaign.or(only).filter(|number| self.shard_of(*number) == shard);
        let tracked = number.and_then(|number| self.campaigns.get(&number));
        match (number, tracked) {
            (Some(number), Some(tracked)) if search.campaigns.contains(&number) => {
                if search.left[&shard].contains(&number) {
                    let day = zone::day_at(&tracked.zone, opened).number;
                    let lost = search.lost.entry(number).or_default();
                    let of_day = lost.days.entry(day).or_default();
                    of_day.0 = of_day.0.saturating_add(amount.0);
                    lost.leases += 1;
                }
            }
            _ => {
                let of_it = search.of_others.entry(number).or_default();
                of_it.0 = of_it.0.saturating_add(amount.0);
            }
        }
    }

    /// Which shard has a campaign.
    fn shard_of(&self, number: u32) -> ShardIndex {
        ShardIndex((number % self.began.len().max(1) as u32) as u16)
    }
}
