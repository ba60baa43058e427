//! The machine of this crate's tests, which lists the numbers that it was told, and logs of it on a disk in memory.

use std::path::Path;

use tidegate_disk::FakeDisk;
use tidegate_journal::step::Step;
use tidegate_journal::{
    Cursor, Family, LogId, LogStore, Logs, Notice, NoticeKind, Opened, Options, Retention, StepLogs,
};
use tidegate_machines::{Decision, Machine, Place, ShardIndex, TimeMs};

use crate::compact::CompactionRule;
use crate::service::ShardFamily;
use crate::snapshot::Snapshots;

/// Its logs.
pub(crate) const NOTES: Family = Family { number: 9, name: "notes", retention: Retention::Whole };

/// The numbers that it was told, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Notes(pub Vec<u8>);

/// Bytes that are no number.
#[derive(Debug, thiserror::Error)]
#[error("it does not fit")]
pub(crate) struct Misfit;

impl Machine for Notes {
    type Command<'a> = u8;
    type With<'a> = ();
    type Event<'a> = u8;
    type Outcome = ();
    type Mismatch = Misfit;
    type EventError = Misfit;
    type SnapshotError = Misfit;

    fn new(_: ShardIndex, _: u16) -> Notes {
        Notes::default()
    }
    fn decide<'a>(&self, number: &Self::Command<'a>, (): Self::With<'a>, _: TimeMs) -> Decision<Self::Event<'a>, ()> {
        Decision::Append { event: *number, outcome: () }
    }
    fn apply(&mut self, number: &u8, _: Place) {
        self.0.push(*number);
    }
    fn apply_checked(&mut self, number: &u8, at: Place) -> Result<(), Misfit> {
        self.apply(number, at);
        Ok(())
    }
    fn encode(number: &u8, into: &mut Vec<u8>) {
        into.push(*number);
    }
    fn decode(bytes: &[u8]) -> Result<u8, Misfit> {
        <[u8; 1]>::try_from(bytes).ok().map(|[number]| number).filter(|number| *number != NO_NUMBER).ok_or(Misfit)
    }
    fn next_due(&self) -> Option<TimeMs> {
        None
    }
    fn write_snapshot(&self, part: &mut dyn FnMut(&[u8])) {
        part(&self.0);
    }
    fn read_snapshot(body: &[u8]) -> Result<Notes, Misfit> {
        Ok(Notes(body.to_vec()))
    }
    fn write_older_snapshot(&self, part: &mut dyn FnMut(&[u8])) -> bool {
        part(&self.0.iter().copied().filter(|number| *number != UNKNOWN_BEFORE).collect::<Vec<_>>());
        true
    }
    fn assert_sound(&self) {}
}

/// A record with this byte is no number.
pub(crate) const NO_NUMBER: u8 = 254;
/// A number that earlier programs left out of their snapshots.
pub(crate) const UNKNOWN_BEFORE: u8 = 255;

/// Its files.
pub(crate) struct NotesFamily;

impl ShardFamily for NotesFamily {
    type Machine = Notes;
    const FAMILY: Family = NOTES;
    const SNAPSHOTS_KEPT: usize = 2;
    const COMPACTION: CompactionRule = CompactionRule { floor_bytes: 1, ratio: 0 };
}

/// Of logs of a few groups.
pub(crate) const SMALL: Options = Options::small(16 << 10);

/// The log of the tests.
pub(crate) fn id() -> LogId {
    NOTES.log(7, 0)
}

/// All logs of this disk.
pub(crate) fn logs(disk: &FakeDisk) -> StepLogs<FakeDisk> {
    StepLogs::new(disk.clone(), Path::new("data"), &[NOTES])
}

/// Writes one group of these numbers, durably.
pub(crate) fn write(disk: &FakeDisk, numbers: &[u8]) {
    let Opened { mut log, .. } = logs(disk).open(id(), Cursor::START, SMALL).unwrap();
    while log.ready().is_err() {
        log.step().unwrap();
        log.poll_durable().unwrap();
    }
    let mut group = log.begin_group();
    for number in numbers {
        group.append(|bytes| bytes.push(*number));
    }
    log.submit(group).unwrap();
    while log.step().unwrap() != Step::Synced {}
    log.close().unwrap();
}

/// Writes a notice behind the log's end.
pub(crate) fn notice(disk: &FakeDisk, time_ms: u64) -> Notice {
    let notice = Notice { kind: NoticeKind::Restored, time_ms, lost: None, text: "from the copy".into() };
    logs(disk).append_notice(id(), Cursor::START, SMALL, &notice).unwrap();
    notice
}

/// The snapshots of the log.
pub(crate) fn snapshots(disk: &FakeDisk) -> Snapshots<NotesFamily, FakeDisk> {
    Snapshots::new(disk.clone(), Path::new("data"), id())
}
