//! The state of the queues of a shard, and the steps that change it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tidegate_planted::{Bug, is_planted};

use super::event::QueueIndex;
use super::groups::Groups;
use super::ids::Ids;
use super::key::MessageKey;
use super::key_ids::ChunkName;
use super::limits::{FINISHED_MAX, PRIORITIES};
use super::message_table::{Entry, MessageState, MessageTable, NO_GROUP};
use super::number_set::NumberSet;
use super::owners::{OwnerIndex, Owners};
use super::places::place_of;
use super::settings::Settings;
use super::standing::Standing;
use crate::{RecordPosition, ShardIndex, TimeMs};

/// What a queue has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages taken.
    pub sent: u64,
    /// Deliveries.
    pub leased: u64,
    /// Messages done with.
    pub acknowledged: u64,
    /// Deliveries that were rejected.
    pub rejected: u64,
    /// Deliveries whose lease ended.
    pub lapsed: u64,
    /// Messages that went to the dead letter queue.
    pub dead: u64,
    /// Messages dropped because nobody acknowledged them in time.
    pub expired: u64,
    /// Messages that were purged or cancelled.
    pub removed: u64,
}

impl Totals {
    /// All of them, in the order of the snapshot.
    pub(super) fn fields(&mut self) -> [&mut u64; 8] {
        let Totals { sent, leased, acknowledged, rejected, lapsed, dead, expired, removed } = self;
        [sent, leased, acknowledged, rejected, lapsed, dead, expired, removed]
    }
}

/// Messages of a queue by where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ready to be handed out, or behind one of their ordering key.
    pub waiting: u64,
    /// Waiting for their time.
    pub scheduled: u64,
    /// Handed out.
    pub leased: u64,
}

/// One queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub name: Box<str>,
    pub settings: Settings,
    /// Whom its settings name as its owner.
    pub owner: Option<OwnerIndex>,
    /// All its messages that are not gone.
    pub members: NumberSet,
    /// Those that wait for a receiver, by priority.
    pub ready: [NumberSet; PRIORITIES],
    pub groups: Groups,
    pub counts: Counts,
    /// Deliveries by which it is chosen whose turn it is.
    pub picks: u64,
    /// When the next delivery would be due if the rate were used up, in microseconds.
    pub rate_due_us: u64,
    pub totals: Totals,
    pub ids: Ids,
    pub standing: BTreeMap<Box<str>, Arc<Standing>>,
}

impl Queue {
    pub fn new(name: &str, settings: Settings) -> Queue {
        Queue {
            name: name.into(),
            settings,
            owner: None,
            members: NumberSet::default(),
            ready: Default::default(),
            groups: Groups::default(),
            counts: Counts::default(),
            picks: 0,
            rate_due_us: 0,
            totals: Totals::default(),
            ids: Ids::default(),
            standing: BTreeMap::new(),
        }
    }

    fn count_of(&mut self, state: MessageState) -> &mut u64 {
        match state {
            MessageState::Scheduled => &mut self.counts.scheduled,
            MessageState::Ready | MessageState::Held => &mut self.counts.waiting,
            MessageState::Leased => &mut self.counts.leased,
            _ => unreachable!("what is gone is not counted"),
        }
    }
}

/// Which node took messages, and after which restart, from some number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Started {
    pub node: u16,
    pub restart: u16,
}

/// The queues of one shard.
#[derive(Debug)]
pub struct Queues {
    pub(super) shard: ShardIndex,
    pub(super) sequence: u64,
    pub(super) time: TimeMs,
    /// The number of the next message.
    pub(super) next: u64,
    /// By the first number that was taken since, oldest first.
    pub(super) starts: BTreeMap<u64, Started>,
    pub(super) queues: Vec<Option<Queue>>,
    pub(super) names: BTreeMap<Box<str>, QueueIndex>,
    pub(super) owners: Owners,
    pub(super) messages: MessageTable,
    /// Which messages have their bodies in which part of the log.
    pub(super) places: BTreeMap<u64, NumberSet>,
    /// Bytes of messages that are not gone.
    pub(super) live_bytes: u64,
    /// Those that are gone and whose trails are kept, oldest first.
    pub(super) finished: VecDeque<(TimeMs, u64)>,
    /// How many ids are remembered, in the measure of their bound.
    pub(super) ids: u64,
    /// How many ordering keys messages have in their queues.
    pub(super) ordering_keys: u64,
    /// The ids of all queues that are texts, by when they are forgotten.
    pub(super) ids_due: BTreeSet<(TimeMs, QueueIndex, Arc<str>)>,
    /// Chunks of those that are keys, by when the first of each is.
    pub(super) keys_due: BTreeSet<(TimeMs, QueueIndex, ChunkName)>,
    /// The schedules of all queues that fire, by when they do next.
    pub(super) standing_due: BTreeSet<(TimeMs, QueueIndex, Box<str>)>,
}

