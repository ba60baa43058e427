//! A shard of a machine that only lists its commands, with a service that reads, pauses and stops when told to.

use std::collections::HashSet;
use std::path::Path;

use tidegate_disk::FakeDisk;
use tidegate_journal::step::Step;
use tidegate_journal::{Cursor, LogReader, LogStore, Logs, Opened, Options, Position, StepLog, StepLogs};

use super::*;
use crate::limits::FIRST_JOBS_BEFORE_LATER;
use crate::notes::{NOTES, Notes, NotesFamily};
use crate::service::{Served, TurnOf};
use crate::turn::Room;

const SMALL: Options = Options::small(16 << 10);
const NOW: TimeMs = TimeMs(1);

/// What a call asks for.
#[derive(Clone, Copy, Debug)]
enum Call {
    /// Write the number.
    Write(u8),
    /// Write it once a read has come back, to which nothing may be added meanwhile.
    ReadThenWrite(u8),
    /// The same, and worth half of what may be read.
    ReadMuch(u8),
    /// Answer a read; others may pass.
    Look(u8),
    /// Be turned away: on arrival, or when it is served.
    TurnedAway { on_arrival: bool },
    /// Nothing but to wait, and to weigh as much as may wait.
    Heavy,
    /// Write if there is room, and else wait for it.
    WriteOrWait,
    /// Stop the shard.
    Stop,
}

#[derive(Default)]
struct Progress {
    reading: Option<JobId>,
    is_read: bool,
}

#[derive(Default)]
struct Reader {
    /// Calls that were prepared.
    prepared: Vec<u8>,
    arrived: Vec<JobId>,
    /// What the next step does behind the calls.
    works_after: bool,
    works_before: bool,
    /// Those who wait for nothing that comes.
    waiting: Vec<&'static str>,
    /// Answers this one, and fails.
    stops_after: Option<&'static str>,
    /// What the last call on arrival was told: whether the shard is stuck.
    stuck: std::cell::Cell<bool>,
}

#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("on command")]
    OnCommand,
}

impl Service for Reader {
    type Family = NotesFamily;
    type Call = Call;
    type Answer = Vec<u8>;
    type Ticket = &'static str;
    /// Who waits.
    type Note = &'static str;
    type Progress = Progress;
    type Job = u8;
    type Fetched = u8;
    type Stop = Stopped;
    const CALLS_WAITING_MAX: usize = 8;
    const CALL_BYTES_WAITING_MAX: usize = 1 << 20;

