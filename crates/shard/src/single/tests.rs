//! A machine of numbers that are noted and of alarms that ring, driven as a shard.

use std::path::Path;

use tidegate_disk::FakeDisk;
use tidegate_journal::step::Step;
use tidegate_journal::{Cursor, Family, Logs, Opened, Options, Retention, StepLog, StepLogs};
use tidegate_machines::{Place, ShardIndex};

use super::*;
use crate::commit::Durable;
use crate::compact::CompactionRule;
use crate::shard::Shard;

const FAMILY: Family = Family { number: 10, name: "alarms", retention: Retention::Whole };
const NOW: TimeMs = TimeMs(1_000);

/// What was noted, and when alarms ring.
#[derive(Debug, Default)]
struct Alarms {
    noted: Vec<u8>,
    due: Vec<TimeMs>,
}

#[derive(Clone, Debug)]
enum Command {
    /// Something new.
    Note(u8),
    /// Something that has happened.
    Happened(u8),
    /// An answer without a record.
    Look,
    /// An alarm, in so many milliseconds.
    Set(u64),
    /// An alarm rings.
    Ring,
    /// A record of so many bytes.
    Large(usize),
}

#[derive(Clone, Debug, PartialEq)]
enum Event {
    Noted(u8),
    Set(TimeMs),
    Rung,
    Large(usize),
}

#[derive(Debug, thiserror::Error)]
#[error("it does not fit")]
struct Misfit;

impl Machine for Alarms {
    type Command<'a> = Command;
    type With<'a> = u8;
    type Event<'a> = Event;
    type Outcome = usize;
    type Mismatch = Misfit;
    type EventError = Misfit;
    type SnapshotError = Misfit;

    fn new(_: ShardIndex, _: u16) -> Alarms {
        Alarms::default()
    }
    fn decide<'a>(
        &self,
        command: &Self::Command<'a>,
        more: Self::With<'a>,
        now: TimeMs,
    ) -> Decision<Self::Event<'a>, usize> {
        let event = match command {
            Command::Note(number) | Command::Happened(number) => Event::Noted(number + more),
            Command::Look => return Decision::Answer(self.noted.len()),
            Command::Set(after_ms) => Event::Set(TimeMs(now.0 + after_ms)),
            Command::Ring => Event::Rung,
            Command::Large(bytes) => Event::Large(*bytes),
        };
        Decision::Append { event, outcome: self.noted.len() }
    }
    fn apply_checked(&mut self, event: &Event, _: Place) -> Result<(), Misfit> {
        match event {
            Event::Noted(number) => self.noted.push(*number),
            Event::Set(at) => self.due.push(*at),
            Event::Rung => drop(self.due.remove(0)),
            Event::Large(_) => {}
        }
        Ok(())
    }
    fn encode(event: &Event, into: &mut Vec<u8>) {
        let bytes = if let Event::Large(bytes) = event { *bytes } else { 9 };
        into.resize(into.len() + bytes, 7);
    }
    fn decode(_: &[u8]) -> Result<Event, Misfit> {
        Err(Misfit)
    }
    fn next_due(&self) -> Option<TimeMs> {
        self.due.first().copied()
    }
    fn write_snapshot(&self, part: &mut dyn FnMut(&[u8])) {
        part(&self.noted);
    }
    fn read_snapshot(_: &[u8]) -> Result<Alarms, Misfit> {
        Err(Misfit)
    }
    fn assert_sound(&self) {}
}

struct AlarmsFamily;

impl ShardFamily for AlarmsFamily {
    type Machine = Alarms;
    const FAMILY: Family = FAMILY;
    const SNAPSHOTS_KEPT: usize = 1;
    const COMPACTION: CompactionRule = CompactionRule { floor_bytes: 1, ratio: 1 };
}

struct OfAlarms;

impl Commands for OfAlarms {
    type Command = Command;
    type Event = Event;
    type Machine = Alarms;
    type Family = AlarmsFamily;
    type Context = u8;
    type Ticket = &'static str;
    const COMMANDS_WAITING_MAX: usize = 10_000;
    const COMMAND_BYTES_WAITING_MAX: usize = 1 << 20;
    const WORK_IN_STEP_MAX: usize = 3_000;

