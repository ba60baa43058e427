//! The auditor's schedule: reconcile every shard, write its snapshot; meanwhile read all that is stored again.
//!
//! Why at low priority: the audit must not delay votes. What it reads is durable, so it can be read later.

mod rounds;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, Durability, DurableMark, Key, LogId, Position};
use tidegate_machines::ShardIndex;
use tidegate_runtime::background::Background;
use tidegate_runtime::damage::Owner;
use tidegate_runtime::log_keeper::{Budget, Scrubbed};
use tidegate_runtime::recovery::NodeReader;
use tidegate_runtime::threads::now_ms;
use tidegate_runtime::{Carries, SnapshotWatch, Status};
use tidegate_shard::{ShardFamily, Snapshots};

use super::OperationClient;
use crate::auditor::exchanged::{Found, LivePeers, Waiting, differing_sums};
use crate::auditor::{Audit, ShardAuditor, conservation};
use crate::family::{LEDGER, LedgerFamily};
use crate::ids::RunScrub;
use crate::message::{AuditDifference, AuditReport, AuditState};
use crate::operation::{Answer, Message, Operation};

pub use rounds::Schedule;
use rounds::{Round, Rounds};

/// How often the thread looks whether it should stop, and reads on.
const NAP: Duration = Duration::from_millis(100);
/// How often a shard is told how far its reading is.
const TELL: Duration = Duration::from_secs(1);
/// The auditors of all shards on the background thread.
///
/// Why they are opened there, and not before the node serves: each reads a snapshot of all accounts for its own fold,
/// which takes as long as the recovery did that the clients have just waited for.
pub struct AuditLoop<P> {
    background: Background<P, OperationClient>,
    data: PathBuf,
    key: Option<Key>,
    /// Those that are not open yet, in the order of their shards.
    unopened: VecDeque<(AuditedLog, Scrubbed, SnapshotWatch)>,
    shards: Vec<Audited>,
    schedule: Schedule,
    budget: Budget,
    /// Whose turn it is to be read again.
    turn: usize,
    /// Credits on their way between shards.
    waiting: Waiting,
    /// Whom health asks.
    status: Arc<Status>,
}

/// What the auditor of one shard needs of its recovery.
pub struct AuditedLog {
    /// Which log.
    pub log: LogId,
    /// Reads it.
    pub reader: NodeReader,
    /// How much of it was durable when it was opened.
    pub recovered: Durability,
    /// How far it is durable now.
    pub mark: Arc<DurableMark>,
    /// Reads its index of ids.
    pub runs: RunScrub<RealDisk>,
}

/// One shard.
struct Audited {
    auditor: ShardAuditor<RealDisk, NodeReader>,
    /// Its log, read again.
    scrubbed: Scrubbed,
    /// Its index of ids, read again.
    runs: RunScrub<RealDisk>,
    reading: Reading,
    /// Whom to tell of its snapshots.
    watch: SnapshotWatch,
    /// The last report.
    report: AuditReport,
    /// The damage that the log has been told of.
    told_damage: Option<String>,
    told: Instant,
}

/// What of a shard is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// The journal.
    Log,
    /// The runs of ids, since this pass over them began.
    Runs(u64),
}

impl Audited {
    fn open(
        (data, key): (&Path, Option<&Key>),
        (log, scrubbed, watch): (AuditedLog, Scrubbed, SnapshotWatch),
        shards: u16,
    ) -> Audited {
        let AuditedLog { log, reader, recovered, runs, .. } = log;
        let snapshots = Snapshots::new(RealDisk, data, log).with_key(key);
        let mut auditor = ShardAuditor::open(snapshots, reader, &recovered, shards);
        auditor.report_damage_of(scrubbed.scrub.damages().clone());
        let report = AuditReport { shard: log.shard, ..AuditReport::default() };
        let (reading, told) = (Reading::Log, Instant::now());
        Audited { auditor, scrubbed, runs, reading, watch, report, told_damage: None, told }
    }

