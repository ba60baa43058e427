//! Readers over a journal that a test writes.

mod rows;
mod steps;

use std::sync::{Arc, Mutex};

use tidegate_disk::FakeDisk;
use tidegate_journal::{
    Cursor, Durability, DurableMark, LocalLog, LocalLogs, LogStore, Logs, Notice, NoticeKind, Opened, Options,
};
use tidegate_machines::ledger::{AccountKind, AccountSlot, AccountStep, CreditStep, Event, Label};
use tidegate_machines::{Amount, RecordPosition, ShardIndex, TimeMs};

use super::*;
use crate::family::LEDGER;
use crate::limits::{CHANGE_NAMES_MAX, CHANGE_READ_AHEAD_BYTES, CHANGE_RECORDS_PER_STEP, CHANGE_ROW_BYTES_PER_STEP};
use crate::router::CursorKey;

const KEY: CursorKey = CursorKey([1, 2]);
const WALLETS: u32 = CHANGE_NAMES_MAX as u32 + 500;

/// What is read of changes.
type LogsOfChanges = ChangeLogs<<LocalLog<FakeDisk> as LogStore>::Reader>;

/// A journal: a source in slot 0, wallets behind it, and transfers to them.
struct Journal {
    disk: FakeDisk,
    log: LocalLog<FakeDisk>,
    logs: LogsOfChanges,
    mark: Arc<DurableMark>,
    time: u64,
}

fn id_of(slot: AccountSlot) -> String {
    if slot.0 == 0 { "source".to_owned() } else { format!("wallet:{}", slot.0) }
}

impl Journal {
    fn new() -> Journal {
        Journal::over(FakeDisk::new(1))
    }

    /// What is on this disk already, and what is written behind it.
    fn over(disk: FakeDisk) -> Journal {
        let logs = LocalLogs::new(disk.clone(), std::path::Path::new("/data"), &[LEDGER]);
        let id = LEDGER.log(7, 0);
        let Opened { mut log, .. } = logs.open(id, Cursor::START, Options::small(256 << 10)).unwrap();
        let changes = ChangeLogs::default();
        let mark = Arc::new(DurableMark::new(&log.poll_durable().unwrap(), changes.listeners().clone()));
        let reader = Mutex::new(log.reader().unwrap());
        changes.open(vec![ChangeLog { reader, mark: mark.clone(), seen: Arc::default() }], KEY);
        Journal { disk, log, logs: changes, mark, time: 0 }
    }

    /// Writes these events in groups of `group`, and waits until they are durable.
    fn write(&mut self, group: usize, count: u32, event: impl for<'a> Fn(u32, TimeMs, &'a str) -> Event<'a>) {
        let numbers: Vec<u32> = (0..count).collect();
        for some in numbers.chunks(group) {
            while self.log.ready().is_err() {
                self.settle();
            }
            let mut group = self.log.begin_group();
            for number in some {
                self.time += 1;
                let text = format!("{number}");
                let event = event(*number, TimeMs(self.time), &text);
                group.append(|bytes| event.encode(bytes));
            }
            self.log.submit(group).unwrap();
        }
        while self.settle().sequence() < self.log.last_sequence() {
            std::thread::yield_now();
        }
    }

    fn settle(&mut self) -> Durability {
        let durable = self.log.poll_durable().unwrap();
        self.mark.advance(&durable);
        durable
    }

    fn open_accounts(&mut self, count: u32) {
        self.write(200, count, |number, time, _| Event::AccountOpened {
            time,
            slot: AccountSlot(number),
            // A name must live as long as the event: the test's own are leaked, some hundred kilobytes.
            id: id_of(AccountSlot(number)).leak(),
            asset: "credit",
            kind: AccountKind::Wallet,
        });
    }

    /// Transfers from the source to the wallets behind `first`, one after the other.
    fn transfer(&mut self, group: usize, count: u32, first: u32) {
        let step = |slot, after| AccountStep { slot: AccountSlot(slot), prev: RecordPosition::NONE, after };
        self.write(group, count, |number, time, id| Event::Transferred {
            time,
            id: format!("t{first}-{id}").leak(),
            debit: step(0, -i64::from(number)),
            credit: CreditStep::Here(step(1 + (first + number) % (WALLETS - 1), 7)),
            amount: Amount::new(1).unwrap(),
            memo: "",
            label: Label::NONE,
        });
    }

    fn read(&self, after: After, filter: ChangeFilter) -> Result<ChangeReader, ChangesError> {
        self.logs.read(after, filter).map(|reader| reader.expect("it is open"))
    }
}

