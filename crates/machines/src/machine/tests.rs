//! Checks the promises of every machine. A machine's tests decide, append and replay through this module.

use std::fmt::Debug;

use proptest::sample::Index;

use super::{Decision, Machine, Place};
use crate::{RecordPosition, RecordSequence, TimeMs};

/// Before the first record.
const NOWHERE: Place = Place { position: RecordPosition::NONE, sequence: RecordSequence(0) };

/// Where the nth record stands, counted from zero: its position increases, is not dense, and never zero.
pub fn place(nth: usize) -> Place {
    Place { position: RecordPosition(1_000 + 70 * nth as u64), sequence: RecordSequence(nth as u64 + 1) }
}

/// Which record stands there.
pub fn nth(position: RecordPosition) -> usize {
    ((position.0 - 1_000) / 70) as usize
}

/// Decides, twice to see that it is the same, and appends.
pub fn ask<'a, M>(
    machine: &mut M,
    records: &mut Vec<Vec<u8>>,
    command: &M::Command<'a>,
    with: M::With<'a>,
    now: TimeMs,
) -> Decision<M::Event<'a>, M::Outcome>
where
    M: Machine,
    M::Outcome: Debug + PartialEq,
    for<'e> M::Event<'e>: Debug + PartialEq,
{
    let decision = machine.decide(command, with, now);
    assert_eq!(machine.decide(command, with, now), decision, "decide is a function");
    if let Decision::Append { event, .. } = &decision {
        append(machine, records, event);
    }
    decision
}

/// Writes an event, reads it again, and applies it as the next one.
pub fn append<M>(machine: &mut M, records: &mut Vec<Vec<u8>>, event: &M::Event<'_>)
where
    M: Machine,
    for<'e> M::Event<'e>: Debug,
{
    let mut record = vec![0xee; 3];
    M::encode(event, &mut record);
    assert_eq!(record.drain(..3).as_slice(), [0xee; 3], "bytes are appended");
    let decoded = M::decode(&record).expect("it was encoded just now");
    assert_eq!(format!("{decoded:?}"), format!("{event:?}"));
    let mut again = Vec::new();
    M::encode(&decoded, &mut again);
    drop(decoded);
    assert_eq!(again, record, "an event has one form");
    machine.apply(event, place(records.len()));
    records.push(record);
}

/// What is said by the panic that `f` must come to.
pub fn words_of_panic(f: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).expect_err("nothing was found");
    match panic.downcast::<String>() {
        Ok(words) => *words,
        Err(panic) => panic.downcast_ref::<&str>().expect("panics speak in words").to_string(),
    }
}

/// The fold of these records, checked as records from outside are, from the nth on.
pub fn fold<M: Machine>(mut machine: M, from: usize, records: &[Vec<u8>]) -> M {
    for (nth, record) in records.iter().enumerate().skip(from) {
        let event = M::decode(record).expect("it was encoded");
        let stale = nth.checked_sub(1).map_or(NOWHERE, place);
        assert!(machine.apply_checked(&event, stale).is_err(), "record {nth} is not taken where the one before it is");
        machine.apply_checked(&event, place(nth)).expect("it was applied");
    }
    machine.assert_sound();
    machine
}

/// The state as bytes.
pub fn snapshot<M: Machine>(machine: &M) -> Vec<u8> {
    let mut bytes = Vec::new();
    machine.write_snapshot(&mut |part| bytes.extend_from_slice(part));
    bytes
}

/// The state that these bytes are.
pub fn restore<M: Machine>(bytes: &[u8]) -> M {
    let machine = M::read_snapshot(bytes).expect("a machine wrote it");
    machine.assert_sound();
    machine
}

/// Reads bytes that may be no snapshot at all: an error, or a sound state with this one form.
pub fn read_forged<M: Machine>(bytes: &[u8]) -> Option<M> {
    let machine = M::read_snapshot(bytes).ok()?;
    machine.assert_sound();
    assert_eq!(snapshot(&machine), bytes, "one form only");
    Some(machine)
}

/// Reads a snapshot with some bytes changed.
pub fn read_changed<M: Machine>(bytes: &[u8], changes: &[(Index, u8)]) {
    let mut bytes = bytes.to_vec();
    for (at, to) in changes {
        let at = at.index(bytes.len());
        bytes[at] = *to;
    }
    read_forged::<M>(&bytes);
}

/// Whether the live state, its snapshot, the fold of all records, and the fold of the later ones on a snapshot of the
/// earlier ones are one state; and whether a machine that refuses a record stays what it was.
pub fn check<M: Machine>(live: &M, new: impl Fn() -> M, records: &[Vec<u8>]) {
    live.assert_sound();
    let bytes = snapshot(live);
    let restored: M = restore(&bytes);
    assert_eq!(snapshot(&restored), bytes, "a snapshot comes back");

    let half = records.len() / 2;
    let resumed: M = restore(&snapshot(&fold(new(), 0, &records[..half])));
    let mut folded = fold(resumed, half, records);
    assert_eq!(snapshot(&folded), bytes, "a replay is the live state");
    for machine in [&restored, &folded] {
        assert_eq!(machine.next_due(), live.next_due());
    }
    if let Some(last) = records.last() {
        let event = M::decode(last).expect("it was encoded");
        assert!(folded.apply_checked(&event, place(records.len() - 1)).is_err(), "no record is taken twice");
        assert_eq!(snapshot(&folded), bytes, "what is refused leaves nothing");
    }
}
