//! The topic shard as a [`Machine`](crate::Machine).

use super::apply::Mismatch;
use super::codec::EventError;
use super::command::{Command, InboxLimits, Refusal};
use super::event::Event;
use super::snapshot::SnapshotError;
use super::state::Topics;
use crate::{Decision, Machine, Place, ShardIndex, TimeMs};

/// Of a [`Place`], topics keep the sequence: it tells sessions of one client id, and entries that are not durable,
/// apart.
impl Machine for Topics {
    /// Owned, because it may wait for room in a group.
    type Command<'a> = Command;
    /// The bounds of every inbox.
    type With<'a> = &'a InboxLimits;
    type Event<'a> = Event;
    type Outcome = Result<(), Refusal>;
    type Mismatch = Mismatch;
    type EventError = EventError;
    type SnapshotError = SnapshotError;

    fn new(shard: ShardIndex, shards: u16) -> Topics {
        assert!(shard.0 < shards, "shard {shard} of {shards}");
        Topics::new(shard)
    }

    #[inline]
    fn decide<'a>(
        &self,
        command: &Self::Command<'a>,
        limits: Self::With<'a>,
        now: TimeMs,
    ) -> Decision<Self::Event<'a>, Result<(), Refusal>> {
        match self.event_of(command, limits, now) {
            Ok(event) => Decision::Append { event, outcome: Ok(()) },
            Err(refusal) => Decision::Answer(Err(refusal)),
        }
    }

    #[inline]
    fn apply(&mut self, event: &Event, at: Place) {
        self.fold(event, at.sequence.0);
    }

    fn apply_checked(&mut self, event: &Event, at: Place) -> Result<(), Mismatch> {
        self.check(event, at.sequence.0)?;
        self.fold(event, at.sequence.0);
        Ok(())
    }

    #[inline]
    fn encode(event: &Event, into: &mut Vec<u8>) {
        event.encode(into);
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Result<Event, EventError> {
        Event::decode(bytes)
    }

    fn decided_at(event: &Event) -> Option<TimeMs> {
        match event {
            Event::SessionOpened { at, .. } | Event::SessionAttached { at, .. } => Some(*at).filter(|at| at.0 > 0),
            Event::SessionDetached { at, .. } | Event::Published { at, .. } => Some(*at),
            // That of a delayed message is when it is to be sent.
            _ => None,
        }
    }

    fn time(&self) -> TimeMs {
        self.time
    }

    fn newest_known(&self) -> TimeMs {
        // A snapshot of an earlier version says no time.
        self.sessions().filter_map(|(_, session)| session.detached_at()).fold(self.time, TimeMs::max)
    }

    fn ends(&self, each: &mut dyn FnMut(TimeMs)) {
        self.sessions().filter_map(|(_, session)| session.ends_at()).for_each(each);
    }

    fn over_at(&self, time: TimeMs, each: &mut dyn FnMut(&'static str, u64)) {
        self.count_over_at(time)
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .for_each(|(kind, count)| each(kind, count));
    }

    fn next_due(&self) -> Option<TimeMs> {
        Topics::next_due(self)
    }

    fn write_snapshot(&self, part: &mut dyn FnMut(&[u8])) {
        Topics::write_snapshot(self, part);
    }

    fn write_older_snapshot(&self, part: &mut dyn FnMut(&[u8])) -> bool {
        self.write_snapshot_without_time(part);
        true
    }

    fn read_snapshot(body: &[u8]) -> Result<Topics, SnapshotError> {
        Topics::decode_snapshot(body)
    }

    fn assert_sound(&self) {
        self.assert_all_sound();
    }
}