    fn weight(call: &Call) -> usize {
        if let Call::Heavy = call { Self::CALL_BYTES_WAITING_MAX } else { 10 }
    }
    /// `a: vote` is a call of `a`.
    fn caller(_call: &Call, ticket: &&'static str) -> Caller {
        let name = ticket.split_once(':').and_then(|(name, _)| name.bytes().next());
        name.map_or(Caller::SERVER, |name| Caller(name.into()))
    }
    fn work(call: &Call) -> usize {
        if let Call::ReadMuch(_) = call { READING_WORK_MAX / 2 } else { 1 }
    }
    fn admit(&self, call: &Call, is_stuck: bool) -> Result<Progress, Unavailable> {
        self.stuck.set(is_stuck);
        match call {
            Call::TurnedAway { on_arrival: true } => Err(Unavailable::Busy),
            _ => Ok(Progress::default()),
        }
    }
    fn note(&mut self, note: &'static str) {
        self.waiting.push(note);
    }
    fn give_up(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.waiting)
    }
    fn asker(note: &'static str) -> Option<&'static str> {
        Some(note)
    }
    fn serve<L: LogStore>(
        &mut self,
        turn: &mut TurnOf<'_, Self, L>,
        call: &Call,
        progress: &mut Progress,
        jobs: &mut Jobs<Self>,
    ) -> Result<Served<Vec<u8>>, Stopped> {
        if let Some(job) = progress.reading {
            progress.is_read = self.arrived.contains(&job);
        }
        let (number, pause): (u8, fn(JobId) -> Pause) = match call {
            Call::Write(number) => {
                assert_eq!(turn.room(1), Room::Available);
                turn.append(number).expect("room was asked for");
                return Ok(Served::Done(turn.state().0.clone()));
            }
            Call::Stop => return Err(Stopped::OnCommand),
            Call::ReadThenWrite(number) | Call::ReadMuch(number) => (*number, Pause::Fetch),
            Call::Look(number) => (*number, Pause::Aside),
            Call::TurnedAway { .. } => return Ok(Served::TurnedAway(Unavailable::Busy)),
            Call::Heavy => (0, Pause::Aside),
            Call::WriteOrWait => {
                let written = turn.append(&0);
                return Ok(if written.is_ok() { Served::Done(Vec::new()) } else { Served::Paused(Pause::Room) });
            }
        };
        if !progress.is_read {
            let job = *progress.reading.get_or_insert_with(|| jobs.start(number));
            return Ok(Served::Paused(pause(job)));
        }
        if let Call::ReadThenWrite(number) | Call::ReadMuch(number) = call {
            turn.append(number).expect("there is room");
        }
        Ok(Served::Done(turn.state().0.clone()))
    }
    fn prepare<L: LogStore>(
        &mut self,
        _: &TurnOf<'_, Self, L>,
        call: &Call,
        progress: &mut Progress,
        jobs: &mut Jobs<Self>,
    ) {
        if let Call::ReadThenWrite(number) | Call::ReadMuch(number) = call {
            self.prepared.push(*number);
            progress.reading = Some(jobs.start(*number));
        }
    }
    fn before<L: LogStore>(&mut self, _: &mut TurnOf<'_, Self, L>) -> Result<bool, Stopped> {
        Ok(std::mem::take(&mut self.works_before))
    }
    fn after<L: LogStore>(
        &mut self,
        _: &mut TurnOf<'_, Self, L>,
        out: &mut Unsolicited<Self>,
        _: &mut Jobs<Self>,
    ) -> Result<bool, Stopped> {
        if let Some(waiting) = self.stops_after.take() {
            out.push(waiting, Vec::new());
            return Err(Stopped::OnCommand);
        }
        Ok(std::mem::take(&mut self.works_after))
    }
    fn fetched(&mut self, job: JobId, _: u8) {
        self.arrived.push(job);
    }
    fn run<R: LogReader>(job: u8, _: &R) -> u8 {
        job
    }
}

type Tested = Shard<Reader, StepLog<FakeDisk>>;

fn open() -> Tested {
    let logs = StepLogs::new(FakeDisk::new(1), Path::new("data"), &[NOTES]);
    let Opened { log, .. } = logs.open(NOTES.log(7, 0), Cursor::START, SMALL).unwrap();
    Shard::new(ShardIndex(0), Notes::default(), Reader::default(), log).unwrap()
}

/// Steps shard and log until nothing is left to do but reads.
fn settle(shard: &mut Tested) {
    while shard.step(NOW) | (shard.log_mut().step().unwrap() != Step::Idle) {}
}

fn jobs(shard: &mut Tested) -> Vec<(JobId, u8)> {
    std::iter::from_fn(|| shard.take_job()).collect()
}

/// What was answered, with what the machine knew when it was.
fn answers(shard: &mut Tested) -> Vec<(&'static str, Option<Vec<u8>>)> {
    let released = std::iter::from_fn(|| shard.released());
    released.map(|(ticket, answer)| (ticket, answer.ok().map(Durable::into_inner))).collect()
}

#[test]
fn what_waits_for_a_read_is_never_overtaken_by_a_write_and_those_behind_are_prepared() {
    let mut shard = open();
    shard.call("first", Call::Write(1));
    shard.call("waits", Call::ReadThenWrite(2));
    shard.call("behind", Call::ReadThenWrite(3));
    shard.call("last", Call::Write(4));
    settle(&mut shard);
    assert_eq!(answers(&mut shard), [("first", Some(vec![1]))]);
    assert_eq!(shard.service().prepared, [3], "it reads while the one in front waits");
    let [(waits, 2), (behind, 3)] = jobs(&mut shard)[..] else { panic!("two reads are under way") };
    assert!(!shard.is_idle());

    // The reads come back in the other order; what is decided does not.
    shard.fetched(behind, 3);
    settle(&mut shard);
    assert_eq!(answers(&mut shard), []);
    shard.fetched(waits, 2);
    settle(&mut shard);
    let all = [("waits", Some(vec![1, 2])), ("behind", Some(vec![1, 2, 3])), ("last", Some(vec![1, 2, 3, 4]))];
    assert_eq!(answers(&mut shard), all);
    assert!(shard.is_idle() && shard.has_room());
    assert_eq!(jobs(&mut shard), [], "nothing was read twice");
}

