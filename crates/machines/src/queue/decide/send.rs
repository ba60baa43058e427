//! What is to become of messages that are sent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tidegate_planted::{Bug, is_planted};

use super::{Decided, answer, append, argument};
use crate::queue::command::{Bounds, Limit, Message, Outcome, Receipt, Refusal, When};
use crate::queue::event::{Event, QueueIndex, Sent};
use crate::queue::ids::{is_message_id, is_plain, key_elsewhere, sender_id};
use crate::queue::key::{MessageKey, NUMBER_END};
use crate::queue::limits::{
    AHEAD_MS_MAX, BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, ID_BYTES_MAX, MESSAGE_BYTES_MAX, MESSAGE_OVERHEAD_BYTES,
    PRIORITIES,
};
use crate::queue::settings::Settings;
use crate::queue::state::{Queues, later};
use crate::queue::via::{Via, has_passed, is_via};
use crate::{IdSpace, TimeMs};

/// Why a message is not taken that has come back.
const HAS_COME_ROUND: &str = "this queue has it or has had it: it has come back to here. See where the links of the \
                              other nodes lead";

impl Queues {
    pub(super) fn send<'a>(
        &self,
        name: &'a str,
        messages: &'a [Arc<Message>],
        bounds: Bounds,
        at: TimeMs,
    ) -> Decided<'a> {
        let (index, queue) = self.find(name)?;
        argument(!messages.is_empty(), "a request has at least one message")?;
        let bytes: usize = messages.iter().map(|message| bytes_in_record(message, name)).sum();
        if messages.len() > BATCH_MESSAGES_MAX || bytes > BATCH_BYTES_MAX {
            return Err(Refusal::BatchTooLarge);
        }
        if self.next + messages.len() as u64 >= NUMBER_END {
            return Err(Refusal::Full(Limit::Numbers, NUMBER_END));
        }
        let mut sent = Vec::with_capacity(messages.len());
        let mut receipts = Vec::with_capacity(messages.len());
        let mut ids_here: HashMap<&str, MessageKey> = HashMap::new();
        for (place, message) in messages.iter().enumerate() {
            let invalid = |what| Refusal::MessageInvalid { index: place, what };
            check_message(message, bounds, at).map_err(invalid)?;
            if self.has_come_round((index, name), message) {
                return Err(invalid(HAS_COME_ROUND));
            }
            let remembers = queue.settings.id_window_ms != Some(0);
            let ids = || message.ids().filter(|_| remembers);
            if let Some(key) = ids().find_map(|id| queue.ids.remembered(id, at).or_else(|| ids_here.get(id).copied())) {
                receipts.push(Receipt { key, is_duplicate: true });
                continue;
            }
            let key = self.key_of(self.next + sent.len() as u64, at);
            ids_here.extend(ids().map(|id| (id, key)));
            let via = via_to(message).map(|before| Via { before, node: self.node(), queue: name });
            sent.push(Sent { via, ..sent_of(message, &queue.settings, bounds, at) });
            receipts.push(Receipt { key, is_duplicate: false });
        }
        if sent.is_empty() {
            return answer(Outcome::Sent(receipts));
        }
        self.check_limits(index, &sent, ids_here.len() as u64, bounds, at)?;
        append(Event::Sent { at, queue: index, first: self.next, messages: sent }, Outcome::Sent(receipts))
    }

    /// Whether a message has come back to a queue: to the one that gave it its key, as long as that is remembered, or
    /// to one that it has come through since. Taken, it would go round for ever. To say that it is here already would
    /// lose it, as it may be on its way out.
    fn has_come_round(&self, (index, name): (QueueIndex, &str), message: &Message) -> bool {
        let key = message.id.as_deref().and_then(key_elsewhere);
        let entry = key.and_then(|key| self.entry_of(key));
        let is_node = |node| node == self.node() || self.starts.values().any(|started| started.node == node);
        entry.is_some_and(|entry| entry.queue == index)
            || message.via.as_deref().is_some_and(|via| has_passed(via, name, is_node))
                && !is_planted(Bug::MessageGoesRound)
    }

    /// Whether a queue may have these messages, and so many ids more.
    pub(in crate::queue) fn check_limits(
        &self,
        index: QueueIndex,
        sent: &[Sent<'_>],
        ids: u64,
        bounds: Bounds,
        at: TimeMs,
    ) -> Result<(), Refusal> {
        let queue = self.queue(index);
        let of_owner = queue.owner.map(|owner| self.owners.get(owner)).unwrap_or_default();
        let if_owned = |most| if queue.owner.is_some() { most } else { u64::MAX };
        let (messages, in_queue) = (sent.len() as u64, queue.members.len());
        for (limit, before, most) in [
            (Limit::OfSettings, in_queue, queue.settings.messages_max.unwrap_or(u64::MAX)),
            (Limit::MessagesOfQueue, in_queue, bounds.messages_of_queue_max),
            (Limit::MessagesOfOwner, of_owner.messages, if_owned(bounds.messages_of_owner_max)),
            (Limit::Messages, self.live(), bounds.messages_max),
        ] {
            limit.check(before + messages, most)?;
        }
        let keyed = sent.iter().filter_map(|sent| sent.ordering_key);
        let mut keys = keyed.clone().count() as u64;
        let of_keys = [
            (Limit::OrderingKeysOfQueue, queue.groups.count(), bounds.ordering_keys_of_queue_max),
            (Limit::OrderingKeysOfOwner, of_owner.ordering_keys, if_owned(bounds.ordering_keys_of_owner_max)),
            (Limit::OrderingKeys, self.ordering_keys, bounds.ordering_keys_max),
        ];
        // Which of them are new is only looked for if it matters.
        if of_keys.iter().any(|(_, before, most)| before + keys > *most) {
            keys = keyed.filter(|key| queue.groups.first_of(key).is_none()).collect::<HashSet<_>>().len() as u64;
        }
        for (limit, before, most) in of_keys.into_iter().filter(|_| keys > 0) {
            limit.check(before + keys, most)?;
        }
        for (limit, before, most) in [
            (Limit::IdsOfQueue, queue.ids.count(), bounds.ids_of_queue_max),
            (Limit::IdsOfOwner, of_owner.ids, if_owned(bounds.ids_of_owner_max)),
            (Limit::Ids, self.ids(), bounds.ids_max),
        ] {
            if ids == 0 || before + ids <= most {
                continue;
            }
            // Those that this record forgets make room: they are only looked for if it is needed.
            let left = match (limit, queue.owner) {
                (Limit::IdsOfQueue, _) => self.ids_of_queue_left(index, at),
                (Limit::IdsOfOwner, Some(owner)) => self.ids_of_owner_left(owner, at),
                _ => self.ids_left(at),
            };
            limit.check(left + ids, most)?;
        }
        Ok(())
    }
}

