//! The state of a topic shard: sessions with their inboxes, origins, retained and delayed messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashTable;

use super::command::{KeptPlace, Origin, Slot, Will};
use super::message::Message;
use super::principal::Principal;
use crate::inboxes::{Bodies, ENTRY_BYTES, Entry, EntryState, Inbox};
use crate::pieces::Pieces;
use crate::weight::{allocation, in_tree};
use crate::{ShardIndex, TimeMs};

/// A session's expiry that never comes.
pub const NEVER_S: u32 = u32::MAX;

/// One subscription of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The filter, as the client wrote it.
    pub filter: Box<str>,
    /// Opaque here.
    pub options: u8,
    /// Number that the client gave it; zero for none.
    pub subscription_id: u32,
}

/// A will, and the record that brought it.
#[derive(Clone, Debug)]
pub(super) struct KeptWill {
    pub will: Will,
    /// Sequence of that record; of the one that opened the session, if a program brought it that named all wills of a
    /// session by that.
    pub record: u64,
}

/// A session that outlives its connection.
#[derive(Clone, Debug)]
pub struct Session {
    pub(super) client_id: Box<str>,
    pub(super) owner: Option<Principal>,
    pub(super) incarnation: u64,
    pub(super) expiry_s: u32,
    pub(super) detached_at: Option<TimeMs>,
    pub(super) will: Option<Box<KeptWill>>,
    pub(super) subscriptions: Vec<Subscription>,
    pub(super) inbox: Inbox,
}

impl Session {
    /// Client id.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Whose it is; `None` if no record says it.
    pub fn owner(&self) -> Option<&Principal> {
        self.owner.as_ref()
    }

    /// Which session of this client id: the sequence of the record that opened it.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Seconds that it is kept without a connection; [`NEVER_S`]: without limit.
    pub fn expiry_s(&self) -> u32 {
        self.expiry_s
    }

    /// Since when its client is gone; `None` while it is connected, and after a crash until a command says so.
    pub fn detached_at(&self) -> Option<TimeMs> {
        self.detached_at
    }

    /// What to publish when the client is gone.
    pub fn will(&self) -> Option<&Will> {
        self.will.as_ref().map(|kept| &kept.will)
    }

    /// What names its will: the sequence of the record that brought it. No other will of the shard has it, nor a
    /// delayed message.
    pub fn will_record(&self) -> Option<u64> {
        self.will.as_ref().map(|kept| kept.record)
    }

    /// Its subscriptions, in the order of their filters.
    pub fn subscriptions(&self) -> &[Subscription] {
        &self.subscriptions
    }

    /// Its subscription with this filter, if it has one.
    pub fn subscription_to(&self, filter: &str) -> Option<&Subscription> {
        self.subscription(filter).ok().map(|at| &self.subscriptions[at])
    }

    /// Where the subscription with this filter is, or would be.
    pub(super) fn subscription(&self, filter: &str) -> Result<usize, usize> {
        self.subscriptions.binary_search_by(|subscription| (*subscription.filter).cmp(filter))
    }

    /// When it ends, if its client does not reconnect.
    pub(super) fn ends_at(&self) -> Option<TimeMs> {
        let detached_at = self.detached_at.filter(|_| self.expiry_s != NEVER_S)?;
        Some(after(detached_at, self.expiry_s))
    }

    /// When its will is due.
    pub(super) fn will_at(&self) -> Option<TimeMs> {
        let due = after(self.detached_at?, self.will()?.delay_s);
        // The end of the session is an end of the delay, too.
        Some(self.ends_at().map_or(due, |end| end.min(due)))
    }
}

fn after(at: TimeMs, seconds: u32) -> TimeMs {
    TimeMs(at.0.saturating_add(u64::from(seconds) * 1000)).min(TimeMs::MAX)
}

/// A message that entries wait for.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub message: Arc<Message>,
    /// When its stay in inboxes is over; zero for never.
    pub drop_at: TimeMs,
}

/// A message that is kept for itself, not for a session.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The message.
    pub message: Arc<Message>,
    /// Whose it is; `None` if no record says it.
    pub owner: Option<Principal>,
}

/// What a body in a shard takes, besides its bytes: its place, the message around it, what its bytes are rounded up by.
const BODY_BYTES: u64 = Bodies::<Body>::PLACE_BYTES + Message::memory_bytes_of(0) + 8;

/// What one more message of so many bytes takes in an inbox, about, that has some.
pub const fn entry_bytes(body_bytes: usize) -> u64 {
    BODY_BYTES + (body_bytes + body_bytes / 8 + ENTRY_BYTES) as u64
}

impl Kept {
    /// Bytes of memory that a delayed message of this owner takes in its shard, with its timer. An owner's name counts
    /// each time: after a start each has its own.
    pub fn delayed_memory_bytes(message: &Message, owner: &Principal) -> u64 {
        let name = allocation(owner.as_str().len() + 2 * size_of::<usize>());
        let timer = in_tree(size_of::<(TimeMs, Timer)>());
        in_tree(size_of::<(u64, (TimeMs, Kept))>()) + timer + message.memory_bytes() + name
    }