#[test]
fn whoever_waits_for_a_read_keeps_its_own_order_and_nobody_else() {
    let mut shard = open();
    shard.call("a: waits", Call::ReadThenWrite(1));
    shard.call("a: behind", Call::Write(2));
    shard.call("b: other", Call::Write(3));
    settle(&mut shard);
    assert_eq!(answers(&mut shard), [("b: other", Some(vec![3]))]);
    shard.call("b: another", Call::Write(4));
    shard.call("a: last", Call::Write(5));
    settle(&mut shard);
    assert_eq!(answers(&mut shard), [("b: another", Some(vec![3, 4]))]);
    assert_eq!((shard.facts().inbox, shard.is_idle()), (3, false));
    let [(waits, 1)] = jobs(&mut shard)[..] else { panic!("one read is under way") };
    shard.fetched(waits, 1);
    settle(&mut shard);
    let all = [
        ("a: waits", Some(vec![3, 4, 1])),
        ("a: behind", Some(vec![3, 4, 1, 2])),
        ("a: last", Some(vec![3, 4, 1, 2, 5])),
    ];
    assert_eq!(answers(&mut shard), all);
    assert!(shard.is_idle() && shard.has_room());
}

/// Or else a caller with many batches of old ids would take the disk, and memory, for all of them.
#[test]
fn large_reads_of_a_caller_are_begun_one_ahead() {
    let mut shard = open();
    for (ticket, number) in [("a: 1", 1), ("a: 2", 2), ("a: 3", 3)] {
        shard.call(ticket, Call::ReadMuch(number));
    }
    settle(&mut shard);
    let [(first, 1), (second, 2)] = jobs(&mut shard)[..] else { panic!("two reads are under way") };
    shard.fetched(first, 1);
    settle(&mut shard);
    assert_eq!(answers(&mut shard), [("a: 1", Some(vec![1]))]);
    let [(third, 3)] = jobs(&mut shard)[..] else { panic!("the next one is read ahead") };
    shard.fetched(third, 3);
    shard.fetched(second, 2);
    settle(&mut shard);
    assert_eq!(answers(&mut shard), [("a: 2", Some(vec![1, 2])), ("a: 3", Some(vec![1, 2, 3]))]);
    assert!(shard.is_idle());
}

#[test]
fn nobody_has_a_turn_while_as_much_is_read_as_may_be() {
    let mut shard = open();
    for (ticket, number) in [("a: 1", 1), ("b: 2", 2)] {
        shard.call(ticket, Call::ReadMuch(number));
    }
    settle(&mut shard);
    for (ticket, number) in [("c: 3", 3), ("c: 4", 4), ("a: 5", 5), ("d: 6", 6)] {
        shard.call(ticket, Call::ReadThenWrite(number));
    }
    settle(&mut shard);
    let [(one, 1), (two, 2)] = jobs(&mut shard)[..] else { panic!("two reads are under way") };
    assert_eq!((answers(&mut shard), shard.facts().inbox), (vec![], 6));
    shard.fetched(two, 2);
    settle(&mut shard);
    assert_eq!(answers(&mut shard), [("b: 2", Some(vec![2]))]);
    let begun: Vec<_> = jobs(&mut shard).into_iter().collect();
    assert_eq!(begun.iter().map(|(_, number)| *number).collect::<HashSet<_>>(), HashSet::from([3, 4, 5, 6]));
    shard.fetched(one, 1);
    begun.into_iter().for_each(|(job, number)| shard.fetched(job, number));
    settle(&mut shard);
    assert_eq!(answers(&mut shard).len(), 5);
    assert!(shard.is_idle() && shard.has_room());
}

#[test]
fn a_read_lets_writes_pass_and_its_answer_waits_for_what_it_saw() {
    let mut shard = open();
    shard.call("look", Call::Look(1));
    shard.call("write", Call::Write(2));
    settle(&mut shard);
    assert_eq!(answers(&mut shard), [("write", Some(vec![2]))]);
    let [(look, 1)] = jobs(&mut shard)[..] else { panic!("one read is under way") };
    shard.call("another", Call::Write(3));
    shard.step(NOW);
    shard.fetched(look, 1);
    assert!(shard.has_news() && shard.step(NOW));
    assert_eq!(answers(&mut shard), [], "it has seen a record that is not durable");
    settle(&mut shard);
    assert_eq!(answers(&mut shard), [("another", Some(vec![2, 3])), ("look", Some(vec![2, 3]))]);
    assert!(shard.is_idle());
}

