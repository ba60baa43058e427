//! Reads. Each is answered like a write: when everything it has read is durable.

use tidegate_disk::Disk;
use tidegate_journal::LogStore;
use tidegate_machines::ledger::{AccountKind, AccountView, Ledger, shard_of};

use super::records::Halt;
use super::{LedgerService, LedgerTurn};
use crate::limits::{AUDIT_ACCOUNTS_PER_QUESTION, PAGE_ROWS_MAX};
use crate::operation::{AccountFact, Answer, Figures, Operation};

impl<D: Disk> LedgerService<D> {
    pub(super) fn read<L: LogStore>(
        &mut self,
        turn: &LedgerTurn<'_, L>,
        operation: &Operation,
    ) -> Result<Answer, Halt> {
        let ledger = turn.state();
        Ok(match operation {
            Operation::ReadAccount { id } => Answer::Account(self.local_account(ledger, id)),
            Operation::ListAccounts { prefix, after, limit } => {
                let limit = (*limit).min(PAGE_ROWS_MAX) as usize;
                Answer::Accounts(ledger.list(prefix, after.as_deref(), limit))
            }
            Operation::Describe(ids) => Answer::Facts(ids.iter().map(|id| self.describe(ledger, id)).collect()),
            Operation::FindOwners(ids) => {
                let mut owners = Vec::with_capacity(ids.len());
                for id in ids {
                    owners.push(self.owner_of(turn, id)?);
                }
                Answer::Owners(owners)
            }
            Operation::ReadFigures { first, count } => read_figures(turn, *first, *count),
            Operation::ReadDurableEnd => Answer::DurableEnd { durable: turn.durable() },
            Operation::CoverIds => {
                self.ids.cover(turn.durable().position());
                Answer::DurableEnd { durable: turn.durable() }
            }
            Operation::KeepAudit(report) => {
                self.last_audit = report.clone();
                Answer::Audit(report.clone())
            }
            Operation::ReadAudit => Answer::Audit(self.last_audit.clone()),
            writes => unreachable!("{writes:?} is not a read"),
        })
    }

    /// An account of this shard, or its part of a collector; not what it merely knows of another shard's account.
    fn local_account(&self, ledger: &Ledger, id: &str) -> Option<AccountView> {
        let account = ledger.account(id)?;
        let here = shard_of(id, self.shard_count) == self.index || account.kind == AccountKind::Collector;
        here.then_some(account)
    }

    fn describe(&self, ledger: &Ledger, id: &str) -> AccountFact {
        AccountFact {
            id: id.into(),
            found: self.local_account(ledger, id).map(|account| (account.asset, account.kind)),
        }
    }
}

fn read_figures<L: LogStore>(turn: &LedgerTurn<'_, L>, first: u32, count: u32) -> Answer {
    let count = count.min(AUDIT_ACCOUNTS_PER_QUESTION);
    let figures = turn
        .state()
        .figures(first, count)
        .map(|view| Figures {
            id: view.id,
            balance: view.balance,
            held: view.held,
            credited: view.credited,
            debited: view.debited,
        })
        .collect();
    Answer::Figures { sequence: turn.appended().0, figures, more: first + count < turn.state().slots() }
}
