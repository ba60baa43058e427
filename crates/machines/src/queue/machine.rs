//! The queues of a shard as a [`Machine`](crate::Machine).

use super::apply::Mismatch;
use super::codec::EventError;
use super::command::{Bounds, Command, Outcome};
use super::event::Event;
use super::message_table::NEVER;
use super::snapshot::SnapshotError;
use super::state::Queues;
use crate::{Decision, Machine, Place, RecordPosition, ShardIndex, TimeMs};

impl Machine for Queues {
    type Command<'a> = Command<'a>;
    type With<'a> = Bounds;
    type Event<'a> = Event<'a>;
    type Outcome = Outcome;
    type Mismatch = Mismatch;
    type EventError = EventError;
    type SnapshotError = SnapshotError;

    fn new(shard: ShardIndex, shards: u16) -> Queues {
        assert!(shard.0 < shards && shards <= 256, "shard {shard} of {shards}");
        Queues::empty(shard)
    }

    fn decide<'a>(&self, command: &Command<'a>, bounds: Bounds, now: TimeMs) -> Decision<Event<'a>, Outcome>
    where
        'a: 'a,
    {
        self.decide_command(command, bounds, now).unwrap_or_else(|refusal| Decision::Answer(Outcome::Refused(refusal)))
    }

    fn apply_checked(&mut self, event: &Event<'_>, at: Place) -> Result<(), Mismatch> {
        self.check(event, at)?;
        self.fold(event, at);
        Ok(())
    }

    fn encode(event: &Event<'_>, into: &mut Vec<u8>) {
        event.encode(into);
    }

    fn decode(bytes: &[u8]) -> Result<Event<'_>, EventError> {
        Event::decode(bytes)
    }

    fn decided_at(event: &Event<'_>) -> Option<TimeMs> {
        Some(event.at())
    }

    fn time(&self) -> TimeMs {
        self.time
    }

    fn ends(&self, each: &mut dyn FnMut(TimeMs)) {
        let messages = self.messages.iter().map(|(_, entry)| entry.ends_at()).filter(|at| *at != NEVER);
        messages.chain(self.firings()).for_each(each);
    }

    fn over_at(&self, time: TimeMs, each: &mut dyn FnMut(&'static str, u64)) {
        let (mut expired, mut due) = (0, 0);
        for (_, entry) in self.messages.iter_waking(time).filter(|(_, entry)| entry.ends_at() <= time) {
            *if entry.expires_at <= time { &mut expired } else { &mut due } += 1;
        }
        let firing = self.firings().take_while(|at| *at <= time).count() as u64;
        let kinds = [
            ("messages of queues that expire", expired),
            ("delayed messages of queues that fall due", due),
            ("schedules of queues that fire", firing),
        ];
        kinds.into_iter().filter(|(_, count)| *count > 0).for_each(|(kind, count)| each(kind, count));
    }

    fn next_due(&self) -> Option<TimeMs> {
        self.messages.next_wake()
    }

    fn keeps_since(&self) -> Option<RecordPosition> {
        self.oldest_body()
    }

    fn write_snapshot(&self, part: &mut dyn FnMut(&[u8])) {
        self.write(part);
    }

    fn read_snapshot(body: &[u8]) -> Result<Queues, SnapshotError> {
        Queues::read(body)
    }

    fn assert_sound(&self) {
        self.assert_all_sound();
    }
}
