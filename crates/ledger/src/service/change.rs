//! Serves changes of accounts: at the account's home, and on the shards that are told of them.

use tidegate_disk::Disk;
use tidegate_journal::LogStore;
use tidegate_machines::ledger::{AccountKind, AccountRules, Command, Outcome};
use tidegate_shard::{Pause, Served};

use super::decide::done;
use super::records::Halt;
use super::{LedgerService, LedgerTurn, Output};
use crate::message::ChangeRequest;
use crate::operation::Answer;

impl<D: Disk> LedgerService<D> {
    pub(super) fn serve_change<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        id: &str,
        change: &ChangeRequest,
        is_settled: bool,
    ) -> Result<Served<Output>, Halt> {
        let command = Command::ChangeAccount { id, change: change.borrow(), is_settled };
        let outcome = self.decide_one(turn, &command, None)?;
        Ok(done(match (outcome, turn.state().account(id)) {
            (Outcome::Refused(refusal), _) => Answer::Refused(refusal),
            (outcome, Some(account)) => Answer::Changed { changed: outcome == Outcome::Applied, account },
            (_, None) => unreachable!("a changed account is there"),
        }))
    }

    /// Knows the account from now on, also if nothing here ever credited it, so that what was set on it is known before
    /// something does.
    pub(super) fn serve_adopt<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        id: &str,
        (asset, kind): (&str, AccountKind),
        revision: u64,
        rules: AccountRules,
    ) -> Result<Served<Output>, Halt> {
        if turn.state().slot(id).is_none() {
            let home = tidegate_machines::ledger::shard_of(id, self.shard_count);
            self.decide_one(turn, &Command::AdoptAccount { id, asset, kind, home }, None)?;
        }
        if !self.may_decide(turn) {
            // The account is known; the rest comes when there is room.
            return Ok(Served::Paused(Pause::Room));
        }
        self.decide_one(turn, &Command::AdoptChange { id, revision, rules }, None)?;
        let (under_way, is_frozen) = turn.state().under_way_to(id);
        let part = turn.state().account(id).filter(|account| account.kind == AccountKind::Collector);
        Ok(done(Answer::Adopted { under_way: under_way as u64, is_frozen, part: part.map(Box::new) }))
    }
}
