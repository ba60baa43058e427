//! One process: workers, routers of edge threads and auditors over one disk, without their threads.
//!
//! Everything in here is the real code. What is missing are sockets, rings (the [`crate::ledger::network`] carries
//! messages) and the companion threads of the journals, whose work is stepped.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tidegate_journal::disk::FakeDisk;
use tidegate_journal::{Cursor, Durability, DurableMark, JournalError, LogId, LogStore, Logs};
use tidegate_ledger::auditor::{Audit, ShardAuditor};
use tidegate_ledger::changes::{ChangeLog, ChangeLogs};
use tidegate_ledger::ids::{IdIndex, IdsOptions, RunScrub};
use tidegate_ledger::message::AuditReport;
use tidegate_ledger::operation::{Answer, Message, Operation, Outgoing};
use tidegate_ledger::router::{CursorKey, Router};
use tidegate_ledger::service::{Fetched, Job};
use tidegate_ledger::{Exchanges, LEDGER, LedgerFamily, LedgerService, claim_of_index};
use tidegate_machines::ShardIndex;
use tidegate_runtime::Address;
use tidegate_runtime::scrub::LogScrub;
use tidegate_shard::{Caller, Claim, JobId, OpenShard, Service, Shard, Snapshots};

use crate::harness::{Process, Site, Store, data};
use crate::ledger::plan::Plan;
use crate::ledger::worker::{SimShard, Worker, endpoint, shard_addresses};
use crate::note;

/// The random number that the data directory got.
pub const DIRECTORY_ID: u64 = 0x7464_6174_6131_0001;

/// Signs cursors.
const CURSORS: CursorKey = CursorKey([0x7369_6d31, 0x7369_6d32]);

/// What reads a shard's log.
pub type SimReader<S> = <<S as Store>::Log as LogStore>::Reader;

/// The log of a shard.
pub fn log_id(shard: u16) -> LogId {
    LEDGER.log(DIRECTORY_ID, shard)
}

/// A running process.
pub struct Node<S: Store> {
    /// Its workers, which are the first endpoints.
    pub workers: Vec<Worker<S>>,
    /// The routers of its edge threads, which are the next.
    pub edges: Vec<Router>,
    /// One auditor per shard; on a real node they share a thread.
    pub auditors: Vec<Audits<S>>,
    /// Its journals, for readers of changes.
    pub changes: ChangeLogs<SimReader<S>>,
    /// Reads that the shards of each worker have asked for and that no fetch thread has done yet.
    jobs: Vec<Vec<Reading>>,
}

/// A read that a shard has asked for.
struct Reading {
    /// It is not done before this tick.
    from: u64,
    shard: ShardIndex,
    id: JobId,
    job: Job<FakeDisk>,
}

/// What an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A worker.
    Worker(usize),
    /// The router of an edge thread.
    Edge(usize),
    /// An auditor.
    Auditor(usize),
}

/// One shard's auditor and where it stands.
pub struct Audits<S: Store> {
    /// The real one.
    pub auditor: ShardAuditor<FakeDisk, SimReader<S>>,
    /// The reading of its log again.
    pub scrub: LogScrub<SimReader<S>>,
    /// The reading of its runs of ids again.
    runs: RunScrub<FakeDisk>,
    reads_runs: bool,
    endpoint: Address,
    /// The question that is under way.
    asked: Option<u64>,
    questions: u64,
}

impl<S: Store> Node<S> {
    /// Starts a process: opens logs and id indexes, replays, and gives every shard to its worker. `Err` in the words
    /// that an operator would read.
    pub fn start(site: &Site<S>, plan: &Plan, workers: u16) -> Result<Node<S>, String> {
        let mut shares: Vec<Vec<SimShard<S>>> = (0..workers).map(|_| Vec::new()).collect();
        let (mut recovered, mut change_logs) = (Vec::new(), Vec::new());
        let (changes, exchanges) = (ChangeLogs::default(), Exchanges::of(plan.shards.into()));
        for shard in 0..plan.shards {
            let mark = |durable: &Durability| Arc::new(DurableMark::new(durable, changes.listeners().clone()));
            let (served, durable, runs, changes) = recover(site, plan, shard, mark)?;
            change_logs.push(changes);
            exchanges.note(served.state_ahead(), "accept-loss").map_err(|error| error.to_string())?;
            shares[(shard % workers) as usize].push(served);
            recovered.push((durable, runs));
        }
        let worker_with = |(index, shards)| Worker::new(index as u16, plan.shards, workers, CURSORS, shards);
        let edges = (workers..workers + plan.edges)
            .map(|index| Router::new(endpoint(index), shard_addresses(plan.shards, workers), CURSORS));
        changes.open(change_logs, CURSORS);
        let mut auditors = Vec::new();
        for (shard, (durable, runs)) in (0..plan.shards).zip(recovered) {
            let reader = site.store.served().reader(log_id(shard)).map_err(|error| error.to_string())?;
            let mut auditor = ShardAuditor::open(snapshots(&site.disk, shard), reader, &durable, plan.shards);
            let endpoint = endpoint(workers + plan.edges + shard);
            let scrub = auditor.scrub(Arc::default()).map_err(|error| error.to_string())?;
            auditors.push(Audits { auditor, scrub, runs, reads_runs: false, endpoint, asked: None, questions: 0 });
        }
        Ok(Node {
            workers: shares.into_iter().enumerate().map(worker_with).collect(),
            edges: edges.collect(),
            auditors,
            changes,
            jobs: (0..workers).map(|_| Vec::new()).collect(),
        })
    }

