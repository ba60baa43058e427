//! The auditor: a second fold of the journal, independent of the live state.
//!
//! ```text
//!   journal files ─▶ fold (own ledger, own reader) ─┬─ compare, chunk by chunk, with the live figures ─▶ AuditReport
//!                                                   └─ snapshot ─▶ files
//! ```
//!
//! Why a fold and not a copy: a copy of the live state would copy its errors. Why chunks: the shard answers for some hundred
//! accounts between two groups, so neither reconciliation nor snapshot ever stalls it; each answer names the sequence that it
//! holds for, and the fold goes on to exactly there before it compares.
//!
//! Invariant: no thread or clock here. The owner carries questions and answers.

pub mod offline;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use tidegate_journal::disk::Disk;
use tidegate_journal::{Cursor, Durability, GroupReader, JournalError, LogId, LogReader, Position, Sequence};
use tidegate_machines::ledger::{Event, Ledger};
use tidegate_machines::{RecordPosition, ShardIndex};

use crate::families::{self, Reader};
use crate::limits::AUDIT_ACCOUNTS_PER_QUESTION;
use crate::message::{AuditDifference, AuditReport};
use crate::operation::{Answer, Figures, Operation};
use crate::snapshot::{self, SnapshotError};

/// What the auditor wants next.
#[derive(Debug)]
pub enum Audit {
    /// Ask the shard this and bring the answer to [`ShardAuditor::take`].
    Ask(Operation),
    /// The reconciliation is done.
    Finished(AuditReport),
}

/// The auditor of one shard.
pub struct ShardAuditor<D: Disk> {
    disk: D,
    data: PathBuf,
    shard: ShardIndex,
    fold: Fold<D>,
    round: Round,
    /// Per question of a round: the last sequence at which all its accounts agreed.
    agreed_at: Vec<u64>,
    /// The last sequence at which the numbers of accounts agreed.
    agreed_count_at: u64,
    snapshot_at: Sequence,
}

/// The state of one reconciliation.
#[derive(Default)]
struct Round {
    question: usize,
    awaiting_end: Option<(u64, Vec<Figures>, bool)>,
    compared: u64,
    differences: Vec<AuditDifference>,
}