    /// Reads on. Returns bytes read, and whether a pass over all has ended.
    fn read_again(&mut self, bytes: u64) -> (u64, bool) {
        let Audited { auditor, scrubbed, runs, reading, .. } = self;
        match *reading {
            Reading::Log => {
                let before = scrubbed.scrub.facts().bytes;
                if scrubbed.scrub.at() == Cursor::START {
                    auditor.begin_ids(runs.begin_digest());
                }
                if scrubbed.go_on_with(|scrub| auditor.read_again(scrub, bytes, now_ms().0)) {
                    if let Some(end) = auditor.end_ids() {
                        runs.sum_up_to(end);
                    }
                    *reading = Reading::Runs(scrubbed.scrub.damages().begin_pass());
                }
                (scrubbed.scrub.facts().bytes - before, false)
            }
            Reading::Runs(pass) => {
                let read = runs.step(bytes);
                let (damages, owner) = (scrubbed.scrub.damages().clone(), Owner::Ids(auditor.log()));
                if let Some(damage) = read.damage {
                    damages.note(owner, auditor.shard().0, damage);
                }
                if let Some(what) = read.digest.and_then(|digest| auditor.compare_ids(digest)) {
                    let shard = auditor.shard().0;
                    tracing::error!(
                        shard,
                        what,
                        "the index of ids is not what the journal says: restart to rebuild it"
                    );
                    runs.condemn(&what);
                }
                if let Some(entries) = read.ended {
                    damages.mend(owner, pass, Position(u64::MAX));
                    scrubbed.tell(&format!("and {entries} ids of its index"));
                    *reading = Reading::Log;
                }
                (read.bytes, read.ended.is_some())
            }
        }
    }
}

impl<P: Carries<Message>> AuditLoop<P> {
    /// An auditor per shard, in the order of the shards; they read no more than `scrub_bytes_per_s` again, and tell
    /// `status` if something differs. Reads nothing yet.
    pub fn new(
        background: Background<P, OperationClient>,
        directory: &Directory,
        logs: Vec<(AuditedLog, Scrubbed, SnapshotWatch)>,
        schedule: Schedule,
        scrub_bytes_per_s: u64,
        status: Arc<Status>,
    ) -> AuditLoop<P> {
        let (unopened, shards) = (logs.into(), Vec::new());
        let (data, key) = (directory.path().to_owned(), directory.key().cloned());
        let budget = Budget::new(scrub_bytes_per_s);
        AuditLoop {
            background,
            data,
            key,
            unopened,
            shards,
            schedule,
            budget,
            turn: 0,
            waiting: Waiting::default(),
            status,
        }
    }

    /// Opens the auditors, each of which begins at the newest snapshot, if it may.
    fn open_all(&mut self, stopped: &dyn Fn() -> bool) {
        let count = self.unopened.len() as u16;
        while !stopped()
            && let Some(log) = self.unopened.pop_front()
        {
            let begun = Instant::now();
            let opened = Audited::open((&self.data, self.key.as_ref()), log, count);
            let (shard, sequence) = (opened.auditor.shard().0, opened.auditor.begins_behind().0);
            let took_ms = begun.elapsed().as_millis() as u64;
            tracing::info!(family = LEDGER.name, shard, sequence, took_ms, "the auditor begins behind this record");
            self.shards.push(opened);
        }
    }

    /// Audits on schedule, and reads again, until `stopped`.
    pub fn run(mut self, stopped: &dyn Fn() -> bool) {
        self.open_all(stopped);
        let start = Instant::now();
        let mut rounds = Rounds::of(self.schedule);
        while !stopped() {
            if rounds.is_look_due(start.elapsed()) {
                self.look_again(stopped);
            }
            if self.status.take_asked_audit() {
                rounds.ask();
            }
            match rounds.next(self.met_damage(), start.elapsed()) {
                Round::None => {
                    self.read_again(stopped);
                    std::thread::sleep(NAP);
                }
                Round::Audit { with_snapshots } => {
                    let began = start.elapsed();
                    self.audit_all(with_snapshots, stopped);
                    rounds.made(with_snapshots, began..start.elapsed());
                }
            }
        }
    }

    /// Whether the last audit of some shard met something that cannot be read.
    fn met_damage(&self) -> bool {
        self.shards.iter().any(|shard| shard.report.damage.is_some())
    }