    fn work(command: &Command) -> usize {
        if let Command::Look = command { 3 } else { 1 }
    }

    fn weight(command: &Command) -> usize {
        if let Command::Large(bytes) = command { *bytes } else { 9 }
    }
    fn class(command: &Command) -> RecordClass {
        match command {
            Command::Happened(_) | Command::Look => RecordClass::Note,
            _ => RecordClass::New,
        }
    }
    fn due(machine: &Alarms, now: TimeMs) -> Option<Command> {
        machine.next_due().filter(|at| *at <= now).map(|_| Command::Ring)
    }
    fn with(more: &u8) -> u8 {
        *more
    }
}

type Tested = Shard<Single<OfAlarms>, StepLog<FakeDisk>>;
type Answer = Option<Decided<Event, usize>>;

fn open() -> (FakeDisk, Tested) {
    let disk = FakeDisk::new(1);
    let logs = StepLogs::new(disk.clone(), Path::new("data"), &[FAMILY]);
    let Opened { log, .. } = logs.open(FAMILY.log(7, 0), Cursor::START, Options::small(16 << 10)).expect("it is new");
    (disk, Shard::new(ShardIndex(0), Alarms::default(), Single::new(0), log).expect("it is new"))
}

/// Steps shard and log until nothing is left to do.
fn settle(shard: &mut Tested, now: TimeMs) {
    while shard.step(now) | (shard.log_mut().step().expect("the disk works") != Step::Idle) {}
}

/// What was answered; `None` for who was turned away.
fn answers(shard: &mut Tested) -> Vec<(&'static str, Answer)> {
    let released = std::iter::from_fn(|| shard.released());
    released.map(|(ticket, answer)| (ticket, answer.ok().map(Durable::into_inner))).collect()
}

#[test]
fn a_decision_sees_the_context_of_its_time_and_answers_without_a_record_are_counted() {
    let (_, mut shard) = open();
    shard.call("one", Command::Note(1));
    settle(&mut shard, NOW);
    shard.service_mut().set_context(20);
    shard.call("two", Command::Note(1));
    shard.call("look", Command::Look);
    shard.call("look", Command::Look);
    shard.call("large", Command::Large(1 << 19));
    settle(&mut shard, NOW);
    assert_eq!(shard.state_ahead().noted, [1, 21]);
    let [one, two, look, _, large] = &answers(&mut shard)[..] else { panic!("all are answered") };
    assert!(
        matches!(one, ("one", Some(Decided::Done { sequence, event: Event::Noted(1), outcome: 0 })) if sequence.0 == 1)
    );
    assert!(
        matches!(two, ("two", Some(Decided::Done { sequence, event: Event::Noted(21), outcome: 1 })) if sequence.0 == 2)
    );
    assert!(matches!(look, ("look", Some(Decided::Answered(2)))), "{look:?}");
    assert!(matches!(large, ("large", Some(Decided::TooLarge))), "no group takes it: {large:?}");
    assert_eq!((shard.service().unrecorded(), shard.appended().0), (3, 2));
}

#[test]
fn what_waits_weighs_as_its_family_says() {
    let (_, mut shard) = open();
    shard.call("small", Command::Note(1));
    shard.call("large", Command::Large((1 << 20) - 10));
    assert!(shard.has_room(), "a byte is left");
    shard.call("small", Command::Note(1));
    assert!(!shard.has_room());
}

/// Whoever else is on the worker waits for a step.
#[test]
fn a_step_does_so_much_work_and_what_waits_is_done_in_the_next_ones() {
    let (_, mut shard) = open();
    for _ in 0..2_500 {
        shard.call("look", Command::Look);
    }
    let steps = [(); 4].map(|()| (shard.step(NOW), answers(&mut shard).len()));
    assert_eq!(steps, [(true, 1_000), (true, 1_000), (true, 500), (false, 0)]);
}

