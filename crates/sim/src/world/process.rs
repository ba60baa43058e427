//! The life of the process: it starts, takes turns, and dies.

use tidegate_journal::step::Step;
use tidegate_ledger::message::AuditReport;
use tidegate_ledger::operation::{EndpointIndex, Message, Outgoing};
use tidegate_ledger::router::Finished;
use tidegate_machines::TimeMs;

use super::World;
use crate::node::{Endpoint, Node};
use crate::note;
use crate::violation::{Violation, must};

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With the machine: what was not synced is lost, kept or torn.
    Power,
    /// By a signal: the page cache survives it.
    Kill,
    /// As it should.
    Stop,
}

impl World {
    /// A turn for everything that has a thread on a real node.
    pub(super) fn run_process(&mut self) -> Result<(), Violation> {
        if self.node.is_none() {
            if self.tick >= self.start_at {
                self.start()?;
            }
            return Ok(());
        }
        for (to, message) in self.network.due(self.tick) {
            self.deliver(to, message)?;
        }
        self.step_workers()?;
        self.step_logs();
        self.step_auditors()?;
        self.look_for_failures()
    }

    fn deliver(&mut self, to: EndpointIndex, message: Message) -> Result<(), Violation> {
        let Some(node) = &mut self.node else { return Ok(()) };
        let (mut out, mut finished) = (Outgoing::new(), Finished::new());
        match (node.endpoint(to), message) {
            (Endpoint::Worker(worker), message) => {
                if let Message::Credits { credits, .. } = &message {
                    self.tally.credits += credits.get().len() as u64;
                }
                node.workers[worker].deliver(message, &mut out, &mut finished);
            }
            (Endpoint::Edge(edge), Message::Answer { ticket, shard, answer }) => {
                node.edges[edge].answer(ticket, shard, answer, &mut out, &mut finished);
            }
            (Endpoint::Auditor(shard), Message::Answer { ticket, answer, .. }) => {
                let workers = node.workers.len() as u16;
                let answer = answer.ok().map(|answer| answer.into_inner());
                let (asked, report) = node.auditors[shard].take(ticket, answer, self.now_ms, workers);
                out = asked;
                if let Some(report) = report {
                    self.reconciled(&report)?;
                }
            }
            (endpoint, other) => unreachable!("{other:?} is not for {endpoint:?}"),
        }
        self.pass_on(to, out, finished)
    }

    /// What an endpoint made leaves it, unless the machine stopped meanwhile: then nothing did.
    pub(super) fn pass_on(&mut self, from: EndpointIndex, out: Outgoing, finished: Finished) -> Result<(), Violation> {
        if self.disk.has_stopped() {
            self.end(End::Power)
        } else {
            self.network.send(from, out, self.tick, &self.weather);
            self.reply(finished);
            Ok(())
        }
    }

    fn step_workers(&mut self) -> Result<(), Violation> {
        let count = self.node.as_ref().map_or(0, |node| node.workers.len());
        let first = self.chance.below(count.max(1) as u64) as usize;
        for turn in 0..count {
            let worker = (first + turn) % count;
            let Some(node) = &mut self.node else { return Ok(()) };
            if self.chance.happens(self.weather.slow_worker) {
                continue;
            }
            let (mut out, mut finished) = (Outgoing::new(), Finished::new());
            node.workers[worker].step(TimeMs(self.now_ms), &mut out, &mut finished);
            node.take_jobs(worker);
            // Fetch threads are late, and end in any order.
            while node.jobs(worker) > 0 && !self.chance.happens(self.weather.slow_disk) {
                let nth = self.chance.below(node.jobs(worker) as u64) as usize;
                node.run_job(&self.disk, worker, nth);
                self.tally.jobs += 1;
            }
            self.pass_on(Node::worker_endpoint(worker), out, finished)?;
        }
        Ok(())
    }

    /// What the companion threads of the journals do. A failure is the shard's to notice.
    fn step_logs(&mut self) {
        let Some(node) = &mut self.node else { return };
        for (shard, log) in node.logs() {
            if self.damage.is_stalled(shard, self.tick) || self.chance.happens(self.weather.slow_disk) {
                continue;
            }
            for _ in 0..self.chance.within(1..=3) {
                match log.step() {
                    Ok(Step::Idle) => break,
                    Ok(step) => note!(self.trace, "  log {shard} {step:?}"),
                    Err(error) => {
                        note!(self.trace, "  log {shard} failed: {error}");
                        break;
                    }
                }
            }
        }
    }

    fn step_auditors(&mut self) -> Result<(), Violation> {
        for shard in 0..self.plan.shards as usize {
            if !self.calm && self.chance.below(10_000) < self.plan.audits {
                self.begin_audit(shard)?;
            }
        }
        Ok(())
    }