fn all() -> ChangeFilter {
    let interest = |_: &str| Interest { visible: true, wanted: true };
    ChangeFilter { interest: Box::new(interest), without_account: true, kinds: ChangeKind::ALL.to_vec() }
}

/// Reads to the end; the rows, and how many names were asked for.
fn rest(reader: &mut ChangeReader) -> (Vec<Change>, usize) {
    let (mut rows, mut asked) = (Vec::new(), 0);
    loop {
        match reader.step().unwrap() {
            Step::AtEnd => return (rows, asked),
            Step::Rows { rows: some, .. } => {
                assert!(some.len() <= CHANGE_RECORDS_PER_STEP);
                rows.extend(some);
            }
            Step::Names(shard, slots) => {
                assert!(shard == ShardIndex(0) && slots.len() <= 2 * CHANGE_RECORDS_PER_STEP && !slots.is_empty());
                asked += slots.len();
                reader.name(shard, slots.into_iter().map(|slot| (slot, id_of(slot).into(), "credit".into())));
            }
        }
    }
}

#[test]
fn a_reader_goes_on_behind_each_row_whatever_groups_there_are() {
    let mut journal = Journal::new();
    journal.open_accounts(50);
    for group in [1, 3, 40] {
        journal.transfer(group, 40, group as u32);
    }
    let (whole, asked) = rest(&mut journal.read(After::Start, all()).unwrap());
    assert_eq!((whole.len(), asked), (50 + 120, asked.min(41)), "openings name accounts");
    assert!(whole.iter().map(|row| row.sequence).eq(1..=170));
    for row in &whole {
        let mut reader = journal.read(After::Cursor(row.cursor.clone()), all()).unwrap();
        let (rest, _) = rest(&mut reader);
        assert_eq!(rest, whole[row.sequence as usize..], "behind row {}", row.sequence);
        assert_eq!(reader.cursor(), whole[169].cursor, "and stands at the end");
    }
    assert!(rest(&mut journal.read(After::Now, all()).unwrap()).0.is_empty());
    // A reader at the end goes on with what becomes durable, and not before.
    let mut reader = journal.read(After::Now, all()).unwrap();
    assert!(!journal.logs.has_more_than(&reader));
    journal.transfer(5, 5, 0);
    assert!(journal.logs.has_more_than(&reader));
    assert_eq!(rest(&mut reader).0.iter().map(|row| row.sequence).collect::<Vec<_>>(), [171, 172, 173, 174, 175]);
}

#[test]
fn a_step_gives_as_many_rows_however_small_the_groups_are() {
    let mut journal = Journal::new();
    journal.open_accounts(50);
    journal.transfer(1, 3_000, 0);
    let mut reader = journal.read(After::Start, all()).unwrap();
    let (mut rows, mut names_steps) = (Vec::new(), 0);
    loop {
        match reader.step().unwrap() {
            Step::AtEnd => break,
            Step::Rows { rows: some, .. } => rows.push(some),
            Step::Names(shard, slots) => {
                names_steps += 1;
                reader.name(shard, slots.into_iter().map(|slot| (slot, id_of(slot).into(), "credit".into())));
            }
        }
    }
    let bytes = |rows: &Vec<Change>| rows.iter().map(Change::held_bytes).sum::<usize>();
    let largest = rows.iter().map(|rows| bytes(rows) - rows[rows.len() - 1].held_bytes()).max();
    assert!(largest < Some(CHANGE_ROW_BYTES_PER_STEP), "a step ends when its rows take so much: {largest:?}");
    assert!(rows.len() < 3_050 / 40, "{} steps", rows.len());
    assert!(names_steps <= 3, "a shard is asked once for the names of a step, and not for each group");
    assert!(rows.iter().flatten().map(|row| row.sequence).eq(1..=3_050));
    // Each of these cursors is between two groups of a step.
    for row in rows.iter().flatten().step_by(97) {
        let mut reader = journal.read(After::Cursor(row.cursor.clone()), all()).unwrap();
        assert_eq!(rest(&mut reader).0.first().map(|next| next.sequence), Some(row.sequence + 1));
    }
}

