use tidegate_disk::FakeDisk;

use super::*;
use crate::notes::{Notes, NotesFamily, SMALL, id, logs, notice, snapshots, write};
use crate::replay::OpenShard;

fn claim(timeline: Timeline, position: Position, sequence: Option<u64>) -> Claim {
    Claim { source: "far/witness".into(), timeline, position, sequence: sequence.map(Sequence) }
}

fn end(disk: &FakeDisk) -> Cursor {
    logs(disk).inspect(id(), Cursor::START).unwrap().end
}

/// What proves a loss by one claim.
fn proofs(disk: &FakeDisk, claim: Claim) -> Vec<Claim> {
    examine(&logs(disk), &snapshots(disk), &[claim]).unwrap().proofs
}

#[test]
fn a_claim_of_exactly_the_end_proves_nothing_and_one_byte_more_proves_a_loss() {
    let disk = FakeDisk::new(1);
    write(&disk, &[1, 2]);
    let end = end(&disk);
    for (position, is_proof) in [(end.position, false), (Position(end.position.0 + 1), true)] {
        let claim = claim(Timeline::FIRST, position, None);
        assert_eq!(proofs(&disk, claim.clone()), if is_proof { vec![claim.clone()] } else { Vec::new() });
        let opened = OpenShard::open_with(&logs(&disk), snapshots(&disk), SMALL, &[claim]).map(|_| ());
        assert_eq!(matches!(opened, Err(OpenError::Loss(_))), is_proof, "{opened:?}");
        assert_eq!(opened.is_ok(), !is_proof);
    }
}

#[test]
fn what_is_of_a_timeline_that_was_left_proves_nothing() {
    let disk = FakeDisk::new(1);
    write(&disk, &[1, 2]);
    let ahead = Position(1 << 20);
    notice(&disk, 1);
    let current = Timeline(end(&disk).chain);
    write(&disk, &[3]);
    assert_eq!(proofs(&disk, claim(Timeline::FIRST, ahead, Some(9))), []);
    assert_eq!(proofs(&disk, claim(current, ahead, Some(9))).len(), 1);
    let unknown = Timeline(tidegate_journal::ChainHash([9; 32]));
    assert_eq!(proofs(&disk, claim(unknown, ahead, Some(9))).len(), 1, "it may be one that is lost");
}

#[test]
fn a_loss_is_told_with_the_records_if_they_are_known() {
    let disk = FakeDisk::new(1);
    write(&disk, &[1, 2]);
    let told = |sequences: &[Option<u64>]| {
        let claims: Vec<Claim> =
            sequences.iter().map(|sequence| claim(Timeline::FIRST, Position(1 << 20), *sequence)).collect();
        let examined = examine(&logs(&disk), &snapshots(&disk), &claims).unwrap();
        let loss = examined.loss::<NotesFamily>(id()).expect("it is proven");
        loss.what().split(" are lost: journal/notes-0 ends at sequence 2,").next().unwrap().to_owned()
    };
    assert_eq!(told(&[Some(3)]), "records 3 to 3");
    assert_eq!(told(&[Some(7), None, Some(9)]), "records 3 to 9");
    assert_eq!(told(&[None]), "records from 3 on");
    // A notice was lost, and no record.
    assert_eq!(told(&[Some(2)]), "records from 3 on");
}

#[test]
fn a_log_is_examined_from_its_newest_snapshot_on() {
    let disk = FakeDisk::new(1);
    write(&disk, &[1, 2]);
    let stand = Stand { cursor: end(&disk), ..Stand::default() };
    snapshots(&disk).write(&stand, &Notes(vec![1, 2]), |_| true).unwrap();
    notice(&disk, 1);
    write(&disk, &[3]);
    let examined = examine(&logs(&disk), &snapshots(&disk), &[]).unwrap();
    assert_eq!((examined.since, examined.report.end.sequence), (stand.cursor, Sequence(3)));
    assert_eq!(examined.notices.len(), 1, "what is behind it is read");
}
