//! The auditor: a second fold of the journal, independent of the live state.
//!
//! ```text
//!   journal files ─▶ fold (own ledger, own reader) ─┬─ compare, chunk by chunk, with the live figures ─▶ AuditReport
//!        │                                          └─ snapshot ─▶ files
//!        └─ read again, slowly ─▶ fold from record 1 ─ compare, once, with the fold above
//! ```
//!
//! Why a fold and not a copy: a copy of the live state would copy its errors. Why chunks: the shard answers for some
//! hundred accounts or holds between two groups, so neither reconciliation nor a snapshot ever blocks it. Each answer
//! names the sequence it is valid for, and the fold continues to exactly that record before it compares. Why a fold
//! from record 1 besides: live state and auditor begin from the same snapshot, so a forged one deceives both.
//!
//! Invariant: no thread or clock here. The owner carries questions and answers.

mod compare;
mod conservation;
pub mod exchanged;
mod first_fold;
mod ids;

use std::sync::Arc;

use tidegate_disk::Disk;
use tidegate_journal::{Cursor, Durability, GroupReader, LogId, LogReader, Position, Sequence};
use tidegate_machines::ledger::Ledger;
use tidegate_machines::{RecordPosition, ShardIndex, TimeMs};
use tidegate_runtime::Damages;
use tidegate_runtime::damage::Owner;
use tidegate_runtime::scrub::LogScrub;
use tidegate_shard::{CompactionRule, Fold, FoldError, SnapshotError, Snapshots, Stand, Written, stands_at};

use crate::family::{LEDGER, LedgerFamily};
use crate::ids::{IdDigest, IdSeed};
use crate::limits::{AUDIT_ACCOUNTS_PER_QUESTION, AUDIT_HOLDS_PER_QUESTION};
use crate::message::{AuditDifference, AuditReport, ScrubReport};
use crate::operation::{Answer, Operation};

use compare::Differences;
pub(crate) use compare::settings_form;
pub use conservation::conservation;
use first_fold::{FirstFold, read_ids};
use ids::IdsCompared;

/// What the auditor wants next.
#[derive(Debug)]
pub enum Audit {
    /// Ask the shard this and bring the answer to [`ShardAuditor::take`].
    Ask(Operation),
    /// The reconciliation is done.
    Finished(AuditReport),
}

/// The auditor of one shard.
pub struct ShardAuditor<D: Disk, R: LogReader> {
    snapshots: Snapshots<LedgerFamily, D>,
    shard: ShardIndex,
    shard_count: u16,
    reader: R,
    /// Where its reading began, and the reading, once it has begun.
    start: Cursor,
    /// Where the fold goes on if no reading of groups is under way.
    goes_on: Cursor,
    groups: Option<GroupReader>,
    /// How far the log may be read.
    up_to: Option<Durability>,
    fold: Fold<Ledger>,
    /// The first damage or misfit; nothing is folded beyond it.
    damage: Option<String>,
    round: Round,
    agreed: Agreed,
    /// The newest snapshot: its place, and the bytes of its file.
    snapshot: (Cursor, u64),
    first_fold: FirstFold,
    ids: IdsCompared,
    /// A digest of the state with which this process began.
    begun_with: blake3::Hash,
    damages: Arc<Damages>,
    scrub: ScrubReport,
}

/// The state of one reconciliation.
#[derive(Default)]
struct Round {
    stage: Stage,
    awaiting_end: Option<Answer>,
    accounts: u64,
    holds: u64,
    differences: Differences,
}

/// What is compared in a round, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Accounts, so many slots a question.
    #[default]
    Accounts,
    /// From the slots of this question on.
    MoreAccounts(u32),
    /// Open holds behind this one.
    Holds(Option<(TimeMs, RecordPosition)>),
    /// What shards sent each other.
    Peers,
}

impl Stage {
    fn question(self) -> u32 {
        match self {
            Stage::MoreAccounts(question) => question,
            _ => 0,
        }
    }
}

