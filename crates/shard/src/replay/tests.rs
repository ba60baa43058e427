use tidegate_disk::FakeDisk;

use super::*;
use crate::notes::{Notes, SMALL, id, logs, notice, snapshots, write};

/// What is kept beside the machine: the numbers behind some place.
#[derive(Default)]
struct Beside {
    covered: Position,
    stands_on: Option<Cursor>,
    numbers: Vec<u8>,
    reached: Vec<Position>,
}

impl Derived<Notes> for Beside {
    type Error = std::convert::Infallible;
    fn covered(&self) -> Position {
        self.covered
    }
    fn note(&mut self, number: &u8, _: Place) {
        self.numbers.push(*number);
    }
    fn stands_on(&self) -> Cursor {
        self.stands_on.unwrap_or(Cursor::START)
    }
    fn give_up(&mut self) -> Result<(), Self::Error> {
        *self = Beside::default();
        Ok(())
    }
    fn catch_up(&mut self, reached: Cursor) -> Result<(), Self::Error> {
        self.reached.push(reached.position);
        Ok(())
    }
    fn belong_to(&mut self, _: Timeline) -> Result<bool, Self::Error> {
        Ok(true)
    }
}

fn replay<X: Derived<Notes>>(disk: &FakeDisk, derived: &mut X) -> (Vec<u8>, ReplayReport)
where
    ReplayError<X::Error>: std::fmt::Debug,
{
    let opened = OpenShard::open(&logs(disk), snapshots(disk), SMALL).unwrap();
    let Replayed { state, report, .. } = opened.replay(1, derived, |_| {}).unwrap();
    (state.0, report)
}

/// Writes a snapshot of the log as it is.
fn snapshot(disk: &FakeDisk) -> Cursor {
    let opened = OpenShard::open(&logs(disk), snapshots(disk), SMALL).unwrap();
    let cursor = opened.recovered().end;
    let Replayed { state, report, .. } = opened.replay(1, &mut NothingDerived, |_| {}).unwrap();
    snapshots(disk).write(&Stand { cursor, timelines: report.timelines }, &state, |_| Ok(true)).unwrap();
    cursor
}

#[test]
fn a_replay_reads_no_more_than_snapshot_and_derived_need() {
    let disk = FakeDisk::new(1);
    write(&disk, &[1, 2]);
    let first = snapshot(&disk);
    write(&disk, &[3]);
    let told = notice(&disk, 1);
    let second = snapshot(&disk);
    write(&disk, &[4, 5]);

    let (state, report) = replay(&disk, &mut NothingDerived);
    assert_eq!(state, [1, 2, 3, 4, 5]);
    assert_eq!((report.snapshot_sequence, report.events, report.derived_only), (3, 2, 0));
    assert_eq!((report.timelines.begun().len(), report.notices.len()), (1, 0));

    // The derived reach to a place in between: the older snapshot is where reading begins.
    let mut beside = Beside { covered: first.position, ..Beside::default() };
    let (state, report) = replay(&disk, &mut beside);
    assert_eq!((state, &beside.numbers[..]), (vec![1, 2, 3, 4, 5], &[3, 4, 5][..]));
    assert_eq!((report.snapshot_sequence, report.events, report.derived_only), (3, 2, 1));
    assert_eq!(report.notices, std::slice::from_ref(&told));
    assert!(beside.reached.is_sorted() && beside.reached.last().unwrap().0 > second.position.0);

    let mut beside = Beside { covered: Position(first.position.0 - 2), ..Beside::default() };
    let (state, report) = replay(&disk, &mut beside);
    assert_eq!((&state, &state), (&beside.numbers, &vec![1, 2, 3, 4, 5]), "no snapshot is old enough");
    assert_eq!((report.snapshot_sequence, report.events, report.derived_only), (3, 2, 3));

    let mut beside = Beside { covered: second.position, ..Beside::default() };
    replay(&disk, &mut beside);
    assert_eq!(beside.numbers, [4, 5]);
}

#[test]
fn what_is_derived_from_another_history_is_made_anew() {
    let disk = FakeDisk::new(1);
    write(&disk, &[1, 2]);
    let first = snapshot(&disk);
    write(&disk, &[3]);
    let end = logs(&disk).inspect(id(), Cursor::START).unwrap().end;
    for stands_on in [first, end] {
        let covered = Position(stands_on.position.0 - 1);
        let beside = || Beside { covered, stands_on: Some(stands_on), ..Beside::default() };
        let mut of_this = beside();
        replay(&disk, &mut of_this);
        assert_eq!(of_this.numbers, [3], "{stands_on:?}");

        let mut of_another = beside();
        let chain = tidegate_journal::ChainHash([7; 32]);
        of_another.stands_on = Some(Cursor { chain, ..stands_on });
        replay(&disk, &mut of_another);
        assert_eq!(of_another.numbers, [1, 2, 3], "{stands_on:?}");
    }
}

#[test]
fn a_snapshot_of_another_history_is_passed_over_and_set_aside() {
    let disk = FakeDisk::new(1);
    write(&disk, &[1, 2]);
    let good = snapshot(&disk);
    write(&disk, &[3]);
    let end = logs(&disk).inspect(id(), Cursor::START).unwrap().end;
    let elsewhere = Cursor { chain: tidegate_journal::ChainHash([9; 32]), ..end };
    let forged = Stand { cursor: elsewhere, timelines: Timelines::default() };
    snapshots(&disk).write(&forged, &Notes(vec![8, 8, 8]), |_| Ok(true)).unwrap();
    let (state, report) = replay(&disk, &mut NothingDerived);
    assert_eq!((state, report.snapshot_sequence), (vec![1, 2, 3], good.sequence.0));
    let [why] = &report.snapshots_passed_over[..] else { panic!("{report:?}") };
    assert!(why.contains("set aside"), "{why}");
    assert!(replay(&disk, &mut NothingDerived).1.snapshots_passed_over.is_empty(), "it is not met again");
}
