//! The auditor: a second fold of the journal, independent of the live state.
//!
//! ```text
//!   journal files ─▶ fold (own ledger, own reader) ─┬─ compare, chunk by chunk, with the live figures ─▶ AuditReport
//!                                                   └─ snapshot ─▶ files
//! ```
//!
//! Why a fold and not a copy: a copy of the live state would copy its errors. Why chunks: the shard answers for some
//! hundred accounts between two groups, so neither reconciliation nor a snapshot ever blocks it. Each answer names the
//! sequence it is valid for, and the fold continues to exactly that record before it compares.
//!
//! Invariant: no thread or clock here. The owner carries questions and answers.

use tidegate_disk::Disk;
use tidegate_journal::{Cursor, Durability, GroupReader, LogReader, Sequence};
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::Ledger;
use tidegate_shard::{CompactionRule, Fold, FoldError, SnapshotError, Snapshots, Written, check_place};

use crate::family::LedgerFamily;
use crate::limits::AUDIT_ACCOUNTS_PER_QUESTION;
use crate::message::{AuditDifference, AuditReport};
use crate::operation::{Answer, Figures, Operation};

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
    reader: R,
    /// Where its reading began, and the reading, once it has begun.
    start: Cursor,
    groups: Option<GroupReader>,
    /// How far the log may be read.
    up_to: Option<Durability>,
    fold: Fold<Ledger>,
    /// The first damage or misfit; nothing is folded beyond it.
    damage: Option<String>,
    round: Round,
    /// Per question of a round: the last sequence at which all its accounts agreed.
    agreed_at: Vec<u64>,
    /// The last sequence at which the numbers of accounts agreed.
    agreed_count_at: u64,
    /// The newest snapshot: its place, and the bytes of its file.
    snapshot: (Cursor, u64),
}

