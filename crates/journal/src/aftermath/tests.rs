use std::path::Path;

use super::*;
use crate::disk::{Disk, FakeDisk};
use crate::segment::MARK_BYTES;
use crate::{ChainHash, Sequence};

const LOG: LogId = LogId { directory: 7, family: 1, shard: 1 };
const OTHER: LogId = LogId { directory: 8, family: 1, shard: 1 };
const FIRST: Position = Position(10_000);
/// The bad place, a little behind the beginning of the segment.
const PLACE: Position = Position(10_500);

/// A file of so many bytes behind the place, zeros but for `pieces`, each at its distance behind the place.
fn file(bytes: usize, pieces: &[(usize, &[u8])]) -> impl DiskFile {
    let disk = FakeDisk::new(1);
    disk.create_dir_all(Path::new("data")).unwrap();
    let file = disk.create_new(Path::new("data/segment")).unwrap();
    let mut content = vec![0; offset_of(FIRST, PLACE) as usize + bytes];
    for (at, piece) in pieces {
        let at = offset_of(FIRST, behind(*at)) as usize;
        content[at..at + piece.len()].copy_from_slice(piece);
    }
    file.write_all_at(&content, 0).unwrap();
    file
}

fn examine(bytes: usize, pieces: &[(usize, &[u8])]) -> Aftermath {
    Aftermath::examine(&file(bytes, pieces), LOG, FIRST, PLACE).unwrap()
}

/// The position so many bytes behind the place.
fn behind(bytes: usize) -> Position {
    Position(PLACE.0 + bytes as u64)
}

fn mark(log: LogId, at: Position) -> Mark {
    let end = Cursor { position: at, sequence: Sequence(12), chain: ChainHash([7; 32]) };
    Mark { log, kind: MarkKind::Tail, end }
}

fn group(log: LogId, at: Position, synced_up_to: Position) -> GroupHeader {
    GroupHeader {
        log,
        first_sequence: Sequence(13),
        base: at,
        synced_up_to,
        record_count: 1,
        body_bytes: 64,
        previous: ChainHash([1; 32]),
        chain: ChainHash([2; 32]),
    }
}

/// Distances from the place to what is found: at once, within the first chunk of several, around its end, and around
/// that of the second.
fn places() -> impl Iterator<Item = usize> {
    let parts = [0, 1, MARK_BYTES, GROUP_HEADER_BYTES - 1, GROUP_HEADER_BYTES, GROUP_HEADER_BYTES + 1];
    let around = parts.into_iter().map(|part| READ_AHEAD_BYTES - part);
    let second = 2 * READ_AHEAD_BYTES - GROUP_HEADER_BYTES;
    [0, 1, READ_AHEAD_BYTES / 2].into_iter().chain(around).chain([READ_AHEAD_BYTES + 1, second - 1])
}

/// A file with room for what stands so far behind the place, of more than a chunk where that is not at once.
fn bytes_for(at: usize) -> usize {
    if at < 2 { 4_096 } else { at.max(READ_AHEAD_BYTES) + 1_000 }
}

#[test]
fn a_mark_proves_what_is_before_it_wherever_it_stands() {
    for at in places() {
        let mark = mark(LOG, behind(at));
        // The file ends at once behind it, or later.
        for bytes in [at + MARK_BYTES, bytes_for(at)] {
            let bytes_of_mark = mark.encode();
            let found = examine(bytes, &[(at, &bytes_of_mark)]);
            assert_eq!((found.durable_up_to, found.marked), (behind(at), Some(mark)), "{at} of {bytes}");
            let last = bytes_of_mark.iter().rposition(|byte| *byte != 0).unwrap();
            assert_eq!(found.zeros_from, offset_of(FIRST, behind(at + last + 1)), "{at} of {bytes}");
            assert_eq!(found.shows_damage_at(PLACE), at > 0);
        }
    }
}

#[test]
fn a_group_proves_what_it_claims_wherever_it_stands() {
    for at in places().filter(|at| *at > 0) {
        let claims = group(LOG, behind(at), behind(1));
        let later = group(LOG, behind(at + 300), behind(0));
        let found = examine(bytes_for(at), &[(at, &claims.encode()), (at + 300, &later.encode())]);
        assert_eq!((found.durable_up_to, found.next_group), (behind(1), Some(claims)), "{at}");
    }
}

#[test]
fn the_rest_of_a_torn_group_is_measured_to_its_last_byte() {
    for at in places() {
        let found = examine(bytes_for(at), &[(0, &[1]), (at, &[1])]);
        let zeros_from = offset_of(FIRST, behind(at + 1));
        let nothing = Aftermath { durable_up_to: PLACE, marked: None, next_group: None, zeros_from };
        assert_eq!(found, nothing, "{at}");
    }
}

/// Old bytes of another log, or of another place, are in the blocks that a file system gives out again.
#[test]
fn what_is_of_another_log_or_place_proves_nothing() {
    let nothing = |pieces: &[u8]| {
        let found = examine(4_096, &[(400, pieces)]);
        assert_eq!((found.durable_up_to, found.marked, found.next_group), (PLACE, None, None));
    };
    nothing(&mark(OTHER, behind(400)).encode());
    nothing(&mark(LOG, behind(401)).encode());
    nothing(&group(OTHER, behind(400), behind(1)).encode());
    nothing(&group(LOG, behind(401), behind(1)).encode());
}

#[test]
fn the_loss_is_told_by_the_next_group_then_by_a_mark_then_by_the_next_segment() {
    let before = Cursor { position: PLACE, sequence: Sequence(4), chain: ChainHash([3; 32]) };
    let at = |position: Position, sequence: u64| Cursor { position, sequence: Sequence(sequence), ..before };
    let found = |pieces: &[(usize, &[u8])]| Aftermath::examine(&file(4_096, pieces), LOG, FIRST, behind(1)).unwrap();
    let (mark, group) = (mark(LOG, behind(900)).encode(), group(LOG, behind(400), PLACE).encode());
    let next = at(behind(2_000), 20);

    let by_all = found(&[(400, &group), (900, &mark)]);
    assert_eq!(by_all.lost(&before, Some(&next)), "records 5 to 12 (positions 10500 to 10900)");
    let by_mark = found(&[(900, &mark)]);
    assert_eq!(by_mark.lost(&before, Some(&next)), "records 5 to 12 (positions 10500 to 11400)");
    let by_segment = found(&[]);
    assert_eq!(by_segment.lost(&before, Some(&next)), "records 5 to 20 (positions 10500 to 12500)");
    assert_eq!(by_segment.lost(&before, None), "records from 5 (position 10500) on");
    // A notice was lost, and no record.
    assert_eq!(by_mark.lost(&at(PLACE, 12), None), "records from 13 (position 10500) on");
    assert_eq!(by_mark.lost(&at(PLACE, 11), None), "records 12 to 12 (positions 10500 to 11400)");
}