/// The last sequences at which figures agreed.
#[derive(Default)]
struct Agreed {
    /// By question about accounts.
    accounts: Vec<u64>,
    /// The number of accounts.
    count: u64,
    holds: u64,
    peers: u64,
}

impl<D: Disk, R: LogReader> ShardAuditor<D, R> {
    /// An auditor of the shard whose log `reader` reads and of which `recovered` was found durable at its opening. It
    /// begins at the newest good snapshot that stands on that log, which an earlier fold left, or at the first record.
    pub fn open(
        snapshots: Snapshots<LedgerFamily, D>,
        reader: R,
        recovered: &Durability,
        shard_count: u16,
    ) -> ShardAuditor<D, R> {
        let log = snapshots.log();
        let shard = ShardIndex(log.shard);
        // Those that cannot be used were named when the shard was recovered.
        let begin = snapshots.newest_standing(&reader, recovered, &mut Vec::new());
        let begin = begin.ok().flatten();
        let (stand, ledger) = begin.unwrap_or_else(|| (Stand::default(), Ledger::new(shard, shard_count)));
        let start = stand.cursor;
        let bytes = snapshots.newest_header(recovered.position()).ok().flatten().map_or(0, |newest| newest.bytes);
        let begun_with = compare::form_of(&ledger);
        let first_fold = match start == Cursor::START {
            true => FirstFold::Agreed { sequence: 0 },
            false => FirstFold::begin(log, shard_count),
        };
        ShardAuditor {
            snapshots,
            shard,
            shard_count,
            reader,
            start,
            goes_on: start,
            groups: None,
            up_to: Some(*recovered),
            fold: Fold::new(log, start, stand, ledger),
            damage: None,
            round: Round::default(),
            agreed: Agreed::default(),
            snapshot: (start, bytes),
            first_fold,
            ids: IdsCompared::default(),
            begun_with,
            damages: Arc::default(),
            scrub: ScrubReport::default(),
        }
    }

    /// Which shard.
    pub fn shard(&self) -> ShardIndex {
        self.shard
    }

    /// The state that its fold has reached, at a record up to which it was durable.
    pub fn folded(&self) -> &Ledger {
        self.fold.state()
    }

    /// Its fold began behind this record: that of a snapshot, or zero.
    pub fn begins_behind(&self) -> Sequence {
        self.start.sequence
    }

    /// Its log.
    pub fn log(&self) -> LogId {
        self.snapshots.log()
    }

    /// A reading of its log again, to be given to [`ShardAuditor::read_again`]; damage is told to `damages`.
    pub fn scrub(&mut self, damages: Arc<Damages>) -> Result<LogScrub<R>, tidegate_journal::JournalError> {
        self.damages = damages.clone();
        Ok(LogScrub::new(LEDGER.name, self.log(), self.reader.another()?, damages))
    }

    /// Has `damages` named in its reports.
    pub fn report_damage_of(&mut self, damages: Arc<Damages>) {
        self.damages = damages;
    }

    /// Begins a reconciliation.
    pub fn begin(&mut self) -> Audit {
        self.round = Round::default();
        self.ask()
    }

    /// Takes the shard's answer to the last question. `now_ms` goes into the report.
    pub fn take(&mut self, answer: Answer, now_ms: u64) -> Audit {
        match answer {
            Answer::Figures { .. } | Answer::OpenHolds { .. } | Answer::Peers { .. } => {
                self.round.awaiting_end = Some(answer);
                Audit::Ask(Operation::ReadDurableEnd)
            }
            Answer::DurableEnd { durable } => {
                let live = self.round.awaiting_end.take().expect("asked after figures only");
                let next = self.compare(live, durable);
                match next {
                    Ok(Some(stage)) => {
                        self.round.stage = stage;
                        self.ask()
                    }
                    Ok(None) => Audit::Finished(self.report(now_ms, None)),
                    Err(damage) => Audit::Finished(self.report(now_ms, Some(damage))),
                }
            }
            other => unreachable!("{other:?} answers no auditor"),
        }
    }