/// The state of one reconciliation.
#[derive(Default)]
struct Round {
    question: usize,
    awaiting_end: Option<(u64, Vec<Figures>, bool)>,
    compared: u64,
    differences: Vec<AuditDifference>,
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
        let (start, ledger) = begin.ok().flatten().unwrap_or_else(|| (Cursor::START, Ledger::new(shard, shard_count)));
        let bytes = snapshots.newest_header(recovered.position()).ok().flatten().map_or(0, |newest| newest.bytes);
        ShardAuditor {
            snapshots,
            shard,
            reader,
            start,
            groups: None,
            up_to: None,
            fold: Fold::new(log, start, start, ledger),
            damage: None,
            round: Round::default(),
            agreed_at: Vec::new(),
            agreed_count_at: 0,
            snapshot: (start, bytes),
        }
    }

    /// Which shard.
    pub fn shard(&self) -> ShardIndex {
        self.shard
    }

    /// Begins a reconciliation.
    pub fn begin(&mut self) -> Audit {
        self.round = Round::default();
        self.ask_figures()
    }

    /// Takes the shard's answer to the last question. `now_ms` goes into the report.
    pub fn take(&mut self, answer: Answer, now_ms: u64) -> Audit {
        match answer {
            Answer::Figures { sequence, figures, more } => {
                self.round.awaiting_end = Some((sequence, figures, more));
                Audit::Ask(Operation::ReadDurableEnd)
            }
            Answer::DurableEnd { durable } => {
                let (sequence, figures, more) = self.round.awaiting_end.take().expect("asked after figures only");
                if let Err(damage) = self.advance(Sequence(sequence), durable) {
                    return Audit::Finished(self.report(now_ms, Some(damage)));
                }
                self.compare(sequence, &figures);
                if !more {
                    self.compare_count(sequence);
                }
                if more {
                    self.round.question += 1;
                    return self.ask_figures();
                }
                Audit::Finished(self.report(now_ms, None))
            }
            other => unreachable!("{other:?} answers no auditor"),
        }
    }

    fn ask_figures(&self) -> Audit {
        let first = self.round.question as u32 * AUDIT_ACCOUNTS_PER_QUESTION;
        Audit::Ask(Operation::ReadFigures { first, count: AUDIT_ACCOUNTS_PER_QUESTION })
    }

    fn compare(&mut self, sequence: u64, live: &[Figures]) {
        let question = self.round.question;
        self.agreed_at.resize(self.agreed_at.len().max(question + 1), 0);
        let agreed_at_sequence = self.agreed_at[question];
        assert!(agreed_at_sequence <= sequence, "a later question is about a later sequence");
        let found_before = self.round.differences.len();
        for live in live {
            let journal = self.fold.state().account(&live.id);
            let figures = |figure, live_value: i128, journal: Option<i128>| {
                let journal = journal.unwrap_or(0);
                (live_value != journal).then(|| AuditDifference {
                    account: live.id.clone(),
                    figure,
                    live: live_value,
                    journal,
                    agreed_at_sequence,
                })
            };
            let journal = journal.as_ref();
            self.round.differences.extend(
                [
                    figures("balance", live.balance.into(), journal.map(|a| a.balance.into())),
                    figures("held", live.held.into(), journal.map(|a| a.held.into())),
                    figures("credited", live.credited as i128, journal.map(|a| a.credited as i128)),
                    figures("debited", live.debited as i128, journal.map(|a| a.debited as i128)),
                ]
                .into_iter()
                .flatten(),
            );
        }
        self.round.compared += live.len() as u64;
        if self.round.differences.len() == found_before {
            self.agreed_at[question] = sequence;
        }
    }

    /// Accounts that are in the journal but missing in the live state would not be compared otherwise.
    fn compare_count(&mut self, sequence: u64) {
        let (live, journal) = (i128::from(self.round.compared), i128::from(self.fold.state().count_here()));
        if live != journal {
            self.round.differences.push(AuditDifference {
                account: "(all accounts)".into(),
                figure: "count",
                live,
                journal,
                agreed_at_sequence: self.agreed_count_at,
            });
        } else {
            self.agreed_count_at = sequence;
        }
    }

    fn report(&mut self, now_ms: u64, damage: Option<String>) -> AuditReport {
        AuditReport {
            shard: self.shard.0,
            finished_at_ms: now_ms,
            sequence: self.fold.sequence().0,
            accounts_compared: self.round.compared,
            differences: std::mem::take(&mut self.round.differences),
            damage,
        }
    }

    /// Folds up to and including `sequence`, reading groups that are durable.
    fn advance(&mut self, sequence: Sequence, durable: Durability) -> Result<(), String> {
        if let Some(damage) = &self.damage {
            return Err(damage.clone());
        }
        let advanced = self.try_advance(sequence, durable).map_err(|damage| damage.to_string());
        if let Err(damage) = &advanced {
            self.damage = Some(damage.clone());
        }
        advanced
    }

    fn try_advance(&mut self, sequence: Sequence, durable: Durability) -> Result<(), FoldError> {
        self.up_to = Some(durable);
        let groups = match &mut self.groups {
            Some(groups) => {
                groups.extend_to(&durable);
                groups
            }
            None => self.groups.insert(self.reader.groups(self.start, &durable)?),
        };
        self.fold.advance(groups, sequence)
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
        if self.damage.is_some() {
            return Ok(None);
        }
        if let Err(damage) = self.fold.finish_group() {
            self.damage = Some(damage.to_string());
            return Ok(None);
        }
        let Some(cursor) = self.groups.as_ref().map(GroupReader::cursor) else { return Ok(None) };
        assert_eq!(cursor.sequence, self.fold.sequence(), "the fold stands behind a whole group");
        if cursor == self.snapshot.0 {
            return Ok(None);
        }
        let up_to = self.up_to.expect("it has read something");
        let stands = |place| check_place(&self.reader, place, &up_to).is_ok();
        let written = self.snapshots.write(cursor, self.fold.state(), stands)?;
        let bytes = self.snapshots.newest_header(cursor.position)?.map_or(0, |newest| newest.bytes);
        self.snapshot = (cursor, bytes);
        Ok(Some(written))
    }
}
