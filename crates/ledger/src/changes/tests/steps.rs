//! Which shard a step reads, and what it gives before a record that cannot be read.

use tidegate_journal::{Forgotten, GroupReader, JournalError, LogReader, Position, Scrubbed};

use super::super::cursor::ShardPlace;
use super::super::own_log::OwnLog;
use super::*;

/// A reader over two journals, as of two shards.
fn reader_of(journals: [&Journal; 2]) -> ChangeReader {
    let logs = ChangeLogs::default();
    let log = |journal: &Journal| ChangeLog {
        reader: Mutex::new(journal.log.reader().unwrap()),
        mark: journal.mark.clone(),
        seen: Arc::default(),
    };
    logs.open(journals.map(log).into(), KEY);
    logs.read(After::Start, all()).unwrap().expect("it is open")
}

/// Steps until the end: of each step that gave rows, their shard and how many they were.
fn steps(reader: &mut ChangeReader) -> Vec<(u16, usize)> {
    let mut steps = Vec::new();
    loop {
        match reader.step().unwrap() {
            Step::AtEnd => return steps,
            Step::Rows { rows, .. } => steps.push((rows[0].shard, rows.len())),
            Step::Names(shard, slots) => {
                reader.name(shard, slots.into_iter().map(|slot| (slot, id_of(slot).into(), "credit".into())));
            }
        }
    }
}

#[test]
fn shards_take_turns_and_one_at_its_end_keeps_no_other_waiting() {
    let (mut first, mut second) = (Journal::new(), Journal::new());
    for (journal, transfers) in [(&mut first, 3_000), (&mut second, 1_500)] {
        journal.open_accounts(10);
        journal.transfer(1, transfers, 0);
    }
    let mut reader = reader_of([&first, &second]);
    let given = steps(&mut reader);
    let shards: Vec<u16> = given.iter().map(|(shard, _)| *shard).collect();
    let of_second = shards.iter().filter(|shard| **shard == 1).count();
    let in_turn = (0..2 * of_second).map(|step| (step % 2) as u16);
    assert!(shards.iter().copied().take(2 * of_second).eq(in_turn) && of_second > 10, "{given:?}");
    let of = |shard| given.iter().filter(|(of, _)| *of == shard).map(|(_, rows)| rows).sum::<usize>();
    assert_eq!((of(0), of(1)), (3_010, 1_510));
    for shard in [1, 0, 1, 1] {
        if shard == 0 { &mut first } else { &mut second }.transfer(1, 1, 9);
        assert_eq!(steps(&mut reader), [(shard, 1)]);
    }
}

#[test]
fn what_stands_before_a_record_of_a_newer_program_is_given_first() {
    let mut journal = Journal::new();
    journal.open_accounts(5);
    let mut group = journal.log.begin_group();
    for record in [&b"\xfe"[..], b"\xfe\xfe"] {
        group.append(|bytes| bytes.extend_from_slice(record));
    }
    journal.log.submit(group).unwrap();
    while journal.settle().sequence() < journal.log.last_sequence() {
        std::thread::yield_now();
    }
    let mut reader = journal.read(After::Start, all()).unwrap();
    let Ok(Step::Rows { rows, .. }) = reader.step() else { panic!("the openings are given") };
    assert_eq!(rows.len(), 5);
    for _ in 0..2 {
        let refused = reader.step();
        assert!(refused.is_err(), "and then it is said what is wrong: {refused:?}");
    }
}

#[test]
fn a_notice_of_an_operator_is_passed_wherever_it_stands() {
    let options = Options::small(256 << 10);
    let (mut journal, id) = (Journal::new(), LEDGER.log(7, 0));
    journal.open_accounts(3);
    let Journal { disk, log, .. } = journal;
    log.close().unwrap();
    let logs = LocalLogs::new(disk.clone(), std::path::Path::new("/data"), &[LEDGER]);
    let notice = Notice { kind: NoticeKind::Restored, time_ms: 7, lost: None, text: "a copy of yesterday".into() };
    (0..2).for_each(|_| _ = logs.append_notice(id, Cursor::START, options, &notice).unwrap());
    let mut journal = Journal::over(disk);
    journal.transfer(1, 2, 0);

    let mut reader = journal.read(After::Start, all()).unwrap();
    let (rows, _) = rest(&mut reader);
    assert_eq!(rows.iter().map(|row| row.sequence).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    // Behind the last row nothing is left, and from each row on the rest is given.
    for (at, row) in rows.iter().enumerate() {
        let mut reader = journal.read(After::Cursor(row.cursor.clone()), all()).unwrap();
        assert_eq!(rest(&mut reader).0.len(), rows.len() - at - 1, "behind row {at}");
    }
}

/// A log that becomes durable further whenever its end is looked for.
struct Growing<R> {
    log: R,
    mark: Arc<DurableMark>,
    then: Durability,
}

impl<R: LogReader> LogReader for Growing<R> {
    fn another(&self) -> Result<Self, JournalError> {
        Ok(Growing { log: self.log.another()?, mark: self.mark.clone(), then: self.then })
    }

    fn read(&self, at: Position, into: &mut Vec<u8>) -> Result<(), JournalError> {
        self.log.read(at, into)
    }

    fn begins_at_or_before(&self, at: Position) -> Result<Cursor, JournalError> {
        self.log.begins_at_or_before(at)
    }

    fn groups(&self, from: Cursor, up_to: &Durability) -> Result<GroupReader, JournalError> {
        self.log.groups(from, up_to)
    }

    fn settled_end(&self) -> Result<Durability, JournalError> {
        self.mark.advance(&self.then);
        self.log.settled_end()
    }

    fn scrub(&self, from: Cursor, bytes: u64) -> Result<Scrubbed, JournalError> {
        self.log.scrub(from, bytes)
    }

    fn forget_before(&self, position: Position) -> Result<Forgotten, JournalError> {
        self.log.forget_before(position)
    }

    fn bytes_between(&self, from: Position, to: Position) -> u64 {
        self.log.bytes_between(from, to)
    }
}

#[test]
fn a_cursor_at_the_end_is_right_though_the_log_grows_while_it_is_compared() {
    let mut journal = Journal::new();
    journal.open_accounts(3);
    let group = journal.log.durable_end().cursor();
    let mark = Arc::new(DurableMark::new(&journal.mark.get(), journal.logs.listeners().clone()));
    journal.transfer(1, 1, 0);
    let log = Growing { log: journal.log.reader().unwrap(), mark: mark.clone(), then: journal.mark.get() };
    let own = OwnLog { log, mark, seen: Arc::default() };
    let place = ShardPlace { group, passed: 0 };
    assert!(own.check_end(0, &place).is_ok());
    assert!(own.mark.get().position() > place.group.position, "it has grown");
}