    /// Bytes of memory that a retained message of this owner takes in its shard. An owner's name counts each time:
    /// after a start each has its own.
    pub fn memory_bytes(message: &Message, owner: &Principal) -> u64 {
        let name = allocation(owner.as_str().len() + 2 * size_of::<usize>());
        in_tree(size_of::<(Box<str>, Kept)>()) + allocation(message.topic().len()) + message.memory_bytes() + name
    }
}

/// What has a time. Ordered by it, then by what comes first at the same time: a will before the end of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Will(Slot),
    SessionEnd(Slot),
    Delayed(u64),
    Entry(Slot, u64),
}

/// The state of one topic shard.
#[derive(Debug)]
pub struct Topics {
    pub(super) shard: ShardIndex,
    /// Of the newest event applied.
    pub(super) sequence: u64,
    /// The latest time at which an event says that it was decided; zero if none said so.
    pub(super) time: TimeMs,
    pub(super) sessions: Pieces<Option<Session>>,
    /// Slots of ended sessions, the next to be used in front.
    pub(super) free: VecDeque<Slot>,
    /// Never iterated: its random seed, which keeps hostile ids from colliding, shows in no decision.
    pub(super) by_client_id: HashTable<Slot>,
    pub(super) hasher: foldhash::fast::RandomState,
    pub(super) bodies: Bodies<Body>,
    pub(super) origins: BTreeSet<Origin>,
    pub(super) retained: BTreeMap<Box<str>, Kept>,
    pub(super) retained_bytes: u64,
    pub(super) delayed: BTreeMap<u64, (TimeMs, Kept)>,
    /// Of subscriptions whose messages their source keeps, which few are: beside the sessions, which are millions.
    pub(super) places: BTreeMap<Slot, BTreeMap<Box<str>, KeptPlace>>,
    pub(super) timers: BTreeSet<(TimeMs, Timer)>,
    pub(super) counts: TopicFacts,
}

/// What a shard of topics holds, and what it has lost by its bounds since it was made or restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicFacts {
    /// Sessions.
    pub sessions: u64,
    /// Subscriptions of them.
    pub subscriptions: u64,
    /// Entries that wait in inboxes.
    pub inbox_messages: u64,
    /// Bodies that they wait for.
    pub bodies: u64,
    /// Bytes of these bodies.
    pub bodies_bytes: u64,
    /// Retained messages.
    pub retained: u64,
    /// Bytes of them.
    pub retained_bytes: u64,
    /// Delayed messages.
    pub delayed: u64,
    /// Origins remembered.
    pub origins: u64,
    /// Entries that made room for newer ones.
    pub evicted: u64,
    /// Messages that a full inbox did not take.
    pub dropped_full: u64,
    /// Entries that expired.
    pub dropped_expired: u64,
    /// Entries that waited for as long as an inbox allows.
    pub dropped_aged: u64,
}

/// An entry of an inbox with all that belongs to it.
#[derive(Clone, Copy, Debug)]
pub struct EntryView<'a> {
    number: u64,
    entry: &'a Entry,
    message: &'a Arc<Message>,
}

impl<'a> EntryView<'a> {
    /// Its number in its inbox.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The record that made it.
    pub fn sequence(&self) -> u64 {
        self.entry.sequence
    }

    /// The message.
    pub fn message(&self) -> &'a Arc<Message> {
        self.message
    }

    /// How surely it is delivered, 1 or 2.
    pub fn qos(&self) -> u8 {
        self.entry.qos
    }

    /// Whether it is shown as retained.
    pub fn retain(&self) -> bool {
        self.entry.retain
    }

    /// Whether its receiver has it and waits for the release of its id.
    pub fn is_received(&self) -> bool {
        self.entry.state == EntryState::Received
    }

    /// Numbers of the subscriptions that matched.
    pub fn subscription_ids(&self) -> &'a [u32] {
        self.entry.subscription_ids.as_ref().map_or(&[], |ids| ids)
    }
}

/// An inbox, looked at.
#[derive(Clone, Copy, Debug)]
pub struct InboxView<'a> {
    inbox: Option<&'a Inbox>,
    bodies: &'a Bodies<Body>,
}

impl<'a> InboxView<'a> {
    /// Number of the oldest entry; of the next one when none waits.
    pub fn front_number(&self) -> u64 {
        self.inbox.map_or(0, Inbox::front_number)
    }

