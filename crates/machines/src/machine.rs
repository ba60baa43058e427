//! The trait of all state machines of Tidegate: a fold of its own events, which a shard drives without knowing what
//! they mean.
//!
//! ```text
//!   Command ─▶ decide(&M, with, now) ─▶ Decision ┬ Append ─▶ encode ─▶ log ─▶ apply(&mut M, at) … outcome when durable
//!                                                └ Answer ─▶ outcome
//!   after a restart:  read_snapshot ─▶ M ─▶ decode, apply_checked, decode, apply_checked …
//! ```
//!
//! Promise: a machine is a value. Its next state follows only from its state and an event, its decisions only from its
//! state and their arguments: no clock, no randomness, no memory address. Two machines with the same state have the
//! same snapshot, byte for byte.
//!
//! Why a trait: shards, replay, snapshots and audits do the same for each machine. They are written once over `M:
//! Machine` and compiled for each, so that a decision costs no call through a table.
//!
//! Invariant: nothing here knows what a record looks like on a disk.

use std::error::Error;

use crate::{RecordPosition, RecordSequence, ShardIndex, Tie, TimeMs};

/// Where an event stands in its shard's log. Both grow from each event to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where its record lies: what events keep to point back at earlier ones.
    pub position: RecordPosition,
    /// Which record it is, counted without a gap: what is compared with how far the log is durable.
    pub sequence: RecordSequence,
}

/// The result of a command. Nothing has changed yet: [`Machine::apply`] does that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<E, O> {
    /// Append this event and apply it.
    Append {
        /// What happened.
        event: E,
        /// The answer, once the event is durable.
        outcome: O,
    },
    /// Nothing is appended. The answer may rest on events that are not durable yet: it must wait for all that were
    /// appended before.
    Answer(O),
}

/// A state machine of one shard: a fold of its own events. It follows from them alone, so that two with one history are
/// one state, and one snapshot.
pub trait Machine: Sized {
    /// What can be asked, borrowed from wherever the request's bytes lie.
    type Command<'a>;
    /// What a decision needs beside command and state: earlier events, limits, whatever was loaded for it.
    type With<'a>: Copy;
    /// What happened: one record of the log. Borrows from the command, from [`With`](Machine::With) or from the record,
    /// never from the machine, so that it can be applied to the machine that decided it.
    type Event<'a>;
    /// The outcome for the caller.
    type Outcome;
    /// How an event fails to follow from the state before it.
    type Mismatch: Error;
    /// Why bytes are not an event.
    type EventError: Error;
    /// Why bytes are not a snapshot.
    type SnapshotError: Error;

    /// The state before any event, of one of `shards` shards, a count fixed for the life of the data. Panics if `shard`
    /// is not among them.
    fn new(shard: ShardIndex, shards: u16) -> Self;

    /// The result of a command at the time `now`. Reads only: the same state and arguments give the same decision.
    ///
    /// A refusal is an outcome. Panics on what only a bug can ask.
    fn decide<'a>(
        &self,
        command: &Self::Command<'a>,
        with: Self::With<'a>,
        now: TimeMs,
    ) -> Decision<Self::Event<'a>, Self::Outcome>;

    /// Folds in an event that [`decide`](Machine::decide) made on this very state and that stands `at` this place of
    /// the log.
    ///
    /// Panics, and so stops the process, on an event or a place that does not follow from the state, as far as that can
    /// be checked cheaply: continuing would make a bug into permanently wrong state.
    fn apply(&mut self, event: &Self::Event<'_>, at: Place) {
        self.apply_checked(event, at).unwrap_or_else(|mismatch| panic!("a decided event: {mismatch}"));
    }

    /// Folds in an event that may be anything: of a replay, an audit, another machine. Refuses what does not follow
    /// from the state, and a place that is not above the newest one; the state is then unchanged.
    fn apply_checked(&mut self, event: &Self::Event<'_>, at: Place) -> Result<(), Self::Mismatch>;

    /// Starts to load the memory that folding in this event, soon but not next, will look at. Changes nothing; it may
    /// be any event.
    fn expect(&self, _event: &Self::Event<'_>) {}

    /// Appends the event's bytes to `into`. Each event has one form, which never changes.
    fn encode(event: &Self::Event<'_>, into: &mut Vec<u8>);

    /// Reads one event from exactly these bytes. Takes any bytes, and refuses all but what [`encode`](Machine::encode)
    /// makes.
    fn decode(bytes: &[u8]) -> Result<Self::Event<'_>, Self::EventError>;

    /// When an event was decided, if it says that. Within a log, times do not go back, except to that of an event that
    /// sets the time: see [`mended_from`](Machine::mended_from).
    fn decided_at(_event: &Self::Event<'_>) -> Option<TimeMs> {
        None
    }

    /// For an event that sets the time of its shard to when it was decided, because a clock had been wrong: the time of
    /// the newest event before it. `None` for all other events.
    fn mended_from(_event: &Self::Event<'_>) -> Option<TimeMs> {
        None
    }

    /// Tells `each` how an event of the log of `shard` is tied to the logs of other shards of its family. Without ties,
    /// copies of the logs may be cut independently of each other.
    fn ties(_event: &Self::Event<'_>, _shard: ShardIndex, _each: &mut dyn FnMut(Tie)) {}

    /// Time of the newest event, for machines whose events have times that do not go back. A shard whose owner's clock
    /// is behind it goes on from there.
    fn time(&self) -> TimeMs {
        TimeMs(0)
    }

    /// The latest time that the state remembers something to have been decided at; zero if it remembers none. Unlike
    /// [`time`](Machine::time), it may need a look at the whole state: it is asked once, at a start.
    fn newest_known(&self) -> TimeMs {
        self.time()
    }

    /// Tells `each` when something ends by the clock alone that was promised to last until then, for a start by a clock
    /// that may be wrong. In any order.
    fn ends(&self, _each: &mut dyn FnMut(TimeMs)) {}

    /// Tells `each` what is over by the clock alone when it is `time`: kinds of things, in the plural, and how many.
    /// Each kind once at most, and only if there are some. For messages to operators.
    fn over_at(&self, _time: TimeMs, _each: &mut dyn FnMut(&'static str, u64)) {}

    /// The oldest record that is read again although it is folded in: what is before it may be forgotten once a
    /// snapshot has the state. `None` if none is, as for machines whose state has all that their records said.
    fn keeps_since(&self) -> Option<RecordPosition> {
        None
    }

    /// When the machine next has something due, for which its owner must then send a command; `None` if there is no
    /// timer.
    fn next_due(&self) -> Option<TimeMs>;

    /// Hands the state's bytes to `part`, piece by piece. Two machines are in one state exactly when their bytes are
    /// the same.
    fn write_snapshot(&self, part: &mut dyn FnMut(&[u8]));

    /// Hands to `part` the bytes that a program wrote for this state which kept less of it, and returns true; or false
    /// if there was none. For the comparison with a snapshot of such a program.
    fn write_older_snapshot(&self, _part: &mut dyn FnMut(&[u8])) -> bool {
        false
    }

    /// Reads a state. Takes any bytes, and refuses all but what [`write_snapshot`](Machine::write_snapshot) makes of a
    /// state that keeps the machine's rules.
    fn read_snapshot(body: &[u8]) -> Result<Self, Self::SnapshotError>;

    /// Walks the whole state and panics, saying what disagrees, if its parts do not fit each other. Takes time in
    /// proportion to the state: for the end of a replay, for tests and for simulation.
    fn assert_sound(&self);
}

#[cfg(test)]
pub(crate) mod tests;
