use tidegate_disk::{Disk, FakeDisk};

use super::*;
use crate::notes::{Notes, NotesFamily, SMALL, id, logs, notice, snapshots, write};
use crate::replay::OpenShard;

/// Where a snapshot names its timeline.
const TIMELINE_AT: u64 = 80;

fn claim(timeline: Timeline, position: Position, sequence: Option<u64>) -> Claim {
    let (source, sequence) = ("far/witness".into(), sequence.map(Sequence));
    Claim { source, timeline, position, sequence, chain: None, doubt: None, is_kept: false }
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
    // Fewer records reached further: they were others.
    assert!(told(&[Some(1)]).starts_with("records are lost: the log is not the one that was written here"));
}

/// The files beside a log were made of a longer log, or of another one that is longer: an operator is told which.
#[test]
fn a_log_of_another_history_is_not_told_as_one_that_lost_its_end() {
    for (numbers, is_another) in [([1, 2], false), ([9, 2], true)] {
        let (here, other) = (log_of(&[1, 2]), FakeDisk::new(1));
        write(&other, &[numbers[0]]);
        let early = Stand { cursor: end(&other), ..Stand::default() };
        write(&other, &[numbers[1]]);
        write(&other, &[3]);
        let late = Stand { cursor: end(&other), ..Stand::default() };
        snapshots(&here).write(&early, &Notes(vec![numbers[0]]), |_| Ok(true)).unwrap();
        snapshots(&here).write(&late, &Notes(vec![numbers[0], numbers[1], 3]), |_| Ok(true)).unwrap();
        let before = here.files();
        let refused = OpenShard::open_with(&logs(&here), snapshots(&here), SMALL, &[]).err().unwrap().to_string();
        assert_eq!(refused.starts_with("records 3 to 3 are lost: "), !is_another, "{refused}");
        let says =
            refused.contains("one of another history") && refused.contains("of a log with other records before that");
        assert_eq!(says, is_another, "{refused}");
        assert_eq!(here.files(), before, "nothing was changed");
    }
}

/// A disk whose log has these groups, each of one number.
fn log_of(numbers: &[u8]) -> FakeDisk {
    let disk = FakeDisk::new(1);
    numbers.iter().for_each(|number| write(&disk, &[*number]));
    disk
}

/// A snapshot of a log that went on, beside one that did not.
fn snapshot_ahead() -> (FakeDisk, std::path::PathBuf) {
    let (short, long) = (log_of(&[1]), log_of(&[1, 2, 3]));
    let stand = Stand { cursor: end(&long), timelines: Timelines::default() };
    let path = snapshots(&short).write(&stand, &Notes(vec![1, 2, 3]), |_| Ok(true)).unwrap().path;
    (short, path)
}

#[test]
fn a_snapshot_ahead_that_cannot_be_verified_is_not_passed_over_in_silence() {
    let (disk, path) = snapshot_ahead();
    let refusal = || OpenShard::open_with(&logs(&disk), snapshots(&disk), SMALL, &[]).err().unwrap().to_string();
    assert!(refusal().contains("records 2 to 3 are lost") && !refusal().contains("cannot be verified"));
    assert!(refusal().contains("was made when the log reached sequence 3"), "{}", refusal());
    let bytes = disk.contents(&path).unwrap().len() as u64;
    disk.flip_bit(&path, bytes - 1, 3);
    assert!(refusal().contains("records 2 to 3 are lost: journal/notes-0 ends at sequence 1"), "{}", refusal());
    assert!(refusal().contains("this cannot be verified: "), "{}", refusal());
    disk.flip_bit(&path, bytes - 1, 3);
    // The timeline that it names is none of the log's: what it says may be of one that was left.
    disk.flip_bit(&path, TIMELINE_AT, 3);
    assert!(OpenShard::open_with(&logs(&disk), snapshots(&disk), SMALL, &[]).is_ok());
    disk.flip_bit(&path, TIMELINE_AT, 3);
    // Written with a key that is not there any more.
    disk.remove(std::path::Path::new("data/KEY")).unwrap();
    assert!(refusal().contains("this cannot be verified: "), "{}", refusal());
    // What is not even what its name says claims nothing.
    let renamed = path.with_file_name("snapshot-00000000000000000009.tgs");
    disk.rename(&path, &renamed).unwrap();
    assert!(OpenShard::open_with(&logs(&disk), snapshots(&disk), SMALL, &[]).is_ok());
}