#[test]
fn a_shard_that_stops_tells_all_that_wait_wherever_they_wait() {
    let mut shard = open();
    shard.call("aside", Call::Look(1));
    shard.call("undurable", Call::Write(2));
    shard.call("a: held", Call::ReadThenWrite(5));
    shard.note("noted");
    shard.step(NOW);
    shard.call("stops", Call::Stop);
    shard.call("behind", Call::Write(3));
    assert!(shard.step(NOW));
    assert!(matches!(shard.failure().map(|stop| &**stop), Some(Stopped::OnCommand)));
    shard.call("late", Call::Write(4));
    shard.note("noted late");
    let all = ["undurable", "aside", "stops", "behind", "a: held", "noted", "late", "noted late"];
    assert_eq!(answers(&mut shard), Vec::from(all.map(|ticket| (ticket, None))));
    // Reads that come back find no waiting call.
    let [(aside, 1), (held, 5)] = jobs(&mut shard)[..] else { panic!("two reads are under way") };
    shard.fetched(aside, 1);
    shard.fetched(held, 5);
    assert!(shard.is_idle() && !shard.step(NOW) && !shard.has_news());
}

#[test]
fn who_was_answered_in_the_step_that_failed_is_told_of_the_failure() {
    let mut shard = open();
    shard.service.stops_after = Some("waited");
    settle(&mut shard);
    assert!(shard.failure().is_some());
    assert_eq!(answers(&mut shard), [("waited", None)]);
}

#[test]
fn calls_put_aside_count_against_the_room() {
    let mut shard = open();
    for _ in 0..Reader::CALLS_WAITING_MAX {
        assert!(shard.has_room());
        shard.call("look", Call::Look(1));
    }
    settle(&mut shard);
    assert!(!shard.has_room() && answers(&mut shard).is_empty());
    assert_eq!((shard.facts().inbox, shard.facts().jobs), (8, 8));
    for (job, number) in jobs(&mut shard) {
        shard.fetched(job, number);
    }
    settle(&mut shard);
    assert_eq!(answers(&mut shard).len(), 8);
    assert!(shard.has_room());
    assert_eq!((shard.facts().inbox, shard.facts().jobs), (0, 0));
}

#[test]
fn a_job_waits_for_few_of_those_that_may_wait_and_those_are_done_in_turn_by_key() {
    let mut jobs: Jobs<Reader> = Jobs::default();
    for _ in 0..8 {
        jobs.start_later(1, 1);
    }
    jobs.start_later(2, 2);
    let (first, one) = jobs.take().expect("it waits");
    let (_, two) = jobs.take().expect("it waits");
    assert_eq!((one, two), (1, 2), "another key comes before more of the same");
    assert!(jobs.take().is_none(), "no more of them at once");
    jobs.start(3);
    assert_eq!(jobs.take().map(|(_, job)| job), Some(3), "it waits for those that are out only");
    jobs.note_return(first);
    // A rush of others does not keep them from being done.
    for _ in 0..1_000 {
        jobs.start(4);
    }
    let before = std::iter::from_fn(|| jobs.take()).position(|(_, job)| job == 1).expect("it is done");
    assert!(before <= FIRST_JOBS_BEFORE_LATER, "{before}");
}

#[test]
fn a_young_record_is_found_in_memory_wherever_it_is() {
    let mut shard = open();
    shard.call("write", Call::Write(1));
    shard.step(NOW);
    // The log's first group begins at 0, with a header of 120 bytes.
    let first = Position(120);
    assert_eq!(shard.core.turn(NOW).peek(first), Some(&[1][..]), "in flight");
    settle(&mut shard);
    assert_eq!(shard.core.turn(NOW).peek(first), None, "this log keeps nothing that is durable");
}

#[test]
fn a_step_says_whether_anything_was_done() {
    let mut shard = open();
    assert!(!shard.step(NOW) && !shard.has_news(), "nothing is asked of it");
    shard.service_mut().works_after = true;
    assert!(shard.step(NOW), "its service did something");
    shard.service_mut().works_before = true;
    assert!(shard.step(NOW), "before the calls, too");
    for number in 1..=9 {
        shard.call("write", Call::Write(number));
        assert!(shard.step(NOW), "it was decided");
    }
    assert!(shard.facts().groups < 9, "the log was busy, so that not every step submitted a group");
    assert_eq!((shard.appended(), shard.durable()), (Sequence(9), Sequence(0)));
    settle(&mut shard);
    assert_eq!((shard.appended(), shard.durable()), (Sequence(9), Sequence(9)));
    assert!(!shard.step(NOW) && !shard.has_news());
}

