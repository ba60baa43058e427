//! The life of the process: it starts, takes turns, and dies.

use tidegate_ledger::auditor::exchanged::differing_sums;
use tidegate_ledger::message::AuditReport;
use tidegate_ledger::operation::{Message, Outgoing};
use tidegate_ledger::router::Finished;
use tidegate_machines::TimeMs;
use tidegate_runtime::Address;

use super::LedgerWorld;
use crate::harness::End;
use crate::harness::Store;
use crate::ledger::node::{Endpoint, Node, log_id};
use crate::note;
use crate::violation::{Violation, must};

/// How long a slow page of the id index takes at most: long enough for tables to become runs, and runs larger ones.
const SLOW_PAGE_TICKS_MAX: u64 = 500;

impl<S: Store> LedgerWorld<S> {
    /// A turn for everything that has a thread on a real node.
    pub(super) fn run_process(&mut self) -> Result<(), Violation> {
        if self.node.is_none() {
            return Ok(());
        }
        for (to, message) in self.load.network.due(self.site.tick) {
            self.deliver(to, message)?;
        }
        self.step_workers()?;
        self.step_auditors()
    }

    fn deliver(&mut self, to: Address, message: Message) -> Result<(), Violation> {
        let Some(node) = &mut self.node else { return Ok(()) };
        let (mut out, mut finished) = (Outgoing::new(), Finished::new());
        match (node.endpoint(to), message) {
            (Endpoint::Worker(worker), message) => {
                if let Message::Credits { credits, .. } = &message {
                    self.site.tally.add("a credit between shards", credits.get().len() as u64);
                }
                node.workers[worker].deliver(message, &mut out, &mut finished);
            }
            (Endpoint::Edge(edge), Message::Answer { ticket, shard, answer }) => {
                node.edges[edge].answer(ticket, shard, answer, &mut out, &mut finished);
            }
            (Endpoint::Auditor(shard), Message::Answer { ticket, answer, .. }) => {
                let workers = node.workers.len() as u16;
                let answer = answer.ok().map(|answer| answer.into_inner());
                let (asked, report) = node.auditors[shard].take(ticket, answer, self.site.clock.now_ms(), workers);
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
    pub(super) fn pass_on(&mut self, from: Address, out: Outgoing, finished: Finished) -> Result<(), Violation> {
        if self.site.disk.has_stopped() {
            self.end(End::Power)
        } else {
            self.load.network.send(from, out, self.site.tick, &self.load.weather);
            self.reply(finished);
            Ok(())
        }
    }

    fn step_workers(&mut self) -> Result<(), Violation> {
        let count = self.node.as_ref().map_or(0, |node| node.workers.len());
        let first = self.site.chance.below(count.max(1) as u64) as usize;
        for turn in 0..count {
            let worker = (first + turn) % count;
            let Some(node) = &mut self.node else { return Ok(()) };
            if self.site.chance.happens(self.load.weather.slow_worker) {
                continue;
            }
            let (mut out, mut finished) = (Outgoing::new(), Finished::new());
            node.workers[worker].step(TimeMs(self.site.clock.now_ms()), &mut out, &mut finished);
            let (tick, chance, slow_pages) = (self.site.tick, &mut self.site.chance, self.load.weather.slow_pages);
            if node.reads_slowly(worker, tick) {
                let is_answer = |(_, message): &&(Address, Message)| matches!(message, Message::Answer { .. });
                let answers = finished.len() + out.iter().filter(is_answer).count();
                self.site.tally.add("an answer while a page of ids is slow", answers as u64);
            }
            let slow = || chance.happens(slow_pages).then(|| chance.within(50..=SLOW_PAGE_TICKS_MAX));
            let slowed = node.take_jobs(worker, tick, slow);
            self.site.tally.add("a slow page of ids", slowed);
            // Fetch threads are late, and end in any order.
            loop {
                // When nothing is slow any more, neither is what was begun before.
                let jobs = node.jobs(worker, if slow_pages > 0 { tick } else { u64::MAX });
                if jobs.is_empty() || self.site.chance.happens(self.load.weather.slow_read) {
                    break;
                }
                node.run_job(&self.site.store, worker, *self.site.chance.one_of(&jobs));
                self.site.tally.add("a read by another thread", 1);
            }
            self.pass_on(Node::<S>::worker_endpoint(worker), out, finished)?;
        }
        Ok(())
    }

    /// Reads some of a log again: what rests on no snapshot agrees with what is live.
    fn read_again(&mut self, shard: usize) -> Result<(), Violation> {
        let Some(node) = &mut self.node else { return Ok(()) };
        let audits = &mut node.auditors[shard];
        if !audits.is_idle() {
            return Ok(());
        }
        let read = audits.read_again(4 << 10, self.site.clock.now_ms());
        let differs = |what: String| Violation::of("the index of ids is what the journal says", what);
        let (is_over, compared) = read.map_err(differs)?;
        self.site.tally.add("a whole log read again", u64::from(is_over));
        self.site.tally.add("ids of journal and index compared", u64::from(compared));
        let rests = audits.auditor.rests_on_the_first_record();
        must(rests != Some(false), "a snapshot is what the journal says", || format!("shard {shard}"))
    }

    fn step_auditors(&mut self) -> Result<(), Violation> {
        for shard in 0..self.load.plan.shards as usize {
            if !self.site.is_calm() && self.site.tick.is_multiple_of(16) {
                self.read_again(shard)?;
            }
            if !self.site.is_calm() && self.site.chance.below(10_000) < self.load.plan.audits {
                self.begin_audit(shard)?;
            }
        }
        Ok(())
    }

    /// Every auditor begins to compare.
    pub(super) fn begin_audits(&mut self) -> Result<(), Violation> {
        (0..self.load.plan.shards as usize).try_for_each(|shard| self.begin_audit(shard))
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
        note!(self.site.trace, "audit {report:?}");
        self.site.tally.add("a reconciliation", 1);
        must(report.differences.is_empty(), "the auditor agrees with the live state", || format!("{report:?}"))?;
        if let Some(damage) = &report.damage {
            let planted = self.site.explains(log_id(report.shard), damage)
                || self.site.names_bad_sector(damage)
                || self.site.disk.has_stopped();
            must(planted, "the auditor finds damage only where there is some", || damage.clone())?;
        }
        let Some(node) = &mut self.node else { return Ok(()) };
        let folds: Vec<_> = node.auditors.iter().map(|audits| audits.auditor.folded()).collect();
        for (from, to) in folds.iter().flat_map(|from| folds.iter().map(move |to| (from, to))) {
            if from.shard() != to.shard() {
                let found = differing_sums(from, to);
                must(found.is_empty(), "what one shard sends arrives at the other", || format!("{found:?}"))?;
            }
        }
        let auditor = &mut node.auditors[report.shard as usize].auditor;
        if auditor.is_snapshot_due(self.load.plan.compaction) {
            match auditor.snapshot() {
                Ok(written) => {
                    self.site.tally.add("a snapshot", u64::from(written.is_some()));
                    note!(self.site.trace, "  snapshot {written:?}");
                }
                Err(error) => note!(self.site.trace, "  no snapshot: {error}"),
            }
        }
        Ok(())
    }
}
