//! The life of a world and of the process in it: ticks, starts, ends.

use super::store::{End, Stepped, Store};
use super::workload::{Process, Workload};
use super::{Site, World};
use crate::note;
use crate::violation::{Violation, must};

/// Ticks within which all that is owed has come once nothing goes wrong any more.
const QUIET_BUDGET: u64 = 40_000;

impl<S: Store> Site<S> {
    /// Lets time pass.
    fn advance(&mut self) {
        self.tick += 1;
        if self.clock.passes() {
            self.clock.pass(self.setup.tick_ms);
        }
        self.trace.at(self.clock.now_ms());
        self.tally.add("a tick", 1);
    }

    /// What the other halves of all logs do. A failure is the shard's to notice.
    fn step_logs(&mut self) {
        for (index, log) in self.setup.logs().into_iter().enumerate() {
            let slow = !self.calm && self.chance.happens(self.setup.faults.slow_log);
            if self.is_stalled(index) || slow {
                continue;
            }
            for _ in 0..self.chance.within(1..=3) {
                match self.store.step(log) {
                    Stepped::Idle => break,
                    Stepped::Did(Some(step)) => note!(self.trace, "  log {}/{} {step}", log.family, log.shard),
                    Stepped::Did(None) => {}
                    Stepped::Failed(error) => {
                        note!(self.trace, "  log {}/{} failed: {error}", log.family, log.shard);
                        break;
                    }
                }
            }
        }
    }

    /// Whether nothing goes wrong at present.
    pub fn is_calm(&self) -> bool {
        self.calm
    }
}

impl<W: Workload<S>, S: Store> World<W, S> {
    /// Lets one tick pass.
    pub fn tick(&mut self) -> Result<(), Violation> {
        self.site.advance();
        if !self.site.calm {
            self.something_goes_wrong()?;
        }
        if self.node.is_none() && self.site.tick >= self.start_at {
            self.start()?;
        }
        W::tick(self)?;
        if self.node.is_some() {
            self.site.step_logs();
            self.look_for_failures()?;
        }
        Ok(())
    }

    /// Ticks until `done`, at most `budget` times; a violation of `property` if that is not enough.
    pub fn tick_until(
        &mut self,
        property: &'static str,
        budget: u64,
        done: impl Fn(&World<W, S>) -> bool,
    ) -> Result<(), Violation> {
        for _ in 0..budget {
            if done(self) {
                return Ok(());
            }
            self.tick()?;
        }
        Err(Violation::of(property, format!("not within {budget} quiet ticks: {}", W::situation(self))))
    }

    /// Clients work and faults happen, until all is done or it is enough.
    pub fn trouble(&mut self) -> Result<(), Violation> {
        while self.site.tick < self.site.setup.ticks && !W::is_done(self) {
            self.tick()?;
        }
        Ok(())
    }

    /// Lets everything on its way arrive.
    pub fn come_to_quiet(&mut self) -> Result<(), Violation> {
        let quiet = |world: &World<W, S>| world.node.is_some() && W::is_quiet(world);
        self.tick_until("a node without faults comes to rest", QUIET_BUDGET, quiet)
    }

    /// Nothing new goes wrong from here on, and what is wrong is repaired.
    pub fn become_calm(&mut self) -> Result<(), Violation> {
        note!(self.site.trace, "calm");
        self.site.calm = true;
        self.site.store.set_calm(true);
        self.site.make_room();
        self.site.stall_nobody();
        if self.site.has_rot() || self.site.may_refuse_for_damage() {
            // Files are put back while nobody uses them.
            self.end(End::Kill)?;
            self.site.restore();
            self.site.restore_ids();
            self.site.mend_sectors();
        }
        Ok(())
    }

    /// Things go wrong again.
    pub fn end_calm(&mut self) {
        self.site.calm = false;
        self.site.store.set_calm(false);
    }

    /// A shard stops itself only for a reason, and then the process is restarted.
    fn look_for_failures(&mut self) -> Result<(), Violation> {
        let Some(node) = &self.node else { return Ok(()) };
        if self.site.disk.has_stopped() {
            return self.end(End::Power);
        }
        let Some(failure) = node.failure() else { return Ok(()) };
        // A writer that finds rot where it wrote cannot tell it from another writer's message.
        let has_reason = self.site.may_stop_a_shard() || self.site.names_rot(&failure);
        must(has_reason, "a shard stops only for a fault of its store", || failure.clone())?;
        if self.site.calm || self.site.chance.happens(100) {
            note!(self.site.trace, "a shard stopped: {failure}");
            self.site.tally.add("a shard that stopped itself", 1);
            self.end(End::Kill)?;
        }
        Ok(())
    }

    /// The process ends, and its memory with it.
    pub fn end(&mut self, end: End) -> Result<(), Violation> {
        let Some(node) = self.node.take() else { return Ok(()) };
        let site = &mut self.site;
        note!(site.trace, "the process ends by {end:?}");
        self.start_at = site.tick + site.chance.within(1..=20);
        let stopped = match end {
            End::Power | End::Kill => {
                site.tally.add("a crash", 1);
                site.tally.add(if end == End::Power { "a power failure" } else { "a kill" }, 1);
                drop(node);
                None
            }
            End::Stop => Some(node.stop()),
        };
        site.store.ended(end);
        self.load.ended(site, end);
        if end == End::Power || site.disk.has_stopped() {
            site.disk.crash();
            return Ok(());
        }
        site.disk.kill();
        if let Some(stopped) = stopped {
            let excused = stopped.is_ok() || site.may_stop_a_shard();
            must(excused, "a graceful stop ends well", || format!("{stopped:?}"))?;
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), Violation> {
        let site = &mut self.site;
        let faults = site.setup.faults.clone();
        if !site.calm && faults.power_in_operation > 0 && site.chance.happens(150) {
            site.disk.crash_after_ops(site.chance.below(60));
        }
        if !site.calm && site.chance.happens(faults.unreachable_start) {
            site.store.refuse_next_open();
        }
        note!(site.trace, "the process starts");
        site.tally.add("a start", 1);
        site.process_starts();
        let started = self.load.start(site);
        self.start_at = site.tick + site.chance.within(1..=5);
        if site.disk.has_stopped() {
            note!(site.trace, "the power fails while it starts");
            site.tally.add("a crash", 1);
            drop(started);
            site.store.ended(End::Power);
            site.disk.crash();
            return Ok(());
        }
        match started {
            Ok(node) => {
                self.node = Some(node);
                Ok(())
            }
            Err(refusal) => self.start_was_refused(&refusal),
        }
    }

    /// A node refuses to start only on damage, and says where it is; or on a disk without any room, or where nothing
    /// answers.
    fn start_was_refused(&mut self, refusal: &str) -> Result<(), Violation> {
        let site = &mut self.site;
        note!(site.trace, "the start is refused: {refusal}");
        site.store.ended(End::Kill);
        site.disk.kill();
        if site.store.is_refused_open(refusal) {
            site.tally.add("a start that reached nobody", 1);
            return Ok(());
        }
        if site.is_full() {
            site.make_room();
            return Ok(());
        }
        if site.names_bad_sector(refusal) {
            site.tally.add("a start refused because of a bad sector", 1);
            site.mend_sectors();
            return Ok(());
        }
        must(site.names_rot(refusal), "a node starts after any crash, or names the damage", || refusal.to_owned())?;
        let has_reason = site.store.mended().is_none() || !site.is_one_byte(refusal);
        must(has_reason, "a start puts one wrong byte of a group right", || refusal.to_owned())?;
        site.tally.add("a start refused because of damage", 1);
        site.restore();
        Ok(())
    }
}
