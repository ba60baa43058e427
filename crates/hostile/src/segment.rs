//! A whole segment file with a piece of it overwritten: recovery either refuses it or serves what was written, never
//! anything else.

use std::path::Path;
use tidegate_journal::disk::FakeDisk;
use tidegate_journal::step::Step;
use tidegate_journal::{Cursor, Family, LogId, LogReader, LogStore, Logs, Opened, Options, Retention, StepLogs};

const FAMILY: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };
const LOG: LogId = FAMILY.log(7, 0);
const OPTIONS: Options = Options::small(16 << 10);
const GROUPS: u8 = 6;

/// The first two bytes say where in the file the others go.
pub fn check(bytes: &[u8]) {
    let Some((offset, piece)) = bytes.split_first_chunk::<2>() else { return };
    let disk = FakeDisk::new(1);
    let logs = StepLogs::new(disk.clone(), Path::new("/data"), &[FAMILY]);
    let Opened { mut log, .. } = logs.open(LOG, Cursor::START, OPTIONS).expect("an empty directory opens");
    for number in 1..=GROUPS {
        let mut group = log.begin_group();
        for record in 0..number {
            group.append(|out| out.extend_from_slice(&record_of(number, record)));
        }
        log.submit(group).expect("the disk works");
        while log.step().expect("the disk works") != Step::Idle {}
        log.poll_durable().expect("the disk works");
    }
    drop(log);
    disk.kill();

    let (path, length) =
        disk.files().into_iter().find(|(path, _)| path.to_string_lossy().contains("segment-")).expect("a segment");
    let offset = u64::from(u16::from_le_bytes(*offset)) % length;
    let piece = &piece[..piece.len().min((length - offset) as usize)];
    disk.overwrite(&path, offset, piece).expect("inside the file");

    let Ok(Opened { mut log, .. }) = logs.open(LOG, Cursor::START, OPTIONS) else { return };
    let (reader, durable) = (log.reader().expect("it is there"), log.poll_durable().expect("it has not failed"));
    let scrubbed = reader.scrub(Cursor::START, u64::MAX).expect("nothing before the last segment was touched");
    assert!(scrubbed.at_end && scrubbed.reached.position <= durable.position());
    let mut groups = reader.groups(Cursor::START, &durable).expect("an opened log can be read from its start");
    let mut number = 0;
    while let Ok(Some(group)) = groups.next_group() {
        number += 1;
        let records: Vec<Vec<u8>> = group.records().map(|(_, _, payload)| payload.to_vec()).collect();
        let written: Vec<Vec<u8>> = (0..number).map(|record| record_of(number, record)).collect();
        assert_eq!(records, written, "group {number} is not what was written");
    }
    assert!(number <= GROUPS);
}

fn record_of(group: u8, record: u8) -> Vec<u8> {
    vec![group ^ 0x5a; 20 + usize::from(record) * 7]
}
