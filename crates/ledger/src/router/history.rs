//! One history of an account whose parts live on several shards.
//!
//! Rows of all parts merge newest first. The balance after a row is the sum of the parts' balances at that moment: each
//! part's own balance after its last row that is not newer.
//!
//! With a span of time, a page looks at a thousand rows, the first one at fewer, and has those of the span among them.
//! What open holds reserve is counted back from the newest row: each row changed it by so much. A cursor carries it on,
//! so that the figures of any moment are known where a page reaches it.
//!
//! A row of a clock that was wrong counts as written when that was mended: so rows of each part stay in order, and a
//! span ends where it ends.
//!
//! A stream is such pages, one after the other. Between two of them it has no rows, only the positions where the next
//! one begins.
//!
//! A cursor names records by their positions, and a shard reads what a position names. So a cursor is signed: otherwise
//! a client could point a shard into the middle of a record, where a memo could be read as a record.

mod balance;

use siphasher::sip::SipHasher24;
use tidegate_machines::ledger::{HistoryRow, Refusal};
use tidegate_machines::{DamagedPlace, RecordPosition, ShardIndex, TimeMs};

use crate::limits::{FIRST_ROWS_LOOKED_AT, HISTORY_PART_ROWS_MAX, PAGE_ROWS_MAX};
use crate::message::{Reply, TimeSpan};
use crate::operation::{Answer, ChainedRow, Operation};

pub(super) use balance::BalanceSearch;

/// Signs the cursors of histories. The same for all routers of a data directory, and secret.
#[derive(Clone, Copy, Debug)]
pub struct CursorKey(pub [u64; 2]);

impl CursorKey {
    /// SipHash-2-4, made to be such a signature, of the account, the places and what is held there.
    fn sign(self, account: &str, places: &[RecordPosition], held: Option<u64>) -> u64 {
        let mut bytes = account.as_bytes().to_vec();
        places.iter().for_each(|place| bytes.extend_from_slice(&place.0.to_le_bytes()));
        // No text of a number of places has this length and that of none, so no cursor reads as one of the other form.
        held.iter().for_each(|held| {
            bytes.push(HELD as u8);
            bytes.extend_from_slice(&held.to_le_bytes());
        });
        self.sign_bytes(&bytes)
    }

    /// SipHash-2-4 of `bytes`.
    pub(crate) fn sign_bytes(self, bytes: &[u8]) -> u64 {
        SipHasher24::new_with_keys(self.0[0], self.0[1]).hash(bytes)
    }
}

/// Before what is held, in a cursor.
const HELD: char = 'h';

/// A place in a history: where the next page begins, per shard, and what open holds reserve there, if that is known.
type Start = (Vec<RecordPosition>, Option<u64>);

/// The parts of one history that is being read.
pub(super) struct HistoryMerge {
    account: Box<str>,
    key: CursorKey,
    limit: usize,
    times: TimeSpan,
    /// Where the next page begins, per shard; `None` at the newest row.
    from: Option<Vec<RecordPosition>>,
    /// What open holds reserve there, as far as it is known. Only the home of an account has some of it.
    held: Option<i128>,
    found: bool,
    refused: Option<Refusal>,
    /// Rows that shards have given for the page.
    rows_read: usize,
    parts: Vec<Part>,
}

/// One shard's rows, newest first, and where its chain goes on.
struct Part {
    rows: std::iter::Peekable<std::vec::IntoIter<ChainedRow>>,
    next: RecordPosition,
    /// Why the chain cannot be followed beyond its rows.
    damaged: Option<&'static DamagedPlace>,
}

impl HistoryMerge {
    /// A history from `before` on: the cursor of an earlier page, a record position per shard.
    pub(super) fn open(
        id: Box<str>,
        before: Option<&str>,
        limit: u32,
        shard_count: u16,
        key: CursorKey,
    ) -> Result<HistoryMerge, Refusal> {
        let limit = limit.clamp(1, PAGE_ROWS_MAX) as usize;
        let start = before.map(|text| parse_cursor(text, &id, shard_count, key)).transpose()?;
        let (from, held) = start.map_or((None, Some(0)), |(from, held)| (Some(from), held.map(i128::from)));
        let parts = (0..shard_count).map(|_| Part::none()).collect();
        let merge = HistoryMerge {
            account: id,
            key,
            limit,
            times: TimeSpan::ALL,
            from,
            held,
            found: before.is_some(),
            refused: None,
            rows_read: 0,
            parts,
        };
        // No page gives a cursor at which every part has ended.
        if merge.is_over() { Err(Refusal::CursorInvalid) } else { Ok(merge) }
    }

