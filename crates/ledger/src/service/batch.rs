//! Batches: one decision after the other, each item by itself; of transfers and openings with the memory of those to
//! come on its way.
//!
//! ```text
//!   16 ahead   seek    ids and accounts: asks for the lines in which they are looked up
//!    8 ahead   touch   finds the accounts there, asks for theirs
//!    0         decide
//! ```
//!
//! Why two steps: where an account is stands in a table, and to ask for it before the table is there is to wait for the
//! table. With a million accounts a worker that did so waited for two thirds of its time.

use tidegate_disk::Disk;
use tidegate_journal::{LogStore, Position};
use tidegate_machines::ledger::{Command, Guess, Outcome, Refusal, SoughtPair, Transfer};
use tidegate_shard::Served;

use super::decide::{HashedId, PAUSED, STEP_OVER, done, is_missing};
use super::progress::Progress;
use super::records::Halt;
use super::{LedgerService, LedgerTurn, Output};
use crate::ids::IdHash;
use crate::message::{HoldRequest, OpenBatch, TransferBatch};
use crate::operation::{AccountFact, Selection};

/// So many transfers ahead of its decision, the memory is asked for in which an id and accounts are looked up...
pub(super) const SEEK_AHEAD: usize = 16;
/// ... and so many ahead, that of the accounts, which were found there.
const TOUCH_AHEAD: usize = 8;

/// A transfer that comes next in a batch, with what was found out on the way.
#[derive(Clone, Copy)]
struct Upcoming<'a> {
    transfer: Transfer<'a>,
    hash: IdHash,
    new_since: Option<Position>,
    sought: SoughtPair,
    guess: Guess,
}

const _: () = assert!(TOUCH_AHEAD < SEEK_AHEAD);