    fn ask(&self) -> Audit {
        Audit::Ask(match self.round.stage {
            Stage::Accounts | Stage::MoreAccounts(_) => Operation::ReadFigures {
                first: self.round.stage.question() * AUDIT_ACCOUNTS_PER_QUESTION,
                count: AUDIT_ACCOUNTS_PER_QUESTION,
            },
            Stage::Holds(after) => Operation::ReadOpenHolds { after, count: AUDIT_HOLDS_PER_QUESTION },
            Stage::Peers => Operation::ReadPeers,
        })
    }

    /// Compares what is live with the fold at the same record. What is to be compared next; `None` after all.
    fn compare(&mut self, live: Answer, durable: Durability) -> Result<Option<Stage>, String> {
        let before = self.round.differences.count();
        match live {
            Answer::Figures { sequence, figures, more } => {
                self.advance(Sequence(sequence), durable)?;
                let question = self.round.stage.question();
                self.agreed.accounts.resize(self.agreed.accounts.len().max(question as usize + 1), 0);
                let agreed_at = &mut self.agreed.accounts[question as usize];
                assert!(*agreed_at <= sequence, "a later question is about a later sequence");
                let first = question * AUDIT_ACCOUNTS_PER_QUESTION;
                // Behind the last live slot the journal has none either.
                let count = if more { AUDIT_ACCOUNTS_PER_QUESTION } else { u32::MAX - first };
                let found = &mut self.round.differences;
                compare::accounts(&figures, self.fold.state().figures(first, count), *agreed_at, found);
                self.round.accounts += figures.len() as u64;
                if self.round.differences.count() == before {
                    *agreed_at = sequence;
                }
                if more {
                    return Ok(Some(Stage::MoreAccounts(question + 1)));
                }
                self.compare_count(sequence);
                Ok(Some(Stage::Holds(None)))
            }
            Answer::OpenHolds { sequence, holds, more } => {
                self.advance(Sequence(sequence), durable)?;
                let Stage::Holds(after) = self.round.stage else { unreachable!("holds were asked for") };
                let found = &mut self.round.differences;
                compare::holds(&holds, (after, more), self.fold.state(), self.agreed.holds, found);
                self.round.holds += holds.len() as u64;
                if more {
                    let last = holds.last().expect("more follows something");
                    return Ok(Some(Stage::Holds(Some(last.key()))));
                }
                if !self.round.differences.named.iter().any(|difference| difference.hold.is_some()) {
                    self.agreed.holds = sequence;
                }
                Ok(Some(Stage::Peers))
            }
            Answer::Peers { sequence, peers, assets, settings, mends, waits: _ } => {
                self.advance(Sequence(sequence), durable)?;
                let (journal, agreed_at) = (self.fold.state(), self.agreed.peers);
                let found = &mut self.round.differences;
                compare::peers(&peers, &journal.peer_figures(), agreed_at, found);
                compare::assets(&assets, &journal.assets(), agreed_at, found);
                compare::settings(settings, compare::settings_form(journal), agreed_at, found);
                compare::mends(&mends, journal.mends(), agreed_at, found);
                if self.round.differences.count() == before {
                    self.agreed.peers = sequence;
                }
                Ok(None)
            }
            other => unreachable!("{other:?} is compared with nothing"),
        }
    }

    /// Accounts that are in the journal but missing in the live state would not be compared otherwise.
    fn compare_count(&mut self, sequence: u64) {
        let (live, journal) = (i128::from(self.round.accounts), i128::from(self.fold.state().count_here()));
        if live != journal {
            self.round.differences.push(AuditDifference {
                account: "(all accounts)".into(),
                figure: "count",
                live,
                journal,
                agreed_at_sequence: self.agreed.count,
                hold: None,
                texts: None,
            });
        } else {
            self.agreed.count = sequence;
        }
    }

