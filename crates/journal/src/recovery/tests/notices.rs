//! Notices that an operator has written.

use super::*;

fn restored() -> Notice {
    let lost = Some(Lost { from: Sequence(16), to: None });
    Notice { kind: NoticeKind::Restored, time_ms: 7, lost, text: "from the copy of yesterday".into() }
}

/// The notices of a log, each with the place behind it.
fn notices(disk: &FakeDisk) -> Vec<(Cursor, Notice)> {
    let end = logs(disk).inspect(LOG, Cursor::START).unwrap().durability();
    let mut groups = logs(disk).reader(LOG).unwrap().groups(Cursor::START, &end).unwrap();
    let mut found = Vec::new();
    while let Some(group) = groups.next_group().unwrap() {
        let notice = group.notice.clone();
        assert_eq!(notice.is_some(), group.record_count == 0 && group.records().next().is_none());
        if let Some(notice) = notice {
            found.push((groups.cursor(), notice));
        }
    }
    found
}

#[test]
fn a_notice_stands_in_the_chain_and_takes_no_sequence() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    (0..3).for_each(|_| commit(&mut log, 5));
    log.close().unwrap();
    let before = logs(&disk).inspect(LOG, Cursor::START).unwrap().end;
    let behind = logs(&disk).append_notice(LOG, Cursor::START, SMALL, &restored()).unwrap();
    assert!(behind.position > before.position && behind.sequence == before.sequence && behind.chain != before.chain);

    let (mut log, report) = reopen(&disk).unwrap();
    assert_eq!((report.end, report.bytes_cut), (behind, 0), "it is durable, and marked as the end");
    // Over several segments, so that the notice stands in a sealed one.
    (0..200).for_each(|_| commit(&mut log, 5));
    assert!(folder(&disk).list_segments().unwrap().len() > 2);
    log.close().unwrap();
    let second = logs(&disk).append_notice(LOG, Cursor::START, SMALL, &restored()).unwrap();
    assert_eq!(notices(&disk), [(behind, restored()), (second, restored())]);
    assert_eq!(read_all(reopen(&disk).unwrap().0).unwrap(), 1_015, "folds see records only");

    // A cursor before it and one behind it are places of the log; the scrub passes it.
    let reader = logs(&disk).reader(LOG).unwrap();
    let end = logs(&disk).inspect(LOG, Cursor::START).unwrap().durability();
    for cursor in [before, behind, second] {
        reader.groups(cursor, &end).unwrap().next_group().unwrap();
    }
    let (scrubbed, settled) = (reader.scrub(Cursor::START, u64::MAX).unwrap(), reader.settled_end().unwrap());
    assert_eq!((scrubbed.reached.position, scrubbed.at_end), (settled.position(), true));
}

#[test]
fn a_notice_that_a_crash_tore_is_cut_and_one_that_was_changed_is_refused() {
    let disk = FakeDisk::new(1);
    let (mut log, _) = reopen(&disk).unwrap();
    commit(&mut log, 5);
    log.close().unwrap();
    let before = logs(&disk).inspect(LOG, Cursor::START).unwrap().end;
    let without = disk.contents(&first_segment()).unwrap();
    logs(&disk).append_notice(LOG, Cursor::START, SMALL, &restored()).unwrap();
    let with = disk.contents(&first_segment()).unwrap();
    let start = offset_of(Cursor::START.position, before.position) as usize;
    let length = GROUP_HEADER_BYTES + group::notice_body(&restored()).len();

    for written in (0..length).step_by(7) {
        let torn = copy(&disk);
        let mut image = without.clone();
        image[start..start + written].copy_from_slice(&with[start..start + written]);
        image[start + written..].fill(0);
        torn.overwrite(&first_segment(), 0, &image).unwrap();
        assert_eq!(reopen(&torn).unwrap().1.end, before, "the first {written} bytes of a notice are nothing");
    }
    for (at, byte) in with.iter().enumerate().skip(start).take(length) {
        let harmed = copy(&disk);
        harmed.overwrite(&first_segment(), at as u64, &[byte ^ 1]).unwrap();
        assert!(reopen(&harmed).is_err(), "byte {} of a durable notice", at - start);
    }
}
