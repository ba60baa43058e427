//! A clock that is wrong for a while, until an operator stops the process, sets the clock right and mends the time of
//! the ledger.
//!
//! ```text
//!   right │ process ends │ wrong, hours or months ahead: served │ process ends │ mended: a record per shard │ right
//!    └ at rest: balances are kept        └ at rest: the same                         asked for any time later ─┘
//! ```
//!
//! Only where the clock does nothing else: rows that say a time which has come, by a clock that nobody has called
//! wrong, look like any others.

use tidegate_ledger::mend::mend_time;
use tidegate_ledger::message::{BalanceAt, Reply};
use tidegate_machines::TimeMs;

use super::LedgerWorld;
use crate::harness::{End, Store};
use crate::ledger::ask::Ask;
use crate::ledger::node::snapshots;
use crate::note;
use crate::violation::{Violation, must};

const HOUR_MS: u64 = 3_600_000;
/// Further ahead of all that is known, no process starts.
const AHEAD_MS_MAX: u64 = 300 * 24 * HOUR_MS;
/// So long a process is served with the wrong clock, at most.
const TICKS_MAX: u64 = 300;
/// Balances at times that one census asks for.
const QUESTIONS: usize = 4;

impl<S: Store> LedgerWorld<S> {
    /// Whether the clock of this seed is right but for what is done here.
    pub(super) fn has_a_clock_to_go_by(&self) -> bool {
        self.site.setup.faults.clock_jump == 0
    }

    /// Keeps what accounts have now, nothing being under way.
    pub(super) fn keep_moment(&mut self) -> Result<(), Violation> {
        if !self.has_a_clock_to_go_by() {
            return Ok(());
        }
        self.site.clock.go_on();
        self.come_to_rest()?;
        self.site.clock.stand_still();
        // Whose time is over by now expires in the next step of its shard.
        self.tick()?;
        self.come_to_rest()?;
        let accounts = self.load.workload.population().accounts();
        let ids: Vec<String> = accounts.iter().map(|account| account.id.clone()).collect();
        let views = self.read_views(&ids)?;
        self.load.model.at_rest(self.site.clock.right_ms(), &views);
        self.site.clock.go_on();
        Ok(())
    }

    /// Asks for balances at times that were kept, as any client would.
    pub(super) fn ask_for_moments(&mut self) -> Result<(), Violation> {
        if !self.has_a_clock_to_go_by() {
            return Ok(());
        }
        for _ in 0..QUESTIONS {
            let Some((id, at_ms)) = self.load.model.some_moment(&mut self.site.chance) else { return Ok(()) };
            self.site.tally.add("a balance at a time", 1);
            let BalanceAt::Untold { mend, until } = self.balance_at(&id, at_ms)? else { continue };
            self.site.tally.add("a balance at a time that nobody can tell", 1);
            // Where it is said to be known, it is.
            let told = |found: &BalanceAt| format!("{id} at {at_ms}: from {mend:?} on, up to {until:?}: {found:?}");
            if let Some(until) = until {
                let before = self.balance_at(&id, until.0)?;
                must(matches!(before, BalanceAt::Known { .. }), "up to where it is told, a balance is told", || {
                    told(&before)
                })?;
            }
            let behind = self.balance_at(&id, mend.to.0)?;
            let is_told = !matches!(&behind, BalanceAt::Untold { mend: of, .. } if of.to <= mend.to);
            must(is_told, "from a mend on, a balance is told", || told(&behind))?;
        }
        Ok(())
    }

    /// What is answered of an account at a time, over as many pages as it takes.
    fn balance_at(&mut self, id: &str, at_ms: u64) -> Result<BalanceAt, Violation> {
        let mut before = None;
        loop {
            let ask = Ask::ReadAt { id: id.to_owned(), at_ms, before };
            match self.ask_all(vec![ask])?.pop() {
                Some(Reply::BalanceAt { found: BalanceAt::Further { next }, .. }) => before = Some(next.to_string()),
                Some(Reply::BalanceAt { found, .. }) => return Ok(found),
                other => unreachable!("the model lets {other:?} pass"),
            }
        }
    }

    /// At the end of a census: now and then the clock is wrong for a while.
    pub(super) fn serve_by_a_wrong_clock(&mut self) -> Result<(), Violation> {
        if !self.has_a_clock_to_go_by() || !self.site.chance.happens(450) {
            return Ok(());
        }
        self.end(End::Kill)?;
        let ahead_ms = self.site.chance.within(HOUR_MS..=AHEAD_MS_MAX);
        note!(self.site.trace, "the clock is {ahead_ms} ms ahead from here on");
        let wrong_from = self.site.clock.right_ms() + ahead_ms;
        self.site.clock.jump(ahead_ms as i64);
        for _ in 0..self.site.chance.within(20..=TICKS_MAX) {
            self.tick()?;
        }
        let (calm, weather) = (self.site.is_calm(), self.load.weather.clone());
        self.become_calm_everywhere()?;
        if self.site.chance.happens(500) {
            self.keep_moment()?;
        }
        self.mend(wrong_from)?;
        self.load.weather = weather;
        if !calm {
            self.end_calm();
        }
        Ok(())
    }

    /// The operator stops the process, sets the clock right and does what `tidegate mend-time --to now` does.
    fn mend(&mut self, wrong_from: u64) -> Result<(), Violation> {
        let end = if self.site.chance.happens(500) { End::Kill } else { End::Stop };
        self.end(end)?;
        self.site.clock.mend();
        let time = TimeMs(self.site.clock.right_ms());
        let (logs, shards, options) = (self.site.store.logs(), self.load.plan.shards, self.load.plan.journal);
        note!(self.site.trace, "the clock is set right, and the time of all shards to {}", time.0);
        for shard in 0..shards {
            let files = snapshots(&self.site.disk, shard);
            let mended = mend_time(&logs, files, shards, options, (time, time), "the clock was wrong");
            let mended = mended.map_err(|error| Violation::of("the time can be mended", error.to_string()))?;
            note!(self.site.trace, "  shard {shard}: {mended:?}");
        }
        self.site.store.ended(End::Stop);
        self.site.disk.kill();
        self.load.model.mended(wrong_from, time.0);
        self.site.tally.add("a clock that was wrong until it was mended", 1);
        Ok(())
    }
}
