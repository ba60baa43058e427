//! What can be seen of the queues of a shard.

use super::command::{Bounds, Message};
use super::event::{Event, Sent};
use super::key::MessageKey;
use super::limits::PLACE_BITS;
use super::message_table::{MessageState, NEVER, NO_GROUP};
use super::settings::Settings;
use super::state::{Counts, Queue, Queues, Totals};
use crate::{RecordPosition, TimeMs};

/// A queue as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueView {
    /// Its name.
    pub name: Box<str>,
    /// Its settings.
    pub settings: Settings,
    /// Where its messages are.
    pub counts: Counts,
    /// What it has done.
    pub totals: Totals,
    /// When the oldest message was taken that waits for a receiver.
    pub oldest: Option<TimeMs>,
    /// Messages in its dead letter queue; `None` if it has none.
    pub dead: Option<u64>,
}

/// A queue in figures.
#[derive(Clone, Copy, Debug)]
pub struct QueueFigures<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its settings.
    pub settings: &'a Settings,
    /// Where its messages are.
    pub counts: Counts,
    /// What it has done.
    pub totals: &'a Totals,
}

/// Whether a queue takes messages, and how many it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Where its messages are.
    pub counts: Counts,
    /// How many more it takes of other queues of its shard.
    pub room: u64,
    /// It hands out none.
    pub is_paused: bool,
}

/// A message as it is now, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageView {
    /// Its key.
    pub key: MessageKey,
    /// Its queue.
    pub queue: Box<str>,
    /// Where it is.
    pub state: MessageState,
    /// Of a scheduled message, when it is handed out; of a leased one, the end of the lease.
    pub until: Option<TimeMs>,
    /// When it is dropped.
    pub expires_at: Option<TimeMs>,
    /// Deliveries so far.
    pub attempts: u32,
    /// Its level.
    pub priority: u8,
    /// Its ordering key.
    pub ordering_key: Option<Box<str>>,
    /// Its bytes.
    pub bytes: u32,
    /// Where its body is.
    pub body: BodyPlace,
    /// The newest record about it.
    pub last: RecordPosition,
}

/// Where the body of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyPlace {
    /// The number of the message.
    pub number: u64,
    /// The record.
    pub record: RecordPosition,
    /// The how-manieth message of it.
    pub part: u16,
}

impl Queues {
    /// The queue of this name.
    pub fn view(&self, name: &str) -> Option<QueueView> {
        self.index(name).map(|index| self.view_of(self.queue(index)))
    }

    /// The queues whose names come after `after`, in order.
    pub fn views(&self, after: &str) -> impl Iterator<Item = QueueView> + '_ {
        let names = self.names.range::<str, _>((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
        names.map(|(_, index)| self.view_of(self.queue(*index)))
    }

    /// The settings of a queue.
    pub fn settings(&self, name: &str) -> Option<&Settings> {
        self.index(name).map(|index| &self.queue(index).settings)
    }

    fn view_of(&self, queue: &Queue) -> QueueView {
        let dead = queue.settings.dead_letter.as_deref().and_then(|name| self.index(name));
        QueueView {
            name: queue.name.clone(),
            settings: queue.settings.clone(),
            counts: queue.counts,
            totals: queue.totals,
            oldest: queue.ready.iter().filter_map(|level| Some(self.messages.of(level.first()?).sent_at)).min(),
            dead: dead.map(|dead| self.queue(dead).members.len()),
        }
    }

    /// Whether a queue takes messages of others.
    pub fn readiness(&self, name: &str, bounds: Bounds) -> Option<Readiness> {
        let queue = self.queue(self.index(name)?);
        let (room, _) = self.room_for_routed(queue, bounds);
        Some(Readiness { counts: queue.counts, room, is_paused: queue.settings.is_paused })
    }

    /// How many queues there are, and how many messages that are not gone.
    pub fn totals(&self) -> (u64, u64) {
        (self.names.len() as u64, self.live())
    }

    /// What each queue has and has done.
    pub fn each_queue(&self) -> impl Iterator<Item = QueueFigures<'_>> {
        self.queues.iter().flatten().map(|queue| QueueFigures {
            name: &queue.name,
            settings: &queue.settings,
            counts: queue.counts,
            totals: &queue.totals,
        })
    }

    /// The counts and totals of all queues together.
    pub fn all(&self) -> (Counts, Totals) {
        let (mut counts, mut totals) = (Counts::default(), Totals::default());
        for queue in self.queues.iter().flatten() {
            counts.waiting += queue.counts.waiting;
            counts.scheduled += queue.counts.scheduled;
            counts.leased += queue.counts.leased;
            let mut of_queue = queue.totals;
            totals.fields().into_iter().zip(of_queue.fields()).for_each(|(sum, one)| *sum += *one);
        }
        (counts, totals)
    }

    /// The message of this key, also for some time after it is gone.
    pub fn message(&self, key: MessageKey) -> Option<MessageView> {
        self.entry_of(key)?;
        Some(self.message_view(key.number()))
    }

