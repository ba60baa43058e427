//! Reads. Each is answered like a write: when everything that it saw is durable.

use tidegate_journal::disk::Disk;
use tidegate_journal::{LogStore, Position};
use tidegate_machines::ledger::{AccountKind, Event, Refusal, shard_of};
use tidegate_machines::{OutboundNumber, RecordPosition, ShardIndex};

use super::{Departure, Shard, ShardError, Work};
use crate::limits::{AUDIT_ACCOUNTS_PER_QUESTION, HISTORY_RECORDS_PER_STEP, PAGE_ROWS_MAX};
use crate::operation::{AccountFact, Answer, ChainedRow, Credit, Figures, Operation};

/// How far a history was read.
#[derive(Debug, Default)]
pub(super) struct RowsRead {
    rows: Vec<ChainedRow>,
    next: Option<RecordPosition>,
}

impl<D: Disk, L: LogStore> Shard<D, L> {
    pub(super) fn read(&mut self, operation: &Operation) -> Result<Answer, ShardError> {
        Ok(match operation {
            Operation::ReadAccount { id } => Answer::Account(self.local_account(id)),
            Operation::ListAccounts { prefix, after, limit } => {
                let limit = (*limit).min(PAGE_ROWS_MAX) as usize;
                Answer::Accounts(self.ledger.list(prefix, after.as_deref(), limit))
            }
            Operation::Describe(ids) => Answer::Facts(ids.iter().map(|id| self.describe(id)).collect()),
            Operation::FindOwners(ids) => {
                let mut owners = Vec::with_capacity(ids.len());
                for id in ids {
                    owners.push(self.owner_of(id)?);
                }
                Answer::Owners(owners)
            }
            Operation::ReadFigures { first, count } => self.read_figures(*first, *count),
            Operation::ReadDurableEnd => Answer::DurableEnd { durable: self.writer.durable() },
            Operation::KeepAudit(report) => {
                self.last_audit = report.clone();
                Answer::Audit(report.clone())
            }
            Operation::ReadAudit => Answer::Audit(self.last_audit.clone()),
            writes => unreachable!("{writes:?} is not a read"),
        })
    }

    /// An account of this shard, or its part of a collector; not what it merely knows of another shard's account.
    fn local_account(&self, id: &str) -> Option<tidegate_machines::ledger::AccountView> {
        let account = self.ledger.account(id)?;
        let here = shard_of(id, self.shard_count) == self.index || account.kind == AccountKind::Collector;
        here.then_some(account)
    }

    fn describe(&self, id: &str) -> AccountFact {
        AccountFact { id: id.into(), found: self.local_account(id).map(|account| (account.asset, account.kind)) }
    }

    fn read_figures(&self, first: u32, count: u32) -> Answer {
        let count = count.min(AUDIT_ACCOUNTS_PER_QUESTION);
        let figures = self
            .ledger
            .figures(first, count)
            .map(|view| Figures {
                id: view.id,
                balance: view.balance,
                held: view.held,
                credited: view.credited,
                debited: view.debited,
            })
            .collect();
        Answer::Figures { sequence: self.writer.appended().0, figures, more: first + count < self.ledger.slots() }
    }

    /// Reads some records of each history under way, so that a long page delays nobody for long.
    pub(super) fn serve_reading(&mut self) -> Result<bool, ShardError> {
        let Some(mut work) = self.reading.pop_front() else { return Ok(false) };
        match self.read_rows(&mut work) {
            Ok(Some(answer)) => self.commits.wait_for(self.writer.appended(), Departure::Answer(work.caller, answer)),
            Ok(None) => self.reading.push_back(work),
            // Its caller is told, with all others, that the shard failed.
            Err(error) => {
                self.reading.push_front(work);
                return Err(error);
            }
        }
        Ok(true)
    }

    fn read_rows(&mut self, work: &mut Work) -> Result<Option<Answer>, ShardError> {
        let Operation::ReadHistory { id, from, limit } = &work.operation else {
            unreachable!("only histories are read in steps")
        };
        let read = &mut work.progress.rows;
        let Some(newest) = self.ledger.last_position(id) else {
            return Ok(Some(Answer::Refused(Refusal::AccountNotFound)));
        };
        let mut at = read.next.or(*from).unwrap_or(newest);
        let limit = (*limit).min(PAGE_ROWS_MAX + 1) as usize;
        for _ in 0..HISTORY_RECORDS_PER_STEP {
            if at == RecordPosition::NONE || read.rows.len() >= limit {
                return Ok(Some(Answer::Rows { rows: std::mem::take(&mut read.rows), next: at }));
            }
            let record = self.writer.read_record(Position(at.0), &mut self.scratch);
            if read.rows.is_empty() && from.is_some() && record.is_err() {
                return Ok(Some(Answer::Refused(Refusal::CursorInvalid)));
            }
            record?;
            let row = Event::decode(&self.scratch).ok().and_then(|event| self.ledger.history_row(id, &event));
            // A cursor that a client made up, or one of another account.
            let Some((row, previous)) = row else { return Ok(Some(Answer::Refused(Refusal::CursorInvalid))) };
            read.rows.push(ChainedRow { row, at });
            at = previous;
        }
        read.next = Some(at);
        Ok(None)
    }

    /// Up to `max` credits for `to` after number `after`, each read from the record of its debit.
    pub(super) fn outbound_credits(
        &mut self,
        to: ShardIndex,
        after: OutboundNumber,
        max: usize,
    ) -> Result<Vec<Credit>, ShardError> {
        let mut credits = Vec::new();
        for outbound in self.ledger.outbound(to, after, max) {
            self.writer.read_record(Position(outbound.position.0), &mut self.scratch)?;
            let event = Event::decode(&self.scratch).expect("this shard encoded the event");
            let credit = self.ledger.credit_of(&outbound, &event).expect("the outbound queue names its own records");
            credits.push(Credit {
                number: credit.number,
                posted: credit.posted,
                id: credit.id.into(),
                debit: credit.debit.into(),
                credit: credit.credit.into(),
                memo: credit.memo.into(),
                amount: credit.amount,
                debit_position: credit.debit_position,
                time_ms: credit.decided_at.0,
            });
        }
        Ok(credits)
    }
}
