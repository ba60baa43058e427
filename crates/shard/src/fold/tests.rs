use tidegate_disk::{Disk, FakeDisk};
use tidegate_journal::Logs;
use tidegate_journal::segment::{SEGMENT_HEADER_BYTES, segment_name};

use super::*;
use crate::notes::{NO_NUMBER, Notes, id, logs, notice, write};

fn groups(disk: &FakeDisk, from: Cursor) -> GroupReader {
    let end = logs(disk).inspect(id(), from).unwrap().durability();
    logs(disk).reader(id()).unwrap().groups(from, &end).unwrap()
}

/// Where a fold stands, and what it has folded.
type Expected = (Stand, Vec<u8>);

/// A log of numbers and notices, what it says, and where a fold stands behind each of its groups.
fn folded() -> (FakeDisk, Vec<Notice>, Vec<Expected>) {
    let disk = FakeDisk::new(1);
    write(&disk, &[1, 2]);
    let first = notice(&disk, 1);
    write(&disk, &[3]);
    let second = notice(&disk, 2);
    write(&disk, &[4, 5]);
    let mut fold = Fold::new(id(), Cursor::START, Stand::default(), Notes::default());
    let (mut groups, mut stands) = (groups(&disk, Cursor::START), vec![(Stand::default(), Vec::new())]);
    while fold.next_group(&mut groups, |_, _| {}).unwrap().is_some() {
        stands.push((fold.stand().clone(), fold.state().0.clone()));
    }
    assert_eq!(stands.len(), 6);
    assert_eq!(stands.iter().map(|(stand, _)| stand.timelines.begun().len()).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
    (disk, vec![first, second], stands)
}

/// A snapshot may stand right behind a notice, or between two, while what is derived is read from further back.
#[test]
fn a_state_may_stand_behind_any_group_and_is_read_past_from_anywhere_before() {
    let (disk, notices, stands) = folded();
    let (end, all) = stands.last().unwrap();
    for (nth, (at, state)) in stands.iter().enumerate() {
        for (from, _) in &stands[..=nth] {
            let mut fold = Fold::new(id(), from.cursor, at.clone(), Notes(state.clone()));
            let (mut groups, mut read) = (groups(&disk, from.cursor), Vec::new());
            let mut counted = 0;
            while let Some(records) = fold.next_group(&mut groups, |number, _| read.push(*number)).unwrap() {
                counted += records;
                assert!(fold.is_between_groups());
            }
            assert_eq!(fold.stand(), end);
            assert_eq!(fold.records(), (all.len() - state.len()) as u64, "only what the state did not have");
            assert_eq!((counted, &read[..]), (read.len() as u64, &all[from.cursor.sequence.0 as usize..]));
            assert_eq!(fold.notices(), &notices[from.timelines.begun().len()..]);
            assert_eq!(fold.into_state().unwrap().0, *all);
        }
    }
}

#[test]
fn a_fold_stops_inside_of_a_group_and_goes_on() {
    let (disk, _, stands) = folded();
    let mut fold = Fold::new(id(), Cursor::START, Stand::default(), Notes::default());
    let mut groups = groups(&disk, Cursor::START);
    for target in 1..=5 {
        fold.advance(&mut groups, Sequence(target)).unwrap();
        assert_eq!(fold.sequence(), Sequence(target));
        assert_eq!(fold.state().0, (1..=target as u8).collect::<Vec<_>>());
        assert_eq!(fold.is_between_groups(), [2, 3, 5].contains(&target), "{target}");
    }
    assert_eq!((fold.records(), fold.stand()), (5, &stands[5].0));
    let refused = fold.advance(&mut groups, Sequence(6)).unwrap_err();
    assert!(matches!(refused, FoldError::EndsBefore { reached: Sequence(5), wanted: Sequence(6), .. }), "{refused}");

    let mut fold = Fold::new(id(), Cursor::START, Stand::default(), Notes::default());
    fold.advance(&mut super::tests::groups(&disk, Cursor::START), Sequence(1)).unwrap();
    assert!(!fold.is_between_groups());
    fold.finish_group().unwrap();
    assert!(fold.is_between_groups());
    assert_eq!((fold.sequence(), &fold.state().0[..], fold.stand()), (Sequence(2), &[1, 2][..], &stands[1].0));
}

/// Records are read some places before they are folded; nobody can tell.
#[test]
fn all_records_before_one_that_is_no_event_are_folded() {
    for at in 0..=2 * AHEAD as u8 {
        let disk = FakeDisk::new(1);
        let mut numbers: Vec<u8> = (1..=2 * AHEAD as u8).collect();
        numbers.insert(at.into(), NO_NUMBER);
        write(&disk, &numbers);
        let mut fold = Fold::new(id(), Cursor::START, Stand::default(), Notes::default());
        let (mut groups, mut seen) = (groups(&disk, Cursor::START), Vec::new());
        let refused = fold.next_group(&mut groups, |number, _| seen.push(*number)).unwrap_err();
        let FoldError::Misfit { sequence, .. } = refused else { panic!("{refused}") };
        let before: Vec<u8> = (1..=at).collect();
        assert_eq!((sequence, fold.sequence()), (Sequence(u64::from(at) + 1), Sequence(at.into())));
        assert_eq!((&seen, &fold.state().0), (&before, &before), "{at}");
    }
}

#[test]
fn a_state_whose_place_the_log_does_not_have_is_refused() {
    let (disk, _, stands) = folded();
    let (at, state) = &stands[3];
    let elsewhere = Stand {
        cursor: Cursor { chain: tidegate_journal::ChainHash([9; 32]), ..at.cursor },
        timelines: at.timelines.clone(),
    };
    let mut fold = Fold::new(id(), Cursor::START, elsewhere, Notes(state.clone()));
    let mut groups_of = groups(&disk, Cursor::START);
    let refused = loop {
        match fold.next_group(&mut groups_of, |_, _| {}) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it was not seen"),
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, FoldError::AnotherHistory { found, .. } if found == at.cursor), "{refused}");

    // Read not far enough.
    let (end, all) = stands.last().unwrap();
    let mut fold = Fold::new(id(), Cursor::START, end.clone(), Notes(all.clone()));
    fold.next_group(&mut groups(&disk, Cursor::START), |_, _| {}).unwrap();
    assert!(matches!(fold.into_state(), Err(FoldError::EndsBefore { wanted: Sequence(5), .. })));
}

