//! Pages of an account's history: its records, newest first; each names the one before.
//!
//! ```text
//!   newest ─▶ in memory? rows at once ─▶ job: follow the chain on the disk ─▶ rows ─▶ job … ─▶ answer
//! ```
//!
//! Why other calls may overtake one for a history: it writes nothing, and its records may be years old. Its answer
//! waits for all records that were appended before its last row was read.

use std::sync::Arc;

use tidegate_disk::Disk;
use tidegate_journal::{LogId, LogReader, LogStore, Position};
use tidegate_machines::RecordPosition;
use tidegate_machines::ledger::{AccountSlot, Event, Ledger, Refusal};
use tidegate_planted::{Bug, is_planted};
use tidegate_runtime::{Damages, Unreadable};
use tidegate_shard::{JobId, Jobs, Pause, Served};

use super::records::Halt;
use super::{Job, LedgerService, LedgerTurn, Output};
use crate::family::LEDGER;
use crate::limits::{HISTORY_RECORDS_PER_JOB, HISTORY_RECORDS_PER_STEP, HISTORY_ROWS_AT_ONCE, PAGE_ROWS_MAX};
use crate::operation::{Answer, ChainedRow};

/// How far a history was read.
#[derive(Debug, Default)]
pub(super) struct RowsRead {
    rows: Vec<ChainedRow>,
    next: Option<RecordPosition>,
    /// What open holds reserved after the newest row, if the page begins there.
    held: Option<u64>,
    job: Option<JobId>,
}

/// Follows the chain of one account's records.
#[derive(Debug)]
pub struct HistoryJob {
    slot: AccountSlot,
    from: RecordPosition,
    records_max: usize,
    log: LogId,
    damages: Arc<Damages>,
}

/// The records that it met, newest first, and why it went no further, if the disk was why.
#[derive(Debug)]
pub struct HistoryRecords {
    records: Vec<(RecordPosition, Box<[u8]>)>,
    ended: Option<Unreadable>,
}

impl HistoryJob {
    pub(super) fn run<R: LogReader>(self, reader: &R) -> HistoryRecords {
        let mut found = HistoryRecords { records: Vec::new(), ended: None };
        let mut at = self.from;
        while at != RecordPosition::NONE && found.records.len() < self.records_max {
            let mut record = Vec::new();
            if let Err(unreadable) = self.damages.read(reader, (LEDGER.name, self.log), Position(at.0), &mut record) {
                found.ended = Some(unreadable);
                break;
            }
            let before = Event::decode(&record).ok().and_then(|event| event.step_of(self.slot)).map(|step| step.prev);
            assert!(found.records.last().is_none_or(|(newer, _)| *newer > at), "a history goes back in time");
            found.records.push((at, record.into_boxed_slice()));
            // A record that is no part of this history ends the chain; whoever makes rows of it says what that means.
            match before.filter(|before| *before < at) {
                Some(before) => at = before,
                None => break,
            }
        }
        found
    }
}