    /// Only rows of these times.
    pub(super) fn of(self, times: TimeSpan) -> HistoryMerge {
        HistoryMerge { times, ..self }
    }

    /// Rows that a page looks at.
    fn rows_looked_at(&self) -> usize {
        match (self.times.is_all(), &self.from) {
            (true, _) => self.limit,
            (false, None) => self.limit.max(FIRST_ROWS_LOOKED_AT),
            (false, Some(_)) => PAGE_ROWS_MAX as usize,
        }
    }

    /// Asks every shard that may have a part of the next page. A wallet or source has all its rows at home; a collector
    /// may have a part anywhere. Who has none says so.
    pub(super) fn calls(&self) -> Vec<(ShardIndex, Operation)> {
        assert!(self.parts.iter().all(Part::is_new), "the page before is given");
        let shards = (0..self.parts.len()).map(|shard| ShardIndex(shard as u16));
        let calls = shards.filter_map(|shard| {
            let from = self.from.as_ref().map(|from| from[usize::from(shard.0)]);
            let at_end = from == Some(RecordPosition::NONE);
            let read =
                Operation::ReadHistory { id: self.account.clone(), from, limit: self.rows_looked_at() as u32 + 1 };
            (!at_end).then_some((shard, read))
        });
        calls.collect()
    }

    pub(super) fn collect(&mut self, shard: ShardIndex, answer: Answer) {
        match answer {
            Answer::Rows { rows, next, damaged, held } => {
                let most = self.rows_looked_at() + 1;
                let part = &mut self.parts[shard.0 as usize];
                assert!(part.is_new(), "each shard that was asked answers once");
                assert!(rows.len() <= most, "a shard gives no more rows than were asked for");
                assert!(rows.is_sorted_by(|newer, older| newer.at > older.at), "a history goes back in time");
                self.found = true;
                self.rows_read += rows.len();
                if self.from.is_none() {
                    self.held = self.held.zip(held).map(|(sum, held)| sum + i128::from(held));
                }
                self.parts[shard.0 as usize] = Part { rows: rows.into_iter().peekable(), next, damaged };
            }
            Answer::Refused(Refusal::AccountNotFound) => {}
            Answer::Refused(refusal) => self.refused = Some(refusal),
            other => unreachable!("{other:?} answers no history"),
        }
    }

