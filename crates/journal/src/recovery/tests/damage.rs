//! What was changed or is missing in a log is named, and never served.

use super::*;

#[test]
fn a_flipped_bit_anywhere_in_a_marked_log_is_damage_and_never_served() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    (0..3).for_each(|_| commit(&mut log, 2));
    let end = offset_of(Cursor::START.position, durable_position(&mut log));
    log.close().unwrap();
    for offset in (0..76).chain(4096..end + MARK_BYTES as u64) {
        let disk = copy(&disk);
        assert!(disk.flip_bit(&first_segment(), offset, (offset % 8) as u8));
        let before = disk.contents(&first_segment()).unwrap();
        let opened = reopen(&disk);
        if offset >= end || offset < 4096 {
            // Only the mark or the header is bad: nothing of the log is.
            assert_eq!(read_all(opened.unwrap().0).unwrap(), 6);
        } else {
            let (segment, at, _, lost) = damage_of(opened);
            assert_eq!(segment, first_segment().display().to_string());
            assert!(at <= offset && offset < at + 200, "flipped {offset}, reported {at}");
            assert!(lost.starts_with("records "), "{lost}");
            assert_eq!(disk.contents(&first_segment()).unwrap(), before, "nothing is cut");
        }
    }
}

#[test]
fn the_rotten_header_of_the_newest_segment_is_written_again_and_no_record_is_lost() {
    let (disk, segments) = long_log();
    let newest = segment(*segments.last().unwrap());
    let sound = disk.contents(&newest).unwrap();
    let records = read_all(reopen(&copy(&disk)).unwrap().0).unwrap();
    for offset in [0, 10, 30, 75] {
        let disk = copy(&disk);
        assert!(disk.flip_bit(&newest, offset, 3));
        let damaged = logs(&disk).inspect(LOG, Cursor::START).unwrap().damaged;
        assert_eq!(damaged.len(), 1, "{damaged:?}");
        assert!(damaged[0].to_string().contains("lost: nothing"), "{}", damaged[0]);
        assert_ne!(disk.contents(&newest).unwrap(), sound, "whoever only looks changes nothing");
        let (log, report) = reopen(&disk).unwrap();
        assert_eq!(report.damaged, damaged);
        assert_eq!(read_all(log).unwrap(), records);
        assert_eq!(disk.contents(&newest).unwrap()[..4096], sound[..4096], "flipped {offset}");
        assert_eq!(reopen(&disk).unwrap().1.damaged, []);
    }
}

#[test]
fn a_newest_segment_without_header_and_groups_is_refused() {
    let (disk, segments) = long_log();
    let newest = segment(*segments.last().unwrap());
    // The beginning of the file is lost, or its first group is that of another place of the log.
    let other = disk.contents(&segment(segments[1])).unwrap();
    let beginnings = [vec![0; 8192], [&[0; 4096], &other[4096..8192]].concat()];
    for beginning in beginnings {
        let disk = copy(&disk);
        disk.overwrite(&newest, 0, &beginning).unwrap();
        let before = disk.contents(&newest).unwrap();
        let (named, offset, what, _) = damage_of(reopen(&disk));
        assert_eq!((&named[..], offset), (&*newest.to_string_lossy(), 0), "{what}");
        assert_eq!(disk.contents(&newest).unwrap(), before, "nothing was changed");
    }
}

#[test]
fn damage_before_a_later_group_is_told_from_a_torn_tail_without_any_mark() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    commit(&mut log, 2);
    let second = durable_position(&mut log);
    commit(&mut log, 3);
    assert_eq!(log.proven_up_to(), second);
    let third = durable_position(&mut log);
    commit(&mut log, 4);
    assert_eq!(log.proven_up_to(), third);
    drop(log);
    let harmed = copy(&disk);
    harmed.flip_bit(&first_segment(), offset_of(Cursor::START.position, second) + 250, 0);
    let (_, offset, what, lost) = damage_of(reopen(&harmed));
    assert_eq!(offset, offset_of(Cursor::START.position, second) + 120 + 2 * 57, "{what}");
    assert_eq!(lost, format!("records 3 to 5 (positions {second} to {third})"));
    // What nothing later vouches for looks like a torn tail: the window that the format document admits.
    disk.flip_bit(&first_segment(), offset_of(Cursor::START.position, third) + 300, 0);
    assert_eq!(reopen(&disk).unwrap().1.end.sequence, Sequence(5));
}

#[test]
fn a_flipped_bit_in_a_sealed_segment_is_named_with_segment_and_offset() {
    let (disk, segments) = long_log();
    let offset = SEGMENT_HEADER + GROUP_HEADER_BYTES as u64 + 8 + 3;
    disk.flip_bit(&segment(segments[1]), offset, 5);
    let (log, _) = reopen(&disk).unwrap();
    let reader = log.reader().unwrap();
    let (named, at, what, lost) = damage_of(read_all(log));
    assert!(named.ends_with(&segment_name(segments[1])), "{named}");
    assert_eq!(at, SEGMENT_HEADER + GROUP_HEADER_BYTES as u64);
    assert!(what.contains("does not match its checksum"), "{what}");
    assert!(lost.starts_with("records "), "{lost}");
    let mut into = Vec::new();
    let record = Position(segments[1].0 + GROUP_HEADER_BYTES as u64);
    let refused = reader.read(record, &mut into).unwrap_err();
    assert!(matches!(refused, JournalError::NoRecord { at, .. } if at == record), "{refused}");
}

