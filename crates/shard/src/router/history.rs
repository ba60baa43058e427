//! One history of an account whose parts live on several shards.
//!
//! Rows of all parts merge newest first. The balance after a row is the sum of the parts' balances at that moment: each part's
//! own balance after its last row that is not younger.

use tidegate_machines::ledger::Refusal;
use tidegate_machines::{RecordPosition, ShardIndex};

use crate::limits::PAGE_ROWS_MAX;
use crate::message::Reply;
use crate::operation::{Answer, ChainedRow, Operation};

/// The parts of one history under way.
pub(super) struct HistoryMerge {
    limit: usize,
    found: bool,
    refused: Option<Refusal>,
    parts: Vec<Part>,
}

/// One shard's rows, newest first, and where its chain goes on.
struct Part {
    rows: std::iter::Peekable<std::vec::IntoIter<ChainedRow>>,
    next: RecordPosition,
}

impl HistoryMerge {
    /// Asks every shard that may have a part. `before` is the cursor of an earlier page: a record position per shard.
    pub(super) fn open(
        id: Box<str>,
        before: Option<&str>,
        limit: u32,
        shard_count: u16,
    ) -> Result<(HistoryMerge, Vec<(ShardIndex, Operation)>), Refusal> {
        let limit = limit.clamp(1, PAGE_ROWS_MAX);
        let cursor = before.map(|text| parse_cursor(text, shard_count)).transpose()?;
        let none = || Part { rows: Vec::new().into_iter().peekable(), next: RecordPosition::NONE };
        let parts = (0..shard_count).map(|_| none()).collect();
        // A wallet or source has all its rows at home; a collector may have a part anywhere. Who has none says so.
        let calls: Vec<_> = (0..shard_count)
            .map(ShardIndex)
            .filter_map(|shard| {
                let from = cursor.as_ref().map(|cursor| cursor[shard.0 as usize]);
                let at_end = from == Some(RecordPosition::NONE);
                let read = Operation::ReadHistory { id: id.clone(), from, limit: limit + 1 };
                (!at_end).then_some((shard, read))
            })
            .collect();
        let merge = HistoryMerge { limit: limit as usize, found: before.is_some(), refused: None, parts };
        // No page gives a cursor at which every part has ended.
        if calls.is_empty() { Err(Refusal::CursorInvalid) } else { Ok((merge, calls)) }
    }

    pub(super) fn collect(&mut self, shard: ShardIndex, answer: Answer) {
        match answer {
            Answer::Rows { rows, next } => {
                self.found = true;
                self.parts[shard.0 as usize] = Part { rows: rows.into_iter().peekable(), next };
            }
            Answer::Refused(Refusal::AccountNotFound) => {}
            Answer::Refused(refusal) => self.refused = Some(refusal),
            other => unreachable!("{other:?} answers no history"),
        }
    }

    pub(super) fn page(&mut self) -> Reply {
        if let Some(refusal) = self.refused {
            return Reply::Refused(refusal);
        }
        if !self.found {
            return Reply::Refused(Refusal::AccountNotFound);
        }
        let mut rows = Vec::with_capacity(self.limit);
        while rows.len() < self.limit {
            let Some(newest) = self.newest_part() else { break };
            let balance_after =
                self.parts.iter_mut().filter_map(|part| part.rows.peek()).map(|r| r.row.balance_after).sum();
            let mut row = self.parts[newest].rows.next().expect("peeked").row;
            row.balance_after = balance_after;
            rows.push(row);
        }
        Reply::History { rows, next: self.cursor() }
    }

    fn newest_part(&mut self) -> Option<usize> {
        let times =
            self.parts.iter_mut().enumerate().filter_map(|(i, part)| part.rows.peek().map(|r| (r.row.time_ms, i)));
        times.max().map(|(_, index)| index)
    }

    fn cursor(&mut self) -> Option<Box<str>> {
        let places: Vec<RecordPosition> =
            self.parts.iter_mut().map(|part| part.rows.peek().map_or(part.next, |row| row.at)).collect();
        if places.iter().all(|place| *place == RecordPosition::NONE) {
            return None;
        }
        let texts: Vec<String> = places.iter().map(|place| place.0.to_string()).collect();
        Some(texts.join(".").into())
    }
}

fn parse_cursor(text: &str, shard_count: u16) -> Result<Vec<RecordPosition>, Refusal> {
    if text.len() > 21 * shard_count as usize {
        return Err(Refusal::CursorInvalid);
    }
    let places: Result<Vec<u64>, _> = text.split('.').map(str::parse).collect();
    match places {
        Ok(places) if places.len() == shard_count as usize => Ok(places.into_iter().map(RecordPosition).collect()),
        _ => Err(Refusal::CursorInvalid),
    }
}
