//! Whether the parts of the state fit each other.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::MessageState;
use super::event::QueueIndex;
use super::key_ids::ChunkName;
use super::limits::PRIORITIES;
use super::message_table::{NEVER, NO_GROUP};
use super::number_set::NumberSet;
use super::places::Places;
use super::state::{Counts, Queues};
use crate::TimeMs;

/// What follows from the messages of a queue.
#[derive(Default)]
struct Following {
    members: NumberSet,
    ready: [NumberSet; PRIORITIES],
    counts: Counts,
}

impl Queues {
    fn assert_standing_sound(&self) {
        let mut due = BTreeSet::new();
        for (index, queue) in self.queues.iter().enumerate() {
            for (name, standing) in queue.iter().flat_map(|queue| &queue.standing) {
                assert!(standing.settings.check(name).is_ok(), "schedule {name} may be");
                due.extend(standing.next.map(|next| (next, QueueIndex(index as u32), name.clone())));
            }
        }
        assert!(due == self.standing_due, "schedules are listed by their times");
    }

    pub(super) fn assert_all_sound(&self) {
        self.messages.assert_sound();
        let (mut live, mut bytes, mut ids, mut lasting) = (0, 0, 0, 0);
        let mut following: Vec<Following> = self.queues.iter().map(|_| Following::default()).collect();
        let mut places = Places::default();
        for (number, entry) in self.messages.iter() {
            assert!(number > 0 && number < self.next, "message {number} was taken");
            if entry.state.is_finished() {
                continue;
            }
            (live, bytes) = (live + 1, bytes + u64::from(entry.bytes));
            places.insert(number, entry.body);
            let groups = &self.queue(entry.queue).groups;
            let is_first = entry.group == NO_GROUP || groups.is_first(entry.group, number);
            let Following { members, ready, counts } = &mut following[entry.queue.0 as usize];
            members.insert(number);
            match entry.state {
                MessageState::Scheduled => counts.scheduled += 1,
                MessageState::Leased => {
                    assert!(is_first, "message {number} goes first");
                    counts.leased += 1;
                }
                MessageState::Held => {
                    assert!(!is_first, "message {number} is held by another one");
                    counts.waiting += 1;
                }
                _ => {
                    assert!(is_first, "message {number} goes first");
                    counts.waiting += 1;
                    ready[usize::from(entry.priority)].insert(number);
                }
            }
        }
        assert!(live == self.live() && bytes == self.live_bytes, "what is not gone was counted");
        assert!(places.into_sets() == self.places, "every body has one place");
        for (queue, following) in self.queues.iter().zip(following) {
            let Some(queue) = queue else { continue };
            let (counts, name) = (following.counts, &queue.name);
            assert!(queue.counts == counts, "{name}: {:?} is counted, {counts:?} is there", queue.counts);
            assert!(queue.members == following.members, "{name}: its messages are there");
            assert!(queue.ready == following.ready, "{name}: those that are ready are listed");
            ids += queue.ids.texts.len();
            queue.ids.keys.assert_sound();
            lasting += queue.ids.keys.names().filter(|(_, until)| *until != NEVER).count();
        }
        assert!(ids == self.ids_due.len(), "an id is forgotten once");
        let counted: u64 = self.queues.iter().flatten().map(|queue| queue.ids.count()).sum();
        assert!(counted == self.ids, "ids are counted");
        let counted: u64 = self.queues.iter().flatten().map(|queue| queue.groups.count()).sum();
        assert!(counted == self.ordering_keys, "ordering keys are counted");
        self.assert_standing_sound();
        self.assert_owners_sound();
        let is_known = |(until, index, id): &(TimeMs, QueueIndex, Arc<str>)| {
            self.queue(*index).ids.texts.get(id).is_some_and(|remembered| remembered.until == *until)
        };
        assert!(self.ids_due.iter().all(is_known), "what is forgotten is remembered");
        let is_there = |(due, index, name): &(TimeMs, QueueIndex, ChunkName)| {
            self.queue(*index).ids.keys.until(*name).is_some_and(|until| *due <= until)
        };
        assert!(
            self.keys_due.iter().all(is_there) && self.keys_due.len() >= lasting,
            "chunks of keys are forgotten once"
        );
        let in_order = self.finished.iter().zip(self.finished.iter().skip(1)).all(|(one, next)| one.0 <= next.0);
        assert!(in_order, "what is gone is listed in its order");
    }
}