/// Through which queues a message has come to one that takes it now, if links have brought it: what is not sent by its
/// first sender has the key of its first node, or says its way.
fn via_to(message: &Message) -> Option<&str> {
    let is_relayed = || message.id.as_deref().and_then(key_elsewhere).is_some();
    message.via.as_deref().or_else(|| is_relayed().then_some(""))
}

/// Bytes that a message takes in a record of this queue, at most.
fn bytes_in_record(message: &Message, queue: &str) -> usize {
    let of_queue = via_to(message).map_or(0, |before| Via { before, node: u16::MAX, queue }.bytes() - before.len());
    message.bytes() + of_queue + MESSAGE_OVERHEAD_BYTES
}

pub(in crate::queue) fn check_message(message: &Message, bounds: Bounds, at: TimeMs) -> Result<(), &'static str> {
    let rule = |holds: bool, what| if holds { Ok(()) } else { Err(what) };
    let id = message.id.as_deref();
    rule(id.is_none_or(is_message_id), "its id has 1 to 128 bytes without control characters")?;
    let ordering_key = message.ordering_key.as_deref();
    rule(
        ordering_key.is_none_or(|key| is_plain(key, ID_BYTES_MAX)),
        "its ordering key has 1 to 128 bytes without control characters",
    )?;
    rule(usize::from(message.priority) < PRIORITIES, "its priority is 0 to 9")?;
    let via = message.via.as_deref();
    rule(
        via.is_none_or(is_via),
        "its via is NODE/QUEUE for each queue that it has come through, with spaces between, and at most 1000 bytes",
    )?;
    let origin_id = message.origin_id.as_deref();
    rule(
        origin_id.is_none_or(|origin| is_message_id(origin) && id.and_then(key_elsewhere).is_some()),
        "its origin_id has 1 to 128 bytes without control characters, and goes with an id that is the key of another \
         node, which takes the right to relay",
    )?;
    // What a server puts before an id is none of its sender's, nor is a key that a link gives, or the way it has come.
    let of_servers = via.map_or(0, str::len)
        + origin_id.map_or(0, str::len)
        + id.map_or(0, |id| match key_elsewhere(id) {
            Some(_) => id.len(),
            None => id.len() - sender_id(id).len(),
        });
    rule(message.bytes() - of_servers <= MESSAGE_BYTES_MAX, "it has at most 262144 bytes, with its attributes")?;
    let latest = later(at, AHEAD_MS_MAX);
    let time = |when: Option<When>| when.map(|when| bounds.time_of(when, at));
    let (visible_at, expires_at) = (time(message.visible_at), time(message.expires_at));
    rule(visible_at.is_none_or(|time| time <= latest), "it is scheduled at most a hundred years ahead")?;
    rule(expires_at.is_none_or(|time| time <= latest), "it expires in at most a hundred years")?;
    rule(expires_at.is_none_or(|time| time > at), "it has expired already")
}