#[test]
fn what_is_due_is_done_so_many_in_a_step_and_a_step_says_whether_there_was_any() {
    let (_, mut shard) = open();
    for _ in 0..DUE_PER_STEP + 100 {
        shard.call("set", Command::Set(500));
    }
    settle(&mut shard, NOW);
    let left = |shard: &Tested| shard.state_ahead().due.len();
    assert_eq!(left(&shard), DUE_PER_STEP + 100);
    let due = TimeMs(NOW.0 + 500);
    assert!(!shard.step(TimeMs(due.0 - 1)), "nothing is due yet");
    let mut steps = Vec::new();
    while left(&shard) > 0 {
        assert!(shard.step(due), "some rang");
        while shard.log_mut().step().expect("the disk works") != Step::Idle {}
        steps.push(left(&shard));
    }
    assert!(steps[0] >= 100 && steps.len() >= 2, "{steps:?}");
    settle(&mut shard, due);
    assert!(!shard.step(due), "nothing is left");
    assert_eq!(shard.appended().0 as usize, 2 * (DUE_PER_STEP + 100));
}

#[test]
fn on_a_full_disk_what_is_new_is_turned_away_and_what_happened_takes_the_last_room_and_then_waits() {
    let (disk, mut shard) = open();
    shard.call("set", Command::Set(500));
    settle(&mut shard, NOW);
    answers(&mut shard);
    disk.set_capacity(disk.used_bytes());
    // The room that was claimed before is used first.
    let is_full = (0..1_000).any(|_| {
        shard.call("new", Command::Note(1));
        settle(&mut shard, NOW);
        answers(&mut shard).iter().any(|(_, answer)| answer.is_none())
    });
    assert!(is_full, "what is new is turned away");
    // Room was kept for what happened, one group each, and it is used up.
    let mut happened = 0;
    while shard.facts().blocked == 0 {
        shard.call("happened", Command::Happened(76));
        settle(&mut shard, NOW);
        happened += answers(&mut shard).len();
    }
    assert!(happened > 10, "{happened}");
    let (appended, later) = (shard.appended(), TimeMs(NOW.0 + 500));
    for _ in 0..2 {
        shard.call("happened", Command::Happened(77));
        shard.call("look", Command::Look);
        shard.call("new", Command::Note(1));
    }
    shard.call("happened last", Command::Happened(78));
    settle(&mut shard, later);
    let told = |shard: &mut Tested| -> Vec<_> {
        answers(shard).into_iter().map(|(ticket, answer)| (ticket, answer.is_some())).collect()
    };
    let passed = [("look", true), ("new", false), ("look", true), ("new", false)];
    assert_eq!(told(&mut shard), passed, "who needs no disk passes what waits, and what is new is turned away");
    assert_eq!((shard.appended(), shard.state_ahead().due.len()), (appended, 1), "no alarm rings");
    assert!(!shard.step(later), "it waits without work");
    assert_eq!((shard.facts().inbox, shard.facts().blocked), (0, 4));
    assert!(shard.has_room() && !shard.is_idle(), "what waits for the disk keeps nobody from asking");

    disk.set_capacity(u64::MAX);
    settle(&mut shard, later);
    let noted = [("happened", true), ("happened", true), ("happened", true), ("happened last", true)];
    assert_eq!(told(&mut shard), noted, "in order");
    let noted = &shard.state_ahead().noted;
    assert_eq!((&noted[noted.len() - 3..], shard.state_ahead().due.len()), (&[77, 77, 78][..], 0));
    assert!(shard.is_idle());
    shard.call("new", Command::Note(1));
    settle(&mut shard, later);
    assert_eq!(told(&mut shard), [("new", true)]);
}

#[test]
fn a_command_that_finds_a_full_group_is_decided_again_in_the_next_one() {
    let (_, mut shard) = open();
    for _ in 0..20 {
        shard.call("large", Command::Large(1_500));
        shard.call("note", Command::Note(1));
    }
    settle(&mut shard, NOW);
    let all = answers(&mut shard);
    assert!(all.len() == 40 && all.iter().all(|(_, answer)| matches!(answer, Some(Decided::Done { .. }))));
    assert_eq!((shard.state_ahead().noted.len(), shard.appended().0), (20, 40));
    assert!(shard.facts().groups > 5, "{:?}", shard.facts());
}