const SEGMENT_HEADER: u64 = crate::segment::SEGMENT_HEADER_BYTES as u64;

#[test]
fn a_segment_cut_to_any_length_is_damage_or_a_torn_tail_and_never_a_panic() {
    let lengths = [0, 1, 8, 75, 76, 77, 100, 4095, 4096, 4097, 5000, 8000];
    let segments = long_log().1;
    for (nth, first) in segments.iter().enumerate() {
        for length in lengths {
            let (disk, _) = long_log();
            let file = disk.open(&segment(*first)).unwrap();
            file.set_len(length).and_then(|()| file.sync_data()).unwrap();
            let inspected = logs(&disk).inspect(LOG, Cursor::START);
            let opened = reopen(&disk).and_then(|(log, _)| read_all(log));
            let is_last = nth + 1 == segments.len();
            assert!(is_last && length >= 4096 || opened.is_err(), "segment {nth} of {length} bytes");
            assert!(inspected.is_ok() || length < 4096 || !is_last, "segment {nth} of {length} bytes: {inspected:?}");
            if is_last && length < 4096 {
                let (named, _, _, lost) = damage_of(inspected);
                assert!(named.ends_with(&segment_name(*first)), "{named}");
                assert!(length == 0 || length < 76 || lost == "all records of this segment", "{length}: {lost}");
            }
        }
    }
}

#[test]
fn a_missing_segment_is_named_wherever_it_is() {
    let (disk, segments) = long_log();
    for missing in &segments {
        let disk = copy(&disk);
        disk.remove(&segment(*missing)).unwrap();
        let (named, _, what, lost) = damage_of(reopen(&disk));
        assert_eq!(named, segment(*missing).display().to_string());
        // All before the first one may have been moved.
        assert!(what.starts_with("the segment file is missing"), "{what}");
        assert_eq!(what.contains("put back the newest ARCHIVE"), missing == &segments[0], "{what}");
        assert!(lost.starts_with("records from "), "{lost}");
    }
}

/// Rewrites the group at `base` without its last record, with every checksum and its own hash repaired.
fn remove_record(disk: &FakeDisk, first: Position, base: Position) {
    let path = segment(first);
    let offset = offset_of(first, base) as usize;
    let image = disk.contents(&path).unwrap();
    let group = group::decode(&image[offset..]).unwrap();
    let (_, last, _) = group.records().last().unwrap();
    let body = &group.body[..(last.0 - base.0) as usize - GROUP_HEADER_BYTES];
    let header = group.header;
    let seal = Seal {
        log: LOG,
        before: Cursor { position: base, sequence: Sequence(header.first_sequence.0 - 1), chain: header.previous },
        synced_up_to: header.synced_up_to,
        record_count: header.record_count - 1,
    };
    let mut forged = Vec::new();
    group::seal(seal, body, &mut forged);
    // What follows moves up, so that no gap shows.
    forged.extend_from_slice(&image[offset + header.total_bytes()..]);
    forged.resize(image.len() - offset, 0);
    disk.overwrite(&path, offset as u64, &forged).unwrap();
}

#[test]
fn a_record_removed_with_everything_repaired_is_caught_by_what_follows() {
    let (disk, segments) = long_log();
    remove_record(&disk, segments[1], segments[1]);
    let refused = reopen(&disk).and_then(|(log, _)| read_all(log).map(|_| ()));
    damage_of(refused);

    // The same in the last segment, in a group that others follow and in the very last one.
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    let mut bases = Vec::new();
    for _ in 0..3 {
        bases.push(durable_position(&mut log));
        commit(&mut log, 3);
    }
    log.close().unwrap();
    for base in &bases {
        let disk = copy(&disk);
        remove_record(&disk, Cursor::START.position, *base);
        damage_of(reopen(&disk));
    }

    // The last group exchanged for one of the same length: only the mark knows better.
    let offset = offset_of(Cursor::START.position, bases[2]);
    let image = disk.contents(&first_segment()).unwrap();
    let group = group::decode(&image[offset as usize..]).unwrap();
    let before = Cursor { position: bases[2], sequence: Sequence(6), chain: group.header.previous };
    let seal = Seal { log: LOG, before, synced_up_to: group.header.synced_up_to, record_count: 3 };
    let mut body = group.body.to_vec();
    body[30] ^= 1;
    let mut forged = Vec::new();
    group::seal(seal, &body, &mut forged);
    disk.overwrite(&first_segment(), offset, &forged).unwrap();
    let (_, _, what, _) = damage_of(reopen(&disk));
    assert!(what.contains("the mark behind the last group"), "{what}");
}

#[test]
fn a_group_of_another_history_is_damage_even_at_the_tail() {
    let (disk, other) = (FakeDisk::new(1), FakeDisk::new(2));
    for (disk, records) in [(&disk, 4), (&other, 5)] {
        let (mut log, _) = reopen(disk).unwrap();
        commit(&mut log, records);
        // Make both first groups equally long.
        commit(&mut log, 9 - records);
        commit(&mut log, 1);
    }
    let group_bytes = GROUP_HEADER_BYTES as u64 + 57;
    let start = SEGMENT_HEADER + 2 * GROUP_HEADER_BYTES as u64 + 9 * 57;
    let theirs = other.contents(&first_segment()).unwrap();
    disk.overwrite(&first_segment(), start, &theirs[start as usize..(start + group_bytes) as usize]).unwrap();
    let (_, offset, what, _) = damage_of(reopen(&disk));
    assert_eq!(offset, start);
    assert!(what.contains("does not continue the chain"), "{what}");
}
