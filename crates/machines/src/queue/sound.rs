//! Whether the parts of the state fit each other.

use std::sync::Arc;

use super::event::QueueIndex;
use super::message_table::NO_GROUP;
use super::number_set::NumberSet;
use super::state::{Counts, Queues};
use crate::TimeMs;

impl Queues {
    pub(super) fn assert_all_sound(&self) {
        let (mut timers, mut live, mut bytes, mut ids) = (0, 0, 0, 0);
        let mut counts = vec![Counts::default(); self.queues.len()];
        for (number, entry) in self.messages.iter() {
            assert!(number < self.next, "message {number} was taken");
            if entry.state.is_finished() {
                continue;
            }
            (live, bytes) = (live + 1, bytes + u64::from(entry.bytes));
            if let Some(at) = entry.wake_at() {
                timers += 1;
                assert!(self.timers.contains(&(at, number)), "message {number} wakes at {at:?}");
            }
            let queue = self.queue(entry.queue);
            assert!(queue.members.contains(number), "message {number} is among those of its queue");
            let is_ready = queue.ready[usize::from(entry.priority)].contains(number);
            assert!(is_ready == (entry.state == super::MessageState::Ready), "message {number} is ready, or is not");
            let is_first = entry.group == NO_GROUP || queue.groups.is_first(entry.group, number);
            match entry.state {
                super::MessageState::Ready | super::MessageState::Leased => assert!(is_first, "{number} goes first"),
                super::MessageState::Held => assert!(!is_first, "{number} is held by another one"),
                _ => {}
            }
            let place = self.places.get(&(entry.body.0 >> super::limits::PLACE_BITS));
            assert!(place.is_some_and(|numbers| numbers.contains(number)), "the body of {number} has its place");
            let counts = &mut counts[entry.queue.0 as usize];
            match entry.state {
                super::MessageState::Scheduled => counts.scheduled += 1,
                super::MessageState::Leased => counts.leased += 1,
                _ => counts.waiting += 1,
            }
        }
        assert!(timers == self.timers.len(), "there is a timer for what wakes, and no other");
        assert!(live == self.live() && bytes == self.live_bytes, "what is not gone was counted");
        assert!(self.places.values().map(NumberSet::len).sum::<u64>() == live, "every body has one place");
        for (queue, counts) in self.queues.iter().zip(counts) {
            let Some(queue) = queue else { continue };
            assert!(queue.counts == counts, "{}: {:?} is counted, {counts:?} is there", queue.name, queue.counts);
            let all = counts.waiting + counts.scheduled + counts.leased;
            assert!(queue.members.len() == all, "{}: its messages are there", queue.name);
            ids += queue.ids.len();
        }
        assert!(ids == self.ids_due.len(), "an id is forgotten once");
        let is_known = |(until, index, id): &(TimeMs, QueueIndex, Arc<str>)| {
            self.queue(*index).ids.get(id).is_some_and(|remembered| remembered.until == *until)
        };
        assert!(self.ids_due.iter().all(is_known), "what is forgotten is remembered");
        let in_order = self.finished.iter().zip(self.finished.iter().skip(1)).all(|(one, next)| one.0 <= next.0);
        assert!(in_order, "what is gone is listed in its order");
    }
}