impl<D: Disk> LedgerService<D> {
    pub(super) fn serve_opens<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        batch: &OpenBatch,
        selection: &Selection,
        progress: &mut Progress,
    ) -> Result<Served<Output>, Halt> {
        let count = selection.len(batch.len());
        progress.outcomes.reserve(count - progress.outcomes.len());
        while progress.outcomes.len() < count {
            if self.opens_left == 0 {
                return Ok(STEP_OVER);
            }
            if !self.may_decide(turn) {
                return Ok(PAUSED);
            }
            self.opens_left -= 1;
            let n = progress.outcomes.len();
            if n + SEEK_AHEAD < count {
                turn.state().seek_account(batch.get(selection.index(n + SEEK_AHEAD)).0);
            }
            let (id, asset, kind) = batch.get(selection.index(n));
            let outcome = self.decide_one(turn, &Command::OpenAccount { id, asset, kind }, None)?;
            progress.outcomes.push(outcome);
        }
        Ok(done(progress.answer(count)))
    }

    pub(super) fn serve_transfers<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        batch: &TransferBatch,
        selection: &Selection,
        facts: &[AccountFact],
        progress: &mut Progress,
    ) -> Result<Served<Output>, Halt> {
        if !self.adopt(turn, facts)? {
            return Ok(PAUSED);
        }
        let count = selection.len(batch.len());
        // Those that come next, each in the place of its number.
        let mut coming: [Option<Upcoming<'_>>; SEEK_AHEAD] = [None; SEEK_AHEAD];
        let first = progress.outcomes.len();
        let new_ids = progress.new_ids.take();
        let new_since = |item: usize| new_ids.as_ref().filter(|new| new.has(item)).map(|new| new.since);
        for ahead in first..count.min(first + SEEK_AHEAD) {
            coming[ahead % SEEK_AHEAD] = Some(self.seek(turn, batch.get(selection.index(ahead)), new_since(ahead)));
        }
        for ahead in first..first + TOUCH_AHEAD {
            touch(turn, &mut coming[ahead % SEEK_AHEAD]);
        }
        let served = self.serve_items(turn, count, progress, |service, turn, n| {
            let place = &mut coming[n % SEEK_AHEAD];
            let Upcoming { transfer, hash, new_since: new, guess, .. } = place.take().expect("it was looked at ahead");
            let id = HashedId { id: transfer.id, hash, new_since: new };
            let ahead = n + SEEK_AHEAD;
            if ahead < count {
                *place = Some(service.seek(turn, batch.get(selection.index(ahead)), new_since(ahead)));
            }
            touch(turn, &mut coming[(n + TOUCH_AHEAD) % SEEK_AHEAD]);
            service.decide_credit(turn, transfer.credit, facts, id, |credit_missing| Command::Transfer {
                transfer,
                credit_missing,
                guess,
            })
        });
        progress.new_ids = new_ids;
        served
    }

    pub(super) fn serve_holds<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        holds: &[HoldRequest],
        selection: &Selection,
        facts: &[AccountFact],
        progress: &mut Progress,
    ) -> Result<Served<Output>, Halt> {
        if !self.adopt(turn, facts)? {
            return Ok(PAUSED);
        }
        self.serve_items(turn, selection.len(holds.len()), progress, |service, turn, n| {
            let request = &holds[selection.index(n)];
            let (hold, open_holds_max, id) = (request.borrow(), request.open_holds_max, service.named(&request.id));
            service.decide_credit(turn, hold.credit, facts, id, |credit_missing| Command::PlaceHold {
                hold,
                credit_missing,
                open_holds_max,
            })
        })
    }

    /// Commands that need to know of no other account.
    pub(super) fn serve_each<'a, L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        selection: &Selection,
        total: usize,
        progress: &mut Progress,
        command_at: impl Fn(usize) -> (Command<'a>, &'a str),
    ) -> Result<Served<Output>, Halt> {
        self.serve_items(turn, selection.len(total), progress, |service, turn, n| {
            let (command, id) = command_at(selection.index(n));
            service.decide_one(turn, &command, Some(id)).map(Some)
        })
    }

    /// Decides on `count` items in their order, as far as this step has room. `None` for one that needs to know of the
    /// credited account first.
    #[inline]
    fn serve_items<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        count: usize,
        progress: &mut Progress,
        mut decide: impl FnMut(&mut Self, &mut LedgerTurn<'_, L>, usize) -> Result<Option<Outcome>, Halt>,
    ) -> Result<Served<Output>, Halt> {
        assert!(progress.outcomes.len() <= count, "no more items are decided than there are");
        progress.outcomes.reserve(count - progress.outcomes.len());
        while progress.outcomes.len() < count {
            if self.decisions_left == 0 {
                return Ok(STEP_OVER);
            }
            if !self.may_decide(turn) {
                return Ok(PAUSED);
            }
            let n = progress.outcomes.len();
            let outcome = decide(self, turn, n)?.unwrap_or_else(|| {
                progress.need_credit.push(n as u32);
                Outcome::Refused(Refusal::CreditAccountNotFound)
            });
            progress.outcomes.push(outcome);
        }
        Ok(done(progress.answer(count)))
    }

    /// Decides on a command that credits `credit`, once this shard knows whether there is such an account.
    #[inline]
    fn decide_credit<'a, L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        credit: &str,
        facts: &[AccountFact],
        id: HashedId<'a>,
        command: impl FnOnce(bool) -> Command<'a>,
    ) -> Result<Option<Outcome>, Halt> {
        if self.needs_credit(turn.state(), credit, facts) {
            return Ok(None);
        }
        self.decide_named(turn, &command(is_missing(credit, facts)), Some(id)).map(Some)
    }

    /// Starts to load what the decision on `transfer` will look at.
    #[inline]
    fn seek<'a, L: LogStore>(
        &self,
        turn: &LedgerTurn<'_, L>,
        transfer: Transfer<'a>,
        new_since: Option<Position>,
    ) -> Upcoming<'a> {
        let hash = self.ids.hash(transfer.id.as_bytes());
        match new_since {
            Some(since) => self.ids.prefetch_since(hash, since),
            None => self.ids.prefetch(hash),
        }
        Upcoming { transfer, hash, new_since, sought: turn.state().seek(&transfer), guess: Guess::NONE }
    }
}

/// Asks for the accounts of a transfer that was sought before.
#[inline]
fn touch<L: LogStore>(turn: &LedgerTurn<'_, L>, coming: &mut Option<Upcoming<'_>>) {
    if let Some(upcoming) = coming {
        upcoming.guess = turn.state().touch(upcoming.sought);
    }
}
