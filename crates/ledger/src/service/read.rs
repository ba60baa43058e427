//! Reads. Each is answered like a write: when everything it has read is durable.

use tidegate_disk::Disk;
use tidegate_journal::LogStore;
use tidegate_machines::RecordPosition;
use tidegate_machines::ledger::{
    AccountKind, AccountSlot, AccountView, EVENT_BYTES_MAX, Event, Ledger, Refusal, shard_of,
};
use tidegate_shard::{Room, Served, Unavailable};

use super::decide::done;
use super::records::{Halt, archived};
use super::{LedgerService, LedgerTurn, Output};
use crate::auditor::settings_form;
use crate::limits::{ACCOUNTS_SORTED_PER_STEP, AUDIT_ACCOUNTS_PER_QUESTION, AUDIT_HOLDS_PER_QUESTION, PAGE_ROWS_MAX};
use crate::operation::{AccountFact, Answer, Figures, KnownId, Operation, SeedId};

impl<D: Disk> LedgerService<D> {
    pub(super) fn read<L: LogStore>(
        &mut self,
        turn: &LedgerTurn<'_, L>,
        operation: &Operation,
    ) -> Result<Answer, Halt> {
        let ledger = turn.state();
        Ok(match operation {
            Operation::ReadAccount { id } => Answer::Account(self.local_account(ledger, id)),
            Operation::Describe(ids) => Answer::Facts(ids.iter().map(|id| self.describe(ledger, id)).collect()),
            Operation::FindOwners(ids) => {
                let mut owners = Vec::with_capacity(ids.len());
                for id in ids {
                    owners.push(match self.owner_of(turn, id) {
                        Err(Halt::Damaged(place)) => Err(Refusal::Damaged(place)),
                        owner => Ok(owner?),
                    });
                }
                Answer::Owners(owners)
            }
            Operation::FindSeeds(ids) => {
                let mut seeds = Vec::with_capacity(ids.len());
                for id in ids {
                    seeds.push(match self.owner_of(turn, id) {
                        Err(Halt::Damaged(place)) if std::ptr::eq(place, archived()) => SeedId::Archived,
                        Err(Halt::Damaged(place)) => SeedId::Damaged(place),
                        owner => owner?.map_or(SeedId::New, SeedId::Used),
                    });
                }
                Answer::Seeds(seeds)
            }
            Operation::ReadId { id } => match self.known_id(turn, id) {
                Err(Halt::Damaged(place)) => Answer::Refused(Refusal::Damaged(place)),
                known => Answer::Id(Box::new(known?)),
            },
            Operation::ListHolds { account, after, limit } => self.list_holds(turn, (account, *after, *limit))?,
            Operation::ReadAssets => Answer::Assets(ledger.assets()),
            Operation::ReadFigures { first, count } => read_figures(turn, *first, *count),
            Operation::ReadOpenHolds { after, count } => {
                let count = (*count).min(AUDIT_HOLDS_PER_QUESTION) as usize;
                let mut holds: Vec<_> = ledger.holds_after(*after).take(count + 1).collect();
                let more = holds.len() > count;
                holds.truncate(count);
                Answer::OpenHolds { sequence: turn.appended().0, holds, more }
            }
            Operation::ReadPeers => Answer::Peers {
                sequence: turn.appended().0,
                peers: ledger.peer_figures(),
                assets: ledger.assets(),
                settings: settings_form(ledger),
                mends: Box::new(ledger.mends().clone()),
                waits: self.exchange.stuck() > 0 || turn.room(EVENT_BYTES_MAX) == Room::DiskFull,
            },
            Operation::ReadDurableEnd => Answer::DurableEnd { durable: turn.durable() },
            Operation::CoverIds => {
                self.ids.cover(turn.durable().position());
                Answer::DurableEnd { durable: turn.durable() }
            }
            Operation::NameAccounts(slots) => {
                let named =
                    |slot: &AccountSlot| ledger.account_at(*slot).map(|account| (*slot, account.id, account.asset));
                Answer::Names(slots.iter().filter_map(named).collect())
            }
            Operation::KeepAudit(report) => {
                self.last_audit.clone_from(report);
                Answer::Audit(report.clone())
            }
            Operation::ReadAudit => Answer::Audit(Box::new(self.last_audit.clone())),
            writes => unreachable!("{writes:?} is not a read"),
        })
    }

    /// What the newest record of an id says.
    fn known_id<L: LogStore>(&mut self, turn: &LedgerTurn<'_, L>, id: &str) -> Result<KnownId, Halt> {
        let mut record = Vec::new();
        let Some((event, at)) = self.find_prior_at(turn, self.named(id), &mut record)? else {
            return Ok(KnownId::New);
        };
        let (ledger, at) = (turn.state(), RecordPosition(at.0));
        Ok(match (event, ledger.transfer_of(&event, at), ledger.hold_of(&event, at)) {
            (Event::IdClaimed { owner, .. }, ..) => KnownId::ElsewhereAt(owner),
            (_, Some(transfer), _) => KnownId::Transfer(transfer),
            (_, _, Some(hold)) => KnownId::Hold(hold),
            _ => KnownId::New,
        })
    }

    /// A page of accounts. Turned away while many accounts are not sorted yet: after a start, or a rush of new ones.
    pub(super) fn list(&mut self, ledger: &Ledger, prefix: &str, after: Option<&str>, limit: u32) -> Served<Output> {
        if self.order.catch_up(ledger, ACCOUNTS_SORTED_PER_STEP) > 0 {
            return Served::TurnedAway(Unavailable::Busy);
        }
        let limit = limit.min(PAGE_ROWS_MAX) as usize;
        done(Answer::Accounts(self.order.list(ledger, prefix, after, limit)))
    }

    /// An account of this shard, or its part of a collector; not what it merely knows of another shard's account.
    fn local_account(&self, ledger: &Ledger, id: &str) -> Option<AccountView> {
        let account = ledger.account(id)?;
        let here = shard_of(id, self.shard_count) == self.index || account.kind == AccountKind::Collector;
        here.then_some(account)
    }

    fn describe(&self, ledger: &Ledger, id: &str) -> AccountFact {
        let found = ledger.slot(id).and_then(|slot| ledger.facts_at(slot));
        let found = found.filter(|(.., is_here)| *is_here).map(|(asset, kind, _)| (asset.into(), kind));
        AccountFact { id: id.into(), found }
    }
}

fn read_figures<L: LogStore>(turn: &LedgerTurn<'_, L>, first: u32, count: u32) -> Answer {
    let count = count.min(AUDIT_ACCOUNTS_PER_QUESTION);
    let figures = turn.state().figures(first, count).map(Figures::from).collect();
    Answer::Figures { sequence: turn.appended().0, figures, more: first + count < turn.state().slots() }
}

#[cfg(test)]
mod tests;