    /// Every auditor begins to compare.
    pub(super) fn begin_audits(&mut self) -> Result<(), Violation> {
        (0..self.plan.shards as usize).try_for_each(|shard| self.begin_audit(shard))
    }

    fn begin_audit(&mut self, shard: usize) -> Result<(), Violation> {
        let Some(node) = &mut self.node else { return Ok(()) };
        let workers = node.workers.len() as u16;
        let audits = &mut node.auditors[shard];
        if !audits.is_idle() {
            return Ok(());
        }
        let (endpoint, out) = (audits.endpoint(), audits.begin(workers));
        self.pass_on(endpoint, out, Finished::new())
    }

    /// A reconciliation has ended; after some, a snapshot is written.
    pub(super) fn reconciled(&mut self, report: &AuditReport) -> Result<(), Violation> {
        note!(self.trace, "audit {report:?}");
        self.tally.audits += 1;
        must(report.differences.is_empty(), "the auditor agrees with the live balances", || format!("{report:?}"))?;
        if let Some(damage) = &report.damage {
            let planted = self.damage.explains(&self.disk, report.shard, damage) || self.disk.has_stopped();
            must(planted, "the auditor finds damage only where there is some", || damage.clone())?;
        }
        let Some(node) = &mut self.node else { return Ok(()) };
        let auditor = &mut node.auditors[report.shard as usize].auditor;
        if auditor.is_snapshot_due(self.plan.compaction) {
            match auditor.snapshot() {
                Ok(written) => {
                    self.tally.snapshots += u64::from(written.is_some());
                    note!(self.trace, "  snapshot {written:?}");
                }
                Err(error) => note!(self.trace, "  no snapshot: {error}"),
            }
        }
        Ok(())
    }

    /// A shard stops itself only for a reason, and then the process is restarted.
    fn look_for_failures(&mut self) -> Result<(), Violation> {
        if self.disk.has_stopped() && self.node.is_some() {
            return self.end(End::Power);
        }
        let Some(node) = &self.node else { return Ok(()) };
        let Some(failure) = node.workers.iter().find_map(|worker| worker.failure()) else { return Ok(()) };
        let failure = failure.to_string();
        must(self.damage.may_stop_a_shard(&self.disk), "a shard stops only for a fault of the disk", || {
            failure.clone()
        })?;
        if self.calm || self.chance.happens(100) {
            note!(self.trace, "a shard stopped: {failure}");
            self.tally.stopped_shards += 1;
            self.end(End::Kill)?;
        }
        Ok(())
    }

    /// The process ends, and its memory with it.
    pub(super) fn end(&mut self, end: End) -> Result<(), Violation> {
        let Some(node) = self.node.take() else { return Ok(()) };
        note!(self.trace, "the process ends by {end:?}");
        self.network.clear();
        self.start_at = self.tick + self.chance.within(1..=20);
        match end {
            End::Power => {
                drop(node);
                self.disk.crash();
                self.tally.crashes += 1;
            }
            End::Kill => {
                drop(node);
                self.disk.kill();
                self.tally.crashes += 1;
            }
            End::Stop => {
                let stopped = node.stop();
                if self.disk.has_stopped() {
                    self.disk.crash();
                    return Ok(());
                }
                let excused = stopped.is_ok() || self.damage.may_stop_a_shard(&self.disk);
                must(excused, "a graceful stop ends well", || format!("{stopped:?}"))?;
                self.disk.kill();
            }
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), Violation> {
        let workers = self.chance.within(1..=3) as u16;
        if !self.calm && self.plan.faults.power_in_operation > 0 && self.chance.happens(150) {
            self.disk.crash_after_ops(self.chance.below(60));
        }
        note!(self.trace, "the process starts with {workers} workers");
        self.tally.starts += 1;
        let started = Node::start(&self.disk, &self.plan, workers, &self.trace);
        self.start_at = self.tick + self.chance.within(1..=5);
        if self.disk.has_stopped() {
            note!(self.trace, "the power fails while it starts");
            self.tally.crashes += 1;
            self.disk.crash();
            return Ok(());
        }
        match started {
            Ok(node) => {
                self.node = Some(node);
                self.damage.process_started();
                Ok(())
            }
            Err(refusal) => self.start_was_refused(&refusal),
        }
    }

    /// A node refuses to start only on damage, and says where it is; or on a disk without any room.
    fn start_was_refused(&mut self, refusal: &str) -> Result<(), Violation> {
        note!(self.trace, "the start is refused: {refusal}");
        self.disk.kill();
        if self.damage.is_full() {
            self.make_room();
            return Ok(());
        }
        let named = self.damage.names_rot(&self.disk, refusal);
        must(named, "a node starts after any crash, or names the damage", || refusal.to_owned())?;
        self.tally.refused_starts += 1;
        self.restore();
        Ok(())
    }
}