#[test]
fn a_witness_behind_the_end_of_a_log_with_other_records_proves_that_it_was_exchanged() {
    let (written, other) = (log_of(&[1, 2]), log_of(&[1, 9, 3, 4]));
    let witness = |disk: &FakeDisk| {
        let Cursor { position, sequence, chain } = end(disk);
        Claim { chain: Some(chain), ..claim(Timeline::FIRST, position, Some(sequence.0)) }
    };
    let its = witness(&written);
    write(&written, &[3]);
    write(&written, &[4]);
    assert!(OpenShard::open_with(&logs(&written), snapshots(&written), SMALL, std::slice::from_ref(&its)).is_ok());
    let refused = OpenShard::open_with(&logs(&other), snapshots(&other), SMALL, std::slice::from_ref(&its));
    let refused = refused.err().expect("it is another log").to_string();
    assert!(
        refused.contains("far/witness was made at sequence 2 of a log with other records before that"),
        "{refused}"
    );
    assert!(refused.starts_with("records are lost: the log is not the one that was written here, "), "{refused}");
    // Also where no group of the other log ends at that place.
    let uneven = FakeDisk::new(1);
    write(&uneven, &[7; 40]);
    assert!(OpenShard::open_with(&logs(&uneven), snapshots(&uneven), SMALL, std::slice::from_ref(&its)).is_err());
    // What agrees with the whole log hides nothing.
    for (disk, is_its) in [(&written, true), (&other, false)] {
        let claims = [its.clone(), witness(disk)];
        assert_eq!(check(&logs(disk), &snapshots(disk), &claims).is_ok(), is_its);
    }
    // The log has left that timeline, and an operator knows.
    notice(&other, 1);
    assert!(OpenShard::open_with(&logs(&other), snapshots(&other), SMALL, &[its]).is_ok());
}

#[test]
fn where_a_log_ended_shows_that_it_was_put_back_from_a_restored_copy() {
    let written = log_of(&[1, 2, 3]);
    let ended = |disk: &FakeDisk| {
        let Cursor { position, sequence, chain } = end(disk);
        Claim { chain: Some(chain), is_kept: true, ..claim(Timeline::FIRST, position, Some(sequence.0)) }
    };
    let its = ended(&written);
    // Shorter than what was written, and longer.
    for more in [&[][..], &[9, 9, 9]] {
        let copy = log_of(&[1, 2]);
        let before = ended(&copy);
        notice(&copy, 1);
        more.iter().for_each(|number| write(&copy, &[*number]));
        assert!(check(&logs(&copy), &snapshots(&copy), std::slice::from_ref(&its)).is_err(), "{more:?}");
        // What a restored directory begins with stands on its logs. What is derived of another timeline is no proof.
        let derived = Claim { is_kept: false, ..its.clone() };
        assert!(check(&logs(&copy), &snapshots(&copy), &[before, derived]).is_ok(), "{more:?}");
    }
}

#[test]
fn a_log_is_examined_from_its_newest_snapshot_on() {
    let disk = FakeDisk::new(1);
    write(&disk, &[1, 2]);
    let stand = Stand { cursor: end(&disk), ..Stand::default() };
    snapshots(&disk).write(&stand, &Notes(vec![1, 2]), |_| Ok(true)).unwrap();
    notice(&disk, 1);
    write(&disk, &[3]);
    let examined = examine(&logs(&disk), &snapshots(&disk), &[]).unwrap();
    assert_eq!((examined.since, examined.report.end.sequence), (stand.cursor, Sequence(3)));
    assert_eq!(examined.notices.len(), 1, "what is behind it is read");
}

