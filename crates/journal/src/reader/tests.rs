//! What a reader finds that has listed the folder a while ago.

use std::path::Path;

use super::*;
use crate::disk::FakeDisk;
use crate::group::GROUP_HEADER_BYTES;
use crate::step::{Step, StepLogs};
use crate::{LogStore, Logs, Opened, Options, Retention};

const FAMILY: crate::Family = crate::Family { number: 1, name: "ledger", retention: Retention::Whole };
const LOG: crate::LogId = FAMILY.log(99, 1);
const SMALL: Options = Options { allocation_step_bytes: 8 * 1024, ..Options::small(16 * 1024) };

#[test]
fn what_is_here_is_read_although_the_segment_before_it_was_moved_out_of_reach() {
    let (disk, data) = (FakeDisk::new(1), Path::new("data"));
    let logs = StepLogs::new(disk.clone(), data, &[FAMILY]);
    let folder = Folder::new(disk.clone(), data, &FAMILY, LOG);
    let Opened { mut log, .. } = logs.open(LOG, Cursor::START, SMALL).unwrap();
    let mut commit = || {
        let mut group = log.begin_group();
        for _ in 0..20 {
            group.append(|buffer| buffer.extend_from_slice(&[7; 50]));
        }
        log.submit(group).unwrap();
        while log.step().unwrap() != Step::Idle {}
        log.poll_durable().unwrap();
    };
    commit();
    let reader = logs.reader(LOG).unwrap();
    while folder.list_local().unwrap().len() < 3 {
        commit();
    }
    // The reader has seen one segment, and has not opened it. It is archived, and the archive is away.
    let segments = folder.list_local().unwrap();
    disk.rename(&folder.segment_path(segments[0]), Path::new("data/away")).unwrap();
    let record_of = |first: Position| Position(first.0 + GROUP_HEADER_BYTES as u64);
    let mut record = Vec::new();
    reader.read(record_of(segments[1]), &mut record).unwrap();
    assert_eq!(record, [7; 50]);
    assert!(matches!(reader.read(record_of(segments[0]), &mut record), Err(JournalError::Damaged { .. })));
}