/// A message with what its queue says where its sender said nothing.
fn sent_of<'a>(message: &'a Message, settings: &Settings, bounds: Bounds, at: TimeMs) -> Sent<'a> {
    let time = |when: Option<When>| when.map(|when| bounds.time_of(when, at));
    let delayed = (settings.delay_ms > 0).then(|| later(at, settings.delay_ms));
    Sent {
        visible_at: time(message.visible_at)
            .or(delayed)
            .filter(|visible_at| *visible_at > at && !is_planted(Bug::DelayIgnored)),
        expires_at: time(message.expires_at).or_else(|| settings.expiry_ms.map(|ms| later(at, ms))),
        ..message.as_sent()
    }
}

impl Message {
    /// What its sender called it.
    pub fn sender_id(&self) -> Option<&str> {
        self.id.as_deref().map(sender_id)
    }

    /// What its first sender called it, if a walk has brought it: the name of the id space, and the id.
    pub fn origin(&self) -> Option<(&str, &str)> {
        self.origin_id.as_deref().map(IdSpace::split)
    }

    /// The ids under which it is taken once.
    fn ids(&self) -> impl Iterator<Item = &str> {
        [&self.id, &self.origin_id].into_iter().flatten().map(|id| &**id)
    }

    /// The name of the space of its id, if that is not the common one.
    pub fn id_space(&self) -> Option<&str> {
        self.id.as_deref().map(|id| IdSpace::split(id).0).filter(|space| !space.is_empty())
    }

    /// The message as a record has it, but for times that only follow from when it is decided.
    pub fn as_sent(&self) -> Sent<'_> {
        let time = |when: Option<When>| match when? {
            When::At(time) => Some(time),
            When::After(_) => None,
        };
        Sent {
            id: self.id.as_deref(),
            ordering_key: self.ordering_key.as_deref(),
            priority: self.priority,
            visible_at: time(self.visible_at),
            expires_at: time(self.expires_at),
            via: self.via.as_deref().and_then(Via::parse),
            origin_id: self.origin_id.as_deref(),
            attributes: &self.attributes,
            body: &self.body,
        }
    }
}

impl Sent<'_> {
    /// The message of a record, with memory of its own.
    pub fn to_message(self) -> Message {
        Message {
            id: self.id.map(Into::into),
            ordering_key: self.ordering_key.map(Into::into),
            priority: self.priority,
            visible_at: self.visible_at.map(When::At),
            expires_at: self.expires_at.map(When::At),
            via: self.via.map(|via| via.to_string().into()),
            origin_id: self.origin_id.map(Into::into),
            attributes: self.attributes.into(),
            body: self.body.into(),
        }
    }

    /// Bytes of id, ordering key, way, attributes and body.
    pub fn bytes(&self) -> usize {
        let texts = [self.id, self.ordering_key, self.origin_id].into_iter().flatten().map(str::len).sum::<usize>();
        texts + self.via.map_or(0, |via| via.bytes()) + self.attributes.len() + self.body.len()
    }
}