impl<D: Disk> LedgerService<D> {
    pub(super) fn serve_history<L: LogStore>(
        &mut self,
        turn: &LedgerTurn<'_, L>,
        (id, from, limit): (&str, Option<RecordPosition>, u32),
        read: &mut RowsRead,
        jobs: &mut Jobs<Self>,
    ) -> Result<Served<Output>, Halt> {
        let ledger = turn.state();
        let (Some(newest), Some(slot)) = (ledger.last_position(id), ledger.slot(id)) else {
            return Ok(done(Answer::Refused(Refusal::AccountNotFound)));
        };
        let limit = limit.min(PAGE_ROWS_MAX + 1) as usize;
        if read.next.or(from).is_none() {
            // In the same step as the place of the newest row: both are of one moment.
            read.held = ledger.account_at(slot).map(|account| account.held);
        }
        let mut at = read.next.or(from).unwrap_or(newest);
        if let Some(job) = read.job.take() {
            let found = self.histories.remove(&job).expect("it is served again when its job has come back");
            for (position, record) in &found.records {
                assert_eq!(*position, at, "a job follows the chain");
                match row_of(ledger, (id, slot), *position, record) {
                    Some((row, before)) => {
                        read.rows.push(row);
                        at = before;
                    }
                    // A cursor that a client made up, or one of another account.
                    None => return Ok(done(Answer::Refused(Refusal::CursorInvalid))),
                }
            }
            match found.ended {
                // Nothing can be there yet: made up, or from before a restore.
                Some(_) if Position(at.0) >= turn.durable().position() => {
                    return Ok(done(Answer::Refused(Refusal::CursorInvalid)));
                }
                // All is sound around a place where no record begins: the cursor is made up, or from before a restore.
                Some(Unreadable::Nothing(_)) if read.rows.is_empty() && from.is_some() => {
                    return Ok(done(Answer::Refused(Refusal::CursorInvalid)));
                }
                Some(Unreadable::Damaged(place) | Unreadable::Nothing(place)) => {
                    let rows = std::mem::take(&mut read.rows);
                    return Ok(done(Answer::Rows { rows, next: at, damaged: Some(place), held: read.held }));
                }
                Some(Unreadable::Failed(error)) => return Err(error.into()),
                None => {}
            }
        }
        // What is not durable yet can be read from memory only; of the rest, some, and a job reads on.
        let mut durable_left = HISTORY_RECORDS_PER_STEP;
        while at != RecordPosition::NONE && read.rows.len() < limit && durable_left > 0 {
            let Some(record) = turn.peek(Position(at.0)) else { break };
            let Some((row, before)) = row_of(ledger, (id, slot), at, record) else {
                return Ok(done(Answer::Refused(Refusal::CursorInvalid)));
            };
            durable_left -= usize::from(Position(at.0) < turn.durable().position());
            read.rows.push(row);
            at = before;
        }
        if at == RecordPosition::NONE || read.rows.len() >= limit {
            assert!(read.rows.len() <= limit, "a page has no more rows than were asked for");
            let rows = std::mem::take(&mut read.rows);
            return Ok(done(Answer::Rows { rows, next: at, damaged: None, held: read.held }));
        }
        assert!(read.rows.len() < limit, "a page that is full is given");
        read.next = Some(at);
        // A small page does not wait for large ones, nor the beginning of a history for those that were read far back.
        let is_small = limit <= HISTORY_ROWS_AT_ONCE || (from.is_none() && read.rows.len() < HISTORY_ROWS_AT_ONCE);
        let records_max = if is_small { HISTORY_ROWS_AT_ONCE } else { HISTORY_RECORDS_PER_JOB };
        let records_max = records_max.min(limit - read.rows.len());
        let history = HistoryJob { slot, from: at, records_max, log: self.log, damages: self.damages.clone() };
        let job = match is_small {
            true => jobs.start(Job::History(history)),
            false => jobs.start_later(u64::from(slot.0), Job::History(history)),
        };
        read.job = Some(job);
        Ok(Served::Paused(Pause::Aside(job)))
    }
}

fn row_of(
    ledger: &Ledger,
    (id, slot): (&str, AccountSlot),
    at: RecordPosition,
    record: &[u8],
) -> Option<(ChainedRow, RecordPosition)> {
    let event = Event::decode(record).ok()?;
    let (row, before) = ledger.history_row(id, &event)?;
    // A history goes back in time.
    let (held_change, when) = (held_change(&event, slot), ledger.row_time(&event, at));
    (before < at).then_some((ChainedRow { row, at, held_change, when }, before))
}

/// By how much an event changed what open holds reserve on the account in `slot`.
fn held_change(event: &Event<'_>, slot: AccountSlot) -> i64 {
    let (released, debit, sign) = match event {
        Event::HoldPlaced { hold, debit, .. } => (hold.amount, debit, 1),
        Event::HoldPosted { posted, debit, .. } if is_planted(Bug::PostReleaseMiscounted) => (*posted, debit, -1),
        // A post releases all that was held, and moves some of it.
        Event::HoldPosted { hold, debit, .. }
        | Event::HoldVoided { hold, debit, .. }
        | Event::HoldExpired { hold, debit, .. } => (hold.amount, debit, -1),
        _ => return 0,
    };
    if debit.slot == slot { sign * i64::try_from(released.get()).expect("amounts have 63 bits") } else { 0 }
}

fn done(answer: Answer) -> Served<Output> {
    Served::Done(Output::Answer(answer))
}
