use std::path::Path;

use super::*;
use crate::disk::FakeDisk;
use crate::group::{self, GROUP_HEADER_BYTES, Seal};
use crate::limits::READ_AHEAD_BYTES;
use crate::segment::MARK_BYTES;
use crate::step::{Step, StepLogs};
use crate::{Durability, Family, GroupReader, LogId, LogStore, Logs, Opened, Options, Retention, Sequence};

const WHOLE: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };
const FORGETTING: Family = Family { number: 2, name: "topics", retention: Retention::SinceSnapshot };
const SMALL: Options = Options { allocation_step_bytes: 8 * 1024, ..Options::small(16 * 1024) };

/// The log of a family, closed, with a group of one record each, in several segments.
struct Log {
    disk: FakeDisk,
    folder: Folder<FakeDisk>,
    segments: Vec<Position>,
    end: Durability,
}

impl Log {
    fn new(family: Family) -> Log {
        let (disk, log) = (FakeDisk::new(1), family.log(7, 0));
        let logs = StepLogs::new(disk.clone(), Path::new("data"), &[family]);
        let Opened { log: mut store, .. } = logs.open(log, Cursor::START, SMALL).unwrap();
        for number in 0..200 {
            while store.ready().is_err() {
                store.step().unwrap();
            }
            let mut group = store.begin_group();
            group.append(|buffer| buffer.extend_from_slice(&[number; 300]));
            store.submit(group).unwrap();
            while store.step().unwrap() != Step::Idle {}
            store.poll_durable().unwrap();
        }
        store.close().unwrap();
        let end = logs.inspect(log, Cursor::START).unwrap().durability();
        let folder = Folder::new(disk.clone(), Path::new("data"), &family, log);
        let segments = folder.list_segments().unwrap();
        assert!(segments.len() >= 4, "{segments:?}");
        Log { disk, folder, segments, end }
    }

    fn id(&self) -> LogId {
        self.folder.log
    }

    fn groups(&self) -> GroupReader {
        GroupReader::new(Box::new(SegmentGroups::new(self.folder.clone()).unwrap()), Cursor::START, self.end).unwrap()
    }

    /// The place before the last group of a segment.
    fn before_last_of(&self, segment: usize) -> Cursor {
        let mut groups = self.groups();
        loop {
            let before = groups.cursor();
            groups.next_group().unwrap().expect("the segment is not the last one");
            if groups.cursor().position == self.segments[segment + 1] {
                return before;
            }
        }
    }

    /// Exchanges the group behind `before` for one of the same length that is right but for its first record.
    fn exchange(&self, before: Cursor) {
        let first = self.segments[self.segments.partition_point(|first| *first <= before.position) - 1];
        let (path, offset) = (self.folder.segment_path(first), offset_of(first, before.position));
        let image = self.disk.contents(&path).unwrap();
        let found = group::decode(&image[offset as usize..]).unwrap();
        let mut body = found.body.to_vec();
        body[30] ^= 1;
        let (synced_up_to, record_count) = (found.header.synced_up_to, found.header.record_count);
        let mut forged = Vec::new();
        group::seal(Seal { log: self.id(), before, synced_up_to, record_count }, &body, &mut forged);
        self.disk.overwrite(&path, offset, &forged).unwrap();
    }
}

impl Log {
    /// What is wrong with it, which it is for both ways to read.
    fn error(&self) -> JournalError {
        let ahead = error_of(self.groups().verifying_ahead());
        let error = error_of(self.groups());
        assert_eq!(ahead.to_string(), error.to_string());
        error
    }
}

/// Reads on until something is wrong.
fn error_of(mut groups: GroupReader) -> JournalError {
    loop {
        match groups.next_group() {
            Ok(group) => assert!(group.is_some(), "the log is read to its end"),
            Err(error) => return error,
        }
    }
}

#[test]
fn an_exchanged_group_is_damage_of_the_log_and_no_bad_cursor() {
    let log = Log::new(WHOLE);
    log.exchange(Cursor::START);
    let refused = log.error();
    assert!(matches!(refused, JournalError::Damaged { .. }), "the group behind it tells: {refused}");
    // The very first group, which follows what is not before it.
    let before = Cursor { chain: crate::ChainHash([9; 32]), ..Cursor::START };
    log.exchange(before);
    let refused = log.error();
    assert!(matches!(refused, JournalError::Damaged { .. }), "{refused}");
}

