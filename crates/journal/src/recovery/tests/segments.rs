//! Logs of several segments: archived ones, sealed ones without a mark, missing ones.

use super::*;

#[test]
fn archived_segments_must_follow_each_other_and_reach_the_first_that_is_here() {
    let data = tempfile::tempdir().unwrap();
    let logs = StepLogs::new(RealDisk, data.path(), &[FAMILY]);
    let folder = Folder::new(RealDisk, data.path(), &FAMILY, LOG);
    let Opened { mut log, .. } = logs.open(LOG, Cursor::START, SMALL).unwrap();
    while folder.list_local().unwrap().len() < 5 {
        commit(&mut log, 20);
    }
    let last = log.last_sequence();
    log.close().unwrap();
    let begins: Vec<Cursor> =
        folder.list_local().unwrap().into_iter().map(|first| folder.open_segment(first).unwrap().1).collect();
    let moved: Vec<Archived> = begins[..4]
        .windows(2)
        .map(|pair| {
            let from = folder.segment_path(pair[0].position);
            let at = data.path().join(format!("moved-{}", pair[0].position));
            let (bytes, hash) = (std::fs::read(&from).unwrap().len() as u64, [0; 32]);
            std::fs::rename(&from, &at).unwrap();
            let at = at.display().to_string();
            Archived { log: "ledger-1".into(), first: pair[0], end: pair[1], bytes, hash, at }
        })
        .collect();
    let open_with = |segments: &[Archived]| {
        Archive { segments: segments.to_vec() }.write(data.path()).unwrap();
        logs.open(LOG, Cursor::START, SMALL)
    };
    assert_eq!(read_all(open_with(&moved).unwrap().log).unwrap(), last.0);
    // With a header that has rotted the position alone shows whether one is missing.
    let here = folder.list_local().unwrap();
    let path = folder.segment_path(here[0]);
    let flip = || {
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[30] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    };
    flip();
    assert!(folder.open_segment(here[0]).is_err());
    assert_eq!(check_archived(&folder, &moved, &here), Ok(()));
    assert!(matches!(check_archived(&folder, &moved[..2], &here), Err(JournalError::Damaged { .. })));
    flip();
    let elsewhere = Cursor { chain: crate::ChainHash([9; 32]), ..moved[2].end };
    let [first, second, third] = &moved[..] else { panic!("three were moved") };
    for (what, segments, missing_from) in [
        ("the first", vec![second.clone(), third.clone()], Cursor::START),
        ("one in the middle", vec![first.clone(), third.clone()], first.end),
        ("the last", vec![first.clone(), second.clone()], second.end),
        ("one of another history", vec![first.clone(), Archived { end: elsewhere, ..third.clone() }], first.end),
        (
            "the end of one",
            vec![first.clone(), second.clone(), Archived { end: elsewhere, ..third.clone() }],
            elsewhere,
        ),
    ] {
        let (segment, _, words, lost) = damage_of(open_with(&segments).map(|_| ()));
        let archive = "the segment file is missing, and ARCHIVE in the data directory does not list it";
        assert!(words.starts_with(archive), "{what}: {words}");
        assert!(segment.ends_with(&segment_name(missing_from.position)), "{what}: {segment}");
        assert!(lost.starts_with(&format!("records from {} ", missing_from.sequence.0 + 1)), "{what}: {lost}");
    }
}

/// A log of several segments, and where they begin.
fn several_segments() -> (FakeDisk, Vec<Cursor>) {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    while folder(&disk).list_segments().unwrap().len() < 4 {
        commit(&mut log, 20);
    }
    log.close().unwrap();
    let folder = folder(&disk);
    let begins = folder.list_segments().unwrap().into_iter().map(|first| folder.open_segment(first).unwrap().1);
    (disk.clone(), begins.collect())
}

#[test]
fn a_sealed_segment_without_its_mark_is_read_whole_and_marked_again() {
    let (disk, begins) = several_segments();
    let (path, mark_at) = (segment(begins[2].position), offset_of(begins[2].position, begins[3].position));
    let whole = disk.contents(&path).unwrap();
    let mark = Mark { log: LOG, kind: MarkKind::Sealed, end: begins[3] };
    assert_eq!(Mark::decode(&whole[mark_at as usize..]), Ok(mark));
    // Neither none nor one of another place, kind or log is taken for it.
    let others = [
        [0; MARK_BYTES],
        Mark { kind: MarkKind::Tail, ..mark }.encode(),
        Mark { log: FAMILY.log(98, 1), ..mark }.encode(),
        Mark { end: begins[2], ..mark }.encode(),
    ];
    for other in others {
        disk.overwrite(&path, mark_at, &other).unwrap();
        let rotten = copy(&disk);
        rotten.flip_bit(&path, mark_at - 10, 3);
        let mut damaged = reopen(&rotten).unwrap().1.damaged;
        assert_eq!(damaged.len(), 1, "the log goes on behind it: {damaged:?}");
        let (at, offset, what, lost) = damage_of(Err::<(), _>(damaged.remove(0)));
        assert_eq!(at, path.display().to_string());
        assert!(offset > SEGMENT_HEADER_BYTES as u64 && offset < mark_at, "{offset}");
        assert!(what.contains("does not match its checksum") && lost.ends_with(&format!("{})", begins[3].position)));
        // All that it said is known, so it is marked again.
        let (log, _) = reopen(&disk).unwrap();
        drop(log);
        assert_eq!(disk.contents(&path).unwrap(), whole);
    }
}

#[test]
fn a_segment_that_is_missing_is_told_from_one_of_another_history() {
    let (disk, begins) = several_segments();
    let missing = copy(&disk);
    missing.remove(&segment(begins[2].position)).unwrap();
    let (at, _, what, lost) = damage_of(reopen(&missing));
    assert_eq!((&at[..], &what[..]), (&*segment(begins[2].position).to_string_lossy(), "the segment file is missing"));
    let (from, until) = (begins[2].sequence.0 + 1, begins[3].position);
    assert_eq!(lost, format!("records from {from} (position {}) to position {until}", begins[2].position));

    let other = Cursor { chain: crate::ChainHash([9; 32]), ..begins[2] };
    let header = SegmentHeader { log: LOG, first: other }.encode();
    disk.overwrite(&segment(begins[2].position), 0, &header).unwrap();
    let (at, offset, what, _) = damage_of(reopen(&disk));
    assert_eq!((at, offset), (segment(begins[2].position).display().to_string(), 0));
    assert_eq!(what, format!("it does not continue the chain of {}", segment_name(begins[1].position)));
}

#[test]
fn a_segment_of_several_windows_is_read_whole_and_damage_in_a_later_one_is_found() {
    const LARGE: Options = Options::small(8 << 20);
    let disk = FakeDisk::new(1);
    let Opened { mut log, .. } = logs(&disk).open(LOG, Cursor::START, LARGE).unwrap();
    while durable_position(&mut log).0 < 2_500_000 {
        commit(&mut log, 150);
    }
    let last = log.last_sequence();
    log.close().unwrap();
    let Opened { log, report } = logs(&disk).open(LOG, Cursor::START, LARGE).unwrap();
    assert_eq!((report.end.sequence, report.segments, report.bytes_cut), (last, 1, 0));
    assert_eq!(read_all(log).unwrap(), last.0);
    assert!(disk.flip_bit(&first_segment(), 2_000_000, 1));
    let (_, offset, _, _) = damage_of(logs(&disk).open(LOG, Cursor::START, LARGE).map(|_| ()));
    assert!(offset <= 2_000_000 && offset > 1_980_000, "{offset}");
}
