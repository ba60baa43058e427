//! What is to become of messages that change their queue, and of bodies that change their place in the log.

use std::collections::HashSet;
use std::sync::Arc;

use super::leases::{check_leases, held};
use super::{Decided, answer, append, argument};
use crate::TimeMs;
use crate::queue::command::{Bounds, Lease, LeaseRefusal, Limit, Message, Outcome, Refusal};
use crate::queue::event::{Event, Moved, QueueIndex, Touched};
use crate::queue::limits::{BATCH_MESSAGES_MAX, CONSUMER_BYTES_MAX};
use crate::queue::message_table::{Entry, MessageState};
use crate::queue::state::{Queue, Queues};

impl Queues {
    pub(super) fn route<'a>(
        &self,
        (from, to): (&str, &'a str),
        messages: &[(Lease, Arc<Message>)],
        by: &'a str,
        bounds: Bounds,
        at: TimeMs,
    ) -> Decided<'a> {
        let ((from, _), (target, queue)) = (self.find(from)?, self.find(to)?);
        argument(from != target, "messages are put into another queue than the one they are in")?;
        let leases: Vec<Lease> = messages.iter().map(|(lease, _)| *lease).collect();
        check_leases(&leases)?;
        argument(by.len() <= CONSUMER_BYTES_MAX, "a consumer's name has at most 64 bytes")?;
        let (room, (most, limit)) = self.room_for_routed(queue, bounds);
        let (mut left, mut keys_left) = (room, self.keys_for_routed(queue, bounds));
        let mut new_keys = HashSet::new();
        let (touched, outcome) = self.touched_by(from, &leases, |number, entry| {
            held(number, entry)?;
            let key = self.ordering_key_of(entry).filter(|key| queue.groups.first_of(key).is_none());
            let is_new = key.is_some_and(|key| !new_keys.contains(key));
            if left == 0 || is_new && keys_left == 0 || !self.may_join(target, number, entry) {
                return Err(LeaseRefusal::NotNow);
            }
            (left, keys_left) = (left - 1, keys_left - u64::from(is_new));
            new_keys.extend(key);
            Ok(true)
        });
        match touched.is_empty() {
            true if room == 0 => Err(Refusal::Full(limit, most)),
            true => answer(outcome),
            false => append(Event::Routed { at, from, to, by, messages: touched }, outcome),
        }
    }

    /// How many messages of other queues this one takes, and which bound says so. The shard has as many afterwards.
    pub(in crate::queue) fn room_for_routed(&self, queue: &Queue, bounds: Bounds) -> (u64, (u64, Limit)) {
        let of_settings = (queue.settings.messages_max.unwrap_or(u64::MAX), Limit::OfSettings);
        let (most, limit) = of_settings.min((bounds.messages_of_queue_max, Limit::MessagesOfQueue));
        (most.saturating_sub(queue.members.len()), (most, limit))
    }

    /// How many ordering keys of messages of other queues this one takes.
    pub(in crate::queue) fn keys_for_routed(&self, queue: &Queue, bounds: Bounds) -> u64 {
        bounds.ordering_keys_of_queue_max.saturating_sub(queue.groups.count())
    }

    /// Whether a message may be put into a queue under its ordering key. The order there is that of numbers, so not
    /// while a later message of the key is handed out: two would be at once.
    pub(in crate::queue) fn may_join(&self, target: QueueIndex, number: u64, entry: &Entry) -> bool {
        let Some(key) = self.ordering_key_of(entry) else { return true };
        let first = self.queue(target).groups.first_of(key);
        first.is_none_or(|first| first < number || self.messages.of(first).state != MessageState::Leased)
    }

    pub(super) fn redrive<'a>(&self, from: &str, name: &'a str, max: usize, at: TimeMs) -> Decided<'a> {
        let ((from, queue), (to, _)) = (self.find(from)?, self.find(name)?);
        argument(from != to, "messages are put into another queue than the one they are in")?;
        // One that waits for its time stays: it would be handed out before.
        let waits = |number: &u64| {
            let entry = self.messages.of(*number);
            matches!(entry.state, MessageState::Ready | MessageState::Held) && entry.expires_at > at
        };
        let mut members = queue.members.iter().filter(waits);
        let touched = |number| Touched { number, before: self.messages.of(number).last };
        let messages: Vec<Touched> = members.by_ref().take(max.min(BATCH_MESSAGES_MAX)).map(touched).collect();
        let outcome = Outcome::Some { count: messages.len() as u64, more: members.next().is_some() };
        if messages.is_empty() {
            return answer(outcome);
        }
        append(Event::Redriven { at, from, to, name: Some(name), messages }, outcome)
    }

    pub(super) fn move_bodies<'a>(&self, messages: &'a [(u64, Arc<Message>)], at: TimeMs) -> Decided<'a> {
        let moved = |(number, message): &'a (u64, Arc<Message>)| {
            let entry = self.messages.get(*number).filter(|entry| !entry.state.is_finished())?;
            let touched = Touched { number: *number, before: entry.last };
            (entry.bytes as usize == message.bytes()).then(|| Moved { touched, message: message.as_sent() })
        };
        let messages: Vec<Moved<'a>> = messages.iter().filter_map(moved).collect();
        if messages.is_empty() {
            return answer(Outcome::Done);
        }
        append(Event::Moved { at, messages }, Outcome::Done)
    }
}
