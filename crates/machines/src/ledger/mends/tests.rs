//! What mends say of the rows before them.

use super::*;
use crate::Machine;
use crate::ledger::SnapshotError;
use crate::ledger::tests::node::Node;
use crate::machine::tests::{read_forged, snapshot};

const HOUR: u64 = 3_600_000;
const YEARS: u64 = 10 * 365 * 24 * HOUR;

/// Of (position, time before, time after), oldest first.
fn mends(of: &[(u64, u64, u64)]) -> Mends {
    let mut mends = Mends::default();
    for (position, was, to) in of.iter().copied() {
        let (position, sequence) = (RecordPosition(position), RecordSequence(position / 10));
        mends.push(Mend { position, sequence, was: TimeMs(was), to: TimeMs(to) });
    }
    mends
}

/// What is known at each of `times` of the row at `position` that says `said`: `+` written, `-` not yet, `?` neither.
fn known(mends: &Mends, (position, said): (u64, u64), times: &[u64]) -> String {
    let when = mends.time_of(RecordPosition(position), TimeMs(said));
    let sign = |time: &u64| match when.is_by(TimeMs(*time)) {
        Some(true) => '+',
        Some(false) => '-',
        None => '?',
    };
    times.iter().map(sign).collect()
}

#[test]
fn without_mends_a_row_was_written_when_it_says() {
    assert_eq!(known(&Mends::default(), (10, HOUR), &[HOUR - 1, HOUR, HOUR + 1]), "-++");
}

#[test]
fn a_row_that_says_a_later_time_than_a_mend_behind_it_was_written_by_then() {
    let mends = mends(&[(50, HOUR + YEARS, 2 * HOUR)]);
    let times = [1, HOUR, 2 * HOUR - 1, 2 * HOUR, 3 * HOUR, HOUR + YEARS];
    assert_eq!(known(&mends, (40, HOUR + YEARS), &times), "???+++");
    assert_eq!(known(&mends, (30, HOUR), &times), "-+++++", "before the clock was wrong");
    assert_eq!(known(&mends, (60, 2 * HOUR + 1), &times), "----++", "behind the mend");
    assert_eq!(mends.time_of(RecordPosition(40), TimeMs(HOUR + YEARS)).latest(), TimeMs(2 * HOUR));
}

#[test]
fn a_mend_forward_says_nothing_of_the_rows_before_it() {
    let mends = mends(&[(50, HOUR, 2 * HOUR)]);
    assert_eq!(mends, Mends::default());
    assert_eq!(known(&mends, (40, HOUR), &[HOUR - 1, HOUR, 2 * HOUR]), "-++");
}

#[test]
fn what_was_written_between_two_mends_was_written_between_their_times() {
    // Ten years ahead, mended; an hour ahead, mended.
    let twice = mends(&[(50, YEARS, 2 * HOUR), (90, 4 * HOUR, 3 * HOUR)]);
    let times = [HOUR, 2 * HOUR - 1, 2 * HOUR, 3 * HOUR - 1, 3 * HOUR];
    assert_eq!(known(&twice, (40, YEARS), &times), "??+++");
    assert_eq!(known(&twice, (70, 4 * HOUR), &times), "---?+");
    assert_eq!(known(&twice, (60, 2 * HOUR), &times), "--+++");
    // Set to ten years ahead by mistake, and then right: what was between says nothing of when.
    let mistake = mends(&[(50, 2 * YEARS, YEARS), (90, YEARS + 5, 2 * HOUR)]);
    assert_eq!(known(&mistake, (70, YEARS + 5), &times), "??+++");
    assert_eq!(known(&mistake, (40, 2 * YEARS), &times), "??+++", "by the earliest of both");
}

#[test]
fn of_too_many_mends_the_oldest_are_forgotten_and_nothing_before_them_is_known() {
    let many: Vec<_> = (1..=MENDS_MAX as u64 + 2).map(|nth| (nth * 10, nth * HOUR + 9, nth * HOUR)).collect();
    let mends = mends(&many);
    assert_eq!((mends.forgotten(), mends.kept().len()), (2, MENDS_MAX));
    assert_eq!(mends.kept()[0].to, TimeMs(3 * HOUR));
    let times = [1, HOUR, 3 * HOUR - 1, 3 * HOUR];
    assert_eq!(known(&mends, (5, HOUR - 5), &times), "???+", "it said a time before all of them");
    assert_eq!(known(&mends, (25, 2 * HOUR + 5), &times), "???+");
    assert_eq!(known(&mends, (35, 3 * HOUR + 5), &[3 * HOUR, 3 * HOUR + 5, 4 * HOUR]), "-++");
    let again = |forgotten, kept: &[Mend], last| Mends::restore(forgotten, kept.to_vec(), RecordPosition(last));
    let (kept, last) = (mends.kept(), (MENDS_MAX as u64 + 2) * 10);
    assert_eq!(again(2, kept, last), Some(mends.clone()));
    assert_eq!(again(2, kept, last - 1), None, "one is behind the newest record");
    assert_eq!(again(2, &kept[1..], last), None, "none is forgotten before there are as many as are kept");
    assert_eq!(again(0, &[kept[1], kept[0]], last), None, "out of order");
    assert_eq!(again(0, &[Mend { to: kept[0].was, ..kept[0] }], last), None, "not back");
}

#[test]
fn a_shard_notes_where_its_time_was_set_back_and_its_snapshot_has_it() {
    let mut node = Node::new(0, 1);
    node.mend_time(YEARS);
    assert_eq!(node.ledger.mends(), &Mends::default());
    node.mend_time(HOUR);
    let [mend] = *node.ledger.mends().kept() else { panic!("{:?}", node.ledger.mends()) };
    assert_eq!((mend.was, mend.to, mend.sequence), (TimeMs(YEARS), TimeMs(HOUR), RecordSequence(2)));
    assert_eq!(mend.position, node.ledger.position());
    node.check();
    let bytes = snapshot(&node.ledger);
    let again = Ledger::read_snapshot(&bytes).expect("it was just written");
    assert_eq!(again.mends(), node.ledger.mends());
    assert_eq!(node.replay().mends(), node.ledger.mends());
    // One that was written without the list does not say that there was none.
    let older = [&[2], &bytes[1..]].concat();
    assert_eq!(Ledger::read_snapshot(&older).unwrap_err(), SnapshotError::UnknownVersion(2));
    for at in bytes.len() - 12..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            read_forged::<Ledger>(&bytes);
        }
    }
}