#[test]
fn what_is_before_damage_is_given_before_the_damage_is_told() {
    let mut journal = Journal::new();
    journal.open_accounts(50);
    journal.transfer(1, 40, 0);
    let Journal { disk, log, logs, .. } = journal;
    log.close().unwrap();
    let segment = disk.files().into_iter().find(|(path, _)| path.to_string_lossy().contains("segment-"));
    let path = segment.expect("a log has a segment").0;
    let bytes = disk.contents(&path).unwrap();
    let damaged = bytes.windows(5).position(|window| window == b"t0-30").expect("a transfer has it");
    assert!(disk.flip_bit(&path, damaged as u64, 1));
    let mut reader = logs.read(After::Start, all()).unwrap().expect("it is open");
    let mut rows = Vec::new();
    for _ in 0..3 {
        let error = loop {
            match reader.step() {
                Ok(Step::Rows { rows: some, .. }) => rows.extend(some),
                Ok(other) => panic!("{other:?}"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ChangesError::Unreadable { shard: 0, .. }), "{error:?}");
    }
    assert!(rows.iter().map(|row| row.sequence).eq(1..=80), "{} rows", rows.len());
}

#[test]
fn a_reader_that_gave_its_memory_back_goes_on_where_it_was() {
    let mut journal = Journal::new();
    journal.open_accounts(50);
    journal.transfer(700, 2_100, 0);
    let mut reader = journal.read(After::Start, all()).unwrap();
    let (mut rows, mut most) = (Vec::new(), 0);
    loop {
        match reader.step().unwrap() {
            Step::AtEnd => break,
            Step::Rows { rows: some, bytes, .. } => {
                assert!(bytes >= some.len(), "also what is read again is counted");
                rows.extend(some);
                most = most.max(reader.held_bytes());
                // In the middle of a group, mostly.
                reader.release();
                assert_eq!(reader.held_bytes(), 0);
            }
            Step::Names(shard, slots) => {
                reader.name(shard, slots.into_iter().map(|slot| (slot, id_of(slot).into(), "credit".into())));
            }
        }
    }
    assert!(rows.iter().map(|row| row.sequence).eq(1..=2_150), "{} rows", rows.len());
    assert!(most < 8 * CHANGE_READ_AHEAD_BYTES, "{most} bytes for groups of 40,000");
    assert!(!journal.logs.has_more_than(&reader) && reader.held_bytes() < 8 << 10);
    journal.transfer(1, 1, 7);
    assert!(journal.logs.has_more_than(&reader));
    assert_eq!(rest(&mut reader).0.len(), 1);
}

#[test]
fn names_are_bounded_and_asked_for_again() {
    let mut journal = Journal::new();
    journal.open_accounts(2);
    let begin = journal.read(After::Now, all()).unwrap().cursor();
    // Each wallet twice, over more wallets than names are kept.
    journal.transfer(1_000, 2 * (WALLETS - 1), 0);
    let (rows, asked) = rest(&mut journal.read(After::Cursor(begin), all()).unwrap());
    assert_eq!(rows.len() as u32, 2 * (WALLETS - 1));
    assert!(asked > CHANGE_NAMES_MAX, "{asked} names were asked for");
    for (number, row) in rows.iter().enumerate() {
        let credit = row.credit.as_ref().expect("a transfer credits");
        assert_eq!(*credit.id, *id_of(AccountSlot(1 + number as u32 % (WALLETS - 1))));
        assert_eq!(*row.debit.as_ref().expect("a transfer debits").id, *"source");
    }
}

#[test]
fn only_wanted_and_visible_changes_are_given_and_balances_of_others_are_not() {
    let mut journal = Journal::new();
    journal.open_accounts(50);
    journal.transfer(7, 49, 0);
    let filter = |visible: &'static str, wanted: &'static str| {
        let interest = move |id: &str| Interest { visible: id.starts_with(visible), wanted: id.starts_with(wanted) };
        ChangeFilter { interest: Box::new(interest), without_account: false, kinds: vec![ChangeKind::Transfer] }
    };
    let credits = |filter| -> Vec<(String, Option<i64>, Option<i64>)> {
        let (rows, _) = rest(&mut journal.read(After::Start, filter).unwrap());
        let credit = |row: &Change| {
            let (debit, credit) = (row.debit.clone().unwrap(), row.credit.clone().unwrap());
            (credit.id.to_string(), debit.balance_after, credit.balance_after)
        };
        rows.iter().map(credit).collect()
    };
    assert_eq!(credits(filter("wallet:4", "wallet:42")), [("wallet:42".to_owned(), None, Some(7))]);
    assert_eq!(credits(filter("wallet:1", "wallet:42")), []);
    assert_eq!(credits(filter("source", "")).len(), 49);
    assert!(credits(filter("source", "")).iter().all(|(_, debit, credit)| debit.is_some() && credit.is_none()));
    assert_eq!(credits(filter("source", "wallet")), [], "what is wanted is not visible");
}

#[test]
fn a_cursor_of_another_journal_is_told_from_damage_and_from_nonsense() {
    let mut here = Journal::new();
    let mut there = Journal::new();
    here.open_accounts(10);
    there.open_accounts(10);
    here.transfer(3, 30, 0);
    there.transfer(3, 60, 1);
    let (theirs, _) = rest(&mut there.read(After::Start, all()).unwrap());
    let said = |cursor: &str| match here.read(After::Cursor(cursor.into()), all()).and_then(|mut reader| reader.step())
    {
        Ok(_) => "read".to_owned(),
        Err(ChangesError::OtherHistory { shard: 0, .. }) => "other history".to_owned(),
        Err(error) => format!("{error:?}"),
    };
    assert_eq!(said(&theirs[9].cursor), "read", "from before they parted");
    assert!(theirs.len() > 12, "they wrote something after they parted");
    for row in theirs.iter().skip(12) {
        assert_eq!(said(&row.cursor), "other history", "row {}", row.sequence);
    }
    assert_eq!(said("AQEA"), "CursorInvalid");
}

/// What is answered to who goes on behind a cursor: nothing is wrong, or the problem.
fn said(journal: &Journal, cursor: &str) -> Result<(), ChangesError> {
    said_of(&journal.logs, cursor)
}

fn said_of(logs: &LogsOfChanges, cursor: &str) -> Result<(), ChangesError> {
    let reader = logs.read(After::Cursor(cursor.into()), all()).map(|reader| reader.expect("it is open"));
    reader.and_then(|mut reader| reader.step()).map(|_| ())
}

#[test]
fn a_right_cursor_before_damage_is_not_called_another_history() {
    let mut journal = Journal::new();
    journal.open_accounts(10);
    journal.transfer(3, 9, 0);
    let (rows, _) = rest(&mut journal.read(After::Start, all()).unwrap());
    // Behind row 10 a group of three begins, behind row 13 the next one.
    // A writer that is idle marks the end, and writes the block around it as it was: nothing that rots meanwhile stays
    // rotten.
    let Journal { disk, log, logs, .. } = journal;
    log.close().unwrap();
    let in_a_group = |at: usize| said_of(&logs, &rows[at].cursor);
    let segment = disk.files().into_iter().find(|(path, _)| path.to_string_lossy().contains("segment-"));
    let path = segment.expect("a log has a segment").0;
    let bytes = disk.contents(&path).unwrap();
    let damaged = bytes.windows(4).position(|window| window == b"t0-4").expect("the second group of transfers has it");
    assert!((9..19).all(|at| in_a_group(at).is_ok()));

    assert!(disk.flip_bit(&path, damaged as u64, 1));
    assert!(in_a_group(9).is_ok(), "what is before the damage is read");
    for at in [12, 13, 14] {
        let refused = in_a_group(at);
        assert!(matches!(refused, Err(ChangesError::Unreadable { shard: 0, .. })), "row {at}: {refused:?}");
    }
    // Behind the damage the journal can be read again; only a place that cannot be verified is called unreadable.
    assert!(in_a_group(15).is_ok());

    // Damage of the group behind a cursor, and before it: nobody can tell, so nobody is told to begin again.
    let next = bytes.windows(4).position(|window| window == b"t0-7").expect("the third group has it");
    assert!(disk.flip_bit(&path, next as u64, 1));
    assert!(matches!(in_a_group(15), Err(ChangesError::Unreadable { .. })));
}

#[test]
fn a_cursor_of_another_journal_is_not_said_to_meet_damage() {
    let (mut here, mut there) = (Journal::new(), Journal::new());
    here.open_accounts(10);
    there.open_accounts(10);
    here.transfer(4, 40, 0);
    there.transfer(3, 30, 1);
    let (theirs, _) = rest(&mut there.read(After::Start, all()).unwrap());
    for row in &theirs[12..] {
        match said(&here, &row.cursor) {
            Err(ChangesError::OtherHistory { what, .. }) => {
                assert!(!what.contains("damaged") && !what.contains("estore"), "row {}: {what}", row.sequence);
            }
            other => panic!("row {}: {other:?}", row.sequence),
        }
    }
}
