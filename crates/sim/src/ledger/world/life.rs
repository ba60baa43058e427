//! A run from its first tick to its last: trouble, then peace, then the reckoning.

use super::{Ledger, LedgerWorld};
use crate::harness::End;
use crate::harness::{Store, Workload};
use crate::note;
use crate::violation::Violation;

/// Ticks within which all clients have their answers once nothing goes wrong any more.
const PEACE_BUDGET: u64 = 60_000;
/// How often the last audits are begun before it is called a failure that they do not end.
const AUDIT_ATTEMPTS: u64 = 10;
/// Beyond the longest life of a hold, in milliseconds.
const BEYOND_ALL_HOLDS_MS: u64 = 100_000;
/// Ticks within which holds whose time is over are released.
const TICKS_TO_EXPIRE: u64 = 50;

impl<S: Store> LedgerWorld<S> {
    /// Trouble, then peace, then the reckoning.
    pub(super) fn run_ledger(&mut self) -> Result<(), Violation> {
        self.trouble_with_censuses()?;
        self.peace()?;
        self.reckoning()
    }

    /// Clients work, faults happen, and now and then everything is read.
    fn trouble_with_censuses(&mut self) -> Result<(), Violation> {
        let censuses = self.site.chance.within(1..=5);
        while self.site.tick < self.site.setup.ticks {
            self.tick()?;
            if self.site.chance.below(3_000) < censuses {
                self.inspect(false)?;
                self.copy_or_put_back()?;
                self.exchange_parts()?;
                self.serve_by_a_wrong_clock()?;
            }
            if self.site.chance.happens(30) {
                self.ask_again();
            }
            if self.load.made == self.load.plan.requests && self.load.wishes.open() == 0 {
                break;
            }
        }
        Ok(())
    }

    /// A client that forgot an answer asks the same again, long after.
    fn ask_again(&mut self) {
        if !self.load.wishes.is_empty() {
            let wish = self.site.chance.below(self.load.wishes.len() as u64) as usize;
            if self.load.wishes.get(wish).ask.decides() {
                self.load.wishes.reopen(wish);
            }
        }
    }

    /// Nothing goes wrong any more, and every client gets its answer.
    fn peace(&mut self) -> Result<(), Violation> {
        note!(self.site.trace, "peace");
        self.become_calm_everywhere()?;
        self.load.finishing = true;
        let answered = |world: &LedgerWorld<S>| world.load.wishes.open() == 0;
        self.tick_until("every request is answered in the end", PEACE_BUDGET, answered)?;
        self.inspect(false)
    }

    /// Every request ever made is made once more and gets the answer it got; time passes, holds expire; all is
    /// compared.
    fn reckoning(&mut self) -> Result<(), Violation> {
        note!(self.site.trace, "reckoning");
        let answered = |world: &LedgerWorld<S>| world.load.wishes.open() == 0;
        for wish in
            (0..self.load.wishes.len()).filter(|wish| self.load.wishes.get(*wish).ask.decides()).collect::<Vec<_>>()
        {
            self.load.wishes.reopen(wish);
        }
        self.tick_until("every request is answered in the end", PEACE_BUDGET, answered)?;
        self.outlast_all_holds()?;
        self.inspect(true)?;
        self.last_audits()?;
        self.end(End::Stop)?;
        self.audit_offline()?;
        self.audit_ties()?;
        self.inspect(true)
    }

    /// Lets time pass until every hold is over. Time that passed in a process counts only if a record says so: if power
    /// fails before that, behind a wall clock that stands years back, it passes again.
    fn outlast_all_holds(&mut self) -> Result<(), Violation> {
        loop {
            let starts = self.site.tally.of("a start");
            self.site.clock.pass(BEYOND_ALL_HOLDS_MS);
            self.come_to_rest()?;
            for _ in 0..TICKS_TO_EXPIRE {
                self.tick()?;
            }
            if self.site.tally.of("a start") == starts {
                return Ok(());
            }
        }
    }

    /// Every shard is compared with its journal once more. A power failure that was drawn before the peace may still
    /// come.
    pub(super) fn last_audits(&mut self) -> Result<(), Violation> {
        let enough = self.site.tally.of("a reconciliation") + u64::from(self.load.plan.shards);
        for _ in 0..AUDIT_ATTEMPTS {
            self.begin_audits()?;
            self.tick()?;
            self.come_to_rest()?;
            if self.site.tally.of("a reconciliation") >= enough {
                return Ok(());
            }
        }
        Err(Violation::of("an audit comes to its end", Ledger::situation(self)))
    }
}
