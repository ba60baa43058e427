//! A shard over a log that the test steps and a disk that fails when told to.

mod compaction;
mod crash;

use std::path::Path;
use std::sync::Arc;

use tidegate_disk::{Disk, DiskFile, FakeDisk};
use tidegate_journal::step::Step;
use tidegate_journal::{Cursor, JournalError, LogId, LogStore, Logs, Position, Sequence, StepLog, StepLogs};
use tidegate_machines::topic::{Message, MessageMeta, Receiver, Slot};
use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};
use tidegate_shard::{
    Compaction, Findings, NothingDerived, OpenError, OpenShard, Pressure, ReplayReport, Snapshots, compact,
    forget_covered,
};

use super::*;

const LOG: LogId = TOPICS.log(7, 2);
const SHARD: ShardIndex = ShardIndex(2);
const SHARDS: u16 = 3;
const SMALL: Options = Options { allocation_step_bytes: 8 * 1024, ..Options::small(16 * 1024) };
const NOW: TimeMs = TimeMs(1_700_000_000_000);

/// What tests know a command by.
type Number = usize;
type Tested = TopicShard<StepLog<FakeDisk>, Number>;
/// How it answers.
type Answered = (Number, Result<Durable<DecidedOf<TopicCommands<Number>>>, Unavailable>);

fn data() -> &'static Path {
    Path::new("data")
}

fn limits() -> InboxLimits {
    InboxLimits::default()
}

/// Retains a message of `bytes` bytes on one of a few topics.
fn retain(number: Number, bytes: usize) -> Command {
    Command::Retain { message: message(number, bytes), owner: None }
}

fn message(number: Number, bytes: usize) -> Arc<Message> {
    let meta = MessageMeta { qos: 1, retain: true, expires_at: None };
    Arc::new(Message::new(&format!("topic/{}", number % 50), &[], &vec![number as u8; bytes], meta))
}

/// The command that becomes record `number + 1`: sessions, messages for the first of them, retained ones.
fn nth(number: Number, bytes: usize) -> Command {
    match number % 7 {
        0 => Command::OpenSession {
            client_id: format!("client-{number}").into(),
            owner: None,
            expiry_s: 3600,
            will: None,
        },
        1..3 => {
            let receivers = [Receiver { slot: Slot(0), qos: 1, retain: false, subscription_ids: [7].into() }].into();
            Command::Publish { message: message(number, bytes), receivers, origin: None, unheeded: [].into() }
        }
        _ => retain(number, bytes),
    }
}

fn logs(disk: &FakeDisk) -> StepLogs<FakeDisk> {
    StepLogs::new(disk.clone(), data(), &[TOPICS])
}

fn snapshots_on(disk: &FakeDisk) -> Snapshots<TopicsFamily, FakeDisk> {
    Snapshots::new(disk.clone(), data(), LOG)
}

/// Opens what is on `disk`, as a node does at start.
fn open(disk: &FakeDisk) -> Result<(Tested, ReplayReport), String> {
    open_with(disk, SMALL)
}

fn open_with(disk: &FakeDisk, options: Options) -> Result<(Tested, ReplayReport), String> {
    let open = OpenShard::open(&logs(disk), snapshots_on(disk), options).map_err(|error| error.to_string())?;
    let back = open.replay(SHARDS, &mut NothingDerived, |_| {}).map_err(|error| error.to_string())?;
    let report = back.report.clone();
    Ok((open_shard(back, limits()).map_err(|error: JournalError| error.to_string())?, report))
}

fn new() -> (FakeDisk, Tested) {
    let disk = FakeDisk::new(1);
    let (shard, _) = open(&disk).unwrap();
    (disk, shard)
}

/// Steps shard and log until nothing is left to do.
fn settle(shard: &mut Tested) {
    while shard.step(NOW) | (shard.log_mut().step().unwrap() != Step::Idle) {}
}

fn all_released(shard: &mut Tested) -> Vec<Answered> {
    std::iter::from_fn(|| shard.released()).collect()
}

fn numbers(released: &[Answered]) -> Vec<Number> {
    released.iter().map(|(number, _)| *number).collect()
}

/// Two states are equal exactly when these bytes are.
fn bytes_of(state: &Topics) -> Vec<u8> {
    let mut bytes = Vec::new();
    state.write_snapshot(&mut |part| bytes.extend_from_slice(part));
    bytes
}

/// The state that these commands give when each becomes a record.
fn model(commands: &[Command]) -> Topics {
    let mut state = <Topics as Machine>::new(SHARD, SHARDS);
    for (command, sequence) in commands.iter().zip(1..) {
        let Decision::Append { event, .. } = Machine::decide(&state, command, &limits(), NOW) else {
            panic!("{command:?} is refused");
        };
        let at = Place { position: RecordPosition(sequence), sequence: RecordSequence(sequence) };
        Machine::apply(&mut state, &event, at);
    }
    state
}

