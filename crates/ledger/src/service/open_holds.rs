//! Pages of the open holds on an account. What a hold reserves is in memory; its memo, code and user data are in its
//! record only.
//!
//! ```text
//!   list ─▶ holds of the state ─▶ their records: in memory, or already read ─▶ answer
//!                                    └─ neither ─▶ Unread ─▶ one job for all of the page ─▶ again
//! ```
//!
//! Why other calls may overtake one for a list: it writes nothing, and its holds may be years old.

use tidegate_disk::Disk;
use tidegate_journal::{LogStore, Position};
use tidegate_machines::RecordPosition;
use tidegate_machines::ledger::{Event, HoldView, Refusal};

use super::records::{AtHand, Halt, Wanted};
use super::{LedgerService, LedgerTurn};
use crate::family::LEDGER;
use crate::limits::PAGE_ROWS_MAX;
use crate::operation::Answer;

/// Which page: of which account, behind which record, how many.
pub(super) type Page<'a> = (&'a str, RecordPosition, u32);

impl<D: Disk> LedgerService<D> {
    pub(super) fn list_holds<L: LogStore>(
        &self,
        turn: &LedgerTurn<'_, L>,
        (account, after, limit): Page<'_>,
    ) -> Result<Answer, Halt> {
        let limit = limit.min(PAGE_ROWS_MAX) as usize;
        let Some(holds) = turn.state().holds_of(account, after) else {
            return Ok(Answer::Refused(Refusal::AccountNotFound));
        };
        let mut holds: Vec<HoldView> = holds.take(limit + 1).collect();
        let more = holds.len() > limit;
        holds.truncate(limit);
        for hold in &mut holds {
            self.complete(turn, hold)?;
        }
        Ok(Answer::Holds { holds, more })
    }

    /// The records of a page that are neither in memory nor at hand.
    pub(super) fn unread_holds<L: LogStore>(
        &self,
        turn: &LedgerTurn<'_, L>,
        (account, after, limit): Page<'_>,
        at_hand: &AtHand,
    ) -> Wanted<D> {
        let limit = limit.min(PAGE_ROWS_MAX) as usize;
        let holds = turn.state().holds_of(account, after).into_iter().flatten().take(limit);
        self.unread_records(turn, holds.map(|hold| Position(hold.at.0)), at_hand)
    }

    /// Adds what only the record has.
    fn complete<L: LogStore>(&self, turn: &LedgerTurn<'_, L>, hold: &mut HoldView) -> Result<(), Halt> {
        let at = Position(hold.at.0);
        let record = match (turn.peek(at), self.at_hand.records.get(&at)) {
            (Some(record), _) => record,
            (None, Some(Ok(record))) => record,
            (None, Some(Err(place))) => return Err(Halt::Damaged(place)),
            (None, None) => return Err(Halt::Unread),
        };
        let placed = Event::decode(record).ok().and_then(|event| turn.state().hold_of(&event, hold.at));
        let Some(placed) = placed.filter(|placed| placed.id == hold.id) else {
            let what = "it is not the record that placed an open hold";
            return Err(Halt::Damaged(self.damages.note_record(LEDGER.name, self.log, at, what)));
        };
        (hold.memo, hold.code, hold.user_data) = (placed.memo, placed.code, placed.user_data);
        Ok(())
    }
}
