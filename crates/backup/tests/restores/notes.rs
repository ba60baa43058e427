//! A machine that only lists numbers, in two families, and what tests do with their logs.

use std::path::Path;

use tidegate_backup::{At, Known, Moment, Reread, Restored, Taken, restore, take};
use tidegate_journal::directory::{ShardCount, Wanted};
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{
    Cursor, Family, LocalLog, LocalLogs, LogId, LogStore, Logs, Opened, Options, Position, Retention,
};
use tidegate_machines::{Decision, Fact, Machine, Place, RecordPosition, ShardIndex, Tie, TimeMs};
use tidegate_shard::{CompactionRule, NothingDerived, OpenShard, ShardFamily, Snapshots};

/// A number, when it was told, and a record of another shard that it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    pub number: u32,
    pub time: TimeMs,
    pub rests_on: Option<(u16, u64)>,
    /// For one that sets the time of its log: the time before.
    pub mended_from: Option<TimeMs>,
}

/// The numbers that it was told, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Notes(pub Vec<u32>);

#[derive(Debug, thiserror::Error)]
#[error("it does not fit")]
pub struct Misfit;

impl Machine for Notes {
    type Command<'a> = Note;
    type With<'a> = ();
    type Event<'a> = Note;
    type Outcome = ();
    type Mismatch = Misfit;
    type EventError = Misfit;
    type SnapshotError = Misfit;

    fn new(_: ShardIndex, _: u16) -> Notes {
        Notes::default()
    }
    fn decide<'a>(&self, note: &Self::Command<'a>, (): Self::With<'a>, _: TimeMs) -> Decision<Self::Event<'a>, ()> {
        Decision::Append { event: *note, outcome: () }
    }
    fn apply(&mut self, note: &Note, _: Place) {
        self.0.push(note.number);
    }
    fn apply_checked(&mut self, note: &Note, at: Place) -> Result<(), Misfit> {
        self.apply(note, at);
        Ok(())
    }
    fn encode(note: &Note, into: &mut Vec<u8>) {
        let (shard, position) = note.rests_on.unwrap_or((u16::MAX, 0));
        into.extend_from_slice(&note.number.to_le_bytes());
        into.extend_from_slice(&note.time.0.to_le_bytes());
        into.extend_from_slice(&shard.to_le_bytes());
        into.extend_from_slice(&position.to_le_bytes());
        into.extend_from_slice(&note.mended_from.map_or(u64::MAX, |was| was.0).to_le_bytes());
        // Some bytes, so that segments fill.
        into.extend_from_slice(&[7; 200]);
    }
    fn decode(bytes: &[u8]) -> Result<Note, Misfit> {
        let word = |at: usize| bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        let number = bytes.get(..4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes).ok_or(Misfit)?;
        let shard = bytes.get(12..14).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes).ok_or(Misfit)?;
        let (time, position) = (TimeMs(word(4).ok_or(Misfit)?), word(14).ok_or(Misfit)?);
        let mended_from = Some(TimeMs(word(22).ok_or(Misfit)?)).filter(|was| was.0 != u64::MAX);
        Ok(Note { number, time, rests_on: (shard != u16::MAX).then_some((shard, position)), mended_from })
    }
    fn next_due(&self) -> Option<TimeMs> {
        None
    }
    fn write_snapshot(&self, part: &mut dyn FnMut(&[u8])) {
        self.0.iter().for_each(|number| part(&number.to_le_bytes()));
    }
    fn read_snapshot(body: &[u8]) -> Result<Notes, Misfit> {
        Ok(Notes(body.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()))
    }
    fn assert_sound(&self) {}
    fn decided_at(note: &Note) -> Option<TimeMs> {
        Some(note.time)
    }
    fn mended_from(note: &Note) -> Option<TimeMs> {
        note.mended_from
    }
    fn ties(note: &Note, _: ShardIndex, each: &mut dyn FnMut(Tie)) {
        if let Some((shard, position)) = note.rests_on {
            each(Tie::RestsOn(Fact::Record { shard: ShardIndex(shard), position: RecordPosition(position) }));
        }
    }
}

pub struct Whole;

impl ShardFamily for Whole {
    type Machine = Notes;
    const FAMILY: Family = Family { number: 8, name: "whole", retention: Retention::Whole };
    const SNAPSHOTS_KEPT: usize = 2;
    const COMPACTION: CompactionRule = CompactionRule { floor_bytes: 1, ratio: 0 };
}

pub struct Forgets;

impl ShardFamily for Forgets {
    type Machine = Notes;
    const FAMILY: Family = Family { number: 9, name: "notes", retention: Retention::SinceSnapshot };
    const SNAPSHOTS_KEPT: usize = 2;
    const COMPACTION: CompactionRule = CompactionRule { floor_bytes: 1, ratio: 0 };
}

pub const KNOWN: [Known; 2] = [Known::of::<Whole>(), Known::of::<Forgets>()];
pub const SMALL: Options = Options::small(64 << 10);

pub fn wanted() -> [Wanted; 2] {
    let whole = Wanted { family: Whole::FAMILY, shards: 2, count: ShardCount::Kept };
    [whole, Wanted { family: Forgets::FAMILY, shards: 1, count: ShardCount::Kept }]
}

pub fn logs(data: &Path) -> LocalLogs<RealDisk> {
    LocalLogs::new(RealDisk, data, &[Whole::FAMILY, Forgets::FAMILY])
}

/// Appends these notes, each as a group of its own, durably; where each stands.
pub fn write(log: &mut LocalLog<RealDisk>, notes: &[Note]) -> Vec<Position> {
    write_groups(log, notes, 1)
}

/// The same in groups of so many.
pub fn write_groups(log: &mut LocalLog<RealDisk>, notes: &[Note], each: usize) -> Vec<Position> {
    let mut places = Vec::new();
    for notes in notes.chunks(each) {
        while log.ready().is_err() {
            log.poll_durable().expect("the disk works");
        }
        let mut group = log.begin_group();
        places.extend(notes.iter().map(|note| group.append(|into| Notes::encode(note, into))));
        log.submit(group).expect("the disk works");
    }
    while log.poll_durable().expect("the disk works").sequence() < log.last_sequence() {}
    places
}

pub fn open(data: &Path, id: LogId, since: Cursor) -> LocalLog<RealDisk> {
    let Opened { log, .. } = logs(data).open(id, since, SMALL).expect("it opens");
    log
}

pub fn note(number: u32, time: u64) -> Note {
    Note { number, time: TimeMs(time), rests_on: None, mended_from: None }
}

/// What a start on the directory would serve of a log.
pub fn served<F: ShardFamily<Machine = Notes>>(data: &Path, id: LogId) -> Vec<u32> {
    let snapshots = Snapshots::<F, _>::new(RealDisk, data, id);
    let open = OpenShard::open(&logs(data), snapshots, SMALL).expect("it opens");
    let back = open.replay(1, &mut NothingDerived, |_| {}).expect("it replays");
    back.log.close().expect("it ends in order");
    back.state.0
}

pub fn taken(data: &Path, to: &Path, reread: Reread, now: u64) -> Taken {
    take(data, to, reread, &KNOWN, Moment(now), &mut |_, _| {}).expect("it is taken")
}

pub fn restored(from: &Path, data: &Path, at: &At) -> Restored {
    restore(from, data, None, at, &KNOWN, Moment(9_000_000), &mut |_, _| {}).expect("it is restored")
}