    /// Looks again at damaged places, and tells the shards for which some is sound by now.
    fn look_again(&mut self, stopped: &dyn Fn() -> bool) {
        for index in 0..self.shards.len() {
            let shard = &mut self.shards[index];
            if shard.scrubbed.look_again() {
                shard.auditor.refresh(&mut shard.report);
                self.keep_report(index, stopped);
            }
        }
    }

    /// Gives a shard its report, to be shown by it.
    fn keep_report(&mut self, index: usize, stopped: &dyn Fn() -> bool) {
        let shard = &mut self.shards[index];
        shard.told = Instant::now();
        let (of, report) = (shard.auditor.shard(), shard.report.clone());
        let _ = self.background.ask((of, Operation::KeepAudit(Box::new(report))), stopped);
        self.tell_status();
    }

    /// Reads again what may be read by now, one shard after the other.
    fn read_again(&mut self, stopped: &dyn Fn() -> bool) {
        let Some(bytes) = self.budget.take() else { return };
        let Some(shard) = self.shards.get_mut(self.turn) else { return };
        if shard.reading == Reading::Log && !shard.scrubbed.is_due() {
            self.turn = (self.turn + 1) % self.shards.len();
            return;
        }
        let told = shard.auditor.rests_on_the_first_record();
        let (read, is_over) = shard.read_again(bytes);
        self.budget.count(read);
        let rests = shard.auditor.rests_on_the_first_record();
        shard.auditor.refresh(&mut shard.report);
        if told != rests {
            tell_first_fold(&shard.report, rests);
        }
        if is_over || told != rests || shard.told.elapsed() >= TELL {
            self.keep_report(self.turn, stopped);
        }
        if is_over {
            self.turn = (self.turn + 1) % self.shards.len();
        }
    }

    fn tell_status(&self) {
        // What `/v1/audit` shows and what `/healthz` says is one judgement.
        let judged = |state| self.shards.iter().filter(|shard| shard.report.state() == state).count() as u32;
        self.status.set_differing_shards(judged(AuditState::Differs));
        self.status.set_wrong_shards(self.shards.iter().filter(|shard| shard.report.is_state_wrong()).count() as u32);
        self.status.set_unread_shards(judged(AuditState::Damaged));
    }

    /// A round: every shard is compared, then the money over all of them, then snapshots are written.
    fn audit_all(&mut self, snapshot_due: bool, stopped: &dyn Fn() -> bool) {
        let mut compared = true;
        for index in 0..self.shards.len() {
            compared &= self.audit(index, stopped);
        }
        let not_arrived = if compared { self.conserve(stopped) } else { Vec::new() };
        for index in 0..self.shards.len() {
            let Audited { auditor, report, told_damage, .. } = &mut self.shards[index];
            tell_damage(report, told_damage);
            tell(report);
            let shard = auditor.shard();
            // Damage of old records is no reason to go without a snapshot: the next start reads so much less. Nor is
            // what did not arrive: each shard is what its own log says.
            let sound = report.differences.is_empty() && report.finished_at_ms > 0;
            let of_shard = not_arrived.iter().filter(|(of, _)| *of == shard);
            for (_, difference) in of_shard {
                tell_not_arrived(shard, difference);
                report.differences.push(difference.clone());
            }
            let report = report.clone();
            let _ = self.background.ask((shard, Operation::KeepAudit(Box::new(report))), stopped);
            if sound {
                self.snapshot(index, snapshot_due, stopped);
            }
        }
        self.tell_status();
    }

    /// Compares one shard. False when it did not come to its end: the shard has failed, or the process stops.
    fn audit(&mut self, index: usize, stopped: &dyn Fn() -> bool) -> bool {
        let auditor = &mut self.shards[index].auditor;
        let shard = auditor.shard();
        let mut next = auditor.begin();
        loop {
            match next {
                Audit::Finished(report) => {
                    self.shards[index].report = report;
                    return true;
                }
                Audit::Ask(operation) => match self.background.ask((shard, operation), stopped) {
                    Some(Ok(answer)) => next = auditor.take(answer, now_ms().0),
                    Some(Err(_)) | None => return false,
                },
            }
        }
    }