    fn report(&mut self, now_ms: u64, damage: Option<String>) -> AuditReport {
        let mut differences = std::mem::take(&mut self.round.differences);
        if let FirstFold::Differs { differences: of_snapshot, .. } = &self.first_fold {
            of_snapshot.named.iter().for_each(|difference| differences.push(difference.clone()));
            differences.more += of_snapshot.more;
        }
        self.ids.difference().into_iter().for_each(|difference| differences.push(difference.clone()));
        let interrupted = match &self.first_fold {
            FirstFold::Interrupted { why, .. } => Some(why.clone()),
            _ => None,
        };
        AuditReport {
            shard: self.shard.0,
            finished_at_ms: now_ms,
            sequence: self.fold.sequence().0,
            accounts_compared: self.round.accounts,
            differences: differences.named,
            damage: damage.or(interrupted),
            holds_compared: self.round.holds,
            differences_more: differences.more,
            totals: self.fold.state().totals(),
            scrub: self.scrub_report(),
            first_fold: self.first_fold.report(self.fold.sequence().0),
            conservation: Vec::new(),
        }
    }

    /// Brings what changes between two reconciliations up to date in `report`: how far the reading again is, and what
    /// it found.
    pub fn refresh(&self, report: &mut AuditReport) {
        report.scrub = self.scrub_report();
        report.first_fold = self.first_fold.report(self.fold.sequence().0);
        let of_snapshot = match &self.first_fold {
            FirstFold::Differs { differences, .. } => &differences.named[..],
            _ => &[],
        };
        for difference in of_snapshot.iter().chain(self.ids.difference()) {
            if !report.differences.contains(difference) {
                report.differences.push(difference.clone());
            }
        }
    }

    fn scrub_report(&self) -> ScrubReport {
        let mut damage = self.damages.of(Owner::Log(self.log()));
        damage.extend(self.damages.of(Owner::Ids(self.log())));
        ScrubReport { damage, ..self.scrub.clone() }
    }

    /// Reads about `bytes` more of the log again, verifies them, and folds them from the first record on until that has
    /// shown what the auditor's state rests on. Whether a pass over all has ended.
    pub fn read_again(&mut self, scrub: &mut LogScrub<R>, bytes: u64, now_ms: u64) -> bool {
        if scrub.at() == Cursor::START && matches!(self.first_fold, FirstFold::Interrupted { .. }) {
            self.first_fold = FirstFold::begin(self.log(), self.shard_count);
        }
        // As long as it folds, it may read beyond what is settled, to where the snapshot stands.
        let (goal, fold, ids) = (self.start, &mut self.first_fold, &mut self.ids);
        let up_to = self.up_to.filter(|_| fold.is_folding());
        let (mut arrived, passes) = (false, scrub.facts().passes);
        let is_over = scrub.step(bytes, up_to, &mut |groups| {
            if arrived {
                return read_ids(groups, ids);
            }
            let went_on = fold.read(groups, ids)?;
            arrived = fold.is_folding() && goal == groups.cursor();
            Ok(went_on)
        });
        if arrived {
            let mut snapshots = self.snapshots.newest_first().into_iter().flatten().flatten();
            let load = || snapshots.find(|(stand, _)| stand.cursor == goal).map(|(_, state)| state);
            self.first_fold.compare(&self.begun_with, load);
        }
        let facts = scrub.facts();
        (self.scrub.position, self.scrub.of) = (facts.position, facts.of);
        if facts.passes > passes {
            self.scrub.last_full_at_ms = now_ms;
        }
        is_over
    }

    /// Begins to sum up the ids of the log, in the pass that begins now; `empty` is of the index beside it.
    pub fn begin_ids(&mut self, empty: Option<(IdSeed, IdDigest)>) {
        self.ids.begin(empty);
    }