#[test]
fn who_is_turned_away_is_told_and_counted_wherever_that_happens() {
    let mut shard = open();
    shard.call("on arrival", Call::TurnedAway { on_arrival: true });
    assert!(!shard.is_idle(), "it is still to be told");
    assert_eq!((shard.facts().waiting, shard.facts().unavailable), (1, 0));
    shard.call("served", Call::TurnedAway { on_arrival: false });
    settle(&mut shard);
    assert_eq!(shard.facts().waiting, 2);
    assert_eq!(answers(&mut shard), [("on arrival", None), ("served", None)]);
    assert_eq!((shard.facts().waiting, shard.facts().unavailable), (0, 2));
    assert!(shard.is_idle());

    shard.call("undurable", Call::Write(1));
    shard.step(NOW);
    shard.call("on arrival", Call::TurnedAway { on_arrival: true });
    assert_eq!(shard.facts().waiting, 2);
    shard.call("stops", Call::Stop);
    shard.step(NOW);
    assert!(!shard.is_idle());
    assert_eq!(shard.facts().waiting, 3, "one turned away and two abandoned");
    assert_eq!(shard.released().map(|(ticket, _)| ticket), Some("on arrival"));
    assert!(!shard.is_idle(), "two are still to be told");
    assert_eq!(answers(&mut shard), [("undurable", None), ("stops", None)]);
    assert_eq!((shard.facts().waiting, shard.facts().unavailable), (0, 5));
    assert!(shard.is_idle());
}

#[test]
fn bytes_that_wait_count_against_the_room_until_they_are_answered() {
    let mut shard = open();
    shard.call("heavy", Call::Heavy);
    assert!(!shard.has_room(), "as much as may wait");
    settle(&mut shard);
    assert!(!shard.has_room(), "it waits for its read");
    let [(job, number)] = jobs(&mut shard)[..] else { panic!("one read is under way") };
    shard.fetched(job, number);
    assert!(!shard.has_room());
    assert_eq!(shard.facts().inbox, 1, "its findings are there and it is not served");
    settle(&mut shard);
    assert!(shard.has_room());
    assert_eq!(answers(&mut shard), [("heavy", Some(vec![]))]);
}

#[test]
fn a_shard_knows_its_index() {
    let logs = StepLogs::new(FakeDisk::new(1), Path::new("data"), &[NOTES]);
    let Opened { log, .. } = logs.open(NOTES.log(7, 3), Cursor::START, SMALL).unwrap();
    let shard: Tested = Shard::new(ShardIndex(3), Notes::default(), Reader::default(), log).unwrap();
    assert_eq!(shard.index(), ShardIndex(3));
}

#[test]
fn a_shard_is_stuck_when_its_disk_is_full_and_a_group_waits_for_room() {
    let disk = FakeDisk::new(1);
    let logs = StepLogs::new(disk.clone(), Path::new("data"), &[NOTES]);
    let Opened { log, .. } = logs.open(NOTES.log(7, 0), Cursor::START, SMALL).unwrap();
    let mut shard: Tested = Shard::new(ShardIndex(0), Notes::default(), Reader::default(), log).unwrap();
    let told = |shard: &mut Tested| {
        shard.call("write", Call::WriteOrWait);
        shard.service().stuck.get()
    };
    assert!(!told(&mut shard));
    // Its group fills while the log is busy: that ends by itself.
    for _ in 0..20 {
        shard.step(NOW);
        assert!(!told(&mut shard));
    }
    settle(&mut shard);
    disk.set_capacity(disk.used_bytes());
    let stuck_after = (0..1_000).find(|_| {
        let stuck = told(&mut shard);
        settle(&mut shard);
        stuck
    });
    assert!(
        stuck_after.is_some_and(|calls| calls > 1),
        "the room that was claimed before is used first: {stuck_after:?}"
    );
    disk.set_capacity(u64::MAX);
    settle(&mut shard);
    assert!(!told(&mut shard));
    settle(&mut shard);
    assert!(answers(&mut shard).iter().all(|(_, answer)| answer.is_some()), "all that waited was written");
    assert!(shard.is_idle());
}
