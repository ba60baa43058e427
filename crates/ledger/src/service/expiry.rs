//! Holds whose time is over are released, some in each step.

use tidegate_disk::Disk;
use tidegate_journal::LogStore;
use tidegate_machines::ledger::{Command, Outcome, Refusal};
use tidegate_machines::{RecordPosition, TimeMs};
use tidegate_planted::{Bug, is_planted};
use tidegate_shard::{JobId, Jobs};

use super::records::{AtHand, Halt};
use super::{LedgerService, LedgerTurn, ShardError, may_append};
use crate::limits::{DAMAGE_RETRY_MS, EXPIRIES_PER_STEP};

/// The holds whose time is over: what was read for them, and the read of more.
///
/// A hold whose record is damaged stays, because nobody can say any more what is to be released. Those behind it in the
/// order of expiry go on, and from time to time it is tried again.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    reading: Option<JobId>,
    at_hand: AtHand,
    /// The last hold that was passed over; all before it are gone or were passed over, too.
    passed: Option<(TimeMs, RecordPosition)>,
    /// When the first of them was.
    passed_at: Option<TimeMs>,
    /// How many.
    stuck: u64,
}

impl Expiry {
    /// Holds that were passed over.
    pub fn stuck(&self) -> u64 {
        self.stuck
    }
}

impl<D: Disk> LedgerService<D> {
    pub(super) fn expire_holds<L: LogStore>(
        &mut self,
        turn: &mut LedgerTurn<'_, L>,
        jobs: &mut Jobs<Self>,
    ) -> Result<(), ShardError> {
        if let Some(job) = self.expiry.reading {
            let Some(records) = self.reads.take(job) else { return Ok(()) };
            (self.expiry.reading, self.expiry.at_hand) = (None, records?);
        }
        assert!(self.at_hand.is_empty(), "one call after the other");
        self.at_hand = std::mem::take(&mut self.expiry.at_hand);
        let expired = self.expire_some(turn);
        let at_hand = std::mem::take(&mut self.at_hand);
        match expired {
            Ok(()) => Ok(()),
            Err(Halt::Stop(stop)) => Err(stop),
            Err(Halt::NoRoom) => unreachable!("room was asked for"),
            Err(Halt::Damaged(_)) => unreachable!("a hold whose record is damaged is passed over"),
            Err(Halt::Unread) => {
                let expired = turn.state().expired_holds_after(turn.now(), self.expiry.passed);
                let unread = self.unread(turn, expired.map(|(id, _)| id).take(EXPIRIES_PER_STEP), &at_hand);
                self.expiry.reading = Some(self.start_read(unread, jobs));
                self.expiry.at_hand = at_hand;
                Ok(())
            }
        }
    }

    fn expire_some<L: LogStore>(&mut self, turn: &mut LedgerTurn<'_, L>) -> Result<(), Halt> {
        if self.expiry.passed_at.is_some_and(|at| turn.now().0.abs_diff(at.0) >= DAMAGE_RETRY_MS) {
            (self.expiry.passed, self.expiry.passed_at, self.expiry.stuck) = (None, None, 0);
        }
        // What would be journaled for a wrong hold is wrong for ever.
        if self.last_audit.is_state_wrong() {
            return Ok(());
        }
        for _ in 0..EXPIRIES_PER_STEP {
            let Some((id, key)) = turn.state().expired_holds_after(turn.now(), self.expiry.passed).next() else {
                return Ok(());
            };
            if !may_append(turn) || is_planted(Bug::HoldNotReleased) {
                return Ok(());
            }
            let id = Box::<str>::from(id);
            let outcome = self.decide_one(turn, &Command::ExpireHold { id: &id }, Some(&id))?;
            if let Outcome::Refused(Refusal::Damaged(_)) = outcome {
                self.expiry.passed = Some(key);
                self.expiry.passed_at.get_or_insert(turn.now());
                self.expiry.stuck += 1;
            }
        }
        Ok(())
    }
}
