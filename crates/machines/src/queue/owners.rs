//! Owners: who made the queues and schedules of a shard, and what each has of its bounds.
//!
//! Promise: what an owner has is counted as it changes, so that each decision knows it without a walk over all queues.
//!
//! Why by owner: a bound of each queue is none for somebody who makes a second one.

use std::collections::BTreeMap;

use super::event::QueueIndex;
use super::state::Queues;

/// Which owner; a number that is used again when an owner has nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnerIndex(u32);

/// What one owner has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owned {
    /// Queues that it made.
    pub queues: u64,
    /// Schedules that it made, of whichever queues.
    pub schedules: u64,
    /// Messages of its queues that are not gone.
    pub messages: u64,
    /// Ids of its queues that are remembered, in the measure of their bound.
    pub ids: u64,
    /// Ordering keys of messages of its queues.
    pub ordering_keys: u64,
}

/// The owners of a shard.
#[derive(Debug, Default)]
pub(super) struct Owners {
    names: BTreeMap<Box<str>, OwnerIndex>,
    owned: Vec<Owned>,
    free: Vec<OwnerIndex>,
}

impl Owners {
    /// What somebody has; nothing if it owns nothing.
    pub fn of(&self, name: &str) -> Owned {
        self.names.get(name).map(|index| self.get(*index)).unwrap_or_default()
    }

    pub fn get(&self, index: OwnerIndex) -> Owned {
        self.owned[index.0 as usize]
    }

    /// All of them with what they have.
    pub fn iter(&self) -> impl Iterator<Item = (&str, OwnerIndex, Owned)> {
        self.names.iter().map(|(name, index)| (&**name, *index, self.get(*index)))
    }

    /// Changes what somebody has. Who has nothing any more is forgotten.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Owned)) -> OwnerIndex {
        let index = self.names.get(name).copied().unwrap_or_else(|| self.add(name));
        let owned = &mut self.owned[index.0 as usize];
        change(owned);
        if owned.queues + owned.schedules == 0 {
            assert!(*owned == Owned::default(), "messages, ids and keys are of queues");
            self.names.remove(name);
            self.free.push(index);
        }
        index
    }

    fn add(&mut self, name: &str) -> OwnerIndex {
        let index = self.free.pop().unwrap_or_else(|| {
            self.owned.push(Owned::default());
            OwnerIndex(self.owned.len() as u32 - 1)
        });
        self.names.insert(name.into(), index);
        index
    }
}

impl Queues {
    /// What somebody has of this shard.
    pub(super) fn owned_by(&self, owner: &str) -> Owned {
        self.owners.of(owner)
    }

    /// Whether anything here is owned by somebody.
    pub(super) fn has_owners(&self) -> bool {
        self.owners.iter().next().is_some()
    }

    /// Counts a queue, with what it has, for the owner that its settings name.
    pub(super) fn enter_owner(&mut self, index: QueueIndex) {
        let queue = self.queues[index.0 as usize].as_mut().expect("the queue is there");
        let Some(name) = &queue.settings.owner else { return };
        let (messages, ids, ordering_keys) = (queue.members.len(), queue.ids.count(), queue.groups.count());
        queue.owner = Some(self.owners.change(name, |owned| {
            owned.queues += 1;
            owned.messages += messages;
            owned.ids += ids;
            owned.ordering_keys += ordering_keys;
        }));
    }

    /// Counts a queue for nobody any more: it goes, or gets another owner.
    pub(super) fn leave_owner(&mut self, index: QueueIndex) {
        let queue = self.queues[index.0 as usize].as_mut().expect("the queue is there");
        let Some(name) = &queue.settings.owner else { return };
        let (messages, ids, ordering_keys) = (queue.members.len(), queue.ids.count(), queue.groups.count());
        queue.owner = None;
        self.owners.change(name, |owned| {
            owned.queues -= 1;
            owned.messages -= messages;
            owned.ids -= ids;
            owned.ordering_keys -= ordering_keys;
        });
    }

    /// Changes what the owner of a queue has, if there is one.
    pub(super) fn change_owned(&mut self, index: QueueIndex, change: impl FnOnce(&mut Owned)) {
        if let Some(owner) = self.queue(index).owner {
            change(&mut self.owners.owned[owner.0 as usize]);
        }
    }

    /// Counts a schedule for its owner.
    pub(super) fn enter_schedule(&mut self, owner: Option<&str>) {
        if let Some(owner) = owner {
            self.owners.change(owner, |owned| owned.schedules += 1);
        }
    }

    /// Counts a schedule for its owner no more.
    pub(super) fn leave_schedule(&mut self, owner: Option<&str>) {
        if let Some(owner) = owner {
            self.owners.change(owner, |owned| owned.schedules -= 1);
        }
    }

    pub(super) fn assert_owners_sound(&self) {
        let mut counted: BTreeMap<&str, Owned> = BTreeMap::new();
        for queue in self.queues.iter().flatten() {
            let owner =
                queue.owner.map(|index| self.owners.iter().find(|(_, of, _)| *of == index).map(|(name, ..)| name));
            assert!(owner.flatten() == queue.settings.owner.as_deref(), "{}: its owner is known", queue.name);
            if let Some(name) = &queue.settings.owner {
                let owned = counted.entry(name).or_default();
                owned.queues += 1;
                owned.messages += queue.members.len();
                owned.ids += queue.ids.count();
                owned.ordering_keys += queue.groups.count();
            }
            for owner in queue.standing.values().filter_map(|standing| standing.settings.owner.as_deref()) {
                counted.entry(owner).or_default().schedules += 1;
            }
        }
        let known: BTreeMap<&str, Owned> = self.owners.iter().map(|(name, _, owned)| (name, owned)).collect();
        assert!(known == counted, "what owners have is counted: {known:?} is, {counted:?} is there");
        let places = self.owners.names.len() + self.owners.free.len();
        assert!(places == self.owners.owned.len(), "an owner has one place");
    }
}