#[test]
fn a_doubtful_claim_counts_only_if_it_is_ahead_by_a_record() {
    let disk = log_of(&[1, 2]);
    for (sequence, count) in [(2, 0), (3, 1)] {
        let doubt = Some("it is torn".into());
        let claim = Claim { doubt, ..claim(Timeline::FIRST, Position(1 << 20), Some(sequence)) };
        assert_eq!(proofs(&disk, claim).len(), count, "sequence {sequence}");
    }
}

fn proven(end: Cursor, proofs: Vec<Claim>) -> LossProven {
    let (journal, since, timeline) = ("journal/notes-0".into(), Sequence(0), Timeline::FIRST);
    LossProven { log: id(), journal, since, end, timeline, proofs }
}

#[test]
fn the_last_record_that_is_lost_is_one_behind_the_end() {
    let end = Cursor { position: Position(100), sequence: Sequence(5), ..Cursor::START };
    for (position, sequence, last) in [(100, 9, None), (101, 5, None), (101, 6, Some(Sequence(6)))] {
        let proofs = vec![claim(Timeline::FIRST, Position(position), Some(sequence))];
        assert_eq!(proven(end, proofs).last(), last, "position {position}, sequence {sequence}");
    }
}

#[test]
fn a_log_without_the_last_notice_is_of_another_timeline_and_has_lost_no_record() {
    let proofs = vec![claim(Timeline(ChainHash([9; 32])), Position(101), Some(0))];
    let what = proven(Cursor::START, proofs).what();
    assert!(what.starts_with("no record is lost, but the log is of another timeline: "), "{what}");
}

#[test]
fn of_another_log_what_was_written_here_is_lost() {
    let end = Cursor { position: Position(900), sequence: Sequence(134), ..Cursor::START };
    let at = |sequence: u64| claim(Timeline::FIRST, Position(sequence * 6), Some(sequence));
    let lost = |since: u64, proofs: &[Claim]| {
        LossProven { since: Sequence(since), ..proven(end, proofs.to_vec()) }.lost().to_string()
    };
    assert_eq!(lost(0, &[at(130)]), "records 1 to 130");
    assert_eq!(lost(100, &[at(130), at(120)]), "records 101 to 130", "both have what a snapshot stands on");
    assert_eq!(lost(130, &[at(130)]), "records 1 to 130", "that snapshot is of the other log");
    assert_eq!(lost(100, &[at(130), at(160)]), "records 101 to 160");
    // A log that only ends early has lost what is behind its end.
    assert_eq!(lost(100, &[at(160)]), "records 135 to 160");
}

#[test]
fn a_witness_before_the_last_segment_shows_another_log_too() {
    let long_log = |first: u8| {
        let disk = FakeDisk::new(1);
        (0..12).for_each(|number| write(&disk, &[if number == 0 { first } else { number }; 150]));
        assert!(disk.files().iter().filter(|(path, _)| path.to_string_lossy().contains("segment-")).count() > 1);
        disk
    };
    let (written, other, short) = (long_log(100), long_log(101), FakeDisk::new(1));
    write(&short, &[100; 150]);
    let Cursor { position, sequence, chain } = end(&short);
    let its = Claim { chain: Some(chain), ..claim(Timeline::FIRST, position, Some(sequence.0)) };
    for claims in [vec![its.clone()], vec![its.clone(), its.clone()]] {
        assert!(OpenShard::open_with(&logs(&written), snapshots(&written), SMALL, &claims).is_ok());
        assert!(OpenShard::open_with(&logs(&other), snapshots(&other), SMALL, &claims).is_err());
    }
}