    /// The key of the message of this id, while the id is remembered.
    pub fn key_of_id(&self, queue: &str, id: &str, now: TimeMs) -> Option<MessageKey> {
        self.queue(self.index(queue)?).ids.remembered(id, now)
    }

    pub(super) fn message_view(&self, number: u64) -> MessageView {
        let entry = self.messages.of(number);
        let queue = self.queue(entry.queue);
        let has_until = matches!(entry.state, MessageState::Scheduled | MessageState::Leased);
        MessageView {
            key: self.key_of(number, entry.sent_at),
            queue: queue.name.clone(),
            state: entry.state,
            until: has_until.then_some(entry.until),
            expires_at: (entry.expires_at != NEVER).then_some(entry.expires_at),
            attempts: entry.attempts,
            priority: entry.priority,
            ordering_key: self.ordering_key(number).map(Into::into),
            bytes: entry.bytes,
            body: BodyPlace { number, record: entry.body, part: entry.part },
            last: entry.last,
        }
    }

    /// Where the body of a message is that is not gone.
    pub fn body_place(&self, number: u64) -> Option<BodyPlace> {
        let entry = self.messages.get(number).filter(|entry| !entry.state.is_finished())?;
        Some(BodyPlace { number, record: entry.body, part: entry.part })
    }

    /// The ordering key that a message has in its queue. One that went to another queue has none there.
    pub fn ordering_key(&self, number: u64) -> Option<&str> {
        let entry = self.messages.get(number).filter(|entry| entry.group != NO_GROUP)?;
        Some(self.queue(entry.queue).groups.key(entry.group))
    }

    /// When a message is dropped that is not gone, if it is at all.
    pub fn expires_at(&self, number: u64) -> Option<TimeMs> {
        let entry = self.messages.get(number).filter(|entry| !entry.state.is_finished())?;
        (entry.expires_at != NEVER).then_some(entry.expires_at)
    }

    /// The key of a message that is not gone, by its number.
    pub fn key(&self, number: u64) -> Option<MessageKey> {
        let entry = self.messages.get(number).filter(|entry| !entry.state.is_finished())?;
        Some(self.key_of(number, entry.sent_at))
    }

    /// Bytes of a message that is there.
    pub fn bytes_of(&self, number: u64) -> u64 {
        u64::from(self.messages.of(number).bytes)
    }

    /// The messages of a queue that will be handed out next, if nothing changes: of the highest level, in order.
    pub fn coming(&self, queue: &str) -> impl Iterator<Item = BodyPlace> + '_ {
        let ready = self.index(queue).map(|index| self.queue(index).ready.iter().rev());
        let numbers = ready.into_iter().flatten().flat_map(|level| level.iter());
        numbers.filter_map(|number| self.body_place(number))
    }

    /// Whether something could be handed out from a queue, and if not because of its rate, when it can.
    pub fn offers(&self, queue: &str, now: TimeMs) -> Offer {
        let Some(index) = self.index(queue) else { return Offer::NoQueue };
        let queue = self.queue(index);
        match queue.allowed(now) {
            _ if queue.ready.iter().all(|level| level.is_empty()) => Offer::Nothing,
            0 if queue.settings.is_paused => Offer::Nothing,
            0 => Offer::From(queue.rate_allows_at()),
            _ => Offer::Now,
        }
    }

    /// The number of the newest message.
    pub fn newest_number(&self) -> u64 {
        self.next - 1
    }

    /// Messages that have their bodies in the oldest part of the log that has any.
    pub fn in_oldest_place(&self) -> Vec<BodyPlace> {
        let oldest = self.places.first_key_value();
        oldest
            .into_iter()
            .flat_map(|(_, numbers)| numbers.iter())
            .filter_map(|number| self.body_place(number))
            .collect()
    }

    /// The oldest record that has a body which is still needed; `None` if there is no body.
    pub fn oldest_body(&self) -> Option<RecordPosition> {
        let (_, numbers) = self.places.first_key_value()?;
        numbers.iter().map(|number| self.messages.of(number).body).min()
    }

    /// About where the oldest body is, and not behind it. Looks at no message.
    pub fn bodies_since(&self) -> Option<RecordPosition> {
        self.places.first_key_value().map(|(place, _)| RecordPosition(place << PLACE_BITS))
    }

    /// Bytes of all messages that are not gone.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }
}

/// Whether a queue has something to hand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It has.
    Now,
    /// It has, and its rate allows it from this time on.
    From(TimeMs),
    /// It has not, or is paused.
    Nothing,
    /// There is no such queue.
    NoQueue,
}

impl<'a> Event<'a> {
    /// The message that is the `part`th of a record, if the record has messages.
    pub fn part(&self, part: u16) -> Option<Sent<'a>> {
        match self {
            Event::Sent { messages, .. } => messages.get(usize::from(part)).copied(),
            Event::Fired { message, .. } if part == 0 => Some(*message),
            Event::Moved { messages, .. } => messages.get(usize::from(part)).map(|moved| moved.message),
            _ => None,
        }
    }
}

impl From<Sent<'_>> for Message {
    fn from(sent: Sent<'_>) -> Message {
        sent.to_message()
    }
}