#[test]
fn answers_leave_in_order_and_only_when_their_records_are_durable() {
    let (_, mut shard) = new();
    for number in 0..3 {
        shard.call(number, retain(number, 40));
    }
    assert!(shard.step(NOW));
    assert_eq!((shard.appended(), shard.durable()), (Sequence(3), Sequence(0)));
    assert!(shard.released().is_none());
    while shard.log_mut().step().unwrap() != Step::Wrote {}
    shard.step(NOW);
    assert!(shard.released().is_none(), "written is not durable");
    assert!(!shard.has_news() && !shard.is_idle());
    assert_eq!(shard.log_mut().step().unwrap(), Step::Synced);
    assert!(shard.has_news() && shard.step(NOW));
    let released = all_released(&mut shard);
    assert_eq!(numbers(&released), [0, 1, 2]);
    for (number, answer) in released {
        match answer.unwrap().into_inner() {
            Decided::Done { sequence, .. } => assert_eq!(sequence.0, number as u64 + 1),
            other => panic!("{other:?}"),
        }
    }
    assert!(shard.is_idle() && !shard.step(NOW));
}

#[test]
fn what_does_not_fit_a_group_goes_into_the_next_and_what_fits_none_is_refused() {
    let (_, mut shard) = new();
    for number in 0..30 {
        shard.call(number, retain(number, if number == 3 { 5000 } else { 1500 }));
    }
    settle(&mut shard);
    let released = all_released(&mut shard);
    assert_eq!(numbers(&released), (0..30).collect::<Vec<_>>());
    for (number, answer) in released {
        let decided = answer.unwrap().into_inner();
        assert_eq!(matches!(decided, Decided::TooLarge), number == 3, "{number}: {decided:?}");
    }
    let facts = shard.facts();
    assert_eq!((facts.records, shard.service().unrecorded()), (29, 1));
    assert!(facts.groups >= 10, "two of these fit a group: {facts:?}");
}

#[test]
fn what_waits_undecided_is_bounded_by_whoever_asks_for_room() {
    let (_, mut shard) = new();
    let mut number = 0;
    while shard.has_room() {
        shard.call(number, retain(0, 100_000));
        number += 1;
    }
    assert!((100..200).contains(&number), "{number}");
    settle(&mut shard);
    assert!(shard.has_room());
    assert_eq!(all_released(&mut shard).len(), number);
    while shard.has_room() {
        shard.call(0, retain(6, 0));
    }
    assert_eq!(shard.facts().inbox, COMMANDS_WAITING_MAX as u64);
}

#[test]
fn a_full_disk_turns_away_what_is_new_in_order_and_service_resumes() {
    let (disk, mut shard) = new();
    disk.set_capacity(disk.used_bytes());
    let mut number = 0;
    let refused_at = loop {
        shard.call(number, retain(number, 1000));
        settle(&mut shard);
        let released = all_released(&mut shard);
        assert_eq!(numbers(&released), [number], "told at once");
        number += 1;
        match &released[0].1 {
            Ok(_) => assert!(number < 100),
            Err(Unavailable::DiskFull) => break number,
            Err(other) => panic!("{other:?}"),
        }
    };
    // What appends nothing is served, also then.
    shard.call(1000, never());
    settle(&mut shard);
    let released = all_released(&mut shard);
    assert!(
        matches!(&released[..], [(1000, Ok(answer))] if matches!(answer.get(), Decided::Answered(Err(_)))),
        "{released:?}"
    );
    assert_eq!(shard.facts().unavailable, 1);

    disk.set_capacity(u64::MAX);
    while shard.log_mut().step().unwrap() != Step::Idle {}
    shard.call(refused_at, retain(refused_at, 10));
    settle(&mut shard);
    assert!(matches!(&all_released(&mut shard)[..], [(_, Ok(answer))] if matches!(answer.get(), Decided::Done { .. })));
}

#[test]
fn a_failed_log_tells_all_that_wait_and_keeps_what_was_durable() {
    let (disk, mut shard) = new();
    shard.call(0, retain(0, 40));
    settle(&mut shard);
    // One is durable and not fetched yet, one is in a group whose sync fails, one comes before that is known, one
    // after.
    shard.call(1, retain(1, 40));
    shard.step(NOW);
    while shard.log_mut().step().unwrap() != Step::Wrote {}
    disk.fail_next_sync();
    assert!(shard.log_mut().step().is_err());
    shard.call(2, retain(2, 40));
    assert!(shard.has_news() && shard.step(NOW));
    assert!(matches!(shard.failure().map(|failure| &**failure), Some(JournalError::SyncFailed { .. })));
    shard.call(3, retain(3, 40));
    assert!(!shard.step(NOW) && !shard.is_idle());
    let released = all_released(&mut shard);
    assert_eq!(numbers(&released), [0, 1, 2, 3]);
    assert!(released[0].1.is_ok());
    assert!(released[1..].iter().all(|(_, answer)| *answer.as_ref().unwrap_err() == Unavailable::ShardFailed));
    assert!(shard.is_idle());
}

/// A command that every state refuses.
fn never() -> Command {
    Command::DelayedSent { id: 1 << 40 }
}