/// What cannot be read is no proof that the log is another one.
#[test]
fn only_a_place_that_was_read_and_is_something_else_does_not_stand() {
    let (disk, _, stands) = folded();
    let segment = disk.files().into_iter().map(|(path, _)| path).find(|path| path.ends_with(segment_name(Position(0))));
    let segment = segment.expect("it has one segment");
    let end = logs(&disk).inspect(id(), Cursor::START).unwrap().durability();
    let stands_at = |at: Cursor| stands_at(&logs(&disk).reader(id()).unwrap(), at, &end);
    let places: Vec<Cursor> = stands[1..].iter().map(|(stand, _)| stand.cursor).collect();
    assert!(places.iter().all(|at| stands_at(*at) == Ok(true)));
    let other = |at: Cursor| Cursor { chain: tidegate_journal::ChainHash([9; 32]), ..at };
    assert!(places.iter().all(|at| stands_at(other(*at)) == Ok(false)), "another history");
    let within = Cursor { position: Position(places[1].position.0 - 1), ..places[1] };
    assert_eq!(stands_at(within), Ok(false), "no group ends there, and all around was read");

    disk.fail_reads_of(Some(&segment));
    assert!(matches!(stands_at(places[1]), Err(JournalError::Io { .. })));
    disk.fail_reads_of(None);
    // The group behind the place, and the one before it, has rotted.
    let offset = |at: Cursor| SEGMENT_HEADER_BYTES as u64 + at.position.0;
    disk.flip_bit(&segment, offset(places[1]) + 70, 1);
    assert_eq!(stands_at(places[1]), Ok(true), "the groups up to there show it");
    assert!(matches!(stands_at(places[2]), Ok(true)));
    disk.flip_bit(&segment, offset(places[2]) + 70, 1);
    assert!(matches!(stands_at(places[2]), Err(JournalError::Damaged { .. })), "nothing shows what was there");
    disk.remove(&segment).unwrap();
    assert!(stands_at(places[1]).is_err());
}