    /// What is at this endpoint.
    pub fn endpoint(&self, index: Address) -> Endpoint {
        let index = usize::from(index.endpoint.0);
        let (workers, edges) = (self.workers.len(), self.edges.len());
        if index < workers {
            Endpoint::Worker(index)
        } else if index < workers + edges {
            Endpoint::Edge(index - workers)
        } else {
            Endpoint::Auditor(index - workers - edges)
        }
    }

    /// The endpoint of a worker.
    pub fn worker_endpoint(worker: usize) -> Address {
        endpoint(worker as u16)
    }

    /// The endpoint of an edge.
    pub fn edge_endpoint(&self, edge: usize) -> Address {
        endpoint((self.workers.len() + edge) as u16)
    }

    /// A shard.
    pub fn shard(&self, shard: u16) -> &SimShard<S> {
        let shards = self.workers.iter().flat_map(|worker| worker.shards());
        shards.into_iter().find(|owned| owned.index() == ShardIndex(shard)).expect("every shard has a worker")
    }

    /// Takes the reads that a worker's shards want done; those of pages of ids are begun `slow` ticks later than at
    /// `tick`, if that says so. How many are.
    pub fn take_jobs(&mut self, worker: usize, tick: u64, mut slow: impl FnMut() -> Option<u64>) -> u64 {
        let mut slowed = 0;
        while let Some((shard, id, job)) = self.workers[worker].take_job() {
            let ticks = match &job {
                Job::Ids(wanted) if wanted.reads_pages() => slow().unwrap_or(0),
                _ => 0,
            };
            slowed += u64::from(ticks > 0);
            self.jobs[worker].push(Reading { from: tick + ticks, shard, id, job });
        }
        slowed
    }

    /// The reads that may be done at `tick` for a worker.
    pub fn jobs(&self, worker: usize, tick: u64) -> Vec<usize> {
        (0..self.jobs[worker].len()).filter(|nth| self.jobs[worker][*nth].from <= tick).collect()
    }

    /// Whether a slow read of a worker is not done yet at `tick`.
    pub fn reads_slowly(&self, worker: usize, tick: u64) -> bool {
        self.jobs[worker].iter().any(|reading| reading.from > tick)
    }

    /// Does one of them, as a fetch thread would, and brings what it found.
    pub fn run_job(&mut self, store: &S, worker: usize, nth: usize) {
        let Reading { shard, id, job, .. } = self.jobs[worker].swap_remove(nth);
        // A disk that has stopped gives no reader; the process ends before anybody notices what is missing.
        let Ok(reader) = store.served().reader(log_id(shard.0)) else { return };
        let found: Fetched = LedgerService::<FakeDisk>::run(job, &reader);
        self.workers[worker].fetched(shard, id, found);
    }

    /// Whether all that was accepted is decided, durable and answered.
    pub fn is_idle(&self) -> bool {
        self.workers.iter().all(Worker::is_idle) && self.edges.iter().all(|edge| edge.pending() == 0)
    }

    /// Whether every credit between shards has arrived and is known to have.
    pub fn has_settled(&self, shards: u16) -> bool {
        let pairs = (0..shards).flat_map(|from| (0..shards).map(move |to| (from, to))).filter(|(from, to)| from != to);
        pairs.into_iter().all(|(from, to)| {
            let sent = self.shard(from).state_ahead().outbound_last(ShardIndex(to));
            let confirmed = self.shard(from).state_ahead().outbound_confirmed(ShardIndex(to));
            sent == confirmed && sent == self.shard(to).state_ahead().watermark(ShardIndex(from))
        })
    }
}

impl<S: Store> Process for Node<S> {
    fn failure(&self) -> Option<String> {
        self.workers.iter().find_map(Worker::failure)
    }

    fn stop(self) -> Result<(), JournalError> {
        self.workers.into_iter().try_for_each(Worker::stop)
    }
}

/// The snapshots of a shard.
pub fn snapshots(disk: &FakeDisk, shard: u16) -> Snapshots<LedgerFamily, FakeDisk> {
    Snapshots::new(disk.clone(), data(), log_id(shard))
}

fn ids_folder(shard: u16) -> PathBuf {
    data().join("ids").join(format!("ledger-{shard}"))
}

/// How far the id index of a shard says that the shard's log was durable.
pub fn claim_of_ids(disk: &FakeDisk, shard: u16) -> Option<Claim> {
    claim_of_index(disk, ids_folder(shard), log_id(shard))
}