    /// The pass over the log has ended: how far the runs of the index are to be summed up, if that is worth it.
    pub fn end_ids(&mut self) -> Option<Position> {
        self.ids.end()
    }

    /// Compares the ids of the log with the sum over the runs. What differs, in words; reports have it from now on.
    pub fn compare_ids(&mut self, of_runs: IdDigest) -> Option<String> {
        self.ids.compare(of_runs)
    }

    /// How often the ids of the log were compared with those of its index.
    pub fn ids_compared(&self) -> u64 {
        self.ids.count()
    }

    /// Finishes the group in which the fold stands; the place behind it. `None` before anything was read.
    fn settle(&mut self) -> Option<Cursor> {
        if let Err(damage) = self.fold.finish_group() {
            self.damage = Some(damage.to_string());
            return None;
        }
        self.groups.as_ref().map(GroupReader::cursor)
    }

    /// What the fold from the first record came to: `None` as long as it is under way.
    pub fn rests_on_the_first_record(&self) -> Option<bool> {
        match self.first_fold {
            FirstFold::Folding(_) | FirstFold::Interrupted { .. } => None,
            FirstFold::Agreed { .. } => Some(true),
            FirstFold::Differs { .. } => Some(false),
        }
    }

    /// Folds up to and including `sequence`, reading groups that are durable.
    fn advance(&mut self, sequence: Sequence, durable: Durability) -> Result<(), String> {
        if let Some(damage) = &self.damage {
            return Err(damage.clone());
        }
        let advanced = self.try_advance(sequence, durable);
        // What cannot be read is asked for again in the next round, as it may be put right; what does not fit stays so.
        if let Err(misfit) = &advanced
            && !matches!(misfit, FoldError::Journal(_))
        {
            self.damage = Some(misfit.to_string());
        }
        advanced.map_err(|damage| damage.to_string())
    }

    fn try_advance(&mut self, sequence: Sequence, durable: Durability) -> Result<(), FoldError> {
        self.up_to = Some(durable);
        let groups = match &mut self.groups {
            Some(groups) => {
                groups.extend_to(&durable);
                groups
            }
            None => self.groups.insert(self.reader.groups(self.goes_on, &durable)?),
        };
        let advanced = self.fold.advance(groups, sequence);
        if matches!(advanced, Err(FoldError::Journal(_))) {
            // What was read ahead is as bad as the file was. The fold stands behind the last group that was good.
            self.goes_on = groups.cursor();
            self.groups = None;
        }
        advanced
    }

    /// Whether `rule` says that another snapshot is worth its cost.
    pub fn is_snapshot_due(&self, rule: CompactionRule) -> bool {
        let (newest, bytes) = self.snapshot;
        let reached = self.groups.as_ref().map_or(newest, GroupReader::cursor);
        rule.is_due(self.reader.bytes_between(newest.position, reached.position), bytes)
    }

    /// Writes the fold's state as a snapshot, at the end of the group that it stands in. `None` when there is nothing
    /// new, or the fold met damage.
    pub fn snapshot(&mut self) -> Result<Option<Written>, SnapshotError> {
        if self.damage.is_some() || self.rests_on_the_first_record() == Some(false) {
            return Ok(None);
        }
        let Some(cursor) = self.settle() else { return Ok(None) };
        assert_eq!(cursor.sequence, self.fold.sequence(), "the fold stands behind a whole group");
        if cursor == self.snapshot.0 {
            return Ok(None);
        }
        let up_to = self.up_to.expect("it has read something");
        let stands = |place| stands_at(&self.reader, place, &up_to);
        assert_eq!(self.fold.stand().cursor, cursor, "the state stands where the reading ended");
        let written = self.snapshots.write(self.fold.stand(), self.fold.state(), stands)?;
        let bytes = self.snapshots.newest_header(cursor.position)?.map_or(0, |newest| newest.bytes);
        self.snapshot = (cursor, bytes);
        Ok(Some(written))
    }
}

#[cfg(test)]
pub(crate) mod tests;
