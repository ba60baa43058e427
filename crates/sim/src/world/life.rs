//! A run from its first tick to its last: trouble, then peace, then the reckoning.

use super::World;
use super::process::End;
use crate::note;
use crate::violation::Violation;

/// Ticks within which all clients have their answers once nothing goes wrong any more.
const PEACE_BUDGET: u64 = 60_000;
/// How often the last audits are begun before it is called a failure that they do not end.
const AUDIT_ATTEMPTS: u64 = 10;
/// Beyond the longest life of a hold, in milliseconds.
const BEYOND_ALL_HOLDS_MS: u64 = 100_000;

impl World {
    /// Runs to the end. `Err` is what the simulation is for.
    pub fn run(&mut self) -> Result<(), Violation> {
        self.trouble()?;
        self.peace()?;
        self.reckoning()
    }

    /// Clients work, faults happen, and now and then everything is read.
    fn trouble(&mut self) -> Result<(), Violation> {
        let censuses = self.chance.within(1..=5);
        while self.tick < self.tick_limit {
            self.tick()?;
            if self.chance.below(3_000) < censuses {
                self.inspect(false)?;
            }
            if self.chance.happens(30) {
                self.ask_again();
            }
            if self.made == self.plan.requests && self.wishes.open() == 0 {
                break;
            }
        }
        Ok(())
    }

    /// A client that forgot an answer asks the same again, long after.
    fn ask_again(&mut self) {
        if !self.wishes.is_empty() {
            let wish = self.chance.below(self.wishes.len() as u64) as usize;
            if self.wishes.get(wish).ask.decides() {
                self.wishes.reopen(wish);
            }
        }
    }

    /// Nothing goes wrong any more, and every client gets its answer.
    fn peace(&mut self) -> Result<(), Violation> {
        note!(self.trace, "peace");
        self.become_calm()?;
        self.finishing = true;
        let answered = |world: &World| world.wishes.open() == 0;
        self.tick_until("every request is answered in the end", PEACE_BUDGET, answered)?;
        self.inspect(false)
    }

    /// Every request ever made is made once more and gets the answer it got; time passes, holds expire; all is compared.
    fn reckoning(&mut self) -> Result<(), Violation> {
        note!(self.trace, "reckoning");
        let answered = |world: &World| world.wishes.open() == 0;
        for wish in (0..self.wishes.len()).filter(|wish| self.wishes.get(*wish).ask.decides()).collect::<Vec<_>>() {
            self.wishes.reopen(wish);
        }
        self.tick_until("every request is answered in the end", PEACE_BUDGET, answered)?;
        self.now_ms = self.latest_ms + BEYOND_ALL_HOLDS_MS;
        self.come_to_rest()?;
        for _ in 0..50 {
            self.tick()?;
        }
        self.inspect(true)?;
        self.last_audits()?;
        self.end(End::Stop)?;
        self.audit_offline()?;
        self.inspect(true)
    }

    /// Every shard is compared with its journal once more. A power failure that was drawn before the peace may still come.
    fn last_audits(&mut self) -> Result<(), Violation> {
        let enough = self.tally.audits + u64::from(self.plan.shards);
        for _ in 0..AUDIT_ATTEMPTS {
            self.begin_audits()?;
            self.tick()?;
            self.come_to_rest()?;
            if self.tally.audits >= enough {
                return Ok(());
            }
        }
        Err(Violation::of("an audit comes to its end", self.situation()))
    }
}