impl Queues {
    pub(super) fn empty(shard: ShardIndex) -> Queues {
        Queues {
            shard,
            sequence: 0,
            time: TimeMs(0),
            next: 1,
            starts: BTreeMap::new(),
            queues: Vec::new(),
            names: BTreeMap::new(),
            owners: Owners::default(),
            messages: MessageTable::default(),
            places: BTreeMap::new(),
            live_bytes: 0,
            finished: VecDeque::new(),
            ids: 0,
            ordering_keys: 0,
            ids_due: BTreeSet::new(),
            keys_due: BTreeSet::new(),
            standing_due: BTreeSet::new(),
        }
    }

    pub(super) fn index(&self, name: &str) -> Option<QueueIndex> {
        self.names.get(name).copied()
    }

    pub(super) fn queue(&self, index: QueueIndex) -> &Queue {
        self.get_queue(index).expect("the queue is there")
    }

    pub(super) fn get_queue(&self, index: QueueIndex) -> Option<&Queue> {
        self.queues.get(index.0 as usize)?.as_ref()
    }

    pub(super) fn queue_mut(&mut self, index: QueueIndex) -> &mut Queue {
        self.queues[index.0 as usize].as_mut().expect("the queue is there")
    }

    /// Messages that are not gone.
    pub(super) fn live(&self) -> u64 {
        self.messages.len() - self.finished.len() as u64
    }

    /// Where the dead letters of a queue go, if that queue is there.
    pub(super) fn dead_letter_of(&self, index: QueueIndex) -> Option<QueueIndex> {
        self.queue(index).settings.dead_letter.as_deref().and_then(|name| self.index(name))
    }

    /// The number of this node, since it was started last.
    pub(super) fn node(&self) -> u16 {
        self.starts.last_key_value().map_or(0, |(_, started)| started.node)
    }

    /// The key of a message that was taken at `at`.
    pub(super) fn key_of(&self, number: u64, at: TimeMs) -> MessageKey {
        // Most were taken since the newest one.
        let newest = self.starts.last_key_value().filter(|(first, _)| **first <= number);
        let started = newest.or_else(|| self.starts.range(..=number).next_back());
        let Started { node, restart } = started.map_or(Started { node: 0, restart: 0 }, |(_, started)| *started);
        MessageKey::new(at, node, self.shard, restart, number)
    }

    /// The message of a key, gone or not.
    pub(super) fn entry_of(&self, key: MessageKey) -> Option<Entry> {
        let entry = self.messages.get(key.number())?;
        (self.key_of(key.number(), entry.sent_at) == key).then_some(entry)
    }

    /// Whether a message waits for no other one of its ordering key.
    fn is_first(&self, number: u64, entry: &Entry) -> bool {
        entry.group == NO_GROUP
            || is_planted(Bug::OrderingKeyOvertaken)
            || self.queue(entry.queue).groups.is_first(entry.group, number)
    }

    /// Adds a message to what is kept by its state.
    pub(super) fn enter(&mut self, number: u64, entry: &Entry) {
        let queue = self.queue_mut(entry.queue);
        *queue.count_of(entry.state) += 1;
        if entry.state == MessageState::Ready {
            queue.ready[usize::from(entry.priority)].insert(number);
        }
    }

    /// Takes a message out of what is kept by its state.
    fn leave(&mut self, number: u64, entry: &Entry) {
        let queue = self.queue_mut(entry.queue);
        *queue.count_of(entry.state) -= 1;
        if entry.state == MessageState::Ready {
            queue.ready[usize::from(entry.priority)].remove(number);
        }
    }

    /// Changes a message that is not gone and does not go, and what is kept by its state.
    pub(super) fn alter(&mut self, number: u64, change: impl FnOnce(&mut Entry)) {
        let (before, after) = self.messages.change(number, change);
        self.leave(number, &before);
        self.enter(number, &after);
    }

    /// Gives a message another state, until some time.
    pub(super) fn put(&mut self, number: u64, state: MessageState, until: TimeMs) {
        self.alter(number, |entry| (entry.state, entry.until) = (state, until));
    }

    /// Lets a message wait for a receiver, or for those before it.
    pub(super) fn put_waiting(&mut self, number: u64) {
        let entry = self.messages.of(number);
        let state = if self.is_first(number, &entry) { MessageState::Ready } else { MessageState::Held };
        self.put(number, state, TimeMs(0));
    }

    /// Lets a message wait until `at`, or for a receiver if that is over.
    pub(super) fn put_back(&mut self, number: u64, visible_at: TimeMs, at: TimeMs) {
        match visible_at > at {
            true => self.put(number, MessageState::Scheduled, visible_at),
            false => self.put_waiting(number),
        }
    }

