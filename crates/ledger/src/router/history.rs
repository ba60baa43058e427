//! One history of an account whose parts live on several shards.
//!
//! Rows of all parts merge newest first. The balance after a row is the sum of the parts' balances at that moment: each
//! part's own balance after its last row that is not newer.
//!
//! A cursor names records by their positions, and a shard reads what a position names. So a cursor is signed: otherwise
//! a client could point a shard into the middle of a record, where a memo could be read as a record.

use siphasher::sip::SipHasher24;
use tidegate_machines::ledger::Refusal;
use tidegate_machines::{RecordPosition, ShardIndex};

use crate::limits::PAGE_ROWS_MAX;
use crate::message::Reply;
use crate::operation::{Answer, ChainedRow, Operation};

/// Signs the cursors of histories. The same for all routers of a data directory, and secret.
#[derive(Clone, Copy, Debug)]
pub struct CursorKey(pub [u64; 2]);

impl CursorKey {
    /// SipHash-2-4, made to be such a signature, of the account and the places.
    fn sign(self, account: &str, places: &[RecordPosition]) -> u64 {
        let mut bytes = account.as_bytes().to_vec();
        places.iter().for_each(|place| bytes.extend_from_slice(&place.0.to_le_bytes()));
        SipHasher24::new_with_keys(self.0[0], self.0[1]).hash(&bytes)
    }
}

/// The parts of one history that is being read.
pub(super) struct HistoryMerge {
    account: Box<str>,
    key: CursorKey,
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
        key: CursorKey,
    ) -> Result<(HistoryMerge, Vec<(ShardIndex, Operation)>), Refusal> {
        let limit = limit.clamp(1, PAGE_ROWS_MAX);
        let cursor = before.map(|text| parse_cursor(text, &id, shard_count, key)).transpose()?;
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
        assert!(calls.len() <= usize::from(shard_count), "a call to a shard at most");
        let merge =
            HistoryMerge { account: id, key, limit: limit as usize, found: before.is_some(), refused: None, parts };
        // No page gives a cursor at which every part has ended.
        if calls.is_empty() { Err(Refusal::CursorInvalid) } else { Ok((merge, calls)) }
    }

    pub(super) fn collect(&mut self, shard: ShardIndex, answer: Answer) {
        match answer {
            Answer::Rows { rows, next } => {
                let part = &mut self.parts[shard.0 as usize];
                let is_new = part.rows.peek().is_none() && part.next == RecordPosition::NONE;
                assert!(is_new, "each shard that was asked answers once");
                assert!(rows.len() <= self.limit + 1, "a shard gives no more rows than were asked for");
                assert!(rows.is_sorted_by(|newer, older| newer.at > older.at), "a history goes back in time");
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
        assert!(rows.len() <= self.limit, "a page has no more rows than were asked for");
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
        assert!(places.len() == self.parts.len(), "a cursor has a place for each shard");
        let texts: Vec<String> = places.iter().map(|place| place.0.to_string()).collect();
        let signature = self.key.sign(&self.account, &places);
        Some(format!("{}.{signature:016x}", texts.join(".")).into())
    }
}

fn parse_cursor(text: &str, account: &str, shard_count: u16, key: CursorKey) -> Result<Vec<RecordPosition>, Refusal> {
    // Twenty digits and a dot for each place, and the signature.
    if text.len() > 21 * shard_count as usize + 16 {
        return Err(Refusal::CursorInvalid);
    }
    let parse = || {
        let (places, signature) = text.rsplit_once('.')?;
        let signature = u64::from_str_radix(signature, 16).ok()?;
        let places: Option<Vec<RecordPosition>> =
            places.split('.').map(|place| place.parse().ok().map(RecordPosition)).collect();
        places.filter(|places| places.len() == shard_count as usize && key.sign(account, places) == signature)
    };
    parse().ok_or(Refusal::CursorInvalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: CursorKey = CursorKey([1, 2]);

    fn cursor(account: &str, places: &[u64]) -> String {
        let places: Vec<RecordPosition> = places.iter().copied().map(RecordPosition).collect();
        let texts: Vec<String> = places.iter().map(|place| place.0.to_string()).collect();
        format!("{}.{:016x}", texts.join("."), KEY.sign(account, &places))
    }

    #[test]
    fn only_a_cursor_that_was_given_for_this_account_is_taken() {
        let given = cursor("wallet:dave", &[4096, 0]);
        assert_eq!(parse_cursor(&given, "wallet:dave", 2, KEY), Ok(vec![RecordPosition(4096), RecordPosition(0)]));
        let signature = given.rsplit_once('.').unwrap().1;
        for (text, account, shards) in [
            (given.as_str(), "wallet:eve", 2),
            (given.as_str(), "wallet:dave", 1),
            (&format!("4097.0.{signature}"), "wallet:dave", 2),
            ("4096.0", "wallet:dave", 2),
            ("4096.0.0", "wallet:dave", 2),
            ("", "wallet:dave", 2),
            (&"9".repeat(1 << 16), "wallet:dave", 2),
        ] {
            assert_eq!(parse_cursor(text, account, shards, KEY), Err(Refusal::CursorInvalid), "{text} for {account}");
        }
    }
}