    /// Number that the next entry gets.
    pub fn next_number(&self) -> u64 {
        self.inbox.map_or(0, Inbox::next_number)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.inbox.map_or(0, Inbox::len)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of what waits.
    pub fn bytes(&self) -> u64 {
        self.inbox.map_or(0, Inbox::bytes)
    }

    /// Bytes of memory that all that waits takes: entries, bodies, timers. A body counts in each inbox that it is in,
    /// because it may be the last.
    pub fn memory_bytes(&self) -> u64 {
        let timers = self.inbox.map_or(0, Inbox::expiring) as u64 * in_tree(size_of::<(TimeMs, Timer)>());
        let bodies = self.len() as u64 * BODY_BYTES + self.bytes() + self.bytes() / 8;
        self.inbox.map_or(0, Inbox::memory_bytes) + timers + bodies
    }

    /// The first entry from `number` on that waits.
    pub fn entry_from(&self, number: u64) -> Option<EntryView<'a>> {
        self.entries_from(number).next()
    }

    /// All entries from `number` on that wait, oldest first.
    pub fn entries_from(&self, number: u64) -> impl Iterator<Item = EntryView<'a>> + use<'a> {
        let bodies = self.bodies;
        let entries = self.inbox.into_iter().flat_map(move |inbox| inbox.entries_from(number));
        entries.map(move |(number, entry)| EntryView { number, entry, message: &bodies.get(entry.body).message })
    }
}

impl Topics {
    /// An empty state of this shard.
    pub fn new(shard: ShardIndex) -> Topics {
        Topics {
            shard,
            sequence: 0,
            time: TimeMs(0),
            sessions: Pieces::default(),
            free: VecDeque::new(),
            by_client_id: HashTable::new(),
            hasher: Default::default(),
            bodies: Bodies::default(),
            origins: BTreeSet::new(),
            retained: BTreeMap::new(),
            retained_bytes: 0,
            delayed: BTreeMap::new(),
            places: BTreeMap::new(),
            timers: BTreeSet::new(),
            counts: TopicFacts::default(),
        }
    }

    /// Sequence of the newest event applied; zero before the first.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Which shard.
    pub fn shard(&self) -> ShardIndex {
        self.shard
    }

    /// The session in a slot.
    pub fn session(&self, slot: Slot) -> Option<&Session> {
        self.sessions.get(slot.0)?.as_ref()
    }

    /// The session of a client id.
    pub fn find(&self, client_id: &str) -> Option<Slot> {
        let is_it = |slot: &Slot| self.session(*slot).is_some_and(|session| *session.client_id == *client_id);
        self.by_client_id.find(self.hash(client_id), is_it).copied()
    }

    /// All sessions.
    pub fn sessions(&self) -> impl Iterator<Item = (Slot, &Session)> {
        let slots = (0..).map(Slot).zip(self.sessions.iter());
        slots.filter_map(|(slot, session)| Some((slot, session.as_ref()?)))
    }

    /// The inbox of a session; empty if there is no session.
    pub fn inbox(&self, slot: Slot) -> InboxView<'_> {
        InboxView { inbox: self.session(slot).map(|session| &session.inbox), bodies: &self.bodies }
    }

    /// Whether any part of a message of this origin was taken, and not forgotten since.
    pub fn knows_origin(&self, origin: Origin) -> bool {
        self.origins.range(origin.parts()).next().is_some()
    }

    /// All retained messages, by topic.
    pub fn retained(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.retained.values().map(|kept| &kept.message)
    }

    /// The retained message of a topic, and whose it is.
    pub fn retained_on(&self, topic: &str) -> Option<&Kept> {
        self.retained.get(topic)
    }

    /// A delayed message.
    pub fn delayed(&self, id: u64) -> Option<&Arc<Message>> {
        self.delayed.get(&id).map(|(_, kept)| &kept.message)
    }

    /// A delayed message, and whose it is.
    pub fn delayed_kept(&self, id: u64) -> Option<&Kept> {
        self.delayed.get(&id).map(|(_, kept)| kept)
    }

    /// All retained messages, and whose they are.
    pub fn all_retained(&self) -> impl Iterator<Item = &Kept> {
        self.retained.values()
    }

    /// All delayed messages, and whose they are.
    pub fn all_delayed(&self) -> impl Iterator<Item = &Kept> {
        self.delayed.values().map(|(_, kept)| kept)
    }

    /// How far a subscription was read; `None` if nobody has said so.
    pub fn kept_place(&self, slot: Slot, filter: &str) -> Option<&KeptPlace> {
        self.places.get(&slot)?.get(filter)
    }

    /// Origins of wills and delayed messages that are known, once for each part: see [`Origin::of_record`].
    pub fn origins_of_records(&self) -> impl Iterator<Item = Origin> + '_ {
        self.origins.iter().filter(|origin| origin.is_of_record()).copied()
    }

    /// What it holds and has lost.
    pub fn facts(&self) -> TopicFacts {
        TopicFacts {
            bodies: self.bodies.len() as u64,
            bodies_bytes: self.bodies.bytes(),
            retained: self.retained.len() as u64,
            retained_bytes: self.retained_bytes,
            delayed: self.delayed.len() as u64,
            origins: self.origins.len() as u64,
            ..self.counts
        }
    }

    pub(super) fn hash(&self, client_id: &str) -> u64 {
        self.hasher.hash_one(client_id.as_bytes())
    }
}