    /// Takes a message out of its queue: out of what is kept by its state, and of its group, whose next one may then
    /// be handed out. Returns what it was.
    fn leave_queue(&mut self, number: u64) -> Entry {
        let entry = self.messages.of(number);
        self.leave(number, &entry);
        let Entry { queue, group, .. } = entry;
        self.queue_mut(queue).members.remove(number);
        let next = match group {
            NO_GROUP => None,
            _ => self.change_groups(queue, |groups| groups.remove(group, number)),
        };
        self.change_owned(queue, |owned| owned.messages -= 1);
        if group != NO_GROUP {
            self.messages.change(number, |entry| entry.group = NO_GROUP);
        }
        if let Some(next) = next.filter(|next| self.messages.of(*next).state == MessageState::Held) {
            self.put(next, MessageState::Ready, TimeMs(0));
        }
        entry
    }

    /// Puts a message into another queue, where it has no ordering key, and is handed out at once. It expires as that
    /// queue says, or at `expires_at`, if that is earlier.
    pub(super) fn change_queue(&mut self, number: u64, to: QueueIndex, expires_at: TimeMs, at: TimeMs) {
        self.leave_queue(number);
        let queue = self.queue_mut(to);
        queue.members.insert(number);
        let expires_at = queue.settings.expiry_ms.map_or(expires_at, |ms| later(at, ms).min(expires_at));
        let (_, entry) = self.messages.change(number, |entry| {
            (entry.queue, entry.state, entry.tries) = (to, MessageState::Ready, 0);
            (entry.until, entry.expires_at) = (TimeMs(0), expires_at);
        });
        self.change_owned(to, |owned| owned.messages += 1);
        self.enter(number, &entry);
    }

    /// Changes the groups of a queue, and counts them.
    pub(super) fn change_groups<R>(&mut self, index: QueueIndex, change: impl FnOnce(&mut Groups) -> R) -> R {
        let groups = &mut self.queue_mut(index).groups;
        let before = groups.count();
        let changed = change(groups);
        let after = groups.count();
        if before != after {
            self.ordering_keys = self.ordering_keys - before + after;
            self.change_owned(index, |owned| owned.ordering_keys = owned.ordering_keys - before + after);
        }
        changed
    }

    /// The ordering key of a message, if it has one in its queue.
    pub(super) fn ordering_key_of(&self, entry: &Entry) -> Option<&str> {
        (entry.group != NO_GROUP).then(|| self.queue(entry.queue).groups.key(entry.group))
    }

    /// Puts a message into another queue, where it has the ordering key that it had, and waits as if it had been sent
    /// there.
    pub(super) fn send_on(&mut self, number: u64, to: QueueIndex, at: TimeMs) {
        let entry = self.messages.of(number);
        let key: Option<Box<str>> = self.ordering_key_of(&entry).map(Into::into);
        self.change_queue(number, to, entry.expires_at, at);
        if let Some(key) = key {
            let before = self.queue(to).groups.first_of(&key);
            let (group, is_first) = self.change_groups(to, |groups| groups.add(&key, number));
            self.messages.change(number, |entry| entry.group = group);
            // One that came later and goes behind it now.
            let behind = before.filter(|_| is_first).filter(|it| self.messages.of(*it).state == MessageState::Ready);
            behind.inspect(|behind| self.put_waiting(*behind));
        }
        let delay_ms = self.queue(to).settings.delay_ms;
        self.put_back(number, later(at, delay_ms), at);
    }

    /// Removes a message. What became of it is remembered, unless that is `None`.
    pub(super) fn finish(&mut self, number: u64, how: Option<MessageState>, at: TimeMs) {
        let entry = self.leave_queue(number);
        self.leave_place(number, entry.body);
        self.live_bytes -= u64::from(entry.bytes);
        match how.filter(|_| self.queue(entry.queue).settings.trail_ms > 0) {
            None => drop(self.messages.remove(number)),
            Some(how) => {
                assert!(how.is_finished(), "a message that is gone is in one of some states");
                self.messages.change(number, |entry| (entry.state, entry.until) = (how, TimeMs(0)));
                self.finished.push_back((at, number));
            }
        }
    }

    /// Forgets what became of messages that were gone long ago, or longer than many others.
    pub(super) fn forget_finished(&mut self, at: TimeMs) {
        while let Some((finished_at, number)) = self.finished.front().copied() {
            let trail_ms = self.queue(self.messages.of(number).queue).settings.trail_ms;
            if self.finished.len() <= FINISHED_MAX && later(finished_at, trail_ms) > at {
                return;
            }
            self.finished.pop_front();
            self.messages.remove(number);
        }
    }

    pub(super) fn enter_place(&mut self, number: u64, body: RecordPosition) {
        self.places.entry(place_of(body)).or_default().insert(number);
    }

    pub(super) fn leave_place(&mut self, number: u64, body: RecordPosition) {
        let place = place_of(body);
        let numbers = self.places.get_mut(&place).expect("every body has its place");
        numbers.remove(number);
        if numbers.is_empty() {
            self.places.remove(&place);
        }
    }
}

/// So many milliseconds behind a time; never behind the last one.
pub(super) fn later(at: TimeMs, ms: u64) -> TimeMs {
    TimeMs(at.0.saturating_add(ms)).min(TimeMs::MAX)
}
