//! The balance of an account at a time: of each part, that after its last row which was written by then.
//!
//! ```text
//!   part 0   newest ─▶ written later: passed ─▶ nobody can tell: open ─▶ nobody can tell: open ─▶ written by then
//!   part 1   newest ─▶ written by then                              └─ written later: none of them is open any more
//! ```
//!
//! Promise: what is answered is the balance of then, whatever the clock said meanwhile. It is the sum over all parts of
//! what stands after the last row that was written by then. Where a row behind that one may have been written by then
//! as well, the answer is that nobody can tell.
//!
//! Why each part alone: its rows were written one after the other, so that a row that was written later shows that all
//! behind it were, too. Nothing shows that between the rows of two clocks.

use tidegate_machines::ledger::{Mend, Refusal, RowTime};
use tidegate_machines::{DamagedPlace, RecordPosition, ShardIndex, TimeMs};

use super::{ChainedRow, HistoryMerge, Part, in_64_bits};
use crate::message::{BalanceAt, Reply, TimeSpan};
use crate::operation::{Answer, Operation};

/// A history that is gone back through to a time.
pub(in crate::router) struct BalanceSearch {
    at: TimeMs,
    merge: HistoryMerge,
}

/// How far one part was gone back through.
struct Reached {
    /// Where another page goes on: before all rows that are open.
    place: RecordPosition,
    /// By how much the rows up to there changed what open holds reserve.
    held_change: i128,
    /// The newest mend that leaves rows open.
    open: Option<Mend>,
    end: End,
}

/// Why it was gone no further.
enum End {
    /// This row was written by then.
    Row(Box<ChainedRow>),
    /// There is no row before.
    First,
    /// The next row was not read yet.
    Unread,
    /// The next row cannot be read.
    Damaged(&'static DamagedPlace),
}

impl HistoryMerge {
    /// The balance at a time, in place of rows.
    pub(in crate::router) fn until(self, at: TimeMs) -> BalanceSearch {
        let times = TimeSpan::new(None, Some(at.0)).expect("it has no beginning");
        BalanceSearch { at, merge: self.of(times) }
    }
}

impl BalanceSearch {
    pub(in crate::router) fn calls(&self) -> Vec<(ShardIndex, Operation)> {
        self.merge.calls()
    }

    pub(in crate::router) fn collect(&mut self, shard: ShardIndex, answer: Answer) {
        self.merge.collect(shard, answer);
    }

    pub(in crate::router) fn reply(&mut self) -> Reply {
        if let Some(refusal) = self.merge.refused() {
            return Reply::Refused(refusal);
        }
        let mut left = self.merge.rows_looked_at();
        let reached: Vec<Reached> = self.merge.parts.iter_mut().map(|part| part.go_back(self.at, &mut left)).collect();
        let rows_read = std::mem::take(&mut self.merge.rows_read);
        if let Some(place) = reached.iter().find_map(Reached::damaged) {
            return Reply::Refused(Refusal::Damaged(place));
        }
        let held_change: i128 = reached.iter().map(|part| part.held_change).sum();
        self.merge.held = self.merge.held.map(|held| held - held_change);
        if reached.iter().any(|part| matches!(part.end, End::Unread)) {
            self.merge.from = Some(reached.iter().map(|part| part.place).collect());
            let next = self.merge.cursor().expect("a row was not read yet");
            return Reply::BalanceAt { found: BalanceAt::Further { next }, rows_read };
        }
        let found = untold(&reached).unwrap_or_else(|| known(reached, self.merge.held.and_then(in_64_bits)));
        Reply::BalanceAt { found, rows_read }
    }
}

/// Why nobody can tell, if some part has rows that are open.
fn untold(reached: &[Reached]) -> Option<BalanceAt> {
    let open = || reached.iter().filter_map(|part| Some((part.open?, part.known_until())));
    let mend = open().map(|(mend, _)| mend).max_by_key(|mend| mend.to)?;
    let until = open().map(|(_, until)| until).min().filter(|until| *until > TimeMs(0));
    Some(BalanceAt::Untold { mend, until })
}

fn known(reached: Vec<Reached>, held: Option<u64>) -> BalanceAt {
    let ends = reached.into_iter().filter_map(|part| match part.end {
        End::Row(row) => Some(row),
        _ => None,
    });
    let rows: Vec<Box<ChainedRow>> = ends.collect();
    let balance = rows.iter().map(|row| row.row.balance_after).sum();
    let last = rows.into_iter().max_by_key(|row| row.when.latest());
    let written_by = last.as_ref().map_or(TimeMs(0), |row| row.when.latest());
    let last = last.map(|row| {
        let mut row = row.row;
        row.balance_after = balance;
        Box::new(row)
    });
    BalanceAt::Known { last, written_by, held }
}

impl Reached {
    fn damaged(&self) -> Option<&'static DamagedPlace> {
        match self.end {
            End::Damaged(place) => Some(place),
            _ => None,
        }
    }

    /// Up to this time, all rows that are open are later: they were written behind the row that ended it.
    fn known_until(&self) -> TimeMs {
        match &self.end {
            End::Row(row) => match row.when {
                RowTime::Said(time) => time,
                RowTime::Unsure { after, .. } => after,
            },
            _ => TimeMs(0),
        }
    }
}

impl Part {
    /// Goes back to the last row that was written by `at`, past at most `left` rows.
    fn go_back(&mut self, at: TimeMs, left: &mut usize) -> Reached {
        let mut reached = Reached { place: self.next, held_change: 0, open: None, end: End::First };
        // The oldest of the rows that are open: where it stands, and how it changed what is held.
        let mut oldest_open: Option<(RecordPosition, i64)> = None;
        reached.end = loop {
            let Some(row) = self.rows.peek() else {
                reached.place = self.next;
                break match self.damaged {
                    Some(place) => End::Damaged(place),
                    None if self.next == RecordPosition::NONE => End::First,
                    None => End::Unread,
                };
            };
            reached.place = row.at;
            let is_by = row.when.is_by(at);
            if is_by == Some(true) {
                // A clock that goes wrong does so between two rows, not within the millisecond of one.
                if row.when == RowTime::Said(at) {
                    let passed = oldest_open.take();
                    (reached.held_change, reached.open) = (reached.held_change + held_change(passed), None);
                }
                break End::Row(Box::new(row.clone()));
            }
            if *left == 0 {
                break End::Unread;
            }
            *left -= 1;
            let row = self.rows.next().expect("peeked");
            reached.held_change += held_change(oldest_open.take());
            match (is_by, row.when) {
                (None, RowTime::Unsure { mend, .. }) => {
                    oldest_open = Some((row.at, row.held_change));
                    reached.open = reached.open.or(Some(mend));
                }
                _ => {
                    reached.open = None;
                    reached.held_change += i128::from(row.held_change);
                }
            }
        };
        // Another page begins with it, and finds it open again.
        reached.place = oldest_open.map_or(reached.place, |(place, _)| place);
        *self = Part::none();
        reached
    }
}

fn held_change(open: Option<(RecordPosition, i64)>) -> i128 {
    open.map_or(0, |(_, change)| i128::from(change))
}