/// A shard, how much of its log was durable, what reads its runs of ids again, and its log for readers of changes.
type Recovered<S> = (SimShard<S>, Durability, RunScrub<FakeDisk>, ChangeLog<SimReader<S>>);

fn recover<S: Store>(
    site: &Site<S>,
    plan: &Plan,
    shard: u16,
    mark: impl FnOnce(&Durability) -> Arc<DurableMark>,
) -> Result<Recovered<S>, String> {
    let disk = &site.disk;
    let claims: Vec<Claim> = claim_of_ids(disk, shard).into_iter().collect();
    let open = OpenShard::open_with(&site.store.served(), snapshots(disk, shard), plan.journal, &claims)
        .map_err(|error| error.to_string())?;
    let (durable, cut) = (open.recovered().durability(), open.recovered().bytes_cut);
    let folder = ids_folder(shard);
    let ids = IdsOptions { log: log_id(shard), ..plan.ids };
    let opened = IdIndex::open(disk.clone(), &folder, ids, durable.position(), &mut |_, _| {})
        .map_err(|error| error.to_string())?;
    let mut ids = opened.index;
    let back = open.replay(plan.shards, &mut ids, |_| {}).map_err(|error| error.to_string())?;
    let (log, report) = (back.log, back.report);
    note!(
        site.trace,
        "  shard {shard}: sequence {} cut {cut} snapshot {} passed over {:?} events {} ids {} discarded {:?}",
        log.last_sequence(),
        report.snapshot_sequence,
        report.snapshots_passed_over,
        report.events,
        report.derived_only,
        opened.discarded,
    );
    let runs = ids.scrub();
    let (reader, mark) = (log.reader().map_err(|error| error.to_string())?, mark(&durable));
    let mut service = LedgerService::new(&back.state, ids, log.last_sequence());
    service.show_durable(mark.clone());
    service.set_decisions_per_step(plan.decisions_per_step);
    let mut shard = Shard::new(ShardIndex(shard), back.state, service, log).map_err(|error| error.to_string())?;
    shard.set_round(plan.round);
    Ok((shard, durable, runs, ChangeLog { reader: Mutex::new(reader), mark, seen: Arc::default() }))
}

impl<S: Store> Audits<S> {
    /// Where answers to it go.
    pub fn endpoint(&self) -> Address {
        self.endpoint
    }

    /// Whether no question is under way.
    pub fn is_idle(&self) -> bool {
        self.asked.is_none()
    }

    /// Reads about `bytes` of its log again, or of its runs of ids. Whether a pass over the log has ended, and whether
    /// the ids of both were compared; `Err` says in what they differ.
    pub fn read_again(&mut self, bytes: u64, now_ms: u64) -> Result<(bool, bool), String> {
        if !self.reads_runs {
            if self.scrub.at() == Cursor::START {
                self.auditor.begin_ids(self.runs.begin_digest());
            }
            let is_over = self.auditor.read_again(&mut self.scrub, bytes, now_ms);
            if is_over && let Some(end) = self.auditor.end_ids() {
                self.runs.sum_up_to(end);
                self.reads_runs = true;
            }
            return Ok((is_over, false));
        }
        let read = self.runs.step(bytes);
        self.reads_runs = read.ended.is_none() && read.damage.is_none();
        let before = self.auditor.ids_compared();
        match read.digest.and_then(|digest| self.auditor.compare_ids(digest)) {
            Some(what) => Err(what),
            None => Ok((false, self.auditor.ids_compared() > before)),
        }
    }

    /// Begins to compare.
    pub fn begin(&mut self, workers: u16) -> Outgoing {
        let audit = self.auditor.begin();
        self.next(audit, workers).0
    }

    /// Takes an answer of the shard; the report, when that was the last one.
    pub fn take(
        &mut self,
        ticket: u64,
        answer: Option<Answer>,
        now_ms: u64,
        workers: u16,
    ) -> (Outgoing, Option<AuditReport>) {
        if self.asked != Some(ticket) {
            return (Vec::new(), None);
        }
        self.asked = None;
        match answer {
            Some(answer) => {
                let audit = self.auditor.take(answer, now_ms);
                self.next(audit, workers)
            }
            None => (Vec::new(), None),
        }
    }

    fn next(&mut self, audit: Audit, workers: u16) -> (Outgoing, Option<AuditReport>) {
        self.questions += 1;
        match audit {
            Audit::Ask(question) => {
                self.asked = Some(self.questions);
                (self.call(question, workers), None)
            }
            Audit::Finished(report) => {
                // A snapshot is written with the report, and the ids are covered behind it.
                let mut calls = self.call(Operation::KeepAudit(Box::new(report.clone())), workers);
                calls.extend(self.call(Operation::CoverIds, workers));
                (calls, Some(report))
            }
        }
    }

    fn call(&self, operation: Operation, workers: u16) -> Outgoing {
        let shard = self.auditor.shard();
        let call =
            Message::Call { from: self.endpoint, ticket: self.questions, caller: Caller::SERVER, shard, operation };
        vec![(endpoint(shard.0 % workers), call)]
    }
}