#[test]
fn what_is_lost_at_the_end_of_a_segment_is_told_by_the_next_one() {
    let log = Log::new(WHOLE);
    let before = log.before_last_of(1);
    let (first, next) = (log.segments[1], log.segments[2]);
    let path = log.folder.segment_path(first);
    assert!(log.disk.flip_bit(&path, offset_of(first, before.position) + GROUP_HEADER_BYTES as u64 + 20, 3));
    log.disk.overwrite(&path, offset_of(first, next), &[0; MARK_BYTES]).unwrap();
    let JournalError::Damaged { segment, lost, .. } = log.error() else { panic!("it is damaged") };
    assert_eq!(segment, path.display().to_string());
    let lost_one = before.sequence.0 + 1;
    assert_eq!(lost, format!("records {lost_one} to {lost_one} (positions {} to {next})", before.position));
}

#[test]
fn a_segment_that_is_missing_or_of_another_log_was_not_forgotten() {
    let log = Log::new(FORGETTING);
    let mut groups = log.groups();
    groups.next_group().unwrap();
    crate::disk::Disk::remove(&log.disk, &log.folder.segment_path(log.segments[2])).unwrap();
    let refused = error_of(groups);
    assert!(!matches!(refused, JournalError::Forgotten { .. }), "{refused}");

    let log = Log::new(FORGETTING);
    let groups = log.groups();
    let other = crate::segment::SegmentHeader { log: FORGETTING.log(8, 0), first: Cursor::START }.encode();
    log.disk.overwrite(&log.folder.segment_path(log.segments[0]), 0, &other).unwrap();
    let refused = error_of(groups);
    assert!(refused.to_string().contains("it belongs to log 2/0 of data directory 0000000000000008"), "{refused}");
}

#[test]
fn a_reader_goes_on_in_segments_that_came_later() {
    let (disk, id) = (FakeDisk::new(1), WHOLE.log(7, 0));
    let logs = StepLogs::new(disk.clone(), Path::new("data"), &[WHOLE]);
    let Opened { log: mut store, .. } = logs.open(id, Cursor::START, SMALL).unwrap();
    let folder = Folder::new(disk.clone(), Path::new("data"), &WHOLE, id);
    let source = SegmentGroups::new(folder.clone()).unwrap();
    let mut groups = GroupReader::new(Box::new(source), Cursor::START, store.poll_durable().unwrap()).unwrap();
    while folder.list_segments().unwrap().len() < 4 {
        while store.ready().is_err() {
            store.step().unwrap();
        }
        let mut group = store.begin_group();
        group.append(|buffer| buffer.extend_from_slice(&[1; 300]));
        store.submit(group).unwrap();
        while store.step().unwrap() != Step::Idle {}
        groups.extend_to(&store.poll_durable().unwrap());
        groups.next_group().unwrap().expect("what is durable is read");
    }
    assert_eq!(groups.cursor().sequence, store.last_sequence());
    assert!(groups.cursor().sequence > Sequence(50));
}

#[test]
fn what_is_verified_ahead_is_the_same() {
    let log = Log::new(WHOLE);
    let read = |mut groups: GroupReader| {
        let mut found = Vec::new();
        while let Some(group) = groups.next_group().unwrap() {
            let records: Vec<_> = group.records().map(|(sequence, at, bytes)| (sequence, at, bytes.to_vec())).collect();
            found.push((group.base, records));
        }
        (groups.cursor(), found)
    };
    let (end, found) = read(log.groups());
    assert!(found.len() == 200 && end.sequence == Sequence(200));
    for bytes in [READ_AHEAD_BYTES, 1_000, 100] {
        assert_eq!(read(log.groups().verifying_ahead().reading_ahead(bytes)), (end, found.clone()), "{bytes} at once");
    }
    let mut few = log.groups().verifying_ahead();
    assert!(few.next_group().unwrap().is_some(), "who needs no more leaves the rest");
    few.forget_ahead();
    assert_eq!(few.next_group().unwrap().map(|group| group.first_sequence), Some(Sequence(2)), "or goes on later");
    // A group was exchanged for one that is good, and from which the log did not go on.
    let before = log.before_last_of(0);
    let mut groups = log.groups();
    while groups.cursor().position < log.segments[1] {
        groups.next_group().unwrap();
    }
    let up_to = Durability::at(groups.cursor());
    log.exchange(before);
    let of = || GroupReader::new(Box::new(SegmentGroups::new(log.folder.clone()).unwrap()), Cursor::START, up_to);
    let [plain, ahead] = [of().unwrap(), of().unwrap().verifying_ahead()].map(|groups| error_of(groups).to_string());
    assert!(plain == ahead && plain.contains("the group there was exchanged"), "{plain}; {ahead}");
}
