use std::path::Path;

use tidegate_disk::FakeDisk;
use tidegate_journal::{Durability, LogReader, Logs, Options, StepLogs};
use tidegate_machines::ledger::{AccountSlot, AccountStep, CreditStep, Label};
use tidegate_machines::{Amount, RecordPosition, TimeMs};

use super::*;
use crate::family::LEDGER;

const SEED: IdSeed = IdSeed([1, 2]);
const FAR: Position = Position(1 << 40);

/// A log with a group for each of these transfers.
struct Journal {
    logs: StepLogs<FakeDisk>,
    end: Durability,
}

impl Journal {
    fn of(ids: &[&str]) -> Journal {
        let logs = StepLogs::new(FakeDisk::new(1), Path::new("/data"), &[LEDGER]);
        let log = LEDGER.log(7, 0);
        let step = |slot| AccountStep { slot: AccountSlot(slot), prev: RecordPosition::NONE, after: 1 };
        let record = |id: &&str| {
            let (mut bytes, amount) = (Vec::new(), Amount::new(1).expect("above zero"));
            let (debit, credit) = (step(0), CreditStep::Here(step(1)));
            Event::Transferred { time: TimeMs(1), id, debit, credit, amount, memo: "", label: Label::NONE }
                .encode(&mut bytes);
            bytes
        };
        let records: Vec<Vec<u8>> = ids.iter().map(record).collect();
        logs.write_one_by_one(log, Options::small(64 << 10), records).expect("there is room");
        let end = logs.inspect(log, Cursor::START).expect("it is whole").durability();
        Journal { logs, end }
    }

    fn groups(&self) -> GroupReader {
        let reader = self.logs.reader(LEDGER.log(7, 0)).expect("it is there");
        reader.groups(Cursor::START, &self.end).expect("it is whole")
    }

    /// A pass over the log that leaves out these groups, and the sum over all its records as runs would have it.
    fn pass(&self, compared: &mut IdsCompared, left_out: &[usize]) -> IdDigest {
        compared.begin(Some((SEED, IdDigest::up_to(FAR))));
        let (mut groups, mut of_runs) = (self.groups(), IdDigest::up_to(self.end.position()));
        for number in 0.. {
            let before = groups.cursor();
            let Some(group) = groups.next_group().expect("it is whole") else { return of_runs };
            let records: Vec<(Position, Vec<u8>)> =
                group.records().map(|(_, at, record)| (at, record.to_vec())).collect();
            for (at, record) in &records {
                let event = Event::decode(record).expect("it was encoded");
                of_runs.note(SEED, event.id().expect("a transfer has one"), *at);
            }
            if left_out.contains(&number) {
                continue;
            }
            compared.before(before);
            for (at, record) in &records {
                compared.note(&Event::decode(record).expect("it was encoded"), *at);
            }
            compared.after(&groups);
        }
        unreachable!("a log ends")
    }
}

#[test]
fn a_whole_pass_is_compared_with_the_runs_up_to_where_both_went() {
    let journal = Journal::of(&["a", "b", "c"]);
    let mut compared = IdsCompared::default();
    let of_runs = journal.pass(&mut compared, &[]);
    assert!(compared.is_summing());
    assert_eq!(compared.end(), Some(journal.end.position()));
    assert!(!compared.is_summing() && compared.end().is_none(), "a pass ends once");
    assert_eq!(compared.compare(of_runs), None);
    assert_eq!((compared.count(), compared.difference()), (1, None));
    // Without a pass of the log there is nothing to compare with.
    assert_eq!(compared.compare(of_runs), None);
    assert_eq!(compared.count(), 1);
}

#[test]
fn an_id_that_runs_lack_is_a_difference_until_both_agree_again() {
    let journal = Journal::of(&["a", "b", "c"]);
    let mut compared = IdsCompared::default();
    let of_runs = journal.pass(&mut compared, &[]);
    compared.end();
    let mut lacking = IdDigest::up_to(journal.end.position());
    lacking.note(SEED, "a", Position(1));
    let what = compared.compare(lacking).expect("they differ");
    assert!(what.contains("it has 1 records, sum ") && what.contains("and the journal 3 records, sum "), "{what}");
    let difference = compared.difference().expect("it is reported");
    assert_eq!((&*difference.account, difference.live, difference.journal), ("(index of ids)", 1, 3));
    journal.pass(&mut compared, &[]);
    compared.end();
    assert_eq!(compared.compare(of_runs), None);
    assert_eq!((compared.count(), compared.difference()), (2, None));
}

#[test]
fn a_pass_that_left_something_out_says_nothing() {
    let journal = Journal::of(&["a", "b", "c"]);
    let mut compared = IdsCompared::default();
    let of_runs = journal.pass(&mut compared, &[1]);
    assert!(!compared.is_summing());
    assert_eq!((compared.end(), compared.compare(of_runs), compared.count()), (None, None, 0));
    // Nor do runs that go to another place.
    journal.pass(&mut compared, &[]);
    compared.end();
    assert_eq!(compared.compare(IdDigest::up_to(FAR)), None);
    assert_eq!((compared.count(), compared.difference()), (0, None));
    compared.begin(None);
    assert!(!compared.is_summing(), "an index without a run has nothing to be summed up");
}