    /// Adds up the money over all shards. What they had sent is asked after what they had taken in. Returns what has
    /// not arrived where it was sent.
    fn conserve(&mut self, stopped: &dyn Fn() -> bool) -> Vec<Found> {
        let mut live: Vec<LivePeers> = Vec::new();
        for shard in (0..self.shards.len()).map(|shard| ShardIndex(shard as u16)) {
            match self.background.ask((shard, Operation::ReadPeers), stopped) {
                Some(Ok(Answer::Peers { peers, waits, .. })) => live.push((peers, waits)),
                _ => return Vec::new(),
            }
        }
        let mut not_arrived = self.waiting.observe(&live, now_ms().0);
        let folds: Vec<_> = self.shards.iter().map(|shard| shard.auditor.folded()).collect();
        for from in &folds {
            let others = folds.iter().filter(|to| to.shard() != from.shard());
            not_arrived.extend(others.flat_map(|to| differing_sums(from, to)));
        }
        let sent: Vec<_> = live.into_iter().map(|(peers, _)| peers).collect();
        let totals: Vec<_> = self.shards.iter().map(|shard| shard.report.totals.clone()).collect();
        let conservation = conservation(&totals, &sent);
        for shard in &mut self.shards {
            shard.report.conservation = conservation.clone();
        }
        not_arrived
    }

    fn snapshot(&mut self, index: usize, snapshot_due: bool, stopped: &dyn Fn() -> bool) {
        let Audited { auditor, watch, .. } = &mut self.shards[index];
        let shard = auditor.shard();
        if snapshot_due || auditor.is_snapshot_due(LedgerFamily::COMPACTION) {
            match auditor.snapshot() {
                Ok(Some(written)) => {
                    watch.wrote(&written);
                    let path = written.path.display();
                    tracing::info!(family = LEDGER.name, shard = shard.0, %path, "wrote a snapshot");
                    let _ = self.background.ask((shard, Operation::CoverIds), stopped);
                }
                Ok(None) => watch.works(),
                Err(error) => watch.fails(error.to_string()),
            }
        }
    }
}

fn tell_first_fold(report: &AuditReport, rests: Option<bool>) {
    let (shard, sequence) = (report.shard, report.first_fold.sequence);
    match rests {
        Some(true) => tracing::info!(shard, sequence, "the live state follows from the first record of the journal"),
        Some(false) => {
            let why =
                "the snapshot that this process began from is not what the journal says: stop, remove it, start again";
            tracing::error!(shard, sequence, "{why}");
            tell(report);
        }
        None => {}
    }
}

fn tell_not_arrived(shard: ShardIndex, difference: &AuditDifference) {
    tracing::error!(
        shard = shard.0,
        from = %difference.account,
        taken_in = difference.live_text(),
        sent = difference.journal_text(),
        "what another shard has sent did not arrive: money is missing between the two"
    );
}

/// Says which damage an audit met, if it is not the one that was said last: it may stand for days, and an audit is made
/// each minute.
fn tell_damage(report: &AuditReport, told: &mut Option<String>) {
    if report.damage == *told {
        return;
    }
    told.clone_from(&report.damage);
    if let Some(damage) = &report.damage {
        tracing::error!(shard = report.shard, damage, "the audit met damage in the journal");
    }
}

fn tell(report: &AuditReport) {
    for difference in &report.differences {
        tracing::error!(
            shard = report.shard,
            account = %difference.account,
            hold = difference.hold.as_deref().unwrap_or(""),
            figure = difference.figure,
            live = difference.live_text(),
            journal = difference.journal_text(),
            agreed_at_sequence = difference.agreed_at_sequence,
            "a live figure is not what the journal says"
        );
    }
    if report.is_state_wrong() {
        tracing::error!(
            shard = report.shard,
            "nothing new is decided on this shard until it is what its journal says: keep a copy of the data \
             directory, and restart"
        );
    }
    for of in report.conservation.iter().filter(|of| of.sum != 0 || of.in_transit < 0) {
        let (asset, sum, in_transit) = (&*of.asset, of.sum.to_string(), of.in_transit.to_string());
        tracing::error!(asset, sum, in_transit, "money was created or lost between shards");
    }
    tracing::debug!(
        shard = report.shard,
        sequence = report.sequence,
        accounts = report.accounts_compared,
        differences = report.differences.len(),
        "audited"
    );
}

#[cfg(test)]
mod tests;