impl<D: Disk> ShardAuditor<D> {
    /// An auditor that begins at the newest good snapshot, which an earlier fold left, or at the first record.
    pub fn open(
        disk: D,
        data: &Path,
        log: LogId,
        shard: ShardIndex,
        shard_count: u16,
    ) -> Result<ShardAuditor<D>, JournalError> {
        let snapshot = snapshot::newest_first(&disk, data, shard).ok().and_then(|mut all| all.find_map(Result::ok));
        let (cursor, ledger) = snapshot.unwrap_or_else(|| (Cursor::START, Ledger::new(shard, shard_count)));
        let reader = families::reader(&disk, data, log)?;
        Ok(ShardAuditor {
            disk,
            data: data.to_path_buf(),
            shard,
            fold: Fold::new(reader, cursor, ledger),
            round: Round::default(),
            agreed_at: Vec::new(),
            agreed_count_at: 0,
            snapshot_at: cursor.sequence,
        })
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
                if let Err(damage) = self.fold.advance(Sequence(sequence), durable) {
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
        let found_before = self.round.differences.len();
        for live in live {
            let journal = self.fold.ledger.account(&live.id);
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

    /// Accounts that the journal opened and the live state lacks would be asked for by nobody.
    fn compare_count(&mut self, sequence: u64) {
        let (live, journal) = (i128::from(self.round.compared), self.fold.ledger.figures(0, u32::MAX).count() as i128);
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
            sequence: self.fold.sequence.0,
            accounts_compared: self.round.compared,
            differences: std::mem::take(&mut self.round.differences),
            damage,
        }
    }

    /// Records folded since the last snapshot.
    pub fn records_since_snapshot(&self) -> u64 {
        self.fold.sequence.0 - self.snapshot_at.0
    }

    /// Writes the fold's state as a snapshot, at the end of the group that it stands in. `None` when there is nothing new, or the
    /// fold met damage.
    pub fn snapshot(&mut self) -> Result<Option<PathBuf>, SnapshotError> {
        if self.fold.finish_group().is_err() || self.fold.sequence == self.snapshot_at {
            return Ok(None);
        }
        let Some(cursor) = self.fold.cursor() else { return Ok(None) };
        let path = snapshot::write(&self.disk, &self.data, self.shard, cursor, &self.fold.ledger)?;
        self.snapshot_at = self.fold.sequence;
        Ok(Some(path))
    }
}

/// A fold of verified records into a ledger, which can stop at any record.
struct Fold<D: Disk> {
    reader: Reader<D>,
    groups: Option<GroupReader>,
    start: Cursor,
    ledger: Ledger,
    sequence: Sequence,
    /// Records of the group that the fold stopped inside of.
    rest: VecDeque<(Sequence, Position, Box<[u8]>)>,
    /// The first damage or misfit; nothing is folded beyond it.
    damage: Option<String>,
}

impl<D: Disk> Fold<D> {
    fn new(reader: Reader<D>, start: Cursor, ledger: Ledger) -> Fold<D> {
        Fold { reader, groups: None, start, ledger, sequence: start.sequence, rest: VecDeque::new(), damage: None }
    }

    /// Folds up to and including `sequence`, reading groups that end at or before `durable`.
    fn advance(&mut self, sequence: Sequence, durable: Durability) -> Result<(), String> {
        if let Some(damage) = &self.damage {
            return Err(damage.clone());
        }
        let folded = self.try_advance(sequence, durable);
        if let Err(damage) = &folded {
            self.damage = Some(damage.clone());
        }
        folded
    }

    fn try_advance(&mut self, target: Sequence, durable: Durability) -> Result<(), String> {
        self.fold_rest(target)?;
        if self.sequence >= target {
            return Ok(());
        }
        let mut groups = match self.groups.take() {
            Some(mut groups) => {
                groups.extend_to(&durable);
                groups
            }
            None => self.reader.groups(self.start, &durable).map_err(|error| error.to_string())?,
        };
        while self.sequence < target {
            let Some(group) = groups.next_group().map_err(|error| error.to_string())? else {
                return Err(format!("the journal ends at sequence {}, before {target}", self.sequence));
            };
            for (sequence, position, bytes) in group.records() {
                if sequence <= target {
                    fold_record(&mut self.ledger, sequence, position, bytes)?;
                    self.sequence = sequence;
                } else {
                    self.rest.push_back((sequence, position, bytes.into()));
                }
            }
        }
        self.groups = Some(groups);
        Ok(())
    }

    fn fold_rest(&mut self, target: Sequence) -> Result<(), String> {
        while let Some((sequence, position, bytes)) = self.rest.front() {
            if *sequence > target {
                break;
            }
            fold_record(&mut self.ledger, *sequence, *position, bytes)?;
            self.sequence = *sequence;
            self.rest.pop_front();
        }
        Ok(())
    }

    fn finish_group(&mut self) -> Result<(), String> {
        if let Some(damage) = &self.damage {
            return Err(damage.clone());
        }
        self.fold_rest(Sequence(u64::MAX))
    }

    /// The place behind the last whole group; `None` before the first.
    fn cursor(&self) -> Option<Cursor> {
        self.groups.as_ref().map(GroupReader::cursor)
    }
}

fn fold_record(ledger: &mut Ledger, sequence: Sequence, position: Position, bytes: &[u8]) -> Result<(), String> {
    let misfit = |what: String| format!("record {sequence} at position {position} does not fit the ledger: {what}");
    let event = Event::decode(bytes).map_err(|error| misfit(error.to_string()))?;
    ledger.apply_checked(&event, RecordPosition(position.0)).map_err(|mismatch| misfit(mismatch.to_string()))
}