    pub(super) fn page(&mut self) -> Reply {
        match self.rows() {
            // A page is whole or refused: a short one would say that the history ends there. A smaller page may still
            // be had.
            Ok((_, Some(damaged))) => Reply::Refused(Refusal::Damaged(damaged)),
            Ok((Page { rows, held, is_end, .. }, None)) => {
                let next = if is_end { None } else { self.cursor() };
                let rows_read = std::mem::take(&mut self.rows_read);
                Reply::History { rows, next, held: held.and_then(in_64_bits), rows_read }
            }
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    /// The rows of the page whose parts are there, and the damage that ends them early. What the parts have beyond it
    /// is forgotten.
    fn rows(&mut self) -> Result<(Page, Option<&'static DamagedPlace>), Refusal> {
        if let Some(refusal) = self.refused() {
            return Err(refusal);
        }
        let (mut rows, mut written_by) = (Vec::with_capacity(self.limit), Vec::new());
        let mut held_first = None;
        let (mut damaged, mut is_end) = (None, false);
        let mut left = self.rows_looked_at();
        while rows.len() < self.limit && left > 0 && !is_end {
            // What comes next cannot be told without the row that is damaged, nor the sum of balances.
            damaged = self.parts.iter_mut().find_map(|part| part.damaged.filter(|_| part.rows.peek().is_none()));
            if damaged.is_some() {
                break;
            }
            let Some(newest) = self.newest_part() else { break };
            let balance_after =
                self.parts.iter_mut().filter_map(|part| part.rows.peek()).map(|r| r.row.balance_after).sum();
            let ChainedRow { mut row, held_change, when, .. } = self.parts[newest].rows.next().expect("peeked");
            left -= 1;
            is_end = self.times.ends_before(when.latest().0);
            if self.times.contains(when.latest().0) {
                held_first = held_first.or(self.held);
                row.balance_after = balance_after;
                rows.push(row);
                written_by.push(when.latest());
            }
            self.held = self.held.map(|held| held - i128::from(held_change));
        }
        assert!(rows.len() <= self.limit, "a page has no more rows than were asked for");
        let held = if rows.is_empty() { self.held } else { held_first };
        let places = self.parts.iter_mut().map(|part| part.rows.peek().map_or(part.next, |row| row.at));
        self.from = Some(places.collect());
        self.parts.iter_mut().for_each(|part| *part = Part::none());
        Ok((Page { rows, written_by, held, is_end }, damaged))
    }

    /// Why no part of the history is given.
    fn refused(&self) -> Option<Refusal> {
        self.refused.or((!self.found).then_some(Refusal::AccountNotFound))
    }

    /// Whether every part has ended.
    fn is_over(&self) -> bool {
        self.from.as_ref().is_some_and(|from| from.iter().all(|place| *place == RecordPosition::NONE))
    }

    fn newest_part(&mut self) -> Option<usize> {
        let times =
            self.parts.iter_mut().enumerate().filter_map(|(i, part)| part.rows.peek().map(|r| (r.when.latest(), i)));
        times.max().map(|(_, index)| index)
    }

    /// Where the next page begins, signed; `None` if there is none.
    fn cursor(&self) -> Option<Box<str>> {
        let places = self.from.as_ref().filter(|_| !self.is_over())?;
        assert!(places.len() == self.parts.len(), "a cursor has a place for each shard");
        Some(cursor_text(&self.account, places, self.held.and_then(in_64_bits), self.key).into())
    }
}

/// The rows of a page.
struct Page {
    rows: Vec<HistoryRow>,
    /// When each of them was written at the latest.
    written_by: Vec<TimeMs>,
    /// What open holds reserved after the first of them, or where the next page begins.
    held: Option<i128>,
    /// Whether nothing that is asked for is behind them.
    is_end: bool,
}

/// What holds reserve at one moment: weighed when they were placed, so it fits. A cursor of an abandoned timeline may
/// stand at a place that fits this one, too; with its figure it may not.
fn in_64_bits(held: i128) -> Option<u64> {
    u64::try_from(held).ok()
}

fn cursor_text(account: &str, places: &[RecordPosition], held: Option<u64>, key: CursorKey) -> String {
    let mut texts: Vec<String> = places.iter().map(|place| place.0.to_string()).collect();
    texts.extend(held.map(|held| format!("{HELD}{held}")));
    format!("{}.{:016x}", texts.join("."), key.sign(account, places, held))
}

impl Part {
    fn none() -> Part {
        Part { rows: Vec::new().into_iter().peekable(), next: RecordPosition::NONE, damaged: None }
    }

    fn is_new(&self) -> bool {
        self.rows.len() == 0 && self.next == RecordPosition::NONE
    }
}

/// A history that is read to its end, a page at a time.
pub(super) struct HistoryStream {
    merge: HistoryMerge,
    /// Rows that may still be given; `None` for all.
    rows_left: Option<u64>,
}

impl HistoryStream {
    /// At most `rows_max` rows from `before` on: the cursor of a page.
    pub(super) fn open(
        id: Box<str>,
        before: Option<&str>,
        rows_max: Option<u64>,
        shard_count: u16,
        key: CursorKey,
    ) -> Result<HistoryStream, Refusal> {
        let rows_left = rows_max.map(|rows| rows.max(1));
        let merge = HistoryMerge::open(id, before, part_rows(rows_left), shard_count, key)?;
        Ok(HistoryStream { merge, rows_left })
    }

    /// Asks for the next page.
    pub(super) fn calls(&mut self) -> Vec<(ShardIndex, Operation)> {
        self.merge.limit = part_rows(self.rows_left) as usize;
        self.merge.calls()
    }

    pub(super) fn collect(&mut self, shard: ShardIndex, answer: Answer) {
        self.merge.collect(shard, answer);
    }

    /// The page whose parts are there.
    pub(super) fn part(&mut self) -> Reply {
        let (rows, written_by, damaged) = match self.merge.rows() {
            // All rows before it were given; nobody takes them for the whole.
            Ok((page, Some(damaged))) if page.rows.is_empty() => return Reply::Refused(Refusal::Damaged(damaged)),
            Ok((page, damaged)) => (page.rows, page.written_by, damaged),
            Err(refusal) => return Reply::Refused(refusal),
        };
        if let Some(left) = &mut self.rows_left {
            *left = left.checked_sub(rows.len() as u64).expect("a page has no more rows than were asked for");
        }
        let is_last = self.merge.is_over() || self.rows_left == Some(0);
        assert!(is_last || !rows.is_empty(), "a stream comes to its end");
        assert!(damaged.is_none() || !self.merge.is_over(), "what is damaged is asked for again");
        Reply::HistoryPart { rows, written_by, is_last }
    }
}

/// Rows of the next part, if so many may still be given.
fn part_rows(rows_left: Option<u64>) -> u32 {
    rows_left.map_or(HISTORY_PART_ROWS_MAX, |rows| rows.min(u64::from(HISTORY_PART_ROWS_MAX)) as u32)
}

fn parse_cursor(text: &str, account: &str, shard_count: u16, key: CursorKey) -> Result<Start, Refusal> {
    // Twenty digits and a dot for each place, as many and a letter for what is held, and the signature.
    if text.len() > 21 * shard_count as usize + 22 + 16 {
        return Err(Refusal::CursorInvalid);
    }
    let parse = || {
        let (places, signature) = text.rsplit_once('.')?;
        let signature = u64::from_str_radix(signature, 16).ok()?;
        // A cursor of an earlier version does not say what is held.
        let (places, held) =
            match places.rsplit_once('.').and_then(|(rest, last)| Some((rest, last.strip_prefix(HELD)?))) {
                Some((rest, held)) => (rest, Some(held.parse().ok()?)),
                None => (places, None),
            };
        let places: Option<Vec<RecordPosition>> =
            places.split('.').map(|place| place.parse().ok().map(RecordPosition)).collect();
        let places = places.filter(|places| places.len() == shard_count as usize)?;
        (key.sign(account, &places, held) == signature).then_some((places, held))
    };
    parse().ok_or(Refusal::CursorInvalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: CursorKey = CursorKey([1, 2]);

    fn cursor(account: &str, places: &[u64], held: Option<u64>) -> String {
        let places: Vec<RecordPosition> = places.iter().copied().map(RecordPosition).collect();
        cursor_text(account, &places, held, KEY)
    }

    #[test]
    fn only_a_cursor_that_was_given_for_this_account_is_taken() {
        let places = vec![RecordPosition(4096), RecordPosition(0)];
        let given = cursor("wallet:dave", &[4096, 0], Some(7));
        assert!(given.starts_with("4096.0.h7."), "{given}");
        assert_eq!(parse_cursor(&given, "wallet:dave", 2, KEY), Ok((places.clone(), Some(7))));
        // As an earlier version gave it.
        let given = "4096.0.9ef917deee946828";
        assert_eq!(given, cursor("wallet:dave", &[4096, 0], None));
        assert_eq!(parse_cursor(given, "wallet:dave", 2, KEY), Ok((places, None)));
        let signature = given.rsplit_once('.').unwrap().1;
        for (text, account, shards) in [
            (given, "wallet:eve", 2),
            (given, "wallet:dave", 1),
            (&format!("4097.0.{signature}"), "wallet:dave", 2),
            (&format!("4096.0.h7.{signature}"), "wallet:dave", 2),
            (&format!("4096.h0.{signature}"), "wallet:dave", 1),
            (&format!("h4096.{signature}"), "wallet:dave", 1),
            ("4096.0", "wallet:dave", 2),
            ("4096.0.0", "wallet:dave", 2),
            ("", "wallet:dave", 2),
            (&"9".repeat(1 << 16), "wallet:dave", 2),
        ] {
            assert_eq!(parse_cursor(text, account, shards, KEY), Err(Refusal::CursorInvalid), "{text} for {account}");
        }
    }

    #[test]
    fn the_longest_cursor_that_can_be_given_is_taken() {
        let longest = |account: &String| cursor(account, &[u64::MAX; 3], Some(u64::MAX)).len() == 3 * 21 + 22 + 16;
        let account = (0..100).map(|n| format!("wallet:{n}")).find(longest).expect("most signatures have 16 digits");
        let given = cursor(&account, &[u64::MAX; 3], Some(u64::MAX));
        let expected = (vec![RecordPosition(u64::MAX); 3], Some(u64::MAX));
        assert_eq!(parse_cursor(&given, &account, 3, KEY), Ok(expected));
    }
}
